"""What one factor does to the order of detectors and to their values, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oodometer.finding import Claim, Verdict
from oodometer.metrics import Estimate
from oodometer.protocols.common.comparisons import NO_REPEATS, NOT_SIGNIFICANT
from oodometer.protocols.common.words import (
    FEWEST,
    LEVEL,
    SIGNIFICANT,
    count,
    hundredths,
    in_all,
    listing,
    never_otherwise,
    points,
    spelled,
)
from oodometer.protocols.instability.comparisons import is_decided, winner_flips
from oodometer.protocols.instability.spreads import Spread

NO_LEAD = ", but not every lead is significant"
ONE_BY_ONE = ", taken one by one"  # the mean over them, of which the ranking speaks, may be steady


@dataclass(frozen=True, eq=False)
class FactorEffect:
    """What one factor does, on every outlier set, and on the mean over data sets if it is known."""

    parts: Sequence[Spread]  # by outlier set
    overall: Sequence[Spread]  # the mean over data sets; the same parts where there is none
    ours: str = ""  # the detector that was declared in advance

    @property
    def factor(self) -> str:
        """Its name."""
        return self.parts[0].factor

    @cached_property
    def on_sets(self) -> OrderChange:
        """Who is best on each outlier set."""
        return OrderChange(self.parts, self.ours)

    @cached_property
    def order(self) -> OrderChange:
        """What is told of the order of all detectors."""
        return self.on_sets if self.overall is self.parts else OrderChange(self.overall, self.ours)

    @cached_property
    def move(self) -> Move:
        """Who is moved farthest."""
        return farthest(self.overall)

    def claims(self) -> list[Claim]:
        """All that can be said."""
        other = [] if self.order is self.on_sets else [_claim_winner(self.on_sets)]
        nothing = _claim_nothing_changes(self.order)
        order = [nothing] if nothing else [_claim_winner(self.order), _claim_pairs(self.order)]
        return [*order, _claim_farthest(self.move), *other]


@dataclass(frozen=True, eq=False)
class OrderChange:
    """Who takes turns while one factor changes and nothing else does."""

    parts: Sequence[Spread]
    ours: str = ""

    @cached_property
    def _turned(self) -> bool:
        """Whether the winner changes with the condition significantly."""
        return self.parts[0].is_condition and winner_flips(self.parts)

    @cached_property
    def winners(self) -> Mapping[str, Sequence[str]]:
        """Outlier set -> the detectors that take turns as the best there."""
        return {part.set: part.changing_winners for part in self.parts if part.changing_winners}

    @cached_property
    def flips(self) -> Mapping[str, int]:
        """Outlier set -> how many pairs of detectors change places."""
        return {part.set: part.flips[0] for part in self.parts}

    @property
    def pairs(self) -> int:
        """All pairs of detectors."""
        return self.parts[0].flips[1]

    @cached_property
    def best(self) -> str:
        """The detector that is the best in all runs on all sets; empty if there is none."""
        always = [
            {name for name, ranks in zip(part.detectors, part.order, strict=True)
             if (ranks == part.order.min(axis=0)).all()}
            for part in self.parts
        ]  # fmt: skip
        common = set.intersection(*always)
        return common.pop() if len(common) == 1 else ""

    @cached_property
    def fewest(self) -> Spread:
        """The set with the fewest runs: what is said of all sets rests on no more."""
        return min(self.parts, key=lambda part: (part.training_runs, part.runs))

    @property
    def where(self) -> str:
        """Say on which sets the best detector changes."""
        if len(self.parts) == 1:
            return on_mean(self.parts)
        sets = in_all(len(self.winners), len(self.parts), self.parts[0].set_word, preposition="on")
        return f" {sets}{ONE_BY_ONE}"

    def _unchanged(self, *, any_two: bool) -> tuple[Verdict, str]:
        """Judge that the best detector, or the order of any two, never changes, with the doubt.

        As in the ranking: "never" takes five cases and significant leads. Repeats that the same
        detector wins are as many cases as there are, not one fewer; runs that share a split are
        one case.
        """
        cases = min(
            min(
                part.training_runs if self.best and part.kind == "repeat" else part.changes,
                part.independent_runs,
            )
            for part in self.parts
        )
        decided = all(
            is_decided(part, self.best, self.ours, any_two=any_two) for part in self.parts
        )
        verdict = never_otherwise(0, cases, decided=decided)
        return verdict, NO_LEAD if cases >= FEWEST and not decided else ""

    @cached_property
    def of_winner(self) -> tuple[Verdict, str]:
        """Judge the change of the best detector, or that there is none; with what it is due to."""
        due = self._due_to_the_factor if self.winners else self._unchanged
        return due(any_two=False)

    @cached_property
    def of_pairs(self) -> tuple[Verdict, str]:
        """The same of any two detectors."""
        due = self._due_to_the_factor if any(self.flips.values()) else self._unchanged
        return due(any_two=True)

    def _due_to_the_factor(self, *, any_two: bool) -> tuple[Verdict, str]:
        """Judge a change that was seen, and say what it may be due to if not to the factor.

        Under another condition the network was trained anew, which changes the order by itself: it
        is due to the factor only if one detector is significantly ahead at one level, and another
        at another: the best ones, or any two, by p-values that are multiplied by the number of all
        pairs, levels, contexts and outlier sets.
        """
        if not self.parts[0].is_condition:
            return "flips", ""
        places = sum(len(part.places) for part in self.parts)
        if not places:
            return "undecided", NO_REPEATS
        if self._turned:
            return "flips", ""
        chance = SIGNIFICANT / (self.pairs * places)
        if any_two and any(part.significantly_flipped(chance).any() for part in self.parts):
            return "flips", ""
        return "undecided", NOT_SIGNIFICANT


@dataclass(frozen=True, eq=False)
class Move:
    """The set on which a detector is moved farthest, and that detector."""

    part: Spread
    far: int  # row of the detector that is moved farthest there
    near: int  # and of the one that is moved least
    sets: str  # on how many sets was looked
    spreads: int  # of detectors on sets, from which these were picked
    pairs: int  # of detectors on one set: the same

    @property
    def level(self) -> float:
        """Of intervals of standard deviations, which allow for all of them."""
        return 1.0 - (1.0 - LEVEL) / self.spreads

    @cached_property
    def is_sure(self) -> bool:
        """Whether intervals of both deviations are apart, and by more than rounding hides."""
        one, other = (self.deviations[row] for row in (self.far, self.near))
        if one is None or other is None or not other.value:  # equal values have no interval
            return False
        values = self.part.values
        steps = np.diff(np.sort(values, axis=None))
        hidden = steps[steps > 1e-9 * np.abs(values).max()].min(initial=np.inf)
        return bool(one.low > max(other.high, hidden))

    @cached_property
    def deviations(self) -> Mapping[int, Estimate | None]:
        """Standard deviations of the two, by row, with intervals.

        They hold for values that are nearly normal. Where both do not differ by a test that needs
        no such values, the larger one's reaches down to the other's.
        """
        found = {row: self.part.deviation(row, self.level) for row in (self.far, self.near)}
        one, other = found[self.far], found[self.near]
        if one is not None and other is not None and self.far != self.near:
            chance = self.pairs * self.part.deviations_p_value(self.far, self.near)
            if chance >= SIGNIFICANT and other.value:
                found[self.far] = one._replace(low=min(one.low, other.high))
        return found

    @property
    def farthest(self) -> float:
        """How far the one is moved."""
        return float(self.part.deltas[self.far])

    @property
    def alike(self) -> bool:
        """Whether all detectors are moved as far."""
        nearest = float(self.part.deltas[self.near])
        return len(self.part.detectors) > 1 and bool(np.isclose(self.farthest, nearest))

    @property
    def moved(self) -> str:
        """Who is moved farthest."""
        return "every detector" if self.alike else self.part.detectors[self.far]

    @property
    def by(self) -> str:
        """How far, and where."""
        unit = "points of" if self.part.is_share else "in"
        return f"{amount(self.part, self.farthest)} {unit} {self.part.metric} on {self.part.set}"

    @property
    def accuracy(self) -> str:
        """How far the accuracy moves, where it is known."""
        if self.part.accuracy is None:
            return ""
        return points(self.part.largest_move(self.part.accuracy))


def farthest(parts: Sequence[Spread]) -> Move:
    """Find who is moved farthest, and where."""
    part = max(parts, key=lambda part: (round(float(part.deltas.max()), 12), part.set))
    # Of equal ones the last by name, however lines were sorted.
    ordered = sorted(
        range(len(part.detectors)),
        key=lambda row: (round(float(part.deltas[row]), 12), part.detectors[row]),
    )
    near, far = ordered[0], ordered[-1]
    counts = [len(part.detectors) for part in parts]
    pairs = sum(count * (count - 1) // 2 for count in counts)
    return Move(part, far, near, _sets(parts), sum(counts), pairs)


def _claim_nothing_changes(order: OrderChange) -> Claim | None:
    """One claim where too few runs show nothing at all: neither the best nor any pair changes."""
    if order.winners or any(order.flips.values()) or order.of_winner != ("undecided", ""):
        return None
    factor = order.parts[0].factor
    return Claim(
        f"Changing only the {factor} changes neither the best detector nor {_any_order(order)}"
        f"{on_mean(order.parts)} in these {order.fewest.tried}, which are too few to say that it "
        "never does.",
        "undecided",
        _extent(order),
        leaves_open=f"whether the {factor} changes the order (here it does not)",
    )


def _extent(order: OrderChange) -> str:
    parts, tried = order.parts, order.fewest.tried
    if parts[0].is_mean:
        return f"{_sets(parts)}, {tried}"
    least = "at least " * (len({part.tried for part in parts}) > 1)
    return f"{_sets(parts)}, {least}{tried} on each"


def _claim_winner(order: OrderChange) -> Claim:
    """Does the best detector stay the best, if this factor changes and nothing else does?"""
    parts, (verdict, doubt) = order.parts, order.of_winner
    factor = parts[0].factor
    if not order.winners:
        text = f"Changing only the {factor} never changes the best detector{on_mean(parts)}"
        if verdict == "undecided":
            text += doubt or f", but {order.fewest.tried} are too few to be sure"
        leaves_open = f"whether the {factor} changes the best detector (here it does not)"
        return Claim(f"{text}.", verdict, _extent(order), leaves_open=leaves_open)
    evidence = spelled(
        [
            f"{name}: {listing(winners if len(winners) <= 5 else [*winners[:5], 'others'])}"
            for name, winners in order.winners.items()
        ],
        6,
    )
    text = f"Changing only the {factor} changes the best detector{order.where}{doubt}."
    here = f"here{order.where.removesuffix(ONE_BY_ONE) or ' it does'}"
    where = f" on a single {parts[0].set_word}" if len(parts) > 1 else ""
    leaves_open = f"whether the {factor} changes the best detector{where} ({here})"
    return Claim(text, verdict, evidence, leaves_open=leaves_open)


def _any_order(order: OrderChange) -> str:
    pairs = f"any of {order.pairs} pairs" if order.pairs > 1 else "the two detectors"
    return f"the order of {pairs}"


def _claim_pairs(order: OrderChange) -> Claim:
    """How many pairs of detectors change places?"""
    flips = order.flips
    places = list(flips) if len(flips) <= 8 else sorted(flips, key=lambda name: -flips[name])
    by_set = spelled([f"{flips[name]} on {name}" for name in places], 8, ", ")
    most = max(flips.values())
    verdict, doubt = order.of_pairs
    many = f"{f'up to {most}' if most else 'none'} of {order.pairs} pairs of detectors"
    what = f"reverses the order of {many}"
    if order.pairs == 1:
        what = f"{'reverses' if most else 'does not reverse'} the order of the two detectors"
    return Claim(
        f"Changing only the {order.parts[0].factor} {what}{on_mean(order.parts)}{doubt}.",
        verdict,
        f"{by_set}; a pair counts if each is ahead of the other "
        f"{'in' if order.parts[0].run_word == 'run' else 'under'} some {order.parts[0].run_word}",
        leaves_open=f"how many pairs of detectors the {order.parts[0].factor} reverses (here "
        f"{f'up to {most}' if most else 'none'} of {order.pairs})",
    )


def _claim_farthest(move: Move) -> Claim:
    """Which detector is moved farthest, and where?"""
    part, near = move.part, move.near
    if not move.farthest:
        text = f"The {part.factor} moves no detector at all."
        return Claim(text, never_otherwise(0, part.changes), move.sets)
    text = f"The {part.factor} moves {move.moved} by {move.by}"
    if move.far != near and not move.alike:
        text += f", and {part.detectors[near]} by {amount(part, float(part.deltas[near]))}"
        text += "" if move.is_sure else ", which is not significantly less"
    if move.accuracy:
        text += f"; the accuracy by {move.accuracy}"
    evidence = "; ".join(
        f"standard deviation of {part.detectors[row]} {_deviation(part, move.deviations[row])}"
        for row in dict.fromkeys((move.far, near))
    )
    evidence += f"; 95% intervals, adjusted for {move.spreads} standard deviations"
    leaves_open = f"whom the {part.factor} moves farthest (here {move.moved}, by {move.by})"
    verdict: Verdict = "holds" if move.is_sure else "undecided"
    return Claim(f"{text}.", verdict, evidence, leaves_open=leaves_open)


def _sets(parts: Sequence[Spread]) -> str:
    return parts[0].set if on_mean(parts) else count(len(parts), parts[0].set_word)


def on_mean(parts: Sequence[Spread]) -> str:
    """Say that something is about the mean over data sets."""
    return f" on {parts[0].set}" if parts[0].is_mean else ""


def _deviation(part: Spread, spread: Estimate | None) -> str:
    if spread is None:
        return "unknown"
    if not spread.value:
        zero = "0.00 points" if part.is_share else "0"
        return f"{zero}, without an interval because all values are identical"
    value, low, high = (
        _hundredths(end) if part.is_share else f"{end:.3g}"
        for end in (spread.value, spread.low, spread.high)
    )
    return f"{value}{' points' * part.is_share} [{low}, {high}]"


def _hundredths(share: float) -> str:
    """Write a share in hundredths, never 0 for what is more.

    >>> _hundredths(0.0164), _hundredths(0.00004)
    ('1.64', '0.004')
    """
    return f"{100 * share:.2f}" if share >= 1e-3 else f"{100 * share:.2g}"


def amount(part: Spread, value: float) -> str:
    """Write a difference: of shares in hundredths."""
    return hundredths(value) if part.is_share else f"{value:.3g}"
