"""Simulate pages about equal detectors: how many claim a difference that is not there?

Used by `coverage.py equal_pages`. Pages are those of `analyze`, from the table to the claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

import oodometer as om

Floats = NDArray[np.float64]
TITLES = ("detector", "dataset", "seed")
PROTOCOLS = ("ranking", "robustness", "instability")
# That seeds change the order of equal detectors is true, and so is what explains a variance.
TRUE = ("only the seed changes", "only the seed reverses", "ranks first in", "explain")


def long(values: Floats) -> pd.DataFrame:
    """Values (detectors, sets, seeds) as a table with a line per value."""
    places = np.indices(values.shape).reshape(values.ndim, -1)
    frame = pd.DataFrame({name: own.astype(str) for name, own in zip(TITLES, places, strict=True)})
    named = {name: f"{name}-" + frame[name] for name in TITLES[:2]}
    return frame.assign(**named, auroc=values.ravel())


def values(
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    alike: float = 0.0,
    families: Sequence[int] = (),
) -> Floats:
    """Equal detectors on sets with seeds; those of a family have 90% of their variance in common.

    `alike`: what a seed does on all sets, relative to what it does on one.
    """
    moved = rng.normal(size=shape)
    if families:
        common = rng.normal(size=(max(families) + 1, *shape[1:]))[list(families)]
        moved = np.sqrt(0.9) * common + np.sqrt(0.1) * moved
    moved = moved + alike * rng.normal(size=(shape[0], 1, shape[2]))
    return np.asarray(0.85 + 0.02 * rng.normal(size=(1, shape[1], 1)) + 0.01 * moved)


def near_one(rng: np.random.Generator, *shape: int) -> pd.DataFrame:
    """AUROC about 0.99, to four digits."""
    hard = 0.3 * rng.normal(size=(1, shape[1], 1))
    return long(expit(4.8 + hard + 0.4 * rng.normal(size=shape)).round(4))


def rounded(rng: np.random.Generator, spread: float, *shape: int) -> pd.DataFrame:
    """Percent with one decimal, of which most are equal."""
    return long(
        (85.0 + 3.0 * rng.normal(size=(1, shape[1], 1)) + spread * rng.normal(size=shape)).round(1)
    )


def with_gaps(rng: np.random.Generator, share: float, *shape: int) -> pd.DataFrame:
    """Values that are missing at random."""
    frame = long(values(rng, (shape[0], shape[1], shape[2])))
    return frame[rng.random(len(frame)) >= share].reset_index(drop=True)


def failing(rng: np.random.Generator, *shape: int) -> pd.DataFrame:
    """Any one detector lacks any one data set."""
    frame = long(values(rng, (shape[0], shape[1], shape[2])))
    lacks = (frame["detector"] == f"detector-{rng.integers(shape[0])}") & (
        frame["dataset"] == f"dataset-{rng.integers(shape[1])}"
    )
    return frame[~lacks].reset_index(drop=True)


def unequal(
    rng: np.random.Generator, detectors: int, counts: Sequence[int], sets: int = 1
) -> pd.DataFrame:
    """Optimizers with different numbers of seeds, which shift all detectors alike."""
    parts = [
        long(values(rng, (detectors, sets, seeds)) + 0.01 * number).assign(
            optimizer=f"opt-{number}"
        )
        for number, seeds in enumerate(counts)
    ]
    return pd.concat(parts, ignore_index=True)


NOISES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Floats]] = {
    "fails": lambda rng, shape: rng.normal(size=shape) - 60.0 * (rng.random(shape) < 0.1),
    "skewed": lambda rng, shape: 1.0 - rng.exponential(size=shape),
    "t": lambda rng, shape: rng.standard_t(3, size=shape),
}


def noisy(
    rng: np.random.Generator, noise: str, detectors: int, seeds: int, optimizers: int = 0
) -> pd.DataFrame:
    """Runs of which one in ten fails, of each detector by itself, or that are skewed or far off."""
    shape = (detectors, 1, seeds)
    if not optimizers:
        return long(0.85 + 0.005 * NOISES[noise](rng, shape))
    parts = [
        long(0.85 + 0.01 * number + 0.005 * NOISES[noise](rng, shape)).assign(
            optimizer=f"opt-{number}"
        )
        for number in range(optimizers)
    ]
    return pd.concat(parts, ignore_index=True)


def single(rng: np.random.Generator, detectors: int, sets: int) -> pd.DataFrame:
    """One run."""
    return long(values(rng, (detectors, sets, 1))).drop(columns="seed")


WORLDS: dict[str, Callable[[np.random.Generator], pd.DataFrame]] = {
    "AUROC about 0.99, 4 detectors, 4 sets, 5 seeds": lambda rng: near_one(rng, 4, 4, 5),
    "AUROC about 0.99, 4 detectors, 1 set, 5 seeds": lambda rng: near_one(rng, 4, 1, 5),
    "AUROC about 0.99, 2 detectors, 1 set, 3 seeds": lambda rng: near_one(rng, 2, 1, 3),
    "one decimal, SD 0.1, 3 detectors, 3 sets, 5 seeds": lambda rng: rounded(rng, 0.1, 3, 3, 5),
    "one decimal, SD 0.05, 3 detectors, 1 set, 3 seeds": lambda rng: rounded(rng, 0.05, 3, 1, 3),
    "one decimal, SD 0.03, 4 detectors, 5 sets, 3 seeds": lambda rng: rounded(rng, 0.03, 4, 5, 3),
    "10% missing, 4 detectors, 4 sets, 5 seeds": lambda rng: with_gaps(rng, 0.1, 4, 4, 5),
    "20% missing, 3 detectors, 8 sets, 3 seeds": lambda rng: with_gaps(rng, 0.2, 3, 8, 3),
    "one lacks a set, 4 detectors, 5 sets, 5 seeds": lambda rng: failing(rng, 4, 5, 5),
    "one lacks a set, 3 detectors, 3 sets, 3 seeds": lambda rng: failing(rng, 3, 3, 3),
    "two families, 6 detectors, 4 sets, 5 seeds": lambda rng: long(
        values(rng, (6, 4, 5), families=(0, 0, 0, 1, 1, 1))
    ),
    "half share their runs, 6 detectors, 1 set, 5 seeds": lambda rng: long(
        values(rng, (6, 1, 5), families=(0, 0, 0, 1, 2, 3))
    ),
    "half share their runs, 6 detectors, 4 sets, 3 seeds": lambda rng: long(
        values(rng, (6, 4, 3), families=(0, 0, 0, 1, 2, 3))
    ),
    "30 detectors, 1 set, 3 seeds": lambda rng: long(values(rng, (30, 1, 3))),
    "30 detectors, 5 sets, 3 seeds": lambda rng: long(values(rng, (30, 5, 3))),
    "2 detectors, 10 sets, 1 run": lambda rng: single(rng, 2, 10),
    "2 detectors, 3 sets, 1 run": lambda rng: single(rng, 2, 3),
    "optimizers with 8, 4 and 3 seeds, 3 detectors": lambda rng: unequal(rng, 3, (8, 4, 3)),
    "optimizers with 6 and 3 seeds, 3 detectors, 3 sets": lambda rng: unequal(rng, 3, (6, 3), 3),
    "optimizers with 5 and 2 seeds, 2 detectors": lambda rng: unequal(rng, 2, (5, 2)),
    "seeds alike on all sets, 4 detectors, 5 sets, 5 seeds": lambda rng: long(
        values(rng, (4, 5, 5), alike=2.0)
    ),
    "seeds alike on all sets, 2 detectors, 5 sets, 3 seeds": lambda rng: long(
        values(rng, (2, 5, 3), alike=2.0)
    ),
    "1 of 10 runs fails, 3 detectors, 10 seeds": lambda rng: noisy(rng, "fails", 3, 10),
    "1 of 10 runs fails, 4 detectors, 5 seeds": lambda rng: noisy(rng, "fails", 4, 5),
    "1 of 10 runs fails, 2 detectors, 2 optimizers, 10 seeds": lambda rng: noisy(
        rng, "fails", 2, 10, 2
    ),
    "skewed (exponential), 2 detectors, 10 seeds": lambda rng: noisy(rng, "skewed", 2, 10),
    "skewed (exponential), 2 detectors, 3 optimizers, 10 seeds": lambda rng: noisy(
        rng, "skewed", 2, 10, 3
    ),
    "heavy tails (t, 3 df), 2 detectors, 10 seeds": lambda rng: noisy(rng, "t", 2, 10),
}


def wrong_protocols(frame: pd.DataFrame) -> set[str]:
    """The protocols that claim something on the page of a table, but for what is true."""
    return {
        finding.protocol
        for finding in om.analyze(frame)
        for claim in finding.claims
        if claim.verdict != "undecided" and not any(word in claim.text for word in TRUE)
    }


def equal_pages(simulations: int) -> None:
    """Print a table in Markdown: pages with a wrong claim, by the protocol that makes it."""
    print("\n| world |", " | ".join(PROTOCOLS), "|")
    print("|---" * (1 + len(PROTOCOLS)) + "|")
    for name, world in WORLDS.items():
        rng = np.random.default_rng([26, *map(ord, name)])
        wrong: Counter[str] = Counter()
        for _ in range(simulations):
            wrong.update(wrong_protocols(world(rng)))
        cells = [f"{100.0 * wrong[protocol] / simulations:.1f}" for protocol in PROTOCOLS]
        print(f"| {name} |", " | ".join(cells), "|", flush=True)
