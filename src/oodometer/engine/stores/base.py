"""What every store does: artefacts with records and checksums; written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Literal, NamedTuple, get_args

import oodometer
from oodometer.engine.stores.claims import Claim, Claims
from oodometer.engine.versions import SCORING, versions_of
from oodometer.errors import UserError

Kind = Literal[
    "models",
    "progress",
    "outputs",
    "probes",
    "scores",
    "searches",
    "found",
    "imports",
    "tables",
    "findings",
    "failures",
    "plans",
    "studies",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
FORMAT = 2  # of the store itself
MARK = "oodometer-store.json"
_RECORD = re.compile(r"([0-9a-z]{2})/(\1[0-9a-z]*)(\.json)?")  # below the folder of its kind


class DamagedError(Exception):
    """An artefact is not what was written: cut short, altered, or without its payload."""


class StoreError(UserError):
    """The store itself cannot be used, so no task can continue."""


class File(NamedTuple):
    """What a listing says about a file."""

    size: int
    changed: float  # seconds since 1970


UNSEEN = File(0, 0.0)  # one that was not looked at


class Store(ABC):
    """Bytes by kind and key, each with a record that says how they came about.

    An artefact is two files, ``<kind>/<first two of key>/<key>`` and ``<key>.json`` beside it. The
    record is written after the payload, so an artefact counts only when both are there; it holds
    the payload's checksum and its own, so what was altered later is noticed on reading.
    """

    def __init__(self, address: str) -> None:
        self.address = address  # open_store(address) is this store, in another process too
        self._claims = Claims(self)
        self._marked = False

    # ---- what each place does in its own way; paths are relative, with slashes -----------------

    @abstractmethod
    def read_file(self, path: str) -> bytes | memoryview:
        """Return the content of a file, or raise FileNotFoundError."""

    @abstractmethod
    def write_file(self, path: str, content: bytes) -> None:
        """Write a file whole or not at all; replaces one that is there."""

    @abstractmethod
    def create_file(self, path: str, content: bytes) -> bool:
        """Write a file, unless there is one: then False. Of two who try at a time, one succeeds."""

    @abstractmethod
    def remove_file(self, path: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def has_file(self, path: str) -> bool:
        """Whether there is such a file."""

    @abstractmethod
    def list_files(self, folder: str, *, unseen: str = "?") -> dict[str, File]:
        """All files below a folder, by their path relative to it.

        Of those whose name ends with `unseen` nothing but the name is wanted, which may be quicker.
        """

    def list_names(self, folder: str) -> Iterable[str]:
        """The paths of all files below a folder."""
        return self.list_files(folder)

    def sweep(self, process: int) -> None:  # noqa: B027 - only a folder has anything to sweep
        """Remove what a process that was ended left half written."""

    # ---- artefacts -----------------------------------------------------------------------------

    def has(self, kind: Kind, key: str) -> bool:
        """Whether the artefact was written completely."""
        return self.has_file(record_path(kind, key))

    def present(self, kind: Kind, keys: Iterable[str]) -> set[str]:
        """Which of many artefacts are there; far faster than one call each."""
        wanted = set(keys)
        if len(wanted) < 20:
            return {key for key in wanted if self.has(kind, key)}
        return wanted.intersection(self.keys(kind))

    def load(self, kind: Kind, key: str) -> bytes:
        """Return the bytes as they were saved, or raise DamagedError."""
        return bytes(self.view(kind, key))

    def view(self, kind: Kind, key: str) -> memoryview:
        """Return the bytes as they were saved; where the store can, mapped rather than copied."""
        return self._checked(kind, key, self.record(kind, key))

    def read(self, kind: Kind, key: str) -> tuple[bytes, dict[str, object]]:
        """Return the bytes and their record."""
        record = self.record(kind, key)
        return bytes(self._checked(kind, key, record)), record

    def _checked(self, kind: Kind, key: str, record: Mapping[str, object]) -> memoryview:
        try:
            payload = memoryview(self.read_file(content_path(kind, key)))
        except FileNotFoundError:
            raise DamagedError(f"{kind}/{key} has no content") from None
        if hashlib.sha256(payload).hexdigest() != record.get("sha256"):
            raise DamagedError(f"{kind}/{key} does not match its checksum")
        return payload

    def record(self, kind: Kind, key: str) -> dict[str, object]:
        """Return how the artefact came about, or raise DamagedError."""
        try:
            record = _parsed(self.read_file(record_path(kind, key)))
        except FileNotFoundError:
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("made_from"), dict):
            raise DamagedError(f"{kind}/{key} has no readable record")
        seal = record.pop("seal", None)
        if (record.get("kind"), record.get("key"), seal) != (kind, key, _seal(record)):
            raise DamagedError(f"the record of {kind}/{key} does not match its checksum")
        return record

    def save(self, kind: Kind, key: str, payload: bytes, made_from: Mapping[str, object]) -> None:
        """Write the artefact; another process sees all of it or nothing."""
        record: dict[str, object] = {
            "kind": kind,
            "key": key,
            "bytes": len(payload),
            "sha256": hashlib.sha256(payload).hexdigest(),
            "saved": time.time(),
            "made_by": _made_by(),
            "made_from": dict(made_from),
        }
        record = json.loads(json.dumps(record))  # as it will be read: keys are text, tuples lists
        record["seal"] = _seal(record)
        self._mark()
        try:
            self.write_file(content_path(kind, key), payload)
            self.write_file(record_path(kind, key), json.dumps(record, indent=1).encode())
        except StoreError:
            self._forget_half(kind, key)
            raise

    def _forget_half(self, kind: Kind, key: str) -> None:
        """Free what a payload without a record takes, as when the disk was full in between."""
        try:
            if not self.has(kind, key):
                self.remove_file(content_path(kind, key))
        except StoreError:
            pass  # the first problem is the one to tell

    def discard(self, kind: Kind, key: str) -> None:
        """Forget the artefact, if it is there."""
        self.remove_file(record_path(kind, key))  # first: without it, the rest does not count
        self.remove_file(content_path(kind, key))

    def keys(self, kind: Kind) -> Iterator[str]:
        """All keys of this kind, in order."""
        yield from sorted(
            match[2]
            for path in self.list_names(kind)
            if path.endswith(".json") and (match := _RECORD.fullmatch(path))
        )

    def sizes(self, kind: Kind) -> tuple[dict[str, int], dict[str, File]]:
        """Bytes of every artefact, by key; and the files that are of none."""
        files = self.list_files(kind, unseen=".json")
        sizes: dict[str, int] = {}
        others: dict[str, File] = {}
        for path, file in files.items():
            match = _RECORD.fullmatch(path)
            if match is None:
                others[path] = file
            elif match[3]:
                sizes[match[2]] = files.get(path[:-5], UNSEEN).size
            elif f"{path}.json" not in files:
                others[path] = file
        return sizes, others

    def saved_at(self, kind: Kind, key: str) -> float:
        """Seconds since 1970 at which the artefact was saved."""
        saved = self.record(kind, key).get("saved")
        if not isinstance(saved, float):
            raise DamagedError(f"{kind}/{key} has no time of saving")
        return saved

    # ---- the store itself ----------------------------------------------------------------------

    def claim(self, name: str, owner: str, seconds: float = 60.0) -> bool:
        """Claim a piece of work, unless another runner has it; see `Claims`."""
        return self._claims.claim(name, owner, seconds)

    def renew(self, name: str, owner: str, seconds: float = 60.0) -> bool:
        """Renew a claim while the work continues; False: another runner has taken it over."""
        return self._claims.renew(name, owner, seconds)

    def release(self, name: str, owner: str) -> None:
        """Give a piece of work back, done or not."""
        self._claims.release(name, owner)

    def sweep_claims(self) -> None:
        """Remove what killed processes of this machine had claimed."""
        self._claims.sweep()

    def claims(self) -> list[Claim]:
        """Who is working on what now."""
        return self._claims.listed()

    def exists(self) -> bool:
        """Whether anything was ever saved here."""
        return self.has_file(MARK)

    def require_writable(self) -> None:
        """Raise a StoreError now rather than after hours of work."""
        self._mark()
        probe = f"unfinished/probe-{platform.node()}-{time.time_ns()}"
        self.write_file(probe, b"")
        self.remove_file(probe)

    def check_format(self) -> None:
        """Raise a UserError if this is not a store that this version of Oodometer can use."""
        try:
            known = _parsed(self.read_file(MARK))
        except FileNotFoundError:
            return
        if known is None:
            raise UserError(f"Store '{self.address}' cannot be read: {MARK} in it is not JSON.")
        found = known.get("format") if isinstance(known, dict) else None
        if found != FORMAT:
            raise UserError(
                f"Store '{self.address}' has format {found}, but this version of Oodometer "
                f"reads format {FORMAT}: choose another with --store."
            )

    def require_present(self) -> None:
        """Raise a StoreError if this store is not there: another process began it."""
        if not self.exists():
            raise self.gone()
        self._marked = True

    def gone(self) -> StoreError:
        """What to say of a store that was there."""
        return StoreError(
            f"Store '{self.address}' is gone: it was moved or removed while it was in use. Run the "
            "same command again with --store and its new place to resume."
        )

    def _mark(self) -> None:
        if not self._marked and not self.has_file(MARK):
            self.write_file(MARK, json.dumps({"format": FORMAT}).encode())
        self._marked = True


def content_path(kind: Kind, key: str) -> str:
    """Where the content of an artefact lies."""
    return f"{kind}/{key[:2]}/{key}"


def record_path(kind: Kind, key: str) -> str:
    """Where the record of an artefact lies."""
    return f"{content_path(kind, key)}.json"


def _parsed(content: bytes | memoryview) -> object:
    """What JSON says; None if it is none."""
    try:
        return json.loads(bytes(content))
    except (ValueError, RecursionError):  # also ten thousand brackets
        return None


def _seal(record: Mapping[str, object]) -> str:
    """The checksum of a record."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


@cache
def _made_by() -> dict[str, str]:
    """What a result may depend on besides its key: versions and machine."""
    return {
        "oodometer": oodometer.__version__,
        **versions_of(SCORING),
        "python": sys.version.split()[0],
        "machine": f"{platform.node()}, {platform.platform()}",
    }
