"""Tables of detectors under label noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oodometer.finding import Table, TableCell
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cells import mean_of_known
from oodometer.protocols.common.differences import Paired, paired_interval
from oodometer.protocols.common.words import LEVEL, count
from oodometer.protocols.label_noise.cases import MEAN, NoiseCases, known
from oodometer.protocols.label_noise.choices import Choice
from oodometer.protocols.label_noise.errors import FEWEST_FOR_CORRELATION, correlation
from oodometer.protocols.label_noise.questions import QUESTIONS
from oodometer.protocols.label_noise.words import area, kinds_of_noise, over_sets
from oodometer.stats.agreement import spearman
from oodometer.stats.order import THRESHOLD, aso, aso_matrix

DOES_NOT_APPLY = "–"
ENOUGH_FOR_ORDER = (
    3  # training runs at each level, below which almost stochastic order says nothing
)
MANY_DETECTORS = 12  # beyond, a table with a column for each cannot be read


def median_tables(cases: NoiseCases) -> list[Table]:
    """AUROC over outlier sets, median and mean; a column per kind of labels."""
    return [
        _by_level(
            cases,
            name,
            f"{what} AUROC over outlier sets, mean over runs" if cases.sets > 1
            else "AUROC, mean over runs",
            {d: {level: _mean(cases.with_units(d, level, column)) for level in cases.levels}
             for d in cases.detectors},
            "Rows in the order of their mean.",
        )
        for name, what, column in (("medians", "Median", "auroc"), ("means", "Mean", MEAN))
        if name == "medians" or cases.sets > 2  # of two sets the mean is the median
    ]  # fmt: skip


def best_case_tables(cases: NoiseCases) -> list[Table]:
    """The best run of every detector: Table 2 of the paper, and of its supplement (mean)."""
    return [
        _by_level(
            cases,
            name,
            f"Best case: highest {what} AUROC over outlier sets of any run" if cases.sets > 1
            else "Best case: highest AUROC of any run",
            {d: {level: _highest(cases.run_values(d, level, column)) for level in cases.levels}
             for d in cases.detectors},
            "The best choice of network, seed and checkpoint. Rows in the order of their sum.",
        )
        for name, what, column in (
            ("best", "mean", MEAN), ("best-median", "median", "auroc")
        )
        if name == "best" or cases.sets > 2
    ]  # fmt: skip


def _mean(pair: Paired) -> float | None:
    """Mean of the first of two values."""
    return float(pair.units.mean(pair.a)) if pair.size else None


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _means(pair: Paired) -> tuple[float, float]:
    return float(pair.units.mean(pair.a)), float(pair.units.mean(pair.b))


def _highest(values: Floats) -> float | None:
    return float(values.max()) if len(values) else None


def _by_level(
    cases: NoiseCases,
    name: str,
    title: str,
    cells: Mapping[str, Mapping[str, float | None]],
    note: str,
) -> Table:
    rows: list[tuple[TableCell, ...]] = [
        (detector, *(cells[detector][level] for level in cases.levels))
        for detector in cases.detectors
    ]
    rows.sort(key=lambda row: -sum(cell for cell in row[1:] if isinstance(cell, float)))
    return Table(name, title, ("detector", *cases.levels), tuple(rows), note)


def kind_table(cases: NoiseCases) -> Table:
    """Every kind of labels: its noise, its rate, accuracy, and what it costs over all detectors."""
    rows: list[tuple[TableCell, ...]] = []
    for level in cases.levels:
        labels = cases.labels(level)
        areas = cases.by_training_run("auroc")
        scored = np.where(np.isnan(areas).all(axis=0), np.nan, cases.training_accuracy)
        loss: TableCell = DOES_NOT_APPLY
        if cases.clean is not None and level != cases.clean:
            pair = cases.overall_noise(cases.clean, level)
            loss = _difference(pair) if pair.size else None
        rows.append(
            (
                level,
                labels.kind,
                DOES_NOT_APPLY if labels.rate is None else f"{100 * labels.rate:.1f}%",
                *((_known(cases.mean(scored[None], [level])[0]),) if cases.has_accuracy else ()),
                _known(mean_of_known(cases.mean(areas, [level])[:, None])[0]),
                loss,
            )
        )
    if cases.clean is None:
        rows = [row[:-1] for row in rows]
    columns = ["labels", "noise", "rate", *(["accuracy"] if cases.has_accuracy else [])]
    columns += ["AUROC", *(["loss"] if cases.clean is not None else [])]
    return Table(
        "kinds",
        "Type and rate of the noise",
        tuple(columns),
        tuple(rows),
        f"AUROC: {over_sets(cases).lower()} over runs and detectors. Loss: clean − noisy in paired "
        f"{cases.case}s, with its 95% confidence interval if there are at least two. The rate is "
        "shown where it is known.",
    )


def loss_table(cases: NoiseCases) -> Table | None:
    """What noise costs every detector, mean over its kinds within each case."""
    if cases.clean is None or len(cases.noisy) < 2:
        return None
    rows: list[tuple[TableCell, ...]] = []
    for detector in cases.detectors:
        pair = cases.with_any_noise(detector)
        if pair.size:
            rows.append((detector, *_means(pair), _difference(pair)))
    rows.sort(key=lambda row: -_value(row[3]))
    return Table(
        "losses",
        f"{area(cases, begins=True)} with clean and with noisy labels, mean over "
        f"{kinds_of_noise(cases)}",
        ("detector", "clean", "noisy", "loss"),
        tuple(rows),
        f"Loss: clean − noisy in paired {cases.case}s, with its 95% confidence interval if there "
        "are at least two.",
    )


def _difference(pair: Paired) -> TableCell:
    """Mean of the one less the other with its interval; one case has none."""
    found = paired_interval(pair)
    return found if np.isfinite(found).all() else found.value


def question_table(cases: NoiseCases) -> Table:
    """All questions, with clean and with noisy labels: Figure 10 of the supplement."""
    groups = {"": cases.levels}
    if cases.clean is not None and cases.noisy:
        groups = {", clean": (cases.clean,), ", noisy": cases.noisy}
    columns = {
        f"{QUESTIONS[question]}{labels}": [
            _known(mean) for mean in cases.mean(cases.by_training_run(question), levels)
        ]
        for question in cases.questions
        for labels, levels in groups.items()
    }
    rows: list[tuple[TableCell, ...]] = list(zip(cases.detectors, *columns.values(), strict=True))
    rows.sort(key=lambda row: -(row[1] if isinstance(row[1], float) else 0.0))
    notes = [
        "Medians over outlier sets." if cases.sets > 1 else "",
        "The last question is failure detection." if "failure_auroc" in cases.questions else "",
    ]
    return Table(
        "questions",
        "What is told from what: AUROC, mean over runs",
        ("detector", *columns),
        tuple(rows),
        " ".join(note for note in notes if note),
    )


def failure_table(cases: NoiseCases, rng: np.random.Generator) -> Table | None:
    """Failure against OOD detection of every detector: Figure 9 of the supplement."""
    if "failure_auroc" not in cases.questions:
        return None
    areas, failures = cases.both("auroc", "failure_auroc")
    rows: list[tuple[TableCell, ...]] = []
    many = 2 * len(cases.detectors)
    for detector, *both in zip(cases.detectors, areas, failures, strict=True):
        ood, failure = both
        pair = cases.known_pairs(failure, ood)
        if not pair.size:
            continue
        orders: list[TableCell] = [None, None]
        means = [pair.units.means(values) for values in (pair.a, pair.b)]
        if len(means[0]) >= ENOUGH_FOR_ORDER:
            orders = [
                aso(a, b, rng=rng, level=LEVEL, comparisons=many) for a, b in (means, means[::-1])
            ]
        cells = (*_means(pair), _difference(pair), *orders)
        rows.append((detector, *cells))
    rows.sort(key=lambda row: -_value(row[3]))
    return Table(
        "failure",
        "Finding the classifier's errors against finding outliers",
        ("detector", "failure AUROC", "OOD AUROC", "difference", "ASO failure better",
         "ASO OOD better"),
        tuple(rows),
        f"Over {count(int((~np.isnan(areas)).any(axis=0).sum()), cases.case)}; an ASO below "
        f"{THRESHOLD} means almost stochastically better.",
    )  # fmt: skip


def _value(cell: TableCell) -> float:
    return cell.value if isinstance(cell, Estimate) else float(cell or 0.0)


def correlation_table(cases: NoiseCases) -> Table | None:
    """Spearman's correlation of accuracy with each question, over all runs: Figure 7."""
    if not cases.has_accuracy:
        return None
    rows: list[tuple[TableCell, ...]] = []
    for row, detector in enumerate(cases.detectors):
        cells: list[TableCell] = []
        for name in cases.questions:
            found = correlation(cases, cases.by_training_run(name)[row])
            if found is None:
                cells.append(None)
                continue
            value = found.value if len(cases.blocks) > 1 else _by_run(cases, name, row)
            cells.append(Estimate(value, min(value, found.low), max(value, found.high)))
        rows.append((detector, *cells))
    return Table(
        "accuracy",
        "Spearman's correlation of the classifier's accuracy with",
        ("detector", *(QUESTIONS[name] for name in cases.questions)),
        tuple(rows),
        f"Over all runs, with 95% confidence intervals that count {cases.case}s as cases"
        + (", mean of the correlations within them" if len(cases.blocks) > 1 else "")
        + "; missing "
        f"where values do not vary or there are fewer than {FEWEST_FOR_CORRELATION} training runs.",
    )


