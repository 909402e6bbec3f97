"""Who is best in which context, whether that is significant, and whether it is the same in all."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from oodometer.finding import Claim, Verdict
from oodometer.protocols.common.words import (
    SHOWN,
    SIGNIFICANT,
    count,
    few,
    points_and_p,
    spelled,
)
from oodometer.stats.comparison import Difference, against_best, over_families, with_p_values

K = TypeVar("K", bound=Hashable)

# What is added to the claim that the winner changes.
NOT_SIGNIFICANT = ", which is not significant"
NO_REPEATS = "; without repeated runs this may be chance"


@dataclass(frozen=True, eq=False)
class Comparison:
    """The order in one context, best first, and how far the first is ahead of every other."""

    context: str
    order: tuple[str, ...]
    values: Mapping[str, float]  # the smaller, the better
    leads: Mapping[str, Difference]  # other against first, with adjusted p-values

    @property
    def first(self) -> str:
        """The best, or the first of the best."""
        return self.order[0]

    @property
    def winners(self) -> tuple[str, ...]:
        """All that are as good as the best."""
        best = self.values[self.first]
        return tuple(n for n in self.order if math.isclose(self.values[n], best, rel_tol=1e-9))

    @property
    def tied(self) -> tuple[str, ...]:
        """All that do not differ significantly from the first."""
        return tuple(name for name, lead in self.leads.items() if lead.p_value >= SIGNIFICANT)

    def is_significantly_ahead(self, name: str, other: str) -> bool:
        """Whether `name` is first here, and significantly ahead of `other`."""
        return name == self.first and other in self.leads and other not in self.tied


def compare_all(
    contexts: Mapping[K, Mapping[str, float]],
    compare: Callable[[K, str, str], Difference],
    called: Callable[[K], str] = str,
) -> list[Comparison]:
    """Compare in every context: context -> name -> value, and `compare(context, other, first)`.

    P-values are adjusted for all pairs in a context, because the first was picked from the same
    data, and for the number of contexts; `called` says what readers call a context.
    """
    found = []
    for context, values in contexts.items():
        order = tuple(sorted(values, key=values.__getitem__))  # stable: ties keep their order
        leads = {other: compare(context, other, order[0]) for other in order[1:]}
        found.append(Comparison(called(context), order, values, leads))
    within = [against_best([lead.p_value for lead in one.leads.values()]) for one in found]
    return [
        replace(comparison, leads=with_p_values(comparison.leads, p_values.tolist()))
        for comparison, p_values in zip(found, over_families(within), strict=True)
    ]


def number_of_pairs(contexts: Mapping[K, Mapping[str, float]]) -> int:
    """By how much p-values may be multiplied at most: all pairs in all contexts."""
    return sum(len(values) * (len(values) - 1) // 2 for values in contexts.values())


def judge(comparisons: Sequence[Comparison]) -> Verdict:
    """Whether the same one is first in all comparisons.

    It holds if one is significantly ahead of all others in every context. It flips if one is
    significantly ahead of another in one context, and behind it in another. Anything else is
    undecided.
    """
    if _reversals(comparisons):
        return "flips"
    alone = len({comparison.first for comparison in comparisons}) == 1
    decided = all(comparison.leads and not comparison.tied for comparison in comparisons)
    return "holds" if comparisons and alone and decided else "undecided"


def _reversals(comparisons: Sequence[Comparison]) -> list[tuple[Comparison, Comparison]]:
    """Pairs of contexts, both ways round, in which each first is ahead of the other's first."""
    return [
        (here, there)
        for here in comparisons
        for there in comparisons
        if here.is_significantly_ahead(here.first, there.first)
        and there.is_significantly_ahead(there.first, here.first)
    ]


def flip_claims(comparisons: Mapping[str, Sequence[Comparison]]) -> list[Claim]:
    """Name the factors that significantly change the best detector: factor -> one per level."""
    claims = []
    for factor, own in comparisons.items():
        if judge(own) != "flips":
            continue
        reversals = _reversals(own)
        firsts: dict[str, list[str]] = {}  # of levels where the lead is not significant, none
        for comparison in own:
            if any(comparison is here for here, _ in reversals):
                firsts.setdefault(comparison.first, []).append(comparison.context)
        named = [f"{name} with {few(where, 'level')}" for name, where in firsts.items()]
        if (more := len(named) - SHOWN) > 0:
            named = [*named[:SHOWN], f"{count(more, 'more detector')} with others"]
        shown = [
            f"{here.context}: {points_and_p(_turned(here.leads[there.first]))} for {here.first} "
            f"against {there.first}"
            for here, there in reversals
        ]
        text = f"Which detector is best depends on the {factor}: {'; '.join(named)}."
        claims.append(Claim(text, "flips", spelled([*dict.fromkeys(shown)])))
    return claims


def _turned(lead: Difference) -> Difference:
    """First less other, of other less first."""
    return lead._replace(value=-lead.value, low=-lead.high, high=-lead.low)
