"""Lines and columns that are computed from others: found by their names and their arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oodometer.factors import by_title, plain, words_of
from oodometer.tables.lines.stated_means import note_wrong_rows
from oodometer.tables.vocabulary.data_names import is_set
from oodometer.tables.vocabulary.groups import sure_means
from oodometer.tables.vocabulary.names import is_compared
from oodometer.tables.vocabulary.statistics import MEANS, SUMMARIES, is_average, is_mere_average

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 3  # lines that must agree, and others that an unnamed mean must be of
_RARE = 0.001  # chance that an ordinary line is the mean of the others, below which it is none
_NEAR = 0.5  # of the largest number: how far above all others a result may be
_MOST_PAIRED = 60  # lines of which each two may have been subtracted
_OVER_ALL = frozenset({"overall", "total", "aggregate", "aggregated"})  # nobody is called so
_SIGNS = ("Δ", "δ", "Σ", "∑")  # nobody calls a detector so
_VARIANTS = ("+", "w/", "↳", "└")  # what a variant of the detector above is called: "↳ mean"
Array = NDArray[np.float64]


def without_summaries(
    long: pd.DataFrame, notes: list[str], factors: Mapping[str, str] = MappingProxyType({})
) -> pd.DataFrame:
    """Leave out what is a mean, a rank, a gain ... of the others, and say which.

    `factors` are further columns with their titles: repeats, and parts of data sets, may have
    lines of means among them; a condition may well be called mean.
    """
    for column, title in factors.items():
        levels = [str(level) for level in long[column].unique()]
        named = [level for level in levels if is_average(level) or _is_called_statistic(level)]
        if by_title(title, levels).kind in ("repeat", "part") and len(named) < len(levels):
            long = _left_out(long, column, named, f"summaries over {title}", notes)
    for axis in [name for name in ("id", "ood", "detector") if name in long.columns]:
        names = [str(name) for name in long[axis].unique()]
        if len(names) < 2:
            continue
        by_name = [n for n in names if _is_named_summary(n, axis, long)]
        by_name = sure_means(by_name, len([*filter(None, names)]) - len(by_name))
        if len(by_name) == len(names):
            continue
        _note_wrong_means(long, axis, by_name, notes)
        long = _left_out(long, axis, by_name, "summaries of other rows or columns", notes)
        means = _means_of_others(*_table(long, axis))
        means = means or _means_of_others(*_table(long, axis, tuple(factors)))
        long = _left_out(long, axis, means, "means of all others", notes)
        if axis != "detector":
            found = _harmonic_means(*_table(long, axis))
            long = _left_out(long, axis, found, "harmonic means of two others", notes)
    return long


def _left_out(
    long: pd.DataFrame, axis: str, names: list[str], why: str, notes: list[str]
) -> pd.DataFrame:
    if not names:
        return long
    notes.append(f"{why} were left out: {', '.join(names)}")
    return long[~long[axis].isin(names)].reset_index(drop=True)


def _note_wrong_means(
    long: pd.DataFrame, axis: str, summaries: Sequence[str], notes: list[str]
) -> None:
    """Point out where a line called average does not state the mean of the others."""
    averages = [name for name in summaries if axis != "detector" and is_average(name)]
    keys = [c for c in ("metric", "id", "ood", "detector") if c in long.columns and c != axis]
    if not averages or "detector" not in keys:
        return
    table = long.pivot_table("value", axis, keys, "mean", sort=False)
    others = table.drop(index=list(summaries))
    named = list(others.columns.get_level_values("detector"))
    for metric in long["metric"].unique():
        here = others.columns.get_level_values("metric") == metric
        labels = [str(label) for label, own in zip(named, here, strict=True) if own]
        for name in averages:
            stated = table.loc[name].to_numpy()[here]
            note_wrong_rows(name, labels, stated, others.to_numpy()[:, here], notes)


def _is_called_statistic(level: str) -> bool:
    """Whether what stands where repeats are numbered is a statistic of them: std, sample_sd."""
    words = words_of(level)
    return not words.isdisjoint(SUMMARIES | MEANS) and not any(map(str.isdigit, words))


def _is_named_summary(name: str, axis: str, long: pd.DataFrame) -> bool:
    """Whether a line is called like a summary, and its numbers do not contradict."""
    if name.strip() in _SIGNS:
        return True
    if axis == "detector" and name.lstrip("*_ ").startswith(_VARIANTS):
        return False
    if is_average(name):
        # A detector may be called Mean: then its numbers are nobody's mean.
        return axis != "detector" or not _is_detector_after_all(long, axis, name)
    return plain(name) in SUMMARIES and not _is_detector_after_all(long, axis, name)


def _is_detector_after_all(long: pd.DataFrame, axis: str, name: str) -> bool:
    """Whether numbers are not computed from the others: no mean, and of their size elsewhere."""
    names, table = _table(long, axis)
    here = names == name
    own, others = table[here][0], table[~here]
    if not is_average(name):
        return are_results(own, others)
    own, others = _filled(own, others)
    if not len(own):
        return False
    low, high = np.nanmin(others, axis=0), np.nanmax(others, axis=0)
    half = _rounding(own) / 2
    beyond = (own < low - half) | (own > high + half)
    if not beyond.any() and _is_over_groups(name, names):
        return False  # weighted, or over some of the others
    if not is_mere_average(name):  # trimmed_mean: a mean only if its numbers are
        return not _is_mean_of_some(table[here][0], table, int(np.flatnonzero(here)[0]))
    far = np.abs(own - np.nanmean(others, axis=0)) > _rounding(own)
    with_all_parts = plain(name) == "all" and bool(beyond.any())  # the whole of an ablation
    return with_all_parts or (len(own) >= _FEWEST and bool(far.all()))


def _is_over_groups(name: str, names: NDArray[np.object_]) -> bool:
    """Whether a line is called overall, or one of several averages: weekday avg, weekend avg."""
    words = str(name).split()
    alike = [n for n in map(str, names) if plain(n.split()[-1] if n.split() else "") in MEANS]
    groups = len(alike) > 1 and 2 * len(alike) <= len(names) - len(alike)  # each is of several
    several = len(words) > 1 and plain(words[-1]) in MEANS and groups
    return plain(name) in _OVER_ALL or several


def _is_mean_of_some(own: Array, table: Array, line: int) -> bool:
    """Whether a line is the mean of all others, or of those right above it."""
    others = np.delete(table, line, axis=0)
    blocks = [others, *(table[start:line] for start in range(line - 1))]
    for block in blocks:
        numbers, beside = _filled(own, block)
        means = np.nanmean(beside, axis=0)
        if len(numbers) and bool((np.abs(numbers - means) <= _rounding(numbers)).all()):
            return True
    return False


def are_results(own: Array, others: Array) -> bool:
    """Whether numbers are of the size of those in other lines, and not computed from these.

    >>> others = np.array([[0.81, 0.74], [0.85, 0.78]])
    >>> are_results(np.array([0.87, 0.72]), others), are_results(np.array([0.85, 0.78]), others)
    (True, False)
    """
    own, others = _filled(own, others)
    return bool(len(own)) and are_like(own, others) and not _is_computed(own, others)


def _filled(own: Array, others: Array) -> tuple[Array, Array]:
    """Return the numbers of places that have some on both sides."""
    filled = ~np.isnan(own) & ~np.isnan(others).all(axis=0)
    return own[filled], others[:, filled]


def are_like(own: Array, others: Array) -> bool:
    """Whether numbers are of the size of the others: mostly among them, or as near as a best one.

    >>> others = np.array([[0.81, 0.74], [0.85, 0.78]])
    >>> are_like(np.array([0.87, 0.79]), others), are_like(np.array([0.04, 0.04]), others)
    (True, False)
    """
    low, high = np.nanmin(others, axis=0), np.nanmax(others, axis=0)
    if not (own % 1).any() and (others[~np.isnan(others)] % 1).any():
        return False  # ranks, wins
    room = high - low + _NEAR * np.abs(high)
    within = (np.maximum(low - room, np.minimum(low, low / 2)) <= own) & (own <= high + room)
    return bool(within.mean() > 0.5)


def _is_computed(own: Array, others: Array) -> bool:
    """Whether numbers are the best, the median, the spread ... of the others, or a difference."""
    known = [
        *(f(others, axis=0) for f in (np.nanmin, np.nanmax, np.nanmedian, np.nansum, np.nanstd)),
        np.nanmax(others, axis=0) - np.nanmin(others, axis=0),
    ]
    # One number is the difference of some two of many by chance.
    if 1 < len(others) <= _MOST_PAIRED and (len(own) > 1 or len(others) < _FEWEST):
        known.append(np.std(others, axis=0, ddof=1))
        known += [others[a] - others[b] for a, b in permutations(range(len(others)), 2)]
    exact = 2 * _rounding(own)  # a difference of two rounded numbers
    return any(bool((np.abs(own - numbers) <= exact).all()) for numbers in known)


def _table(
    long: pd.DataFrame, axis: str, factors: Sequence[str] = ()
) -> tuple[NDArray[np.object_], Array]:
    """Return the levels of an axis, and a line of numbers for each; what repeats is averaged."""
    keys = ("metric", "id", "ood", "detector", *factors)
    others = [c for c in keys if c in long.columns and c != axis]
    columns = long.groupby(others, sort=False, dropna=False).ngroup().to_numpy()
    rows, names = long[axis].factorize()
    shape = (len(names), columns.max() + 1)
    flat = rows * shape[1] + columns
    total = np.bincount(flat, long["value"].to_numpy(dtype=float), shape[0] * shape[1])
    times = np.bincount(flat, minlength=shape[0] * shape[1])
    means = np.divide(total, times, out=np.full(len(total), np.nan), where=times > 0)
    return np.asarray(names, dtype=object), means.reshape(shape)


def _means_of_others(names: NDArray[np.object_], table: Array) -> list[str]:
    """Return levels that are the exact mean of all others everywhere, though no name says so."""
    if len(table) <= _FEWEST or table.shape[1] < _FEWEST:
        return []
    given = ~np.isnan(table)
    filled = np.where(given, table, 0.0)
    others = given.sum(axis=0) - given
    means = (filled.sum(axis=0) - filled) / np.maximum(others, 1)
    checked = given & (others >= _FEWEST)
    wrong = given & ~checked & (others > 0) | checked & (
        np.abs(means - table) > 0.01 * np.abs(means)
    )
    close = (checked.sum(axis=1) >= _FEWEST) & ~wrong.any(axis=1)
    return [
        str(name)
        for name, own, mean, here in zip(
            names[close], table[close], means[close], checked[close], strict=True
        )
        if (np.abs(own - mean)[here] <= _rounding(own[here])).all()
        and not _is_known(str(name))
        and len(table) * _coincidence(own[here], table[:, here]) < _RARE
    ]


def _harmonic_means(names: NDArray[np.object_], table: Array) -> list[str]:
    """Return sets whose numbers are the harmonic means of those of two others, on every line.

    Such is "H" beside old and new, or seen and unseen classes.
    """
    found: list[str] = []
    count, lines = table.shape
    if not _FEWEST <= count <= _MOST_PAIRED or lines < _FEWEST or not (table > 0).all():
        return found
    for place, own in enumerate(table):
        others = np.delete(table, place, axis=0)
        close = _rounding(own)
        pairs = (2 / (1 / one + 1 / other) for one, other in combinations(others, 2))
        likely = count * count * _coincidence(own, table)
        if likely < _RARE and any(bool((np.abs(own - h) <= close).all()) for h in pairs):
            found.append(str(names[place]))
    return found


def _coincidence(own: Array, table: Array) -> float:
    """Roughly how likely a line like the others is within rounding of their mean everywhere."""
    spreads = np.maximum(np.nanstd(table, axis=0), 1e-12)
    return float(np.minimum(1.0, 2.0 * _rounding(own) / (2.5 * spreads)).prod())


def _is_known(name: str) -> bool:
    return is_set(name) or is_compared(name)


def _rounding(values: Array) -> Array:
    """Return a unit of the last decimal, by which means of rounded numbers may be off."""
    places = max((len(f"{value:.10g}".partition(".")[2]) for value in values), default=0)
    return np.full(len(values), 1.001 * 10.0**-places + 1e-12)
