"""Who is best by one value per run, or per outlier set, and how certain is that?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oodometer.finding import Claim, Verdict
from oodometer.protocols.common.cases import Cases
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
    never_otherwise,
    number,
    points_and_p,
    together,
)
from oodometer.protocols.ranking.value_views import of_one, one_of
from oodometer.stats.agreement import kendall_w
from oodometer.stats.comparison import Difference, holm
from oodometer.stats.intervals import Interval, runs_interval
from oodometer.stats.paired import sign_flip_test, t_test, win_probability

ADJUSTED = (
    "P-values are adjusted by Holm's method for {} with the leader, corrected for having picked "
    f"the leader from the same data, and judged at {SIGNIFICANT:.0%}."
)
MOST_NAMED = 20  # detectors that a caveat names


def value_differences(field: Cases, rng: np.random.Generator) -> dict[str, Difference]:
    """How far the best is ahead of every other detector, by case, with adjusted p-values."""
    if len(field.names) < 2:
        return {}
    best = field.oriented(0)
    rows = enumerate(field.detectors[1:], start=1)
    pairs = {name: (best, field.oriented(row)) for row, name in rows}
    return paired_differences(pairs, rng, of_best=True)


def tied_with_best(differences: Mapping[str, Difference]) -> list[str]:
    """Name the detectors that do not differ significantly from the best."""
    return [name for name, d in differences.items() if d.p_value >= SIGNIFICANT]


def is_decided(differences: Mapping[str, Difference]) -> bool:
    """Whether the best is significantly ahead of every other detector, if there are others."""
    return bool(differences) and not tied_with_best(differences)


def lead_claims(best: str, differences: Mapping[str, Difference], where: str = "") -> list[Claim]:
    """Is the best detector significantly ahead of every other? `where` ends the sentence."""
    tied = tied_with_best(differences)
    if tied:
        named = listing(tied) if len(tied) <= 3 else count(len(tied), "other detector")
        parts = [f"{best} − {name}: {points_and_p(differences[name])}" for name in tied[:SHOWN]]
        parts += ["…"] if len(tied) > SHOWN else []
        text = f"{best} does not differ significantly from {named}."
        return [Claim(text, "undecided", "; ".join(parts))]
    if not differences:
        return []
    nearest = next(iter(differences))
    evidence = f"{best} − {nearest}, the nearest: {points_and_p(differences[nearest])}"
    text = f"{best} is significantly ahead of every other detector{where}."
    return [Claim(text, "holds", evidence)]


def best_claims(
    field: Cases, differences: Mapping[str, Difference], rng: np.random.Generator
) -> list[Claim]:
    """Who has the best mean, in how many cases, and would another case agree?"""
    mean = runs_interval(field.values[0], level=LEVEL, bounds=(0.0, 1.0))
    if len(field.detectors) == 1:
        return [_only_detector(field, mean)]
    if len(field.names) < 2:
        text = f"{field.detectors[0]} has the {_extreme(field)} {field.metric}, "
        text += f"{number(mean.value)}, {f'{of_one(field)} {_over_sets(field)}'.strip()}."
        return [Claim(text, "undecided", "one number per detector has no spread to test against")]
    where = f", {of_one(field)}" if of_one(field) else ""
    return [
        _highest_mean(field, differences, mean),
        *lead_claims(
            field.detectors[0], differences, f" on the mean over {field.case}s like these{where}"
        ),
        _win_probability(field, differences, rng),
    ]


def _extreme(field: Cases) -> str:
    return "highest" if field.results.higher_is_better else "lowest"


def _over_sets(field: Cases) -> str:
    if field.unit == "data set":
        return f"over {count(len(field.names), field.case)}"
    return f"over {count(len(field.sets), field.set_word)}"


def _only_detector(field: Cases, mean: Interval) -> Claim:
    only = "with values that can be compared" if field.left_out else "here"
    text = f"{field.detectors[0]}, the only detector {only}, has a mean {field.metric} of "
    evidence = f"{_interval(mean)}; " if len(field.names) > 1 else ""
    evidence += "there is nothing to compare it with"
    return Claim(f"{text}{number(mean.value)}.", "undecided", evidence)


def _highest_mean(field: Cases, differences: Mapping[str, Difference], mean: Interval) -> Claim:
    """Who has the best mean, and how often does it rank first?"""
    where = f"{_over_sets(field)} {of_one(field)}".strip()
    evidence = f"{_interval(mean)}, for the mean over {field.case}s like these"
    leads = field.order[0] == field.order.min(axis=0)
    tied = tied_with_best(differences)
    if leads.all() and not tied and len(leads) < FEWEST:
        evidence += f"; {count(len(leads), field.case)} are too few to say that it always does"
    means = field.values.mean(axis=1)
    equal = [name for name, other in zip(field.detectors, means, strict=True) if other == means[0]]
    if len(equal) > 1:
        named = listing(equal) if len(equal) <= SHOWN else count(len(equal), "detector")
        text = f"{named} share the {_extreme(field)} mean {field.metric}, {number(mean.value)}, "
        return Claim(f"{text}{where}.", "undecided", evidence)
    shared = leads & ((field.order == field.order.min(axis=0)).sum(axis=0) > 1)
    preposition = "in" if field.are_runs else "on"
    firsts = in_all(int(leads.sum()), len(field.names), field.case, preposition=preposition)
    firsts += together(int(shared.sum()))
    firsts += "" if field.are_runs else _best_elsewhere(field)
    return Claim(
        f"{field.detectors[0]} has the {_extreme(field)} mean {field.metric}, "
        f"{number(mean.value)}, {where}, "
        f"{'and ranks' if leads.all() else 'but ranks'} first {firsts}.",
        _first_always(field, leads.tolist(), decided=not tied and not shared.any()),
        evidence,
    )


def _first_always(field: Cases, leads: list[bool], *, decided: bool) -> Verdict:
    verdict = never_otherwise(leads.count(False), len(leads), decided=decided)
    if verdict == "flips" and not field.are_runs:
        return "undecided"  # one value on each set cannot separate the set from chance
    return verdict


def _win_probability(
    field: Cases, differences: Mapping[str, Difference], rng: np.random.Generator
) -> Claim:
    """How likely does the best beat the second in another case?"""
    best, second = field.detectors[:2]
    chance = win_probability(field.oriented(0), field.oriented(1), level=LEVEL)
    # Signs alone, by their exact test: the interval leaves out one half where it rejects.
    signs = np.sign(field.oriented(0) - field.oriented(1))
    decided = sign_flip_test(signs, np.zeros_like(signs), rng=rng).p_value < SIGNIFICANT
    decided = decided and second not in tied_with_best(differences)
    return Claim(
        f"{'In' if field.are_runs else 'On'} another {field.case} like these, "
        f"{of_one(field) + ', ' if of_one(field) else ''}{best} beats {second} "
        f"with probability {chance.value:.2f} [{chance.low:.2f}, {chance.high:.2f}].",
        "holds" if decided else "undecided",
        f"share of {count(len(field.names), field.case)} with 95% confidence interval; ties count "
        "one half",
    )


def _interval(mean: Interval) -> str:
    if mean.method == "constant":
        return "no interval, as all values are equal"
    return f"95% confidence interval {between(mean.low, mean.high)}"


def _best_elsewhere(field: Cases) -> str:
    """Name the outlier sets on which another detector has the better mean."""
    others = _others(field)
    if not others:
        return ""
    named = [f"{name} ({winner})" for name, winner in list(others.items())[:SHOWN]]
    more = " and more" if len(others) > SHOWN else ""
    return f"; another is best on {listing(named)}{more}"


def _others(field: Cases) -> dict[str, str]:
    """Outlier sets on which another detector than the best overall is best, and which."""
    means = {name: field.sign * values.mean(axis=1) for name, values in field.sets.items()}
    return {
        name: field.detectors[int(own.argmax())]
        for name, own in means.items()
        if own.max() > own[0]
    }


def set_claims(field: Cases, decided: bool, rng: np.random.Generator) -> list[Claim]:
    """Is the detector that is best overall significantly best on every outlier set?"""
    if len(field.sets) < 2 or len(field.detectors) < 2 or not field.are_runs:
        return []  # of one run, the first claim says it already
    best, others = field.detectors[0], _others(field)
    means = field.sign * np.array([values.mean(axis=1) for values in field.sets.values()]).T
    shared = int(((means == means[0]).sum(axis=0) > 1).sum())  # as good as best on these
    agreement = kendall_w(means, rng=rng)
    concordance = "undefined" if agreement.value is None else f"{agreement.value:.2f}"
    behind, beaten, tests = _on_each_set(field)
    evidence = (
        f"Kendall's W of the order over outlier sets is {concordance} (1 = all agree); of {tests} "
        f"differences from {best}, {behind} are significant in its favor, {beaten} against it"
    )
    text = (
        f"{best} has the best mean on {len(means.T) - len(others)} of {len(means.T)} outlier sets"
    )
    if shared and not others:
        text += f", {shared} of them shared with another"
    text += _best_elsewhere(field)
    if beaten:
        return [Claim(f"{text}.", "flips", evidence)]
    text += ", but not significantly" if others else ""
    return [Claim(f"{text}.", "holds" if decided and behind == tests else "undecided", evidence)]


def _on_each_set(field: Cases) -> tuple[int, int, int]:
    """Count significant differences on each outlier set, for and against the best, and all.

    Paired t tests over the runs, adjusted by Holm's method for all of them.
    """
    found = [
        t_test(field.sign * values[0], field.sign * row)
        for values in field.sets.values()
        for row in values[1:]
        if len(row) >= FEWEST_FOR_T
    ]
    adjusted = holm([test.p_value for test in found]).tolist() if found else []
    sure = [test.value for test, p in zip(found, adjusted, strict=True) if p < SIGNIFICANT]
    tests = len(field.sets) * (len(field.detectors) - 1)
    return sum(value > 0 for value in sure), sum(value < 0 for value in sure), tests


def value_caveats(field: Cases) -> tuple[str, ...]:
    """What limits the conclusions from values."""
    return (*_about_cases(field), *_about_tests(field), *_about_gaps(field))


def _about_cases(field: Cases) -> list[str]:
    if not field.are_runs and len(field.names) == 1:
        return ["There is one number per detector: nothing can be said about chance."]
    if field.unit == "data set":
        return [
            "Each data set is one case: a detector's value is its mean over all that was measured "
            "on it, level by level. Conclusions are about other data sets like these, not about "
            "retraining."
        ]
    if not field.are_runs:
        return [
            f"There is only {one_of(field)}: the {field.case}s are the cases. Conclusions are "
            f"about other {field.case}s like these, not about retraining."
        ]
    caveats = [
        "Each run is one case: a detector's value is its mean over the run's outlier sets. "
        "Intervals and tests are about further runs drawn like these."
    ]
    if len(field.names) < FEW_RUNS:
        caveats.append(UNSEEN)
    if field.training_runs.has_re_evaluations:
        caveats.append(re_evaluations_caveat(len(field.run_levels), len(field.names)))
    if field.unbalanced:
        caveats.append(
            f"{count(field.unbalanced, 'cell')} (run and outlier set) were left out, so that all "
            "runs are compared on the same sets."
        )
    return caveats


def re_evaluations_caveat(runs: int, training_runs: int) -> str:
    """Say that runs are not training runs."""
    return (
        f"The {runs} runs are re-evaluations of {count(training_runs, 'training run')}, such as "
        "checkpoints: the mean of each training run is one case."
    )


def _about_tests(field: Cases) -> list[str]:
    caveats = []
    if len(field.detectors) > 1 and len(field.names) > 1:
        caveats.append(
            f"{ADJUSTED.format(count(len(field.detectors) - 1, 'comparison'))} They come from a "
            "permutation test, or from Student's t, which assumes normal differences, where there "
            "are too few cases for a permutation test. Intervals are for one comparison at a time."
        )
    if len(field.names) == FEWEST_FOR_T - 1 and len(field.detectors) > 1:
        caveats.append(TWO_CASES.format(count(len(field.names), field.case)))
    return caveats


def _about_gaps(field: Cases) -> list[str]:
    caveats = []
    if "spread" in field.results.frame.columns:
        caveats.append(
            "Some cells are means with a standard deviation. The runs behind them are not known, "
            "so detectors cannot be compared run by run, and the spread enters no test here."
        )
    if field.left_out:
        named = listing(field.left_out[:MOST_NAMED])
        more = len(field.left_out) - MOST_NAMED
        others = f", and {more} more" if more > 0 else ""
        caveats.append(f"Left out, because too many cells are missing: {named}{others}.")
    if field.incomplete:
        caveats.append(
            f"{count(field.incomplete, 'cell')} (run and outlier set) that some compared detector "
            "lacks were left out for all."
        )
    return caveats
