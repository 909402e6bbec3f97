"""What the page shows of findings: figures drawn, tables as text, claims by theme."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oodometer.finding import POINT_KEYS, Finding, Role, Series, Table, Value, Verdict
from oodometer.reports.drawing.figures import NARROW, WIDE, draw
from oodometer.reports.verdicts import ThemeView, by_theme, tally
from oodometer.reports.words import Shown, numeric_columns, one_line, points_table, show_rows

_WIDE_TABLE = 4  # columns with intervals; in wider tables intervals go below their values
_VAST_TABLE = 6
_LEAD = 680.0  # pixels of the first figure, beside which the page says how the data were read


@dataclass(frozen=True)
class Names:
    """What readers can choose: the names that figures mark, each once."""

    detectors: tuple[str, ...]
    sets: tuple[str, ...]
    levels: tuple[tuple[str, str], ...]  # factor, and the level as marks have it: "seed=0"
    families: Mapping[str, tuple[str, ...]]  # of detectors: what they read -> which ones


@dataclass(frozen=True)
class TableView:
    """A table ready to be rendered: cells as text, and which columns are numeric."""

    identifier: str
    title: str
    note: str
    columns: tuple[str, ...]
    sets: list[str]  # of each column: the outlier set that it is about, or ""
    numeric: list[bool]
    rows: list[list[Shown]]
    marks: list[dict[str, str]]  # what each row is about: {"detector": "knn"}
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
    lead: FigureView | None  # the figure beside the answer
    figures: list[FigureView]
    tables: list[TableView]
    themes: list[ThemeView]
    verdicts: list[tuple[Verdict, int]]


def names_in(findings: Sequence[Finding]) -> Names:
    """Collect what the figures mark, in the order in which they come."""
    every = [series for finding in findings for series in finding.series]

    def of_role(role: Role) -> tuple[str, ...]:
        found = (
            one_line(point[key])
            for series in every
            for key, own in series.roles.items()
            if own == role
            for point in series.points
            if point.get(key) is not None
        )
        return tuple(dict.fromkeys(found))

    levels = (
        (own["factor"], own["level"])
        for series in every
        if {"factor", "level"} <= set(series.roles.values())
        for own in map(_marks_of(series), series.points)
    )
    detectors = of_role("detector")
    families: dict[str, list[str]] = {}
    read = {
        one_line(name): family for finding in findings for name, family in finding.families.items()
    }
    for detector in detectors:
        if detector in read:
            families.setdefault(read[detector], []).append(detector)
    return Names(
        detectors,
        of_role("set"),
        tuple(dict.fromkeys(levels)),
        {family: tuple(own) for family, own in sorted(families.items())},
    )


def _marks_of(series: Series) -> Callable[[Mapping[str, Value]], dict[str, str]]:
    """Return what says of a point which detector, set or level it stands for, as drawings do."""

    def marks(point: Mapping[str, Value]) -> dict[str, str]:
        own: dict[str, str] = {
            role: one_line(point[key]) for key, role in series.roles.items() if key in point
        }
        if "factor" in own and "level" in own:
            own["level"] = f"{own['factor']}={own['level']}"
        return own

    return marks


def finding_views(findings: Sequence[Finding], names: Names) -> list[FindingView]:
    """Draw and format all findings; the first one starts with its first figure."""
    return [_finding_view(finding, index, names) for index, finding in enumerate(findings, start=1)]


def _finding_view(finding: Finding, index: int, names: Names) -> FindingView:
    identifier = f"finding-{index}"
    figures = [
        _figure_view(series, f"{identifier}-figure-{number}", _LEAD if number == index == 1 else 0)
        for number, series in enumerate(finding.series, start=1)
    ]
    is_first = index == 1 and bool(finding.answer) and bool(figures)
    return FindingView(
        identifier=identifier,
        finding=finding,
        lead=figures[0] if is_first else None,
        figures=figures[1:] if is_first else figures,
        tables=[
            _table_view(
                table,
                f"{identifier}-table-{number}",
                _row_marks(table, names),
                _column_sets(table, names),
            )
            for number, table in enumerate(finding.tables, start=1)
        ],
        themes=by_theme(finding.claims),
        verdicts=tally(finding.claims),
    )


def _figure_view(series: Series, identifier: str, width: float) -> FigureView:
    marks = list(map(_marks_of(series), series.points))
    return FigureView(
        identifier=identifier,
        series=series,
        wide=draw(series, width=width or WIDE, identifier=f"{identifier}-wide"),
        narrow=draw(series, width=NARROW, identifier=f"{identifier}-narrow"),
        data=_table_view(
            points_table(series, POINT_KEYS[series.kind]), f"{identifier}-data", marks
        ),
    )


def _row_marks(table: Table, names: Names) -> list[dict[str, str]]:
    """Say what rows are about: tables name it in their first column."""
    known: Mapping[str, frozenset[str]] = {
        "detector": frozenset(names.detectors),
        "set": frozenset(names.sets),
    }
    firsts = [one_line(row[0]) if row else "" for row in table.rows]
    return [{role: first for role, own in known.items() if first in own} for first in firsts]


def _column_sets(table: Table, names: Names) -> list[str]:
    """Say which outlier sets columns are about: those with their name, or under it."""
    known = frozenset(names.sets)
    parts = [one_line(table.sections.get(column, (column, ""))[0]) for column in table.columns]
    return [part if part in known else "" for part in parts]


def _table_view(
    table: Table, identifier: str, marks: list[dict[str, str]], sets: Sequence[str] = ()
) -> TableView:
    rows = show_rows(table)
    numeric = numeric_columns(rows, len(table.columns))
    intervals = sum(any(row[index].interval for row in rows) for index in range(len(table.columns)))
    return TableView(
        identifier=identifier,
        title=table.title,
        note=table.note,
        columns=table.columns,
        sets=list(sets) or [""] * len(table.columns),
        numeric=numeric,
        rows=rows,
        marks=marks,
        intervals=intervals,
    )
