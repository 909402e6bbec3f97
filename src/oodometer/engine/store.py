"""Where results are kept: by key, checked on reading, written whole or not at all, no pickle."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol

from oodometer.errors import UserError

Kind = Literal[
    "models",
    "progress",
    "outputs",
    "correct",
    "scores",
    "tables",
    "findings",
    "failures",
    "studies",
]
FORMAT = 1  # of the store itself


class DamagedError(Exception):
    """An artefact is not what was written: cut short, altered, or without its payload."""


class StoreError(UserError):
    """The store itself cannot be used, so no task can go on."""


class Store(Protocol):
    """Bytes by kind and key, each with a record that says how they came about."""

    def has(self, kind: Kind, key: str) -> bool:
        """Tell whether the artefact was written completely."""
        ...

    def load(self, kind: Kind, key: str) -> bytes:
        """Return the bytes as they were saved, or raise DamagedError."""
        ...

    def record(self, kind: Kind, key: str) -> dict[str, object]:
        """Return how the artefact came about."""
        ...

    def save(self, kind: Kind, key: str, payload: bytes, made_from: Mapping[str, object]) -> None:
        """Write the artefact; another process sees all of it or nothing."""
        ...

    def discard(self, kind: Kind, key: str) -> None:
        """Forget the artefact, if it is there."""
        ...

    def keys(self, kind: Kind) -> Iterator[str]:
        """All keys of this kind."""
        ...

    def saved_at(self, kind: Kind, key: str) -> float:
        """Seconds since 1970 at which the artefact was saved."""
        ...


class FolderStore:
    """A store in a folder: ``<kind>/<first two of key>/<key>`` and ``<key>.json`` beside it.

    The record is written after the payload, so an artefact counts only when both are there; it
    holds the payload's checksum, so what was altered later is noticed.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise UserError(f"Store '{folder}' is a file; a folder is needed.")
        mark = self.folder / "oodometer-store.json"
        try:
            known = json.loads(mark.read_text()) if mark.is_file() else {"format": FORMAT}
        except (OSError, ValueError) as problem:
            raise UserError(f"Store '{folder}' cannot be read: {problem}.") from None
        found = known.get("format") if isinstance(known, dict) else None
        if found != FORMAT:
            raise UserError(
                f"Store '{folder}' has format {found}, but this version of Oodometer "
                f"reads format {FORMAT}: choose another with --store."
            )

    def _path(self, kind: Kind, key: str) -> Path:
        return self.folder / kind / key[:2] / key

    def has(self, kind: Kind, key: str) -> bool:
        """Tell whether the artefact was written completely."""
        return self._path(kind, key).with_suffix(".json").is_file()

    def load(self, kind: Kind, key: str) -> bytes:
        """Return the bytes as they were saved, or raise DamagedError."""
        expected = self.record(kind, key).get("sha256")
        try:
            payload = self._path(kind, key).read_bytes()
        except FileNotFoundError:
            raise DamagedError(f"{kind}/{key} has lost its content") from None
        except OSError as problem:
            raise self._unusable("read", problem) from None
        if hashlib.sha256(payload).hexdigest() != expected:
            raise DamagedError(f"{kind}/{key} is not what was written")
        return payload

    def record(self, kind: Kind, key: str) -> dict[str, object]:
        """Return how the artefact came about."""
        try:
            content = json.loads(self._path(kind, key).with_suffix(".json").read_bytes())
        except (FileNotFoundError, ValueError):
            raise DamagedError(f"{kind}/{key} has no readable record") from None
        except OSError as problem:
            raise self._unusable("read", problem) from None
        if not isinstance(content, dict) or not isinstance(content.get("made_from"), dict):
            raise DamagedError(f"{kind}/{key} has no readable record")
        return content

    def save(self, kind: Kind, key: str, payload: bytes, made_from: Mapping[str, object]) -> None:
        """Write the artefact; another process sees all of it or nothing."""
        record = {
            "kind": kind,
            "key": key,
            "bytes": len(payload),
            "sha256": hashlib.sha256(payload).hexdigest(),
            "made_from": dict(made_from),
        }
        path = self._path(kind, key)
        self._mark()
        self._write(path, payload)
        self._write(path.with_suffix(".json"), json.dumps(record, indent=1).encode())

    def discard(self, kind: Kind, key: str) -> None:
        """Forget the artefact, if it is there."""
        path = self._path(kind, key)
        try:
            # The record goes first: without it, the rest does not count.
            path.with_suffix(".json").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        except OSError as problem:
            raise self._unusable("changed", problem) from None

    def keys(self, kind: Kind) -> Iterator[str]:
        """All keys of this kind, in order."""
        folder = self.folder / kind
        for part in sorted(folder.iterdir()) if folder.is_dir() else ():
            yield from sorted(file.stem for file in part.glob("*.json"))

    def saved_at(self, kind: Kind, key: str) -> float:
        """Seconds since 1970 at which the artefact was saved."""
        return self._path(kind, key).with_suffix(".json").stat().st_mtime

    @property
    def _unfinished(self) -> Path:
        """Where files are written before they get their names; in it, they count for nothing."""
        return self.folder / "unfinished"

    def sweep(self, process: int) -> None:
        """Remove what a process that was ended left half written."""
        for file in self._unfinished.glob(f"{process}-*"):
            file.unlink(missing_ok=True)

    def require_writable(self) -> None:
        """Raise a StoreError now rather than after hours of work; sweep out what is a day old."""
        self._mark()
        yesterday = time.time() - 86_400
        for file in self._unfinished.glob("*"):
            with contextlib.suppress(FileNotFoundError):
                if file.stat().st_mtime < yesterday:
                    file.unlink()
        probe = self.folder / f".probe-{os.getpid()}"
        self._write(probe, b"")
        probe.unlink(missing_ok=True)

    def _mark(self) -> None:
        mark = self.folder / "oodometer-store.json"
        if not mark.is_file():
            self._write(mark, json.dumps({"format": FORMAT}).encode())

    def _write(self, path: Path, content: bytes) -> None:
        temporary = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._unfinished.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile(
                dir=self._unfinished, prefix=f"{os.getpid()}-", delete=False
            ) as file:
                temporary = Path(file.name)
                file.write(content)
            os.replace(temporary, path)  # noqa: PTH105 - the atomic one, on every system
        except OSError as problem:
            raise self._unusable("written", problem) from None
        finally:
            if temporary is not None:
                temporary.unlink(missing_ok=True)

    def _unusable(self, verb: str, problem: OSError) -> StoreError:
        return StoreError(
            f"Store '{self.folder}' cannot be {verb}: {problem.strerror or problem}; choose "
            "another folder with --store."
        )
