"""What do noisy training labels do to detectors, and to conclusions about them?

Humblot-Renaux et al. 2024, "A noisy elephant in the room": AUROC of ID, correct and misclassified
samples against outliers, and of failures, by type and rate of the noise; medians over outlier sets;
almost stochastic order between settings and between methods.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Finding
from oodometer.protocols.common.words import SIGNIFICANT, listing, missing_lines
from oodometer.protocols.label_noise.choices import find_choices
from oodometer.protocols.label_noise.claims import claims
from oodometer.protocols.label_noise.field import QUESTIONS, NoiseField, noise_field, of_scores
from oodometer.protocols.label_noise.views import (
    best_case_tables,
    choice_table,
    correlation_table,
    curves,
    failure_table,
    kind_table,
    median_tables,
    order_table,
    question_table,
    setting_orders,
    setting_table,
)
from oodometer.results import Results
from oodometer.scores import ScoreTable
from oodometer.stats.order import THRESHOLD


def label_noise(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Compare detectors under the label noise of a study's factor label_noise."""
    return label_noise_of(of_scores(table), rng, runs=len(table.runs))


def label_noise_of(
    tables: Mapping[str, Results],
    rng: np.random.Generator,
    *,
    noise: str | None = None,
    runs: int | None = None,
) -> Finding:
    """The same, of results tables by metric; `noise` names the factor that holds the labels.

    `runs` is how many there should be, by default those that have a value.
    """
    field = noise_field(tables, noise)
    if len(field.levels) < 2:
        raise UserError(f"All runs have the same {field.noise}: {field.levels[0]}.")
    orders = setting_orders(field, rng)
    choices = find_choices(field, rng)
    views = (
        *median_tables(field),
        *best_case_tables(field),
        kind_table(field),
        question_table(field),
        failure_table(field, rng),
        correlation_table(field),
        setting_table(field, orders),
        order_table(field, rng),
        *(choice_table(field, choice) for choice in choices),
    )
    told = claims(field, orders, choices, rng)
    return Finding(
        protocol="label_noise",
        title="What do noisy labels do to the detectors?",
        question="Does a detector that is good on a classifier trained on clean labels stay good?",
        claims=told,
        tables=tuple(view for view in views if view is not None),
        series=tuple(curves(field, rng)),
        caveats=_caveats(field),
        missing=missing_lines(tables["auroc"].missing, runs or field.runs),
        facts=(
            ("kinds of labels", str(len(field.levels))),
            ("trainings", str(len(field.trainings.drop_duplicates([field.noise, *field.trained])))),
            ("detectors", str(len(field.detectors))),
            ("outlier sets", str(field.sets)),
        ),
    )


def _caveats(field: NoiseField) -> tuple[str, ...]:
    caveats = [
        "Each run counts by its median over the outlier sets, unless a table says mean; the best "
        "case is that of the most fortunate run.",
        "Almost stochastic order (ASO) is corrected for the number of comparisons by Bonferroni's "
        f"rule and judged at {THRESHOLD}; it asks whether nearly all trainings are better, not "
        "whether the mean is. What is claimed rests on paired tests.",
        "P values are adjusted by Holm's rule within each question, and a question is answered "
        "only if there is something to find, by Holm's rule for the number of questions, too: if "
        f"noise did nothing at all, any claim would hold on {100 * SIGNIFICANT:.0f} of 100 such "
        "pages at most. Intervals are for one comparison at a time.",
    ]
    looks = [name for name in field.others if name not in field.trained]
    if looks:
        caveats.append(
            f"Runs that differ in {listing(looks)} alone are looks at one training: tests, "
            "intervals and ASO take their mean as one case."
        )
    if field.clean is None:
        caveats.append(
            f"No level of {field.noise} is known to be without noise, so nothing is compared with "
            "clean labels."
        )
    absent = [QUESTIONS[name] for name in QUESTIONS if name not in field.questions]
    if absent:
        caveats.append(
            f"Not answered, for want of knowing the classifier's errors: {listing(absent)}."
        )
    return tuple(caveats)
