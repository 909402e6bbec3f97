"""Read the plain data in a pickle without running anything.

A pickle is a program for a small stack machine, and Python's own machine calls whatever the
program names. This one knows containers, numbers, texts and NumPy arrays, and can call nothing.
"""

from __future__ import annotations

import math
import pickletools
import re
import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from oodometer.lab.data.readers.common import fault

_MARK = object()
_ARRAY_MAKERS = {
    f"{package}.{module}.{name}"
    for package in ("numpy.core", "numpy._core")
    for module, name in (("multiarray", "_reconstruct"), ("numeric", "_frombuffer"))
}
# scikit-learn keeps its cached data sets in a dict of its own class.
_DICTS = {
    "collections.OrderedDict",
    "sklearn.utils.Bunch",
    "sklearn.utils._bunch.Bunch",
    "sklearn.datasets.base.Bunch",
    "sklearn.datasets._base.Bunch",
}
_NAMES = {*_ARRAY_MAKERS, *_DICTS, "numpy.ndarray", "numpy.dtype", "_codecs.encode"}


class _NotDataError(ValueError):
    """The pickle asks for something that is not data."""


@dataclass(frozen=True)
class _Name:
    """A thing that the pickle names, such as numpy.ndarray; never looked up."""

    path: str


@dataclass
class _Type:
    """A NumPy dtype in the making: its code, then its byte order."""

    code: str
    order: str = "|"


@dataclass
class PickledArray:
    """A NumPy array in the making: what the pickle says of it, made real on request."""

    shape: tuple[Any, ...] = ()
    kind: _Type | None = None
    content: Any = b""
    columns: bool = False  # stored column by column

    def array(self) -> NDArray[Any]:
        """Return the array; ValueError if the pickle does not describe one."""
        raw = self.content.encode("latin-1") if isinstance(self.content, str) else self.content
        if self.kind is None or not isinstance(raw, bytes | bytearray):
            raise _NotDataError("its array has no content")
        order = self.kind.order if self.kind.order in "<>" else "="
        if not re.fullmatch(r"[biufSU][0-9]{1,6}", self.kind.code):
            raise _NotDataError(f"its array holds {self.kind.code!r}, not numbers or texts")
        dtype = np.dtype(self.kind.code).newbyteorder(cast(Any, order))
        if not all(type(size) is int and size >= 0 for size in self.shape):
            raise _NotDataError("its array has no shape")
        if math.prod(self.shape) * dtype.itemsize != len(raw):
            raise _NotDataError(f"its array of shape {self.shape} has only {len(raw):,} bytes")
        return np.frombuffer(raw, dtype).reshape(self.shape, order="F" if self.columns else "C")


