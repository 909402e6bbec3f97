"""Failure modes: planted ones are counted, also where a search has found them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import oodometer as om
from oodometer.lab.search import make_variation
from oodometer.searches.modes import failure_modes


@pytest.mark.parametrize("dimensions", [2, 5])
@pytest.mark.parametrize("count", [30, 200])
def test_points_that_are_spread_evenly_are_one_group(dimensions: int, count: int) -> None:
    found = [
        failure_modes(np.random.default_rng(seed).random((count, dimensions))) for seed in range(20)
    ]
    assert found.count(1) >= 18  # as many as the rule allows by chance


@pytest.mark.parametrize("bands", [1, 2, 3])
def test_bands_of_one_parameter_are_counted(bands: int) -> None:
    """Everything else is free, as for a detector that is blind for some angles only."""
    random = np.random.default_rng(0)
    points = random.random((240, 2))
    places = np.linspace(0.05, 0.95, bands) if bands > 1 else np.array([0.5])
    points[:, 0] = places[np.arange(240) % bands] + 0.02 * random.standard_normal(240)
    assert failure_modes(points) == bands


def test_a_few_strays_are_no_group() -> None:
    points = np.concatenate([np.full((100, 3), 0.1), np.full((2, 3), 0.9)])
    assert failure_modes(points) == 1
    assert failure_modes(points[:2]) == 0


def test_a_detector_with_two_blind_spots_has_two_failure_modes() -> None:
    """Blind for images turned by 20 to 25 degrees and by -40 to -35, as the search finds."""
    bar = torch.zeros(60, 1, 16, 16)
    bar[:, :, 2:14, 7:9] = 1.0
    variation = make_variation("affine(shift=0, shear=0, smallest=1, largest=1)", (1, 16, 16))
    grid = torch.linspace(-45, 45, 361)
    latent = torch.full((361, 5), 0.5)
    latent[:, 0] = (grid + 45) / 90
    turned = variation.images(bar[:1].expand(361, -1, -1, -1), latent).flatten(1)

    def score(images: Tensor) -> Tensor:
        angles = grid[torch.cdist(images.flatten(1), turned).argmin(1)]
        blind = (angles - 22.5).abs().clamp(max=20).minimum((angles + 37.5).abs().clamp(max=20))
        return blind / 2.5

    known = torch.rand(100, 1, 16, 16, generator=torch.Generator().manual_seed(0)) * 0.01
    result = om.attack_scores(
        {"blind": lambda images: score(images) if images.amax() > 0.5 else images.mean((1, 2, 3))},
        known, {"bars": bar}, variations=variation, method="tempering", steps=150, batch_size=60,
    )  # fmt: skip
    ((_, _, made),) = result.searches
    accepted = made.scores <= 1.0
    assert accepted.mean() > 0.9
    assert failure_modes(made.latent[accepted][:, :1]) == 2