def _by_run(cases: NoiseCases, question: str, row: int) -> float:
    """The correlation over all runs: re-evaluations of a training run are several."""
    values = cases.values[question][row]
    both = ~np.isnan(cases.accuracy) & ~np.isnan(values)
    return spearman(cases.accuracy[both], values[both]).value or 0.0


def setting_orders(cases: NoiseCases, rng: np.random.Generator) -> dict[tuple[str, str], float]:
    """Almost stochastic order of clean above noisy labels, by level and detector."""
    if cases.clean is None:
        return {}
    many = len(cases.noisy) * len(cases.detectors)
    found = {}
    for level in cases.noisy:
        for detector in cases.detectors:
            clean, noisy = (
                cases.independent_at(detector, labels) for labels in (cases.clean, level)
            )
            if min(len(clean), len(noisy)) >= ENOUGH_FOR_ORDER:
                found[level, detector] = aso(clean, noisy, rng=rng, level=LEVEL, comparisons=many)
    return found


def setting_table(cases: NoiseCases, orders: Mapping[tuple[str, str], float]) -> Table | None:
    """Almost stochastic order between settings: clean labels against each kind of noise."""
    if not orders:
        return None
    rows: list[tuple[TableCell, ...]] = [
        (detector, *(orders.get((level, detector)) for level in cases.noisy))
        for detector in cases.detectors
    ]
    return Table(
        "settings",
        "Almost stochastic order of clean labels above noisy ones",
        ("detector", *cases.noisy),
        tuple(rows),
        f"Below {THRESHOLD}, clean is almost stochastically better; corrected for "
        f"{len(cases.noisy) * len(cases.detectors)} comparisons.",
    )


