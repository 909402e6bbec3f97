"""Tables and pictures of a ranking."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from oodometer.factors import names
from oodometer.finding import Series, Table, TableCell, Value
from oodometer.metrics import Estimate, fpr_at_tpr
from oodometer.protocols.common.gaps import gap_map, gaps_in_scores
from oodometer.protocols.common.learned import accuracies
from oodometer.protocols.common.score_cases import ScoreCases
from oodometer.protocols.common.views import OF_DETECTORS_ON_SETS, factor_strips, interval_series
from oodometer.protocols.common.words import LEVEL, count
from oodometer.protocols.ranking.standing import Contest

MOST_RUNS, MOST_LINES = 40, 30  # more lines would be a tangle


def auroc_table(field: ScoreCases, contest: Contest) -> Table:
    """Mean AUROC with interval: a line per detector, a column per outlier set."""
    means = {} if contest.main is None else contest.main.means
    on_sets = _on_sets(contest)
    rows: list[tuple[TableCell, ...]] = []
    for detector in (*field.detectors, *field.unranked):
        cells: list[TableCell] = [means.get(detector)]
        cells += [_own(field, on_sets, detector, ood) for ood in field.table.ood]
        rows.append((detector, *cells))
    one = len(field.training_runs) == 1
    over = "in one training run" if one else f"mean over {len(field.training_runs)} training runs"
    return Table(
        "auroc",
        f"AUROC, {over}, with 95% confidence intervals",
        ("detector", "mean", *field.table.ood),
        tuple(rows),
        "Higher is better; 0.5 is chance. The intervals are for "
        + ("" if one else "another training run and ")
        + "other test samples of the same kind.",
        better=dict.fromkeys(("mean", *field.table.ood), True),
    )


def metric_table(field: ScoreCases, contest: Contest) -> Table | None:
    """AUROC and FPR95 side by side, as papers print them: means over runs, without intervals."""
    accepted: dict[tuple[str, str], dict[str, float]] = {}
    for reference, row in field.table.pairs():
        share = fpr_at_tpr(reference.scores, row.scores)
        accepted.setdefault((row.detector, row.dataset), {})[row.run] = share
    on_sets = _on_sets(contest)
    rows: list[tuple[TableCell, ...]] = []
    for detector in field.detectors:  # these have scores everywhere
        on_each = [
            (on_sets[detector, ood].value, field.mean_of_runs(accepted[detector, ood]))
            for ood in field.table.ood
            if (detector, ood) in on_sets
        ]
        if len(on_each) == len(field.table.ood):
            means = np.mean(on_each, axis=0).tolist()
            rows.append((detector, *means, *(value for pair in on_each for value in pair)))
    if not rows:
        return None
    sections = {
        f"{part}, {metric}": (part, metric)
        for part in ("mean", *field.table.ood)
        for metric in ("AUROC", "FPR95")
    }
    return Table(
        "side-by-side",
        "AUROC and FPR95",
        ("detector", *sections),
        tuple(rows),
        "Means over runs. FPR95: share of outliers accepted where 95% of known data are.",
        better={column: metric == "AUROC" for column, (_, metric) in sections.items()},
        sections=sections,
    )


def _on_sets(contest: Contest) -> dict[tuple[str, str], Estimate]:
    """Mean of every detector on every set, with its interval."""
    return {
        (detector, name): estimate
        for name, pairwise in contest.on_sets.items()
        for detector, estimate in zip(contest.detectors, pairwise.intervals(LEVEL), strict=True)
    }


def _own(
    field: ScoreCases, on_sets: Mapping[tuple[str, str], Estimate], detector: str, ood: str
) -> Estimate | None:
    placed = field.placements.get((detector, ood))
    if placed is None or (detector, ood) in on_sets:
        return on_sets.get((detector, ood))
    return field.mean(placed, LEVEL)  # of one that lacks scores elsewhere


def intervals(field: ScoreCases, contest: Contest) -> Series:
    """AUROC with interval of every detector on every outlier set."""
    return interval_series(
        "auroc",
        "AUROC per outlier set",
        f"Mean AUROC with 95% confidence interval of {count(len(field.detectors), 'detector')} on "
        f"{outlier_sets(field)}; {field.detectors[0]} has the highest mean.",
        "AUROC",
        [(detector, ood, estimate) for (detector, ood), estimate in _on_sets(contest).items()],
        roles=OF_DETECTORS_ON_SETS,
    )


def rank_map(field: ScoreCases) -> Series:
    """Rank of every detector in every run."""
    order = field.run_order
    run = field.run_word
    same = "survives retraining" if len(field.training_runs) > 1 else f"is the same in every {run}"
    heads = _run_heads({run: field.table.runs[run] for run in field.runs})
    points: list[Mapping[str, Value]] = [
        {
            "row": detector, "section": heads[run][0], "column": heads[run][1],
            "value": float(order[row, column]),
        }
        for row, detector in enumerate(field.detectors)
        for column, run in enumerate(field.runs)
    ]  # fmt: skip
    return Series(
        "heatmap",
        "ranks",
        f"Rank of each detector in each {run}",
        f"Rank by mean AUROC over {outlier_sets(field)}, 1 is best; a row of one color is a "
        f"detector whose rank {same}.",
        "rank",
        tuple(points),
        higher_is_better=False,
        roles={"row": "detector", "column": "run"},
    )


def rank_lines(field: ScoreCases) -> list[Series]:
    """The same ranks as lines from run to run, as long as they can be told apart."""
    if not 2 <= len(field.runs) <= MOST_RUNS or not 2 <= len(field.detectors) <= MOST_LINES:
        return []
    heads = _run_heads({run: field.table.runs[run] for run in field.runs})
    return [
        Series(
            "ranks",
            "rank-lines",
            f"How the order changes from {field.run_word} to {field.run_word}",
            f"Rank by mean AUROC over {outlier_sets(field)}, 1 is best; lines that cross change "
            "places.",
            "rank",
            tuple(
                {
                    "label": detector,
                    "case": ", ".join(filter(None, heads[run])),
                    "value": float(field.run_order[row, column]),
                }
                for row, detector in enumerate(field.detectors)
                for column, run in enumerate(field.runs)
            ),
            higher_is_better=False,
            roles={"label": "detector", "case": "run"},
        )
    ]


def _run_heads(runs: Mapping[str, Mapping[str, object]]) -> dict[str, tuple[str, str]]:
    """Name each run by what varies: the factor that changes least is the section.

    >>> runs = {name: {"seed": int(name[1]), "optimizer": name[0]} for name in ("a0", "a1", "b0")}
    >>> _run_heads(runs)
    {'a0': ('a', 'seed 0'), 'a1': ('a', 'seed 1'), 'b0': ('b', 'seed 0')}
    """
    levels = list(runs.values())
    factors = [name for name in levels[0] if len({own.get(name) for own in levels}) > 1]
    words = [[_level(factor, own.get(factor)) for factor in factors] for own in levels]
    if len(set(map(tuple, words))) < len(words) or not factors:
        return {run: ("", run or "the run") for run in runs}
    changes = [sum(a[i] != b[i] for a, b in pairwise(words)) for i in range(len(factors))]
    slow = changes.index(min(changes)) if len(factors) > 1 else None
    return {
        run: (
            "" if slow is None else own[slow],
            ", ".join(word for place, word in enumerate(own) if place != slow),
        )
        for run, own in zip(runs, words, strict=True)
    }


def _level(factor: str, level: object) -> str:
    """Write a level; a word speaks for itself, a number does not."""
    return level if isinstance(level, str) and level != "none" else f"{factor} {level}"


def gaps(field: ScoreCases) -> list[Series]:
    """Where scores are missing, and why; nothing if all are there."""
    heads = _run_heads(field.table.runs)
    found = gaps_in_scores(field.table)
    every = {*field.represented, *(gap.detector for gap in found)}
    runs = {run: ", ".join(filter(None, head)) for run, head in heads.items()}
    return gap_map(found, runs, field.table.ood, len(every))


def strips(field: ScoreCases) -> list[Series]:
    """AUROC of every run, by the level of each factor; nothing if there are no factors."""
    return factor_strips(
        field.run_values,
        field.detectors,
        {run: field.table.runs[run] for run in field.runs},
        names(field.factors),
        metric="AUROC",
        run=field.run_word,
        over=outlier_sets(field),
        accuracy=accuracies(field.table),
    )


def outlier_sets(field: ScoreCases) -> str:
    """Say over how many outlier sets a mean is taken."""
    return count(len(field.table.ood), "outlier set")
