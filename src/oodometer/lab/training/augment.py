"""Augmentations for whole batches: float images (n, channels, height, width) in [0, 1].

All randomness comes from the generator that is passed in. Defaults are those of torchvision for
`crop_flip` and of albumentations 1.x for the rest, with a horizontal flip after each but `none`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from oodometer.errors import UserError
from oodometer.lab.options import choose, require
from oodometer.lab.training import color

Change = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True, eq=False)
class Augmentation:
    """A random change of images, and of their targets where it mixes them."""

    name: str
    change: Change | None = None  # of images, each on its own
    probability: float = 1.0  # with which each image gets the change
    flip: float = 0.0  # probability of a horizontal flip
    alpha: float | None = None  # of mixup's Beta distribution; None: images are not mixed
    classes: int | None = None

    def __call__(
        self, images: Tensor, targets: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return changed copies; targets are class numbers (n,) or probabilities (n, classes)."""
        if images.ndim != 4 or not images.is_floating_point():
            raise UserError(
                "Images to augment must be floats of shape (n, channels, height, width), got "
                f"{images.dtype} of shape {tuple(images.shape)}."
            )
        if targets.ndim not in (1, 2) or len(targets) != len(images):
            raise UserError(
                f"{len(images)} images need targets of shape (n,) or (n, classes), got "
                f"{tuple(targets.shape)}."
            )
        # Flip first: every change here is as likely as its mirror image, so the order is free.
        result = _some(images, self.flip, lambda part, _: part.flip(3), generator)
        if self.change is not None:
            result = _some(result, self.probability, self.change, generator)
        if self.alpha is not None:
            return _mix(result, self._probabilities(targets), self.alpha, generator)
        return result, targets

    def _probabilities(self, targets: Tensor) -> Tensor:
        if targets.ndim == 2:
            return targets
        if self.classes is None:
            raise UserError(
                f"'{self.name}' mixes targets: give them as probabilities (n, classes), or say "
                "how many classes there are."
            )
        return functional.one_hot(targets, self.classes).to(torch.get_default_dtype())


def none(classes: int | None = None) -> Augmentation:
    """Images as they are."""
    return Augmentation("none")


def crop_flip(
    classes: int | None = None, *, padding: int = 4, flip: float = 0.5, per: str = "image"
) -> Augmentation:
    """A random window of the image with a black border of `padding` pixels, and a flip.

    With ``per="batch"``, all images of a batch have the same window of the image mirrored at its
    border, and are flipped or not together: a tenth of the time, and nearly as good.
    """
    require(padding >= 0, "padding", padding, "at least 0")
    require(per in ("image", "batch"), "per", per, "image or batch")
    if per == "batch":
        chance = _chance(flip)
        return Augmentation(
            "crop_flip", lambda part, random: _shift_together(part, padding, chance, random)
        )
    return Augmentation(
        "crop_flip",
        lambda part, random: crop(part, *_offsets(part, padding, random)),
        flip=_chance(flip),
    )


def affine(
    classes: int | None = None,
    *,
    scale: float = 0.1,
    translate: float = 0.1,
    rotate: float = 15.0,
    shear: float = 10.0,
    probability: float = 0.5,
    flip: float = 0.5,
) -> Augmentation:
    """A random affine map about the centre, bilinear, black outside, and a flip.

    Uniform and independent per image: both scales in 1 -+ scale, both shifts in -+ translate of the
    size, the angle in -+ rotate and both shears in -+ shear degrees. The defaults are what
    albumentations 1.x takes for ``Affine()``, with its probability of 0.5.
    """
    require(0 <= scale < 1, "scale", scale, "from 0 to less than 1")
    require(translate >= 0, "translate", translate, "at least 0")
    require(0 <= shear < 45, "shear", shear, "from 0 to less than 45 degrees")

    def change(part: Tensor, random: torch.Generator) -> Tensor:
        height, width = part.shape[2:]
        drawn = _uniform(part, 7, random)
        matrices = affine_matrices(
            1 + scale * drawn[:2],
            math.radians(rotate) * drawn[2],
            math.radians(shear) * drawn[3:5],
            translate * torch.stack([width * drawn[5], height * drawn[6]]),
        )
        return warp(part, matrices)

    return Augmentation("affine", change, _chance(probability), _chance(flip))


def color_jitter(
    classes: int | None = None,
    *,
    brightness: float = 0.2,
    contrast: float = 0.2,
    saturation: float = 0.2,
    hue: float = 0.2,
    probability: float = 0.5,
    flip: float = 0.5,
) -> Augmentation:
    """Brightness, contrast, saturation and hue in a random order, and a flip.

    Factors are uniform in 1 -+ the setting, the shift of hue in -+ hue of the full circle; the
    defaults are those of albumentations 1.x, with its probability of 0.5. Grey images have neither
    saturation nor hue, so only the first two change them.
    """
    ranges = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
    for name, value in ranges.items():
        require(0 <= value <= 1, name, value, "between 0 and 1")
    require(0 <= hue <= 0.5, "hue", hue, "between 0 and 0.5")

    def change(part: Tensor, random: torch.Generator) -> Tensor:
        if part.shape[1] not in (1, 3):
            raise UserError(f"color_jitter needs grey or RGB images, got {part.shape[1]} channels.")
        drawn = _uniform(part, 4, random)
        factors = [1 + value * row for value, row in zip(ranges.values(), drawn, strict=False)]
        factors.append(hue * drawn[3])
        return color.jitter(part, factors, torch.rand(len(part), 4, generator=random).argsort(1))

    return Augmentation("color_jitter", change, _chance(probability), _chance(flip))


