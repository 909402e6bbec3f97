"""Which rows belong to which part: sizes in, row numbers out. Nothing here reads data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oodometer.errors import UserError, unknown

Rows = NDArray[np.int64]
Role = Literal["train", "valid", "test", "validation_outlier", "test_outlier"]


@dataclass(frozen=True)
class Range:
    """Rows start to stop of one part of a data set as it is published, `size` rows in all."""

    part: str  # train, test, val or all: the published part that the rows are taken from
    start: int
    stop: int
    size: int
    permuted: bool = False  # rows of a permutation that the user keeps, not of the file
    halves: bool = False  # start and stop move with the size that the user really has

    def rows(self, available: int, permutation: ArrayLike | None = None) -> Rows:
        """Return the row numbers, given how many rows there are and their permutation, if any."""
        start, stop = self.start, self.stop
        if self.halves:
            start, stop = (place * available // self.size for place in (start, stop))
        if permutation is None:
            return np.arange(start, stop)
        order = np.asarray(permutation)
        if not np.array_equal(np.sort(order), np.arange(available)):
            raise UserError(f"permutation must hold each of 0 to {available - 1} once.")
        return order[start:stop].astype(np.int64)


def _without_validation_part(train: int, available: int) -> dict[Role, Range]:
    """The first `train` images of the train part to train on, the rest of it for validation."""
    return {
        "train": Range("train", 0, train, available),
        "valid": Range("train", train, available, available),
        "test": Range("test", 0, 10_000, 10_000),
        "validation_outlier": Range("train", 0, available, available),
        "test_outlier": Range("test", 0, 10_000, 10_000),
    }


# The parts of Shafaei et al. 2019, arXiv:1809.04729, as their code takes them. The official test
# part of Tiny ImageNet has no labels: good enough to be separated from outliers.
OD_TEST: Mapping[str, Mapping[Role, Range]] = {
    "mnist": _without_validation_part(50_000, 60_000),
    "fashion-mnist": _without_validation_part(50_000, 60_000),
    "cifar10": _without_validation_part(40_000, 50_000),
    "cifar100": _without_validation_part(40_000, 50_000),
    "stl10": {
        "train": Range("train", 0, 5_000, 5_000),
        "valid": Range("test", 0, 4_000, 8_000),
        "test": Range("test", 4_000, 8_000, 8_000),
        "validation_outlier": Range("train", 0, 5_000, 5_000),
        "test_outlier": Range("test", 0, 8_000, 8_000),
    },
    "tiny-imagenet": {
        "train": Range("train", 0, 100_000, 100_000, permuted=True),
        "valid": Range("val", 0, 10_000, 10_000),
        "test": Range("test", 0, 10_000, 10_000),
        "validation_outlier": Range("train", 0, 100_000, 100_000, permuted=True),
        "test_outlier": Range("val", 0, 10_000, 10_000),
    },
    "notmnist": {
        "validation_outlier": Range("all", 0, 9_362, 18_724, permuted=True, halves=True),
        "test_outlier": Range("all", 9_362, 18_724, 18_724, permuted=True, halves=True),
    },
}


def od_test_rows(name: str, role: Role, available: int, seed: int = 0) -> tuple[str, Rows]:
    """Return the published part that a role is taken from, and its row numbers there.

    `available`: how many rows that part has. Where the study permuted the rows and kept the
    permutation to itself, ours comes from `seed`. Shafaei et al. 2019, arXiv:1809.04729.

    >>> part, rows = od_test_rows("cifar10", "valid", 50_000)
    >>> part, rows[0], rows[-1]
    ('train', np.int64(40000), np.int64(49999))
    """
    if name not in OD_TEST:
        raise unknown("data set with OD-test parts", name, OD_TEST)
    if role not in OD_TEST[name]:
        raise unknown(f"role of '{name}'", role, OD_TEST[name])
    chosen = OD_TEST[name][role]
    if not chosen.halves and available < chosen.stop:
        raise UserError(
            f"OD-test needs rows {chosen.start:,} to {chosen.stop - 1:,} of the {chosen.part} part "
            f"of '{name}', but this copy has only {available:,} rows."
        )
    permutation = _generator(seed).permutation(available) if chosen.permuted else None
    return chosen.part, chosen.rows(available, permutation)


def resample(
    train: int, test: int, seed: int, generator: Literal["numpy", "torch"] = "numpy"
) -> tuple[Rows, Rows]:
    """Pool both parts, train first, and draw new parts of the same sizes: rows of the pool.

    ``torch``: the permutation of ``torch.utils.data.random_split`` with a generator that has this
    seed, by which studies written with PyTorch split 60,000 images into 50,000 and 10,000.
    """
    if train < 1 or test < 1:
        raise UserError(f"Both parts need at least 1 row, got {train} and {test}.")
    if generator == "torch":
        import torch

        order: Rows = torch.randperm(
            train + test, generator=torch.Generator().manual_seed(seed)
        ).numpy()
    elif generator == "numpy":
        order = _generator(seed).permutation(train + test)
    else:
        raise unknown("generator", generator, ["numpy", "torch"])
    return order[:train], order[train:]


def outlier_draws(size: int, count: int = 10_000, seed: int = 44) -> Iterator[Rows]:
    """Yield subsets of an outlier pool without end: shuffle all rows, take the first `count`.

    With seed 44 the first is the subset that studies of instability fix for all models; further
    ones continue the same stream of NumPy's legacy generator, each a shuffle of 0 to size - 1.

    >>> next(outlier_draws(50_000))[:5].tolist()
    [49457, 20706, 46059, 38076, 8394]
    """
    if not 1 <= count <= size:
        raise UserError(f"From {size} outliers between 1 and {size} can be drawn, got {count}.")
    # The published subset comes from this stream, which NumPy keeps as it is for ever.
    random = np.random.RandomState(seed)
    while True:
        rows = np.arange(size)
        random.shuffle(rows)
        yield rows[:count]


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)
