"""Chains of latent points, all moved at once, and the lowest point that each has visited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oodometer.lab.search.energy import Energy
from oodometer.lab.search.variations import Variation

Arrays = dict[str, NDArray[Any]]
Bounds = Literal["reflect", "clamp"]


@dataclass(eq=False)
class Chains:
    """One chain per given image.

    `latent` and `energy` are where the chains are, `lowest` and `lowest_energy` the first point of
    the lowest energy that each visited. `own` is what a method remembers from step to step.
    """

    variation: Variation
    random: torch.Generator
    latent: Tensor
    energy: Tensor
    lowest: Tensor
    lowest_energy: Tensor
    trace: list[Tensor]  # energies after each step, the start first
    accepted: Tensor  # moves per chain
    own: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def begin(
        cls, energy: Energy, variation: Variation, count: int, seed: int, *, at_random: bool
    ) -> Chains:
        """Start at the point that leaves images as they are, or at random."""
        random = torch.Generator().manual_seed(seed)
        if at_random or variation.start is None:
            latent = draw(variation, count, random)
        else:
            latent = variation.start.to(torch.float32).repeat(count, 1)
        energies = energy.of(latent)
        return cls(
            variation,
            random,
            latent,
            energies,
            latent.clone(),
            energies.clone(),
            [energies.to(torch.float32)],
            torch.zeros(count, dtype=torch.int64),
        )

    @property
    def steps(self) -> int:
        """How many steps have been made."""
        return len(self.trace) - 1

    def visit(self, latent: Tensor, energy: Tensor) -> None:
        """Remember the points that are lower than all before; several may belong to a chain."""
        count = len(self.latent)
        for points, values in zip(
            torch.split(latent, count), torch.split(energy, count), strict=True
        ):
            lower = values < self.lowest_energy
            self.lowest[lower] = points[lower]
            self.lowest_energy[lower] = values[lower]

    def move(self, latent: Tensor, energy: Tensor, where: Tensor) -> None:
        """Move the chains that `where` names."""
        self.latent = torch.where(where[:, None], latent, self.latent)
        self.energy = torch.where(where, energy, self.energy)
        self.accepted += where

    def snapshot(self) -> Arrays:
        """All that the next step depends on, as arrays."""
        arrays = {
            "latent": self.latent.numpy(),
            "energy": self.energy.numpy(),
            "lowest": self.lowest.numpy(),
            "lowest_energy": self.lowest_energy.numpy(),
            "trace": torch.stack(self.trace).numpy(),
            "accepted": self.accepted.numpy(),
            "random": self.random.get_state().numpy(),
        }
        return arrays | {f"own/{name}": value.numpy() for name, value in self.own.items()}

    @classmethod
    def restore(cls, variation: Variation, arrays: Mapping[str, NDArray[Any]]) -> Chains:
        """Go on where a snapshot was taken."""
        parts = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
        random = torch.Generator()
        random.set_state(parts["random"])
        return cls(
            variation,
            random,
            parts["latent"],
            parts["energy"],
            parts["lowest"],
            parts["lowest_energy"],
            list(parts["trace"].unbind(0)),
            parts["accepted"],
            {n.removeprefix("own/"): v for n, v in parts.items() if n.startswith("own/")},
        )


def draw(variation: Variation, count: int, random: torch.Generator) -> Tensor:
    """Points drawn uniformly from the box or the sphere."""
    if variation.space == "box":
        return torch.rand(count, variation.dimensions, generator=random)
    normal = torch.randn(count, variation.dimensions, generator=random)
    return torch.nn.functional.normalize(normal, dim=1)


def inside(variation: Variation, latent: Tensor, bounds: Bounds = "reflect") -> Tensor:
    """Bring points that have been moved back into the space.

    On the sphere to length 1. In the box, "reflect" mirrors at its faces, which keeps a symmetric
    proposal symmetric; "clamp" cuts, as published, which makes chains stick to the faces.
    """
    if variation.space == "sphere":
        return torch.nn.functional.normalize(latent, dim=1)
    if bounds == "clamp":
        return latent.clamp(0, 1)
    turned = latent.remainder(2.0)
    return torch.minimum(turned, 2 - turned)


def effective_samples(trace: Tensor) -> Tensor:
    """Effective sample sizes (chains,) of traces (steps, chains): n / (1 + 2 sum of correlations).

    Correlations are added in pairs of neighbouring lags as long as these are positive and do not
    grow (Geyer 1992, Practical Markov Chain Monte Carlo).
    """
    values = trace.to(torch.float64)
    count = len(values)
    values = values - values.mean(0)
    power = torch.fft.rfft(values, n=2 * count, dim=0).abs().square()
    covariance = torch.fft.irfft(power, dim=0)[:count] / count
    correlation = covariance / covariance[0].clamp(min=torch.finfo(torch.float64).tiny)
    pairs = correlation[: count // 2 * 2].view(count // 2, 2, -1).sum(1)
    falling = torch.cummin(pairs, dim=0).values
    kept = torch.where((falling > 0).cumprod(0).bool(), falling, 0.0)
    size = count / (2 * kept.sum(0) - 1).clamp(min=1 / count)
    still = covariance[0] <= 0  # a chain that never moved
    return torch.where(still, 1.0, size.clamp(1, count))
