"""Runs that differ in one factor only: their values, ranks and spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.factors import Factor, Kind, names
from oodometer.metrics import METRICS, Estimate
from oodometer.protocols.common.cases import ENOUGH, independent_changes
from oodometer.protocols.common.differences import FEWEST_FOR_T
from oodometer.protocols.robustness.field import NOT_GIVEN, check_size
from oodometer.results import Results
from oodometer.stats.deviation import deviation_interval, pooled_variance
from oodometer.stats.paired import one_sided_p_values
from oodometer.stats.ranks import rank_matrix


@dataclass(frozen=True, eq=False)
class Spread:
    """Every detector on one outlier set, in runs that differ in one factor."""

    factor: str
    kind: Kind  # of the factor
    set: str
    metric: str
    higher_is_better: bool
    detectors: tuple[str, ...]
    levels: tuple[str, ...]
    level: tuple[str, ...]  # of each run
    groups: NDArray[np.int64]  # of each run: runs of one group agree in all other factors
    contexts: NDArray[np.int64]  # of each run: the same, but for repeats such as the seed
    values: NDArray[np.float64]  # (detectors, runs), fractions
    accuracy: NDArray[np.float64] | None
    changes: int  # independent changes of the factor: looks at one training are none
    published: bool = False

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.level)

    @property
    def is_condition(self) -> bool:
        """Whether another level is another training under another condition.

        Then what changes may be owed to the training and not to the condition. Another seed is
        another training by itself, and an epoch is a look at the same training.
        """
        return self.kind == "condition"

    @cached_property
    def places(self) -> list[tuple[int, NDArray[np.intp]]]:
        """Context and runs of each level that was trained often enough to tell chance."""
        levels = np.array(self.level)
        found = []
        for context in np.unique(self.contexts):
            for level in self.levels:
                here = np.flatnonzero((self.contexts == context) & (levels == level))
                if here.size >= FEWEST_FOR_T:
                    found.append((int(context), here))
        return found

    def surely_flipped(self, chance: float) -> NDArray[np.bool_]:
        """(detectors, detectors): whether each is beyond chance ahead of the other at some level.

        Student's one-sided test of paired differences at each level; the other levels of the same
        context are compared. Both must be so, hence no further correction for the two.
        """
        size = len(self.detectors)
        ahead: dict[int, NDArray[np.bool_]] = {}
        for context, here in self.places:
            values = self.values[:, here] if self.higher_is_better else -self.values[:, here]
            known = ahead.setdefault(context, np.zeros((size, size), dtype=bool))
            known |= one_sided_p_values(values) < chance
        flipped = np.zeros((size, size), dtype=bool)
        for known in ahead.values():
            flipped |= known & known.T
        return flipped

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
        return np.sqrt(pooled_variance(self.values, self.groups, unbiased=not self.published))

    @cached_property
    def rank_deviations(self) -> NDArray[np.float64]:
        """Standard deviation of each detector's rank, pooled over groups."""
        return np.sqrt(pooled_variance(self.order, self.groups, unbiased=not self.published))

    @property
    def accuracy_deviation(self) -> float:
        """Standard deviation of the accuracy, pooled over groups; 0 if it is not known."""
        known = np.zeros(self.runs) if self.accuracy is None else self.accuracy
        variance = pooled_variance(known[None, :], self.groups, unbiased=not self.published)
        return float(np.sqrt(variance[0]))

    def rank_range(self, row: int) -> tuple[float, float]:
        """Lowest and highest rank of a detector: the widest range within a group."""
        parts = [self.order[row, self.groups == group] for group in np.unique(self.groups)]
        widest = max(parts, key=np.ptp)
        return float(widest.min()), float(widest.max())

    def centred(self, row: int) -> NDArray[np.float64]:
        """Values of a detector about its mean, without what other factors do."""
        values: NDArray[np.float64] = self.values[row].copy()
        for group in np.unique(self.groups):
            values[self.groups == group] -= values[self.groups == group].mean()
        return values

    def extremes(self, row: int) -> tuple[str, str]:
        """The levels at which a detector is best and worst, other factors being the same."""
        values = self.centred(row)
        signed = values if self.higher_is_better else -values
        levels = np.array(self.level)
        means = {level: float(signed[levels == level].mean()) for level in self.levels}
        return max(means, key=means.__getitem__), min(means, key=means.__getitem__)

    def deviation(self, row: int, level: float) -> Estimate | None:
        """Standard deviation of a detector with its interval."""
        return deviation_interval(self.values[row], self.groups, level, freedom=self.changes)


