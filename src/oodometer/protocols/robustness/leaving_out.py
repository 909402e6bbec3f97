"""What becomes of a mixture if one of its runs, or parts, is left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oodometer.protocols.robustness.runs import Parts
from oodometer.stats.mixture import Epsilon, Moments, mixture, mixtures_without_each

FEWEST = 3  # runs of a cell, or parts of a mixture, that can show how far a score carries

# Units, the moments without each of them, and how many units there are in each stratum
LeftOut = tuple[tuple[tuple[str, ...], ...], Moments, NDArray[np.intp]]
NOTHING: LeftOut = ((), Moments(np.empty(0), np.empty(0)), np.empty(0, dtype=np.intp))


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
    return units, mixture(means, variances, epsilon), np.array([len(levels)])


def leaving_out(parts: Parts, shared: str, epsilon: Epsilon) -> LeftOut:
    """Units, the moments of the mixture without each of them, and the units in each stratum.

    A unit is a run where every part has at least three (two would leave no variance, and intervals
    that cover 75% to 90% only); otherwise a part, if there are three.
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
        return tuple(names), mixture(*kept, epsilon), strata
    if size < FEWEST:
        return NOTHING
    return parts.units, mixtures_without_each(*parts.moments, epsilon), np.array([size])
