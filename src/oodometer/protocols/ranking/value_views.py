"""Tables and pictures of who is best in a results table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oodometer.factors import names
from oodometer.finding import Series, Table, TableCell, Value
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cases import Cases
from oodometer.protocols.common.cells import cells_of
from oodometer.protocols.common.gaps import gap_map, gaps_in_cells
from oodometer.protocols.common.views import factor_strips
from oodometer.protocols.common.words import count, several
from oodometer.protocols.ranking.order_views import shown
from oodometer.protocols.ranking.standing import Contest
from oodometer.stats.agreement import tau_matrix
from oodometer.stats.ranks import rank_matrix
from oodometer.stats.variance import FactorRange, VarianceShares

MANY_SETS, FEW_DETECTORS = 10, 8  # of more sets, rows are sets and columns the best detectors
FEWEST_ORDERED = 4  # detectors whose order can agree more or less
MOST_LEVELS, MOST_RUNS = 8, 500  # of a table that tells how far orders agree
MOST_POINTS = 2500  # in one picture; beyond, the best detectors are shown


def one_of(field: Cases) -> str:
    """What there is one of, if the outlier sets are the cases."""
    stated = "spread" in field.results.frame.columns
    if stated:
        return f"one mean of each detector on each {field.set_word}"
    return "one run" if len(field.cells.ids) == 1 else "one run on each data set"


def mean_table(field: Cases, contest: Contest) -> Table:
    """Mean with interval, spread and range of every detector."""
    rows: list[tuple[TableCell, ...]] = []
    for row, detector in enumerate(field.detectors):
        values = field.values[row]
        width = float(np.ptp(values))
        spread = None if len(values) < 2 else float(values.std(ddof=1)) if width else 0.0
        mean: TableCell = float(field.means[row])
        if contest.main is not None:
            mean = shown(contest.main.means[detector])
        rows.append((detector, mean, spread, width))
    return Table(
        "means",
        f"{field.metric}, mean over {count(len(field.names), field.case)}, with 95% confidence "
        "intervals"
        if len(field.names) > 1
        else f"{field.metric} of each detector",
        ("detector", "mean", "standard deviation", "range"),
        tuple(rows),
        f"{_direction(field)} Intervals are for the mean over further {several(field.case)} like "
        "these (Student's t on the logit scale, widened for skewness); none is shown if all values "
        "are equal. Standard deviation and range (highest − lowest) are over the "
        f"{several(field.case)}."
        if len(field.names) > 1
        else f"{_direction(field)} One number per detector has no interval.",
        better={"mean": field.results.higher_is_better},
    )


def set_table(field: Cases) -> Table | None:
    """Mean of every detector on every outlier set."""
    if len(field.sets) < 2:
        return None
    counts = [values.shape[1] for values in field.sets.values()]
    runs = one_of(field)
    if max(counts) > 1:
        many = dict.fromkeys((min(counts), max(counts)))
        word = field.case if field.are_runs else "run"
        runs = f"{' to '.join(map(str, many))} {several(word)}"
        runs += "" if field.are_runs else f" on each {field.set_word}"
    over = f" Over {runs}; the claims say which differences are significant."
    means = {name: own.tolist() for name, own in field.set_means.items()}
    columns: tuple[str, ...] = ("detector", *field.sets)
    rows = tuple(zip(field.detectors, *means.values(), strict=True))
    better = dict.fromkeys(field.sets, field.results.higher_is_better)
    if len(field.sets) > MANY_SETS:
        better = {}  # of sets, none is better than another
        columns = (field.set_word, *field.detectors[:FEW_DETECTORS])
        rows = tuple((name, *own[:FEW_DETECTORS]) for name, own in means.items())
        if len(field.detectors) > FEW_DETECTORS:
            over += f" The best {FEW_DETECTORS} detectors."
    title = f"Mean {field.metric} per {field.set_word}"
    return Table("sets", title, columns, rows, _direction(field) + over, better)


def share_table(field: Cases, shares: Mapping[str, VarianceShares]) -> Table | None:
    """Share of the variance of every detector that each factor explains."""
    if not shares:
        return None
    effects = list(
        dict.fromkeys(effect.factors for share in shares.values() for effect in share.effects)
    )
    rows: list[tuple[TableCell, ...]] = []
    for detector, share in shares.items():
        known = {effect.factors: effect for effect in share.effects}
        cells: list[TableCell] = []
        for own in effects:
            effect = known.get(own)
            if effect is None:
                cells.append(None)
            elif effect.low is None or effect.high is None:
                cells.append(effect.share)
            else:
                cells.append(shown(Estimate(effect.share, effect.low, effect.high)))
        rows.append((detector, *cells))
    notes = dict.fromkeys(note for share in shares.values() for note in share.notes)
    return Table(
        "shares",
        f"What explains the variance of {field.metric} over the {several(field.case)}",
        ("detector", *(" × ".join(names) for names in effects)),
        tuple(rows),
        "Shares of each detector's variance, with 95% confidence intervals where the design allows "
        "them. " + " ".join(notes),
    )


def share_bars(field: Cases, shares: Mapping[str, VarianceShares]) -> list[Series]:
    """The same shares as bars, where all of a detector's are known."""
    points: list[Mapping[str, Value]] = [
        {"label": detector, "part": " × ".join(effect.factors), "value": max(effect.share, 0.0)}
        for detector, share in shares.items()
        for effect in share.effects
    ]
    if not points:
        return []
    return [
        Series(
            "bars",
            "shares",
            f"What explains the variance of {field.metric} over the {several(field.case)}",
            f"Each bar is the variance of one detector over the {several(field.case)}, divided "
            "into what each factor, pairs of factors and repeats explain.",
            "share of the variance",
            tuple(points),
            higher_is_better=None,
            roles={"label": "detector"},
        )
    ]


