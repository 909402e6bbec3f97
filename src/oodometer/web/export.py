"""The same pages as files, for any web server or none."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from oodometer.errors import UserError
from oodometer.web import queries
from oodometer.web.cards import read_cards
from oodometer.web.index import METRICS, Index, slug_of
from oodometer.web.lines import ResultLine, as_csv, result_lines
from oodometer.web.pages import studies
from oodometer.web.pages.paging import Pager
from oodometer.web.refresh import Refresher
from oodometer.web.server import index_of
from oodometer.web.site import NotFoundError, Site, resource, style
from oodometer.web.submissions import Submissions

MARK = "oodometer-site.txt"  # in the folder of a site: whatever is there may be replaced
_MOST_HISTOGRAMS = 5000  # pages of a detector in a run


def export(
    addresses: Sequence[str],
    folder: Path,
    *,
    submissions: Path | None = None,
    index_folder: Path | None = None,
) -> int:
    """Write the pages of stores to a folder; return how many."""
    _require_own(folder)
    index = index_of(addresses, index_folder, submissions).for_others()
    Refresher(index, Submissions(submissions)).refresh()
    cards = read_cards()
    site = Site(
        index,
        lambda: cards,
        live=False,
        for_others=True,
        histograms=_count_cells(index) <= _MOST_HISTOGRAMS,
    )
    _write(folder / MARK, "Written by 'oodometer export', which may replace these files.\n")
    _write(folder / "static" / "site.css", style())
    _write(folder / "static" / "site.js", resource("static/site.js"))
    _write(
        folder / "static" / "results.csv", "".join(as_csv(ResultLine, result_lines(site, "", "")))
    )
    written = 0
    with index.reading() as connection:
        for first in routes(site, connection):
            route: str | None = first
            while route is not None:  # and the further pages of a long list
                shown = site.shown(route, connection)
                _write(folder / f"{route or 'index'}.html", site.render(route, shown))
                written += 1
                pager = shown.content.get("pager")
                route = pager.next if isinstance(pager, Pager) else None
        for entry in queries.studies(index, connection):
            try:
                page = studies.report(site, connection, entry.route.split("/"))
            except NotFoundError:  # not finished
                continue
            _write(folder / "studies" / entry.route / "report.html", page)
            written += 1
    return written


def routes(site: Site, connection: sqlite3.Connection) -> Iterator[str]:
    """The routes of all pages; of long lists, the first page."""
    yield from ("", "leaderboard", "detectors", "submissions")
    sets = ["all", *(slug_of(name) for name in queries.outlier_sets(site.index, connection))]
    yield from (f"leaderboard/{metric}/{ood}" for metric in METRICS for ood in sets)
    yield from (f"detectors/{slug_of(name)}" for name in queries.detectors(site.index, connection))
    for entry in queries.studies(site.index, connection):
        yield f"studies/{entry.route}"
        whole = queries.whole(connection, entry)
        for run in whole.runs if whole else ():
            yield f"runs/{entry.route}/{slug_of(run)}"
        if site.histograms:
            found = queries.results(connection, entry.number)
            cells = {(r.run, r.detector) for r in found if r.key}
            for run, detector in sorted(cells):
                yield f"runs/{entry.route}/{slug_of(run)}/{slug_of(detector)}"


def _count_cells(index: Index) -> int:
    with index.reading() as connection:
        row = connection.execute(
            "select count(*) as number from cells where kind = 'scores' and role = 'id'"
        ).fetchone()
    return int(row["number"])


def _require_own(folder: Path) -> None:
    try:
        if folder.exists() and not folder.is_dir():
            raise UserError(f"Cannot write the site to '{folder}': it is a file.")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
            raise UserError(
                f"Folder '{folder}' is not empty and was not written by 'oodometer export': "
                "choose another."
            )
    except OSError as problem:
        raise UserError(f"Cannot read '{folder}': {problem.strerror or problem}.") from None


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise UserError(f"Cannot write '{path}': {problem.strerror or problem}.") from None
