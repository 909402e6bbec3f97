"""Reports: what is drawn is what was found, for every reader and every awkward finding."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import pytest
import sample_findings as samples
from rich.console import Console

from oodometer.errors import UserError
from oodometer.finding import POINT_KEYS, Claim, Finding, Series, Table
from oodometer.metrics import Estimate
from oodometer.reports import DOCUMENTS, draw, markdown, render, report, terminal
from oodometer.reports.csv_file import csv_report
from oodometer.reports.drawing.figures import NARROW, WIDE
from oodometer.reports.drawing.palette import DARK, HUES, LIGHT, STEPS
from oodometer.reports.drawing.scales import Scale, ticks, value_range
from oodometer.reports.text import summary
from oodometer.reports.verdicts import BADGES
from oodometer.reports.words import rounded, shorten, show_rows, text_width, wrap

# Test modules are imported by path, so their neighbours are too.
KINDS = tuple(POINT_KEYS)
VOID = {"meta", "link", "br", "hr", "img", "input", "wbr", "area", "base", "col", "embed"}


class Page(HTMLParser):
    """Reads a page and complains about tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        assert len(attributes) == len(dict(attributes)), f"an attribute twice: {attributes}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def values(self, attribute):
        return [found[attribute] for _, found in self.tags if attribute in found]

    @property
    def text(self):
        return " ".join("".join(self.words).split())


@pytest.fixture(scope="module")
def finding() -> Finding:
    return samples.ranking()


@pytest.fixture(scope="module")
def page_text(finding: Finding) -> str:
    other = replace(finding, title="Another finding")
    return render([finding, other], title="Digits & friends", provenance=samples.PROVENANCE)


def awkward() -> list[Series]:
    """Return every kind of picture with every kind of trouble."""
    found = []
    for kind in KINDS:
        found += [
            samples.one_point(kind),
            samples.one_point(kind, None),
            samples.one_point(kind, 0.0),
            samples.one_point(kind, 0.5, samples.HOSTILE),
            samples.one_point(kind, 0.5, ""),
            samples.one_point(kind, 0.5, "名" * 200),
            samples.many(kind, [0.8]),
            samples.many(kind, [None]),
            samples.many(kind, [-3.5, 0.2, None, 1.7, 250.0]),
            samples.many(kind, [1e-9, 2e-9]),
            samples.many(kind, [1e12, -1e12]),
            samples.many(kind, [0.1 * i for i in range(10)], labels=25, groups=8),
            samples.many(kind, [0.001 * i for i in range(700)], labels=7, groups=3),
            samples.many(kind, [0.3, 0.4], labels=1, groups=40),
            Series(kind, "empty", "", "", "AUROC", ()),
        ]
    return found


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("series", awkward(), ids=lambda series: f"{series.kind}-{series.name}")
def test_every_picture_is_well_formed_and_stays_inside_its_frame(series, width):
    text = draw(series, width=width, identifier="here")
    root = ElementTree.fromstring(text)
    assert root.attrib["role"] == "img"
    ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))
    named = root.attrib["aria-labelledby"].split()
    assert set(named) <= set(ids)
    assert root[0].tag == "title"
    assert root[1].tag == "desc"
    assert root[1].text
    right, bottom = float(root.attrib["width"]), float(root.attrib["height"])
    assert right <= width + 1
    for element in root.iter():
        for name in ("x", "cx", "x1", "x2"):
            assert -0.01 <= float(element.attrib.get(name, 0)) <= right + 0.01
        for name in ("y", "cy", "y1", "y2"):
            assert -0.01 <= float(element.attrib.get(name, 0)) <= bottom + 0.01
    for mark in root.iter():
        if mark.attrib.get("class", "").startswith("mark"):
            assert mark.find("title").text


def positions(root, value_of):
    """Return (value, x) of every mark."""
    found = []
    for mark in root.iter():
        if "data-value" in mark.attrib:
            found.append((float(mark.attrib["data-value"]), value_of(mark)))
    return sorted(found)


def of_dot(mark):
    return float(mark.find("circle").attrib["cx"])


def of_path(mark):
    return float(re.match(r"translate\(([-\d.]+),", mark.attrib["transform"])[1])


@pytest.mark.parametrize(("kind", "value_of"), [("intervals", of_dot), ("strips", of_path)])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_equal_differences_are_equal_distances(kind, value_of, width):
    series = samples.many(kind, [0.5, 0.6, 0.7, 0.9], labels=4, groups=1)
    found = positions(ElementTree.fromstring(draw(series, width=width)), value_of)
    (_, a), (_, b), (_, c), (_, d) = found
    assert a < b < c < d
    assert b - a == pytest.approx(c - b, abs=0.02)
    assert d - c == pytest.approx(2 * (b - a), abs=0.04)
    assert d - a > width / 8


def test_lines_rise_with_their_values_and_run_with_x():
    series = samples.many("lines", [0.5, 0.6, 0.9], labels=1, groups=3)
    root = ElementTree.fromstring(draw(series))
    marks = [mark for mark in root.iter() if "data-value" in mark.attrib]
    places = [(float(mark.attrib["cx"]), float(mark.attrib["cy"])) for mark in marks]
    (x0, y0), (x1, y1), (x2, y2) = places
    assert x1 - x0 == pytest.approx(x2 - x1) and x1 > x0
    assert y0 - y1 == pytest.approx((y0 - y2) / 4, abs=0.02) and y1 < y0  # 0.1 of 0.4, upwards


