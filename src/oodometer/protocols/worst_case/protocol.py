"""Search for outliers that fool a detector: what is left of its AUROC, and of the order?

Yoon, Choi, Lee, Noh & Park 2022, "Evaluating Out-of-Distribution Detectors Through Adversarial
Generation of Outliers".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, Series, themed
from oodometer.protocols.common.sources import left_out_claims
from oodometer.protocols.common.words import (
    SIGNIFICANT,
    count,
    known_data,
    listing,
    missing_lines,
    number,
    points_and_p,
)
from oodometer.protocols.worst_case.searched import Searched, searches
from oodometer.protocols.worst_case.survival import survival_claims
from oodometer.protocols.worst_case.views import (
    by_outliers,
    intervals,
    losses_table,
    places,
    transfer_map,
    transfer_table,
)
from oodometer.scores import ScoreTable

_CHANCE = 0.5
_ONE_CASE = "one case in comparisons; losses are those of that network"


def worst_case(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Compare each detector on what was found against it with the outliers the search began at."""
    searched = searches(table)
    if not searched:
        raise UserError(
            "There are no outliers of a search in these scores: 'oodometer attack' makes them."
        )
    claims = [_scoped(claim, part) for part in searched for claim in _claims(part)]
    runs = min(len(part.runs) for part in searched)
    shared = tuple(dict.fromkeys(name for part in searched for name in part.fewer))
    caveats = [
        "A search finds the worst of what it tried: a longer one, or another method, may find "
        "worse.",
        "Energies were standardized by scores of known validation data, not by those of the test "
        "data that ranks and AUROC refer to.",
    ]
    caveats += _left_out(table, searched)
    if runs == 1:
        caveats.append(
            "There is only one training run: intervals are for other images, and nothing can be "
            "said about retraining."
        )
    return Finding(
        protocol="worst_case",
        title="Worst case: outliers that were searched for",
        question="What is left of a detector if somebody searches for outliers that fool it?",
        claims=(
            *themed("changes", claims),
            *left_out_claims(shared, "How far retraining would move the worst case", _ONE_CASE),
        ),
        tables=tuple(losses_table(part) for part in searched)
        + tuple(transfer_table(part) for part in searched if len(part.found) > 1),
        series=tuple(_figures(searched)),
        caveats=tuple(caveats),
        missing=missing_lines(table.missing, len(table.runs)),
        facts=(
            *known_data(table),
            ("searches", str(sum(len(part.found) for part in searched))),
            ("training runs", str(runs)),
        ),
        answer=_answer(searched),
    )


def _left_out(table: ScoreTable, searched: Sequence[Searched]) -> Iterator[str]:
    """Name the detectors that were not searched against, and those that lack scores."""
    tried = {info.against for info in table.sets.values() if info.role == "search"}
    if never := [name for name in table.detectors if name not in tried]:
        yield f"Not searched against: {listing(never)}."
    for part in searched:
        against = {
            info.against
            for info in table.sets.values()
            if (info.role, info.of, info.by) == ("search", part.outliers, part.variation)
        }
        if lacking := sorted(against - set(part.found)):
            named = listing(lacking)
            yield f"Not compared in the {part.name}, because scores are missing: {named}."


def _answer(searched: Sequence[Searched]) -> str:
    """Say what the searches cost the weakest detector, and which one keeps the most."""
    losses = {(part, name): part.losses[name].value for part in searched for name in part.found}
    # What was no better than chance before has little to lose.
    worth = {place: own for place, own in losses.items() if place[0].clean(place[1]).low > _CHANCE}
    losses = worth or losses
    part, most = max(losses, key=lambda place: losses[place])
    loss = (
        f"{most} falls from an AUROC of {number(part.clean(most).value)} to "
        f"{number(part.worst(most).value)} in the {part.name}."
    )
    common = [name for name in part.detectors if all(name in other.found for other in searched)]
    if len(common) < 2:
        return loss
    if len(searched) > 1:
        return f"{loss} {_keeps_most(searched, common)}"
    first, second = part.detectors[:2]
    if part.worst(first).low <= _CHANCE:
        return f"{loss} No detector is significantly better than chance under such a search."
    is_decided = part.lead(first, second).p_value < SIGNIFICANT
    use = first if is_decided else f"{first} or {second}, which are not separable there"
    return f"{loss} Against such a search, use {use}."


def _keeps_most(searched: Sequence[Searched], names: Sequence[str]) -> str:
    """Name the detector whose lowest AUROC over all searches is the highest."""
    lowest = {name: min(searched, key=lambda part: part.worst(name).value) for name in names}
    best = max(names, key=lambda name: lowest[name].worst(name).value)
    part = lowest[best]
    if part.worst(best).low <= _CHANCE:
        return (
            f"No detector stays significantly better than chance in all {len(searched)} searches; "
            f"{best} keeps the most, {number(part.worst(best).value)} in the {part.name}."
        )
    return (
        f"{best} keeps the most in its worst of {len(searched)} searches: "
        f"{number(part.worst(best).value)} in the {part.name}."
    )


