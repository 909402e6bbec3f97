"""How many runs would it take to tell two detectors apart?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oodometer.finding import Claim
from oodometer.protocols.common.cases import Cases
from oodometer.protocols.common.differences import FEWEST_FOR_T
from oodometer.protocols.common.words import LEVEL, SHOWN, count, several
from oodometer.stats.leaderboard import Pairwise, from_values
from oodometer.stats.power import RunsNeeded, runs_needed

POWER = 0.8  # chance to find the observed difference with the runs that are said to be needed
_MOST = 1000  # runs that are counted: nobody trains more to tell two detectors apart


@dataclass(frozen=True, eq=False)
class _Observed:
    """Differences over the runs so far, with variances as the leaderboard shares them."""

    field: Cases

    @cached_property
    def _shared(self) -> Pairwise:
        return from_values(self.field.sign * self.field.values)

    def needed(
        self, one: str, other: str, *, level: float = LEVEL, power: float = POWER, many: int = 1
    ) -> RunsNeeded:
        """Runs that would separate two detectors, allowing for `many` comparisons."""
        first, second = (self.field.detectors.index(name) for name in (one, other))
        runs = len(self.field.names)
        spread = float(self._shared.error[first, second]) * math.sqrt(runs)
        prior = float(self._shared.df[first, second]) - (runs - 1.0)
        pair = self.field.oriented(first), self.field.oriented(second)
        if np.array_equal(*pair):
            return RunsNeeded(runs=None, low=None, high=None, effect=0.0, spread=0.0)
        return runs_needed(
            *pair, level=level, power=power, comparisons=many, shared=(spread, prior)
        )

    def is_open(self, needed: RunsNeeded) -> bool:
        """Whether more runs are needed; a spread that is as good as none says nothing about it."""
        return needed.runs is None or needed.runs > len(self.field.names)


def runs_for_best(field: Cases, tied: Sequence[str]) -> dict[str, RunsNeeded]:
    """How many runs would separate the best from those that are tied with it, the nearest first."""
    if not tied or not _are_alike(field):
        return {}
    observed = _Observed(field)
    return {n: d for n, d in _of_best(observed, tied).items() if observed.is_open(d)}


def _are_alike(field: Cases) -> bool:
    """Whether further runs can be trained that are independent of these and like them.

    Not on the same folds or splits; and nobody finds as many other conditions.
    """
    is_free = field.units.are_independent
    has_spread = len(field.names) >= FEWEST_FOR_T  # two runs do not show how far runs differ
    return field.are_runs and not field.are_conditions and is_free and has_spread


def power_claims(field: Cases, found: Mapping[str, RunsNeeded], word: str) -> list[Claim]:
    """Tell how many runs, which are called by a `word`, would separate the best from others."""
    if not found:
        return []
    first, *others = found
    best = field.detectors[0]
    now = f"{count(len(field.names), word)} so far"
    if found[first].runs is None and not found[first].spread:
        equal = [name for name, own in found.items() if own.runs is None and not own.spread]
        every = f"these {len(field.detectors)} detectors"
        pair = every if len(equal) == len(field.detectors) - 1 > 1 else f"{best} from {first}"
        text = f"No number of {several(word)} would separate {pair}: they agree "
        text += f"{field.preposition} every {word}."
        return [Claim(text, "undecided", now)]
    parts = [f"Separating {best} from {first} would take {_said(found[first], word)} like these"]
    known = [name for name in others if found[name].spread]
    shown, rest = known[: SHOWN - 1], known[SHOWN - 1 :]
    parts += [f"from {name} {_said(found[name], word)}" for name in shown]
    if rest:
        ends = [_said(pick((found[n] for n in rest), key=_length), word) for pick in (min, max)]
        many = rest[0] if len(rest) == 1 else count(len(rest), "more detector")
        parts.append(f"from {many} {_from_to(*ends)}")
    evidence = f"{now}; for {100 * POWER:.0f}% power at the observed difference and spread"
    if found[first].low:
        evidence += f", 95% confidence interval for {first} {_range(found[first])}"
    return [Claim(f"{'; '.join(parts)}.", "undecided", evidence)]


def _of_best(observed: _Observed, tied: Sequence[str]) -> dict[str, RunsNeeded]:
    """Runs that would separate the best from each that is tied with it.

    As the leaderboard judges it: one of them by itself, one-sided, for all comparisons; or all of
    them together, each by a plain test, with power enough that all are found.
    """
    best, *others = observed.field.detectors
    many = len(others)
    if len(tied) == many:  # nobody is behind yet: some pair must differ first
        many *= 1 + len(others)
    each = 1.0 - (1.0 - POWER) / len(tied)
    together = max((observed.needed(best, name, power=each) for name in tied), key=_length)
    alone = {n: observed.needed(best, n, level=2 * LEVEL - 1, many=many) for n in tied}
    return {
        name: together if _length(together) < _length(own) else own for name, own in alone.items()
    }


def _length(needed: RunsNeeded) -> float:
    return math.inf if needed.runs is None else needed.runs


def runs_for_ours(field: Cases, ours: str, word: str) -> dict[str, str]:
    """How many runs, which are called by a `word`, would separate a detector from each other."""
    if not ours or not _are_alike(field):
        return {}
    observed, others = _Observed(field), [name for name in field.detectors if name != ours]
    found = {name: observed.needed(ours, name, many=len(others)) for name in others}
    return {
        name: _said(needed, word)
        for name, needed in found.items()
        if needed.spread and observed.is_open(needed)
    }


def in_short(
    found: Mapping[str, RunsNeeded], best: str, tied: Sequence[str], case: str
) -> list[str]:
    """Say how many runs would separate the best from the nearest of the others, if it is known."""
    if not found:
        return []
    name, needed = next(iter(found.items()))
    if needed.runs is None or not needed.spread:
        return []
    pair = "them" if len(tied) == 1 else f"{best} from {name}"
    return [f"Separating {pair} would take {_said(needed, case)} like these."]


def _said(needed: RunsNeeded, case: str) -> str:
    """Say about how many: a few runs tell their number to two digits at best."""
    if needed.runs is None or needed.runs > _MOST:
        return f"more than {_MOST:,} {several(case)}"
    return f"about {float(f'{needed.runs:.2g}'):.0f} {several(case)}"


def _from_to(least: str, most: str) -> str:
    """Write a range of numbers of runs.

    >>> _from_to("about 9 runs", "about 30 runs"), _from_to("about 9 runs", "about 9 runs")
    ('about 9 to 30 runs', 'about 9 runs')
    """
    if least == most:
        return least
    return f"{least.rsplit(' ', 1)[0]} to {most.removeprefix('about ')}"


def _range(needed: RunsNeeded) -> str:
    return (
        f"{needed.low:,} or more" if needed.high is None else f"{needed.low:,} to {needed.high:,}"
    )
