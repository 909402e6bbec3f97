"""The contract of a detector of one's own that learns from images, or just scores them.

It is fitted on small images that are planted here: smooth ones to learn from, noise to find.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oodometer.calls import Setting
from oodometer.fitted import FittedDetector, fit_detector, load_detector
from oodometer.lab.detector_models import find_model
from oodometer.registry import Detector, choice_of
from oodometer.testing.checks import Broken
from oodometer.testing.randomness import global_seed, random_states

Pixels = NDArray[np.float32]
_SIDE, _CLASSES = 8, 3
_ROUNDING = 1e-4  # of the spread of the scores: networks add up in single precision


def planted_images(rows: int, seed: int) -> tuple[Pixels, NDArray[np.int64]]:
    """Smooth images of three classes: a dark ramp in one of three directions, and noise."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % _CLASSES
    ramp = np.linspace(0.1, 0.5, _SIDE)
    shapes = np.stack([np.tile(ramp, (_SIDE, 1)), np.tile(ramp, (_SIDE, 1)).T,
                       np.tile(ramp[::-1], (_SIDE, 1))])  # fmt: skip
    noise = rng.normal(0, 0.03, (rows, _SIDE, _SIDE)) + rng.normal(0, 0.03, (rows, 1, 1))
    return (shapes[labels] + noise).clip(0, 1)[:, None].astype(np.float32), labels


def planted_outliers(rows: int, seed: int) -> Pixels:
    """Bright noise, of which nothing was learned."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 1, (rows, 1, _SIDE, _SIDE)).astype(np.float32)


@dataclass(frozen=True, eq=False)
class OwnTrial:
    """A detector with the fit and the scores that the checks share."""

    detector: Detector
    settings: Mapping[str, Setting]  # complete

    def fit(self) -> FittedDetector:
        """Fit to the planted images."""
        images, labels = planted_images(240, 0)
        needs = [find_model(need.name) for need in self.detector.needed(self.settings)]
        auxiliary = any(card.task.outliers_per_input for card in needs)
        return fit_detector(
            choice_of(self.detector, self.settings),
            images,
            labels,
            size="tiny",
            auxiliary=planted_outliers(120, 4) if auxiliary else None,
        )

    @cached_property
    def fitted(self) -> FittedDetector:
        """The detector, fitted once."""
        return self.fit()

    @cached_property
    def tested(self) -> Pixels:
        """Images that were not learned from."""
        return planted_images(60, 1)[0]

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """Its scores of these."""
        return self.fitted.score(self.tested)

    @property
    def ran(self) -> bool:
        """Whether there are scores."""
        return "scores" in vars(self)


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise Broken(sentence)


def _require_close(first: NDArray[np.float64], second: NDArray[np.float64], sentence: str) -> None:
    spread = float(np.ptp(first)) or float(np.abs(first).max()) or 1.0
    gap = float(np.abs(first - second).max()) / spread
    _require(gap <= _ROUNDING, f"{sentence}: they differ by up to {gap:.2g} of their spread.")


def runs(trial: OwnTrial) -> None:
    """Fits, and gives every image one finite score, not all of them the same."""
    _require(len(set(trial.scores.tolist())) > 1, "all images get the same score.")


def direction(trial: OwnTrial) -> None:
    """Planted outliers score higher."""
    outside = trial.fitted.score(planted_outliers(60, 2))
    wins = (outside[:, None] > trial.scores) + 0.5 * (outside[:, None] == trial.scores)
    auroc = float(wins.mean())
    _require(
        auroc > 0.8,
        f"planted outliers reach an AUROC of {auroc:.2f} only (higher must mean more "
        "out-of-distribution).",
    )


def batches_do_not_matter(trial: OwnTrial) -> None:
    """Scores an image alike whatever it is scored together with, as in evaluation mode."""
    parts = [trial.fitted.score(trial.tested[start : start + 7]) for start in range(0, 60, 7)]
    _require_close(trial.scores, np.concatenate(parts), "scores depend on the batch")
    alone = np.concatenate([trial.fitted.score(trial.tested[[row]]) for row in range(3)])
    _require_close(trial.scores[:3], alone, "an image scored alone gets another score")


def order_does_not_matter(trial: OwnTrial) -> None:
    """Scores follow their images when those are reordered."""
    order = np.random.default_rng(3).permutation(60)
    again = trial.fitted.score(trial.tested[order])
    _require_close(trial.scores[order], again, "scores depend on the order of the images")


def repeatable(trial: OwnTrial) -> None:
    """A second fit with the same seed gives the same scores, bit for bit."""
    again = trial.fit().score(trial.tested)
    _require(np.array_equal(trial.scores, again), "two fits to the same images differ.")


def keeps_no_memory(trial: OwnTrial) -> None:
    """What was scored before changes nothing."""
    trial.fitted.score(planted_outliers(60, 2))
    again = trial.fitted.score(trial.tested)
    _require(np.array_equal(trial.scores, again), "scores depend on what was scored before.")


def no_global_randomness(trial: OwnTrial) -> None:
    """Neither uses nor changes the global random state of torch, NumPy or Python."""
    found = []
    for seed in (11, 12):
        with global_seed(seed):
            before = random_states()
            found.append(trial.fit().score(trial.tested))
            after = random_states()
        moved = [name for name in before if before[name] != after[name]]
        _require(not moved, f"the global random state of {' and '.join(moved)} was changed.")
    _require(np.array_equal(found[0], found[1]), "scores depend on the global random state.")


def saved_and_loaded(trial: OwnTrial) -> None:
    """Saved and loaded, it gives the same scores, bit for bit."""
    with tempfile.TemporaryDirectory() as folder:
        file = trial.fitted.save(Path(folder) / "fitted.safetensors")
        again = load_detector(file, trial.detector).score(trial.tested)
    _require(np.array_equal(trial.scores, again), "saved and loaded, it gives other scores.")


OWN_CHECKS: dict[str, Callable[[OwnTrial], None]] = {
    check.__name__: check
    for check in (
        runs,
        direction,
        batches_do_not_matter,
        order_does_not_matter,
        repeatable,
        keeps_no_memory,
        no_global_randomness,
        saved_and_loaded,
    )
}
