"""The leaderboard across studies and stores."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from oodometer import metrics
from oodometer.web import queries
from oodometer.web.board import BoardRow
from oodometer.web.cards import family_of
from oodometer.web.index import METRICS
from oodometer.web.pages.paging import paged
from oodometer.web.queries import StudyEntry
from oodometer.web.site import NotFoundError, Shown, Site

_PER_PAGE = 1000
_MOST_SETS = 300  # that a page offers


@dataclass(frozen=True)
class Line:
    """A detector in a study, with what it can be filtered by."""

    entry: StudyEntry
    family: str
    rank: int  # by the mean, within its study
    row: BoardRow


def lines_of(site: Site, connection: sqlite3.Connection, metric: str, ood: str = "") -> list[Line]:
    """All detectors of all studies, study by study, the best first."""
    cards = site.cards()
    return [
        Line(entry, family_of(row.detector, cards), rank, row)
        for entry in queries.studies(site.index, connection)
        for rank, row in enumerate(queries.board(connection, entry.number, metric, ood).rows, 1)
    ]


def leaderboard(site: Site, connection: sqlite3.Connection, parts: list[str]) -> Shown:
    """Route: leaderboard/METRIC/SET; all outlier sets if none is named."""
    rest = [part for part in parts if not part.startswith("page-")]
    metric, chosen = (*rest, *("auroc", "all")[len(rest) :])[:2]
    if metric not in METRICS or len(rest) > 2:
        raise NotFoundError(f"There is no leaderboard by '{metric[:60]}'.")
    ood = "" if chosen == "all" else site.label(connection, chosen, "outlier set")
    route = f"leaderboard/{metric}/{chosen}"
    lines, pager = paged(
        lines_of(site, connection, metric, ood), parts[len(rest) :], _PER_PAGE, route
    )
    return Shown(
        "leaderboard.html.j2",
        "Leaderboard",
        {
            "lines": lines,
            "has_worst": any(line.row.worst for line in lines),
            "pager": pager,
            "metric": metric,
            "about": metrics.METRICS[metric],
            "ood": ood,
            "chosen": chosen,
            "sets": queries.outlier_sets(site.index, connection)[:_MOST_SETS],
            "choices": {
                "study": sorted({line.entry.name for line in lines}),
                "data": sorted({line.entry.data for line in lines}),
                "family": sorted({line.family for line in lines}),
            },
        },
    )
