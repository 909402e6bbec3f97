"""Batches for training, cut from samples in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.data.samples import Samples
from oodometer.study import TrainSpec

Augment = Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]


class Feed:
    """Samples in memory, from which batches are cut."""

    def __init__(self, samples: Samples, place: torch.device) -> None:
        self.size = len(samples)
        # Copied if they cannot be written to, which PyTorch warns of.
        self._values = torch.from_numpy(np.require(samples.values, requirements="W"))
        self._labels = torch.from_numpy(np.require(samples.labels, requirements="W"))
        self._place = place

    def batch(
        self,
        rows: Tensor,
        layout: torch.memory_format,
        augment: Augment | None = None,
        chance: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Cut these rows and their targets: images as floats from 0 to 1 in the given layout."""
        inputs, targets = self._values.index_select(0, rows), self._labels.index_select(0, rows)
        if inputs.dtype == torch.uint8:
            inputs = inputs.to(torch.float32).div_(255)
        elif inputs.dtype == torch.int32:  # words
            inputs = inputs.to(torch.int64)
        if augment is not None and chance is not None:
            inputs, targets = augment(inputs, targets, chance)
        return inputs.to(self._place, memory_format=layout), targets.to(self._place)


def require_classes(samples: Samples, classes: int) -> None:
    """Refuse labels that the classifier has no class for."""
    low, high = int(samples.labels.min()), int(samples.labels.max())
    if low < 0 or high >= classes:
        raise UserError(
            f"Labels of '{samples.name}' lie between {low} and {high}, but the classifier has "
            f"the classes 0 to {classes - 1}."
        )


def batch_sizes(spec: TrainSpec, images: int, modules: list[nn.Module]) -> list[int]:
    """The sizes of an epoch's batches.

    Batch normalization knows no spread of one image, so a last batch of one joins the one before.
    """
    full, rest = divmod(images, spec.batch_size)
    sizes = [spec.batch_size] * full + [rest] * bool(rest)
    if not any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in modules):
        return sizes
    if sizes[-1] == 1 and len(sizes) > 1:
        sizes[-2:] = [sizes[-2] + 1]
    if sizes[0] == 1 or sizes[-1] == 1:
        raise UserError(
            f"Network '{spec.network}' has batch normalization, which needs at least 2 images in a "
            f"batch; batch_size is {spec.batch_size}, and there are {images} images to train on."
        )
    return sizes


def make_augment(text: str, classes: int) -> Augment | None:
    """Build the augmentation that a text names; "none" is none."""
    if text == "none":
        return None
    from oodometer.lab.training.augment import augmentation

    return augmentation(text, classes)
