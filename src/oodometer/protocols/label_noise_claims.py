"""What noisy labels do to the detectors, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from oodometer.finding import Claim, Verdict
from oodometer.metrics.counts import Floats
from oodometer.protocols.contests import comparisons, contests, judge
from oodometer.protocols.differences import paired_difference, paired_differences
from oodometer.protocols.label_noise_choices import Choice, claim_choice, one_way, told_apart
from oodometer.protocols.label_noise_field import Labels, NoiseField
from oodometer.protocols.words import (
    LEVEL,
    SHOWN,
    SIGNIFICANT,
    count,
    listing,
    number,
    points,
    points_and_p,
)
from oodometer.stats.agreement import spearman, tau_b
from oodometer.stats.comparison import Difference
from oodometer.stats.order import THRESHOLD

Orders = Mapping[tuple[str, str], float]  # level, detector -> almost stochastic order of clean
SAME_RATE = 0.01  # noise rates that differ by less are the same


def claims(
    field: NoiseField, orders: Orders, choices: Sequence[Choice], rng: np.random.Generator
) -> tuple[Claim, ...]:
    """All that can be said."""
    return (
        *_claim_drop(field, orders, rng),
        *_claim_kinds(field, rng),
        *_claim_winner(field, rng),
        *_claim_errors(field, rng),
        *_claim_failure(field, rng),
        *_claim_accuracy(field),
        *(claim_choice(choice) for choice in choices),
    )


def _claim_drop(field: NoiseField, orders: Orders, rng: np.random.Generator) -> list[Claim]:
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
    )
    by_level: dict[str, dict[str, Difference]] = {}
    for name, difference in found.items():
        level, _, detector = name.partition("\n")
        by_level.setdefault(level, {})[detector] = difference
    if len(by_level) > SHOWN:
        return [_claim_drops(by_level, orders)]
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


def _claim_drops(by_level: Mapping[str, Mapping[str, Difference]], orders: Orders) -> Claim:
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


def _claim_kinds(field: NoiseField, rng: np.random.Generator) -> list[Claim]:
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
    told = []
    for name, difference in paired_differences(cases, rng).items():
        one, other = name.split("\n")
        better, worse = (one, other) if difference.value >= 0 else (other, one)
        sure = difference.p_value < SIGNIFICANT
        told.append(
            Claim(
                f"At the same rate, {worse} noise costs {points(abs(difference.value))} of AUROC "
                f"more than {better} noise, mean over detectors"
                + ("." if sure else "; it may be chance."),
                "holds" if sure else "undecided",
                f"{one} − {other}: {points_and_p(difference)}, {count(len(cases[name][0]), 'pair')}"
                " of trainings",
            )
        )
    return told


def _alike(one: Labels, other: Labels) -> bool:
    """Whether two kinds of noise have the same rate, as far as it is known."""
    if one.rate is not None and other.rate is not None:
        return abs(one.rate - other.rate) < SAME_RATE
    return one.source is not None and one.source == other.source


def _claim_winner(field: NoiseField, rng: np.random.Generator) -> list[Claim]:
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
    many = comparisons(places)

    def compare(level: str, other: str, first: str) -> Difference:
        return _compared(*field.versus(other, first, level), many, rng)

    held = contests(places, compare)
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


def _compared(one: Floats, other: Floats, many: int, rng: np.random.Generator) -> Difference:
    if not len(one):  # no training has both
        return Difference(0.0, -1.0, 1.0, 1.0)
    return paired_difference(one, other, many, rng)


def _by_question(
    field: NoiseField, one: str, other: str, rng: np.random.Generator
) -> dict[str, Difference]:
    """Two questions to the same detector in the same trainings."""
    lines = field.trainings.dropna(subset=[one, other])
    return paired_differences(
        {
            str(name): (part[one].to_numpy(float), part[other].to_numpy(float))
            for name, part in lines.groupby("detector", sort=False)
        },
        rng,
    )


def _claim_errors(field: NoiseField, rng: np.random.Generator) -> list[Claim]:
    """How much of the loss is the classifier's own errors?"""
    if not {"correct_auroc", "incorrect_auroc"} <= set(field.questions):
        return []
    found = _by_question(field, "correct_auroc", "incorrect_auroc", rng)
    if not found:
        return []
    better, worse = told_apart(found)
    both = field.trainings[["correct_auroc", "incorrect_auroc"]].median()
    verdict: Verdict = "undecided"
    if better and worse:
        verdict = "flips"
    elif len(better) == len(found):
        verdict = "holds"
    opposite = f" and worse for {len(worse)}" if worse else ""
    least = min(found, key=lambda name: found[name].value)
    return [
        Claim(
            f"Outliers are told from correctly classified samples (median AUROC "
            f"{number(float(both.iloc[0]))}) better than from misclassified ones "
            f"({number(float(both.iloc[1]))}) beyond chance for {len(better)} of "
            f"{count(len(found), 'detector')}{opposite}.",
            verdict,
            f"paired trainings, Holm; least for {least}: {points_and_p(found[least])}",
        )
    ]


