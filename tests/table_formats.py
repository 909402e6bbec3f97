"""Write a sheet of texts as the files that people keep tables in."""

from __future__ import annotations

import csv
import html
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Rows = list[list[str]]


@dataclass(frozen=True)
class Sheet:
    """Lines of titles, lines of cells, and headings before some of these."""

    header: Rows  # in all but the last line, an empty cell continues the one before it
    rows: Rows
    labels: int  # columns before those of results
    headings: Mapping[int, str] = field(default_factory=dict)  # line -> what stands above it
    about: str = ""  # a caption, or a line above the table

    def lines(self) -> Rows:
        """The lines below the header, with headings as lines of one cell."""
        width = len(self.header[-1])
        found: Rows = []
        for number, row in enumerate(self.rows):
            if number in self.headings:
                found.append([self.headings[number], *[""] * (width - 1)])
            found.append(row)
        return found


def as_csv(sheet: Sheet, separator: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(
        [*sheet.header, *sheet.lines()]
    )
    return text.getvalue()


def as_markdown(sheet: Sheet) -> str:
    *above, last = sheet.header
    first = above[0] if above else last
    rest = [*above[1:], last] if above else []
    lines = [first, ["---"] * len(last), *rest, *sheet.lines()]
    table = "\n".join("| " + " | ".join(cell or " " for cell in row) + " |" for row in lines)
    return f"{sheet.about}\n\n{table}\n" if sheet.about else f"{table}\n"


def _spans(row: Sequence[str], labels: int) -> list[tuple[str, int]]:
    """Join the empty cells above results with what stands before them."""
    spans: list[tuple[str, int]] = []
    for column, cell in enumerate(row):
        if cell or column <= labels or not spans:
            spans.append((cell, 1))
        else:
            spans[-1] = (spans[-1][0], spans[-1][1] + 1)
    return spans


def as_latex(sheet: Sheet) -> str:
    width = len(sheet.header[-1])
    lines = []
    for number, row in enumerate(sheet.header):
        spans = (
            _spans(row, sheet.labels) if number < len(sheet.header) - 1 else [(c, 1) for c in row]
        )
        lines.append(" & ".join(
            _tex(cell) if span == 1 else rf"\multicolumn{{{span}}}{{c}}{{{_tex(cell)}}}"
            for cell, span in spans
        ) + r" \\")  # fmt: skip
    lines.append(r"\midrule")
    body = [list(map(_tex, row)) for row in sheet.rows]
    _with_multirows(body, sheet)
    for number, row in enumerate(body):
        if number in sheet.headings:
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{{_tex(sheet.headings[number])}}} \\")
        lines.append(" & ".join(row) + r" \\")
    caption = rf"\caption{{{_tex(sheet.about)}}}" if sheet.about else ""
    return "\n".join([
        r"\begin{table}", caption, rf"\begin{{tabular}}{{{'l' * width}}}", r"\toprule", *lines,
        r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
    ])  # fmt: skip


def _with_multirows(body: Rows, sheet: Sheet) -> None:
    """Write equal names of the first of several label columns once, over all their lines."""
    if sheet.labels < 2 or sheet.headings:
        return
    start = 0
    for number in range(1, len(body) + 1):
        if number < len(body) and body[number][0] == body[start][0]:
            continue
        if number - start > 1:
            body[start][0] = rf"\multirow{{{number - start}}}{{*}}{{{body[start][0]}}}"
            for row in body[start + 1 : number]:
                row[0] = ""
        start = number


def _tex(text: str) -> str:
    if text.startswith("**"):
        return rf"\textbf{{{text.strip('*')}}}"
    for sign, escaped in (("_", r"\_"), ("%", r"\%"), ("±", r"$\pm$"), ("&", r"\&"),
                          ("↑", r"$\uparrow$"), ("↓", r"$\downarrow$"), ("#", r"\#")):  # fmt: skip
        text = text.replace(sign, escaped)
    return text


def as_html(sheet: Sheet) -> str:
    width = len(sheet.header[-1])
    lines = []
    for row in sheet.header:
        spans = _spans(row, sheet.labels) if row is not sheet.header[-1] else [(c, 1) for c in row]
        lines.append("<tr>" + "".join(
            f'<th colspan="{span}">{html.escape(cell)}</th>' if span > 1
            else f"<th>{html.escape(cell)}</th>" for cell, span in spans
        ) + "</tr>")  # fmt: skip
    for number, row in enumerate(sheet.rows):
        if number in sheet.headings:
            lines.append(
                f'<tr><td colspan="{width}">{html.escape(sheet.headings[number])}</td></tr>'
            )
        lines.append("<tr>" + "".join(f"<td>{_html(cell)}</td>" for cell in row) + "</tr>")
    caption = f"<caption>{html.escape(sheet.about)}</caption>" if sheet.about else ""
    return f"<table>{caption}\n" + "\n".join(lines) + "\n</table>\n"