def _scoped(claim: Claim, part: Searched) -> Claim:
    """Say that a single training run tells nothing about others."""
    if len(part.runs) > 1:
        return claim
    text = claim.text[0].lower() + claim.text[1:] if claim.text.startswith("The ") else claim.text
    return replace(claim, text=f"On this model, {text}")


def _claims(part: Searched) -> list[Claim]:
    claims = [_loss_claim(part)]
    if len(part.found) > 1:
        claims = [*_leader_claims(part), *survival_claims(part), *claims]
    below = [name for name in part.detectors if part.worst(name).high < _CHANCE]
    if below:
        claims.append(
            Claim(
                f"{listing(below)} rank{'s' if len(below) == 1 else ''} what the {part.name} "
                "found as less out-of-distribution than known data.",
                "holds",
                "; ".join(f"{name}: AUROC {number(part.worst(name).value)}" for name in below),
            )
        )
    return claims


def _leader_claims(part: Searched) -> list[Claim]:
    """Whether the leader on clean outliers leads in the worst case, too.

    If other training runs could say otherwise, what is so on these very networks is a claim of
    its own.
    """
    clean, worst, second = part.clean_order[0], part.detectors[0], part.detectors[1]
    behind = second if clean == worst else clean
    claim = _leader_claim(part, clean, worst, behind)
    if claim.verdict != "undecided" or len(part.runs) < 2:
        return [claim]
    here = part.lead(worst, behind, retraining=False)
    if here.p_value >= SIGNIFICANT:
        return [claim]
    leads = "" if clean == worst else f", which leads on clean {part.outliers}"
    text = (
        f"On these {len(part.runs)} models with other test samples, {worst} is significantly ahead "
        f"in the {part.name} of {behind}{leads}."
    )
    evidence = f"{worst} − {behind}: {points_and_p(here)}"
    return [claim, Claim(text, "holds" if clean == worst else "flips", evidence)]


def _leader_claim(part: Searched, clean: str, worst: str, behind: str) -> Claim:
    """For other training runs, if there are several; else for other images."""
    lead = part.lead(worst, behind)
    evidence = (
        f"worst case, {worst} − {behind}: {points_and_p(lead)}; clean AUROC "
        f"{number(part.clean(worst).value)} and {number(part.clean(behind).value)}"
    )
    decided = lead.p_value < SIGNIFICANT
    value = number(part.worst(worst).value)
    if clean == worst:
        text = f"{clean} leads on clean {part.outliers} and in the {part.name} ({value})"
        return Claim(
            f"{text}." if decided else f"{text}, but is not separable from {behind} there.",
            "holds" if decided else "undecided",
            evidence,
        )
    text = (
        f"{clean} leads on clean {part.outliers}, but in the {part.name} "
        f"{worst} has the highest AUROC ({value})"
    )
    return Claim(
        f"{text}." if decided else f"{text}, not separable from {clean}.",
        "flips" if decided else "undecided",
        evidence,
    )


def _loss_claim(part: Searched) -> Claim:
    """Which detectors lose, and the largest loss."""
    certain = part.lost_in_every_run
    lost = [
        name
        for name in part.detectors
        if part.losses[name].p_value < SIGNIFICANT or name in certain
    ]
    most = max(lost or part.losses, key=lambda name: part.losses[name].value)
    evidence = (
        f"largest loss, {most}: {number(part.clean(most).value)} → "
        f"{number(part.worst(most).value)}, {_loss(part, most)}"
    )
    if not lost:
        return Claim(
            f"The {part.name} lowers the AUROC of no detector significantly.",
            "undecided",
            evidence,
        )
    kept = [name for name in part.detectors if name not in lost]
    who = (
        ("both detectors" if len(lost) == 2 else f"all {len(lost)} detectors")
        if not kept and len(lost) > 1
        else listing(lost)
        if len(lost) < 4
        else f"{len(lost)} of {count(len(part.detectors), 'detector')}"
    )
    spared = f", but not that of {listing(kept)}" if kept and len(kept) < 4 else ""
    return Claim(f"The {part.name} lowers the AUROC of {who}{spared}.", "holds", evidence)


def _loss(part: Searched, name: str) -> str:
    """A loss with what decides it: all runs together, or each run by itself."""
    together = part.losses[name]
    if together.p_value < SIGNIFICANT or name not in part.lost_in_every_run:
        return points_and_p(together)
    of_runs = 100 * (part.by_run(name, worst=False) - part.by_run(name, worst=True))
    return (
        f"{of_runs.min():.1f} to {of_runs.max():.1f} points in single runs, significant in each "
        "by itself; a search cannot raise the AUROC"
    )


def _figures(searched: Sequence[Searched]) -> Iterator[Series]:
    sets = by_outliers(searched)
    compared = {name: parts for name, parts in sets.items() if len(parts[0].found) > 1}
    yield from (intervals(name, parts) for name, parts in sets.items())
    yield from (places(name, parts) for name, parts in compared.items())
    yield from (transfer_map(part) for part in searched if len(part.found) > 1)
