"""Tables and pictures of detectors under label noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from oodometer.finding import Series, Table, TableCell, Value
from oodometer.metrics import Estimate
from oodometer.protocols.label_noise_field import QUESTIONS, NoiseField
from oodometer.protocols.words import LEVEL
from oodometer.stats.agreement import spearman
from oodometer.stats.intervals import runs_interval
from oodometer.stats.order import THRESHOLD, aso_matrix

MANY_DETECTORS = 12  # beyond, a table with a column for each cannot be read


def median_table(field: NoiseField) -> Table:
    """Mean over runs of the median AUROC over outlier sets, a column per kind of labels."""
    return _by_level(
        field,
        "medians",
        "Median AUROC over outlier sets, mean over runs",
        "auroc",
        lambda values: float(values.mean()),
        "Rows in the order of their mean.",
    )


def best_case_table(field: NoiseField) -> Table:
    """The best run of every detector, as supplement Table 2 of the paper has it."""
    return _by_level(
        field,
        "best",
        "Best case: highest mean AUROC over outlier sets of any run",
        "mean auroc",
        lambda values: float(values.max()),
        "What a fortunate choice of network, seed and checkpoint gives. Rows in the order of their "
        "sum.",
    )


def _by_level(
    field: NoiseField,
    name: str,
    title: str,
    question: str,
    reduce: Callable[[NDArray[np.float64]], float],
    note: str,
) -> Table:
    rows: list[tuple[TableCell, ...]] = []
    for detector in field.detectors:
        cells: list[float | None] = []
        for level in field.levels:
            values = field.values(detector, level, question)
            cells.append(reduce(values) if len(values) else None)
        rows.append((detector, *cells))
    rows.sort(key=lambda row: -sum(cell for cell in row[1:] if isinstance(cell, float)))
    return Table(name, title, ("detector", *field.levels), tuple(rows), note)


def question_table(field: NoiseField) -> Table:
    """All questions, a column each, mean over all runs."""
    means = field.frame.groupby("detector", sort=False)[list(field.questions)].mean()
    rows = [
        (
            detector,
            *(None if value != value else float(value) for value in means.loc[detector]),
        )
        for detector in means.index
    ]
    rows.sort(key=lambda row: -(row[1] or 0.0))
    return Table(
        "questions",
        "Four questions to every detector: AUROC, mean over runs",
        ("detector", *(QUESTIONS[name] for name in field.questions)),
        tuple(rows),
        "Medians over outlier sets. The last question is failure detection.",
    )


def correlation_table(field: NoiseField) -> Table | None:
    """Spearman's correlation of accuracy with each question, over all runs."""
    if not field.has_accuracy:
        return None
    rows: list[tuple[TableCell, ...]] = []
    for detector in field.detectors:
        own = field.frame[field.frame["detector"] == detector]
        cells: list[TableCell] = []
        for name in field.questions:
            part = own.dropna(subset=["accuracy", name])
            if len(part) < 4:
                cells.append(None)
                continue
            found = spearman(part["accuracy"].to_numpy(float), part[name].to_numpy(float))
            known = found.value is not None
            cells.append(Estimate(found.value or 0.0, found.low, found.high) if known else None)
        rows.append((detector, *cells))
    return Table(
        "accuracy",
        "Spearman's correlation of the classifier's accuracy with",
        ("detector", *(QUESTIONS[name] for name in field.questions)),
        tuple(rows),
        "Over all runs, with 95 % intervals; missing where values do not vary or runs are few.",
    )


def order_table(field: NoiseField, rng: np.random.Generator) -> Table | None:
    """Almost stochastic order between methods, over all runs."""
    samples = {
        name: field.frame.loc[field.frame["detector"] == name, "auroc"].to_numpy(float)
        for name in field.detectors
    }
    samples = {name: values for name, values in samples.items() if len(values) >= 3}
    if len(samples) < 2:
        return None
    matrix = aso_matrix(list(samples.values()), rng=rng, level=LEVEL)
    wins = (matrix.minimum < THRESHOLD).sum(axis=1)
    order = np.argsort(-wins, kind="stable")
    names = list(samples)
    if len(names) > MANY_DETECTORS:
        losses = (matrix.minimum < THRESHOLD).sum(axis=0)
        return Table(
            "order",
            "Almost stochastic order between detectors, over all runs",
            ("detector", "better than", "worse than"),
            tuple((names[row], int(wins[row]), int(losses[row])) for row in order),
            f"Number of other detectors; epsilon below {THRESHOLD}, corrected for "
            f"{matrix.comparisons} comparisons.",
        )
    return Table(
        "order",
        "Almost stochastic order between detectors, over all runs",
        ("detector", "better than", *(names[column] for column in order)),
        tuple(
            (
                names[row],
                int(wins[row]),
                *(
                    None if row == column else float(matrix.minimum[row, column])
                    for column in order
                ),
            )
            for row in order
        ),
        f"A row is better than a column where the number is below {THRESHOLD}, corrected for "
        f"{matrix.comparisons} comparisons; missing on the diagonal.",
    )


def curves(field: NoiseField, rng: np.random.Generator) -> list[Series]:
    """Median AUROC with interval, a panel per kind of labels."""
    points: list[Mapping[str, Value]] = []
    for level in field.levels:
        for detector in field.detectors:
            values = field.values(detector, level)
            if not len(values):
                continue
            found = runs_interval(values, rng=rng, level=LEVEL, bounds=(0.0, 1.0))
            wide = len(values) < 2  # one run has no interval
            points.append(
                {
                    "label": detector,
                    "group": level,
                    "value": found.value,
                    "low": None if wide else found.low,
                    "high": None if wide else found.high,
                }
            )
    return [
        Series(
            "intervals",
            "noise",
            "Median AUROC by labels",
            f"Median over {field.sets} outlier sets, mean over runs with 95 % interval, for "
            f"{len(field.detectors)} detectors and {len(field.levels)} kinds of labels.",
            "AUROC",
            tuple(points),
        )
    ]
