"""What explains the variance of detectors' values, and how far does each factor move them?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oodometer.errors import UserError
from oodometer.factors import innermost_repeat, names
from oodometer.finding import Claim
from oodometer.protocols.common.cases import Cases
from oodometer.protocols.common.words import (
    FEWEST,
    LEVEL,
    SHOWN,
    hundredths,
    listing,
    number,
    several,
    share_of,
    spelled,
)
from oodometer.stats.crossed import crossed_shares
from oodometer.stats.variance import (
    Effect,
    FactorRange,
    VarianceShares,
    one_at_a_time,
    variance_shares,
)

BOTH = "their combination"  # what single runs do on single sets
HALF = 0.5  # of the variance: a lower end above it explains most
DRAWS = 2  # of shares beyond each end of an interval, at least: they take their time


def shares_of(
    field: Cases,
    rng: np.random.Generator,
    *,
    level: float = LEVEL,
    detectors: Sequence[str] | None = None,
) -> dict[str, VarianceShares]:
    """How much of each detector's variance each factor explains, where the design allows it.

    Re-evaluations of a training run are not repeats of it: taken for repeats, they made the
    optimizer explain 27% where it explained nothing. The mean of each training run counts. If
    nothing but re-evaluations was varied besides repeats, intervals are by leaving out training
    runs, or there are none.
    """
    if not field.are_runs or not field.factors or len(field.run_levels) < 4:
        return {}
    re_evaluated = names(field.factors, "re_evaluation")
    conditions = names(field.factors, "condition")
    varied = names(field.factors)
    values, levels, note = field.run_values, field.run_levels, ""
    if re_evaluated and conditions and field.training_runs.has_re_evaluations:
        values, levels = field.values, field.levels
        varied = names(field.factors, "repeat", "condition")
        note = f"Of the mean of each training run, without the effect of {listing(re_evaluated)}."
    elif re_evaluated:
        note = f"No intervals: runs that differ in {listing(re_evaluated)} are one training run."
    columns = {name: [own[name] for own in levels] for name in varied}
    draws = max(1000, int(2 * DRAWS / (1.0 - level)))
    found = {}
    for detector in field.detectors if detectors is None else detectors:
        row = field.detectors.index(detector)
        try:
            shares = variance_shares(
                values[row], columns, rng=rng, replicate=innermost_repeat(field.factors),
                level=level, resamples=draws,
            )  # fmt: skip
        except UserError:  # the runs form no grid
            continue
        if note:
            shares = shares._replace(notes=(*shares.notes, note))
        if re_evaluated and not conditions:
            shares = _of_re_evaluations(field, row, level) or _without_intervals(shares)
        found[detector] = shares
    return found


def _of_re_evaluations(field: Cases, row: int, level: float) -> VarianceShares | None:
    """Shares of a re-evaluation and of training runs, where all were evaluated in the same ways."""
    factor, *others = names(field.factors, "re_evaluation")
    repeats = names(field.factors, "repeat")
    ways = list(dict.fromkeys(own[factor] for own in field.run_levels))
    if others or not repeats or len(field.names) < FEWEST or len(ways) < 2:
        return None
    values = field.run_values[row]
    known = [
        {field.run_levels[run][factor]: float(values[run]) for run in members}
        for members in field.training_runs.members
    ]
    if any(len(own) < len(ways) for own in known):
        return None
    table = np.array([[own[way] for way in ways] for own in known])
    found = crossed_shares(table, level=level)
    if found is None:
        return None
    share, low, high = found.conditions
    note = f"{' × '.join(repeats)} includes its interaction with {factor}."
    return VarianceShares(
        (Effect((factor,), share, low, high), Effect(repeats, 1.0 - share, 1.0 - high, 1.0 - low)),
        float(table.var()),
        (note,),
    )


def _without_intervals(shares: VarianceShares) -> VarianceShares:
    plain = [effect._replace(low=None, high=None) for effect in shares.effects]
    return shares._replace(effects=tuple(plain))


def set_share_claims(field: Cases) -> list[Claim]:
    """Do values of the best detector differ by the outlier set, or by the run?"""
    own = [values[0] for values in field.sets.values()]
    whole = all(len(values) == len(field.names) for values in own)
    if not field.are_runs or len(own) < 2 or not whole or len(field.names) < FEWEST:
        return []
    found = crossed_shares(np.array(own).T, level=LEVEL)
    if found is None:
        return []
    named = {f"the {field.set_word}": found[0], f"the {field.case}": found[1], BOTH: found[2]}
    first, second, third = sorted(named, key=lambda name: -named[name].value)
    share, low, high = named[first]
    text = (
        f"Of the variance of {field.detectors[0]}'s {field.metric} over {several(field.case)} and "
        f"{field.set_word}s, {first} explains {share:.0%}, {second} {named[second].value:.0%}, "
        f"{third} {named[third].value:.0%}"
    )
    evidence = (
        f"95% confidence interval of the first {low:.0%} to {high:.0%}, for other "
        f"{several(field.case)} and these sets"
    )
    decided = low > HALF and first != BOTH
    if first == BOTH:
        text += "; their combination includes chance"
    elif not decided:
        text += f", but that {first} explains most is not certain"
    return [Claim(f"{text}.", "holds" if decided else "undecided", evidence)]


def ranges_of(field: Cases) -> dict[str, tuple[FactorRange, ...]]:
    """How far each factor alone moves each detector, for designs without a grid."""
    factors = names(field.factors)
    if not field.are_runs or len(factors) < 2:
        return {}
    columns = {name: [levels[name] for levels in field.run_levels] for name in factors}
    level = 1.0 - (1.0 - LEVEL) / len(factors)  # the widest of them is looked for
    replicate = innermost_repeat(field.factors)
    found = {
        detector: one_at_a_time(field.run_values[row], columns, replicate=replicate, level=level)
        for row, detector in enumerate(field.detectors)
    }
    return {detector: ranges for detector, ranges in found.items() if ranges}


def share_claims(
    field: Cases, shares: Mapping[str, VarianceShares], rng: np.random.Generator
) -> list[Claim]:
    """Of which detectors does one factor explain most of the variance?

    It does if the lower end of its share is above one half; intervals allow for all detectors. That
    what is left over for the innermost repeat is most says only that no condition does.
    """
    conditions = names(field.factors, "condition")
    left_over = (innermost_repeat(field.factors),) if conditions else ()
    likely = [name for name in shares if _dominant(shares[name], left_over) is not None]
    level = 1.0 - (1.0 - LEVEL) / max(1, len(shares))
    sure = shares_of(field, rng, level=level, detectors=likely)
    named: dict[str, list[tuple[str, Effect]]] = {}  # factor -> detectors with its share
    for name in likely:
        effect = _dominant(sure[name], left_over)
        if effect is not None:
            named.setdefault(" × ".join(effect.factors), []).append((name, effect))
    if not named:
        return []
    parts: list[str] = []
    for factor, found in sorted(named.items(), key=lambda item: -len(item[1])):
        own = [name for name, _ in found]
        told = listing(own) if len(own) <= SHOWN else share_of(len(own), len(shares), "detector")
        least, most = (f"{pick(e.share for _, e in found):.0%}" for pick in (min, max))
        shown = least if least == most else f"{least} to {most}"
        parts.append(f"{factor} explains most of the variance of {told} ({shown})")
    lows = [effect.low for found in named.values() for _, effect in found if effect.low is not None]
    return [
        Claim(
            f"Over the {several(field.case)}, {'; '.join(parts)}.",
            "holds",
            f"the lower ends of these shares are at least {min(lows):.0%}, by {100 * level:.3g}% "
            f"intervals{_allowing(len(shares))}; see the table of shares",
        )
    ]


def _allowing(detectors: int) -> str:
    return f" that allow for all {detectors} detectors" if detectors > 1 else ""


def _dominant(shares: VarianceShares, left_over: tuple[str | None, ...]) -> Effect | None:
    """The effect that significantly explains more than half of the variance, if there is one."""
    known = [
        effect
        for effect in shares.effects
        if effect.low is not None and effect.low > HALF and effect.factors != left_over
    ]
    return known[0] if known and len(shares.effects) > 1 else None


def range_claims(ranges: Mapping[str, tuple[FactorRange, ...]], *, are_shares: bool) -> list[Claim]:
    """Which factor alone moves the best detector farthest, where there is no grid?"""
    detector = next(iter(ranges), None)
    if detector is None:
        return []
    first, *others = sorted(ranges[detector], key=lambda part: part.low - part.high)
    text = (
        f"Of the factors that change one at a time, {first.factor} moves {detector} farthest: "
        f"{_range(first, are_shares)} from {first.lowest} to {first.highest}."
    )
    told = spelled([f"{part.factor} {_range(part, are_shares)}" for part in others])
    limits = [part.high - part.low if part.most is None else part.most for part in others]
    decided = first.least is not None and bool(limits) and first.least > max(limits)
    return [
        Claim(
            text,
            "holds" if decided else "undecided",
            f"{told or 'no other changes alone'}; ranges, not shares: interactions are "
            "not known without a grid",
        )
    ]


def _range(part: FactorRange, are_shares: bool) -> str:
    """How far a factor moves values: in points, or in their own unit if they are no shares."""
    write = hundredths if are_shares else number
    ends = ""
    if part.least is not None and part.most is not None:
        ends = f" [{write(part.least)}, {write(part.most)}]"
    return f"{write(part.high - part.low)}{' points' if are_shares else ''}{ends}"
