"""Simulate tables of equal detectors on several data sets: in which scope are they told apart?

Used by `coverage.py nested_tables`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from oodometer.factors import Factor
from oodometer.protocols.common.cases import scopes_of
from oodometer.protocols.common.differences import compare_values
from oodometer.protocols.ranking.standing import contest_of_values
from oodometer.results import Results
from oodometer.stats.leaderboard import leaderboard


class Design(NamedTuple):
    """What was measured, and the standard deviations of what moves the detectors."""

    detectors: int
    sets: int
    seeds: int
    within: str = ""  # a repeat around the seeds: fold or split
    levels: int = 1
    conditions: int = 1  # crossed with the seeds
    are_nested: bool = False  # conditions and seeds have names of their own on each set
    seed: float = 0.02  # of a seed on one set
    level: float = 0.0  # of a fold or split on one set
    alike: float = 0.0  # of a seed, the same on all sets
    by_detector: float = 0.0  # logarithms of all of these differ by so much
    by_set: float = 0.0
    correlation: float = 0.0  # of detectors, in two families
    missing: float = 0.0  # cells that all detectors lack
    near_one: bool = False  # logits vary around 3, instead of AUROC around 0.8


DESIGNS: dict[str, Design] = {
    "3 sets, 3 seeds": Design(2, 3, 3),
    "3 sets, 3 seeds ": Design(3, 3, 3),
    "3 sets, 10 seeds": Design(2, 3, 10),
    "5 sets, 5 seeds": Design(6, 5, 5),
    "5 sets, 3 seeds": Design(18, 5, 3),
    "12 sets, 3 seeds": Design(2, 12, 3),
    "12 sets, 3 seeds ": Design(6, 12, 3),
    "2 sets, 5 seeds": Design(3, 2, 5),
    "1 set, 3 seeds": Design(6, 1, 3),
    "5 folds within 4 sets": Design(3, 4, 1, "fold", 5, level=0.02),
    "5 folds × 3 seeds within 4 sets": Design(3, 4, 3, "fold", 5, level=0.02, seed=0.01),
    "5 splits × 3 seeds within 3 sets": Design(3, 3, 3, "split", 5, level=0.02, seed=0.01),
    "2 backbones of their own for each of 3 sets, 3 seeds": Design(
        2, 3, 3, conditions=2, are_nested=True
    ),
    "3 optimizers × 3 seeds, 3 sets": Design(3, 3, 3, conditions=3),
    "3 optimizers × 5 seeds, 3 sets, 15% missing": Design(3, 3, 5, conditions=3, missing=0.15),
    "5 sets, 10 seeds, 10% missing": Design(3, 5, 10, missing=0.1),
    "5 sets, 5 seeds, SD of detectors differ by e": Design(4, 5, 5, by_detector=1.0),
    "12 sets, 3 seeds, SD on sets differ by e": Design(3, 12, 3, by_set=1.0),
    "5 sets, 5 seeds, correlation 0.9": Design(6, 5, 5, correlation=0.9),
    "5 sets, 5 seeds, AUROC about 0.95": Design(6, 5, 5, near_one=True),
    "3 sets, 3 seeds, a third of their variance alike on all sets": Design(
        2, 3, 3, seed=0.016, alike=0.012
    ),
    "5 sets, 5 seeds, mostly alike on all sets": Design(4, 5, 5, seed=0.01, alike=0.02),
    "12 sets, 3 seeds, mostly alike on all sets": Design(4, 12, 3, seed=0.01, alike=0.02),
    "5 sets, 2 seeds, half of their variance alike on all sets": Design(2, 5, 2, alike=0.02),
    "10 sets, 2 seeds, half of their variance alike on all sets": Design(2, 10, 2, alike=0.02),
    "10 sets, 2 seeds, mostly alike on all sets": Design(3, 10, 2, seed=0.01, alike=0.02),
}


def values(design: Design, rng: np.random.Generator) -> NDArray[np.float64]:
    """Values (detectors, sets, conditions, levels, seeds) of equal detectors."""
    count, sets = design.detectors, design.sets
    shape = (count, sets, design.conditions, design.levels, design.seeds)

    def noise(*places: int) -> NDArray[np.float64]:
        """Normal values that vary along some axes, and with detectors."""
        size = tuple(many if axis in places else 1 for axis, many in enumerate(shape[1:], 1))
        family = rng.normal(size=(2, *size))[np.arange(count) % 2]
        own = rng.normal(size=(count, *size))
        together = design.correlation
        return np.asarray(np.sqrt(together) * family + np.sqrt(1.0 - together) * own)

    moved = design.seed * noise(1, 2, 3, 4) + design.level * noise(1, 3)
    moved = moved + design.alike * noise(2, 3, 4)
    moved = moved * np.exp(design.by_detector * rng.normal(size=(count, 1, 1, 1, 1)))
    moved = moved * np.exp(design.by_set * rng.normal(size=(1, sets, 1, 1, 1)))
    hard = 0.02 * rng.normal(size=(1, sets, 1, 1, 1))
    return np.asarray(expit(3.0 + 30.0 * (moved + hard)) if design.near_one else 0.8 + moved + hard)


def table(design: Design, rng: np.random.Generator) -> Results:
    """A results table of equal detectors."""
    drawn = values(design, rng)
    detector, data, condition, level, seed = (own.ravel() for own in np.indices(drawn.shape))
    where = np.where(design.are_nested, data, 0)
    frame = pd.DataFrame({"detector": detector, "id": data, "ood": "", "optimizer": condition})
    frame["optimizer"] += 10 * where
    frame[design.within or "split"], frame["seed"] = level, seed + 10 * where
    frame = frame.astype(str).assign(value=drawn.ravel())
    lacking = rng.random(drawn.shape[1:]) < design.missing
    frame = frame[~np.broadcast_to(lacking, drawn.shape).ravel()].reset_index(drop=True)
    factors = [Factor("optimizer")] if design.conditions > 1 else []
    factors += [Factor(design.within, "repeat")] if design.within else []
    factors += [Factor("seed", "repeat")] if design.seeds > 1 else []
    return Results(frame, tuple(factors), "auroc", higher_is_better=True)


def nested_tables(simulations: int) -> None:
    """Print a table in Markdown: in how many tables somebody is behind, in each scope."""
    scopes = ("on other data sets", "after retraining", "either")
    print("\n| design | detectors |", " | ".join(scopes), "|")
    print("|---" * (2 + len(scopes)) + "|")
    for name, design in DESIGNS.items():
        rng = np.random.default_rng([22, *map(ord, name)])
        wrong = np.zeros(4)
        for _ in range(simulations):
            fields = scopes_of(table(design, rng))
            boards = [one.board for one in contest_of_values(fields, "").standings]
            by_sets = boards.pop(0) if fields[0].unit == "data set" else None
            behind = [b is not None and not b.can_be_best.all() for b in (by_sets, *boards[:1])]
            alone = leaderboard(compare_values(fields[0], fields[0].values))
            wrong += [by_sets is not None and not alone.can_be_best.all(), *behind, any(behind)]
        before, *now = (f"{100.0 * share:.1f}" for share in wrong / simulations)
        now[0] = f"{before} → {now[0]}" if by_sets is not None else "–"
        print(f"| {name.strip()} | {design.detectors} |", " | ".join(now), "|", flush=True)
