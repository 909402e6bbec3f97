"""Tables: .npz archives, Parquet as Hugging Face writes it, and USPS in libsvm's format."""

from __future__ import annotations

import lzma
import math
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError, describe
from oodometer.files import HARMLESS
from oodometer.lab.data.readers.common import (
    DEFLATE,
    LIMIT,
    ImageParts,
    Labelled,
    Request,
    check_labels,
    fault,
    first_file,
    read_all,
    refuse_bomb,
    refuse_special,
)
from oodometer.lab.data.readers.decoded import decode_once

_USPS = {"train": ("usps.bz2", "usps"), "test": ("usps.t.bz2", "usps.t")}
_IMAGE_COLUMNS = ("image", "img")
_LABEL_COLUMNS = ("label", "fine_label", "labels", "coarse_label", "label-alphanumeric")


def matches_npz(path: Path) -> bool:
    """Whether this is an .npz file."""
    return path.suffix == ".npz" and (path.is_file() or not path.exists())


def npz(path: Path, request: Request) -> ImageParts:
    """Arrays train_images, train_labels, test_images, test_labels; or images, and labels.

    Coarse labels are those of train_coarse_labels and test_coarse_labels.
    """
    names = npz_names(path)
    kinds = ("coarse_labels", "labels") if request.coarse else ("labels",)
    found: dict[str, Callable[[], Labelled]] = {}
    for part, prefix in (("train", "train_"), ("test", "test_"), ("all", "")):
        if f"{prefix}images" in names:
            labels = next((prefix + kind for kind in kinds if prefix + kind in names), None)
            found[part] = partial(_read_npz_part, path, f"{prefix}images", labels)
    if not found:
        raise UserError(
            f"Data file '{path}' lacks an array test_images or images; it holds "
            f"{', '.join(sorted(names)[:10]) or 'nothing'}{', ...' if len(names) > 10 else ''}."
        )
    return found


def npz_names(path: Path) -> set[str]:
    """Return the names of the arrays in an .npz file."""
    with _opened_npz(path) as archive:
        return {name.removesuffix(".npy") for name in archive.namelist()}


def read_npz_array(path: Path, name: str) -> NDArray[Any]:
    """Read one array after checking that the file has what its header claims."""
    with _opened_npz(path) as archive:
        member = archive.getinfo(f"{name}.npy")
        if member.file_size > min(LIMIT, DEFLATE * (member.compress_size + 1)):
            raise fault(path, f"claims {member.file_size:,} bytes for {name}, too many for it")
        refuse_bomb(path, member.file_size, member.compress_size)
        with archive.open(member) as stream:
            version = np.lib.format.read_magic(stream)
            header = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = header(stream)
            if dtype.hasobject:
                raise ValueError(f"{name} holds pickled objects, which are refused")
            size = math.prod(shape) * dtype.itemsize
            if size > member.file_size:
                raise fault(path, f"claims {size:,} bytes for {name}, but is truncated")
        with archive.open(member) as stream:
            array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
            return array


@contextmanager
def _opened_npz(path: Path) -> Iterator[zipfile.ZipFile]:
    # Not by np.load, which leaves a file open that is not an archive.
    try:
        with path.open("rb") as stream:
            if stream.read(6) == b"\x93NUMPY":
                raise UserError(f"Data file '{path}' is a single array; an .npz file is needed.")
            with zipfile.ZipFile(stream) as archive, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of headers that are odd Python
                yield archive
    except FileNotFoundError:
        raise fault(path, "does not exist") from None
    except UserError:
        raise
    except (
        OSError, ValueError, EOFError, KeyError, SyntaxError, TypeError, NotImplementedError,
        RuntimeError, MemoryError, OverflowError, zipfile.BadZipFile, zlib.error, struct.error,
        tokenize.TokenError, lzma.LZMAError,
    ) as problem:  # fmt: skip
        said = str(problem).splitlines()[0].rstrip(".")[:200] if str(problem) else "it is damaged"
        said = "a header is damaged" if "header" in said else said
        raise fault(path, f"cannot be read as .npz: {said}") from None


def _read_npz_part(path: Path, images: str, given: str | None) -> Labelled:
    pixels = _to_pixels(read_npz_array(path, images), path, images)
    if given is None:
        return Labelled(pixels, np.full(len(pixels), -1))
    labels = read_npz_array(path, given)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or (labels < 0).any():
        raise UserError(
            f"{given} of '{path}' must be a vector of integers from 0, got "
            f"{labels.dtype} of shape {labels.shape}."
        )
    return Labelled(pixels, labels.astype(np.int64))


def _to_pixels(array: NDArray[Any], path: Path, key: str) -> NDArray[Any]:
    """Bring images to (n, channels, height, width), uint8 as it is and floats as float32."""
    if np.issubdtype(array.dtype, np.floating):
        with np.errstate(over="ignore"):  # what overflows is reported as infinite by Images
            array = array.astype(np.float32)
    elif array.dtype != np.uint8:
        raise UserError(f"{key} of '{path}' must be uint8 or float, got {array.dtype}.")
    if array.ndim == 3:
        return array[:, None]
    if array.ndim == 4 and array.shape[3] in (1, 3):
        return np.ascontiguousarray(array.transpose(0, 3, 1, 2))
    if array.ndim == 4 and array.shape[1] in (1, 3):
        return np.ascontiguousarray(array)
    raise UserError(
        f"{key} of '{path}' must have shape (n, height, width) or (n, height, width, 1 or 3), "
        f"got {array.shape}."
    )


def matches_parquet(path: Path) -> bool:
    """Whether this is a Parquet file of images, or a folder of such files."""
    try:
        return any("image" in columns_of(files[0]) for files in shards(path).values())
    except UserError:
        return True  # a broken file is reported when it is read


