"""Download official files: resumed where they were cut, checked, unpacked safely, or nothing."""

from __future__ import annotations

import errno
import gzip
import hashlib
import http.client
import io
import lzma
import os
import shutil
import socket
import stat
import tarfile
import threading
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

from oodometer.errors import UserError, unknown
from oodometer.lab.data.cards import CARDS, Card, Remote
from oodometer.lab.data.catalog import data_folder

Progress = Callable[[str, int, int | None], None]  # file, bytes so far, bytes in all if known
SECONDS = 30.0  # without a byte, until a connection is given up
ATTEMPTS = 5  # per address; each resumes where the last stopped
PAUSE = 0.5  # seconds before the second attempt; twice as many before each further one
LARGEST = 200 * 10**9  # bytes of one file; no known data set has a larger one
PATIENCE = 60.0  # seconds in which at least FEWEST bytes must come
FEWEST = 60_000
_CHUNK = 1 << 18


class _RetryError(Exception):
    """The connection broke: the same address may do better on the next attempt."""


class _FailedError(Exception):
    """An address will not give the file, now or later."""


def get(
    name: str,
    to: Path | None = None,
    progress: Progress = lambda name, done, total: None,
) -> Path:
    """Download a known data set into a folder, by default NAME in the data folder; return it.

    Files are gathered beside the folder, in .NAME.part. Only when all of them are there, have
    their checksums and are unpacked do they move into the folder. A wrong checksum leaves nothing
    behind; a broken connection leaves what came, for the next attempt.
    """
    if name not in CARDS:
        raise unknown("data set", name, CARDS)
    card = CARDS[name]
    if not card.files:
        raise UserError(
            f"Data set '{name}' cannot be downloaded automatically: {card.by_hand}"
            + ("." if name == "digits" else f"; then put it into '{data_folder() / name}'.")
        )
    folder = (to or data_folder() / (card.beside or name)).expanduser()
    staging = folder.parent / f".{folder.name}.part"
    with _disk_troubles(folder):
        if folder.exists() and not folder.is_dir():
            raise UserError(f"'{folder}' is a file; give a folder with --to.")
        if folder.is_dir() and any(folder.iterdir()):
            raise UserError(
                f"Folder '{folder}' is not empty; give another with --to, or remove it first."
            )
        staging.mkdir(parents=True, exist_ok=True)
        _fill(card, staging, progress)
        if folder.is_dir():
            folder.rmdir()  # it is empty
        (staging / "content").rename(folder)
        staging.rmdir()
    return folder


def _fill(card: Card, staging: Path, progress: Progress) -> None:
    """Fetch all files, and gather in staging/content what they hold."""
    content = staging / "content"
    shutil.rmtree(content, ignore_errors=True)  # of an attempt that was killed
    try:
        for remote in card.files:
            _fetch(remote, staging / remote.name, progress)
        content.mkdir()
        for remote in card.files:
            file = staging / remote.name
            if remote.unpack:
                unpack(file, content)
                file.unlink()
            else:
                file.rename(content / remote.name)
    except (UserError, OSError) as problem:
        if not isinstance(problem, _CutError):
            shutil.rmtree(staging, ignore_errors=True)
        raise


class _CutError(UserError):
    """The connection is broken for good; what came is worth keeping."""


def _fetch(remote: Remote, file: Path, progress: Progress) -> None:
    """Fetch one file from the first address that gives it, and check it."""
    if file.is_file() and not (remote.sha256 or remote.md5):
        file.unlink()  # without a checksum nobody knows whether the rest would belong to it
    if not (file.is_file() and _wrong(remote, file) is None):
        failures = []
        for url in _secure_first(remote.urls):
            try:
                _fetch_from(url, file, progress)
                break
            except _FailedError as problem:
                failures.append(str(problem))
        else:
            cut = any(each.stat().st_size for each in file.parent.iterdir())
            kind = _CutError if cut else UserError
            kept = "; the partial file is kept: run the same command again to resume" if cut else ""
            raise kind(f"'{remote.name}' cannot be downloaded: {'; '.join(failures)}{kept}.")
    wrong = _wrong(remote, file) if remote.sha256 or remote.md5 else None
    if wrong is not None:
        raise UserError(
            f"'{remote.urls[0]}' did not return the official file: its {wrong}; nothing was kept."
        )


