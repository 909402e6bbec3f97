"""What do noisy training labels do to detectors, and to conclusions about them?

Humblot-Renaux et al. 2024, "A noisy elephant in the room": AUROC of ID, correct and misclassified
samples against outliers, and of failures, by type and rate of the noise; medians over outlier sets;
almost stochastic order between settings and between methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, folded
from oodometer.protocols.common.sources import left_out_claims, retrained, trained_once
from oodometer.protocols.common.words import SIGNIFICANT, count, listing, missing_lines
from oodometer.protocols.label_noise.cases import NoiseCases, noise_cases
from oodometer.protocols.label_noise.choices import find_choices
from oodometer.protocols.label_noise.claims import claims
from oodometer.protocols.label_noise.figures import boxes, curves, order_map
from oodometer.protocols.label_noise.questions import QUESTIONS, of_scores
from oodometer.protocols.label_noise.views import (
    best_case_tables,
    choice_table,
    correlation_table,
    failure_table,
    kind_table,
    loss_table,
    median_tables,
    order_table,
    question_table,
    setting_orders,
    setting_table,
)
from oodometer.protocols.label_noise.words import kind_of_labels
from oodometer.results import Results
from oodometer.scores import ScoreTable
from oodometer.stats.order import THRESHOLD


def label_noise(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Compare detectors under the label noise of a study's factor label_noise."""
    unmoved = trained_once(table)
    table, shared = retrained(table, "Label noise")
    return label_noise_of(
        of_scores(table), rng, runs=len(table.runs), shared=shared, unmoved=unmoved
    )


def label_noise_of(
    tables: Mapping[str, Results],
    rng: np.random.Generator,
    *,
    noise: str | None = None,
    runs: int | None = None,
    shared: Sequence[str] = (),
    unmoved: Sequence[str] = (),
) -> Finding:
    """The same, of results tables by metric; `noise` names the factor that holds the labels.

    `runs` is how many there should be, by default those that have a value. `shared` names detectors
    that were left out because some training runs share their scores; of `unmoved` all do.
    """
    cases = noise_cases(tables, noise)
    if len(cases.levels) < 2:
        raise UserError(f"All runs have the same {cases.noise}: {cases.levels[0]}.")
    orders = setting_orders(cases, rng)
    choices = find_choices(cases, rng)
    views = (
        *median_tables(cases),
        *best_case_tables(cases),
        kind_table(cases),
        loss_table(cases),
        question_table(cases),
        failure_table(cases, rng),
        correlation_table(cases),
        setting_table(cases, orders),
        order := order_table(cases, rng),
        *(choice_table(cases, choice) for choice in choices),
    )
    found = claims(cases, orders, choices, rng)
    return Finding(
        protocol="label_noise",
        title="What do noisy labels do to the detectors?",
        question="Does a detector that is good on a classifier trained on clean labels stay good?",
        claims=(
            *folded(found.claims, count(*_tried(cases))),
            *_unmoved_claims(unmoved, cases),
            *left_out_claims([n for n in shared if n not in unmoved], "What label noise costs"),
        ),
        tables=tuple(view for view in views if view is not None),
        series=(curves(cases), boxes(cases), *order_map(order)),
        caveats=_caveats(cases),
        missing=missing_lines(tables["auroc"].missing, runs or len(cases.runs)),
        facts=(
            (kind_of_labels(cases)[1], str(len(cases.levels))),
            ("training runs", str(len(cases.training_runs))),
            ("detectors", str(len(cases.detectors))),
            ("outlier sets", str(cases.sets)),
        ),
        answer=found.short,
    )


def _tried(cases: NoiseCases) -> tuple[int, str]:
    """How many cases there are, and the word for one."""
    many = len(cases.by_data_set) if cases.are_data_sets else len(cases.training_runs)
    return many, cases.case


def _unmoved_claims(unmoved: Sequence[str], cases: NoiseCases) -> list[Claim]:
    """Name detectors with the same scores whatever the labels: their networks never saw them."""
    if not unmoved:
        return []
    one = len(unmoved) == 1
    text = (
        f"Label noise does not change {listing(unmoved)}, which {'has' if one else 'have'} the "
        f"same scores in all {len(cases.training_runs)} training runs; how far retraining would is "
        "unknown."
    )
    evidence = "a network of its own that was trained once; left out of the other claims"
    return [Claim(text, "undecided", evidence, "missing")]


def _caveats(cases: NoiseCases) -> tuple[str, ...]:
    caveats = ["The best case is the best run."]
    if cases.sets > 1:
        caveats = [
            "Each run is represented by its median over the outlier sets, unless a table says "
            "mean; the best case is the best run."
        ]
    caveats += [
        "Almost stochastic order (ASO) is corrected for the number of comparisons by Bonferroni's "
        f"rule, with a threshold of {THRESHOLD}; it asks whether nearly all training runs are "
        "better, not whether the mean is. Claims are based on paired tests.",
        "P-values are adjusted by Holm's method within each question and over all questions: if "
        f"noise had no effect, at most {100 * SIGNIFICANT:.0f} of 100 such pages would make a "
        "claim. Intervals are adjusted in the same way, so that they agree with the p-values.",
    ]
    if cases.re_evaluations:
        caveats.append(
            f"Runs that differ only in {listing(cases.re_evaluations)} are re-evaluations of the "
            "same training run: tests, intervals and ASO use their mean as one case."
        )
    caveats += cases.units.caveats(len(cases.training_runs))
    if cases.are_data_sets:
        caveats.append(
            "Each data set is one case: training runs are averaged within it, and conclusions are "
            "about other data sets like these."
        )
    if cases.describing:
        caveats.append(
            f"{listing(cases.describing)} describes the noise: its levels are averaged within each "
            f"{cases.noise} and data set."
        )
    if cases.unlabelled:
        caveats.append(
            f"Rows left out because they do not say which labels were used: {cases.unlabelled}."
        )
    if cases.clean is None:
        caveats.append(
            f"No level of {cases.noise} is known to be without noise, so nothing is compared with "
            "clean labels."
        )
    absent = [QUESTIONS[name] for name in QUESTIONS if name not in cases.questions]
    if absent:
        caveats.append(
            f"Not answered, because the classifier's errors are unknown: {listing(absent)}."
        )
    return tuple(caveats)
