"""The list of detectors, and the page of one: card, formula, paper, every result."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from oodometer.web import queries
from oodometer.web.cards import card_of, family_of
from oodometer.web.index import METRICS
from oodometer.web.pages.paging import paged
from oodometer.web.queries import Chosen, Result, StudyEntry
from oodometer.web.site import Shown, Site

_PER_PAGE = 500


def detectors(site: Site, connection: sqlite3.Connection, parts: list[str]) -> Shown:
    """All detectors that some study has, or one of them."""
    if parts and not parts[0].startswith("page-"):
        return _detector(site, connection, parts)
    cards, known = site.cards(), queries.detectors(site.index, connection)
    names, pager = paged(list(known), parts, _PER_PAGE, "detectors")
    listed = [
        {
            "name": name,
            "family": family_of(name, cards),
            "card": card_of(name, cards),
            "studies": known[name][0],
            "mark": known[name][1],
        }
        for name in names
    ]
    return Shown("detectors.html.j2", "Detectors", {"detectors": listed, "pager": pager})


def _detector(site: Site, connection: sqlite3.Connection, parts: list[str]) -> Shown:
    name = site.label(connection, parts[0], "detector")
    standings, chosen = [], []
    for entry in queries.studies(site.index, connection):
        own = Chosen(entry.number, name=name)
        if number := own.count(connection):
            chosen.append((entry, own, number))
        rows = queries.board(connection, entry.number, "auroc").rows
        standings += [
            (entry, rank, len(rows), row)
            for rank, row in enumerate(rows, start=1)
            if row.detector == name
        ]
    lines = _Lines(connection, chosen)
    shown, pager = paged(lines, parts[1:], _PER_PAGE, f"detectors/{parts[0]}")
    cards = site.cards()
    return Shown(
        "detector.html.j2",
        name,
        {
            "name": name,
            "card": card_of(name, cards),
            "family": family_of(name, cards),
            "standings": standings,
            "has_worst": any(row.worst for *_, row in standings),
            "lines": shown,
            "columns": METRICS,
            "pager": pager,
        },
    )


class _Lines:
    """The results of a detector in several studies, of which only those of a page are read."""

    def __init__(
        self, connection: sqlite3.Connection, chosen: Sequence[tuple[StudyEntry, Chosen, int]]
    ) -> None:
        self._connection, self._chosen = connection, chosen

    def __len__(self) -> int:
        return sum(number for *_, number in self._chosen)

    def __getitem__(self, part: slice) -> list[tuple[StudyEntry, Result]]:
        start, stop, _ = part.indices(len(self))
        found: list[tuple[StudyEntry, Result]] = []
        for entry, chosen, number in self._chosen:
            if start < number and stop > 0:
                first = max(start, 0)
                some = chosen.read(self._connection, min(stop, number) - first, first)
                found += [(entry, result) for result in some]
            start, stop = start - number, stop - number
        return found
