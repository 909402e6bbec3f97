r"""First cells that name both axes (Method \ Dataset), or the titles beside them, not the lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from oodometer.factors import TITLES, plain
from oodometer.tables.cells import Rows, read_cell
from oodometer.tables.frames.common_words import without_common_words
from oodometer.tables.frames.named_levels import stacked
from oodometer.tables.frames.parted_pairs import crossed
from oodometer.tables.frames.sections import is_heading
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.names import is_compared
from oodometer.tables.vocabulary.titles import DETECTOR_TITLES, ID_TITLES, MODEL_TITLES, OOD_TITLES

_BOTH = re.compile(r"(?P<lines>[^\\]*\w)\s*(?:\\+|⟍|╲|∖)\s*(?P<titles>\w.*)")
_VARIANT = re.compile(r"(?i)\bours|\bproposed|\bbaseline")  # names of methods, never of data
_METHOD, _DATA = "Method", "dataset"  # titles of lines whose own is that of the columns
_METRIC, _UNTITLED = "metric", "column 1"
_LOOKED_AT = 200  # lines whose names tell what they are
_SETS = OOD_TITLES | ID_TITLES
_COMPARED = DETECTOR_TITLES.union(MODEL_TITLES)
_KNOWN = _COMPARED | _SETS | TITLES.keys()


def with_named_axes(
    titles: Sequence[str], header: Rows, body: Rows, numeric: Collection[int], notes: list[str]
) -> tuple[list[str], Rows]:
    """Give both axes their names, where the first cells name them, or the other one alone.

    A column of metrics may stand before or behind the lines' names.
    """
    labels = min(numeric, default=0)
    if not labels or len(numeric) < len(titles) - labels:
        return list(titles), body
    metrics = [c for c in range(labels) if _mostly(_names(body, c), _is_metric)]
    lines = next((c for c in range(labels) if c not in metrics), 0)
    said = [" ".join(filter(None, row[:labels])) for row in header]
    both = _BOTH.fullmatch(said[-1]) or _BOTH.fullmatch(titles[0])
    named: list[str] = []  # what each line of the header is called
    if both:
        own, named = both["lines"], [both["titles"]] if len(header) == 1 else []
        of_lines = _name_of_lines([own], _names(body, lines), [list(titles[labels:])])
        if of_lines and named:  # turned, but for the first cell
            own, named = of_lines, [own]
    elif own := _name_of_lines(said, _names(body, lines), [row[labels:] for row in header]):
        named = said
        if labels - len(metrics) > 1 or not all(named) or len(set(named)) < len(named):
            return list(titles), body
    if not own:
        return list(titles), body
    called = [_METRIC if c in metrics else titles[c] for c in range(labels)]
    called[lines] = own
    titles = [*called, *titles[labels:]]
    rest = [""] * (labels - 1)
    levels = [[name, *rest, *row[labels:]] for name, row in zip(named, header, strict=False)]
    if not levels or (len(levels) == 1 and crossed(titles[labels:])):
        return list(titles), body
    if any(is_heading(row, numeric, len(titles)) for row in body):  # these become a column later
        return list(titles), body
    return stacked(titles, [*levels, [*called, *rest]], body, labels, notes)


def _names(body: Rows, column: int) -> list[str]:
    """Return the names of a column, without headings, which stand alone."""
    rows = (row for row in body[:_LOOKED_AT] if len(row) > column and sum(map(bool, row)) > 1)
    return [*dict.fromkeys(row[column] for row in rows if row[column])]


def _is_metric(name: str) -> bool:
    return metric_named(name) is not None and not without_metric(name)


def _name_of_lines(said: Sequence[str], names: Sequence[str], levels: Rows) -> str:
    """Return what lines are called that bear a title of the columns, which `said` lists, else "".

    `levels` are the names above the columns, line by line.

    >>> _name_of_lines(["OOD set"], ["MSP", "ODIN"], [["SVHN", "LSUN"]])
    'Method'
    >>> _name_of_lines(["Dataset"], ["adult", "wine"], [["SVM", "MLP"]])
    ''
    """
    if not names or any(read_cell(name) is not None for name in names):
        return ""
    stated = without_common_words(names)[0] if len(names) > 1 else ""
    last = plain(said[-1])
    if stated and last in _KNOWN and plain(stated) != last:
        return _UNTITLED  # names say what they are
    names = [(without_metric(n) if metric_named(n) is not None else n) or n for n in names]
    if last in _SETS or last in TITLES:
        methods = _mostly(names, is_compared) or any(map(_VARIANT.search, names))
        if methods and not any(map(is_data, names)):
            return _METHOD
    if last in _COMPARED:
        variants = any(map(_VARIANT.search, levels[-1])) and not any(map(_VARIANT.search, names))
        if _mostly(names, is_data) or (variants and not any(map(is_compared, names))):
            return _DATA
    fitting = all(_fits(title, level) for title, level in zip(said, levels, strict=True))
    return _UNTITLED if fitting and len(said) > 1 else ""


def _fits(title: str, names: Sequence[str]) -> bool:
    """Whether a title of methods, of data or of runs is that of names which are known as such."""
    known = [name for name in names if name]
    if plain(title) in _COMPARED:
        return _mostly(known, is_compared)
    if plain(title) in _SETS:
        return _mostly(known, is_data)
    return plain(title) in TITLES and all(read_cell(name) is not None for name in known)


def _mostly(names: Sequence[str], test: Callable[[str], bool]) -> bool:
    return 2 * sum(map(test, names)) > len(names)
