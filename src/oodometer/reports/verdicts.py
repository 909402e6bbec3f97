"""Words that every kind of report shares: verdicts with sign and colour, titles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from oodometer.finding import Claim, Verdict

READING_TITLE = "How the data were read"


@dataclass(frozen=True)
class Badge:
    """A verdict as readers see it; a sign and a word besides the colour."""

    label: str
    plural: str  # as in "3 hold"
    sign: str
    colour: str  # on a terminal
    meaning: str


BADGES: dict[Verdict, Badge] = {
    "holds": Badge("stable", "stable", "✓", "green", "the data support it (5% level)"),
    "flips": Badge("unstable", "unstable", "⇄", "red", "depends on what was varied"),
    "warning": Badge(
        "warning", "warnings", "!", "red", "may invalidate results on this outlier set"
    ),
    "undecided": Badge("undecided", "undecided", "?", "yellow", "the data do not settle it"),
}


def tally(claims: Iterable[Claim]) -> list[tuple[Verdict, int]]:
    """Count the verdicts that occur, in the order of `BADGES`."""
    counts = Counter(claim.verdict for claim in claims)
    return [(verdict, counts[verdict]) for verdict in BADGES if counts[verdict]]
