"""What files of scores say, before it is one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.factors import Factor
from oodometer.score_arrays import Higher
from oodometer.scores import Level

Columns = Mapping[str, NDArray[Any]]  # name -> values: numbers or texts
ONE_RUN = ""


@dataclass(frozen=True, eq=False)
class Piece:
    """Scores of one detector in one run on one data set."""

    detector: str
    run: str
    dataset: str
    scores: NDArray[Any]  # as the file has them
    higher: Higher | None = None  # if the format says it
    samples: tuple[str, ...] = ()  # what they are called, if the file says it


@dataclass(frozen=True, eq=False)
class Part:
    """What one file, or one folder, says."""

    pieces: tuple[Piece, ...]
    read_as: str  # in words
    id: str = ""  # the in-distribution set, if the file says it
    runs: Mapping[str, Mapping[str, Level]] = field(default_factory=dict)
    factors: tuple[Factor, ...] = ()
    correct: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)  # as in a ScoreTable
    chance: Mapping[str, float] = field(default_factory=dict)


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names with commas between; not more than a sentence holds."""
    some = [*dict.fromkeys(names)]
    more = f" and {len(some) - most} more" if len(some) > most else ""
    return ", ".join(some[:most]) + more


def aligned(pieces: Iterable[Piece]) -> list[Piece]:
    """Put samples that have names into the same order for all detectors."""
    order: dict[tuple[str, str], tuple[str, dict[str, int]]] = {}
    ready = []
    for piece in pieces:
        if not piece.samples:
            ready.append(piece)
            continue
        where = f"'{piece.detector}' on '{piece.dataset}'"
        places = {name: place for place, name in enumerate(piece.samples)}
        if len(places) != len(piece.samples):
            twice = next(n for place, n in enumerate(piece.samples) if places[n] != place)
            raise UserError(f"Sample '{twice}' has two scores of {where}.")
        first, known = order.setdefault(
            (piece.run, piece.dataset), (piece.detector, dict.fromkeys(places, 0))
        )
        if places.keys() != known.keys():
            odd = next(iter(places.keys() ^ known.keys()))
            lacking = piece.detector if odd in known else first
            raise UserError(
                f"'{lacking}' has no score of sample '{odd}' of '{piece.dataset}', which "
                f"'{first if lacking == piece.detector else piece.detector}' has: all detectors "
                "must score the same samples."
            )
        scores = piece.scores[[places[name] for name in known]]
        ready.append(
            Piece(piece.detector, piece.run, piece.dataset, scores, piece.higher, tuple(known))
        )
    return ready
