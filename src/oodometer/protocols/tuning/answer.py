"""The answer about tuning in the words of somebody who was asked: is it worth it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oodometer.metrics import Estimate
from oodometer.protocols.common.comparisons import Comparison, judge
from oodometer.protocols.common.differences import significant
from oodometer.protocols.common.words import SHOWN, listing, points, share_of
from oodometer.protocols.tuning.cases import TuningCases
from oodometer.stats.comparison import Difference


def answer(
    cases: TuningCases,
    differences: Mapping[str, Difference],
    mean: Estimate,
    winners: Sequence[Comparison],
) -> str:
    """Say what tuning gains, what it would promise on the test, and who is best either way."""
    better, worse = significant(differences)
    start = in_this_run(cases, "Tuning")
    promise = f"tuning on the test outliers would promise {points(cases.promise)}"
    gain = f"{points(mean.value)} on average"
    if better or worse:
        parts = [f"significantly improves {share_of(len(better), len(differences), 'detector')}"]
        parts = parts if better else []
        parts += [f"harms {len(worse)}"] if worse else []
        text = f"{start} on other outliers {listing(parts)}: {gain}, where {promise}."
    else:
        one = listing(list(differences)) if len(differences) == 1 else "any detector"
        text = f"{start} on other outliers does not significantly improve {one}: {gain}, where "
        text += f"{promise}."
    return " ".join([text, *_best(winners)])


def _best(winners: Sequence[Comparison]) -> list[str]:
    """Who is best however settings are chosen."""
    if not winners:
        return []
    verdict = judge(winners)
    names = list(dict.fromkeys(comparison.first for comparison in winners))
    if verdict == "flips":
        parts = [f"{c.first} ({c.context})" for c in winners]
        return [f"Which detector is best depends on the choice: {listing(parts)}."]
    if len(names) > 1:
        return ["Who is best changes with the choice of settings, but the leads are not "
                "significant."]  # fmt: skip
    if verdict == "holds":
        return [f"{names[0]} is the best however settings are chosen."]
    tied = list(dict.fromkeys(name for comparison in winners for name in comparison.tied))
    whom = listing(tied) if len(tied) < SHOWN else f"{len(tied)} others"
    return [f"{names[0]} is first however settings are chosen, but not separable from {whom}."]


def in_this_run(cases: TuningCases, word: str) -> str:
    """Begin a sentence: a single training run says nothing about others."""
    return word if cases.are_runs else f"In this training run, {word[0].lower()}{word[1:]}"