def test_latex_has_one_cell_per_column_and_escapes_words(finding, tmp_path):
    (path,) = report([finding], tmp_path, formats=["latex"])
    text = path.read_text()
    # The table with intervals on five sets needs both columns of a two-column paper.
    assert re.findall(r"\\begin\{(table\*?)\}", text) == ["table*", "table"]
    inside = re.findall(r"\\toprule\n(.*?)\\bottomrule", text, flags=re.S)
    for block, table in zip(inside, finding.tables, strict=True):
        lines = [line for line in block.splitlines() if line.endswith(r" \\")]
        assert len(lines) == len(table.rows) + 1
        assert {len(re.split(r"(?<!\\) & ", line)) for line in lines} == {len(table.columns)}
    hostile = replace(finding, title="50 % of a_b & {c} #1 ~ ^ \\x")
    (path,) = report([hostile], tmp_path, formats=["latex"])
    assert r"50 \% of a\_b \& \{c\} \#1" in path.read_text()


def test_latex_numbers_have_minus_signs_and_powers_of_ten(tmp_path):
    rows = (("a_b", Estimate(0.01, -0.02, 0.04), 3.2e-9, 3.2e-9), ("c", None, 0.5, 0.0123))
    table = Table("x", "y", ("who", "ahead", "variance", "adjusted p"), rows)
    (path,) = report([Finding("p", "t", "q", (), (table,))], tmp_path, formats=["latex"])
    text = path.read_text()
    assert r"a\_b & 0.010 [$-$0.020, 0.040] & 3.2$\times10^{-9}$ & $<$ 0.0001 \\" in text
    assert r"c & missing & 0.500 & 0.012 \\" in text


def test_values_that_lie_close_together_are_told_apart_and_less_than_1_is_never_1(tmp_path):
    summed = sum([0.8697, 0.8694, 0.8724]) / 3  # 0.8705, but for the last bit
    rows = (
        ("a", Estimate(0.99963, 0.99925, 0.999996), 0.0011, summed),
        ("b", Estimate(0.99893, 0.99794, 0.99926), 0.0002, 0.8705),
    )
    table = Table("x", "y", ("who", "mean", "spread", "other"), rows)
    (path,) = report([Finding("p", "t", "q", (), (table,))], tmp_path, formats=["md"])
    text = path.read_text()
    assert "| a | 0.9996 [0.9992, 0.99999] | 0.0011 | 0.871 |" in text
    assert "| b | 0.9989 [0.9979, 0.9993] | 0.0002 | 0.871 |" in text


HOSTILE = ("[x] y", "*star", "a--b---c", "σ αΔ", "Łódź Ħ", "\\\\", "a\"b'", "<b>|", "%&#_${}~^",
           "日本", "👍", "\\input{x}", "^^M", "±×≥≤→–…", "ﬁ ß ẞ")  # fmt: skip


def test_latex_turns_wide_tables_and_breaks_long_ones(tmp_path):
    wide = Table("w", "wide", ("who", *(f"c{n}" for n in range(12))), ((" a_b", *[0.5] * 12),))
    long = Table("l", "long", ("who", "value"), tuple((f"r{n}", 0.25) for n in range(50)))
    (path,) = report([Finding("p", "t", "q", (), (wide, long))], tmp_path, formats=["latex"])
    text = path.read_text()
    assert r"who & a\_b \\" in text and r"c11 & 0.500 \\" in text
    assert "longtable" not in text and r"r49 & 0.250 \\" in text  # two columns refuse that
    first, second = text.split(", continued.")
    assert r"r39 & 0.250 \\" in first and r"r40 & 0.250 \\" in second


def test_latex_stops_at_no_letter(tmp_path):
    rows = tuple((name, 0.5) for name in 3 * HOSTILE)  # 45: more than a page holds
    table = Table("x #1%", "y", ("who", "n"), rows)
    claims = tuple(Claim(name, "holds", name) for name in HOSTILE)
    finding = Finding("p", "t", "q", claims, (table,), caveats=HOSTILE)
    (path,) = report([finding], tmp_path, title=" ".join(HOSTILE), formats=["latex"])
    text = path.read_text()
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert r"\unicodesign{65E5}" in body and r"$\sigma$ $\alpha$$\Delta$" in body
    assert not re.findall(r"[^\x00-\u017f]", body) and "    {[}x{]} y & " in body
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    (tmp_path / "main.tex").write_text(
        r"\documentclass[twocolumn]{article}\usepackage[T1]{fontenc}\usepackage{booktabs,graphicx}"
        r"\begin{document}\input{report.tex}\end{document}"
    )
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "main.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-2000:]


def test_csv_reads_back_to_the_same_numbers(finding, tmp_path):
    import pandas as pd

    (path,) = report([finding], tmp_path, formats=["csv"])
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    for table in finding.tables:
        read = frame[frame["table"] == table.name][["value", "low", "high"]].to_numpy().tolist()
        cells = [cell for row in table.rows for cell in row[1:]]
        for cell, told in zip(cells, read, strict=True):
            numbers = cell if isinstance(cell, Estimate) else (cell, None, None)
            assert told == ["" if number is None else str(number) for number in numbers]


def test_narrow_intervals_are_written_so_that_their_width_shows():
    pair = (("a", Estimate(0.895, 0.8948, 0.8952)), ("b", Estimate(0.8, 0.7998, 0.8002)))
    rows = show_rows(Table("x", "y", ("who", "mean"), pair))
    assert [row[1].interval for row in rows] == ["[0.8948, 0.8952]", "[0.7998, 0.8002]"]


def test_csv_holds_every_number_of_every_table(finding, tmp_path):
    import pandas as pd

    (path,) = report([finding], tmp_path, formats=["csv"])
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    for table in finding.tables:
        part = frame[frame["table"] == table.name]
        assert len(part) == len(table.rows) * (len(table.columns) - 1)
        for cell, value, low in zip(
            (cell for row in table.rows for cell in row[1:]),
            part["value"],
            part["low"],
            strict=True,
        ):
            if isinstance(cell, Estimate):
                assert (float(value), float(low)) == (cell.value, cell.low)
            else:
                assert value == ("" if cell is None else str(cell))
    assert (frame["table"] == "claims").sum() == 2 * len(finding.claims)


