"""A user's own trained classifier: its factory, and its weights from a file."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from oodometer.calls import Setting, parse_call
from oodometer.errors import UserError, describe, no_file
from oodometer.imports import import_object
from oodometer.lab.training.networks.custom import argument_names, inputs_of

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "weights", "model_ema", "ema")
_ENDINGS = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")
_COUNTER = "num_batches_tracked"  # of BatchNorm: how many batches it was trained with
_PREFIXES = ("module.", "_orig_mod.", "model.", "net.", "backbone.", "network.", "encoder.")


def load_model(
    factory: str, shape: tuple[int, ...] | None, classes: int | None, weights: Path | None
) -> nn.Module:
    """Build a network by ``package.module:factory`` and fill in weights from a file.

    The factory can have arguments, as in ``mine:resnet(depth=18)``; the sizes of an image and the
    number of classes are passed if it takes them. Weights are read from .safetensors, or from .pt
    and .pth without running any code in them; without a file, the network is used as constructed.
    """
    model = _build(factory, shape, classes)
    if weights is None:
        return model
    tensors = _read(weights)
    wanted = model.state_dict()
    tensors = _with_counters_of(model, _without_prefix(tensors, wanted))
    _require_fit(weights, factory, tensors, wanted)
    # Names and shapes fit; BatchNorm asks for a counter even where it has none.
    model.load_state_dict(tensors, strict=False)
    return model


def _with_counters_of(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Take the counters of batches from the network: older files lack them, evaluation needs none.

    Files may also hold counters for layers that keep none.
    """
    counters = {
        ".".join(filter(None, (name, _COUNTER))): getattr(layer, _COUNTER)
        for name, layer in model.named_modules()
        if hasattr(layer, _COUNTER)
    }
    own = {name: counter for name, counter in counters.items() if counter is not None}
    return own | {
        name: tensor for name, tensor in tensors.items() if name in own or name not in counters
    }


def _build(factory: str, shape: tuple[int, ...] | None, classes: int | None) -> nn.Module:
    name, given = parse_call("model", factory)
    build = import_object("Model", name)
    if isinstance(build, nn.Module):  # made already
        return build
    if not callable(build):
        raise UserError(
            f"Model '{factory}' must be a torch.nn.Module, or a function or class that makes one, "
            f"got {type(build).__name__}."
        )
    offered: dict[str, int] = {} if shape is None else inputs_of(shape)
    if classes is not None:
        offered |= {"classes": classes, "num_classes": classes}
    try:
        model = build(**_arguments(build, offered, given))
    except UserError:
        raise
    except (Exception, SystemExit) as problem:
        raise UserError(
            f"Model '{factory}' could not be built: {describe(problem)} (arguments may be given as "
            f"in '{name}(classes=10)')."
        ) from problem
    if not isinstance(model, nn.Module):
        raise UserError(
            f"Model '{factory}' must make a torch.nn.Module, got {type(model).__name__}."
        )
    return model


def _arguments(
    build: Callable[..., object],
    offered: Mapping[str, int],
    given: Mapping[str, Setting],
) -> dict[str, Setting]:
    """What the user set, and what is known of the data, if the factory has such parameters."""
    try:
        names = argument_names(inspect.signature(build))
    except ValueError:  # some callables written in C have no signature
        return dict(given)
    taken = {key: value for key, value in offered.items() if key in names and key not in given}
    return {**taken, **given}


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise no_file("Weights file", path, _ENDINGS)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # noqa: BLE001 - whatever a hostile file makes readers raise
        reason = describe(problem, named=False).partition(". ")[0].rstrip(".")
        if not re.search("[a-z]", reason) or reason.startswith("["):  # of PyTorch's reader
            reason = "not a file of torch.save"
        raise UserError(
            f"Weights '{path}' cannot be read safely ({reason}): save them with "
            "safetensors.torch.save_file(model.state_dict(), FILE)."
        ) from None
    for wrapper in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
            break
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise UserError(f"Weights '{path}' must hold a state_dict: names and tensors, no more.")
    sparse = [name for name, tensor in content.items() if tensor.layout is not torch.strided]
    if sparse:
        raise UserError(f"Weights '{path}': {sparse[0]} is sparse; save {sparse[0]}.to_dense().")
    return content


def _without_prefix(given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Strip what DataParallel, compile and trainers put before all names, where it then fits."""
    tensors = dict(given)
    # The network has the prefix and the file does not: it was saved before it was wrapped.
    for prefix in _PREFIXES:
        if tensors and {prefix + name for name in tensors} == set(wanted):
            return {prefix + name: value for name, value in tensors.items()}
    while not set(tensors) & set(wanted):
        prefix = next((p for p in _PREFIXES if any(name.startswith(p) for name in tensors)), "")
        if not prefix:
            return dict(given)
        # A trainer keeps its own things beside the network, such as the weights of a loss.
        tensors = {
            name.removeprefix(prefix): value
            for name, value in tensors.items()
            if name.startswith(prefix)
        }
    return tensors


def _require_fit(
    path: Path, factory: str, given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]
) -> None:
    def some(names: list[str]) -> str:
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    lacking = [name for name in wanted if name not in given]
    if lacking:
        others = "" if set(given) & set(wanted) else f"; they hold {some(list(given))}"
        raise UserError(f"Weights '{path}' lack {some(lacking)}, which '{factory}' has{others}.")
    extra = [name for name in given if name not in wanted]
    if extra:
        raise UserError(f"Weights '{path}' hold {some(extra)}, which '{factory}' does not have.")
    for name, tensor in wanted.items():
        if is_lazy(tensor):
            continue  # a lazy layer takes its shape from the file
        if given[name].shape != tensor.shape:
            raise UserError(
                f"Weights '{path}': {name} has shape {tuple(given[name].shape)}, but '{factory}' "
                f"has {tuple(tensor.shape)}."
            )
    bad = [n for n, t in given.items() if t.is_floating_point() and not t.isfinite().all()]
    if bad:
        raise UserError(f"Weights '{path}' hold NaN or infinity in {some(bad)}.")
