"""A choice under label noise: early or last checkpoint, clean or noisy data for the set-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from oodometer.factors import names
from oodometer.finding import Claim
from oodometer.protocols.common.differences import (
    Paired,
    one_way,
    paired_difference,
    paired_differences,
    points_between,
    significant,
)
from oodometer.protocols.common.families import Asked, about_differences
from oodometer.protocols.common.words import count, share_of
from oodometer.protocols.label_noise.cases import NoiseCases
from oodometer.stats.comparison import Difference


class Choice(NamedTuple):
    """A factor with two levels, such as the checkpoint, or what detectors were fitted on."""

    factor: str
    one: str
    other: str
    clean: Mapping[str, Difference]  # detector -> one less other with clean labels
    noisy: Mapping[str, Difference]  # the same with noisy ones, adjusted p-values
    mean: Difference | None  # over detectors, with noisy labels
    same: tuple[str, ...]  # detectors to which it makes no difference at all


def most_families(cases: NoiseCases) -> int:
    """How many families of tests the page may hold: one for each of its questions."""
    asked = [
        cases.clean is not None,  # what noise costs
        cases.clean is not None and len(cases.noisy) > 1,  # and on average
        len(cases.noisy) > 1,  # which kind of it
        len(cases.detectors) > 1,  # who is best
        "incorrect_auroc" in cases.questions,
        "failure_auroc" in cases.questions,  # better than at outliers, and who is best at it
        "failure_auroc" in cases.questions,
        cases.has_accuracy,
    ]
    return max(1, sum(asked) + len(_factors(cases)))


def _factors(cases: NoiseCases) -> dict[str, list[str]]:
    """Factors with two levels to choose between."""
    levels = {name: list(dict.fromkeys(run[name] for run in cases.runs)) for name in cases.others}
    choices = names(factor for factor in cases.factors if factor.is_choice)
    return {
        name: own
        for name, own in levels.items()
        if len(own) == 2 and name in choices and name != "id"
    }


def find_choices(cases: NoiseCases, rng: np.random.Generator) -> list[Choice]:
    """What a choice between two levels changes: early or last checkpoint, clean or noisy set-up."""
    found = []
    families = most_families(cases)
    for factor, (one, other) in _factors(cases).items():
        noisy = _under(cases, factor, one, other, cases.noisy)
        clean = {} if cases.clean is None else _under(cases, factor, one, other, (cases.clean,))
        same = tuple(
            name
            for name in noisy
            if all(
                (pair.a == pair.b).all()
                for pairs in (noisy, clean)
                for pair in [pairs.get(name, _NONE)]
            )
        )
        moved = {name: pair for name, pair in noisy.items() if name not in same}
        if not noisy:
            continue
        means = cases.overall_choice(factor, one, other, cases.noisy)
        found.append(
            Choice(
                factor,
                one,
                other,
                paired_differences({n: p for n, p in clean.items() if n not in same}, rng),
                paired_differences(moved, rng, families=families),
                paired_difference(means, 2 * families, rng) if means.size else None,
                same,
            )
        )
    return found


_NONE = Paired(np.empty(0), np.empty(0))


def _under(
    cases: NoiseCases, factor: str, one: str, other: str, levels: Sequence[str]
) -> dict[str, Paired]:
    """Values under both levels, of every detector that has some."""
    pairs = {d: cases.chosen(d, factor, one, other, levels) for d in cases.detectors}
    return {name: pair for name, pair in pairs.items() if pair.size}


def compared(pair: Paired, many: int, rng: np.random.Generator) -> Difference:
    """Two detectors in the same training runs, if there are any."""
    if not pair.size:  # no training run has both
        return Difference(0.0, -1.0, 1.0, 1.0)
    return paired_difference(pair, many, rng)


def ask_choice(cases: NoiseCases, choice: Choice) -> list[Asked]:
    """Which of two levels is better where labels are noisy?"""
    if not choice.noisy:
        none = share_of(0, len(choice.same), "detector")
        text = f"The choice between {choice.factor} {choice.one} and {choice.other} affects {none}."
        evidence = "their values are the same in every pair of training runs"
        claim = Claim(text, "undecided", evidence, leaves_open=_which(choice))
        return [Asked((), lambda _: [claim])]
    return about_differences(
        choice.noisy,
        lambda adjusted: [_tell_choice(cases, choice._replace(noisy=adjusted))],
        None if choice.mean is None else choice.mean.p_value,
    )


def _tell_choice(cases: NoiseCases, choice: Choice) -> Claim:
    better, worse = significant(choice.noisy)
    turned = len(worse) > len(better)  # the one that is better more often stands first
    if turned:
        better, worse = worse, better
    one, other = (choice.other, choice.one) if turned else (choice.one, choice.other)
    text = f"With noisy labels, {choice.factor} {one} is significantly better than {other} for "
    text += f"{len(better)} of {count(len(choice.noisy), 'detector')}, and worse for {len(worse)}"
    if choice.same:
        text += f"; it makes no difference to {count(len(choice.same), 'other')}"
    evidence = [f"paired {cases.case}s, Holm"]
    if choice.mean is not None:
        value, low, high, *_ = choice.mean
        gain = (-value, -high, -low) if turned else (value, low, high)
        evidence.append(f"mean over all detectors {points_between(*gain)}")
    if choice.clean:
        wins = significant(choice.clean)[:: -1 if turned else 1]
        evidence.append(f"with clean labels better for {len(wins[0])}, worse for {len(wins[1])}")
    verdict, told = one_way(better, worse), "; ".join(evidence)
    return Claim(f"{text}.", verdict, told, leaves_open=_which(choice))


def _which(choice: Choice) -> str:
    return f"whether {choice.factor} {choice.one} or {choice.other} is better with noisy labels"
