"""A store in a folder."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from oodometer.engine.stores.base import MARK, UNSEEN, File, Store, StoreError
from oodometer.engine.stores.claims import this_machine
from oodometer.errors import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MAPPED = 2**20  # bytes; larger files are mapped into memory, smaller ones read
_A_DAY = 86_400.0


class FolderStore(Store):
    """A store in a folder. Files get their names when they are whole, by a rename."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()  # a worker may stand elsewhere
        super().__init__(str(self.folder))
        try:
            in_the_way = self.folder.exists() and not self.folder.is_dir()
        except OSError as problem:
            raise self._unusable("read", problem) from None
        if in_the_way:
            raise UserError(f"Store '{folder}' is a file, not a folder.")
        self.check_format()

    def read_file(self, path: str) -> bytes | memoryview:
        """Return the content of a file, or raise FileNotFoundError."""
        if not self.has_file(path):  # a pipe in its place would be waited for
            raise FileNotFoundError(path)
        try:
            with (self.folder / path).open("rb") as file:
                if os.fstat(file.fileno()).st_size < _MAPPED:
                    return file.read()
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(path) from None
        except OSError as problem:
            raise self._unusable("read", problem) from None

    def write_file(self, path: str, content: bytes) -> None:
        """Write a file whole or not at all; replaces one that is there."""
        with self._written(path, content) as temporary:
            try:
                os.replace(temporary, self.folder / path)  # noqa: PTH105 - atomic on every system
            except IsADirectoryError:  # in the place of a file it holds nothing of ours
                shutil.rmtree(self.folder / path)
                os.replace(temporary, self.folder / path)  # noqa: PTH105

    def create_file(self, path: str, content: bytes) -> bool:
        """Write a file, unless there is one: then False. Of two who try at a time, one succeeds."""
        with self._written(path, content) as temporary:
            try:
                (self.folder / path).hardlink_to(temporary)
            except FileExistsError:
                return False
            except OSError as problem:  # a file system without links
                if problem.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                    raise
                return self._create_without_links(path, content)
        return True

    def _create_without_links(self, path: str, content: bytes) -> bool:
        try:
            with (self.folder / path).open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    def remove_file(self, path: str) -> None:
        """Remove a file, if it is there."""
        try:
            try:
                (self.folder / path).unlink(missing_ok=True)
            except IsADirectoryError:  # as in `write_file`
                shutil.rmtree(self.folder / path)
        except NotADirectoryError:
            return
        except OSError as problem:
            raise self._unusable("changed", problem) from None

    def has_file(self, path: str) -> bool:
        """Whether there is such a file."""
        return os.path.isfile(f"{self.folder}/{path}")  # noqa: PTH113 - asked for very often

    def list_files(self, folder: str, *, unseen: str = "?") -> dict[str, File]:
        """All files below a folder, by their path relative to it; see `Store.list_files`."""
        found: dict[str, File] = {}
        for path, entry in self._entries(folder):
            if path.endswith(unseen):
                found[path] = UNSEEN
                continue
            try:
                about = entry.stat()
            except FileNotFoundError:  # gone in the meantime
                continue
            found[path] = File(about.st_size, about.st_mtime)
        return found

    def list_names(self, folder: str) -> Iterator[str]:
        """The paths of all files below a folder; quicker than to ask for their sizes, too."""
        return (path for path, _ in self._entries(folder))

    def _entries(self, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        waiting = [(f"{self.folder}/{folder}", "")]
        while waiting:
            place, below = waiting.pop()
            try:
                with os.scandir(place) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append((entry.path, f"{below}{entry.name}/"))
                        else:
                            yield below + entry.name, entry
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as problem:
                raise self._unusable("read", problem) from None

    @property
    def _unfinished(self) -> Path:
        """Where files are written before they get their names; in it, they count for nothing."""
        return self.folder / "unfinished"

    def sweep(self, process: int) -> None:
        """Remove what a process that was ended left half written."""
        for file in self._unfinished.glob(f"{_writer(process)}-*"):
            file.unlink(missing_ok=True)

    def require_writable(self) -> None:
        """Raise a StoreError now rather than after hours of work; sweep out what is a day old."""
        super().require_writable()
        for file in self._unfinished.glob("*"):
            with contextlib.suppress(FileNotFoundError):
                if file.stat().st_mtime < time.time() - _A_DAY:
                    file.unlink()

    @contextlib.contextmanager
    def _written(self, path: str, content: bytes) -> Iterator[Path]:
        """A temporary file with this content, which is gone at the end unless it was renamed."""
        temporary = None
        if self._marked and not self.has_file(MARK):
            raise self.gone()
        try:
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            self._unfinished.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile(
                dir=self._unfinished, prefix=f"{_writer(os.getpid())}-", delete=False
            ) as file:
                temporary = Path(file.name)
                file.write(content)
            yield temporary
        except OSError as problem:
            raise self._unusable("written", problem) from None
        finally:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)

    def _unusable(self, verb: str, problem: OSError) -> StoreError:
        reason = problem.strerror or str(problem)
        if problem.errno in _FULL:
            return StoreError(
                f"Store '{self.folder}' is full ({reason}): free some space and run the "
                "same command again to resume, or choose another store with --store."
            )
        if problem.errno in (errno.EEXIST, errno.ENOTDIR) and problem.filename is not None:
            place = Path(os.fsdecode(problem.filename))
            found = next(path for path in (place, *place.parents) if os.path.lexists(path))
            is_ours = found.is_relative_to(self.folder)
            remedy = "remove it" if is_ours else "choose another folder with --store"
            return StoreError(
                f"Store '{self.folder}' cannot be {verb}: '{found}' is not a folder, as it has to "
                f"be there; {remedy}."
            )
        return StoreError(
            f"Store '{self.folder}' cannot be {verb}: {reason}; choose another folder with --store."
        )


def _writer(process: int) -> str:
    """Who writes: other machines and containers on the same store have equal process numbers."""
    return f"{hashlib.blake2b(this_machine().encode(), digest_size=6).hexdigest()}-{process}"
