"""Tables and pictures of the robustness score, laid out as in its paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from oodometer.finding import Series, Table, TableCell, Value
from oodometer.metrics import METRICS
from oodometer.protocols.common.cells import Pair
from oodometer.protocols.common.words import LEVEL, count
from oodometer.protocols.robustness.runs import Runs
from oodometer.protocols.robustness.scored import Score, ScoredMetric

SMALLER = "Smaller is more robust."
WIDEST = 1000.0  # times the lower end: an interval that is wider says nothing
WIDER = "Intervals whose upper end exceeds the lower one more than a thousandfold are omitted."


def metric_label(metric: ScoredMetric) -> str:
    """Name the metric as people write it."""
    known = METRICS.get(metric.results.metric)
    return known.label if known else metric.results.metric


def pair_label(metric: ScoredMetric, pair: Pair) -> str:
    """Name a pair by its outlier set, and by its ID set too where there are several."""
    several = len({known.id for known in metric.pairs}) > 1
    return pair.label(several)


def formula(metric: ScoredMetric) -> str:
    """Say how the score is made of mean and variance."""
    return "sqrt(Var) / mean" if metric.results.higher_is_better else "mean * sqrt(Var)"


def score_table(metric: ScoredMetric, name: str = "") -> Table:
    """Score of each detector on each outlier set, over the levels of the factor.

    `name` tells it from that of another factor.
    """
    rows: list[tuple[TableCell, ...]] = []
    best = {
        pair: min(
            (s.value for (p, _), s in metric.detector_scores.items() if p == pair),
            default=math.inf,
        )
        for pair in metric.pairs
    }
    for detector in metric.detectors:
        scores = [metric.detector_scores.get((pair, detector)) for pair in metric.pairs]
        wins = sum(
            s is not None
            and math.isfinite(s.value)
            and math.isclose(s.value, best[p], rel_tol=1e-9)
            for p, s in zip(metric.pairs, scores, strict=True)
        )
        rows.append((detector, *(cell(s) for s in scores), wins))
    return Table(
        f"robustness-{name}" if name else "robustness",
        f"Robustness score over {metric.factor} by {metric_label(metric)}, {formula(metric)}",
        ("detector", *(pair_label(metric, pair) for pair in metric.pairs), "times smallest"),
        tuple(rows),
        f"{SMALLER} Mean and variance of the mixture over {len(metric.levels)} levels of "
        f"{metric.factor}, in {unit(metric)}, with 95% confidence intervals where there are enough "
        "runs." + _note(metric.detector_scores.values()),
    )


def cell(score: Score | None) -> TableCell:
    """Write a score with its interval if it has one; None if there is no score."""
    if score is None or not math.isfinite(score.value):
        return None
    found = score.interval(LEVEL)
    return score.value if found is None or found.high > WIDEST * found.low else found


def _note(scores: Iterable[Score]) -> str:
    """Say that intervals were left out, if some were."""
    found = (score.interval(LEVEL) for score in scores if math.isfinite(score.value))
    return f" {WIDER}" if any(i is not None and i.high > WIDEST * i.low for i in found) else ""


def unit(metric: ScoredMetric) -> str:
    """Say in what the moments are given."""
    return "percent" if metric.unit == "percent" else "the units of the table"


def metric_tables(metrics: Sequence[ScoredMetric]) -> list[Table]:
    """For each outlier set the scores by every metric side by side, as in Table 5."""
    if len(metrics) < 2:
        return []
    first = metrics[0]
    tables = []
    for number, pair in enumerate(first.pairs, 1):
        rows = tuple(
            (
                detector,
                *(
                    None if score is None or not math.isfinite(score.value) else score.value
                    for score in (f.detector_scores.get((pair, detector)) for f in metrics)
                ),
            )
            for detector in first.detectors
        )
        tables.append(
            Table(
                f"metrics-{number}",
                f"Robustness score over {first.factor} by every metric, "
                f"on {pair_label(first, pair)}",
                ("detector", *(f"{metric_label(f)} ({formula(f)})" for f in metrics)),
                rows,
                SMALLER,
            )
        )
    return tables


def moment_tables(metric: ScoredMetric) -> list[Table]:
    """For each outlier set mean | variance under each level and of the mixture, as in Table 3."""
    tables = []
    for number, pair in enumerate(metric.pairs, 1):
        levels = metric.levels_of(pair)
        rows: list[tuple[TableCell, ...]] = []
        for detector in metric.detectors:
            cells: list[TableCell] = []
            for level in levels:
                runs = metric.cells.get((pair, detector, level))
                whole = runs is not None and level not in metric.lacking(pair, detector)
                cells.append(_cell_moments(runs) if runs is not None and whole else None)
            score = metric.detector_scores.get((pair, detector))
            rows.append((detector, *cells, None if score is None else _moments(*score.moments)))
        tables.append(
            Table(
                f"moments-{number}",
                f"{metric_label(metric)}, mean | variance over runs, on {pair_label(metric, pair)}",
                ("detector", *(level or "all runs" for level in levels), "mixture"),
                tuple(rows),
                f"In {unit(metric)}. The mixture weights each column by 1 / sqrt(variance)"
                f"{'; the variance of a single run counts as 0' * _has_single(metric, pair)}.",
            )
        )
    return tables


def _cell_moments(runs: Runs) -> str:
    return f"{runs.moments.mean:.3f}" if _is_single(runs) else _moments(*runs.moments)


def _has_single(metric: ScoredMetric, pair: Pair) -> bool:
    return any(_is_single(metric.cells[key]) for key in metric.cells if key[0] == pair)


def _is_single(runs: Runs) -> bool:
    """Whether there is one run, without a stated spread."""
    return len(runs.labels) == 1 and not runs.spreads.any()


def _moments(mean: object, variance: object) -> str:
    return f"{mean:.3f} | {variance:.3f}"


def level_tables(metric: ScoredMetric, name: str = "") -> list[Table]:
    """Score of each level for each detector, over the outlier sets, as in Tables 9 and 10.

    `name` tells those of another metric from those of the first.
    """
    tables = []
    id_sets = list(dict.fromkeys(pair.id for pair in metric.pairs))
    for number, id_set in enumerate(id_sets, 1):
        sets = sum(pair.id == id_set for pair in metric.pairs)
        rows = tuple(
            (
                level,
                *(
                    cell(metric.level_scores.get((id_set, name, level)))
                    for name in metric.detectors
                ),
            )
            for level in metric.levels
        )
        where = f", {id_set}" if len(id_sets) > 1 else ""
        tables.append(
            Table(
                f"levels-{number}-{name}" if name else f"levels-{number}",
                f"Robustness score of each {metric.factor} over {count(sets, 'outlier set')}, by "
                f"{metric_label(metric)}, {formula(metric)}{where}",
                (metric.factor, *metric.detectors),
                rows,
                SMALLER + _note(metric.level_scores.values()),
            )
        )
    return tables


def score_map(metric: ScoredMetric) -> Series:
    """Rank of every detector by its score, on every outlier set."""
    points: list[Mapping[str, Value]] = []
    for pair in metric.pairs:
        known = {
            name: metric.detector_scores[pair, name].value
            for name in metric.detectors
            if (pair, name) in metric.detector_scores
            and math.isfinite(metric.detector_scores[pair, name].value)
        }
        for name, value in known.items():
            better = sum(other < value for other in known.values())
            equal = sum(other == value for other in known.values())
            points.append(
                {
                    "row": name,
                    "column": pair_label(metric, pair),
                    "value": better + 0.5 * (equal + 1),
                    "score": value,
                }
            )
    return Series(
        "heatmap",
        "robustness-ranks",
        f"Rank by robustness over {metric.factor}",
        f"Rank of each detector by its robustness score on each set, 1 varies least by "
        f"{metric_label(metric)}; a row of one color is a detector whose rank does not depend on "
        "the set.",
        "rank",
        tuple(points),
        higher_is_better=False,
        roles={"row": "detector", "column": "set"},
    )


def run_strips(metric: ScoredMetric) -> Series:
    """Value of every run, by the level of the factor."""
    points: list[Mapping[str, Value]] = [
        {
            "label": detector,
            "panel": pair_label(metric, pair),
            "level": level,
            "value": float(value),
            "run": label,
        }
        for (pair, detector, level), runs in metric.cells.items()
        for label, value in zip(runs.labels, runs.values, strict=True)
    ]
    return Series(
        "strips",
        "robustness-runs",
        f"{metric_label(metric)} of every run, by {metric.factor}",
        f"One point per run, in {unit(metric)}; one panel per outlier set, one strip per level of "
        f"{metric.factor}.",
        metric_label(metric),
        tuple(points),
        higher_is_better=metric.results.higher_is_better,
        roles={"label": "detector", "panel": "set", "level": "level"},
    )
