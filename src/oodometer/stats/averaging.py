"""AUROC averaged over several outlier sets, in the form that the comparisons over runs take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oodometer.errors import UserError
from oodometer.stats.comparison import Placements


def average_over_sets(sets: Sequence[Placements]) -> Placements:
    """Placements whose AUROC is the plain mean over outlier sets against the same ID samples.

    Every set has the same weight, whatever its size. An ID sample's placement is its mean over
    the sets. An outlier's deviation from its own set's mean is weighted by N / (K n_k), K sets of
    n_k samples, N in all: the variance of the mean then is that of a stratified sample, sum of
    the sets' variances / K^2.
    """
    if not sets:
        raise UserError("sets is empty: at least one outlier set is needed.")
    first = sets[0]
    if any(not np.array_equal(other.id_sizes, first.id_sizes) for other in sets):
        raise UserError("The outlier sets were not compared with the same ID samples.")
    values = np.mean([part.values for part in sets], axis=0)
    sizes = np.sum([part.ood_sizes for part in sets], axis=0)
    split = [np.split(part.ood, np.cumsum(part.ood_sizes)[:-1]) for part in sets]
    ood = [
        value + (placed[run] - part.values[run]) * sizes[run] / (len(sets) * part.ood_sizes[run])
        for run, value in enumerate(values)
        for part, placed in zip(sets, split, strict=True)
    ]
    return Placements(
        id=np.mean([part.id for part in sets], axis=0),
        ood=np.concatenate(ood),
        id_sizes=first.id_sizes,
        ood_sizes=sizes,
        shared_samples=first.shared_samples,
    )
