"""The list of studies with their progress, and the page of one."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from oodometer.engine.lead.reported import report_content
from oodometer.engine.plan.artefacts import Stage
from oodometer.engine.plan.study_index import Outcome
from oodometer.engine.stores import DamagedError
from oodometer.engine.upkeep.watch import RunnerReport
from oodometer.study import to_yaml, without_folders
from oodometer.web import queries
from oodometer.web.figures import board_series, draw_twice
from oodometer.web.pages.paging import paged
from oodometer.web.queries import StudyEntry
from oodometer.web.site import NotFoundError, Shown, Site

_PER_PAGE = 100
_MOST_CLAIMS = 60
_MOST_FAILURES = 20
_MOST_MODEL_BYTES = 200_000_000  # that are read to show learning curves of detector models


@dataclass(frozen=True)
class StageProgress:
    """How far a stage is."""

    stage: Stage
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
    at_least: bool  # of that time
    tasks: tuple[str, ...]  # what workers do now


def progress_of(
    site: Site, connection: sqlite3.Connection, entries: Sequence[StudyEntry]
) -> list[StudyProgress]:
    """How far studies are, by the reports of runners where there are any."""
    reports = site.running()
    return [_progress(site, connection, entry, reports) for entry in entries]


def _progress(
    site: Site,
    connection: sqlite3.Connection,
    entry: StudyEntry,
    reports: Mapping[tuple[int, str], RunnerReport],
) -> StudyProgress:
    report = reports.get((entry.place.number, entry.plan))
    stages = site.stage_counts(connection, entry) if report is None else report.progress.stages
    tasks = () if report is None else report.tasks
    return StudyProgress(
        name=entry.name,
        store=entry.place.slug,
        route=f"studies/{entry.route}",
        data=entry.data,
        saved=time.strftime("%Y-%m-%d %H:%M", time.gmtime(entry.saved)),
        runs=entry.brief["runs"],
        detectors=len(entry.settings),
        state="running" if report else "finished" if entry.outcome else "not finished",
        stages=tuple(
            StageProgress(stage, done, wanted) for stage, (done, wanted) in stages.items()
        ),
        failed=len(queries.failures(connection, entry.number, 1000)),
        seconds_left=None if report is None else report.progress.seconds_left,
        at_least=report is not None and report.progress.at_least,
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
    outcome = queries.outcome_of(entry)
    board = queries.board(connection, entry.number, "auroc")
    learned = queries.accuracies(connection, entry.number)
    labels, pager = paged(list(entry.runs), parts[2:], _PER_PAGE, f"studies/{entry.route}")
    runs = [(run, entry.runs[run], _share(learned.get(run)), run in board.left_out)
            for run in labels]  # fmt: skip
    findings = () if outcome is None else outcome.findings
    claims = [claim for finding in findings for claim in finding.claims]
    return Shown(
        "study.html.j2",
        entry.name,
        {
            "entry": entry,
            "progress": progress_of(site, connection, [entry])[0],
            "answers": [f.answer for f in findings if f.answer],
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
            "yaml": to_yaml(without_folders(entry.study) if site.for_others else entry.study),
        },
    )


def report(site: Site, connection: sqlite3.Connection, parts: list[str]) -> str:
    """The report of a finished study, as `oodometer report` writes it."""
    from oodometer import reports

    entry = site.entry(connection, parts)
    outcome = queries.outcome_of(entry)
    if outcome is None:
        raise NotFoundError(f"Study '{entry.name}' is not finished, so there is no report yet.")

    def make() -> str:
        shown = replace(outcome, study=without_folders(outcome.study))
        content = report_content(
            shown if site.for_others else outcome,
            entry.place.store,
            entry.place.address,
            trained=_model_bytes(connection, entry) <= _MOST_MODEL_BYTES,
        )
        return reports.render(content.findings, title=content.title, provenance=content.provenance)

    return site.reports.get(entry.number, entry.outcome, make)


def _model_bytes(connection: sqlite3.Connection, entry: StudyEntry) -> int:
    """How large the networks are that detectors of a study have for themselves."""
    total = 0
    for key in queries.detector_models(connection, entry):
        with suppress(DamagedError):
            total += int(str(entry.place.store.record("models", key).get("bytes", 0)))
    return total


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
