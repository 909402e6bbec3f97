"""Detectors that relate a sample to every training sample, not to the nearest ones alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, by_rows, precise
from oodometer.detectors._checks import require_range
from oodometer.detectors._neighbors import on_unit_sphere
from oodometer.detectors._shared import drawn_share, once
from oodometer.outputs import View
from oodometer.registry import Scorer, detector

_POWERS = (1, 2, 4, 6, 8)
_FEWEST = 2000  # training samples that cfood compares with, if there are as many
_TILE = 2048  # training samples at a time
# Ranks that cfood tells apart, in shares of the training samples: those of OpenOOD.
_RANKS = np.concatenate(
    [np.linspace(0.001, 0.1, 100), np.linspace(0.105, 0.5, 81), np.linspace(0.51, 0.99, 49)]
)


@detector(
    paper="Kim et al. 2023, Neural Relation Graph, arXiv:2301.12321",
    needs={"features", "relative_logits"},
    grid={"power": _POWERS, "threshold": (0.03,)},
)
def relation(train: View, *, power: int = 1, threshold: float = 0.03) -> Scorer:
    """Minus the sum of a sample's relations to all training samples.

    -sum_j r_j^power over the training samples with r_j > threshold, where
    r_j = max(0, cos(x, x_j)) p'p_j, p the softmax: related is what looks alike and is classified
    alike. A zero feature has cosine 0.
    """
    require_range("relation", "power", power, above=0)
    require_range("relation", "threshold", threshold, at_least=0, below=1)
    powers = _POWERS if power in _POWERS else (power,)

    def sums(features: Tensor, logits: Tensor) -> Tensor:
        rows, chances = on_unit_sphere(features), logits.softmax(1)
        total = rows.new_zeros((len(rows), len(powers)))
        for first in range(0, len(train), _TILE):
            part = slice(first, first + _TILE)
            alike = rows @ on_unit_sphere(precise(train.features[part])).T
            related = alike.relu() * (chances @ precise(train.relative_logits[part]).softmax(1).T)
            related = torch.where(related > threshold, related, 0.0)
            total = total + torch.stack([(related**each).sum(1) for each in powers], dim=1)
        return total

    per_row = 5 * min(_TILE, len(train)) + 2 * train.features.shape[1]

    def scored(test: View) -> Tensor:
        found = once(  # one pass over the training samples serves all powers
            test,
            (train_key, powers, threshold),
            lambda: by_rows(sums, test.features, test.relative_logits, numbers_per_row=per_row),
        )
        return -found[:, powers.index(power)]

    train_key = train.shared("relation", object)
    return scored


@dataclass(frozen=True, eq=False)
class _Reach:
    """How far training samples reach: to their 1st, 2nd, ... neighbor, at the ranks told apart."""

    rows: Tensor  # (n, width), of unit norm
    distances: Tensor  # (n, ranks): ascending; the first is 0
    ranks: Tensor  # (ranks,): the share of training samples that are as near; the first is 0

    @classmethod
    @torch.no_grad()
    def of(cls, features: Tensor) -> _Reach:
        rows = on_unit_sphere(precise(features))
        count = len(rows)
        places = np.minimum((_RANKS * count - 1).astype(int) + 1, count - 1)  # 0 is the sample
        chosen = np.flatnonzero(np.diff(places, prepend=-1) > 0)
        distances = rows.new_zeros((count, 1 + len(chosen)))
        for part in blocks(count, 3 * count):
            found = _distances(rows[part], rows)
            # NumPy sorts several times as fast as PyTorch does on a CPU.
            ordered = (
                torch.from_numpy(np.sort(found.numpy(), axis=1))
                if found.device.type == "cpu"
                else found.sort(1).values
            )
            distances[part, 1:] = ordered[:, torch.from_numpy(places[chosen])]
        ranks = torch.from_numpy(np.append(0, _RANKS[chosen])).to(rows)
        return cls(rows, distances, ranks)

    def score(self, features: Tensor, fraction: float) -> Tensor:
        """Rank of each feature among the neighbors of those that it is nearest to."""
        needed = max(1, math.ceil(fraction * len(self.rows) - 1e-9))
        asked = _distances(self.rows, on_unit_sphere(features))
        # The first rank that reaches it and the one before; behind the last, both go on.
        last = len(self.ranks) - 1
        upper = torch.searchsorted(self.distances, asked).clamp(1, last)
        low, high = (self.distances.gather(1, place) for place in (upper - 1, upper))
        step = (asked - low) / (high - low).clamp_min(torch.finfo(low.dtype).tiny)
        found = self.ranks[upper - 1] + (self.ranks[upper] - self.ranks[upper - 1]) * step
        beyond = self.ranks[last] * asked / high.clamp_min(torch.finfo(low.dtype).tiny)
        found = torch.where(asked > self.distances[:, -1:], beyond, found)
        return found.kthvalue(needed, dim=0).values


def _distances(one: Tensor, two: Tensor) -> Tensor:
    """Distances between all rows, by a matrix product."""
    sums = one.square().sum(1)[:, None] + two.square().sum(1)
    return (sums - 2 * (one @ two.T)).clamp_min(0).sqrt()


@detector(
    paper="Angiulli 2020, arXiv:1901.04992; Angiulli, Fassetti & Zupi 2026, CF-OOD",
    needs={"features"},
    grid={"fraction": (0.001, 0.005, 0.01, 0.05), "share": (0.1,)},
)
def cfood(train: View, *, fraction: float = 0.01, share: float = 0.1) -> Scorer:
    """How far down training samples must go in their neighbors to have the sample among them.

    The smallest k / n such that at least the `fraction` of the n training samples are as near to
    the sample as to their k-th neighbor among each other, on features of unit norm. Computed at the
    230 values of k / n between 0.001 and 0.99 that OpenOOD has, which takes the next larger one (1
    behind the last); here ranks in between are interpolated, and go on in proportion to the
    distance, so that samples do not tie. A fixed random share of the training samples is compared
    with, but never fewer than 2,000 if there are as many.
    """
    require_range("cfood", "fraction", fraction, above=0, at_most=1)
    require_range("cfood", "share", share, above=0, at_most=1)
    require_range("cfood", "number of training samples", len(train), at_least=2)
    kept = min(len(train), max(round(share * len(train)), _FEWEST))
    reach = train.shared(("reach", kept), lambda: _Reach.of(drawn_share(train, kept)))

    def score(features: Tensor) -> Tensor:
        return reach.score(features, fraction)

    return lambda test: by_rows(score, test.features, numbers_per_row=6 * kept)
