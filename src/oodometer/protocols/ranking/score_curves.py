"""Curves of the leaders' scores: ROC, risk against coverage, and histograms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from oodometer.finding import Series, Value
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.score_cases import ScoreCases
from oodometer.protocols.common.words import count

Flags = NDArray[np.bool_]
LEADERS, SETS, RUNS = 5, 6, 10  # that are drawn; more would make a page large
BINS = 28
_FALSE_ALARMS = np.concatenate([np.linspace(0, 0.1, 11), np.linspace(0.15, 1, 18)])
_COVERAGES = np.linspace(0.05, 1, 20)


def roc_curves(field: ScoreCases) -> list[Series]:
    """Share of outliers detected against that of known data rejected, mean over runs."""
    runs = field.runs[:RUNS]

    def curve(_: str, known: Floats, outliers: Floats) -> Floats:
        return detected(known, outliers, _FALSE_ALARMS)

    points, shown = _mean_curves(field, runs, _FALSE_ALARMS, curve)
    if not points:
        return []
    return [
        Series(
            "lines",
            "roc",
            "ROC curves of the leaders",
            "Share of outliers detected (up) against share of known data rejected (across), mean "
            f"over {count(len(runs), field.run_word)}, of the best {shown} detectors.",
            "share of outliers detected",
            points,
            higher_is_better=None,
            roles={"label": "detector", "panel": "set"},
            x_label="share of known data rejected",
        )
    ]


def risk_curves(field: ScoreCases) -> list[Series]:
    """Share of errors among accepted samples as more are accepted, where errors are known."""
    correct = field.table.correct
    runs = [run for run in field.runs if run in correct][:RUNS]

    def curve(run: str, known: Floats, outliers: Floats) -> Floats:
        return risks(known, correct[run], outliers, _COVERAGES)

    points, shown = _mean_curves(field, runs, _COVERAGES, curve)
    if not points:
        return []
    return [
        Series(
            "lines",
            "risk-coverage",
            "Risk against coverage of the leaders",
            "Share of errors among accepted samples (up) against share of samples accepted "
            "(across), those with the lowest scores first; lower is better. An error is an outlier "
            "or a known sample that the classifier gets wrong; outliers count as much as known "
            f"data. Mean over {count(len(runs), field.run_word)}, of the best {shown} detectors.",
            "share of errors among accepted samples",
            points,
            higher_is_better=None,  # no logit scale: 0 is at its end
            roles={"label": "detector", "panel": "set"},
            x_label="share of samples accepted",
        )
    ]


def _mean_curves(
    field: ScoreCases,
    runs: Sequence[str],
    across: Floats,
    curve: Callable[[str, Floats, Floats], Floats],
) -> tuple[tuple[Mapping[str, Value], ...], int]:
    """One line per leader and outlier set, mean over runs; and how many leaders there are."""
    detectors = field.detectors[:LEADERS]
    points: list[Mapping[str, Value]] = []
    for ood in field.table.ood[:SETS]:
        for detector in detectors:
            curves = [
                curve(run, *pair)
                for run in runs
                if (pair := _scores(field, run, detector, ood)) is not None
            ]
            if curves:
                points += [
                    {"label": detector, "panel": ood, "x": float(x), "value": float(y)}
                    for x, y in zip(across, np.mean(curves, axis=0), strict=True)
                ]
    return tuple(points), len(detectors)


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
            f"Share of samples by score, in {BINS} bins from the 0.5th to the 99.5th percentile, "
            "the outermost with all beyond"
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


def risks(known: Floats, correct: Flags, outliers: Floats, coverages: Floats) -> Floats:
    """Share of errors among the samples with the lowest scores, for these shares of all samples.

    Errors are outliers and misclassified samples; known data and outliers weigh one half each. Of
    samples with the same score, the same share of each kind is accepted.

    >>> halves = np.array([0.5, 1.0])
    >>> risks(np.array([0.0, 1.0]), np.array([True, False]), np.array([2.0]), halves).tolist()
    [0.5, 0.75]
    """
    scores = np.concatenate([known, outliers])
    weights = np.repeat([0.5 / len(known), 0.5 / len(outliers)], [len(known), len(outliers)])
    wrong = np.concatenate([~correct, np.ones(len(outliers), dtype=bool)])
    values, place = np.unique(scores, return_inverse=True)
    accepted = np.cumsum(np.bincount(place, weights, len(values)))
    errors = np.cumsum(np.bincount(place, weights * wrong, len(values)))
    across, up = np.concatenate([[0.0], accepted]), np.concatenate([[0.0], errors])
    return np.asarray(np.interp(coverages, across, up) / coverages)


def _scores(field: ScoreCases, run: str, detector: str, ood: str) -> tuple[Floats, Floats] | None:
    known = field.table.scores(run, detector, field.table.id)
    outliers = field.table.scores(run, detector, ood)
    return None if known is None or outliers is None else (known, outliers)
