"""What the classifier's errors tell, in sentences: failures against outliers, and accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oodometer.finding import Claim, Verdict
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cells import mean_of_known
from oodometer.protocols.common.comparisons import Comparison, compare_all, judge, number_of_pairs
from oodometer.protocols.common.differences import (
    FEWEST_FOR_T,
    one_way,
    paired_differences,
    significant,
)
from oodometer.protocols.common.families import Asked, about_comparisons, about_differences
from oodometer.protocols.common.words import LEVEL, count, number, p_equals, points_and_p
from oodometer.protocols.label_noise.cases import NoiseCases
from oodometer.protocols.label_noise.choices import compared
from oodometer.protocols.label_noise.words import area
from oodometer.stats.agreement import Correlation, spearman, tau_b
from oodometer.stats.comparison import Difference, adjusted
from oodometer.stats.paired import t_test

FEWEST_FOR_CORRELATION = 4  # training runs


def _by_question(
    cases: NoiseCases, one: str, other: str, families: int, rng: np.random.Generator
) -> dict[str, Difference]:
    """Two questions to the same detector in the same training runs."""
    rows = zip(cases.detectors, *cases.both(one, other), strict=True)
    pairs = {name: cases.known_pairs(first, second) for name, first, second in rows}
    return paired_differences(pairs, rng, families=families)


def _overall(
    cases: NoiseCases, one: str, other: str, families: int, rng: np.random.Generator
) -> float:
    """The p-value of two questions to all detectors at once, by their mean in each training run."""
    first, second = (mean_of_known(values) for values in cases.both(one, other))
    return compared(cases.known_pairs(first, second), 2 * families, rng).p_value


def ask_errors(cases: NoiseCases, families: int, rng: np.random.Generator) -> list[Asked]:
    """How much of the loss is the classifier's own errors?"""
    if not {"correct_auroc", "incorrect_auroc"} <= set(cases.questions):
        return []
    found = _by_question(cases, "correct_auroc", "incorrect_auroc", families, rng)
    overall = _overall(cases, "correct_auroc", "incorrect_auroc", families, rng)
    return about_differences(found, lambda differences: _tell_errors(cases, differences), overall)


def _tell_errors(cases: NoiseCases, found: Mapping[str, Difference]) -> list[Claim]:
    better, worse = significant(found)
    correct, incorrect = (
        number(float(np.nanmedian(cases.by_training_run(name))))
        for name in ("correct_auroc", "incorrect_auroc")
    )
    verdict: Verdict = "undecided"
    if better and worse:
        verdict = "flips"
    elif len(better) == len(found):
        verdict = "holds"
    opposite = f" and worse by {len(worse)}" if worse else ""
    least = min(found, key=lambda name: found[name].value)
    return [
        Claim(
            f"Outliers are separated from correctly classified samples ({area(cases)} {correct}) "
            f"significantly better than from misclassified ones ({incorrect}) by {len(better)} of "
            f"{count(len(found), 'detector')}{opposite}.",
            verdict,
            f"paired {cases.case}s, Holm; least for {least}: {points_and_p(found[least])}",
            leaves_open="whether outliers are separated worse from misclassified samples",
        )
    ]


def ask_failure(cases: NoiseCases, families: int, rng: np.random.Generator) -> list[Asked]:
    """Is a detector of outliers a better detector of errors, and is it the same that is best?"""
    if "failure_auroc" not in cases.questions:
        return []
    found = _by_question(cases, "failure_auroc", "auroc", families, rng)
    overall = _overall(cases, "failure_auroc", "auroc", families, rng)
    better = about_differences(
        found, lambda differences: _tell_failure(cases, differences), overall
    )
    return [*better, *_ask_finder(cases, families, rng)]


def _tell_failure(cases: NoiseCases, found: Mapping[str, Difference]) -> list[Claim]:
    failure, outliers = significant(found)
    widest = max(found, key=lambda name: abs(found[name].value))
    return [
        Claim(
            f"{len(failure)} of {count(len(found), 'detector')} detect the classifier's errors "
            f"significantly better than outliers, and {len(outliers)} detect outliers better.",
            one_way(failure, outliers),
            f"failure − OOD AUROC in the same {cases.case}s, Holm; largest for {widest}: "
            f"{points_and_p(found[widest])}",
            leaves_open="whether the classifier's errors are detected better than outliers",
        )
    ]


