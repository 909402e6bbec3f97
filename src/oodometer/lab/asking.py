"""Ask a model about a batch: in eval mode, without a trace, with what its parts said on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.inputs import Batch
from oodometer.lab.layout import give_up

Heard = list[tuple[Any, Any]]  # what went into a layer and what came out, call by call


@contextmanager
def asked(
    model: nn.Module, device: torch.device | str | None
) -> Iterator[tuple[torch.device, torch.dtype | None]]:
    """Put the model into eval mode on the device; put everything back afterwards."""
    modes = {module: module.training for module in model.modules()}
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
        model.eval()
        if place != home:
            model.to(place)
        # What is made in inference mode can have no gradients ever after.
        with torch.inference_mode(False), torch.no_grad():
            yield place, next(floats, None)
    finally:
        if place != home:
            model.to(home)
        for module, mode in modes.items():
            module.training = mode


def _device(device: torch.device | str) -> torch.device:
    """Return the device, if it is one that this machine can compute on."""
    try:
        place = torch.device(device)
        torch.zeros(1, device=place).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as problem:
        said = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
        reason = said.partition(". ")[0].rstrip(".")  # what follows is a page of operators
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
        said = next(iter(str(problem).strip().splitlines()), "")
        raise UserError(
            f"The model failed on data set '{name}', on a batch of {form}: "
            f"{type(problem).__name__}: {said}"
        ) from problem


@contextmanager
def listening(modules: Iterable[nn.Module]) -> Iterator[dict[nn.Module, Heard]]:
    """Remember what goes into these modules and comes out, as long as the block lasts."""
    heard: dict[nn.Module, Heard] = {}

    def remember(
        module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: object
    ) -> None:
        given = inputs[0] if inputs else next(iter(named.values()), None)
        heard.setdefault(module, []).append((given, output))

    hooks = [module.register_forward_hook(remember, with_kwargs=True) for module in modules]
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def answering(module: nn.Module, answer: Callable[[Any], object]) -> Iterator[None]:
    """Let `answer` change what a module hands on, as long as the block lasts."""
    hook = module.register_forward_hook(lambda _, inputs, output: answer(output))
    try:
        yield
    finally:
        hook.remove()
