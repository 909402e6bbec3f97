"""Outlier sets that are made from the in-distribution data, named for what they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oodometer.errors import UserError, unknown
from oodometer.lab.datasets import Images, Source, load_outlier_file

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
        rotated,
        inverted,
        shuffled_pixels,
        held_out_classes,
    )
}


def load_outliers(name: str, source: Source) -> Images:
    """Make a known outlier set for this source, or read one from an .npz file."""
    if name in KNOWN:
        return KNOWN[name](source)
    if not name.endswith(".npz"):
        raise unknown("outlier set", name, [*KNOWN, "path/to/your.npz"])
    images = load_outlier_file(name)
    if images.pixels.shape[1:] != source.train.pixels.shape[1:]:
        raise UserError(
            f"Images of outlier set '{images.name}' have shape {images.pixels.shape[1:]}, but "
            f"'{source.name}' has {source.train.pixels.shape[1:]}: both must agree."
        )
    if images.name == source.name:
        raise UserError(
            f"Outlier set '{name}' has the name of the in-distribution data, '{source.name}': "
            "rename the file."
        )
    return images


def _outliers(name: str, pixels: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Images:
    return Images(name, pixels, np.full(len(pixels), -1))
