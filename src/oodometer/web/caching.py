"""Keep what was made for one state of the index; one thread makes it, the others wait or reuse."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass
class _Entry(Generic[Value]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    state: Hashable = None
    made: float = 0.0
    value: Value | None = None


class Cache(Generic[Value]):
    """The latest values of some keys, no more than `most`.

    While a value is made again because the state changed, and for `patience` seconds after it was
    made, readers get the one before: while a study writes, the state changes all the time.
    """

    def __init__(self, most: int, patience: float = 2.0) -> None:
        self._most, self._patience = most, patience
        self._entries: OrderedDict[Hashable, _Entry[Value]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, state: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key in this state, or shortly before; made if it has to be."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        known = entry.value
        if known is not None:
            fresh = entry.state == state or time.monotonic() - entry.made < self._patience
            if fresh or not entry.lock.acquire(blocking=False):
                return known
        else:
            entry.lock.acquire()
        try:
            if entry.value is None or entry.state != state:
                entry.value = make()
                entry.state, entry.made = state, time.monotonic()
            return entry.value
        finally:
            if entry.value is None:  # it could not be made: it takes nobody's place
                self._entries.pop(key, None)
            entry.lock.release()