def parquet(path: Path, request: Request) -> ImageParts:
    """Encoded images in a column of bytes or of {bytes, path}, and whole numbers as labels."""
    return {part: partial(_read_parquet, files, request) for part, files in shards(path).items()}


def shards(path: Path) -> dict[str, list[Path]]:
    """Find the files of each part: train-00000-of-00002.parquet, and the like."""
    if path.is_file():
        return {"all": [path]} if path.suffix == ".parquet" else {}
    files = sorted(path.glob("*.parquet")) or sorted(path.glob("*/*.parquet"))
    parts: dict[str, list[Path]] = {}
    for file in files:
        word = file.name.lower()
        part = next((p for p in ("train", "test", "valid") if word.startswith(p)), "all")
        parts.setdefault(part, []).append(file)
    if "valid" in parts:
        parts.setdefault("test", parts.pop("valid"))
        parts.pop("valid", None)
    if len(parts) > 1:
        parts.pop("all", None)
    return parts


def columns_of(path: Path) -> dict[str, str]:
    """What the columns are for: "image", "text" or "label" -> name of the column."""
    import pyarrow.parquet

    try:
        names = pyarrow.parquet.read_schema(path).names
    except Exception as problem:  # pyarrow raises errors of many kinds
        raise _not_parquet(path, problem) from problem
    wanted = {"image": _IMAGE_COLUMNS, "text": ("text", "content"), "label": _LABEL_COLUMNS}
    return {
        kind: next(name for name in choices if name in names)
        for kind, choices in wanted.items()
        if any(name in names for name in choices)
    }


def _not_parquet(path: Path, problem: Exception) -> UserError:
    if isinstance(problem, FileNotFoundError):
        return fault(path, "does not exist")
    reason = describe(problem, named=False).rstrip(".")
    return fault(path, f"cannot be read as Parquet: {reason}")


def read_columns(path: Path, request: Request, kind: str) -> tuple[list[Any], list[Any] | None]:
    """Return the values of the column of images or texts, and those of the labels, if any."""
    import pyarrow.parquet

    kinds = columns_of(path)
    if kind not in kinds:
        raise fault(path, f"has no column of {kind}s")
    label = kinds.get("label")
    if request.coarse and label is not None:
        label = "coarse_label"
    try:
        columns = [kinds[kind]] + ([label] if label else [])
        refuse_special(path)
        values: list[Any] = []
        labels: list[Any] = []
        unpacked = 0
        with pyarrow.parquet.ParquetFile(path) as file:
            if file.metadata.num_rows > max(HARMLESS // 1024, path.stat().st_size):
                raise fault(path, f"claims {file.metadata.num_rows:,} rows, too many for its size")
            for batch in file.iter_batches(128, columns=columns):
                unpacked += batch.nbytes
                refuse_bomb(path, unpacked)
                values += batch.column(kinds[kind]).to_pylist()
                labels += batch.column(label).to_pylist() if label else []
        return values, labels if label else None
    except UserError:
        raise
    except Exception as problem:
        raise _not_parquet(path, problem) from problem


def _read_parquet(files: list[Path], request: Request) -> Labelled:
    values: list[tuple[str, bytes]] = []
    numbers: list[Any] = []
    for file in files:
        pictures, labels = read_columns(file, request, "image")
        values += _encoded(file, pictures)
        if labels is not None and not all(type(label) is int for label in labels):
            raise fault(file, "is mislabelled: its labels are not whole numbers")
        numbers += [-1] * len(pictures) if labels is None else labels
    if not values:
        raise fault(files[0], "is empty")
    pixels, kept = decode_once(values, request.size, request.tolerated)
    try:
        labels_read = np.array(numbers, np.int64)[kept]
    except OverflowError:
        raise fault(files[0], "is mislabelled: a label is too large") from None
    return Labelled(pixels, labels_read)


def _encoded(file: Path, pictures: list[Any]) -> Iterator[tuple[str, bytes]]:
    for row, picture in enumerate(pictures):
        content = picture.get("bytes") if isinstance(picture, dict) else picture
        if not isinstance(content, bytes):
            raise fault(file, f"holds no image in row {row}")
        yield f"{file}, row {row}", content


def matches_usps(path: Path) -> bool:
    """Whether this is a folder with USPS as libsvm's authors offer it."""
    return any(first_file(path, *names) for names in _USPS.values())


def usps(path: Path, request: Request) -> ImageParts:
    """USPS: lines of "label index:value ...", 16 x 16 values from -1 to 1, labels from 1."""
    files = {part: first_file(path, *names) for part, names in _USPS.items()}
    return {part: partial(read_usps, file) for part, file in files.items() if file is not None}


def read_usps(path: Path) -> Labelled:
    """Read one file; values become bytes, as torchvision makes them."""
    rows = [line.split() for line in read_all(path).splitlines() if line.strip()]
    if not rows:
        raise fault(path, "is empty")
    pixels = np.empty((len(rows), 1, 16, 16), np.uint8)
    labels = np.empty(len(rows), np.int64)
    for number, (label, *values) in enumerate(rows):
        try:
            pairs = [value.split(b":") for value in values]
            if [int(index) for index, _ in pairs] != list(range(1, 257)):
                raise ValueError
            row = np.array([float(value) for _, value in pairs], np.float32)
            if not (abs(row) <= 1).all():
                raise ValueError
            labels[number] = int(label) - 1
        except (ValueError, OverflowError):
            raise fault(path, f"is damaged in line {number + 1}: it needs 256 values") from None
        pixels[number, 0] = ((row + 1) / 2 * 255).astype(np.uint8).reshape(16, 16)
    return Labelled(pixels, check_labels(path, labels, len(rows), 10))
