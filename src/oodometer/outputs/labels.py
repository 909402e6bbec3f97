"""Labels as people have them, as the numbers of classes."""

from __future__ import annotations

import torch
from torch import Tensor

from oodometer.errors import UserError


def class_numbers(labels: Tensor) -> Tensor:
    """(n,) int64: the number of each sample's class, -1 where it is not known.

    Whole numbers of any type are taken, NaN for -1, and rows with a single 1 among zeros.
    """
    given = f"shape {tuple(labels.shape)} of {str(labels.dtype)[6:]}"
    flat = labels.reshape(len(labels)) if labels.dim() == 2 and labels.shape[1] == 1 else labels
    if flat.dim() == 2 and len(flat) and not labels.is_complex():
        one_hot = ((flat == 0) | (flat == 1)).all() and (flat.sum(1) == 1).all()
        flat = flat.argmax(1) if one_hot else flat
    if flat.dim() != 1 or labels.is_complex():
        raise UserError(f"labels must be a vector of integers, got {given}.")
    if flat.is_floating_point():
        flat = flat.double()
        flat = torch.where(flat.isnan(), -1.0, flat)
        bad = ((flat != flat.round()) | flat.isinf()).nonzero()
        if len(bad):
            row = int(bad[0])
            raise UserError(
                f"labels must be a vector of integers, but {len(bad)} of {len(flat)} are not, the "
                f"first at row {row}: {float(flat[row]):g}."
            )
    return flat.to(torch.int64)


def require_known(numbers: Tensor, classes: int | None) -> None:
    """Refuse numbers that are none of the classes, nor -1; any will do if these are not known."""
    if not len(numbers):
        return
    low, high = int(numbers.min()), int(numbers.max())
    limit = high if classes is None else classes - 1
    if low >= -1 and high <= limit:
        return
    hint = ""
    if (low, high) == (0, 1):
        hint = ": a binary classifier needs two logits per sample, [0, z] in place of z"
    elif (low, high) == (1, limit + 1):
        hint = ": classes are counted from 0"
    raise UserError(
        f"labels must lie in 0..{limit}, or be -1 for no known class; "
        f"got {low if low < -1 else high}{hint}."
    )


def labels_of_outliers(labels: Tensor, classes: int | None) -> Tensor:
    """Labels that need not be of these classes, and then are of none: -1 for all samples."""
    try:
        numbers = class_numbers(labels)
        require_known(numbers, classes)
    except UserError:
        return torch.full((len(labels),), -1)
    return numbers
