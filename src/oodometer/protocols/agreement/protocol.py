"""Do several metrics of one table agree on the order of detectors?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, Series, Table, TableCell, Value
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cases import Cases, cases_of
from oodometer.protocols.common.contests import comparisons, contests, judge
from oodometer.protocols.common.differences import paired_difference
from oodometer.protocols.common.words import LEVEL, count, listing
from oodometer.results import Results
from oodometer.stats.agreement import tau_b
from oodometer.stats.comparison import Difference
from oodometer.stats.ranks import rank_matrix

FEWEST_DETECTORS = 3  # with two, an order agrees or not by a coin's toss


def metric_agreement(tables: Sequence[Results], rng: np.random.Generator | None = None) -> Finding:
    """Compare the order of detectors by the first metric with that by every other."""
    rng = np.random.default_rng(0) if rng is None else rng
    if len(tables) < 2:
        raise UserError("One metric cannot disagree with itself: the table has one only.")
    fields = [cases_of(table) for table in tables]
    common = [d for d in fields[0].detectors if all(d in field.detectors for field in fields)]
    if len(common) < 2:
        raise UserError("Fewer than two detectors have values of every metric.")
    means = {field.metric: _means(field, common) for field in fields}
    main, *others = means
    return Finding(
        protocol="metric_agreement",
        title="Do the metrics agree on the order of detectors?",
        question=f"Would {listing(others)} have named the same best detector as {main}?",
        claims=tuple(
            claim for field in fields[1:] for claim in _claims(fields[0], field, common, rng)
        ),
        tables=(_table(fields, common),),
        series=(_map(fields, common),),
        caveats=(
            "Means over all runs and outlier sets that every detector has. Who is first holds, or "
            "flips, if the leads by both metrics are beyond chance (paired runs, Holm); Kendall's "
            "tau tells beside it how far the whole orders agree in this table.",
        ),
        facts=(("metrics", str(len(means))), ("detectors", str(len(common)))),
    )


def _means(field: Cases, detectors: Sequence[str]) -> Floats:
    """Mean of each detector, turned so that higher is better."""
    rows = [field.detectors.index(name) for name in detectors]
    return np.array([float(field.oriented(row).mean()) for row in rows])


def _claims(
    main: Cases, other: Cases, detectors: Sequence[str], rng: np.random.Generator
) -> list[Claim]:
    fields = {main.metric: main, other.metric: other}
    means = {name: _means(field, detectors) for name, field in fields.items()}
    if any(np.ptp(own) == 0.0 for own in means.values()):
        return [_orders(main.metric, other.metric, means)]  # nobody is first
    places = {
        metric: {name: -float(mean) for name, mean in zip(detectors, own, strict=True)}
        for metric, own in means.items()
    }
    many = comparisons(places)

    def compare(metric: str, second: str, first: str) -> Difference:
        field = fields[metric]
        one, other = (field.oriented(field.detectors.index(name)) for name in (second, first))
        return paired_difference(one, other, many, rng)

    held = contests(places, compare)
    best, rival = (contest.first for contest in held)
    same = best == rival
    text = (
        f"{main.metric} and {other.metric} both put {best} first"
        if same
        else f"{main.metric} puts {best} first, {other.metric} {rival}"
    )
    # What the metrics say of this table is plain; whether other runs would agree is not.
    verdict = judge(held)
    chance = "leads that may be chance" if verdict == "undecided" else "beyond chance"
    text += "; in other runs it may be another." if verdict == "undecided" else "."
    first = Claim(text, verdict, f"{count(len(detectors), 'detector')}, {chance}")
    if len(detectors) < FEWEST_DETECTORS:
        return [first]
    return [first, _orders(main.metric, other.metric, means)]


def _orders(main: str, other: str, means: Mapping[str, Floats]) -> Claim:
    """Whether two metrics order the detectors of this table alike, whoever owes it to chance."""
    tau = tau_b(means[main], means[other], level=LEVEL)
    if tau.value is None:
        equal = [name for name, own in means.items() if np.ptp(own) == 0.0]
        text = f"By {listing(equal)} all detectors of this table are equal."
        return Claim(text, "undecided", "Kendall's tau is undefined")
    alike = "alike" if tau.value > 0 else "the other way round" if tau.value < 0 else "otherwise"
    sure = tau.low > 0 or tau.high < 0
    text = f"{main} and {other} order the detectors of this table {alike}"
    return Claim(
        f"{text}." if sure else f"{text}, but no more than orders may by chance.",
        "holds" if sure else "undecided",
        f"Kendall's tau {tau.value:.2f} [{tau.low:.2f}, {tau.high:.2f}] between the orders",
    )


def _table(fields: Sequence[Cases], detectors: Sequence[str]) -> Table:
    rows: list[tuple[TableCell, ...]] = []
    for name in detectors:
        values = [float(field.values[field.detectors.index(name)].mean()) for field in fields]
        rows.append((name, *values))
    arrows = [f"{f.metric} {'↑' if f.results.higher_is_better else '↓'}" for f in fields]
    return Table(
        "metrics", "Mean of every metric", ("detector", *arrows), tuple(rows),
        "↑ higher is better, ↓ lower is better.",
    )  # fmt: skip


def _map(fields: Sequence[Cases], detectors: Sequence[str]) -> Series:
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
