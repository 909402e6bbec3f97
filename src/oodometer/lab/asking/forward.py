"""Run a model on a batch in eval mode, and record the inputs and outputs of its modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from oodometer.errors import UserError, describe
from oodometer.lab.asking.layout import give_up
from oodometer.lab.data.inputs import Batch

Calls = list[tuple[Any, Any]]  # input and output of a module, call by call


@contextmanager
def evaluation_mode(
    model: nn.Module, device: torch.device | str | None
) -> Iterator[tuple[torch.device, torch.dtype | None]]:
    """Put the model into eval mode on the device; restore its modes and buffers afterwards."""
    modes = {module: module.training for module in model.modules()}
    kept = _buffers(model)
    tensors = [*model.parameters(), *model.buffers()]
    places = {tensor.device for tensor in tensors}
    home = next(iter(places), torch.device("cpu"))
    place = home if device is None else _device(device)
    if device is not None and len(places) > 1 and place != home:
        raise UserError(
            f"The model lies on {len(places)} devices ({', '.join(sorted(map(str, places)))}) "
            f"and cannot be moved to {place}: leave device out."
        )
    floats = (tensor.dtype for tensor in tensors if tensor.is_floating_point())
    try:
        try:
            model.eval()
        except Exception as problem:
            raise UserError(
                f"{type(model).__name__} cannot be put into eval mode, for example because it is "
                f"an exported program: extract needs the original module ({describe(problem)})"
            ) from problem
        if place != home:
            model.to(place)
        yield place, next(floats, None)
    finally:
        if place != home:
            model.to(home)
        for module, mode in modes.items():
            module.training = mode
        for module, name, buffer, before in kept:
            module._buffers[name] = buffer
            if not torch.equal(buffer, before):
                buffer.data.copy_(before)


def _buffers(model: nn.Module) -> list[tuple[nn.Module, str, Tensor, Tensor]]:
    """Every buffer that is filled, where it is kept, and a copy of it."""
    return [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None and not is_lazy(buffer)
    ]


def as_written(model: nn.Module) -> AbstractContextManager[object]:
    """Run compiled parts uncompiled: compiled code does not call forward hooks."""
    compiled = any(
        "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )
    stance = getattr(torch.compiler, "set_stance", None)  # torch 2.6 and later
    return stance("force_eager") if compiled and stance is not None else nullcontext()


def _device(device: torch.device | str) -> torch.device:
    """Return the device, if this machine can compute on it."""
    try:
        place = torch.device(device)
        torch.zeros(1, device=place).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as problem:
        # What follows is a page of operators.
        reason = describe(problem, named=False).partition(". ")[0].rstrip(".")
        raise UserError(f"Device '{device}' cannot be used here: {reason}.") from None
    return place


def call(model: nn.Module, name: str, inputs: Batch) -> object:
    """Call the model; a failure names the data set and the batch."""
    try:
        return model(**inputs) if isinstance(inputs, Mapping) else model(inputs)
    except (Exception, SystemExit) as problem:
        if give_up(model):
            return call(model, name, inputs)
        form = (
            f"shape {tuple(inputs.shape)} of {str(inputs.dtype)[6:]}"
            if isinstance(inputs, Tensor)
            else f"the inputs {', '.join(inputs)}"
        )
        raise UserError(
            f"The model failed on data set '{name}', on a batch of {form}: {describe(problem)}"
        ) from problem


@contextmanager
def record_calls(modules: Iterable[nn.Module]) -> Iterator[dict[nn.Module, Calls]]:
    """Record inputs and outputs of these modules within the block."""
    recorded: dict[nn.Module, Calls] = {}

    def remember(
        module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: object
    ) -> None:
        given = inputs[0] if inputs else next(iter(named.values()), None)
        # As they are now: what comes next may write into them. Only matrices can be of a head.
        own = [_own(value, module) for value in (given, output)]
        recorded.setdefault(module, []).append((own[0], own[1]))

    hooks = [module.register_forward_hook(remember, with_kwargs=True) for module in modules]
    try:
        yield recorded
    finally:
        for hook in hooks:
            hook.remove()


def _own(value: object, module: nn.Module) -> object:
    matrix = isinstance(value, Tensor) and (value.dim() == 2 or not isinstance(module, nn.Linear))
    return value.clone() if isinstance(value, Tensor) and matrix else value


@contextmanager
def answering(module: nn.Module, answer: Callable[[Any], object]) -> Iterator[None]:
    """Let `answer` change the output of a module within the block."""
    hook = module.register_forward_hook(lambda _, inputs, output: answer(output))
    try:
        yield
    finally:
        hook.remove()
