"""Who is best in a results table, how surely, and what changes the answer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oodometer.finding import Claim, Finding
from oodometer.protocols.common.cases import Cases, cases_of
from oodometer.protocols.common.differences import (
    FEW_RUNS,
    FEWEST_FOR_T,
    TWO_CASES,
    UNSEEN,
    paired_differences,
)
from oodometer.protocols.common.words import (
    FEWEST,
    LEVEL,
    SHOWN,
    SIGNIFICANT,
    between,
    count,
    in_all,
    listing,
    missing_lines,
    never_otherwise,
    number,
    points_and_p,
    together,
)
from oodometer.protocols.standing.factors import factor_claims
from oodometer.protocols.standing.power import power_claims
from oodometer.protocols.standing.shares import (
    dominance_claims,
    range_claims,
    ranges_of,
    set_share_claims,
    share_claims,
    shares_of,
)
from oodometer.protocols.standing.views import (
    difference_table,
    intervals,
    mean_table,
    of_one,
    one_of,
    order_tables,
    range_table,
    rank_map,
    rank_table,
    set_table,
    share_table,
    strips,
)
from oodometer.results import Results, results
from oodometer.scores import ScoreTable
from oodometer.stats.agreement import kendall_w
from oodometer.stats.comparison import Difference, holm
from oodometer.stats.intervals import Interval, runs_interval
from oodometer.stats.paired import sign_flip_test, t_test, win_probability

MOST_NAMED = 20  # detectors that a caveat names


def standing(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Say which detector is best over the runs of a study, how surely, and what explains it."""
    return standing_of(results(table), rng)


def standing_of(table: Results, rng: np.random.Generator) -> Finding:
    """The same, of a results table."""
    field = cases_of(table)
    differences = _against_best(field, rng)
    surely = bool(differences) and not _tied(differences)
    shares = shares_of(field, rng)
    ranges = {} if shares else ranges_of(field)
    return Finding(
        protocol="standing",
        title=f"Which detector has the best {field.metric}, and how surely?",
        question="Would other runs, or other outlier sets, give the same order?",
        claims=(
            *_claim_best(field, differences, rng),
            *_claim_sets(field, surely, rng),
            *factor_claims(field, surely, rng),
            *set_share_claims(field),
            *share_claims(field, shares),
            *dominance_claims(field, shares, rng),
            *range_claims(ranges),
            *power_claims(field, _tied(differences)),
        ),
        tables=tuple(
            table
            for table in (
                mean_table(field, rng),
                rank_table(field, rng),
                difference_table(
                    field.detectors[0], f"{field.metric} per {field.case}", differences
                ),
                set_table(field),
                share_table(field, shares),
                range_table(field, ranges),
                *order_tables(field),
            )
            if table is not None
        ),
        series=(*intervals(field, rng), rank_map(field), *strips(field)),
        caveats=_caveats(field),
        missing=missing_lines(table.missing, len(field.names)),
        facts=(
            ("metric", field.metric),
            ("detectors", str(len(field.detectors))),
            ("runs", str(len(field.names) if field.are_runs else 1)),
            ("outlier sets", str(len(field.sets))),
        ),
    )


def _against_best(field: Cases, rng: np.random.Generator) -> dict[str, Difference]:
    """How far the best is ahead of every other, by the units, with adjusted p values."""
    if len(field.names) < 2:
        return {}
    best = field.oriented(0)
    rows = enumerate(field.detectors[1:], start=1)
    pairs = {name: (best, field.oriented(row)) for row, name in rows}
    return paired_differences(pairs, rng, of_best=True)


def _tied(differences: Mapping[str, Difference]) -> list[str]:
    """Name the detectors that cannot be told from the best."""
    return [name for name, d in differences.items() if d.p_value >= SIGNIFICANT]


