"""What the classifier's errors tell, in sentences: failures against outliers, and accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oodometer.finding import Claim, Verdict
from oodometer.protocols.common.contests import Contest, comparisons, contests, judge
from oodometer.protocols.common.differences import paired_differences
from oodometer.protocols.common.families import Asked, about_contests, about_differences
from oodometer.protocols.common.words import count, number, points_and_p
from oodometer.protocols.label_noise.choices import compared, one_way, told_apart
from oodometer.protocols.label_noise.field import NoiseField
from oodometer.stats.agreement import Correlation, spearman, tau_b
from oodometer.stats.comparison import Difference, holm


def _by_question(
    field: NoiseField, one: str, other: str, families: int, rng: np.random.Generator
) -> dict[str, Difference]:
    """Two questions to the same detector in the same trainings."""
    lines = field.trainings.dropna(subset=[one, other])
    return paired_differences(
        {
            str(name): (part[one].to_numpy(float), part[other].to_numpy(float))
            for name, part in lines.groupby("detector", sort=False)
        },
        rng,
        families=families,
    )


def _overall(
    field: NoiseField, one: str, other: str, families: int, rng: np.random.Generator
) -> float:
    """The p value of two questions to all detectors at once, by their mean in each training."""
    lines = field.trainings.dropna(subset=[one, other])
    means = lines.groupby([field.noise, *field.trained], sort=False)[[one, other]].mean()
    first, second = (means[name].to_numpy(float) for name in (one, other))
    return compared(first, second, 2 * families, rng).p_value


def ask_errors(field: NoiseField, families: int, rng: np.random.Generator) -> list[Asked]:
    """How much of the loss is the classifier's own errors?"""
    if not {"correct_auroc", "incorrect_auroc"} <= set(field.questions):
        return []
    found = _by_question(field, "correct_auroc", "incorrect_auroc", families, rng)
    overall = _overall(field, "correct_auroc", "incorrect_auroc", families, rng)
    return about_differences(found, lambda differences: _tell_errors(field, differences), overall)


def _tell_errors(field: NoiseField, found: Mapping[str, Difference]) -> list[Claim]:
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


def ask_failure(field: NoiseField, families: int, rng: np.random.Generator) -> list[Asked]:
    """Is a detector of outliers a better detector of errors, and is it the same that is best?"""
    if "failure_auroc" not in field.questions:
        return []
    found = _by_question(field, "failure_auroc", "auroc", families, rng)
    overall = _overall(field, "failure_auroc", "auroc", families, rng)
    better = about_differences(found, _tell_failure, overall)
    return [*better, *_ask_finder(field, families, rng)]


def _tell_failure(found: Mapping[str, Difference]) -> list[Claim]:
    failure, outliers = told_apart(found)
    widest = max(found, key=lambda name: abs(found[name].value))
    return [
        Claim(
            f"Beyond chance, {len(failure)} of {count(len(found), 'detector')} find the "
            f"classifier's errors better than outliers, and {len(outliers)} find outliers better.",
            one_way(failure, outliers),
            f"failure less OOD AUROC in the same trainings, Holm; widest for {widest}: "
            f"{points_and_p(found[widest])}",
        )
    ]


def _ask_finder(field: NoiseField, families: int, rng: np.random.Generator) -> list[Asked]:
    """Is the best detector of outliers the best of errors, too?"""
    lines = field.trainings.dropna(subset=["auroc", "failure_auroc"])
    means = lines.groupby("detector", sort=False)[["auroc", "failure_auroc"]].mean()
    if len(means) < 2:
        return []
    keys = [field.noise, *field.trained]
    tables = {
        "outliers": lines.pivot_table(index=keys, columns="detector", values="auroc"),
        "errors": lines.pivot_table(index=keys, columns="detector", values="failure_auroc"),
    }
    places = {
        place: {str(n): -float(v) for n, v in means[column].items()}
        for place, column in (("outliers", "auroc"), ("errors", "failure_auroc"))
    }
    many = comparisons(places) * families

    def compare(place: str, other: str, first: str) -> Difference:
        both = tables[place][[other, first]].dropna().to_numpy(dtype=float)
        return compared(both[:, 0].copy(), both[:, 1].copy(), many, rng)

    agreement = tau_b(means["auroc"].to_numpy(float), means["failure_auroc"].to_numpy(float))
    return about_contests(contests(places, compare), lambda held: _tell_finder(held, agreement))


def _tell_finder(held: Sequence[Contest], agreement: Correlation) -> list[Claim]:
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
    evidence = "the two orders have nothing to compare"
    if agreement.value is not None:
        evidence = f"Kendall's tau between the two orders {agreement.value:.2f} "
        evidence += f"[{agreement.low:.2f}, {agreement.high:.2f}]"
    return [Claim(f"{text}.", verdict, evidence)]


def ask_accuracy(field: NoiseField) -> list[Asked]:
    """Does accuracy foretell how well detectors work?"""
    if not field.has_accuracy:
        return []
    lines = field.trainings.dropna(subset=["accuracy", "auroc"])
    found = {
        str(name): spearman(part["accuracy"].to_numpy(float), part["auroc"].to_numpy(float))
        for name, part in lines.groupby("detector", sort=False)
        if len(part) > 3
    }
    known = {  # a correlation in the clothes of a difference: value, interval, p value
        name: Difference(r.value, r.low, r.high, r.p_value)
        for name, r in found.items()
        if r.value is not None
    }
    adjusted = holm([r.p_value for r in known.values()])
    within = {
        name: r._replace(p_value=float(p))
        for (name, r), p in zip(known.items(), adjusted, strict=True)
    }
    keys = [field.noise, *field.trained]
    means = lines.groupby(keys, sort=False)[["accuracy", "auroc"]].mean()
    overall = spearman(means["accuracy"].to_numpy(float), means["auroc"].to_numpy(float))
    return about_differences(within, _tell_accuracy, overall.p_value)


def _tell_accuracy(found: Mapping[str, Difference]) -> list[Claim]:
    more, less = told_apart(found)
    opposite = f" and a worse one for {len(less)}" if less else ""
    strongest = max(found, key=lambda name: abs(found[name].value))
    value, low, high, p_value = found[strongest]
    return [
        Claim(
            f"A more accurate classifier is a better ground for {len(more)} of "
            f"{count(len(found), 'detector')}{opposite}, beyond chance.",
            one_way(more, less),
            f"Spearman's correlation of accuracy and median AUROC over trainings; strongest for "
            f"{strongest}, {value:.2f} [{low:.2f}, {high:.2f}], adjusted p = {p_value:.2g}",
        )
    ]
