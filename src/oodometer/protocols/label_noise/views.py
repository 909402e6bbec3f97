"""Tables and pictures of detectors under label noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oodometer.finding import Series, Table, TableCell, Value
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.words import LEVEL, count
from oodometer.protocols.label_noise.choices import Choice
from oodometer.protocols.label_noise.field import QUESTIONS, NoiseField
from oodometer.stats.agreement import spearman
from oodometer.stats.intervals import runs_interval
from oodometer.stats.order import THRESHOLD, aso, aso_matrix
from oodometer.stats.paired import difference_interval

DOES_NOT_APPLY = "–"
ENOUGH_FOR_ORDER = 3  # trainings at each level, below which almost stochastic order says nothing
MANY_DETECTORS = 12  # beyond, a table with a column for each cannot be read


def median_tables(field: NoiseField) -> list[Table]:
    """AUROC over outlier sets, median and mean; a column per kind of labels."""
    return [
        _by_level(
            field,
            name,
            f"{what} AUROC over outlier sets, mean over runs",
            {d: {level: _mean(field.values(d, level, column)) for level in field.levels}
             for d in field.detectors},
            "Rows in the order of their mean.",
        )
        for name, what, column in (("medians", "Median", "auroc"), ("means", "Mean", "mean auroc"))
        if name == "medians" or field.sets > 2  # of two sets the mean is the median
    ]  # fmt: skip


def best_case_tables(field: NoiseField) -> list[Table]:
    """The best run of every detector: Table 2 of the paper, and of its supplement (mean)."""
    return [
        _by_level(
            field,
            name,
            f"Best case: highest {what} AUROC over outlier sets of any run",
            {d: {level: _highest(field.run_values(d, level, column)) for level in field.levels}
             for d in field.detectors},
            "What a fortunate choice of network, seed and checkpoint gives. Rows in the order of "
            "their sum.",
        )
        for name, what, column in (
            ("best", "mean", "mean auroc"), ("best-median", "median", "auroc")
        )
        if name == "best" or field.sets > 2
    ]  # fmt: skip


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _highest(values: Floats) -> float | None:
    return float(values.max()) if len(values) else None


def _by_level(
    field: NoiseField,
    name: str,
    title: str,
    cells: Mapping[str, Mapping[str, float | None]],
    note: str,
) -> Table:
    rows: list[tuple[TableCell, ...]] = [
        (detector, *(cells[detector][level] for level in field.levels))
        for detector in field.detectors
    ]
    rows.sort(key=lambda row: -sum(cell for cell in row[1:] if isinstance(cell, float)))
    return Table(name, title, ("detector", *field.levels), tuple(rows), note)


def kind_table(field: NoiseField) -> Table:
    """Every kind of labels: its noise, its rate, accuracy, and what it costs over all detectors."""
    rows: list[tuple[TableCell, ...]] = []
    for level in field.levels:
        labels = field.labels(level)
        here = field.trainings[field.trainings[field.noise] == level]
        loss: TableCell = DOES_NOT_APPLY
        if field.clean is not None and level != field.clean:
            clean, noisy = field.overall_noise(field.clean, level)
            loss = _difference(clean, noisy) if len(clean) else None
        rows.append(
            (
                level,
                labels.kind,
                DOES_NOT_APPLY if labels.rate is None else f"{100 * labels.rate:.1f} %",
                *(
                    (_mean(here["accuracy"].dropna().to_numpy(float)),)
                    if field.has_accuracy
                    else ()
                ),
                _mean(here["auroc"].to_numpy(float)),
                loss,
            )
        )
    if field.clean is None:
        rows = [row[:-1] for row in rows]
    columns = ["labels", "noise", "rate", *(["accuracy"] if field.has_accuracy else [])]
    columns += ["AUROC", *(["loss"] if field.clean is not None else [])]
    return Table(
        "kinds",
        "Type and rate of the noise",
        tuple(columns),
        tuple(rows),
        "AUROC: median over outlier sets, mean over runs and detectors. Loss: clean less noisy in "
        "paired trainings, with 95 % interval where there are two. The rate is shown where it is "
        "known.",
    )


def _difference(one: Floats, other: Floats) -> TableCell:
    """Mean of the one less the other with its interval; one case has none."""
    if len(one) < 2:
        return _mean(one - other)
    return difference_interval(one, other, level=LEVEL)


def question_table(field: NoiseField) -> Table:
    """All questions, with clean and with noisy labels: Figure 10 of the supplement."""
    groups = {"": field.levels}
    if field.clean is not None and field.noisy:
        groups = {", clean": (field.clean,), ", noisy": field.noisy}
    columns = {
        f"{QUESTIONS[question]}{told}": field.trainings[field.trainings[field.noise].isin(levels)]
        .groupby("detector", sort=False)[question]
        .mean()
        for question in field.questions
        for told, levels in groups.items()
    }
    rows: list[tuple[TableCell, ...]] = []
    for detector in field.detectors:
        cells = [float(means.get(detector, np.nan)) for means in columns.values()]
        rows.append((detector, *(None if cell != cell else cell for cell in cells)))
    rows.sort(key=lambda row: -(row[1] if isinstance(row[1], float) else 0.0))
    return Table(
        "questions",
        "Four questions to every detector: AUROC, mean over runs",
        ("detector", *columns),
        tuple(rows),
        "Medians over outlier sets. The last question is failure detection.",
    )


def failure_table(field: NoiseField, rng: np.random.Generator) -> Table | None:
    """Failure against OOD detection of every detector: Figure 9 of the supplement."""
    if "failure_auroc" not in field.questions:
        return None
    lines = field.trainings.dropna(subset=["auroc", "failure_auroc"])
    rows: list[tuple[TableCell, ...]] = []
    many = 2 * len(field.detectors)
    for detector, part in lines.groupby("detector", sort=False):
        ood, failure = (part[name].to_numpy(float) for name in ("auroc", "failure_auroc"))
        orders: list[TableCell] = [None, None]
        if len(part) >= ENOUGH_FOR_ORDER:
            orders = [
                aso(a, b, rng=rng, level=LEVEL, comparisons=many)
                for a, b in ((failure, ood), (ood, failure))
            ]
        cells = (_mean(failure), _mean(ood), _difference(failure, ood), *orders)
        rows.append((str(detector), *cells))
    rows.sort(key=lambda row: -_value(row[3]))
    return Table(
        "failure",
        "Finding the classifier's errors against finding outliers",
        ("detector", "failure AUROC", "OOD AUROC", "difference", "ASO failure better",
         "ASO OOD better"),
        tuple(rows),
        f"Over {count(len(lines.drop_duplicates([field.noise, *field.trained])), 'training')}; "
        f"an ASO below {THRESHOLD} says that the one is almost stochastically better.",
    )  # fmt: skip


def _value(cell: TableCell) -> float:
    return cell.value if isinstance(cell, Estimate) else float(cell or 0.0)


def correlation_table(field: NoiseField) -> Table | None:
    """Spearman's correlation of accuracy with each question, over all runs: Figure 7."""
    if not field.has_accuracy:
        return None
    rows: list[tuple[TableCell, ...]] = []
    for detector in field.detectors:
        cells: list[TableCell] = []
        for name in field.questions:
            runs, trainings = (
                frame[frame["detector"] == detector].dropna(subset=["accuracy", name])
                for frame in (field.frame, field.trainings)
            )
            if len(trainings) < 4:
                cells.append(None)
                continue
            value = spearman(runs["accuracy"].to_numpy(float), runs[name].to_numpy(float)).value
            found = spearman(trainings["accuracy"].to_numpy(float), trainings[name].to_numpy(float))
            if value is None or found.value is None:
                cells.append(None)
                continue
            cells.append(Estimate(value, min(value, found.low), max(value, found.high)))
        rows.append((detector, *cells))
    return Table(
        "accuracy",
        "Spearman's correlation of the classifier's accuracy with",
        ("detector", *(QUESTIONS[name] for name in field.questions)),
        tuple(rows),
        "Over all runs, with 95 % intervals from as many cases as there are trainings; missing "
        "where values do not vary or trainings are fewer than 4.",
    )


