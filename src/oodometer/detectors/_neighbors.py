"""Exact nearest neighbours in bounded memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, precise

_QUERY_TILE, _BANK_TILE = 1024, 8192  # one tile of distances is 64 MiB in float64


def as_given(rows: Tensor) -> Tensor:
    """Return the rows in float64."""
    return precise(rows)


def on_unit_sphere(rows: Tensor) -> Tensor:
    """Return the rows in float64 at length one; a row of zeros has no direction and stays zero."""
    rows = precise(rows)
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / torch.where(length > 0, length, 1.0)


Preparation = Callable[[Tensor], Tensor]


@torch.no_grad()
def nearest(
    queries: Tensor, bank: Tensor, count: int, prepare: Preparation, *, skip_self: bool = False
) -> Tensor:
    """Return the places in the bank of the `count` nearest rows of each query, nearest first.

    Tile by tile, in float64: with |q|^2 the same for all, |b|^2 / 2 - q.b puts the bank in the
    order of distance. `skip_self` is for queries that are the bank: no row is its own neighbour.
    """
    found = []
    for start in range(0, max(len(queries), 1), _QUERY_TILE):
        asked = prepare(queries[start : start + _QUERY_TILE])
        values = asked.new_empty((len(asked), 0))
        places = torch.empty((len(asked), 0), dtype=torch.int64, device=asked.device)
        for first in range(0, len(bank), _BANK_TILE):
            tile = prepare(bank[first : first + _BANK_TILE])
            order = torch.addmm(tile.square().sum(1) / 2, asked, tile.T, alpha=-1)
            if skip_self:
                own = torch.arange(len(asked), device=asked.device) + start - first
                inside = (own >= 0) & (own < len(tile))
                order[inside.nonzero()[:, 0], own[inside]] = torch.inf
            top = order.topk(min(count, len(tile)), dim=1, largest=False)
            values = torch.cat([values, top.values], dim=1)
            places = torch.cat([places, top.indices + first], dim=1)
            if values.shape[1] > count:
                kept = values.topk(count, dim=1, largest=False)
                values, places = kept.values, places.gather(1, kept.indices)
        ranked = values.argsort(dim=1)[:, :count]
        found.append(places.gather(1, ranked))
    return torch.cat(found)


def distances_to(queries: Tensor, bank: Tensor, places: Tensor, prepare: Preparation) -> Tensor:
    """Return the Euclidean distance of each query to the rows of the bank at its places.

    From the difference itself: the shorter way over squared norms loses all digits of a small
    distance. Gradients flow to the queries.
    """
    parts = []
    for rows in blocks(len(queries), 3 * places.shape[1] * bank.shape[1]):
        wanted = places[rows].to(bank.device)
        chosen = prepare(bank[wanted.reshape(-1)]).reshape(*wanted.shape, bank.shape[1])
        gap = prepare(queries[rows])[:, None] - chosen
        parts.append(torch.linalg.vector_norm(gap, dim=2))
    return torch.cat(parts)
