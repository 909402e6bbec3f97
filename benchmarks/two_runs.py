"""Simulate tables with two runs, the same on all data sets: how often are equals told apart?

Used by `coverage.py two_runs`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oodometer.stats import weighting
from oodometer.stats.leaderboard import from_values, leaderboard

CAUTIONS = (1.0, 2.0, 3.0)  # what the squared error over runs is multiplied by; see `weighting`
WORLDS = (  # detectors, sets, share of runs that is alike, SD between sets, moved by one cause
    (2, 5, 0.8, 0.0, False),
    (2, 10, 0.8, 1.0, False),
    (2, 20, 0.9, 1.0, False),
    (3, 10, 0.8, 1.0, False),
    (4, 10, 0.95, 1.0, False),
    (3, 10, 0.8, 0.0, True),
    (4, 10, 0.8, 0.0, True),
    (8, 10, 0.9, 1.0, True),
    (8, 20, 0.9, 1.0, True),
)


def cells(
    rng: np.random.Generator, world: tuple[int, int, float, float, bool], lead: float = 0.0
) -> NDArray[np.float64]:
    """Values (detectors, sets, two runs), in standard deviations of a run."""
    detectors, sets, alike, between, one_cause = world
    moved = rng.normal(size=(detectors, 1, 2))
    if one_cause:
        moved = rng.normal(size=(detectors, 1, 1)) * moved[:1]
    drawn = np.sqrt(alike) * moved + np.sqrt(1.0 - alike) * rng.normal(size=(detectors, sets, 2))
    drawn = drawn + between * rng.normal(size=(detectors, sets, 1))
    drawn[0] += lead
    return np.asarray(drawn)


def told(values: NDArray[np.float64]) -> list[tuple[bool, bool]]:
    """Whether somebody is behind, and whether the first leads: over sets alone, then as it is."""
    sets, runs = from_values(values.mean(axis=2), shared=False), from_values(values.mean(axis=1))
    found = [sets]
    adopted = weighting.CAUTION
    for weighting.CAUTION in CAUTIONS:
        found.append(weighting.also_over_runs(sets, runs, 2))
    weighting.CAUTION = adopted
    boards = [leaderboard(one) for one in found]
    return [(not own.can_be_best.all(), own.is_decided and own.order[0] == 0) for own in boards]


def two_runs(simulations: int) -> None:
    """Print a table in Markdown: tables of equal detectors that are wrong, and leads found."""
    titles = ["sets alone", *(f"c = {own:.0f}" for own in CAUTIONS)]
    print("\n| detectors, sets, alike, SD between sets, one cause |", " | ".join(titles), "|")
    print("|---" * (1 + len(titles)) + "|")
    for world in WORLDS:
        rng = np.random.default_rng(24)
        wrong = np.mean([told(cells(rng, world)) for _ in range(simulations)], axis=0)[:, 0]
        print(f"| {world} |", " | ".join(f"{100.0 * one:.1f}" for one in wrong), "|", flush=True)
    print("\n| 10 sets, SD 1 between sets: lead of 2, 3 SD found |", " | ".join(titles), "|")
    print("|---" * (1 + len(titles)) + "|")
    for many in (2, 3, 4, 8):
        rng = np.random.default_rng(25)
        world = (many, 10, 0.0, 1.0, False)
        found = [
            np.mean([told(cells(rng, world, lead)) for _ in range(simulations // 3)], axis=0)[:, 1]
            for lead in (2.0, 3.0)
        ]
        shown = [f"{100.0 * a:.0f}, {100.0 * b:.0f}" for a, b in zip(*found, strict=True)]
        print(f"| {many} detectors |", " | ".join(shown), "|", flush=True)