def read_pickle(content: bytes | bytearray, path: Path) -> Any:
    """Return the containers, numbers, texts and `PickledArray`s of a pickle."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in texts
            return _Machine().run(content)
    except _NotDataError as problem:
        raise fault(path, f"is not read, because {problem}") from None
    except (
        ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, EOFError,
        struct.error, RecursionError, MemoryError,
    ) as problem:  # fmt: skip
        raise fault(path, f"is a damaged pickle: {str(problem)[:120] or 'it ends early'}") from None


@dataclass
class _Machine:
    """The stack machine, without the instructions that call things."""

    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def run(self, content: bytes | bytearray) -> Any:
        for opcode, argument, _ in pickletools.genops(bytes(content)):
            name = opcode.name
            if name == "STOP":
                return self.stack.pop()
            if name in _PUSHED:
                self.stack.append(argument)
            elif name in _STEPS:
                _STEPS[name](self, argument)
            elif name not in ("PROTO", "FRAME"):
                raise _NotDataError(f"it uses the instruction {name}, which data do not need")
        raise EOFError("it ends early")

    def pop_mark(self) -> list[Any]:
        """Take everything above the last mark, and the mark."""
        for start in range(len(self.stack) - 1, -1, -1):
            if self.stack[start] is _MARK:
                items = self.stack[start + 1 :]
                del self.stack[start:]
                return items
        raise _NotDataError("a mark is missing")

    def pop(self, count: int) -> list[Any]:
        """Take the last `count` values."""
        if len(self.stack) < count or any(item is _MARK for item in self.stack[-count:]):
            raise _NotDataError("values are missing")
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def name(self, module: object, name: object) -> None:
        path = f"{module}.{name}"
        if path not in _NAMES:
            raise _NotDataError(f"it would call {path}, and nothing in a data file is called")
        self.stack.append(_Name(path))

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise _NotDataError("it appends to something that is not a list")
        target.extend(items)

    def set(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise _NotDataError("it sets a key of something that is not a dict")
        target.update(zip(items[::2], items[1::2], strict=True))

    def reduce(self, _: object) -> None:
        """Stand in for a call: only of what makes arrays, types, byte strings and dicts."""
        what, given = self.pop(2)
        path = what.path if isinstance(what, _Name) else ""
        if not isinstance(given, tuple):
            raise _NotDataError("a call has no arguments")
        made: Any
        if path.endswith("._reconstruct") and path in _ARRAY_MAKERS:
            made = PickledArray()
        elif path.endswith("._frombuffer") and path in _ARRAY_MAKERS:
            raw, kind, shape, order = given
            made = PickledArray(_shape(shape), _type(kind), raw, order == "F")
        elif path == "numpy.dtype":
            made = _Type(str(given[0]))
        elif path == "_codecs.encode":
            made = str(given[0]).encode("latin-1")
        elif path in _DICTS:
            made = {}
        else:
            raise _NotDataError(f"it would call {path or 'something that is not a name'}")
        self.stack.append(made)

    def build(self, _: object) -> None:
        """Fill what was made: an array gets shape, type and content; a type its byte order."""
        (state,) = self.pop(1)
        target = self.stack[-1]
        if isinstance(target, PickledArray):
            _, shape, kind, columns, content = state
            target.shape, target.kind = _shape(shape), _type(kind)
            target.columns, target.content = bool(columns), content
        elif isinstance(target, _Type):
            target.order = str(state[1])
        elif not isinstance(target, dict):
            raise _NotDataError("it changes something that is not an array")

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]


def _shape(value: object) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise _NotDataError("its array has no shape")
    return value


def _type(value: object) -> _Type:
    if not isinstance(value, _Type):
        raise _NotDataError("its array has no type")
    return value


_PUSHED = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "NONE": lambda m, _: m.stack.append(None),
    "NEWTRUE": lambda m, _: m.stack.append(True),
    "NEWFALSE": lambda m, _: m.stack.append(False),
    "MARK": lambda m, _: m.stack.append(_MARK),
    "POP": lambda m, _: m.stack.__delitem__(-1),
    "EMPTY_LIST": lambda m, _: m.stack.append([]),
    "EMPTY_TUPLE": lambda m, _: m.stack.append(()),
    "EMPTY_DICT": lambda m, _: m.stack.append({}),
    "LIST": lambda m, _: m.stack.append(m.pop_mark()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_mark())),
    "TUPLE1": lambda m, _: m.stack.append(tuple(m.pop(1))),
    "TUPLE2": lambda m, _: m.stack.append(tuple(m.pop(2))),
    "TUPLE3": lambda m, _: m.stack.append(tuple(m.pop(3))),
    "DICT": lambda m, _: _dict(m, m.pop_mark()),
    "APPEND": lambda m, _: m.append(m.pop(1)),
    "APPENDS": lambda m, _: m.append(m.pop_mark()),
    "SETITEM": lambda m, _: m.set(m.pop(2)),
    "SETITEMS": lambda m, _: m.set(m.pop_mark()),
    "GET": lambda m, index: m.get(index),
    "BINGET": lambda m, index: m.get(index),
    "LONG_BINGET": lambda m, index: m.get(index),
    "PUT": lambda m, index: m.put(index),
    "BINPUT": lambda m, index: m.put(index),
    "LONG_BINPUT": lambda m, index: m.put(index),
    "MEMOIZE": lambda m, _: m.put(len(m.memo)),
    "GLOBAL": lambda m, argument: m.name(*str(argument).split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.name(*m.pop(2)),
    "REDUCE": _Machine.reduce,
    "NEWOBJ": _Machine.reduce,
    "BUILD": _Machine.build,
}


def _dict(machine: _Machine, items: list[Any]) -> None:
    machine.stack.append({})
    machine.set(items)
