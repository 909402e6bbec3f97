"""Where results are missing, and why: a figure for pages on which something is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from oodometer.finding import Series, Value
from oodometer.protocols.common.cells import Cells
from oodometer.protocols.common.words import count
from oodometer.scores import Missing, ScoreTable

MOST_RUNS = 40  # columns; of more runs, only their number is shown
_UNKNOWN = "no result, and no reason is known"
_ABSENT = "the table has no value"


class Gap(NamedTuple):
    """One result that is not there."""

    detector: str
    run: str
    set: str
    reason: str


def gaps_in_scores(table: ScoreTable) -> list[Gap]:
    """Every detector, run and outlier set without scores; those fitted on outliers have none."""
    whole = [part for part in table.missing if not part.setting]
    named = {part.detector for part in whole if part.detector} - set(table.detectors)
    represented = dict.fromkeys(row.detector for row in table.rows if row.default)
    why = _reason_of(whole, table.id)
    return [
        Gap(detector, run, ood, why(run, detector, ood) or _UNKNOWN)
        for detector in (*represented, *sorted(named))
        for run in table.runs
        for ood in table.ood
        if table.scores(run, detector, ood) is None or table.scores(run, detector, table.id) is None
    ]


def gaps_in_cells(cells: Cells) -> list[Gap]:
    """Every detector, run and set that some detector has a value for and this one has not."""
    runs, why = list(cells.runs), _reason_of(cells.results.missing, "")
    places = np.argwhere(~cells.present).tolist()
    found = (
        (cells.detectors[r], runs[cells.run[c]], cells.pairs[cells.pair[c]]) for r, c in places
    )
    several = len(cells.ids) > 1
    return [
        Gap(detector, run, pair.label(several), why(run, detector, pair.ood) or _ABSENT)
        for detector, run, pair in found
    ]


def _reason_of(missing: Iterable[Missing], id: str) -> Callable[[str, str, str], str]:
    """Return what finds the most particular reason for a result; empty text in one means any."""
    stated = {
        (part.run, part.detector, "" if part.dataset == id else part.dataset): part.reason
        for part in missing
    }

    def reason(run: str, detector: str, dataset: str) -> str:
        tried = ((r, d, s) for d in (detector, "") for s in (dataset, "") for r in (run, ""))
        return next((stated[key] for key in tried if key in stated), "")

    return reason


def gap_map(
    gaps: Sequence[Gap], runs: Mapping[str, str], sets: Sequence[str], detectors: int
) -> list[Series]:
    """Detectors by runs, or by sets where all runs lack the same; nothing if nothing is missing.

    `runs` gives the name of each that readers see; `detectors` is how many there are.
    """
    if not gaps:
        return []
    lacking: dict[tuple[str, str], set[str]] = {}
    for gap in gaps:
        lacking.setdefault((gap.detector, gap.set), set()).add(gap.run)
    by_run = len(runs) <= MOST_RUNS and any(len(own) < len(runs) for own in lacking.values())
    columns = list(runs.values()) if by_run else list(sets)
    reasons: dict[tuple[str, str], Counter[str]] = {}
    for gap in gaps:
        place = gap.detector, runs[gap.run] if by_run else gap.set
        reasons.setdefault(place, Counter())[gap.reason] += 1
    rows = list(dict.fromkeys(gap.detector for gap in gaps))
    many = len(sets) if by_run else len(runs)
    points: list[Mapping[str, Value]] = []
    for row in rows:
        for column in columns:
            own = reasons.get((row, column), Counter())
            reason = own.most_common(1)[0][0] if own else None
            points.append(
                {"row": row, "column": column, "value": own.total(), "of": many, "reason": reason}
            )
    what = "outlier set" if by_run else "run"
    complete = detectors - len(rows)
    others = f" {count(complete, 'other detector')}: nothing is missing." if complete > 0 else ""
    return [
        Series(
            "gaps",
            "missing",
            "What is missing",
            "A letter marks results that are missing, for the reason that is written below; a "
            f"number beside it says how many of {count(many, what)}, if not all.{others}",
            "missing results",
            tuple(points),
            higher_is_better=None,
            roles={"row": "detector", "column": "run" if by_run else "set"},
        )
    ]
