"""The nearest so far of a block of queries, gathered tile by tile and sorted once at the end."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_CACHED = 2**18  # numbers that are looked through at once


def packed(order: NDArray[np.float32], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Put order and place into one integer that sorts by the order, as NumPy sorts those fast."""
    bits = order.view(np.int32)
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # negative floats sort backwards by their bits
    both: NDArray[np.int64] = (rising.astype(np.int64) << 32) | places
    return both


def unpacked(both: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return order and places that were packed."""
    rising = (both >> 32).astype(np.int32)
    order = (rising ^ ((rising >> 31) & 0x7FFFFFFF)).view(np.float32)
    return order, both & 0xFFFFFFFF


class Pool:
    """Keeps whatever is within a limit per query; where that is too much, the limit sinks.

    A limit is a guess of how far the `count` nearest reach. Too high costs time; too low leaves a
    query with fewer than `count`, which `sorted` tells.
    """

    def __init__(self, queries: int, count: int, tile: int) -> None:
        self._count, self._capacity = count, count + tile
        self._room = np.empty(queries * self._capacity, np.int64)
        self._within = np.empty(max(tile, _CACHED), np.bool_)
        self.restart(np.full(queries, np.inf, np.float32))

    def restart(self, limits: NDArray[np.float32]) -> None:
        """Forget everything, for as many queries as there are limits."""
        self._limits = limits.copy()
        self._filled = np.zeros(len(limits), np.int64)

    def add(self, order: Tensor, first: int) -> None:
        """Take in one more tile, (queries, rows), that begins at this place of the bank."""
        queries, size = order.shape
        if order.device.type == "cpu":
            values = order.numpy()
            step = max(1, _CACHED // size)  # what is compared is read again: it should be near
            for start in range(0, queries, step):
                self._add_within(values[start : start + step], start, first)
            return
        # Let the device choose, and move only that.
        top = order.topk(min(self._count, size), dim=1, largest=False)
        near = packed(top.values.cpu().numpy(), top.indices.cpu().numpy() + first)
        self._append(near.reshape(-1), np.full(queries, near.shape[1]), 0)

    def _add_within(self, values: NDArray[np.float32], start: int, first: int) -> None:
        """Take in what is within the limits of these queries, the first of which is `start`."""
        queries, size = values.shape
        within = self._within[: values.size].reshape(queries, size)
        np.less_equal(values, self._limits[start : start + queries, None], out=within)
        flat = np.flatnonzero(within)
        counts = np.diff(np.searchsorted(flat, np.arange(queries + 1) * size))
        places = flat - np.repeat(np.arange(queries) * size - first, counts)
        self._append(packed(values.reshape(-1)[flat], places), counts, start)

    def _append(self, near: NDArray[np.int64], counts: NDArray[np.int64], start: int) -> None:
        """Put what was found behind what is there, as many of each query as it has counts."""
        filled = self._filled[start : start + len(counts)]
        for query in np.flatnonzero(filled + counts > self._capacity):
            self._thin_out(start + int(query))
        begin = (start + np.arange(len(counts))) * self._capacity
        shift = begin + filled - (np.cumsum(counts) - counts)
        self._room[np.arange(len(near)) + np.repeat(shift, counts)] = near
        filled += counts

    def _thin_out(self, query: int) -> None:
        """Keep the nearest of one query; whatever is farther will not be among them."""
        start = query * self._capacity
        part = self._room[start : start + self._filled[query]]
        part.partition(self._count - 1)
        self._filled[query] = self._count
        self._limits[query] = unpacked(part[self._count - 1 : self._count])[0][0]

    def sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The `count` nearest, packed, nearest first; and which queries have fewer than that."""
        best = np.empty((len(self._filled), self._count), np.int64)
        for query, (row, filled) in enumerate(zip(best, self._filled, strict=True)):
            start = query * self._capacity
            part = self._room[start : start + filled]
            part.sort()
            row[:filled] = part[: self._count]
        return best, np.flatnonzero(self._filled < self._count)


def limits_from(sample: Tensor, count: int, of: int) -> NDArray[np.float32]:
    """Guess, from a random sample of each query's `of` numbers, how far its `count` lowest reach.

    Four standard deviations above what is expected, so that hardly any has fewer.
    """
    queries, drawn = sample.shape
    expected = count * drawn / of
    rank = int(expected + 4 * expected**0.5 + 4)
    if rank >= drawn:
        return np.full(queries, np.inf, np.float32)
    if sample.device.type == "cpu":
        limits: NDArray[np.float32] = np.partition(sample.numpy(), rank, axis=1)[:, rank]
        return limits
    found: NDArray[np.float32] = torch.kthvalue(sample, rank + 1, dim=1).values.cpu().numpy()
    return found
