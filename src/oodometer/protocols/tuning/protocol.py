"""What does choosing a detector's settings gain, and how much of it is self-deception?

Three choices for every detector with a grid: the default, the setting with the best AUROC on other
outlier sets (honest tuning), and the one with the best AUROC on the test outliers themselves (the
oracle, which nobody has who reports a result). Each outlier set is the test once. Settings are
chosen with one half of the ID samples, and judged with the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, folded, themed
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.comparisons import (
    Comparison,
    compare_all,
    judge,
    number_of_pairs,
)
from oodometer.protocols.common.differences import (
    FEWEST_FOR_T,
    TWO_CASES,
    Paired,
    one_way,
    paired_difference,
    paired_differences,
    paired_interval,
    points_between,
    significant,
)
from oodometer.protocols.common.sources import left_out_claims, retrained
from oodometer.protocols.common.words import (
    LEVEL,
    SHOWN,
    SIGNIFICANT,
    count,
    listing,
    missing_lines,
    number,
    points,
    points_and_p,
    share_of,
    spelled,
)
from oodometer.protocols.tuning.answer import answer, in_this_run
from oodometer.protocols.tuning.cases import TunedDetector, TuningCases, tuning_cases
from oodometer.protocols.tuning.views import (
    CHOICES,
    choice_table,
    curves,
    gain_table,
    gains,
    setting_intervals,
)
from oodometer.scores import ScoreTable
from oodometer.stats.averaging import average_over_detectors
from oodometer.stats.comparison import Difference, adjusted, auroc_difference
from oodometer.stats.tuning import cross_fitted_range


def tuning(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Compare each detector's default with settings chosen on other outliers, and on the test."""
    table, shared = _retrained(table)
    cases = tuning_cases(table)
    differences = _gains(cases, rng)
    winners = _winners(cases, rng)
    mean = _mean(cases, "tuned", "default")
    claims = [
        *themed("explains", [_claim_gain(cases, differences, mean), _claim_optimism(cases)]),
        *themed("changes", [*_claim_winner(cases, winners), _claim_sensitivity(cases)]),
    ]
    return Finding(
        protocol="tuning",
        title="What does tuning gain, and how much of it is optimism?",
        question="Does a setting that is good against some outliers stay good against others?",
        claims=(*folded(claims, _tried(cases)), *left_out_claims(shared, "What tuning gains")),
        tables=(gain_table(cases, differences), choice_table(cases)),
        series=(gains(cases), *curves(cases), *setting_intervals(cases)),
        caveats=_caveats(cases),
        missing=missing_lines([part for part in table.missing if part.setting], len(table.runs)),
        facts=(
            ("detectors with a grid", str(len(cases.detectors))),
            ("runs", str(cases.runs)),
            *((("training runs", str(cases.count)),) if cases.are_runs else ()),
            ("outlier sets", str(cases.sets)),
        ),
        answer=answer(cases, differences, mean, winners),
    )


def _retrained(table: ScoreTable) -> tuple[ScoreTable, tuple[str, ...]]:
    """Leave out detectors that were not retrained, unless no other has settings to choose from."""
    kept, shared = retrained(table, "Tuning")
    gridded = {row.detector for row in table.rows if not row.default and not row.learned_from}
    if shared and gridded and gridded <= {*shared}:
        raise UserError(
            "Tuning needs a detector with several settings that is retrained in every training "
            f"run; {listing(sorted(gridded))} {'has' if len(gridded) == 1 else 'have'} the same "
            "scores in several."
        )
    return kept, shared


def _tried(cases: TuningCases) -> str:
    return count(cases.count, "training run") if cases.are_runs else "These test samples"


def _gains(cases: TuningCases, rng: np.random.Generator) -> dict[str, Difference]:
    """Tuned less default of every detector, with adjusted p-values.

    By training runs; a single one is judged by its samples, as outlier sets share ID samples and
    what settings were chosen on: as cases, they made equal settings differ on 45 of 100 pages.
    """
    if cases.are_runs:
        pairs = {d.name: Paired(d.tuned, d.default, cases.units) for d in cases.detectors}
        return paired_differences(pairs, rng)
    return adjusted(
        {
            d.name: auroc_difference(d.samples["tuned"], d.samples["default"], LEVEL)
            for d in cases.detectors
        }
    )


