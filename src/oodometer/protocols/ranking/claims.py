"""Who is best, who is behind and who cannot be separated, in each scope."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from oodometer.finding import Claim
from oodometer.protocols.common.words import (
    LEVEL,
    SHOWN,
    SIGNIFICANT,
    between,
    count,
    few,
    in_all,
    listing,
    never_otherwise,
    number,
    p_equals,
    points,
    points_and_p,
    several,
    spelled,
    together,
)
from oodometer.protocols.ranking.standing import Contest, Standing, Subject
from oodometer.stats.comparison import Difference
from oodometer.stats.paired import win_probability

MOST_NAMED, FEW_NAMED = 10, 6  # detectors that a sentence names; of more the nearest


def order_claims(contest: Contest, needed: Mapping[str, str]) -> list[Claim]:
    """What is known about the order in every scope; first about the detector that is declared.

    `needed` says how many runs would separate it from those that it is not separable from.
    """
    if len(contest.detectors) == 1 or contest.main is None:
        return [_without_comparison(contest)]
    claims = []
    for standing in contest.standings if contest.ours else ():
        claims += ours_claims(contest.ours, standing, needed if standing is contest.main else {})
    claims += lead_claims(contest.main, _why(contest))
    for standing in contest.standings[1:]:
        claims += lead_claims(standing, is_main=False)
    return claims


def lead_claims(standing: Standing, why: str = "", *, is_main: bool = True) -> list[Claim]:
    """Is the leader significantly ahead of all others, and if not, of whom?

    The main scope is told with the mean itself. `why` ends the evidence.
    """
    if len(standing.detectors) == 1:
        value, subject = number(standing.means[standing.leader].value), standing.subject
        text = f"{standing.leader} has a mean {subject.metric} of {value}, {subject.over}."
        evidence = [_interval(standing), "there is nothing to compare it with"]
        return [Claim(text, "undecided", _joined(evidence))]
    if not standing.tied:
        return [_decided(standing, is_main)]
    evidence = [_interval(standing), _against(standing, standing.tied)]
    claims = [Claim(_open(standing, is_main), "undecided", _joined(evidence) + why)]
    if standing.behind:
        text = f"{_behind(standing)} {standing.scope}: {_named(standing.behind)}"
        gap = standing.gaps[standing.behind[0]]
        one = "" if len(standing.behind) == 1 else "the nearest of them, "
        nearest = f"{one}{standing.behind[0]}{',' * bool(one)} is {_size(-gap.value, standing)} "
        nearest += f"behind{_by_whom(standing)}, adjusted {p_equals(gap.p_value)}"
        claims.append(Claim(f"{text} (95% confidence).", "holds", nearest))
    return claims


def _mean(standing: Standing) -> str:
    """Who has the best mean, and what it is."""
    equal, subject = standing.equal, standing.subject
    verb = f"{_named(equal)} share" if len(equal) > 1 else f"{standing.leader} has"
    value = number(standing.means[standing.leader].value)
    return f"{verb} the {subject.extreme} mean {subject.metric}, {value}, {subject.over}"


def _decided(standing: Standing, is_main: bool) -> Claim:
    others = _every(standing.detectors[1:], standing.subject)
    text = f"{_mean(standing)}, and {standing.scope} it is significantly ahead of {others}."
    if not is_main:
        text = f"{standing.scope}, {standing.leader} is significantly ahead of {others}."
    evidence = [_interval(standing), _against(standing, standing.behind)]
    return Claim(_sentence(text) if not is_main else text, "holds", _joined(evidence))


def _open(standing: Standing, is_main: bool) -> str:
    equal, scope = standing.equal, standing.scope
    if len(equal) > 1:
        return (
            f"{_mean(standing)}." if is_main else _sentence(f"{scope}, {_named(equal)} are equal.")
        )
    others = _named(standing.tied)
    if len(standing.tied) > SHOWN and not standing.behind:
        others = _every(standing.tied, standing.subject, "any")
    if is_main:
        return f"{_mean(standing)}, but {scope} it is not separable from {others}."
    return _sentence(f"{scope}, {standing.leader} is not separable from {others}.")


def _interval(standing: Standing) -> str:
    mean = standing.means[standing.leader]
    ends = between(mean.low, mean.high)
    return f"95% confidence interval of the mean {ends}" if mean.low < mean.high else ""


def _against(standing: Standing, others: Sequence[str]) -> str:
    """How far the leader is ahead of the one that it is least certainly ahead of."""
    name = max(others, key=lambda own: standing.lead(own).p_value)
    lead = standing.lead(name)
    if not standing.tied and lead.p_value >= SIGNIFICANT:  # separated from another than the leader
        lead = lead._replace(low=-math.inf, p_value=standing.gaps[name].p_value)
    subject = standing.subject
    said = points_and_p(lead, adjusted=False, are_shares=subject.are_shares)
    return f"{subject.minus(standing.leader, name)}: {said}"


def _joined(parts: Sequence[str]) -> str:
    return "; ".join(part for part in parts if part)


def _by_whom(standing: Standing) -> str:
    """Say what the p-value of the nearest is about, if not its distance from the leader."""
    place = standing.detectors.index(standing.behind[0])
    if standing.board.separated[place, 0]:
        return ""
    rivals = np.flatnonzero(standing.board.separated[place])
    return f"; significantly behind {few([standing.detectors[n] for n in rivals], 'detector')}"


def _behind(standing: Standing) -> str:
    """A leader that varies much may not be who those behind are separated from."""
    apart = standing.board.separated[:, 0] | standing.board.can_be_best
    return "Behind the leader" if apart.all() else "Cannot be the best"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _named(names: Sequence[str]) -> str:
    """Name detectors; of many the nearest, with the number of the others."""
    if len(names) <= MOST_NAMED:
        return listing(names)
    return listing([*names[:FEW_NAMED], f"{len(names) - FEW_NAMED} more"])


def _every(others: Sequence[str], subject: Subject, word: str = "each") -> str:
    """Say that something is so of all others."""
    if len(others) <= 2:
        return listing(others)
    kept = "" if subject.is_whole else " that are compared"
    return f"{word} of the other {len(others)} detectors{kept}"


def _size(value: float, standing: Standing) -> str:
    return points(value) if standing.subject.are_shares else f"{value:.3g}"


def _why(contest: Contest) -> str:
    """Why retraining leaves open what the models that were trained decide."""
    main = contest.main
    sure = [standing for standing in contest.standings[1:] if standing.board.is_decided]
    if main is None or main.board.is_decided or not sure:
        return ""
    rows = [contest.detectors.index(name) for name in (main.leader, main.tied[0])]
    gaps = contest.subject.sign * (contest.values[rows[0]] - contest.values[rows[1]])
    low, high = (_size(float(end), main) for end in (gaps.min(), gaps.max()))
    low = low.removesuffix(" points")
    return (
        f"; the lead is decided {sure[0].scope}, but it varies: over {main.tied[0]} it is {low} to "
        f"{high} in single {several(contest.case)}"
    )


def ours_claims(ours: str, standing: Standing, needed: Mapping[str, str]) -> list[Claim]:
    """Whom the detector that was declared in advance is ahead of, behind, and not separable from.

    `needed` says how many runs would separate it from each of the last.
    """
    sure = {name: d for name, d in standing.ours.items() if d.p_value < SIGNIFICANT}
    ahead, behind = ([n for n, d in sure.items() if d.value * sign > 0] for sign in (1, -1))
    open_ = [name for name in standing.ours if name not in sure]
    claims = []
    if sure:
        every = _every(list(standing.ours), standing.subject)
        parts = [f"ahead of {_named(ahead) if behind or open_ else every}"] * bool(ahead)
        parts += [f"behind {_named(behind) if ahead or open_ else every}"] * bool(behind)
        text = f"{ours}, declared in advance, is significantly {' and '.join(parts)} "
        evidence = _pairs(ours, sure, standing.subject)
        claims.append(Claim(f"{text}{standing.scope}.", "holds", evidence))
    if open_:
        all_open = _every(open_, standing.subject, "any")
        others = _named(open_) if sure or len(open_) <= SHOWN else all_open
        text = f"{ours} is not separable from {others} {standing.scope}."
        found = {name: standing.ours[name] for name in open_}
        claims.append(Claim(text, "undecided", _pairs(ours, found, standing.subject, needed)))
    return claims


def _pairs(
    ours: str,
    found: Mapping[str, Difference],
    subject: Subject,
    needed: Mapping[str, str] | None = None,
) -> str:
    """The differences from the nearest detectors, with the runs that would separate them."""
    nearest = sorted(found, key=lambda name: -found[name].p_value)
    parts = [
        f"{subject.minus(ours, name)}: {subject.said(found[name])}"
        + (f" (would take {needed[name]})" if needed and name in needed else "")
        for name in nearest
    ]
    return spelled(parts)


def _without_comparison(contest: Contest) -> Claim:
    """What can be said of one detector, or of one number for each."""
    leader, subject = contest.leader, contest.subject
    value = number(float(contest.values[0].mean()))
    evidence = "one number per detector has no spread to test against"
    if contest.main is not None:
        mean = contest.main.means[leader]
        evidence = f"95% confidence interval {between(mean.low, mean.high)}"
    if len(contest.detectors) > 1:
        have = f"{_named(contest.equal)} share" if len(contest.equal) > 1 else f"{leader} has"
        text = f"{have} the {subject.extreme} {subject.metric}, {value}, {subject.over}."
        return Claim(text, "undecided", evidence)
    only = "here" if subject.is_whole else "with values that can be compared"
    text = f"{leader}, the only detector {only}, has a mean {subject.metric} of {value} "
    evidence += "; there is nothing to compare it with"
    return Claim(f"{text}{subject.over}.", "undecided", evidence)


def first_claims(contest: Contest) -> list[Claim]:
    """In how many single cases does the leader rank first, and would it beat the next in another?

    One value on each set, or under each condition, cannot separate that from chance: there nothing
    is unstable.
    """
    if len(contest.detectors) == 1 or contest.main is None or contest.values.shape[1] < 2:
        return []
    if contest.is_all_equal:  # nobody is first
        return []
    firsts = contest.order == contest.order.min(axis=0)
    leads, cases = firsts[0], firsts.shape[1]
    shared = leads & (firsts.sum(axis=0) > 1)
    place = in_all(int(leads.sum()), cases, contest.case, preposition=contest.preposition)
    times = dict(zip(contest.detectors[1:], firsts[1:].sum(axis=1).tolist(), strict=True))
    often = sorted((name for name in times if times[name]), key=lambda name: -times[name])
    others = [f"{name} {contest.preposition} {times[name]}" for name in often]
    text = f"{contest.leader} ranks first {place}{together(int(shared.sum()))}"
    if others and not leads.all():
        more = f"{count(len(others) - SHOWN, 'more detector')} {contest.preposition} others"
        text += f"; {listing([*others[:SHOWN], more] if len(others) > SHOWN else others)}"
    decided = contest.is_decided and not shared.any()
    verdict = never_otherwise(int((~leads).sum()), cases, decided=decided)
    if verdict == "flips" and contest.preposition != "in":
        verdict = "undecided"
        text += ", which may be chance"  # each case has one value
    # The rival is whoever is first most often instead, or else has the next best mean.
    rival = often[0] if often else contest.detectors[1]
    rows = [0, contest.detectors.index(rival)]
    chance = win_probability(*(contest.subject.sign * contest.values[rows]), level=LEVEL)
    evidence = (
        f"{contest.preposition} another {contest.case} like these, {contest.leader} beats "
        f"{rival} with probability {chance.value:.2f} [{chance.low:.2f}, "
        f"{chance.high:.2f}]; ties count one half"
    )
    if leads.all() and verdict == "undecided" and not shared.any():
        few_cases = f", but {count(cases, contest.case)} are too few to say that it always does"
        text += few_cases if contest.is_decided else ", but its lead is not significant"
    leaves_open = f"whether {contest.leader} always ranks first (here {place})"
    return [Claim(f"{text}.", verdict, evidence, leaves_open=leaves_open)]


def retraining_claim(contest: Contest) -> list[Claim]:
    """Say that one training run leaves open whether the order survives another."""
    if len(contest.detectors) < 2 or contest.values.shape[1] > 1:
        return []
    text = f"Whether {contest.leader} stays ahead after retraining cannot be said: there is one "
    return [
        Claim(
            f"{text}training run.",
            "undecided",
            "only other test samples are accounted for; three training runs or more show how far "
            "retraining moves detectors",
        )
    ]
