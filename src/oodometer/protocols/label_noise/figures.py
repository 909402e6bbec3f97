"""Figures of detectors under label noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oodometer.finding import Series, Table, Value
from oodometer.protocols.common.views import interval_series, mean_share
from oodometer.protocols.common.words import count
from oodometer.protocols.label_noise.cases import NoiseCases, known
from oodometer.protocols.label_noise.labels import are_rates
from oodometer.protocols.label_noise.questions import QUESTIONS
from oodometer.protocols.label_noise.words import area, kind_of_labels, over_sets
from oodometer.stats.order import THRESHOLD


def boxes(cases: NoiseCases) -> Series:
    """How AUROCs are distributed by type and rate of the noise, for each of the questions."""
    points: list[Mapping[str, Value]] = []
    for question in cases.questions:
        values = cases.by_training_run(question)
        for level in _by_type(cases):
            own = known(values[:, cases.training_levels == level])
            if len(own):
                low, lower, middle, upper, high = np.quantile(own, (0, 0.25, 0.5, 0.75, 1)).tolist()
                points.append(
                    {"label": _with_rate(cases, level), "panel": QUESTIONS[question],
                     "value": middle, "low": low, "lower": lower, "upper": upper, "high": high,
                     "noise": cases.labels(level).kind, "values": len(own)}
                )  # fmt: skip
    counts = [int(str(point["values"])) for point in points]
    low, high = min(counts), max(counts)
    held = f"{low} values" if low == high else f"{low} to {high} values"
    medians = f", medians over {cases.sets} outlier sets" if cases.sets > 1 else ""
    return Series(
        "boxes",
        "noise-boxes",
        "AUROC by type and rate of the label noise",
        f"Each box holds the values of all {len(cases.detectors)} detectors in all training runs "
        f"with these labels ({held}){medians}: quartiles as box, the median "
        "as line across it, the lowest and highest value at the ends.",
        "AUROC",
        tuple(points),
    )


def _by_type(cases: NoiseCases) -> list[str]:
    """Levels: clean first, then by the type of the noise, the lower rate first."""
    kinds = list(dict.fromkeys(cases.labels(level).kind for level in cases.levels))
    return sorted(
        cases.levels,
        key=lambda level: (kinds.index(cases.labels(level).kind), cases.labels(level).rate or 0.0),
    )


def _with_rate(cases: NoiseCases, level: str) -> str:
    """Name a level, with the rate where a column tells it and its name does not."""
    rate = cases.rates.get(level)
    is_said = level == cases.clean or are_rates(cases.noise, cases.levels)
    return level if rate is None or is_said else f"{level} ({100 * rate:.1f}%)"


def order_map(order: Table | None) -> list[Series]:
    """The table of the almost stochastic order as a heat map, where it has all pairs."""
    if order is None or "worse than" in order.columns:
        return []
    return [
        Series(
            "heatmap",
            "aso",
            order.title,
            f"Epsilon of the row against the column: below {THRESHOLD}, the row is better; 0.5 is "
            "no order.",
            "epsilon",
            tuple(
                {"row": str(row[0]), "column": column, "value": cell}
                for row in order.rows
                for column, cell in zip(order.columns[2:], row[2:], strict=True)
                if isinstance(cell, float)
            ),
            higher_is_better=False,
            roles={"row": "detector"},
        )
    ]


def curves(cases: NoiseCases) -> Series:
    """Median AUROC with interval, a group per kind of labels."""
    values = {
        (d, level): cases.with_units(d, level) for level in cases.levels for d in cases.detectors
    }
    return interval_series(
        "noise",
        f"{area(cases, begins=True)} by labels",
        f"{over_sets(cases)} over runs with 95% confidence interval, for "
        f"{count(len(cases.detectors), 'detector')} and "
        f"{count(len(cases.levels), *kind_of_labels(cases))}.",
        "AUROC",
        [
            (d, level, mean_share(own.a, own.units))
            for (d, level), own in values.items()
            if own.size
        ],
    )
