"""Do several metrics of one table agree on the order of detectors?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import (
    Claim,
    Finding,
    Series,
    Table,
    TableCell,
    Value,
    Verdict,
    folded,
    themed,
)
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cases import Cases, cases_of
from oodometer.protocols.common.differences import compare_cases
from oodometer.protocols.common.words import LEVEL, count, few, listing, several
from oodometer.results import Results
from oodometer.stats.agreement import tau_b
from oodometer.stats.leaderboard import Leaderboard, leaderboard
from oodometer.stats.ranks import rank_matrix

FEWEST_DETECTORS = 3  # two agree or not by a coin toss
SINGLE_VALUES = "a single value of each detector cannot say how certain that is"


def metric_agreement(tables: Sequence[Results], ours: str = "") -> Finding:
    """Compare the order of detectors by the first metric with that by every other.

    `ours` was declared in advance: its pairs are judged as in the ranking.
    """
    if len(tables) < 2:
        raise UserError("Agreement of metrics needs at least two metrics; the table has one.")
    fields = [cases_of(table) for table in tables]
    common = [d for d in fields[0].detectors if all(d in field.detectors for field in fields)]
    if len(common) < 2:
        raise UserError("Fewer than two detectors have values of every metric.")
    means = {field.metric: _means(field, common) for field in fields}
    main, *others = means
    found = [_agreement(fields[0], field, common, ours) for field in fields[1:]]
    gone = [name for name in tables[0].detectors if name not in common]
    of = f"of the {len(common)} detectors with values of every metric, " if gone else ""
    firsts = themed("changes", (claim for one in found for claim in _first_claims(one, common, of)))
    orders = themed("changes", (claim for one in found for claim in _order_claims(one, common)))
    return Finding(
        protocol="metric_agreement",
        title="Do the metrics agree on the order of detectors?",
        question=f"Would {listing(others)} have named the same best detector as {main}?",
        claims=(
            *folded(firsts, count(len(fields[0].names), fields[0].case)),
            *folded(orders, count(len(common), "detector")),
        ),
        tables=(_table(fields, common),),
        series=(_map(fields, common),),
        caveats=(
            "Means over all that every detector has. That the metrics agree, or disagree, on who "
            "is first is certain if the leads by both are significant "
            f"({several(fields[0].case)}, multiple comparisons with the best); Kendall's tau "
            "measures how far the whole orders agree in this table.",
            *((f"Left out, for lack of values of some metric: {listing(gone)}.",) if gone else ()),
        ),
        facts=(("metrics", str(len(means))), ("detectors", str(len(common)))),
        answer=_answer([one for one in found if one.standings], of, gone),
    )


def _means(field: Cases, detectors: Sequence[str]) -> Floats:
    """Mean of each detector, turned so that higher is better."""
    rows = [field.detectors.index(name) for name in detectors]
    return np.asarray(field.sign * field.means[rows])


class _Standing(NamedTuple):
    """Who is first by one metric, and of whom it is significantly ahead."""

    metric: str
    detectors: tuple[str, ...]  # the best mean first
    board: Leaderboard

    @property
    def first(self) -> str:
        return self.detectors[0]

    def is_ahead_of(self, other: str) -> bool:
        """Whether the first is significantly ahead of another; of all others if it is the same."""
        if other == self.first:
            return self.board.is_decided
        return bool(self.board.separated[self.detectors.index(other), 0])


class _Agreement(NamedTuple):
    """Who is first by the main metric and by another; no standings where nobody is first."""

    main: Cases
    other: Cases
    means: Mapping[str, Floats]
    standings: tuple[_Standing, ...]

    @property
    def leads(self) -> dict[str, bool]:
        """Metric -> whether its first is significantly ahead of the other's, or of all others."""
        one, two = self.standings
        return {one.metric: one.is_ahead_of(two.first), two.metric: two.is_ahead_of(one.first)}

    @property
    def verdict(self) -> Verdict:
        """Whether the same one is first by both, or each is ahead of the other by its metric.

        Both leads must be significant, which needs no correction for there being two.
        """
        if not all(self.leads.values()):
            return "undecided"
        one, two = self.standings
        return "holds" if one.first == two.first else "flips"


def _agreement(main: Cases, other: Cases, detectors: Sequence[str], ours: str) -> _Agreement:
    fields = {main.metric: main, other.metric: other}
    means = {name: _means(field, detectors) for name, field in fields.items()}
    if any(np.ptp(own) == 0.0 for own in means.values()):
        return _Agreement(main, other, means, ())
    standings = []
    for metric, field in fields.items():
        compared = compare_cases(field.of(detectors), ours)
        declared = detectors.index(ours) if ours in detectors else None
        board = leaderboard(compared, level=LEVEL, declared=declared)
        ranked = tuple(detectors[row] for row in board.order)
        standings.append(_Standing(metric, ranked, board))
    return _Agreement(main, other, means, tuple(standings))


