"""Detectors that hear several networks: thinned by dropout, or trained several times.

The probes hold logarithms, so that samples of which all networks are sure do not tie.
"""

from __future__ import annotations

from types import MappingProxyType

from oodometer.detectors._arrays import precise
from oodometer.detectors.perturbation import place_of
from oodometer.grids import DROPOUT_SAMPLES as SAMPLES
from oodometer.outputs import View
from oodometer.registry import Scorer, detector

# The columns of the probes.
_ENTROPY, _INFORMATION, _DOUBT, _VARIANCE = range(4)
_MEASURES = MappingProxyType({"entropy": _ENTROPY, "max_softmax": _DOUBT, "variance": _VARIANCE})


@detector(
    paper="Gal & Ghahramani 2016, arXiv:1506.02142",
    needs={"probe:mc_dropout"},
    grid={"samples": SAMPLES, "measure": ("entropy", "max_softmax", "variance")},
)
def mc_dropout(train: View, *, samples: int = 30, measure: str = "entropy") -> Scorer:
    """Logarithm of the entropy of the mean softmax over dropout samples.

    log H(mean_s p_s), p_s the softmax of the s-th of `samples` networks with dropout enabled, in
    layers or calls of torch.nn.functional.dropout. Each dropout mask is used for all samples.
    The default is 30 networks; samples=7 is that of OD-test (Shafaei et al. 2019).
    measure="max_softmax" is log(1 - max_c of the mean softmax), "variance" the logarithm of the
    mean over classes of the variance of p_sc (Kendall et al. 2015, arXiv:1511.02680): the modes
    "mean" and "var" of pytorch-ood.
    """
    row = place_of("mc_dropout", "samples", samples, SAMPLES)
    column = _MEASURES[measure]
    return lambda test: precise(test.probe("mc_dropout")[:, row, column])


@detector(
    paper="Houlsby et al. 2011, arXiv:1112.5745; Gal et al. 2017, arXiv:1703.02910",
    needs={"probe:mc_dropout"},
    grid={"samples": SAMPLES},
)
def mutual_information(train: View, *, samples: int = 30) -> Scorer:
    """Logarithm of the mutual information between class and network, over dropout samples.

    log(H(mean_s p_s) - mean_s H(p_s)) = log mean_s KL(p_s || mean): high if networks with dropout
    disagree, not if all of them are equally uncertain. Computed as a sum of nonnegative terms,
    because the difference of the entropies cancels. Perfect agreement: -1e6.
    """
    row = place_of("mutual_information", "samples", samples, SAMPLES)
    return lambda test: precise(test.probe("mc_dropout")[:, row, _INFORMATION])


@detector(
    paper="Lakshminarayanan et al. 2017, arXiv:1612.01474",
    needs={"runs:ensemble"},
    grid={"measure": ("entropy", "disagreement")},
)
def deep_ensemble(train: View, *, measure: str = "entropy") -> Scorer:
    """Log entropy of the mean softmax of several training runs, or of their disagreement.

    log H(mean_s p_s), or log mean_s KL(p_s || mean_s p_s), p_s the softmax of run s. In a study
    these are the runs that differ only in the seed, in `evaluate` all --weights. Every run gets the
    scores of the ensemble, so the confidence interval covers new samples, not retraining.
    """
    column = _ENTROPY if measure == "entropy" else _INFORMATION
    return lambda test: precise(test.runs("ensemble")[:, column])
