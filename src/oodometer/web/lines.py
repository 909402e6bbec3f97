"""Leaderboards and results line by line, for programs: as objects and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from pydantic import BaseModel

from oodometer.files import inert
from oodometer.web import queries
from oodometer.web.index import METRICS
from oodometer.web.pages.leaderboard import Line, lines_of
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
    return BoardLine(
        store=line.entry.place.slug,
        study=line.entry.name,
        data=line.entry.data,
        family=line.family,
        metric=metric,
        ood=ood,
        rank=line.rank,
        **asdict(line.row),
    )


def result_lines(site: Site, study: str, detector: str) -> Iterator[ResultLine]:
    """One line per study, run, detector and outlier set."""
    with site.index.reading() as connection:
        for entry in queries.studies(site.index, connection):
            if study and entry.name != study:
                continue
            for found in queries.results(connection, entry.number, name=detector or None):
                yield ResultLine(
                    store=entry.place.slug,
                    study=entry.name,
                    data=entry.data,
                    run=found.run,
                    detector=found.detector,
                    ood=found.ood,
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
