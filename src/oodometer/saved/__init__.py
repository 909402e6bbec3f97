"""Outputs in files, from any framework: what they hold, and how it becomes Outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.outputs import Head, Outputs
from oodometer.saved.files import open_file
from oodometer.saved.names import NAMED_PARTS, NAMES, taken

__all__ = ["load_outputs"]

Arrays = dict[str, NDArray[Any]]
_LOOK = 1000  # rows that are enough to tell probabilities from logits
_LABELLED = ("train", "id")


def load_outputs(
    files: Mapping[str, str | Path], tell: Callable[[str], None] = lambda _: None
) -> dict[str, Outputs]:
    """Read one classifier's outputs on several data sets, a file each.

    A file holds logits, features and labels, whatever there is of them, and the last linear layer
    as weight and bias; it is enough if one file has these. An entry called `head` may hold nothing
    else. Layers and probes are named ``layers/NAME`` and ``probes/NAME``. `tell` hears what was
    recognised though it is called or shaped otherwise. All floats get one type: the narrowest that
    is there, and at least float32. Labels are read of "train" and "id" only: those of outliers are
    of other classes.
    """
    paths = {name: Path(path).expanduser() for name, path in files.items()}
    notes = _Notes()
    parts = {name: _read(name, path, notes) for name, path in paths.items()}
    every = list(parts.values())
    for name, arrays in parts.items():
        if "weight" in arrays:
            arrays["weight"] = _upright(paths[name], arrays, every, notes)
    _narrow(every)
    first = {"head": parts.pop("head", {}), **parts}  # the head that was named is that of all
    if not parts:
        raise UserError("Only a head was given: name files of outputs, such as train=FILE.")
    head = next((_head(arrays) for arrays in first.values() if "weight" in arrays), None)
    for name, arrays in parts.items():
        _unsquash(paths[name], arrays, head, notes)
    for text, where in notes.items():
        tell(f"{', '.join(where)}: {text}")
    return {name: _outputs(name, paths[name], arrays, head) for name, arrays in parts.items()}


class _Notes(dict[str, list[str]]):
    """What is to be told, and of which files."""

    def add(self, path: Path, text: str) -> None:
        self.setdefault(text, []).append(f"'{path}'")


def _read(name: str, path: Path, notes: _Notes) -> Arrays:
    shelf = open_file(path)
    wanted = [part for part in NAMES if part != "labels" or name in _LABELLED]
    found, guessed = taken(path, shelf, wanted)
    if guessed:
        notes.add(path, ", ".join(f"'{other}' is taken as {part}" for other, part in guessed))
    if name != "head" and not {"logits", "features"} & set(found):
        raise UserError(f"'{path}' holds neither logits nor features, but {', '.join(shelf)}.")
    return {part: _numbers(f"{part} of '{path}'", part, array) for part, array in found.items()}


def _numbers(title: str, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array in this machine's byte order, without empty dimensions behind the second."""
    if array.dtype.kind in "SUO" and name == "labels":
        example = f" such as {array.reshape(-1)[0]}" if array.size else ""
        raise UserError(
            f"{title} are texts{example}; each must be the number of its class, counted from 0 in "
            "the order of the logits."
        )
    if array.dtype == np.dtype("V2"):
        raise UserError(f"{title} seem to be bfloat16, which NumPy cannot store: save as float32.")
    if array.dtype.kind not in "fiub":
        raise UserError(f"{title} must hold numbers, got {array.dtype}.")
    if not array.ndim:
        raise UserError(f"{title} are a single number, but need one row per sample.")
    if array.ndim == 1 and name in ("features", "weight"):
        raise UserError(f"{title} must have 2 dimensions, got shape {array.shape}.")
    if array.ndim > 2 and array[:1].size == array.shape[1] * bool(len(array)):
        array = array.reshape(array.shape[:2])  # (n, width, 1, 1), as pooling leaves it
    if array.ndim > 2 and name == "features":
        raise UserError(
            f"{title} have shape {array.shape}, but must be one vector per sample, exactly what "
            "enters the last linear layer: apply the network's own pooling or flattening first."
        )
    if array.ndim == 1 and name == "logits":
        raise UserError(
            f"{title} are one number per sample, but need one per class: for a binary classifier "
            "with the single output z, save numpy.stack([0 * z, z], axis=1)."
        )
    if name == "features" and array.dtype.kind in "iub":
        return array.astype(np.float32)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return native.astype(np.float64) if native.dtype.itemsize > 8 else native


