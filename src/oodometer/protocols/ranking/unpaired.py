"""Who is best if detectors were not measured in the same runs, or are known by mean ± spread."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from oodometer.errors import UserError
from oodometer.factors import names
from oodometer.finding import Claim, Finding, Series, Table, TableCell
from oodometer.metrics import Estimate
from oodometer.protocols.common.cases import cases_of
from oodometer.protocols.common.differences import FEWEST_FOR_T
from oodometer.protocols.common.views import difference_table, interval_series, span
from oodometer.protocols.common.words import (
    LEVEL,
    between,
    count,
    listing,
    number,
)
from oodometer.protocols.ranking.value_claims import (
    ADJUSTED,
    is_decided,
    lead_claims,
    tied_with_best,
)
from oodometer.results import Results
from oodometer.stats.comparison import Difference, adjusted, against_best
from oodometer.stats.summary import Summary, mean_interval
from oodometer.stats.unpaired import welch

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


def separate_runs(table: Results) -> Finding:
    """Compare detectors by Welch's t test over the runs that each of them has."""
    frame = _with_sets(table)
    cells = frame.pivot_table(
        index=["detector", *table.factor_names], columns="set", values="value", sort=False
    )
    # Every detector by the same outlier sets: those that each has in some run.
    common = cells.groupby(level="detector", sort=False).count().gt(0).all()
    whole = cells[list(common[common].index)].dropna()
    if not common.any() or whole.empty:
        raise UserError("No outlier set has a value for every detector, in runs of its own.")
    values = whole.mean(axis=1).groupby(level="detector", sort=False)
    known = {str(name): Summary.of(own.to_numpy(dtype=float)) for name, own in values}
    return _finding(
        table,
        known,
        int(common.sum()),
        (
            "Detectors share too few runs to be compared run by run: each is judged by its own "
            "runs, assumed to be independent and trained under the same conditions. Differences "
            "are tested by Welch's t test, which assumes normal values.",
        ),
    )


def stated_spreads(table: Results) -> Finding:
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


def unpaired(table: Results) -> Finding:
    """Compare detectors by runs of each one's own, or by the spreads that cells state."""
    return separate_runs(table) if are_separate(table) else stated_spreads(table)


def spread_claims(table: Results) -> list[Claim]:
    """Say what stated spreads could tell if somebody knew over how many runs they are."""
    if "spread" not in table.frame.columns or "runs" in table.frame.columns:
        return []
    try:
        stated = _stated(table).by_detector
    except UserError:
        return []

    def suffices(runs: int) -> bool:
        known = {name: _summary(part, runs) for name, part in stated.items()}
        return is_decided(_against(table, known))

    best = _ordered(table, {name: _summary(part, 2) for name, part in stated.items()})[0]
    enough = suffices(MOST_RUNS) and next(n for n in range(2, MOST_RUNS + 1) if suffices(n))
    text = (
        f"By the stated spreads, {best} is significantly ahead of every other detector if each "
        f"mean is over {enough} runs or more."
        if enough
        else f"By the stated spreads, {best} is not significantly ahead of every other detector, "
        f"even if each mean is over {MOST_RUNS:,} runs."
    )
    hint = "the number of runs is not stated; --runs N states it and adds the test (Welch's t)"
    return [Claim(text, "undecided", hint)]


def _with_sets(table: Results) -> pd.DataFrame:
    frame = table.frame
    several = "id" in frame.columns and len(set(frame["id"])) > 1
    return frame.assign(set=frame["id"] + " / " + frame["ood"] if several else frame["ood"])


class _Stated(NamedTuple):
    """Mean and standard deviation of each detector, over the cells that all of them have."""

    by_detector: dict[str, tuple[float, float]]
    sets: int


def _stated(table: Results) -> _Stated:
    frame = _with_sets(table)
    kept = frame[frame["detector"].isin(cases_of(table).detectors)]
    # No spread at all is that of a single run, or of one that was rounded away.
    spreads = kept.groupby("detector")["spread"]
    silent = spreads.transform(lambda own: float(own.isna().any() or not own.any())) > 0
    kept = kept[~silent]
    if kept["detector"].nunique() < 2:
        raise UserError("Fewer than two detectors state a spread in every cell.")
    cells = kept.pivot_table(
        index=[*table.factor_names, "set"],
        columns="detector",
        values=["value", "spread"],
        sort=False,
    ).dropna()
    if cells.empty:
        raise UserError("No outlier set has mean ± spread for every detector.")
    means = cells.mean()
    names = dict.fromkeys(kept["detector"])
    by_detector = {
        name: (float(means["value", name]), float(means["spread", name])) for name in names
    }
    return _Stated(by_detector, cells.index.get_level_values("set").nunique())


