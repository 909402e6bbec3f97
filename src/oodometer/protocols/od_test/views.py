"""Tables and pictures of OD-test, after the figures of its paper."""

from __future__ import annotations

import numpy as np

from oodometer.finding import Series, Table, TableCell
from oodometer.metrics import Estimate
from oodometer.protocols.common.views import interval_series
from oodometer.protocols.common.words import count
from oodometer.protocols.od_test.effects import Accuracies, Effect, mean_effect

DOES_NOT_APPLY = "–"
MANY = 12  # columns beyond which a table of training runs is not shown


def accuracy_table(accuracies: Accuracies) -> Table:
    """The result of every method, with what two data sets would have said: Figure 3."""
    rows: list[tuple[TableCell, ...]] = []
    for name in accuracies.methods:
        three, two = accuracies.three[name], accuracies.two[name]
        none = accuracies.none.get(name)
        rows.append(
            (
                name,
                _cell(three),
                three.figure_reach,
                _cell(two),
                _gap(two.minus(three)),
                DOES_NOT_APPLY if none is None else _cell(none),
            )
        )
    columns = (
        "method",
        "three data sets",
        "± of the figures",
        "two data sets",
        "optimism",
        "without outliers",
    )
    empty = (None, DOES_NOT_APPLY)
    shown = [c for c in range(len(columns)) if any(row[c] not in empty for row in rows)]
    return Table(
        "od-test",
        f"Balanced accuracy over {count(_experiments(accuracies), 'experiment')}",
        tuple(columns[c] for c in shown),
        tuple(tuple(row[c] for c in shown) for row in rows),
        "Three data sets: the threshold was learned on another outlier set than the one tested. "
        "Two: on other samples of the same set. Optimism: two − three. Without outliers: the "
        "threshold accepts 95% of ID validation data. 0.5 is chance. ± of the figures: "
        "1.96 standard errors over experiments as if they were independent, which the paper's "
        "figures show; the intervals in brackets respect that experiments share data sets.",
    )


def _experiments(accuracies: Accuracies) -> int:
    return sum(len(source.experiments) for source in accuracies.sources)


def _cell(effect: Effect) -> Estimate | float:
    return effect.estimate() or effect.value


def _gap(effect: Effect) -> Estimate | float:
    # A difference of equal accuracies is 0, not what rounding leaves of it.
    return Estimate(*effect.difference()[:3]) if effect.known else round(effect.value, 12)


def source_table(accuracies: Accuracies) -> list[Table]:
    """Accuracy on each source: Figures 4 and 6. Also for methods that some sources lack."""
    if len(accuracies.sources) < 2:
        return []
    alone = [accuracies.on(source) for source in accuracies.sources]
    others = dict.fromkeys(name for one in alone for name in one.methods)
    names = (*accuracies.methods, *(name for name in others if name not in accuracies.methods))
    rows = tuple(
        (name, *(_cell(one.three[name]) if name in one.three else None for one in alone))
        for name in names
    )
    return [
        Table(
            "od-test-sources",
            "Balanced accuracy on each source",
            ("method", *(source.name for source in accuracies.sources)),
            rows,
            "The threshold was learned on another outlier set than the one tested; "
            + ", ".join(f"{s.name}: {len(s.experiments)} experiments" for s in accuracies.sources)
            + ".",
        )
    ]


def run_table(accuracies: Accuracies) -> list[Table]:
    """Accuracy in each training run, if one source has several."""
    runs = accuracies.sources[0].runs
    if len(accuracies.sources) > 1 or not 1 < len(runs) <= MANY:
        return []
    rows: list[tuple[TableCell, ...]] = [
        (name, *accuracies.three[name].outcomes[0].accuracy.mean(axis=1).tolist())
        for name in accuracies.methods
    ]
    return [
        Table(
            "od-test-runs",
            "Balanced accuracy in each training run",
            ("method", *runs),
            tuple(rows),
            "The threshold was learned on another outlier set than the one tested.",
        )
    ]


def accuracy_series(accuracies: Accuracies) -> Series:
    """Accuracy with interval of every method on every source, and beside it that of two sets."""
    if len(accuracies.sources) > 1:
        what = "on each source"
        groups = {source.name: accuracies.on(source).three for source in accuracies.sources}
    else:
        what = "with three data sets, and with two"
        groups = {"three data sets": accuracies.three, "two data sets": accuracies.two}
    return interval_series(
        "od-test",
        f"Balanced accuracy {what}",
        f"Accuracy with 95% confidence interval of {count(len(accuracies.methods), 'method')} "
        f"{what}; {accuracies.methods[0]} has the highest with three data sets. 0.5 is chance.",
        "accuracy",
        [
            (name, group, _cell(effects[name]))
            for group, effects in groups.items()
            for name in accuracies.methods
        ],
    )


def pair_map(accuracies: Accuracies) -> list[Series]:
    """Mean accuracy by validation and test set; where they are the same, that of two data sets."""
    three = mean_effect([accuracies.three[name] for name in accuracies.methods])
    two = mean_effect([accuracies.two[name] for name in accuracies.methods])
    cells: dict[tuple[str, str], list[float]] = {}
    for effect in (three, two):
        for (learn, test), value in zip(effect.experiments, effect.cells, strict=True):
            cells.setdefault((learn if effect is three else test, test), []).append(float(value))
    names = dict.fromkeys(name for pair in cells for name in pair)
    return [
        Series(
            "heatmap",
            "od-test-pairs",
            "Accuracy by the outlier set learned on (row) and tested on (column)",
            f"Mean over {count(len(accuracies.methods), 'method')}"
            + (" and sources" if len(accuracies.sources) > 1 else "")
            + "; where row and column are the same, two data sets were used.",
            "accuracy",
            tuple(
                {"row": learn, "column": test, "value": float(np.mean(cells[learn, test]))}
                for learn in names
                for test in names
                if (learn, test) in cells
            ),
            roles={"column": "set"},
        )
    ]
