"""A Finding on a terminal: claims first, tables cut to the width there is, no colour needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from oodometer.finding import Claim, Finding, Table, Verdict, from_json, to_json
from oodometer.metrics import Estimate
from oodometer.reports.scales import value_range
from oodometer.reports.words import MISSING, Shown, numeric_columns, one_line, show_rows

_STYLES: dict[Verdict, str] = {"holds": "green", "flips": "red", "undecided": "yellow"}
_BAR = 17  # odd, so that the middle of the range is one place
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
            # Such a terminal would stop at the first foreign letter; a question mark is less.
            plain = to_json(finding).translate(_ASCII)
            finding = from_json(plain.encode("ascii", "replace").decode("ascii"))
        yield Text(one_line(finding.title), style="bold")
        if finding.question:
            yield Text(one_line(finding.question), style="italic")
        yield Text()
        for claim in finding.claims:
            yield _claim(claim)
        if not finding.claims:
            yield Text("This finding makes no claim.")
        if finding.facts:
            yield Text()
            facts = (f"{one_line(name)}: {one_line(value)}" for name, value in finding.facts)
            yield Text(" · ".join(facts) if not options.ascii_only else " | ".join(facts))
        for table in finding.tables:
            yield Text()
            yield from _table(table, options.max_width, options.ascii_only)
        yield from _list("Caveats", finding.caveats)
        yield from _list("Missing", finding.missing)


def _claim(claim: Claim) -> RichTable:
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(width=9, no_wrap=True)
    grid.add_column(overflow="fold")
    words = Text(one_line(claim.text), style="bold")
    if claim.evidence:
        words.append("\n" + one_line(claim.evidence), style="not bold")
    grid.add_row(Text(claim.verdict, style=f"bold {_STYLES[claim.verdict]}"), words)
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
    fixed: bool = False  # the name is a drawing too and must not be broken

    @property
    def width(self) -> int:
        """The room this column needs: its longest cell, or the longest word of its name."""
        parts = [self.name] if self.fixed else self.name.split()
        words = [Text(part).cell_len for part in parts]
        return max([*words, *(Text(cell).cell_len for cell in self.cells), 1])


def _table(table: Table, width: int, ascii_only: bool) -> Iterator[Text | RichTable]:
    """Yield a table that fits, and what had to be left out of it."""
    rows = show_rows(table.rows)
    numeric = numeric_columns(rows, len(table.columns))
    first = next(
        (index for index in range(len(table.columns)) if any(row[index].interval for row in rows)),
        None,
    )
    columns = [_column(table, rows, index, True, numeric) for index in range(len(table.columns))]
    left_out: list[str] = []
    if _room(columns) > width:
        # The first interval stays: it says how far all such numbers can be trusted.
        columns = [
            _column(table, rows, index, index == first, numeric)
            for index in range(len(table.columns))
        ]
        if sum(any(row[index].interval for row in rows) for index in range(len(columns))) > 1:
            left_out.append("further intervals")
    dropped: list[str] = []
    while len(columns) > 2 and _room(columns) > width:
        dropped.insert(0, columns.pop().name)
    if dropped:
        left_out.append(f"column{'s' if len(dropped) > 1 else ''} {', '.join(dropped)}")
    if first is not None and first < len(columns) and _room(columns) + _BAR + _GUTTER <= width:
        columns.insert(first + 1, _bars(table, first, ascii_only))

    shown = RichTable(
        title=Text(one_line(table.title), style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GUTTER - 1, 0, 0),
    )
    # Left to itself, the library keeps a heading on one line and cuts the columns behind it.
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
    yield shown
    notes = [one_line(table.note)] if table.note else []
    if left_out:
        notes.append(f"Left out here for want of room: {'; '.join(left_out)}.")
    if notes:
        yield Text(" ".join(notes), style="dim")


def _column(
    table: Table,
    rows: Sequence[Sequence[Shown]],
    index: int,
    interval: bool,
    numeric: Sequence[bool],
) -> _Column:
    cells = [row[index].full if interval else row[index].text for row in rows]
    return _Column(one_line(table.columns[index]), cells, numeric[index])


def _room(columns: Sequence[_Column]) -> int:
    return sum(column.width for column in columns) + _GUTTER * len(columns)


def _bars(table: Table, index: int, ascii_only: bool) -> _Column:
    """Draw the intervals of one column on a common range, which the column's head names."""
    estimates = [row[index] if isinstance(row[index], Estimate) else None for row in table.rows]
    known = [end for estimate in estimates if isinstance(estimate, Estimate) for end in estimate]
    low, high = value_range(known)
    line, dot = ("-", "o") if ascii_only else ("─", "●")
    bars = []
    for estimate in estimates:
        if not isinstance(estimate, Estimate):
            bars.append(MISSING)
            continue
        start, middle, stop = (
            round((value - low) / (high - low) * (_BAR - 1))
            for value in (estimate.low, estimate.value, estimate.high)
        )
        places = [line if start <= place <= stop else " " for place in range(_BAR)]
        places[middle] = dot
        bars.append("".join(places))
    ends = next(
        pair
        for digits in (3, 2, 1)
        if len("".join(pair := (f"{low:.{digits}g}", f"{high:.{digits}g}"))) < _BAR
    )
    name = ends[0] + " " * (_BAR - len(ends[0]) - len(ends[1])) + ends[1]
    return _Column(name, bars, right=False, fixed=True)
