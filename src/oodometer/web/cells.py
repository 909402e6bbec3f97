"""The cells of studies in an index: which results a study wants, and which are there."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oodometer.engine.plan.artefacts import MADE_BY_RUNS, Artefact
from oodometer.engine.plan.study_index import PlanRecord, read_plan, with_imports
from oodometer.engine.stores import DamagedError, FolderStore, Kind
from oodometer.web.index import ABSENT, PRESENT, Place, slug_of

KINDS: tuple[Kind, ...] = (*MADE_BY_RUNS, "failures")
IMPORTED = "imported"  # how detectors whose scores were imported are marked
_SETTLED = 2.0  # seconds after which another file in a folder surely has another time


@dataclass(frozen=True)
class Version:
    """One version of a study in a store."""

    name: str
    saved: float
    plan: str
    outcome: str = ""
    imports: tuple[str, ...] = ()  # keys of what was imported for it


def add_study(connection: sqlite3.Connection, place: Place, version: Version) -> None:
    """Add a study with all that it wants."""
    try:
        own = read_plan(version.plan, place.store)
        plan = with_imports(own, place.store)
    except DamagedError:
        return
    roles = [_role(part, plan) for part in plan.artefacts]
    outliers = sorted(
        {part.about.dataset for part, role in zip(plan.artefacts, roles, strict=True)
         if role == "ood"}
    )  # fmt: skip
    brief = {"runs": len(plan.runs), "settings": plan.settings, "outlier_sets": outliers}
    content = {
        "study": plan.study.model_dump(mode="json"), "runs": plan.runs, "sets": plan.sets,
    }  # fmt: skip
    added = connection.execute(
        "insert into studies (store, name, plan, imports, saved, data, outcome, brief, content) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (place.number, version.name, version.plan, " ".join(version.imports), version.saved,
         plan.id, version.outcome, json.dumps(brief), json.dumps(content)),
    )  # fmt: skip
    study = added.lastrowid
    assert study is not None
    connection.executemany(
        "insert into cells (study, kind, stage, run, name, dataset, variation, key, role, "
        "reference, mark, counted) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        _cells(study, plan, own, roles),
    )
    connection.executemany(
        "insert into cells (study, kind, stage, run, name, dataset, variation, key, role, "
        "reference) values (?, 'failures', '', ?, ?, '', '', ?, '', '')",
        ((study, run, name, key) for (run, name), key in plan.failures.items()),
    )
    put_labels(connection, {*plan.runs, *plan.settings, *outliers})
    connection.execute("delete from folders where store = ?", (place.number,))
    count_change(connection, study)


def put_labels(connection: sqlite3.Connection, labels: set[str]) -> None:
    """Note what parts of addresses mean."""
    connection.executemany(
        "insert or ignore into labels values (?, ?)", ((slug_of(label), label) for label in labels)
    )


def _cells(
    study: int, plan: PlanRecord, own: PlanRecord, roles: list[str]
) -> Iterator[tuple[str | int, ...]]:
    """A line per artefact; progress counts one that several runs share once."""
    references = {
        (part.about.run, part.about.name): part.key
        for part, role in zip(plan.artefacts, roles, strict=True)
        if role == "id" and part.kind == "scores"
    }
    seen: set[tuple[Kind, str]] = set()
    for part, role in zip(plan.artefacts, roles, strict=True):
        about = part.about
        found = plan.found_sets.get(about.dataset) if part.kind in ("found", "searches") else None
        yield (
            study, part.kind, part.stage, about.run, about.name,
            about.dataset if found is None else found.of, "" if found is None else found.by,
            part.key, role,
            references.get((about.run, about.name), "") if role in ("ood", "search") else "",
            _mark(part, own), (part.kind, part.key) not in seen,
        )  # fmt: skip
        seen.add((part.kind, part.key))


def _role(part: Artefact, plan: PlanRecord) -> str:
    """Which part a cell plays for results: scores on either side, or outputs with labels."""
    about = part.about
    if about.run not in plan.runs:
        return ""
    inside = about.dataset == plan.id
    if part.kind == "scores":
        return "id" if inside else "ood"
    if part.kind == "outputs":
        return "id" if inside else ""
    if part.kind == "found":  # of detectors on what was found against others, transfers are made
        info = plan.found_sets.get(about.dataset)
        return "search" if info is not None and info.against == about.name else ""
    return ""


def _mark(part: Artefact, own: PlanRecord) -> str:
    """Whether scores were computed elsewhere."""
    return IMPORTED if part.kind == "scores" and part.about.name not in own.settings else ""


def remove_study(connection: sqlite3.Connection, study: int) -> None:
    """Forget a study; what is known by digests of scores stays."""
    for table, column in {"cells": "study", "boards": "study", "studies": "id"}.items():
        connection.execute(f"delete from {table} where {column} = ?", (study,))
    count_change(connection, study)


def count_change(connection: sqlite3.Connection, study: int) -> None:
    """Note that pages about a study, and those about all (number 0), are out of date."""
    connection.executemany(
        "insert into generations (study, number) values (?, 1) "
        "on conflict do update set number = number + 1",
        [(study,), (0,)],
    )


def update_presence(connection: sqlite3.Connection, place: Place, kind: Kind) -> None:
    """Note which cells of a store are there."""
    for folder, changed in _changed_folders(connection, place, kind):
        names = (path.rpartition("/")[2] for path in place.store.list_names(f"{kind}{folder}"))
        there = {name.removesuffix(".json") for name in names if name.endswith(".json")}
        start = folder.removeprefix("/")
        cells = connection.execute(
            "select c.rowid, c.key, c.state, c.study from cells c join studies s on s.id = c.study "
            "where s.store = ? and c.kind = ? and c.key >= ? and c.key < ?",
            (place.number, kind, start, f"{start}~"),
        ).fetchall()
        new = [cell for cell in cells if cell["state"] == ABSENT and cell["key"] in there]
        gone = [cell for cell in cells if cell["state"] != ABSENT and cell["key"] not in there]
        set_state(connection, new, PRESENT)
        set_state(connection, gone, ABSENT)
        for study in {cell["study"] for cell in (*new, *gone)}:
            count_change(connection, study)
        if changed:
            connection.execute(
                "insert or replace into folders values (?, ?, ?, ?)",
                (place.number, kind, folder, changed),
            )


def _changed_folders(
    connection: sqlite3.Connection, place: Place, kind: Kind
) -> Iterator[tuple[str, int]]:
    """Folders of a kind whose files are not those of the last time, with their own time.

    A time of 0: they must be looked at again. Only a folder store has times.
    """
    if not isinstance(place.store, FolderStore):
        yield "", 0
        return
    known = {
        row["name"]: row["changed"]
        for row in connection.execute(
            "select name, changed from folders where store = ? and kind = ?", (place.number, kind)
        )
    }
    found: dict[str, int] = {}
    top = Path(place.store.folder) / kind
    for part in sorted(top.iterdir()) if top.is_dir() else ():
        if part.is_dir():
            found[f"/{part.name}"] = part.stat().st_mtime_ns
    settled = time.time_ns() - int(_SETTLED * 1e9)
    for name, changed in found.items():
        if known.get(name) != changed:
            yield name, changed if changed < settled else 0
    yield from ((name, 0) for name in known if name not in found)


def set_state(connection: sqlite3.Connection, cells: list[sqlite3.Row], state: int) -> None:
    """Note how far cells are."""
    connection.executemany(
        "update cells set state = ? where rowid = ?", ((state, cell["rowid"]) for cell in cells)
    )
