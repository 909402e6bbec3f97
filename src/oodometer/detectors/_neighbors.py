"""Exact nearest neighbours in bounded memory: found in single precision, settled in double.

All distances of a tile come from one matrix product in float32, of rows that are centred on the
mean of the bank and scaled to its size, so that little cancels. What float32 cannot tell apart is
measured again in float64, from the difference of the rows themselves. So the answer is that of
float64 arithmetic, at the price of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oodometer.detectors import _arrays
from oodometer.detectors._arrays import blocks, precise

Preparation = Callable[[Tensor], Tensor]
_TILE_NUMBERS = 2**22  # distances at a time, 256 queries by 16384 rows: more fall out of the cache
_SPARE = 8  # candidates beyond the last wanted one, among which float32 may have erred
_SAMPLE = 600  # how many distances of a row foretell where its nearest ones end
_STRIDES = (1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 37, 53, 79, 113, 163)  # primes: no period


def as_given(rows: Tensor) -> Tensor:
    """Return the rows in float64."""
    return precise(rows)


def on_unit_sphere(rows: Tensor) -> Tensor:
    """Return the rows in float64 at length one; a row of zeros has no direction and stays zero."""
    rows = precise(rows)
    # Divided by the largest number first: squares of 1e200 overflow, and of 1e-200 vanish.
    size = rows.detach().abs().amax(1, keepdim=True)
    rows = rows / torch.where(size > 0, size, 1.0)
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / torch.where(length > 0, length, 1.0)


class Neighbors:
    """The rows of a bank, ready to be asked which of them are nearest.

    With rows centred and scaled so that |b| <= 1, and s = max(1, |q|),
    (|b|^2 / 2 - q.b) / s puts the bank in the order of distance to q. Its rounding error in
    float32 stays below one number for all queries, `_doubt`.
    """

    def __init__(self, bank: Tensor, prepare: Preparation) -> None:
        self._bank, self._prepare = bank.detach(), prepare
        self._width = bank.shape[1]
        self._doubt = float(np.finfo(np.float32).eps) * (1 + self._width**0.5 / 8)

    @cached_property
    def _frame(self) -> tuple[Tensor, Tensor]:
        """Centre of the bank, and its radius around that."""
        count, numbers = len(self._bank), 4 * self._width
        sums = [self._prepare(self._bank[rows]).sum(0) for rows in blocks(count, numbers)]
        centre = torch.stack(sums).sum(0) / count
        far = [
            torch.linalg.vector_norm(self._prepare(self._bank[rows]) - centre, dim=1).amax()
            for rows in blocks(count, numbers)
        ]
        radius = torch.stack(far).amax()
        return centre, torch.where(radius > 0, radius, 1.0)

    def _placed(self, rows: Tensor) -> Tensor:
        """Return prepared rows, centred and scaled, in float64."""
        centre, radius = self._frame
        return (self._prepare(rows) - centre) / radius

    def _tile(self, first: int, last: int) -> Tensor:
        """Rows of the bank in float32, as (-b, |b|^2 / 2): one product then gives the order."""
        parts = []
        for rows in blocks(last - first, 4 * self._width):
            placed = self._placed(self._bank[first + rows.start : first + rows.stop])
            half = placed.square().sum(1, keepdim=True) / 2
            parts.append(torch.cat([-placed, half], dim=1).float())
        return torch.cat(parts)

    @cached_property
    def _kept_tiles(self) -> dict[int, Tensor] | None:
        """Tiles are kept where all of them fit into the working memory."""
        return {} if 4 * self._bank.numel() <= 4 * _arrays.BLOCK_BYTES else None

    def _tiles(self, size: int) -> Iterator[tuple[int, Tensor]]:
        kept = self._kept_tiles
        for first in range(0, len(self._bank), size):
            last = min(first + size, len(self._bank))
            if kept is None:
                yield first, self._tile(first, last)
                continue
            if first not in kept or len(kept[first]) != last - first:
                kept[first] = self._tile(first, last)
            yield first, kept[first]

    def _candidates(
        self, queries: Tensor, count: int, *, skip_self: bool = False
    ) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Per block of queries: the `count` nearest by float32, packed, nearest first."""
        # Distances of a tile are written over those of the last: fresh memory costs page faults.
        numbers = max(64, min(_TILE_NUMBERS, _arrays.BLOCK_BYTES // 8))
        block = max(1, int((numbers / 64) ** 0.5))
        size = min(64 * block, len(self._bank))
        room: Tensor | None = None
        for start in range(0, len(queries), block):
            rows = slice(start, min(start + block, len(queries)))
            placed = self._placed(queries[rows])
            length = torch.linalg.vector_norm(placed, dim=1, keepdim=True).clamp_min(1.0)
            asked = torch.cat([placed / length, 1 / length], dim=1).float()
            best = np.empty((len(placed), 0), np.int64)
            for first, tile in self._tiles(size):
                if room is None:
                    room = asked.new_empty(block * size)
                order = room[: len(asked) * len(tile)].view(len(asked), len(tile))
                torch.mm(asked, tile.T, out=order)
                if skip_self:
                    own = torch.arange(rows.start, rows.stop, device=order.device) - first
                    inside = ((own >= 0) & (own < len(tile))).nonzero()[:, 0]
                    order[inside, own[inside]] = torch.inf
                best = _merged(best, order, first, count)
            yield rows, best

    @torch.no_grad()
    def nearest(self, queries: Tensor, count: int, *, skip_self: bool = False) -> Tensor:
        """Return the places in the bank of the `count` nearest rows of each query, nearest first.

        `skip_self` is for queries that are the bank: no row is its own neighbour.
        """
        available = len(self._bank) - skip_self
        wanted = min(count + _SPARE, available)
        found = [torch.empty((0, count), dtype=torch.int64)]
        for rows, best in self._candidates(queries, wanted, skip_self=skip_self):
            order, places = _unpacked(best)
            asked, candidates = queries[rows], torch.from_numpy(places)
            distances = self.distances(asked, candidates)
            ranked = distances.sort(dim=1, stable=True).indices[:, :count].cpu()
            chosen = candidates.gather(1, ranked)
            if wanted < available:
                # Everything after the last candidate is at least this far; where that does not
                # tell it from the last one chosen, float32 was not enough.
                open_end = order[:, -1] - order[:, count - 1] <= 2 * self._doubt
                for row in np.flatnonzero(open_end):
                    own = rows.start + int(row) if skip_self else None
                    chosen[row] = self._settled(asked[row : row + 1], own)[:count]
            found.append(chosen)
        return torch.cat(found)

    @torch.no_grad()
    def ranked(self, queries: Tensor, ranks: Sequence[int]) -> Tensor:
        """Return the places in the bank of the neighbours of these ranks (from 1), a column each.

        One search serves all ranks.
        """
        wanted = min(max(ranks) + _SPARE, len(self))
        columns = np.array(ranks) - 1
        before, after = (columns - 1).clip(0), (columns + 1).clip(max=wanted - 1)
        found = [torch.empty((0, len(ranks)), dtype=torch.int64)]
        for rows, best in self._candidates(queries, wanted):
            order, places = _unpacked(best[:, columns])
            gap = 2 * self._doubt
            near = (columns > 0) & (order - _unpacked(best[:, before])[0] <= gap)
            near |= (columns < wanted - 1) & (_unpacked(best[:, after])[0] - order <= gap)
            self._tell_apart(queries[rows], best, places, np.argwhere(near), columns)
            found.append(torch.from_numpy(places))
        return torch.cat(found)

    def _tell_apart(
        self,
        queries: Tensor,
        best: NDArray[np.int64],
        places: NDArray[np.int64],
        doubtful: NDArray[np.int64],
        columns: NDArray[np.int64],
    ) -> None:
        """Settle which candidate really stands in a column, where float32 sees a near tie."""
        tied, settled = [], {}
        for row, column in doubtful:
            order, candidates = _unpacked(best[row])
            middle = order[columns[column]]
            gap = np.float32(2 * self._doubt)
            low = int(np.searchsorted(order, middle - gap, side="left"))
            high = int(np.searchsorted(order, middle + gap, side="right"))
            if high == len(order) < len(self):  # what else is tied is not among the candidates
                if row not in settled:
                    settled[row] = self._settled(queries[row : row + 1], None).numpy()
                places[row, column] = settled[row][columns[column]]
            else:
                tied.append((row, column, columns[column] - low, candidates[low:high]))
        if not tied:
            return
        repeated = np.repeat([row for row, *_ in tied], [len(each) for *_, each in tied])
        asked = queries[torch.from_numpy(repeated).to(queries.device)]
        all_tied = torch.from_numpy(np.concatenate([each for *_, each in tied]))
        distances = self.distances(asked, all_tied[:, None])[:, 0].cpu().numpy()
        start = 0
        for row, column, rank, each in tied:
            own = distances[start : start + len(each)]
            places[row, column] = each[own.argsort(kind="stable")[rank]]
            start += len(each)

    def _settled(self, query: Tensor, own: int | None) -> Tensor:
        """Places of the whole bank in the order of distance to one query, all in float64."""
        asked = self._prepare(query)
        parts = []
        for rows in blocks(len(self), 3 * self._width):
            gap = self._prepare(self._bank[rows]) - asked
            parts.append(torch.linalg.vector_norm(gap, dim=1))
        distances = torch.cat(parts)
        if own is not None:
            distances[own] = torch.inf
        return distances.argsort(stable=True).cpu()

    def distances(self, queries: Tensor, places: Tensor) -> Tensor:
        """Distances of each query to its places in the bank, from the difference itself.

        The way over squared norms would cancel for close neighbours; this also carries gradients.
        """
        parts = []
        for rows in blocks(len(queries), 3 * max(1, places.shape[1]) * self._width):
            wanted = places[rows].to(self._bank.device)
            chosen = self._prepare(self._bank[wanted.reshape(-1)])
            gap = self._prepare(queries[rows])[:, None] - chosen.reshape(*wanted.shape, self._width)
            parts.append(torch.linalg.vector_norm(gap, dim=2))
        return torch.cat(parts)

    def __len__(self) -> int:
        return len(self._bank)


def _packed(order: NDArray[np.float32], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Put order and place into one integer that sorts by the order, as NumPy sorts those fast."""
    bits = order.view(np.int32)
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # negative floats sort backwards by their bits
    packed: NDArray[np.int64] = (rising.astype(np.int64) << 32) | places
    return packed


def _unpacked(packed: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return order and places that were packed."""
    rising = (packed >> 32).astype(np.int32)
    order = (rising ^ ((rising >> 31) & 0x7FFFFFFF)).view(np.float32)
    return order, packed & 0xFFFFFFFF


def _merged(best: NDArray[np.int64], order: Tensor, first: int, count: int) -> NDArray[np.int64]:
    """Merge what is nearest in one more tile into the nearest so far, (queries, <= count), packed.

    Only what is nearer than a threshold is sorted: the farthest of the nearest so far, or in the
    first tile a guess from a sample. Where the guess was too low, the whole row is sorted.
    """
    rows, size = order.shape
    known = best.shape[1]
    kept = min(count, known + size)
    if order.device.type != "cpu":  # let the device choose, and move only that
        top = order.topk(min(count, size), dim=1, largest=False)
        near = _packed(top.values.cpu().numpy(), top.indices.cpu().numpy() + first)
        merged = np.concatenate([best, near], axis=1)
        merged.sort(axis=1)
        return merged[:, :kept]
    values = order.numpy()
    limit = _unpacked(best[:, -1])[0] if known == count else _guessed_limit(values, count)
    flat = np.flatnonzero(values <= limit[:, None])
    ends = np.searchsorted(flat, np.arange(1, rows + 1) * size)
    places = flat - np.repeat(np.arange(rows) * size - first, np.diff(ends, prepend=0))
    near = _packed(values.reshape(-1)[flat], places)
    merged = np.empty((rows, kept), np.int64)
    start = 0
    for row, end in enumerate(ends):
        part = near[start:end]
        if known + len(part) < kept:
            part = _packed(values[row], np.arange(first, first + size))
        if known:
            part = np.concatenate([best[row], part])
        part.sort()
        merged[row] = part[:kept]
        start = end
    return merged


def _guessed_limit(values: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Guess, for each row, a value below which at least `count` of its numbers lie, but not many.

    From every so-manieth number, four standard deviations above what is expected of them.
    """
    rows, size = values.shape
    stride = max(prime for prime in _STRIDES if prime <= max(1, size // _SAMPLE))
    sample = values[:, ::stride]
    expected = count * sample.shape[1] / size
    rank = int(expected + 4 * expected**0.5 + 4)
    if rank >= sample.shape[1]:
        return np.full(rows, np.inf, np.float32)
    limit: NDArray[np.float32] = np.partition(sample, rank, axis=1)[:, rank]
    return limit