def test_an_interval_reaches_from_low_to_high():
    points = (
        {"label": "a", "group": "g", "value": 0.6, "low": 0.5, "high": 0.8},
        {"label": "b", "group": "g", "value": 0.8, "low": 0.6, "high": 0.9},
        {"label": "c", "group": "g", "value": 0.7, "low": None, "high": None},
    )
    root = ElementTree.fromstring(draw(Series("intervals", "n", "t", "d", "AUROC", points)))
    marks = [mark for mark in root.iter() if mark.attrib.get("class") == "mark"]
    whiskers = [mark.find("line") for mark in marks]
    assert float(whiskers[0].attrib["x2"]) == pytest.approx(of_dot(marks[1]), abs=0.02)
    assert float(whiskers[1].attrib["x1"]) == pytest.approx(of_dot(marks[0]), abs=0.02)
    assert whiskers[2] is None
    assert marks[0].find("title").text == "a, g: AUROC 0.600 [0.500, 0.800]"
    assert of_dot(marks[0]) < of_dot(marks[2]) < of_dot(marks[1])


def test_rows_keep_the_given_order_and_panels_share_them(finding):
    root = ElementTree.fromstring(draw(finding.series[0]))
    heights = {}
    for mark in root.iter():
        if mark.attrib.get("class") == "mark":
            label = mark.find("title").text.split(", ")[0]
            heights.setdefault(label, set()).add(float(mark.find("circle").attrib["cy"]))
    assert all(len(rows) == 1 for rows in heights.values())
    drawn = sorted(heights, key=lambda label: min(heights[label]))
    assert drawn == list(samples.DETECTORS)


def test_groups_without_a_common_label_are_sections():
    points = tuple(
        {"label": f"{group}{index}", "group": group, "value": 0.5, "low": 0.4, "high": 0.6}
        for group in ("logits", "distances")
        for index in range(3)
    )
    text = draw(Series("intervals", "n", "t", "d", "AUROC", points))
    assert "missing" not in text
    dots = re.findall(r'cy="([\d.]+)"', text)
    assert len(set(dots)) == 6


@pytest.mark.parametrize(
    ("label", "values", "shown"),
    [
        ("AUROC", [0.4, 0.9], True),
        ("mean AUROC", [0.4, 0.9], True),
        ("AUROC", [0.8, 0.9], False),
        ("FPR at 95 % TPR", [0.4, 0.9], False),
    ],
)
def test_the_line_of_chance_is_drawn_only_where_it_means_something(label, values, shown):
    series = replace(samples.many("strips", values), value_label=label)
    assert ("chance" in draw(series)) is shown


def test_missing_marks_are_named_where_they_would_be():
    absent = samples.many("intervals", [0.5], labels=3, groups=2)
    without = replace(absent, points=absent.points[:-1])
    root = ElementTree.fromstring(draw(without))
    gaps = [found for found in root.iter() if found.attrib.get("class") == "mark-missing"]
    assert [gap.find("title").text for gap in gaps] == ["detector 2, group 1: missing"]
    empty = replace(absent, points=(*without.points, {**absent.points[-1], "value": None}))
    assert "detector 2, group 1: missing" in draw(empty)


def test_a_heat_map_prints_every_value_and_hatches_gaps():
    series = samples.many("heatmap", [0.11, 0.22, None, 0.44], labels=4, groups=2)
    series = replace(series, points=series.points[:-1])
    for width in (WIDE, NARROW):
        root = ElementTree.fromstring(draw(series, width=width, identifier="f"))
        words = [text.text for text in root.iter("text")]
        for value, times in (("0.110", 2), ("0.220", 2), ("0.440", 1)):
            assert sum(word == value for word in words) >= times
        gaps = [found for found in root.iter() if found.attrib.get("class") == "cell-missing"]
        assert len(gaps) == 3  # two are None, one was never given
        assert all("url(#f-hatch)" in gap.find("rect").attrib["fill"] for gap in gaps)
        assert "missing" in words


def test_a_heat_map_is_darker_for_more():
    series = samples.many("heatmap", [1.0, 2.0, 3.0, 4.0, 5.0], labels=5, groups=1)
    root = ElementTree.fromstring(draw(series))
    cells = [
        g for g in root.iter("g") if g.find("rect") is not None and g.find("title") is not None
    ]
    steps = [int(re.search(r"step-(\d)", cell.find("rect").attrib["class"])[1]) for cell in cells]
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, STEPS - 1)
    assert [cell.find("text").text for cell in cells] == ["1", "2", "3", "4", "5"]


def test_levels_differ_in_colour_and_in_shape():
    points = tuple(
        {"label": "knn", "panel": "seed", "level": level, "value": 0.5 + level / 100, "run": level}
        for level in range(12)
    )
    root = ElementTree.fromstring(draw(Series("strips", "n", "t", "d", "AUROC", points)))
    marks = [mark for mark in root.iter("path") if "data-value" in mark.attrib]
    looks = {(mark.attrib["d"], mark.attrib["class"]) for mark in marks}
    assert len(looks) == 12
    shapes = [mark.attrib["d"] for mark in marks[:5]]
    assert len(set(shapes)) == 5
    keys = [mark for mark in root.iter("path") if "data-value" not in mark.attrib]
    assert len(keys) == 12
    assert marks[3].find("title").text == "knn, seed 3: AUROC 0.530; run: 3"


