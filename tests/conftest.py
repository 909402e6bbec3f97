"""Fixtures that several tests share."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oodometer.outputs import Head, Outputs

collect_ignore = ["oracles"]  # a script that needs another library, in an environment of its own


@pytest.fixture
def outputs() -> Outputs:
    """Twenty consistent rows: 3 classes, width 4."""
    rng = torch.Generator().manual_seed(0)
    features = torch.randn(20, 4, generator=rng, dtype=torch.float64)
    weight = torch.randn(3, 4, generator=rng, dtype=torch.float64)
    head = Head(weight, torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64))
    return Outputs(head(features), features, torch.arange(20) % 3, head)


@pytest.fixture
def tiny_npz(tmp_path):
    """Write a small, separable image data set; return its path."""

    def write(name: str = "stripes.npz", size: int = 60, **changes: np.ndarray) -> str:
        rng = np.random.default_rng(0)
        arrays = {}
        for part in ("train", "test"):
            labels = np.arange(size) % 3
            images = rng.integers(0, 60, (size, 8, 8)).astype(np.uint8)
            for row, label in enumerate(labels):
                images[row, label * 2 : label * 2 + 2] += 150
            arrays |= {f"{part}_images": images, f"{part}_labels": labels}
        arrays |= changes
        path = tmp_path / name
        np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
        return str(path)

    return write
