"""Leaderboards as pages show them, and as the index keeps them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class WorstCase:
    """A detector on the outliers that a search has found against it."""

    variation: str  # that was searched
    value: float
    low: float | None  # of the 95% interval; None: nothing varies that could give one
    high: float | None
    sets: int  # that the searches began at
    samples: int  # of each of them


@dataclass(frozen=True)
class BoardRow:
    """A detector in a leaderboard."""

    detector: str
    value: float
    low: float | None
    high: float | None
    ranks: str  # plausible ones, as the study's report says; empty: it does not
    group: str  # letters: two detectors without a common one can be separated; likewise
    runs: int
    sets: int
    mark: str  # "imported", "submitted", or empty: made here
    worst: tuple[WorstCase, ...] = ()  # by variation, the worst first


@dataclass(frozen=True)
class Board:
    """Detectors of one study by one metric, the best first."""

    rows: tuple[BoardRow, ...]
    scope: str  # what intervals are about, such as "after retraining"
    left_out: tuple[str, ...] = ()  # runs whose classifier did not learn

    @property
    def has_worst(self) -> bool:
        """Whether something was searched for."""
        return any(row.worst for row in self.rows)

    def to_json(self) -> str:
        """The board as text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Board:
        """The board that `to_json` wrote."""
        content = json.loads(text)
        rows = (
            BoardRow(**{**row, "worst": tuple(WorstCase(**part) for part in row["worst"])})
            for row in content["rows"]
        )
        return Board(tuple(rows), content["scope"], tuple(content["left_out"]))
