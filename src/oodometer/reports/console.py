"""A Finding on a terminal: claims first, tables cut to the width, readable without colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from oodometer.finding import Claim, Finding, Table, TableCell, from_json, to_json
from oodometer.metrics import Estimate
from oodometer.reports.drawing.scales import value_range
from oodometer.reports.verdicts import BADGES, READING_TITLE
from oodometer.reports.words import MISSING, numeric_columns, one_line, show_rows

_BAR = 17  # odd, so that the middle of the range is one character
_ASCII = str.maketrans({"−": "-", "–": "-", "…": "...", "·": "|", "×": "x", "≥": ">="})
_GUTTER = 2  # one for the padding, one for the line between columns


@dataclass(frozen=True)
class TerminalFinding:
    """A finding that `rich` can print at any width."""

    finding: Finding

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the parts, laid out for the width of this console."""
        finding = self.finding
        if options.ascii_only:
            finding = encodable(finding)
        yield Text(one_line(finding.title), style="bold")
        if finding.question:
            yield Text(one_line(finding.question), style="italic")
        if finding.answer:
            yield Text(one_line(finding.answer), style="bold")
        yield Text()
        for claim in finding.claims:
            yield _claim(claim)
        if not finding.claims:
            yield Text("No claims.")
        if finding.facts:
            yield Text()
            facts = (f"{one_line(name)}: {one_line(value)}" for name, value in finding.facts)
            yield Text(" · ".join(facts) if not options.ascii_only else " | ".join(facts))
        yield from _list(READING_TITLE, [f"{name}: {value}" for name, value in finding.reading])
        for table in finding.tables:
            yield Text()
            yield from table_lines(table, options.max_width, options.ascii_only)
        yield from _list("Caveats", finding.caveats)
        yield from _list("Missing", finding.missing)


def encodable(finding: Finding) -> Finding:
    """Return a finding in ASCII: printing any other character there would raise."""
    plain = to_json(finding).translate(_ASCII)
    return from_json(plain.encode("ascii", "replace").decode("ascii"))


def _claim(claim: Claim) -> RichTable:
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(width=9, no_wrap=True)
    grid.add_column(overflow="fold")
    words = Text(one_line(claim.text), style="bold")
    if claim.evidence:
        words.append("\n" + one_line(claim.evidence), style="not bold")
    badge = BADGES[claim.verdict]
    grid.add_row(Text(badge.label, style=f"bold {badge.colour}"), words)
    return grid


def _list(name: str, entries: Sequence[str]) -> Iterator[Text | RichTable]:
    if entries:
        yield Text(f"\n{name}", style="bold")
        grid = RichTable.grid(padding=(0, 1))
        grid.add_column(width=1)
        grid.add_column(overflow="fold")
        for entry in entries:
            grid.add_row(Text("-"), Text(one_line(entry)))
        yield grid


@dataclass(frozen=True)
class _Column:
    name: str
    cells: list[str]
    right: bool
    intervals: bool = False  # whether its cells show intervals
    fixed: bool = False  # the heading is part of a drawing and must not be wrapped

    @property
    def width(self) -> int:
        """Characters this column needs: its longest cell, or the longest word of its heading."""
        parts = [self.name] if self.fixed else self.name.split()
        words = [Text(part).cell_len for part in parts]
        return max([*words, *(Text(cell).cell_len for cell in self.cells), 1])


def table_lines(table: Table, width: int, ascii_only: bool) -> Iterator[Text | RichTable]:
    """Yield a table that fits the width, and a note on what was omitted from it."""
    columns, omitted = _fitting(table, width)
    intervals = [index for index, column in enumerate(columns) if column.intervals]
    if intervals and _room(columns) + _BAR + _GUTTER <= width:
        first = intervals[0]
        columns.insert(first + 1, _bars([row[first] for row in table.rows], ascii_only))
    yield _rich_table(table.title, columns, width)
    notes = [one_line(table.note)] if table.note else []
    if omitted:
        notes.append(f"Omitted to fit the terminal: {'; '.join(omitted)}.")
    if notes:
        yield Text(" ".join(notes), style="dim")


def _fitting(table: Table, width: int) -> tuple[list[_Column], list[str]]:
    """Return the columns that fit, and the names of what does not: intervals, then columns."""
    rows = show_rows(table)
    numeric = numeric_columns(rows, len(table.columns))

    def column(index: int, interval: bool) -> _Column:
        cells = [row[index].full if interval else row[index].text for row in rows]
        name = one_line(table.columns[index])
        return _Column(name, cells, numeric[index], interval and index in with_interval)

    indices = range(len(table.columns))
    with_interval = [index for index in indices if any(row[index].interval for row in rows)]
    columns = [column(index, True) for index in indices]
    omitted: list[str] = []
    if _room(columns) > width:
        # The first interval stays: it shows how precise all such numbers are.
        columns = [column(index, index in with_interval[:1]) for index in indices]
        if len(with_interval) > 1:
            omitted.append("further intervals")
    dropped: list[str] = []
    while len(columns) > 2 and _room(columns) > width:
        dropped.insert(0, columns.pop().name)
    if dropped:
        omitted.append(f"column{'s' if len(dropped) > 1 else ''} {', '.join(dropped)}")
    return columns, omitted


def _rich_table(title: str, columns: Sequence[_Column], width: int) -> RichTable:
    shown = RichTable(
        title=Text(one_line(title), style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GUTTER - 1, 0, 0),
    )
    # By default, rich keeps a heading on one line and truncates the columns behind it.
    natural = sum(max(c.width, Text(c.name).cell_len) + _GUTTER for c in columns)
    for column in columns:
        shown.add_column(
            Text(column.name),
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=column.fixed,
            min_width=min(column.width, width // 2),
            max_width=column.width if natural > width else None,
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        shown.add_row(*(Text(cell) for cell in cells))
    return shown


def _room(columns: Sequence[_Column]) -> int:
    return sum(column.width for column in columns) + _GUTTER * len(columns)


def _bars(cells: Sequence[TableCell], ascii_only: bool) -> _Column:
    """Draw the intervals of one column on a common range, which the heading gives."""
    estimates = [cell for cell in cells if isinstance(cell, Estimate)]
    low, high = value_range(end for estimate in estimates for end in estimate)
    line, dot = ("-", "o") if ascii_only else ("─", "●")

    def bar(estimate: Estimate) -> str:
        start, middle, stop = (
            round((value - low) / (high - low) * (_BAR - 1))
            for value in (estimate.low, estimate.value, estimate.high)
        )
        places = [line if start <= place <= stop else " " for place in range(_BAR)]
        places[middle] = dot
        return "".join(places)

    ends = next(
        pair
        for digits in (3, 2, 1)
        if len("".join(pair := (f"{low:.{digits}g}", f"{high:.{digits}g}"))) < _BAR
    )
    name = ends[0] + " " * (_BAR - len(ends[0]) - len(ends[1])) + ends[1]
    drawn = [
        bar(cell) if isinstance(cell, Estimate) else MISSING if cell is None else ""
        for cell in cells
    ]
    return _Column(name, drawn, right=False, fixed=True)
