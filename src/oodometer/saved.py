"""Outputs in files, from any framework: .npz, Parquet or safetensors with the names of Outputs."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError, unknown
from oodometer.outputs import Head, Outputs

NAMES = ("logits", "features", "labels", "weight", "bias")
SUFFIXES = (".npz", ".parquet", ".safetensors")
Arrays = dict[str, NDArray[Any]]


def load_outputs(files: Mapping[str, str | Path]) -> dict[str, Outputs]:
    """Read one classifier's outputs on several data sets, a file each.

    A file holds logits, features and labels, whatever there is of them, and the last linear layer
    as weight and bias; it is enough if one file has these. An entry called `head` may hold nothing
    else. Layers and probes are named ``layers/NAME`` and ``probes/NAME``.
    """
    arrays = {name: _read(Path(path)) for name, path in files.items()}
    head_only = arrays.pop("head", {})
    sources = [part for part in (head_only, *arrays.values()) if "weight" in part]
    head = _head(sources[0]) if sources else None
    if not arrays:
        raise UserError("Only a head was given: name files of outputs, such as train=FILE.")
    return {name: _outputs(name, files[name], part, head) for name, part in arrays.items()}


def _outputs(name: str, path: str | Path, arrays: Arrays, head: Head | None) -> Outputs:
    own = _head(arrays) if "weight" in arrays else head
    try:
        return Outputs(
            arrays.get("logits"),  # type: ignore[arg-type]  # arrays become tensors
            arrays.get("features"),  # type: ignore[arg-type]
            None if "labels" not in arrays else _whole(arrays["labels"]),  # type: ignore[arg-type]
            own,
            _under("layers/", arrays),  # type: ignore[arg-type]
            _under("probes/", arrays),  # type: ignore[arg-type]
        )
    except UserError as problem:
        raise UserError(f"Outputs '{name}' in '{path}': {problem}") from None


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _whole(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels are often saved as floats; those that are whole numbers are meant as such."""
    flat = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if flat.dtype.kind == "f" and np.isfinite(flat).all() and (flat == flat.round()).all():
        return flat.astype(np.int64)
    return flat


def _head(arrays: Arrays) -> Head:
    weight = arrays["weight"]
    bias = arrays.get("bias")
    if bias is None:  # a layer without one
        bias = np.zeros(len(weight), dtype=weight.dtype)
    return Head(weight, bias)  # type: ignore[arg-type]  # arrays become tensors


def _read(path: Path) -> Arrays:
    if path.suffix not in SUFFIXES:
        raise UserError(
            f"Outputs are read from {', '.join(SUFFIXES)} files, but '{path}' is none of these."
        )
    if not path.is_file():
        raise UserError(f"'{path}' does not exist.")
    readers = {".npz": _read_npz, ".parquet": _read_parquet, ".safetensors": _read_safetensors}
    try:
        arrays = readers[path.suffix](path)
    except UserError:
        raise
    except (OSError, ValueError, zipfile.BadZipFile, KeyError, EOFError) as problem:
        said = " ".join(str(problem).split()) or type(problem).__name__
        raise UserError(f"'{path}' cannot be read as {path.suffix[1:]}: {said}.") from None
    for name in arrays:
        if not _is_ours(name) and get_close_matches(name, NAMES, cutoff=0.75):
            raise unknown(f"array in '{path}':", name, NAMES)  # a slip of the pen
    ours = {name: value for name, value in arrays.items() if _is_ours(name)}
    if not ours:
        found = ", ".join(arrays) or "nothing"
        raise UserError(f"'{path}' holds none of {', '.join(NAMES)}, but {found}.")
    return {name: _native(f"{name} of '{path}'", value) for name, value in ours.items()}


def _is_ours(name: str) -> bool:
    """People keep other arrays in the same file: paths, ids. They are left alone."""
    return name in NAMES or name.startswith(("layers/", "probes/"))


def _native(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "fiub":
        raise UserError(f"{name} must hold numbers, got {array.dtype}.")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    if native.dtype.kind == "f" and native.dtype.itemsize > 8:
        return native.astype(np.float64)
    return native


def _read_npz(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as content:
        # A name of another array is enough: it may hold objects, which are not read.
        unread = np.empty(0)
        return {name: content[name] if _is_ours(name) else unread for name in content.files}


def _read_safetensors(path: Path) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except SafetensorError as problem:
        raise UserError(f"'{path}' cannot be read as safetensors: {problem}.") from None
    # By way of torch: NumPy has no bfloat16.
    return {
        name: (tensor.float() if tensor.is_floating_point() and tensor.itemsize < 4 else tensor)
        .contiguous()
        .numpy()
        for name, tensor in tensors.items()
    }


def _read_parquet(path: Path) -> Arrays:
    """A column of lists per array, or columns logits_0, logits_1 and so on."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(path)
    arrays: Arrays = {}
    numbered: dict[str, dict[int, NDArray[Any]]] = {}
    for column in table.column_names:
        name, _, number = column.rpartition("_")
        if name in NAMES and number.isdigit():
            values = table[column].to_numpy(zero_copy_only=False)
            numbered.setdefault(name, {})[int(number)] = values
        elif not _is_ours(column):
            arrays[column] = np.empty(0)
        elif column in ("weight", "bias"):  # as many rows as there are classes, the others empty
            arrays[column] = _stacked(path, column, table[column].drop_null().to_pylist())
        else:
            arrays[column] = _stacked(path, column, table[column].to_pylist())
    for name, columns in numbered.items():
        if sorted(columns) != list(range(len(columns))):
            raise UserError(f"'{path}' lacks some of the columns {name}_0, {name}_1, …")
        arrays[name] = np.stack([columns[n] for n in range(len(columns))], axis=1)
    return arrays


def _stacked(path: Path, column: str, rows: list[Any]) -> NDArray[Any]:
    if any(row is None for row in rows):
        raise UserError(f"Column '{column}' of '{path}' has empty cells.")
    try:
        return np.array(rows)
    except ValueError:
        raise UserError(f"The rows of column '{column}' of '{path}' differ in length.") from None
