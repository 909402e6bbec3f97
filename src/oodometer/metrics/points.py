"""Metrics of detection as functions of counts, and of plain scores.

OOD is the positive class of AUROC and AUPR-out, ID that of AUPR-in and of every "TPR": the share
of ID samples accepted. A sample is accepted if its score is at most the threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from oodometer.errors import UserError, unknown
from oodometer.metrics.counts import NONE, Counts, Floats

Ties = Literal["half", "pessimistic"]
ErrorAt = Literal["tpr95", "min"]
TIE_WEIGHTS = {"half": 0.5, "pessimistic": 0.0}


def counts_auroc(counts: Counts, ties: Ties = "half") -> Floats:
    """AUROC of each row of counts."""
    if ties not in TIE_WEIGHTS:
        raise unknown("rule for ties", ties, TIE_WEIGHTS)
    below = counts.id_up_to - (1.0 - TIE_WEIGHTS[ties]) * counts.id
    pairs = float(counts.id_total) * counts.ood_total
    return np.asarray(np.vecdot(counts.ood, below) / pairs)


def counts_aupr_in(counts: Counts) -> Floats:
    """Average precision of each row of counts, ID positive."""
    precision = counts.id_up_to / counts.up_to
    return np.asarray(np.vecdot(counts.id, precision) / counts.id_total)


def counts_aupr_out(counts: Counts) -> Floats:
    """Average precision of each row of counts, OOD positive."""
    positives = counts.ood - counts.ood_up_to
    positives += counts.ood_total
    predicted = counts.id - counts.id_up_to
    predicted += positives
    predicted += counts.id_total
    # Above the highest resampled score nothing is predicted positive, and nothing is added.
    np.maximum(predicted, NONE, out=predicted)
    positives /= predicted
    return np.asarray(np.vecdot(counts.ood, positives) / counts.ood_total)


def _accepted_at_tpr(counts: Counts, tpr: float) -> tuple[Floats, Floats]:
    """Shares of ID and of OOD accepted at the first threshold that accepts `tpr` of ID."""
    if not 0.0 < tpr <= 1.0:
        raise UserError(f"tpr must be above 0 and at most 1, got {tpr}.")
    # A hair less than needed: 0.07 * 100 exceeds 7 in floats, yet 7 of 100 are enough.
    needed = tpr * counts.id_total * (1.0 - 1e-12)
    index = np.count_nonzero(counts.id_up_to < needed, axis=-1, keepdims=True)
    id_accepted = np.take_along_axis(counts.id_up_to, index, axis=-1)[..., 0]
    ood_accepted = np.take_along_axis(counts.ood_up_to, index, axis=-1)[..., 0]
    return id_accepted / counts.id_total, ood_accepted / counts.ood_total


def counts_fpr_at_tpr(counts: Counts, tpr: float = 0.95) -> Floats:
    """False positive rate of each row of counts."""
    return _accepted_at_tpr(counts, tpr)[1]


def counts_detection_error(counts: Counts, at: ErrorAt = "tpr95") -> Floats:
    """Detection error of each row of counts."""
    if at == "tpr95":
        id_accepted, ood_accepted = _accepted_at_tpr(counts, 0.95)
        return np.asarray(0.5 * (1.0 - id_accepted) + 0.5 * ood_accepted)
    if at == "min":
        gain = counts.id_up_to / counts.id_total
        gain -= counts.ood_up_to / counts.ood_total
        # The threshold above all scores is among them, so the gain is at least 0: error <= 1/2.
        return np.asarray(0.5 - 0.5 * np.max(gain, axis=-1))
    raise unknown("threshold rule", at, ("tpr95", "min"))


def auroc(id_scores: ArrayLike, ood_scores: ArrayLike, *, ties: Ties = "half") -> float:
    """Area under the ROC curve: the chance that an OOD sample scores above an ID sample.

    P(ood > id) + P(ood = id) / 2 over all pairs; with ``ties="pessimistic"`` equal scores count
    as errors, P(ood > id), as in code that follows Lee et al. 2018, arXiv:1807.03888.

    >>> auroc([1, 2, 3], [3, 4])
    0.9166666666666666
    """
    return float(counts_auroc(Counts.of_scores(id_scores, ood_scores), ties))


def aupr_in(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Average precision with ID as the positive class, found by low scores.

    Sum over thresholds of (recall gained) * precision, without interpolation; equal scores are
    one threshold. Hendrycks & Gimpel 2017, arXiv:1610.02136.
    """
    return float(counts_aupr_in(Counts.of_scores(id_scores, ood_scores)))