def _claim_gain(cases: TuningCases, differences: Mapping[str, Difference], mean: Estimate) -> Claim:
    """For how many detectors is tuning on other outliers worth it?"""
    better, worse = significant(differences)
    lost = f" and harms {len(worse)}" if worse else ""
    shown = sorted(differences, key=lambda name: -abs(differences[name].value))
    return Claim(
        f"{in_this_run(cases, 'Tuning')} on other outliers significantly improves "
        f"{share_of(len(better), len(differences), 'detector')}{lost}; the mean gain is "
        f"{points(mean.value)}, and tuning on the test outliers would promise "
        f"{points(cases.promise)}.",
        one_way(better, worse),
        f"mean gain {points_between(*mean)}; "
        + spelled([f"{name}: {points_and_p(differences[name])}" for name in shown]),
    )


def _claim_optimism(cases: TuningCases) -> Claim:
    """How much does choosing on the test promise that honest tuning does not give?"""
    mean = _mean(cases, "oracle", "tuned")
    promised = {d.name: d.mean(d.oracle - d.tuned) for d in cases.detectors}
    most = max(promised, key=promised.__getitem__)
    return Claim(
        f"Tuning on the test outliers promises {points(mean.value)} more than honest tuning "
        f"gives, on average over {count(len(cases.detectors), 'detector')}; for {most} it is "
        f"{points(promised[most])}.",
        "holds" if mean.low > 0 else "undecided",
        f"mean {points_between(*mean)} {_over(cases)}; by its nature it is not negative",
    )


def _winners(cases: TuningCases, rng: np.random.Generator) -> list[Comparison]:
    """Who is best, by each way to choose settings; none where there is one detector."""
    if len(cases.detectors) + len(cases.fixed) < 2:
        return []
    values: dict[str, dict[str, Floats]] = {
        label: {d.name: getattr(d, choice) for d in cases.detectors} | dict(cases.fixed)
        for choice, label in CHOICES.items()
    }
    places = {
        label: {name: -float(cases.units.mean(own)) for name, own in named.items()}
        for label, named in values.items()
    }
    many = number_of_pairs(places)
    samples = {
        label: {d.name: d.samples[choice] for d in cases.detectors} | dict(cases.fixed_samples)
        for choice, label in CHOICES.items()
        if not cases.are_runs
    }

    def compare(label: str, other: str, first: str) -> Difference:
        if not cases.are_runs:
            return auroc_difference(samples[label][other], samples[label][first], LEVEL)
        pair = Paired(values[label][other], values[label][first], cases.units)
        return paired_difference(pair, many, rng)

    return compare_all(places, compare)


def _claim_winner(cases: TuningCases, comparisons: Sequence[Comparison]) -> list[Claim]:
    """Is the best detector the same however settings are chosen?"""
    if not comparisons:
        return []
    verdict = judge(comparisons)
    names = list(dict.fromkeys(comparison.first for comparison in comparisons))
    text = (
        f"{names[0]} has the highest mean AUROC however settings are chosen"
        if len(names) == 1
        else f"Which detector is best depends on how settings are chosen: {listing(names)}"
    )
    if not cases.are_runs:
        text += ", in this training run"
    if verdict == "undecided":
        tied = list(dict.fromkeys(name for comparison in comparisons for name in comparison.tied))
        whom = listing(tied) if len(tied) < SHOWN else f"{len(tied)} others"
        text += (
            f", but does not differ significantly from {whom}"
            if len(names) == 1
            else ", but the leads are not significant"
        )
    firsts = (f"{c.context}: {c.first} {number(-c.values[c.first])}" for c in comparisons)
    leaves_open = f"which detector is best however settings are chosen (here {listing(names)})"
    return [Claim(f"{text}.", verdict, "; ".join(firsts), leaves_open=leaves_open)]


