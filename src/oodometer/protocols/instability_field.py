"""Runs that differ in one factor only: their values, ranks and spread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from oodometer.metrics import METRICS, Estimate
from oodometer.results import Results
from oodometer.stats.ranks import rank_matrix


@dataclass(frozen=True, eq=False)
class Spread:
    """Every detector on one outlier set, in runs that differ in one factor."""

    factor: str
    set: str
    metric: str
    higher_is_better: bool
    detectors: tuple[str, ...]
    levels: tuple[str, ...]
    level: tuple[str, ...]  # of each run
    groups: NDArray[np.int64]  # of each run: runs of one group agree in all other factors
    values: NDArray[np.float64]  # (detectors, runs)
    accuracy: NDArray[np.float64] | None
    dropped: int  # runs that some detector lacks
    published: bool = False

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.level)

    @property
    def changes(self) -> int:
        """How many independent changes of the factor there are: runs less groups."""
        return self.runs - len(np.unique(self.groups))

    @cached_property
    def order(self) -> NDArray[np.float64]:
        """(detectors, runs): rank, 1 = best, ties shared; as published from 0, ties in order."""
        if not self.published:
            return rank_matrix(self.values, higher_is_better=self.higher_is_better)
        signed = -self.values if self.higher_is_better else self.values
        places = np.argsort(np.argsort(signed, axis=0, kind="stable"), axis=0, kind="stable")
        return places.astype(np.float64)

    @cached_property
    def changing_winners(self) -> list[str]:
        """Detectors that take turns as the best while all other factors stay as they are."""
        first = self.order == self.order.min(axis=0)
        taking: dict[int, int] = {}
        for group in np.unique(self.groups):
            times = first[:, self.groups == group].sum(axis=1)
            if times.max() < np.count_nonzero(self.groups == group):  # none is best throughout
                for row in np.flatnonzero(times):
                    taking[int(row)] = taking.get(int(row), 0) + int(times[row])
        return [self.detectors[row] for row in sorted(taking, key=lambda row: -taking[row])]

    @cached_property
    def flipped(self) -> NDArray[np.bool_]:
        """(detectors, detectors): whether each is ahead of the other in some run of one group."""
        size = len(self.detectors)
        flipped = np.zeros((size, size), dtype=bool)
        for group in np.unique(self.groups):
            values = self.values[:, self.groups == group]
            ahead = (values[:, None, :] > values[None, :, :]).any(axis=2)
            flipped |= ahead & ahead.T
        return flipped

    @property
    def flips(self) -> tuple[int, int]:
        """Pairs of detectors that change places, and all pairs."""
        size = len(self.detectors)
        return int(np.triu(self.flipped, 1).sum()), size * (size - 1) // 2

    @cached_property
    def deltas(self) -> NDArray[np.float64]:
        """Highest less lowest value of each detector: the largest within a group."""
        return np.array([self.largest_move(row) for row in self.values])

    def largest_move(self, values: NDArray[np.float64]) -> float:
        """Highest less lowest of these values, one per run: the largest within a group."""
        return max(float(np.ptp(values[self.groups == g])) for g in np.unique(self.groups))

    @cached_property
    def deviations(self) -> NDArray[np.float64]:
        """Standard deviation of each detector, pooled over groups."""
        return np.sqrt(_variance(self.values, self.groups, unbiased=not self.published))

    def extremes(self, row: int) -> tuple[str, str]:
        """The levels at which a detector is best and worst, other factors being the same."""
        values = self.values[row].copy()
        for group in np.unique(self.groups):
            values[self.groups == group] -= values[self.groups == group].mean()
        signed = values if self.higher_is_better else -values
        levels = np.array(self.level)
        means = {level: float(signed[levels == level].mean()) for level in self.levels}
        return max(means, key=means.__getitem__), min(means, key=means.__getitem__)

    def within(self, row: int) -> NDArray[np.float64]:
        """Values of a detector."""
        values: NDArray[np.float64] = self.values[row]
        return values


def _variance(
    values: NDArray[np.float64], groups: NDArray[np.int64], *, unbiased: bool
) -> NDArray[np.float64]:
    squares = np.zeros(len(values))
    freedom = 0
    for group in np.unique(groups):
        part = values[:, groups == group]
        squares += ((part - part.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        freedom += part.shape[1] - unbiased
    return squares / max(freedom, 1)


def deviation(
    values: NDArray[np.float64], groups: NDArray[np.int64], level: float
) -> Estimate | None:
    """Return a pooled standard deviation with its interval for normal values; None if unknown.

    With f = runs - groups degrees of freedom, s^2 f / sigma^2 is chi-squared.
    """
    freedom = len(values) - len(np.unique(groups))
    if freedom < 1:
        return None
    value = float(np.sqrt(_variance(values[None, :], groups, unbiased=True)[0]))
    low, high = (
        value * float(np.sqrt(freedom / chi2.ppf(share, freedom)))
        for share in ((1 + level) / 2, (1 - level) / 2)
    )
    return Estimate(value, low, high)


def over_sets(table: Results) -> Results:
    """Mean over the outlier sets of each ID set on which every detector has a value."""
    frame = table.frame
    ids = "id" in frame.columns and len(set(frame["id"])) > 1
    keys = [*(["id"] if ids else []), *table.factors]
    cell = [*keys, "ood"]
    wide = frame.pivot_table(index=cell, columns="detector", values="value", sort=False).dropna()
    accuracy = None
    if "accuracy" in frame.columns:
        accuracy = frame.groupby(keys, sort=False)["accuracy"].mean()
    means = wide.groupby(level=keys, sort=False).mean()
    long = means.reset_index().melt(keys, var_name="detector", value_name="value")
    long["ood"] = f"the mean of {len(table.ood)} outlier sets"
    if accuracy is not None:
        long = long.join(accuracy, on=keys)
    return replace(table, frame=long)


def spreads(table: Results, factor: str, *, published: bool) -> list[Spread]:
    """Find, for each outlier set, the runs that differ in this factor and agree in all others."""
    frame = table.frame
    others = [name for name in table.factors if name != factor]
    if "id" in frame.columns and len(set(frame["id"])) > 1:
        frame = frame.assign(ood=frame["id"] + " / " + frame["ood"])
    found = []
    for name, part in frame.groupby("ood", sort=False):
        rows = part.pivot_table(
            index=[*others, factor], columns="detector", values="value", sort=False
        )
        whole = rows.reindex(columns=list(table.detectors)).dropna()
        if whole.empty:
            continue
        keys = [key if isinstance(key, tuple) else (key,) for key in whole.index]
        rest = [key[:-1] for key in keys]
        numbers = {key: place for place, key in enumerate(dict.fromkeys(rest))}
        groups = np.array([numbers[key] for key in rest])
        several = np.isin(groups, np.flatnonzero(np.bincount(groups) > 1))
        if not several.any():
            continue
        level = tuple(str(key[-1]) for key, keep in zip(keys, several, strict=True) if keep)
        accuracy = None
        if "accuracy" in part.columns:
            means = part.groupby([*others, factor], sort=False)["accuracy"].mean()
            accuracy = means.loc[whole.index].to_numpy(dtype=float)[several]
            accuracy = accuracy / 100 if accuracy.max() > 1 else accuracy
        found.append(
            Spread(
                factor=factor,
                set=str(name),
                metric=METRICS[table.metric].label if table.metric in METRICS else table.metric,
                higher_is_better=table.higher_is_better,
                detectors=table.detectors,
                levels=tuple(dict.fromkeys(level)),
                level=level,
                groups=groups[several],
                values=whole.to_numpy(dtype=float).T[:, several].copy(),
                accuracy=accuracy if accuracy is not None and np.isfinite(accuracy).all() else None,
                dropped=len(rows) - len(whole),
                published=published,
            )
        )
    return found
