"""Lines of text as cells: delimiters, Markdown, LaTeX, columns aligned with spaces."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from oodometer.errors import UserError
from oodometer.tables.cells import Rows, holds_numbers, is_gap, read_cell
from oodometer.tables.formats.printed import printed_by_pandas
from oodometer.tables.pages.latex_cells import latex_rows

_DELIMITERS = (",", ";", "\t", "|", "&")
_MOST_POSITIONS = 1000  # columns that spaces align
_LOOKED_AT = 500  # lines, to find the delimiter
_DRAWS = frozenset(" \t|+:=-_")  # a line of these only divides others
_APART = re.compile(r"\S+(?: \S+)*")  # words with single spaces between
_JOINED = re.compile(r"\s{0,20}(±|\+/-)\s{0,20}")


def split(lines: Sequence[str], where: str) -> Rows:
    """Split lines at the delimiter by which most of them have the same number of cells."""
    lines = [line for line in lines if not _only_draws(line)]
    best: tuple[float, str] = (0.0, "")
    for delimiter in _DELIMITERS:
        rows = _rows(lines[:_LOOKED_AT], delimiter)
        if not rows:
            continue
        width, times = Counter(len(row) for row in rows).most_common(1)[0]
        # A comma that is a decimal sign splits numbers, and lines unevenly.
        worth = times / len(rows) * (width > 1) * _plausible(rows)
        if worth > best[0]:
            best = worth, delimiter
    if best[1]:
        rows = _rows(lines, best[1])
        _require_closed_quotes(lines, rows, where)
        return rows
    return _aligned(lines) or [[line] for line in lines]


def _only_draws(line: str) -> bool:
    return ("---" in line or "===" in line) and _DRAWS.issuperset(line)


class _Tidy(dict[str, str]):
    """Cells without needless spaces; equal ones are one object, of which a column has many."""

    def __missing__(self, cell: str) -> str:
        return self.setdefault(cell, " ".join(cell.split()))


def _rows(lines: Sequence[str], delimiter: str) -> Rows:
    if delimiter == "&":
        # Lines of a tabular without its environment: most end with two backslashes.
        ends = sum("\\\\" in line for line in lines)
        plain = sum(" & " in line for line in lines)
        rows = latex_rows("\n".join(lines)) if max(ends, plain) > 1 else []
        return [row for row in rows if len(row) > 1]
    try:
        reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter, strict=False)
        tidy = _Tidy()
        rows = [[tidy[cell] for cell in row] for row in reader]
    except csv.Error:  # a cell of more than 131,072 characters
        return []
    if delimiter == "|":
        rows = [_inside_pipes(row) for row in rows]
        rows = [row for row in rows if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    return rows


def _require_closed_quotes(lines: Sequence[str], rows: Rows, where: str) -> None:
    """Refuse a quotation mark that is never closed: it swallows all lines to the end."""
    if len(rows) < len(lines) and sum(line.count('"') for line in lines) % 2:
        opened = next((n for n, line in enumerate(lines) if line.count('"') % 2), 0)
        raise UserError(f'A quotation mark in line {opened + 1} of {where} is never closed: ".')


def _aligned(lines: Sequence[str]) -> Rows | None:
    """Split columns that are aligned with spaces, or copied from a page."""
    if len(lines) < 2:
        return None
    some = lines[:_LOOKED_AT]
    if sum(line.count('"') for line in some) >= len(some):  # names in quotation marks
        rows = list(csv.reader(map(str.strip, lines), delimiter=" ", skipinitialspace=True))
        return _even(rows, lines[0])
    if ended := printed_by_pandas(lines) or _by_ends(lines):
        return ended
    wide, narrow = (
        [re.split(gap, _JOINED.sub(r"\1", line.strip())) for line in lines]
        for gap in (r"\s{2,}", r"\s+")
    )
    placed = _by_position(lines)
    by_chance = len(wide[0]) == 1 < len(wide[1]) and len({len(row) for row in narrow}) == 1
    if by_chance and len({len(row) for row in wide[1:]}) == 1:
        return wide  # a sentence above the table has as many words as the table columns
    for rows in (wide, narrow):
        even = len(rows[0]) > 1 and len({len(row) for row in rows}) == 1
        if even and (placed is None or len(placed[0]) <= len(rows[0])):
            return rows
    found = placed or _even(wide, lines[0]) or _even(narrow, lines[0]) or _with_long_names(narrow)
    return found or _below_each_other(lines)


def _by_ends(lines: Sequence[str]) -> Rows | None:
    """Cut where a word ends in all lines, as pandas prints: None unless that leaves whole cells.

    Names may hold spaces, and so may titles: there may be a single one between two columns.
    """
    if lines[0][:1].isspace() and _are_counted(lines[1:]):
        lines = [
            lines[0],
            *(re.sub(r"^\d+", lambda n: " " * len(n[0]), line) for line in lines[1:]),
        ]
    lines = [re.sub(r" (±|\+/-) ", "\0\\1\0", line.rstrip()) for line in lines]
    ends = set.intersection(*({word.end() for word in re.finditer(r"\S+", line)} for line in lines))
    if len({*map(len, lines)}) > 1 or len(ends) < 2:
        return None
    spans = list(pairwise([0, *sorted(ends)]))
    rows = [[line[start:end].strip() for start, end in spans] for line in lines]
    if any(not cell or "  " in cell for row in rows for cell in row):
        return None
    rows = [[cell.replace("\0", "") for cell in row] for row in rows]
    return rows if all(holds_numbers(row[-1]) or is_gap(row[-1]) for row in rows[1:]) else None


def _are_counted(lines: Sequence[str]) -> bool:
    """Whether lines begin with their numbers, from 0 on."""
    found = [re.match(r"\d+(?=\s)", line) for line in lines]
    return [match and int(match[0]) for match in found] == [*range(len(lines))]


def _by_position(lines: Sequence[str]) -> Rows | None:
    """Cut where all lines have a space; None unless that leaves numbers, and no empty cells."""
    # Means and spreads are one cell, as wide as before.
    lines = [re.sub(r" (±|\+/-) ", "\0\\1\0", line) for line in lines]
    spans = _columns_of(lines)
    if not 1 < len(spans) <= _MOST_POSITIONS:
        return None
    rows = [[line[start:end].strip().replace("\0", "") for start, end in spans] for line in lines]
    header, *body = rows
    filled = [any(row[n] for row in body) for n in range(len(spans))]
    if not filled[-1]:
        return None
    titles = _joined_titles(header, filled)
    body = [[cell for cell, kept in zip(row, filled, strict=True) if kept] for row in body]
    last = [row[-1] for row in body]
    whole = all(all(row) for row in body) and all(titles[1:])
    return [titles, *body] if whole and all(map(holds_numbers, last)) else None


def _below_each_other(lines: Sequence[str]) -> Rows | None:
    """Place cells by the columns of the lines that have most: others lack some, as headers do."""
    cells = [[*_APART.finditer(_JOINED.sub(_as_wide, line))] for line in lines]
    width = max(map(len, cells))
    whole = [row for row in cells if len(row) == width]
    if width < 2 or sum(line.split() == whole[0][0].string.split() for line in lines) > 1:
        return None  # no columns, or several tables
    starts = [min(row[n].start() for row in whole) for n in range(width)]
    ends = [max(row[n].end() for row in whole) for n in range(width)]
    for cell in (cell for row in cells for cell in row):
        if len(below := _below(cell, starts, ends)) == 1:
            starts[below[0]] = min(starts[below[0]], cell.start())
            ends[below[0]] = max(ends[below[0]], cell.end())
    if any(end >= start for end, start in zip(ends, starts[1:], strict=False)):
        return None
    placed = [_placed(row, starts, ends) for row in cells]
    full = sum(sum(map(bool, row)) > width / 2 for row in placed)
    return placed if 2 * full > len(placed) else None


def _below(cell: re.Match[str], starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Return the columns above or below which a cell stands."""
    return [n for n in range(len(starts)) if cell.start() < ends[n] and starts[n] < cell.end()]


