"""Decode many pictures once: what was decoded is kept, and mapped into memory the next time.

The key is the content of every picture with all that decoding depends on, so that nothing kept is
ever stale, and a checksum tells if it was changed; whoever has no room for it, or may not write,
decodes again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from oodometer.lab.data.readers.common import fault, refuse_special
from oodometer.lab.data.readers.pictures import Size, decode_all

VARIABLE = "OODOMETER_CACHE"
FEWEST = 500  # pictures that are worth it: fewer are decoded within a second
_VERSION = 2  # of what is kept; to be raised when the same pictures shall become other pixels


def decode_once(
    pictures: Sequence[tuple[str, Path | bytes]], size: Size | None, tolerated: int = 0
) -> tuple[NDArray[np.uint8], list[int]]:
    """Decode pictures, or find them decoded; see `decode_all`."""
    if len(pictures) < FEWEST:
        return decode_all(pictures, len(pictures), size, tolerated)
    key = _key(pictures, size, tolerated)
    kept = _load(cache_folder() / f"{key}.npy", len(pictures))
    if kept is not None:
        return kept
    pixels, rows = decode_all(pictures, len(pictures), size, tolerated)
    _save(cache_folder() / f"{key}.npy", pixels, rows)
    return pixels, rows


def cache_folder() -> Path:
    """Where decoded pictures are kept: $OODOMETER_CACHE, or a folder in the user's cache."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser()
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "oodometer-decoded"


def _key(pictures: Sequence[tuple[str, Path | bytes]], size: Size | None, tolerated: int) -> str:
    content = hashlib.blake2b(digest_size=20)
    content.update(repr((_VERSION, _pillow(), size, tolerated, len(pictures))).encode())
    for name, picture in pictures:
        content.update(_digest(name, picture))
    return content.hexdigest()


def _digest(name: str, picture: Path | bytes) -> bytes:
    if isinstance(picture, bytes):
        return hashlib.blake2b(picture, digest_size=20).digest()
    refuse_special(picture)
    try:
        with picture.open("rb") as stream:
            return hashlib.file_digest(stream, hashlib.blake2b).digest()
    except OSError as problem:
        raise fault(name, f"cannot be read: {problem.strerror or problem}") from None


@cache
def _pillow() -> str:
    from PIL import __version__

    return __version__


def _load(path: Path, count: int) -> tuple[NDArray[np.uint8], list[int]] | None:
    """Map what is kept into memory; None if there is nothing, or something else."""
    if not (path.is_file() and _about_file(path).is_file()):  # a pipe would be waited for
        return None
    try:
        # Copied on write, since PyTorch wants arrays that may be written to; the file is not.
        pixels: NDArray[Any] = np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))
        kept = json.loads(_about_file(path).read_text(encoding="utf-8"))
        rows = [int(row) for row in kept["rows"]]
    except (OSError, ValueError, EOFError, TypeError, KeyError, RecursionError):
        return None
    whole = pixels.dtype == np.uint8 and pixels.ndim == 4
    if not whole or len(rows) != len(pixels) or not 0 < len(rows) <= count:
        return None
    return (pixels, rows) if kept.get("seal") == _seal(path, pixels, rows) else None


def _seal(path: Path, pixels: NDArray[np.uint8], rows: list[int]) -> str:
    """A checksum of all that is kept, and of its key: other pictures would be trained on."""
    content = hashlib.blake2b(repr((path.stem, pixels.shape, rows)).encode(), digest_size=20)
    content.update(np.ascontiguousarray(pixels).data)
    return content.hexdigest()


def _save(path: Path, pixels: NDArray[np.uint8], rows: list[int]) -> None:
    """Keep under another name, then rename: whoever reads meanwhile sees all of it or nothing."""
    about = json.dumps({"rows": rows, "seal": _seal(path, pixels, rows)}).encode()
    with contextlib.suppress(OSError):  # no room, or not ours to write: then it is not kept
        path.parent.mkdir(parents=True, exist_ok=True)
        with _placed(_about_file(path)) as stream:
            stream.write(about)
        with _placed(path) as stream:
            np.lib.format.write_array(stream, pixels, allow_pickle=False)


@contextlib.contextmanager
def _placed(target: Path) -> Iterator[IO[bytes]]:
    """A file that gets its name when it is whole."""
    handle, name = tempfile.mkstemp(".part", f".{target.stem}.", target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        if target.is_dir():  # a rename would not replace it
            _remove(target)
        Path(name).replace(target)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _about_file(path: Path) -> Path:
    return path.with_suffix(".json")


def check_kept() -> Iterator[tuple[Path, bool]]:
    """Check all decoded pictures; what does not match its checksum is removed."""
    for path in sorted(cache_folder().glob("*.npy")):
        intact = _load(path, sys.maxsize) is not None
        if not intact:
            for file in (path, _about_file(path)):
                with contextlib.suppress(OSError):
                    _remove(file)
        yield path, intact


def _remove(path: Path) -> None:
    """Remove what stands in the place of a file; a folder holds nothing of ours."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
