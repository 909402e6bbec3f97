"""Tables of plain text: in files with prose and captions, or copied from a paper."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from oodometer.factors import plain
from oodometer.tables.cells import Rows, holds_numbers, is_gap, read_cell
from oodometer.tables.formats.printed import printed_by_pandas
from oodometer.tables.frames.headers import KNOWN_TITLES
from oodometer.tables.pages.markdown import CAPTIONED, heading_of
from oodometer.tables.pages.outline import BOLD, CAPTION, Outline, PageTable
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.names import is_compared

_JOINED = re.compile(
    r"\s{0,20}(±|\+/-)\s{0,20}|(?<=[\d%])\s{1,20}(?=\(±?[\d.]{1,20}%?\))|\s{1,20}(?=[↑↓](?:\s|$))"
)
_TIME = re.compile(r"\b\d{1,2}:\d\d:\d\d\b")  # 17:20:25
_DECORATION = "-=*_~ \t"  # around headings
_MOST_HEADER = 3  # lines
_FEWEST_NUMBERS = 2  # behind a name, from which on a line is one of a table
_LONGEST_HEADING = 160  # characters; more is prose


class _Block(NamedTuple):
    """Lines of a table: the first and the last one, how many are whole, and their cells."""

    first: int
    last: int
    whole: int
    rows: Rows


def text_tables(text: str) -> list[PageTable]:
    """Return all tables of a text: lines that fall into the same number of cells."""
    outline = Outline()
    caption = ""
    parts = [(lines, _table(lines)) for lines in _paragraphs(text)]
    before: _Block | None = None  # the table right above
    for number, (lines, block) in enumerate(parts):
        if before is not None and (more := _continued(lines, before)):
            outline.tables[-1].rows.extend(more)
            continue
        before = block
        table_follows = number + 1 < len(parts) and parts[number + 1][1] is not None
        if block is None and len(lines) == 1 and heading_of(lines[0]):
            outline.heading(*heading_of(lines[0]) or (BOLD, ""))
            continue
        above = lines[: block.first if block else len(lines)]
        for place, line in enumerate(above, start=1):
            if CAPTIONED.match(line):
                if outline.is_after_table and block is None and not table_follows:
                    outline.caption_below(line)
                else:
                    caption = line
            elif block and len(line) < _LONGEST_HEADING:  # the last line says most about the table
                outline.heading(max(1, BOLD - len(above) + place), line.strip(_DECORATION))
            else:
                outline.say(line)
        if block is not None:
            around = [*lines[: block.first], *lines[block.last + 1 :]]
            rows = [line for line in around if _is_row(line)]
            outline.table(
                [*block.rows, *map(_cells, rows)],
                {CAPTION: caption} if caption else None,
                next(filter(None, (_problem(line, block) for line in rows)), ""),
            )
            caption = ""
            for line in lines[block.last + 1 :]:
                if CAPTIONED.match(line):
                    outline.caption_below(line)
    return outline.tables


def is_page(text: str) -> bool:
    """Whether a text says that it is more than a table: captions, fences, headings."""
    return any(
        CAPTIONED.match(line) or line.startswith(("```", "## ", "### "))
        for line in text.splitlines()
    )


def _paragraphs(text: str) -> Iterator[list[str]]:
    """Yield lines between blank ones, fences and headings."""
    lines: list[str] = []
    for line in text.splitlines():
        ends = not line.strip() or line.lstrip().startswith(("```", "~~~"))
        heading = not ends and heading_of(line) is not None
        if (ends or heading) and lines:
            yield lines
            lines = []
        if heading:
            yield [line]
        elif not ends and not _only_draws(line):
            lines.append(line)
    if lines:
        yield lines


def _only_draws(line: str) -> bool:
    return set(" \t-=_+|─━═") >= set(line)


def _table(lines: Sequence[str]) -> _Block | None:
    """Return the lines that are a table, cut by what makes most of them alike."""
    if len(lines) < 2:
        return None
    if printed := printed_by_pandas(lines):
        return _Block(0, len(lines) - 1, len(lines), printed)
    if 2 * sum("\t" in line for line in lines) > len(lines):
        return _cut(lines, _by_tabs, most_uneven=0.2)
    blocks = [_cut(lines, split) for split in _SPLITS]
    found = [block for block in (*blocks, _named(lines)) if block is not None]
    found = [block for block in found if not any(map(_TIME.search, block.rows[0]))]  # of a log
    return max(found, key=lambda block: (_metrics_named(block), block.whole), default=None)


def _metrics_named(block: _Block) -> int:
    """Count the titles that name metrics: where most do, the lines were not cut by chance."""
    return sum(metric_named(cell) is not None for cell in block.rows[0])


def _continued(lines: Sequence[str], before: _Block) -> Rows:
    """Return the lines of a paragraph that goes on with the table above it, without a header."""
    width = len(before.rows[0])
    rows = [_cells(line) for line in lines]
    alike = all(len(row) == width and _is_row(line) for row, line in zip(rows, lines, strict=True))
    return rows if alike else []


def _problem(line: str, block: _Block) -> str:
    """Say that a line has too few numbers, where nothing shows which one it lacks."""
    found, wanted = len(_cells(line)) - 1, len(block.rows[0]) - 1
    if "\t" in line or found >= wanted:
        return ""
    return (
        f"Line '{line.strip()}' has {found} numbers, the others have {wanted}: write a dash where "
        "one is missing."
    )


def _is_row(line: str) -> bool:
    """Whether a line beside a table belongs to it: a name, and behind it nothing but numbers."""
    name, *cells = _cells(line)
    numbers = [cell for cell in cells if read_cell(cell) is not None]
    several = len(numbers) >= _FEWEST_NUMBERS and any("." in cell for cell in numbers)
    named = bool(name) and read_cell(name) is None and not CAPTIONED.match(line)
    return named and several and all(cell in numbers or is_gap(cell) for cell in cells)


def _cells(line: str) -> list[str]:
    """Cut a line at tabs, or into a name of one or several words and the numbers behind it."""
    if "\t" in line:
        return _by_tabs(line)
    words = _JOINED.sub(_close, line.strip()).split()
    count = _numbers_at_end(words)
    return [" ".join(words[: len(words) - count]), *words[len(words) - count :]]


def _by(delimiter: str) -> Callable[[str], list[str]]:
    return lambda line: [cell.strip() for cell in line.rstrip("\n").split(delimiter)]


def _by_tabs(line: str) -> list[str]:
    """Cut at tabs; two things in a cell, parted by a bar or several spaces, get a slash."""
    return [re.sub(r"(?<=\S)(?:\s{2,}|\s+\|\s+)(?=\S)", " / ", cell) for cell in _by("\t")(line)]


def _by_spaces(line: str) -> list[str]:
    return re.split(r"\s{2,}", _JOINED.sub(_close, line.strip()))


def _close(found: re.Match[str]) -> str:
    return found[1] or ""


_SPLITS: tuple[Callable[[str], list[str]], ...] = (_by(";"), _by(","), _by_spaces)


def _cut(
    lines: Sequence[str], split: Callable[[str], list[str]], most_uneven: float = 0.0
) -> _Block | None:
    """Return the most lines with the same number of cells; single texts may stand between."""
    cells = [_without_crosses(split(line)) for line in lines]
    cells = _with_first_cells(cells, lines) if split is _by_spaces else cells
    widths = Counter(len(row) for row in cells if len(row) > 1)
    if not widths:
        return None
    width = widths.most_common(1)[0][0]
    whole = [n for n, row in enumerate(cells) if len(row) == width]
    first, last = whole[0], whole[-1]
    inside = cells[first : last + 1]
    uneven = sum(len(row) not in (1, width) for row in inside)
    if uneven > most_uneven * len(inside) or not _has_results([cells[n] for n in whole]):
        return None
    if any(_holds_several(cell) for n in whole for cell in cells[n][1:]):
        return None  # columns that stand close together: a cut here would shift all titles
    header = _header_above(cells[: first + 1], lines, width) if split is _by_spaces else []
    return _Block(first - len(header), last, len(whole), [*header, *inside])


def _with_first_cells(cells: Rows, lines: Sequence[str]) -> Rows:
    """Complete aligned lines without a first cell, or with too little space behind it.

    Where the second column begins, the line with most cells says.
    """
    longest = max(range(len(cells)), key=lambda n: len(cells[n]))
    width = len(cells[longest])
    indented = [n for n, line in enumerate(lines) if line[:1] == " " and len(cells[n]) == width - 1]
    if width < 3 or not indented or lines[longest][:1] == " ":
        return cells
    start = lines[longest].find(cells[longest][1])
    whole = [list(row) for row in cells]
    for number, line in enumerate(lines):
        if len(cells[number]) != width - 1 or len(line) <= start > 1:
            continue
        if not line[:start].strip():
            whole[number].insert(0, "")
        elif line[start - 1] == " " != line[start]:
            first = line[:start].strip()
            whole[number][:1] = [first, cells[number][0].removeprefix(first).strip()]
    return whole


def _without_crosses(row: list[str]) -> list[str]:
    """Take an X for a gap in a line that holds nothing but a name and numbers."""
    if len(row) > 2 and all(cell == "X" or read_cell(cell) is not None for cell in row[1:]):
        return ["-" if cell == "X" else cell for cell in row]
    return row


def _holds_several(cell: str) -> bool:
    """Whether a cell is several numbers with spaces between."""
    words = cell.split()
    return len(words) > 1 and all(read_cell(word) is not None for word in words)


def _header_above(cells: Rows, lines: Sequence[str], width: int) -> Rows:
    """Return lines above the last of these that have fewer cells, spread over as many columns."""
    header: Rows = []
    above = cells[:-1]
    for row, line in zip(
        reversed(above[-_MOST_HEADER:]), reversed(lines[: len(above)]), strict=False
    ):
        if not 1 < len(row) < width or CAPTIONED.match(line):
            break
        header.insert(0, _spread(row, width, header[0] if header else cells[-1]))
    return header


def _spread(row: Sequence[str], width: int, below: Sequence[str] = ()) -> list[str]:
    """Put titles above columns: one each, or each above as many of the results.

    The first may be that of the names. Titles that come again `below` stand once below each.
    """
    found = []
    for names in (1, 0):
        titles = row[names:]
        if titles and (width - 1) % len(titles) == 0:
            each = (width - 1) // len(titles)
            spread = [*(row[:names] or [""]), *(title for title in titles for _ in range(each))]
            found.append(spread)
    pairs = [{*zip(spread[1:], below[1:], strict=False)} for spread in found]
    told = [spread for spread, own in zip(found, pairs, strict=True) if len(own) == width - 1]
    return next(iter(told or found), [*[""] * (width - len(row)), *row])


def _has_results(rows: Rows) -> bool:
    """Whether most cells behind the first of a line, below the first line, are numbers."""
    cells = [cell for row in rows[1:] for cell in row[1:] if not is_gap(cell)]
    return bool(cells) and 2 * sum(map(holds_numbers, cells)) > len(cells)


def _named(lines: Sequence[str]) -> _Block | None:
    """Return lines of numbers behind names of one or several words, with single spaces between."""
    words = [_JOINED.sub(_close, line.strip()).split() for line in lines]
    counts = [_numbers_at_end(row) for row in words]
    often = Counter(count for count in counts if count)
    if not often:
        return None
    width = often.most_common(1)[0][0]
    width -= _end_names_with_percents(words, [n for n, count in enumerate(counts) if count], width)
    whole = [n for n, count in enumerate(counts) if count >= width > 0 and len(words[n]) > width]
    if len(whole) < 2 or whole[0] == 0:
        return None
    first, last = whole[0], whole[-1]
    between = [n for n in range(first, last + 1) if n not in set(whole)]
    if any(counts[n] for n in between) or 2 * len(between) > len(whole):
        return None
    rows = [
        [" ".join(row[: len(row) - width]), *row[len(row) - width :]]
        if n in set(whole)
        else [" ".join(row)]
        for n, row in enumerate(words[first : last + 1], start=first)
    ]
    header = _header_of_words(words[:first], width)
    if not header:
        return None
    start = first - len(header)
    return _Block(start, last, len(whole), [*header, *rows])


def _end_names_with_percents(words: Rows, numbered: Sequence[int], width: int) -> bool:
    """Whether names end with a percentage: there are too few titles for it to be a result."""
    rows = [words[n] for n in numbered if len(words[n]) > width]
    few = bool(rows) and numbered[0] > 0 and len(words[numbered[0] - 1]) == width
    first = all(row[-width].endswith("%") for row in rows)
    others = [word for row in rows for word in row[len(row) - width + 1 :]]
    return few and first and not any(word.endswith("%") for word in others)


def _header_of_words(above: Rows, width: int) -> Rows:
    """Return the line with a title for each number, what follows it, and groups above it."""
    near = range(len(above) - 1, max(-1, len(above) - 1 - _MOST_HEADER), -1)
    fits = (n for n in near if width <= len(above[n]) <= 2 * width + 2)
    main = next((n for n in fits if not CAPTIONED.match(" ".join(above[n]))), None)
    if main is None:
        return []
    titles = _titles(above[main], width + 1)
    if not titles:
        return []
    header = [titles, *([" ".join(row)] for row in above[main + 1 :])]
    groups = above[main - 1] if main else []
    if 1 < len(groups) <= width and 0 in (width % len(groups), width % (len(groups) - 1)):
        spread = _spread(groups, width + 1, header[0])
        if len({*zip(spread, header[0], strict=True)}) == width + 1:
            header.insert(0, spread)
            groups = above[main - 2] if main > 1 else []
    if len(groups) == 1 and not header[0][0] and plain(groups[0]) in KNOWN_TITLES:
        header[0][0] = groups[0]  # in a line of its own
    return header


def _numbers_at_end(row: Sequence[str]) -> int:
    count = 0
    for word in reversed(row):
        if read_cell(word) is None and not is_gap(word):
            break
        count += 1
    return count


def _titles(row: Sequence[str], width: int) -> list[str]:
    """Return the titles of a line: the last words, one for each column of numbers; none if unclear.

    Where the same words come again and again, all of them are titles, some of several words.

    >>> _titles("Data set A B".split(), 3), _titles("A Deep Ensembles A Deep Ensembles".split(), 5)
    (['Data set', 'A', 'B'], ['', 'A', 'Deep Ensembles', 'A', 'Deep Ensembles'])
    >>> _titles("A B C A B C".split(), 5)
    []
    """
    if len(row) < width:  # lines that lack a number are not the header
        return [] if any("." in word and read_cell(word) for word in row) else _spread(row, width)
    for start in (0, 1):
        if len(row) > width - 1 + start and _comes_again(row[start:]):
            whole = _with_whole_names(row[start:])
            return [*(row[:start] or [""]), *whole] if len(whole) == width - 1 else []
    return [" ".join(row[: len(row) - width + 1]), *row[len(row) - width + 1 :]]


def _comes_again(words: Sequence[str]) -> bool:
    """Whether words are the same ones two or more times over."""
    lengths = (n for n in range(2, len(words) // 2 + 1) if len(words) % n == 0)
    return any(list(words) == [*words[:n]] * (len(words) // n) for n in lengths)


def _with_whole_names(words: Sequence[str]) -> list[str]:
    """Join two words that are one known name."""
    names: list[str] = []
    for word in words:
        if names and is_compared(f"{names[-1]} {word}") and not is_compared(names[-1]):
            names[-1] += f" {word}"
        else:
            names.append(word)
    return names
