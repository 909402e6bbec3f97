"""A choice under label noise: early or last checkpoint, clean or noisy data for the set-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from oodometer.finding import Claim, Value, Verdict
from oodometer.metrics.counts import Floats
from oodometer.protocols.differences import (
    REPEATS,
    paired_difference,
    paired_differences,
    points_between,
)
from oodometer.protocols.label_noise_field import NoiseField
from oodometer.protocols.words import SIGNIFICANT, count
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


def find_choices(field: NoiseField, rng: np.random.Generator) -> list[Choice]:
    """What a choice between two levels changes: early or last checkpoint, clean or noisy set-up."""
    found = []
    for factor in field.others:
        levels = list(dict.fromkeys(field.frame[factor]))
        if len(levels) != 2 or factor in REPEATS or factor == "id":
            continue
        one, other = levels
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
                paired_differences(moved, rng),
                paired_difference(*means, 1, rng) if len(means[0]) else None,
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


def claim_choice(choice: Choice) -> Claim:
    """Which of two levels is better where labels are noisy."""
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
