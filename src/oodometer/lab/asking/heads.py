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
    """The layer that the logits come from: linear, or equivalent to a linear layer.

    A convolution is linear in its input if its kernel covers all of it; a 1x1 convolution is linear
    in the mean over positions, if its outputs are averaged. Any other module, such as a linear
    layer with an adapter, is tested for linearity.
    """

    layer: nn.Module
    measured: tuple[Tensor, Tensor] | None = None  # weight and bias, if no parameters hold them

    def features(self, inputs: Tensor) -> Tensor:
        """The input of the layer as one vector per sample."""
        if not isinstance(self.layer, _CONVOLUTIONS):
            return inputs
        if all(size == 1 for size in self.layer.kernel_size):
            return inputs.flatten(2).mean(2)
        return inputs.flatten(1)

    def logits(self, outputs: Tensor) -> Tensor:
        """The output of the layer as one vector per sample."""
        return outputs.flatten(2).mean(2) if isinstance(self.layer, _CONVOLUTIONS) else outputs

    def weight_and_bias(self) -> tuple[Tensor, Tensor]:
        """(classes, width) and (classes,); a layer without a bias has one of zeros."""
        if self.measured is not None:
            return self.measured
        weight, bias = self.layer.weight, self.layer.bias
        assert isinstance(weight, Tensor)
        flat = weight.detach().flatten(1).cpu()
        own = bias.detach().cpu() if isinstance(bias, Tensor) else torch.zeros(len(flat)).to(flat)
        return flat, own


def _is_plain(layer: nn.Module, inputs: object, outputs: object) -> bool:
    """Whether a layer computes weight @ input + bias and nothing else."""
    kinds = (nn.Linear, *_CONVOLUTIONS)
    if not any(type(layer).forward is kind.forward for kind in kinds):
        return False
    matrices = isinstance(inputs, Tensor) and isinstance(outputs, Tensor) and inputs.dim() == 2
    if not layer._forward_hooks or not isinstance(layer, nn.Linear) or not matrices:
        return True
    # A forward hook of the user may change the output of the layer.
    return _explains(*HeadLayer(layer).weight_and_bias(), inputs, outputs)


@torch.no_grad()
def _explains(weight: Tensor, bias: Tensor, inputs: Any, outputs: Any) -> bool:
    """Whether outputs = weight @ inputs + bias, up to rounding."""
    if outputs.shape != (len(inputs), len(weight)):
        return False
    rounding = 64 * torch.finfo(outputs.dtype).eps
    weight, bias, inputs, outputs = (
        part.detach().cpu().double() for part in (weight, bias, inputs, outputs)
    )
    size = inputs.norm(dim=1)[:, None] * weight.norm(dim=1) + bias.abs()
    gap = (inputs @ weight.T + bias - outputs).abs()
    return not bool((gap > rounding * size).any())  # NaN is reported with the logits


@torch.no_grad()
def _measured(layer: nn.Module, inputs: Tensor, outputs: Tensor) -> HeadLayer | None:
    """Measure weight and bias by the answers to zeros and unit vectors; None if not linear.

    Linearity is checked on sums of two units and on a pass through the model. A module that works
    unit by unit, such as a temperature or a normalization, comes after the head: it takes logits.
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
    except Exception:  # noqa: BLE001 - a user's module, which need not be a head
        return None
    return HeadLayer(layer, (weight.cpu(), bias.cpu())) if holds else None


def settled(head: HeadLayer, calls: Sequence[tuple[Any, Any]]) -> HeadLayer:
    """Measure the layer that the user named, if it does more than weight @ input + bias."""
    if len(calls) != 1 or _is_plain(head.layer, *calls[0]):
        return head
    given, output = calls[0]
    return _measured(head.layer, given, output) or head


def any_linear_module(
    answer: object, recorded: Mapping[nn.Module, list[tuple[Any, Any]]]
) -> HeadLayer | None:
    """Find the innermost module, of any kind, whose output is the model's and which is linear."""
    results = [tensor for _, tensor in _matrices(answer)]
    for layer, calls in recorded.items():
        given, output = calls[-1]
        fits = isinstance(given, Tensor) and given.dim() == 2 and given.is_floating_point()
        if len(calls) == 1 and fits and any(_same_logits(output, one) for one in results):
            found = _measured(layer, given, output)
            if found is not None:
                return found
    return None


def linear_layers(model: nn.Module) -> list[nn.Module]:
    """The candidates for the head that are tried first."""
    return [module for module in model.modules() if isinstance(module, nn.Linear)]


def convolutions(model: nn.Module) -> list[nn.Module]:
    """The candidates for the head if no linear layer is it."""
    return [m for m in model.modules() if isinstance(m, _CONVOLUTIONS) and m.groups == 1]


def head_by_name(model: nn.Module, head: str | nn.Module) -> HeadLayer:
    """The layer that the user named as the head."""
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
    model: nn.Module, answer: object, recorded: Mapping[nn.Module, list[tuple[Any, Any]]]
) -> HeadLayer | None:
    """Find the layer whose output is the model's output, or its softmax.

    If a model returns several tensors, the one called logits counts.
    """
    results = [tensor for _, tensor in _matrices(answer)]
    found = []
    for layer, calls in recorded.items():
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
            f"{', '.join(names[layer] for layer in found)}. Name the head: "
            f"extract(..., head='{names[found[0]]}')."
        )
    return HeadLayer(found[0]) if found else None


def headless(model: nn.Module, recorded: Mapping[nn.Module, list[tuple[Any, Any]]]) -> HeadError:
    """Return the error that a model has no head that can be found."""
    kind = type(model).__name__
    if not linear_layers(model):
        return HeadError(
            f"The model {kind} has no linear layer, but detectors need a linear head: logits = "
            "weight @ features + bias."
        )
    names = {module: path for path, module in model.named_modules()}
    ran = ", ".join(names[layer] for layer in recorded if isinstance(layer, nn.Linear))
    return HeadError(
        f"No linear layer's output is the output of {kind}, so its head cannot be found. If one is "
        "its head, name it: extract(..., head='...'), or --head; a head that is a function, such "
        f"as F.linear, must become an nn.Linear. Linear layers that ran: {ran or 'none'}."
    )


def scripted() -> UserError:
    """Return the error that a compiled model has no accessible parts."""
    return UserError(
        "A TorchScript module does not support forward hooks: extract needs the original module."
    )


def own_logits(model: nn.Module, answer: object, rows: int) -> Tensor:
    """The logits, (n, classes), of a model without a head."""
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
    # NaN equals NaN here: it is reported with the logits, not as a missing head.
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
