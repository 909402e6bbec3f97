"""Arrays in files of any framework: .npz, .npy, safetensors, Parquet. No file can run code.

What is large is mapped into memory and read when it is needed, where the format allows it: all but
Parquet and compressed .npz.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError, describe, no_file
from oodometer.files import refuse_special

if TYPE_CHECKING:
    import pyarrow

_Read = TypeVar("_Read")
Array = NDArray[Any]
ArrayReaders = Mapping[str, Callable[[], Array]]  # the arrays of a file: name -> what reads it
_MAPPED = 64 * 2**20  # bytes; from there on arrays are mapped
_OBJECTS = "it holds Python objects, which are not read because they could run code"
_PROBLEMS = (
    OSError, ValueError, KeyError, EOFError, TypeError, OverflowError, MemoryError, RuntimeError,
    zipfile.BadZipFile,
)  # fmt: skip
_PLAIN = {  # types of safetensors that NumPy has
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip


def open_file(path: Path) -> ArrayReaders:
    """List the arrays of a file, of a folder of .npy files, or of the parts of a Parquet set."""
    refuse_special(path, "Outputs")
    kind = _kind(path)
    if not path.exists() and (kind in _READERS or not kind):
        raise no_file("Outputs file", path, (own for own in _READERS if own.startswith(".")))
    if kind not in _READERS:
        raise UserError(_refusal(path))
    return reading(path, lambda: _READERS[kind](path))


def reading(path: Path, read: Callable[[], _Read]) -> _Read:
    """Call a reader; whatever is wrong with the file becomes a UserError of one sentence."""
    from pyarrow import ArrowException

    try:
        return read()
    except UserError:
        raise
    except (*_PROBLEMS, ArrowException) as problem:
        reason = describe(problem, named=False).rstrip(".")
        raise UserError(f"'{path}' cannot be read as {_kind(path)[1:]}: {reason}.") from None


def _kind(path: Path) -> str:
    if path.is_dir():
        inside = {file.suffix.lower() for file in path.iterdir()}
        return next((f"/{kind[1:]}" for kind in (".npy", ".parquet") if kind in inside), "/")
    kind = path.suffix.lower()
    return ".parquet" if kind in (".pq", ".parq") else kind


def _refusal(path: Path) -> str:
    """Say what to do with a file that is not read here."""
    if path.is_dir():
        return f"The folder '{path}' holds no .npy files, such as logits.npy and features.npy."
    if path.suffix.lower() == ".npy":
        return (
            f"'{path}' is a single array without a name: put logits.npy, features.npy and "
            "labels.npy into a folder and give that, or save them together by numpy.savez."
        )
    advice = {
        ".pkl": "numpy.savez", ".pickle": "numpy.savez", ".joblib": "numpy.savez",
        ".pt": "safetensors.torch.save_file", ".pth": "safetensors.torch.save_file",
        ".ckpt": "safetensors.torch.save_file", ".bin": "safetensors.torch.save_file",
    }.get(path.suffix.lower())  # fmt: skip
    if advice:
        return f"'{path}' can hold code, and is not read: save the arrays by {advice}."
    return (
        "Outputs are read from .npz, .parquet and .safetensors files, and from folders of .npy "
        f"files, but '{path}' is none of these."
    )


def _read_npz(path: Path) -> ArrayReaders:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    return {
        member.filename.removesuffix(".npy"): partial(reading, path, partial(_member, path, member))
        for member in members
        if member.filename.endswith(".npy")
    }


def _member(path: Path, member: zipfile.ZipInfo) -> Array:
    """One array of an .npz file: mapped, if it is large and was not compressed."""
    with zipfile.ZipFile(path) as archive:
        with archive.open(member) as content:
            shape, fortran, dtype = _read_header(content)
            length = content.tell()
        with archive.open(member) as content:
            if member.compress_type != zipfile.ZIP_STORED or member.file_size < _MAPPED:
                read: Array = np.lib.format.read_array(content, allow_pickle=False)
                content.read()  # to the end, where the checksum is compared
                return read
            while content.read(1 << 20):
                pass  # as above
    if length + dtype.itemsize * math.prod(shape) != member.file_size:
        raise ValueError(f"{member.filename} is not as long as its header says")
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(30)
    name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    start = member.header_offset + 30 + name + extra
    return np.memmap(path, dtype, "r", start + length, shape, "F" if fortran else "C")


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of a NumPy array file; objects are refused before their bytes."""
    form = np.lib.format
    first = form.read_magic(file) == (1, 0)
    header = (form.read_array_header_1_0 if first else form.read_array_header_2_0)(file)
    if header[2].hasobject:
        raise ValueError(_OBJECTS)
    return header


