"""Almost stochastic order: is one method better than another over nearly all of its runs?

If A's quantiles all lie above B's, A is better whatever one values. Real distributions cross, so
the order is asked for up to a share: of the squared distance between the two quantile functions,
how much lies where B is above A? Del Barrio, Cuesta-Albertos & Matrán 2018,
doi:10.1007/978-3-319-73848-2_11; Dror, Shlomov & Reichart 2019, doi:10.18653/v1/P19-1266.
Values are such that higher is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from oodometer.errors import UserError
from oodometer.metrics.counts import Floats, check_count, finite_scores
from oodometer.metrics.delong import check_level
from oodometer.stats.values import check_generator

STEPS = 200  # quantiles are compared at 1/200, 2/200, ..., 199/200
THRESHOLD = 0.2  # say "better" below it: see `aso` for what that costs and gains
CHUNK = 1 << 21  # numbers drawn at once

Indices = NDArray[np.intp]
Number = TypeVar("Number", bound=np.generic)


class OrderMatrix(NamedTuple):
    """Almost stochastic order of every pair: row against column, small if the row is better."""

    violation: Floats  # (methods, methods): the point estimate; 1/2 on the diagonal
    minimum: Floats  # its upper confidence bound, `aso`; 1 on the diagonal
    level: float
    comparisons: int  # for how many the bound allows


class _Grid(NamedTuple):
    """Which order statistics of both samples meet, and at how many points of the grid."""

    a: Indices
    b: Indices
    points: Floats

    @staticmethod
    def of(a_size: int, b_size: int) -> _Grid:
        """The quantile at t of n values is the one in place ceil(n t), in exact arithmetic."""
        steps = np.arange(1, STEPS)
        return _Grid._merged(-(-a_size * steps // STEPS), -(-b_size * steps // STEPS))

    @staticmethod
    def _merged(a: Indices, b: Indices) -> _Grid:
        new = np.flatnonzero(np.diff(a, prepend=0) + np.diff(b, prepend=0))
        points = np.diff(new, append=a.size).astype(np.float64)
        return _Grid(a[new] - 1, b[new] - 1, points)

    def ratio(self, a: Floats, b: Floats) -> Floats:
        """Violation ratio of sorted samples along the last axis; leading axes are resamples."""
        distance = b[..., self.b] - a[..., self.a]
        squared = distance * distance
        total = np.asarray(squared @ self.points)
        squared[distance <= 0.0] = 0.0
        share = np.full(total.shape, 0.5)
        np.divide(squared @ self.points, total, out=share, where=total > 0.0)
        return share


def aso(
    a: ArrayLike,
    b: ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    comparisons: int = 1,
    resamples: int = 1000,
) -> float:
    """Upper confidence bound of the violation ratio: small if a is almost surely better than b.

    min(1, e - s z), where e is the violation ratio, s its standard deviation under resampling both
    samples, and z the normal quantile of (1 - level) / comparisons. With the quantile functions F
    and G of a and b, e = sum over t of max(G(t) - F(t), 0)^2 / sum over t of (G(t) - F(t))^2: 0 if
    a is better throughout, 1 if b is, 1/2 if they are equal.

    Papers call a better if the bound is below 1/2. Of equal distributions that is wrong far more
    often than the level says, because their ratio never becomes normal: in simulation (level 0.95,
    normal values) in 20% of cases with 5 runs each and 17% with 100. Below `THRESHOLD`, 0.2, it
    is wrong in 6% with 5 runs, 4% with 10 and 2% with 100. With 2 runs each no threshold helps:
    one pair in six is in perfect order by chance. More comparisons are stricter, but 20 of them
    leave 2% each with 10 runs, not the twentieth part: to test a family, take
    `paired.sign_flip_test` and `comparison.holm`.
    """
    matrix = aso_matrix(
        [a, b],
        rng=rng,
        level=level,
        comparisons=comparisons,
        resamples=resamples,
    )
    return float(matrix.minimum[0, 1])


def aso_matrix(
    samples: Sequence[ArrayLike],
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    comparisons: int | None = None,
    resamples: int = 1000,
) -> OrderMatrix:
    """`aso` of every pair of methods, each given by one value per run.

    Without `comparisons`, all are allowed for: each of M methods may turn out better than each
    other, M (M - 1). A method is resampled once for all its pairs, and the spread of a pair is the
    same in both directions.
    """
    check_generator(rng)
    if not hasattr(samples, "__len__") or len(samples) < 2:
        raise UserError(f"samples must hold at least two methods, got {samples!r}.")
    check_count(resamples, "resamples", 2)
    methods = len(samples)
    if comparisons is None:
        comparisons = methods * (methods - 1)
    reach = _reach(level, comparisons)
    names = ["a", "b"] if methods == 2 else [f"samples[{row}]" for row in range(methods)]
    values = _sorted(samples, names)
    drawn = [_resampled(vector, resamples, rng) for vector in values]
    values = [_thinned(vector) for vector in values]
    violation, minimum = np.full((methods, methods), 0.5), np.ones((methods, methods))
    grids: dict[tuple[int, int], _Grid] = {}
    for row in range(methods):
        for column in range(row + 1, methods):
            sizes = values[row].size, values[column].size
            grid = grids.setdefault(sizes, _Grid.of(*sizes))
            ratio = float(grid.ratio(values[row], values[column]))
            spread = float(grid.ratio(drawn[row], drawn[column]).std())
            violation[row, column], violation[column, row] = ratio, 1.0 - ratio
            minimum[row, column] = _bound(ratio, spread, reach)
            minimum[column, row] = _bound(1.0 - ratio, spread, reach)
    return OrderMatrix(violation, minimum, level, comparisons)


def published_aso_matrix(
    samples: Sequence[ArrayLike], *, seed: int, level: float = 0.95, resamples: int = 1000
) -> OrderMatrix:
    """`aso_matrix` as deepsig 1.2.8 computes it, to replay published tables to the digit.

    It differs from ours in four ways. The violation ratio leaves out the first point of the grid.
    Each pair i < j draws its resamples from the same seeds, seed + 1, seed + 2, ...; the lower
    triangle is 1 - e of that pair with the same deviation. The level becomes level + (1 - level) /
    comparisons, which is stricter the *fewer* there are: with two methods no bound is below 1.
    """
    names = [f"samples[{row}]" for row in range(len(samples))]
    values = [
        np.sort(finite_scores(sample, name)) for sample, name in zip(samples, names, strict=True)
    ]
    methods = len(values)
    pairs = methods * (methods - 1) // 2
    check_level(level)
    reach = -float(ndtri(1.0 - (level + (1.0 - level) / pairs)))
    violation, minimum = np.full((methods, methods), 0.5), np.ones((methods, methods))
    for row in range(methods):
        for column in range(row + 1, methods):
            a, b = values[row], values[column]
            ratio = _published_ratio(a, b)
            drawn = [
                _published_ratio(*_published_draw(a, b, seed + number))
                for number in range(1, resamples + 1)
            ]
            spread = float(np.std(np.array(drawn) - ratio))
            for place, share in (((row, column), ratio), ((column, row), 1.0 - ratio)):
                violation[place] = share
                minimum[place] = _bound(share, spread, reach)
    return OrderMatrix(violation, minimum, level, pairs)


def _published_draw(a: Floats, b: Floats, seed: int) -> tuple[Floats, Floats]:
    """Resample both by their quantile functions, first a, then b."""
    legacy = np.random.RandomState(seed)
    drawn = [
        np.sort(ordered[np.ceil(ordered.size * legacy.uniform(size=ordered.size)).astype(int) - 1])
        for ordered in (a, b)
    ]
    return drawn[0], drawn[1]


def _published_ratio(a: Floats, b: Floats) -> float:
    """The violation ratio of sorted samples without the first point of the grid."""
    steps = np.arange(1, STEPS)
    distance = b[-(-b.size * steps // STEPS) - 1] - a[-(-a.size * steps // STEPS) - 1]
    squared = distance * distance
    total = float(squared.sum())
    return float(squared[1:][distance[1:] > 0.0].sum()) / total if total > 0.0 else 0.5


def _reach(level: float, comparisons: int) -> float:
    """How many standard deviations the bound lies above the estimate."""
    check_level(level)
    check_count(comparisons, "comparisons")
    return -float(ndtri((1.0 - level) * (1.0 / comparisons)))


def _bound(ratio: float, spread: float, reach: float) -> float:
    return min(1.0, max(0.0, ratio + reach * spread)) if spread > 0.0 else ratio


def _sorted(samples: Sequence[ArrayLike], names: Sequence[str]) -> list[Floats]:
    """Sort each sample, and scale all alike, which changes no ratio but keeps squares in range."""
    vectors = []
    for sample, name in zip(samples, names, strict=True):
        vector = finite_scores(sample, name)
        if vector.size < 2:
            raise UserError(f"{name} has a single value: the order of runs needs at least two.")
        vectors.append(np.sort(vector))
    largest = max(max(abs(vector[0]), abs(vector[-1])) for vector in vectors)
    if largest == 0.0:
        return vectors
    vectors = [vector / largest for vector in vectors]
    lowest = min(vector[0] for vector in vectors)
    highest = max(vector[-1] for vector in vectors)
    width = highest - lowest
    return [(vector - lowest) / width for vector in vectors] if width > 0.0 else vectors


def _thinned(ordered: NDArray[Number]) -> NDArray[Number]:
    """What the grid sees of a large sorted sample: as many values as the grid has steps."""
    size = ordered.shape[-1]
    if size <= STEPS:
        return ordered
    return ordered[..., -(-size * np.arange(1, STEPS + 1) // STEPS) - 1]


def _resampled(ordered: Floats, number: int, rng: np.random.Generator) -> Floats:
    """Draw as many values as there are, with replacement and sorted, `number` times; thinned."""
    step = max(1, CHUNK // ordered.size)
    parts = []
    for start in range(0, number, step):
        places = rng.integers(ordered.size, size=(min(step, number - start), ordered.size))
        places.sort(axis=1)
        parts.append(ordered[_thinned(places)])
    return np.concatenate(parts)
