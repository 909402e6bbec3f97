"""Bring an index up to date: only what changed in its stores since the last time is read."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from oodometer.engine.stores import DamagedError, Kind, Store
from oodometer.web import queries
from oodometer.web.boards import put_boards
from oodometer.web.cells import (
    KINDS,
    Version,
    add_study,
    count_change,
    remove_study,
    set_state,
    update_presence,
)
from oodometer.web.index import PRESENT, READ, Index, Place
from oodometer.web.reading import read_accuracy, read_group
from oodometer.web.submissions import Submissions, put_submissions

_BATCH = 500  # cells that are read between two commits
_REST = 4.0  # times as long as leaderboards took to make, they are not made again


@dataclass
class Refresher:
    """Keeps an index up to date; one at a time."""

    index: Index
    submissions: Submissions = field(default_factory=Submissions)
    _records: dict[tuple[int, Kind, str], tuple[str, float, str] | None] = field(
        default_factory=dict
    )
    _checked: Hashable = None  # state in which submissions were checked last
    _rests: dict[int, float] = field(default_factory=dict)  # study -> until when its boards stay

    def __post_init__(self) -> None:
        with self.index.writing() as connection:  # another version may make other leaderboards
            connection.execute("update generations set boards = -1")
            connection.commit()

    def refresh(self) -> None:
        """Read all that changed."""
        self.list_studies()
        while self.read_some():
            pass
        self.make_boards(at_once=True)

    def list_studies(self) -> None:
        """Find the latest version of every study, and which of its results are there."""
        with self.index.writing() as connection:
            for place in self.index.places:
                self._list_studies(connection, place)
                for kind in KINDS:
                    update_presence(connection, place, kind)
                connection.commit()

    def read_some(self) -> bool:
        """Compute the results of some cells that are new; False if there were none."""
        with self.index.writing() as connection:
            rows = connection.execute(
                f"select rowid, * from cells where state = {PRESENT} and role <> '' limit ?",
                (_BATCH,),
            ).fetchall()
            groups: dict[tuple[int, str, str, str], list[sqlite3.Row]] = {}
            for row in rows:
                kind = "outputs" if row["kind"] == "outputs" else "scores"
                groups.setdefault((row["study"], row["run"], row["name"], kind), []).append(row)
            settings: dict[int, dict[str, list[str]]] = {}
            for (study, _, name, kind), cells in groups.items():
                if study not in settings:
                    settings[study] = _settings(connection, study)
                store = self._store_of(connection, study)
                if kind == "outputs":
                    for cell in cells:
                        read_accuracy(connection, store, cell["key"])
                    set_state(connection, cells, READ)
                else:
                    chosen = settings[study].get(name, [""])[0]
                    read_group(connection, store, cells, chosen or "-")
            for study in {row["study"] for row in rows}:
                count_change(connection, study)
            connection.commit()
        return bool(rows)

    def make_boards(self, *, at_once: bool = False) -> None:
        """Check submissions, and make the leaderboards of studies that changed.

        Those of a large study that changes all the time are made again only after a rest.
        """
        with self.index.writing() as connection:
            self._check_submissions(connection)
            made = dict(connection.execute("select study, boards from generations").fetchall())
            for entry in queries.studies(self.index, connection):
                started = time.monotonic()
                if made.get(entry.number) == entry.generation:
                    continue
                if not at_once and started < self._rests.get(entry.number, 0.0):
                    continue
                known = queries.whole(connection, entry)
                assert known is not None  # nobody else writes
                put_boards(connection, known)
                connection.commit()
                now = time.monotonic()
                self._rests[entry.number] = now + _REST * (now - started)

    def _check_submissions(self, connection: sqlite3.Connection) -> None:
        suites = self.submissions.suites()
        entries = [e for e in queries.studies(self.index, connection) if e.name in suites]
        state = (
            self.submissions.state(),
            tuple((entry.number, entry.generation) for entry in entries),
        )
        if state != self._checked:
            changed = put_submissions(connection, self.submissions, entries)
            for study in changed:
                count_change(connection, study)
            connection.commit()
            generations = dict(connection.execute("select study, number from generations"))
            self._checked = (
                state[0],
                tuple((entry.number, generations[entry.number]) for entry in entries),
            )

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
                remove_study(connection, row["id"])
            elif (latest[name].outcome, latest[name].saved) != (row["outcome"], row["saved"]):
                connection.execute(
                    "update studies set outcome = ?, saved = ? where id = ?",
                    (latest[name].outcome, latest[name].saved, row["id"]),
                )
                count_change(connection, row["id"])
        for name, version in latest.items():
            if name not in known or not _is_known(version, known[name]):
                add_study(connection, place, version)

    def _latest_versions(self, place: Place) -> dict[str, Version]:
        store = place.store
        plans = {key: self._record(place, "plans", key) for key in store.keys("plans")}
        versions = {key: Version(known[0], known[1], key) for key, known in plans.items() if known}
        for key in store.keys("studies"):
            known = self._record(place, "studies", key)
            version = versions.get(known[2]) if known else None
            if known and version and known[1] >= version.saved:
                versions[known[2]] = Version(version.name, known[1], known[2], key)
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


def _is_known(version: Version, row: sqlite3.Row) -> bool:
    return (version.plan, " ".join(version.imports)) == (row["plan"], row["imports"])


def _settings(connection: sqlite3.Connection, study: int) -> dict[str, list[str]]:
    found = connection.execute("select brief from studies where id = ?", (study,)).fetchone()
    brief: queries.Brief = json.loads(found["brief"])
    return brief["settings"]
