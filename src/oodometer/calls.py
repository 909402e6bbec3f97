"""A thing with settings, as users write it in studies: ``knn(k=10)``, or ``knn`` alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from oodometer.errors import UserError

Setting = bool | int | float | str


def parse_call(kind: str, text: str) -> tuple[str, dict[str, Setting]]:
    """Read ``name`` or ``name(setting=value, ...)``; `kind` is what it is, for the error.

    >>> parse_call("detector", "knn(k=10, metric=cosine)")
    ('knn', {'k': 10, 'metric': 'cosine'})
    """
    match = re.fullmatch(r"\s*([^()\s]+)\s*(?:\((.*)\))?\s*", text)
    if match is None:
        raise UserError(
            f"{kind.capitalize()} '{text}' must be written as name or name(setting=value, ...)."
        )
    settings: dict[str, Setting] = {}
    for part in filter(None, (piece.strip() for piece in (match[2] or "").split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UserError(f"In {kind} '{text}', '{part}' must be written as setting=value.")
        if name in settings:
            raise UserError(f"In {kind} '{text}', {name} is set twice.")
        settings[name] = _value(value)
    return match[1], settings


def setting_text(settings: Mapping[str, Setting]) -> str:
    """Write settings as ``k=50, metric=cosine``."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _value(text: str) -> Setting:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, bool | int | float | str) else text
