"""Tell Ctrl-C from a user's code that raises what Ctrl-C raises."""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from oodometer.errors import UserError


@contextmanager
def only_users_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the program; refuse KeyboardInterrupt and the like from somebody's code."""
    asked = False

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        nonlocal asked
        asked = True
        raise KeyboardInterrupt

    # Elsewhere it cannot be replaced, or somebody else replaced or ignores it.
    ours = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except (Exception, SystemExit):
        raise
    except BaseException as problem:
        if asked:
            raise
        place = traceback.extract_tb(problem.__traceback__)[-1]
        kind = type(problem).__name__
        raise UserError(f"'{place.filename}', line {place.lineno}, raised {kind}.") from problem
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