def setting_orders(field: NoiseField, rng: np.random.Generator) -> dict[tuple[str, str], float]:
    """Almost stochastic order of clean above noisy labels, by level and detector."""
    if field.clean is None:
        return {}
    many = len(field.noisy) * len(field.detectors)
    found = {}
    for level in field.noisy:
        for detector in field.detectors:
            clean, noisy = field.values(detector, field.clean), field.values(detector, level)
            if min(len(clean), len(noisy)) >= ENOUGH_FOR_ORDER:
                found[level, detector] = aso(clean, noisy, rng=rng, level=LEVEL, comparisons=many)
    return found


def setting_table(field: NoiseField, orders: Mapping[tuple[str, str], float]) -> Table | None:
    """Almost stochastic order between settings: clean labels against each kind of noise."""
    if not orders:
        return None
    rows: list[tuple[TableCell, ...]] = [
        (detector, *(orders.get((level, detector)) for level in field.noisy))
        for detector in field.detectors
    ]
    return Table(
        "settings",
        "Almost stochastic order of clean labels above noisy ones",
        ("detector", *field.noisy),
        tuple(rows),
        f"Below {THRESHOLD}, clean is almost stochastically better; corrected for "
        f"{len(field.noisy) * len(field.detectors)} comparisons.",
    )