def range_table(field: Cases, ranges: Mapping[str, tuple[FactorRange, ...]]) -> Table | None:
    """How far each factor alone moves every detector."""
    if not ranges:
        return None
    factors = list(dict.fromkeys(part.factor for own in ranges.values() for part in own))
    rows: list[tuple[TableCell, ...]] = []
    for detector, own in ranges.items():
        known = {part.factor: _range(part) for part in own}
        rows.append((detector, *(known.get(factor) for factor in factors)))
    return Table(
        "ranges",
        f"How far each factor alone moves {field.metric}",
        ("detector", *factors),
        tuple(rows),
        "Highest − lowest mean of the factor's levels, all else at its most frequent level, "
        "with intervals where levels have repeats, which allow for all factors (Tukey and Kramer). "
        "The runs do not form a grid, so shares of the variance cannot be computed.",
    )


def _range(part: FactorRange) -> TableCell:
    width = part.high - part.low
    if part.least is None or part.most is None:
        return width
    return Estimate(width, min(width, part.least), max(width, part.most))


def order_tables(field: Cases) -> list[Table]:
    """How far runs agree on the order of detectors, under the same level of a condition or not."""
    factors = () if len(field.detectors) < FEWEST_ORDERED else field.factors
    if not field.are_runs or len(field.names) > MOST_RUNS:
        return []
    found = []
    agreement = None
    for factor in names(factors, "condition", "re_evaluation"):
        own = np.array([levels[factor] for levels in field.levels])
        levels = list(dict.fromkeys(own.tolist()))
        if not 3 <= len(levels) <= MOST_LEVELS:
            continue
        if agreement is None:
            agreement = tau_matrix(field.values)
            np.fill_diagonal(agreement, np.nan)  # a run agrees with itself
        rows = [
            (one, *(_mean(agreement[own == one][:, own == o]) for o in levels)) for one in levels
        ]
        found.append(
            Table(
                f"order-{factor}",
                f"Do runs agree on the order of detectors? Kendall's tau by {factor}",
                (factor, *levels),
                tuple(rows),
                f"Mean over pairs of runs: with the same {factor} on the diagonal, with different "
                "ones elsewhere; 1 is the same order, −1 the reverse. If it does not affect the "
                "order, all cells differ by chance only.",
            )
        )
    return found


def _mean(values: Floats) -> float | None:
    """Mean of what is known."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None


def rank_map(field: Cases) -> Series:
    """Rank of every detector on every outlier set."""
    points: list[Mapping[str, Value]] = []
    for name, means in field.set_means.items():
        ranks = rank_matrix(means[:, None], higher_is_better=field.results.higher_is_better)[:, 0]
        points += [
            {"row": detector, "column": name, "value": float(rank)}
            for detector, rank in zip(field.detectors, ranks, strict=True)
        ]
    return Series(
        "heatmap",
        "ranks",
        f"Rank of each detector on each {field.set_word}",
        f"Rank by mean {field.metric}, 1 is best; a row of one color is a detector whose rank "
        f"does not depend on the {field.set_word}.",
        "rank",
        tuple(points),
        higher_is_better=False,
        roles={"row": "detector", "column": "set"},
    )


def gaps(field: Cases) -> list[Series]:
    """Where a table has no values; nothing if it is complete."""
    cells = cells_of(field.results)
    found = gaps_in_cells(cells)
    return gap_map(
        found, {run: run or "the run" for run in cells.runs}, cells.sets, len(cells.detectors)
    )


def strips(field: Cases) -> list[Series]:
    """Value of every run, by the level of each factor."""
    factors = [f for f in names(field.factors) if len({v[f] for v in field.run_levels}) <= 40]
    most = MOST_POINTS // max(len(field.run_levels) * len(factors), 1)
    runs = {
        ", ".join(f"{name}={level}" for name, level in levels.items()): levels
        for levels in field.run_levels
    }
    return factor_strips(
        field.run_values,
        field.detectors[: max(most, 2)],
        runs,
        factors if field.are_runs else (),
        metric=field.metric,
        run=field.case,
        over=f"{field.set_word}s",
        higher_is_better=field.results.higher_is_better,
    )


def _direction(field: Cases) -> str:
    return "Higher is better." if field.results.higher_is_better else "Lower is better."
