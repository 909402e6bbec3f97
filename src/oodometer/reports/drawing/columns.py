"""Names of columns above a grid: straight, or rotated where they do not fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oodometer.reports.drawing.svg import LABEL_SIZE, LINE_HEIGHT, TICK_SIZE, lines, text
from oodometer.reports.words import MISSING, shorten, text_width, wrap

_WIDEST_CELL = 92.0
_LONGEST_TURNED = 120.0


@dataclass(frozen=True)
class Layout:
    """How columns are drawn, and where their names go."""

    across: int  # columns side by side
    cell_width: float
    angle: float  # of the column names
    overhang: float  # of the last rotated name


def layout_of(
    columns: Sequence[str], words: Sequence[str], width: float, room: float, gaps: bool
) -> Layout:
    """Choose how wide cells are and whether column names are rotated to fit `room`."""
    least = max([text_width(word, TICK_SIZE) for word in words], default=0.0) + 4
    named_gap = max(least, text_width(MISSING, TICK_SIZE) + 6) if gaps else least
    straight = max(text_width(word, LABEL_SIZE) for name in columns for word in _words(name)) + 8
    angle = overhang = 0.0
    if len(columns) * max(straight, least) > room:
        angle = 45.0 if width >= 600 else 90.0
        longest = max(text_width(column, LABEL_SIZE) for column in columns)
        overhang = min(longest, _LONGEST_TURNED) * math.cos(math.radians(angle))
        room, straight = room - overhang, 0.0
    # Gaps are labelled "missing" where that needs no further block of columns.
    floor = max(least, straight, 18.0)
    if len(columns) * max(named_gap, floor) <= room:
        floor = max(named_gap, floor)
    across = max(1, min(len(columns), int(room // floor)))
    across = math.ceil(len(columns) / math.ceil(len(columns) / across))
    return Layout(across, min(max(room / across, floor), _WIDEST_CELL), angle, overhang)


def column_names(
    columns: Sequence[str], left: float, cell_width: float, angle: float, top: float
) -> tuple[str, float]:
    """Write the names of columns from `left` on, rotated if they do not fit; return the bottom."""
    centres = [left + (index + 0.5) * cell_width for index in range(len(columns))]
    if not angle:
        broken = [wrap(name, cell_width - 4, LABEL_SIZE, 3) for name in columns]
        height = max(len(name) for name in broken) * LINE_HEIGHT
        parts = [
            lines(
                name,
                centre,
                top + height - len(name) * LINE_HEIGHT / 2,
                css="label",
                anchor="middle",
                full=full,
            )
            for name, centre, full in zip(broken, centres, columns, strict=True)
        ]
        return "".join(parts), top + height + 5
    names = [shorten(name, _LONGEST_TURNED, LABEL_SIZE) for name in columns]
    reach = max(text_width(name, LABEL_SIZE) for name in names)
    height = reach * math.sin(math.radians(angle)) + 6
    parts = [
        text(name, centre, top + height, css="label", rotate=-angle, full=full)
        for name, centre, full in zip(names, centres, columns, strict=True)
    ]
    return "".join(parts), top + height + 8


def _words(name: str) -> list[str]:
    return wrap(name, 1.0, LABEL_SIZE, 1) if not name else name.split() or [name]
