"""Which detector varies least over optimizers, and how certain is that?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from oodometer.finding import Claim, Finding, Verdict
from oodometer.protocols.common.cells import Pair
from oodometer.protocols.common.comparisons import Comparison, judge
from oodometer.protocols.common.words import (
    SHOWN,
    SIGNIFICANT,
    count,
    in_all,
    listing,
    missing_lines,
    times_and_p,
)
from oodometer.protocols.robustness.contests import (
    mean_contests,
    mean_difference,
    metric_contests,
    score_contests,
)
from oodometer.protocols.robustness.field import Field, Score, arrange, conditions
from oodometer.protocols.robustness.notes import caveats, facts, missing
from oodometer.protocols.robustness.views import (
    level_tables,
    metric_label,
    metric_tables,
    moment_tables,
    pair_label,
    run_strips,
    score_map,
    score_table,
)
from oodometer.results import Results, results
from oodometer.scores import ScoreTable
from oodometer.stats.mixture import Epsilon

MORE_FACTORS = 4  # beside the first, whose scores are shown without claims
METRICS = ("fpr95", "detection_error", "auroc", "aupr_out", "aupr_in")  # as the paper's tables


def robustness(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Measure how much each detector varies over optimizers, and which optimizer varies least.

    By FPR@95TPR, as in the paper; its other metrics stand beside it.
    """
    if not any(True for _ in table.pairs()):
        text = "Robustness is unknown: no detector has scores of the ID set and an outlier set."
        return Finding(
            protocol="robustness",
            title="Robustness",
            question="Which detector varies least if another optimizer is used?",
            claims=(Claim(text, "undecided", "nothing was scored"),),
            missing=missing_lines(table.missing, len(table.runs)),
        )
    first, *others = (results(table, metric) for metric in METRICS)
    return robustness_of(first, *others)


def robustness_of(
    first: Results,
    *others: Results,
    factor: str | None = None,
    epsilon: Epsilon = "printed",
) -> Finding:
    """Robustness score of any results table, over any factor; claims are about the first metric.

    `factor`: what takes the optimizer's place; by default the optimizer if it was varied, else the
    first condition that was, and scores over the other conditions stand beside it. `epsilon`: the
    equations as printed, or as the published tables were computed. Abdelzad, Czarnecki and Salay
    2020.
    """
    field = arrange(first, factor, epsilon)
    fields = [field, *(arrange(other, field.factor or None, epsilon) for other in others)]
    varied = len(field.levels) > 1
    more = [name for name in conditions(first) if factor is None and name != field.factor]
    return Finding(
        protocol="robustness",
        title=f"Robustness over {field.factor}" if field.factor else "Robustness",
        question=f"Which detector varies least if another {field.factor or 'condition'} is used, "
        "and is it the same on every outlier set?",
        claims=tuple(_claims(fields) if varied else _claim_nothing_varied(field)),
        tables=(
            *((score_table(field), *level_tables(field)) if varied else ()),
            *(score_table(arrange(first, name, epsilon), name) for name in more[:MORE_FACTORS]),
            *(metric_tables(fields) if varied else ()),
            *(t for f in fields[1:] if varied for t in level_tables(f, f.results.metric)),
            *moment_tables(field),
        ),
        series=(score_map(field), run_strips(field)) if varied else (),
        caveats=caveats(field) if varied else (),
        missing=missing(field),
        facts=facts(field),
    )


def _claim_nothing_varied(field: Field) -> list[Claim]:
    if not field.factor:
        text = "Robustness is unknown: nothing was varied between runs."
        return [Claim(text, "undecided", "a factor with at least two levels is needed")]
    text = f"Robustness over {field.factor} is unknown: there is only one {field.factor}, "
    return [Claim(f"{text}{field.levels[0]}.", "undecided", "at least two levels are needed")]


def _claims(fields: Sequence[Field]) -> list[Claim]:
    field = fields[0]
    own = _by_pair(field)
    if not own:
        text = f"No detector has a robustness score over {field.factor} on any outlier set."
        lacking = all(field.lacking(p, name) for p in field.pairs for name in field.detectors)
        why = "some of the results of each are missing, see below"
        return [Claim(text, "undecided", why if lacking else "their means are not above 0")]
    found = [
        _claim_detectors(field, own),
        *_claim_best_mean(field, own),
        *_claim_winners(field),
        *_claim_levels(field),
        *_claim_metrics(fields),
    ]
    return [replace(claim, text=_without(field) + claim.text) for claim in found]


def _without(field: Field) -> str:
    """Name the detectors with gaps, of which nothing is said where they are."""
    gone = [n for n in field.detectors if any(field.lacking(pair, n) for pair in field.pairs)]
    if not gone:
        return ""
    named = listing(gone) if len(gone) <= SHOWN else count(len(gone), "detector")
    lack = "lacks" if len(gone) == 1 else "lack"
    return f"Without {named}, which {lack} values: "


