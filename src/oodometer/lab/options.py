"""Choose one of several things by the text that a study gives: its name and its settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from oodometer.calls import Setting, parse_call
from oodometer.errors import UserError, unknown

T = TypeVar("T")


def choose(kind: str, text: str, known: Mapping[str, Callable[..., T]]) -> partial[T]:
    """Return the named function with its settings filled in; its keyword-only arguments are those.

    A setting without a default must be given; one whose default is None may be of any type.

    >>> def knn(*, k: int = 5) -> int:
    ...     return k
    >>> choose("neighbour rule", "knn(k=7)", {"knn": knn})()
    7
    """
    name, settings = parse_call(kind, text)
    if name not in known:
        raise unknown(kind, name, known)
    parameters = inspect.signature(known[name]).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    for key, value in settings.items():
        if key not in defaults:
            raise unknown(f"setting of '{name}'", key, defaults)
        if defaults[key] not in (None, inspect.Parameter.empty):
            settings[key] = _fitting(f"In {kind} '{text}', {key}", value, defaults[key])
    lacking = [key for key, default in defaults.items() if default is inspect.Parameter.empty]
    lacking = [key for key in lacking if key not in settings]
    if lacking:
        raise UserError(f"{kind.capitalize()} '{text}' lacks the setting {', '.join(lacking)}.")
    return partial(known[name], **settings)


def require(truth: bool, what: str, value: object, allowed: str) -> None:
    """Refuse a setting out of its range, in one sentence."""
    if not truth:
        raise UserError(f"{what} is {value}, but must be {allowed}.")


def _fitting(what: str, value: Setting, default: Setting) -> Setting:
    """Return the value in the type of the setting's default."""
    if isinstance(default, bool) or isinstance(value, bool):
        require(isinstance(value, bool) and isinstance(default, bool), what, value, _word(default))
    elif isinstance(default, float):
        require(isinstance(value, int | float), what, value, _word(default))
        return float(value)
    else:
        require(isinstance(value, type(default)), what, value, _word(default))
    return value


def _word(default: Setting) -> str:
    words = {bool: "True or False", int: "a whole number", float: "a number", str: "a name"}
    return words[type(default)]
