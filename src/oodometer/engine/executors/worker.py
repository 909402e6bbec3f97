"""What happens inside a worker: call functions, and tell now and then that it is alive."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import TypedDict

from oodometer.errors import describe

SECONDS_BETWEEN_BEATS = 1.0
ENVIRONMENT = {
    # Read by the numerical libraries when a worker starts: more threads than cores only hurt.
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    # Without it, CUDA cannot give the same bytes twice.
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    # The C library would give the memory of each batch back to the system and fetch it anew.
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
}
_LONGEST_TRACEBACK = 20_000  # characters; the end of it tells most


class Answer(TypedDict, total=False):
    """How a call ended; see `Ended`."""

    value: object
    error: str
    traceback: str
    seconds: float


def call(function: Callable[..., object], arguments: tuple[object, ...]) -> Answer:
    """Call a function; what it raises is part of the answer."""
    started = time.monotonic()
    try:
        value = function(*arguments)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - the other tasks continue
        return {**failure(problem), "seconds": time.monotonic() - started}
    return {"value": value, "seconds": time.monotonic() - started}


def failure(problem: BaseException) -> Answer:
    """Put what was raised into words."""
    trace = "".join(traceback.format_exception(problem))
    return {"error": describe(problem), "traceback": trace[-_LONGEST_TRACEBACK:]}


@contextmanager
def worker_environment() -> Iterator[None]:
    """Give processes that are started here the environment of workers; this one keeps its own."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def serve(connection: Connection, warm_up: Callable[[], None] | None) -> None:
    """Answer calls until the runner is gone."""
    working, lock = threading.Event(), threading.Lock()
    threading.Thread(target=_beat, args=(connection, working, lock), daemon=True).start()
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    if warm_up is not None:
        # What fails here fails again in the first task, which will tell.
        with contextlib.suppress(Exception):
            warm_up()
    while True:
        try:
            function, arguments = connection.recv()
        except (EOFError, OSError):
            return
        except Exception as problem:  # noqa: BLE001 - it cannot be imported here, for example
            answer = failure(problem)
        else:
            working.set()
            try:
                answer = call(function, arguments)
            except BaseException as problem:  # noqa: BLE001 - signals do not raise here: a user's code
                answer = failure(problem)
            working.clear()
        with lock:
            try:
                connection.send(answer)
            except (BrokenPipeError, ConnectionError):
                return
            except Exception as problem:  # noqa: BLE001 - a value that cannot be sent
                connection.send(failure(problem))


def _beat(connection: Connection, working: threading.Event, lock: threading.Lock) -> None:
    """Tell the runner that this process is not stopped; end with the runner."""
    while True:
        working.wait()
        with lock:
            try:
                connection.send(None)
            except OSError:
                os._exit(1)
        time.sleep(SECONDS_BETWEEN_BEATS)


def _leave_with_parent() -> None:
    """End this process when its parent dies: a killed runner leaves nobody behind."""
    process = multiprocessing.parent_process()
    if process is not None:
        process.join()
    os._exit(1)
