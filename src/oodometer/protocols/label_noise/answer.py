"""The answer about noisy labels in the words of somebody who was asked: what do they cost?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oodometer.protocols.common.comparisons import Comparison, flip_claims, judge
from oodometer.protocols.common.differences import significant
from oodometer.protocols.common.words import (
    SHOWN,
    SIGNIFICANT,
    count,
    hundredths,
    in_all,
    listing,
    points,
)
from oodometer.protocols.label_noise.cases import MEAN, NoiseCases
from oodometer.protocols.label_noise.words import (
    any_of_kinds,
    area,
    by_median,
    kinds_of_noise,
    labels,
)
from oodometer.stats.comparison import Difference


def say_noise(cases: NoiseCases, losses: Mapping[str, float], mean: Difference, many: int) -> str:
    """What several kinds of noise cost on average, and whom least."""
    kinds = f"over {kinds_of_noise(cases)}"
    cost = "cost" if mean.value >= 0 else "gain"
    if mean.p_value >= SIGNIFICANT:
        return (
            f"Noisy labels {cost} {points(abs(mean.value))} of {area(cases)} here on average "
            f"{kinds}, which is not significant with {count(many, cases.case)}."
        )
    text = f"Noisy labels {cost} {points(abs(mean.value))} of {area(cases)} on average {kinds}"
    if len(losses) < 2 or mean.value < 0:
        return f"{text}."
    most, least = (pick(losses, key=losses.__getitem__) for pick in (max, min))
    return (
        f"{text}: {least} loses least here ({hundredths(losses[least])}), {most} most "
        f"({hundredths(losses[most])})."
    )


def say_drop(cases: NoiseCases, found: Mapping[tuple[str, str], Difference]) -> str:
    """Who loses with the only kind of noise."""
    ((level, _), *_), losses = found, {name: own for (_, name), own in found.items()}
    worse, better = significant(losses)
    most = max(losses, key=lambda name: losses[name].value)
    here = f"{most} loses most here, {points(losses[most].value)}"
    if losses[most].value <= 0:
        here = "no detector loses here"
    if not worse and not better:
        runs = len(cases.at(most, level))
        return (
            f"Whether {labels(cases, level)} cost anything is not settled by "
            f"{count(runs, 'pair')} of {cases.case}s: {here}."
        )
    parts = [
        f"the {area(cases)} {in_all(len(own), len(losses), 'detector', preposition='of')} is "
        f"significantly {way}"
        for own, way in ((worse, "lower"), (better, "higher"))
        if own
    ]
    return f"With {labels(cases, level)}, {listing(parts)}; {here}."


def say_winner(cases: NoiseCases, comparisons: Sequence[Comparison]) -> str:
    """Whether another detector is best with other labels."""
    verdict = judge(comparisons)
    where: dict[str, list[str]] = {}
    for comparison in comparisons:
        where.setdefault(comparison.first, []).append(comparison.context)
    best, by = next(iter(where)), f"By {area(cases)}, " if cases.sets > 1 else ""
    if verdict == "holds":
        return f"{by}{best} is the best whatever the labels{_by_mean(cases, best)}."
    if verdict == "flips":
        (claim,) = flip_claims({cases.noise: comparisons})
        return by_median(cases, claim.text)
    unsure = sum(bool(comparison.tied) for comparison in comparisons)
    kinds = f"with {any_of_kinds(cases, unsure, len(comparisons))}"
    if len(where) == 1:
        text = f"{best} stays first whatever the labels, but its lead is not significant {kinds}"
        return f"{by}{text}{_by_mean(cases, best)}."
    named = listing(list(where)) if len(where) < SHOWN else f"{len(where)} detectors"
    turns = f"{named} take turns as the best{' by median AUROC' * (cases.sets > 1)}"
    return f"{turns}, but the leads are not significant {kinds}."


def _by_mean(cases: NoiseCases, best: str) -> str:
    """Name who is best by the mean over outlier sets, which ranks detectors, if it is another."""
    if cases.sets < 3:  # of two sets the mean is the median
        return ""
    means = cases.mean(cases.by_training_run(MEAN))
    first = cases.detectors[int(np.nanargmax(means))]
    return "" if first == best else f"; by the mean over outlier sets, {first} leads"
