"""Which factor explains how much of the variance?

Values on a grid of factors are split into a part per factor, per pair of factors, and the rest
(functional analysis of variance: Hoeffding 1948; Hooker 2007, doi:10.1198/106186007X237892). The
parts are orthogonal if the grid is complete, so their variances add up to that of the values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oodometer.errors import UserError, unknown
from oodometer.metrics.counts import Floats
from oodometer.metrics.delong import check_level
from oodometer.stats.share_intervals import drawn_shares
from oodometer.stats.values import check_generator, run_values

REPEATS = "repeats"  # what differs between lines with the same levels, if no factor is named
REMAINDER = "remainder"  # interactions of three factors and more
Factors = Mapping[str, Sequence[Hashable]]
Subset = tuple[int, ...]


class Effect(NamedTuple):
    """The share of the variance that one factor, or two together beyond each alone, explain.

    Without repeats there is nothing to take an interval from: its ends are None.
    """

    factors: tuple[str, ...]
    share: float
    low: float | None
    high: float | None


class VarianceShares(NamedTuple):
    """Shares of the variance, which add up to 1, and what was done to get them."""

    effects: tuple[Effect, ...]  # factors, pairs, the remainder, and last the repeats
    variance: float  # that they are shares of
    notes: tuple[str, ...]  # sentences: what was left out, what cannot be estimated

    def of(self, *factors: str) -> Effect:
        """Return the effect of a factor, or of a pair in any order."""
        for effect in self.effects:
            if sorted(effect.factors) == sorted(factors):
                return effect
        known = [" x ".join(effect.factors) for effect in self.effects]
        raise unknown("effect", " x ".join(factors), known)


class FactorRange(NamedTuple):
    """What changing one factor alone does, all others at the base."""

    factor: str
    lowest: Hashable  # level
    highest: Hashable
    low: float  # mean value at that level
    high: float
    spread: float  # standard deviation of the levels' means
    levels: int
    least: float | None = None  # ends of the interval of high - low; None without repeats
    most: float | None = None


class _Grid(NamedTuple):
    """Lines of a complete grid, sorted by cell."""

    names: list[str]
    shape: tuple[int, ...]
    values: Floats
    sizes: NDArray[np.intp]  # lines per cell, in the order of the flattened grid

    @property
    def freedom(self) -> int:
        """Degrees of freedom within cells."""
        return self.values.size - self.sizes.size

    def means(self) -> Floats:
        """Means of the cells, in the shape of the grid."""
        sums = np.add.reduceat(self.values, np.cumsum(self.sizes) - self.sizes)
        return (sums / self.sizes).reshape(self.shape)


def variance_shares(
    values: ArrayLike,
    factors: Factors,
    *,
    rng: np.random.Generator,
    replicate: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
) -> VarianceShares:
    """Share of the variance of `values` explained by each factor and each pair of factors.

    Line i has the levels factors[name][i]. Levels count equally, whatever their number of lines.
    With one line per cell the shares describe just these values. `replicate` names a factor whose
    levels are mere repeats, such as a seed: its share is all the variance within cells, its
    interactions included, and the others are freed of what repeats do to them: V - df s^2 h / C,
    cut at 0, where V is the variance of the effect over the C cells, df its degrees of freedom, s^2
    the variance within cells and h the mean of 1 / lines per cell. Then they are estimates for
    other repeats of the same levels, with intervals: shares are drawn from the confidence
    distributions of all variances (`share_intervals`). In simulation on grids from 2 x 2 x 5 to
    7 x 5 x 5, and of single factors, 95% intervals cover 93% to 97% if repeats vary normally (a
    share of 0 in 98%, as nothing lies below it), and 90% to 97% if they have heavy tails, as
    an exponential or Student's t of 5 degrees of freedom, least for a small share of the repeats: a
    few dozen values do not show how heavy a tail is. What other outlier sets would change is seen
    by computing the shares for each set, and `intervals.runs_interval`.

    A factor with one level is left out; so are levels that lack cells, if that leaves at least two
    levels of each factor and half of the lines; `notes` tell. Otherwise see `one_at_a_time`.
    """
    check_level(level)
    check_generator(rng)
    given = run_values(values, "values")
    checked = _checked(given, factors, replicate)
    notes: list[str] = []
    # Shares do not depend on origin and unit; squares of tiny numbers vanish.
    largest = float(np.abs(given).max())
    given = given - given.mean()
    unit = float(np.abs(given).max())
    equal = unit <= 1e-14 * largest  # all that rounding leaves of values that are all equal
    grid = _complete_grid(given if equal else given / unit, checked, replicate, notes)
    means = grid.means()
    effects = _decompose(means)
    raw = np.array([float((effect**2).mean()) for effect in effects.values()])
    freedoms = _freedoms(list(effects), grid.shape)
    residuals = grid.values - np.repeat(means.reshape(-1), grid.sizes)
    noise = float(residuals @ residuals) / grid.freedom if grid.freedom else 0.0
    added = float((1.0 / grid.sizes).mean()) / grid.sizes.size
    components = np.maximum(raw - freedoms * noise * added, 0.0)
    names = [tuple(grid.names[axis] for axis in subset) or (REMAINDER,) for subset in effects]
    if grid.freedom:
        names.append((replicate or REPEATS,))
        components = np.append(components, noise)
    elif len(grid.names) > 1:
        notes.append(
            "There is one value per cell, so the interaction of all factors cannot be separated "
            "from chance, and no share has an interval."
        )
    variance = float(components.sum())
    if equal or variance == 0.0:
        notes.append("All values are identical: there is no variance to explain.")
        return VarianceShares(tuple(Effect(n, 0.0, None, None) for n in names), 0.0, tuple(notes))
    shares = components / variance
    variance *= unit * unit
    if not noise:
        found = [
            Effect(name, float(share), None, None)
            for name, share in zip(names, shares, strict=True)
        ]
        return VarianceShares(tuple(found), variance, tuple(notes))
    drawn = drawn_shares(raw, freedoms, added, residuals, grid.sizes.size, rng, resamples)
    low, high = np.quantile(drawn, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    found = [
        Effect(name, float(share), float(min(share, down)), float(max(share, up)))
        for name, share, down, up in zip(names, shares, low, high, strict=True)
    ]
    return VarianceShares(tuple(found), variance, tuple(notes))


def one_at_a_time(
    values: ArrayLike,
    factors: Factors,
    *,
    base: Mapping[str, Hashable] | None = None,
    replicate: str | None = None,
    level: float = 0.95,
) -> tuple[FactorRange, ...]:
    """How far the value moves if one factor alone leaves the base, for designs without a grid.

    The base is, unless given, the most frequent level of each factor, the first of several. Lines
    that differ in `replicate` only are averaged, and its own range is that of the repeats at the
    base. These are ranges, not shares: without a grid nobody knows what factors do together. A
    factor that never changes alone is not in the answer. Where levels have repeats, the range has
    an interval for other repeats: by Tukey & Kramer's intervals for all pairs of levels at once, no
    two lie farther apart than its upper end, and some two at least as far as its lower one. In
    simulation of normal repeats it covers 95% if the levels are alike, else 95% to 99%.
    """
    check_level(level)
    given = run_values(values, "values")
    levels = _checked(given, factors, replicate)
    centre = {name: Counter(column).most_common(1)[0][0] for name, column in levels.items()}
    for name, chosen in (base or {}).items():
        if name not in levels:
            raise unknown("factor", name, levels)
        if chosen not in levels[name]:
            raise unknown(f"level of {name}", chosen, map(str, set(levels[name])))
        centre[name] = chosen
    found = []
    for name, column in levels.items():
        others = [other for other in levels if other not in (name, replicate)]
        groups: dict[Hashable, list[float]] = {}
        for line, value in enumerate(given):
            if all(levels[other][line] == centre[other] for other in others):
                groups.setdefault(column[line], []).append(float(value))
        if len(groups) < 2:
            continue
        means = {chosen: float(np.mean(group)) for chosen, group in groups.items()}
        lowest, highest = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        spread = float(np.std(list(means.values()), ddof=1))
        ends = (None, None) if name == replicate else _range_interval(list(groups.values()), level)
        low, high = means[lowest], means[highest]
        found.append(FactorRange(name, lowest, highest, low, high, spread, len(means), *ends))
    return tuple(found)


def _range_interval(
    groups: Sequence[Sequence[float]], level: float
) -> tuple[float | None, float | None]:
    """Least and largest range of the groups' true means that their values allow."""
    sizes = np.array([len(group) for group in groups], dtype=np.float64)
    freedom = int(sizes.sum()) - len(groups)
    if not freedom:
        return None, None
    means = np.array([np.mean(group) for group in groups])
    squares = sum(float(((np.array(group) - np.mean(group)) ** 2).sum()) for group in groups)
    inverse = 0.5 * (1.0 / sizes[:, None] + 1.0 / sizes)
    reach = _studentized_range(level, len(groups), freedom) * np.sqrt(squares / freedom * inverse)
    apart = np.abs(means[:, None] - means)
    return max(0.0, float((apart - reach).max())), float((apart + reach).max())


