"""Who is best by scores, over training runs and test samples, and how certain is that?"""

from __future__ import annotations

from collections.abc import Mapping

from oodometer.finding import Claim, Verdict
from oodometer.protocols.common.differences import FEW_RUNS, UNSEEN
from oodometer.protocols.common.score_cases import ScoreCases
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.protocols.common.words import (
    LEVEL,
    SIGNIFICANT,
    in_all,
    listing,
    missing_lines,
    never_otherwise,
    not_applicable,
    number,
    points_and_p,
    together,
)
from oodometer.protocols.ranking.score_views import outlier_sets
from oodometer.protocols.ranking.value_claims import (
    lead_claims,
    re_evaluations_caveat,
    tied_with_best,
)
from oodometer.stats.comparison import (
    Difference,
    adjusted,
    against_best,
    auroc_difference,
    mean_auroc,
)

BASELINE = "max_softmax"  # what a detector is compared with on each outlier set, where it is there


def score_differences(field: ScoreCases) -> dict[str, Difference]:
    """How far the best is ahead of every other detector, with adjusted p-values."""
    best, *others = field.detectors
    return adjusted(
        {
            other: auroc_difference(field.overall[best], field.overall[other], LEVEL)
            for other in others
        },
        against_best,
    )


def best_claims(field: ScoreCases, differences: Mapping[str, Difference]) -> list[Claim]:
    """Who has the highest mean, in how many training runs, and who is as good?"""
    best = field.detectors[0]
    estimate = mean_auroc(field.overall[best], LEVEL)
    interval = f"95% confidence interval {number(estimate.low)} to {number(estimate.high)}"
    mean = f"mean AUROC, {number(estimate.value)}, over {outlier_sets(field)}"
    if not differences:
        text = f"{best}, the only detector here, has a {mean}."
        return [Claim(text, "undecided", f"{interval}; there is nothing to compare it with")]
    alone = field.overall[field.detectors[1]].values.mean() < field.overall[best].values.mean()
    leads = field.order[0] == field.order.min(axis=0)
    shared = leads & ((field.order == field.order.min(axis=0)).sum(axis=0) > 1)
    place = in_all(int(leads.sum()), len(field.training_runs), "training run")
    decided = not tied_with_best(differences) and not shared.any()
    first = Claim(
        f"{best} {'has' if alone else 'shares'} the highest {mean}, "
        f"{'and' if leads.all() else 'but'} ranks first {place}{together(int(shared.sum()))}.",
        never_otherwise(int((~leads).sum()), len(field.training_runs), decided=decided),
        f"{interval}; {_other_winners(field)}",
    )
    where = "" if len(field.training_runs) > 1 else " in this training run"
    return [first, *lead_claims(best, differences, where)]


def _other_winners(field: ScoreCases) -> str:
    firsts = (field.order == field.order.min(axis=0)).sum(axis=1)
    others = [
        f"{name} {in_all(int(times), len(field.training_runs), 'training run')}"
        for name, times in zip(field.detectors[1:], firsts[1:], strict=True)
        if times
    ]
    return f"also first: {listing(others)}" if others else "no other ever ranks first"


def _over_runs(field: ScoreCases, always: bool) -> Verdict:
    """What a statement about every training run comes to; one cannot show that it survives."""
    if len(field.training_runs) == 1:
        return "undecided"
    return "holds" if always else "flips"


def _on_each_set(field: ScoreCases, reference: str) -> dict[tuple[str, str], Difference]:
    """Every other detector less the reference, on each outlier set, with adjusted p-values.

    All comparisons count for the adjustment, since those that are shown are chosen by their
    results.
    """
    placed = field.placements
    return adjusted(
        {
            (name, ood): auroc_difference(placed[name, ood], placed[reference, ood], LEVEL)
            for name in field.detectors
            if name != reference
            for ood in field.table.ood
        }
    )


def baseline_claims(field: ScoreCases) -> list[Claim]:
    """The best detector against the baseline, on each outlier set."""
    if BASELINE not in field.detectors or len(field.detectors) < 2:
        return []
    rival = next(name for name in field.detectors if name != BASELINE)
    differences = _on_each_set(field, BASELINE)
    return [
        _against_baseline(field, rival, ood, differences[rival, ood]) for ood in field.table.ood
    ]


