"""What changes the winner of a ranking: repeats, looks, or the conditions of training."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from oodometer.factors import names
from oodometer.finding import Claim
from oodometer.protocols.common.contests import (
    NO_REPEATS,
    WITHIN_CHANCE,
    Contest,
    contests,
    judge,
    told_flips,
)
from oodometer.protocols.common.score_cases import ScoreCases
from oodometer.protocols.common.training_runs import independent_changes
from oodometer.protocols.common.words import LEVEL, in_all, never_otherwise
from oodometer.scores import Level
from oodometer.stats.comparison import Difference, auroc_difference


def factor_claims(field: ScoreCases, surely: bool) -> list[Claim]:
    """How often does the winner change if one factor changes and nothing else does?

    Pairs of the same trainings are no independent cases: n trainings that agree in everything else
    count for n - 1, however often each was looked at; and all looks at a training for one. Under
    another condition the network was trained anew, which changes the winner by itself: the
    condition is to blame only if the lead changes beyond chance.
    """
    if len(field.detectors) < 2:
        return []
    best = field.run_order.argmin(axis=0).tolist()
    winner = dict(zip(field.runs, best, strict=True))
    held = _by_level(field)
    claims = told_flips(held)
    for factor in names(field.factors):
        groups: dict[tuple[tuple[str, Level], ...], list[str]] = {}
        for run in field.runs:
            levels = field.table.runs[run]
            if factor in levels:
                rest = tuple(part for part in levels.items() if part[0] != factor)
                groups.setdefault(rest, []).append(run)
        pairs = [pair for runs in groups.values() for pair in combinations(runs, 2)]
        if not pairs:
            continue
        changed = sum(winner[a] != winner[b] for a, b in pairs)
        several = [run for runs in groups.values() if len(runs) > 1 for run in runs]
        levels_seen = len({field.table.runs[run][factor] for run in several})
        cases = independent_changes(
            {run: field.table.runs[run] for run in several}, factor, field.factors
        )
        what = "runs" if field.training_runs.has_re_evaluations else "trainings"
        doubt = ""
        if changed and factor in held and judge(held[factor]) != "flips":
            doubt = WITHIN_CHANCE if len(held[factor]) > 1 else NO_REPEATS
        claims.append(
            Claim(
                f"Changing only the {factor} changes the winner "
                f"{in_all(changed, len(pairs), f'pair of {what}', f'pairs of {what}')}{doubt}.",
                "undecided" if doubt else never_otherwise(changed, cases, surely=surely),
                f"{levels_seen} levels; pairs of {what} that agree in everything else",
            )
        )
    return claims


def _by_level(field: ScoreCases) -> dict[str, list[Contest]]:
    """Who is best under each level of a condition that has two trainings or more.

    P values are adjusted for all levels of all conditions.
    """
    factors = names(field.factors, "condition")
    trainings: dict[str, list[int]] = {}
    named: dict[str, tuple[str, str]] = {}
    for factor in factors:
        for training, looks in enumerate(field.training_runs.members):
            levels = field.table.runs[field.runs[looks[0]]]
            if factor in levels:
                place = f"{factor}\n{levels[factor]}"
                named[place] = factor, str(levels[factor])
                trainings.setdefault(place, []).append(training)
    places = {
        place: {name: -float(field.overall[name].values[own].mean()) for name in field.detectors}
        for place, own in trainings.items()
        if len(own) > 1
    }

    def compare(place: str, other: str, first: str) -> Difference:
        one, two = (field.at(name, trainings[place]) for name in (other, first))
        return auroc_difference(one, two, LEVEL)

    held: dict[str, list[Contest]] = {factor: [] for factor in factors}
    for contest in contests(places, compare):
        factor, level = named[contest.place]
        held[factor].append(replace(contest, place=level))
    return held