def _claim_best(
    field: Cases, differences: Mapping[str, Difference], rng: np.random.Generator
) -> list[Claim]:
    best = field.detectors[0]
    mean = runs_interval(field.values[0], rng=rng, level=LEVEL, bounds=(0.0, 1.0))
    word = "highest" if field.results.higher_is_better else "lowest"
    where = f"over {count(len(field.sets), 'outlier set')}"
    if len(field.detectors) == 1:
        only = "with values that can be compared" if field.left_out else "here"
        text = f"{best}, the only detector {only}, has a mean {field.metric} of "
        where = f"{_interval(mean)}; " if len(field.names) > 1 else ""
        evidence = f"{where}there is nothing to compare it with"
        return [Claim(f"{text}{number(mean.value)}.", "undecided", evidence)]
    if len(field.names) < 2:
        text = (
            f"{best} has the {word} {field.metric}, {number(mean.value)}, {of_one(field)} {where}."
        )
        return [Claim(text, "undecided", "one number per detector cannot tell chance from merit")]
    where += "" if field.are_runs else f" {of_one(field)}"
    leads = field.order[0] == field.order.min(axis=0)
    shared = leads & ((field.order == field.order.min(axis=0)).sum(axis=0) > 1)
    firsts = in_all(int(leads.sum()), len(field.names), field.case) + together(int(shared.sum()))
    if not field.are_runs:
        firsts = firsts.replace("in ", "on ", 1) + _best_elsewhere(field)
    tied = _tied(differences)
    verdict = never_otherwise(int((~leads).sum()), len(leads), surely=not tied and not shared.any())
    if verdict == "flips" and not field.are_runs:
        verdict = "undecided"  # one value on each set cannot tell the set from chance
    means = field.values.mean(axis=1)
    equal = [name for name, other in zip(field.detectors, means, strict=True) if other == means[0]]
    named = listing(equal) if len(equal) <= SHOWN else count(len(equal), "detector")
    evidence = f"{_interval(mean)}, for the mean over {field.case}s like these"
    if leads.all() and not tied and len(leads) < FEWEST:
        evidence += f"; {count(len(leads), field.case)} are too few to say that it always does"
    claims = [
        Claim(
            f"{named} share the {word} mean {field.metric}, {number(mean.value)}, {where}."
            if len(equal) > 1
            else f"{best} has the {word} mean {field.metric}, {number(mean.value)}, {where}, "
            f"{'and ranks' if leads.all() else 'but ranks'} first {firsts}.",
            "undecided" if len(equal) > 1 else verdict,
            evidence,
        )
    ]
    if tied:
        shown = listing(tied) if len(tied) <= 3 else count(len(tied), "other detector")
        evidence = "; ".join(f"{best} − {n}: {points_and_p(differences[n])}" for n in tied[:SHOWN])
        more = "; …" if len(tied) > SHOWN else ""
        text = f"{best} cannot be told apart from {shown}."
        claims.append(Claim(text, "undecided", evidence + more))
    else:
        nearest = field.detectors[1]
        text = f"{best} is ahead of every other detector on the mean over {field.case}s like these"
        text += "." if field.are_runs else f", {of_one(field)}."
        evidence = f"{best} − {nearest}, the nearest: {points_and_p(differences[nearest])}"
        claims.append(Claim(text, "holds", evidence))
    chance = win_probability(field.oriented(0), field.oriented(1), level=LEVEL)
    # Signs alone, by their exact test: the interval leaves out one half where it rejects.
    signs = np.sign(field.oriented(0) - field.oriented(1))
    decided = sign_flip_test(signs, np.zeros_like(signs), rng=rng).p_value < SIGNIFICANT
    decided = decided and field.detectors[1] not in tied
    claims.append(
        Claim(
            f"{'In another run' if field.are_runs else 'On another outlier set'} like these, "
            f"{'' if field.are_runs else of_one(field) + ', '}{best} beats {field.detectors[1]} "
            f"with probability {chance.value:.2f} [{chance.low:.2f}, {chance.high:.2f}].",
            "holds" if decided else "undecided",
            f"share of {count(len(field.names), field.case)} with 95 % interval; ties count one "
            "half",
        )
    )
    return claims


def _interval(mean: Interval) -> str:
    if mean.method == "constant":
        return "no interval, as all values are equal"
    return f"95 % interval {between(mean.low, mean.high)}"


def _best_elsewhere(field: Cases) -> str:
    """Name the outlier sets on which another detector has the better mean."""
    others = _others(field)
    if not others:
        return ""
    named = [f"{name} ({winner})" for name, winner in list(others.items())[:SHOWN]]
    more = " and more" if len(others) > SHOWN else ""
    return f"; another is best on {listing(named)}{more}"


def _others(field: Cases) -> dict[str, str]:
    """Outlier sets on which another detector than the best on the whole is best, and which."""
    sign = 1 if field.results.higher_is_better else -1
    means = {name: sign * values.mean(axis=1) for name, values in field.sets.items()}
    return {
        name: field.detectors[int(own.argmax())]
        for name, own in means.items()
        if own.max() > own[0]
    }


