"""From a route, such as studies/my-store/demo, to a page; the same for a server and for files."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import oodometer
from oodometer import metrics
from oodometer.clean_text import clean
from oodometer.engine.plan.artefacts import Stage
from oodometer.engine.stores import StoreError
from oodometer.engine.upkeep.watch import RunnerReport, read_reports
from oodometer.errors import UserError
from oodometer.reports.drawing import palette
from oodometer.reports.drawing.figures import figure_rules
from oodometer.reports.verdicts import BADGES
from oodometer.reports.words import one_line
from oodometer.web import queries
from oodometer.web.caching import Cache
from oodometer.web.cards import Card
from oodometer.web.index import METRICS, Index, slug_of
from oodometer.web.queries import StudyEntry

if TYPE_CHECKING:
    from jinja2 import Environment

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'"
)
LONGEST_ROUTE = 500  # letters
_SHORT = 60  # letters of a name in a table
# Characters that turn the direction of all text behind them, until others turn it back.
_TURNING = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)))
METRIC_LABELS = {name: metrics.METRICS[name].label for name in METRICS}


Running = dict[tuple[int, str], RunnerReport]  # number of the store, key of the plan


class NotFoundError(UserError):
    """There is no such page."""


@dataclass(frozen=True)
class Shown:
    """A page before it is rendered: its template, and the data that it shows."""

    template: str
    title: str
    content: Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Site:
    """All pages about some stores."""

    index: Index
    cards: Callable[[], Mapping[str, Card]]
    trouble: Callable[[], str] = str  # what readers must know about the index; else nothing
    live: bool = True  # a server answers; else pages are files
    for_others: bool = False  # files and folders of this machine are shown by their last names
    histograms: bool = True  # whether there is a page for every detector in every run
    _pages: Cache[str] = field(default_factory=lambda: Cache(100, patience=1.0))
    reports: Cache[str] = field(default_factory=lambda: Cache(4))
    _counts: Cache[Mapping[Stage, tuple[int, int]]] = field(default_factory=lambda: Cache(1000))
    _running: Cache[Running] = field(default_factory=lambda: Cache(1, patience=0.0))

    def page(self, route: str) -> str:
        """The page of a route, or a NotFoundError."""
        if len(route) > LONGEST_ROUTE:
            raise NotFoundError("There is no such page: the address is too long.")
        with self.index.reading() as connection:
            state = (
                queries.generation(connection),
                len(self.cards()),
                self._progress_state(),
                self.trouble(),
            )

            def make() -> str:
                return self.render(route, self.shown(route, connection))

            return self._pages.get(route, state, make)

    def running(self) -> Running:
        """Who works on which plan of which store now; at most a second old."""

        def read() -> Running:
            found: Running = {}
            for place in self.index.places:
                with suppress(StoreError):
                    for report in read_reports(place.store):
                        if not report.stale:
                            found[place.number, report.plan] = report
            return found

        return self._running.get("", int(time.monotonic()), read) if self.live else {}

    def _progress_state(self) -> Hashable:
        """What pages show of runners: it changes without the index, and ends with a runner."""
        return tuple(
            (plan, report.owner, report.progress, tuple((t.run, t.stage) for t in report.tasks))
            for plan, report in sorted(self.running().items())
        )

    def shown(self, route: str, connection: sqlite3.Connection) -> Shown:
        """What a route shows."""
        from oodometer.web.pages import detectors, leaderboard, others, runs, studies

        first, *rest = route.strip("/").split("/")
        makers: dict[str, Callable[[Site, sqlite3.Connection, list[str]], Shown]] = {
            "": studies.overview,
            "studies": studies.study,
            "leaderboard": leaderboard.leaderboard,
            "detectors": detectors.detectors,
            "runs": runs.run,
            "artefacts": others.artefact,
            "submissions": others.submissions,
            "api": others.api,
        }
        if first not in makers:
            raise NotFoundError(f"There is no page '{_shortened(route)}'.")
        return makers[first](self, connection, rest)

    def entry(self, connection: sqlite3.Connection, parts: list[str]) -> StudyEntry:
        """The study that the first two parts of a route name."""
        wanted = "/".join(parts[:2])
        for entry in queries.studies(self.index, connection):
            if entry.route == wanted and (found := queries.whole(connection, entry)):
                return found
        raise NotFoundError(f"There is no study '{_shortened(wanted)}'.")

    def label(self, connection: sqlite3.Connection, slug: str, kind: str) -> str:
        """The run, detector or data set that a part of a route names."""
        found = queries.label_of(connection, slug)
        if found is None:
            raise NotFoundError(f"There is no {kind} '{_shortened(slug)}'.")
        return found

    def stage_counts(
        self, connection: sqlite3.Connection, entry: StudyEntry
    ) -> Mapping[Stage, tuple[int, int]]:
        """How far a study is by what the store has."""
        return self._counts.get(
            entry.number,
            entry.generation,
            lambda: queries.stage_counts(connection, entry.number),
        )

    def error(self, title: str, sentence: str) -> str:
        """The page that says what is wrong."""
        return self.render("", Shown("error.html.j2", title, {"sentence": sentence}))

    def render(self, route: str, shown: Shown) -> str:
        """The page as text."""
        depth = route.strip("/").count("/")

        def link(target: str) -> str:
            if self.live:
                return f"/{target}"
            if not target.startswith("static/"):
                target = f"{target or 'index'}.html"
            return "../" * depth + target

        page = _environment().get_template(shown.template)
        return clean(
            page.render(
                **shown.content,
                title=shown.title,
                link=link,
                live=self.live,
                histograms=self.histograms,
                route=route.strip("/"),
                trouble=self.trouble(),
                policy=POLICY,
            )
        )


def style() -> str:
    """The one style sheet of all pages: the colours and figures of reports, and the layout."""
    return palette.stylesheet() + figure_rules() + resource("static/site.css")


def resource(name: str) -> str:
    """A text file of this package."""
    return files("oodometer.web").joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(lambda name: resource(f"templates/{name}")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["slug"] = slug_of
    environment.filters["short"] = _shortened
    environment.filters["number"] = lambda value: "–" if value is None else f"{value:.3f}"
    environment.globals |= {
        "version": oodometer.__version__,
        "badges": BADGES,
        "metrics": METRIC_LABELS,
    }
    return environment


def _shortened(text: object) -> str:
    line = one_line(text).translate(_TURNING)
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}…"
