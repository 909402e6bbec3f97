"""What do noisy training labels do to detectors, and to conclusions about them?

Humblot-Renaux et al. 2024, "A noisy elephant in the room": AUROC of ID, correct and misclassified
samples against outliers, and of failures, by type and rate of the noise; medians over outlier sets;
almost stochastic order between settings and between methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, Verdict
from oodometer.protocols.differences import paired_difference
from oodometer.protocols.label_noise_field import QUESTIONS, NoiseField, noise_field, of_scores
from oodometer.protocols.label_noise_views import (
    best_case_table,
    correlation_table,
    curves,
    median_table,
    order_table,
    question_table,
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
)
from oodometer.results import Results
from oodometer.scores import ScoreTable
from oodometer.stats.agreement import spearman, tau_b
from oodometer.stats.comparison import holm
from oodometer.stats.intervals import runs_interval
from oodometer.stats.order import THRESHOLD, aso

ENOUGH_FOR_ORDER = 3  # runs at each level, below which almost stochastic order says nothing


def label_noise(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Compare detectors under the label noise of a study's factor label_noise."""
    return label_noise_of(of_scores(table), rng)


def label_noise_of(
    tables: Mapping[str, Results], rng: np.random.Generator, *, noise: str | None = None
) -> Finding:
    """The same, of results tables by metric; `noise` names the factor that holds the labels."""
    field = noise_field(tables, noise)
    if len(field.levels) < 2:
        raise UserError(f"All runs have the same {field.noise}: {field.levels[0]}.")
    return Finding(
        protocol="label_noise",
        title="What do noisy labels do to the detectors?",
        question="Does a detector that is good on a classifier trained on clean labels stay good?",
        claims=(
            *_claim_drop(field, rng),
            *_claim_winner(field),
            *_claim_errors(field),
            *_claim_failure(field),
            *_claim_accuracy(field),
            *_claim_other_factors(field, rng),
        ),
        tables=tuple(
            table
            for table in (
                median_table(field),
                best_case_table(field),
                question_table(field),
                correlation_table(field),
                order_table(field, rng),
            )
            if table is not None
        ),
        series=tuple(curves(field, rng)),
        caveats=_caveats(field),
        missing=missing_lines(tables["auroc"].missing, len(field.frame)),
        facts=(
            ("labels", listing(list(field.levels))),
            ("detectors", str(len(field.detectors))),
            ("outlier sets", str(field.sets)),
        ),
    )


class _Drop(NamedTuple):
    """What one kind of noise does to all detectors."""

    level: str
    losses: dict[str, float]  # detector -> clean less noisy
    surely: int  # detectors that lose beyond chance
    dominated: int  # detectors for which clean labels are almost stochastically better

    @property
    def worse(self) -> int:
        """Detectors that lose."""
        return sum(loss > 0 for loss in self.losses.values())

    @property
    def hardest(self) -> str:
        """The detector that loses most."""
        return max(self.losses, key=self.losses.__getitem__)


def _drop(field: NoiseField, clean: str, level: str, rng: np.random.Generator) -> _Drop | None:
    found, dominated = {}, 0
    many = len(field.detectors)
    for detector in field.detectors:
        before, after = field.paired(detector, clean, level)
        if not len(before):
            continue
        found[detector] = paired_difference(before, after, many, rng)
        if len(before) >= ENOUGH_FOR_ORDER:
            dominated += aso(before, after, rng=rng, level=LEVEL, comparisons=many) < THRESHOLD
    if not found:
        return None
    adjusted = holm([difference.p_value for difference in found.values()])
    losses = {detector: difference.value for detector, difference in found.items()}
    sure = [p < SIGNIFICANT and loss > 0 for p, loss in zip(adjusted, losses.values(), strict=True)]
    return _Drop(level, losses, sum(sure), dominated)


