"""A choice under label noise: early or last checkpoint, clean or noisy data for the set-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from oodometer.factors import names
from oodometer.finding import Claim, Value, Verdict
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.differences import (
    paired_difference,
    paired_differences,
    points_between,
)
from oodometer.protocols.common.families import Asked, about_differences
from oodometer.protocols.common.words import SIGNIFICANT, count
from oodometer.protocols.label_noise.field import NoiseField
from oodometer.stats.comparison import Difference


class Choice(NamedTuple):
    """A factor with two levels, such as the checkpoint, or what detectors were fitted on."""

    factor: str
    one: Value
    other: Value
    clean: Mapping[str, Difference]  # detector -> one less other with clean labels
    noisy: Mapping[str, Difference]  # the same with noisy ones, adjusted p values
    mean: Difference | None  # over detectors, with noisy labels
    same: tuple[str, ...]  # detectors to which it makes no difference at all


def told_apart(found: Mapping[str, Difference]) -> tuple[list[str], list[str]]:
    """Who gains and who loses beyond chance."""
    sure = {name: d.value for name, d in found.items() if d.p_value < SIGNIFICANT}
    return [n for n, value in sure.items() if value > 0], [n for n, v in sure.items() if v < 0]


def one_way(gain: Sequence[str], loss: Sequence[str]) -> Verdict:
    """Some gain and some lose: it flips; only one of them, beyond chance: it holds."""
    if gain and loss:
        return "flips"
    return "holds" if gain or loss else "undecided"


def most_families(field: NoiseField) -> int:
    """How many families of tests the page may hold: one for each of its questions."""
    asked = [
        field.clean is not None,  # what noise costs
        len(field.noisy) > 1,  # which kind of it
        len(field.detectors) > 1,  # who is best
        "incorrect_auroc" in field.questions,
        "failure_auroc" in field.questions,  # better than at outliers, and who is best at it
        "failure_auroc" in field.questions,
        field.has_accuracy,
    ]
    return max(1, sum(asked) + len(_factors(field)))


def _factors(field: NoiseField) -> dict[str, list[Value]]:
    """Factors with two levels, other than repeats."""
    levels = {name: list(dict.fromkeys(field.frame[name])) for name in field.others}
    repeats = names(field.factors, "repeat")
    return {
        name: own
        for name, own in levels.items()
        if len(own) == 2 and name not in repeats and name != "id"
    }


def find_choices(field: NoiseField, rng: np.random.Generator) -> list[Choice]:
    """What a choice between two levels changes: early or last checkpoint, clean or noisy set-up."""
    found = []
    families = most_families(field)
    for factor, (one, other) in _factors(field).items():
        noisy = _under(field, factor, one, other, field.noisy)
        clean = {} if field.clean is None else _under(field, factor, one, other, (field.clean,))
        same = tuple(
            name
            for name in noisy
            if all((a == b).all() for pairs in (noisy, clean) for a, b in [pairs.get(name, _NONE)])
        )
        moved = {name: pair for name, pair in noisy.items() if name not in same}
        if not noisy:
            continue
        means = field.overall_choice(factor, one, other, field.noisy)
        found.append(
            Choice(
                factor,
                one,
                other,
                paired_differences({n: p for n, p in clean.items() if n not in same}, rng),
                paired_differences(moved, rng, families=families),
                paired_difference(*means, 2 * families, rng) if len(means[0]) else None,
                same,
            )
        )
    return found


_NONE = (np.empty(0), np.empty(0))


def _under(
    field: NoiseField, factor: str, one: Value, other: Value, levels: Sequence[str]
) -> dict[str, tuple[Floats, Floats]]:
    """Values under both levels, of every detector that has some."""
    pairs = {d: field.chosen(d, factor, one, other, levels) for d in field.detectors}
    return {name: pair for name, pair in pairs.items() if len(pair[0])}


def compared(one: Floats, other: Floats, many: int, rng: np.random.Generator) -> Difference:
    """Two detectors in the same trainings, if there are any."""
    if not len(one):  # no training has both
        return Difference(0.0, -1.0, 1.0, 1.0)
    return paired_difference(one, other, many, rng)


def ask_choice(choice: Choice) -> list[Asked]:
    """Which of two levels is better where labels are noisy?"""
    if not choice.noisy:  # it makes no difference to anybody
        return [Asked((), lambda _: [_tell_choice(choice)])]
    return about_differences(
        choice.noisy,
        lambda adjusted: [_tell_choice(choice._replace(noisy=adjusted))],
        None if choice.mean is None else choice.mean.p_value,
    )


def _tell_choice(choice: Choice) -> Claim:
    better, worse = told_apart(choice.noisy)
    turned = len(worse) > len(better)  # the one that is better more often stands first
    if turned:
        better, worse = worse, better
    one, other = (choice.other, choice.one) if turned else (choice.one, choice.other)
    text = f"With noisy labels, {choice.factor} {one} is better than {other} for "
    text += f"{len(better)} of {count(len(choice.noisy), 'detector')}, and worse for {len(worse)}, "
    text += "beyond chance"
    if choice.same:
        text += f"; it makes no difference to {count(len(choice.same), 'other')}"
    evidence = ["paired trainings, Holm"]
    if choice.mean is not None:
        value, low, high, _ = choice.mean
        gain = (-value, -high, -low) if turned else (value, low, high)
        evidence.append(f"mean over all detectors {points_between(*gain)}")
    if choice.clean:
        wins = told_apart(choice.clean)[:: -1 if turned else 1]
        evidence.append(f"with clean labels better for {len(wins[0])}, worse for {len(wins[1])}")
    return Claim(f"{text}.", one_way(better, worse), "; ".join(evidence))