def coarse_dropout(
    classes: int | None = None,
    *,
    holes: int = 5,
    size: int = 3,
    min_holes: int = 0,
    min_size: int = 0,
    probability: float = 0.5,
    flip: float = 0.5,
) -> Augmentation:
    """Black rectangles anywhere in the image, and a flip.

    Their number is uniform from `min_holes` to `holes`, height and width each from `min_size` to
    `size`. A minimum of 0 means as many, or as large, as the maximum: so does albumentations 1.x
    where only maxima are given. After DeVries & Taylor 2017, arXiv:1708.04552.
    """
    require(holes >= 1, "holes", holes, "at least 1")
    require(size >= 1, "size", size, "at least 1")
    require(0 <= min_holes <= holes, "min_holes", min_holes, f"from 0 to {holes}")
    require(0 <= min_size <= size, "min_size", min_size, f"from 0 to {size}")

    def change(part: Tensor, random: torch.Generator) -> Tensor:
        count = len(part)
        many = _integers(min_holes or holes, holes, (count, 1), random)
        present = torch.arange(holes) < many
        covers = []
        for length in part.shape[2:]:
            largest = min(size, length)
            extent = _integers(min(min_size or size, largest), largest, (count, holes), random)
            # Every place where the whole hole fits is as likely.
            start = (torch.rand(count, holes, generator=random) * (length - extent + 1)).long()
            place = torch.arange(length)
            inside = (place >= start[..., None]) & (place < (start + extent)[..., None])
            covers.append(inside & present[..., None])
        dark = covers[0].float().transpose(1, 2) @ covers[1].float() > 0
        return part.masked_fill(dark[:, None].to(part.device), 0)

    return Augmentation("coarse_dropout", change, _chance(probability), _chance(flip))


def crop_and_pad(
    classes: int | None = None, *, pixels: int = 3, probability: float = 1.0, flip: float = 0.5
) -> Augmentation:
    """Each side cropped or padded with black by up to `pixels`, then resized back, and a flip.

    The four sides are independent and uniform over the whole numbers from -pixels (crop) to pixels
    (pad); the resizing is bilinear, as in albumentations with ``keep_size``.
    """
    require(pixels >= 0, "pixels", pixels, "at least 0")

    def change(part: Tensor, random: torch.Generator) -> Tensor:
        if 2 * pixels >= min(part.shape[2:]):
            raise UserError(
                f"crop_and_pad could crop {2 * pixels} pixels from images of {part.shape[2]} x "
                f"{part.shape[3]}: make pixels smaller."
            )
        return resize_sides(part, _integers(-pixels, pixels, (len(part), 4), random))

    return Augmentation("crop_and_pad", change, _chance(probability), _chance(flip))


def mixup(classes: int | None = None, *, alpha: float = 1.0, flip: float = 0.5) -> Augmentation:
    """Images and targets mixed with those of another image of the batch, after a flip.

    One share from Beta(alpha, alpha) for the whole batch. Zhang et al. 2018, arXiv:1710.09412.
    """
    require(alpha > 0, "alpha", alpha, "more than 0")
    return Augmentation("mixup", flip=_chance(flip), alpha=alpha, classes=classes)


KNOWN: dict[str, Callable[..., Augmentation]] = {
    made.__name__: made
    for made in (none, crop_flip, affine, color_jitter, coarse_dropout, crop_and_pad, mixup)
}


def augmentation(text: str, classes: int | None = None) -> Augmentation:
    """Return what a study names, such as ``crop_flip(padding=4)``; mixup needs `classes`.

    >>> augmentation("mixup(alpha=0.4)", classes=10).alpha
    0.4
    """
    return choose("augmentation", text, KNOWN)(classes)


def crop(images: Tensor, top: Tensor, left: Tensor, padding: int) -> Tensor:
    """Return the window of each image that starts at `top`, `left` of it with a black border."""
    height, width = images.shape[2:]
    padded = functional.pad(images, (padding, padding, padding, padding))
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # a view of all windows, no copy
    return windows[torch.arange(len(images), device=images.device), :, top, left]


def _shift_together(images: Tensor, padding: int, flip: float, random: torch.Generator) -> Tensor:
    """Return one window of all images, mirrored at their borders, and flip all of them or none."""
    height, width = images.shape[2:]
    if padding >= min(height, width):
        raise UserError(
            f"crop_flip cannot mirror {padding} pixels at the border of images of {height} x "
            f"{width}: make padding smaller."
        )
    padded = functional.pad(images, (padding, padding, padding, padding), mode="reflect")
    top, left = _integers(0, 2 * padding, (2,), random).tolist()
    window = padded[:, :, top : top + height, left : left + width]
    turned = torch.rand((), generator=random).item() < flip
    return window.flip(3) if turned else window.clone()