def _claim_drop(field: NoiseField, rng: np.random.Generator) -> list[Claim]:
    """Is every detector worse on classifiers trained on noisy labels?"""
    if field.clean is None:
        return []
    clean = field.clean
    drops = [drop for level in field.noisy if (drop := _drop(field, clean, level, rng)) is not None]
    if len(drops) > SHOWN:
        return [_claim_drops(drops)]
    return [
        Claim(
            f"With {drop.level} labels, {drop.worse} of {count(len(drop.losses), 'detector')} have "
            f"a lower median AUROC than with clean ones; {drop.hardest} loses most, "
            f"{points(drop.losses[drop.hardest])}.",
            "holds" if drop.surely and drop.surely == drop.worse else "undecided",
            f"{drop.surely} of {len(drop.losses)} lose beyond chance (paired runs, Holm); clean is "
            f"almost stochastically better for {drop.dominated} (ASO below {THRESHOLD})",
        )
        for drop in drops
    ]


def _claim_drops(drops: Sequence[_Drop]) -> Claim:
    """The same of many kinds of noise, in one sentence."""
    most = max(drops, key=lambda drop: drop.losses[drop.hardest])
    cases = sum(len(drop.losses) for drop in drops)
    worse, surely = sum(drop.worse for drop in drops), sum(drop.surely for drop in drops)
    least = min(drops, key=lambda drop: drop.surely)
    return Claim(
        f"Noisy labels lower the median AUROC in {worse} of {cases} cases (of "
        f"{count(len(drops), 'kind')} of noise and {count(len(drops[0].losses), 'detector')}); "
        f"{most.hardest} loses most, {points(most.losses[most.hardest])} with {most.level} labels.",
        "holds" if surely and surely == worse else "undecided",
        f"beyond chance in {surely} of {cases} (paired runs, Holm within each kind), least often "
        f"with {least.level} labels, for {least.surely} of {len(least.losses)}; clean is almost "
        f"stochastically better in {sum(drop.dominated for drop in drops)} (ASO below {THRESHOLD})",
    )


def _claim_winner(field: NoiseField) -> list[Claim]:
    """Is the best detector the same at every level?"""
    means = {
        level: {d: float(v.mean()) for d in field.detectors if len(v := field.values(d, level))}
        for level in field.levels
    }
    winners = {level: max(known, key=known.__getitem__) for level, known in means.items() if known}
    if len(winners) < 2 or len(field.detectors) < 2:
        return []
    distinct = list(dict.fromkeys(winners.values()))
    evidence = "; ".join(
        f"{level}: {name} {number(means[level][name])}" for level, name in list(winners.items())[:8]
    )
    if len(distinct) == 1:
        text = f"{distinct[0]} has the highest median AUROC whatever the labels."
        return [Claim(text, "holds", evidence)]
    text = f"The best detector depends on the labels: {listing(distinct[:5])}."
    return [Claim(text, "flips", evidence)]


def _claim_errors(field: NoiseField) -> list[Claim]:
    """How much of the loss is the classifier's own errors?"""
    if not {"correct_auroc", "incorrect_auroc"} <= set(field.questions):
        return []
    frame = field.frame.dropna(subset=["correct_auroc", "incorrect_auroc"])
    gaps = (frame["correct_auroc"] - frame["incorrect_auroc"]).to_numpy(dtype=float)
    correct, wrong = (float(frame[n].median()) for n in ("correct_auroc", "incorrect_auroc"))
    always = bool((gaps > 0).all())
    return [
        Claim(
            f"Outliers are told from correctly classified samples (median AUROC {number(correct)}) "
            f"far better than from misclassified ones ({number(wrong)})."
            if correct - wrong > 0.05
            else f"Outliers are told from correctly classified samples (median AUROC "
            f"{number(correct)}) about as well as from misclassified ones ({number(wrong)}).",
            "holds" if always else "flips",
            f"correctly classified samples are the easier ones in {int((gaps > 0).sum())} of "
            f"{len(gaps)} pairs of run and detector",
        )
    ]


