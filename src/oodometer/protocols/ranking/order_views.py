"""Tables and figures of the order of detectors, in each scope."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from oodometer.finding import Series, Table, TableCell, Value
from oodometer.metrics import Estimate
from oodometer.protocols.common.views import rank_rows, span
from oodometer.protocols.common.words import SIGNIFICANT, count
from oodometer.protocols.ranking.standing import Contest, Standing

MOST_IN_DIAGRAM = 30  # more names would not fit beside one axis
MOST_LEADERS = 10  # rows of the first figure: a screen holds no more


def shown(mean: Estimate) -> Estimate | float:
    """A mean with its interval; values that all agree, or a single one, have none."""
    finite = math.isfinite(mean.low) and math.isfinite(mean.high)
    return mean if finite and mean.low < mean.high else mean.value


def leaderboard_tables(contest: Contest, needed: Mapping[str, str]) -> list[Table]:
    """Who can be the best in each scope, and how far each is from the best of the others.

    `needed` says how many runs would separate the detector that is declared from others.
    """
    if len(contest.detectors) < 2:
        return []
    tables = []
    for number, standing in enumerate(contest.standings):
        own = needed if standing is contest.main else {}
        tables += [ours_table(contest.ours, standing, number, own)] if contest.ours else []
        tables.append(leaderboard_table(standing, number, _other_means(standing, contest)))
    return tables


def _other_means(standing: Standing, contest: Contest) -> str:
    """Say why the means of this scope are not those of the main one, if they are not."""
    main = contest.main
    if main is None or all(
        math.isclose(own.value, main.means[name].value) for name, own in standing.means.items()
    ):
        return ""
    return (
        f" These means are not those {main.scope}: only what every compared detector has in every "
        "case counts."
    )


def leaderboard_table(standing: Standing, number: int = 0, remark: str = "") -> Table:
    """Who can be the best in one scope; `number` counts them, a `remark` ends the note."""
    board = standing.board
    rows: list[tuple[TableCell, ...]] = [
        (
            name,
            shown(standing.means[name]),
            "yes" if can else "no",
            span(*ranks),
            letters,
            standing.gaps[name].estimate,
            "–" if name == standing.leader else standing.gaps[name].p_value,
        )
        for name, can, ranks, letters in zip(
            standing.detectors, board.can_be_best, board.ranks, board.letters, strict=True
        )
    ]
    better = "Higher" if standing.subject.sign > 0 else "Lower"
    return Table(
        f"leaderboard{f'-{number + 1}' if number else ''}",
        f"Who can be the best {standing.scope}?",
        ("detector", "mean", "can be the best", "plausible ranks (95%)", "group",
         "against the best of the others", "adjusted p"),
        tuple(rows),
        f"{better} {standing.subject.metric} is better. Each mean has a 95% confidence interval of "
        "its own. Differences are positive for a better detector, with intervals that hold for all "
        "detectors at once (multiple comparisons with the best, Hsu 1984): an interval that ends "
        "at 0 from below, and an adjusted p below 5%, say that the detector cannot be the best; "
        "one that starts at 0 that it is. P-values are the smaller of two: by all comparisons of "
        "the detector, and by the least certain lead of the first, which settles all at once. "
        "Plausible ranks and groups follow from the same comparisons: detectors without a common "
        f"letter are separated. {board.method}{remark}",
    )  # fmt: skip


def leaderboards(contest: Contest) -> list[Series]:
    """The leaders of the main scope, and where there are many detectors, all of them."""
    if len(contest.detectors) < 2:
        return []
    main = contest.main
    drawn = _single_values(contest) if main is None else leaderboard_series(main)
    if len(drawn.points) <= MOST_LEADERS:
        return [replace(drawn, name="leaders")]
    few = f"The first {MOST_LEADERS} of {len(drawn.points)} detectors. {drawn.description}"
    leaders = replace(drawn, name="leaders", description=few, points=drawn.points[:MOST_LEADERS])
    return [leaders, replace(drawn, title=f"All detectors: {drawn.title}")]


def leaderboard_series(standing: Standing) -> Series:
    """Every mean with its interval, and which of them cannot be separated."""
    board, subject = standing.board, standing.subject
    points: list[Mapping[str, Value]] = []
    for name, ranks, letters in zip(standing.detectors, board.ranks, board.letters, strict=True):
        mean = shown(standing.means[name])
        low, high = (mean.low, mean.high) if isinstance(mean, Estimate) else (None, None)
        points.append(
            {"label": name, "value": standing.means[name].value, "low": low, "high": high,
             "letters": letters, "leads": "no" if name in standing.behind else "yes",
             "plausible ranks": span(*ranks)}
        )  # fmt: skip
    return Series(
        "leaderboard",
        "leaderboard",
        f"Who can be the best {standing.scope}?",
        f"Mean {subject.metric} {subject.over}, with 95% confidence intervals. In color: can be "
        "the best. Dots joined by a line: not separable.",
        subject.metric,
        tuple(points),
        higher_is_better=subject.sign > 0,
        roles={"label": "detector"},
    )


def critical_differences(contest: Contest) -> list[Series]:
    """Mean ranks on one axis; bars join what the leaderboard of the main scope does not separate.

    The layout is that of Demsar 2006 (JMLR 7), what is joined is not: a test of mean ranks beside
    that of mean values could contradict it.
    """
    main = contest.main
    cases = contest.values.shape[1]
    if main is None or cases < 2 or not 3 <= len(contest.detectors) <= MOST_IN_DIAGRAM:
        return []
    ranks = dict(zip(contest.detectors, contest.order.mean(axis=1).tolist(), strict=True))
    letters = dict(zip(main.detectors, main.board.letters, strict=True))
    return [
        Series(
            "critical",
            "critical-differences",
            f"Mean ranks, and what cannot be separated {main.scope}",
            f"Mean rank by {contest.subject.metric} over {count(cases, contest.case)}, 1 is best. "
            "Bars with a dot for each detector join those that cannot be separated, as in the "
            f"leaderboard: by their mean {contest.subject.metric}, not by their ranks.",
            "mean rank",
            tuple(
                {"label": name, "value": ranks[name], "letters": letters[name]}
                for name in sorted(ranks, key=lambda name: ranks[name])
            ),
            higher_is_better=False,
            roles={"label": "detector"},
        )
    ]


def _single_values(contest: Contest) -> Series:
    """The single value of each detector: nothing says which can be separated."""
    subject = contest.subject
    return Series(
        "leaderboard",
        "leaderboard",
        f"{subject.metric} of each detector",
        f"Mean {subject.metric} {subject.over}, without intervals.",
        subject.metric,
        tuple(
            {"label": name, "value": value, "low": None, "high": None, "letters": "", "leads": "no"}
            for name, value in zip(contest.detectors, contest.means.tolist(), strict=True)
        ),
        higher_is_better=subject.sign > 0,
        roles={"label": "detector"},
    )


def ours_table(
    ours: str, standing: Standing, number: int = 0, needed: Mapping[str, str] | None = None
) -> Table:
    """The detector that was declared in advance against every other one.

    `needed` says how many runs would separate it from those that it is not separable from.
    """
    open_ = [name for name, d in standing.ours.items() if d.p_value >= SIGNIFICANT]
    takes = {name: needed[name] for name in open_ if needed and name in needed}
    rows: list[tuple[TableCell, ...]] = [
        (name, d.estimate, d.p_value, *([takes.get(name, "–")] if takes else []))
        for name, d in standing.ours.items()
    ]
    columns = ("detector", f"{ours} ahead by", "adjusted p")
    return Table(
        f"ours{f'-{number + 1}' if number else ''}",
        f"{ours} against the others {standing.scope}",
        (*columns, "separating them takes") if takes else columns,
        tuple(rows),
        f"Positive: {ours} is better. These {count(len(rows), 'comparison')} were declared in "
        "advance; intervals hold for all of them at once, and one excludes 0 exactly where the "
        "adjusted p is below 5%.",
    )


def rank_table(contest: Contest) -> Table | None:
    """How often each detector is first, and between which ranks it moves."""
    if contest.values.shape[1] < 2 or len(contest.detectors) < 2:
        return None
    return Table(
        "ranks",
        f"How often each detector ranks first, {contest.preposition} "
        f"{count(contest.values.shape[1], contest.case)}",
        ("detector", "times first", "mean rank", "ranks"),
        tuple(rank_rows(contest.detectors, contest.order)),
        f"Rank 1 is the best {contest.subject.metric} in a single {contest.case}; equal values "
        "share their rank, and a shared first place counts for each.",
    )
