"""Which detector is best, how surely, and does the answer survive retraining?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oodometer.finding import Claim, Finding, Verdict
from oodometer.protocols.common.differences import FEW_RUNS, UNSEEN
from oodometer.protocols.common.score_cases import ScoreCases, score_cases
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.protocols.common.words import (
    LEVEL,
    SIGNIFICANT,
    count,
    in_all,
    listing,
    missing_lines,
    never_otherwise,
    not_applicable,
    number,
    points_and_p,
    together,
)
from oodometer.protocols.ranking.factors import factor_claims
from oodometer.protocols.ranking.views import (
    auroc_table,
    intervals,
    outlier_sets,
    rank_map,
    rank_table,
    strips,
)
from oodometer.scores import ScoreTable
from oodometer.stats.comparison import (
    Difference,
    against_best,
    auroc_difference,
    holm,
    mean_auroc,
)

BASELINE = "max_softmax"  # what a detector is compared with on each outlier set, where it is there


def ranking(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Compare detectors by AUROC over all runs: intervals, ranks, and what retraining changes."""
    field = score_cases(table)
    comparisons = _against_best(field)
    many = len(field.training_runs) > 1
    return Finding(
        protocol="ranking",
        title="Which detector, and how surely?",
        question="Which detector is best, and would "
        + ("another training of the same classifier" if many else "other test samples")
        + " agree?",
        claims=(
            *_claim_best(field, comparisons),
            *_claim_baseline(field),
            *_claim_sets(field),
            *factor_claims(field, surely=not _tied(comparisons)),
        ),
        tables=(auroc_table(field), *((rank_table(field),) if many else ())),
        series=(
            intervals(field),
            *((rank_map(field),) if len(field.runs) > 1 else ()),
            *strips(field),
        ),
        caveats=_caveats(field),
        missing=missing_lines(
            [part for part in table.missing if not part.setting and not part.lasting],
            len(table.runs),
        ),
        facts=_facts(field),
    )


def _against_best(field: ScoreCases) -> dict[str, Difference]:
    """How far the best is ahead of every other detector, with adjusted p values."""
    best, *others = field.detectors
    differences = [
        auroc_difference(field.overall[best], field.overall[other], LEVEL) for other in others
    ]
    adjusted = against_best([difference.p_value for difference in differences])
    return {
        other: difference._replace(p_value=float(p))
        for other, difference, p in zip(others, differences, adjusted, strict=True)
    }


def _claim_best(field: ScoreCases, comparisons: Mapping[str, Difference]) -> list[Claim]:
    """Who has the highest mean, in how many trainings, and who cannot be told from it."""
    best = field.detectors[0]
    estimate = mean_auroc(field.overall[best], LEVEL)
    interval = f"95 % interval {number(estimate.low)} to {number(estimate.high)}"
    mean = f"mean AUROC, {number(estimate.value)}, over {outlier_sets(field)}"
    if not comparisons:
        text = f"{best}, the only detector here, has a {mean}."
        return [Claim(text, "undecided", f"{interval}; there is nothing to compare it with")]
    alone = field.overall[field.detectors[1]].values.mean() < field.overall[best].values.mean()
    leads = field.order[0] == field.order.min(axis=0)
    shared = leads & ((field.order == field.order.min(axis=0)).sum(axis=0) > 1)
    first = int(leads.sum())
    place = in_all(first, len(field.training_runs), "training")
    tied = _tied(comparisons)
    claims = [
        Claim(
            f"{best} {'has' if alone else 'shares'} the highest {mean}, "
            f"{'and' if leads.all() else 'but'} ranks first {place}{together(int(shared.sum()))}.",
            never_otherwise(
                int((~leads).sum()), len(field.training_runs), surely=not tied and not shared.any()
            ),
            f"{interval}; {_other_winners(field)}",
        )
    ]
    if tied:
        claims.append(
            Claim(
                f"{best} cannot be told apart from "
                + (listing(tied) if len(tied) <= 3 else count(len(tied), "other detector"))
                + ".",
                "undecided",
                "; ".join(
                    f"{best} − {name}: {points_and_p(comparisons[name])}" for name in tied[:4]
                )
                + ("; …" if len(tied) > 4 else ""),
            )
        )
    elif comparisons:
        nearest = field.detectors[1]
        claims.append(
            Claim(
                f"{best} is ahead of every other detector"
                f"{'' if len(field.training_runs) > 1 else ' in this training'}.",
                "holds",
                f"{best} − {nearest}, the nearest: {points_and_p(comparisons[nearest])}",
            )
        )
    return claims


def _tied(comparisons: Mapping[str, Difference]) -> list[str]:
    """Name the detectors that cannot be told from the best."""
    return [name for name, d in comparisons.items() if d.p_value >= SIGNIFICANT]


def _over_runs(field: ScoreCases, always: bool) -> Verdict:
    """What a statement about every training comes to; one training cannot show that it survives."""
    if len(field.training_runs) == 1:
        return "undecided"
    return "holds" if always else "flips"


def _other_winners(field: ScoreCases) -> str:
    firsts = (field.order == field.order.min(axis=0)).any(axis=1)
    others = [name for name, is_first in zip(field.detectors, firsts, strict=True) if is_first][1:]
    return f"also first somewhere: {listing(others)}" if others else "no other is ever first"


def _on_each_set(field: ScoreCases, reference: str) -> dict[tuple[str, str], Difference]:
    """Every other detector less the reference, on each outlier set, with adjusted p values.

    All comparisons count for the adjustment, since those that are told are chosen by their results.
    """
    pairs = [
        (name, ood) for name in field.detectors if name != reference for ood in field.table.ood
    ]
    differences = [
        auroc_difference(field.placements[name, ood], field.placements[reference, ood], LEVEL)
        for name, ood in pairs
    ]
    adjusted = holm([difference.p_value for difference in differences])
    return {
        pair: difference._replace(p_value=float(p))
        for pair, difference, p in zip(pairs, differences, adjusted, strict=True)
    }


