"""What noisy labels do to the detectors, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from oodometer.finding import Claim, Theme, themed
from oodometer.protocols.common.comparisons import (
    Comparison,
    compare_all,
    flip_claims,
    judge,
    number_of_pairs,
)
from oodometer.protocols.common.differences import (
    Paired,
    one_way,
    paired_difference,
    paired_differences,
    significant,
)
from oodometer.protocols.common.families import (
    Answers,
    Asked,
    about_comparisons,
    about_differences,
    answers,
)
from oodometer.protocols.common.outer_units import joined
from oodometer.protocols.common.words import (
    SHOWN,
    SIGNIFICANT,
    count,
    few,
    in_all,
    listing,
    number,
    points,
    points_and_p,
    share_of,
    spelled,
)
from oodometer.protocols.label_noise.answer import say_drop, say_noise, say_winner
from oodometer.protocols.label_noise.cases import NoiseCases, mean_pairs
from oodometer.protocols.label_noise.choices import (
    Choice,
    ask_choice,
    compared,
    most_families,
)
from oodometer.protocols.label_noise.errors import ask_accuracy, ask_errors, ask_failure
from oodometer.protocols.label_noise.labels import Labels
from oodometer.protocols.label_noise.words import (
    any_of_kinds,
    area,
    by_median,
    kinds_of_noise,
)
from oodometer.protocols.label_noise.words import labels as labels_of
from oodometer.stats.comparison import Difference
from oodometer.stats.order import THRESHOLD
from oodometer.stats.pairwise import difference as difference_of

Orders = Mapping[tuple[str, str], float]  # level, detector -> almost stochastic order of clean
Kinds = tuple[str, str]  # of noise
SAME_RATE = 0.01  # noise rates that differ by less are the same


def claims(
    cases: NoiseCases, orders: Orders, choices: Sequence[Choice], rng: np.random.Generator
) -> Answers:
    """All that can be said, at one level for the whole page."""
    families = most_families(cases)
    return answers(
        [
            *_about("changes", _ask_noise(cases, families, rng)),
            *_about("changes", _ask_drop(cases, orders, families, rng)),
            *_about("changes", _ask_kinds(cases, families, rng)),
            *_about("changes", _ask_winner(cases, families, rng)),
            *_about("explains", ask_errors(cases, families, rng)),
            *_about("explains", ask_failure(cases, families, rng)),
            *_about("explains", ask_accuracy(cases)),
            *(q for choice in choices for q in _about("changes", ask_choice(cases, choice))),
        ]
    )


def _about(theme: Theme, questions: Sequence[Asked]) -> list[Asked]:
    """Let the claims that answer these questions say what they are about."""

    def told(question: Asked) -> Asked:
        return replace(question, tell=lambda p_values: themed(theme, question.tell(p_values)))

    return [told(question) for question in questions]


def _ask_noise(cases: NoiseCases, families: int, rng: np.random.Generator) -> list[Asked]:
    """What does noise do on average over its kinds and over detectors?"""
    if cases.clean is None or len(cases.noisy) < 2:
        return []
    pairs = {name: cases.with_any_noise(name) for name in cases.detectors}
    known = {name: pair for name, pair in pairs.items() if pair.size}
    if not known:
        return []
    losses = {name: pair.value for name, pair in known.items()}
    mean = paired_difference(mean_pairs(list(known.values())), families, rng)
    many = max(pair.size for pair in known.values())

    def tell(p_values: Sequence[float]) -> list[Claim]:
        return [_tell_noise(cases, losses, mean._replace(p_value=p_values[0]), many)]

    def short(p_values: Sequence[float]) -> str:
        return say_noise(cases, losses, mean._replace(p_value=p_values[0]), many)

    return [Asked([mean.p_value], tell, short=short)]


def _tell_noise(
    cases: NoiseCases, losses: Mapping[str, float], mean: Difference, many: int
) -> Claim:
    sign = 1 if mean.value >= 0 else -1
    moved = [name for name, loss in losses.items() if sign * loss > 0]
    most, least = (pick(losses, key=lambda n: sign * losses[n]) for pick in (max, min))
    here = in_all(len(moved), len(losses), "detector", preposition="of")
    text = (
        f"Over {kinds_of_noise(cases)}, noisy labels {'lower' if sign > 0 else 'raise'} "
        f"the {area(cases)} by {points(abs(mean.value))}, mean over detectors"
    )
    sure = mean.p_value < SIGNIFICANT
    text += "" if sure else ", which is not significant"
    return Claim(
        f"{text}; here that {here}, most of {most} ({points(sign * losses[most])}), "
        f"least of {least} ({points(sign * losses[least])}).",
        "holds" if sure else "undecided",
        f"clean − noisy: {points_and_p(mean)}, by {count(many, cases.case)}",
    )


def _ask_drop(
    cases: NoiseCases, orders: Orders, families: int, rng: np.random.Generator
) -> list[Asked]:
    """Which detectors are worse on classifiers trained on noisy labels?"""
    if cases.clean is None:
        return []
    clean = cases.clean
    found = paired_differences(
        {
            (level, detector): cases.paired(detector, clean, level)
            for level in cases.noisy
            for detector in cases.detectors
        },
        rng,
        families=families,
    )
    means = {level: cases.overall_noise(clean, level) for level in cases.noisy}
    overall = paired_differences(means, rng, families=2 * families)
    least = min((loss.p_value for loss in overall.values()), default=1.0)
    return about_differences(
        found,
        lambda losses: _tell_drop(cases, losses, orders),
        least,
        (lambda losses: say_drop(cases, losses)) if len(cases.noisy) == 1 else None,
    )


def _tell_drop(
    cases: NoiseCases, found: Mapping[tuple[str, str], Difference], orders: Orders
) -> list[Claim]:
    by_level: dict[str, dict[str, Difference]] = {}
    for (level, detector), difference in found.items():
        by_level.setdefault(level, {})[detector] = difference
    if len(by_level) > SHOWN:
        return [_tell_drops(cases, by_level, orders)]
    claims = []
    for level, losses in by_level.items():
        worse, better = significant(losses)
        most = max(losses, key=lambda name: losses[name].value)
        first, way = (better, "higher") if better and not worse else (worse, "lower")
        many = f"{share_of(len(first), len(losses), 'detector')}{_if_few(first, losses)}"
        both = f" and higher for {len(better)}{_if_few(better, losses)}" if better and worse else ""
        dominated = sum(orders.get((level, name), 1.0) < THRESHOLD for name in losses)
        largest = _largest_loss(most, losses[most].value)
        sure = {*worse, *better}
        unsure = ", not significantly" if sure and most not in sure else ""
        # The evidence is about those that the claim is about, those farthest from no effect first.
        shown = sorted(worse or better or [most], key=lambda name: -abs(losses[name].value))
        told = spelled([f"{name}: {points_and_p(losses[name])}" for name in shown], 2)
        claims.append(
            Claim(
                f"With {labels_of(cases, level)}, the {area(cases)} is significantly {way} than "
                f"with clean labels for {many}{both}; here {largest}{unsure}.",
                one_way(worse, better),
                f"{told}; clean is almost stochastically better for {dominated} (ASO below "
                f"{THRESHOLD})",
                leaves_open=f"what {labels_of(cases, level)} cost (here {largest})",
            )
        )
    return claims


def _if_few(names: Sequence[str], all_: Mapping[str, Difference]) -> str:
    """Name them in brackets, unless there are many, or all."""
    if not names or len(names) > SHOWN or len(names) == len(all_):
        return ""
    return f" ({listing(names)})"


def _largest_loss(detector: str, loss: float) -> str:
    """Who loses most, unless all gain.

    >>> _largest_loss("knn", 0.05), _largest_loss("knn", -0.02)
    ('knn loses most, 5.0 points', 'no detector loses; knn gains least, 2.0 points')
    """
    if loss >= 0:
        return f"{detector} loses most, {points(loss)}"
    return f"no detector loses; {detector} gains least, {points(-loss)}"


def _tell_drops(
    cases: NoiseCases, by_level: Mapping[str, Mapping[str, Difference]], orders: Orders
) -> Claim:
    """The same of many kinds of noise, in one sentence."""
    changed = {level: significant(losses) for level, losses in by_level.items()}
    pairs = sum(len(losses) for losses in by_level.values())
    worse, better = (sum(len(pair[side]) for pair in changed.values()) for side in (0, 1))
    level, detector = max(
        ((level, name) for level, losses in by_level.items() for name in losses),
        key=lambda case: by_level[case[0]][case[1]].value,
    )
    least = min(changed, key=lambda name: len(changed[name][0]))
    dominated = sum(order < THRESHOLD for order in orders.values())
    return Claim(
        f"Noisy labels significantly lower the {area(cases)} in {worse} of {pairs} cases (of "
        f"{kinds_of_noise(cases)} and "
        f"{count(len(by_level[level]), 'detector')}) and raise it in {better}; here "
        f"{_largest_loss(detector, by_level[level][detector].value)} with "
        f"{labels_of(cases, level)}.",
        one_way(worse, better),
        f"paired {cases.case}s, Holm over all cases; least often with "
        f"{labels_of(cases, least)}, for "
        f"{len(changed[least][0])} of {len(by_level[least])}; clean is almost stochastically "
        f"better in {dominated} (ASO below {THRESHOLD})",
    )


def _ask_kinds(cases: NoiseCases, families: int, rng: np.random.Generator) -> list[Asked]:
    """Does the kind of noise matter at the same rate?"""
    known = {level: cases.labels(level) for level in cases.noisy}
    pairs: dict[Kinds, list[tuple[str, str]]] = {}
    # In the order of their names: class-conditional, human, pair, uniform.
    for one, other in combinations(sorted(cases.noisy, key=lambda level: known[level].kind), 2):
        kinds = known[one].kind, known[other].kind
        if kinds[0] != kinds[1] and "other" not in kinds and _alike(known[one], known[other]):
            pairs.setdefault(kinds, []).append((one, other))
    values = {}
    for kinds, levels in pairs.items():
        parts = [cases.overall_noise(one, other) for one, other in levels]
        values[kinds] = Paired(
            np.concatenate([part.a for part in parts]),
            np.concatenate([part.b for part in parts]),
            joined([part.units for part in parts]),
        )
    found = paired_differences(values, rng, families=families)
    many = {kinds: pair.size for kinds, pair in values.items()}
    return about_differences(found, lambda differences: _tell_kinds(cases, differences, many))


def _tell_kinds(
    cases: NoiseCases, found: Mapping[Kinds, Difference], many: Mapping[Kinds, int]
) -> list[Claim]:
    claims = []
    for (one, other), difference in found.items():
        better, worse = (one, other) if difference.value >= 0 else (other, one)
        sure = difference.p_value < SIGNIFICANT
        claims.append(
            Claim(
                f"At the same rate, {worse} noise costs {points(abs(difference.value))} of AUROC "
                f"more than {better} noise, mean over detectors"
                + ("." if sure else "; the difference is not significant."),
                "holds" if sure else "undecided",
                f"{one} − {other}: {points_and_p(difference)}, "
                f"{count(many[one, other], 'pair')} of {cases.case}s",
                leaves_open=f"whether {worse} noise costs more than {better} noise",
            )
        )
    return claims


def _alike(one: Labels, other: Labels) -> bool:
    """Whether two kinds of noise have the same rate, as far as it is known."""
    if one.rate is not None and other.rate is not None:
        return abs(one.rate - other.rate) < SAME_RATE
    return one.source is not None and one.source == other.source


def _ask_winner(cases: NoiseCases, families: int, rng: np.random.Generator) -> list[Asked]:
    """Is the best detector the same at every level?

    Where all detectors have all training runs of a level, these decide with the variance that
    detectors share, as in the order itself: three may suffice.
    """
    places = {
        level: {
            name: -float(own.units.mean(own.a))
            for name in cases.detectors
            if (own := cases.with_units(name, level)).size
        }
        for level in cases.levels
    }
    places = {level: known for level, known in places.items() if len(known) > 1}
    if len(places) < 2:
        return []
    many = number_of_pairs(places) * families
    shared = {level: cases.shared_at(level) for level in places}

    def compare(level: str, other: str, first: str) -> Difference:
        pairwise = shared[level]
        if pairwise is not None:
            return difference_of(
                pairwise, *(cases.detectors.index(name) for name in (other, first))
            )
        return compared(cases.versus(other, first, level), many, rng)

    return about_comparisons(
        compare_all(places, compare),
        lambda comparisons: _tell_winner(cases, comparisons),
        lambda comparisons: say_winner(cases, comparisons),
    )


def _tell_winner(cases: NoiseCases, comparisons: Sequence[Comparison]) -> list[Claim]:
    verdict = judge(comparisons)
    if verdict == "flips":
        found = flip_claims({cases.noise: comparisons})
        return [replace(claim, text=by_median(cases, claim.text)) for claim in found]
    evidence = spelled(
        [f"{c.context}: {c.first} {number(-c.values[c.first])}" for c in comparisons], 8
    )
    firsts = list(dict.fromkeys(comparison.first for comparison in comparisons))
    named = few(firsts, "detector")
    text = f"{firsts[0]} has the highest {area(cases)} whatever the labels"
    if len(firsts) > 1:
        text = f"With other labels another detector has the highest {area(cases)}: {named}"
    if verdict == "undecided":
        unsure = sum(bool(comparison.tied) for comparison in comparisons)
        kinds = any_of_kinds(cases, unsure, len(comparisons))
        text += f", but the lead is not significant with {kinds}"
    leaves_open = f"which detector is the best with which labels (here {named})"
    return [Claim(f"{text}.", verdict, evidence, leaves_open=leaves_open)]
