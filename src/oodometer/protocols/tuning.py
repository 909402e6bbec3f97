"""What does choosing a detector's settings gain, and how much of it is self-deception?

Three choices for every detector with a grid: the default, the setting with the best AUROC on other
outlier sets (honest tuning), and the one with the best AUROC on the test outliers themselves (the
oracle, which nobody has who reports a result). Each outlier set is the test once. Settings are
chosen with one half of the ID samples, and judged with the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from oodometer.finding import Claim, Finding, Verdict
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.protocols.contests import comparisons, contests, judge
from oodometer.protocols.differences import (
    FEWEST_FOR_T,
    TWO_CASES,
    paired_difference,
    paired_differences,
    points_between,
)
from oodometer.protocols.tuning_field import TunedDetector, TuningField, tuning_field
from oodometer.protocols.tuning_views import (
    CHOICES,
    choice_table,
    curves,
    gain_table,
    gains,
    setting_intervals,
)
from oodometer.protocols.words import (
    LEVEL,
    SHOWN,
    SIGNIFICANT,
    count,
    listing,
    missing_lines,
    number,
    points,
    points_and_p,
)
from oodometer.scores import ScoreTable
from oodometer.stats.comparison import Difference
from oodometer.stats.paired import difference_interval


def tuning(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Compare each detector's default with settings chosen on other outliers, and on the test."""
    field = tuning_field(table)
    differences = _gains(field, rng)
    return Finding(
        protocol="tuning",
        title="What does tuning gain, and what does it only promise?",
        question="Does a setting that is good against some outliers stay good against others?",
        claims=(
            _claim_gain(field, differences),
            _claim_optimism(field),
            *_claim_winner(field, rng),
            _claim_sensitivity(field),
        ),
        tables=(gain_table(field, differences), choice_table(field)),
        series=(gains(field, rng), *curves(field), *setting_intervals(field, rng)),
        caveats=_caveats(field),
        missing=missing_lines([part for part in table.missing if part.setting], len(table.runs)),
        facts=(
            ("detectors with a grid", str(len(field.detectors))),
            ("runs", str(field.runs)),
            *((("trainings", str(field.units)),) if field.are_trainings else ()),
            ("outlier sets", str(field.sets)),
        ),
    )


def _gains(field: TuningField, rng: np.random.Generator) -> dict[str, Difference]:
    """Tuned less default of every detector, with adjusted p values."""
    return paired_differences({d.name: (d.tuned, d.default) for d in field.detectors}, rng)


def _claim_gain(field: TuningField, differences: Mapping[str, Difference]) -> Claim:
    """For how many detectors is tuning on other outliers worth it?"""
    sure = {name: d for name, d in differences.items() if d.p_value < SIGNIFICANT}
    better = [name for name, d in sure.items() if d.value > 0]
    worse = [name for name, d in sure.items() if d.value < 0]
    mean = _mean(field, lambda d: d.tuned - d.default)
    promise = float(np.mean([(d.oracle - d.default).mean() for d in field.detectors]))
    verdict: Verdict = "flips" if better and worse else "holds" if sure else "undecided"
    lost = f" and loses for {len(worse)}" if worse else ""
    shown = sorted(differences, key=lambda name: -abs(differences[name].value))[:SHOWN]
    return Claim(
        f"Tuning on other outliers gains beyond chance for {len(better)} of "
        f"{count(len(differences), 'detector')}{lost}, {points(mean.value)} on average; choosing "
        f"on the test outliers themselves would promise {points(promise)}.",
        verdict,
        f"mean gain {points_between(*mean)}; "
        + "; ".join(f"{name}: {points_and_p(differences[name])}" for name in shown),
    )


def _claim_optimism(field: TuningField) -> Claim:
    """How much does choosing on the test promise that honest tuning does not give?"""
    mean = _mean(field, lambda d: d.oracle - d.tuned)
    most = max(field.detectors, key=lambda d: float((d.oracle - d.tuned).mean()))
    return Claim(
        f"Choosing on the test outliers promises {points(mean.value)} more than honest tuning "
        f"gives, on average over {count(len(field.detectors), 'detector')}; for {most.name} it is "
        f"{points(float((most.oracle - most.tuned).mean()))}.",
        "holds" if mean.low > 0 and field.units > 1 else "undecided",
        f"mean {points_between(*mean)} over {count(field.units, field.unit)}; by its nature it is "
        "not negative",
    )