def affine_matrices(scales: Tensor, angle: Tensor, shears: Tensor, shifts: Tensor) -> Tensor:
    """Return maps (n, 2, 3) from places in the old image to the new, in pixels from the centre.

    Shear along y, then scale and shear along x, then turn, then shift; first rows are x. Angles
    are in radians. This is the composition of albumentations 1.x.
    """
    turned = angle + shears[0]
    first = torch.stack(
        [
            torch.stack([scales[0] * angle.cos(), -scales[1] * turned.sin()], dim=-1),
            torch.stack([scales[0] * angle.sin(), scales[1] * turned.cos()], dim=-1),
        ],
        dim=-2,
    )
    zero, one = torch.zeros_like(angle), torch.ones_like(angle)
    second = torch.stack(
        [
            torch.stack([shears[1].cos(), zero], dim=-1),
            torch.stack([shears[1].sin(), one], dim=-1),
        ],
        dim=-2,
    )
    return torch.cat([first @ second, shifts.T[..., None]], dim=2)


def warp(images: Tensor, matrices: Tensor) -> Tensor:
    """Map each image by its matrix (n, 2, 3), bilinear, black outside; see `affine_matrices`."""
    inverse = torch.linalg.inv(matrices[:, :, :2])
    shift = -(inverse @ matrices[:, :, 2:])
    y, x = (
        torch.arange(length, dtype=images.dtype, device=images.device) - (length - 1) / 2
        for length in images.shape[2:]
    )
    places = []
    for row, start in zip(inverse.unbind(1), shift.unbind(1), strict=True):
        along_y = (row[:, 1:] * y + start)[:, :, None]
        places.append(along_y + (row[:, :1] * x)[:, None, :])
    return _sample(images, *places)


def resize_sides(images: Tensor, sides: Tensor) -> Tensor:
    """Pad (or, if negative, crop) top, right, bottom, left (n, 4), and resize back, bilinear."""
    top, right, bottom, left = sides.T
    y = _resizing(top, bottom, images.shape[2]).to(images)[:, :, None]
    x = _resizing(left, right, images.shape[3]).to(images)[:, None, :]
    return _sample(images, x, y)


def _resizing(before: Tensor, after: Tensor, length: int) -> Tensor:
    """Places (n, length) in one side that its resized self is read from, from the centre."""
    total = (length + before + after)[:, None]
    place = (torch.arange(length) + 0.5) * total / length - 0.5
    # Up to the border of what was cropped or padded, not beyond, as resizing does.
    place = torch.minimum(place.clamp(min=0), total - 1.0)
    return place - before[:, None] - (length - 1) / 2


def _sample(images: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Read images bilinearly at places in pixels from the centre; outside they are black."""
    height, width = images.shape[2:]
    grid = images.new_empty(len(images), height, width, 2)
    grid[..., 0] = x * (2 / width)
    grid[..., 1] = y * (2 / height)
    result = functional.grid_sample(images, grid, padding_mode="zeros", align_corners=False)
    # Cut what rounding put outside the range of the images and black.
    low, high = images.aminmax()
    return result.clamp_(low.clamp(max=0).item(), high.clamp(min=0).item())


def _mix(
    images: Tensor, targets: Tensor, alpha: float, random: torch.Generator
) -> tuple[Tensor, Tensor]:
    from scipy.special import betaincinv  # PyTorch's own Beta takes no generator

    drawn = torch.rand((), generator=random, dtype=torch.float64).item()
    share = float(betaincinv(alpha, alpha, drawn))
    partner = torch.randperm(len(images), generator=random).to(images.device)
    return tuple(torch.lerp(part[partner], part, share) for part in (images, targets))  # type: ignore[return-value]


def _some(images: Tensor, chance: float, change: Change, random: torch.Generator) -> Tensor:
    """Return a copy in which each image is changed with this probability."""
    if chance == 0:
        return images.clone()
    if chance == 1:
        return change(images, random)
    rows = (torch.rand(len(images), generator=random) < chance).nonzero()[:, 0].to(images.device)
    result = images.clone()
    if len(rows):
        result[rows] = change(images[rows], random)
    return result


def _offsets(images: Tensor, padding: int, random: torch.Generator) -> tuple[Tensor, Tensor, int]:
    top, left = _integers(0, 2 * padding, (2, len(images)), random).to(images.device)
    return top, left, padding


def _uniform(images: Tensor, rows: int, random: torch.Generator) -> Tensor:
    """Numbers uniform in [-1, 1), one per image in each row."""
    drawn = torch.rand(rows, len(images), generator=random, dtype=torch.float64)
    return (2 * drawn - 1).to(images)


def _integers(low: int, high: int, shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    return torch.randint(low, high + 1, shape, generator=random)


def _chance(probability: float) -> float:
    require(0 <= probability <= 1, "probability", probability, "between 0 and 1")
    return probability
