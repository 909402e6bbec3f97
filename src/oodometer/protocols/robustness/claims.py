"""Which detector varies least, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from oodometer.finding import Claim, Verdict, folded, themed
from oodometer.protocols.common.cells import Pair, set_word
from oodometer.protocols.common.comparisons import Comparison, judge
from oodometer.protocols.common.words import (
    SHOWN,
    SIGNIFICANT,
    count,
    in_all,
    listing,
    spelled,
    times_and_p,
)
from oodometer.protocols.robustness.comparisons import (
    compare_by_metric,
    compare_means,
    compare_scores,
    mean_lead,
)
from oodometer.protocols.robustness.scored import Score, ScoredMetric
from oodometer.protocols.robustness.views import metric_label, pair_label


def claims(
    metrics: Sequence[ScoredMetric], own: Sequence[Comparison], means: BestMean | None
) -> list[Claim]:
    """All that can be said, of the first metric: `own` compares its scores on each set."""
    metric = metrics[0]
    if not own:
        text = f"No detector has a robustness score over {metric.factor} on any outlier set."
        lacking = all(metric.lacking(p, name) for p in metric.pairs for name in metric.detectors)
        why = "some of the results of each are missing, see below"
        return [Claim(text, "undecided", why if lacking else "their means are not above 0")]
    found = [
        _claim_detectors(metric, own),
        *([] if means is None else [_claim_best_mean(metric, own, means)]),
        *themed(
            "changes",
            [*_claim_winners(metric), *_claim_levels(metric), *_claim_metrics(metrics)],
        ),
    ]
    tried = count(len(metric.levels), "level")
    first, *others = folded(found, f"{tried} of {metric.factor}")
    return [replace(first, text=f"{first.text}{not_scored(metric)}"), *others]


def not_scored(metric: ScoredMetric) -> str:
    """Name the detectors with gaps, of which nothing is said where they are."""
    lacks = {n: [bool(metric.lacking(p, n)) for p in metric.pairs] for n in metric.detectors}
    somewhere = [name for name, own in lacks.items() if any(own)]
    if not somewhere:
        return ""
    named = listing(somewhere) if len(somewhere) <= SHOWN else count(len(somewhere), "detector")
    one = len(somewhere) == 1
    text = f" {named} {'lacks' if one else 'lack'} values and {'is' if one else 'are'} not scored"
    if all(all(lacks[name]) for name in somewhere):
        return f"{text}."
    return f"{text} where {'it does' if one else 'they do'}."


def by_pair(metric: ScoredMetric) -> list[Comparison]:
    """One comparison per outlier set, between the detectors that lack nothing there."""
    places: dict[str, dict[str, Score]] = {}
    for (pair, detector), score in metric.detector_scores.items():
        places.setdefault(pair_label(metric, pair), {})[detector] = score
    return list(compare_scores(places).values())


def _claim_detectors(metric: ScoredMetric, comparisons: Sequence[Comparison]) -> Claim:
    """Which detector varies least, on each outlier set."""
    if all(len(comparison.order) == 1 for comparison in comparisons):
        text = f"{listing(firsts(comparisons))}: the only detector with a robustness score over "
        text += f"{metric.factor}, so there is nothing to compare."
        return Claim(text, "undecided", _spelled(comparisons))
    winners = common(comparisons)
    if winners:
        text = f"{listing(winners)} {'varies' if len(winners) == 1 else 'vary'} least over "
        text += f"{metric.factor} by {metric_label(metric)} {on_all(metric, comparisons)}"
    else:
        text = f"Which detector varies least over {metric.factor} by {metric_label(metric)} "
        text += "depends on the" if judge(comparisons) == "flips" else "is not the same on each"
        text += f" {set_word(metric.pairs)}: {who_where(comparisons)}"
    verdict = judge(comparisons)
    return Claim(text + doubt(comparisons, verdict) + ".", verdict, _spelled(comparisons))


def firsts(comparisons: Sequence[Comparison]) -> list[str]:
    """Who is first anywhere."""
    return list(dict.fromkeys(comparison.first for comparison in comparisons))


def common(comparisons: Sequence[Comparison]) -> list[str]:
    """Those that win, or share the win, in every comparison."""
    return [name for name in comparisons[0].winners if all(name in c.winners for c in comparisons)]


def on_all(metric: ScoredMetric, comparisons: Sequence[Comparison]) -> str:
    """Say on which sets these are."""
    if len(comparisons) == 1:
        return f"on {comparisons[0].context}"
    return in_all(len(comparisons), len(comparisons), set_word(metric.pairs), preposition="on")


def who_where(comparisons: Sequence[Comparison], near: str = "on") -> str:
    """Say who wins where."""
    where: dict[str, list[str]] = {}
    for comparison in comparisons:
        where.setdefault(listing(comparison.winners), []).append(comparison.context)
    return "; ".join(f"{who} {near} {listing(places)}" for who, places in where.items())


def doubt(comparisons: Sequence[Comparison], verdict: Verdict, near: str = "on") -> str:
    """Say where the lead is not significant and, if it is one detector, over whom."""
    if verdict != "undecided":
        return ""
    unsure = sum(bool(comparison.tied) for comparison in comparisons)
    if not unsure:
        return ", but it is not significantly ahead of those that win elsewhere"
    where = f" ({near} {unsure} of {len(comparisons)})" if unsure < len(comparisons) else ""
    winners = common(comparisons)
    if not winners:
        return f", but these differences are not significant{where}"
    tied = list(
        dict.fromkeys(n for comparison in comparisons for n in comparison.tied if n not in winners)
    )
    if not tied:
        return ", with equal scores"
    names = listing(tied) if len(tied) < SHOWN else f"{len(tied)} others"
    if len(tied) >= SHOWN and len(tied) == len(comparisons[0].order) - len(winners):
        names = f"any of the {len(tied)} others"
    do = "does" if len(winners) == 1 else "do"
    return f", but {do} not differ significantly from {names}{where}"


def _spelled(comparisons: Sequence[Comparison]) -> str:
    texts = []
    for comparison in comparisons[: SHOWN + 1]:
        least = comparison.values[comparison.first]
        text = f"{comparison.context}: {listing(comparison.winners)} ({least:.4g})"
        others = [name for name in comparison.order if name not in comparison.winners]
        if others:
            following = others[0]
            text += f", next {following}, {times_and_p(comparison.leads[following])}"
        texts.append(text)
    return spelled(texts)


class BestMean(NamedTuple):
    """Whether the detector that varies least is also the best on average, on each set."""

    places: Sequence[str]
    elsewhere: dict[str, tuple[str, float, float]]  # set -> who has the best mean; both means
    verdict: Verdict

    @property
    def agree(self) -> int:
        """On how many sets it is."""
        return len(self.places) - len(self.elsewhere)


def best_mean(metric: ScoredMetric, comparisons: Sequence[Comparison]) -> BestMean | None:
    """Compare the detector that varies least with the best on average, where there are several."""
    sign = -1.0 if metric.results.higher_is_better else 1.0
    elsewhere, sure, sure_to_agree = {}, False, True
    compared = [(p, c) for p, c in _placed(metric, comparisons) if len(c.order) > 1]
    tests = sum(
        len(comparison.order) - 1 for _, comparison in compared
    )  # of all others, on all sets

    def has_better_mean(pair: Pair, one: str, other: str) -> bool:
        lead = mean_lead(metric, pair, one, other)
        return sign * lead.value < 0.0 and lead.p_value * tests < SIGNIFICANT

    for pair, comparison in compared:
        means = {
            name: float(metric.detector_scores[pair, name].moments.mean)
            for name in comparison.order
        }
        best = min(comparison.order, key=lambda name: sign * means[name])
        first, *others = comparison.order
        if any(math.isclose(means[best], means[name]) for name in comparison.winners):
            sure_to_agree &= not comparison.tied
            sure_to_agree &= all(has_better_mean(pair, first, other) for other in others)
            continue
        sure |= comparison.is_significantly_ahead(first, best) and has_better_mean(
            pair, best, first
        )
        elsewhere[comparison.context] = best, means[first], means[best]
    if not compared:
        return None
    verdict: Verdict = "flips" if sure else "undecided"
    if not elsewhere and sure_to_agree:
        verdict = "holds"
    return BestMean([c.context for _, c in compared], elsewhere, verdict)


def _claim_best_mean(
    metric: ScoredMetric, comparisons: Sequence[Comparison], found: BestMean
) -> Claim:
    """Is the detector that varies least also the best on average?"""
    first_in = {comparison.context: comparison.winners for comparison in comparisons}
    word = set_word(metric.pairs)
    does, where = _on_sets(found.agree, found.places, word, "also has", "does not have")
    text = (
        f"The detector that varies least {does} the best mean {metric_label(metric)}, weighted as "
        f"in the score, {where}"
    )
    if found.verdict == "undecided":
        text += ", but at least one of the two leads is not significant"
    texts = [
        f"{place}: {listing(first_in[place])} {'varies' if len(first_in[place]) == 1 else 'vary'} "
        f"least with mean {own:.4g}, {best} has the best mean, {mean:.4g}"
        for place, (best, own, mean) in found.elsewhere.items()
    ]
    evidence = spelled(texts) or "the same detector each time"
    return Claim(f"{text}.", found.verdict, evidence)


def _on_sets(
    part: int, places: Sequence[str], word: str, does: str, does_not: str
) -> tuple[str, str]:
    """A verb and on how many sets, or on which if there is one."""
    if len(places) == 1:
        return (does if part else does_not), f"on {places[0]}"
    return does, in_all(part, len(places), word, preposition="on")


def _placed(
    metric: ScoredMetric, comparisons: Sequence[Comparison]
) -> list[tuple[Pair, Comparison]]:
    pairs = {pair_label(metric, pair): pair for pair in metric.pairs}
    return [(pairs[comparison.context], comparison) for comparison in comparisons]


def _claim_winners(metric: ScoredMetric) -> list[Claim]:
    """Does the detector with the best mean depend on the level, on one and the same set?"""
    if metric.is_over_repeats:
        return []  # a repeat is retraining noise itself
    label, changing = metric_label(metric), 0
    verdicts, places, texts = [], [], []
    for pair, comparisons in compare_means(metric).items():
        if len(comparisons) < 2:
            continue
        verdicts.append(judge(comparisons))
        places.append(pair_label(metric, pair))
        if not common(comparisons):
            changing += 1
            texts.append(f"{pair_label(metric, pair)}: {who_where(comparisons, 'under')}")
    if not verdicts:
        return []
    verdict: Verdict = "undecided"
    if "flips" in verdicts:
        verdict = "flips"
    elif set(verdicts) == {"holds"}:
        verdict = "holds"
    does, where = _on_sets(changing, places, set_word(metric.pairs), "changes", "does not change")
    text = f"The detector with the best mean {label} {does} with the {metric.factor} {where}"
    if verdict == "undecided":
        text += (
            ", but not significantly"
            if changing
            else ", but its lead is not significant everywhere"
        )
    evidence = spelled(texts) or "the same detector under every level"
    here = where.removeprefix("on ")
    single = f" on a single {set_word(metric.pairs)}" if len(places) > 1 else ""
    leaves_open = f"whether the detector with the best mean{single} changes with the "
    leaves_open += f"{metric.factor} (here on {here})"
    return [Claim(f"{text}.", verdict, evidence, leaves_open=leaves_open)]


def _claim_levels(metric: ScoredMetric) -> list[Claim]:
    """Which level varies least over outlier sets, for each detector."""
    if metric.is_over_repeats:
        return []  # any repeat is as good as another: which of them varies least means nothing
    places: dict[str, dict[str, Score]] = {}
    several = len({pair.id for pair in metric.pairs}) > 1
    for (id_set, detector, level), score in metric.level_scores.items():
        place = f"{id_set} | {detector}" if several else detector
        places.setdefault(place, {})[level] = score
    if all(len(metric.pairs) == 1 or len(named) < 2 for named in places.values()):
        return []
    comparisons = list(compare_scores(places).values())
    wins = {
        level: sum(level in comparison.winners for comparison in comparisons)
        for level in metric.levels
    }
    best = min(wins, key=lambda level: (-wins[level], level))  # not by the order of lines
    what = ("pair of ID set and detector", "pairs of ID set and detector")
    nouns = what if several else ("detector", "detectors")
    text = f"Over outlier sets, {best} is the {metric.factor} that varies least "
    text += in_all(wins[best], len(comparisons), *nouns, preposition="for")
    verdict = judge(comparisons)
    text += f"{doubt(comparisons, verdict, 'for')}."
    leaves_open = f"which {metric.factor} varies least (here {best})"
    return [Claim(text, verdict, _spelled(comparisons), leaves_open=leaves_open)]


def _claim_metrics(metrics: Sequence[ScoredMetric]) -> list[Claim]:
    """Does the detector that varies least depend on the metric?"""
    metric, named = metrics[0], {metric_label(one): one for one in metrics}
    if len(named) < 2:
        return []
    by_pair = {
        pair: [comparison for comparison in comparisons if len(comparison.order) > 1]
        for pair, comparisons in compare_by_metric(named).items()
    }
    by_place = {
        pair_label(metric, pair): comparisons
        for pair, comparisons in by_pair.items()
        if comparisons
    }
    if not by_place:
        return []
    same, verdicts, texts = 0, [], []
    for place, found in by_place.items():
        verdicts.append(judge(found))
        if common(found):
            same += 1
        else:
            texts.append(f"{place}: {who_where(found, 'by')}")
    verdict: Verdict = "undecided"
    if "flips" in verdicts:
        verdict = "flips"
    elif set(verdicts) == {"holds"}:
        verdict = "holds"
    every = "Both" if len(named) == 2 else f"All {len(named)}"
    does, where = _on_sets(same, list(by_place), set_word(metric.pairs), "agree", "disagree")
    text = f"{every} metrics {does} which detector varies least over {metric.factor} {where}"
    if verdict == "undecided":
        text += ", with leads that are not significant"
    evidence = spelled(texts) or "the same detector each time"
    leaves_open = "whether the metrics agree which detector varies least"
    return [Claim(f"{text}.", verdict, evidence, leaves_open=leaves_open)]