def test_pictures_of_one_page_have_ids_of_their_own():
    series = samples.one_point("heatmap")
    ids = [
        set(re.findall(r'id="([^"]+)"', draw(series, identifier=name))) for name in ("one", "two")
    ]
    assert not ids[0] & ids[1]


def test_a_standalone_picture_brings_its_style():
    text = draw(samples.many("strips", [0.5, 0.7]), standalone=True)
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "--ink" in root.find("{http://www.w3.org/2000/svg}style").text


def test_the_page_is_well_formed(page_text):
    page = Page(page_text)
    assert page_text.startswith("<!DOCTYPE html>")
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    for names in page.values("aria-labelledby"):
        assert set(names.split()) <= set(ids)
    for link in page.values("href"):
        assert link == "data:," or link[1:] in ids
    headings = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    tags = [tag for tag, _ in page.tags]
    assert {"header", "main", "nav", "footer"} <= set(tags)
    assert tags.count("caption") == tags.count("table")
    scopes = [found.get("scope") for tag, found in page.tags if tag == "th"]
    assert set(scopes) == {"col", "row"}
    assert tags.count("svg") == 12  # two findings, three figures, two layouts
    for svg in re.findall(r"<svg.*?</svg>", page_text, flags=re.DOTALL):
        root = ElementTree.fromstring(svg)
        assert root.find("title").text.strip()
        assert root.find("desc").text.strip()


def test_the_page_loads_nothing(page_text):
    assert not re.search(r"""(src|href|data|action)\s*=\s*["']?(https?:)?//""", page_text)
    assert not re.search(r"""(src|href)\s*=\s*["']?https?:""", page_text)
    assert "@import" not in page_text
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page_text))
    assert not re.search(r"fetch\(|XMLHttpRequest|<iframe|<object|<embed", page_text)


def test_claims_come_first_and_verdicts_are_words(finding):
    text = Page(render([finding], title="t")).text
    order = [
        text.index(finding.claims[0].text),
        text.index("Setup"),
        text.index(finding.series[0].title),
        text.index(finding.tables[1].title),
        text.index(finding.caveats[0]),
        text.index(finding.missing[0]),
    ]
    assert order == sorted(order)
    for claim in finding.claims:
        words = (BADGES[claim.verdict].label, claim.text, claim.evidence)
        assert re.search(r"\s*".join(map(re.escape, words)), text)
    assert "Contents" not in text
    assert "Contents" in Page(render([finding, finding], title="t")).text


def test_each_number_of_a_table_is_on_the_page_and_in_the_markdown(finding):
    page, written = Page(render([finding], title="t")).text, markdown(finding)
    for table in finding.tables:
        for row in show_rows(table):
            for cell in row:
                assert cell.full in page
                assert cell.text in written
                if cell.interval:
                    assert cell.full in written
    for cell in finding.missing:
        assert cell in page
        assert cell in written
    assert "missing: 3 cells have no value." in page


def test_a_column_has_one_number_of_decimals():
    rows = ((1, 7, 1.0), (0.25, 12, 3.5), (Estimate(0.5, 0, 1), None, -0.0001))
    written = [
        [cell.full for cell in row] for row in show_rows(Table("x", "y", ("a", "b", "c"), rows))
    ]
    assert written == [
        ["1.000", "7", "1.00"],
        ["0.250", "12", "3.50"],
        ["0.500 [0.000, 1.000]", "missing", "-1.0e-04"],
    ]


def test_provenance_and_facts_are_shown(finding):
    text = Page(render([finding], title="t", provenance=samples.PROVENANCE)).text
    for name, value in (*samples.PROVENANCE, *finding.facts):
        assert f"{name}{value}" in text or f"{name} {value}" in text


def hostile() -> Finding:
    bad = samples.HOSTILE
    table = Table(bad, bad, (bad, "b|c"), ((bad, Estimate(0.5, 0.4, 0.6)), (bad, None)), bad)
    return Finding(
        protocol=bad,
        title=bad,
        question=bad,
        claims=(Claim(bad, "holds", bad),),
        tables=(table,),
        series=tuple(samples.one_point(kind, 0.5, bad) for kind in KINDS),
        caveats=(bad,),
        missing=(bad,),
        facts=((bad, bad),),
    )


def test_hostile_words_stay_words():
    text = render(
        [hostile(), hostile()], title=samples.HOSTILE, provenance=[(samples.HOSTILE,) * 2]
    )
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert "\x1b" not in text
    assert "\x00" not in text
    assert "<script>alert(\"1\")</script> & 'x' | `y` [z](w)" in page.text
    for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        assert not list(ElementTree.fromstring(svg).iter("script"))
    plain = markdown(hostile())
    assert "<script" not in plain
    assert "[z](w)" not in plain
    assert "\x1b" not in plain
    printed = shown(hostile(), 80)
    assert "\x1b" not in printed
    for anywhere in (text, plain, printed):  # nothing turns the rest of a line around
        assert "\u202e" not in anywhere and "u202e" in anywhere
    assert "[z](w)" in printed


def test_half_a_character_does_not_stop_a_report(tmp_path):
    odd = replace(hostile(), title="half \ud800 character")
    assert len(report([odd], tmp_path, title="\udfff", formats=("html", "md"))) == 2


@pytest.mark.parametrize(
    "finding",
    [
        Finding("p", "t", "", ()),
        Finding("p", "t", "q", (), tables=(Table("n", "t", ("a",), ()), Table("m", "t", (), ()))),
        Finding("p", "t", "q", (), series=tuple(awkward())),
    ],
    ids=["bare", "empty tables", "awkward"],
)
def test_thin_findings_are_still_reports(finding):
    Page(render([finding], title="t"))
    assert markdown(finding)
    assert shown(finding, 80)


