"""Functions that the tests let workers execute; they need nothing but Python."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def add(one: int, two: int) -> int:
    return one + two


def fail(text: str) -> None:
    raise ValueError(text)


def leave(code: int) -> None:
    sys.exit(code)


def crash_first(folder: str, signal_number: int) -> str:
    """End this process on the first call; afterwards tell how it was."""
    mark = Path(folder) / "was here"
    if not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal_number)
        time.sleep(60)
    return "second time"


def wait_for(file: str) -> int:
    """Say who is there, then wait until a file is; return the number of the process."""
    Path(f"{file}.{os.getpid()}.here").write_text("")
    while not Path(file).exists():
        time.sleep(0.02)
    return os.getpid()


def stop_first(folder: str) -> str:
    """Stop this process, as kill -STOP does, on the first call."""
    mark = Path(folder) / "was here"
    if not mark.exists():
        mark.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    return "second time"


def spin(file: str) -> str:
    """Use the processor until a file is there."""
    Path(f"{file}.{os.getpid()}.here").write_text("")
    while not Path(file).exists():
        pass
    return "done"


def unsendable() -> object:
    return lambda: None


def large(size: int) -> bytes:
    return bytes(size)


def leave_by(name: str) -> None:
    """Raise what is not meant to be caught, as code of a user may."""
    raise {"interrupt": KeyboardInterrupt, "exit": GeneratorExit, "own": BaseException}[name](name)
