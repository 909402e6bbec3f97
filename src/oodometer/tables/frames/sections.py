"""Headings between the lines of a table, and names that continue the one above them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise

from oodometer.tables.cells import Rows, holds_numbers, interval_of
from oodometer.tables.frames.common_words import without_common_words
from oodometer.tables.frames.titles import undressed
from oodometer.tables.guessing.roles import SECTION
from oodometer.tables.vocabulary.data_names import is_set

_SUBSECTION = f"sub{SECTION}"
_FEWEST = 3  # columns of a table in which a name without numbers is a heading
_SIGNS = ("+", "w/", "↳", "└")  # of a name that goes on from the one above
_ADDED = re.compile(r"(?:\+|w/(?!o)|↳|└)\s*\w")  # not w/o


def with_sections(
    titles: list[str], rows: Rows, numeric: Collection[int], width: int, notes: list[str]
) -> tuple[list[str], Rows]:
    """Make headings between the lines a column, if the lines below them begin alike.

    Headings that only group detectors ("post-hoc methods") are left out later; those that say of
    which of several tables the lines are ("CIFAR-10") must be kept. Of two headings below each
    other, the first holds for more: it stays until the next two.
    """
    rows = _with_carried_names(rows, numeric, width)
    heads = [is_heading(row, numeric, max(width, _FEWEST)) for row in rows]
    if not any(heads) or not heads[0] or SECTION in titles:
        return titles, rows
    texts = [row[0] for row, head in zip(rows, heads, strict=True) if head]
    if width < _FEWEST and not _parted(texts)[1]:
        return titles, rows  # a name whose only number is missing
    nested = any(above and below for above, below in pairwise(heads))
    lines: Rows = []
    labels: Counter[tuple[str, ...]] = Counter()
    above: list[str] = []  # the headings of the present lines, the outer one first
    said: list[str] = []  # those since the last line
    for row, head in zip(rows, heads, strict=True):
        if head:
            said.append(" ".join(filter(None, row)))
            continue
        if said:
            is_inner = len(said) == 1 and len(above) > 1
            above = [above[0], said[0]] if is_inner else [said[0], " ".join(said[1:])][: len(said)]
        said = []
        inner = [above[1] if len(above) > 1 else ""] if nested else []
        lines.append([*padded(row, width), above[0], *inner])
        names = [row[c] for c in range(min(width, len(row))) if c not in numeric]
        labels[tuple(name for name in names if interval_of(name) is None)] += 1
    if not lines or max(labels.values()) < 2:
        return titles, rows
    added = [SECTION, *([_SUBSECTION] if nested else [])]
    for column in range(len(added)):
        title, names_of = _parted([line[width + column] for line in lines])
        if names_of:
            added[column] = added[column] if title in (*titles, *added, "") else title
            for line in lines:
                line[width + column] = names_of[line[width + column]]
    named = " and ".join(f"'{title}'" for title in added)
    notes.append(f"headings between rows became the column{'s' * nested} {named}")
    return [*titles, *added], lines


def _parted(headings: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Part headings such as "ID: CIFAR-10" into a title and names; nothing if they hold no title.

    Names that are known data sets, as in "CIFAR-10 as ID", need none.

    >>> _parted(["ID: CIFAR-10", "ID: SVHN", "ID: SVHN"])
    ('ID', {'ID: CIFAR-10': 'CIFAR-10', 'ID: SVHN': 'SVHN'})
    >>> _parted(["SVHN as ID", "MNIST as ID"]), _parted(["trained methods", "other methods"])
    (('ID', {'SVHN as ID': 'SVHN', 'MNIST as ID': 'MNIST'}), ('', {}))
    """
    distinct = list(dict.fromkeys(headings))
    if len(distinct) < 2 or "" in distinct:
        return "", {}
    title, names = without_common_words(distinct)
    is_told = title or all(map(is_set, names))
    return (title, dict(zip(distinct, names, strict=True))) if is_told else ("", {})


def _with_carried_names(rows: Rows, numeric: Collection[int], width: int) -> Rows:
    """Part a line such as "Clean | AUROC | | |": what is empty below it is carried down.

    The rest is a heading of the lines below. Without such lines, all stays as it is.
    """
    labels = [column for column in range(width) if column not in numeric]
    first = next(iter(numeric), width)
    if len(labels) < 2 or all(row[first : first + 1] != [""] for row in rows):
        return rows  # most tables, of which some have a million lines
    parted: Rows = []
    carried: dict[int, str] = {}
    for row, below in zip(rows, [*rows[1:], []], strict=False):
        own = [c for c in labels if c < len(row) and row[c]]
        bare = len(own) > 1 and not any(cell for c, cell in enumerate(row) if c in numeric)
        empty = [c for c in own if c < len(below) and not below[c]]
        if bare and empty and any(below[c] for c in numeric if c < len(below)):
            carried = {c: row[c] for c in empty}
            rest = [row[c] for c in own if c not in empty]
            parted += [[" ".join(rest), *[""] * (width - 1)]] if rest else []
            continue
        filled = [cell or carried.get(c, "") for c, cell in enumerate(row)]
        parted.append(filled if carried and not is_heading(row, numeric, width) else row)
    return parted


def with_bases(rows: Rows) -> Rows:
    """Complete names such as "+ Ours" by the name above, where they come below several names."""
    if not any(row[0].lstrip("*_ ").startswith(_SIGNS) for row in rows if row):
        return rows
    base = ""
    bases: dict[str, set[str]] = {}
    below: list[str] = []  # line by line: the name that it continues
    for row in rows:
        name = undressed(row[0]) if row else ""
        added = bool(base) and _ADDED.match(name) is not None
        if added:
            bases.setdefault(name, set()).add(base)
        elif name:
            base = name if any(row[1:]) else ""  # below a heading, names begin anew
        below.append(base if added else "")
    if max(map(len, bases.values()), default=0) < 2:
        return rows
    return [
        [f"{base} {undressed(row[0])}", *row[1:]] if base else row
        for base, row in zip(below, rows, strict=True)
    ]


def is_heading(row: Sequence[str], numeric: Collection[int], width: int) -> bool:
    """Whether a line holds text alone: in its first cell, or only where numbers stand in others."""
    if width < _FEWEST or not numeric:
        return False
    if row and row[0] and 0 not in numeric:  # as in most lines, of which there may be a million
        return not any(row[1:])
    filled = [column for column, cell in enumerate(row) if cell]
    if not filled or filled == [0]:
        return bool(filled)
    return all(column in numeric and not holds_numbers(row[column]) for column in filled)


def padded(row: list[str], width: int) -> list[str]:
    """Return a line with `width` cells."""
    return row if len(row) == width else (row + [""] * width)[:width]