def test_every_format_shows_the_same_word_for_a_verdict(tmp_path):
    claims = (Claim("a beats b.", "flips", "3 of 9 runs"), Claim("c is fair.", "warning", ""))
    finding = Finding("p", "t", "q", claims)
    texts = [path.read_text() for path in report([finding], tmp_path, formats=DOCUMENTS)]
    for text in (*texts, shown(finding, 80)):
        assert "unstable" in text and "warning" in text
    for text in (Page(texts[0]).text, *texts[1:]):  # of the page, what is read
        assert "flips" not in text


def test_no_findings_is_said():
    assert "No findings." in Page(render([], title="t")).text


def test_equal_findings_give_equal_pages(finding):
    assert render([finding], title="t") == render([samples.ranking()], title="t")


def test_many_missing_cells_are_counted():
    many = Finding("p", "t", "q", (), missing=tuple(f"cell {index}" for index in range(100)))
    text = render([many], title="t")
    assert "100 missing cells" in text
    assert '<details class="gaps">' in text


def test_markdown_tables_have_one_shape(finding):
    odd = Table("n", "t", ("a|b", "c"), (("x|y", 1), ("z", None)))
    for part in (finding, replace(finding, tables=(odd,))):
        blocks = re.findall(r"(?:^\|.*\|\n?)+", markdown(part), flags=re.MULTILINE)
        assert len(blocks) == len(part.tables)
        for block, table in zip(blocks, part.tables, strict=True):
            lines = block.strip().split("\n")
            counts = {len(re.split(r"(?<!\\)\|", line)) - 2 for line in lines}
            assert counts == {len(table.columns)}
            assert len(lines) == len(table.rows) + 2
    assert "| z | *missing* |" in markdown(replace(finding, tables=(odd,)))


def shown(finding: Finding, width: int, *, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="")
    console = Console(width=width, file=stream, color_system=None, legacy_windows=False)
    console.print(terminal(finding))
    stream.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_terminal_is_never_wider_than_it_is(finding, width):
    text = shown(finding, width)
    assert max(len(line) for line in text.split("\n")) <= width
    if width >= 80:
        for name in samples.DETECTORS:
            assert name in text
        assert "0.873 [0.855, 0.889]" in text
    for claim in finding.claims:
        assert BADGES[claim.verdict].label in text
    left_out = "Omitted to fit the terminal" in " ".join(text.split())
    assert left_out is (width < 200)


def test_what_the_terminal_leaves_out_is_named(finding):
    text = " ".join(shown(finding, 80).split())
    assert (
        "Omitted to fit the terminal: further intervals; columns uniform noise, inverted, "
        "held-out classes 8, 9."
    ) in text


def test_bars_on_the_terminal_name_their_range_and_keep_order():
    rows = (("a", Estimate(0.6, 0.5, 0.7)), ("b", Estimate(0.9, 0.8, 1.0)), ("c", None))
    finding = Finding("p", "t", "q", (), tables=(Table("n", "t", ("detector", "AUROC"), rows),))
    text = shown(finding, 80)
    assert "0.48" in text
    first = next(line for line in text.split("\n") if line.startswith("a "))
    second = next(line for line in text.split("\n") if line.startswith("b "))
    assert first.index("●") < second.index("●")
    assert "●" not in next(line for line in text.split("\n") if line.startswith("c "))
    plain = shown(finding, 80, encoding="ascii")
    assert "-o-" in plain
    assert max(len(line) for line in plain.split("\n")) <= 80
    plain = shown(samples.ranking(), 80, encoding="ascii")
    assert plain.isascii() and re.search(r"\d-\d", plain), "ranges keep a dash"


@pytest.mark.parametrize("ends", [(-3900.0, 1.02e5), (-1.234e-7, 1.234e-7), (-9.99e99, 9.99e101)])
def test_the_ends_of_a_wide_range_do_not_run_together(ends):
    rows = (("a", Estimate(sum(ends) / 2, *ends)),)
    finding = Finding("p", "t", "q", (), tables=(Table("n", "t", ("detector", "gap"), rows),))
    low, high = value_range(list(ends))
    head = next(line for line in shown(finding, 120).split("\n") if line.startswith("detector"))
    shown_ends = [float(word) for word in head.split()[2:]]
    assert shown_ends == pytest.approx([low, high], rel=0.1)


@pytest.mark.parametrize("width", [40, 60, 70, 80, 100, 120, 140, 200])
def test_no_number_on_the_terminal_is_cut(width):
    columns = ("detector", "mean", "uniform noise", "Gaussian noise", "pixel-shuffled digits")
    rows = tuple(
        (name, *(Estimate(0.901 + i / 100, 0.85, 0.99) for i in range(4)))
        for name in ("vim", "local_outlier_factor(metric=cosine)")
    )
    finding = Finding("p", "t", "q", (), tables=(Table("n", "t", columns, rows),))
    text = shown(finding, width)
    said = " ".join(text.split())
    numbers = ("0.901", "0.911", "0.921", "0.931")
    for index, (name, number) in enumerate(zip(columns[1:], numbers, strict=True)):
        left_out = name in said.partition("Omitted")[2]
        assert left_out or text.count(number) == 2, (
            f"column {index}: {name} is neither shown nor named"
        )
    assert max(len(line) for line in text.split("\n")) <= width


def test_write_makes_the_directory_and_leaves_nothing_else(tmp_path, finding):
    folder = tmp_path / "a" / "b"
    paths = report([finding], folder, title="t", formats=("html", "md"))
    assert paths == [folder / "report.html", folder / "report.md"]
    assert sorted(folder.iterdir()) == sorted(paths)
    assert paths[0].read_text(encoding="utf-8") == render([finding], title="t")
    assert paths[1].read_text(encoding="utf-8").startswith("# t\n\n## Does the ranking")
    again = report([replace(finding, title="new")], folder, title="t")
    assert "new" in again[0].read_text(encoding="utf-8")


