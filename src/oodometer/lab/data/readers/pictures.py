"""Pictures through Pillow: PNG, JPEG, BMP and WebP to arrays, and arrays to another size."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError, describe
from oodometer.lab.data.readers.common import LIMIT, fault, refuse_special

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
MOST_PIXELS = 1 << 26  # of one image: a small file may unpack to more than the memory holds
Size = tuple[int, int]


def decode_all(
    pictures: Iterable[tuple[str, Path | bytes]],
    count: int,
    size: Size | None,
    tolerated: int = 0,
) -> tuple[NDArray[np.uint8], list[int]]:
    """Decode pictures, each given with its name, to uint8 (n, channels, height, width).

    All must have one size, unless `size` (height, width) says which to bring them to. They are
    grey if all are, else in colour. At most `tolerated` pictures may be broken; they are left
    out, and the positions of the others are returned too.
    """
    kept: list[int] = []
    planes: NDArray[np.uint8] | None = None
    grey = True
    broken: UserError | None = None
    with _quiet():
        for index, (name, picture) in enumerate(pictures):
            try:
                pixels = decode(name, picture, size)
            except UserError as problem:
                broken, tolerated = broken or problem, tolerated - 1
                if tolerated < 0:
                    raise
                continue
            if planes is None:
                if 3 * count * pixels[0].size > LIMIT:
                    raise UserError(
                        f"{count:,} images of {pixels.shape[1]} x {pixels.shape[2]} such as "
                        f"'{name}' do not fit into memory: choose a smaller size."
                    )
                # Room for colour; a set that turns out to be grey is copied out at the end.
                planes = np.empty((count, 3, *pixels.shape[1:]), np.uint8)
                first = name
            if pixels.shape[1:] != planes.shape[2:]:
                raise fault(
                    name, f"is an image of {_by(pixels.shape[1:])}, but '{first}' is of "
                    f"{_by(planes.shape[2:])}: write (size=N) behind the data set's name to bring "
                    "all images to N x N"
                )  # fmt: skip
            grey = grey and len(pixels) == 1
            planes[len(kept)] = pixels
            kept.append(index)
    if planes is None:
        raise broken or UserError("There are no images.")
    channels = planes[: len(kept), :1] if grey else planes[: len(kept)]
    return np.ascontiguousarray(channels), kept


def decode(name: str, picture: Path | bytes, size: Size | None = None) -> NDArray[np.uint8]:
    """Decode one picture to uint8 (channels, height, width), 1 channel if it is grey."""
    from PIL import Image, UnidentifiedImageError

    if isinstance(picture, Path):
        refuse_special(picture)
    try:
        source: Any = io.BytesIO(picture) if isinstance(picture, bytes) else picture
        with Image.open(source, formats=FORMATS) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise fault(
                    name, f"claims {width} x {height} pixels, more than the {MOST_PIXELS:,} that "
                    "an image may have"
                )  # fmt: skip
            image.load()
            plain = _plain(image)
            if size is not None and plain.size != (size[1], size[0]):
                plain = plain.resize((size[1], size[0]), Image.Resampling.BILINEAR)
            pixels = np.asarray(plain)
    except UserError:
        raise
    except Exception as problem:  # Pillow's decoders raise whatever they stumble over
        reason = describe(problem, named=False).rstrip(".")
        if isinstance(problem, UnidentifiedImageError):
            reason = "it is not a PNG, JPEG, BMP or WebP file"
        raise fault(name, f"is not a readable image: {reason}") from problem
    return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, 2, 0)


def _plain(image: Image.Image) -> Image.Image:
    """Reduce to 8 bits, grey or RGB; transparency is dropped."""
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits: Pillow's own conversion would clip, not scale
        return Image.fromarray((np.asarray(image).astype(np.int64) >> 8).astype(np.uint8))
    return image.convert("L" if image.mode in ("1", "L", "LA") else "RGB")


def resize(pixels: NDArray[Any], size: Size) -> NDArray[Any]:
    """Bring images (n, channels, height, width) to another size: bilinear, as Pillow does it.

    Bytes are resized as Pillow's 8-bit images, floats channel by channel.
    """
    from PIL import Image

    if pixels.shape[2:] == size:
        return pixels
    made = np.empty((*pixels.shape[:2], *size), pixels.dtype)
    for image, target in zip(pixels, made, strict=True):
        for channel, row in zip(image, target, strict=True):
            picture = Image.fromarray(np.ascontiguousarray(channel))
            row[:] = picture.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return made


def recolour(pixels: NDArray[Any], channels: int) -> NDArray[Any]:
    """Bring images to 1 or 3 channels: grey becomes three alike, colour Pillow's "L"."""
    if pixels.shape[1] == channels:
        return pixels
    if pixels.shape[1] == 1:
        return np.repeat(pixels, channels, axis=1)
    if (pixels.shape[1], channels) != (3, 1):
        raise UserError(f"Images of {pixels.shape[1]} channels cannot be brought to {channels}.")
    if pixels.dtype != np.uint8:
        weights = np.array([0.299, 0.587, 0.114], np.float32)
        grey: NDArray[Any] = np.tensordot(weights, pixels, ([0], [1])).astype(np.float32)
        return grey[:, None]
    # ITU-R 601-2 in 16-bit fixed point, rounded: to the bit what Pillow computes.
    made = np.empty((len(pixels), 1, *pixels.shape[2:]), np.uint8)
    for start in range(0, len(pixels), 1024):
        red, green, blue = np.moveaxis(pixels[start : start + 1024].astype(np.uint32), 1, 0)
        made[start : start + 1024, 0] = (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16
    return made


@contextmanager
def _quiet() -> Iterator[None]:
    """Pillow's warnings are about files that are read well; a bomb is an error."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
