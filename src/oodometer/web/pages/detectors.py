"""The list of detectors, and the page of one: card, formula, paper, every result."""

from __future__ import annotations

import sqlite3

from oodometer.web import queries
from oodometer.web.cards import card_of, family_of
from oodometer.web.index import METRICS
from oodometer.web.pages.paging import paged
from oodometer.web.site import Shown, Site

_PER_PAGE = 500


def detectors(site: Site, connection: sqlite3.Connection, parts: list[str]) -> Shown:
    """All detectors that some study has, or one of them."""
    if parts and not parts[0].startswith("page-"):
        return _detector(site, connection, parts)
    cards, known = site.cards(), site.detectors(connection)
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
    standings, lines = [], []
    for entry in queries.studies(site.index, connection):
        submitted = [r for r in site.submitted(connection, entry) if r.detector == name]
        if name not in entry.settings and not submitted:
            continue
        rows = site.board(connection, entry, "auroc").rows
        standings += [
            (entry, rank, len(rows), row)
            for rank, row in enumerate(rows, start=1)
            if row.detector == name
        ]
        found = queries.results(connection, entry.number, name=name)
        lines += [(entry, result) for result in (*found, *submitted)]
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
            "lines": shown,
            "columns": METRICS,
            "pager": pager,
        },
    )