def _by_pair(field: Field) -> list[Comparison]:
    """One contest per outlier set, between the detectors that lack nothing there."""
    places: dict[str, dict[str, Score]] = {}
    for (pair, detector), score in field.detector_scores.items():
        places.setdefault(pair_label(field, pair), {})[detector] = score
    return score_contests(places)


def _claim_detectors(field: Field, held: Sequence[Comparison]) -> Claim:
    """Which detector varies least, on each outlier set."""
    if all(len(contest.order) == 1 for contest in held):
        text = f"{listing(_firsts(held))}: the only detector with a robustness score over "
        text += f"{field.factor}, so there is nothing to compare."
        return Claim(text, "undecided", _spelled(held))
    common = _common(held)
    if common:
        text = f"{listing(common)} {'varies' if len(common) == 1 else 'vary'} least over "
        text += f"{field.factor} by {metric_label(field)} on " + (
            in_all(len(held), len(held), "outlier set").removeprefix("in ")
            if len(held) > 1
            else held[0].context
        )
    else:
        text = f"Which detector varies least over {field.factor} by {metric_label(field)} "
        text += "depends on the" if judge(held) == "flips" else "is not the same on each"
        text += f" outlier set: {_who_where(held)}"
    verdict = judge(held)
    return Claim(text + _doubt(held, verdict) + ".", verdict, _spelled(held))


def _firsts(held: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(contest.first for contest in held))


def _common(held: Sequence[Comparison]) -> list[str]:
    """Those that win, or share the win, in every contest."""
    return [name for name in held[0].winners if all(name in c.winners for c in held)]


def _who_where(held: Sequence[Comparison], near: str = "on") -> str:
    where: dict[str, list[str]] = {}
    for contest in held:
        where.setdefault(listing(contest.winners), []).append(contest.context)
    return "; ".join(f"{who} {near} {listing(places)}" for who, places in where.items())


def _doubt(held: Sequence[Comparison], verdict: Verdict, near: str = "on") -> str:
    """Say where the lead is not significant and, if it is one detector, over whom."""
    if verdict != "undecided":
        return ""
    unsure = sum(bool(contest.tied) for contest in held)
    if not unsure:
        return ", but it is not significantly ahead of those that win elsewhere"
    where = f" ({near} {unsure} of {len(held)})" if len(held) > 1 else ""
    if len(_firsts(held)) > 1:
        return f", but the lead is not significant{where}"
    common = _common(held)
    tied = list(dict.fromkeys(n for contest in held for n in contest.tied if n not in common))
    if not tied:
        return ", with equal scores"
    names = listing(tied) if len(tied) < SHOWN else f"{len(tied)} others"
    return f", but does not differ significantly from {names}{where}"


def _spelled(held: Sequence[Comparison]) -> str:
    texts = []
    for contest in held[:SHOWN]:
        text = f"{contest.context}: {contest.first} ({contest.values[contest.first]:.4g})"
        if len(contest.order) > 1:
            following = contest.order[1]
            text += f", next {following}, {times_and_p(contest.leads[following])}"
        texts.append(text)
    return "; ".join(texts) + ("; …" if len(held) > SHOWN else "")


def _claim_best_mean(field: Field, held: Sequence[Comparison]) -> list[Claim]:
    """Is the detector that varies least also the best on average?"""
    sign = -1.0 if field.results.higher_is_better else 1.0
    label = metric_label(field)
    agree, texts, sure, sure_to_agree = 0, [], False, True
    compared = [(p, c) for p, c in _placed(field, held) if len(c.order) > 1]
    tests = sum(len(contest.order) - 1 for _, contest in compared)  # of all others, on all sets

    def surely_better(pair: Pair, one: str, other: str) -> bool:
        levels = field.levels_of(pair)
        cells = [(field.cells[pair, one, lv], field.cells[pair, other, lv]) for lv in levels]
        lead = mean_difference(cells)
        return sign * lead.value < 0.0 and lead.p_value * tests < SIGNIFICANT

    for pair, contest in compared:
        means = {
            name: float(field.detector_scores[pair, name].moments.mean) for name in contest.order
        }
        best = min(contest.order, key=lambda name: sign * means[name])
        first, *others = contest.order
        if any(math.isclose(means[best], means[name]) for name in contest.winners):
            agree += 1
            sure_to_agree &= not contest.tied
            sure_to_agree &= all(surely_better(pair, first, other) for other in others)
            continue
        sure |= contest.is_significantly_ahead(first, best) and surely_better(pair, best, first)
        texts.append(
            f"{contest.context}: {first} varies least with mean {means[first]:.4g}, {best} has the "
            f"best mean, {means[best]:.4g}"
        )
    if not compared:
        return []
    does, where = _on_sets(agree, [c.context for _, c in compared], "also has", "does not have")
    text = (
        f"The detector that varies least {does} the best mean {label}, weighted as in the score, "
    )
    text += where
    verdict: Verdict = "flips" if sure else "undecided"
    if agree == len(compared) and sure_to_agree:
        verdict = "holds"
    if verdict == "undecided":
        text += ", but one of the two leads is not significant"
    evidence = "; ".join(texts[:SHOWN]) or "the same detector each time"
    return [Claim(f"{text}.", verdict, evidence)]


