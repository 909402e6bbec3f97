"""Detectors that hear several networks: thinned by dropout, or trained several times.

The probes hold logarithms, so that samples of which all networks are sure do not tie.
"""

from __future__ import annotations

from oodometer.detectors._arrays import precise
from oodometer.detectors.perturbation import place_of
from oodometer.outputs import View
from oodometer.registry import Scorer, detector

SAMPLES = (7, 15, 30)
_ENTROPY, _INFORMATION = 0, 1  # the columns of the probes


@detector(
    paper="Gal & Ghahramani 2016, arXiv:1506.02142",
    needs={"probe:mc_dropout"},
    grid={"samples": SAMPLES},
)
def mc_dropout(train: View, *, samples: int = 30) -> Scorer:
    """Logarithm of the entropy of the mean softmax over networks thinned by dropout.

    log H(mean_s p_s), p_s the softmax of the s-th of `samples` networks with dropout on, be it a
    layer or a call of torch.nn.functional.dropout. Each thinned network answers for all samples. 7
    is what OD-test took (Shafaei et al. 2019).
    """
    row = place_of("mc_dropout", "samples", samples, SAMPLES)
    return lambda test: precise(test.probe("mc_dropout")[:, row, _ENTROPY])


@detector(
    paper="Houlsby et al. 2011, arXiv:1112.5745; Gal et al. 2017, arXiv:1703.02910",
    needs={"probe:mc_dropout"},
    grid={"samples": SAMPLES},
)
def mutual_information(train: View, *, samples: int = 30) -> Scorer:
    """Logarithm of the mutual information between class and network, over thinned networks.

    log(H(mean_s p_s) - mean_s H(p_s)) = log mean_s KL(p_s || mean): high where networks thinned by
    dropout disagree, not where all of them are unsure alike. Computed as a sum of terms that are
    never negative: the difference of the entropies cancels. All of one mind: -1e6.
    """
    row = place_of("mutual_information", "samples", samples, SAMPLES)
    return lambda test: precise(test.probe("mc_dropout")[:, row, _INFORMATION])


@detector(
    paper="Lakshminarayanan et al. 2017, arXiv:1612.01474",
    needs={"runs:ensemble"},
    grid={"measure": ("entropy", "disagreement")},
)
def deep_ensemble(train: View, *, measure: str = "entropy") -> Scorer:
    """Logarithm of the entropy of the mean softmax of several trainings, or of how they disagree.

    log H(mean_s p_s), or log mean_s KL(p_s || mean_s p_s), p_s the softmax of the s-th training. In
    a study these are the runs that differ in the seed only, in `evaluate` all --weights. Every one
    of them gets the scores of the whole: its interval is about other samples, not trainings.
    """
    column = _ENTROPY if measure == "entropy" else _INFORMATION
    return lambda test: precise(test.runs("ensemble")[:, column])
