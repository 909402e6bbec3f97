"""Parts of a table that stand below each other, each with titles of its own, put side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from oodometer.factors import plain
from oodometer.tables.cells import Rows, holds_numbers, is_gap
from oodometer.tables.frames.headers import joined_titles, with_carried
from oodometer.tables.frames.sections import padded

_FEWEST = 2  # titles of results in a further header


def side_by_side(
    titles: list[str], rows: Rows, numeric: Collection[int], width: int, notes: list[str]
) -> tuple[list[str], Rows]:
    """Join the lines of a wide table that goes on below a second header, by what names them.

    Unchanged where the further headers repeat titles, or lines have no name of their own.
    """
    labels = [column for column in range(width) if column not in numeric]
    starts = _further_headers(titles, rows, numeric, labels)
    if not starts or not labels:
        return titles, rows
    parts = [(titles, [padded(row, width) for row in rows[: starts[0][0]]])]
    ends = [start for start, _ in starts[1:]]
    for (start, depth), end in zip(starts, [*ends, len(rows)], strict=True):
        own = joined_titles(rows[start : start + depth], numeric, width)
        parts.append((own, [padded(row, width) for row in rows[start + depth : end]]))
    results = [with_carried(own)[column] for own, _ in parts for column in sorted(numeric)]
    if len(set(results)) < len(results) or not _are_told_apart([p for _, p in parts], labels):
        return titles, rows
    notes.append(f"the table goes on below another header: {len(parts)} parts were joined")
    return _joined(parts, labels, sorted(numeric), results)


def _further_headers(
    titles: Sequence[str], rows: Rows, numeric: Collection[int], labels: Sequence[int]
) -> list[tuple[int, int]]:
    """Return where headers stand among the lines, and how many lines they have."""
    found: list[tuple[int, int]] = []
    repeated = [(column, plain(titles[column])) for column in labels]
    for number, row in enumerate(rows):
        present = [(column, title) for column, title in repeated if column < len(row)]
        if not present or any(plain(row[column]) != title for column, title in present):
            continue  # most lines, at the first cell: there may be a million
        if not _names_results(row, numeric):
            continue
        start = number
        while start and _is_above(rows[start - 1], numeric, labels):
            start -= 1
        found.append((start, number - start + 1))
    return found


def _names_results(row: Sequence[str], numeric: Collection[int]) -> bool:
    """Whether words stand where the numbers of other lines do."""
    cells = [row[column] for column in numeric if column < len(row) and row[column]]
    return len(cells) >= _FEWEST and not any(holds_numbers(c) or is_gap(c) for c in cells)


def _is_above(row: Sequence[str], numeric: Collection[int], labels: Sequence[int]) -> bool:
    """Whether a line holds titles of groups alone."""
    bare = not any(row[column] for column in labels if column < len(row))
    words = [row[column] for column in numeric if column < len(row) and row[column]]
    return bare and bool(words) and not any(map(holds_numbers, words))


def _are_told_apart(parts: Sequence[Rows], labels: Sequence[int]) -> bool:
    """Whether each line of a part has a name of its own, and most come in all parts."""
    names = [[tuple(row[c] for c in labels) for row in part] for part in parts]
    if any(len(set(own)) < len(own) for own in names):
        return False
    common = set(names[0]).intersection(*names[1:])
    return len(common) > 1 and 2 * len(common) >= max(map(len, names))


def _joined(
    parts: Sequence[tuple[Sequence[str], Rows]],
    labels: Sequence[int],
    numeric: Sequence[int],
    results: Sequence[str],
) -> tuple[list[str], Rows]:
    lines: dict[tuple[str, ...], list[str]] = {}
    for place, (_, rows) in enumerate(parts):
        for row in rows:
            line = lines.setdefault(tuple(row[c] for c in labels), [""] * len(results))
            first = place * len(numeric)
            line[first : first + len(numeric)] = [row[c] for c in numeric]
    titles = [parts[0][0][column] for column in labels]
    return [*titles, *results], [[*name, *line] for name, line in lines.items()]
