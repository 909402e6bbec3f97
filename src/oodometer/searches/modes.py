"""How many distinct weaknesses a search has found: groups of points that lie apart."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial.distance import pdist, squareform

Points = NDArray[np.floating]

MOST_DIMENSIONS = 16  # of parameters that mean something; pixels, or codes of a GAN, have more
_MOST_POINTS = 300  # that are compared with one another: the first
_DRAWS = 20  # of points that are spread evenly
_SMALLEST = 0.05  # share of the points that a group has at least, and 3 points


def failure_modes(points: Points) -> int:
    """Count the groups of points (n, dimensions) in the unit box that lie apart from one another.

    Two points are of one group if steps from point to point lead from one to the other, none of
    them longer than the longest step that is needed between as many points spread evenly over the
    box (the longest edge of their minimum spanning tree, the largest of 20 draws). So evenly
    spread points are one group, and groups are counted only where a gap between them is wider than
    chance leaves. Groups of fewer than 3 points, or of less than 5%, are not counted.

    >>> failure_modes(np.zeros((0, 2))), failure_modes(np.full((5, 2), 0.5))
    (0, 1)
    """
    some = np.asarray(points, dtype=np.float64)[:_MOST_POINTS]
    if len(some) < 3:
        return 0
    distances = squareform(pdist(some))
    near = distances <= _longest_step(*some.shape)
    _, groups = connected_components(near, directed=False)
    return int((np.bincount(groups) >= max(3, _SMALLEST * len(some))).sum())


@cache
def _longest_step(count: int, dimensions: int) -> float:
    """The longest edge of a minimum spanning tree of evenly spread points."""
    random = np.random.default_rng([count, dimensions])
    return max(
        float(minimum_spanning_tree(squareform(pdist(drawn))).data.max())
        for drawn in random.random((_DRAWS, count, dimensions))
    )
