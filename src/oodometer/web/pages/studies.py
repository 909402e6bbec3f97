"""The list of studies with their progress, and the page of one."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

import oodometer
from oodometer.engine.plan.artefacts import UNITS, Stage
from oodometer.engine.plan.study_index import Outcome, read_outcome
from oodometer.engine.stores import DamagedError, StoreError
from oodometer.engine.upkeep.watch import RunnerReport
from oodometer.web import queries
from oodometer.web.figures import board_series, draw_twice
from oodometer.web.pages.paging import paged
from oodometer.web.queries import StudyEntry
from oodometer.web.site import NotFoundError, Shown, Site

_PER_PAGE = 100
_MOST_CLAIMS = 60
_MOST_FAILURES = 20


@dataclass(frozen=True)
class StageProgress:
    """How far a stage is."""

    stage: Stage
    unit: str  # what is counted
    done: int
    wanted: int


@dataclass(frozen=True)
class StudyProgress:
    """How far a study is, whoever works on it."""

    name: str
    store: str
    route: str
    data: str
    saved: str  # UTC
    runs: int
    detectors: int
    state: str  # "finished", "running" or "not finished"
    stages: tuple[StageProgress, ...]
    failed: int
    seconds_left: float | None
    tasks: tuple[str, ...]  # what workers do now


def progress_of(
    site: Site, connection: sqlite3.Connection, entries: Sequence[StudyEntry]
) -> list[StudyProgress]:
    """How far studies are, by the reports of runners where there are any."""
    reports = site.running()
    return [_progress(connection, entry, reports) for entry in entries]


def _progress(
    connection: sqlite3.Connection,
    entry: StudyEntry,
    reports: Mapping[tuple[int, str], RunnerReport],
) -> StudyProgress:
    report = reports.get((entry.place.number, entry.plan))
    stages = (
        queries.stage_counts(connection, entry.number) if report is None else report.progress.stages
    )
    tasks = () if report is None else report.tasks
    return StudyProgress(
        name=entry.name,
        store=entry.place.slug,
        route=f"studies/{entry.route}",
        data=entry.data,
        saved=time.strftime("%Y-%m-%d %H:%M", time.gmtime(entry.saved)),
        runs=len(entry.runs),
        detectors=len(entry.settings),
        state="running" if report else "finished" if entry.outcome else "not finished",
        stages=tuple(
            StageProgress(stage, UNITS[stage], done, wanted)
            for stage, (done, wanted) in stages.items()
        ),
        failed=len(queries.failures(connection, entry.number, 1000)),
        seconds_left=None if report is None else report.progress.seconds_left,
        tasks=tuple(f"{task.stage}, run {task.run}" for task in tasks),
    )


def overview(site: Site, connection: sqlite3.Connection, parts: list[str]) -> Shown:
    """The studies of all stores, the latest first."""
    entries, pager = paged(queries.studies(site.index, connection), parts, _PER_PAGE, "")
    return Shown(
        "studies.html.j2",
        "Studies",
        {"studies": progress_of(site, connection, entries), "pager": pager},
    )


def study(site: Site, connection: sqlite3.Connection, parts: list[str]) -> Shown:
    """A study: progress, conclusions, leaderboard, runs, file; or its report."""
    if not parts:
        return overview(site, connection, [])
    if len(parts) < 2:
        raise NotFoundError(f"There is no study '{parts[0]}'.")
    entry = site.entry(connection, parts)
    outcome = _outcome(entry)
    board = site.board(connection, entry, "auroc")
    learned = queries.accuracies(connection, entry.number)
    labels, pager = paged(list(entry.runs), parts[2:], _PER_PAGE, f"studies/{entry.route}")
    runs = [(run, entry.runs[run], _share(learned.get(run)), run in board.left_out)
            for run in labels]  # fmt: skip
    claims = [] if outcome is None else [c for f in outcome.findings for c in f.claims]
    return Shown(
        "study.html.j2",
        entry.name,
        {
            "entry": entry,
            "progress": progress_of(site, connection, [entry])[0],
            "claims": claims[:_MOST_CLAIMS],
            "further": max(0, len(claims) - _MOST_CLAIMS),
            "has_report": outcome is not None,
            "board": board,
            "metric": "auroc",
            "figure": draw_twice(board_series(board, "auroc"), "leaderboard"),
            "runs": runs,
            "factors": [factor.field for factor in entry.study.factors],
            "pager": pager,
            "failures": _failures(connection, entry),
            "origins": _origins(entry, outcome),
            "yaml": yaml.safe_dump(
                entry.study.model_dump(mode="json", exclude_defaults=True),
                sort_keys=False,
                allow_unicode=True,
            ),
        },
    )


def report(site: Site, connection: sqlite3.Connection, parts: list[str]) -> str:
    """The report of a finished study, as `oodometer report` writes it."""
    from oodometer import reports

    entry = site.entry(connection, parts)
    outcome = _outcome(entry)
    if outcome is None:
        raise NotFoundError(f"Study '{entry.name}' is not finished, so there is no report yet.")
    provenance = [
        ("study", entry.name),
        ("oodometer", oodometer.__version__),
        ("specification", outcome.study.model_dump_json(exclude_defaults=True)),
        ("score table", outcome.table_key),
    ]

    def make() -> str:
        title = f"Oodometer: {entry.name}"
        return reports.render(outcome.findings, title=title, provenance=provenance)

    return site.reports.get(entry.number, entry.outcome, make)


def _outcome(entry: StudyEntry) -> Outcome | None:
    try:
        return read_outcome(entry.outcome, entry.place.store) if entry.outcome else None
    except (DamagedError, StoreError):
        return None


def _share(known: queries.Accuracy | None) -> float | None:
    return None if known is None else known[0] / known[1]


def _failures(connection: sqlite3.Connection, entry: StudyEntry) -> list[dict[str, str]]:
    found = queries.failures(connection, entry.number, _MOST_FAILURES)
    return [{"run": run, "detector": detector, "key": key} for run, detector, key in found]


def _origins(entry: StudyEntry, outcome: Outcome | None) -> list[tuple[str, str]]:
    """What a page about a study rests on: words and digests."""
    found = [("plan", entry.plan)]
    if outcome is not None:
        names = [finding.protocol for finding in outcome.findings]
        found += [("study", entry.outcome), ("score table", outcome.table_key)]
        found += [
            (f"finding: {name}", key)
            for name, key in zip(names, outcome.finding_keys, strict=False)
        ]
    return found
