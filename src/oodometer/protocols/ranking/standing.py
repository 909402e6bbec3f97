"""The order of detectors: everything that a page says about it comes from one leaderboard a scope.

Scores and values are compared by the same claims: both are turned into a `Contest` first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cases import Cases
from oodometer.protocols.common.differences import (
    FEWEST_FOR_T,
    compare_cases,
    compare_values,
    has_shares,
)
from oodometer.protocols.common.score_cases import ScoreCases
from oodometer.protocols.common.training_runs import without_repeats
from oodometer.protocols.common.words import LEVEL, SIGNIFICANT, count, listing, points_and_p
from oodometer.stats.averaging import average_over_sets
from oodometer.stats.comparison import Difference
from oodometer.stats.leaderboard import (
    Leaderboard,
    Pairwise,
    leaderboard,
)
from oodometer.stats.pairwise import difference
from oodometer.stats.ranks import rank_matrix

AFTER_RETRAINING = "after retraining"


@dataclass(frozen=True)
class Subject:
    """What detectors are compared by, in words and directions."""

    metric: str
    over: str  # what means are taken over, such as "over 6 outlier sets"
    sign: int = 1  # what turns values so that higher is better
    is_whole: bool = True  # whether all detectors could be compared
    are_shares: bool = True  # whose differences are written in points

    @property
    def extreme(self) -> str:
        """The word for the best."""
        return "highest" if self.sign > 0 else "lowest"

    def minus(self, one: str, other: str) -> str:
        """Name a difference that is positive if the one is better, as one of the metric's values.

        >>> Subject("FPR95", "", sign=-1).minus("knn", "msp")
        'msp − knn'
        """
        return f"{one} − {other}" if self.sign > 0 else f"{other} − {one}"

    def possible(self, difference: Difference) -> Difference:
        """Cut what an interval reaches beyond 1: shares cannot differ by more.

        >>> Subject("AUROC", "").possible(Difference(0.9, 0.56, 1.22, 0.001))[:3]
        (0.9, 0.56, 1.0)
        """
        if not self.are_shares or not math.isfinite(difference.high - difference.low):
            return difference
        low, high = max(-1.0, difference.low), min(1.0, difference.high)
        return difference._replace(low=low, high=high)

    def said(self, difference: Difference) -> str:
        """Write a difference, higher is better, with its interval and its adjusted p-value."""
        return points_and_p(difference, are_shares=self.are_shares)


@dataclass(frozen=True, eq=False)
class Standing:
    """The leaderboard of one scope, with its names."""

    detectors: tuple[str, ...]  # the best mean first
    board: Leaderboard
    pairwise: Pairwise  # in the order in which detectors were given
    scope: str  # of what a statement about the order is true, such as "after retraining"
    subject: Subject

    @property
    def leader(self) -> str:
        """The detector with the best mean."""
        return self.detectors[0]

    @cached_property
    def behind(self) -> tuple[str, ...]:
        """All that cannot be the best."""
        return self._which(~self.board.can_be_best)

    @cached_property
    def tied(self) -> tuple[str, ...]:
        """All but the leader that can be the best."""
        return tuple(name for name in self._which(self.board.can_be_best) if name != self.leader)

    def _which(self, chosen: Sequence[bool] | np.ndarray[tuple[int], np.dtype[np.bool_]]
               ) -> tuple[str, ...]:  # fmt: skip
        return tuple(name for name, own in zip(self.detectors, chosen, strict=True) if own)

    @cached_property
    def equal(self) -> list[str]:
        """All that have the mean of the leader, which is among them."""
        best = self.means[self.leader].value
        return [name for name, own in self.means.items() if own.value == best]

    @cached_property
    def means(self) -> dict[str, Estimate]:
        """Mean of every detector with the interval of this scope."""
        return {
            name: turned(mean, self.subject.sign)
            for name, mean in zip(self.detectors, self.board.means, strict=True)
        }

    @cached_property
    def gaps(self) -> dict[str, Difference]:
        """Every detector less the best of the others, higher is better."""
        possible = map(self.subject.possible, self.board.behind)
        return dict(zip(self.detectors, possible, strict=True))

    @cached_property
    def ours(self) -> dict[str, Difference]:
        """The detector that was declared in advance less every other one, higher is better."""
        found = dict(zip(self.detectors, self.board.ours, strict=bool(self.board.ours)))
        found = {name: self.subject.possible(own) for name, own in found.items()}
        return {n: d for n, d in found.items() if n != self.detectors[self.board.declared or 0]}

    def lead(self, name: str) -> Difference:
        """The leader less another detector, as a pair by itself, higher is better.

        The leader is the best if this is significant for each of the others (`leaderboard`).
        """
        first, other = (self.board.order[self.detectors.index(n)] for n in (self.leader, name))
        return self.subject.possible(difference(self.pairwise, first, other, LEVEL))


def turned(estimate: Estimate, sign: int) -> Estimate:
    """A mean in the metric's own direction.

    >>> turned(Estimate(-0.2, -0.3, -0.1), -1)
    Estimate(value=0.2, low=0.1, high=0.3)
    """
    return estimate if sign > 0 else Estimate(-estimate.value, -estimate.high, -estimate.low)


def standing_of(
    names: Sequence[str], pairwise: Pairwise, scope: str, subject: Subject, ours: str = ""
) -> Standing:
    """Compare detectors in one scope; `ours` is declared in advance, where it is among them."""
    declared = list(names).index(ours) if ours in names else None
    if declared is not None:
        pairwise = pairwise.of_declared(declared)
    board = leaderboard(pairwise, level=LEVEL, declared=declared)
    return Standing(tuple(names[row] for row in board.order), board, pairwise, scope, subject)


@dataclass(frozen=True, eq=False)
class Contest:
    """Detectors, the best mean first, by all that they are compared by."""

    detectors: tuple[str, ...]
    subject: Subject
    ours: str  # declared in advance; "" if none is
    standings: tuple[Standing, ...]  # one per scope, the main one first; none without a spread
    values: Floats  # (detectors, cases)
    means: Floats  # over the cases
    case: str  # the word for one
    preposition: str  # before cases
    set_word: str
    set_means: Mapping[str, Floats]  # mean of each detector on each set
    on_sets: Mapping[str, Pairwise]  # the same, where sets have a spread of their own
    set_values: Mapping[str, Floats]  # there: (detectors, cases)
    without: Callable[[str], Pairwise]  # the main scope, one set left out
    shared: Mapping[str, NDArray[np.intp]]  # repeats whose levels several runs have in common
    left_out: tuple[str, ...]  # detectors that lack too much to be compared
    runs: int = 0  # over which differences must stand out, too, where data sets are the cases

    @property
    def tried(self) -> str:
        """What conclusions rest on: how many cases, and how many levels these share."""
        cases = self.values.shape[1]
        if cases == 1:
            return "these test samples"
        levels = [f"{own.max() + 1} levels of {name}" for name, own in self.shared.items()]
        runs = f" and {count(self.runs, 'run')}" if self.runs else ""
        return count(cases, self.case) + runs + (f" on {listing(levels)}" if levels else "")

    @property
    def leader(self) -> str:
        """The detector with the best mean."""
        return self.detectors[0]

    @property
    def main(self) -> Standing | None:
        """The standing in the main scope; None without a spread."""
        return self.standings[0] if self.standings else None

    @property
    def equal(self) -> list[str]:
        """All that have the mean of the leader, which is among them."""
        best = self.means[0]
        return [name for name, own in zip(self.detectors, self.means, strict=True) if own == best]

    @property
    def is_all_equal(self) -> bool:
        """Whether all detectors have the same value in every case."""
        return bool((self.values == self.values[0]).all())

    @property
    def is_decided(self) -> bool:
        """Whether only the leader can be the best, in the main scope."""
        return self.main is not None and self.main.board.is_decided

    @property
    def is_undecidable(self) -> bool:
        """Whether there are two cases, which decide nothing whatever they are."""
        return len(self.values.T) == FEWEST_FOR_T - 1

    @cached_property
    def order(self) -> Floats:
        """(detectors, cases): rank, 1 = best."""
        return rank_matrix(self.subject.sign * self.values)

    def board_without(self, gone: str) -> Leaderboard:
        """The leaderboard of the main scope without one set."""
        declared = self.detectors.index(self.ours) if self.ours else None
        return leaderboard(self.without(gone), level=LEVEL, declared=declared)

    def against(self, pairwise: Pairwise, reference: str, families: int) -> dict[str, Difference]:
        """Every other detector less a reference, higher is better, in one of several families.

        P-values and intervals allow for all comparisons of all families (Bonferroni).
        """
        level = 1.0 - SIGNIFICANT / families
        declared = self.detectors.index(reference)
        if self.ours:  # the reference may be the leader, which is not declared in advance
            pairwise = pairwise.of_declared(self.detectors.index(self.ours))
        pairwise = pairwise._replace(declared_df=None)
        board = leaderboard(pairwise, level=level, declared=declared)
        return {
            self.detectors[row]: self.subject.possible(
                Difference(-d.value, -d.high, -d.low, min(1.0, families * d.p_value))
            )
            for row, d in zip(board.order, board.ours, strict=True)
            if row != declared
        }


def contest_of_scores(field: ScoreCases, ours: str) -> Contest:
    """Compare by AUROC: after retraining, if there are several training runs, and on these models.

    Of several outlier sets, each has the same weight.
    """
    runs, names, sets = len(field.training_runs), field.detectors, field.table.ood
    many = runs > 1
    over = f"over {count(len(sets), 'outlier set')}{_of_compared(names, field.unranked)}"
    left_out = [*field.unranked, *field.table.fitted_on_outliers]
    subject = Subject("AUROC", over, is_whole=not left_out)

    def standing(scope: str, *, retraining: bool) -> Standing:
        placed = [field.overall[name] for name in names]
        compared = field.compared(placed, retraining=retraining)
        return standing_of(names, compared, scope, subject, ours)

    def without(gone: str) -> Pairwise:
        rest = [ood for ood in sets if ood != gone]
        placed = [average_over_sets([field.placements[name, s] for s in rest]) for name in names]
        return field.compared(placed, retraining=many)

    models = f"on these {runs} models" if many else "on this model"
    standings = [standing(f"{models} with other test samples", retraining=False)]
    if many:
        scope = without_repeats(field.factors) or AFTER_RETRAINING
        standings.insert(0, standing(scope, retraining=True))
    on_sets = {
        ood: field.compared([field.placements[name, ood] for name in names], retraining=many)
        for ood in sets
    }
    values = np.array([field.overall[name].values for name in names])
    return Contest(
        detectors=names,
        subject=subject,
        ours=ours if ours in names else "",
        standings=tuple(standings),
        values=values,
        means=field.units.mean(values),
        case="training run",
        preposition="in",
        set_word="outlier set",
        set_means={ood: pairwise.means for ood, pairwise in on_sets.items()},
        on_sets=on_sets,
        set_values={
            ood: np.array([field.placements[name, ood].values for name in names]) for ood in sets
        },
        without=without,
        shared=field.units.shared,
        left_out=tuple(field.unranked),
    )


def contest_of_values(scopes: Sequence[Cases], ours: str) -> Contest:
    """Compare by the values of a results table, in every scope that it allows."""
    field = scopes[0]
    word = field.set_word if field.are_runs else field.case
    sets = field.sets if field.are_runs else dict(zip(field.names, field.values.T, strict=True))
    over = f"over {count(len(sets), word)}{_of_one(field)}"
    over += _of_compared(field.detectors, field.left_out)
    shares = has_shares(field.results)
    subject = Subject(field.metric, over, field.sign, not field.left_out, shares)

    def compared(values: Floats) -> Pairwise:
        return compare_values(field, values)

    def without(gone: str) -> Pairwise:
        if field.unit == "data set":
            return compare_cases(field.without(gone), ours)
        rest = [sets[name] for name in sets if name != gone]
        return compared(np.mean(rest, axis=0) if field.are_runs else np.array(rest).T)

    return Contest(
        detectors=field.detectors,
        subject=subject,
        ours=ours if ours in field.detectors else "",
        standings=tuple(
            standing_of(
                own.detectors,
                compare_cases(own, ours),
                own.scope,
                subject,
                ours,
            )
            for own in scopes
            if len(own.names) > 1
        ),
        values=field.values,
        means=field.means,
        case=field.case,
        preposition=field.preposition,
        set_word=word,
        set_means=field.set_means if field.are_runs else sets,
        on_sets={n: compared(v) for n, v in sets.items()} if field.are_runs else {},
        set_values=sets if field.are_runs else {},
        without=without,
        shared=field.units.shared,
        left_out=field.left_out,
        runs=0 if field.over_runs is None else len(field.over_runs.names),
    )


def _of_compared(compared: Sequence[str], left_out: Sequence[str]) -> str:
    """Say that the best is the best of those that could be compared."""
    return f", of the {len(compared)} detectors that are compared" if left_out else ""


def _of_one(field: Cases) -> str:
    """Where means come from, if outlier sets are the cases."""
    if field.unit in ("run", "data set"):
        return ""
    if field.results.are_means:
        return ", by the stated means"
    sets, runs = len(field.cells.ids), len(field.cells.runs)
    if sets > 1 and field.case == "outlier set":
        over = f"{runs} runs on" if runs > sets else "one run on each of"
        return f", with {over} {sets} data sets"
    return " in this single run"
