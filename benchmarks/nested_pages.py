"""Simulate tables of equal detectors with nested runs: which claims of a page are decided?

Used by `coverage.py nested_pages`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from oodometer.factors import Factor
from oodometer.finding import Claim
from oodometer.protocols.instability.protocol import instability_of
from oodometer.results import Results

DESIGNS = ((5, 3), (3, 10), (10, 3))  # splits x seeds
DETECTORS = 3
SPREADS = {  # standard deviations between splits, between splits under an optimizer, between seeds
    "splits": (0.02, 0.0, 0.0),
    "splits, under each optimizer": (0.0, 0.02, 0.0),
    "all three": (0.015, 0.015, 0.015),
    "seeds": (0.0, 0.0, 0.02),
}
FALSE: Mapping[str, Callable[[Claim], bool]] = {
    "moved farther": lambda claim: " moves " in claim.text and claim.verdict == "holds",
    "never": lambda claim: "changes the best" in claim.text and claim.verdict == "holds",
    "turned": lambda claim: "only the optimizer" in claim.text and claim.verdict == "flips",
}


def table(values: NDArray[np.float64]) -> Results:
    """Values (detectors, optimizers, splits, seeds) as a results table."""
    detector, optimizer, split, seed = (own.ravel().astype(str) for own in np.indices(values.shape))
    frame = pd.DataFrame(
        {"detector": detector, "id": "x", "ood": "o", "optimizer": optimizer, "split": split,
         "seed": seed, "value": values.ravel()}
    )  # fmt: skip
    factors = (Factor("optimizer"), Factor("split", "repeat"), Factor("seed", "repeat"))
    return Results(frame, factors, "auroc", higher_is_better=True)


def nested_pages(simulations: int) -> None:
    """Print a table in Markdown: worlds of equal detectors in which instability decides something.

    Every value varies by 0.0001 besides, so that none are equal.
    """
    print("\n| splits x seeds | what varies |", " | ".join(FALSE), "|")
    print("|---" * (2 + len(FALSE)) + "|")
    for splits, seeds in DESIGNS:
        for name, (split, under, seed) in SPREADS.items():
            rng = np.random.default_rng([3, splits, seeds])
            wrong: Counter[str] = Counter()
            for _ in range(simulations):
                shape = (DETECTORS, 2, splits, seeds)
                values = 0.8 + np.hypot(seed, 1e-4) * rng.normal(size=shape)
                values = values + split * rng.normal(size=(DETECTORS, 1, splits, 1))
                values = values + under * rng.normal(size=(*shape[:3], 1))
                claims = instability_of(table(values)).claims
                wrong.update(kind for kind, told in FALSE.items() if any(map(told, claims)))
            cells = [f"{100.0 * wrong[kind] / simulations:.1f}" for kind in FALSE]
            print(f"| {splits} x {seeds} | {name} |", " | ".join(cells), "|", flush=True)
