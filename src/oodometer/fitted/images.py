"""Images of a user as samples: bytes, or floats from 0 to 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from oodometer.errors import UserError
from oodometer.lab.data.datasets import load_part
from oodometer.lab.data.inputs import Array, Data, batches_of
from oodometer.lab.data.samples import Images

Pictures = str | Array | Images


def as_images(images: object, labels: object = None, name: str = "images") -> Images:
    """Images as samples: an array or tensor (n, channels, height, width), or (n, height, width).

    A text names a data set, of which the training part is read, with its labels.
    """
    if isinstance(images, str):
        images = load_part(images, "train")
    if isinstance(images, Images):
        return images if labels is None else Images(name, images.pixels, _numbers(labels, name))
    pixels = _array(images)
    if pixels is None or pixels.dtype.kind not in "fu" or pixels.ndim not in (3, 4):
        shape = "" if pixels is None else f" of {pixels.dtype}, shape {pixels.shape}"
        raise UserError(
            f"{name} must be an array or tensor of shape (n, channels, height, width), uint8 or "
            f"float, got {type(images).__name__}{shape}."
        )
    if pixels.dtype.kind == "f":
        pixels = pixels.astype(np.float32, copy=False)
    made = Images(
        name,
        pixels[:, None] if pixels.ndim == 3 else pixels,
        np.full(len(pixels), -1) if labels is None else _numbers(labels, name),
    )
    require_range(made)
    return made


def require_range(images: Images) -> None:
    """Refuse floats that are not pixels from 0 to 1: most models are defined for these only."""
    if images.pixels.dtype == np.uint8:
        return
    low, high = float(images.pixels.min()), float(images.pixels.max())
    if low < 0 or high > 1:
        raise UserError(
            f"Detector models learn from images with values from 0 to 1 (or bytes), but "
            f"'{images.name}' has values from {low:g} to {high:g}: do not normalize them."
        )


def gathered(name: str, data: Images | Data) -> Images:
    """All images of a data set or loader, with their labels."""
    if isinstance(data, Images):
        require_range(data)
        return data
    inputs, labels = [], []
    for batch, known in batches_of(name, data, 256):
        if not isinstance(batch, Tensor):
            raise UserError(f"Detector models take images, but '{name}' yields several inputs.")
        inputs.append(batch.numpy(force=True))
        labels.append(np.full(len(batch), -1) if known is None else known.numpy(force=True))
    if not inputs:
        raise UserError(f"Data set '{name}' is empty.")
    return as_images(np.concatenate(inputs), np.concatenate(labels), name)


def _array(images: object) -> NDArray[Any] | None:
    if isinstance(images, Tensor):
        return images.numpy(force=True)
    return images if isinstance(images, np.ndarray) else None


def _numbers(labels: object, name: str) -> NDArray[np.int64]:
    numbers = _array(labels)
    numbers = np.asarray(labels) if numbers is None else numbers
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise UserError(
            f"Labels of '{name}' must be one whole number per image, got {numbers.dtype} of shape "
            f"{numbers.shape}."
        )
    return numbers.astype(np.int64)
