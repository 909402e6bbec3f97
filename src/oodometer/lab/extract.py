"""Ask any classifier about any data: logits and features of the true forward pass, once each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from oodometer.errors import UserError, unknown
from oodometer.lab.inputs import Batch, Data, batches_of, join_labels, moved, size_of
from oodometer.outputs import Head, Outputs


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
    if not isinstance(batch_size, int) or batch_size < 1:
        raise UserError(f"batch_size must be a whole number of at least 1, got {batch_size!r}.")
    found = _head_by_name(model, head) if head is not None else None
    outputs = {}
    with _asked(model, device) as (place, dtype):
        for name, data in datasets.items():
            batches = (
                (moved(name, inputs, place, dtype), labels)
                for inputs, labels in batches_of(name, data, batch_size)
            )
            outputs[name], found = _pass(model, found, name, batches)
    return outputs


@contextmanager
def stem_relu_skipped(model: nn.Module) -> Iterator[None]:
    """Leave the ReLU behind the first layers out, as one published extractor did by mistake.

    It chained a network's child modules, and where that ReLU was called as a function, it was
    not among them: its features are of a network that was never trained.
    """
    relu = dict(model.named_modules()).get("stem.relu")
    if relu is None:
        raise UserError(
            "features 'skip_stem_relu' needs a network with a ReLU in its stem, such as resnet18; "
            f"{type(model).__name__} has none."
        )
    hook = relu.register_forward_hook(lambda _, inputs, output: inputs[0])
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _asked(
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
        with torch.no_grad():
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
        raise UserError(f"Device '{device}' cannot be used here: {said}") from None
    return place


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
            rows = size_of(inputs)
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
    joined = join_labels(name, labels)
    try:
        return Outputs(logits=z, features=x.to(kept), labels=joined, head=linear), head
    except UserError as problem:
        raise UserError(f"Data set '{name}': {problem}") from None


class _Listener:
    """Hooks on linear layers that remember what went in and out during one call."""

    def __init__(self, layers: Iterable[nn.Linear]) -> None:
        self.heard: dict[nn.Linear, list[tuple[Tensor, Tensor]]] = {}
        self._hooks = {
            layer: layer.register_forward_hook(self._remember, with_kwargs=True) for layer in layers
        }

    def _remember(
        self,
        layer: nn.Module,
        inputs: tuple[Tensor, ...],
        named: dict[str, Tensor],
        output: Tensor,
    ) -> None:
        assert isinstance(layer, nn.Linear)
        given = inputs[0] if inputs else named["input"]
        self.heard.setdefault(layer, []).append((given, output))

    def call(self, model: nn.Module, name: str, inputs: Batch) -> object:
        """Call the model; afterwards `heard` is about this call alone."""
        self.heard.clear()
        try:
            return model(**inputs) if isinstance(inputs, Mapping) else model(inputs)
        except (Exception, SystemExit) as problem:
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
        if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
            raise UserError(
                "A TorchScript module cannot be listened to: extract needs the original module."
            )
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
        if any(_same_logits(calls[-1][1], tensor) for _, tensor in called_logits or results)
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
    output, result = output.float(), result.float()
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
