"""Words that every kind of report shares: verdicts with sign and colour, themes, titles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oodometer.finding import THEMES, Claim, Theme, Verdict

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


THEME_TITLES: dict[Theme, str] = {
    "leads": "Who leads",
    "changes": "What changes it",
    "explains": "What explains it",
    "missing": "What is missing",
}


@dataclass(frozen=True)
class ThemeView:
    """The claims of one theme; those that only repeat that something is open stand together."""

    title: str
    claims: tuple[Claim, ...]
    folded: tuple[Claim, ...]

    @property
    def verdicts(self) -> list[tuple[Verdict, int]]:
        """How many claims of each verdict there are."""
        return tally((*self.claims, *self.folded))


def by_theme(claims: Sequence[Claim]) -> list[ThemeView]:
    """Group claims by what they are about; claims of one theme alone get no title.

    Of several undecided claims only the first of a theme is shown, if it comes first there.
    """
    groups = {theme: [claim for claim in claims if claim.theme == theme] for theme in THEMES}
    own = {theme: group for theme, group in groups.items() if group}
    views = []
    for theme, group in own.items():
        open_ = [claim for claim in group[1:] if claim.verdict == "undecided"]
        folded = tuple(open_) if len(open_) > 1 else ()
        shown = tuple(claim for claim in group if not any(claim is other for other in folded))
        views.append(ThemeView(THEME_TITLES[theme] if len(own) > 1 else "", shown, folded))
    return views


def tally(claims: Iterable[Claim]) -> list[tuple[Verdict, int]]:
    """Count the verdicts that occur, in the order of `BADGES`."""
    counts = Counter(claim.verdict for claim in claims)
    return [(verdict, counts[verdict]) for verdict in BADGES if counts[verdict]]
