"""Compare inputs with those of the training set, as they enter the network."""

from __future__ import annotations

import torch
from torch import Tensor

from oodometer.errors import UserError
from oodometer.grids import PIXEL_NEIGHBORS
from oodometer.lab.asking.probes._card import probe
from oodometer.lab.asking.probes._question import Question, State, precise
from oodometer.outputs import Outputs

NEIGHBORS = max(PIXEL_NEIGHBORS)
_MOST_BYTES = 2 * 2**30  # of training inputs that are kept
_TILE = 8192  # training inputs that are compared at once
_SPARE = 8  # further neighbors to measure, because float32 may have swapped some


class TrainingPixels:
    """Keeps the training inputs."""

    def __init__(self) -> None:
        self._parts: list[Tensor] = []
        self._bytes = 0
        self._sum: Tensor | None = None

    def see(self, question: Question) -> None:
        """Keep a batch; refuse more of them than memory should hold."""
        part = _flat(question).cpu().clone()
        self._bytes += part.numel() * part.element_size()
        if self._bytes > _MOST_BYTES:
            self._parts.clear()
            raise UserError(
                "Probe 'pixel_neighbors' keeps all training inputs, and these take more than "
                f"{_MOST_BYTES / 2**30:g} GiB: give it fewer or smaller ones."
            )
        self._parts.append(part)
        # Batch by batch: the sum in float64 of all of them would first copy all of them.
        total = precise(part).sum(0)
        self._sum = total if self._sum is None else self._sum + total

    def learned(self, train: Outputs) -> tuple[State, None]:
        """Return the training inputs, around their mean, where float32 has the most digits."""
        assert self._sum is not None
        bank = torch.cat(self._parts)
        self._parts.clear()
        origin = (self._sum / len(bank)).to(bank)
        bank -= origin
        squares = torch.linalg.vector_norm(bank, dim=1).square()
        return {"bank": bank, "squares": squares, "origin": origin}, None


@probe(learner=TrainingPixels, keeps_inputs=True, grid={"k": PIXEL_NEIGHBORS})
def pixel_neighbors(question: Question, state: State) -> Tensor:
    """(n, 8): distances to the nearest training inputs, nearest first.

    Euclidean, between inputs as they enter the network, flattened. Neighbours are found in float32
    and measured in float64. A training set of fewer than 8 inputs repeats its farthest.
    """
    bank, squares, origin = state["bank"], state["squares"], state["origin"]
    rows = _flat(question)
    if rows.shape[1] != bank.shape[1]:
        raise UserError(
            f"Probe 'pixel_neighbors' compares inputs of one size: those of data set "
            f"'{question.dataset}' have {rows.shape[1]} numbers, those of the training set "
            f"{bank.shape[1]}."
        )
    points = rows - origin.to(rows)
    near, places = [], []
    for start in range(0, len(bank), _TILE):
        tile, lengths = (part[start : start + _TILE].to(points) for part in (bank, squares))
        # Squared distances, less what is the same for all training inputs: |x|^2.
        gaps = torch.addmm(lengths, points, tile.T, alpha=-2)
        found, where = gaps.topk(min(NEIGHBORS + _SPARE, len(tile)), dim=1, largest=False)
        near.append(found)
        places.append(where + start)
    nearest = torch.cat(near, dim=1).argsort(dim=1)[:, : NEIGHBORS + _SPARE]
    chosen = torch.cat(places, dim=1).gather(1, nearest).cpu()
    distances = [
        torch.linalg.vector_norm(precise(bank[those]) - precise(point).cpu(), dim=1)
        for point, those in zip(points, chosen, strict=True)
    ]
    found = torch.stack(distances).sort(dim=1).values[:, :NEIGHBORS]
    lacking = NEIGHBORS - found.shape[1]
    return torch.cat([found, found[:, -1:].expand(-1, lacking)], dim=1)


def _flat(question: Question) -> Tensor:
    """The inputs as rows of numbers; refuse what has no distances."""
    inputs = question.inputs
    if isinstance(inputs, Tensor) and (
        inputs.is_floating_point() or inputs.dtype == torch.uint8  # bytes of an image
    ):
        flat = inputs.detach().flatten(1)
        return flat if flat.dtype == torch.float64 else flat.float()
    raise UserError(
        f"Probe 'pixel_neighbors' needs distances between inputs: those of data set "
        f"'{question.dataset}' are not one tensor of floats or bytes."
    )
