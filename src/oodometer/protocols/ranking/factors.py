"""What changes the winner of a ranking: repeats, re-evaluations, or the conditions of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import NamedTuple

from oodometer.factors import Factor, names
from oodometer.finding import Claim
from oodometer.protocols.common.cases import Cases
from oodometer.protocols.common.comparisons import (
    NO_REPEATS,
    NOT_SIGNIFICANT,
    Comparison,
    compare_all,
    flip_claims,
    judge,
)
from oodometer.protocols.common.differences import FEWEST_FOR_T, compare_values
from oodometer.protocols.common.outer_units import OuterUnits
from oodometer.protocols.common.score_cases import ScoreCases
from oodometer.protocols.common.training_runs import TrainingRuns, independent_changes
from oodometer.protocols.common.words import in_all, listing, never_otherwise
from oodometer.stats.comparison import Difference
from oodometer.stats.pairwise import Pairwise, difference
from oodometer.stats.ranks import rank_matrix

MOST_CLAIMS = 2  # about single factors of a results table; more become one sentence
_PAIRS_OF = "pairs of {}s that differ in nothing else"
NEVER = ", too few to say that it never does"
NO_LEAD = ", but no winner is significantly better than all others"
PAIRS = 200_000  # of runs, compared per factor: no reader tells more apart


class _Condition(NamedTuple):
    """One level of a condition."""

    factor: str
    level: str


@dataclass(frozen=True)
class _Change:
    """How often the winner changes if one factor changes and nothing else does."""

    factor: str
    changed: int
    pairs: int
    cases: int  # independent changes among them
    levels: int
    doubt: str = ""  # why the factor may not be to blame


class FactorClaims(NamedTuple):
    """Which conditions significantly change the best detector, and what else factors change."""

    flips: Sequence[Claim]
    others: Sequence[Claim]


def score_factor_claims(field: ScoreCases, decided: bool) -> FactorClaims:
    """How often does one factor change the winner by mean AUROC? See `_changes`.

    Few runs under a level decide with the variance that detectors share, as in the order itself.
    """
    if len(field.detectors) < 2:
        return FactorClaims((), ())

    def value(name: str, own: Sequence[int]) -> float:
        return -float(field.units.at(own).mean(field.overall[name].values[list(own)]))

    runs = {run: field.table.runs[run] for run in field.runs}
    places = _conditions(runs, field.factors, fewest=2)
    values = {
        place: {name: value(name, own) for name in field.detectors} for place, own in places.items()
    }
    by_place = {place: field.compared_at(own) for place, own in places.items()}
    by_level = _by_factor(field.factors, by_place, field.detectors, values)
    winners = field.run_order.argmin(axis=0).tolist()
    changes = _changes(runs, winners, field.factors, by_level)
    lasts = decided or _is_decided_everywhere(by_level)
    return FactorClaims(flip_claims(by_level), _claims(changes, lasts, field.run_word))


def value_factor_claims(field: Cases, decided: bool) -> FactorClaims:
    """How often does one factor change the winner by mean value? See `_changes`.

    Few runs decide as above.
    """
    if not field.are_runs or len(field.detectors) < 2:
        return FactorClaims((), ())
    runs = field.cells.runs
    places = _conditions(runs, field.factors, fewest=FEWEST_FOR_T)
    values = {
        place: dict(zip(field.detectors, _costs(field, own), strict=True))
        for place, own in places.items()
    }
    by_place = {
        place: compare_values(field, field.values[:, own], runs=own)
        for place, own in places.items()
    }
    by_level = _by_factor(field.factors, by_place, field.detectors, values)
    ranks = rank_matrix(field.run_values, higher_is_better=field.results.higher_is_better)
    winners = ranks.argmin(axis=0).tolist()
    changes = _changes(runs, winners, field.factors, by_level)
    lasts = decided or _is_decided_everywhere(by_level)
    claims = _claims(changes, lasts, field.case)
    if len(changes) > MOST_CLAIMS:
        claims = [_joint_claim(changes, lasts, field.case)]
    return FactorClaims(flip_claims(by_level), claims)


def _is_decided_everywhere(by_level: Mapping[str, Sequence[Comparison]]) -> bool:
    """Whether each level of some condition has a winner that is significantly ahead of all."""
    return any(
        own and all(comparison.leads and not comparison.tied for comparison in own)
        for own in by_level.values()
    )


def _costs(field: Cases, own: Sequence[int]) -> list[float]:
    """Mean of each detector over some training runs, turned so that smaller is better."""
    means: list[float] = (
        -field.sign * field.units.at(own).mean(field.values[:, list(own)])
    ).tolist()
    return means


def _conditions(
    runs: Mapping[str, Mapping[str, object]], factors: Sequence[Factor], fewest: int
) -> dict[_Condition, list[int]]:
    """Positions of the training runs under each level of a condition that has enough of them."""
    labels = list(runs)
    found: dict[_Condition, list[int]] = {}
    for factor in names(factors, "condition"):
        for place, own in enumerate(TrainingRuns.of(runs, factors).members):
            levels = runs[labels[own[0]]]
            if factor in levels:
                found.setdefault(_Condition(factor, str(levels[factor])), []).append(place)
    return {condition: own for condition, own in found.items() if len(own) >= fewest}


def _by_factor(
    factors: Sequence[Factor],
    by_place: Mapping[_Condition, Pairwise],
    detectors: Sequence[str],
    values: Mapping[_Condition, Mapping[str, float]],
) -> dict[str, list[Comparison]]:
    """Who is best under each level of each condition; p-values are adjusted for all of them."""

    def compare(place: _Condition, other: str, first: str) -> Difference:
        return difference(by_place[place], *(detectors.index(name) for name in (other, first)))

    comparisons = compare_all(values, compare, lambda place: place.level)
    by_factor: dict[str, list[Comparison]] = {name: [] for name in names(factors, "condition")}
    for condition, comparison in zip(values, comparisons, strict=True):
        by_factor[condition.factor].append(comparison)
    return by_factor


def _changes(
    runs: Mapping[str, Mapping[str, object]],
    winners: Sequence[int],
    factors: Sequence[Factor],
    by_level: Mapping[str, Sequence[Comparison]],
) -> list[_Change]:
    """How often does the winner change if one factor changes and nothing else does?

    Pairs of the same runs are not independent: n training runs that agree in everything else count
    for n - 1, or for n repeats if the same detector wins all of them, and all re-evaluations of a
    training run, or all runs on a split, for one. Under another condition the network was trained
    again, which changes the winner by itself: the condition is to blame only if the lead changes
    significantly.
    """
    return [
        change
        for name in names(factors)
        if (change := _change(name, runs, winners, factors, by_level.get(name))) is not None
    ]


def _claims(changes: Sequence[_Change], decided: bool, word: str) -> list[Claim]:
    """Tell what each factor does; those that change nothing in too few pairs, in one sentence."""
    idle = [c for c in changes if not c.changed and not _lasts(c, decided)]
    if len(idle) < 2:
        return [_claim(change, decided, word) for change in changes]
    named = listing([change.factor for change in idle], "or")
    pairs = sum(change.pairs for change in idle)
    often = in_all(0, pairs, f"pair of {word}s", f"pairs of {word}s")
    claim = Claim(
        f"Changing only the {named} changes the overall winner {often}"
        f"{NEVER if decided else NO_LEAD}.",
        "undecided",
        "; ".join(f"{change.factor}: {change.levels} levels" for change in idle)
        + f"; {_PAIRS_OF.format(word)}",
        leaves_open=f"whether the {named} changes the winner (here {often})",
    )
    return [claim, *(_claim(change, decided, word) for change in changes if change not in idle)]


def _lasts(change: _Change, decided: bool) -> bool:
    """Whether a winner that never changed with a factor can be said not to."""
    return never_otherwise(change.changed, change.cases, decided=decided) == "holds"


def _claim(change: _Change, decided: bool, word: str) -> Claim:
    """Tell what one factor does; only a winner that is significantly ahead, `decided`, lasts."""
    verdict = never_otherwise(change.changed, change.cases, decided=decided)
    text = f"Changing only the {change.factor} changes the overall winner {_often(change, word)}"
    if change.pairs == 1 and not change.changed:
        text = f"Changing only the {change.factor} does not change the overall winner in the only "
        text += f"pair of {word}s"
    if not change.changed and verdict == "undecided":
        text += NEVER if decided else NO_LEAD
    return Claim(
        f"{text}{change.doubt}.",
        "undecided" if change.doubt else verdict,
        f"{change.levels} levels; {_PAIRS_OF.format(word)}",
        leaves_open=f"whether the {change.factor} changes the winner (here {_often(change, word)})",
    )


def _joint_claim(changes: Sequence[_Change], decided: bool, word: str) -> Claim:
    """Tell what many factors do in one sentence."""
    parts = [
        f"{change.factor} {_often(change, word)}"
        + f" ({change.doubt.lstrip(',; ')})" * bool(change.doubt)
        for change in changes
    ]
    verdict = never_otherwise(
        sum(change.changed for change in changes if not change.doubt),
        min(change.cases for change in changes),
        decided=decided and not any(change.doubt for change in changes),
    )
    text = f"Changing one factor alone changes the overall winner: {'; '.join(parts)}."
    return Claim(text, verdict, _PAIRS_OF.format(word))


def _often(change: _Change, word: str) -> str:
    return in_all(change.changed, change.pairs, f"pair of {word}s", f"pairs of {word}s")


def _change(
    factor: str,
    runs: Mapping[str, Mapping[str, object]],
    winners: Sequence[int],
    factors: Sequence[Factor],
    by_level: Sequence[Comparison] | None,
) -> _Change | None:
    """Count changes of the winner; None if no two runs differ in this factor alone."""
    groups: dict[tuple[tuple[str, object], ...], list[str]] = {}
    for run, levels in runs.items():
        if factor in levels:
            rest = tuple(part for part in levels.items() if part[0] != factor)
            groups.setdefault(rest, []).append(run)
    pairs = list(islice((p for own in groups.values() for p in combinations(own, 2)), PAIRS))
    if not pairs:
        return None
    winner = dict(zip(runs, winners, strict=True))
    changed = sum(winner[one] != winner[other] for one, other in pairs)
    several = {run: runs[run] for own in groups.values() if len(own) > 1 for run in own}
    cases = independent_changes(several, factor, factors)
    if factor in names(factors, "repeat") and len(set(winners)) == 1:
        cases = len(TrainingRuns.of(several, factors))  # each was won by the same detector
    cases = OuterUnits.of(list(several.values()), factors).fewest(cases)
    doubt = ""
    if changed and by_level is not None and judge(by_level) != "flips":
        doubt = NOT_SIGNIFICANT if len(by_level) > 1 else NO_REPEATS
    return _Change(
        factor,
        changed,
        len(pairs),
        cases,
        len({levels[factor] for levels in several.values()}),
        doubt,
    )
