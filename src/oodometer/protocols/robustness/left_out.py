"""What becomes of the moments of a robustness score if one unit is left out: a run, or a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oodometer.metrics.counts import Floats
from oodometer.protocols.robustness.runs import Parts
from oodometer.stats.mixture import Epsilon, Moments, mixture, mixtures_without_each

FEWEST = 3  # runs of a cell, or parts of a mixture, that can show how far a score carries


class LeftOut(NamedTuple):
    """Units, the moments without each of them, and how many units there are in each stratum."""

    units: tuple[tuple[str, ...], ...]
    moments: Moments
    strata: NDArray[np.intp]


NOTHING = LeftOut((), Moments(np.empty(0), np.empty(0)), np.empty(0, dtype=np.intp))


def leaving_levels_out(parts: Parts, name: str, epsilon: Epsilon) -> LeftOut:
    """Leave out the levels of a repeat that runs share, of all parts at once.

    Parts that share no level are strata of their own. Where one has two levels, nothing is known:
    parts are no sample then, because all of them may be moved by the same levels.
    """
    own = [runs.units for runs in parts.runs]
    levels = sorted(set().union(*own))
    if min(map(len, own)) < FEWEST:
        return NOTHING
    if len(own) > 1 and len(levels) == sum(map(len, own)):
        return leaving_out(parts, "", epsilon)
    kept = [[runs.without(level).moments for runs in parts.runs] for level in levels]
    means, variances = (np.array([[m[place] for m in row] for row in kept]) for place in (0, 1))
    units = tuple((name, level) for level in levels)
    return LeftOut(units, mixture(means, variances, epsilon), np.array([len(levels)]))


def leaving_out(parts: Parts, shared: str, epsilon: Epsilon) -> LeftOut:
    """Leave out each unit: a run where every part has three, else a part, if there are three.

    Two runs would leave no variance, and intervals that cover 75% to 90% only.
    """
    labels = [runs.units for runs in parts.runs]
    together = all(names == labels[0] for names in labels)
    size = len(parts.units)
    if min(map(len, labels), default=1) >= FEWEST and (together or not shared):
        # Runs that all parts share are left out of all at once, others of one part at a time.
        groups = [list(range(size))] if shared else [[part] for part in range(size)]
        strata = np.array([len(labels[group[0]]) for group in groups])
        kept = Moments(*(np.tile(moment, (strata.sum(), 1)) for moment in parts.moments))
        first = 0
        for group, own in zip(groups, strata, strict=True):
            for part in group:
                without = parts.runs[part].moments_without_each
                kept.mean[first : first + own, part] = without.mean
                kept.variance[first : first + own, part] = without.variance
            first += own
        names = ((shared or parts.units[g[0]][0], label) for g in groups for label in labels[g[0]])
        return LeftOut(tuple(names), mixture(*kept, epsilon), strata)
    if size < FEWEST:
        return NOTHING
    return LeftOut(parts.units, mixtures_without_each(*parts.moments, epsilon), np.array([size]))


def leaving_out_of_sets(by_set: Sequence[Sequence[tuple[Moments, LeftOut]]]) -> LeftOut:
    """Leave out each unit of all data sets that have it at once; data sets weigh the same.

    `by_set` holds the moments of each outlier set of each data set, and those without each unit.
    """
    every = [left_out for own in by_set for _, left_out in own]
    if not all(left_out.units for left_out in every):
        return NOTHING
    units = tuple(dict.fromkeys(unit for left_out in every for unit in left_out.units))
    kept = [np.mean([_of_units(units, *one) for one in own], axis=0) for own in by_set]
    strata = every[0].strata
    if units != every[0].units:  # units of one set only are strata of their own
        apart = len(units) == sum(len(left_out.units) for left_out in every)
        strata = np.concatenate([one.strata for one in every]) if apart else np.array([len(units)])
    return LeftOut(units, Moments(*np.mean(kept, axis=0)), strata)


def _of_units(
    units: Sequence[tuple[str, ...]], moments: Moments, left_out: LeftOut
) -> NDArray[np.float64]:
    """(mean and variance, units): without each unit, as they are where it is not among them."""
    places = {unit: place for place, unit in enumerate(left_out.units)}
    found = np.tile(np.array(moments, dtype=np.float64)[:, None], len(units))
    for number, unit in enumerate(units):
        if unit in places:
            found[:, number] = [moment[places[unit]] for moment in left_out.moments]
    return found


def deviations(parts: Parts, left_out: LeftOut) -> Floats:
    """How far each unit lies from the median of all values, as a mean over the parts it is in."""
    if not left_out.units:
        return np.empty(0)
    values = [own.by_unit.values for own in parts.runs] or [parts.moments.mean]
    middle = float(np.median(np.concatenate(values)))
    apart = [np.abs(own - middle) for own in values]
    if left_out.units == parts.units:  # parts themselves were left out
        return np.array([own.mean() for own in apart]) if parts.runs else apart[0]
    found: dict[tuple[str, ...], list[float]] = {}
    together = left_out.units[0][0] if len(left_out.strata) == 1 else ""
    for unit, runs, own in zip(parts.units, parts.runs, apart, strict=True):
        name = together or unit[0]
        for label, value in zip(runs.units, own.tolist(), strict=True):
            found.setdefault((name, label), []).append(value)
    return np.array([np.mean(found[unit]) for unit in left_out.units])
