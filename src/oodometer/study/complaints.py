"""Turn validation errors of a study file into one sentence."""

from __future__ import annotations

import datetime
from typing import get_args

from pydantic import BaseModel, ValidationError

from oodometer.errors import UserError, unknown
from oodometer.study.fields import Factor, Scale, Searches, TrainSpec

# Replaces pydantic's messages where they would puzzle someone who writes YAML.
_ALLOWED = {
    "tuple_type": "must be a list",
    "too_short": "must be a list with at least one entry",
    "string_type": "must be text (in quotes, if it looks like a number, a date or a boolean)",
    "string_too_short": "must not be empty",
    "int_type": "must be a whole number",
    "model_type": "must be a mapping of keys to values",
    "mapping_type": "must be a mapping of keys to values",
    "dict_type": "must be a mapping of keys to values",
    "string_pattern_mismatch": "must start with a letter (a-z) or a digit and may contain only "
    "letters, digits, spaces, and . _ -",
}


def explain(problem: ValidationError, model: type[BaseModel], source: str) -> UserError:
    """Return one sentence about the validation error that explains the most."""
    # A misspelt key also leaves the right one missing: the misspelling is the cause.
    complaints = sorted(
        problem.errors(), key=lambda e: e["type"] not in ("extra_forbidden", "invalid_key")
    )
    first = complaints[0]
    own = first.get("ctx", {}).get("error")
    if isinstance(own, UserError):
        return UserError(f"{source}: {own}")
    path = [part for part in first["loc"] if not str(part).startswith(("literal[", "tuple["))]
    where = _place(path)
    known = sorted(_model_at(model, path[:-1]).model_fields)
    if first["type"] in ("extra_forbidden", "invalid_key"):
        kind = f"key of '{_place(path[:-1])}'" if path[:-1] else "key"
        return UserError(f"{source}: {unknown(kind, path[-1], known)}")
    if first["type"] == "missing":
        return UserError(f"{source} lacks the key '{where}'. Allowed keys: {', '.join(known)}.")
    if path[-1:] == ["detectors"]:
        allowed = "must be 'all' or a list of detectors"
    elif first["type"] == "literal_error" and isinstance(first["input"], str):
        field = _model_at(model, path[:-1]).model_fields[str(path[-1])]
        kind = f"value of '{where}'"
        return UserError(f"{source}: {unknown(kind, first['input'], get_args(field.annotation))}")
    else:
        standard = first["msg"].removeprefix("Input ").replace("should", "must", 1)
        allowed = str(own) if own else _ALLOWED.get(first["type"], standard)
    return UserError(f"{source}: '{where}' is {_shown(first['input'])}, but {allowed}.")


def _place(path: list[int | str]) -> str:
    """The path of a value: keys joined by dots; list entries are counted from 1."""
    text = "".join(f" (entry {part + 1})" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _shown(value: object) -> str:
    """A value as written in the file, shortened."""
    if value is None:
        return "empty"
    text = str(value) if isinstance(value, datetime.date) else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _model_at(model: type[BaseModel], path: list[int | str]) -> type[BaseModel]:
    """Return the model that a path of keys leads to."""
    match path:
        case [*_, "factors", int()]:
            return Factor
        case ["scales", _]:
            return Scale
        case ["base"]:
            return TrainSpec
        case ["searches"]:
            return Searches
        case _:
            return model
