"""How many runs would it take to tell the best detector from the next?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from oodometer.finding import Claim
from oodometer.protocols.common.cases import Cases
from oodometer.protocols.common.words import LEVEL, count
from oodometer.stats.power import MOST_RUNS, RunsNeeded, runs_needed

POWER = 0.8  # chance to find the observed difference with the runs that are said to be needed


def power_claims(field: Cases, tied: Sequence[str]) -> list[Claim]:
    """How many runs would separate the best from the nearest that is tied with it.

    `tied` are all those, the nearest first.
    """
    if not tied or not field.are_runs:
        return []
    best, rival = field.detectors[0], tied[0]
    needed = _needed(field, tied)
    now = count(len(field.names), "run")
    if needed.runs is not None and needed.runs <= len(field.names):
        return []  # the spread is as good as none, and says nothing about further runs
    if needed.runs is None and not needed.spread:
        text = f"No number of runs would separate {best} from {rival}: they agree in every run."
        return [Claim(text, "undecided", f"{now} so far")]
    if needed.runs is None:
        text = f"Separating {best} from {rival} would take more than {MOST_RUNS:,} runs like "
        text += "these, if they differ as little as here."
        allowed = f"{now} so far; 95% confidence interval {_range(needed)}"
        return [Claim(text, "undecided", allowed if needed.low else f"{now} so far")]
    return [
        Claim(
            f"Separating {best} from {rival} would take about {needed.runs:,} runs like these.",
            "undecided",
            f"{now} so far; for {100 * POWER:.0f}% power at the observed difference and spread, "
            f"95% confidence interval {_range(needed)}",
        )
    ]


def _range(needed: RunsNeeded) -> str:
    return (
        f"{needed.low:,} or more" if needed.high is None else f"{needed.low:,} to {needed.high:,}"
    )


def _needed(field: Cases, tied: Sequence[str]) -> RunsNeeded:
    """Runs that would separate the best from the first of those that are tied with it.

    As `against_best` judges it: either by itself, after those that differ significantly already, of
    all pairs; or together with all that are tied, each at the plain level. Then each needs power
    enough that all are found with the power that is asked for.
    """
    rows = [field.detectors.index(name) for name in tied]
    best, many = field.oriented(0), len(field.detectors)
    told = many - 1 - len(tied)
    alone = runs_needed(
        best, field.oriented(rows[0]), level=LEVEL, power=POWER,
        comparisons=many * (many - 1) // 2 - told,
    )  # fmt: skip
    each = 1.0 - (1.0 - POWER) / len(tied)
    together = [runs_needed(best, field.oriented(r), level=LEVEL, power=each) for r in rows]
    longest = max(together, key=lambda needed: math.inf if needed.runs is None else needed.runs)
    if longest.runs is None or (alone.runs is not None and alone.runs <= longest.runs):
        return alone
    return longest