def _claim_baseline(field: ScoreCases) -> list[Claim]:
    """The best detector against the baseline, on each outlier set."""
    if BASELINE not in field.detectors or len(field.detectors) < 2:
        return []
    rival = next(name for name in field.detectors if name != BASELINE)
    differences = _on_each_set(field, BASELINE)
    trainings = len(field.training_runs)
    claims = []
    for ood in field.table.ood:
        difference = differences[rival, ood]
        gaps = field.placements[rival, ood].values - field.placements[BASELINE, ood].values
        wins, losses = int((gaps > 0).sum()), int((gaps < 0).sum())
        winner, loser = (rival, BASELINE) if wins >= losses else (BASELINE, rival)
        text = f"{winner} beats {loser} on {ood} " + in_all(
            max(wins, losses), trainings, "training"
        )
        if not wins and not losses:
            text = f"{rival} and {BASELINE} are equal on {ood} "
            text += in_all(trainings, trainings, "training")
        chance = difference.p_value >= SIGNIFICANT
        verdict: Verdict = "undecided" if chance else _over_runs(field, not (wins and losses))
        if chance and (wins or losses):
            text += "; the difference cannot be told from chance"
        evidence = f"{rival} − {BASELINE}: {points_and_p(difference)}"
        claims.append(Claim(f"{text}.", verdict, evidence))
    return claims


def _claim_sets(field: ScoreCases) -> list[Claim]:
    """Is the detector that is best on the whole beaten on some outlier set?"""
    if len(field.table.ood) < 2 or len(field.detectors) < 2:
        return []
    best = field.detectors[0]
    differences = _on_each_set(field, best)
    ahead = {pair: d for pair, d in differences.items() if d.value > 0}
    if not ahead:
        behind = [d for d in differences.values() if d.p_value >= SIGNIFICANT]
        text = f"No detector has a higher mean AUROC than {best} on any outlier set."
        sure = f"{len(differences) - len(behind)} of {len(differences)} differences beyond chance"
        return [Claim(text, "undecided" if behind else "holds", sure)]
    surely = {pair: d for pair, d in ahead.items() if d.p_value < SIGNIFICANT}
    shown: dict[str, tuple[str, Difference]] = {}  # the strongest rival on each set
    for (name, ood), difference in (surely or ahead).items():
        if ood not in shown or difference.value > shown[ood][1].value:
            shown[ood] = (name, difference)
    where = listing([f"{ood} ({name})" for ood, (name, _) in shown.items()])
    evidence = "; ".join(
        f"{name} − {best} on {ood}: {points_and_p(difference)}"
        for ood, (name, difference) in shown.items()
    )
    if surely:
        return [Claim(f"{best} is not the best everywhere: beaten on {where}.", "flips", evidence)]
    text = f"Another detector has a higher mean AUROC than {best} on {where}, but within chance."
    return [Claim(text, "undecided", evidence)]


def _caveats(field: ScoreCases) -> tuple[str, ...]:
    caveats = [
        "Detectors are compared at their default settings, or at those that were asked for.",
        "Intervals treat the trainings as a sample of the trainings that could have been done, "
        "under the conditions of this study.",
        "P values are adjusted by Holm's rule for all comparisons with the same detector, those "
        "not shown too, and against the leader for its having been chosen by its results; they are "
        f"judged at {SIGNIFICANT:.0%}. Intervals are for one comparison at a time.",
    ]
    if len(field.training_runs) == 1:
        caveats[1] = (
            "There is only one training: the intervals are for other test samples, and nothing "
            "can be said about retraining."
        )
    elif len(field.training_runs) < FEW_RUNS:
        caveats.append(UNSEEN)
    if field.training_runs.has_re_evaluations:
        looks = f"{len(field.runs)} runs are looks at "
        looks += (
            "one training"
            if len(field.training_runs) == 1
            else f"{len(field.training_runs)} trainings"
        )
        caveats.append(f"{looks}, as checkpoints are: the mean of each training is one case.")
    if not field.table.same_samples:
        what = "runs" if field.training_runs.has_re_evaluations else "trainings"
        caveats.append(f"The {what} do not share their test samples.")
    caveats += not_applicable(field.table.missing, len(field.table.runs))
    unusable = [part for part in field.table.missing if part.setting and not part.lasting]
    caveats += [
        f"A setting of the grid could not be used; {line}"
        for line in missing_lines(unusable, len(field.table.runs))
    ]
    if field.unranked:
        caveats.append(
            f"Not ranked, because some of their scores are missing: {listing(field.unranked)}."
        )
    return tuple(caveats)


def _facts(field: ScoreCases) -> tuple[tuple[str, str], ...]:
    table = field.table
    sizes = {len(row.scores) for row in table.rows if row.dataset == table.id}
    facts = [
        ("in-distribution data", table.id),
        ("test samples", " / ".join(map(str, sorted(sizes)))),
        (
            "trainings",
            _of(len(field.training_runs), len(TrainingRuns.of(table.runs, table.factors))),
        ),
        ("detectors", _of(len(field.detectors), len(field.represented))),
        ("outlier sets", str(len(table.ood))),
    ]
    accuracies = [float(table.correct[run].mean()) for run in field.runs if run in table.correct]
    if accuracies:
        low, high = min(accuracies), max(accuracies)
        facts.append(("test accuracy", f"{low:.1%} – {high:.1%}" if high > low else f"{low:.1%}"))
    return tuple(facts)


def _of(have: int, wanted: int) -> str:
    return str(have) if have == wanted else f"{have} of {wanted}"
