"""What noisy labels do to the detectors, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from oodometer.finding import Claim
from oodometer.protocols.common.contests import Contest, comparisons, contests, judge
from oodometer.protocols.common.differences import paired_differences
from oodometer.protocols.common.families import Asked, about_contests, about_differences, answers
from oodometer.protocols.common.words import (
    SHOWN,
    SIGNIFICANT,
    count,
    listing,
    number,
    points,
    points_and_p,
)
from oodometer.protocols.label_noise.choices import (
    Choice,
    ask_choice,
    compared,
    most_families,
    one_way,
    told_apart,
)
from oodometer.protocols.label_noise.errors import ask_accuracy, ask_errors, ask_failure
from oodometer.protocols.label_noise.field import Labels, NoiseField
from oodometer.stats.comparison import Difference
from oodometer.stats.order import THRESHOLD

Orders = Mapping[tuple[str, str], float]  # level, detector -> almost stochastic order of clean
SAME_RATE = 0.01  # noise rates that differ by less are the same


def claims(
    field: NoiseField, orders: Orders, choices: Sequence[Choice], rng: np.random.Generator
) -> tuple[Claim, ...]:
    """All that can be said, at one level for the whole page."""
    families = most_families(field)
    return answers(
        [
            *_ask_drop(field, orders, families, rng),
            *_ask_kinds(field, families, rng),
            *_ask_winner(field, families, rng),
            *ask_errors(field, families, rng),
            *ask_failure(field, families, rng),
            *ask_accuracy(field),
            *(question for choice in choices for question in ask_choice(choice)),
        ]
    )


def _ask_drop(
    field: NoiseField, orders: Orders, families: int, rng: np.random.Generator
) -> list[Asked]:
    """Which detectors are worse on classifiers trained on noisy labels?"""
    if field.clean is None:
        return []
    clean = field.clean
    found = paired_differences(
        {
            f"{level}\n{detector}": field.paired(detector, clean, level)
            for level in field.noisy
            for detector in field.detectors
        },
        rng,
        families=families,
    )
    means = {level: field.overall_noise(clean, level) for level in field.noisy}
    overall = paired_differences(means, rng, families=2 * families)
    least = min((loss.p_value for loss in overall.values()), default=1.0)
    return about_differences(found, lambda losses: _tell_drop(losses, orders), least)


def _tell_drop(found: Mapping[str, Difference], orders: Orders) -> list[Claim]:
    by_level: dict[str, dict[str, Difference]] = {}
    for name, difference in found.items():
        level, _, detector = name.partition("\n")
        by_level.setdefault(level, {})[detector] = difference
    if len(by_level) > SHOWN:
        return [_tell_drops(by_level, orders)]
    told = []
    for level, losses in by_level.items():
        worse, better = told_apart(losses)
        most = max(losses, key=lambda name: losses[name].value)
        gained = f" and higher for {len(better)}" if better else ""
        dominated = sum(orders.get((level, name), 1.0) < THRESHOLD for name in losses)
        told.append(
            Claim(
                f"With {level} labels, the median AUROC is lower than with clean ones for "
                f"{len(worse)} of {count(len(losses), 'detector')}{gained}, beyond chance; here "
                f"{most} loses most, {points(losses[most].value)}.",
                one_way(worse, better),
                f"{most}: {points_and_p(losses[most])}; clean is almost stochastically better for "
                f"{dominated} (ASO below {THRESHOLD})",
            )
        )
    return told


def _tell_drops(by_level: Mapping[str, Mapping[str, Difference]], orders: Orders) -> Claim:
    """The same of many kinds of noise, in one sentence."""
    told = {level: told_apart(losses) for level, losses in by_level.items()}
    cases = sum(len(losses) for losses in by_level.values())
    worse, better = (sum(len(pair[side]) for pair in told.values()) for side in (0, 1))
    level, detector = max(
        ((level, name) for level, losses in by_level.items() for name in losses),
        key=lambda case: by_level[case[0]][case[1]].value,
    )
    least = min(told, key=lambda name: len(told[name][0]))
    dominated = sum(order < THRESHOLD for order in orders.values())
    return Claim(
        f"Noisy labels lower the median AUROC beyond chance in {worse} of {cases} cases (of "
        f"{count(len(by_level), 'kind')} of noise and "
        f"{count(len(by_level[level]), 'detector')}) and raise it in {better}; here {detector} "
        f"loses most, {points(by_level[level][detector].value)} with {level} labels.",
        "flips" if worse and better else "holds" if worse or better else "undecided",
        f"paired trainings, Holm over all cases; least often with {least} labels, for "
        f"{len(told[least][0])} of {len(by_level[least])}; clean is almost stochastically better "
        f"in {dominated} (ASO below {THRESHOLD})",
    )


def _ask_kinds(field: NoiseField, families: int, rng: np.random.Generator) -> list[Asked]:
    """Does the kind of noise matter at the same rate?"""
    known = {level: field.labels(level) for level in field.noisy}
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for one, other in combinations(field.noisy, 2):
        kinds = known[one].kind, known[other].kind
        if kinds[0] == kinds[1] or "other" in kinds or not _alike(known[one], known[other]):
            continue
        in_order = kinds == tuple(sorted(kinds))  # class-conditional, human, pair, uniform
        pairs.setdefault(tuple(sorted(kinds)), []).append(  # type: ignore[arg-type]
            (one, other) if in_order else (other, one)
        )
    cases = {}
    for kinds, levels in pairs.items():
        parts = [field.overall_noise(one, other) for one, other in levels]
        first, second = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        cases["\n".join(kinds)] = first, second
    found = paired_differences(cases, rng, families=families)
    many = {name: len(first) for name, (first, _) in cases.items()}
    return about_differences(found, lambda differences: _tell_kinds(differences, many))


def _tell_kinds(found: Mapping[str, Difference], many: Mapping[str, int]) -> list[Claim]:
    told = []
    for name, difference in found.items():
        one, other = name.split("\n")
        better, worse = (one, other) if difference.value >= 0 else (other, one)
        sure = difference.p_value < SIGNIFICANT
        told.append(
            Claim(
                f"At the same rate, {worse} noise costs {points(abs(difference.value))} of AUROC "
                f"more than {better} noise, mean over detectors"
                + ("." if sure else "; it may be chance."),
                "holds" if sure else "undecided",
                f"{one} − {other}: {points_and_p(difference)}, {count(many[name], 'pair')} of "
                "trainings",
            )
        )
    return told


def _alike(one: Labels, other: Labels) -> bool:
    """Whether two kinds of noise have the same rate, as far as it is known."""
    if one.rate is not None and other.rate is not None:
        return abs(one.rate - other.rate) < SAME_RATE
    return one.source is not None and one.source == other.source


def _ask_winner(field: NoiseField, families: int, rng: np.random.Generator) -> list[Asked]:
    """Is the best detector the same at every level?"""
    places = {
        level: {
            name: -float(values.mean())
            for name in field.detectors
            if len(values := field.values(name, level))
        }
        for level in field.levels
    }
    places = {level: known for level, known in places.items() if len(known) > 1}
    if len(places) < 2:
        return []
    many = comparisons(places) * families

    def compare(level: str, other: str, first: str) -> Difference:
        return compared(*field.versus(other, first, level), many, rng)

    return about_contests(contests(places, compare), _tell_winner)


def _tell_winner(held: Sequence[Contest]) -> list[Claim]:
    verdict = judge(held)
    evidence = "; ".join(f"{c.place}: {c.first} {number(-c.values[c.first])}" for c in held[:8])
    firsts = list(dict.fromkeys(contest.first for contest in held))
    text = (
        f"{firsts[0]} has the highest median AUROC whatever the labels"
        if len(firsts) == 1
        else f"The best detector depends on the labels: {listing(firsts[:5])}"
    )
    if verdict == "undecided":
        unsure = sum(bool(contest.tied) for contest in held)
        text += f", but the lead may be chance with {unsure} of {len(held)} kinds of labels"
    return [Claim(f"{text}.", verdict, evidence)]
