"""Tensors of numbers that outputs may hold: of which types, finite, and how exact they are."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from oodometer.errors import UserError
from oodometer.outputs.mapped import release_pages, tensor_of

# How far logits may be from head(features), relative to |feature| * |weight row| + |bias|.
# Rounding in a matrix product stays well below; another activation than the true one stays above.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
HALF_TOLERANCE = 2 * torch.finfo(torch.bfloat16).eps
CHUNK = 2**22  # numbers checked at a time, so that validation never doubles the memory
HALF = (torch.float16, torch.bfloat16)  # types that features are saved in, but not computed in


def as_tensor(name: str, value: object) -> Tensor:
    """Return a tensor or an array as a tensor; refuse anything else."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return tensor_of(value)
    if not isinstance(value, Tensor):
        what = f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise UserError(f"{name} must be a tensor or an array of numbers, got {what}.")
    if value.dim() == 0:
        raise UserError(f"{name} is a single number; it needs one row per sample.")
    return value


def require_float(name: str, value: Tensor, dimensions: int | None = None) -> None:
    """Refuse a tensor that is not finite floats of the wanted number of dimensions."""
    if value.dtype not in TOLERANCE:
        allowed = " or ".join(str(dtype)[6:] for dtype in TOLERANCE)
        raise UserError(f"{name} must be {allowed}, got {str(value.dtype)[6:]}.")
    if dimensions is not None and value.dim() != dimensions:
        raise UserError(
            f"{name} must have {dimensions} dimensions, got shape {tuple(value.shape)}."
        )
    if value.dim() > 1 and value[:1].numel() == 0 and len(value):
        raise UserError(f"{name} has shape {tuple(value.shape)}: it holds no numbers.")
    step = max(1, CHUNK * len(value) // max(1, value.numel()))
    for start in range(0, len(value), step):
        release_pages()
        part = value[start : start + step]
        # A finite sum has finite terms, in one pass without a copy; another may have overflowed.
        if not part.detach().sum().isfinite():
            break
    else:
        return
    bad = ~torch.isfinite(value.reshape(len(value), -1)).all(dim=1)
    if bad.any():
        raise UserError(
            f"{name} must be finite, but {int(bad.sum())} of {len(value)} rows hold NaN or "
            f"infinity, the first at row {int(bad.nonzero()[0])}."
        )


def rounding(values: Tensor) -> float:
    """The tolerance for numbers that came through a narrower type than the one they are kept in.

    Saved by way of lists or of a framework without bfloat16, they look more exact than they are.
    """
    narrower = dict.fromkeys(HALF, HALF_TOLERANCE) | TOLERANCE
    return max(
        allowed
        for dtype, allowed in narrower.items()
        if dtype.itemsize >= values.dtype.itemsize
        or torch.equal(values.to(dtype).to(values), values)
    )


def in_full(value: Tensor) -> Tensor:
    """Half precision in float32; anything else as it is."""
    return value.float() if value.dtype in HALF else value
