"""Find the head of a classifier: the linear layer that its logits come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from oodometer.errors import UserError, unknown


def linear_layers(model: nn.Module) -> list[nn.Linear]:
    """All layers that could be the head; refuse a model that has none."""
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not layers:
        if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
            raise UserError(
                "A TorchScript module cannot be listened to: extract needs the original module."
            )
        raise UserError(
            f"The model {type(model).__name__} has no linear layer, but detectors need a linear "
            "head: logits = weight @ features + bias."
        )
    return layers


def head_by_name(model: nn.Module, head: str | nn.Linear) -> nn.Linear:
    """The layer that the user says is the head."""
    linears = {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    if isinstance(head, nn.Linear):
        if not any(head is linear for linear in linears.values()):
            raise UserError("The given head is not a layer of this model.")
        return head
    if head not in linears:
        raise unknown("linear layer", head, linears)
    return linears[head]


def identify_head(
    model: nn.Module, answer: object, heard: Mapping[nn.Module, list[tuple[Any, Any]]]
) -> nn.Linear:
    """Find the linear layer whose output is the model's output, or turns into its softmax.

    Where a model returns several, the one called logits counts.
    """
    results = [
        (name, tensor)
        for name, tensor in _tensors(answer)
        if tensor.dim() == 2 and tensor.is_floating_point()
    ]
    called_logits = [(name, tensor) for name, tensor in results if name == "logits"]
    found = [
        layer
        for layer, calls in heard.items()
        if isinstance(layer, nn.Linear)
        and any(_same_logits(calls[-1][1], tensor) for _, tensor in called_logits or results)
    ]
    if len(found) == 1:
        return found[0]
    names = {module: path for path, module in model.named_modules()}
    kind = type(model).__name__
    if found:
        raise UserError(
            f"{kind} returns the outputs of several linear layers: "
            f"{', '.join(names[layer] for layer in found)}. Say which one is its head: "
            f"extract(..., head='{names[found[0]]}')."
        )
    raise UserError(
        f"No linear layer's output is the output of {kind}, so its head cannot be found. If it has "
        "a linear head, name it: extract(..., head='...'). Linear layers that ran: "
        f"{', '.join(names[layer] for layer in heard) or 'none'}."
    )


def _same_logits(output: Tensor, result: Tensor) -> bool:
    if output.shape != result.shape:
        return False
    output, result = output.detach().float(), result.detach().float()
    # NaN is compared too: that it is there will be said of the logits, not of the head.
    return any(
        torch.allclose(
            candidate, result, rtol=1e-3, atol=1e-5 * _size_of(candidate), equal_nan=True
        )
        for candidate in (output, output.log_softmax(1), output.softmax(1))
    )


def _size_of(values: Tensor) -> float:
    return float(values.abs().nan_to_num(0, 0, 0).amax()) if values.numel() else 0.0


def _tensors(
    answer: object, name: str = "", seen: frozenset[int] = frozenset()
) -> Iterator[tuple[str, Tensor]]:
    """All tensors in what a model returned, with the names of their fields."""
    if isinstance(answer, Tensor):
        yield name, answer
        return
    if id(answer) in seen:
        return  # it refers to itself
    within = seen | {id(answer)}
    fields: Iterable[tuple[str, object]] = ()
    if isinstance(answer, Mapping):
        fields = [(str(key), value) for key, value in answer.items()]
    elif isinstance(answer, Sequence) and not isinstance(answer, str):
        # A named tuple has names; the items of others have that of the whole.
        names = getattr(answer, "_fields", [name] * len(answer))
        fields = list(zip(names, answer, strict=True))
    elif dataclasses.is_dataclass(answer):
        fields = [(f.name, getattr(answer, f.name)) for f in dataclasses.fields(answer)]
    elif hasattr(answer, "__dict__"):
        fields = list(vars(answer).items())
    for field, value in fields:
        yield from _tensors(value, field, within)