def _claim_sets(field: Cases, surely: bool, rng: np.random.Generator) -> list[Claim]:
    """Is the detector that is best on the whole best on every outlier set, beyond chance?"""
    if len(field.sets) < 2 or len(field.detectors) < 2 or not field.are_runs:
        return []  # of one run, the first claim says it already
    best, others = field.detectors[0], _others(field)
    sign = 1 if field.results.higher_is_better else -1
    means = sign * np.array([values.mean(axis=1) for values in field.sets.values()]).T
    shared = int(((means == means[0]).sum(axis=0) > 1).sum())  # as good as best on these
    agreement = kendall_w(means, rng=rng)
    concordance = "undefined" if agreement.value is None else f"{agreement.value:.2f}"
    evidence = f"Kendall's W of the order over outlier sets is {concordance} (1 = all agree)"
    text = (
        f"{best} has the best mean on {len(means.T) - len(others)} of {len(means.T)} outlier sets"
    )
    if shared:
        text += f", {shared} of them shared with another" if not others else ""
    text += _best_elsewhere(field)
    behind, beaten, tests = _on_each_set(field, sign)
    evidence += f"; of {tests} differences from {best}, {behind} are beyond chance in its favour, "
    evidence += f"{beaten} against it"
    if others and not beaten:
        text += ", but within chance"
    if beaten:
        return [Claim(f"{text}.", "flips", evidence)]
    return [Claim(f"{text}.", "holds" if surely and behind == tests else "undecided", evidence)]


def _on_each_set(field: Cases, sign: int) -> tuple[int, int, int]:
    """Count differences from the best on each outlier set: surely behind it, ahead of it, and all.

    Paired t tests over the runs, adjusted by Holm's rule for all of them.
    """
    found = [
        t_test(sign * values[0], sign * row)
        for values in field.sets.values()
        for row in values[1:]
        if len(row) >= FEWEST_FOR_T
    ]
    adjusted = holm([test.p_value for test in found]).tolist() if found else []
    sure = [test.value for test, p in zip(found, adjusted, strict=True) if p < SIGNIFICANT]
    tests = len(field.sets) * (len(field.detectors) - 1)
    return sum(value > 0 for value in sure), sum(value < 0 for value in sure), tests


def _caveats(field: Cases) -> tuple[str, ...]:
    caveats = []
    if field.are_runs:
        caveats.append(
            "Each run is one case: a detector's value is its mean over the run's outlier sets. "
            "Intervals and tests are about further runs drawn like these."
        )
        if 1 < len(field.names) < FEW_RUNS:
            caveats.append(UNSEEN)
    elif len(field.names) > 1:
        caveats.append(
            f"There is {one_of(field)} only: the outlier sets are the cases. What is said is about "
            "further outlier sets like these, and nothing about retraining."
        )
    else:
        caveats.append("There is one number per detector: nothing can be said about chance.")
    if len(field.detectors) > 1 and len(field.names) > 1:
        comparisons = count(len(field.detectors) - 1, "comparison")
        caveats.append(
            f"P values are adjusted by Holm's rule for {comparisons} with the leader, and for its "
            f"having been chosen by its results, and judged at {SIGNIFICANT:.0%}; they come from a "
            "permutation test, or from Student's t, which takes differences as normal, where so "
            "few cases leave a permutation test no power. Intervals are for one comparison at a "
            "time."
        )
    if len(field.names) == FEWEST_FOR_T - 1 and len(field.detectors) > 1:
        caveats.append(TWO_CASES.format(count(len(field.names), field.case)))
    if len(field.run_levels) > len(field.names) and field.are_runs:
        caveats.append(
            f"{len(field.run_levels)} runs are looks at {len(field.names)} trainings, as "
            "checkpoints are: the mean of each training is one case."
        )
    sets = {len(values[0]) for values in field.sets.values()}
    if field.are_runs and len(sets) > 1:
        caveats.append(
            "Runs differ in their outlier sets: differences between detectors are not affected, "
            "but their means are."
        )
    if "spread" in field.results.frame.columns:
        caveats.append(
            "Some cells are means with a standard deviation. The runs behind them are not known, "
            "so detectors cannot be compared run by run, and the spread enters no test here."
        )
    if field.left_out:
        shown = listing(field.left_out[:MOST_NAMED])
        more = len(field.left_out) - MOST_NAMED
        others = f", and {more} more" if more > 0 else ""
        caveats.append(f"Left out, because too many cells are missing: {shown}{others}.")
    if field.incomplete:
        caveats.append(
            f"{count(field.incomplete, 'cell')} (run and outlier set) that some compared detector "
            "lacks were left out for all."
        )
    return tuple(caveats)