def _as_wide(found: re.Match[str]) -> str:
    """Write ± without spaces around it, at the end of as many characters."""
    return found[1].rjust(len(found[0]), "\0")


def _placed(row: Sequence[re.Match[str]], starts: Sequence[int], ends: Sequence[int]) -> list[str]:
    """Return a line with a cell per column, or its only text if that lies across columns."""
    texts = [cell[0].replace("\0", "") for cell in row]
    placed = [""] * len(starts)
    for cell, text in zip(row, texts, strict=True):
        below = _below(cell, starts, ends)
        if len(row) == 1 and len(below) != 1:
            return texts
        place = below[0] if below else max(0, sum(start <= cell.start() for start in starts) - 1)
        placed[place] = f"{placed[place]} {text}".strip()
    return placed


def _columns_of(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Where no line has a space."""
    used = bytearray(max(map(len, lines)))
    for line in lines:
        for word in re.finditer(r"\S+", line):
            used[word.start() : word.end()] = b"\1" * (word.end() - word.start())
    return [found.span() for found in re.finditer(b"\1+", used)]


def _joined_titles(header: Sequence[str], filled: Sequence[bool]) -> list[str]:
    """Titles of the columns that are filled: words above no cells belong to the next one's."""
    title, titles = "", []
    for name, has_cells in zip(header, filled, strict=True):
        title = f"{title} {name}".strip()
        if has_cells:
            titles.append(title)
            title = ""
    return titles


def _even(rows: Rows, first: str) -> Rows | None:
    """Return rows that are equally long, where need be with an empty title in front, else None."""
    header, *body = rows
    widths = {len(row) for row in body}
    if widths == {len(header) + 1} and (first[0].isspace() or numbered(body)):
        header.insert(0, "")  # of names that have no title
    return rows if len(header) > 1 and widths == {len(header)} else None


def _with_long_names(rows: Rows) -> Rows | None:
    """Join the words of names, where all that follows them are numbers, else None."""
    header, *body = rows
    if len(header) < 2 or min(map(len, body)) < len(header):
        return None
    joined = [_with_long_name(row, len(header)) for row in body]
    whole = [row for row in joined if row is not None]
    return [header, *whole] if len(whole) == len(body) else None


def numbered(rows: Sequence[Sequence[str]]) -> bool:
    """Whether each line begins with its number, as R writes tables: its header does not."""
    return [row[0].strip('"') for row in rows if row] == [str(n + 1) for n in range(len(rows))]


def _with_long_name(row: list[str], width: int) -> list[str] | None:
    """Join the words of a name in front of the numbers; None if what follows are not numbers."""
    name, numbers = row[: len(row) - width + 1], row[len(row) - width + 1 :]
    if any(read_cell(cell) is None and not is_gap(cell) for cell in numbers):
        return None
    return [" ".join(name), *numbers]


def _plausible(rows: Sequence[Sequence[str]]) -> float:
    """Return the share of cells that are a number, a gap or a text without digits at its ends."""
    cells = [cell for row in rows[1:50] for cell in row] or list(rows[0])
    good = sum(
        is_gap(cell) or read_cell(cell) is not None or not re.search(r"\d[;,]\d|\d\s*[;\t]", cell)
        for cell in cells
    )
    return good / len(cells)


def _inside_pipes(row: list[str]) -> list[str]:
    return row[1:-1] if len(row) > 2 and not row[0] and not row[-1] else row