def _claim_winner(field: TuningField, rng: np.random.Generator) -> list[Claim]:
    """Is the best detector the same however settings are chosen?"""
    if len(field.detectors) + len(field.fixed) < 2:
        return []
    values: dict[str, dict[str, Floats]] = {
        label: {d.name: getattr(d, choice) for d in field.detectors} | dict(field.fixed)
        for choice, label in CHOICES.items()
    }
    places = {
        label: {name: -float(own.mean()) for name, own in named.items()}
        for label, named in values.items()
    }
    many = comparisons(places)
    held = contests(
        places,
        lambda label, other, first: paired_difference(
            values[label][other], values[label][first], many, rng
        ),
    )
    verdict = judge(held)
    names = list(dict.fromkeys(contest.first for contest in held))
    text = (
        f"{names[0]} has the highest mean AUROC however settings are chosen"
        if len(names) == 1
        else f"Which detector is best depends on how settings are chosen: {listing(names)}"
    )
    if verdict == "undecided":
        tied = list(dict.fromkeys(name for contest in held for name in contest.tied))
        whom = listing(tied) if len(tied) < SHOWN else f"{len(tied)} others"
        text += (
            f", but it cannot be told from {whom}"
            if len(names) == 1
            else ", but the leads may be chance"
        )
    told = (f"{c.place}: {c.first} {number(-c.values[c.first])}" for c in held)
    return [Claim(f"{text}.", verdict, "; ".join(told))]


def _claim_sensitivity(field: TuningField) -> Claim:
    """Which detector depends most on its setting?"""
    ordered = sorted(field.detectors, key=lambda d: -d.spread)
    first = ordered[0]
    spans = {d.name: _span(d) for d in ordered}
    intervals = {
        name: difference_interval(span, np.zeros_like(span), level=LEVEL)
        for name, span in spans.items()
        if len(span) > 1
    }
    surely = (
        len(ordered) > 1
        and len(intervals) == len(ordered)
        and intervals[first.name].low > max(intervals[d.name].high for d in ordered[1:])
    )
    others = [f"{d.name} {points(d.spread)}" for d in ordered[1:SHOWN]]
    return Claim(
        f"{first.name} depends most on its setting: its best and worst of {len(first.curve)} "
        f"differ by {points(first.spread)} of AUROC.",
        "holds" if surely else "undecided",
        "; ".join(others) or "the only detector with a grid",
    )


def _span(detector: TunedDetector) -> Floats:
    """Best less worst setting, by their means over all runs, in every run."""
    means = {setting: float(values.mean()) for setting, values in detector.curve.items()}
    best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    return detector.curve[best] - detector.curve[worst]


def _mean(field: TuningField, part: Callable[[TunedDetector], Floats]) -> Estimate:
    """Mean over detectors of a difference, with its interval over units."""
    values = np.mean([part(detector) for detector in field.detectors], axis=0)
    return difference_interval(values, np.zeros_like(values), level=LEVEL)


def _caveats(field: TuningField) -> tuple[str, ...]:
    caveats = [
        "Each outlier set is the test once, and settings are chosen by mean AUROC on all others; "
        "half of the ID samples serve the choice, the other half the test.",
        "P values are adjusted by Holm's rule for "
        f"{count(len(field.detectors), 'detector')} and judged at {SIGNIFICANT:.0%}.",
    ]
    if field.runs > field.units and field.are_trainings:
        caveats.append(
            f"{count(field.runs, 'run')} are looks at {count(field.units, 'training')}, such as "
            "checkpoints: the mean of those of one training is one case."
        )
    if not field.are_trainings:
        caveats.append(
            "There is one training only: the outlier sets are the cases. They share the sets that "
            "settings were chosen on, so intervals are rather too narrow."
        )
    if field.units == FEWEST_FOR_T - 1:
        caveats.append(TWO_CASES.format(count(field.units, field.unit)))
    if field.fixed:
        caveats.append(f"Without a grid: {listing(list(field.fixed))}.")
    if field.learned:
        caveats.append(f"Learned from outliers, and not tuned here: {listing(field.learned)}.")
    if field.left_out:
        caveats.append(f"Left out, because most runs lack scores: {listing(field.left_out)}.")
    lacking = [d.name for d in field.detectors if d.incomplete]
    if lacking:
        caveats.append(f"Some settings lack scores in some runs, of {listing(lacking)}.")
    return tuple(caveats)
