"""Simulate pairs of detectors: is one said to vary more than the other over training runs?

Used by `coverage.py spreads`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from oodometer.factors import Factor
from oodometer.protocols.instability.claims import Move
from oodometer.protocols.instability.spreads import compared, spreads
from oodometer.protocols.robustness.scored import arrange
from oodometer.results import Results
from oodometer.stats.jackknife import ratio

Floats = NDArray[np.float64]
Shape = tuple[int, int]
RUNS = (3, 5, 7, 10)
RATIO = 4.0  # of standard deviations
TOGETHER = 500  # pairs in one table


def _unlike(rng: np.random.Generator, shape: Shape) -> Floats:
    """Every second detector is skewed, the others are normal: standard deviations are equal."""
    values = rng.normal(size=shape)
    values[1::2] = 1.0 - rng.exponential(size=values[1::2].shape)
    return values


def _failing(drop: float) -> Callable[[np.random.Generator, Shape], Floats]:
    return lambda rng, shape: rng.normal(size=shape) - drop * (rng.random(shape) < 0.1)


WORLDS: dict[str, Callable[[np.random.Generator, Shape], Floats]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "heavy tails (t, 3 df)": lambda rng, shape: rng.standard_t(3, size=shape),
    "skewed to the left (exponential)": lambda rng, shape: 1.0 - rng.exponential(size=shape),
    "1 of 10 runs fails, by 5 SD": _failing(5.0),
    "... by 80 SD": _failing(80.0),
    "unlike: one normal, one exponential": _unlike,
}


def told_apart(values: Floats) -> list[float]:
    """Shares of pairs of neighbouring rows that each test tells apart at 5%."""
    rows = len(values)
    detector, run = (own.ravel().astype(str) for own in np.indices(values.shape))
    frame = pd.DataFrame({"detector": detector, "id": "", "ood": "", "seed": run})
    frame["value"] = values.ravel()
    results = Results(frame, (Factor("seed", "repeat"),), "auroc", higher_is_better=True)
    scores = {int(name): own for (_, name), own in arrange(results).detector_scores.items()}
    (part,) = spreads(compared(results)[0], "seed")
    row_of = {int(name): row for row, name in enumerate(part.detectors)}
    found = []
    for first in range(0, rows, 2):
        one, other = scores[first], scores[first + 1]
        plain, against = (replace(own, deviations=np.empty(0)) for own in (one, other))
        pair = [row_of[first], row_of[first + 1]]
        near, far = sorted(pair, key=lambda row: float(part.deltas[row]))
        found.append(
            (
                ratio(plain, against, 0.95).p_value < 0.05,
                part.deviations_p_value(*pair) < 0.05,
                ratio(one, other, 0.95).p_value < 0.05,
                Move(part, far, near, "", 2, 1).is_sure,
            )
        )
    return [float(share) for share in np.mean(found, axis=0)]


def equal_spreads(simulations: int) -> None:
    """Print in Markdown how often two detectors are told apart, of equal spread and of another."""
    names = ("jackknife", "deviations", "`robustness`", "`instability`")
    for title, factor in (("equal SD", 1.0), (f"SD differ {RATIO:.0f} : 1", RATIO)):
        print(f"\n| {title} |", " | ".join(names), "|")
        print("|---" * (1 + len(names)) + "|")
        for name, world in WORLDS.items():
            shares = []
            for runs in RUNS:
                rng = np.random.default_rng([27, runs, *map(ord, name)])
                many = [world(rng, (2 * TOGETHER, runs)) for _ in range(simulations // TOGETHER)]
                for moved in many:
                    moved[1::2] *= factor
                shares.append(np.mean([told_apart(0.8 + 0.001 * own) for own in many], axis=0))
            cells = [
                ", ".join(f"{100 * share:.1f}" for share in own) for own in np.transpose(shares)
            ]
            print(f"| {name} |", " | ".join(cells), "|", flush=True)