def _read_folder(path: Path) -> ArrayReaders:
    return {
        file.stem: partial(reading, file, partial(_read_npy, file))
        for file in sorted(path.iterdir())
        if file.suffix.lower() == ".npy"
    }


def _read_npy(path: Path) -> Array:
    with path.open("rb") as file:
        _read_header(file)
    array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _read_safetensors(path: Path) -> ArrayReaders:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt"):  # checks what the header claims
            pass
    except SafetensorError as problem:
        raise ValueError(str(problem)) from None
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)

    def read(name: str) -> Array:
        about, begin = header[name], 8 + length
        size = about["data_offsets"][1] - about["data_offsets"][0]
        if about["dtype"] in _PLAIN and size >= _MAPPED:
            place = begin + about["data_offsets"][0]
            return np.memmap(path, _PLAIN[about["dtype"]], "r", place, tuple(about["shape"]))
        with safe_open(path, framework="pt") as content:
            tensor = content.get_tensor(name)
        if tensor.is_floating_point() and about["dtype"] not in _PLAIN:
            # NumPy has no bfloat16; a half that it has says as well how exact the numbers are.
            tensor = tensor.float()
        found: Array = tensor.contiguous().numpy()
        return found

    return {name: partial(reading, path, partial(read, name)) for name in header}


def _read_parquet(path: Path) -> ArrayReaders:
    """Columns of numbers or lists; f_0, f_1 and so on, from 0 or 1, are together the array f."""
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(path, format="parquet")
    numbered: dict[str, dict[int, str]] = {}
    for column in table.schema.names:
        if match := re.fullmatch(r"(.*?[^\d_.\[ -])[_.\[ -]?(\d+)\]?", column):
            numbered.setdefault(match[1], {})[int(match[2])] = column
    shelf: dict[str, Callable[[], Array]] = {
        name: partial(reading, path, partial(_joined, table, path, name, columns))
        for name, columns in numbered.items()
    }
    for column in table.schema.names:
        shelf[column] = partial(reading, path, partial(_column, table, path, column))
    return shelf


def _joined(table: Any, path: Path, name: str, columns: Mapping[int, str]) -> Array:
    numbers = sorted(columns)
    if numbers[0] > 1 or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise UserError(
            f"'{path}' lacks some of the columns {columns[numbers[0]]} to {columns[numbers[-1]]}."
        )
    return np.stack([_column(table, path, columns[number]) for number in numbers], axis=1)


def _column(table: Any, path: Path, column: str) -> Array:
    """One column as an array, put together part by part: never twice in memory."""
    import pyarrow.dataset as dataset

    whole: Array | None = None
    done = 0
    for batch in table.to_batches(columns={"it": dataset.field(column)}, batch_size=1 << 16):
        for part in _parts(path, column, batch.column(0)):
            if whole is None:
                whole = np.empty((table.count_rows(), *part.shape[1:]), part.dtype)
            if part.shape[1:] != whole.shape[1:]:
                raise UserError(f"The rows of column '{column}' of '{path}' differ in length.")
            whole = whole.astype(np.promote_types(whole.dtype, part.dtype), copy=False)
            whole[done : done + len(part)] = part
            done += len(part)
    return np.empty((0, 0), np.float32) if whole is None else whole[:done]


def _parts(path: Path, column: str, values: pyarrow.Array) -> Iterator[Array]:
    import pyarrow as arrow
    from pyarrow.compute import list_value_length, min_max

    if not len(values):
        return
    head = column.rpartition(".")[2].partition("_")[0] in ("weight", "bias", "kernel")
    if head:  # as many rows as there are classes, the others empty
        values = values.drop_null()
    if not len(values):
        return
    lengths = [len(values)]
    while arrow.types.is_nested(values.type) and hasattr(values, "flatten"):
        if arrow.types.is_struct(values.type) or arrow.types.is_map(values.type):
            raise UserError(f"Column '{column}' of '{path}' must hold numbers, got {values.type}.")
        if values.null_count:
            raise UserError(f"Column '{column}' of '{path}' has empty cells.")
        shortest, longest = min_max(list_value_length(values)).values()
        if shortest != longest:
            raise UserError(f"The rows of column '{column}' of '{path}' differ in length.")
        lengths.append(longest.as_py())
        values = values.flatten()
    if arrow.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if arrow.types.is_decimal(values.type):
        values = values.cast(arrow.float64())
    if values.null_count and len(lengths) > 1:
        raise UserError(f"Column '{column}' of '{path}' has empty cells.")
    yield values.to_numpy(zero_copy_only=False).reshape(lengths)


_READERS: dict[str, Callable[[Path], ArrayReaders]] = {
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".parquet": _read_parquet,
    "/npy": _read_folder,
    "/parquet": _read_parquet,
}