def unchecked(name: str) -> tuple[str, ...]:
    """Files of a known data set for which no checksum is known: what came cannot be verified."""
    card = CARDS.get(name)
    files = () if card is None else card.files
    return tuple(remote.name for remote in files if not (remote.sha256 or remote.md5))


def _secure_first(urls: Iterable[str]) -> Iterator[str]:
    """Each address; before a plain one of a host by name, the same over TLS, which it may offer."""
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.port is None:
            yield urlunsplit(parts._replace(scheme="https"))
        yield url


def _fetch_from(url: str, file: Path, progress: Progress) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _continue(url, file, progress)
        except _RetryError as problem:
            if attempt == ATTEMPTS:
                raise _FailedError(f"{url} {problem}") from None
            time.sleep(PAUSE * 2 ** (attempt - 1))
    return None


def _continue(url: str, file: Path, progress: Progress) -> None:
    """Ask for what is missing of a file and append it."""
    have = file.stat().st_size if file.is_file() else 0
    headers = {"User-Agent": "oodometer", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    if not url.startswith(("https://", "http://")):
        raise _FailedError(f"{url} is not an http address")
    opener = urllib.request.build_opener(_OnlyWeb, _Plain, _Secure)
    try:
        request = urllib.request.Request(url, headers=headers)
        with opener.open(request, timeout=SECONDS) as answer:
            _append(answer, file, have, progress)
    except urllib.error.HTTPError as problem:
        if problem.code == 416 and have:  # there is nothing after what we have: it is not ours
            file.unlink()
            raise _RetryError("offers less than was there before") from None
        if problem.code >= 500:
            raise _RetryError(f"answers {problem.code} {problem.reason}") from None
        raise _FailedError(f"{url} answers {problem.code} {problem.reason}") from None
    except (TimeoutError, urllib.error.URLError, http.client.HTTPException, ConnectionError) as p:
        reason = getattr(p, "reason", p)
        if isinstance(reason, OSError) and reason.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        if isinstance(reason, TimeoutError):
            raise _RetryError(f"sent nothing for {SECONDS:g} s") from None
        raise _RetryError(f"cannot be reached: {reason or type(p).__name__}") from None


def _append(answer: Any, file: Path, have: int, progress: Progress) -> None:
    continued = answer.status == 206
    if continued and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
        raise _FailedError("the server sent another part of the file than it was asked for")
    start = have if continued else 0
    length = answer.headers.get("Content-Length", "")
    total = start + int(length) if length.isdecimal() else None
    if (total or start) > LARGEST:
        raise _too_large(answer.url, total or start)
    _require_space(file.parent, (total or start) - start)
    done = start
    pace = _Pace(start)
    with file.open("ab" if continued else "wb") as target:
        while done <= LARGEST and (piece := answer.read1(_CHUNK)):
            target.write(piece)
            done += len(piece)
            pace.check(done)
            progress(file.name, done, total)
    if done > LARGEST:
        file.unlink()  # nothing to resume
        raise _too_large(answer.url, done)
    if total is not None and done < total:
        raise _RetryError(f"broke off after {done:,} of {total:,} bytes")


def _too_large(url: str, size: int) -> _FailedError:
    return _FailedError(f"{url} sends {size:,} bytes, more than the largest allowed, {LARGEST:,}")


class _Pace:
    """Gives up a connection that sends a few bytes now and then."""

    def __init__(self, done: int) -> None:
        self._since, self._before = time.monotonic(), done

    def check(self, done: int) -> None:
        """Raise an error if too little came in the last stretch of time."""
        now = time.monotonic()
        if now - self._since < PATIENCE:
            return
        if done - self._before < FEWEST:
            raise _RetryError(f"sent {done - self._before:,} bytes in {PATIENCE:g} s")
        self._since, self._before = now, done


class _Prompt(http.client.HTTPConnection):
    """A connection whose answer must have begun in time, however slowly its headers trickle."""

    def getresponse(self) -> http.client.HTTPResponse:
        """Return the answer when its headers have come; at most PATIENCE seconds are waited."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(PATIENCE, give_up)
        timer.daemon = True
        timer.start()
        try:
            answer = super().getresponse()
        except (OSError, http.client.HTTPException):
            if not late.is_set():
                raise
        finally:
            timer.cancel()
        if late.is_set():
            raise _RetryError(f"did not begin to send a file within {PATIENCE:g} s")
        return answer


class _PromptSecure(_Prompt, http.client.HTTPSConnection):
    """The same over TLS."""


class _Plain(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Prompt, req)


class _Secure(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_PromptSecure, req)


class _OnlyWeb(urllib.request.HTTPRedirectHandler):
    """Follow redirects to web addresses only, none to a file of this machine or out of TLS."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        downgraded = req.full_url.startswith("https://") and newurl.startswith("http://")
        if downgraded or not newurl.startswith(("https://", "http://")):
            raise _FailedError(f"{req.full_url} redirects to {newurl}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any
    ) -> Any:
        target = headers.get("location") or headers.get("uri") or ""
        if "://" in target and not target.startswith(("https://", "http://")):
            raise _FailedError(f"{req.full_url} redirects to {target}, which is not followed")
        fp.close()  # what comes with a redirect would be read to its end, which it may not have
        return super().http_error_302(req, io.BytesIO(), code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _wrong(remote: Remote, file: Path) -> str | None:
    """Say how the file's checksum differs from the official one; None if it does not."""
    for kind, expected in (("sha256", remote.sha256), ("md5", remote.md5)):
        if expected:
            with file.open("rb") as stream:
                make = partial(hashlib.new, kind, usedforsecurity=False)
                found = hashlib.file_digest(stream, make).hexdigest()
            if found != expected:
                return f"{kind} is {found}, not {expected}"
    return None


@contextmanager
def _disk_troubles(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(f"No space left for '{folder}'.") from None
        raise UserError(f"'{folder}' cannot be written: {problem.strerror or problem}.") from None


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar or zip archive. Only plain files and folders, and only into the folder.

    A member that would leave the folder (absolute, or with ..), a link or a device is refused,
    and with it the archive.
    """
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, folder)
        elif tarfile.is_tarfile(archive):
            _unpack_tar(archive, folder)
        else:
            raise UserError(f"Archive '{archive.name}' is neither tar nor zip.")
    except (
        tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError,
        NotImplementedError, RuntimeError, gzip.BadGzipFile, lzma.LZMAError,
    ) as problem:  # fmt: skip
        if isinstance(problem, UserError):
            raise
        raise UserError(f"Archive '{archive.name}' is damaged: {problem}.") from None


def _unpack_tar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isdir():
                _inside(archive, folder, member.name).mkdir(parents=True, exist_ok=True)
                continue
            if not member.isreg():
                kind = "a link" if member.issym() or member.islnk() else "a device"
                raise _refused(archive, member.name, f"is {kind}")
            _require_space(folder, member.size)
            stream = tar.extractfile(member)
            assert stream is not None
            with stream:
                _write(stream, _inside(archive, folder, member.name))


def _unpack_zip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        _require_space(folder, sum(member.file_size for member in packed.infolist()))
        for member in packed.infolist():
            mode = member.external_attr >> 16
            if stat.S_ISLNK(mode):
                raise _refused(archive, member.filename, "is a link")
            target = _inside(archive, folder, member.filename)
            if member.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            with packed.open(member) as stream:
                _write(stream, target)


def _require_space(folder: Path, size: int) -> None:
    if size > shutil.disk_usage(folder).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _write(stream: IO[bytes], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        shutil.copyfileobj(stream, file, _CHUNK)


def _inside(archive: Path, folder: Path, name: str) -> Path:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in (path.parts or ("",))[0]:
        raise _refused(archive, name, "would lie outside of the folder")
    return folder / path


def _refused(archive: Path, name: str, why: str) -> UserError:
    return UserError(f"Archive '{archive.name}' is refused: its member '{name}' {why}.")
