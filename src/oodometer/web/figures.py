"""The series that pages draw with the figures of reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer import metrics
from oodometer.finding import Series, Value
from oodometer.web.board import Board

_BINS, _FEWEST_BINS = 40, 8
_MOST_POINTS = 200  # of a curve
_MOST_DETECTORS = 40  # in a figure


def board_series(board: Board, metric: str) -> Series:
    """Means with their intervals, the best first."""
    about = metrics.METRICS[metric]
    points: list[dict[str, Value]] = [
        {"label": row.detector, "group": "", "value": row.value, "low": row.low, "high": row.high}
        for row in board.rows[:_MOST_DETECTORS]
    ]
    scope = f" ({board.scope})" if board.scope else ""
    return Series(
        "intervals",
        "leaderboard",
        f"Mean {about.label} with 95% intervals{scope}",
        f"Detectors by their mean {about.label}, the best first.",
        about.label,
        tuple(points),
        about.higher_is_better,
    )


def curve_series(arrays: Mapping[str, NDArray[Any]]) -> Series:
    """What was measured after each epoch of training."""
    points: list[dict[str, Value]] = []
    for name, values in sorted(arrays.items()):
        measure = name.removeprefix("curve/").replace("_", " ")
        last = measure.rpartition(" ")[2]
        panel = last if last in ("loss", "accuracy") else measure
        step = max(1, -(-len(values) // _MOST_POINTS))
        rows = sorted({*range(0, len(values), step), *([len(values) - 1] * bool(len(values)))})
        points += [
            {"label": measure, "panel": panel, "x": row + 1,
             "value": float(values[row]) if np.isfinite(values[row]) else None}
            for row in rows
        ]  # fmt: skip
    return Series(
        "lines",
        "learning_curve",
        "Learning curve",
        "What was measured after each epoch of training.",
        "",
        tuple(points),
        higher_is_better=None,
        x_label="epoch",
    )


def histogram_series(scores: Mapping[str, NDArray[np.float64]], detector: str) -> Series:
    """How the scores of each data set are distributed, over the central 99% of all scores."""
    pooled = np.concatenate(list(scores.values()))
    low, high = np.quantile(pooled, [0.005, 0.995])
    fewest = min(map(len, scores.values()))
    bins = int(np.clip(2 * np.sqrt(fewest), _FEWEST_BINS, _BINS))
    edges = np.linspace(low, high if high > low else low + 1.0, bins + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    points: list[dict[str, Value]] = []
    for name, values in scores.items():
        shares = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values)
        points += [
            {"label": name, "panel": "", "x": float(x), "value": float(share)}
            for x, share in zip(middles, shares, strict=True)
        ]
    return Series(
        "lines",
        "score_histogram",
        f"Scores of {detector}",
        "Share of the samples of each data set by score; higher = more out-of-distribution. "
        "Scores beyond the central 99% are counted in the outermost bins.",
        "share of samples",
        tuple(points),
        higher_is_better=None,
        x_label="score, higher = more out-of-distribution",
    )


def draw_twice(series: Series, identifier: str) -> Sequence[str]:
    """A figure for wide and for narrow screens."""
    from oodometer.reports import draw
    from oodometer.reports.drawing.figures import NARROW

    return (
        draw(series, identifier=f"{identifier}-wide"),
        draw(series, width=NARROW, identifier=f"{identifier}-narrow"),
    )
