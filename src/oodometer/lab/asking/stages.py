"""The stages of a network: the parts whose outputs layer-wise detectors read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from oodometer.errors import UserError, unknown

_ONE_DIMENSIONAL = (
    nn.Conv1d, nn.ConvTranspose1d, nn.BatchNorm1d, nn.MaxPool1d, nn.AvgPool1d,
    nn.AdaptiveMaxPool1d, nn.AdaptiveAvgPool1d,
)  # fmt: skip


def candidates(
    model: nn.Module, head: nn.Module | None, names: Sequence[str] | None
) -> dict[str, nn.Module]:
    """Modules that may be stages: the named ones, those that the network names, or its blocks.

    The networks of this package name theirs in `stage_names`. Of any other, the blocks are the
    children that hold weights; a wrapper around a single one is opened. Where none of them has
    children of its own, its activations are taken, and without these all layers with weights.
    """
    before, inner = _unwrapped(model)
    own = getattr(inner, "stage_names", None)
    if names is None and own:
        names = [_path(before, name) for name in own]
    return _blocks(before, inner, head) if names is None else _named(model, names)


def names_stages(model: nn.Module, names: Sequence[str] | None) -> bool:
    """Tell whether somebody, the user or the network, says which its stages are."""
    return names is not None or bool(getattr(_unwrapped(model)[1], "stage_names", ()))


def _unwrapped(model: nn.Module) -> tuple[str, Any]:
    """Open modules around a single one, such as nn.DataParallel; return its name and itself."""
    before = ""
    while not getattr(model, "stage_names", ()):
        children = list(model.named_children())
        if len(children) != 1 or next(children[0][1].children(), None) is None:
            break
        before, model = _path(before, children[0][0]), children[0][1]
    return before, model


def _path(before: str, name: str) -> str:
    return f"{before}.{name}" if before else name


def _named(model: nn.Module, names: Sequence[str]) -> dict[str, nn.Module]:
    if isinstance(names, str) or not names:
        raise UserError(f"layers must be a list of names of modules, got {names!r}.")
    modules = {name: module for name, module in model.named_modules() if name}
    for name in names:
        if name not in modules:
            raise unknown("layer", name, modules)
    if len(set(names)) < len(names):
        raise UserError(f"layers names a module twice: {', '.join(names)}.")
    return {name: modules[name] for name in names}


def _blocks(before: str, root: nn.Module, head: nn.Module | None) -> dict[str, nn.Module]:
    while True:
        children = _children(root, before)
        weighty = {
            name: child
            for name, child in children.items()
            if next(child.parameters(), None) is not None
            and (head is None or all(module is not head for module in child.modules()))
        }
        if len(weighty) != 1:
            break
        ((name, only),) = weighty.items()
        if not _children(only, name):
            break
        before, root = name, only
    containers = {name: child for name, child in weighty.items() if _children(child, name)}
    active = {
        name: child
        for name, child in children.items()
        if type(child).__module__ == nn.ReLU.__module__ and next(child.children(), None) is None
    }
    return containers or active or weighty


def _children(module: nn.Module, before: str) -> dict[str, nn.Module]:
    """Children by their full names; a list of modules is never called itself, so its members."""
    found: dict[str, nn.Module] = {}
    for name, child in module.named_children():
        path = _path(before, name)
        if isinstance(child, nn.ModuleList | nn.ModuleDict):
            found |= _children(child, path)
        else:
            found[path] = child
    return found


def first_tensor(output: object) -> Tensor | None:
    """The tensor that a module gives, alone or before others."""
    if isinstance(output, list | tuple) and output:
        output = output[0]
    return output if isinstance(output, Tensor) else None


def with_first(output: Any, tensor: Tensor) -> object:
    """Put another tensor in the place of the first."""
    if isinstance(output, Tensor):
        return tensor
    rest = (tensor, *output[1:])
    return type(output)(*rest) if hasattr(output, "_fields") else type(output)(rest)


def as_matrix(output: Tensor, module: nn.Module) -> Tensor:
    """What a stage says as (n, channels, positions).

    Images are (n, channels, height, width), vectors (n, channels). Three dimensions are tokens,
    (n, tokens, channels), unless a one-dimensional convolution or the like is in the stage.
    """
    if output.dim() == 2:
        return output[:, :, None]
    if output.dim() == 3 and not any(isinstance(m, _ONE_DIMENSIONAL) for m in module.modules()):
        return output.transpose(1, 2)
    return output.flatten(2)


def usable(calls: Mapping[nn.Module, list[object]], module: nn.Module, rows: int) -> bool:
    """Tell whether a module ran once and gave floats, one row per sample."""
    outputs = calls.get(module, [])
    if len(outputs) != 1:
        return False
    tensor = first_tensor(outputs[0])
    return (
        tensor is not None
        and tensor.is_floating_point()
        and tensor.dim() >= 2
        and len(tensor) == rows
        and tensor[:1].numel() > 0
    )
