"""The answer to a ranking in the words of somebody who was asked: which detector to use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oodometer.finding import Claim
from oodometer.protocols.common.words import SHOWN, SIGNIFICANT, count, listing
from oodometer.protocols.ranking.power import in_short
from oodometer.protocols.ranking.sets import (
    OnSets,
    Without,
    farthest_ahead,
    few,
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
) -> str:
    """Say whom to use, where another one is better, and on what that rests.

    `flips` name the conditions that decide who is best: no number of runs would separate those two.
    """
    if len(contest.detectors) == 1:
        return f"{contest.leader} is the only detector here: there is nothing to choose from."
    if contest.main is None:
        have = (
            f"{few(contest.equal, 'detector')} share"
            if len(contest.equal) > 1
            else f"{contest.leader} has"
        )
        return (
            f"{have} the best {contest.subject.metric}, but a single value of each detector cannot "
            "say how certain that is."
        )
    cases = contest.values.shape[1]
    tried = count(cases, contest.case) if cases > 1 else "these test samples"
    beaten, lost = farthest_ahead(on_sets, significant=True), lost_sets(contest)
    if lost and len(lost) == len(contest.on_sets):
        sets = {1: "", 2: " on either set"}.get(len(lost), f" on any of {len(lost)} sets")
        return (
            f"No detector is significantly better than chance{sets}: these results recommend none."
        )
    parts = [
        *(_declared(contest.ours, contest.main) if contest.ours else ()),
        choice(contest.main, tried),
        *(claim.text for claim in flips[:_WINNERS]),
        *filter(None, [in_short(needed, contest.leader, contest.main.tied) if not flips else ""]),
        *_on_lost(list(lost), contest.set_word),
        *_by_winner(
            {name: winner for name, winner in beaten.items() if name not in lost},
            contest.set_word,
            "On {sets}, {winner} is better.",
        ),
        *_by_winner(without.sure, contest.set_word, "Without {sets}, {winner} leads."),
    ]
    if is_trained_once:
        parts.append("One training run cannot say whether that survives retraining.")
    return " ".join(parts)


def choice(standing: Standing, tried: str) -> str:
    """Say which detectors may be the best; `tried` is what does not separate them."""
    leader, tied = standing.leader, standing.tied
    others = len(standing.detectors) - 1
    if not tied:
        every = {1: standing.detectors[1], 2: "both others"}.get(others, f"all {others} others")
        every += "" if standing.subject.is_whole or others == 1 else " that are compared"
        return f"Use {leader}: significantly ahead of {every} {standing.scope}."
    if not standing.behind and others >= SHOWN:
        whole = "" if standing.subject.is_whole else " that are compared"
        return (
            f"No detector stands out: {leader} has the best mean, but {tried} separate it from "
            f"none of the {others} others{whole}."
        )
    if len(tied) < SHOWN:
        return f"Use {listing([leader, *tied], 'or')}: not separable with {tried}."
    near = listing([*tied[: SHOWN - 1], f"{len(tied) - SHOWN + 1} more"])
    return (
        f"No clear winner: {leader} has the best mean, but {near} are not separable from it with "
        f"{tried}."
    )


def _declared(ours: str, standing: Standing) -> list[str]:
    """Whom the detector that was declared in advance is ahead of, and behind."""
    sure = [d.value for d in standing.ours.values() if d.p_value < SIGNIFICANT]
    ahead, behind = (sum(sign * value > 0 for value in sure) for sign in (1, -1))
    open_ = len(standing.ours) - len(sure)
    parts = [f"significantly ahead of {ahead}"] * bool(ahead)
    parts += [f"behind {behind}"] * bool(behind)
    parts += [f"not separable from {open_}"] * bool(open_)
    return [f"{ours} is {listing(parts)} of {count(len(standing.ours), 'other')}."]


def _on_lost(lost: Sequence[str], word: str) -> list[str]:
    """Where no detector is worth using."""
    if not lost:
        return []
    return [f"On {few(lost, word)}, no detector is significantly better than chance."]


def _by_winner(winners: Mapping[str, str], word: str, sentence: str) -> list[str]:
    """Tell who wins on which sets, the most frequent winners first."""
    sets: dict[str, list[str]] = {}
    for name, winner in winners.items():
        sets.setdefault(winner, []).append(name)
    often = sorted(sets, key=lambda winner: -len(sets[winner]))
    return [
        sentence.format(sets=few(sets[winner], word, "or"), winner=winner)
        for winner in often[:_WINNERS]
    ]
