"""Auxiliary outliers in batches: which of them an epoch learns from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.data.samples import Samples
from oodometer.lab.training.batches import Augment, Feed
from oodometer.lab.training.task import Task
from oodometer.study import TrainSpec


def require_auxiliary(auxiliary: Samples | None, samples: Samples) -> Samples:
    """Refuse to train without the auxiliary outliers that a task asks for."""
    if auxiliary is None:
        raise UserError(
            "It learns from auxiliary outliers, but none are given: name a data set, such as "
            "auxiliary: svhn in the base of a study, or auxiliary='svhn' in Python."
        )
    if auxiliary.shape != samples.shape:
        raise UserError(
            f"Auxiliary outliers '{auxiliary.name}' have the shape {auxiliary.shape}, but "
            f"'{samples.name}' has {samples.shape}."
        )
    return auxiliary


@dataclass(frozen=True, eq=False)
class Outliers:
    """The auxiliary outliers of a training run."""

    spec: TrainSpec
    task: Task
    feed: Feed
    layout: torch.memory_format

    def __len__(self) -> int:
        return self.feed.size

    def __call__(self, rows: Tensor) -> Tensor:
        """The inputs in these rows, not augmented."""
        return self.feed.batch(rows, self.layout)[0]

    def rows_of(self, model: nn.Module, epoch: int, sizes: Sequence[int]) -> list[Tensor]:
        """Which rows each batch of an epoch gets; sizes are those of the batches of inputs.

        They depend on the seed and the epoch, so that nothing has to be kept between epochs.
        """
        counts = [self._count(size) for size in sizes]
        state = np.random.SeedSequence([self.spec.seed, 2, epoch]).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(state[0]))
        rows = self._chosen(model, sum(counts), generator)
        if rows is None:
            rows = torch.randperm(len(self), generator=generator)
        repeats = -(-sum(counts) // len(rows))
        return list(torch.split(rows.repeat(repeats)[: sum(counts)], counts))

    def first(self, start: int, size: int) -> Tensor:
        """The outliers that belong to `size` validation samples: always the same."""
        begin = self._count(start)
        return self((begin + torch.arange(self._count(size))) % len(self))

    def augmented(self, rows: Tensor, augment: Augment | None, chance: torch.Generator) -> Tensor:
        """The inputs in these rows, augmented as the training images are."""

        def unlabelled(
            inputs: Tensor, targets: Tensor, generator: torch.Generator
        ) -> tuple[Tensor, Tensor]:
            assert augment is not None
            return augment(inputs, targets.clamp_min(0), generator)

        return self.feed.batch(rows, self.layout, augment and unlabelled, chance)[0]

    def _count(self, inputs: int) -> int:
        return max(1, round(inputs * self.task.outliers_per_input)) if inputs else 0

    def _chosen(self, model: nn.Module, count: int, generator: torch.Generator) -> Tensor | None:
        if self.task.choose_outliers is None:
            return None
        model.eval()
        with torch.no_grad():
            rows = self.task.choose_outliers(self.spec, model, self, count, generator)
        if rows is None:
            return None
        if not (isinstance(rows, Tensor) and rows.dtype == torch.int64 and rows.dim() == 1):
            raise UserError("choose_outliers must return a tensor of row numbers, int64, or None.")
        if not len(rows) or int(rows.min()) < 0 or int(rows.max()) >= len(self):
            raise UserError(
                f"choose_outliers must return rows from 0 to {len(self) - 1}, at least one of them."
            )
        return rows.cpu()