def test_write_says_what_is_wrong(tmp_path, finding):
    with pytest.raises(UserError, match=r"Unknown report format 'htm'\. Did you mean 'html'\?"):
        report([finding], tmp_path, title="t", formats=("htm",))
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=r"Cannot write the report to '.*file/report\.html': .+\."):
        report([finding], tmp_path / "file", title="t")
    (tmp_path / "report.html").mkdir()
    with pytest.raises(UserError, match="Cannot write"):
        report([finding], tmp_path, title="t")
    assert not list(tmp_path.glob(".report*"))


def luminance(colour: str) -> float:
    channels = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_words_and_marks_stand_out(colours):
    for ground in ("page", "card"):
        for words in ("ink", "muted", "accent", "holds", "flips", "undecided"):
            assert contrast(colours[words], colours[ground]) >= 4.5, (words, ground)
    for verdict in ("holds", "flips", "undecided"):
        assert contrast(colours[verdict], colours[f"{verdict}-ground"]) >= 4.5
    assert contrast(colours["ink"], colours["guide"]) >= 4.5
    for step in range(STEPS):
        assert contrast(colours[f"step-{step}"], colours[f"on-step-{step}"]) >= 4.5, step
    for hue in range(HUES):
        assert contrast(colours[f"hue-{hue}"], colours["card"]) >= 3, hue
        assert contrast(colours[f"hue-{hue}"], colours["guide"]) >= 3, hue
    shades = [luminance(colours[f"step-{step}"]) for step in range(STEPS)]
    assert shades == sorted(shades, reverse=colours is LIGHT)


def test_scales_are_straight_and_ticks_round():
    scale = Scale(0.0, 2.0, 10.0, 110.0)
    assert [scale(value) for value in (0.0, 0.5, 2.0)] == [10.0, 35.0, 110.0]
    for low, high in ((0.41, 1.0), (-3.0, 12.0), (1.0, 18.0), (1e-9, 3e-9), (0.9899, 0.9911)):
        for count in (2, 3, 6, 12):
            found = ticks(low, high, count)
            assert 1 <= len(found) <= 2 * count + 2
            assert all(low - 1e-9 <= value <= high + 1e-9 for value, _ in found)
            assert len({name for _, name in found}) == len(found)
    assert value_range([0.5, 0.5])[0] < 0.5 < value_range([0.5, 0.5])[1]
    assert value_range([0.9, 1.0])[1] == 1.0
    assert value_range([0.9, 1.1])[1] > 1.1


def test_words_are_cut_to_measure():
    for text in ("mahalanobis(space=logits)", "a" * 80, "two words", "", "名前" * 30):
        for limit in (30, 60, 90, 200):
            assert text_width(shorten(text, limit, 12), 12) <= max(limit, 24)
            broken = wrap(text, limit, 12, 2)
            assert 1 <= len(broken) <= 2
            assert all(text_width(line, 12) <= max(limit, 24) for line in broken)
    assert rounded(-0.0, 2) == "0.00"


def test_drawing_needs_no_heavy_library():
    code = (
        "import sys, oodometer.reports.html, oodometer.reports.text\n"
        "heavy = {'torch', 'pandas', 'jinja2', 'rich', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_allows_exactly_its_own_style_and_scripts(finding):
    page = render([finding], title="a content-security-policy <script>")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "unsafe-inline" not in policy
    assert "form-action 'none'" in policy and "base-uri 'none'" in policy
    for tag in ("style", "script"):
        for content in re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL):
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
    assert not re.search(r"<[^>]* style=", page), "inline styles would be ignored"


@pytest.mark.parametrize("trap", ["=cmd|' /C calc'!A0", "\uff1dSUM(A1)", "\t=1"])
def test_no_name_is_a_formula_in_a_spreadsheet(finding, trap):
    trapped = replace(finding, tables=(Table("t", "T", ("detector", "x"), ((trap, -0.5),)),))
    lines = list(csv.reader(io.StringIO(csv_report([trapped], title=trap))))
    cells = [cell for line in lines for cell in line]
    assert f"'{trap}" in cells and trap not in cells and "-0.5" in cells


def test_no_name_turns_a_line_of_a_csv_file_around(finding):
    trapped = replace(
        finding, tables=(Table("t", "T", ("detector", "x"), (("a\u202egpj\x1b[2J", 1),)),)
    )
    text = csv_report([trapped], title="x\x9b")
    assert "a\\u202egpj[2J" in text and not set("\u202e\x1b\x9b") & set(text)


@pytest.mark.parametrize("kind", KINDS)
def test_every_mark_of_a_detector_carries_its_name(kind):
    """A page marks a selected detector by this attribute in every figure."""
    key = POINT_KEYS[kind][0]
    series = replace(samples.many(kind, [0.65, None, 0.7], labels=4), roles={key: "detector"})
    root = ElementTree.fromstring(draw(series))
    parents = {child: parent for parent in root.iter() for child in parent}

    def detector_of(mark):
        while mark is not None and "data-detector" not in mark.attrib:
            mark = parents.get(mark)
        return None if mark is None else mark.attrib["data-detector"]

    marks = [mark for mark in root.iter() if mark.find("title") is not None and mark is not root]
    assert len(marks) >= 8
    for mark in marks:
        if not mark.find("title").text.startswith("group "):  # of several detectors
            assert mark.find("title").text.startswith(f"{detector_of(mark)}")
    names = [text for text in root.iter("text") if (text.text or "").startswith("detector")]
    assert names and all(detector_of(name) == name.text for name in names)


