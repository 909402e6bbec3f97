"""Parts of a network that learn in turn, and the one optimizer of them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from oodometer.lab.training.optimizers import make_optimizer
from oodometer.lab.training.task import Task
from oodometer.study import TrainSpec


def optimizer_of_parts(spec: TrainSpec, task: Task, model: nn.Module, rate: float) -> Optimizer:
    """The optimizer of all parts that have a turn, one group of parameters for each.

    A part that learns more often than once per batch, because a penalty has turns of its own, is
    slowed down by c = k / (k + 1), k the batches between these turns: its learning rate is c times
    as large, and Adam's betas are raised to the power of c (Karras et al. 2020, arXiv:1912.04958,
    appendix B).
    """
    parts = tuple(dict.fromkeys(turn.part for turn in task.turns))
    groups = [{"params": list(model.get_submodule(part).parameters())} for part in parts]
    optimizer = make_optimizer(spec.optimizer, groups, rate, spec.weight_decay)
    slowed = dict(task.pace)
    for part, group in zip(parts, optimizer.param_groups, strict=True):
        group["pace"] = pace = slowed.get(part, 1.0)
        if "betas" in group:
            group["betas"] = tuple(beta**pace for beta in group["betas"])
    return optimizer


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["pace"]


@contextmanager
def others_at_rest(model: nn.Module, part: str) -> Iterator[None]:
    """Take gradients with respect to one part only: an optimizer leaves alone what has none."""
    own = {id(parameter) for parameter in model.get_submodule(part).parameters()}
    resting = [p for p in model.parameters() if p.requires_grad and id(p) not in own]
    for parameter in resting:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in resting:
            parameter.requires_grad_()


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """What an optimizer remembers, by "number of the parameter/name"."""
    return {
        f"{index}/{name}": torch.as_tensor(value)
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
        if value is not None  # momentum that is not used
    }


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what an optimizer remembered."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    states: dict[int, dict[str, Tensor]] = {}
    for path, value in tensors.items():
        index, _, name = path.partition("/")
        parameter = parameters[int(index)]
        if value.shape == parameter.shape and value.dim():
            # In the layout that it had: another one may round otherwise.
            value = torch.empty_like(parameter, requires_grad=False).copy_(value)
        states.setdefault(int(index), {})[name] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": states, "param_groups": groups})
