"""Who is best if detectors were not measured in the same runs, or are known by mean ± spread."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

from oodometer.errors import UserError
from oodometer.factors import names
from oodometer.finding import Claim, Finding, Table, TableCell
from oodometer.protocols.common.cases import cases_of
from oodometer.protocols.common.cells import Pair, set_word
from oodometer.protocols.common.differences import FEWEST_FOR_T, has_shares
from oodometer.protocols.common.views import span
from oodometer.protocols.common.words import count, in_all, listing
from oodometer.protocols.ranking.answer import choice, declared
from oodometer.protocols.ranking.claims import lead_claims, ours_claims
from oodometer.protocols.ranking.notes import ADJUSTED
from oodometer.protocols.ranking.order_views import (
    leaderboard_series,
    leaderboard_table,
    ours_table,
    shown,
)
from oodometer.protocols.ranking.standing import (
    AFTER_RETRAINING,
    Standing,
    Subject,
    standing_of,
)
from oodometer.results import Results
from oodometer.stats.leaderboard import from_summaries
from oodometer.stats.summary import UNBOUNDED, Summary

if TYPE_CHECKING:
    import pandas as pd

MOST_RUNS = 1000  # behind a mean: nobody trains more to fill one cell


def are_separate(table: Results) -> bool:
    """Tell whether runs are mere repeats that detectors do not share, such as seeds of their own.

    If most detectors have three runs or more in common, they are compared in pairs instead.
    """
    if not table.factors or len(names(table.factors, "repeat")) < len(table.factors):
        return False
    runs = (
        table.frame[["detector", *table.factor_names]].drop_duplicates()["detector"].value_counts()
    )
    several = int((runs > 1).sum())
    if several < 2:
        return False
    try:
        field = cases_of(table)
    except UserError:
        return True
    shared = field.unit in ("run", "data set") and len(field.names) >= FEWEST_FOR_T
    # Two runs each, all of them shared, are poor pairs, but no better apart.
    apart = int(runs.max()) >= FEWEST_FOR_T and not shared
    return apart or 2 * len(field.detectors) <= several


def over_separate_repeats(table: Results) -> Results:
    """Average over repeats that detectors do not share, where other factors tell runs apart.

    Seeds 1 and 2 of one detector and 3 and 4 of another, both under each of several optimizers,
    are compared optimizer by optimizer.
    """
    repeats = names(table.factors, "repeat")
    others = tuple(factor for factor in table.factors if factor.kind != "repeat")
    if not repeats or not others:
        return table
    detectors = table.frame.groupby(list(table.factor_names))["detector"].nunique()
    if len(table.detectors) < 2 or detectors.max() > 1:
        return table
    keys = [*table.keys, *names(others)]
    numbers = [
        name
        for name in table.frame.columns
        if name not in (*keys, *repeats) and table.frame[name].dtype.kind in "fi"
    ]
    frame = table.frame.groupby(keys, sort=False)[numbers].mean().reset_index()
    return replace(
        table, frame=frame.drop(columns=["spread", "runs"], errors="ignore"), factors=others
    )


class _Own(NamedTuple):
    """Mean of every detector over the runs of its own that have all common sets."""

    summaries: Mapping[str, Summary]
    sets: int  # that every detector has in some run, or most of them
    all_sets: int
    runs: int  # that have a value at all, of all detectors
    used: int


def _own_runs(table: Results) -> _Own:
    cells = _with_sets(table).pivot_table(
        index=["detector", *table.factor_names], columns=["id", "set"], values="value", sort=False
    )
    # Every detector by the same outlier sets: those that each has in some run.
    common = cells.groupby(level="detector", sort=False).count().gt(0).all()
    if not common.any():
        raise UserError("No outlier set has a value for every detector, in runs of its own.")
    whole = _fullest(cells[list(common[common].index)])
    means = whole.T.groupby(level="id").mean().mean()  # data sets weigh the same
    values = means.groupby(level="detector", sort=False)
    known = {str(name): Summary.of(own.to_numpy(dtype=float)) for name, own in values}
    return _Own(known, whole.shape[1], cells.shape[1], len(cells), len(whole))


def _fullest(cells: pd.DataFrame) -> pd.DataFrame:
    """The runs (rows) that have all of some sets, so chosen that most detectors have several runs.

    All sets, unless more than half of them let more detectors be compared; those with the most
    gaps go first.
    """
    order = cells.isna().sum().sort_values(kind="stable").index

    def whole(many: int) -> pd.DataFrame:
        return cells[[name for name in cells.columns if name in order[:many]]].dropna()

    def worth(many: int) -> tuple[int, int]:
        kept = whole(many)
        runs = kept.groupby(level="detector", sort=False).size()
        return int((runs > 1).sum()), kept.size

    every = len(order)
    if worth(every)[0] == cells.index.get_level_values("detector").nunique():
        return whole(every)
    return whole(max(range(every, every // 2, -1), key=worth))


def _has_spread(known: Summary | None) -> bool:
    """Whether a detector has several runs: one has no spread, and it is not compared."""
    return known is not None and known.runs > 1


def own_runs_compared(table: Results) -> str:
    """Say which runs detectors that share none are compared by, if not by all."""
    try:
        own = _own_runs(table)
    except UserError:
        return ""
    if own.used == own.runs and own.sets == own.all_sets:
        return ""
    sets = in_all(own.sets, own.all_sets, _set_word(table), preposition="on")
    text = f"each detector by its own runs {sets}: {own.used} of {own.runs} runs of detectors"
    few = [name for name in table.detectors if not _has_spread(own.summaries.get(name))]
    return f"{text}; too few runs: {listing(few)}" if few else text


def separate_runs(table: Results, ours: str = "") -> Finding:
    """Compare detectors by Welch's t test over the runs that each of them has."""
    known, sets, *_ = _own_runs(table)
    return _finding(
        table,
        ours,
        known,
        sets,
        (
            "Detectors share too few runs to be compared run by run: each is judged by its own "
            "runs, assumed to be independent and trained under the same conditions. Differences "
            "are tested by Welch's t test, which assumes normal values.",
        ),
    )


