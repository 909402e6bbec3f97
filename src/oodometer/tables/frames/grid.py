"""Rows of cells as a table: what is its header, a heading between lines, a footnote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from oodometer.errors import UserError
from oodometer.tables.cells import Rows, holds_numbers, is_gap, numeric_share, read_cell
from oodometer.tables.formats.splitting import numbered, split
from oodometer.tables.frames.corners import with_named_axes
from oodometer.tables.frames.headers import (
    MOST_HEADER_LINES,
    header_depth,
    is_turned,
    joined_titles,
    knows_titles,
    names_the_index,
    under_headings,
    with_arrows,
    with_carried,
)
from oodometer.tables.frames.named_levels import with_named_levels
from oodometer.tables.frames.parts import side_by_side
from oodometer.tables.frames.sections import is_heading, padded, with_bases, with_sections
from oodometer.tables.pages.latex import latex_captions
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.uncertainty import NOTHING_SAID, Uncertainty, uncertainty_in

_LOOKED_AT = 1000  # rows that tell what a column holds
_SHOWN = 60  # characters of a line that a note quotes


class Grid(NamedTuple):
    """The titles of a table, its lines, and notes on what had to be done to get them."""

    titles: list[str]
    rows: Rows
    notes: list[str]
    about: str  # what stands above the table, or in its caption
    uncertainty: Uncertainty = NOTHING_SAID  # on numbers after ±, in these texts


def read_grid(text: str, where: str) -> Grid:
    """Find the table in a text; `where` names the file for whoever has to repair it."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise UserError(f"{where} is empty.")
    return grid_of(split(lines, where), where, latex_captions(text))


def grid_of(rows: Rows, where: str, about: str = "") -> Grid:
    """Find titles and lines among rows of cells; `about` is what is said around the table."""
    notes: list[str] = []
    rows = [row for row in rows if any(row)]
    width = _usual_width(rows, where)
    about += _words(row for n, row in enumerate(rows) if _is_comment(rows, n, width))
    if _is_entitled(rows, width):
        about += f" {rows.pop(0)[0]}"
    rows = under_headings(with_arrows(rows), width)
    rows = [row for n, row in enumerate(rows) if not _is_comment(rows, n, width)]
    if len(rows) > 1 and len(rows[0]) == width - 1 and numbered(rows[1:]):
        rows[0] = ["", *rows[0]]
    if is_turned(rows, width):
        rows = [list(column) for column in zip(*rows, strict=True)]
        width = len(rows[0])
        notes.append("titles are in the first column: the table was transposed")
    start = _first_line(rows, width, where)
    if start:
        notes.append(f"lines above the header were left out: {start}")
        about += _words(rows[:start])
    rows = rows[start:]
    if len(rows) < 2:
        raise UserError(f"{where} has a header and no lines below it.")
    numeric = _numeric_columns(rows, width)
    titles, depth = _header(rows, numeric, width)
    if depth > 1:  # lines of titles are no cells
        numeric = _numeric_columns(rows[depth - 1 :], width)
        titles, depth = _header(rows, numeric, width)
    body = _below(rows, depth, notes)
    joined = with_named_axes(titles, rows[:depth], body, numeric, notes)
    if joined[1] is body:
        joined = with_named_levels(joined[0], rows[:depth], body, numeric, notes)
    if joined[1] is body:
        joined = side_by_side(joined[0], body, numeric, width, notes)
    titles = joined[0]
    if joined[1] is not body:
        body = joined[1]
        width = len(titles)
        numeric = _numeric_columns([titles, *body], width)
    _require_width(body, start + depth + 1, width, where)
    body = with_bases(body) if 0 not in numeric else body
    titles, body = with_sections(titles, body, numeric, width, notes)
    body = _without_remarks(body, numeric, width, notes)
    if not body:
        raise UserError(f"{where} has a header and no lines below it.")
    titles = _numbered_labels(with_carried(titles), numeric)
    _require_different(titles, where)
    _carry_around(titles, body, numeric, notes)
    _carry_down(titles, body, numeric, notes)
    body = [padded(row, len(titles)) for row in body]
    return Grid(titles, body, notes, about, uncertainty_in(about))


