"""Serve stores: open the index, keep it up to date in a process of its own, answer requests."""

from __future__ import annotations

import errno
import ipaddress
import multiprocessing
import os
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from oodometer.engine.stores import StoreError, open_store
from oodometer.errors import UserError, describe
from oodometer.web.cards import Card, read_cards
from oodometer.web.index import Index, default_folder, open_index
from oodometer.web.site import Site

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    import uvicorn

    from oodometer.web.refresh import Refresher

_LOCAL = ("localhost", "127.0.0.1", "::1")
_MOST_CONNECTIONS = 500
_SHARE = 0.1  # of the time that may be spent with looking whether something changed
_PAUSE = 1.0  # seconds between two looks, at least
_ATTEMPTS = 3  # in a row that may fail before anybody is told: an index is built anew by then


def index_of(
    addresses: Sequence[str], folder: Path | None = None, submissions: Path | None = None
) -> Index:
    """Open the index of stores that exist."""
    stores = [open_store(address) for address in addresses]
    return open_index(addresses, stores, folder or default_folder(), submissions)


def keep_fresh(
    addresses: Sequence[str],
    folder: Path,
    submissions: Path | None,
    parent: int,
    trouble: Connection,
) -> None:
    """Keep the index of stores up to date as long as the parent process lives.

    What keeps it from doing so is sent to `trouble`, and an empty text when it is over.
    """
    # The server itself does without what these need.
    from oodometer.web.refresh import Refresher
    from oodometer.web.submissions import Submissions

    with suppress(OSError):
        os.nice(5)  # readers and runners come first
    refresher: Refresher | None = None
    failed = 0
    while os.getppid() == parent:
        started = rest = time.monotonic()
        try:
            if refresher is None:
                index = index_of(addresses, folder, submissions)
                refresher = Refresher(index, Submissions(submissions))
            rest = _look(refresher)
            if failed >= _ATTEMPTS:
                trouble.send("")
            failed = 0
        # Somebody removed it, or its folder: it is built anew; or the disk is full.
        except (sqlite3.Error, UserError) as problem:
            refresher, failed = None, failed + 1
            if failed == _ATTEMPTS:
                trouble.send(describe(problem, named=False).rstrip("."))
        time.sleep(max(0.0, max(started + _PAUSE, rest) - time.monotonic()))


def _look(refresher: Refresher) -> float:
    """Bring an index up to date, if there is time for all; return when to look again."""
    started = time.monotonic()
    with suppress(StoreError):  # perhaps only for now
        refresher.list_studies()
    spent = time.monotonic() - started
    rest = started + max(_PAUSE, spent / _SHARE)
    with suppress(StoreError):
        more = True
        while more and time.monotonic() < rest:
            more = refresher.read_some()
            refresher.make_boards()
    return rest


def is_local(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """Open the port, or say in one sentence why it cannot be opened."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError:
        raise UserError(f"Host '{host}' is not an address of this machine.") from None
    opened = socket.socket(family, kind)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind(address)
        opened.listen(128)
    except OSError as problem:
        opened.close()
        if problem.errno == errno.EADDRINUSE:
            raise UserError(
                f"Port {port} on {host} is already in use: choose another with --port, or 0 for "
                "any that is free."
            ) from None
        if problem.errno == errno.EACCES:
            raise UserError(f"Port {port} may not be opened: choose one above 1023.") from None
        raise UserError(
            f"Cannot listen on {host}, port {port}: {problem.strerror or problem}."
        ) from None
    return opened


def serve(
    addresses: Sequence[str],
    *,
    host: str,
    port: int,
    submissions: Path | None,
    allow: Sequence[str],
    tell: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Serve stores until the process is stopped."""
    from oodometer.web.app import create_app

    with listen(host, port) as opened:
        index = index_of(addresses, submissions=submissions)
        cards = _Cards()
        everywhere = not is_local(host)
        trouble = _Trouble(warn)
        site = Site(
            index.for_others() if everywhere else index,
            cards.known,
            trouble=trouble.said,
            for_others=everywhere,
        )
        names = [*_LOCAL, host, *allow, *([socket.gethostname()] if everywhere else [])]
        app = create_app(site, [name.lower() for name in names], any_address=everywhere)
        actual = opened.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        tell(f"http://{shown}:{actual}/")
        stopping = threading.Event()
        keeper = threading.Thread(
            target=_keep_keeper,
            args=(
                (list(addresses), index.path.parent, submissions, os.getpid()),
                stopping,
                trouble.learn,
            ),
            daemon=True,
        )
        keeper.start()
        threading.Thread(target=cards.read, daemon=True).start()
        try:
            with suppress(KeyboardInterrupt), _terminable():  # the ways to stop it
                _server(app).run(sockets=[opened])
        finally:
            stopping.set()
            keeper.join(timeout=5)


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does: uvicorn sends it again after it has stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _server(app: object) -> uvicorn.Server:
    import uvicorn

    return uvicorn.Server(
        uvicorn.Config(
            app,  # type: ignore[arg-type]
            log_level="error",
            access_log=False,
            server_header=False,
            ws="none",
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=3,
        )
    )


def _keep_keeper(
    about: tuple[object, ...], stopping: threading.Event, learn: Callable[[str], None]
) -> None:
    """Start the process that keeps the index up to date, and again if it ends."""
    context = multiprocessing.get_context("spawn")
    while not stopping.is_set():
        received, sent = context.Pipe(duplex=False)
        process = context.Process(target=keep_fresh, args=(*about, sent), daemon=True)
        process.start()
        while process.is_alive() and not stopping.wait(0.2):
            if received.poll():
                learn(received.recv())
        process.terminate()
        process.join()
        stopping.wait(5.0)


class _Trouble:
    """What keeps the index from being brought up to date, if anything."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn, self._sentence = warn, ""

    def learn(self, problem: str) -> None:
        """Remember a problem and warn of it; an empty text ends it."""
        self._sentence = problem and "The index is not up to date: pages show what was read before."
        why = f"{self._sentence} {problem}."  # may name folders, which are nothing for readers
        self._warn(why if problem else "The index is kept up to date again.")

    def said(self) -> str:
        """The sentence for readers; empty if all is well."""
        return self._sentence


class _Cards:
    """The cards of detectors, once they are read."""

    def __init__(self) -> None:
        self._known: Mapping[str, Card] = {}

    def known(self) -> Mapping[str, Card]:
        return self._known

    def read(self) -> None:
        self._known = read_cards()
