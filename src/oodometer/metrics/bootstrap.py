"""Intervals for any metric by resampling the samples of each group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from oodometer.errors import unknown
from oodometer.metrics.conventions import BY_NAME
from oodometer.metrics.counts import Counts, Floats, check_count
from oodometer.metrics.delong import check_level, counts_auroc_interval
from oodometer.metrics.estimate import Estimate
from oodometer.metrics.points import METRICS, counts_detection_error

# Numbers in one chunk of resamples: small enough for a processor's cache, and for any memory.
CHUNK = 1 << 17
# Metrics that are 1 - another one.
COMPLEMENTS = {"tnr95": "fpr95", "detection_accuracy": "detection_error_min"}


def _resampled(counts: Floats, total: int, number: int, rng: np.random.Generator) -> Floats:
    """Draw `total` samples with replacement, `number` times: counts (number, distinct scores)."""
    distinct = counts.size
    if 10 * distinct < total:  # many ties: one binomial per score is cheaper than one draw each
        return rng.multinomial(total, counts / total, size=number).astype(np.float64)
    score_of_sample = np.repeat(np.arange(distinct), counts.astype(np.intp))
    drawn = score_of_sample[rng.integers(total, size=(number, total))]
    drawn += distinct * np.arange(number)[:, None]
    flat = np.bincount(drawn.ravel(), minlength=number * distinct)
    return flat.reshape(number, distinct).astype(np.float64)


def _resamples(counts: Counts, number: int, rng: np.random.Generator) -> Iterator[Counts]:
    """Yield `number` resamples in chunks; each group keeps its size. Nothing is sorted again."""
    step = max(1, CHUNK // counts.id.size)
    for start in range(0, number, step):
        size = min(step, number - start)
        yield Counts.of_counts(
            _resampled(counts.id, counts.id_total, size, rng),
            _resampled(counts.ood, counts.ood_total, size, rng),
            counts.id_total,
            counts.ood_total,
        )


def hidden_counts(counts: Counts, level: float) -> Counts:
    """Four populations that the samples cannot exclude because the odd ones were never drawn.

    A share of (1 - level) / 2 of all samples of size n contain none of the odd ones if these are
    1 - ((1 - level) / 2) ** (1 / n) of the population. Rows: this many OOD samples look like ID;
    ID look like OOD; OOD lie above all scores; ID lie below all scores.
    """
    tail = 0.5 * (1.0 - level)
    id_share, ood_share = (
        1.0 - tail ** (1.0 / counts.id_total),
        1.0 - tail ** (1.0 / counts.ood_total),
    )
    id_seen = np.pad(counts.id, 1)
    ood_seen = np.pad(counts.ood, 1)
    lowest, highest = np.zeros_like(id_seen), np.zeros_like(id_seen)
    lowest[0], highest[-1] = counts.id_total, counts.ood_total
    id_like_ood = ood_seen * (counts.id_total / counts.ood_total)
    ood_like_id = id_seen * (counts.ood_total / counts.id_total)
    id_rows = [id_seen, id_like_ood, id_seen, lowest]
    ood_rows = [ood_like_id, ood_seen, highest, ood_seen]
    return Counts.of_counts(
        (1.0 - id_share) * id_seen + id_share * np.array(id_rows),
        (1.0 - ood_share) * ood_seen + ood_share * np.array(ood_rows),
        counts.id_total,
        counts.ood_total,
    )


def wilson(errors: float, total: int, level: float) -> tuple[float, float]:
    """Distances from a share of errors down and up to the ends of its Wilson interval."""
    share = errors / total
    weight = float(ndtri(0.5 + 0.5 * level)) ** 2 / total
    middle = (share + 0.5 * weight) / (1.0 + weight)
    reach = math.sqrt(weight * share * (1.0 - share) + 0.25 * weight**2) / (1.0 + weight)
    return share - (middle - reach), middle + reach - share


def _smallest_error(counts: Counts, drawn: Floats, level: float) -> Estimate:
    """Detection error at the best threshold, with its interval.

    The threshold is chosen on the samples it is judged by, so the error is too small, and that of
    a resample is too small twice: its quantiles would cover far too seldom. Instead: the two error
    rates at the chosen threshold with Wilson intervals, combined by MOVER (Zou & Donner 2008,
    doi:10.1002/sim.3095), the upper end raised by the optimism that resampling shows, and to 1/2
    if Smirnov's one-sided test cannot tell the detector from chance.
    """
    value = float(counts_detection_error(counts, "min"))
    best = np.argmax(counts.id_up_to / counts.id_total - counts.ood_up_to / counts.ood_total)
    rejected = counts.id_total - float(counts.id_up_to[best])
    id_down, id_up = wilson(rejected, counts.id_total, level)
    ood_down, ood_up = wilson(float(counts.ood_up_to[best]), counts.ood_total, level)
    optimism = max(0.0, value - float(drawn.mean()))
    low = value - 0.5 * math.hypot(id_down, ood_down)
    high = value + 0.5 * math.hypot(id_up, ood_up) + optimism
    # Of a useless detector, the best threshold still seems useful: Smirnov's test says how much.
    pairs = counts.id_total * counts.ood_total / (counts.id_total + counts.ood_total)
    if math.exp(-2.0 * pairs * (1.0 - 2.0 * value) ** 2) >= 1.0 - level:
        high = 0.5
    # No detector is worse than one that accepts all, so the error is at most one half.
    return Estimate(value, max(0.0, min(low, value)), min(0.5, max(high, value)))


def _quantiles(value: float, drawn: Floats, hidden: Floats, level: float) -> Estimate:
    """Quantiles of the resampled values, widened to what the samples could hide."""
    ends = np.quantile(drawn, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    bounds = np.clip(np.concatenate([[value], ends, hidden]), 0.0, 1.0)
    return Estimate(value, float(bounds.min()), float(bounds.max()))


def _intervals(
    counts: Counts, names: Sequence[str], level: float, rng: np.random.Generator, number: int
) -> dict[str, Estimate]:
    """All named metrics from one set of resamples."""
    # One of each pair that adds up to 1 is enough.
    needed = sorted({COMPLEMENTS.get(name, name) for name in names})
    drawn = {name: np.empty(number) for name in needed}
    start = 0
    for chunk in _resamples(counts, number, rng):
        stop = start + chunk.id.shape[0]
        for name in needed:
            drawn[name][start:stop] = BY_NAME[name].of_counts(chunk)
        start = stop
    hidden = hidden_counts(counts, level)
    found = {}
    for name in needed:
        if name == "detection_error_min":
            found[name] = _smallest_error(counts, drawn[name], level)
            continue
        of_counts = BY_NAME[name].of_counts
        found[name] = _quantiles(float(of_counts(counts)), drawn[name], of_counts(hidden), level)
    for name, other in COMPLEMENTS.items():
        if other in found:
            value, low, high = found[other]
            found[name] = Estimate(1.0 - value, 1.0 - high, 1.0 - low)
    return {name: found[name] for name in names}


def _check(level: float, resamples: int) -> None:
    check_level(level)
    check_count(resamples, "resamples")


def interval(
    metric: str,
    id_scores: ArrayLike,
    ood_scores: ArrayLike,
    *,
    level: float = 0.95,
    rng: np.random.Generator,
    resamples: int = 1000,
) -> Estimate:
    """A metric by its name in `BY_NAME`, with a bootstrap interval for new ID and OOD samples.

    Both groups are resampled, each with its size; the ends are quantiles of the resampled values
    (Efron 1979). Resampling cannot show what was never drawn, such as the first accepted OOD
    sample after none in 100. The interval therefore reaches at least to the values under which a
    share (1 - level) / 2 of all samples would look as clean: an unseen part of the OOD looks like
    ID, or is perfectly detectable; and the same for ID. For FPR = 0 that is Clopper & Pearson's
    bound, about 3.7 / n at level 0.95. Detection error at the best threshold is estimated with
    optimism; its interval is that of the two error rates there (Wilson, MOVER), the resamples tell
    by how much to raise its upper end, and it includes 1/2 if the detector is not significantly
    better than chance.
    """
    _check(level, resamples)
    if metric not in BY_NAME:
        raise unknown("metric", metric, BY_NAME)
    counts = Counts.of_scores(id_scores, ood_scores)
    return _intervals(counts, [metric], level, rng, resamples)[metric]


def estimate_all(
    id_scores: ArrayLike,
    ood_scores: ArrayLike,
    *,
    level: float = 0.95,
    rng: np.random.Generator,
    resamples: int = 1000,
) -> dict[str, Estimate]:
    """Every metric of `METRICS` with its interval: `auroc_interval` for AUROC, else `interval`.

    The scores are sorted once, and all bootstrap intervals share one set of resamples.
    """
    _check(level, resamples)
    counts = Counts.of_scores(id_scores, ood_scores)
    names = [name for name in METRICS if name != "auroc"]
    return {"auroc": counts_auroc_interval(counts, level)} | _intervals(
        counts, names, level, rng, resamples
    )