def _carry_down(
    titles: Sequence[str], rows: Rows, numeric: Collection[int], notes: list[str]
) -> None:
    """Fill the empty cells of merged names from above, if lines could not be told apart else.

    pandas writes an index of several levels like this, and spreadsheets merged cells.
    """
    labels = [column for column in range(len(titles)) if column not in numeric]
    gaps = [c for c in labels[:-1] if rows[0][c : c + 1] != [""] and _has_gaps(rows, c)]
    if not gaps:
        return
    merged = _empty_lines(rows, gaps[0])  # numbers between the names may be merged like these
    gaps += [c for c in range(labels[-1] + 1) if c not in gaps and _empty_lines(rows, c) == merged]
    told = sorted({*labels, *gaps})
    of_metrics = _names_metrics(rows, gaps[0])  # a line without one has that of another
    if not of_metrics and not _has_doubles(
        [[row[c] for c in told if c < len(row)] for row in rows]
    ):
        return
    filled = [list(row) for row in rows]
    for above, row in pairwise(filled):
        for column in gaps:
            row[column] = row[column] or above[column]
    if of_metrics or not _has_doubles([[r[c] for c in told if c < len(r)] for r in filled]):
        rows[:] = filled
        names = ", ".join(titles[c] for c in sorted(gaps))
        notes.append(f"empty cells were filled from the row above, as for merged cells: {names}")


def _names_metrics(rows: Rows, column: int) -> bool:
    """Whether all names of a column are those of metrics."""
    names = {row[column] for row in rows if len(row) > column and row[column]}
    return all(metric_named(name) is not None for name in names)


def _carry_around(
    titles: Sequence[str], rows: Rows, numeric: Collection[int], notes: list[str]
) -> None:
    """Fill a column of names from the middle of their groups, as papers write merged cells.

    A group begins where a name of another column comes again; each must have one name.
    """
    labels = [c for c in range(len(titles)) if c not in numeric and all(len(r) > c for r in rows)]
    for column in [c for c in labels if rows and not rows[0][c] and any(row[c] for row in rows)]:
        others = [c for c in labels if c != column]
        groups: list[list[int]] = []
        seen: set[tuple[str, ...]] = set()
        for number, row in enumerate(rows):
            names = tuple(row[c] for c in others)
            if not groups or names in seen:
                groups.append([])
                seen = set()
            seen.add(names)
            groups[-1].append(number)
        named = [[rows[n][column] for n in group if rows[n][column]] for group in groups]
        if len(groups) < 2 or any(len(names) != 1 for names in named):
            continue
        for group, (name,) in zip(groups, named, strict=True):
            for number in group:
                rows[number] = [*rows[number][:column], name, *rows[number][column + 1 :]]
        notes.append(f"names were filled into the empty cells around them: {titles[column]}")


def _empty_lines(rows: Rows, column: int) -> list[int]:
    return [n for n, row in enumerate(rows) if len(row) > column and not row[column]]


def _has_gaps(rows: Rows, column: int) -> bool:
    return any(len(row) > column and not row[column] for row in rows)


def _has_doubles(rows: Rows) -> bool:
    return len(set(map(tuple, rows))) < len(rows)


def _is_entitled(rows: Rows, width: int) -> bool:
    """Whether the first line is a title of the whole table, above those of its columns."""
    if width < 3 or any(rows[0][1:]) or len(rows[0]) not in (1, width):
        return False
    below = takewhile(lambda row: not any(map(holds_numbers, row)), rows[1 : MOST_HEADER_LINES + 2])
    return any(len(row) == width and all((row[0], *row[-1:])) for row in below)


def _usual_width(rows: Rows, where: str) -> int:
    """Return how many cells most lines have."""
    if not rows:
        raise UserError(f"{where} is empty.")
    width = Counter(len(row) for row in rows).most_common(1)[0][0]
    if width < 2:
        raise UserError(
            f"{where} could not be split into columns: no comma, semicolon, tab or | divides its "
            "lines alike."
        )
    return width


def _words(rows: Iterable[Sequence[str]]) -> str:
    return " ".join(cell for row in rows for cell in row)


def _first_line(rows: Rows, width: int, where: str) -> int:
    """Return the number of the line that begins the table: the first of its usual width."""
    start = next((number for number, row in enumerate(rows) if len(row) == width), len(rows))
    above = [len(row) for row in rows[:start] if len(row) > 1]
    if above and start < len(rows) and any(map(read_cell, rows[start])):
        # What follows is no header: a decimal comma has split the numbers below the real one.
        raise _uneven(start + 1, where, width, above[-1])
    return start


