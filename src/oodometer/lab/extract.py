"""Ask any classifier about any data: logits and features of the true forward pass, once each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from oodometer.errors import UserError, unknown
from oodometer.outputs import Head, Outputs


@runtime_checkable
class Rows(Protocol):
    """A map-style data set: ``len(data)`` samples, each an input or an (input, label) pair."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> object: ...


Array: TypeAlias = Tensor | NDArray[Any]
# Inputs, (inputs, labels), a map-style data set, or a loader that yields batches of either.
Data: TypeAlias = Array | tuple[Array, Array] | Rows | Iterable[Any]
Batch: TypeAlias = Tensor | Mapping[str, Tensor]


def extract(
    model: nn.Module,
    datasets: Mapping[str, Data],
    *,
    head: str | nn.Linear | None = None,
    batch_size: int = 256,
    device: torch.device | str | None = None,
) -> dict[str, Outputs]:
    """Return what the classifier says about each data set, in one pass over each.

    A data set is an array or tensor of inputs, a pair (inputs, labels), a map-style data set, or
    a DataLoader; samples without a label get -1. `head` is the last linear layer or its name; it
    is found by itself where the model's output shows which one it is. The model runs in eval mode
    without gradients and is left exactly as it was. `device` is where the model runs meanwhile;
    by default where it is.
    """
    if not isinstance(model, nn.Module):
        raise UserError(f"extract needs a torch.nn.Module, got {type(model).__name__}.")
    if not isinstance(datasets, Mapping) or not datasets:
        got = "an empty one" if isinstance(datasets, Mapping) else type(datasets).__name__
        raise UserError(
            "extract needs a mapping from names to data sets, such as {'train': train, 'test': "
            f"test}}; got {got}."
        )
    if batch_size < 1:
        raise UserError(f"batch_size must be at least 1, got {batch_size}.")
    found = _head_by_name(model, head) if head is not None else None
    outputs = {}
    with _asked(model, device) as (place, dtype):
        for name, data in datasets.items():
            batches = (
                (_to(name, inputs, place, dtype), labels)
                for inputs, labels in _batches(name, data, batch_size)
            )
            outputs[name], found = _pass(model, found, name, batches)
    return outputs


@contextmanager
def _asked(
    model: nn.Module, device: torch.device | str | None
) -> Iterator[tuple[torch.device, torch.dtype | None]]:
    """Put the model into eval mode on the device; put everything back afterwards."""
    modes = {module: module.training for module in model.modules()}
    tensors = [*model.parameters(), *model.buffers()]
    places = {tensor.device for tensor in tensors}
    home = next(iter(places), torch.device("cpu"))
    place = home if device is None else torch.device(device)
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
        with torch.no_grad():
            yield place, next(floats, None)
    finally:
        if place != home:
            model.to(home)
        for module, mode in modes.items():
            module.training = mode


def _pass(
    model: nn.Module,
    head: nn.Linear | None,
    name: str,
    batches: Iterable[tuple[Batch, Tensor | None]],
) -> tuple[Outputs, nn.Linear]:
    """Run one data set through the model, keeping what enters and leaves the head.

    While the head is not known, every linear layer is listened to, and the first batch tells.
    """
    listener = _Listener(_linear_layers(model) if head is None else [head])
    features, logits, labels = [], [], []
    try:
        for inputs, given in batches:
            answer = listener.call(model, name, inputs)
            if head is None:
                head = _identify(model, answer, listener.heard)
                listener.only(head)
            heard = listener.heard.get(head, [])
            rows = _size(inputs)
            if len(heard) != 1:
                raise UserError(
                    f"The head runs {len(heard)} times in one forward pass on '{name}'; it must "
                    "run once, on one feature vector per sample."
                )
            feature, logit = heard[0]
            if feature.dim() != 2 or len(feature) != rows:
                raise UserError(
                    f"The head takes features of shape {tuple(feature.shape)} for {rows} samples "
                    f"of '{name}'; it must take one vector per sample, ({rows}, width)."
                )
            features.append(feature.cpu())
            logits.append(logit.cpu())
            labels.append(torch.full((rows,), -1) if given is None else given)
    finally:
        listener.remove()
    if head is None or not features:
        raise UserError(f"Data set '{name}' is empty.")
    weight = head.weight.detach().cpu()
    bias = torch.zeros(len(weight), dtype=weight.dtype) if head.bias is None else head.bias
    kept = torch.float64 if weight.dtype == torch.float64 else torch.float32
    x = torch.cat(features)
    linear = Head(weight.to(kept, copy=True), bias.detach().cpu().to(kept, copy=True))
    # In half precision the head's own rounding would look like wrong features: redo it in full.
    z = torch.cat(logits) if x.dtype == kept else None
    joined = _join_labels(name, labels)
    try:
        return Outputs(logits=z, features=x.to(kept), labels=joined, head=linear), head
    except UserError as problem:
        raise UserError(f"Data set '{name}': {problem}") from None


