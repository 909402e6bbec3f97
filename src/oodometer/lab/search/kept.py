"""Searches that are kept in a folder, so that an interrupted one is resumed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import safetensors
import safetensors.numpy

from oodometer.errors import UserError
from oodometer.lab.search.chains import Arrays

_KEY = "oodometer search"


class Kept(Protocol):
    """Where one search is kept while it goes on."""

    def load(self) -> Arrays | None:
        """The arrays that were kept last, if there are some."""

    def save(self, arrays: Arrays) -> None:
        """Keep arrays in place of those before."""


@dataclass(frozen=True)
class InFolder:
    """A search that is kept as a file of a folder."""

    folder: Path
    key: str

    def load(self) -> Arrays | None:
        """The arrays of the file, if there is one and it is whole."""
        return load_search(self.folder, self.key)

    def save(self, arrays: Arrays) -> None:
        """Write the file."""
        save_search(self.folder, self.key, arrays)


def search_key(*parts: object) -> str:
    """A digest of all that determines the steps of a search; how many there are does not."""
    total = hashlib.sha256()
    for part in parts:
        content = part.tobytes() if isinstance(part, np.ndarray) else json.dumps(part).encode()
        total.update(f"{len(content)} ".encode() + content)
    return total.hexdigest()[:32]


def load_search(folder: Path, key: str) -> Arrays | None:
    """The arrays of a kept search; None if there is none, or if it is damaged."""
    path = _file(folder, key)
    try:
        with safetensors.safe_open(path, framework="numpy") as opened:
            said = (opened.metadata() or {}).get(_KEY)
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError):
        return None
    return arrays if said == _checksum(arrays) else None


def save_search(folder: Path, key: str, arrays: Arrays) -> None:
    """Keep a search: written under another name first, so that a kill leaves no half of it."""
    path = _file(folder, key)
    whole = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    content = safetensors.numpy.save(whole, {_KEY: _checksum(whole)})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(content)
        part.replace(path)
    except OSError as problem:
        raise UserError(f"Cannot write '{path}': {problem.strerror or problem}.") from None


def _file(folder: Path, key: str) -> Path:
    return folder / f"{key}.safetensors"


def _checksum(arrays: Arrays) -> str:
    return search_key(*(part for name in sorted(arrays) for part in (name, arrays[name])))