def _html(text: str) -> str:
    bare = html.escape(text.strip("*")) if text.startswith("**") else html.escape(text)
    return f"<b>{bare}</b>" if text.startswith("**") else bare


def as_rst(sheet: Sheet) -> str:
    """Write a grid table, whose cells may be empty."""
    lines = [*sheet.header, *sheet.lines()]
    widths = [max(len(row[c]) for row in lines) + 2 for c in range(len(lines[0]))]
    rule = "+" + "+".join("-" * width for width in widths) + "+"
    text = [sheet.about, ""] if sheet.about else []
    text.append(rule)
    for number, row in enumerate(lines):
        cells = (f" {cell}".ljust(width) for cell, width in zip(row, widths, strict=True))
        text += ["|" + "|".join(cells) + "|"]
        text += [rule.replace("-", "=") if number == len(sheet.header) - 1 else rule]
    return "\n".join([*text, ""])


def as_text(sheet: Sheet) -> str:
    """Align columns with spaces, as printed tables are."""
    lines = [*sheet.header, *sheet.lines()]
    widths = [max(len(row[c]) for row in lines) for c in range(len(lines[0]))]
    text = [sheet.about, ""] if sheet.about else []
    for row in lines:
        text.append("   ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())
    return "\n".join([*text, ""])


def as_xlsx(path: Path, sheets: Mapping[str, Sheet]) -> None:
    """Write a workbook: texts inline, numbers as numbers, groups of titles as merged cells."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    names = "".join(
        f'<sheet name="{html.escape(name)}" sheetId="{n}" r:id="rId{n}"/>'
        for n, name in enumerate(sheets, start=1)
    )
    links = "".join(
        f'<Relationship Id="rId{n}" Type="{office}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in range(1, len(sheets) + 1)
    )
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
                      f"{names}</sheets></workbook>")  # fmt: skip
        book.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}">{links}</Relationships>',
        )
        for n, sheet in enumerate(sheets.values(), start=1):
            book.writestr(f"xl/worksheets/sheet{n}.xml", _worksheet(sheet, main))


def _worksheet(sheet: Sheet, main: str) -> str:
    lines = [*sheet.header, *sheet.lines()]
    above = [[sheet.about]] if sheet.about else []
    rows, merged = [], []
    for n, row in enumerate([*above, *lines], start=1):
        cells = "".join(_xlsx_cell(f"{_letters(c)}{n}", text) for c, text in enumerate(row) if text)
        rows.append(f'<row r="{n}">{cells}</row>')
    for n, row in enumerate(sheet.header[:-1], start=1 + len(above)):
        column = 0
        for _, span in _spans(row, sheet.labels):
            if span > 1:
                merged.append(f'<mergeCell ref="{_letters(column)}{n}:'
                              f'{_letters(column + span - 1)}{n}"/>')  # fmt: skip
            column += span
    merge = f'<mergeCells count="{len(merged)}">{"".join(merged)}</mergeCells>' if merged else ""
    return f'<worksheet xmlns="{main}"><sheetData>{"".join(rows)}</sheetData>{merge}</worksheet>'


def _xlsx_cell(reference: str, text: str) -> str:
    try:
        float(text)
    except ValueError:
        return f'<c r="{reference}" t="inlineStr"><is><t>{html.escape(text)}</t></is></c>'
    if text == "nan" or (text.startswith("0") and text.isdigit() and text != "0"):
        return f'<c r="{reference}" t="inlineStr"><is><t>{text}</t></is></c>'
    return f'<c r="{reference}"><v>{text}</v></c>'


def _letters(column: int) -> str:
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


TEXTS = {
    "csv": as_csv, "tsv": lambda sheet: as_csv(sheet, "\t"),
    "semicolon": lambda sheet: as_csv(sheet, ";"), "md": as_markdown, "tex": as_latex,
    "html": as_html, "rst": as_rst, "txt": as_text,
}  # fmt: skip
SUFFIXES = {"semicolon": "csv"}
PAGES = ("md", "tex", "html", "rst", "txt")  # formats that have prose around tables
