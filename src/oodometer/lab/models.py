"""A user's own trained classifier: its factory, and its weights from a file."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.networks.custom import arguments_of, inputs_of, load_factory

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "weights")
_PREFIXES = ("module.", "_orig_mod.", "model.", "net.")  # of DataParallel, compile and trainers


def load_model(factory: str, shape: tuple[int, ...], classes: int, weights: Path) -> nn.Module:
    """Build a network by ``package.module:factory`` and fill in weights from a file.

    Weights are read from .safetensors, or from .pt and .pth without running any code in them.
    """
    build = load_factory(factory)
    model = build(**arguments_of(factory, build, inputs_of(shape) | {"classes": classes}))
    if not isinstance(model, nn.Module):
        raise UserError(f"'{factory}' must make a torch.nn.Module, got {type(model).__name__}.")
    tensors = _read(weights)
    wanted = model.state_dict()
    if not set(tensors) & set(wanted):
        for prefix in _PREFIXES:
            stripped = {name.removeprefix(prefix): value for name, value in tensors.items()}
            if set(stripped) & set(wanted):
                tensors = stripped
                break
    _require_fit(weights, factory, tensors, wanted)
    model.load_state_dict(tensors)
    return model


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise UserError(f"Weights '{path}' do not exist.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # noqa: BLE001 - whatever a hostile file makes readers raise
        said = str(problem).strip().splitlines()[0] if str(problem).strip() else ""
        raise UserError(
            f"Weights '{path}' cannot be read safely ({said or type(problem).__name__}): save them "
            "with safetensors.torch.save_file(model.state_dict(), FILE)."
        ) from None
    for wrapper in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
            break
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise UserError(f"Weights '{path}' must hold a state_dict: names and tensors, no more.")
    return content


def _require_fit(
    path: Path, factory: str, given: dict[str, Tensor], wanted: dict[str, Tensor]
) -> None:
    def some(names: list[str]) -> str:
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    lacking = [name for name in wanted if name not in given]
    if lacking:
        raise UserError(f"Weights '{path}' lack {some(lacking)}, which '{factory}' has.")
    extra = [name for name in given if name not in wanted]
    if extra:
        raise UserError(f"Weights '{path}' hold {some(extra)}, which '{factory}' has not.")
    for name, tensor in wanted.items():
        if given[name].shape != tensor.shape:
            raise UserError(
                f"Weights '{path}': {name} has shape {tuple(given[name].shape)}, but '{factory}' "
                f"has {tuple(tensor.shape)}."
            )
