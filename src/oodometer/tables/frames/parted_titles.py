"""Titles of which the user says that they hold two things: ``id+condition=*``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.tables.frames.crossed import (
    lines_of_parts,
    may_measure,
    results_of,
    said_beside_metric,
)
from oodometer.tables.frames.parted_pairs import Pairs, crossed, grouped
from oodometer.tables.guessing.roles import ALL, WIDE, are_wide, parts_of

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 3  # titles that a note names
_SIGN = re.compile(r"\s*[/|_]\s*|\s+")


def with_parted_titles(
    frame: pd.DataFrame, said: str, notes: list[str]
) -> tuple[pd.DataFrame, str]:
    """Return a line per number, with a column for each of both roles, and what else was said."""
    parts = parts_of(said)
    named = [part for part in parts if "+" in part.partition("=")[0]]
    if not named:
        return frame, said
    role, _, column = (piece.strip() for piece in named[0].partition("="))
    roles = tuple(name.strip() for name in role.split("+"))
    if len(named) > 1 or column != ALL or len(set(roles)) != 2 or not are_wide(role):
        raise UserError(
            f"--columns '{named[0]}' is not known: two roles of {', '.join(WIDE)}, joined by +, "
            "say what titles of columns hold, such as id+condition=*."
        )
    numeric = [c for c in map(str, frame.columns) if may_measure(frame, c)]
    beside = {c: said_beside_metric(c) for c in numeric}
    results = results_of(beside)
    of_metrics = [c for c in results if beside[c] != c]
    if others := [c for c in results if of_metrics and c not in of_metrics]:
        results, numeric = of_metrics, [c for c in numeric if c not in others]
        frame = frame.drop(columns=others)
        notes.append(f"titles that name no known metric were left out: {_shortened(others)}")
    whats = [beside[c] for c in results]
    pairs = crossed(whats) or grouped(whats) or _at_first_sign(whats)
    if pairs is None:
        single = next((what for what in whats if len(_SIGN.split(what)) == 1), "")
        raise UserError(
            f"--columns {named[0]}: '{single}' is one name, not two, such as 'SVHN clean'."
        )
    titles = tuple(f"{name} in title" if name in frame.columns else name for name in roles)
    frame = lines_of_parts(frame, numeric, dict(zip(results, pairs, strict=True)), titles, notes)
    rest = [part for part in parts if part not in named]
    return frame, ", ".join([*rest, *map("=".join, zip(roles, titles, strict=True))])


def _shortened(titles: list[str]) -> str:
    """Return the first titles, and how many there are beside them."""
    more = f" and {len(titles) - _SHOWN} more" if len(titles) > _SHOWN else ""
    return ", ".join(titles[:_SHOWN]) + more


def _at_first_sign(whats: list[str]) -> Pairs | None:
    """Part each title at its first space, slash or underscore; None if one has none."""
    pairs = [tuple(_SIGN.split(what, maxsplit=1)) for what in whats]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        return None
    return [(first, second) for first, second in pairs]
