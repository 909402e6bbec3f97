"""Arithmetic that every detector shares: double precision, bounded memory, exact quantiles.

Detectors compute in float64 whatever the network's type: scores are then as exact as the outputs
they read, and equal scores mean equal outputs. It happens block by block, so the price in memory
is one block, not a second copy of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from oodometer.outputs.mapped import release_pages

BLOCK_BYTES = 64 * 2**20  # how much a detector may hold at once, besides its inputs and results
_DIRECT = 2**24  # numbers that may be copied to find a percentile
_CACHE_BYTES = 2**20  # what is worked on row by row goes faster in blocks that stay in the cache
_FEWEST_ROWS = 256  # but a matrix product with fewer rows spends its time on reading the other side


@contextmanager
def working_memory(size: int | None) -> Iterator[None]:
    """Set for a while how many bytes a detector may hold at once; None changes nothing."""
    global BLOCK_BYTES  # one number for all detectors, put back afterwards
    before = BLOCK_BYTES
    BLOCK_BYTES = before if size is None else max(1, size)
    try:
        yield
    finally:
        BLOCK_BYTES = before


def precise(values: Tensor) -> Tensor:
    """Return the values in float64; on the CPU if their device has no float64 (Apple's GPU)."""
    if values.device.type == "mps":
        values = values.cpu()
    return values.to(torch.float64)


def blocks(rows: int, numbers_per_row: int, most: int | None = None) -> Iterator[slice]:
    """Slices that cover the rows, each within BLOCK_BYTES in float64; one if there are none.

    With `most` they stay within that many bytes, if that leaves enough rows.
    """
    per_row = 8 * max(1, numbers_per_row)
    step = max(1, BLOCK_BYTES // per_row)
    if most is not None:
        step = min(step, max(_FEWEST_ROWS, most // per_row))
    step = min(step, max(rows, 1))
    read = 0  # since pages were released; that costs a call to the system
    for start in range(0, max(rows, 1), step):
        yield slice(start, min(start + step, rows))
        read += step * per_row
        if read + step * per_row > BLOCK_BYTES:
            release_pages()
            read = 0


def by_rows(score: Callable[..., Tensor], *arrays: Tensor, numbers_per_row: int) -> Tensor:
    """Apply a row-wise function to the arrays in float64, block by block."""
    result: Tensor | None = None
    for rows in blocks(len(arrays[0]), numbers_per_row, _CACHE_BYTES):
        part = score(*(precise(array[rows]) for array in arrays))
        if result is None:
            # Made at once: small results kept between large blocks would fragment the memory, and
            # then every block takes new memory.
            result = part.new_empty((len(arrays[0]), *part.shape[1:]))
        result[rows] = part
    assert result is not None  # there is at least one block
    return result


def energy_of(logits: Tensor) -> Tensor:
    """Minus the log of the summed exponentials: high where no class is supported."""
    return -logits.logsumexp(1)


def percentile_of(values: Tensor, percent: float) -> float:
    """Percentile of all numbers in the array, interpolated linearly, at any size.

    torch.quantile refuses more than 16 million numbers and sorts them all.
    """
    position = percent / 100 * (values.numel() - 1)
    below, above = math.floor(position), math.ceil(position)
    flat = values.detach().reshape(-1)
    if flat.numel() <= _DIRECT and flat.device.type == "cpu":
        both = np.partition(flat.numpy(), (below, above))
        low, high = float(both[below]), float(both[above])
    else:
        low = _order_statistic(flat, below)
        high = low if above == below else _order_statistic(flat, above)
    return low + (high - low) * (position - below)


def _order_statistic(flat: Tensor, rank: int) -> float:
    """The number at this rank (from 0) of all numbers in the vector, without sorting a copy.

    A regular sample brackets the answer; one pass counts what lies below the bracket and keeps
    what lies inside. The result is exact: the sample only decides how much is kept.
    """
    if flat.numel() <= _DIRECT:
        return float(flat.kthvalue(rank + 1).values)
    step = max(1, flat.numel() // 2**20)
    regular = flat.new_empty(len(range(0, flat.numel(), step)))
    for rows in blocks(flat.numel(), 1):  # it touches every page of a mapped file
        first = -(-rows.start // step)
        part = flat[first * step : rows.stop : step]
        regular[first : first + len(part)] = part
    sample = regular.sort().values
    centre = round(rank / (flat.numel() - 1) * (len(sample) - 1))
    margin = max(16, len(sample) // 200)
    low = sample[max(0, centre - margin)]
    high = sample[min(len(sample) - 1, centre + margin)]
    below, at_low, inside = 0, 0, []
    for rows in blocks(flat.numel(), 1):
        part = flat[rows]
        below += int((part < low).sum())
        at_low += int((part == low).sum())
        inside.append(part[(part > low) & (part <= high)])
    between = torch.cat(inside)
    if below <= rank < below + at_low:
        return float(low)
    offset = rank - below - at_low
    if 0 <= offset < len(between):
        return float(between.kthvalue(offset + 1).values)
    return float(flat.kthvalue(rank + 1).values)  # the sample misled: pay for the copy
