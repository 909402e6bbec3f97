"""What somebody's own detector has learned, as tensors and back: no pickle, no code in files."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from oodometer.errors import UserError, describe

_STATE = "state"  # of objects that say themselves what to keep


def is_function(own: object) -> bool:
    """Whether it is a function of images, perhaps with settings, and not an object that learns."""
    return inspect.isroutine(own) or isinstance(own, partial)


def attributes_of(own: object) -> dict[str, object]:
    """What an object has set; a function has set nothing."""
    if is_function(own):
        return {}
    listed = [getattr(kind, "__slots__", ()) for kind in type(own).__mro__]
    names = [n for slots in listed for n in ([slots] if isinstance(slots, str) else slots)]
    fixed = {name: getattr(own, name) for name in names if hasattr(own, name)}
    return fixed | dict(getattr(own, "__dict__", {}))


def state_of(name: str, own: object) -> dict[str, Tensor]:
    """What to keep of an object: its attributes, or what its ``state_dict`` returns.

    Numbers, texts, None, arrays, tensors and networks can be kept; names tell which is which.
    """
    if hasattr(own, "state_dict") and hasattr(own, "load_state_dict"):
        kept = own.state_dict()
        if not isinstance(kept, Mapping):
            raise UserError(
                f"state_dict of detector '{name}' must return a dictionary, got "
                f"{type(kept).__name__}."
            )
        return {f"{_STATE} {key}": _tensor(name, key, value) for key, value in kept.items()}
    state: dict[str, Tensor] = {}
    for attribute, value in attributes_of(own).items():
        if isinstance(value, nn.Module):
            weights = value.state_dict().items()
            state |= {f"{attribute} network {n}": v for n, v in weights if not is_lazy(v)}
        elif isinstance(value, str):
            text = np.frombuffer(value.encode(), np.uint8).copy()
            state[f"{attribute} text"] = torch.from_numpy(text)
        elif value is None:
            state[f"{attribute} none"] = torch.zeros(0)
        elif isinstance(value, bool | int | float):
            kind = type(value).__name__
            state[f"{attribute} {kind}"] = torch.tensor(value, dtype=_NUMBERS[kind])
        else:
            kind = "tensor" if isinstance(value, Tensor) else "array"
            state[f"{attribute} {kind}"] = _tensor(name, attribute, value)
    return state


_NUMBERS = {"bool": torch.bool, "int": torch.int64, "float": torch.float64}


def load_state(name: str, own: object, state: Mapping[str, Any]) -> None:
    """Give an object what it had learned."""
    tensors = {key: torch.as_tensor(value).detach().clone() for key, value in state.items()}
    networks: dict[str, dict[str, Tensor]] = {}
    kept: dict[str, Tensor] = {}
    for key, value in tensors.items():
        attribute, _, kind = key.partition(" ")
        if attribute == _STATE:
            kept[kind] = value
        elif kind.startswith("network "):
            networks.setdefault(attribute, {})[kind.removeprefix("network ")] = value
        else:
            setattr(own, attribute, _value(kind, value))
    for attribute, weights in networks.items():
        network = getattr(own, attribute, None)
        if not isinstance(network, nn.Module):
            raise UserError(
                f"Detector '{name}' makes the network '{attribute}' in fit: make it in __init__, "
                "so that it can be loaded (a parameter called shape gets the shape of an image), "
                "or define state_dict() and load_state_dict(state)."
            )
        # Layers that take their size from the first batch have no weights before.
        lazy = any(map(is_lazy, network.state_dict().values()))
        network.load_state_dict(weights, strict=not lazy)
    if kept:
        own.load_state_dict(kept)  # type: ignore[attr-defined]


def _value(kind: str, value: Tensor) -> object:
    if kind == "text":
        return value.numpy().tobytes().decode()
    if kind == "none":
        return None
    if kind in _NUMBERS:
        return value.item()
    return value if kind == "tensor" else value.numpy()


def _tensor(name: str, attribute: object, value: object) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().cpu().contiguous()
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fiub":
        try:
            return torch.from_numpy(np.require(value, requirements=["C", "W"]))
        except TypeError as problem:
            raise UserError(
                f"Detector '{name}' keeps '{attribute}', which cannot be saved: {describe(problem)}"
            ) from None
    raise UserError(
        f"Detector '{name}' keeps '{attribute}', a {type(value).__name__}, which cannot be saved: "
        "keep numbers, texts, arrays, tensors or networks in attributes, or define state_dict() "
        "and load_state_dict(state)."
    )
