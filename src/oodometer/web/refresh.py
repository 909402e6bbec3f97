"""Bring an index up to date: only what changed in its stores since the last time is read."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oodometer import metrics
from oodometer.engine.plan.artefacts import MADE_BY_RUNS, Artefact
from oodometer.engine.plan.study_index import PlanRecord, read_plan, with_imports
from oodometer.engine.stores import DamagedError, FolderStore, Kind, Store
from oodometer.engine.work.codecs import REFUSED, array_to_text
from oodometer.metrics.counts import Counts
from oodometer.web.arrays import read_arrays
from oodometer.web.index import (
    ABSENT,
    METRICS,
    PRESENT,
    READ,
    WAITING,
    Index,
    Place,
    slug_of,
)

_KINDS: tuple[Kind, ...] = (*MADE_BY_RUNS, "failures")
IMPORTED = "imported"  # how detectors whose scores were imported are marked
_BATCH = 500  # cells that are read between two commits
_SETTLED = 2.0  # seconds after which another file in a folder surely has another time
_PUT_RESULT = (
    f"insert or replace into results values (?, ?, {', '.join('?' * len(METRICS))}, ?, ?, ?)"
)


@dataclass(frozen=True)
class _Version:
    """One version of a study in a store."""

    name: str
    saved: float
    plan: str
    outcome: str = ""
    imports: tuple[str, ...] = ()  # keys of what was imported for it


@dataclass
class Refresher:
    """Keeps an index up to date; one at a time."""

    index: Index
    _records: dict[tuple[int, Kind, str], tuple[str, float, str] | None] = field(
        default_factory=dict
    )

    def refresh(self) -> None:
        """Read all that changed."""
        self.list_studies()
        while self.read_some():
            pass

    def list_studies(self) -> None:
        """Find the latest version of every study, and which of its results are there."""
        with self.index.writing() as connection:
            for place in self.index.places:
                self._list_studies(connection, place)
                for kind in _KINDS:
                    _update_presence(connection, place, kind)
                connection.commit()

    def read_some(self) -> bool:
        """Compute the results of some cells that are new; False if there were none."""
        with self.index.writing() as connection:
            rows = connection.execute(
                "select rowid, * from cells where state = ? and role <> '' limit ?",
                (PRESENT, _BATCH),
            ).fetchall()
            groups: dict[tuple[int, str, str, str], list[sqlite3.Row]] = {}
            for row in rows:
                groups.setdefault((row["study"], row["run"], row["name"], row["kind"]), []).append(
                    row
                )
            settings: dict[int, dict[str, list[str]]] = {}
            for (study, _, name, kind), cells in groups.items():
                if study not in settings:
                    settings[study] = _content(connection, study)["settings"]
                store = self._store_of(connection, study)
                if kind == "outputs":
                    for cell in cells:
                        _read_accuracy(connection, store, cell["key"])
                    _set_state(connection, cells, READ)
                else:
                    chosen = settings[study].get(name, [""])[0]
                    _read_group(connection, store, cells, chosen or "-")
            for study in {row["study"] for row in rows}:
                _count_change(connection, study)
            connection.commit()
        return bool(rows)

    def _store_of(self, connection: sqlite3.Connection, study: int) -> Store:
        found = connection.execute("select store from studies where id = ?", (study,)).fetchone()
        return self.index.places[int(found["store"])].store

    def _list_studies(self, connection: sqlite3.Connection, place: Place) -> None:
        latest = self._latest_versions(place)
        known = {
            row["name"]: row
            for row in connection.execute("select * from studies where store = ?", (place.number,))
        }
        for name, row in known.items():
            if name not in latest or not _is_known(latest[name], row):
                _remove_study(connection, row["id"])
            elif (latest[name].outcome, latest[name].saved) != (row["outcome"], row["saved"]):
                connection.execute(
                    "update studies set outcome = ?, saved = ? where id = ?",
                    (latest[name].outcome, latest[name].saved, row["id"]),
                )
                _count_change(connection, row["id"])
        for name, version in latest.items():
            if name not in known or not _is_known(version, known[name]):
                _add_study(connection, place, version)

    def _latest_versions(self, place: Place) -> dict[str, _Version]:
        store = place.store
        plans = {key: self._record(place, "plans", key) for key in store.keys("plans")}
        versions = {key: _Version(known[0], known[1], key) for key, known in plans.items() if known}
        for key in store.keys("studies"):
            known = self._record(place, "studies", key)
            version = versions.get(known[2]) if known else None
            if known and version and known[1] >= version.saved:
                versions[known[2]] = _Version(version.name, known[1], known[2], key)
        ordered = sorted(versions.values(), key=lambda version: version.saved)
        imports: dict[str, list[str]] = {}
        for key in store.keys("imports"):
            if known := self._record(place, "imports", key):
                imports.setdefault(known[0], []).append(key)
        return {
            version.name: replace(version, imports=tuple(imports.get(version.name, ())))
            for version in ordered
        }

    def _record(self, place: Place, kind: Kind, key: str) -> tuple[str, float, str] | None:
        """Study, time and plan that a record names; records do not change."""
        known = place.number, kind, key
        if known not in self._records:
            try:
                record = place.store.record(kind, key)
            except DamagedError:
                return None  # perhaps half written
            about = record["made_from"]
            assert isinstance(about, dict)
            saved = float(str(record.get("saved", 0.0)))
            self._records[known] = str(about.get("study", "")), saved, str(about.get("plan", ""))
        return self._records[known]


def _is_known(version: _Version, row: sqlite3.Row) -> bool:
    return (version.plan, " ".join(version.imports)) == (row["plan"], row["imports"])


def _add_study(connection: sqlite3.Connection, place: Place, version: _Version) -> None:
    try:
        own = read_plan(version.plan, place.store)
        plan = with_imports(own, place.store)
    except DamagedError:
        return
    content = {
        "study": plan.study.model_dump(mode="json"),
        "runs": plan.runs,
        "settings": plan.settings,
        "sets": plan.sets,
        "outlier_sets": sorted(
            {
                part.about.dataset
                for part in plan.artefacts
                if part.kind == "scores" and _role(part, plan) == "ood"
            }
        ),
    }
    added = connection.execute(
        "insert into studies (store, name, plan, imports, saved, data, outcome, content) "
        "values (?, ?, ?, ?, ?, ?, ?, ?)",
        (place.number, version.name, version.plan, " ".join(version.imports), version.saved,
         plan.id, version.outcome, json.dumps(content)),
    )  # fmt: skip
    study = added.lastrowid
    assert study is not None
    connection.executemany(
        "insert into cells (study, kind, stage, run, name, dataset, key, role, mark, counted) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((study, part.kind, part.stage, part.about.run, part.about.name, part.about.dataset,
          part.key, _role(part, plan), _mark(part, own), counted)
         for part, counted in _counted(plan)),
    )  # fmt: skip
    connection.executemany(
        "insert into cells (study, kind, stage, run, name, dataset, key, role) "
        "values (?, 'failures', '', ?, ?, '', ?, '')",
        ((study, run, name, key) for (run, name), key in plan.failures.items()),
    )
    labels = {*plan.runs, *plan.settings, *(part.about.dataset for part in plan.artefacts)}
    connection.executemany(
        "insert or ignore into labels values (?, ?)", ((slug_of(label), label) for label in labels)
    )
    connection.execute("delete from folders where store = ?", (place.number,))
    _count_change(connection, study)


def _counted(plan: PlanRecord) -> Iterator[tuple[Artefact, bool]]:
    """Each artefact, and whether progress counts it: one that several runs share counts once."""
    seen: set[tuple[Kind, str]] = set()
    for part in plan.artefacts:
        yield part, (part.kind, part.key) not in seen
        seen.add((part.kind, part.key))


def _role(part: Artefact, plan: PlanRecord) -> str:
    """Which part a cell plays for results: scores on either side, or outputs with labels."""
    inside = part.about.dataset == plan.id
    if part.about.run not in plan.runs or not (part.kind == "scores" or inside):
        return ""
    return ("id" if inside else "ood") if part.kind in ("scores", "outputs") else ""


def _mark(part: Artefact, own: PlanRecord) -> str:
    """Whether scores were computed elsewhere."""
    return IMPORTED if part.kind == "scores" and part.about.name not in own.settings else ""


def _remove_study(connection: sqlite3.Connection, study: int) -> None:
    connection.execute("delete from cells where study = ?", (study,))
    connection.execute("delete from studies where id = ?", (study,))
    _count_change(connection, study)


def _count_change(connection: sqlite3.Connection, study: int) -> None:
    """Note that pages about a study, and those about all (number 0), are out of date."""
    connection.executemany(
        "insert into generations values (?, 1) on conflict do update set number = number + 1",
        [(study,), (0,)],
    )


def _update_presence(connection: sqlite3.Connection, place: Place, kind: Kind) -> None:
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
        _set_state(connection, new, PRESENT)
        _set_state(connection, gone, ABSENT)
        for study in {cell["study"] for cell in (*new, *gone)}:
            _count_change(connection, study)
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


def _set_state(connection: sqlite3.Connection, cells: list[sqlite3.Row], state: int) -> None:
    connection.executemany(
        "update cells set state = ? where rowid = ?", ((state, cell["rowid"]) for cell in cells)
    )


def _content(connection: sqlite3.Connection, study: int) -> dict[str, dict[str, list[str]]]:
    found = connection.execute("select content from studies where id = ?", (study,)).fetchone()
    content: dict[str, dict[str, list[str]]] = json.loads(found["content"])
    return content


def _read_group(
    connection: sqlite3.Connection, store: Store, cells: list[sqlite3.Row], setting: str
) -> None:
    """Compute the results of one detector in one run, on the outlier sets that are new."""
    first = cells[0]
    of_group = (first["study"], first["run"], first["name"])
    reference = connection.execute(
        "select rowid, key, state from cells where study = ? and run = ? and name = ? "
        "and kind = 'scores' and role = 'id'",
        of_group,
    ).fetchone()
    outliers = [cell for cell in cells if cell["role"] == "ood"]
    if reference is None or reference["state"] == ABSENT:
        _set_state(connection, outliers, WAITING)
        return
    if reference["state"] == PRESENT:
        _set_state(connection, [reference], READ)
        connection.execute(
            "update cells set state = ? where study = ? and run = ? and name = ? and state = ?",
            (PRESENT, *of_group, WAITING),
        )
    inside: NDArray[np.float64] | None = None
    for cell in outliers:
        pair = cell["key"], reference["key"]
        known = connection.execute(
            "select 1 from results where key = ? and reference = ? and problem = ''", pair
        ).fetchone()
        if known is None:
            try:
                if inside is None:
                    inside = read_scores(store, reference["key"], setting)
                counts = Counts.of_scores(inside, read_scores(store, cell["key"], setting))
                values = [float(metrics.METRICS[name].of_counts(counts)) for name in METRICS]
                sizes = counts.id_total, counts.ood_total
                connection.execute(_PUT_RESULT, (*pair, *values, *sizes, ""))
            except (DamagedError, ValueError) as problem:
                empty = [None] * len(METRICS)
                connection.execute(_PUT_RESULT, (*pair, *empty, 0, 0, str(problem)[:300]))
    _set_state(connection, outliers, READ)


def read_scores(store: Store, key: str, setting: str) -> NDArray[np.float64]:
    """The scores of one artefact at a setting ("-" if the detector has none)."""
    arrays = read_arrays(store.view("scores", key), lambda name: name in (setting, REFUSED))
    if setting not in arrays:
        if REFUSED in arrays:
            raise DamagedError(array_to_text(arrays[REFUSED]))
        raise DamagedError("the default setting was not scored")
    return arrays[setting].astype(np.float64)


def _read_accuracy(connection: sqlite3.Connection, store: Store, key: str) -> None:
    """Keep how many samples of the in-distribution set a classifier gets right."""
    if connection.execute("select 1 from accuracies where key = ?", (key,)).fetchone():
        return
    try:
        arrays = read_arrays(store.view("outputs", key), lambda name: name in ("logits", "labels"))
        labels, logits = arrays["labels"], arrays["logits"]
        if not len(labels) or (labels < 0).any():
            return
        right = int((logits.argmax(1) == labels).sum())
    except (DamagedError, KeyError, ValueError):
        return
    chance = float(np.bincount(labels).max() / len(labels))
    connection.execute(
        "insert or replace into accuracies values (?, ?, ?, ?)", (key, right, len(labels), chance)
    )
