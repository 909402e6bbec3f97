"""The index of stores: one SQLite file, so that memory does not grow with the number of results."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from oodometer.engine.plan.keys import code_version, digest
from oodometer.engine.stores import Store
from oodometer.errors import UserError

METRICS = ("auroc", "fpr95", "aupr_in", "aupr_out")  # that are computed for every cell
_VERSION = 7  # of the tables below
# States of a cell: not in the store; there; read, so that its result is known; there, but without
# the scores on the in-distribution set, which a result needs.
ABSENT, PRESENT, READ, WAITING = range(4)
_BUSY = 30_000  # milliseconds to wait for another writer
_REALS = ", ".join(f"{name} real" for name in METRICS)
# A cell is an artefact of a study, or a result that was submitted. Its role is what it is to
# results: "id", "ood", "search" (found by a search among variations of the data set), or none. A
# result belongs to a cell and to its reference, the scores on the in-distribution set.
# Generations: how often a study changed, and what its leaderboards were made of; study 0: any.
_TABLES = f"""
create table if not exists studies (
  id integer primary key autoincrement, store integer not null, name text not null,
  plan text not null, imports text not null, saved real not null, data text not null,
  outcome text not null, brief text not null, content text not null,
  unique (store, name));
create table if not exists cells (
  study integer not null, kind text not null, stage text not null, run text not null,
  name text not null, dataset text not null, variation text not null, key text not null,
  role text not null, reference text not null, mark text not null default '',
  counted integer not null default 0, state integer not null default {ABSENT});
create index if not exists cells_by_key on cells (kind, key);
create index if not exists cells_by_name on cells (name, study, role, state);
create index if not exists cells_by_run on cells (study, run, name);
create index if not exists cells_by_state on cells (study, stage, state) where counted = 1;
create index if not exists cells_with_mark on cells (mark, study, name) where mark <> '';
create index if not exists cells_to_read on cells (study) where state = {PRESENT} and role <> '';
create index if not exists cells_failed on cells (study, run, name, key)
  where kind = 'failures' and state <> {ABSENT};
create index if not exists cells_of_few on cells (study, kind, role)
  where kind in ('outputs', 'models');
create table if not exists results (
  key text not null, reference text not null, {_REALS},
  inside integer not null, outside integer not null, problem text not null default '',
  primary key (key, reference)) without rowid;
create table if not exists accuracies (
  key text primary key, correct integer not null, samples integer not null, chance real not null);
create table if not exists folders (
  store integer not null, kind text not null, name text not null, changed integer not null,
  primary key (store, kind, name)) without rowid;
create table if not exists labels (slug text primary key, label text not null) without rowid;
create table if not exists generations (
  study integer primary key, number integer not null, boards integer not null default -1);
create table if not exists boards (
  study integer not null, metric text not null, ood text not null, content text not null,
  primary key (study, metric, ood)) without rowid;
create table if not exists submissions (
  file text primary key, detector text not null, suite text not null, problem text not null,
  note text not null) without rowid;
"""


@dataclass(frozen=True)
class Place:
    """A store, and how pages call it."""

    number: int
    store: Store
    slug: str  # in addresses of pages
    address: str  # as the user gave it


@dataclass(frozen=True)
class Index:
    """What is known of some stores; any number of threads may read while one writes."""

    path: Path
    places: tuple[Place, ...]

    def for_others(self) -> Index:
        """The same with stores by their names: where they lie is not for everybody."""
        return replace(self, places=tuple(replace(p, address=p.slug) for p in self.places))

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that cannot write."""
        with closing(
            # A download is written by several threads, one after the other.
            sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        ) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute(f"pragma busy_timeout = {_BUSY}")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection that can; what was not committed when it is closed is undone."""
        with closing(sqlite3.connect(self.path)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute(f"pragma busy_timeout = {_BUSY}")
            connection.execute("pragma synchronous = off")  # it can be built again
            yield connection


def open_index(
    addresses: Sequence[str], stores: Sequence[Store], folder: Path, submissions: Path | None
) -> Index:
    """Open the index of these stores and submissions in a folder, or begin it.

    Its name covers both, and the code of the metrics, so that another version begins anew.
    """
    others = None if submissions is None else str(submissions.expanduser().resolve())
    places = [store.address for store in stores]
    name = digest(_VERSION, code_version("metrics"), places, others)
    index = Index(folder / f"{name}.sqlite", _placed(addresses, stores))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _create_tables(index)
        except sqlite3.DatabaseError as problem:
            if isinstance(problem, sqlite3.OperationalError):
                raise
            for ending in ("", "-wal", "-shm"):  # damaged: it can be built again
                index.path.with_name(index.path.name + ending).unlink(missing_ok=True)
            _create_tables(index)
    except (OSError, sqlite3.OperationalError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise UserError(
            f"The index cannot be kept in '{folder}': {reason}; XDG_CACHE_HOME names another place."
        ) from None
    return index


def _create_tables(index: Index) -> None:
    with index.writing() as connection:
        connection.execute("pragma journal_mode = wal")
        connection.executescript(_TABLES)
        # Generations of an index that is built anew are none of the one before: pages that were
        # made of that one are known by its numbers.
        connection.execute(
            "insert or ignore into generations (study, number) values (0, ?)", (time.time_ns(),)
        )
        connection.commit()


def default_folder() -> Path:
    """Where indexes are kept: in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "oodometer" / "web"


def _placed(addresses: Sequence[str], stores: Sequence[Store]) -> tuple[Place, ...]:
    places: list[Place] = []
    for number, (address, store) in enumerate(zip(addresses, stores, strict=True)):
        slug = plain = _plain(store.address.rstrip("/").rpartition("/")[2]) or "store"
        taken = {place.slug for place in places}
        while slug in taken:
            slug = f"{plain}-{number + 1}" if slug == plain else f"{slug}-"
        places.append(Place(number, store, slug, address))
    return tuple(places)


def slug_of(label: str) -> str:
    """A name for the address of a page: safe in any file system, and different for each label.

    >>> slug_of("knn"), slug_of("knn(k=10)"), slug_of("../x")
    ('knn', 'knn-k-10-c396cc97', 'x-d42ff05c')
    """
    plain = _plain(label)
    taken = not plain or plain == "all" or plain.startswith("page-")  # they mean something else
    if plain == label and len(label) <= 60 and not taken:
        return label
    ending = hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{plain[:40]}-{ending}".lstrip("-")


def _plain(label: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "-", label.lower()).strip("-_")
