"""How the work that something takes grows with its input; the same on a busy machine."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from types import FrameType

TIMES = 8  # as much input: linear work takes 8 times as long, quadratic work 64 times
_MOST = 24  # times as long; above linear work by as much as the caches of a busy machine add
_NOTHING = 0.3  # seconds that are too short to be compared


def grows_with_its_input(work: Callable[[int], object], size: int) -> bool:
    """Whether `work` on an input of `size` takes no longer than its length allows."""
    for _ in range(3):  # somebody else may have disturbed either
        if (long := _seconds(work, size)) < _NOTHING:
            return True
        if long < _MOST * max(_seconds(work, size // TIMES), _NOTHING / _MOST):
            return True
    return False


def _seconds(work: Callable[[int], object], size: int) -> float:
    gc.disable()  # it looks at all that earlier tests left, not at this work alone
    try:
        began = time.process_time()
        work(size)
        return time.process_time() - began
    finally:
        gc.enable()


def calls_per_piece(work: Callable[[int], object], pieces: int) -> float:
    """How many functions `work` calls for each further piece of its input; the same everywhere."""
    work(pieces)  # what is done once, and kept
    return (_calls(work, 2 * pieces) - _calls(work, pieces)) / pieces


def _calls(work: Callable[[int], object], pieces: int) -> int:
    counted = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work(pieces)
    finally:
        sys.setprofile(before)
    return counted
