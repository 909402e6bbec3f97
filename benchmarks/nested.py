"""Simulate runs that share the splits or folds of their data: how often are equals told apart?

Used by `coverage.py nested`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oodometer.stats.leaderboard import Leaderboard, from_values, leaderboard, over_folds
from oodometer.stats.pairwise import more_careful

DESIGNS = ((5, 3), (3, 10), (10, 3))  # levels x seeds
DETECTORS = (2, 8)
SPREADS = {  # standard deviations between levels and between seeds
    "levels only": (0.02, 0.0),
    "levels twice as much": (0.02, 0.01),
    "seeds twice as much": (0.01, 0.02),
    "seeds only": (0.0, 0.02),
}


def judged(values: NDArray[np.float64], *, folds: bool, careful: bool) -> Leaderboard:
    """Compare detectors by (detectors, levels, seeds): as independent runs, or with `careful`."""
    detectors, levels, seeds = values.shape
    runs = from_values(values.reshape(detectors, -1), bounds=(0.0, 1.0))
    means = from_values(values.mean(axis=2), bounds=(0.0, 1.0))
    if folds:
        runs = over_folds(runs, levels * seeds, levels)
        means = over_folds(means, levels, levels)
    return leaderboard(more_careful(runs, means, "split", levels) if careful else runs, declared=0)


def tells_apart(board: Leaderboard) -> bool:
    """Whether the declared detector differs from another one, or anybody is behind."""
    differs = any(one.p_value < 0.05 for one in board.ours)
    return differs or not bool(board.can_be_best.all())


def nested_runs(simulations: int) -> None:
    """Print a table in Markdown: worlds of equal detectors in which some are told apart."""
    print("\n| levels x seeds | detectors |", " | ".join(SPREADS), "|")
    print("|---" * (2 + len(SPREADS)) + "|")
    for folds in (False, True):
        for levels, seeds in DESIGNS:
            for detectors in DETECTORS:
                cells = []
                for between, within in SPREADS.values():
                    rng = np.random.default_rng([21, levels, seeds, detectors])
                    wrong = np.zeros(2)
                    for _ in range(simulations):
                        values = 0.8 + between * rng.normal(size=(detectors, levels, 1))
                        values = values + within * rng.normal(size=(detectors, levels, seeds))
                        boards = [judged(values, folds=folds, careful=c) for c in (False, True)]
                        wrong += [tells_apart(board) for board in boards]
                    plain, careful = 100.0 * wrong / simulations
                    cells.append(f"{plain:.0f} → {careful:.1f}")
                what = "folds" if folds else "splits"
                print(f"| {levels} {what} x {seeds} | {detectors} |", " | ".join(cells), "|",
                      flush=True)  # fmt: skip