def _against_baseline(field: ScoreCases, rival: str, ood: str, difference: Difference) -> Claim:
    runs = len(field.training_runs)
    gaps = field.placements[rival, ood].values - field.placements[BASELINE, ood].values
    wins, losses = int((gaps > 0).sum()), int((gaps < 0).sum())
    winner, loser = (rival, BASELINE) if wins >= losses else (BASELINE, rival)
    text = f"{winner} beats {loser} on {ood} {in_all(max(wins, losses), runs, 'training run')}"
    if not wins and not losses:
        where = in_all(runs, runs, "training run")
        text = f"{rival} and {BASELINE} are equal on {ood} {where}"
    chance = difference.p_value >= SIGNIFICANT
    if chance and (wins or losses):
        text += "; the difference is not significant"
    verdict: Verdict = "undecided" if chance else _over_runs(field, not (wins and losses))
    return Claim(f"{text}.", verdict, f"{rival} − {BASELINE}: {points_and_p(difference)}")


def set_claims(field: ScoreCases) -> list[Claim]:
    """Is the detector that is best overall beaten on some outlier set?"""
    if len(field.table.ood) < 2 or len(field.detectors) < 2:
        return []
    best = field.detectors[0]
    differences = _on_each_set(field, best)
    ahead = {pair: d for pair, d in differences.items() if d.value > 0}
    if not ahead:
        behind = [d for d in differences.values() if d.p_value >= SIGNIFICANT]
        text = f"No detector has a higher mean AUROC than {best} on any outlier set."
        sure = f"{len(differences) - len(behind)} of {len(differences)} differences are significant"
        return [Claim(text, "undecided" if behind else "holds", sure)]
    significant = {pair: d for pair, d in ahead.items() if d.p_value < SIGNIFICANT}
    shown = _strongest(significant or ahead)
    evidence = "; ".join(
        f"{name} − {best} on {ood}: {points_and_p(difference)}"
        for ood, (name, difference) in shown.items()
    )
    if significant:
        parts = [f"{name} beats {best} on {ood}" for ood, (name, _) in shown.items()]
        return [Claim(f"{listing(parts)}.", "flips", evidence)]
    where = listing([f"{ood} ({name})" for ood, (name, _) in shown.items()])
    text = (
        f"Another detector has a higher mean AUROC than {best} on {where}, but not significantly."
    )
    return [Claim(text, "undecided", evidence)]


def _strongest(
    differences: Mapping[tuple[str, str], Difference],
) -> dict[str, tuple[str, Difference]]:
    """On each outlier set, the detector with the largest difference."""
    shown: dict[str, tuple[str, Difference]] = {}
    for (name, ood), difference in differences.items():
        if ood not in shown or difference.value > shown[ood][1].value:
            shown[ood] = (name, difference)
    return shown


def score_caveats(field: ScoreCases) -> tuple[str, ...]:
    """What limits the conclusions from scores."""
    table, runs = field.table, len(field.training_runs)
    caveats = [
        "Detectors use their default settings, or those that were given.",
        "There is only one training run: the intervals are for other test samples, and nothing can "
        "be said about retraining."
        if runs == 1
        else "Intervals treat the training runs as a sample of all that could have been done under "
        "the conditions of this study.",
        "P-values are adjusted by Holm's method for all comparisons with the same detector, those "
        "not shown included, and corrected for having picked the leader from the same data; they "
        f"are judged at {SIGNIFICANT:.0%}. Intervals are for one comparison at a time.",
    ]
    if 1 < runs < FEW_RUNS:
        caveats.append(UNSEEN)
    if field.training_runs.has_re_evaluations:
        caveats.append(re_evaluations_caveat(len(field.runs), runs))
    if not table.same_samples:
        caveats.append(f"The {field.run_word}s do not share their test samples.")
    caveats += not_applicable(table.missing, len(table.runs))
    unusable = [part for part in table.missing if part.setting and not part.lasting]
    caveats += [
        f"A setting of the grid could not be used; {line}"
        for line in missing_lines(unusable, len(table.runs))
    ]
    if field.unranked:
        caveats.append(
            f"Not ranked, because some of their scores are missing: {listing(field.unranked)}."
        )
    return tuple(caveats)


def score_facts(field: ScoreCases) -> tuple[tuple[str, str], ...]:
    """What the comparison is based on."""
    table = field.table
    sizes = {len(row.scores) for row in table.rows if row.dataset == table.id}
    wanted = len(TrainingRuns.of(table.runs, table.factors))
    facts = [
        ("in-distribution data", table.id),
        ("test samples", " / ".join(map(str, sorted(sizes)))),
        ("training runs", _of(len(field.training_runs), wanted)),
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
