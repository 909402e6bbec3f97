"""Pictures as PNG, for pages that show some: the same pixels give the same bytes."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _COLOR = 0, 2  # colour types of PNG


@dataclass(frozen=True)
class Picture:
    """One picture, as the text of its PNG file in base64, and what is said below it.

    `before` is that of the picture it was made from, which is shown beside it.
    """

    png: str
    caption: str = ""
    before: str = ""

    def __post_init__(self) -> None:
        for png in (self.png, self.before) if self.before else (self.png,):
            try:
                content = base64.b64decode(png, validate=True)
            except (binascii.Error, ValueError):
                content = b""
            if not content.startswith(_SIGNATURE):
                raise UserError("A picture must be a PNG file in base64: see pictures.picture().")


@dataclass(frozen=True)
class Gallery:
    """Pictures that are shown together."""

    name: str
    title: str
    pictures: tuple[Picture, ...]
    note: str = ""


def picture(pixels: NDArray[Any], caption: str = "", before: NDArray[Any] | None = None) -> Picture:
    """Make a picture of an image: (channels, height, width) or (height, width), bytes or [0, 1].

    One channel is grey, three are red, green and blue; of any other number, the mean is shown.
    `before` is the image that it was made from, to be shown beside it.
    """
    return Picture(_png(pixels), caption, "" if before is None else _png(before))


def _png(pixels: NDArray[Any]) -> str:
    values = np.asarray(pixels)
    if values.ndim == 2:
        values = values[None]
    if values.ndim != 3 or not values.size:
        raise UserError(f"A picture needs shape (channels, height, width), got {values.shape}.")
    if values.dtype != np.uint8:
        values = np.nan_to_num(values.astype(np.float64)).clip(0, 1) * 255
    if len(values) not in (1, 3):
        values = values.mean(axis=0, keepdims=True)
    whole = np.ascontiguousarray(values.round().astype(np.uint8).transpose(1, 2, 0))
    height, width, channels = whole.shape
    # Each row begins with the filter that it is to be undone with: none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), whole.reshape(height, -1)], axis=1)
    kind = _GREY if channels == 1 else _COLOR
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    content = _SIGNATURE + b"".join(_chunk(*chunk) for chunk in chunks)
    return base64.b64encode(content).decode()


def _chunk(name: bytes, content: bytes) -> bytes:
    check = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)