def _claim_failure(field: NoiseField) -> list[Claim]:
    """Does finding outliers go with finding errors?"""
    if "failure_auroc" not in field.questions or len(field.detectors) < 3:
        return []
    means = field.frame.groupby("detector", sort=False)[["auroc", "failure_auroc"]].mean()
    agreement = tau_b(means["auroc"].to_numpy(dtype=float), means["failure_auroc"].to_numpy(float))
    best, finder = str(means["auroc"].idxmax()), str(means["failure_auroc"].idxmax())
    if agreement.value is None:
        return []
    same = best == finder
    text = (
        f"{best} is the best both at outliers and at the classifier's own errors."
        if same
        else f"The best detector of outliers is {best}, the best of the classifier's own errors "
        f"{finder}."
    )
    surely = agreement.low > 0 or agreement.high < 0
    return [
        Claim(
            text,
            "undecided" if not surely else "holds" if same else "flips",
            f"Kendall's tau between the two orders {agreement.value:.2f} "
            f"[{agreement.low:.2f}, {agreement.high:.2f}]",
        )
    ]


def _claim_accuracy(field: NoiseField) -> list[Claim]:
    """Does accuracy foretell how well detectors work?"""
    if not field.has_accuracy:
        return []
    positive, known = [], 0
    for detector in field.detectors:
        own = field.frame[field.frame["detector"] == detector].dropna(subset=["accuracy"])
        if len(own) < 4:
            continue
        found = spearman(own["accuracy"].to_numpy(float), own["auroc"].to_numpy(float), level=LEVEL)
        known += found.value is not None
        if found.value is not None and found.low > 0:
            positive.append((found.value, detector))
    if not known:
        return []
    verdict: Verdict = "holds" if len(positive) == known else "undecided"
    strongest = f"; strongest for {max(positive)[1]}, {max(positive)[0]:.2f}" if positive else ""
    return [
        Claim(
            f"A more accurate classifier is a better ground for {len(positive)} of "
            f"{count(known, 'detector')}.",
            verdict,
            f"Spearman's correlation of accuracy and median AUROC above 0 with its 95 % interval"
            f"{strongest}",
        )
    ]


def _claim_other_factors(field: NoiseField, rng: np.random.Generator) -> list[Claim]:
    """What a choice between two levels changes: early or last checkpoint, clean or noisy set-up."""
    claims = []
    for factor in field.others:
        levels = list(dict.fromkeys(field.frame[factor]))
        if len(levels) != 2 or factor == "id":
            continue
        rest = ["detector", field.noise, *(name for name in field.others if name != factor)]
        table = field.frame.pivot_table(index=rest, columns=factor, values="auroc", sort=False)
        both = table.dropna()
        if both.empty:
            continue
        gains = (both[levels[0]] - both[levels[1]]).groupby(level="detector", sort=False)
        better = {
            str(name): runs_interval(part.to_numpy(float), rng=rng, level=LEVEL)
            for name, part in gains
        }
        first = [name for name, gain in better.items() if gain.low > 0]
        second = [name for name, gain in better.items() if gain.high < 0]
        claims.append(
            Claim(
                f"{factor} {levels[0]} is better than {levels[1]} for {len(first)} of "
                f"{count(len(better), 'detector')}, and worse for {len(second)}.",
                "flips" if first and second else "holds" if first or second else "undecided",
                "mean difference of paired runs whose 95 % interval leaves out 0; one comparison "
                "at a time",
            )
        )
    return claims


def _caveats(field: NoiseField) -> tuple[str, ...]:
    caveats = [
        "Each run counts by its median over the outlier sets; the best case is the highest mean of "
        "any run.",
        "Almost stochastic order (ASO) is corrected for the number of comparisons by Bonferroni's "
        f"rule and judged at {THRESHOLD}; it asks whether nearly all runs are better, not whether "
        "the mean is.",
    ]
    if field.clean is None:
        caveats.append(
            f"No level of {field.noise} is known to be without noise, so nothing is compared with "
            "clean labels."
        )
    absent = [QUESTIONS[name] for name in QUESTIONS if name not in field.questions]
    if absent:
        caveats.append(
            f"Not answered, for want of knowing the classifier's errors: {listing(absent)}."
        )
    return tuple(caveats)
