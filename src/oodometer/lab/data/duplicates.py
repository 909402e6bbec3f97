"""Images that two sets share: byte for byte, or nearly so. Arrays in, pairs of rows out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oodometer.overlap import Copy

Pixels = NDArray[np.float32]
Vectors = NDArray[np.float32]

_SIDE = 8  # of the small image by which candidates are found
_CHUNK = 1 << 24  # similarities held at a time: 64 MB
_PAIRS = 2048  # pairs of images looked at in full at a time
_CANDIDATES = 8  # looked at in full for each image
_SMALLEST = 8  # side of an image that can be shifted and smoothed
_ALIKE = 0.8  # correlation of small images below which two cannot be copies
_EQUAL = 0.98  # the same, of copies that only noise tells apart
_BRIGHTNESS = 0.02  # by which the mean of such copies differs at most
_NOISE = 0.2  # of the contrast of an image: what still leaves it the same image
_ROWS = 2048  # of sketches compared at a time


def exact_copies(first: Pixels, second: Pixels) -> list[Copy]:
    """Return each row of the second set whose pixels, in 256 steps, a row of the first has."""
    places: dict[bytes, int] = {}
    for row, key in enumerate(hashes(first)):
        places.setdefault(key, row)
    return [Copy(places[key], row, 1.0) for row, key in enumerate(hashes(second)) if key in places]


def near_copies(first: Pixels, second: Pixels, threshold: float) -> list[Copy]:
    """Return each row of the second set that is nearly the image of some row of the first.

    Candidates are the nearest by a grey image of 8 x 8. What counts is the correlation of grey
    images without their coarse shading, at the best shift of up to one pixel, mirrored or not:
    so copies with another brightness, contrast, frame or compression are found, and two different
    bright skies are not.
    """
    ours, theirs = grey(first), grey(second)
    small = _small(ours)
    found: dict[int, Copy] = {}
    for images in (theirs, theirs[:, :, ::-1]):
        rows, others = _nearest(small, _small(images))
        for start in range(0, len(rows), _PAIRS):
            part = slice(start, start + _PAIRS)
            scores = _correlations(ours[others[part]], images[rows[part]])
            for place in np.flatnonzero(scores >= threshold):
                row, other = int(rows[part][place]), int(others[part][place])
                if row not in found or scores[place] > found[row].correlation:
                    found[row] = Copy(other, row, min(1.0, float(scores[place])))
    return [found[row] for row in sorted(found)]


class Sketches(NamedTuple):
    """What copies that differ by noise have in common: mean (n,), small grey image (n, 64)."""

    brightness: NDArray[np.float32]
    small: Vectors


def sketches(pixels: Pixels) -> Sketches:
    """Return the sketch of each image."""
    images = grey(pixels)
    return Sketches(images.mean(axis=(1, 2)), _small(images))


def alike(first: Sketches, second: Sketches) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Yield rows of the first and of the second whose sketches are nearly equal.

    Both are sorted by brightness, so that few of all pairs are compared.
    """
    ours, theirs = np.argsort(first.brightness), np.argsort(second.brightness)
    sorted_brightness = first.brightness[ours]
    for start in range(0, len(theirs), _ROWS):
        rows = theirs[start : start + _ROWS]
        ends = second.brightness[rows[[0, -1]]] + (-_BRIGHTNESS, _BRIGHTNESS)
        low, high = np.searchsorted(sorted_brightness, ends)
        step = max(1, _CHUNK // len(rows))
        for begin in range(low, high, step):
            others = ours[begin : min(high, begin + step)]
            one, two = np.nonzero(first.small[others] @ second.small[rows].T >= _EQUAL)
            yield others[one], rows[two]


def differ_by_noise(images: Pixels, others: Pixels) -> NDArray[np.bool_]:
    """Whether each pair is one image but for noise of a fifth of its contrast, as by a JPEG file.

    The root mean square of the difference of grey values counts, beside their deviation.
    """
    ours, theirs = (grey(pixels).reshape(len(pixels), -1) for pixels in (images, others))
    noise = np.sqrt(np.square(ours - theirs).mean(axis=1))
    same: NDArray[np.bool_] = noise <= _NOISE * theirs.std(axis=1)
    return same


def hashes(pixels: Pixels) -> list[bytes]:
    """A fingerprint of each image in 256 steps: equal images have equal ones."""
    coarse = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    return [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in coarse]


def grey(pixels: Pixels) -> Pixels:
    """Grey values (n, height, width) by the weights of ITU-R BT.601."""
    if pixels.shape[1] != 3:
        return pixels[:, 0]
    weights = np.array([0.299, 0.587, 0.114], dtype=np.float32)
    mixed: Pixels = np.einsum("nchw,c->nhw", pixels, weights)
    return mixed


def _small(images: Pixels) -> Vectors:
    """Each image shrunk to at most 8 x 8 by averages, centred, as a unit vector."""
    shrunk = images
    for axis in (1, 2):
        length = images.shape[axis]
        side = min(_SIDE, length)
        starts = np.arange(side) * length // side
        sizes = np.diff(starts, append=length)
        sums = np.add.reduceat(shrunk, starts, axis=axis)
        shrunk = sums / sizes.reshape((-1, 1) if axis == 1 else (-1,)).astype(np.float32)
    return _unit(shrunk.reshape(len(images), -1))


def _unit(vectors: NDArray[np.float32]) -> Vectors:
    """Centre each vector and bring it to length 1; what is constant becomes 0."""
    centred = vectors - vectors.mean(axis=-1, keepdims=True)
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    # Half a grey level per pixel is not a picture: otherwise rounding would be compared.
    flat = length < np.sqrt(vectors.shape[-1]) / 510
    return np.where(flat, 0, centred / np.maximum(length, np.finfo(np.float32).tiny))


def _nearest(first: Vectors, second: Vectors) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of rows of the second and of the first: the most similar, if similar at all."""
    many = min(_CANDIDATES, len(first))
    step = max(1, _CHUNK // len(first))
    rows, others = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for start in range(0, len(second), step):
        alike = second[start : start + step] @ first.T
        worth = np.flatnonzero(alike.max(axis=1) >= _ALIKE)
        best = np.argpartition(alike[worth], -many, axis=1)[:, -many:]
        enough = np.take_along_axis(alike[worth], best, axis=1) >= _ALIKE
        rows.append(np.repeat(start + worth, enough.sum(axis=1)))
        others.append(best[enough])
    return np.concatenate(rows), np.concatenate(others)


def _correlations(images: Pixels, others: Pixels) -> NDArray[np.float32]:
    """Best correlation of each pair of images over shifts of up to one pixel."""
    large = min(images.shape[1:]) >= _SMALLEST
    inner = (slice(None), slice(1, -1), slice(1, -1)) if large else (slice(None),) * 3
    reach = range(-1, 2) if large else range(1)
    wanted = _unit(_detail(images)[inner].reshape(len(images), -1))
    detail = _detail(others)
    best: NDArray[np.float32] = np.full(len(images), -1, dtype=np.float32)
    for down in reach:
        for right in reach:
            moved = np.roll(detail, (down, right), axis=(1, 2))[inner]
            score = np.einsum("nk,nk->n", wanted, _unit(moved.reshape(len(images), -1)))
            np.maximum(best, score, out=best)
    return best


def _detail(images: Pixels) -> Pixels:
    """Images smoothed over 3 pixels, minus themselves smoothed over a quarter of their size."""
    if min(images.shape[1:]) < _SMALLEST:
        return images
    return _blur(images, 3) - _blur(images, max(5, min(images.shape[1:]) // 4 | 1))


def _blur(images: Pixels, window: int) -> Pixels:
    """Mean over a window x window box; the border is continued."""
    reach = window // 2
    for axis in (1, 2):
        pad = [(0, 0)] * 3
        pad[axis] = (reach + 1, reach)
        sums = np.pad(images, pad, mode="edge").cumsum(axis=axis, dtype=np.float64)
        length = images.shape[axis]
        upper = np.take(sums, np.arange(window, window + length), axis=axis)
        lower = np.take(sums, np.arange(length), axis=axis)
        images = ((upper - lower) / window).astype(np.float32)
    return images
