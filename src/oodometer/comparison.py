"""Compare detectors by their scores, whoever computed them: which is best, and how certain?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oodometer import metrics
from oodometer.errors import UserError, unknown
from oodometer.files import inert
from oodometer.finding import Finding
from oodometer.other_scores import read_scores
from oodometer.protocols import score_protocol
from oodometer.protocols.common.copies import copy_caveats
from oodometer.protocols.common.learned import judge_learning
from oodometer.score_arrays import Higher
from oodometer.score_files import save_scores
from oodometer.scores import ScoreTable

if TYPE_CHECKING:
    import pandas as pd

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The scores of detectors, what they allow to conclude, and what to know."""

    table: ScoreTable
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()  # such as names that were guessed, or an accuracy near chance

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One line per run, detector and outlier set: every metric with its interval."""
        return self.table.summary()

    def save(self, folder: PathLike) -> list[Path]:
        """Write summary.csv, summary.parquet and scores.parquet; return the files."""
        place = Path(folder)
        files = [place / name for name in ("summary.csv", "summary.parquet")]
        try:
            place.mkdir(parents=True, exist_ok=True)
            self.summary.map(inert).to_csv(files[0], index=False)
            self.summary.to_parquet(files[1], index=False)
        except OSError as problem:
            raise UserError(f"Cannot write to '{place}': {problem.strerror or problem}.") from None
        return [*files, save_scores(self.table, place / "scores.parquet")]


def compare(
    scores: ScoreTable | PathLike | Sequence[PathLike],
    *,
    id: str = "",
    higher: Higher | Mapping[str, Higher] | None = None,
    columns: str = "",
    ours: str = "",
) -> Evaluation:
    """Compare detectors by per-sample scores: a ScoreTable, or files of any origin.

    Files are .npz, CSV or Parquet, or folders of OpenOOD's score files; ``NAME=FILE`` names what a
    file is about. `id` names the in-distribution set, `higher` says whether scores are higher for
    "ood" or "id" samples, for all detectors or each, and `columns` which column is what, such as
    ``set=Source, run=seed``: whatever the files do not say. `ours` names the detector whose
    comparisons are declared in advance.
    """
    reading: tuple[tuple[str, str], ...] = ()
    if isinstance(scores, ScoreTable):
        if id or higher is not None or columns:
            raise UserError("A ScoreTable says itself what id, higher and columns are.")
        table = scores
    else:
        paths = [scores] if isinstance(scores, str | os.PathLike) else list(scores)
        table, reading = read_scores(paths, id=id, higher=higher, columns=columns)
    if not table.ood:
        raise UserError(f"There are scores on '{table.id}' only: an outlier set is missing.")
    if ours and ours not in table.detectors:
        raise unknown("detector", ours, table.detectors)
    return conclude(table, ours, caveats=[*_reversed_detectors(table)], reading=reading)


def conclude(
    table: ScoreTable,
    ours: str = "",
    *,
    caveats: Sequence[str] = (),
    notes: Sequence[str] = (),
    reading: Sequence[tuple[str, str]] = (),
) -> Evaluation:
    """Apply the protocols that any score table allows."""
    asked = ("ranking", "spread") if len(table.runs) > 1 else ("ranking",)
    rng = np.random.default_rng
    learning = judge_learning(table, keep=True)
    caveats = (*caveats, *copy_caveats(table))
    found = (
        learning.tell(score_protocol(name, ours)(table, rng(0)), is_first=not place)
        for place, name in enumerate(asked)
    )
    first, *others = (replace(f, caveats=(*caveats, *f.caveats)) for f in found)
    noted = (*first.reading, *reading, *(("note", text) for text in notes))
    return Evaluation(table, (replace(first, reading=noted), *others), (*caveats, *notes))


def _reversed_detectors(table: ScoreTable) -> Iterator[str]:
    """Name detectors that are below chance on most outlier sets: their sign may be wrong."""
    below: dict[str, list[bool]] = {}
    for reference, row in table.pairs():
        high = metrics.auroc_interval(reference.scores, row.scores).high
        below.setdefault(row.detector, []).append(high < 0.5)
    wrong = {name: sum(is_low) for name, is_low in below.items() if 2 * sum(is_low) > len(is_low)}
    if wrong:
        counts = (f"{name} ({low} of {len(below[name])})" for name, low in wrong.items())
        several = ", counted in each run" if len(table.runs) > 1 else ""
        yield (
            f"AUROC significantly below 0.5 on most outlier sets{several}: "
            f"{', '.join(counts)}. Check the direction of the scores: they are read as higher for "
            "outliers, after 'higher' was applied."
        )
