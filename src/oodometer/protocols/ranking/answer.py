"""The answer to a ranking in the words of somebody who was asked: which detector to use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oodometer.finding import Claim
from oodometer.protocols.common.words import SHOWN, SIGNIFICANT, few, listing, several
from oodometer.protocols.ranking.power import in_short
from oodometer.protocols.ranking.sets import (
    OnSets,
    Without,
    farthest_ahead,
    lost_sets,
)
from oodometer.protocols.ranking.standing import Contest, Standing
from oodometer.stats.power import RunsNeeded

_WINNERS = 2  # on single sets, and without them; the claims name more


def answer(
    contest: Contest,
    on_sets: OnSets,
    without: Without,
    needed: Mapping[str, RunsNeeded],
    flips: Sequence[Claim],
    *,
    is_trained_once: bool = False,
    is_second: bool = False,
    kept: Sequence[str] = (),
) -> str:
    """Say whom to use, where another one is better, and on what that rests.

    `flips` name the conditions that decide who is best: no number of runs would separate those two.
    `is_second`: the same page has an answer about retraining, so that this one names its scope.
    `kept` says which part of a table is compared, if it is less than half.
    """
    if len(contest.detectors) == 1:
        only = "here" if contest.subject.is_whole else "that can be compared"
        return f"{contest.leader} is the only detector {only}: there is nothing to choose from."
    if contest.main is None:
        return (
            f"{_best(contest)} {contest.subject.metric}, but a single value of each detector "
            "cannot say how certain that is."
        )
    beaten, lost = farthest_ahead(on_sets, significant=True), lost_sets(contest)
    if lost and len(lost) == len(contest.on_sets):
        sets = {1: "", 2: " on either set"}.get(len(lost), f" on any of {len(lost)} sets")
        none = "No detector" if contest.subject.is_whole else "None of the compared detectors"
        return f"{none} is significantly better than chance{sets}: these results recommend none."
    parts = [
        *(declared(contest.ours, contest.main, names_scope=is_second) if contest.ours else ()),
        _too_few(contest)
        if contest.is_undecidable
        else _scoped(contest.main, contest.tried, is_second, rests_on_one=bool(without.sure)),
        *(claim.text for claim in flips[:_WINNERS]),
        *([] if flips else in_short(needed, contest.leader, contest.main.tied, contest.case)),
        *_on_lost(list(lost), contest.set_word),
        *_by_winner(
            {name: winner for name, winner in beaten.items() if name not in lost},
            contest.set_word,
            "On {sets}, {winner} is better.",
        ),
        *_by_winner(without.sure, contest.set_word, "Without {sets}, {winner} leads.", "or"),
    ]
    parts += [*_not_compared(contest.left_out), *kept]
    if is_trained_once:
        parts.append("One training run cannot say whether that survives retraining.")
    return " ".join(parts)


def _best(contest: Contest) -> str:
    """Who has the best, or shares it."""
    if len(contest.equal) > 1:
        return f"{few(contest.equal, 'detector')} share the best"
    return f"{contest.leader} has the best"


def _too_few(contest: Contest) -> str:
    """Two cases decide nothing: that no detector stands out would say too much."""
    return (
        f"{_best(contest)} mean {contest.subject.metric}, but two {several(contest.case)} are too "
        "few to say which detector is best."
    )


def _scoped(standing: Standing, tried: str, is_second: bool, rests_on_one: bool) -> str:
    """Say whom to use, and first where, if the page recommends another choice elsewhere.

    A mean that rests on a single set is no more than a mean: another may be better on most sets.
    """
    told = choice(standing, tried)
    if rests_on_one and not standing.tied:
        return f"On average, {told[0].lower()}{told[1:]}"
    if not is_second or not standing.tied:
        return told
    scope = standing.scope
    return f"{scope[0].upper()}{scope[1:]}, {told[0].lower()}{told[1:]}"


def choice(standing: Standing, tried: str) -> str:
    """Say which detectors may be the best; `tried` is what does not separate them."""
    leader, tied = standing.leader, standing.tied
    others = len(standing.detectors) - 1
    if not tied:
        every = {1: standing.detectors[1], 2: "both others"}.get(others, f"all {others} others")
        if not standing.subject.is_whole and others > 1:
            return (
                f"Use {leader}: {standing.scope}, significantly ahead of {every} that are compared."
            )
        return f"Use {leader}: significantly ahead of {every} {standing.scope}."
    if not standing.behind:
        return _nobody_stands_out(standing, tried)
    if len(tied) < SHOWN:
        return _one_of(standing, tried)
    rest = [name for name in tied if name not in standing.equal]
    near = listing(rest if len(rest) < SHOWN else [*rest[: SHOWN - 1], _more(len(rest))])
    them = "them" if len(standing.equal) > 1 else "it"
    but = f", but {near} are not separable from {them} with {tried}" if rest else ""
    return f"No clear winner: {_have(standing)} the best mean{but}."


def _more(many: int) -> str:
    return f"{many - SHOWN + 1} more"


def _have(standing: Standing) -> str:
    """Who has something, or shares it."""
    if len(standing.equal) > 1:
        return f"{few(standing.equal, 'detector')} share"
    return f"{standing.leader} has"


def _one_of(standing: Standing, tried: str) -> str:
    """Name the few that may be the best; not those that only their spread keeps in the race.

    A detector with a worse mean than one that is behind cannot be separated because it varies more.
    """
    leader, tied = standing.leader, standing.tied
    first_behind = standing.detectors.index(standing.behind[0])
    erratic = [
        name
        for place, name in enumerate(standing.detectors)
        if name in tied and place > first_behind and place != standing.board.declared
    ]
    steady = [leader, *(name for name in tied if name not in erratic)]
    if not erratic:
        return f"Use {listing(steady, 'or')}: not separable with {tried}."
    they_vary = "it varies" if len(erratic) == 1 else "they vary"
    doubt = f"but only because {they_vary} so much."
    if len(steady) == 1:
        return f"Use {leader}: {listing(erratic)} cannot be ruled out with {tried}, {doubt}"
    return (
        f"Use {listing(steady, 'or')}: not separable with {tried}. {listing(erratic)} cannot be "
        f"ruled out either, {doubt}"
    )


def _nobody_stands_out(standing: Standing, tried: str) -> str:
    """Everybody may be the best: to recommend all of them would recommend nothing."""
    leader, tied, equal = standing.leader, standing.tied, standing.equal
    whole = "" if standing.subject.is_whole else " that are compared"
    if len(equal) == len(standing.detectors):
        every = "Both" if len(equal) == 2 else f"All {len(equal)}"
        return f"{every} detectors{whole} have the same mean: there is nothing to choose by."
    if len(standing.detectors) == 2:
        return (
            f"{leader} and {tied[0]} are not separable with {tried}: {leader} has the better mean "
            "here."
        )
    others = len(standing.detectors) - len(equal)
    rest = {1: "the other", 2: "either of the 2 others"}.get(others, f"any of the {others} others")
    return (
        f"No detector stands out: {_have(standing)} the best mean, but "
        f"{'are' if len(equal) > 1 else 'is'} not separable from {rest}{whole} with {tried}."
    )


def declared(ours: str, standing: Standing, *, names_scope: bool = False) -> list[str]:
    """Whom the detector that was declared in advance is ahead of, and behind, if not of all.

    With its scope where the same page counts in another one, too.
    """
    scope = f" {standing.scope}" if names_scope else ""
    if ours == standing.leader and not standing.tied:
        return []  # the choice says it
    sure = [d.value for d in standing.ours.values() if d.p_value < SIGNIFICANT]
    ahead, behind = (sum(sign * value > 0 for value in sure) for sign in (1, -1))
    open_ = len(standing.ours) - len(sure)
    parts = [f"significantly ahead of {ahead}"] * bool(ahead)
    parts += [f"{'significantly ' * (not ahead)}behind {behind}"] * bool(behind)
    parts += [f"not separable from {open_}"] * bool(open_)
    if len(standing.ours) == 1:
        if open_:
            return []  # the choice says that both are not separable
        (other,) = standing.ours
        return [f"{ours} is {parts[0].rsplit(' ', 1)[0]} {other}{scope}."]
    if open_ == len(standing.ours):
        parts = [f"not separable from {'either of 2' if open_ == 2 else f'any of {open_}'} others"]
    elif len(parts) == 1:
        every = "both others" if len(sure) == 2 else f"all {len(sure)} others"
        parts = [f"{parts[0].rsplit(' ', 1)[0]} {every}"]
    else:
        parts[-1] += f" of {len(standing.ours)} others"
    return [f"{ours} is {listing(parts)}{scope}."]


def _not_compared(names: Sequence[str]) -> list[str]:
    """Who might be better than the leader, for all that is known."""
    if not names:
        return []
    one = len(names) == 1
    told = f"{few(names, 'detector')} {'is' if one else 'are'} not compared: "
    return [f"{told}too many of {'its' if one else 'their'} values are missing."]


def _on_lost(lost: Sequence[str], word: str) -> list[str]:
    """Where no detector is worth using."""
    if not lost:
        return []
    return [f"On {few(lost, word)}, no detector is significantly better than chance."]


def _by_winner(
    winners: Mapping[str, str], word: str, sentence: str, joined: str = "and"
) -> list[str]:
    """Tell who wins on which sets, the most frequent winners first."""
    sets: dict[str, list[str]] = {}
    for name, winner in winners.items():
        sets.setdefault(winner, []).append(name)
    often = sorted(sets, key=lambda winner: -len(sets[winner]))
    return [
        sentence.format(sets=few(sets[winner], word, joined), winner=winner)
        for winner in often[:_WINNERS]
    ]
