"""A store at any address that fsspec knows: S3, Google Cloud Storage and others."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import datetime

from oodometer.engine.stores.base import File, Store, StoreError
from oodometer.errors import UserError, describe

_EXTRA = "object-store"  # of this package, for pip


class ObjectStore(Store):
    """A store at an fsspec address. Objects appear whole; there is no rename, and none is needed.

    Credentials and endpoints come from where the library of the protocol looks for them, such as
    AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL for S3, so that workers need the address only.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address.rstrip("/"))
        protocol = address.partition("://")[0]
        try:
            import fsspec

            # Listings that are remembered would hide what other processes save.
            self._files, self._root = fsspec.core.url_to_fs(self.address, use_listings_cache=False)
        except ImportError as problem:
            needs = "" if problem.name == "fsspec" else f" ({problem})"
            raise UserError(
                f"Store '{address}' needs a library for {protocol}:// that is not installed"
                f"{needs}: pip install 'oodometer[{_EXTRA}]'."
            ) from None
        except ValueError:
            from fsspec import available_protocols

            from oodometer.errors import unknown

            raise unknown("protocol of a store", protocol, available_protocols()) from None
        except Exception as problem:  # noqa: BLE001 - each library has errors of its own
            raise self._unusable("opened", problem) from None
        self._conditional = True  # until the library says that it cannot
        self.check_format()

    def read_file(self, path: str) -> bytes:
        """Return the content of a file, or raise FileNotFoundError."""
        with self._reported("read", FileNotFoundError):
            return bytes(self._files.cat_file(self._at(path)))

    def write_file(self, path: str, content: bytes) -> None:
        """Write a file; replaces one that is there."""
        with self._reported("written"):
            self._files.pipe_file(self._at(path), content)

    def create_file(self, path: str, content: bytes) -> bool:
        """Write a file, unless there is one: then False.

        Where the library has no conditional writing, two who try at a time may both succeed.
        """
        with self._reported("written"):
            if self._conditional:
                try:
                    self._files.pipe_file(self._at(path), content, mode="create")
                except FileExistsError:
                    return False
                except (NotImplementedError, TypeError):
                    self._conditional = False
                else:
                    return True
            if self._files.exists(self._at(path)):
                return False
            self._files.pipe_file(self._at(path), content)
        return True

    def remove_file(self, path: str) -> None:
        """Remove a file, if it is there."""
        with self._reported("changed"), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._at(path))

    def has_file(self, path: str) -> bool:
        """Whether there is such a file."""
        with self._reported("read"):
            return bool(self._files.isfile(self._at(path)))

    def list_files(self, folder: str, *, unseen: str = "?") -> dict[str, File]:
        """All files below a folder, by their path relative to it."""
        root = self._at(folder)
        with self._reported("read"):
            try:
                found = self._files.find(root, detail=True)
            except FileNotFoundError:
                return {}
        return {
            path.removeprefix(root).lstrip("/"): File(int(about.get("size") or 0), _changed(about))
            for path, about in found.items()
            if path.startswith(f"{root}/")
        }

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    @contextlib.contextmanager
    def _reported(self, verb: str, *expected: type[Exception]) -> Iterator[None]:
        """Turn what the libraries raise into one sentence, but for what is expected."""
        try:
            yield
        except expected:
            raise
        except Exception as problem:  # noqa: BLE001 - each library has errors of its own
            raise self._unusable(verb, problem) from None

    def _unusable(self, verb: str, problem: Exception) -> StoreError:
        reason = describe(problem, named=False)
        return StoreError(f"Store '{self.address}' cannot be {verb}: {reason.rstrip('.')}.")


def _changed(about: dict[str, object]) -> float:
    """When an object was changed; now, if the protocol does not tell."""
    for name in ("LastModified", "mtime", "updated", "created"):
        value = about.get(name)
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return value.timestamp()
    return time.time()
