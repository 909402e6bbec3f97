"""Do several metrics of one table agree on the order of detectors?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, Series, Table, TableCell, Value
from oodometer.protocols.blocks import Blocks, blocks
from oodometer.protocols.words import LEVEL, count, listing
from oodometer.results import Results
from oodometer.stats.agreement import tau_b
from oodometer.stats.ranks import rank_matrix

FEWEST_DETECTORS = 3  # with two, an order agrees or not by a coin's toss


def metric_agreement(tables: Sequence[Results]) -> Finding:
    """Compare the order of detectors by the first metric with that by every other."""
    if len(tables) < 2:
        raise UserError("One metric cannot disagree with itself: the table has one only.")
    fields = [blocks(table) for table in tables]
    common = [d for d in fields[0].detectors if all(d in field.detectors for field in fields)]
    if len(common) < 2:
        raise UserError("Fewer than two detectors have values of every metric.")
    means = {field.metric: _means(field, common) for field in fields}
    main, *others = means
    return Finding(
        protocol="metric_agreement",
        title="Do the metrics agree on the order of detectors?",
        question=f"Would {listing(others)} have named the same best detector as {main}?",
        claims=tuple(_claim(main, other, fields, common) for other in others),
        tables=(_table(fields, common),),
        series=(_map(fields, common),),
        caveats=(
            "Means over all runs and outlier sets that every detector has. What holds beyond "
            f"chance is said for {main} only; give one metric alone to have it for another.",
        ),
        facts=(("metrics", str(len(means))), ("detectors", str(len(common)))),
    )


def _means(field: Blocks, detectors: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Mean of each detector, turned so that higher is better."""
    rows = [field.detectors.index(name) for name in detectors]
    return np.array([float(field.oriented(row).mean()) for row in rows])


def _claim(main: str, other: str, fields: Sequence[Blocks], detectors: Sequence[str]) -> Claim:
    by_metric = {field.metric: _means(field, detectors) for field in fields}
    best, rival = (detectors[int(by_metric[name].argmax())] for name in (main, other))
    same = best == rival
    text = (
        f"{main} and {other} agree that {best} is best."
        if same
        else f"{main} puts {best} first, {other} {rival}."
    )
    if len(detectors) < FEWEST_DETECTORS:
        return Claim(text, "undecided" if same else "flips", count(len(detectors), "detector"))
    tau = tau_b(by_metric[main], by_metric[other], level=LEVEL)
    if tau.value is None:
        return Claim(text, "undecided", "Kendall's tau is undefined: all values are equal")
    evidence = f"Kendall's tau {tau.value:.2f} [{tau.low:.2f}, {tau.high:.2f}] between the orders"
    if not same:
        return Claim(text, "flips", evidence)
    return Claim(text, "holds" if tau.low > 0 else "undecided", evidence)


def _table(fields: Sequence[Blocks], detectors: Sequence[str]) -> Table:
    rows: list[tuple[TableCell, ...]] = []
    for name in detectors:
        values = [float(field.values[field.detectors.index(name)].mean()) for field in fields]
        rows.append((name, *values))
    arrows = [f"{f.metric} {'↑' if f.results.higher_is_better else '↓'}" for f in fields]
    return Table(
        "metrics", "Mean of every metric", ("detector", *arrows), tuple(rows),
        "↑ higher is better, ↓ lower is better.",
    )  # fmt: skip


def _map(fields: Sequence[Blocks], detectors: Sequence[str]) -> Series:
    points: list[Mapping[str, Value]] = []
    for field in fields:
        ranks = rank_matrix(_means(field, detectors)[:, None])[:, 0]
        points += [
            {"row": name, "column": field.metric, "value": float(rank)}
            for name, rank in zip(detectors, ranks, strict=True)
        ]
    return Series(
        "heatmap",
        "metric-ranks",
        "Rank of each detector by each metric",
        "Rank by the mean, 1 is best; a row of one colour is a detector that all metrics agree on.",
        "rank",
        tuple(points),
        higher_is_better=False,
    )