def _header(rows: Rows, numeric: Collection[int], width: int) -> tuple[list[str], int]:
    """Return the titles of the columns, and how many lines they take."""
    depth = header_depth(rows, numeric)
    titles = joined_titles(rows[:depth], numeric, width)
    if depth < len(rows) - 1 and names_the_index(rows[depth]):
        # pandas writes what the lines are below the titles of several levels.
        titles = [cell or title for cell, title in zip(rows[depth], titles, strict=False)]
        depth += 1
    return titles, depth


def _below(rows: Rows, depth: int, notes: list[str]) -> Rows:
    """Return the lines below the header, without its repetitions."""
    head = rows[:depth]
    body = [row for row in rows[depth:] if row not in head]
    repeated = len(rows) - depth - len(body)
    if repeated:
        notes.append(f"repeated headers were left out: {repeated}")
    return body


def _require_width(body: Rows, first: int, width: int, where: str) -> None:
    for number, row in enumerate(body, start=first):
        if any(row[width:]):
            raise _uneven(number, where, len(row), width)


def _uneven(number: int, where: str, cells: int, width: int) -> UserError:
    return UserError(f"Line {number} of {where} has {cells} cells, but the header has {width}.")


def _require_different(titles: Sequence[str], where: str) -> None:
    title, times = Counter(titles).most_common(1)[0]
    if times > 1:
        raise UserError(f"{where} has {times} columns called '{title}'.")


def _numbered_labels(titles: Sequence[str], numeric: Collection[int]) -> list[str]:
    """Number equal titles of names, as one above two columns leaves them."""
    seen: Counter[str] = Counter()
    named = []
    for column, title in enumerate(titles):
        seen[title] += 1
        again = seen[title] > 1 and column not in numeric
        named.append(f"{title} {seen[title]}" if again else title)
    return named


def _is_comment(rows: Rows, number: int, width: int) -> bool:
    """Whether a line is a remark; "# one, two" may have as many cells as the table."""
    row = rows[number]
    if not row[0].startswith("#"):
        return False
    below = rows[number + 1] if number + 1 < len(rows) else []
    by_chance = row[0].startswith("# ") and knows_titles(below, 1) and not knows_titles(row, 1)
    return len(row) != width or not any(row[1:]) or by_chance


def _numeric_columns(rows: Rows, width: int) -> Collection[int]:
    """Columns in which most cells below the first lines, without numbers, are numbers, in order."""
    few = range(1, min(MOST_HEADER_LINES + 1, len(rows)))
    below = rows[next((n for n in few if any(map(holds_numbers, rows[n]))), 1) :]
    found = (
        column
        for column in range(width)
        if numeric_share([row[column] for row in below if len(row) > column], pairs=True) > 0.5
    )
    return dict.fromkeys(found).keys()


def _without_remarks(rows: Rows, numeric: Collection[int], width: int, notes: list[str]) -> Rows:
    """Leave out headings between the lines, and remarks below the last of them."""
    # Two numbers in a cell are results only in a column of such cells.
    some = rows[:_LOOKED_AT]
    paired = {c for c in numeric if numeric_share(r[c] for r in some if c < len(r)) <= 0.5}
    numbered = (n for n in reversed(range(len(rows))) if _has_number(rows[n], numeric, paired))
    last = next(numbered, len(rows))
    remarks = [
        is_heading(row, numeric, width) or (number > last and _is_remark(row, numeric, width))
        for number, row in enumerate(rows)
    ]
    left_out = [row for row, remark in zip(rows, remarks, strict=True) if remark]
    if left_out:
        shown = "; ".join(" ".join(filter(None, row))[:_SHOWN] for row in left_out[:3])
        more = ", …" if len(left_out) > 3 else ""
        notes.append(f"rows without numbers were left out: {len(left_out)} ({shown}{more})")
    return [row for row, remark in zip(rows, remarks, strict=True) if not remark]


def _is_remark(row: Sequence[str], numeric: Collection[int], width: int) -> bool:
    """Whether a line below the table is text: too short, or words where numbers stand above."""
    filled = (column < len(row) and not is_gap(row[column]) for column in numeric)
    return len(row) < width or any(filled)


def _has_number(row: Sequence[str], numeric: Collection[int], paired: Collection[int]) -> bool:
    cells = {c: row[c] for c in numeric if c < len(row)}
    return any(
        holds_numbers(cell) if c in paired else read_cell(cell) is not None
        for c, cell in cells.items()
    )