def test_an_unknown_role_is_refused():
    with pytest.raises(UserError, match="'detektor'.*detector"):
        replace(samples.many("lines", [0.5]), roles={"label": "detektor"})


def test_values_that_crowd_near_one_get_room():
    crowded = [0.3, 0.95, 0.97, 0.99, 0.995, 0.999]
    series = replace(samples.many("strips", crowded, labels=6, groups=1), value_label="AUROC")
    found = positions(ElementTree.fromstring(draw(series)), of_path)
    (_, first), *_, (_, late), (_, last) = found
    assert last - late > 0.1 * (last - first), "0.995 and 0.999 are apart"
    assert [x for _, x in found] == sorted(x for _, x in found)
    text = draw(series)
    assert "AUROC (higher is better →, logit scale)" in text
    assert all(f">{tick}</text>" in text for tick in ("0.5", "0.9", "0.99", "0.999"))
    logit = Scale(0.1, 0.9, 0.0, 100.0, logit=True)
    assert logit(0.5) == pytest.approx(50)
    assert logit(0.9) - logit(0.5) == pytest.approx(50)
    # odds 9 : 1 are twice as far from even as odds 3 : 1, on a scale of log odds
    assert logit(0.75) - logit(0.5) == pytest.approx(25)
    assert logit(1.0) == pytest.approx(100), "beyond the end is drawn at the end"


@pytest.mark.parametrize(
    "values", [[0.999999, 1.0, 1.0, 1.0], [1.0] * 5, [0.0, 1.0, 1.0, 1.0, 1.0]]
)
def test_perfect_values_are_drawn(values):
    series = samples.many("strips", values, labels=5, groups=1)
    found = positions(ElementTree.fromstring(draw(series)), of_path)
    assert len({round(x, 1) for value, x in found if value == 1.0}) == 1


@pytest.mark.parametrize(
    ("better", "words"),
    [(True, "higher is better →"), (False, "← lower is better"), (None, "")],
)
def test_axes_say_which_end_is_better(better, words):
    series = replace(samples.many("intervals", [0.5, 0.7]), higher_is_better=better)
    assert f">AUROC{f' ({words})' if words else ''}</text>" in draw(series)


def test_bars_of_a_leaderboard_join_what_shares_a_letter():
    letters = {"a1": "a", "b1": "ab", "c1": "b", "d1": "c"}
    points = tuple(
        {"label": name, "value": 0.9 - 0.1 * i, "low": 0.85 - 0.1 * i, "high": 0.92 - 0.1 * i,
         "letters": letters[name], "leads": "yes" if "a" in letters[name] else "no"}
        for i, name in enumerate(letters)
    )  # fmt: skip
    series = Series("leaderboard", "n", "t", "d", "AUROC", points, roles={"label": "detector"})
    root = ElementTree.fromstring(draw(series))
    rows = {m.attrib["data-detector"]: float(m.find("circle").attrib["cy"])
            for m in root.iter("g") if "data-value" in m.attrib}  # fmt: skip
    joints = [line for line in root.iter("line") if line.attrib.get("class") == "joint"]
    ends = [(float(line.attrib["y1"]), float(line.attrib["y2"])) for line in joints]
    assert ends == [
        (rows["a1"], rows["b1"]), (rows["b1"], rows["c1"]), (rows["d1"], rows["d1"])
    ]  # fmt: skip
    followers = [m for m in root.iter("g") if "follower" in m.attrib.get("class", "")]
    assert {m.attrib["data-detector"] for m in followers} == {"c1", "d1"}
    assert "0.900 [0.850, 0.920]" in draw(series)


def test_sections_of_a_heat_map_are_named_once():
    points = tuple(
        {"row": "knn", "section": f"seed {seed}", "column": f"optimizer {opt}", "value": seed}
        for seed in range(2)
        for opt in ("sgd", "adam")
    )
    text = draw(Series("heatmap", "n", "t", "d", "rank", points))
    assert text.count(">seed 0</text>") == 1
    assert text.count("<title>knn, seed 1, optimizer sgd: rank 1.000</title>") == 1
    assert len(re.findall(r"cell-ground step-\d\" x=\"|class=\"cell on-step", text)) >= 4


def test_bars_are_as_long_as_their_values_and_stack():
    points = tuple(
        {"label": name, "part": part, "value": value}
        for name, own in {"a": (0.2, 0.3), "b": (0.5, 0.5)}.items()
        for part, value in zip(("seed", "optimizer"), own, strict=True)
    )
    root = ElementTree.fromstring(draw(Series("bars", "n", "t", "d", "share", points)))
    bars = [bar for bar in root.iter("rect") if "data-value" in bar.attrib]
    lengths = [float(bar.attrib["width"]) + 1 for bar in bars]  # a pixel lies between them
    assert lengths[1] / lengths[0] == pytest.approx(1.5, abs=0.02)
    assert lengths[2] == pytest.approx(lengths[3], abs=0.02)
    starts = [float(bar.attrib["x"]) for bar in bars]
    assert starts[1] == pytest.approx(starts[0] + lengths[0], abs=0.02)
    assert starts[0] == starts[2]
    assert bars[1].find("title").text == "a, optimizer: share 0.300"


