"""Curves of the leaders' scores: receiver operating characteristic, and histograms."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oodometer.finding import Series, Value
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.score_cases import ScoreCases
from oodometer.protocols.common.words import count

LEADERS, SETS, RUNS = 5, 6, 10  # that are drawn; more would make a page large
BINS = 28
_FALSE_ALARMS = np.concatenate([np.linspace(0, 0.1, 11), np.linspace(0.15, 1, 18)])


def roc_curves(field: ScoreCases) -> list[Series]:
    """Share of outliers detected against that of known data rejected, mean over runs."""
    detectors, sets, runs = field.detectors[:LEADERS], field.table.ood[:SETS], field.runs[:RUNS]
    points: list[Mapping[str, Value]] = []
    for ood in sets:
        for detector in detectors:
            curves = [
                detected(pair[0], pair[1], _FALSE_ALARMS)
                for run in runs
                if (pair := _scores(field, run, detector, ood)) is not None
            ]
            if curves:
                points += [
                    {"label": detector, "panel": ood, "x": float(x), "value": float(y)}
                    for x, y in zip(_FALSE_ALARMS, np.mean(curves, axis=0), strict=True)
                ]
    if not points:
        return []
    return [
        Series(
            "lines",
            "roc",
            "ROC curves of the leaders",
            "Share of outliers detected (up) against share of known data rejected (across), mean "
            f"over {count(len(runs), field.run_word)}, of the best {len(detectors)} detectors.",
            "share of outliers detected",
            tuple(points),
            higher_is_better=None,
            roles={"label": "detector", "panel": "set"},
            x_label="share of known data rejected",
        )
    ]


def histograms(field: ScoreCases) -> list[Series]:
    """How the leader's scores of known data and of each outlier set are distributed, in one run."""
    if not field.runs or not field.detectors:
        return []
    run, leader = field.runs[0], field.detectors[0]
    known: dict[str, Floats] = {}
    for ood in field.table.ood[:SETS]:
        pair = _scores(field, run, leader, ood)
        if pair is not None:
            known |= {field.table.id: pair[0], ood: pair[1]}
    together = np.concatenate([np.empty(0), *known.values()])
    low, high = np.quantile(together, (0.005, 0.995)) if len(together) else (0.0, 0.0)
    if not low < high:
        return []
    edges = np.linspace(low, high, BINS + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    return [
        Series(
            "lines",
            "histograms",
            f"Scores of {leader}",
            f"Share of samples by score, in {BINS} bins from the 0.5th to the 99.5th percentile"
            + (f", in {run}" if run else "")
            + "; a higher score means more out-of-distribution.",
            "share of samples",
            tuple(
                {"label": name, "panel": leader, "x": float(x), "value": float(y)}
                for name, scores in known.items()
                for x, y in zip(
                    middles,
                    np.histogram(scores.clip(low, high), edges)[0] / len(scores),
                    strict=True,
                )
            ),
            higher_is_better=None,
            roles={"label": "set", "panel": "detector"},
            x_label="score",
        )
    ]


def detected(known: Floats, outliers: Floats, false_alarms: Floats) -> Floats:
    """Share of outliers above the thresholds that reject these shares of known data.

    Between two thresholds, and where scores are tied, the curve is a straight line.

    >>> detected(np.array([0.0, 1.0]), np.array([0.5, 2.0]), np.array([0.0, 0.5, 1.0])).tolist()
    [0.5, 1.0, 1.0]
    """
    thresholds = np.unique(np.concatenate([known, outliers]))[::-1]
    rejected = 1 - np.searchsorted(np.sort(known), thresholds, side="left") / len(known)
    found = 1 - np.searchsorted(np.sort(outliers), thresholds, side="left") / len(outliers)
    across, up = np.concatenate([[0.0], rejected]), np.concatenate([[0.0], found])
    # Where the curve rises straight up, `interp` takes the last of equal places: its top.
    return np.asarray(np.interp(false_alarms, across, up))


def _scores(field: ScoreCases, run: str, detector: str, ood: str) -> tuple[Floats, Floats] | None:
    known = field.table.scores(run, detector, field.table.id)
    outliers = field.table.scores(run, detector, ood)
    return None if known is None or outliers is None else (known, outliers)
