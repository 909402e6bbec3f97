"""AUROC averaged over outlier sets or re-evaluations, in the form for comparisons over runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from oodometer.errors import UserError
from oodometer.metrics.counts import Floats
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


def average_over_detectors(detectors: Sequence[Placements]) -> Placements:
    """Placements whose AUROC is the mean over detectors that scored the same samples."""
    return replace(
        detectors[0],
        id=np.mean([part.id for part in detectors], axis=0),
        ood=np.mean([part.ood for part in detectors], axis=0),
    )


def weighted_runs(placed: Placements, weights: Floats) -> Placements:
    """Placements whose plain mean of AUROC over the runs, with its variance, is the weighted one.

    Of a run with the share w of all weights, x becomes m + n w (x - m), with n runs and the
    weighted mean m, as in `weighting.weighted_values`.
    """
    shares = weights / weights.sum()
    middle = float(shares @ placed.values)
    runs = shares.size
    return replace(
        placed,
        id=middle + runs * np.repeat(shares, placed.id_sizes) * (placed.id - middle),
        ood=middle + runs * np.repeat(shares, placed.ood_sizes) * (placed.ood - middle),
    )


def average_re_evaluations(placed: Placements, members: Sequence[Sequence[int]]) -> Placements:
    """Placements of training runs: the mean over the re-evaluations (`members`) of each.

    A sample's placement is its mean over the re-evaluations, such as checkpoints. If these differ
    in their number of samples, the deviations of the smallest, the least certain, stand for those
    of the mean.
    """
    if all(len(own) == 1 for own in members):
        return placed
    values = placed.values
    averaged = []
    for samples, sizes in ((placed.id, placed.id_sizes), (placed.ood, placed.ood_sizes)):
        parts = np.split(samples, np.cumsum(sizes)[:-1])
        averaged.append([_mean([parts[run] for run in own], values[own]) for own in members])
    id_parts, ood_parts = averaged
    return Placements(
        id=np.concatenate(id_parts),
        ood=np.concatenate(ood_parts),
        id_sizes=np.array([part.size for part in id_parts], dtype=np.intp),
        ood_sizes=np.array([part.size for part in ood_parts], dtype=np.intp),
        shared_samples=placed.shared_samples,
    )


def _mean(parts: Sequence[Floats], values: Floats) -> Floats:
    if len({part.size for part in parts}) == 1:
        return np.asarray(np.mean(parts, axis=0))
    smallest = int(np.argmin([part.size for part in parts]))
    return np.asarray(parts[smallest] + (values.mean() - values[smallest]))
