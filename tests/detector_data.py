"""What the tests of detectors share: made-up outputs, and scores by a detector's text."""

from __future__ import annotations

import numpy as np
import torch

import oodometer.builtin  # noqa: F401 - registers them
from oodometer.outputs import Head, Outputs
from oodometer.registry import choose


def scores(text: str, train: Outputs, test: Outputs, **validation: object) -> np.ndarray:
    """Fit a detector, written as in a study, and score with it."""
    chosen = choose(text)
    return chosen.detector.fit(train, **validation, **chosen.settings)(test).detach().numpy()


def made_up(
    rows: int = 90,
    width: int = 7,
    classes: int = 4,
    seed: int = 0,
    relu: bool = True,
    dtype: torch.dtype = torch.float64,
    apart: bool = False,
) -> Outputs:
    """Outputs without structure, or with classes `apart`; the same head for every seed."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(99)
    head = Head(
        torch.tensor(fixed.normal(size=(classes, width))).to(dtype),
        torch.tensor(fixed.normal(size=classes)).to(dtype),
    )
    labels = np.arange(rows) % classes
    features = rng.normal(size=(rows, width)) + 0.3
    if apart:
        features = features + fixed.normal(size=(classes, width))[labels]
    features = torch.tensor(features.clip(0) if relu else features).to(dtype)
    return Outputs(features=features, labels=torch.tensor(labels), head=head)
