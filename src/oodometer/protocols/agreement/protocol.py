"""Do several metrics of one table agree on the order of detectors?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, Series, Table, TableCell, Value, folded, themed
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cases import Cases, cases_of
from oodometer.protocols.common.comparisons import (
    Comparison,
    compare_all,
    judge,
    number_of_pairs,
)
from oodometer.protocols.common.differences import paired_difference
from oodometer.protocols.common.words import LEVEL, count, listing
from oodometer.results import Results
from oodometer.stats.agreement import tau_b
from oodometer.stats.comparison import Difference
from oodometer.stats.ranks import rank_matrix

FEWEST_DETECTORS = 3  # two agree or not by a coin toss


def metric_agreement(tables: Sequence[Results], rng: np.random.Generator | None = None) -> Finding:
    """Compare the order of detectors by the first metric with that by every other."""
    rng = np.random.default_rng(0) if rng is None else rng
    if len(tables) < 2:
        raise UserError("Agreement of metrics needs at least two metrics; the table has one.")
    fields = [cases_of(table) for table in tables]
    common = [d for d in fields[0].detectors if all(d in field.detectors for field in fields)]
    if len(common) < 2:
        raise UserError("Fewer than two detectors have values of every metric.")
    means = {field.metric: _means(field, common) for field in fields}
    main, *others = means
    found = [_agreement(fields[0], field, common, rng) for field in fields[1:]]
    claims = themed("changes", (claim for one in found for claim in _claims(one, common)))
    return Finding(
        protocol="metric_agreement",
        title="Do the metrics agree on the order of detectors?",
        question=f"Would {listing(others)} have named the same best detector as {main}?",
        claims=folded(claims, count(len(fields[0].names), fields[0].case)),
        tables=(_table(fields, common),),
        series=(_map(fields, common),),
        caveats=(
            "Means over all that every detector has. Who is first holds, or flips, if the leads by "
            f"both metrics are significant (paired {fields[0].case}s, Holm); Kendall's tau "
            "measures how far the whole orders agree in this table.",
        ),
        facts=(("metrics", str(len(means))), ("detectors", str(len(common)))),
        answer=_answer([one for one in found if one.comparisons]),
    )


def _means(field: Cases, detectors: Sequence[str]) -> Floats:
    """Mean of each detector, turned so that higher is better."""
    rows = [field.detectors.index(name) for name in detectors]
    return np.array([float(field.oriented(row).mean()) for row in rows])


class _Agreement(NamedTuple):
    """Who is first by the main metric and by another; no comparisons where nobody is first."""

    main: Cases
    other: Cases
    means: Mapping[str, Floats]
    comparisons: Sequence[Comparison]


def _agreement(
    main: Cases, other: Cases, detectors: Sequence[str], rng: np.random.Generator
) -> _Agreement:
    fields = {main.metric: main, other.metric: other}
    means = {name: _means(field, detectors) for name, field in fields.items()}
    if any(np.ptp(own) == 0.0 for own in means.values()):
        return _Agreement(main, other, means, ())
    contexts = {
        metric: {name: -float(mean) for name, mean in zip(detectors, own, strict=True)}
        for metric, own in means.items()
    }
    pairs = number_of_pairs(contexts)

    def compare(metric: str, second: str, first: str) -> Difference:
        field = fields[metric]
        one, two = (field.oriented(field.detectors.index(name)) for name in (second, first))
        return paired_difference(one, two, pairs, rng)

    return _Agreement(main, other, means, compare_all(contexts, compare))


def _claims(found: _Agreement, detectors: Sequence[str]) -> list[Claim]:
    main, other = found.main, found.other
    orders = _orders(main.metric, other.metric, found.means)
    if not found.comparisons:
        return [orders]
    best, rival = (comparison.first for comparison in found.comparisons)
    text = (
        f"{main.metric} and {other.metric} both rank {best} first"
        if best == rival
        else f"{main.metric} ranks {best} first, {other.metric} {rival}"
    )
    # What the metrics say about this table is plain; whether other cases would agree is not.
    verdict = judge(found.comparisons)
    is_open = verdict == "undecided"
    text += f"; {main.scope} it may be another." if is_open else "."
    leads = "the leads are not significant" if is_open else "the leads are significant"
    first = Claim(
        text,
        verdict,
        f"{count(len(detectors), 'detector')}; {leads}",
        leaves_open=f"whether {main.metric} ({best}) and {other.metric} ({rival}) rank the same "
        "detector first",
    )
    return [first] if len(detectors) < FEWEST_DETECTORS else [first, orders]


def _answer(found: Sequence[_Agreement]) -> str:
    """Say who is first by which metrics, and whether that is certain."""
    if not found:
        return ""
    main, verdicts = found[0].main, {judge(one.comparisons) for one in found}
    best = found[0].comparisons[0].first
    first_by: dict[str, list[str]] = {best: [main.metric]}
    for one in found:
        first_by.setdefault(one.comparisons[1].first, []).append(one.other.metric)
    text = "; ".join(f"{name} is first by {listing(metrics)}" for name, metrics in first_by.items())
    if "flips" in verdicts:
        return f"Which detector is best depends on the metric: {text}."
    if verdicts == {"holds"}:
        return f"The metrics agree: {text}, significantly {main.scope}."
    return f"{text}, but not all of these leads are significant {main.scope}."


def _orders(main: str, other: str, means: Mapping[str, Floats]) -> Claim:
    """Whether two metrics order the detectors of this table in the same way."""
    tau = tau_b(means[main], means[other], level=LEVEL)
    if tau.value is None:
        equal = [name for name, own in means.items() if np.ptp(own) == 0.0]
        text = f"By {listing(equal)} all detectors of this table are equal."
        return Claim(text, "undecided", "Kendall's tau is undefined")
    way = {1: "in the same way", -1: "in opposite ways", 0: "in unrelated ways"}[_sign(tau.value)]
    is_significant = tau.low > 0 or tau.high < 0
    text = f"{main} and {other} order the detectors of this table {way}"
    return Claim(
        f"{text}." if is_significant else f"{text}, but not significantly.",
        "holds" if is_significant else "undecided",
        f"Kendall's tau {tau.value:.2f} [{tau.low:.2f}, {tau.high:.2f}] between the orders",
    )


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


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
        "Rank by the mean, 1 is best; all metrics agree on a detector whose row has one color.",
        "rank",
        tuple(points),
        higher_is_better=False,
        roles={"row": "detector"},
    )
