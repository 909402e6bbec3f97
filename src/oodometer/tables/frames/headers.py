"""The header of a table: how many lines it has, and what they call each column."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from oodometer.errors import UserError
from oodometer.factors import TITLES, plain
from oodometer.tables.cells import Rows, holds_numbers, read_cell
from oodometer.tables.vocabulary.data_names import is_corruption, is_set
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.names import is_model
from oodometer.tables.vocabulary.titles import (
    DETECTOR_TITLES,
    ID_TITLES,
    MODEL_TITLES,
    OOD_TITLES,
    REPEAT_TITLES,
    mentions_setting,
)

OF_SETS = re.compile(r"(?:ood|test|outofdistribution|outlier)?(?:data)?sets?")  # above their names
_ARROWS = ("↑", "↓", "(↑)", "(↓)")
_DASHES = ("-", "--", "–", "—")  # gaps
MOST_HEADER_LINES = 3  # at most: groups of groups of columns
KNOWN_TITLES = DETECTOR_TITLES | OOD_TITLES | ID_TITLES | REPEAT_TITLES
_INDEX_TITLES = KNOWN_TITLES.union(MODEL_TITLES, TITLES)  # of what lines are
# What a line of numbers in a header may count.
_NUMBERED = frozenset({"", "severity", "level", "step", "shot", "shots", "horizon", *TITLES})
_MOST_LEVELS = 10  # of a condition, such as severities
_MOST_TURNED = 60  # lines: a table that lies on its side has one per column


def knows_titles(row: Sequence[str], least: int = 2) -> bool:
    """Whether a line is like a header: titles of roles or metrics, and no number."""
    known = sum(plain(cell) in KNOWN_TITLES or metric_named(cell) is not None for cell in row)
    return known >= least and not any(map(read_cell, row))


def with_arrows(rows: Rows) -> Rows:
    """Write a line of arrows below titles behind these; all else in it comes from above."""
    for number in range(1, min(MOST_HEADER_LINES + 2, len(rows))):
        above, row = rows[number - 1], rows[number]
        if len(row) != len(above) or sum(cell in _ARROWS for cell in row) < 2:
            continue
        if all(cell in ("", *_ARROWS, title) for cell, title in zip(row, above, strict=True)):
            pairs = zip(above, row, strict=True)
            whole = [f"{t} {cell}".strip() if cell in _ARROWS else t for t, cell in pairs]
            return [*rows[: number - 1], whole, *rows[number + 1 :]]
    return rows


def is_turned(rows: Rows, width: int) -> bool:
    """Whether titles stand in the first column, and lines beside each other."""
    first = [plain(row[0]) for row in rows[: _MOST_TURNED + 1]]
    return (
        2 < len(rows) <= _MOST_TURNED
        and all(len(row) == width and any(row[1:]) for row in rows)
        and len(set(first)) == len(first)
        and any(name in DETECTOR_TITLES or name in MODEL_TITLES for name in first)
        and any(metric_named(row[0]) is not None for row in rows)
        and not any(_is_model_with_metric(row[0]) for row in rows)
        and knows_titles([row[0] for row in rows])
        and not knows_titles(rows[0])
        and sum(map(is_set, rows[0])) < 2  # titles of columns already
    )


def _is_model_with_metric(name: str) -> bool:
    """Whether a name is that of a model, with the metric of its numbers: ResNet 50 (top1)."""
    bare = re.sub(r"\([^()]*\)", "", name).strip()
    return metric_named(name) is not None and metric_named(bare) is None and is_model(bare)


def under_headings(rows: Rows, width: int) -> Rows:
    """Move the heading above each of several equal headers below it, where it names its lines."""
    whole = next((row for row in rows if len(row) == width and any(row[1:])), None)
    if whole is None or rows.count(whole) < 2 or any(map(read_cell, whole)):
        return rows
    moved: Rows = []
    for above, row, below in zip([[""], *rows], rows, [*rows[1:], []], strict=False):
        if below == whole and _heading(row):
            continue
        moved.append(row)
        if row == whole and _heading(above):
            moved.append([_heading(above), *[""] * (width - 1)])
    return moved


def _heading(row: Sequence[str]) -> str:
    """Return the only text of a line, if it stands in its first cell."""
    return "" if any(row[1:]) else row[0].lstrip("#").strip()


def header_depth(rows: Rows, numeric: Collection[int]) -> int:
    """Count the lines of the header: below the first, those with words where numbers stand."""
    above = range(1, min(MOST_HEADER_LINES + 1, len(rows) - 1))
    index = next((n for n in above if names_the_index(rows[n])), 0)
    if index and all(row[0] and read_cell(row[0]) is None for row in rows[:index]):
        return index  # as pandas writes names of levels, which may be numbers
    depth = 1
    while depth < min(MOST_HEADER_LINES, len(rows) - 1) and numeric:
        cells = [rows[depth][column] for column in numeric if len(rows[depth]) > column]
        cells = [cell for cell in cells if cell not in _DASHES]
        words = [cell for cell in cells if cell and not holds_numbers(cell)]
        named = len(words) > 1 and len(words) == len([cell for cell in cells if cell])
        if names_the_index(rows[depth]):
            break
        named |= 2 * len(words) > len(cells) and _are_spanned(rows[:depth], numeric)
        numbered = _numbers_groups(rows, depth, numeric) or _is_below_titles(rows, depth, numeric)
        if not named and not numbered:
            break
        depth += 1
    return depth


def _are_spanned(header: Rows, numeric: Collection[int]) -> bool:
    """Whether titles stand above several columns each, so that another line must tell these apart.

    That line may hold a number among its words: CIFAR-10, DTD, 5,000.
    """
    titles = [tuple(row[c] if c < len(row) else "" for row in header) for c in sorted(numeric)]
    return 1 < len(set(titles)) <= len(titles) / 2 and all(any(parts) for parts in titles)


def _numbers_groups(rows: Rows, depth: int, numeric: Collection[int]) -> bool:
    """Whether a line below equal titles numbers their columns: SVHN, SVHN above 0, 1."""
    above, here = rows[:depth], rows[depth]
    if min(map(len, rows[: depth + 1])) <= max(numeric) or plain(here[0]) not in _NUMBERED:
        return False
    titles: list[tuple[str, ...]] = []
    numeric = [c for c in numeric if here[c] or any(row[c] for row in above)]  # no index
    for column in numeric:  # an empty cell is covered by the title before it
        before = titles[-1] if titles else ("",) * depth
        titles.append(tuple(r[column] or said for r, said in zip(above, before, strict=True)))
    numbers = [here[column] for column in numeric]
    pairs = set(zip(titles, numbers, strict=True))
    return len(set(titles)) < len(titles) == len(pairs) and all(map(str.isdigit, numbers))


def _is_below_titles(rows: Rows, depth: int, numeric: Collection[int]) -> bool:
    """Whether a line holds numbers below shared titles, and all else is covered from above.

    So a title above several thresholds does: AUROC, then "accuracy at coverage" above 0.5 and 0.9.
    """
    above, here = rows[depth - 1], rows[depth]
    if len(here) != len(above):
        return False
    own = [c for c, cell in enumerate(here) if cell and cell != above[c]]
    groups = Counter(above[column] for column in own)
    numbers = [here[column] for column in own if read_cell(here[column]) is not None]
    pairs = {(above[column], here[column]) for column in own}
    shared = len(own) > 1 and min(groups.values()) > 1 and all(groups)
    return shared and len(numbers) == len(own) == len(pairs) and set(own) <= set(numeric)


def _what_is_numbered(header: Rows, level: int, results: Collection[int]) -> str:
    """Say what the numbers of a line of the header count, or ask."""
    if header[level][0]:
        return header[level][0]
    above = [header[level - 1][c] for c in sorted(results) if header[level - 1][c : c + 1] != [""]]
    numbers = [header[level][c] for c in sorted(results) if c < len(header[level])]
    if sum(map(is_corruption, above)) > len(above) / 2:
        return "severity"
    if "0" in numbers or max(map(int, filter(str.isdigit, numbers)), default=0) > _MOST_LEVELS:
        return "run"
    raise UserError(
        f"The header numbers the columns below '{next(iter(above), '')}' {numbers[0]}, "
        f"{numbers[1]}, …: write what they are into the first cell of that line, 'seed' for "
        "training runs or 'severity' for a condition."
    )


def names_the_index(row: Sequence[str]) -> bool:
    """Whether a line below the header holds nothing but titles of columns without any."""
    filled = [cell for cell in row if cell]
    leading = list(row[: len(filled)]) == filled and len(filled) < len(row)
    known = any(plain(cell) in _INDEX_TITLES or _is_setting(cell) for cell in filled)
    return leading and known and not any(map(read_cell, filled))


def _is_setting(title: str) -> bool:
    return title.replace("_", "").isalpha() and mentions_setting(title)


def joined_titles(header: Rows, numeric: Collection[int], width: int) -> list[str]:
    """Join the lines of a header; a title above several columns belongs to all of them."""
    columns = header_columns(header, set(numeric), width)
    empty = [
        level
        for level in range(len(header) if len(header) > 1 else 0)
        if _tells_nothing([columns[column] for column in numeric], level)
    ]
    for column in numeric:
        columns[column] = ["" if n in empty else cell for n, cell in enumerate(columns[column])]
    titles = []
    for column, cells in enumerate(columns):
        words = [cell for cell in cells if cell]
        words = [w for w in words if not OF_SETS.fullmatch(plain(w))] or words
        title = " ".join(dict.fromkeys(words)) if column in numeric else (words or [""])[-1]
        titles.append(title or f"column {column + 1}")
    return titles


def with_carried(titles: Sequence[str]) -> list[str]:
    """Complete titles that occur twice from those before them, where they name a set or a metric.

    >>> with_carried(["Method", "SVHN FPR95", "AUROC", "LSUN FPR95", "AUROC"])
    ['Method', 'SVHN FPR95', 'SVHN AUROC', 'LSUN FPR95', 'LSUN AUROC']
    >>> with_carried(["Method", "AUROC SVHN", "LSUN", "FPR95 SVHN", "LSUN"])
    ['Method', 'AUROC SVHN', 'auroc LSUN', 'FPR95 SVHN', 'fpr95 LSUN']
    """
    times = Counter(titles)
    if len(times) == len(titles):
        return list(titles)
    whole: list[str] = []
    group = metric = single = ""  # what the last title with two parts said; the last single one
    for column, title in enumerate(titles):
        named = metric_named(title)
        rest = without_metric(title) if named is not None else title
        if named is not None and rest:
            group, metric = rest, named
        twice = times[title] > 1
        if twice and named is not None and not rest and group:
            title = f"{group} {title}"
        elif twice and named is None and (metric or single):
            title = f"{metric or single} {title}"
        elif not twice and column:
            single = title
        whole.append(title)
    return whole


def header_columns(header: Rows, results: Collection[int], width: int) -> list[list[str]]:
    """Return the cells of a header, column by column; above results they fill their group."""
    groups = [""] * len(header)  # what stands above the present column, level by level
    counting = [
        level > 0 and all(row[c : c + 1] and row[c].isdigit() for c in results)
        for level, row in enumerate(header)
    ]
    columns = []
    for column in range(width):
        cells = [(row[column] if column < len(row) else "") for row in header]
        cells = [cell.strip("{}$ ") if read_cell(cell) is not None else cell for cell in cells]
        if column == 0:  # the sign of a comment before the first title
            cells = [cell.removeprefix("#").strip() for cell in cells]
            # What stands before numbers says what they count, not what is below.
            cells = ["" if counts else cell for cell, counts in zip(cells, counting, strict=True)]
        for level, cell in enumerate(cells):
            if cell:
                groups[level:] = [""] * (len(header) - level)
            if column not in results:
                continue
            if level < len(header) - 1:
                groups[level] = cells[level] = cell or groups[level]
            if level and cells[level].isdigit():
                cells[level] = f"{_what_is_numbered(header, level, results)} {cells[level]}"
        columns.append(cells)
    return columns


def _tells_nothing(columns: Sequence[Sequence[str]], level: int) -> bool:
    """Whether one line of the header says the same of all results, such as "OOD data sets"."""
    said = {parts[level] for parts in columns}
    if len(said) != 1 or len(columns) < 2:
        return False
    word = said.pop()
    if not plain(word) or plain(word).removesuffix("s") in OOD_TITLES:  # percent signs, test sets
        return True
    metrics_below = all(metric_named(parts[-1]) is not None for parts in columns)
    return (
        level < len(columns[0]) - 1
        and not metrics_below
        and metric_named(word) is None
        and not is_set(word)
    )