def _summary(stated: tuple[float, float], runs: int) -> Summary:
    mean, spread = stated
    return Summary(mean, spread * math.sqrt(runs / (runs - 1)), runs)


def _ordered(table: Results, known: Mapping[str, Summary]) -> list[str]:
    sign = -1 if table.higher_is_better else 1
    return sorted(known, key=lambda name: sign * known[name].mean)


def _against(table: Results, known: Mapping[str, Summary]) -> dict[str, Difference]:
    """How far the best is ahead of every other detector with several runs, with adjusted p."""
    sign = 1 if table.higher_is_better else -1
    turned = {
        name: known[name]._replace(mean=sign * known[name].mean) for name in _ordered(table, known)
    }
    best, *others = turned
    others = [name for name in others if turned[name].runs > 1]
    if turned[best].runs < 2 or not others:
        return {}
    found = {name: welch(turned[best], turned[name], LEVEL) for name in others}
    return adjusted(found, against_best)


def _finding(
    table: Results, known: Mapping[str, Summary], sets: int, caveats: tuple[str, ...]
) -> Finding:
    detectors = _ordered(table, known)
    best = detectors[0]
    differences = _against(table, known)
    ahead = is_decided(differences)
    word = "highest" if table.higher_is_better else "lowest"
    lead = _estimate(known[best])
    claims = [
        Claim(
            f"{best} has the {word} mean {table.label}, {number(known[best].mean)}, over "
            f"{count(sets, 'outlier set')} and {count(known[best].runs, 'run')}.",
            "holds" if ahead else "undecided",
            "one run has no spread"
            if lead is None
            else f"95% confidence interval {between(lead.low, lead.high)}, for the mean over runs "
            "like these",
        )
    ]
    if ahead or tied_with_best(differences):
        claims += lead_claims(best, differences)
    few = [name for name in detectors if known[name].runs < 2]
    if few:
        caveats = (*caveats, f"Not compared, because one run has no spread: {listing(few)}.")
    caveats = (*caveats, ADJUSTED.format(count(len(differences), "comparison")))
    runs = [part.runs for part in known.values()]
    by_runs = f"{table.label}, by unpaired runs (Welch)"
    tables = [_means(table, known), difference_table(best, by_runs, differences)]
    return Finding(
        protocol="unpaired",
        title=f"Which detector has the best {table.label}, by each detector's own runs?",
        question="Is the lead larger than the variation over runs?",
        claims=tuple(claims),
        tables=tuple(part for part in tables if part is not None),
        series=_intervals(table, known),
        caveats=caveats,
        facts=(
            ("metric", table.label),
            ("detectors", str(len(known))),
            ("runs per detector", span(min(runs), max(runs))),
            ("outlier sets", str(sets)),
        ),
    )


def _estimate(summary: Summary) -> Estimate | None:
    if summary.runs < 2:
        return None
    return mean_interval(summary, LEVEL, (0.0, 1.0))


def _means(table: Results, known: Mapping[str, Summary]) -> Table:
    rows: list[tuple[TableCell, ...]] = []
    for name in _ordered(table, known):
        part = known[name]
        spread = part.spread if part.runs > 1 else None
        rows.append((name, _estimate(part) or part.mean, spread, part.runs))
    return Table(
        "means",
        f"{table.label}, mean over runs, with 95% confidence intervals",
        ("detector", "mean", "standard deviation", "runs"),
        tuple(rows),
        ("Higher" if table.higher_is_better else "Lower")
        + " is better. Intervals are Student's t, also on the logit scale, for the mean over "
        "further runs like these; the standard deviation is over each detector's own runs.",
    )


def _intervals(table: Results, known: Mapping[str, Summary]) -> tuple[Series, ...]:
    rows = [
        (name, "all runs", estimate)
        for name in _ordered(table, known)
        if (estimate := _estimate(known[name])) is not None
    ]
    if not rows:
        return ()
    return (
        interval_series(
            "means",
            f"Mean {table.label}",
            f"Mean {table.label} with 95% confidence interval (Student's t over each detector's "
            f"runs) of {count(len(rows), 'detector')}.",
            table.label,
            rows,
            higher_is_better=table.higher_is_better,
        ),
    )
