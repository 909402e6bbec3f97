"""What all readers share: the records they return, and reading no more than there is."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from oodometer import files
from oodometer.errors import UserError, describe
from oodometer.files import RATIO, most_unpacked

LIMIT = 1 << 34  # bytes: a data set is held in memory, and 16 GiB are beyond what is meant here
DEFLATE = 1032  # zlib shrinks by at most this factor, so what claims more is not there
_CHUNK = 1 << 22
_PACKED = (".gz", ".bz2")


@dataclass(frozen=True, eq=False)
class Labelled:
    """Images as they lie on disk: uint8 or float32 (n, channels, height, width), and labels."""

    pixels: NDArray[Any]
    labels: NDArray[np.int64]  # (n,), -1 = no known class


@dataclass(frozen=True, eq=False)
class LabelledTexts:
    """Texts as they lie on disk; -1 = no known class."""

    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    names: tuple[str, ...] = ()  # of the classes, if the file names them instead of counting
    columns: str = ""  # of a table: which hold the texts and labels


@dataclass(frozen=True)
class Request:
    """What a reader may need to know beyond the path."""

    size: tuple[int, int] | None = None  # height, width: resize while reading
    coarse: bool = False  # of two label sets, the one with fewer classes
    tolerated: int = 0  # images of an official set that are known to be broken


# The parts of a data set ("train", "test", or "all" if it is not divided), each read when called.
ImageParts: TypeAlias = Mapping[str, Callable[[], Labelled]]
TextParts: TypeAlias = Mapping[str, Callable[[], LabelledTexts]]


def fault(path: Path | str, what: str) -> UserError:
    """Return the one wording for a file that is not what it should be."""
    return UserError(f"Data file '{path}' {what}.")


def refuse_bomb(path: Path, size: int, packed: int | None = None) -> None:
    """Raise if a file would unpack to more bytes than any real data."""
    packed = path.stat().st_size if packed is None else packed
    if size > most_unpacked(packed):
        raise fault(
            path, f"would unpack to more than {size - 1:,} bytes, over {RATIO} times its size: it "
            "holds no data"
        )  # fmt: skip


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, plain, .gz or .bz2; whatever breaks while it is read becomes one sentence."""
    try:
        with _open(path) as stream:
            yield stream
    except FileNotFoundError:
        raise fault(path, "does not exist") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as problem:
        raise fault(path, f"cannot be read: {_said(problem)}") from None


def _open(path: Path) -> IO[bytes]:
    refuse_special(path)
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return bz2.open(path, "rb") if path.suffix == ".bz2" else path.open("rb")


def refuse_special(path: Path) -> None:
    """Raise if a file is there and none of data: a pipe or a device would be read without end."""
    files.refuse_special(path, "Data file")
    if path.is_dir():
        raise fault(path, "is a folder")


def _said(problem: Exception) -> str:
    return (getattr(problem, "strerror", None) or describe(problem, named=False)).rstrip(".")


def read_exactly(stream: IO[bytes], count: int, path: Path) -> bytearray:
    """Read `count` bytes, or say how many there are. Allocates only what is there.

    In a bytearray, since PyTorch warns of arrays that cannot be written to.
    """
    if count > LIMIT:
        raise fault(path, f"claims to hold {count:,} bytes, more than the {LIMIT:,} that are read")
    if path.suffix in _PACKED:
        refuse_bomb(path, count)
    content = bytearray()
    while left := count - len(content):
        piece = stream.read(min(left, _CHUNK))
        if not piece:
            raise fault(path, f"is truncated: {left:,} of {count:,} bytes are missing")
        content += piece
    return content


def read_all(path: Path) -> bytearray:
    """Read a whole file, unpacked, but not without end."""
    with opened(path) as stream:
        content = bytearray()
        while piece := stream.read(_CHUNK):
            content += piece
            if len(content) > LIMIT:
                raise fault(path, f"unpacks to more than {LIMIT:,} bytes")
            if path.suffix in _PACKED:
                refuse_bomb(path, len(content))
    return content


def read_lines(path: Path, longest: int) -> str:
    """Read a whole text whose lines are at most `longest` bytes long."""
    content = bytearray()
    since = 0  # the last line began
    with opened(path) as stream:
        while piece := stream.read(_CHUNK):
            end = piece.rfind(b"\n")
            since = since + len(piece) if end < 0 else len(piece) - end - 1
            content += piece
            if since > longest:
                raise fault(path, f"has a line of more than {longest:,} bytes")
            if len(content) > LIMIT:
                raise fault(path, f"unpacks to more than {LIMIT:,} bytes")
            if path.suffix in _PACKED:
                refuse_bomb(path, len(content))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise fault(path, "is not UTF-8 text") from None


def read_records(path: Path, width: int) -> NDArray[np.uint8]:
    """Read a file of records that are all `width` bytes long, as (n, width)."""
    content = np.frombuffer(read_all(path), np.uint8)
    if not content.size:
        raise fault(path, "is empty")
    if content.size % width:
        raise fault(
            path, f"is truncated: {content.size:,} bytes are not a multiple of {width:,} per record"
        )
    return content.reshape(-1, width)


def check_labels(
    path: Path, labels: NDArray[Any], count: int, classes: int | None
) -> NDArray[np.int64]:
    """Return labels as int64, one for each of `count` samples, each from 0 to classes - 1."""
    if labels.shape != (count,):
        raise fault(path, f"has {labels.size:,} labels for {count:,} images")
    whole = labels.astype(np.int64)
    if whole.size and (whole.min() < 0 or (classes is not None and whole.max() >= classes)):
        wrong = whole[(whole < 0) | (whole >= (classes or np.inf))][0]
        allowed = f"0 to {classes - 1}" if classes else "0 and above"
        raise fault(path, f"is mislabelled: it has the label {wrong}, allowed are {allowed}")
    return whole


def first_file(folder: Path, *names: str) -> Path | None:
    """Return the first of these files that the folder has, plain or compressed."""
    for name in names:
        for candidate in (folder / name, folder / f"{name}.gz"):
            if candidate.is_file():
                return candidate
    return None
