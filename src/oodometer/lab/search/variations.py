"""Variation models: the images that a search may show to a detector.

A variation maps latent points z to images. Those in a box are in [0, 1]^D, whatever the bounds of
the parameters; those on a sphere have length 1. After Yoon, Choi, Lee, Noh & Park 2022,
"Evaluating Out-of-Distribution Detectors Through Adversarial Generation of Outliers".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from oodometer.errors import UserError
from oodometer.lab.options import choose, require
from oodometer.lab.search.recolor import recolor
from oodometer.lab.training.augment import affine_matrices, warp

Space = Literal["box", "sphere"]
Make = Callable[[Tensor, Tensor], Tensor]  # (images, latent) -> images in [0, 1]
Generator = Callable[[Tensor], Tensor]  # latent -> images

_PUBLISHED_SIDE = 32  # pixels of the images for which shifts are published


@dataclass(frozen=True, eq=False)
class Variation:
    """How images vary with a latent point.

    `make` takes the images to vary, one per latent point, and the points, (n, dimensions). One
    that makes images out of nothing takes no notice of the images.
    """

    name: str
    dimensions: int
    make: Make
    space: Space = "box"
    start: Tensor | None = None  # the point that leaves images as they are, if there is one
    parameters: tuple[str, ...] = ()  # what each coordinate is
    conditional: bool = True  # whether it varies given images
    scale: float = 1.0  # how far a pixel moves per unit of a coordinate, if that is fixed
    note: str = ""  # what a reader of results has to know
    shape: tuple[int, ...] | None = None  # of its images, if it makes only these

    def images(self, given: Tensor, latent: Tensor) -> Tensor:
        """Return the image of each latent point; refuse anything else."""
        made = self.make(given, latent)
        if not isinstance(made, Tensor) or made.dim() != 4 or len(made) != len(latent):
            what = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise UserError(
                f"Variation '{self.name}' must make {len(latent)} images (n, channels, height, "
                f"width) of as many points, got {what}."
            )
        return made.clamp(0, 1)


@runtime_checkable
class HasVariation(Protocol):
    """What makes images of points, such as a fitted generator."""

    @property
    def variation(self) -> Variation:
        """Its images, to search among."""


def as_variation(given: object, shape: tuple[int, ...] | None = None) -> Variation:
    """The variation that is given, by its text, or as part of something else.

    `shape` is that of the images to vary, or of those that detectors take.
    """
    if isinstance(given, str):
        return make_variation(given, shape or ())
    made = given.variation if isinstance(given, HasVariation) else given
    if not isinstance(made, Variation):
        raise UserError(
            f"A variation must be a name such as affine, a Variation or a fitted generator, got "
            f"{type(given).__name__}."
        )
    if shape and made.shape and made.shape != shape:
        raise UserError(f"Variation '{made.name}' makes images of shape {made.shape}, not {shape}.")
    return made


def affine(
    shape: tuple[int, ...],
    *,
    angle: float = 45.0,
    shift: float = 10.0,
    smallest: float = 0.9,
    largest: float = 1.5,
    shear: float = 30.0,
) -> Variation:
    """Turn, shift, scale and shear, five parameters; black outside, bilinear.

    Bounds as published: angle ∓45°, both shifts ∓10 pixels of 32, scale 0.9 to 1.5, shear along x
    ∓30°. Shifts grow with the size of the images.
    """
    _, height, width = _image_shape("affine", shape)
    require(0 < smallest <= 1 <= largest, "The scales of affine", (smallest, largest), "around 1")
    require(0 <= shear < 90, "The shear of affine", shear, "from 0 to less than 90 degrees")
    across, down = (shift * side / _PUBLISHED_SIDE for side in (width, height))
    low = torch.tensor([-math.radians(angle), -across, -down, smallest, -math.tan(_rad(shear))])
    high = torch.tensor([math.radians(angle), across, down, largest, math.tan(_rad(shear))])

    def make(images: Tensor, latent: Tensor) -> Tensor:
        turn, x, y, scale, skew = (low.to(latent) + latent * (high - low).to(latent)).unbind(1)
        matrices = _matrices(turn, scale, skew, torch.stack([x, y]))
        return _unless_start(latent, start, images, warp(images, matrices.to(images)))

    start = _place(low, high, [0.0, 0.0, 0.0, 1.0, 0.0])
    names = ("angle", "shift x", "shift y", "scale", "shear")
    return Variation("affine", 5, make, start=start, parameters=names)


def color(
    shape: tuple[int, ...],
    *,
    brightness: float = 0.5,
    contrast: float = 0.5,
    saturation: float = 1.0,
    hue: float = 0.5,
) -> Variation:
    """Brightness, contrast, saturation and hue, in this order.

    Bounds as published: brightness and contrast 0.5 to 1.5, saturation 0 to 2, hue ∓0.5 of the full
    circle. Grey images have brightness and contrast only.
    """
    channels, _, _ = _image_shape("color", shape)
    if channels not in (1, 3):
        raise UserError(f"Variation 'color' needs grey or RGB images, got {channels} channels.")
    for name, value in (
        ("brightness", brightness),
        ("contrast", contrast),
        ("saturation", saturation),
    ):
        require(0 <= value <= 1, f"The {name} of color", value, "between 0 and 1")
    require(0 <= hue <= 0.5, "The hue of color", hue, "between 0 and 0.5")
    steps = (
        ("brightness", 1 - brightness, 1 + brightness, 1.0),
        ("contrast", 1 - contrast, 1 + contrast, 1.0),
        ("saturation", 1 - saturation, 1 + saturation, 1.0),
        ("hue", -hue, hue, 0.0),
    )[: 4 if channels == 3 else 2]
    low = torch.tensor([step[1] for step in steps])
    high = torch.tensor([step[2] for step in steps])

    def make(images: Tensor, latent: Tensor) -> Tensor:
        factors = (low.to(latent) + latent * (high - low).to(latent)).to(images)
        return _unless_start(latent, start, images, recolor(images, factors))

    start = _place(low, high, [step[3] for step in steps])
    return Variation(
        "color",
        len(steps),
        make,
        start=start,
        parameters=tuple(step[0] for step in steps),
        note=""
        if channels == 3
        else "Grey images have neither saturation nor hue: of color, only "
        "brightness and contrast vary.",
    )


def linf(shape: tuple[int, ...], *, radius: float = 0.01) -> Variation:
    """Every pixel moves by at most `radius`, and stays in [0, 1]."""
    require(0 < radius <= 1, "The radius of linf", radius, "from above 0 to 1")
    size = math.prod(_image_shape("linf", shape))

    def make(images: Tensor, latent: Tensor) -> Tensor:
        moved = images + radius * (2 * latent - 1).view(images.shape).to(images)
        return moved.clamp(0, 1)

    return Variation("linf", size, make, start=torch.full((size,), 0.5), scale=2 * radius)


def generated(
    generator: Generator, dimensions: int, *, space: Space = "sphere", name: str = "generated"
) -> Variation:
    """The images of a generator z -> images: of a GAN, or of the decoder of an autoencoder.

    z is on the unit sphere, or in the box [0, 1]^D.
    """
    if not callable(generator):
        raise UserError(f"A generator must be a function of points, got {generator!r}.")
    if not isinstance(dimensions, int) or dimensions < 1:
        raise UserError(f"A generator needs at least 1 dimension, got {dimensions!r}.")
    if space not in ("box", "sphere"):
        raise UserError(f"The space of a generator must be 'box' or 'sphere', got {space!r}.")
    return Variation(
        name, dimensions, lambda _, latent: generator(latent), space=space, conditional=False
    )


VARIATIONS: dict[str, Callable[..., Variation]] = {"affine": affine, "color": color, "linf": linf}


def make_variation(text: str, shape: tuple[int, ...]) -> Variation:
    """Return the variation that a text such as ``affine(angle=20)`` names.

    >>> make_variation("color", (1, 28, 28)).parameters
    ('brightness', 'contrast')
    """
    return choose("variation", text, VARIATIONS)(shape)


def _image_shape(name: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise UserError(f"Variation '{name}' varies images (channels, height, width), not {shape}.")
    return shape[0], shape[1], shape[2]


def _rad(degrees: float) -> float:
    return math.radians(degrees)


def _matrices(turn: Tensor, scale: Tensor, skew: Tensor, shifts: Tensor) -> Tensor:
    """Shear along x, then scale and turn about the centre, then shift: maps from old to new."""
    none = torch.zeros(2, len(turn)).to(turn)
    turned = affine_matrices(torch.stack([scale, scale]), turn, none, shifts)
    sheared = turned.clone()
    sheared[:, :, 1] += turned[:, :, 0] * skew[:, None]
    return sheared


def _place(low: Tensor, high: Tensor, values: list[float]) -> Tensor:
    """The latent point at which parameters have these values; where one is fixed, any will do."""
    width = high - low
    return torch.where(width > 0, (torch.tensor(values) - low) / width.clamp(min=1e-12), 0.5)


def _unless_start(latent: Tensor, start: Tensor, images: Tensor, changed: Tensor) -> Tensor:
    """The images themselves where the latent point changes nothing: rounding would."""
    same = (latent == start.to(latent)).all(1)
    return torch.where(same.view(-1, 1, 1, 1), images, changed) if same.any() else changed