def _first_claims(found: _Agreement, detectors: Sequence[str], of: str) -> list[Claim]:
    """Whether two metrics rank the same detector first, where somebody is.

    `of` says that others lack values of some metric, if there are such.
    """
    main, other = found.main, found.other
    if not found.standings:
        return []
    best, rival = (standing.first for standing in found.standings)
    text = of.capitalize() + (
        f"{main.metric} and {other.metric} both rank {best} first"
        if best == rival
        else f"{main.metric} ranks {best} first, {other.metric} {rival}"
    )
    # What the metrics say about this table is plain; whether other cases would agree is not.
    sure = [metric for metric, lead in found.leads.items() if lead]
    doubt = f"the leads are not significant {main.scope}"
    if len(main.names) == 1:
        doubt = SINGLE_VALUES
    elif sure:
        doubt = f"only the lead by {sure[0]} is significant {main.scope}"
    first = Claim(
        f"{text}, but {doubt}." if found.verdict == "undecided" else f"{text}.",
        found.verdict,
        f"{count(len(detectors), 'detector')}, {count(len(main.names), main.case)}"
        + "; the leads are significant" * all(found.leads.values()),
        leaves_open=f"whether {other.metric} ranks the same detector first as {main.metric} (here "
        + ("it does)" if best == rival else f"{rival}, not {best})"),
    )
    return [first]


def _answer(found: Sequence[_Agreement], of: str, gone: Sequence[str]) -> str:
    """Say who is first by which metrics, whether that is certain, and who is left out."""
    if not found:
        return ""
    main, verdicts = found[0].main, {one.verdict for one in found}
    best = found[0].standings[0].first
    first_by: dict[str, list[str]] = {best: [main.metric]}
    for one in found:
        first_by.setdefault(one.standings[1].first, []).append(one.other.metric)
    text = "; ".join(f"{name} is first by {listing(metrics)}" for name, metrics in first_by.items())
    rest = f" {few(gone, 'detector')} {'lacks' if len(gone) == 1 else 'lack'} some." if gone else ""
    if "flips" in verdicts:
        return f"Which detector is best depends on the metric: {of}{text}.{rest}"
    if verdicts == {"holds"}:
        return f"The metrics agree: {of}{text}, significantly {main.scope}.{rest}"
    doubt = SINGLE_VALUES
    if len(main.names) > 1:
        doubt = f"not all of these leads are significant {main.scope}"
    return f"{of.capitalize()}{text}, but {doubt}.{rest}"


def _order_claims(found: _Agreement, detectors: Sequence[str]) -> list[Claim]:
    """The same of all detectors; of two, who is first says all."""
    if found.standings and len(detectors) < FEWEST_DETECTORS:
        return []
    return [_orders(found.main.metric, found.other.metric, found.means)]


def _orders(main: str, other: str, means: Mapping[str, Floats]) -> Claim:
    """Whether two metrics order the detectors of this table in the same way."""
    tau = tau_b(means[main], means[other], level=LEVEL)
    if tau.value is None:
        equal = [name for name, own in means.items() if np.ptp(own) == 0.0]
        text = f"By {listing(equal)} all detectors of this table are equal."
        return Claim(text, "undecided", "Kendall's tau is undefined")
    way = {1: "in the same way", -1: "in opposite ways", 0: "in unrelated ways"}[_sign(tau.value)]
    is_significant = tau.low > 0 or tau.high < 0
    text = f"{main} and {other} order the detectors of this table {way}."
    if not is_significant:
        many = count(len(means[main]), "detector")
        text = f"{many} do not show whether {main} and {other} order detectors in the same way."
    value, low, high = (f"{end:.2f}".replace("-", "−") for end in (tau.value, tau.low, tau.high))
    return Claim(
        text,
        "holds" if is_significant else "undecided",
        f"Kendall's tau {value} [{low}, {high}] between the orders",
        leaves_open=f"whether {main} and {other} order detectors in the same way (here Kendall's "
        f"tau is {value})",
    )


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _table(fields: Sequence[Cases], detectors: Sequence[str]) -> Table:
    rows: list[tuple[TableCell, ...]] = []
    for name in detectors:
        values = [float(field.means[field.detectors.index(name)]) for field in fields]
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