def _claim_failure(field: NoiseField, rng: np.random.Generator) -> list[Claim]:
    """Is a detector of outliers a better detector of errors, and is it the same that is best?"""
    if "failure_auroc" not in field.questions:
        return []
    found = _by_question(field, "failure_auroc", "auroc", rng)
    if not found:
        return []
    failure, outliers = told_apart(found)
    widest = max(found, key=lambda name: abs(found[name].value))
    told = [
        Claim(
            f"Beyond chance, {len(failure)} of {count(len(found), 'detector')} find the "
            f"classifier's errors better than outliers, and {len(outliers)} find outliers better.",
            one_way(failure, outliers),
            f"failure less OOD AUROC in the same trainings, Holm; widest for {widest}: "
            f"{points_and_p(found[widest])}",
        )
    ]
    lines = field.trainings.dropna(subset=["auroc", "failure_auroc"])
    means = lines.groupby("detector", sort=False)[["auroc", "failure_auroc"]].mean()
    if len(means) < 2:
        return told
    keys = [field.noise, *field.trained]
    tables = {
        "outliers": lines.pivot_table(index=keys, columns="detector", values="auroc"),
        "errors": lines.pivot_table(index=keys, columns="detector", values="failure_auroc"),
    }
    places = {
        place: {str(n): -float(v) for n, v in means[column].items()}
        for place, column in (("outliers", "auroc"), ("errors", "failure_auroc"))
    }
    many = comparisons(places)

    def compare(place: str, other: str, first: str) -> Difference:
        both = tables[place][[other, first]].dropna().to_numpy(dtype=float)
        return _compared(both[:, 0].copy(), both[:, 1].copy(), many, rng)

    held = contests(places, compare)
    best, finder = (contest.first for contest in held)
    verdict = judge(held)
    text = (
        f"{best} is the best both at outliers and at the classifier's own errors"
        if best == finder
        else f"The best detector of outliers is {best}, the best of the classifier's own errors "
        f"{finder}"
    )
    if verdict == "undecided":
        text += ", but the leads may be chance"
    agreement = tau_b(means["auroc"].to_numpy(float), means["failure_auroc"].to_numpy(float))
    evidence = "the two orders have nothing to compare"
    if agreement.value is not None:
        evidence = f"Kendall's tau between the two orders {agreement.value:.2f} "
        evidence += f"[{agreement.low:.2f}, {agreement.high:.2f}]"
    return [*told, Claim(f"{text}.", verdict, evidence)]


def _claim_accuracy(field: NoiseField) -> list[Claim]:
    """Does accuracy foretell how well detectors work?"""
    if not field.has_accuracy:
        return []
    lines = field.trainings.dropna(subset=["accuracy"])
    parts = {
        str(name): part for name, part in lines.groupby("detector", sort=False) if len(part) > 3
    }
    level = 1.0 - (1.0 - LEVEL) / max(len(parts), 1)  # Bonferroni's rule
    found = {
        name: spearman(part["accuracy"].to_numpy(float), part["auroc"].to_numpy(float), level=level)
        for name, part in parts.items()
    }
    values = {name: r.value for name, r in found.items() if r.value is not None}
    if not values:
        return []
    more = [name for name in values if found[name].low > 0]
    less = [name for name in values if found[name].high < 0]
    opposite = f" and a worse one for {len(less)}" if less else ""
    strongest = max(values, key=lambda name: abs(values[name]))
    return [
        Claim(
            f"A more accurate classifier is a better ground for {len(more)} of "
            f"{count(len(values), 'detector')}{opposite}, beyond chance.",
            one_way(more, less),
            f"Spearman's correlation of accuracy and median AUROC over trainings, intervals "
            f"corrected for {len(parts)}; strongest for {strongest}, {values[strongest]:.2f} "
            f"[{found[strongest].low:.2f}, {found[strongest].high:.2f}]",
        )
    ]
