"""What single sets change: who is ahead there, who leads without one, and who beats chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from oodometer.finding import Claim, Table, TableCell, Verdict
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.words import (
    LEVEL,
    SHOWN,
    SIGNIFICANT,
    count,
    few,
    in_all,
    number,
    points,
    spelled,
)
from oodometer.protocols.ranking.standing import Contest
from oodometer.stats.comparison import Difference

BASELINE = "max_softmax"  # what the leader is compared with on each outlier set, where it is there
CHANCE = 0.5  # AUROC of a detector that guesses
NEAR_CHANCE = 0.6  # a better mean does not look like guessing, whatever few runs can show
FEWEST_SETS = 3  # of which one can be left out

OnSets = Mapping[str, Mapping[str, Difference]]  # set -> every other detector less the leader


def on_each_set(contest: Contest) -> OnSets:
    """Every other detector less the leader on each set, adjusted for all comparisons on all sets.

    All of them count, since those that are shown are chosen by their results.
    """
    if len(contest.on_sets) < 2 or len(contest.detectors) < 2:
        return {}
    return {
        name: contest.against(pairwise, contest.leader, len(contest.on_sets))
        for name, pairwise in contest.on_sets.items()
    }


def set_claims(contest: Contest, on_sets: OnSets) -> list[Claim]:
    """On which sets is another detector ahead of the leader?"""
    if not on_sets or contest.is_all_equal:
        return []
    leader, word, subject = contest.leader, contest.set_word, contest.subject
    ahead = farthest_ahead(on_sets, significant=False)
    beaten = farthest_ahead(on_sets, significant=True)
    if not ahead:
        every = [d for found in on_sets.values() for d in found.values()]
        sure = sum(d.p_value < SIGNIFICANT for d in every)
        text = f"No detector has a better mean {subject.metric} than {leader} on any {word}"
        are = "is" if sure == 1 else "are"
        evidence = f"{sure} of {len(every)} differences {are} significant"
        leaves_open = f"whether another detector is better on some {word} (here none is)"
        verdict: Verdict = "holds" if sure == len(every) else "undecided"
        text += "" if verdict == "holds" else ", but not every lead is significant"
        return [Claim(f"{text}.", verdict, evidence, leaves_open=leaves_open)]
    evidence = spelled(
        [
            f"{subject.minus(other, leader)} on {name}: {subject.said(on_sets[name][other])}"
            for name, other in (beaten or ahead).items()
        ]
    )
    if beaten:
        by_winner: dict[str, list[str]] = {}
        for name, other in beaten.items():
            by_winner.setdefault(other, []).append(name)
        parts = [f"{other} beats it on {few(own, word)}" for other, own in by_winner.items()]
        text = f"{leader}'s lead depends on the {word}: {'; '.join(parts[:SHOWN])}"
        more = len(parts) - SHOWN
        text += f", and {count(more, 'more detector')} on others" if more > 0 else ""
        return [Claim(f"{text}.", "flips", evidence)]
    where = few([f"{name} ({other})" for name, other in ahead.items()], word)
    text = f"Another detector has a better mean {subject.metric} than {leader} on {where}, but not "
    leaves_open = f"whether another detector is better on {where}"
    return [Claim(f"{text}significantly.", "undecided", evidence, leaves_open=leaves_open)]


def farthest_ahead(on_sets: OnSets, *, significant: bool) -> dict[str, str]:
    """On each set, the detector that is farthest ahead of the leader, if one is."""
    found = {}
    for name, own in on_sets.items():
        better = {
            other: d.value
            for other, d in own.items()
            if d.value > 0 and (d.p_value < SIGNIFICANT or not significant)
        }
        if better:
            found[name] = max(better, key=better.__getitem__)
    return found


def baseline_claims(contest: Contest, on_sets: OnSets) -> list[Claim]:
    """On how many sets is the leader ahead of the baseline?"""
    if not on_sets or BASELINE not in contest.detectors[1:]:
        return []
    found = {name: own[BASELINE] for name, own in on_sets.items()}
    ahead, behind = (
        [name for name, d in found.items() if d.p_value < SIGNIFICANT and d.value * sign < 0]
        for sign in (1, -1)
    )
    open_ = [name for name in found if name not in (*ahead, *behind)]
    where = in_all(len(ahead), len(found), contest.set_word, preposition="on")
    text = f"{contest.leader} is significantly ahead of {BASELINE} {where}"
    if len(open_) == len(found):
        any_of = "either" if len(found) == 2 else f"any of {len(found)}"
        sets = f"{any_of} {contest.set_word}{'s' * (len(found) > 2)}"
        text, open_ = f"{contest.leader} is not separable from {BASELINE} on {sets}", []
    text += f", and behind on {few(behind, contest.set_word)}" if behind else ""
    text += f"; not separable on {few(open_, contest.set_word)}" if open_ else ""
    low, high = min(-d.value for d in found.values()), max(-d.value for d in found.values())
    return [
        Claim(
            f"{text}.",
            "flips" if ahead and behind else "holds" if ahead or behind else "undecided",
            f"{contest.leader} − {BASELINE}: {points(low).removesuffix(' points')} to "
            f"{points(high)}; see the table by {contest.set_word}",
        )
    ]


def set_table(contest: Contest, on_sets: OnSets) -> Table | None:
    """How far the leader is ahead of the best of the others on each set, and of the baseline."""
    if not on_sets:
        return None
    leader = contest.leader
    baseline = BASELINE if BASELINE in contest.detectors[1:] else ""
    rows: list[tuple[TableCell, ...]] = []
    for name, found in on_sets.items():
        other, _ = max(found.items(), key=lambda item: item[1].value)
        row: list[TableCell] = [name, other, *_turned(found[other])]
        rows.append((*row, *(_turned(found[baseline]) if baseline else ())))
    columns = (contest.set_word, "best of the others", f"{leader} ahead by", "adjusted p")
    more = (f"{leader} ahead of {baseline} by", "adjusted p (baseline)") if baseline else ()
    return Table(
        "by-set",
        f"{leader} on each {contest.set_word}",
        (*columns, *more),
        tuple(rows),
        f"Positive: {leader} is better. Intervals are simultaneous for all comparisons of {leader} "
        f"on all {contest.set_word}s: one excludes 0 exactly where the adjusted p is below 5%.",
    )


def _turned(difference: Difference) -> tuple[TableCell, float]:
    value, low, high, p_value, *_ = difference
    return Difference(-value, -high, -low, p_value).estimate, float(p_value)


class Without(NamedTuple):
    """Who leads if one set is left out, where that is another than with all sets."""

    leaders: Mapping[str, str]  # by the set that is left out
    ahead: Mapping[str, Difference]  # the same: how far it is then ahead of the leader

    @property
    def sure(self) -> dict[str, str]:
        """Those that are then significantly ahead."""
        return {s: own for s, own in self.leaders.items() if self.ahead[s].p_value < SIGNIFICANT}


def without_each_set(contest: Contest) -> Without:
    """Find who leads without each of the sets."""
    if not _can_leave_out(contest):
        return Without({}, {})
    rest = _means_without(contest)
    changed = {
        name: contest.detectors[row]
        for name, row, own in zip(
            contest.set_means, rest.argmax(axis=1).tolist(), rest, strict=True
        )
        if own[row] > own[0]
    }
    ahead = {
        name: contest.against(contest.without(name), contest.leader, len(rest))[other]
        for name, other in changed.items()
    }
    return Without(changed, ahead)


def _can_leave_out(contest: Contest) -> bool:
    enough = len(contest.set_means) >= FEWEST_SETS and len(contest.detectors) > 1
    return enough and contest.main is not None


def _means_without(contest: Contest) -> Floats:
    """(sets, detectors): means over all other sets, higher is better."""
    means = contest.subject.sign * np.array(list(contest.set_means.values()))
    return np.asarray((means.sum(axis=0) - means) / (len(means) - 1))


def left_out_claims(contest: Contest, without: Without) -> list[Claim]:
    """Does another detector lead if one set is left out?

    The leader depends on a set if, without it, another is significantly ahead of the leader.
    """
    if not _can_leave_out(contest):
        return []
    if not without.leaders:  # of a leader that is not even decided, this says nothing new
        return [_same_leader(contest)] if contest.is_decided else []
    return [_other_leaders(contest, without.leaders, without.ahead)]


def _other_leaders(
    contest: Contest, changed: Mapping[str, str], found: Mapping[str, Difference]
) -> Claim:
    """Name who leads without which set; `found` is how far that one is then ahead."""
    leader, word, subject = contest.leader, contest.set_word, contest.subject
    sure = [name for name in changed if found[name].p_value < SIGNIFICANT]
    shown = sorted(sure or changed, key=lambda name: -found[name].value)
    by_winner: dict[str, list[str]] = {}
    for name in shown:
        by_winner.setdefault(changed[name], []).append(name)
    parts = [
        f"without {few(names, word, 'or')}, {winner} leads"
        for winner, names in list(by_winner.items())[:SHOWN]
    ]
    told = "; ".join(parts)
    if more := sum(len(names) for names in list(by_winner.values())[SHOWN:]):
        told += f"; without {count(more, f'more {word}')}, others lead"
    evidence = spelled(
        [
            f"{subject.minus(changed[name], leader)} without {name}: {subject.said(found[name])}"
            for name in shown
        ],
        2,
    )
    evidence += f"; the leader changes without {len(changed)} of {len(contest.set_means)} {word}s"
    if sure:
        return Claim(f"{leader}'s lead rests on single {word}s: {told}.", "flips", evidence)
    leaves_open = f"whether another detector leads if one {word} is left out (here {told})"
    told = f"{told[0].upper()}{told[1:]} instead of {leader}, but not significantly."
    return Claim(told, "undecided", evidence, leaves_open=leaves_open)


def _same_leader(contest: Contest) -> Claim:
    """The leader leads whichever set is left out; is it significantly ahead each time?"""
    rest = _means_without(contest)
    leads = rest[:, 0] - rest[:, 1:].max(axis=1)
    weakest = int(leads.argmin())
    # All must be significant: that allows for all of them.
    boards = (contest.board_without(name) for name in contest.set_means)
    sure = all(board.is_decided and board.order[0] == 0 for board in boards)
    size = points(leads[weakest]) if contest.subject.are_shares else f"{leads[weakest]:.3g}"
    text = f"{contest.leader} leads whichever {contest.set_word} is left out"
    return Claim(
        f"{text}." if sure else f"{text}, but not each time significantly.",
        "holds" if sure else "undecided",
        f"its smallest lead is {size}, without {list(contest.set_means)[weakest]}; "
        + ("all leads are significant" if sure else "not all leads are significant"),
    )


def _has_chance(contest: Contest) -> bool:
    """Whether it is known what a detector that guesses would have."""
    return contest.subject.metric == "AUROC" and contest.subject.sign > 0


def lost_sets(contest: Contest) -> dict[str, Estimate]:
    """The sets on which no detector is significantly better than chance, with the best there.

    Where the best has an interval above chance, or is far above it in every one of too few runs,
    the table says so, and nothing is claimed.
    """
    if not _has_chance(contest):
        return {}
    many, lost = len(contest.detectors), {}
    for name, pairwise in contest.on_sets.items():
        row = int(np.argmax(pairwise.means))
        best, strict = pairwise.intervals(LEVEL)[row], pairwise.intervals(1.0 - SIGNIFICANT / many)
        lowest = float(contest.set_values[name][row].min())
        sure = best.low > CHANCE or contest.is_undecidable or lowest > NEAR_CHANCE
        looks_better = sure and best.value > NEAR_CHANCE
        if not looks_better and max(own.low for own in strict) <= CHANCE:
            lost[name] = strict[row]
    return lost


def chance_claims(contest: Contest, lost: Mapping[str, Estimate]) -> list[Claim]:
    """On which sets does no detector beat chance, and which detectors are worse than chance?"""
    if not _has_chance(contest):
        return []
    if not contest.on_sets:
        return _below_chance(contest)
    claims = [_lost(lost, contest)] if lost else []
    return [*claims, *_below_chance_on_sets(contest, lost)]


def _below_chance_on_sets(contest: Contest, lost: Mapping[str, Estimate]) -> list[Claim]:
    """Which detectors are worse than chance on which set, and which have an AUROC below 0.5?

    The last not where nobody is better than chance, which is told already.
    """
    many, sets = len(contest.detectors), len(contest.on_sets)
    worse: dict[str, list[str]] = {}  # set -> detectors
    below: dict[str, list[str]] = {}
    shown: list[str] = []
    for name, pairwise in contest.on_sets.items():
        strict = pairwise.intervals(1.0 - SIGNIFICANT / (many * sets))
        for detector, own in zip(contest.detectors, strict, strict=True):
            if _is_below_chance(own):
                worse.setdefault(name, []).append(detector)
            elif own.value < CHANCE and name not in lost:
                below.setdefault(name, []).append(detector)
                shown.append(f"{detector} on {name} {number(own.value)}")
    allowing = f"intervals that allow for {count(many, 'detector')} on "
    allowing += count(sets, contest.set_word)
    claims = []
    if worse:
        text = f"Worse than chance (AUROC below 0.5): {_by_set(worse)}."
        claims.append(Claim(text, "holds", f"{allowing} lie below 0.5"))
    if below:
        text = f"Below an AUROC of 0.5, though not significantly: {_by_set(below)}."
        claims.append(Claim(text, "undecided", f"{spelled(shown)}; {allowing} reach 0.5"))
    return claims


def _is_below_chance(mean: Estimate) -> bool:
    """Whether an interval lies below 0.5; two cases, which decide nothing, have none."""
    return mean.low < mean.high < CHANCE


def _by_set(found: Mapping[str, Sequence[str]]) -> str:
    """Name detectors on each set."""
    parts = [f"{few(own, 'detector')} on {name}" for name, own in found.items()]
    more = len(parts) - SHOWN
    return "; ".join(parts[:SHOWN]) + (f" and more on {count(more, 'more set')}" * (more > 0))


def _below_chance(contest: Contest) -> list[Claim]:
    """Which detectors are worse than chance on average, where no set has a spread of its own?"""
    below = dict(zip(contest.detectors, contest.means.tolist(), strict=True))
    below = {name: mean for name, mean in below.items() if mean < CHANCE}
    sure: dict[str, Estimate] = {}
    if below and contest.main is not None:
        level, board = 1.0 - SIGNIFICANT / len(contest.detectors), contest.main.board
        strict = contest.main.pairwise.intervals(level)
        own = {name: strict[row] for name, row in zip(contest.detectors, board.order, strict=True)}
        sure = {name: own[name] for name in below if _is_below_chance(own[name])}
    claims = []
    if sure and contest.main is not None:
        text = f"Worse than chance (AUROC below 0.5) {contest.main.scope}: "
        many = count(len(contest.detectors), "detector")
        evidence = f"intervals that allow for {many}: {_spelled_out(sure)}"
        claims.append(Claim(f"{text}{few(list(sure), 'detector')}.", "holds", evidence))
    if rest := [name for name in below if name not in sure]:
        parts = [f"{name} {number(below[name])}" for name in rest]
        text = f"Below an AUROC of 0.5, though not significantly: {few(rest, 'detector')}."
        claims.append(Claim(text, "undecided", spelled(parts)))
    return claims


def _lost(lost: Mapping[str, Estimate], contest: Contest) -> Claim:
    """Nobody beats chance if all are worse: each must be, which allows for their number."""
    level = 1.0 - SIGNIFICANT / len(contest.on_sets)
    are_below = all(
        _is_below_chance(own) for name in lost for own in contest.on_sets[name].intervals(level)
    )
    beats = "No detector beats" if are_below else "No detector is significantly better than"
    return Claim(
        f"{beats} chance on {few(list(lost), contest.set_word)}.",
        "holds" if are_below else "undecided",
        "AUROC of the best there, with an interval that allows for "
        f"{count(len(contest.detectors), 'detector')}: {_spelled_out(lost)}",
    )


def _spelled_out(found: Mapping[str, Estimate]) -> str:
    return spelled(
        [
            f"{name} {number(e.value)} [{number(e.low)}, {number(e.high)}]"
            for name, e in found.items()
        ]
    )
