"""Tables and pictures of the robustness score, laid out as in its paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from oodometer.finding import Series, Table, TableCell, Value
from oodometer.metrics import METRICS
from oodometer.protocols.common.cells import Pair
from oodometer.protocols.common.words import LEVEL, count
from oodometer.protocols.robustness.field import Field, Runs, Score

SMALLER = "Smaller is more robust."
WIDEST = 1000.0  # times the lower end: an interval that is wider says nothing
WIDER = "Intervals whose upper end exceeds the lower one more than a thousandfold are omitted."


def metric_label(field: Field) -> str:
    """Name the metric as people write it."""
    known = METRICS.get(field.results.metric)
    return known.label if known else field.results.metric


def pair_label(field: Field, pair: Pair) -> str:
    """Name a pair by its outlier set, and by its ID set too where there are several."""
    several = len({known.id for known in field.pairs}) > 1
    return f"{pair.id} | {pair.ood}" if several else pair.ood


def formula(field: Field) -> str:
    """Say how the score is made of mean and variance."""
    return "sqrt(Var) / mean" if field.results.higher_is_better else "mean * sqrt(Var)"


def score_table(field: Field, name: str = "") -> Table:
    """Score of each detector on each outlier set, over the levels of the factor.

    `name` tells it from that of another factor.
    """
    rows: list[tuple[TableCell, ...]] = []
    best = {
        pair: min(
            (s.value for (p, _), s in field.detector_scores.items() if p == pair),
            default=math.inf,
        )
        for pair in field.pairs
    }
    for detector in field.detectors:
        scores = [field.detector_scores.get((pair, detector)) for pair in field.pairs]
        wins = sum(
            s is not None
            and math.isfinite(s.value)
            and math.isclose(s.value, best[p], rel_tol=1e-9)
            for p, s in zip(field.pairs, scores, strict=True)
        )
        rows.append((detector, *(cell(s) for s in scores), wins))
    return Table(
        f"robustness-{name}" if name else "robustness",
        f"Robustness score over {field.factor} by {metric_label(field)}, {formula(field)}",
        ("detector", *(pair_label(field, pair) for pair in field.pairs), "times smallest"),
        tuple(rows),
        f"{SMALLER} Mean and variance of the mixture over {len(field.levels)} levels of "
        f"{field.factor}, in {unit(field)}, with 95% confidence intervals where there are enough "
        "runs." + _note(field.detector_scores.values()),
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


def unit(field: Field) -> str:
    """Say in what the moments are given."""
    return "percent" if field.unit == "percent" else "the units of the table"


def metric_tables(fields: Sequence[Field]) -> list[Table]:
    """For each outlier set the scores by every metric side by side, as in Table 5."""
    if len(fields) < 2:
        return []
    first = fields[0]
    tables = []
    for number, pair in enumerate(first.pairs, 1):
        rows = tuple(
            (
                detector,
                *(
                    None if score is None or not math.isfinite(score.value) else score.value
                    for score in (f.detector_scores.get((pair, detector)) for f in fields)
                ),
            )
            for detector in first.detectors
        )
        tables.append(
            Table(
                f"metrics-{number}",
                f"Robustness score over {first.factor} by every metric, "
                f"on {pair_label(first, pair)}",
                ("detector", *(f"{metric_label(f)} ({formula(f)})" for f in fields)),
                rows,
                SMALLER,
            )
        )
    return tables


def moment_tables(field: Field) -> list[Table]:
    """For each outlier set mean | variance under each level and of the mixture, as in Table 3."""
    tables = []
    for number, pair in enumerate(field.pairs, 1):
        levels = field.levels_of(pair)
        rows: list[tuple[TableCell, ...]] = []
        for detector in field.detectors:
            cells: list[TableCell] = []
            for level in levels:
                runs = field.cells.get((pair, detector, level))
                whole = runs is not None and level not in field.lacking(pair, detector)
                cells.append(_cell_moments(runs) if runs is not None and whole else None)
            score = field.detector_scores.get((pair, detector))
            rows.append((detector, *cells, None if score is None else _moments(*score.moments)))
        tables.append(
            Table(
                f"moments-{number}",
                f"{metric_label(field)}, mean | variance over runs, on {pair_label(field, pair)}",
                ("detector", *(level or "all runs" for level in levels), "mixture"),
                tuple(rows),
                f"In {unit(field)}. The mixture weights each column by 1 / sqrt(variance)"
                f"{'; the variance of a single run counts as 0' * _has_single(field, pair)}.",
            )
        )
    return tables


def _cell_moments(runs: Runs) -> str:
    return f"{runs.moments.mean:.3f}" if _is_single(runs) else _moments(*runs.moments)


def _has_single(field: Field, pair: Pair) -> bool:
    return any(_is_single(runs) for (own, _, _), runs in field.cells.items() if own == pair)


def _is_single(runs: Runs) -> bool:
    """Whether there is one run, without a stated spread."""
    return len(runs.labels) == 1 and not runs.spreads.any()


def _moments(mean: object, variance: object) -> str:
    return f"{mean:.3f} | {variance:.3f}"


def level_tables(field: Field, name: str = "") -> list[Table]:
    """Score of each level for each detector, over the outlier sets, as in Tables 9 and 10.

    `name` tells those of another metric from those of the first.
    """
    tables = []
    id_sets = list(dict.fromkeys(pair.id for pair in field.pairs))
    for number, id_set in enumerate(id_sets, 1):
        sets = sum(pair.id == id_set for pair in field.pairs)
        rows = tuple(
            (
                level,
                *(cell(field.level_scores.get((id_set, name, level))) for name in field.detectors),
            )
            for level in field.levels
        )
        where = f", {id_set}" if len(id_sets) > 1 else ""
        tables.append(
            Table(
                f"levels-{number}-{name}" if name else f"levels-{number}",
                f"Robustness score of each {field.factor} over {count(sets, 'outlier set')}, by "
                f"{metric_label(field)}, {formula(field)}{where}",
                (field.factor, *field.detectors),
                rows,
                SMALLER + _note(field.level_scores.values()),
            )
        )
    return tables


def score_map(field: Field) -> Series:
    """Rank of every detector by its score, on every outlier set."""
    points: list[Mapping[str, Value]] = []
    for pair in field.pairs:
        known = {
            name: field.detector_scores[pair, name].value
            for name in field.detectors
            if (pair, name) in field.detector_scores
            and math.isfinite(field.detector_scores[pair, name].value)
        }
        for name, value in known.items():
            better = sum(other < value for other in known.values())
            equal = sum(other == value for other in known.values())
            points.append(
                {
                    "row": name,
                    "column": pair_label(field, pair),
                    "value": better + 0.5 * (equal + 1),
                    "score": value,
                }
            )
    return Series(
        "heatmap",
        "robustness-ranks",
        f"Rank by robustness over {field.factor}",
        f"Rank of each detector by its robustness score on each outlier set, 1 varies least by "
        f"{metric_label(field)}; a row of one colour is a detector whose rank does not depend on "
        "the outlier set.",
        "rank",
        tuple(points),
        higher_is_better=False,
    )


def run_strips(field: Field) -> Series:
    """Value of every run, by the level of the factor."""
    points: list[Mapping[str, Value]] = [
        {
            "label": detector,
            "panel": pair_label(field, pair),
            "level": level,
            "value": float(value),
            "run": label,
        }
        for (pair, detector, level), runs in field.cells.items()
        for label, value in zip(runs.labels, runs.values, strict=True)
    ]
    return Series(
        "strips",
        "robustness-runs",
        f"{metric_label(field)} of every run, by {field.factor}",
        f"One point per run, in {unit(field)}; one panel per outlier set, one strip per level of "
        f"{field.factor}.",
        metric_label(field),
        tuple(points),
        higher_is_better=field.results.higher_is_better,
    )
