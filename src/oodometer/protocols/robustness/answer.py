"""The answer about robustness in the words of somebody who was asked: who varies least?"""

from __future__ import annotations

from collections.abc import Sequence

from oodometer.protocols.common.comparisons import Comparison, judge
from oodometer.protocols.common.words import SHOWN, in_all, listing
from oodometer.protocols.robustness.claims import (
    BestMean,
    common,
    doubt,
    firsts,
    not_scored,
    on_all,
    who_where,
)
from oodometer.protocols.robustness.scored import ScoredMetric
from oodometer.protocols.robustness.views import metric_label


def answer(metric: ScoredMetric, comparisons: Sequence[Comparison], means: BestMean | None) -> str:
    """Say who varies least, how certain that is, and whether it is the best on average."""
    if not comparisons or means is None:  # nothing to compare
        return ""
    if all(len(one.winners) == len(one.order) for one in comparisons):
        return f"All detectors vary equally over {metric.factor}.{not_scored(metric)}"
    average = _on_average(metric, comparisons, means)
    return f"{_least(metric, comparisons)}{average}{not_scored(metric)}"


def _least(metric: ScoredMetric, comparisons: Sequence[Comparison]) -> str:
    """Who varies least."""
    winners, verdict = common(comparisons), judge(comparisons)
    over = f"least over {metric.factor}"
    if not winners:
        if verdict == "flips":
            return f"Which detector varies {over} depends on the set: {who_where(comparisons)}."
        several = firsts(comparisons)
        named = listing(several) if len(several) <= SHOWN else f"{len(several)} detectors"
        unsure = doubt(comparisons, verdict)
        if all(comparison.tied for comparison in comparisons):
            where = in_all(len(comparisons), len(comparisons), "set", preposition="on")
            return (
                f"Which detector varies {over} stays open {where}: {named} take turns, none "
                "significantly ahead of all others."
            )
        return f"No detector varies {over} on every set: {named} take turns{unsure}."
    text = f"{listing(winners)} {'varies' if len(winners) == 1 else 'vary'} {over} "
    text += f"{on_all(metric, comparisons)}{doubt(comparisons, verdict)}"
    if verdict == "holds":
        text += ", significantly less than every other detector"
    return f"{text}."


def _on_average(metric: ScoredMetric, comparisons: Sequence[Comparison], means: BestMean) -> str:
    """Whether the detector that varies least is worth it; where there is none, nothing."""
    if not common(comparisons):
        return ""
    label = metric_label(metric)
    here = "" if means.verdict != "undecided" else " here"  # the ranking says how certain means are
    if not means.elsewhere:
        it = "It" if len(common(comparisons)) == 1 else "One of them"
        return f" {it} also has the best mean {label}{here}."
    better = list(dict.fromkeys(best for best, *_ in means.elsewhere.values()))
    named = listing(better) if len(better) < SHOWN else f"One of {len(better)} others"
    where = ""
    if len(means.places) > 1:
        where = in_all(len(means.elsewhere), len(means.places), "set", preposition=" on")
    have = "have better means of" if 1 < len(better) < SHOWN else "has a better mean"
    return f" {named} {have} {label}{where}{here}."
