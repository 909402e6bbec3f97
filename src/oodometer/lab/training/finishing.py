"""What a task fits to the training data when training is over: means, covariances, thresholds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from oodometer.errors import UserError
from oodometer.lab.training.batches import Feed
from oodometer.lab.training.task import Batch, Task
from oodometer.study import TrainSpec

_ROWS = 256  # at a time


@dataclass(frozen=True, eq=False)
class InOrder:
    """The training data in their order, not augmented; every iteration starts from the first."""

    feed: Feed
    layout: torch.memory_format
    epochs: int  # that were trained

    def __iter__(self) -> Iterator[Batch]:
        for rows in torch.split(torch.arange(self.feed.size), _ROWS):
            yield Batch(*self.feed.batch(rows, self.layout), progress=float(self.epochs))


def finish_model(spec: TrainSpec, task: Task, model: nn.Module, batches: InOrder) -> None:
    """Fit buffers of a trained model; what it draws depends on the seed and on nothing else."""
    assert task.finish is not None
    model.eval()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        task.finish(spec, model, batches)
    for name, value in model.state_dict().items():
        if not value.isfinite().all():
            raise UserError(
                f"Training failed: '{name}' holds NaN or infinity after it was fitted to the "
                "training data."
            )