def _on_sets(part: int, places: Sequence[str], does: str, does_not: str) -> tuple[str, str]:
    """A verb and on how many outlier sets, or on which if there is one."""
    if len(places) == 1:
        return (does if part else does_not), f"on {places[0]}"
    return does, in_all(part, len(places), "outlier set").replace("in ", "on ", 1)


def _placed(field: Field, held: Sequence[Comparison]) -> list[tuple[Pair, Comparison]]:
    pairs = {pair_label(field, pair): pair for pair in field.pairs}
    return [(pairs[contest.context], contest) for contest in held]


def _claim_winners(field: Field) -> list[Claim]:
    """Does the detector with the best mean depend on the level, on one and the same set?"""
    if field.is_over_repeats:
        return []  # a repeat is retraining noise itself
    label, changing = metric_label(field), 0
    verdicts, places, texts = [], [], []
    for pair, held in mean_contests(field).items():
        if len(held) < 2:
            continue
        verdicts.append(judge(held))
        places.append(pair_label(field, pair))
        if not _common(held):
            changing += 1
            texts.append(f"{pair_label(field, pair)}: {_who_where(held, 'under')}")
    if not verdicts:
        return []
    verdict: Verdict = "undecided"
    if "flips" in verdicts:
        verdict = "flips"
    elif set(verdicts) == {"holds"}:
        verdict = "holds"
    does, where = _on_sets(changing, places, "changes", "does not change")
    text = f"The detector with the best mean {label} {does} with the {field.factor} {where}"
    if verdict == "undecided":
        text += (
            ", but not significantly"
            if changing
            else ", but its lead is not significant everywhere"
        )
    evidence = "; ".join(texts[:SHOWN]) or "the same detector under every level"
    return [Claim(f"{text}.", verdict, evidence)]


def _claim_levels(field: Field) -> list[Claim]:
    """Which level varies least over outlier sets, for each detector."""
    places: dict[str, dict[str, Score]] = {}
    several = len({pair.id for pair in field.pairs}) > 1
    for (id_set, detector, level), score in field.level_scores.items():
        place = f"{id_set} | {detector}" if several else detector
        places.setdefault(place, {})[level] = score
    if all(len(field.pairs) == 1 or len(named) < 2 for named in places.values()):
        return []
    if field.is_over_repeats:
        return []  # any repeat is as good as another: which of them varies least means nothing
    held = score_contests(places)
    wins = {level: sum(level in contest.winners for contest in held) for level in field.levels}
    best = max(wins, key=lambda level: wins[level])
    what = ("pair of ID set and detector", "pairs of ID set and detector")
    nouns = what if several else ("detector", "detectors")
    text = f"Over outlier sets, {best} is the {field.factor} that varies least "
    text += in_all(wins[best], len(held), *nouns).replace("in ", "for ", 1)
    verdict = judge(held)
    return [Claim(text + _doubt(held, verdict, "for") + ".", verdict, _spelled(held))]


def _claim_metrics(fields: Sequence[Field]) -> list[Claim]:
    """Does the detector that varies least depend on the metric?"""
    field, named = fields[0], {metric_label(one): one for one in fields}
    if len(named) < 2:
        return []
    by_pair = {
        pair: [contest for contest in held if len(contest.order) > 1]
        for pair, held in metric_contests(named).items()
    }
    by_place = {pair_label(field, pair): held for pair, held in by_pair.items() if held}
    if not by_place:
        return []
    same, verdicts, texts = 0, [], []
    for place, found in by_place.items():
        verdicts.append(judge(found))
        if _common(found):
            same += 1
        else:
            texts.append(f"{place}: {_who_where(found, 'by')}")
    verdict: Verdict = "undecided"
    if "flips" in verdicts:
        verdict = "flips"
    elif set(verdicts) == {"holds"}:
        verdict = "holds"
    every = "Both" if len(named) == 2 else f"All {len(named)}"
    does, where = _on_sets(same, list(by_place), "agree", "disagree")
    text = f"{every} metrics {does} which detector varies least over {field.factor} {where}"
    if verdict == "undecided":
        text += ", with leads that are not significant"
    return [Claim(f"{text}.", verdict, "; ".join(texts[:SHOWN]) or "the same detector each time")]
