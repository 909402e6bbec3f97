"""What contrastive learning is made of: random views of images, and the loss between them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from oodometer.lab.training import color

_RATIOS = (3 / 4, 4 / 3)  # of width and height of a crop
_TRIES = 10  # to draw a crop that fits into the image
_RANGES = (0.4, 0.4, 0.4, 0.1)  # of brightness, contrast, saturation and hue


def contrastive_loss(vectors: Tensor, groups: Tensor, temperature: float) -> Tensor:
    """Mean over anchors a of -mean over positives p of log(e^(a p / T) / sum_(j != a) e^(a j / T)).

    Vectors (n, d) are brought to length 1. Positives are the others of the same group: with the
    number of the image as its group NT-Xent (Chen et al. 2020, arXiv:2002.05709), with its class
    SupCon (Khosla et al. 2020, arXiv:2004.11362). Every group has two members at least.
    """
    unit = functional.normalize(vectors, dim=1)
    similarity = unit @ unit.T / temperature
    own = torch.eye(len(unit), dtype=torch.bool, device=unit.device)
    log_share = similarity - similarity.masked_fill(own, -torch.inf).logsumexp(1, keepdim=True)
    positive = (groups[:, None] == groups) & ~own
    return -((log_share * positive).sum(1) / positive.sum(1)).mean()


@dataclass(frozen=True, eq=False)
class Changes:
    """What makes a view of each of n images, or the same for all if there is one."""

    windows: (
        Tensor  # (n, 4): half width and height of the crop, its centre x, y; the image is -1..1
    )
    flipped: Tensor  # (n,)
    jittered: Tensor  # (n,)
    factors: Tensor  # (4, n) of brightness, contrast, saturation and hue
    turns: Tensor  # (n, 4): their order
    grey: Tensor  # (n,)

    def __call__(self, images: Tensor) -> Tensor:
        """Return the views."""
        count = len(images)
        result = images.clone()
        for rows, change in (
            (self._rows(self.jittered, count), self._jitter),
            (self._rows(self.grey, count), lambda part, _: color.luma(part).expand_as(part)),
        ):
            if len(rows):
                result[rows] = change(result[rows], rows)
        return self._cropped(result)

    def _rows(self, chosen: Tensor, count: int) -> Tensor:
        return chosen.expand(count).nonzero()[:, 0]

    def _jitter(self, part: Tensor, rows: Tensor) -> Tensor:
        drawn = rows if len(self.flipped) > 1 else torch.zeros_like(rows)
        factors = self.factors[:, drawn].to(part)
        return color.jitter(part, tuple(factors), self.turns[drawn])

    def _cropped(self, images: Tensor) -> Tensor:
        """Crop, flip and resize back, bilinear."""
        wide, high, x, y = self.windows.to(images).expand(len(images), 4).T
        mirror = 1 - 2 * self.flipped.to(images).expand(len(images))
        places = []
        for half, centre, length in (
            (wide * mirror, x, images.shape[3]),
            (high, y, images.shape[2]),
        ):
            steps = (2 * torch.arange(length).to(images) + 1) / length - 1
            places.append(half[:, None] * steps + centre[:, None])
        across = places[0][:, None, :].expand(-1, images.shape[2], -1)
        down = places[1][:, :, None].expand(-1, -1, images.shape[3])
        grid = torch.stack([across, down], dim=3)
        return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


@dataclass(frozen=True)
class Views:
    """Random views: a crop resized back, a flip, colour jitter, grey."""

    scale: tuple[float, float]  # share of the area that a crop keeps
    flip: float = 0.5  # probabilities
    jitter: float = 0.8
    grey: float = 0.2

    def draw(self, count: int, generator: torch.Generator) -> Changes:
        """Draw a change for each of `count` images."""

        def chance(probability: float) -> Tensor:
            return torch.rand(count, generator=generator) < probability

        factors = 2 * torch.rand(4, count, generator=generator) - 1
        factors *= torch.tensor(_RANGES)[:, None]
        factors[:3] += 1
        return Changes(
            _windows(count, self.scale, generator),
            chance(self.flip),
            chance(self.jitter),
            factors,
            torch.rand(count, 4, generator=generator).argsort(1),
            chance(self.grey),
        )


def _windows(count: int, scale: tuple[float, float], generator: torch.Generator) -> Tensor:
    """Crops with area and logarithm of the ratio uniform: the first of ten draws that fits."""
    low, high = scale
    area = low + (high - low) * torch.rand(_TRIES, count, generator=generator)
    least, most = torch.tensor(_RATIOS).log()
    ratio = (least + (most - least) * torch.rand(_TRIES, count, generator=generator)).exp()
    halves = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()])
    fits = (halves <= 1).all(0)
    first = fits.to(torch.int8).argmax(0)  # 0 if none fits: then it is cut
    half = halves[:, first, torch.arange(count)].clamp_max(1)
    centre = (1 - half) * (2 * torch.rand(2, count, generator=generator) - 1)
    return torch.cat([half, centre]).T


def pair_of_views(images: Tensor, views: Views) -> Tensor:
    """Two views of every image, one after the other, drawn from the global random state."""
    twice = torch.cat([images, images])
    return views.draw(len(twice), torch.default_generator)(twice)
