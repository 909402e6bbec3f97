r"""First cells that name both axes (Method \ Dataset), or the titles beside them, not the lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from oodometer.factors import TITLES, plain
from oodometer.tables.cells import Rows, read_cell
from oodometer.tables.frames.named_levels import stacked
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.names import is_compared
from oodometer.tables.vocabulary.titles import DETECTOR_TITLES, ID_TITLES, MODEL_TITLES, OOD_TITLES

_BOTH = re.compile(r"(?P<lines>[^\\]*\w)\s*(?:\\+|⟍|╲|∖)\s*(?P<titles>\w.*)")
_VARIANT = re.compile(r"(?i)\bours|\bproposed|\bbaseline")  # names of methods, never of data
_METHOD, _DATA = "Method", "dataset"  # titles of lines whose own is that of the columns
_COMPARED = DETECTOR_TITLES.union(MODEL_TITLES)


def with_named_axes(
    titles: Sequence[str], header: Rows, body: Rows, numeric: Collection[int], notes: list[str]
) -> tuple[list[str], Rows]:
    """Give both axes their names, where the first cells name them, or the other one alone."""
    labels = min(numeric, default=0)
    if not labels or len(numeric) < len(titles) - labels:
        return list(titles), body
    both = _BOTH.fullmatch(titles[0])
    if both and labels == 1:
        titles = [both["lines"], *titles[1:]]
        above = [both["titles"]] if len(header) == 1 else []
    elif lines := _name_of_lines(titles[0], body):
        above = [row[0] for row in header]
        if not all(above) or len(set(above)) < len(above):
            return list(titles), body
        titles = [lines, *titles[1:]]
    else:
        return list(titles), body
    if not above:
        return list(titles), body
    rest = [""] * (labels - 1)
    levels = [[name, *rest, *row[labels:]] for name, row in zip(above, header, strict=True)]
    last = [*titles[:labels], *[""] * (len(titles) - labels)]
    return stacked(titles, [*levels, last], body, labels, notes)


def _name_of_lines(title: str, body: Rows) -> str:
    """Return what lines are called whose first title is that of the columns, else "".

    >>> _name_of_lines("OOD set", [["MSP", "0.8"], ["ODIN", "0.9"]])
    'Method'
    >>> _name_of_lines("Dataset", [["adult", "0.8"], ["wine", "0.9"]])
    ''
    """
    names = [*dict.fromkeys(row[0] for row in body if row and row[0])]
    if not names or any(read_cell(name) is not None for name in names):
        return ""
    said = plain(title)
    if said in OOD_TITLES | ID_TITLES or said in TITLES:
        methods = _mostly(names, is_compared) or any(map(_VARIANT.search, names))
        return _METHOD if methods and not any(map(is_data, names)) else ""
    return _DATA if said in _COMPARED and _mostly(names, is_data) else ""


def _mostly(names: Sequence[str], test: Callable[[str], bool]) -> bool:
    return 2 * sum(map(test, names)) > len(names)
