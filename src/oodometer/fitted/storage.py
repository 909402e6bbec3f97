"""Files of what was trained: safetensors, with everything that is no array as JSON beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

import oodometer
from oodometer.errors import UserError, no_file
from oodometer.files import refuse_special

_KEY, _FORMAT = "oodometer", 1
MOST_NUMBERS = 2**24  # of an image; a file that claims more is not one

Arrays = Mapping[str, NDArray[Any]]


def write_file(path: Path, arrays: Arrays, said: Mapping[str, object]) -> Path:
    """Write arrays and facts; under another name first, so that a kill leaves no half of it."""
    whole = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in arrays.items()}
    facts = {"format": _FORMAT, "version": oodometer.__version__, **said}
    content = safetensors.numpy.save(whole, {_KEY: json.dumps(facts)})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        part.write_bytes(content)
        part.replace(path)
    except OSError as problem:
        raise UserError(f"Cannot write '{path}': {problem.strerror or problem}.") from None
    return path


def read_file(path: Path, *kinds: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of a file and what is said beside them; a kind is "detector" or "generator"."""
    what = f"{kinds[0].capitalize()} file"
    refuse_special(path, what)
    try:
        with safetensors.safe_open(path, framework="numpy") as opened:
            said = json.loads((opened.metadata() or {}).get(_KEY, "null"))
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise no_file(what, path, (".safetensors",)) from None
    except OSError as problem:
        raise UserError(f"Cannot read '{path}': {problem.strerror or problem}.") from None
    except (safetensors.SafetensorError, ValueError, RecursionError, TypeError) as problem:
        raise UserError(
            f"'{path}' is damaged, or is not a file that save wrote: "
            f"{' '.join(str(problem).split())[:200]}."
        ) from None
    if not isinstance(said, dict) or not set(kinds) & set(said):
        wanted = " or ".join(f"Fitted{kind.capitalize()}.save" for kind in kinds)
        raise UserError(f"'{path}' is not a file that {wanted} wrote.")
    if said.get("format") != _FORMAT:
        raise UserError(
            f"'{path}' was written by another version of oodometer ({said.get('version')}), whose "
            f"format {said.get('format')!r} is not {_FORMAT}."
        )
    return arrays, said


def does_not_fit(path: Path, kind: str, said: Mapping[str, Any], why: Exception) -> UserError:
    """Return the error of a file whose content is not what this version would write."""
    reason = f"{'Missing key ' * isinstance(why, KeyError)}{' '.join(str(why).split())}"[:200]
    return UserError(
        f"'{path}' does not fit the {kind} '{said.get(kind)}' of this version of oodometer "
        f"({oodometer.__version__}; it was written by {said.get('version')}): {reason}."
    )
