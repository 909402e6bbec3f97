"""Find the head of a classifier: the linear layer that its logits come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from oodometer.errors import UserError, unknown

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class HeadError(UserError):
    """A model has no linear head, or none that can be found."""


@dataclass(frozen=True)
class HeadLayer:
    """The layer that the logits come from: linear, or something that amounts to it.

    A convolution is linear in what enters it where its kernel covers all of that, and, if it looks
    at one position at a time, in the mean over positions where the mean of its outputs counts. Any
    other module, such as a linear layer with an adapter, is asked whether it is linear.
    """

    layer: nn.Module
    asked: tuple[Tensor, Tensor] | None = None  # weight and bias, where no parameters hold them

    def features(self, inputs: Tensor) -> Tensor:
        """What enters the layer as one vector per sample."""
        if not isinstance(self.layer, _CONVOLUTIONS):
            return inputs
        if all(size == 1 for size in self.layer.kernel_size):
            return inputs.flatten(2).mean(2)
        return inputs.flatten(1)

    def logits(self, outputs: Tensor) -> Tensor:
        """What leaves it, likewise."""
        return outputs.flatten(2).mean(2) if isinstance(self.layer, _CONVOLUTIONS) else outputs

    def weight_and_bias(self) -> tuple[Tensor, Tensor]:
        """(classes, width) and (classes,); a layer without a bias has one of zeros."""
        if self.asked is not None:
            return self.asked
        weight, bias = self.layer.weight, self.layer.bias
        assert isinstance(weight, Tensor)
        flat = weight.detach().flatten(1).cpu()
        own = bias.detach().cpu() if isinstance(bias, Tensor) else torch.zeros(len(flat)).to(flat)
        return flat, own


def _is_plain(layer: nn.Module, inputs: object, outputs: object) -> bool:
    """Tell whether a layer's weight and bias are all that there is to it."""
    kinds = (nn.Linear, *_CONVOLUTIONS)
    if not any(type(layer).forward is kind.forward for kind in kinds):
        return False
    matrices = isinstance(inputs, Tensor) and isinstance(outputs, Tensor) and inputs.dim() == 2
    if not layer._forward_hooks or not isinstance(layer, nn.Linear) or not matrices:
        return True
    # Somebody's hook may only look, or change what the layer says.
    return _explains(*HeadLayer(layer).weight_and_bias(), inputs, outputs)


@torch.no_grad()
def _explains(weight: Tensor, bias: Tensor, inputs: Any, outputs: Any) -> bool:
    """Tell whether outputs = weight @ inputs + bias, but for rounding."""
    if outputs.shape != (len(inputs), len(weight)):
        return False
    rounding = 64 * torch.finfo(outputs.dtype).eps
    weight, bias, inputs, outputs = (
        part.detach().cpu().double() for part in (weight, bias, inputs, outputs)
    )
    size = inputs.norm(dim=1)[:, None] * weight.norm(dim=1) + bias.abs()
    gap = (inputs @ weight.T + bias - outputs).abs()
    return not bool((gap > rounding * size).any())  # NaN will be said of the logits


@torch.no_grad()
def _as_asked(layer: nn.Module, inputs: Tensor, outputs: Tensor) -> HeadLayer | None:
    """Ask a module about zeros and about each unit alone; None if it is not linear in its inputs.

    That it is, two units together must show, and a pass through the model. What works unit by
    unit, such as a temperature or a normalisation, stands behind the head: it takes logits.
    """
    alone = torch.eye(inputs.shape[1], dtype=inputs.dtype, device=inputs.device)
    try:
        bias = layer(torch.zeros_like(alone[:1]))[0].clone()
        weight = (layer(alone) - bias).T.contiguous()
        square = weight.shape == alone.shape
        unit_by_unit = square and torch.equal(weight, weight.diag().diag())
        both = alone.roll(1, 0) - 2 * alone
        seen = ((both, layer(both)), (inputs, outputs))
        finite = bool(weight.isfinite().all() and bias.isfinite().all())
        holds = finite and not unit_by_unit and all(_explains(weight, bias, *one) for one in seen)
    except Exception:  # noqa: BLE001 - a stranger's module, which need not be a head
        return None
    return HeadLayer(layer, (weight.cpu(), bias.cpu())) if holds else None


def settled(head: HeadLayer, calls: Sequence[tuple[Any, Any]]) -> HeadLayer:
    """Ask the layer that the user named, if there is more to it than its weight and bias."""
    if len(calls) != 1 or _is_plain(head.layer, *calls[0]):
        return head
    given, output = calls[0]
    return _as_asked(head.layer, given, output) or head