def choice_table(field: NoiseField, choice: Choice) -> Table:
    """What one choice instead of the other gains every detector: Figure 13 for the set-up."""
    rows: list[tuple[TableCell, ...]] = []
    for detector in field.detectors:
        cells: list[TableCell] = []
        for found in (choice.clean, choice.noisy):
            gain = found.get(detector)
            if gain is None:
                cells.append(0.0 if detector in choice.same else None)
            elif not np.isfinite(gain[:3]).all() or gain.low == gain.high:
                cells.append(gain.value)
            else:
                cells.append(Estimate(*gain[:3]))
        tested = choice.noisy.get(detector)
        cells.append(DOES_NOT_APPLY if tested is None else tested.p_value)
        rows.append((detector, *cells))
    rows.sort(key=lambda row: -_value(row[2]))
    columns = ["detector", "difference, clean labels", "difference, noisy labels", "adjusted p"]
    if field.clean is None:
        columns.pop(1)
        rows = [(row[0], *row[2:]) for row in rows]
    return Table(
        f"choice-{choice.factor}",
        f"Median AUROC with {choice.factor} {choice.one} less that with {choice.other}",
        tuple(columns),
        tuple(rows),
        "Paired trainings, with 95 % intervals where there are two; p values of noisy labels, "
        "adjusted by Holm's rule for these detectors only. 0 without an interval: the scores are "
        "the same.",
    )


def order_table(field: NoiseField, rng: np.random.Generator) -> Table | None:
    """Almost stochastic order between methods, over all trainings."""
    samples = {
        str(name): part["auroc"].dropna().to_numpy(float)
        for name, part in field.trainings.groupby("detector", sort=False)
    }
    samples = {n: values for n, values in samples.items() if len(values) >= ENOUGH_FOR_ORDER}
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
            "Almost stochastic order between detectors, over all trainings",
            ("detector", "better than", "worse than"),
            tuple((names[row], int(wins[row]), int(losses[row])) for row in order),
            f"Number of other detectors; epsilon below {THRESHOLD}, corrected for "
            f"{matrix.comparisons} comparisons.",
        )
    return Table(
        "order",
        "Almost stochastic order between detectors, over all trainings",
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