@lru_cache(maxsize=64)
def _studentized_range(level: float, groups: int, freedom: int) -> float:
    """Quantile of the largest difference of `groups` normal means; SciPy's is slow."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(level, groups, freedom))


def _checked(values: Floats, factors: Factors, replicate: str | None) -> dict[str, list[Hashable]]:
    if not hasattr(factors, "items"):
        raise UserError("factors must map each factor's name to its levels, one per value.")
    if not len(factors):
        raise UserError("factors is empty: name at least one.")
    if replicate is not None and replicate not in factors:
        raise unknown("factor to repeat over", replicate, factors)
    levels = {}
    for name, column in factors.items():
        try:
            levels[name] = list(column)
            unknown_level = any(level != level for level in set(levels[name]))
        except TypeError:
            raise UserError(f"Factor '{name}' must be a list of levels, one per value.") from None
        if unknown_level:
            raise UserError(f"Factor '{name}' has NaN among its levels: name them all.")
    for name, column in levels.items():
        if len(column) != values.size:
            raise UserError(
                f"Factor '{name}' has {len(column)} levels for {values.size} values: one per value "
                "is needed."
            )
    return levels


def _complete_grid(
    values: Floats, factors: dict[str, list[Hashable]], replicate: str | None, notes: list[str]
) -> _Grid:
    """Leave out what keeps the grid from being complete, and say so."""
    names = []
    codes = []
    labels: list[list[Hashable]] = []
    for name, column in factors.items():
        known = list(dict.fromkeys(column))
        if name == replicate:
            continue
        if len(known) < 2:
            notes.append(f"{name} has one level and explains nothing.")
            continue
        place = {level: number for number, level in enumerate(known)}
        names.append(name)
        labels.append(known)
        codes.append([place[level] for level in column])
    if not names:
        besides = f" besides {replicate}" if replicate else ""
        raise UserError(f"No factor{besides} has two levels: there is nothing to explain.")
    places = np.array(codes)
    counts = np.zeros([len(known) for known in labels], dtype=np.intp)
    np.add.at(counts, tuple(places), 1)
    kept = _kept_levels(counts)
    inside = np.all([np.isin(places[axis], chosen) for axis, chosen in enumerate(kept)], axis=0)
    missing = int((counts == 0).sum())
    if missing:
        if any(len(chosen) < 2 for chosen in kept) or 2 * int(inside.sum()) < values.size:
            raise UserError(
                f"{missing} of {counts.size} cells of the grid {' x '.join(names)} are missing, "
                "too many to find a complete part: see one_at_a_time."
            )
        left_out = [
            f"{name} {known[number]}"
            for name, known, chosen in zip(names, labels, kept, strict=True)
            for number in range(len(known))
            if number not in chosen
        ]
        notes.append(
            f"{missing} of {counts.size} cells are missing; without {', '.join(left_out)} the grid "
            f"is complete, which leaves {int(inside.sum())} of {values.size} values."
        )
    counts = counts[np.ix_(*kept)]
    renumbered = [np.searchsorted(chosen, places[axis, inside]) for axis, chosen in enumerate(kept)]
    cell = np.ravel_multi_index(tuple(renumbered), counts.shape)
    order = np.argsort(cell, kind="stable")
    if counts.min() != counts.max():
        notes.append(
            f"The cells hold {counts.min()} to {counts.max()} values; each cell counts equally."
        )
    return _Grid(names, counts.shape, values[inside][order], counts.reshape(-1))


def _kept_levels(counts: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Drop the level that lacks the largest part of its cells until no cell is missing."""
    kept = [np.arange(size) for size in counts.shape]
    while True:
        missing = counts[np.ix_(*kept)] == 0
        if not missing.any():
            return kept
        shares = [
            missing.mean(axis=tuple(other for other in range(missing.ndim) if other != axis))
            for axis in range(missing.ndim)
        ]
        worst = max(range(len(shares)), key=lambda axis: float(shares[axis].max()))
        kept[worst] = np.delete(kept[worst], int(shares[worst].argmax()))
        if not kept[worst].size:
            return kept


def _decompose(means: Floats) -> dict[Subset, Floats]:
    """Effects of single axes, of pairs, and with three axes or more (empty key) of the rest."""
    axes = range(means.ndim)
    rest = means - means.mean()
    effects: dict[Subset, Floats] = {}
    for order in (1, 2):
        found: dict[Subset, Floats] = {}
        for subset in combinations(axes, order):
            others = tuple(axis for axis in axes if axis not in subset)
            # Lower orders are out of `rest` already, so the mean over the others is the effect.
            found[subset] = rest.mean(axis=others, keepdims=True)
        for effect in found.values():
            rest = rest - effect
        effects |= found
    return effects | {(): rest} if means.ndim > 2 else effects


def _freedoms(subsets: Sequence[Subset], shape: tuple[int, ...]) -> Floats:
    """Degrees of freedom of each effect; the rest, which comes last, has what is left."""
    freedoms = [math.prod(shape[axis] - 1 for axis in subset) for subset in subsets if subset]
    if () in subsets:
        freedoms.append(math.prod(shape) - 1 - sum(freedoms))
    return np.array(freedoms, dtype=np.float64)