def choice_table(cases: NoiseCases, choice: Choice) -> Table:
    """What one choice instead of the other gains every detector: Figure 13 for the set-up."""
    rows: list[tuple[TableCell, ...]] = []
    for detector in cases.detectors:
        cells: list[TableCell] = []
        for found in (choice.clean, choice.noisy):
            gain = found.get(detector)
            if gain is None:
                cells.append(0.0 if detector in choice.same else None)
            else:
                cells.append(gain.value if gain.low == gain.high else gain.estimate)
        tested = choice.noisy.get(detector)
        cells.append(DOES_NOT_APPLY if tested is None else tested.p_value)
        rows.append((detector, *cells))
    rows.sort(key=lambda row: -_value(row[2]))
    columns = ["detector", "difference, clean labels", "difference, noisy labels", "adjusted p"]
    if cases.clean is None:
        columns.pop(1)
        rows = [(row[0], *row[2:]) for row in rows]
    return Table(
        f"choice-{choice.factor}",
        f"{area(cases, begins=True)} with {choice.factor} {choice.one} − with {choice.other}",
        tuple(columns),
        tuple(rows),
        f"Paired {cases.case}s, with 95% confidence intervals if there are at least two; "
        "p-values of noisy labels, adjusted by Holm's method for these detectors only. 0 without "
        "an interval: the scores are the same.",
    )


def order_table(cases: NoiseCases, rng: np.random.Generator) -> Table | None:
    """Almost stochastic order between methods, over all cases."""
    rows = cases.units.means(cases.by_case("auroc"))
    samples = {name: known(row) for name, row in zip(cases.detectors, rows, strict=True)}
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
            f"Almost stochastic order between detectors, over all {cases.case}s",
            ("detector", "better than", "worse than"),
            tuple((names[row], int(wins[row]), int(losses[row])) for row in order),
            f"Number of other detectors; epsilon below {THRESHOLD}, corrected for "
            f"{matrix.comparisons} comparisons.",
        )
    return Table(
        "order",
        f"Almost stochastic order between detectors, over all {cases.case}s",
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