def aupr_out(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Average precision with OOD as the positive class, found by high scores.

    Sum over thresholds of (recall gained) * precision, without interpolation; equal scores are
    one threshold. Hendrycks & Gimpel 2017, arXiv:1610.02136.
    """
    return float(counts_aupr_out(Counts.of_scores(id_scores, ood_scores)))


def fpr_at_tpr(id_scores: ArrayLike, ood_scores: ArrayLike, *, tpr: float = 0.95) -> float:
    """Share of OOD samples accepted when the share `tpr` of ID samples is accepted.

    share(ood <= t) at the smallest score t with share(id <= t) >= tpr. Liang et al. 2018,
    arXiv:1706.02690.
    """
    return float(counts_fpr_at_tpr(Counts.of_scores(id_scores, ood_scores), tpr))


def tnr_at_tpr(id_scores: ArrayLike, ood_scores: ArrayLike, *, tpr: float = 0.95) -> float:
    """Share of OOD samples rejected when the share `tpr` of ID samples is accepted.

    1 - `fpr_at_tpr`. Lee et al. 2018, arXiv:1807.03888.
    """
    return 1.0 - fpr_at_tpr(id_scores, ood_scores, tpr=tpr)


def detection_error(id_scores: ArrayLike, ood_scores: ArrayLike, *, at: ErrorAt = "tpr95") -> float:
    """Chance of a wrong decision if ID and OOD are equally likely: (1 - TPR) / 2 + FPR / 2.

    Taken at the threshold of `fpr_at_tpr`, or with ``at="min"`` at the best threshold, among them
    "accept none" and "accept all". Papers mean either one; Liang et al. 2018, arXiv:1706.02690.
    """
    return float(counts_detection_error(Counts.of_scores(id_scores, ood_scores), at))


def detection_accuracy(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Highest balanced accuracy of any threshold: max (TPR + 1 - FPR) / 2.

    1 - ``detection_error(at="min")``. Lee et al. 2018, arXiv:1807.03888.
    """
    return 1.0 - detection_error(id_scores, ood_scores, at="min")


def detection_error_min(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """``detection_error(at="min")``, under the name it has in tables."""
    return detection_error(id_scores, ood_scores, at="min")


@dataclass(frozen=True)
class Metric:
    """What a reader of a table needs to know about a metric, and how to compute it."""

    name: str
    label: str
    higher_is_better: bool
    function: Callable[[ArrayLike, ArrayLike], float]
    of_counts: Callable[[Counts], Floats]


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("auroc", "AUROC", True, auroc, counts_auroc),
            Metric("aupr_in", "AUPR-in", True, aupr_in, counts_aupr_in),
            Metric("aupr_out", "AUPR-out", True, aupr_out, counts_aupr_out),
            Metric("fpr95", "FPR@95TPR", False, fpr_at_tpr, counts_fpr_at_tpr),
            Metric(
                "tnr95",
                "TNR@95TPR",
                True,
                tnr_at_tpr,
                lambda counts: np.asarray(1.0 - counts_fpr_at_tpr(counts)),
            ),
            Metric(
                "detection_error",
                "Detection error@95TPR",
                False,
                detection_error,
                counts_detection_error,
            ),
            Metric(
                "detection_error_min",
                "Detection error (min)",
                False,
                detection_error_min,
                lambda counts: counts_detection_error(counts, "min"),
            ),
            Metric(
                "detection_accuracy",
                "Detection accuracy",
                True,
                detection_accuracy,
                lambda counts: np.asarray(1.0 - counts_detection_error(counts, "min")),
            ),
        )
    }
)
