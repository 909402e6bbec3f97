"""Saved outputs of any framework: which arrays a file holds, and how they become Outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.outputs import Head, Outputs, softmax_kind
from oodometer.outputs.mapped import tensor_of
from oodometer.saved.files import open_file
from oodometer.saved.names import NAMED_PARTS, NAMES, match_arrays

__all__ = ["load_outputs"]

Arrays = dict[str, NDArray[Any]]
_LOOK = 1000  # rows that are enough to tell probabilities from logits
_LABELLED = ("train", "id")


def load_outputs(
    files: Mapping[str, str | Path], notify: Callable[[str], None] = lambda _: None
) -> dict[str, Outputs]:
    """Read one classifier's outputs on several data sets, a file each.

    A file holds any of logits, features and labels, and the last linear layer as weight and bias;
    it is enough if one file has these, or an entry called `head`. Layers and probes are named
    ``layers/NAME`` and ``probes/NAME``. `notify` is called with a note for each array that was
    recognized by another name or shape. All floats are converted to the narrowest type present, at
    least float32. Labels are read only from "train" and "id": those of outliers are of other
    classes.
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
        _note_softmax(paths[name], arrays, head, notes)
    for text, where in notes.items():
        notify(f"{', '.join(where)}: {text}")
    return {name: _outputs(name, paths[name], arrays, head) for name, arrays in parts.items()}


class _Notes(dict[str, list[str]]):
    """Notes, and the files that each of them is about."""

    def add(self, path: Path, text: str) -> None:
        self.setdefault(text, []).append(f"'{path}'")


def _read(name: str, path: Path, notes: _Notes) -> Arrays:
    readers = open_file(path)
    wanted = [part for part in NAMES if part != "labels" or name in _LABELLED]
    arrays, recognized = match_arrays(path, readers, wanted)
    if recognized:
        notes.add(path, ", ".join(f"using '{other}' as {part}" for other, part in recognized))
    if name != "head" and not {"logits", "features"} & set(arrays):
        raise UserError(f"'{path}' holds neither logits nor features, but {', '.join(readers)}.")
    return {part: _numbers(f"{part} of '{path}'", part, array) for part, array in arrays.items()}


def _numbers(title: str, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array in this machine's byte order, without empty dimensions behind the second."""
    _require_numbers(title, name, array)
    if array.ndim > 2 and array[:1].size == array.shape[1] * bool(len(array)):
        array = array.reshape(array.shape[:2])  # (n, width, 1, 1), as pooling leaves it
    _require_dimensions(title, name, array)
    if name == "features" and array.dtype.kind in "iub":
        return array.astype(np.float32)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return native.astype(np.float64) if native.dtype.itemsize > 8 else native


def _require_numbers(title: str, name: str, array: NDArray[Any]) -> None:
    if array.dtype.kind in "SUO" and name == "labels":
        example = f" such as {array.reshape(-1)[0]}" if array.size else ""
        raise UserError(
            f"{title} are texts{example}; labels must be class indices, counted from 0 in the "
            "order of the logits."
        )
    if array.dtype == np.dtype("V2"):
        raise UserError(f"{title} seem to be bfloat16, which NumPy cannot store: save as float32.")
    if array.dtype.kind not in "fiub":
        raise UserError(f"{title} must hold numbers, got {array.dtype}.")


def _require_dimensions(title: str, name: str, array: NDArray[Any]) -> None:
    if not array.ndim:
        raise UserError(f"{title} are a single number, but need one row per sample.")
    if array.ndim == 1 and name in ("features", "weight"):
        raise UserError(f"{title} must have 2 dimensions, got shape {array.shape}.")
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
        notes.add(path, f"weight of shape {weight.shape} is transposed to (classes, width)")
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
                with np.errstate(over="ignore"):  # Outputs refuse infinity
                    part[name] = array.astype(np.float32)


def _note_softmax(path: Path, arrays: Arrays, head: Head | None, notes: _Notes) -> None:
    """Say that logits are what a softmax made of them, and what follows from that."""
    logits = arrays.get("logits")
    if logits is None or logits.dtype.kind != "f":
        return
    if kind := softmax_kind(tensor_of(logits[:_LOOK])):
        told = (
            "they are recomputed from features and head"
            if head is not None and "features" in arrays
            else "detectors that need logits, such as energy and max_logit, are left out"
        )
        notes.add(path, f"the logits are {kind}: {told}")


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