def _ask_finder(cases: NoiseCases, families: int, rng: np.random.Generator) -> list[Asked]:
    """Is the best detector of outliers the best of errors, too?"""
    tables = dict(zip(("outliers", "errors"), cases.both("auroc", "failure_auroc"), strict=True))
    means = {task: cases.units.mean_of_known(values) for task, values in tables.items()}
    rows = {name: r for r, name in enumerate(cases.detectors) if np.isfinite(means["errors"][r])}
    if len(rows) < 2:
        return []
    places = {
        task: {name: -float(means[task][row]) for name, row in rows.items()} for task in tables
    }
    many = number_of_pairs(places) * families

    def compare(task: str, other: str, first: str) -> Difference:
        one, two = (tables[task][rows[name]] for name in (other, first))
        return compared(cases.known_pairs(one, two), many, rng)

    ranked = list(rows.values())
    agreement = tau_b(means["outliers"][ranked], means["errors"][ranked])
    return about_comparisons(
        compare_all(places, compare), lambda comparisons: _tell_finder(comparisons, agreement)
    )


def _tell_finder(comparisons: Sequence[Comparison], agreement: Correlation) -> list[Claim]:
    best, finder = (comparison.first for comparison in comparisons)
    verdict = judge(comparisons)
    text = (
        f"{best} is the best both at outliers and at the classifier's own errors"
        if best == finder
        else f"The best detector of outliers is {best}, the best of the classifier's own errors "
        f"{finder}"
    )
    if verdict == "undecided":
        text += ", but the leads are not significant"
    evidence = "the orders cannot be compared"
    if agreement.value is not None:
        evidence = f"Kendall's tau between the two orders {agreement.value:.2f} "
        evidence += f"[{agreement.low:.2f}, {agreement.high:.2f}]"
    leaves_open = f"who is best at errors (here {finder}, at outliers {best})"
    return [Claim(f"{text}.", verdict, evidence, leaves_open=leaves_open)]


def ask_accuracy(cases: NoiseCases) -> list[Asked]:
    """Does accuracy predict how well detectors work?"""
    if not cases.has_accuracy:
        return []
    areas = np.where(np.isnan(cases.training_accuracy), np.nan, cases.by_training_run("auroc"))
    rows = zip(cases.detectors, areas, strict=True)
    found = {name: correlation(cases, row) for name, row in rows}
    defined = {name: r for name, r in found.items() if r is not None}
    overall = correlation(cases, mean_of_known(areas))
    return about_differences(
        adjusted(defined),
        lambda correlations: _tell_accuracy(cases, correlations),
        None if overall is None else overall.p_value,
    )


def correlation(cases: NoiseCases, values: Floats) -> Difference | None:
    """Spearman's correlation of accuracy with values by training run; None where undefined.

    Where data sets are the cases, or training runs share splits, the mean of the correlations
    within each, by Student's t: sets that are easy for classifier and detector alike tell nothing
    about better classifiers.
    """
    within = []
    for own in cases.blocks:
        pairs = np.array([cases.training_accuracy[own], values[own]])
        whole = pairs[:, ~np.isnan(pairs).any(axis=0)]
        if whole.shape[1] >= FEWEST_FOR_CORRELATION:
            within.append(spearman(*whole))
    defined = [r for r in within if r.value is not None]
    if len(cases.blocks) == 1:
        return next((Difference(r.value or 0.0, r.low, r.high, r.p_value) for r in defined), None)
    if len(defined) < FEWEST_FOR_T:
        return None
    each = np.array([r.value for r in defined], dtype=np.float64)
    mean = t_test(each, np.zeros_like(each), level=LEVEL)
    return Difference(mean.value, max(-1.0, mean.low), min(1.0, mean.high), mean.p_value)


def _tell_accuracy(cases: NoiseCases, found: Mapping[str, Difference]) -> list[Claim]:
    more, less = significant(found)
    opposite = f", and {len(less)} worse" if less else ""
    strongest = max(found, key=lambda name: abs(found[name].value))
    value, low, high, p_value, *_ = found[strongest]
    over = "training runs, within data sets" if cases.are_data_sets else "training runs"
    return [
        Claim(
            f"On more accurate classifiers, {len(more)} of {count(len(found), 'detector')} detect "
            f"outliers significantly better{opposite}.",
            one_way(more, less),
            f"Spearman's correlation of accuracy and {area(cases)} over {over}; strongest: "
            f"{strongest}, {value:.2f} [{low:.2f}, {high:.2f}], adjusted {p_equals(p_value)}",
            leaves_open="whether detectors work better on more accurate classifiers",
        )
    ]
