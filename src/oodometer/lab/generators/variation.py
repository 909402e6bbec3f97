"""The images of a generator as a variation, to search among."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from oodometer.lab.generators.cards import Drawing, GeneratorCard
from oodometer.lab.search.variations import Variation, generated

_RANDOM = (
    "The generator draws its noise anew for every image, as published: the images that are "
    "returned are not those that were scored on the way."
)


def generator_variation(
    card: GeneratorCard, part: nn.Module, drawing: Drawing, shape: tuple[int, ...]
) -> Variation:
    """The images that the part of a network makes of points; `shape` is that of an image.

    Random noise comes from a seed of its own, and leaves the global random state alone.
    """
    noise = torch.Generator().manual_seed(0)

    def make(points: Tensor) -> Tensor:
        place = next(part.parameters()).device
        if not drawing.random_noise:
            return card.images(part, points.to(place), drawing).to(points.device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**62, (), generator=noise)))
            return card.images(part, points.to(place), drawing).to(points.device)

    made = generated(make, card.dimensions(part), space=card.space, name=card.name)
    return replace(made, note=_RANDOM if drawing.random_noise else "", shape=shape)
