"""One self-contained HTML page for findings: no network, light and dark, screen and paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, get_args

from oodometer.finding import POINT_KEYS, Finding, Series, Table, Verdict
from oodometer.reports import palette
from oodometer.reports.figures import NARROW, draw, figure_rules
from oodometer.reports.words import Shown, clean, numeric_columns, points_table, show_rows

if TYPE_CHECKING:
    from jinja2 import Template

# A sign and a word besides the colour; the meanings stand once below the claims.
VERDICT_SIGNS: dict[Verdict, str] = {"holds": "✓", "flips": "⇄", "undecided": "?"}
VERDICT_MEANINGS: dict[Verdict, str] = {
    "holds": "survives the variations that were tried, beyond chance",
    "flips": "depends on what was varied",
    "undecided": "the data cannot tell",
}
_WIDE_TABLE = 4  # columns with intervals; beyond, the interval moves below its value
_VAST_TABLE = 6
_LONG_LIST = 40


@dataclass(frozen=True)
class TableView:
    """A table ready to be written: cells as text, and which columns hold numbers."""

    title: str
    note: str
    columns: tuple[str, ...]
    numeric: list[bool]
    rows: list[list[Shown]]
    intervals: int  # how many columns have them

    @property
    def stacked(self) -> bool:
        """Whether intervals stand below their values, to save width."""
        return self.intervals > _WIDE_TABLE

    @property
    def vast(self) -> bool:
        """Whether the table needs a page turned sideways."""
        return self.intervals > _VAST_TABLE or len(self.columns) > 2 * _VAST_TABLE

    @property
    def gaps(self) -> int:
        """How many cells are missing."""
        return sum(cell.missing for row in self.rows for cell in row)


@dataclass(frozen=True)
class FigureView:
    """A picture in both layouts, and its numbers."""

    identifier: str
    series: Series
    wide: str
    narrow: str
    data: TableView


@dataclass(frozen=True)
class FindingView:
    """A finding with its pictures drawn and its tables written out."""

    identifier: str
    finding: Finding
    figures: list[FigureView]
    tables: list[TableView]
    verdicts: list[tuple[Verdict, int]]


def render(
    findings: Sequence[Finding], *, title: str, provenance: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the page; equal findings give equal text."""
    views = [_finding_view(finding, index) for index, finding in enumerate(findings, start=1)]
    counts = Counter(claim.verdict for finding in findings for claim in finding.claims)
    page = _template().render(
        title=title,
        views=views,
        provenance=list(provenance),
        verdicts=_in_order(counts),
        signs=VERDICT_SIGNS,
        meanings=VERDICT_MEANINGS,
        long_list=_LONG_LIST,
    )
    return clean(page)


def _finding_view(finding: Finding, index: int) -> FindingView:
    identifier = f"finding-{index}"
    return FindingView(
        identifier=identifier,
        finding=finding,
        figures=[
            _figure_view(series, f"{identifier}-figure-{number}")
            for number, series in enumerate(finding.series, start=1)
        ],
        tables=[_table_view(table) for table in finding.tables],
        verdicts=_in_order(Counter(claim.verdict for claim in finding.claims)),
    )


def _figure_view(series: Series, identifier: str) -> FigureView:
    return FigureView(
        identifier=identifier,
        series=series,
        wide=draw(series, identifier=f"{identifier}-wide"),
        narrow=draw(series, width=NARROW, identifier=f"{identifier}-narrow"),
        data=_table_view(points_table(series, POINT_KEYS[series.kind])),
    )


def _table_view(table: Table) -> TableView:
    rows = show_rows(table.rows)
    numeric = numeric_columns(rows, len(table.columns))
    intervals = sum(any(row[index].interval for row in rows) for index in range(len(table.columns)))
    return TableView(
        title=table.title,
        note=table.note,
        columns=table.columns,
        numeric=numeric,
        rows=rows,
        intervals=intervals,
    )


def _in_order(counts: Counter[Verdict]) -> list[tuple[Verdict, int]]:
    verdicts: tuple[Verdict, ...] = get_args(Verdict)
    return [(verdict, counts[verdict]) for verdict in verdicts if counts[verdict]]


@cache
def _template() -> Template:
    # Imported here: a program that only might write a report need not load a template engine.
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FunctionLoader(_resource),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals["style"] = Markup(
        palette.stylesheet() + _resource("report.css") + figure_rules()
    )
    return environment.get_template("report.html.j2")


def _resource(name: str) -> str:
    return files("oodometer.reports").joinpath(name).read_text(encoding="utf-8")
