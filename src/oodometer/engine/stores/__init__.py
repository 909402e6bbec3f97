"""Where results are kept: the front door to all kinds of stores."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from oodometer.engine.stores.base import KINDS, DamagedError, Kind, Store, StoreError
from oodometer.engine.stores.claims import Claim, Owner, end_owner, this_owner
from oodometer.engine.stores.folder import FolderStore
from oodometer.engine.stores.memory import MemoryStore
from oodometer.engine.stores.objects import ObjectStore
from oodometer.errors import UserError

__all__ = [
    "KINDS",
    "Claim",
    "DamagedError",
    "FolderStore",
    "Kind",
    "MemoryStore",
    "ObjectStore",
    "Owner",
    "Store",
    "StoreError",
    "end_owner",
    "open_store",
    "this_owner",
]


def open_store(address: str | Path) -> Store:
    """Open the store at an address: a folder, or whatever fsspec knows, such as s3://bucket/name.

    Nothing is written before the first result is saved.
    """
    text = str(address)
    if not text.strip():
        raise UserError("The address of a store is empty: give a folder, or s3://bucket/name.")
    if "://" not in text:
        return _folder_store(text)
    parts = urlsplit(text)
    if parts.scheme in ("file", "local"):
        if parts.netloc not in ("", "localhost"):
            raise UserError(f"Store '{text}' names a host: a local folder is file:///path.")
        return _folder_store(unquote(parts.path))
    if not text.partition("://")[2].strip("/"):
        raise UserError(
            f"Store '{text}' has no bucket or path: write {parts.scheme}://bucket/name."
        )
    return ObjectStore(text)


def _folder_store(path: str) -> FolderStore:
    place = Path(path).absolute()
    if place == Path(place.anchor):
        raise UserError(f"Store '{path}' is the root of the file system: give a folder in it.")
    return FolderStore(path)