def test_the_best_rank_is_on_top_and_lines_cross_where_ranks_change():
    points = tuple(
        {"label": name, "case": case, "value": rank}
        for case, order in (("seed 0", "ab"), ("seed 1", "ba"), ("seed 2", "ba"))
        for rank, name in enumerate(order, start=1)
    )
    series = Series("ranks", "n", "t", "d", "rank", points, higher_is_better=False)
    root = ElementTree.fromstring(draw(series))
    dots = [dot for dot in root.iter("circle") if "data-value" in dot.attrib]
    heights = {dot.find("title").text: float(dot.attrib["cy"]) for dot in dots}
    assert heights["a, seed 0: rank 1"] == heights["b, seed 1: rank 1"]
    assert heights["a, seed 0: rank 1"] < heights["b, seed 0: rank 2"]
    assert ">rank, lowest on top</text>" in draw(series)
    names = [t.text for t in root.iter("text")]
    assert names.count("a") == names.count("seed 1") == 1, "names are written once"


def test_panels_of_the_same_lines_share_one_legend():
    points = tuple(
        {"label": name, "panel": panel, "x": x, "value": 0.1 * x}
        for panel in ("near", "far", "noise")
        for name in ("knn", "vim")
        for x in range(3)
    )
    series = Series("lines", "n", "t", "d", "share", points, roles={"label": "detector"})
    for width in (WIDE, NARROW):
        root = ElementTree.fromstring(draw(series, width=width))
        names = [text.text for text in root.iter("text")]
        assert names.count("knn") == names.count("far") == 1
        assert sum("data-value" in mark.attrib for mark in root.iter()) == 18
    assert float(ElementTree.fromstring(draw(series)).attrib["height"]) < 320, "side by side"


def test_a_box_reaches_from_quartile_to_quartile():
    point = {"label": "clean", "panel": "all", "value": 0.7, "low": 0.2, "lower": 0.6}
    series = Series("boxes", "n", "t", "d", "AUROC", (point | {"upper": 0.8, "high": 1.0},))
    root = ElementTree.fromstring(draw(series))
    (mark,) = [mark for mark in root.iter() if "data-value" in mark.attrib]
    (whisker, median), (box,) = mark.findall("line"), mark.findall("rect")
    start, end = (float(whisker.attrib[name]) for name in ("x1", "x2"))
    shares = [
        (float(place) - start) / (end - start) for place in (box.attrib["x"], median.attrib["x1"])
    ]
    assert shares == pytest.approx([0.5, 0.625], abs=0.001)
    assert float(box.attrib["width"]) / (end - start) == pytest.approx(0.25, abs=0.001)
    assert "median AUROC 0.700, quartiles 0.600 and 0.800" in mark.find("title").text


def test_each_reason_has_a_letter_that_is_explained_once():
    cells = (
        ("a", "x", 2, "lost"),
        ("a", "y", 1, "lost"),
        ("b", "x", 0, None),
        ("b", "y", 2, "odd"),
    )
    points = tuple(
        {"row": row, "column": column, "value": value, "of": 2, "reason": reason}
        for row, column, value, reason in cells
    )
    for width in (WIDE, NARROW):
        root = ElementTree.fromstring(draw(Series("gaps", "n", "t", "d", "m", points), width=width))
        words = [text.text for text in root.iter("text")]
        assert words == ["x", "y", "a", "A", "A 1", "b", "B", "A", "lost (3 missing)", "B",
                         "odd (2 missing)"]  # fmt: skip


def test_no_line_of_a_diagram_of_ranks_crosses_another():
    ranks = [1.2, 2.0, 2.0, 3.4, 4.1, 6.6, 6.9]
    points = tuple(
        {"label": f"d{place}", "value": rank, "letters": "ab"[place > 2 :]}
        for place, rank in enumerate(ranks)
    )
    for width in (WIDE, NARROW):
        series = Series("critical", "n", "t", "d", "mean rank", points, higher_is_better=False)
        root = ElementTree.fromstring(draw(series, width=width))
        bends = []
        for path in root.iter("path"):
            x, top, y, end = map(float, re.findall(r"[-\d.]+", path.attrib["d"]))
            bends.append((x, top, y, *sorted((x, end))))
        assert len(bends) == len(ranks)
        for x, top, bottom, *_ in bends:  # going down, none runs into one that goes aside
            assert not any(left < x - 0.1 and x + 0.1 < right and top < y < bottom
                           for _, _, y, left, right in bends)  # fmt: skip
        bars = [b for b in root.iter("line") if "joint" in b.attrib["class"]]
        assert len(bars) == 2 and [len(g.findall("circle")) for g in root.iter("g")
                                   if g.find("line") in bars] == [3, 7]  # fmt: skip


def summarized(findings: list[Finding], lines: int = 20) -> str:
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(summary(findings, lines=lines))
    return console.file.getvalue()


def test_answers_that_decide_something_come_before_those_that_do_not():
    reading = tuple((f"fact {n}", "read") for n in range(7))
    first = Finding("ranking", "t", "q", (Claim("a is best.", "holds", ""),), answer="Use a.",
                    reading=reading)  # fmt: skip
    open_ = Finding("robustness", "t", "q", (Claim("Who varies?", "undecided", ""),),
                    answer="Who varies least stays open. " * 5)  # fmt: skip
    metrics = Finding("metric_agreement", "t", "q", (Claim("It depends.", "flips", ""),),
                      answer="The best detector depends on the metric. " * 3)  # fmt: skip
    text = summarized([first, open_, metrics])
    assert text.startswith("Use a.\nThe best detector depends on the metric.")
    assert len(text.splitlines()) <= 20


def test_the_first_answer_is_not_cut_before_claims_are():
    reading = tuple((f"fact {n}", "word " * 30) for n in range(7))
    answer = "No clear winner: " + "a very long name, " * 15 + "and others are not separable."
    claims = tuple(Claim(f"Claim {n} is true of much.", "holds", "") for n in range(5))
    text = summarized([Finding("r", "t", "q", claims, answer=answer, reading=reading)])
    assert " ".join(text.split()).startswith(answer) and len(text.splitlines()) <= 20
