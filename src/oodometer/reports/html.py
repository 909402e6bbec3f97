"""One self-contained HTML page for findings: no network, light and dark, screen and paper."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from oodometer.finding import POINT_KEYS, Finding, Series, Table, Verdict
from oodometer.reports.drawing import palette
from oodometer.reports.drawing.figures import NARROW, draw, figure_rules
from oodometer.reports.verdicts import BADGES, READING_TITLE, tally
from oodometer.reports.words import Shown, clean, numeric_columns, points_table, show_rows

if TYPE_CHECKING:
    from jinja2 import Template

_WIDE_TABLE = 4  # columns with intervals; in wider tables intervals go below their values
_VAST_TABLE = 6
_LONG_LIST = 40
_HEADLINES = 2  # claims above the account of how the data were read


@dataclass(frozen=True)
class TableView:
    """A table ready to be rendered: cells as text, and which columns are numeric."""

    title: str
    note: str
    columns: tuple[str, ...]
    numeric: list[bool]
    rows: list[list[Shown]]
    intervals: int  # number of columns with intervals

    @property
    def stacked(self) -> bool:
        """Whether intervals are written below their values, to save width."""
        return self.intervals > _WIDE_TABLE

    @property
    def vast(self) -> bool:
        """Whether the table needs a landscape page when printed."""
        return self.intervals > _VAST_TABLE or len(self.columns) > 2 * _VAST_TABLE

    @property
    def gaps(self) -> int:
        """Number of missing cells."""
        return sum(cell.missing for row in self.rows for cell in row)


@dataclass(frozen=True)
class FigureView:
    """A figure in both layouts, and its numbers."""

    identifier: str
    series: Series
    wide: str
    narrow: str
    data: TableView


@dataclass(frozen=True)
class FindingView:
    """A finding with its figures drawn and its tables formatted."""

    identifier: str
    finding: Finding
    figures: list[FigureView]
    tables: list[TableView]
    verdicts: list[tuple[Verdict, int]]


_POLICY = "content-security-policy"  # stands in for the policy until the page is whole


def render(
    findings: Sequence[Finding], *, title: str, provenance: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the page; equal findings give equal text."""
    views = [_finding_view(finding, index) for index, finding in enumerate(findings, start=1)]
    page = _template().render(
        policy=_POLICY,
        title=title,
        views=views,
        provenance=list(provenance),
        verdicts=tally(claim for finding in findings for claim in finding.claims),
        badges=BADGES,
        long_list=_LONG_LIST,
        headline_count=_HEADLINES,
        reading_title=READING_TITLE,
    )
    page = clean(page)
    return page.replace(_POLICY, _policy(page), 1)


def _policy(page: str) -> str:
    """Allow exactly the style and the scripts that the page has, and nothing from elsewhere."""

    def hashes(tag: str) -> str:
        parts = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digests = [hashlib.sha256(part.encode()).digest() for part in parts]
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

    return (
        f"default-src 'none'; style-src {hashes('style')}; script-src {hashes('script')}; "
        "img-src data:; form-action 'none'; base-uri 'none'"
    )


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
        verdicts=tally(finding.claims),
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