class _Listener:
    """Hooks on linear layers that remember what went in and out during one call."""

    def __init__(self, layers: Iterable[nn.Linear]) -> None:
        self.heard: dict[nn.Linear, list[tuple[Tensor, Tensor]]] = {}
        self._hooks = {layer: layer.register_forward_hook(self._remember) for layer in layers}

    def _remember(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        assert isinstance(layer, nn.Linear)
        calls = self.heard.pop(layer, [])  # put last: the order is that of the last calls
        self.heard[layer] = [*calls, (inputs[0], output)]

    def call(self, model: nn.Module, name: str, inputs: Batch) -> object:
        """Call the model; afterwards `heard` is about this call alone."""
        self.heard.clear()
        try:
            return model(**inputs) if isinstance(inputs, Mapping) else model(inputs)
        except Exception as problem:
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

    def only(self, layer: nn.Linear) -> None:
        """Go on listening to this layer alone."""
        for other in [known for known in self._hooks if known is not layer]:
            self._hooks.pop(other).remove()

    def remove(self) -> None:
        """Take all hooks away."""
        for hook in self._hooks.values():
            hook.remove()


def _linear_layers(model: nn.Module) -> list[nn.Linear]:
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise UserError(
            f"The model {type(model).__name__} has no linear layer, but detectors need a linear "
            "head: logits = weight @ features + bias."
        )
    return layers


def _head_by_name(model: nn.Module, head: str | nn.Linear) -> nn.Linear:
    linears = {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    if isinstance(head, nn.Linear):
        if not any(head is linear for linear in linears.values()):
            raise UserError("The given head is not a layer of this model.")
        return head
    if head not in linears:
        raise unknown("linear layer", head, linears)
    return linears[head]


def _identify(
    model: nn.Module, answer: object, heard: dict[nn.Linear, list[tuple[Tensor, Tensor]]]
) -> nn.Linear:
    """Find the linear layer whose output is the model's output, or turns into its softmax."""
    results = [t for t in _tensors(answer) if t.dim() == 2 and t.is_floating_point()]
    for layer, calls in reversed(heard.items()):
        output = calls[-1][1]
        for result in results:
            if output.shape == result.shape and _same_logits(output, result):
                return layer
    names = {module: path for path, module in model.named_modules()}
    raise UserError(
        f"No linear layer's output is the output of {type(model).__name__}, so its head cannot be "
        "found. If it has a linear head, name it: extract(..., head='...'). Linear layers that "
        f"ran: {', '.join(names[layer] for layer in heard) or 'none'}."
    )


def _same_logits(output: Tensor, result: Tensor) -> bool:
    output, result = output.float(), result.float()
    return any(
        torch.allclose(candidate, result, rtol=1e-3, atol=1e-5)
        for candidate in (output, output.log_softmax(1), output.softmax(1))
    )


def _tensors(answer: object) -> Iterator[Tensor]:
    """All tensors in what a model returned: a tensor, a sequence, a mapping or an object."""
    if isinstance(answer, Tensor):
        yield answer
    elif isinstance(answer, Mapping):
        for value in answer.values():
            yield from _tensors(value)
    elif isinstance(answer, Sequence) and not isinstance(answer, str):
        for value in answer:
            yield from _tensors(value)
    elif hasattr(answer, "__dict__"):
        yield from _tensors(vars(answer))


def _batches(name: str, data: Data, size: int) -> Iterator[tuple[Batch, Tensor | None]]:
    """Yield (inputs, labels or None) from whatever form the data have."""
    if isinstance(data, tuple) and len(data) == 2 and all(_is_array(part) for part in data):
        inputs, labels = _tensor(name, data[0]), _tensor(name, data[1])
        if len(inputs) != len(labels):
            raise UserError(f"Data set '{name}' has {len(inputs)} inputs but {len(labels)} labels.")
        for start in range(0, len(inputs), size):
            yield inputs[start : start + size], labels[start : start + size]
    elif _is_array(data):
        inputs = _tensor(name, data)
        for start in range(0, len(inputs), size):
            yield inputs[start : start + size], None
    elif isinstance(data, torch.utils.data.DataLoader):
        yield from (_split(name, batch) for batch in data)
    elif isinstance(data, Rows) and not isinstance(data, list | dict | str):
        loader: Iterable[object] = torch.utils.data.DataLoader(data, batch_size=size)  # type: ignore[arg-type]
        yield from (_split(name, batch) for batch in loader)
    elif isinstance(data, Iterable) and not isinstance(data, str | Mapping):
        yield from (_split(name, batch) for batch in data)
    else:
        raise UserError(
            f"Data set '{name}' is a {type(data).__name__}; allowed are arrays, tensors, (inputs, "
            "labels) pairs, map-style data sets and loaders."
        )


def _split(name: str, batch: object) -> tuple[Batch, Tensor | None]:
    """Tell inputs from labels in what a loader yields."""
    if isinstance(batch, Mapping):
        inputs = {key: _tensor(name, value) for key, value in batch.items()}
        label_key = next((key for key in ("labels", "label") if key in inputs), None)
        return inputs, None if label_key is None else inputs.pop(label_key)
    if isinstance(batch, list | tuple) and len(batch) == 2 and all(map(_is_array, batch)):
        return _tensor(name, batch[0]), _tensor(name, batch[1])
    if isinstance(batch, list | tuple) and len(batch) == 1:
        batch = batch[0]
    if not _is_array(batch):
        raise UserError(
            f"Data set '{name}' yields {type(batch).__name__}; a batch must be a tensor, a pair "
            "(inputs, labels) or a mapping of tensors."
        )
    return _tensor(name, batch), None


def _is_array(value: object) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def _tensor(name: str, value: object) -> Tensor:
    tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
    if tensor.dim() == 0:
        raise UserError(f"Data set '{name}' holds a single number where an array is needed.")
    return tensor


def _to(name: str, batch: Batch, place: torch.device, dtype: torch.dtype | None) -> Batch:
    """Move to the model's device; floats take the model's precision, integers stay."""
    if isinstance(batch, Mapping):
        return {key: _to_tensor(name, value, place, dtype) for key, value in batch.items()}
    return _to_tensor(name, batch, place, dtype)


def _to_tensor(name: str, value: Tensor, place: torch.device, dtype: torch.dtype | None) -> Tensor:
    if not value.is_floating_point():
        return value.to(place)
    if not value.isfinite().all():
        bad = (~value.isfinite()).reshape(len(value), -1).any(dim=1)
        raise UserError(
            f"Data set '{name}' holds NaN or infinity in {int(bad.sum())} of {len(bad)} inputs of "
            f"a batch, the first at position {int(bad.nonzero()[0])}."
        )
    return value.to(place, dtype)


def _size(batch: Batch) -> int:
    return len(next(iter(batch.values()))) if isinstance(batch, Mapping) else len(batch)


def _join_labels(name: str, labels: list[Tensor]) -> Tensor:
    joined = torch.cat([part.cpu().reshape(len(part), -1) for part in labels])
    if joined.shape[1] != 1 or joined.is_floating_point() or joined.is_complex():
        raise UserError(
            f"Labels of data set '{name}' must be one integer per sample, got "
            f"{str(joined.dtype)[6:]} of shape {tuple(labels[0].shape)} in a batch."
        )
    return joined[:, 0].to(torch.int64)