def stated_spreads(table: Results, ours: str = "") -> Finding:
    """Compare detectors by the means, standard deviations and numbers of runs that cells state."""
    if "runs" not in table.frame.columns:
        raise UserError("How many runs each mean ± spread is over is not stated.")
    stated = _stated(table)
    fewest = table.frame.groupby("detector")["runs"].min()
    known = {
        name: _summary(part, runs)
        for name, part in stated.by_detector.items()
        if (runs := int(fewest[name])) > 1
    }
    if not known:
        raise UserError("Each mean is over one run, which has no spread.")
    silent = [name for name in cases_of(table).detectors if name not in known]
    lacking = [f"Not compared, because no spread is stated: {listing(silent)}."] if silent else []
    return _finding(
        table,
        ours,
        known,
        stated.sets,
        (
            "By Welch's t test from the stated means, standard deviations and numbers of runs. "
            "Which runs detectors share is not known: they are assumed to be independent, which "
            "makes p too large rather than too small if runs are shared.",
            "How outlier sets vary together is not known either: the spread of a mean over them is "
            "taken as the mean of their spreads, the largest possible.",
            "Standard deviations are assumed to be divided by the number of runs, as by default in "
            "NumPy; if they were divided by one less, intervals are slightly too wide.",
            *lacking,
        ),
    )


def says_all(table: Results) -> bool:
    """Tell whether runs of each detector's own say more than the one number that each has."""
    if "runs" not in table.frame.columns or len(cases_of(table).names) > 1:
        return False
    try:
        unpaired(table)
    except UserError:
        return False
    return True


def unpaired(table: Results, ours: str = "") -> Finding:
    """Compare detectors by runs of each one's own, or by the spreads that cells state."""
    return separate_runs(table, ours) if are_separate(table) else stated_spreads(table, ours)


def spread_claims(table: Results) -> list[Claim]:
    """Say what stated spreads could tell if somebody knew over how many runs they are."""
    if "spread" not in table.frame.columns or "runs" in table.frame.columns:
        return []
    try:
        stated = _stated(table).by_detector
    except UserError:
        return []

    def standing(runs: int) -> Standing:
        return _standing(table, {name: _summary(part, runs) for name, part in stated.items()})

    best = standing(2).leader
    others = "all others" if len(stated) == len(table.detectors) else "all others that state one"
    numbers = range(2, MOST_RUNS + 1)
    place = bisect_left(numbers, True, key=lambda runs: standing(runs).board.is_decided)
    text = (
        f"After retraining, {best} would be significantly ahead of {others} if each mean ± "
        f"standard deviation is over {numbers[place]} runs or more."
        if place < len(numbers)
        else f"After retraining, {best} would not be significantly ahead of {others} even if each "
        f"mean ± standard deviation is over {MOST_RUNS:,} runs."
    )
    hint = (
        "by the stated standard deviations; how many runs they are over is not stated: --runs N "
        "says so and adds the test (Welch's t)"
    )
    return [Claim(text, "undecided", hint)]


def _with_sets(table: Results) -> pd.DataFrame:
    frame = table.frame if "id" in table.frame.columns else table.frame.assign(id="")
    several = len(set(frame["id"])) > 1
    return frame.assign(set=frame["id"] + " / " + frame["ood"] if several else frame["ood"])


def _set_word(table: Results) -> str:
    """What the cells of a table are of: data sets with models of their own, or outlier sets."""
    frame = table.frame.assign(id=table.frame["id"] if "id" in table.frame.columns else "")
    return set_word(starmap(Pair, frame[["id", "ood"]].drop_duplicates().to_numpy().tolist()))


class _Stated(NamedTuple):
    """Mean and standard deviation of each detector, over the cells that all of them have."""

    by_detector: dict[str, tuple[float, float]]
    sets: int


