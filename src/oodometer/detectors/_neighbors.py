"""Exact nearest neighbours in bounded memory: found in single precision, settled in double.

All distances of a tile come from one matrix product in float32, of rows that are centred on the
middle of the bank and scaled to its size, so that little cancels. What float32 cannot tell apart is
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
from oodometer.detectors._pool import Pool, limits_from, packed, unpacked

Preparation = Callable[[Tensor], Tensor]
_TILE_ROWS = 2048  # rows of the bank at a time, with _BLOCK_ROWS queries: 8 MiB of distances
_BLOCK_ROWS = 1024
_SPARE = 8  # candidates beyond the last wanted one, among which float32 may have erred
_SAMPLE = 1024  # rows of the bank that foretell where the nearest ones of a query end
_CACHE_BYTES = 2**20  # rows are prepared in blocks that stay in the cache
_FEW = 64  # rows; so few are measured again without first finding copies


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
    float32 stays below one number for all queries, half of `_gap`: at most two thirds of that was
    seen, where queries and bank are in the same tight clusters and all products have one sign.
    """

    def __init__(self, bank: Tensor, prepare: Preparation) -> None:
        self._bank, self._prepare = bank.detach(), prepare
        self._width = bank.shape[1]
        self._gap = 2 * float(np.finfo(np.float32).eps) * (4 + self._width**0.5 / 3)

    def __len__(self) -> int:
        return len(self._bank)

    @torch.no_grad()
    def nearest(self, queries: Tensor, count: int, *, skip_self: bool = False) -> Tensor:
        """Return the places in the bank of the `count` nearest rows of each query, nearest first.

        `skip_self` is for queries that are the bank: no row is its own neighbour.
        """
        available = len(self) - skip_self
        wanted = min(count + _SPARE, available)
        found = [torch.empty((0, count), dtype=torch.int64)]
        for rows, asked, best in self._candidates(queries, wanted, skip_self=skip_self):
            order, places = unpacked(best)
            self._sort_ties(queries[rows], order, places)
            chosen = torch.from_numpy(places[:, :count])
            if wanted < available:
                # Everything after the last candidate is at least this far; where that does not
                # tell it from the last one chosen, float32 was not enough.
                unsure = np.flatnonzero(order[:, -1] - order[:, count - 1] <= self._gap)
                limits = order[unsure, count - 1] + self._gap
                for row, near in zip(unsure, self._within(asked[unsure], limits), strict=True):
                    others = unpacked(near)[1]
                    if skip_self:
                        others = others[others != rows.start + row]
                    query = queries[rows.start + row]
                    chosen[row] = torch.from_numpy(self._by_distance(query, others)[:count])
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
        for rows, asked, best in self._candidates(queries, wanted):
            order, places = unpacked(best[:, columns])
            near = (columns > 0) & (order - unpacked(best[:, before])[0] <= self._gap)
            near |= (columns < wanted - 1) & (unpacked(best[:, after])[0] - order <= self._gap)
            self._tell_apart(queries[rows], asked, best, places, np.argwhere(near), columns)
            found.append(torch.from_numpy(places))
        return torch.cat(found)

    def distances(self, queries: Tensor, places: Tensor) -> Tensor:
        """Distances of each query to its places in the bank, from the difference itself.

        The way over squared norms would cancel for close neighbours; this also carries gradients.
        """
        per_query = 3 * max(1, places.shape[1]) * self._width
        parts = []
        for outer in blocks(len(queries), per_query):
            some, wanted = queries[outer], places[outer]
            for rows in blocks(len(some), per_query, 4 * _CACHE_BYTES):
                chosen = self._rows(wanted[rows].reshape(-1))
                gap = self._prepare(some[rows])[:, None] - chosen.reshape(
                    *wanted[rows].shape, self._width
                )
                parts.append(torch.linalg.vector_norm(gap, dim=2))
        return torch.cat(parts)

    # --- float32: the candidates ----------------------------------------------------------------

    def _prepared(self, first: int, last: int) -> Iterator[Tensor]:
        """Rows of the bank in float64, a few at a time: what stays in the cache goes faster."""
        for outer in blocks(last - first, self._width):
            part = self._bank[first + outer.start : first + outer.stop]
            for rows in blocks(len(part), 4 * self._width, _CACHE_BYTES):
                yield self._prepare(part[rows])

    @cached_property
    def _exact(self) -> Tensor | None:
        """The whole bank as prepared, where that fits: what is measured again needs it again."""
        if 8 * self._bank.numel() > _arrays.BLOCK_BYTES:
            return None
        return torch.cat(list(self._prepared(0, len(self))))

    def _rows(self, places: Tensor) -> Tensor:
        """Rows of the bank, prepared."""
        if self._exact is None:
            return self._prepare(self._bank[places.to(self._bank.device)])
        return self._exact[places.to(self._exact.device)]

    @cached_property
    def _drawn(self) -> Tensor:
        """Places of a few rows of the bank, drawn at random but always the same."""
        size = min(_SAMPLE, max(64, len(self) // 16))
        if size >= len(self):
            return torch.arange(len(self))
        generator = torch.Generator().manual_seed(0)
        return torch.randint(len(self), (size,), generator=generator).sort().values

    @cached_property
    def _frame(self) -> tuple[Tensor, Tensor]:
        """About the centre of the bank, and its radius around that."""
        centre = self._rows(self._drawn).mean(0)
        far = [
            torch.linalg.vector_norm(rows - centre, dim=1).amax()
            for rows in self._prepared(0, len(self))
        ]
        radius = torch.stack(far).amax()
        return centre, torch.where(radius > 0, radius, 1.0)

    def _as_tile(self, prepared: Tensor) -> Tensor:
        """Rows of the bank in float32, as (-b, |b|^2 / 2): one product then gives the order."""
        centre, radius = self._frame
        placed = (centre - prepared) / radius
        half = placed.square().sum(1, keepdim=True) / 2
        return torch.cat([placed, half], dim=1).float()

    @cached_property
    def _sample(self) -> Tensor:
        """The drawn rows as a tile."""
        return self._as_tile(self._rows(self._drawn))

    @cached_property
    def _kept(self) -> Tensor | None:
        """The whole bank as one tile, where it is at most four times the working memory."""
        if 4 * self._bank.numel() > 4 * _arrays.BLOCK_BYTES:
            return None
        return self._tile(0, len(self))

    def _tile(self, first: int, last: int) -> Tensor:
        """These rows of the bank as a tile, filled in place: parts beside it would double it."""
        centre, _ = self._frame
        tile = centre.new_empty((last - first, self._width + 1), dtype=torch.float32)
        start = 0
        for rows in self._prepared(first, last):
            tile[start : start + len(rows)] = self._as_tile(rows)
            start += len(rows)
        return tile

    def _tiles(self, size: int) -> Iterator[tuple[int, Tensor]]:
        for first in range(0, len(self), size):
            last = min(first + size, len(self))
            if self._kept is not None:
                yield first, self._kept[first:last]
            else:
                yield first, self._tile(first, last)

    def _asked(self, queries: Tensor) -> Tensor:
        """Queries in float32, as (q, 1) / s: what is multiplied with a tile."""
        centre, radius = self._frame
        parts = []
        for rows in blocks(len(queries), 5 * self._width, _CACHE_BYTES):
            placed = (self._prepare(queries[rows]) - centre) / radius
            length = torch.linalg.vector_norm(placed, dim=1, keepdim=True).clamp_min(1.0)
            parts.append(torch.cat([placed / length, 1 / length], dim=1).float())
        return torch.cat(parts)

    def _candidates(
        self, queries: Tensor, count: int, *, skip_self: bool = False
    ) -> Iterator[tuple[slice, Tensor, NDArray[np.int64]]]:
        """Per block of queries: them as asked, and the `count` nearest by float32, packed."""
        size = min(_TILE_ROWS, len(self), max(16, _arrays.BLOCK_BYTES >> 14))
        per_query = 13 * size + 8 * count + 12 * self._width
        # A tile that is not kept is made again for every block: then blocks are large.
        most = _BLOCK_ROWS if self._kept is not None else 4 * _BLOCK_ROWS
        block = min(len(queries), max(1, min(most, _arrays.BLOCK_BYTES // per_query)))
        pool = Pool(block, count, size)
        # Distances of a tile are written over those of the last: fresh memory costs page faults.
        room: Tensor | None = None
        for start in range(0, len(queries), max(1, block)):
            rows = slice(start, min(start + block, len(queries)))
            asked = self._asked(queries[rows])
            if room is None:
                room = asked.new_empty(block * size)
            own = np.arange(rows.start, rows.stop) if skip_self else None
            pool.restart(limits_from(asked @ self._sample.T, count, len(self)))
            self._gather(pool, asked, room, size, own)
            best, short = pool.sorted()
            if len(short):  # the guess was too low: once more, without one
                pool.restart(np.full(len(short), np.inf, np.float32))
                again = own[short] if own is not None else None
                self._gather(pool, asked[short], room, size, again)
                best[short], _ = pool.sorted()
            yield rows, asked, best

    def _gather(
        self, pool: Pool, asked: Tensor, room: Tensor, size: int, own: NDArray[np.int64] | None
    ) -> None:
        """Let the pool see the order of the whole bank; `own` is the place that a query skips."""
        for first, tile in self._tiles(size):
            order = room[: len(asked) * len(tile)].view(len(asked), len(tile))
            torch.mm(asked, tile.T, out=order)
            if own is not None:
                inside = np.flatnonzero((own >= first) & (own < first + len(tile)))
                order[inside, own[inside] - first] = torch.inf
            pool.add(order, first)

    # --- float64: what float32 cannot tell apart -------------------------------------------------

    def _sort_ties(
        self, queries: Tensor, order: NDArray[np.float32], places: NDArray[np.int64]
    ) -> None:
        """Put candidates that float32 cannot tell from the next one into their true order."""
        close = np.zeros((len(order), order.shape[1] + 1), np.bool_)  # to the one before
        close[:, 1:-1] = np.diff(order, axis=1) <= self._gap
        run = np.cumsum(~close[:, :-1])
        tied = np.flatnonzero(close[:, :-1] | close[:, 1:])
        if not len(tied):
            return
        flat = places.reshape(-1)
        asked = queries[torch.from_numpy(tied // order.shape[1]).to(queries.device)]
        distances = self.distances(asked, torch.from_numpy(flat[tied])[:, None])[:, 0]
        flat[tied] = flat[tied[np.lexsort((distances.cpu().numpy(), run[tied]))]]

    def _tell_apart(
        self,
        queries: Tensor,
        asked: Tensor,
        best: NDArray[np.int64],
        places: NDArray[np.int64],
        doubtful: NDArray[np.int64],
        columns: NDArray[np.int64],
    ) -> None:
        """Settle which row of the bank really stands in a column, where float32 sees a near tie."""
        rows, which = doubtful.T
        window = columns[which, None] + np.arange(-_SPARE, _SPARE + 1)
        last = best.shape[1] - 1
        inside = (window >= 0) & (window <= last)
        order, candidates = unpacked(best[rows[:, None], window.clip(0, last)])
        tied = inside & (np.abs(order - order[:, _SPARE, None]) <= self._gap)
        # A tie that extends beyond these is settled with the whole bank.
        beyond = (window == last) & (last + 1 < len(self))
        beyond[:, 0] |= window[:, 0] > 0
        beyond[:, -1] |= window[:, -1] < last
        wide = (tied & beyond).any(1)
        tied[wide] = False
        pairs, _ = tied.nonzero()
        measured = np.full(tied.shape, np.inf)
        measured[tied] = self.distances(
            queries[rows[pairs]], torch.from_numpy(candidates[tied])[:, None]
        )[:, 0].cpu()
        rank = tied[:, :_SPARE].sum(1, keepdims=True)
        chosen = np.take_along_axis(measured.argsort(1, kind="stable"), rank, axis=1)
        settled = np.take_along_axis(candidates, chosen, axis=1)[:, 0]
        places[rows[~wide], which[~wide]] = settled[~wide]

        open_rows = np.unique(rows[wide])
        all_orders = unpacked(best[open_rows][:, columns])[0].astype(np.float64)
        open_columns = [which[wide & (rows == row)] for row in open_rows]
        lows = [each[some[0]] for each, some in zip(all_orders, open_columns, strict=True)]
        highs = [each[some[-1]] for each, some in zip(all_orders, open_columns, strict=True)]
        found = self._within(asked[open_rows], np.array(highs) + self._gap)
        for row, some, low, near in zip(open_rows, open_columns, lows, found, strict=True):
            order, near_places = unpacked(near)
            nearer = order < low - self._gap
            ordered = self._by_distance(queries[row], near_places[~nearer])
            places[row, some] = ordered[columns[some] - nearer.sum()]

    def _within(self, asked: Tensor, limits: NDArray[np.floating]) -> Iterator[NDArray[np.int64]]:
        """For each query, packed: everything in the bank whose order is within its limit."""
        if not len(asked):
            return
        upper = np.nextafter(limits.astype(np.float32), np.float32(np.inf))
        bounds = torch.from_numpy(upper).to(asked.device)[:, None]
        for rows in blocks(len(asked), 2 * len(self)):
            found: list[list[NDArray[np.int64]]] = [[] for _ in asked[rows]]
            for first, tile in self._tiles(min(_TILE_ROWS, len(self))):
                order = asked[rows] @ tile.T
                flat, places = (order <= bounds[rows]).nonzero(as_tuple=True)
                near = packed(order[flat, places].cpu().numpy(), places.cpu().numpy() + first)
                ends = np.searchsorted(flat.cpu().numpy(), np.arange(1, len(order)))
                for parts, part in zip(found, np.split(near, ends), strict=True):
                    parts.append(part)
            yield from (np.concatenate(parts) for parts in found)

    @cached_property
    def _copies(self) -> NDArray[np.int64]:
        """For every row of the bank, the place of the first one that holds the same numbers."""
        generator = torch.Generator().manual_seed(0)
        factors = torch.randint(-(2**62), 2**62, (self._width,), generator=generator)
        factors = (2 * factors + 1).to(self._bank.device)
        kind = torch.int64 if self._bank.dtype == torch.float64 else torch.int32
        parts = []
        for rows in blocks(len(self), 3 * self._width):
            numbers = self._bank[rows].contiguous().view(kind)
            parts.append((numbers * factors).sum(1).cpu().numpy())
        _, first, group = np.unique(np.concatenate(parts), return_index=True, return_inverse=True)
        copies: NDArray[np.int64] = first[group]
        later = torch.from_numpy(np.flatnonzero(copies != np.arange(len(self))))
        for rows in blocks(len(later), 3 * self._width):
            some = later[rows].numpy()  # the same sum need not mean the same numbers
            same = (self._bank[some] == self._bank[copies[some]]).all(1).cpu().numpy()
            copies[some[~same]] = some[~same]
        return copies

    def _by_distance(self, query: Tensor, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places in the order of their distance to one query, in float64; ties by place."""
        places = np.sort(places)
        different, back = places, np.arange(len(places))
        if len(places) > _FEW:  # copies of one row need to be measured only once
            different, back = np.unique(self._copies[places], return_inverse=True)
        asked = self._prepare(query[None])
        parts = []
        for rows in blocks(len(different), 3 * self._width):
            gap = self._rows(torch.from_numpy(different[rows])) - asked
            parts.append(torch.linalg.vector_norm(gap, dim=1))
        distances = torch.cat(parts).cpu().numpy()[back]
        ordered: NDArray[np.int64] = places[distances.argsort(kind="stable")]
        return ordered
