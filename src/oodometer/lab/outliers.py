"""Outlier sets: made from the in-distribution data, or read and brought to their shape."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError, unknown
from oodometer.lab.cards import CARDS
from oodometer.lab.datasets import Images, conform, load_part
from oodometer.lab.sources import Source, at_most
from oodometer.lab.splits import outlier_draws

_NOISE_SEED = 20_240_101  # noise is data: the same in every run and every study


def uniform_noise(source: Source) -> Images:
    """Every pixel uniform in [0, 1], as many images as the test set has."""
    rng = np.random.default_rng(_NOISE_SEED)
    pixels = rng.uniform(0, 1, source.test.pixels.shape).astype(np.float32)
    return _outliers("uniform noise", pixels)


def gaussian_noise(source: Source) -> Images:
    """Every pixel normal with mean 0.5 and deviation 0.25, clipped to [0, 1]."""
    rng = np.random.default_rng(_NOISE_SEED + 1)
    pixels = rng.normal(0.5, 0.25, source.test.pixels.shape).clip(0, 1).astype(np.float32)
    return _outliers("Gaussian noise", pixels)


def wide_gaussian_noise(source: Source) -> Images:
    """Every pixel normal with mean 0.5 and deviation 1, clipped to [0, 1]: mostly 0 or 1."""
    rng = np.random.default_rng(_NOISE_SEED + 3)
    pixels = rng.normal(0.5, 1, source.test.pixels.shape).clip(0, 1).astype(np.float32)
    return _outliers("wide Gaussian noise", pixels)


def rotated(source: Source) -> Images:
    """The test images turned by 90 degrees. Some stay what they were: a 0 is still a 0."""
    pixels = source.test.pixels
    if pixels.shape[2] != pixels.shape[3]:
        raise UserError(
            f"Outlier set 'rotated' needs square images; '{source.name}' has {pixels.shape[2:]}."
        )
    turned = np.ascontiguousarray(np.rot90(pixels, axes=(2, 3)))
    return _outliers(f"rotated {source.name}", turned)


def inverted(source: Source) -> Images:
    """The test images with dark and light exchanged, within the range of the training pixels."""
    low, high = source.train.pixels.min(), source.train.pixels.max()
    if source.test.pixels.dtype == np.uint8:
        turned = int(low) + int(high) - source.test.pixels.astype(np.int16)
        return _outliers(f"inverted {source.name}", turned.clip(0, 255).astype(np.uint8))
    return _outliers(f"inverted {source.name}", low + high - source.test.pixels)


def shuffled_pixels(source: Source) -> Images:
    """The test images, the pixels of each in a random order of its own: same histogram."""
    rng = np.random.default_rng(_NOISE_SEED + 2)
    count, channels = source.test.pixels.shape[:2]
    flat = source.test.pixels.reshape(count, channels, -1)
    order = rng.random((count, 1, flat.shape[2])).argsort(axis=2)
    shuffled = np.take_along_axis(flat, np.broadcast_to(order, flat.shape), axis=2)
    return _outliers(f"pixel-shuffled {source.name}", shuffled.reshape(source.test.pixels.shape))


def held_out_classes(source: Source) -> Images:
    """Images of the classes that the classifier never saw: the nearest outliers here."""
    if source.held_out is None:
        raise UserError(
            "Outlier set 'held_out_classes' needs classes to hold out: set base.held_out_classes, "
            "for example to [8, 9]."
        )
    return source.held_out


KNOWN: dict[str, Callable[[Source], Images]] = {
    made.__name__: made
    for made in (
        uniform_noise,
        gaussian_noise,
        wide_gaussian_noise,
        rotated,
        inverted,
        shuffled_pixels,
        held_out_classes,
    )
}


def load_outliers(name: str, source: Source) -> Images:
    """Make a known outlier set for this source, or read the test part of a data set.

    What is read is brought to the shape of the source's images, see `conform`.
    """
    if name in KNOWN:
        return _drawn(KNOWN[name](source), source)
    shape = source.train.pixels.shape[1:]
    bare = name.partition("(")[0]
    if bare not in CARDS and "/" not in bare and not Path(bare).suffix and not Path(bare).exists():
        raise unknown("outlier set", name, [*KNOWN, *CARDS, "path/to/your/data"])
    images = load_part(name, "test", size=shape[1:])
    if images.name == source.name:
        raise UserError(
            f"Outlier set '{name}' has the name of the in-distribution data, '{source.name}': "
            "rename the file."
        )
    fitting = conform(_drawn(images, source), *shape)
    return _outliers(images.name, fitting.pixels)


def _drawn(images: Images, source: Source) -> Images:
    """As many outliers as the source wants, and which ones: the draws of the instability paper."""
    if source.ood_draw is None:
        return at_most(images, source.test_size)
    draws = outlier_draws(len(images), min(source.test_size or len(images), len(images)))
    return images.take(next(itertools.islice(draws, source.ood_draw, None)))


def _outliers(name: str, pixels: NDArray[Any]) -> Images:
    return Images(name, pixels, np.full(len(pixels), -1))
