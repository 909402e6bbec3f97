"""Leaderboards and results line by line, for programs: as objects and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from oodometer.files import inert
from oodometer.web import queries
from oodometer.web.index import METRICS
from oodometer.web.pages.leaderboard import Line, lines_of
from oodometer.web.queries import Chosen, Result, StudyEntry
from oodometer.web.site import Site


class BoardLine(BaseModel):
    """A detector in the leaderboard of a study."""

    store: str
    study: str
    data: str
    detector: str
    family: str
    metric: str
    ood: str  # empty: mean over all outlier sets of the study
    value: float
    low: float | None
    high: float | None
    worst_value: float | None  # on outliers that were searched for, the worst variation
    worst_low: float | None
    worst_high: float | None
    worst_by: str  # that variation; empty: nothing was searched for
    rank: int
    ranks: str
    group: str
    runs: int
    sets: int
    mark: str


class ResultLine(BaseModel):
    """A detector in one run on one outlier set."""

    store: str
    study: str
    data: str
    run: str
    detector: str
    ood: str
    variation: str  # that a search among the outliers varied; empty: the outliers as they are
    auroc: float | None
    fpr95: float | None
    aupr_in: float | None
    aupr_out: float | None
    problem: str
    scores: str  # digest
    id_scores: str  # digest
    mark: str


def board_lines(
    site: Site, metric: str, ood: str, study: str, data: str, family: str
) -> Iterator[BoardLine]:
    """Detectors of all studies, the best of each study first; empty filters let all pass."""
    with site.index.reading() as connection:
        lines = lines_of(site, connection, metric, ood)
    for line in lines:
        fits = {line.entry.name: study, line.entry.data: data, line.family: family}
        if all(not wanted or own == wanted for own, wanted in fits.items()):
            yield _board_line(line, metric, ood)


def _board_line(line: Line, metric: str, ood: str) -> BoardLine:
    row = line.row
    worst = row.worst[0] if row.worst else None
    return BoardLine(
        store=line.entry.place.slug,
        study=line.entry.name,
        data=line.entry.data,
        detector=row.detector,
        family=line.family,
        metric=metric,
        ood=ood,
        value=row.value,
        low=row.low,
        high=row.high,
        worst_value=None if worst is None else worst.value,
        worst_low=None if worst is None else worst.low,
        worst_high=None if worst is None else worst.high,
        worst_by="" if worst is None else worst.variation,
        rank=line.rank,
        ranks=row.ranks,
        group=row.group,
        runs=row.runs,
        sets=row.sets,
        mark=row.mark,
    )


def result_lines(
    site: Site, study: str, detector: str, limit: int = -1, offset: int = 0
) -> Iterator[ResultLine]:
    """One line per study, run, detector and outlier set."""
    with site.index.reading() as connection:
        for entry in queries.studies(site.index, connection):
            if study and entry.name != study:
                continue
            chosen = Chosen(entry.number, name=detector or None)
            if offset and (skipped := min(offset, chosen.count(connection))) < offset:
                offset -= skipped
                continue
            for found in chosen.read(connection, limit, offset):
                limit -= limit > 0
                yield _result_line(entry, found)
            offset = 0
            if limit == 0:
                return


def _result_line(entry: StudyEntry, found: Result) -> ResultLine:
    return ResultLine(
        store=entry.place.slug,
        study=entry.name,
        data=entry.data,
        run=found.run,
        detector=found.detector,
        ood=found.ood,
        variation=found.variation,
        problem=found.problem,
        scores=found.key,
        id_scores=found.reference,
        mark=found.mark,
        **{metric: found.values[metric] for metric in METRICS},
    )


def as_csv(
    model: type[BaseModel], lines: Iterator[BoardLine] | Iterator[ResultLine]
) -> Iterator[str]:
    """The same as CSV, line by line."""
    yield _csv_line(list(model.model_fields))
    for line in lines:
        yield _csv_line([inert(value) for value in line.model_dump().values()])


def _csv_line(cells: Sequence[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()
