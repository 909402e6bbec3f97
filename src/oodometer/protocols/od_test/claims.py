"""What OD-test comes to, in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from oodometer.finding import Claim, Verdict, folded, themed
from oodometer.metrics.counts import Floats
from oodometer.metrics.delong import welch_freedom
from oodometer.protocols.common.comparisons import NO_REPEATS, Comparison, compare_all, judge
from oodometer.protocols.common.words import (
    SHOWN,
    SIGNIFICANT,
    count,
    in_all,
    listing,
    number,
    p_equals,
    points,
    points_and_p,
)
from oodometer.protocols.od_test.effects import CHANCE, FEWEST_SETS, Accuracies, Effect, mean_effect
from oodometer.protocols.od_test.experiments import TUNED
from oodometer.stats.comparison import Difference, adjusted

LEAST = 0.0005  # what is not shown as 0.0 points


def claims(accuracies: Accuracies) -> tuple[Claim, ...]:
    """All that can be said about the methods that took part in every experiment."""
    sets = {name for source in accuracies.sources for pair in source.experiments for name in pair}
    return folded(_claims(accuracies), count(len(sets), "outlier set"))


def _claims(accuracies: Accuracies) -> list[Claim]:
    known = accuracies.three[accuracies.methods[0]].known  # else nothing is significant
    return [
        _claim_best(accuracies),
        *themed("changes", _claim_sources(accuracies) if known else ()),
        *themed("explains", [_claim_optimism(accuracies)]),
        *themed("changes", _claim_order(accuracies) if known else ()),
        *themed("changes", _claim_without(accuracies)),
        *themed("explains", _claim_tuning(accuracies)),
        *([_claim_chance(accuracies)] if known else ()),
        *themed("explains", _claim_validation(accuracies) if known else ()),
    ]


def _compared(
    accuracies: Accuracies, effects: Mapping[str, Mapping[str, Effect]]
) -> list[Comparison]:
    """Who has the highest accuracy where; the values of a comparison are better if smaller."""
    return compare_all(
        {place: {n: -own[n].value for n in accuracies.methods} for place, own in effects.items()},
        lambda place, other, first: effects[place][first].minus(effects[place][other]).difference(),
    )


def _claim_best(accuracies: Accuracies) -> Claim:
    (comparison,) = _compared(accuracies, {"all": accuracies.three})
    best = comparison.first
    effect = accuracies.three[best]
    experiments = count(effect.cells.size, "experiment")
    estimate = effect.estimate()
    interval = (
        f"95% confidence interval {number(estimate.low)} to {number(estimate.high)}"
        if estimate
        else f"no interval: fewer than {FEWEST_SETS} outlier sets"
    )
    text = f"on outliers that its threshold was not learned on, {number(effect.value)} over "
    text += f"{experiments}"
    if len(comparison.order) == 1:
        return Claim(f"{best}, the only method, has an accuracy {text}.", "undecided", interval)
    shares = "has" if len(comparison.winners) == 1 else "shares"
    text = f"{best} {shares} the highest accuracy {text}"
    following = comparison.order[1]
    evidence = interval
    if estimate:
        evidence += f"; {best} − {following}: {points_and_p(comparison.leads[following])}"
    evidence += _first_in_runs(accuracies, best)
    verdict = judge([comparison])
    if verdict != "holds":
        tied = comparison.tied
        text += ", but does not differ significantly from "
        text += listing(tied) if len(tied) < SHOWN else count(len(tied), "other method")
    return Claim(f"{text}.", verdict, evidence)


def answer(accuracies: Accuracies) -> str:
    """Say which method to use on outliers that nobody tuned on."""
    (comparison,) = _compared(accuracies, {"all": accuracies.three})
    best, *tied = map(_said, (comparison.first, *comparison.tied))
    value = accuracies.three[comparison.first].value
    where = f"{value:.0%} accurate on outliers that nobody tuned on"
    if len(comparison.order) == 1:
        return f"{best}, the only method, is {where}."
    if not accuracies.three[comparison.first].known:
        return (
            f"{best} is the most accurate here ({value:.0%} on outliers that it was not tuned on), "
            f"but fewer than {FEWEST_SETS} outlier sets cannot say which method is best."
        )
    if judge([comparison]) == "holds":
        return f"Use {best}: {where}, significantly more than every other method."
    if len(tied) < SHOWN:
        return f"Use {listing([best, *tied], 'or')}: not separable; {best} is {where}."
    return f"No clear winner: {best} is {where}, but {len(tied)} others are not separable from it."


def _said(method: str) -> str:
    """A method within a sentence, where commas separate."""
    return f"{method.removesuffix(TUNED)} (tuned)" if method.endswith(TUNED) else method


def _first_in_runs(accuracies: Accuracies, best: str) -> str:
    """In how many training runs the best is best, where one source has several."""
    if len(accuracies.sources) > 1 or len(accuracies.sources[0].runs) < 2:
        return ""
    means = {
        name: accuracies.three[name].outcomes[0].accuracy.mean(axis=1)
        for name in accuracies.methods
    }
    highest = np.max(list(means.values()), axis=0)
    first = int((means[best] >= highest).sum())
    return f"; first {in_all(first, highest.size, 'training run')}"


def _claim_sources(accuracies: Accuracies) -> list[Claim]:
    """Is the same method best on every source?"""
    if len(accuracies.sources) < 2 or len(accuracies.methods) < 2:
        return []
    alone = {source.name: accuracies.on(source).three for source in accuracies.sources}
    comparisons = _compared(accuracies, alone)
    where: dict[str, list[str]] = {}
    for comparison in comparisons:
        where.setdefault(comparison.first, []).append(comparison.context)
    verdict = judge(comparisons)
    if len(where) == 1:
        every = "both" if len(comparisons) == 2 else f"all {len(comparisons)}"
        text = f"{next(iter(where))} has the highest accuracy on {every} sources"
    else:
        text = "Which method has the highest accuracy depends on the source: "
        text += "; ".join(f"{name} on {listing(places)}" for name, places in where.items())
    if verdict == "undecided":
        unsure = sum(bool(comparison.tied) for comparison in comparisons)
        text += f", but its lead is not significant on {unsure} of {len(comparisons)}"
    evidence = "; ".join(
        f"{c.context}: {number(-c.values[c.first])}, next {c.order[1]} "
        f"{number(-c.values[c.order[1]])}"
        for c in comparisons[: 2 * SHOWN]
    )
    return [Claim(f"{text}.", verdict, evidence)]


def _claim_optimism(accuracies: Accuracies) -> Claim:
    """How much higher is the accuracy if the threshold is learned on the outliers of the test?"""
    gaps = {name: accuracies.two[name].minus(accuracies.three[name]) for name in accuracies.methods}
    overall = mean_effect(list(gaps.values())).difference()
    two = float(np.mean([accuracies.two[name].value for name in accuracies.methods]))
    three = float(np.mean([accuracies.three[name].value for name in accuracies.methods]))
    optimistic = "are optimistic" if overall.value >= LEAST else "are not optimistic here"
    text = f"Two data sets {optimistic}: a threshold learned on the tested outlier set gives "
    text += (
        f"{points(abs(overall.value))} {'more' if overall.value >= 0 else 'less'} accuracy than "
    )
    text += "one learned on another set"
    verdict, text = _judged(overall, text)
    worst = max(gaps, key=lambda name: gaps[name].value)
    evidence = f"{number(two)} against {number(three)}, mean over {count(len(gaps), 'method')}: "
    evidence += _interval(overall)
    if len(gaps) > 1:
        evidence += f"; most for {worst}, {points(gaps[worst].value)}"
    leaves_open = f"whether two data sets are optimistic (here by {points(overall.value)})"
    return Claim(f"{text}.", verdict, evidence, leaves_open=leaves_open)


def _judged(difference: Difference, text: str) -> tuple[Verdict, str]:
    """A difference holds if it is significant; else it is undecided."""
    if difference.p_value < SIGNIFICANT:
        return "holds", text
    return "undecided", f"{text}; the difference is not significant"


def _interval(difference: Difference) -> str:
    if difference.low <= -1.0 and difference.high >= 1.0:
        return f"no interval, fewer than {FEWEST_SETS} outlier sets"
    return points_and_p(difference, adjusted=False)


def _claim_order(accuracies: Accuracies) -> list[Claim]:
    """Would two data sets have chosen the same method?"""
    if len(accuracies.methods) < 2:
        return []
    (honest,) = _compared(accuracies, {"three data sets": accuracies.three})
    (optimistic,) = _compared(accuracies, {"two data sets": accuracies.two})
    verdict = judge([honest, optimistic])
    same = honest.first == optimistic.first
    text = (
        f"Two data sets choose the same method as three, {honest.first}"
        if same
        else f"Two data sets choose {optimistic.first}, three choose {honest.first}"
    )
    if verdict == "undecided":
        text += ", but the lead is not significant"
    loss = accuracies.three[honest.first].value - accuracies.three[optimistic.first].value
    evidence = f"with three data sets, the choice of two costs {points(loss)}"
    leaves_open = f"whether two data sets choose the same method (here {optimistic.first})"
    return [Claim(f"{text}.", verdict, evidence, leaves_open=leaves_open)]


def _claim_without(accuracies: Accuracies) -> list[Claim]:
    """Do validation outliers help at all? Against a threshold that accepts 95% of ID."""
    names = [name for name in accuracies.methods if name in accuracies.none]
    if not names:
        return []
    gains = [accuracies.three[name].minus(accuracies.none[name]) for name in names]
    gain = mean_effect(gains).difference()
    moved = "gains" if gain.value >= 0 else "loses"
    text = f"A threshold learned on other outliers {moved} {points(abs(gain.value))} against one "
    text += "that simply accepts 95% of ID data"
    verdict, text = _judged(gain, text)
    better = sum(effect.value > 0 for effect in gains)
    evidence = f"{_interval(gain)}; better for {better} of {count(len(names), 'method')}"
    leaves_open = "whether a threshold learned on other outliers is better than one that accepts "
    leaves_open += f"95% of ID data (here by {points(gain.value)})"
    return [Claim(f"{text}.", verdict, evidence, leaves_open=leaves_open)]


def _claim_tuning(accuracies: Accuracies) -> list[Claim]:
    """Does a setting tuned on one outlier set serve on another?"""
    names = [name for name in accuracies.methods if name + TUNED in accuracies.methods]
    if not names:
        return []
    gains = {n: accuracies.three[n + TUNED].minus(accuracies.three[n]) for n in names}
    gain = mean_effect(list(gains.values())).difference()
    moved = "gains" if gain.value >= 0 else "loses"
    text = f"Tuning the setting on other outliers {moved} {points(abs(gain.value))} against the "
    text += "default"
    verdict, text = _judged(gain, text)
    each = sorted(gains, key=lambda name: -gains[name].value)
    shown = each if len(each) <= SHOWN else [each[0], each[-1]]
    evidence = _interval(gain) + "; " + ", ".join(f"{n} {points(gains[n].value)}" for n in shown)
    leaves_open = f"whether tuning the setting on other outliers helps (here {points(gain.value)})"
    return [Claim(f"{text}.", verdict, evidence, leaves_open=leaves_open)]


def _claim_chance(accuracies: Accuracies) -> Claim:
    """Which methods are not better than chance?"""
    above = adjusted(
        {name: accuracies.three[name].minus(CHANCE).difference() for name in accuracies.methods}
    )
    unsure = [n for n, d in above.items() if d.p_value >= SIGNIFICANT or d.value <= 0]
    every = count(len(above), "method")
    if not unsure:
        weakest = min(above, key=lambda name: above[name].value)
        whom = "Both methods" if len(above) == 2 else f"All {every}"
        text = f"{whom} are" if len(above) > 1 else f"{weakest} is"
        text += " better than chance on outliers that the threshold was not learned on."
        accuracy = number(CHANCE + above[weakest].value)
        return Claim(text, "holds", f"the weakest is {weakest}, {accuracy}")
    who = f"{len(unsure)} of {every}" if len(above) > 1 else unsure[0]
    evidence = ", ".join(f"{n} {number(CHANCE + above[n].value)}" for n in unsure[: 2 * SHOWN])
    verb = "is" if len(unsure) == 1 else "are"
    text = f"{who} {verb} not significantly better than chance on other outlier sets."
    return Claim(text, "undecided", evidence)


def _claim_validation(accuracies: Accuracies) -> list[Claim]:
    """How much depends on which outlier set the threshold was learned on?"""
    gaps = _gaps(mean_effect([accuracies.three[name] for name in accuracies.methods]))
    if not gaps:
        return []
    widest = max(gaps, key=lambda pair: abs(gaps[pair].value))
    gap = gaps[widest]
    best, worst = widest if gap.value >= 0 else widest[::-1]
    wins = int((gap.by_test * np.sign(gap.value) > 0).sum())
    text = f"Learning the threshold on {best} instead of {worst} changes the accuracy by "
    text += f"{points(abs(gap.value))}, mean over methods and the other outlier sets"
    # All pairs count, since the widest gap was looked for.
    p_value = min(1.0, _gap_p_value(gap, accuracies) * len(gaps))
    verdict: Verdict = "holds" if p_value < SIGNIFICANT else "undecided"
    if gap.by_run.size < 2:
        text += NO_REPEATS
    elif verdict == "undecided":
        text += "; the difference is not significant"
    evidence = f"better {in_all(wins, gap.by_test.size, 'test set')}; the widest gap of "
    evidence += f"{count(len(gaps), 'pair')} of validation sets, adjusted {p_equals(p_value)}"
    leaves_open = f"which set to learn the threshold on (here {best}, by {points(abs(gap.value))})"
    return [Claim(f"{text}.", verdict, evidence, leaves_open=leaves_open)]


class _Gap(NamedTuple):
    """Accuracy learned on one set less that on another, always on the same source."""

    value: float
    by_test: Floats  # mean on each test set
    by_run: Floats  # mean of each training run, the sources one after another


def _gaps(effect: Effect) -> dict[tuple[str, str], _Gap]:
    """Gaps between validation sets that meet on at least two test sets."""
    cells: dict[str, dict[tuple[str, str], Floats]] = {}  # validation set -> source, test set
    for source, outcome in zip(effect.sources, effect.outcomes, strict=True):
        for (learn, test), values in zip(source.experiments, outcome.accuracy.T, strict=True):
            cells.setdefault(learn, {})[source.name, test] = values
    gaps = {}
    for one, other in combinations(cells, 2):
        shared = [
            (place, cells[one][place] - cells[other][place])
            for place in cells[one]
            if place in cells[other]
        ]
        tests: dict[str, list[float]] = {}
        runs: dict[str, list[Floats]] = {}
        for (source_name, test), difference in shared:
            tests.setdefault(test, []).append(float(difference.mean()))
            runs.setdefault(source_name, []).append(difference)
        if len(tests) > 1:
            gaps[one, other] = _Gap(
                float(np.mean([difference.mean() for _, difference in shared])),
                np.array([np.mean(parts) for parts in tests.values()]),
                np.concatenate([np.mean(parts, axis=0) for parts in runs.values()]),
            )
    return gaps


def _gap_p_value(gap: _Gap, accuracies: Accuracies) -> float:
    """P-value of a gap: test sets and training runs vary, and so do samples.

    One training run has learned each threshold once, which cannot show how far thresholds vary.
    """
    runs, sets = gap.by_run.size, gap.by_test.size
    if runs < 2:
        return 1.0
    parts = [
        (float(gap.by_test.var(ddof=1)) / sets, sets - 1.0),
        (float(gap.by_run.var(ddof=1)) / runs, runs - 1.0),
    ]
    # Nothing is known better than to one sample.
    floor = float(min(source.samples for source in accuracies.sources)) ** -2.0
    error = math.sqrt(sum(variance for variance, _ in parts) + floor)
    freedom = min(welch_freedom(parts), float(runs - 1 + sets - 1))
    return 2.0 * float(stdtr(freedom, -abs(gap.value) / error))
