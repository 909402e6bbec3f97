"""Follow a study while it runs: every runner writes its progress into the store."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from pydantic import TypeAdapter, ValidationError

from oodometer.engine.plan.artefacts import Stage
from oodometer.engine.plan.keys import digest
from oodometer.engine.stores import Store
from oodometer.engine.stores.claims import is_silent

FOLDER = "runners"  # beside the claims
SECONDS_BETWEEN_REPORTS = 2.0
MOST_FAILURES = 20  # in one report; `Progress.failed` counts all


@dataclass(frozen=True)
class Progress:
    """How far a study is: artefacts done and wanted of each stage, whoever made them."""

    train: tuple[int, int] = (0, 0)
    extract: tuple[int, int] = (0, 0)
    score: tuple[int, int] = (0, 0)
    found: tuple[int, int, int] = (0, 0, 0)  # of each stage, what was in the store before
    made: tuple[int, int, int] = (0, 0, 0)  # of each stage, what this runner made
    failed: int = 0
    elsewhere: int = 0  # runs that another runner works on
    seconds_left: float | None = None
    at_least: bool = False  # the rest may take much longer: some of it is of an unknown kind

    @property
    def stages(self) -> dict[Stage, tuple[int, int]]:
        """Done and wanted, by stage."""
        return {"train": self.train, "extract": self.extract, "score": self.score}


@dataclass(frozen=True)
class CurrentTask:
    """What a worker does now."""

    run: str
    stage: Stage
    detectors: tuple[str, ...]  # that it scores
    seconds: float  # since it began


@dataclass(frozen=True)
class RunnerReport:
    """How far a runner is with a study."""

    owner: str  # as in claims
    study: str
    plan: str  # key of the plan record, which says what is where in the store
    started: float  # seconds since 1970
    progress: Progress
    tasks: tuple[CurrentTask, ...] = ()
    failures: tuple[str, ...] = ()  # in words, the latest
    age: float = 0.0  # seconds since it was written

    @property
    def stale(self) -> bool:
        """The runner is known to be gone, or has not reported for very long."""
        return is_silent(self.owner, self.age, SECONDS_BETWEEN_REPORTS)


_REPORT = TypeAdapter(RunnerReport)


def write_report(report: RunnerReport, store: Store) -> None:
    """Write, or write again, the report of a runner: whole or not at all."""
    content = asdict(report)
    del content["age"]
    store.write_file(_path(report.owner), json.dumps(content).encode())


def remove_report(owner: str, store: Store) -> None:
    """Remove the report of a runner that has ended."""
    store.remove_file(_path(owner))


def read_reports(store: Store) -> Iterator[RunnerReport]:
    """The reports of all runners, of those that were killed too, the first started first."""
    reports = []
    for path, file in store.list_files(FOLDER).items():
        try:
            report = _REPORT.validate_json(bytes(store.read_file(f"{FOLDER}/{path}")))
        except (FileNotFoundError, ValidationError):
            continue  # ended in the meantime, or of another version
        reports.append(replace(report, age=max(0.0, time.time() - file.changed)))
    yield from sorted(reports, key=lambda report: (report.started, report.owner))


def sweep_reports(store: Store) -> None:
    """Remove the reports of runners that are gone."""
    for report in read_reports(store):
        if report.stale:
            remove_report(report.owner, store)


def _path(owner: str) -> str:
    return f"{FOLDER}/{digest(owner)}.json"
