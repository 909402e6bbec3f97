"""Simulate tables on several data sets: which detector is said to vary least over training runs?

Used by `coverage.py varying_least`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from oodometer.factors import Factor
from oodometer.protocols.robustness.comparisons import compare_scores
from oodometer.protocols.robustness.protocol import robustness_of
from oodometer.protocols.robustness.scored import arrange
from oodometer.results import Results


class Design(NamedTuple):
    """What was measured, and what moves the detectors."""

    detectors: int
    sets: int
    runs: int
    optimizers: int = 1
    alike: float = 0.0  # share of the variance of a run that is the same on all sets
    by_set: float = 0.0  # logarithms of the standard deviations on sets differ by so much
    tails: float = 0.0  # degrees of freedom of Student's t; 0: normal
    common: float = 0.0  # share of the variance that all detectors have in common
    moved: float = 0.0  # by an optimizer, in standard deviations of a run, on all sets


def table(design: Design, ratio: float, rng: np.random.Generator) -> Results:
    """Equal detectors, but for the first: the standard deviation of others is `ratio` times its."""
    shape = (design.detectors, design.sets, design.optimizers, design.runs)

    def drawn(*size: int) -> NDArray[np.float64]:
        if not design.tails:
            return rng.normal(size=size)
        return np.asarray(rng.standard_t(design.tails, size) * np.sqrt(1.0 - 2.0 / design.tails))

    def noise(detectors: int) -> NDArray[np.float64]:
        both = drawn(detectors, 1, *shape[2:]), drawn(detectors, *shape[1:])
        return np.asarray(np.sqrt(design.alike) * both[0] + np.sqrt(1.0 - design.alike) * both[1])

    moved = np.sqrt(design.common) * noise(1) + np.sqrt(1.0 - design.common) * noise(shape[0])
    moved = moved + design.moved * rng.normal(size=(1, 1, shape[2], 1))
    moved = moved * np.exp(design.by_set * rng.normal(size=(1, shape[1], 1, 1)))
    moved[1:] *= ratio
    hard = 0.05 * rng.normal(size=(1, shape[1], 1, 1))
    values = 0.8 + hard + 0.01 * moved
    detector, data, optimizer, run = (own.ravel() for own in np.indices(shape))
    frame = pd.DataFrame(
        {"detector": detector, "id": data, "ood": "", "optimizer": optimizer, "seed": run}
    ).astype(str)
    frame["value"] = values.ravel()
    factors = (Factor("optimizer"),) * (design.optimizers > 1) + (Factor("seed", "repeat"),)
    return Results(frame, factors, "auroc", higher_is_better=True)


def told(results: Results, *, alone: bool) -> tuple[bool, bool, bool]:
    """Whether some detector is said to vary least, the first is, and whether any two differ.

    `alone`: over data sets alone, as if what runs do could not be alike on them.
    """
    scores = arrange(results).over_data_sets().detector_scores
    own = {n: replace(s, over_runs=None) if alone else s for (_, n), s in scores.items()}
    found = compare_scores({"": own})[""]
    least = not found.tied
    return least, least and found.first == "0", len(found.tied) < len(found.leads)


DESIGNS: dict[str, Design] = {
    "5 sets, 5 seeds": Design(4, 5, 5),
    "5 sets, 5 seeds, a third alike on all sets": Design(4, 5, 5, alike=0.3),
    "5 sets, 5 seeds, 80% alike": Design(4, 5, 5, alike=0.8),
    "5 sets, 5 seeds, 95% alike": Design(4, 5, 5, alike=0.95),
    "5 sets, 10 seeds, 95% alike": Design(4, 5, 10, alike=0.95),
    "5 sets, 10 seeds, 95% alike ": Design(8, 5, 10, alike=0.95),
    "12 sets, 3 seeds, 95% alike": Design(8, 12, 3, alike=0.95),
    "5 sets, 3 seeds, 95% alike": Design(2, 5, 3, alike=0.95),
    "5 sets, 5 seeds, 95% alike ": Design(2, 5, 5, alike=0.95),
    "5 sets, 7 seeds, 95% alike": Design(3, 5, 7, alike=0.95),
    "5 sets, 10 seeds, 95% alike  ": Design(2, 5, 10, alike=0.95),
    "5 sets, 5 seeds, 95% alike, heavy tails (t, 5 df)": Design(4, 5, 5, alike=0.95, tails=5.0),
    "5 sets, 5 seeds, SD on sets differ by e": Design(4, 5, 5, by_set=1.0),
    "5 sets, 3 optimizers × 3 seeds, 95% alike": Design(2, 5, 3, 3, alike=0.95),
    "5 sets, 2 optimizers × 5 seeds, 95% alike": Design(2, 5, 5, 2, alike=0.95),
    "5 sets, 4 optimizers × 2 seeds, 95% alike": Design(2, 5, 2, 4, alike=0.95),
    "5 sets, 2 seeds, 95% alike": Design(4, 5, 2, alike=0.95),
}


def varying_least(simulations: int) -> None:
    """Print in Markdown who is told apart over sets alone, and over runs, too; then the power."""
    print(
        "\n| equal detectors | detectors | one varies least | any two differ |\n|---|---|---|---|"
    )
    for name, design in DESIGNS.items():
        shares = _shares(design, 1.0, simulations, name)
        print(f"| {name.strip()} | {design.detectors} | {shares[0]} | {shares[2]} |", flush=True)
    print("\n| sets × seeds, detectors | ratio | none alike | half | 90% |\n|---|---|---|---|---|")
    for detectors, sets, runs in ((2, 3, 5), (2, 5, 5), (2, 5, 10), (4, 5, 5), (4, 5, 10)):
        for ratio in (2.0, 4.0):
            cells = [
                _shares(Design(detectors, sets, runs, alike=alike), ratio, simulations, "power")[1]
                for alike in (0.0, 0.5, 0.9)
            ]
            print(
                f"| {sets} × {runs}, {detectors} | {ratio:.0f} | {' | '.join(cells)} |", flush=True
            )
    print("\n| whole pages about equal detectors | any claim | \n|---|---|")
    for design in (Design(3, 5, 3, 3, alike=0.9), Design(2, 5, 5, 2, alike=0.9)):
        rng = np.random.default_rng([23, *design[:4]])
        pages = (robustness_of(table(design, 1.0, rng)) for _ in range(simulations))
        wrong = [any(own.verdict != "undecided" for own in page.claims) for page in pages]
        print(f"| {design} | {100.0 * np.mean(wrong):.1f} |", flush=True)


def _shares(design: Design, ratio: float, simulations: int, name: str) -> list[str]:
    """What is told in how many percent of tables: over sets alone → as it is."""
    rng = np.random.default_rng([23, *map(ord, name)])
    drawn = [table(design, ratio, rng) for _ in range(simulations)]
    both = [np.mean([told(own, alone=a) for own in drawn], axis=0) for a in (True, False)]
    return [f"{100.0 * one:.1f} → {100.0 * two:.1f}" for one, two in zip(*both, strict=True)]