def over_sets(table: Results) -> Results:
    """Mean over the outlier sets of each ID set on which every detector has a value."""
    frame = table.frame
    ids = "id" in frame.columns and len(set(frame["id"])) > 1
    keys = [*(["id"] if ids else []), *table.factor_names]
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


def compared(table: Results) -> tuple[Results, tuple[str, ...], int]:
    """Make the table comparable: who is left out, and how many runs some detector still lacks.

    Names and levels become texts, a level that is not given one of its own, and percentages
    fractions. A detector without half of the values would cost the others their runs.
    """
    check_size(table)
    frame = table.frame.copy()
    for name in (*table.keys, *table.factor_names):
        frame[name] = frame[name].astype(object).map(str).where(frame[name].notna(), NOT_GIVEN)
    if float(frame["value"].abs().max()) > 1.0:
        frame["value"] = frame["value"] / 100.0
    place = [*(name for name in table.keys if name != "detector"), *table.factor_names]
    present = frame.groupby([*place, "detector"], sort=False).size().unstack("detector").notna()
    kept = [str(name) for name in present if present[name].mean() >= ENOUGH]
    left_out = tuple(name for name in map(str, table.detectors) if name not in kept)
    if len(kept) < 2:
        raise UserError(
            "Instability compares detectors on the same runs, and no two of them have half of all "
            f"values; the detectors are {', '.join(map(str, table.detectors))}."
        )
    incomplete = int((~present[kept].all(axis=1)).sum())
    whole = frame[frame["detector"].isin(kept)].reset_index(drop=True)
    return replace(table, frame=whole), left_out, incomplete


def spreads(table: Results, factor: str, *, published: bool) -> list[Spread]:
    """Find, for each outlier set, the runs that differ in this factor and agree in all others."""
    frame = table.frame
    others = [name for name in table.factor_names if name != factor]
    repeats = names(table.factors, "repeat")
    if "id" in frame.columns and len(set(frame["id"])) > 1:
        frame = frame.assign(ood=frame["id"] + " / " + frame["ood"])
    found = []
    for name, part in frame.groupby("ood", sort=False):
        rows = part.pivot_table(
            index=[*others, factor], columns="detector", values="value", sort=False
        )
        whole = rows.reindex(columns=list(table.detectors)).dropna()
        keys = [key if isinstance(key, tuple) else (key,) for key in whole.index]
        groups = _numbered([key[:-1] for key in keys])
        several = np.isin(groups, np.flatnonzero(np.bincount(groups) > 1))
        if not several.any():
            continue
        keys = [key for key, keep in zip(keys, several, strict=True) if keep]
        level = tuple(str(key[-1]) for key in keys)
        conditions = [place for place, other in enumerate(others) if other not in repeats]
        accuracy = None
        if "accuracy" in part.columns:
            means = part.groupby([*others, factor], sort=False)["accuracy"].mean()
            accuracy = means.loc[whole.index].to_numpy(dtype=float)[several]
            accuracy = accuracy / 100 if accuracy.max() > 1 else accuracy
        found.append(
            Spread(
                factor=factor,
                kind=table.kind(factor),
                set=str(name),
                metric=METRICS[table.metric].label if table.metric in METRICS else table.metric,
                higher_is_better=table.higher_is_better,
                detectors=table.detectors,
                levels=tuple(dict.fromkeys(level)),
                level=level,
                groups=groups[several],
                contexts=_numbered([tuple(key[place] for place in conditions) for key in keys]),
                values=whole.to_numpy(dtype=float).T[:, several].copy(),
                accuracy=accuracy if accuracy is not None and np.isfinite(accuracy).all() else None,
                changes=_changes([*others, factor], keys, table.factors),
                published=published,
            )
        )
    return found


def _numbered(keys: Sequence[tuple[object, ...]]) -> NDArray[np.int64]:
    """Number keys in the order of their first occurrence."""
    numbers = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], dtype=np.int64)


def _changes(
    columns: Sequence[str], keys: Sequence[tuple[object, ...]], factors: Sequence[Factor]
) -> int:
    """How many independent changes of the last of these factors the runs show."""
    levels = {str(run): dict(zip(columns, key, strict=True)) for run, key in enumerate(keys)}
    return independent_changes(levels, columns[-1], factors)