def _claim_sensitivity(cases: TuningCases) -> Claim:
    """Which detector depends most on its setting?"""
    ordered = sorted(cases.detectors, key=lambda d: -d.spread)
    first = ordered[0]
    intervals = {
        d.name: paired_interval(Paired(span, np.zeros_like(span), cases.units.of_means))
        for d in ordered
        if len(span := cross_fitted_range(_by_outer_unit(cases, d))) >= FEWEST_FOR_T
    }
    differ = (
        len(ordered) > 1
        and len(intervals) == len(ordered)
        and intervals[first.name].low > max(intervals[d.name].high for d in ordered[1:])
    )
    parts = [f"{d.name} {points(d.spread)}" for d in ordered[1:SHOWN]]
    evidence = "; ".join(parts) or "the only detector with a grid"
    if first.name in intervals:
        again = points_between(*intervals[first.name])
        evidence += f"; in runs that did not choose best and worst, {first.name} {again}"
    return Claim(
        f"{first.name} depends most on its setting: its best and worst of {len(first.curve)} "
        f"differ by {points(first.spread)} of AUROC here.",
        "holds" if differ else "undecided",
        evidence,
        leaves_open=f"whether {first.name} depends most on its setting ({points(first.spread)})",
    )


def _by_outer_unit(cases: TuningCases, detector: TunedDetector) -> Floats:
    """(settings, outer units): who is best is chosen in other splits, not in other seeds alone."""
    return cases.units.means(np.array(list(detector.curve.values())))


def _mean(cases: TuningCases, one: str, other: str) -> Estimate:
    """Mean over detectors of one choice less another, with its interval."""
    if cases.are_runs:
        first, second = (
            np.mean([getattr(d, choice) for d in cases.detectors], axis=0)
            for choice in (one, other)
        )
        return paired_interval(Paired(first, second, cases.units))
    first, second = (
        average_over_detectors([d.samples[choice] for d in cases.detectors])
        for choice in (one, other)
    )
    return Estimate(*auroc_difference(first, second, LEVEL)[:3])


def _over(cases: TuningCases) -> str:
    """What intervals are about."""
    if cases.are_runs:
        return f"over {count(cases.count, 'training run')}"
    return f"over {count(cases.sets, 'outlier set')}, for other samples and this training run"


def _caveats(cases: TuningCases) -> tuple[str, ...]:
    caveats = [
        "Each outlier set is the test once, and settings are chosen by mean AUROC on all others; "
        "one half of the ID samples is used for the choice, the other for the test.",
        "P-values are adjusted by Holm's method for "
        f"{count(len(cases.detectors), 'detector')}; the significance level is {SIGNIFICANT:.0%}.",
    ]
    if cases.runs > cases.count and cases.are_runs:
        caveats.append(
            f"{count(cases.runs, 'run')} are re-evaluations of "
            f"{count(cases.count, 'training run')}, such as checkpoints: the mean over those of "
            "one training run is one case."
        )
    caveats += cases.units.caveats(cases.count)
    if not cases.are_runs:
        caveats.append(
            "There is a single training run: intervals and p-values are for other test samples; "
            "nothing can be said about retraining."
        )
    if cases.are_runs and cases.count == FEWEST_FOR_T - 1:
        caveats.append(TWO_CASES.format(count(cases.count, cases.case)))
    if cases.fixed:
        caveats.append(f"Without a grid: {listing(list(cases.fixed))}.")
    if cases.learned:
        caveats.append(f"Learned from outliers, and not tuned here: {listing(cases.learned)}.")
    if cases.left_out:
        caveats.append(f"Left out, because most runs lack scores: {listing(cases.left_out)}.")
    lacking = [d.name for d in cases.detectors if d.incomplete]
    if lacking:
        caveats.append(f"Some settings lack scores in some runs, of {listing(lacking)}.")
    return tuple(caveats)
