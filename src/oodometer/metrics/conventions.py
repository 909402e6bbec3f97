"""The same metrics as other codes define them, to reproduce their tables; each under its own name.

None of them is shown unless it is asked for by name: `METRICS` holds what reports show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from oodometer.metrics.counts import Counts, Floats
from oodometer.metrics.points import METRICS, Metric, counts_auroc

SHARE = 0.95  # of the positive class that is accepted, or found


def counts_fpr_ood_positive(counts: Counts) -> Floats:
    """Share of ID samples flagged when 95% of the OOD samples are, as in OpenOOD.

    share(id >= t) at the largest score t with share(ood >= t) >= 0.95. Yang et al. 2022,
    arXiv:2210.07242.
    """
    flagged = counts.ood_total - counts.ood_up_to + counts.ood
    enough = flagged >= SHARE * counts.ood_total * (1.0 - 1e-12)
    place = np.count_nonzero(enough, axis=-1, keepdims=True) - 1
    id_flagged = counts.id_total - counts.id_up_to + counts.id
    return np.asarray(np.take_along_axis(id_flagged, place, axis=-1)[..., 0] / counts.id_total)


def counts_tnr_at_closest_tpr(counts: Counts) -> Floats:
    """Share of OOD samples above the last ID sample that is rejected, the TPR closest to 95%.

    ID samples are rejected one by one, from the highest score; of two equally close TPRs the
    higher counts, and OOD samples with the score of that ID sample are accepted. Code that follows
    Lee et al. 2018, arXiv:1807.03888.
    """
    accepted = np.arange(counts.id_total, -1, -1)
    kept = int(accepted[np.argmin(np.abs(accepted / counts.id_total - SHARE))])
    if kept == counts.id_total:
        return np.zeros(counts.id.shape[:-1])
    place = np.count_nonzero(counts.id_up_to < kept + 1, axis=-1, keepdims=True)
    passed = np.take_along_axis(counts.ood_up_to, place, axis=-1)[..., 0]
    return np.asarray(1.0 - passed / counts.ood_total)


def counts_aupr_in_trapezoidal(counts: Counts) -> Floats:
    """Area under the line through the points (recall, precision), ID positive, from (0, 1)."""
    return _trapezoidal(counts.id_up_to, counts.ood_up_to, counts.id_total)


def counts_aupr_out_trapezoidal(counts: Counts) -> Floats:
    """Area under the line through the points (recall, precision), OOD positive, from (0, 1)."""
    found = (counts.ood_total - counts.ood_up_to + counts.ood)[..., ::-1]
    wrong = (counts.id_total - counts.id_up_to + counts.id)[..., ::-1]
    return _trapezoidal(found, wrong, counts.ood_total)


def _trapezoidal(found: Floats, wrong: Floats, total: int) -> Floats:
    """Linear interpolation: optimistic, see Davis & Goadrich 2006, doi:10.1145/1143844.1143874.

    Where nothing is found nor wrong yet, as in resamples, precision is 1.
    """
    predicted = found + wrong
    precision = np.divide(found, predicted, out=np.ones_like(found), where=predicted > 0.0)
    first = np.ones((*found.shape[:-1], 1))
    precision = np.concatenate([first, precision], axis=-1)
    recall = np.concatenate([0.0 * first, found / total], axis=-1)
    steps = np.diff(recall, axis=-1)
    return np.asarray(np.vecdot(steps, 0.5 * (precision[..., 1:] + precision[..., :-1])))


def _of_scores(of_counts: Callable[[Counts], Floats]) -> Callable[[ArrayLike, ArrayLike], float]:
    def metric(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
        return float(of_counts(Counts.of_scores(id_scores, ood_scores)))

    return metric


def _convention(
    name: str, label: str, of_counts: Callable[[Counts], Floats], *, higher_is_better: bool = True
) -> Metric:
    return Metric(name, label, higher_is_better, _of_scores(of_counts), of_counts)


CONVENTIONS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            _convention(
                "auroc_pessimistic",
                "AUROC (ties are errors)",
                lambda counts: counts_auroc(counts, "pessimistic"),
            ),
            _convention(
                "fpr95_ood_positive",
                "FPR@95TPR (OOD positive)",
                counts_fpr_ood_positive,
                higher_is_better=False,
            ),
            _convention(
                "tnr95_closest", "TNR at the TPR closest to 95%", counts_tnr_at_closest_tpr
            ),
            _convention("aupr_in_trapezoidal", "AUPR-in (trapezoidal)", counts_aupr_in_trapezoidal),
            _convention(
                "aupr_out_trapezoidal", "AUPR-out (trapezoidal)", counts_aupr_out_trapezoidal
            ),
        )
    }
)
BY_NAME: Mapping[str, Metric] = MappingProxyType({**METRICS, **CONVENTIONS})