def _upright(path: Path, arrays: Arrays, every: list[Arrays], notes: _Notes) -> NDArray[Any]:
    """The weight as (classes, width): Keras and JAX keep it as (width, classes)."""
    weight = arrays["weight"]
    widths = {part["features"].shape[1] for part in every if "features" in part}
    classes = {part["logits"].shape[1] for part in every if "logits" in part}
    classes |= {len(arrays["bias"])} if "bias" in arrays else set()
    if weight.ndim != 2 or weight.shape[0] == weight.shape[1]:
        return weight
    fits, turned = (
        all(
            size in known or not known for size, known in zip(shape, (classes, widths), strict=True)
        )
        for shape in (weight.shape, weight.shape[::-1])
    )
    if turned and not fits:
        notes.add(path, f"weight of shape {weight.shape} is turned to (classes, width)")
        return np.ascontiguousarray(weight.T)
    return weight


def _narrow(every: list[Arrays]) -> None:
    """Give all floats the narrowest type that is there; halves stay, and become float32 later."""
    floats = [
        array.dtype.itemsize
        for part in every
        for name, array in part.items()
        if array.dtype.kind == "f" and name != "labels"
    ]
    if not floats or min(floats) >= 8:
        return
    for part in every:
        for name, array in part.items():
            if array.dtype == np.float64 and name != "labels":
                with np.errstate(over="ignore"):  # infinity is told of when Outputs are made
                    part[name] = array.astype(np.float32)


def _unsquash(path: Path, arrays: Arrays, head: Head | None, notes: _Notes) -> None:
    """Replace probabilities by what they came from, or by their logarithms, and say so."""
    logits = arrays.get("logits")
    if logits is None or logits.ndim != 2 or logits.shape[1] < 2 or logits.dtype.kind != "f":
        return
    rows = logits[:_LOOK].astype(np.float64)
    if not len(rows) or not np.isfinite(rows).all():
        return
    near = 1e-5 if logits.dtype.itemsize > 2 else 1e-2
    if (rows >= 0).all() and np.allclose(rows.sum(1), 1, atol=near):
        kind = "probabilities"
    elif (rows <= 0).all() and np.allclose(np.exp(rows).sum(1), 1, atol=near):
        kind = "logarithms of probabilities"
    else:
        return
    if head is not None and "features" in arrays:
        del arrays["logits"]
        notes.add(path, f"the logits are {kind}, and are computed from features and head instead")
        return
    notes.add(
        path,
        f"the logits are {kind}; their size is lost, so that energy, max_logit and all "
        "that reads more of logits than their softmax tell less than they could",
    )
    if kind == "probabilities":
        tiny = np.finfo(np.float32).tiny
        arrays["logits"] = np.log(np.maximum(logits.astype(np.float64), tiny)).astype(
            np.promote_types(logits.dtype, np.float32)
        )


def _outputs(name: str, path: Path, arrays: Arrays, head: Head | None) -> Outputs:
    own = _head(arrays) if "weight" in arrays else head
    layers, probes = (_under(prefix, arrays) for prefix in NAMED_PARTS)
    try:
        return Outputs(
            arrays.get("logits"),  # type: ignore[arg-type]  # arrays become tensors
            arrays.get("features"),  # type: ignore[arg-type]
            arrays.get("labels"),  # type: ignore[arg-type]
            own,
            layers,  # type: ignore[arg-type]
            probes,  # type: ignore[arg-type]
        )
    except UserError as problem:
        raise UserError(f"Outputs '{name}' in '{path}': {problem}") from None


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _head(arrays: Arrays) -> Head:
    weight = arrays["weight"]
    bias = arrays.get("bias")
    if bias is None:  # a layer without one
        bias = np.zeros(len(weight), dtype=weight.dtype)
    return Head(weight, bias)  # type: ignore[arg-type]  # arrays become tensors
