"""A store in the memory of this process: for tests, and for what need not be kept."""

from __future__ import annotations

import threading
import time

from oodometer.engine.stores.base import File, Store


class MemoryStore(Store):
    """A store in the memory of this process; other processes cannot see it."""

    def __init__(self) -> None:
        super().__init__("memory")
        self._files: dict[str, tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    def read_file(self, path: str) -> bytes:
        """Return the content of a file, or raise FileNotFoundError."""
        try:
            return self._files[path][0]
        except KeyError:
            raise FileNotFoundError(path) from None

    def write_file(self, path: str, content: bytes) -> None:
        """Write a file; replaces one that is there."""
        with self._lock:
            self._files[path] = content, time.time()

    def create_file(self, path: str, content: bytes) -> bool:
        """Write a file, unless there is one: then False."""
        with self._lock:
            if path in self._files:
                return False
            self._files[path] = content, time.time()
            return True

    def remove_file(self, path: str) -> None:
        """Remove a file, if it is there."""
        with self._lock:
            self._files.pop(path, None)

    def has_file(self, path: str) -> bool:
        """Whether there is such a file."""
        return path in self._files

    def list_files(self, folder: str, *, unseen: str = "?") -> dict[str, File]:
        """All files below a folder, by their path relative to it."""
        with self._lock:
            return {
                path.removeprefix(f"{folder}/"): File(len(content), changed)
                for path, (content, changed) in self._files.items()
                if path.startswith(f"{folder}/")
            }