def any_linear_module(
    answer: object, heard: Mapping[nn.Module, list[tuple[Any, Any]]]
) -> HeadLayer | None:
    """Find the innermost module, of any kind, whose output is the model's and which is linear."""
    results = [tensor for _, tensor in _matrices(answer)]
    for layer, calls in heard.items():
        given, output = calls[-1]
        fits = isinstance(given, Tensor) and given.dim() == 2 and given.is_floating_point()
        if len(calls) == 1 and fits and any(_same_logits(output, one) for one in results):
            found = _as_asked(layer, given, output)
            if found is not None:
                return found
    return None


def linear_layers(model: nn.Module) -> list[nn.Module]:
    """The layers that are looked at first for the head."""
    return [module for module in model.modules() if isinstance(module, nn.Linear)]


def convolutions(model: nn.Module) -> list[nn.Module]:
    """The layers that are looked at where no linear one is the head."""
    return [m for m in model.modules() if isinstance(m, _CONVOLUTIONS) and m.groups == 1]


def head_by_name(model: nn.Module, head: str | nn.Module) -> HeadLayer:
    """The layer that the user says is the head."""
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d)
    }
    if isinstance(head, nn.Module):
        if not any(head is layer for layer in layers.values()):
            raise UserError("The given head is not a linear layer of this model.")
        return HeadLayer(head)
    if head not in layers:
        raise unknown("linear layer", head, layers)
    return HeadLayer(layers[head])


def identify_head(
    model: nn.Module, answer: object, heard: Mapping[nn.Module, list[tuple[Any, Any]]]
) -> HeadLayer | None:
    """Find the layer whose output is the model's output, or turns into its softmax.

    Where a model returns several, the one called logits counts.
    """
    results = [tensor for _, tensor in _matrices(answer)]
    found = []
    for layer, calls in heard.items():
        given, output = calls[-1]
        plain = _is_plain(layer, given, output)
        if isinstance(layer, _CONVOLUTIONS):
            output = HeadLayer(layer).logits(output)
        if plain and any(_same_logits(output, tensor) for tensor in results):
            found.append(layer)
    if len(found) > 1:
        names = {module: path for path, module in model.named_modules()}
        raise UserError(
            f"{type(model).__name__} returns the outputs of several linear layers: "
            f"{', '.join(names[layer] for layer in found)}. Say which one is its head: "
            f"extract(..., head='{names[found[0]]}')."
        )
    return HeadLayer(found[0]) if found else None


def headless(model: nn.Module, heard: Mapping[nn.Module, list[tuple[Any, Any]]]) -> HeadError:
    """Say that a model has no head that can be found."""
    kind = type(model).__name__
    if not linear_layers(model):
        return HeadError(
            f"The model {kind} has no linear layer, but detectors need a linear head: logits = "
            "weight @ features + bias."
        )
    names = {module: path for path, module in model.named_modules()}
    ran = ", ".join(names[layer] for layer in heard if isinstance(layer, nn.Linear))
    return HeadError(
        f"No linear layer's output is the output of {kind}, so its head cannot be found. If one is "
        "its head, name it: extract(..., head='...'), or --head; a head that is a function, such "
        f"as F.linear, must become an nn.Linear. Linear layers that ran: {ran or 'none'}."
    )


def scripted() -> UserError:
    """Return the error that a compiled model has no accessible parts."""
    return UserError(
        "A TorchScript module cannot be listened to: extract needs the original module."
    )


def own_logits(model: nn.Module, answer: object, rows: int) -> Tensor:
    """What a model without a head returns as its logits: (n, classes)."""
    results = [tensor for _, tensor in _matrices(answer) if len(tensor) == rows]
    if len(results) != 1:
        shapes = ", ".join(str(tuple(tensor.shape)) for _, tensor in _tensors(answer))
        raise UserError(
            f"{type(model).__name__} must return logits of shape ({rows}, classes) for {rows} "
            f"samples, for a binary classifier two, [0, z]; it returns "
            f"{shapes or type(answer).__name__}."
        )
    return results[0]


def _matrices(answer: object) -> list[tuple[str, Tensor]]:
    """The tensors that may be logits: those called so, or else all of two dimensions."""
    results = [
        (name, tensor)
        for name, tensor in _tensors(answer)
        if tensor.dim() == 2 and tensor.is_floating_point()
    ]
    return [(name, tensor) for name, tensor in results if name == "logits"] or results


def _same_logits(output: object, result: Tensor) -> bool:
    if not isinstance(output, Tensor) or output.shape != result.shape:
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
