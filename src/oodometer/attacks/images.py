"""Data of a user as images that can be varied."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from oodometer.errors import UserError
from oodometer.lab.data.own_data import OwnData


def images_of(name: str, data: OwnData) -> Tensor:
    """A data set as floats in [0, 1], before normalization."""
    given = data.sets[name]
    if hasattr(given, "floats"):
        return in_unit_range(name, torch.from_numpy(np.array(given.floats())))
    if isinstance(given, tuple):
        given = given[0]
    if not isinstance(given, Tensor | np.ndarray):
        raise UserError(
            f"Data set '{name}' is a {type(given).__name__}: a search varies images, so give the "
            "name or path of images, or an array (n, channels, height, width)."
        )
    return in_unit_range(name, torch.as_tensor(given))


def in_unit_range(name: str, images: Tensor) -> Tensor:
    """Images as floats; refuse those that are not in [0, 1]."""
    if images.dim() != 4 or not len(images):
        raise UserError(
            f"Data set '{name}' must be images (n, channels, height, width), got shape "
            f"{tuple(images.shape)}."
        )
    floats = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    if not (floats.min() >= 0 and floats.max() <= 1):
        raise UserError(
            f"Images of '{name}' must lie in [0, 1] to be varied, but they are from "
            f"{floats.min():.3g} to {floats.max():.3g}: give them before normalization, and the "
            "mean and std."
        )
    return floats


def labels_of(data: OwnData) -> Tensor | None:
    """The labels of the training data, if there are some."""
    given = data.sets["train"]
    labels = getattr(given, "labels", given[1] if isinstance(given, tuple) else None)
    return None if labels is None else torch.as_tensor(np.asarray(labels))