def _stated(table: Results) -> _Stated:
    frame, field = _with_sets(table), cases_of(table)
    compared = {(pair.id, pair.ood) for pair in field.cells.pairs}  # as in all other findings
    pairs = zip(frame["id"], frame["ood"], strict=True)
    frame = frame[[pair in compared for pair in pairs]]
    kept = frame[frame["detector"].isin(field.detectors)]
    # No spread at all is that of a single run, or of one that was rounded away.
    spreads = kept.groupby("detector")["spread"]
    silent = spreads.transform(lambda own: float(own.isna().any() or not own.any())) > 0
    kept = kept[~silent]
    if kept["detector"].nunique() < 2:
        raise UserError("Fewer than two detectors state a spread in every cell.")
    cells = kept.pivot_table(
        index=[*table.factor_names, "id", "ood", "set"],
        columns="detector",
        values=["value", "spread"],
        sort=False,
    ).dropna()
    if cells.empty:
        raise UserError("No outlier set has mean ± spread for every detector.")
    # As in the ranking: cases weigh the same, whatever they hold.
    outer = "ood" if field.unit == "outlier set" and field.case == field.unit else "id"
    means = cells.groupby(level=outer).mean().mean()
    names = dict.fromkeys(kept["detector"])
    by_detector = {
        name: (float(means["value", name]), float(means["spread", name])) for name in names
    }
    return _Stated(by_detector, cells.index.get_level_values("set").nunique())


def _summary(stated: tuple[float, float], runs: int) -> Summary:
    mean, spread = stated
    return Summary(mean, spread * math.sqrt(runs / (runs - 1)), runs)


def _standing(
    table: Results, known: Mapping[str, Summary], ours: str = "", sets: int = 1
) -> Standing:
    """Compare detectors with several runs, by the spreads of both."""
    sign = 1 if table.higher_is_better else -1
    turned = [part._replace(mean=sign * part.mean, skewness=sign * part.skewness)
              for part in known.values()]  # fmt: skip
    shares = has_shares(table)
    bounds = ((0.0, 1.0) if sign > 0 else (-1.0, 0.0)) if shares else UNBOUNDED
    whole = len(known) == len(table.detectors)
    over = f"over {count(sets, _set_word(table))}"
    over += "" if whole or len(known) == 1 else f", of the {len(known)} detectors that are compared"
    subject = Subject(table.label, over, sign, is_whole=whole, are_shares=shares)
    pairwise = from_summaries(turned, bounds=bounds)
    return standing_of(list(known), pairwise, AFTER_RETRAINING, subject, ours)


def _finding(
    table: Results, ours: str, given: Mapping[str, Summary], sets: int, caveats: tuple[str, ...]
) -> Finding:
    known = {name: part for name, part in given.items() if _has_spread(part)}
    if not known:
        where = in_all(sets, sets, _set_word(table), preposition="on")
        raise UserError(
            f"No detector has two runs with a value {where}: too many values are missing to "
            "compare detectors."
        )
    few = [name for name in given if name not in known]
    standing = _standing(table, known, ours, sets)
    claims = lead_claims(standing)
    tables = [_means(standing, known)]
    if len(known) > 1:
        tables.append(leaderboard_table(standing))
    if ours in known and len(known) > 1:
        claims = [*ours_claims(ours, standing, {}), *claims]
        tables.insert(1, ours_table(ours, standing))
    if few:
        caveats = (*caveats, f"Not compared, because one run has no spread: {listing(few)}.")
    runs = [part.runs for part in known.values()]
    return Finding(
        protocol="unpaired",
        title=f"Which detector has the best {table.label}, by each detector's own runs?",
        question="Is the lead larger than the variation over runs?",
        claims=tuple(claims),
        tables=tuple(tables),
        series=(leaderboard_series(standing),),
        caveats=(*caveats, ADJUSTED),
        facts=(
            ("metric", table.label),
            ("detectors", str(len(known))),
            ("runs per detector", span(min(runs), max(runs))),
            (f"{_set_word(table)}s", str(sets)),
            *([("declared in advance", ours)] if ours else []),
        ),
        answer=_answer(standing, ours if ours in known else "", runs),
    )


def _answer(standing: Standing, ours: str, runs: Sequence[int]) -> str:
    """Whom to use, and first how the detector that was declared in advance stands."""
    if len(standing.detectors) == 1:
        only = "the only detector with several runs that can be compared"
        return f"{standing.leader} is {only}: there is nothing to choose from."
    first = declared(ours, standing, names_scope=True) if ours else []
    tried = f"{runs[0]} runs of each" if len(set(runs)) == 1 else "these runs"
    return " ".join([*first, choice(standing, tried)])


def _means(standing: Standing, known: Mapping[str, Summary]) -> Table:
    rows: list[tuple[TableCell, ...]] = [
        (name, shown(standing.means[name]), known[name].spread, known[name].runs)
        for name in standing.detectors
    ]
    return Table(
        "means",
        f"{standing.subject.metric}, mean over runs, with 95% confidence intervals",
        ("detector", "mean", "standard deviation", "runs"),
        tuple(rows),
        ("Higher" if standing.subject.sign > 0 else "Lower")
        + " is better. Intervals are Student's t, also on the logit scale, for the mean over "
        "further runs like these; the standard deviation is over each detector's own runs.",
    )
