"""Does the order of detectors in the worst case survive retraining?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from oodometer.finding import Claim
from oodometer.protocols.common.words import LEVEL, SHOWN, SIGNIFICANT, count, listing
from oodometer.protocols.worst_case.searched import Searched
from oodometer.stats.agreement import tau_matrix
from oodometer.stats.comparison import Placements, auroc_difference, holm

_MOST_PAIRS = 3  # that a claim names


@dataclass(frozen=True, eq=False)
class Survival:
    """The orders of the detectors in single training runs, compared with one another."""

    part: Searched

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The detectors that were retrained in every run: of others no run shows another one."""
        return tuple(name for name in self.part.detectors if name not in self.part.fewer)

    @cached_property
    def flips(self) -> list[tuple[str, str]]:
        """Pairs of which each is significantly better in some run (Holm, all pairs and runs)."""
        pairs, differences = list(combinations(self.names, 2)), []
        for first, second in pairs:
            for one, two in zip(self._single(first), self._single(second), strict=True):
                differences.append(auroc_difference(one, two, LEVEL))
        p_values = np.array(holm([d.p_value for d in differences])).reshape(len(pairs), -1)
        signs = np.sign([d.value for d in differences]).reshape(len(pairs), -1)
        decided = np.where(p_values < SIGNIFICANT, signs, 0)
        return [
            pair
            for pair, own in zip(pairs, decided, strict=True)
            if (own > 0).any() and (own < 0).any()
        ]

    @cached_property
    def kept(self) -> int:
        """Pairs that are in the same order in all runs."""
        values = self._values(self.names, worst=True)
        signs = [np.sign(a - b) for a, b in combinations(values, 2)]
        return sum(bool((own == own[0]).all()) and own[0] != 0 for own in signs)

    @property
    def pairs(self) -> int:
        """All pairs of detectors."""
        return len(self.names) * (len(self.names) - 1) // 2

    @cached_property
    def close(self) -> list[tuple[str, str]]:
        """Neighbors in the mean order that are not separable after retraining."""
        neighbors = pairwise(self.names)
        return [pair for pair in neighbors if self.part.lead(*pair).p_value >= SIGNIFICANT]

    def agreement(self, *, worst: bool) -> float | None:
        """The mean of Kendall's tau-b over all pairs of runs, in the worst case or before.

        None if it is not defined for some of them: all detectors are equal in one run.
        """
        taus = tau_matrix(self._values(self.names, worst=worst))
        mean = float(np.mean(taus[np.triu_indices(len(taus), 1)]))
        return None if np.isnan(mean) else mean

    def places(self, detector: str) -> tuple[int, int]:
        """The best and the worst place of a detector in the worst case, over the runs."""
        values = self._values(self.part.detectors, worst=True)
        own = values[self.part.detectors.index(detector)]
        places = 1 + (values > own).sum(0)
        return int(places.min()), int(places.max())

    def _values(self, names: Sequence[str], *, worst: bool) -> NDArray[np.float64]:
        """AUROC (detectors, runs)."""
        return np.array([self.part.by_run(name, worst=worst) for name in names])

    def _single(self, name: str) -> list[Placements]:
        return self.part.single_runs(name)


def survival_claims(part: Searched) -> list[Claim]:
    """Whether the order in the worst case is the same in all training runs, of those retrained."""
    survival = Survival(part)
    if len(part.runs) < 2 or len(survival.names) < 2:
        return []
    return [_claim(survival)]


def _claim(survival: Survival) -> Claim:
    part = survival.part
    runs = len(part.runs)
    taus = (survival.agreement(worst=True), survival.agreement(worst=False))
    worst, clean = ("not defined" if tau is None else f"{tau:.2f}" for tau in taus)
    evidence = (
        f"{survival.kept} of {count(survival.pairs, 'pair')} keep their order in all runs; mean "
        f"Kendall τ between runs {worst}, on clean outliers {clean}"
    )
    which = (
        f"of {listing(survival.names)}"
        if part.fewer and len(survival.names) < SHOWN
        else (f"of {len(survival.names)} retrained detectors" if part.fewer else "of detectors")
    )
    what = f"The order {which} in the {part.name}"
    if survival.flips:
        named = _named(survival.flips)
        text = f"{what} does not survive retraining: each is better in some run: {named}."
        return Claim(text, "flips", evidence)
    if survival.kept == survival.pairs:
        same = f"{what} is the same in all {runs} training runs"
        if survival.close:
            text = f"{same}, which may be chance: not separable are {_named(survival.close)}."
            return Claim(text, "undecided", evidence)
        return Claim(f"{same}.", "holds", evidence)
    text = (
        f"{what} differs between training runs, but for no pair is each significantly better in "
        "some run."
    )
    return Claim(text, "undecided", evidence)


def _named(pairs: Sequence[tuple[str, str]]) -> str:
    more = len(pairs) - _MOST_PAIRS
    named = "; ".join(f"{a} and {b}" for a, b in pairs[:_MOST_PAIRS])
    return f"{named} and {count(more, 'more pair')}" if more > 0 else named
