"""Who is best where, how surely, and whether it is the same everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from oodometer.finding import Claim, Verdict
from oodometer.protocols.common.words import SHOWN, SIGNIFICANT, listing, points_and_p
from oodometer.stats.comparison import Difference, against_best, over_families

K = TypeVar("K", bound=Hashable)

# What a change of the winner comes to that is not beyond chance.
WITHIN_CHANCE = ", which is not significant"
NO_REPEATS = "; without repeated runs this cannot be separated from retraining noise"


@dataclass(frozen=True, eq=False)
class Contest:
    """The order at one place, best first, and how far the first is ahead of every other."""

    place: str
    order: tuple[str, ...]
    values: Mapping[str, float]  # the smaller, the better
    leads: Mapping[str, Difference]  # other against first, with adjusted p values

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
        """All that cannot be told from the first."""
        return tuple(name for name, lead in self.leads.items() if lead.p_value >= SIGNIFICANT)

    def surely(self, name: str, other: str) -> bool:
        """Whether `name` is first here, and beyond chance ahead of `other`."""
        return name == self.first and other in self.leads and other not in self.tied


def contests(
    places: Mapping[K, Mapping[str, float]],
    compare: Callable[[K, str, str], Difference],
    called: Callable[[K], str] = str,
) -> list[Contest]:
    """Hold contests: place -> name -> value, and `compare(place, other, first)`.

    P values are adjusted for all pairs at a place, because the first was chosen by its results,
    and for the number of places; `called` says how a place is called.
    """
    held = []
    for place, values in places.items():
        order = tuple(sorted(values, key=values.__getitem__))  # stable: ties keep their order
        leads = {other: compare(place, other, order[0]) for other in order[1:]}
        held.append(Contest(called(place), order, values, leads))
    within = [against_best([lead.p_value for lead in one.leads.values()]) for one in held]
    return [
        replace(
            contest,
            leads={
                name: lead._replace(p_value=float(p))
                for (name, lead), p in zip(contest.leads.items(), adjusted, strict=True)
            },
        )
        for contest, adjusted in zip(held, over_families(within), strict=True)
    ]


def comparisons(places: Mapping[K, Mapping[str, float]]) -> int:
    """By how much p values of these contests may be multiplied: all pairs at all places."""
    return sum(len(values) * (len(values) - 1) // 2 for values in places.values())


def judge(held: Sequence[Contest]) -> Verdict:
    """Whether the same one wins all contests.

    It holds if one is beyond chance ahead of everybody everywhere. It flips if beyond chance one
    is ahead of another here, and behind it there. Anything else is undecided.
    """
    if any(
        here.surely(here.first, there.first) and there.surely(there.first, here.first)
        for here in held
        for there in held
        if here.first != there.first
    ):
        return "flips"
    alone = len({contest.first for contest in held}) == 1
    decided = all(contest.leads and not contest.tied for contest in held)
    return "holds" if held and alone and decided else "undecided"


def told_flips(held: Mapping[str, Sequence[Contest]]) -> list[Claim]:
    """Name what changes the best detector beyond chance: factor -> a contest at each level."""
    told = []
    for factor, own in held.items():
        if judge(own) != "flips":
            continue
        firsts: dict[str, list[Contest]] = {}
        for contest in own:
            firsts.setdefault(contest.first, []).append(contest)
        named = [
            f"{name} with {listing([contest.place for contest in where][:SHOWN])}"
            for name, where in list(firsts.items())[:SHOWN]
        ]
        shown = [
            f"{here.place}: {points_and_p(_turned(here.leads[there.first]))} for {here.first} "
            f"against {there.first}"
            for here in own
            for there in own
            if here.surely(here.first, there.first) and there.surely(there.first, here.first)
        ]
        text = f"Which detector is best depends on the {factor}: {'; '.join(named)}."
        told.append(Claim(text, "flips", "; ".join(list(dict.fromkeys(shown))[:SHOWN])))
    return told


def _turned(lead: Difference) -> Difference:
    """First less other, of other less first."""
    return lead._replace(value=-lead.value, low=-lead.high, high=-lead.low)
