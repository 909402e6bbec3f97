"""Figures as files for papers: SVG, PDF and PNG at the width of a column."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
import sample_findings as samples
from PIL import Image

from oodometer.errors import UserError
from oodometer.finding import Series
from oodometer.reports import report
from oodometer.reports.drawing.figures import _style, draw
from oodometer.reports.drawing.svg import text
from oodometer.reports.figure_files import WIDTHS, figure_files
from oodometer.reports.outlines import outlined

FINDING = samples.ranking(samples.DETECTORS[:5], samples.OUTLIER_SETS[:2], runs=4)


@pytest.fixture
def typst():
    return pytest.importorskip("typst", reason="figures as files need typst")


def box(pdf: bytes) -> tuple[float, float]:
    """Width and height of the page in points."""
    found = re.search(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)\s*\]", pdf)
    assert found is not None
    return float(found[1]), float(found[2])


@pytest.mark.parametrize("width", WIDTHS)
def test_a_pdf_fits_its_column_and_embeds_its_fonts(typst, width):
    files = dict(figure_files([FINDING], "pdf", width))
    assert list(files) == ["ranking-auroc.pdf", "ranking-rank.pdf", "ranking-factors.pdf"]
    for content in files.values():
        assert content.startswith(b"%PDF-")
        across, _ = box(content)
        assert 0.5 * WIDTHS[width] < across / 72 <= WIDTHS[width] + 0.02
        fonts = content.count(b"/Type /FontDescriptor") + content.count(b"/Type/FontDescriptor")
        assert fonts == len(re.findall(rb"/FontFile[23]?\b", content)) > 0


def test_equal_figures_are_equal_files(typst):
    assert dict(figure_files([FINDING], "pdf")) == dict(figure_files([FINDING], "pdf"))


@pytest.mark.parametrize("width", WIDTHS)
def test_an_svg_has_its_size_on_paper_and_loads_nothing(width, monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)  # text stays text
    for _, content in figure_files([FINDING], "svg", width):
        root = ElementTree.fromstring(content)
        across = float(root.attrib["width"].removesuffix("pt"))
        assert 0.5 * WIDTHS[width] < across / 72 <= WIDTHS[width] + 0.02
        pixels = float(root.attrib["viewBox"].split()[2])
        size = re.search(r"text \{[^}]*font-size: (\d+)px", content.decode())
        assert int(size[1]) * across / pixels == pytest.approx(8, abs=0.01), "8 pt"
        assert b"var(" not in content and b"http" not in content.replace(b"http://www.w3.org", b"")


def test_outlines_stand_where_the_text_stood(typst):
    hostile = Series("bars", "n", "t", "d", "share <&>", (
        {"label": "*knn* #x 名 <&> \"'", "part": "seed", "value": 0.5},
    ))  # fmt: skip
    for series in (*FINDING.series, hostile, samples.many("gaps", [1, 0, 3])):
        drawn = draw(series, standalone=True, paper=True)
        root = ElementTree.fromstring(outlined(drawn))
        svg = "{http://www.w3.org/2000/svg}"
        assert not list(root.iter(f"{svg}text"))
        groups = [own for own in root.iter(f"{svg}g") if "aria-label" in own.attrib]
        words = [own.attrib["aria-label"] for own in groups]
        texts = list(ElementTree.fromstring(drawn).iter(f"{svg}text"))
        written = [list(own.itertext())[-1] for own in texts if "".join(own.itertext())]
        assert words == written
        known = {own.attrib["id"] for own in root.iter(f"{svg}symbol")}
        link = "{http://www.w3.org/1999/xlink}href"
        used = {own.attrib[link].removeprefix("#") for own in root.iter(f"{svg}use")}
        assert used and used <= known


@pytest.mark.parametrize(
    ("css", "anchor", "turn"),
    [("label", "start", 0), ("panel-title", "middle", 0), ("tick gap-word", "end", -90)],
)
def test_an_outline_covers_the_same_ground_as_its_text(typst, css, anchor, turn):
    """Drawn by typst both ways: as text in its place, and as outline in that place."""

    def ink(svg: str) -> tuple[int, int, int, int]:
        page = b"#set page(width: auto, height: auto, margin: 0pt)\n#image(bytes(sys.inputs.svg))"
        png = typst.compile(page, format="png", ppi=144, sys_inputs={"svg": svg})
        return Image.eval(Image.open(io.BytesIO(png)).convert("L"), lambda v: 255 - v).getbbox()

    word = text("maha(k=10)", 100, 100, css=css, anchor=anchor, rotate=turn)
    head = '<svg xmlns="http://www.w3.org/2000/svg" class="figure" viewBox="0 0 200 200" '
    svg = f'{head}width="200pt" height="200pt"><style>{_style(True)}</style>{word}</svg>'
    assert ink(outlined(svg)) == pytest.approx(ink(svg), abs=3), "at most 1.5 points apart"


def test_a_png_has_300_dots_per_inch(typst):
    _, content = next(figure_files([FINDING], "png", "one-column"))
    image = Image.open(io.BytesIO(content))
    assert 0.8 * 300 * 3.25 < image.width <= 300 * 3.25 + 4
    colours = {colour[:3] for _, colour in image.convert("RGBA").getcolors(10**6)}
    assert (0x1B, 0x5F, 0xA6) in colours, "the accent of the light theme"


def test_the_report_writes_each_figure_to_a_file(typst, tmp_path):
    written = report([FINDING, FINDING], tmp_path, formats=("csv", "svg"), width="one-column")
    names = [path.relative_to(tmp_path).as_posix() for path in written]
    assert names[0] == "report.csv"
    assert names[1] == "figures/ranking-auroc.svg"
    assert "figures/ranking-auroc-2.svg" in names, "no figure replaces another"
    assert all(path.exists() for path in written)


def test_paper_has_the_light_colours_in_every_theme():
    drawn = draw(FINDING.series[0], standalone=True, paper=True)
    assert "var(" not in drawn and "prefers-color-scheme" not in drawn and "#1b5fa6" in drawn


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(UserError, match="'three-column'.*one-column"):
        report([FINDING], tmp_path, formats=("svg",), width="three-column")
    with pytest.raises(UserError, match="'pfd'.*pdf"):
        report([FINDING], tmp_path, formats=("pfd",))
    code = (
        "import sys; sys.modules['typst'] = None\n"
        "import sample_findings as s\n"
        "from oodometer.reports import report\n"
        f"report([s.ranking()], {str(tmp_path)!r}, formats=('pdf',))"
    )
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, 'tests')\n{code}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "pip install 'oodometer[figures]'" in run.stderr
