"""NumPy arrays as tensors; those that are memory-mapped are read from their file, bit by bit."""

from __future__ import annotations

import mmap
import warnings
import weakref

import numpy as np
import torch
from torch import Tensor

_FILES: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()  # what tensors read in place


def tensor_of(value: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Tensor:
    """Return a tensor with numbers of its own; over a memory-mapped array, one that reads it."""
    file = getattr(value, "_mmap", None)
    plain = value.dtype.isnative and all(step >= 0 for step in value.strides)
    # In mode "c", changes are in memory only: they would be lost with the pages.
    if file is None or not plain or getattr(value, "mode", "c") == "c":
        return torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("=")))
    _FILES.add(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it cannot be written to: nobody does
        return torch.from_numpy(value.view(np.ndarray))


def release_pages() -> None:
    """Let go of what was read of mapped files: the system reads it again when it is needed."""
    if hasattr(mmap, "MADV_DONTNEED"):
        for file in _FILES:
            if not file.closed:
                file.madvise(mmap.MADV_DONTNEED)
