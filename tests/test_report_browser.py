"""The report as a reader sees it: opened in Chromium, at two widths, light, dark and on paper."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sample_findings import DETECTORS, HOSTILE, OUTLIER_SETS, ranking

from oodometer.finding import CellOrigins, Claim, Finding, Origin
from oodometer.reports import html, report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("Chromium is not installed", allow_module_level=True)
AXE = os.environ.get("OODOMETER_AXE", "")

ROLES = {
    "intervals": {"label": "detector", "group": "set"},
    "heatmap": {"row": "detector", "column": "run"},
    "strips": {"label": "detector", "panel": "factor", "level": "level"},
}
CELLS = CellOrigins(
    "oodometer show --store 'my store'", "digits", ("seed=0", "seed=1"),
    {name: {own: (f"{row}a{place}", f"{row}b{place}" * (place > 0))
            for place, own in enumerate(("digits", *OUTLIER_SETS))}
     for row, name in enumerate(DETECTORS)},
)  # fmt: skip
FADED = "element => Number(getComputedStyle(element).opacity) < 0.5"


def marked(finding: Finding) -> Finding:
    """The sample as protocols make it: with roles, an answer, themes and its origin."""
    series = tuple(replace(own, roles=ROLES[own.kind]) for own in finding.series)
    more = tuple(Claim(f"Claim {n}.", "undecided", f"why {n}", "changes") for n in range(3))
    return replace(
        finding, series=series, claims=(*finding.claims, *more),
        answer="Use relative_mahalanobis or knn: not separable with 9 runs.",
        origin=Origin("8fa532d925971912", "oodometer show 8fa532d92597 --store 'my store'", CELLS),
        families=dict.fromkeys(DETECTORS, "features") | {"energy": "logits", "max_logit": "logits"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("report")
    provenance = [("study file (YAML)", "name: demo\nood: [letters]\n")]
    (path,) = report([marked(ranking())], folder, title="Oodometer: demo", provenance=provenance)
    return path.as_uri()


@pytest.fixture
def visit(browser):
    """Open pages; at the end, no script may have failed and nothing may have been loaded."""
    problems: list[str] = []
    contexts = []

    def opened(address: str, **options):
        usual = {"viewport": {"width": 1400, "height": 900}, "reduced_motion": "reduce"}
        context = browser.new_context(**{**usual, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: problems.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda sent: None if sent.url.startswith(("file:", "data:")) else problems.append(sent),
        )
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems


def test_the_first_screen_holds_the_answer_the_figure_and_the_setup(visit, address):
    page = visit(address)
    answer = page.locator(".answer").bounding_box()
    figure = page.locator("svg.figure:visible").first.bounding_box()
    setup = page.locator(".account").bounding_box()
    assert answer["y"] < 200 and figure["y"] < 500 and setup["y"] < 500
    assert page.locator(".evidence:visible").count() == 0
    page.locator(".claim summary").first.click()
    assert page.locator(".evidence:visible").count() == 1
    assert page.get_by_text("Claim 2.", exact=True).is_hidden()
    page.locator(".folded > summary").click()
    assert page.get_by_text("Claim 2.", exact=True).is_visible()


def test_a_selected_detector_is_marked_everywhere_and_kept_in_the_address(visit, address):
    page = visit(address)
    marks = page.locator("svg.figure:visible [data-detector='vim']")
    others = page.locator("svg.figure:visible [data-detector='energy']")
    row = page.locator("tr[data-detector='vim'] th").first
    plain = row.evaluate("own => getComputedStyle(own).backgroundColor")
    assert page.locator("svg.figure:visible:has([data-detector='vim'])").count() == 3

    others.first.hover()
    assert marks.first.evaluate(FADED) and not others.first.evaluate(FADED)
    page.mouse.move(2, 2)

    page.locator("#filter-detector").select_option("vim")
    sync_api.expect(page).to_have_url(re.compile("detector=vim"))
    assert not any(marks.nth(n).evaluate(FADED) for n in range(marks.count()))
    assert others.first.evaluate(FADED) and others.last.evaluate(FADED)
    assert row.evaluate("own => getComputedStyle(own).backgroundColor") != plain
    assert page.locator("#filters-said").text_content() == "detector vim shown"

    again = visit(page.evaluate("location.href"))
    assert again.locator("#filter-detector").input_value() == "vim"
    assert again.locator("svg.figure:visible [data-detector='energy']").first.evaluate(FADED)
    again.keyboard.press("Escape")
    sync_api.expect(again).not_to_have_url(re.compile("detector"))


def test_names_sets_and_levels_filter_figures_and_tables(visit, address):
    page = visit(address)
    page.locator("#filter-name").fill("MAHA")
    table = page.locator("#finding-1-table-2")
    assert table.locator("tbody tr:visible").count() == 2
    page.locator("#filters-clear").click()
    assert table.locator("tbody tr:visible").count() == 18
    assert page.evaluate("document.activeElement.id") == "filter-detector"

    page.locator("#filter-family").select_option("logits")
    assert table.locator("tbody tr:visible th").all_text_contents() == ["energy", "max_logit"]
    assert page.locator("svg.figure:visible [data-detector='vim']").first.evaluate(FADED)
    assert (
        visit(page.evaluate("location.href")).locator("#finding-1-table-2 tbody tr:visible").count()
        == 2
    )
    page.locator("#filters-clear").click()

    page.locator("#filter-set").select_option("letters")
    heads = page.locator("#finding-1-table-1 thead th:visible").all_text_contents()
    assert heads == ["detector", "mean over outlier sets", "letters"]
    page.locator("#filter-level").select_option("optimizer=sgd")
    level = page.locator(
        "svg.figure:visible [data-factor='optimizer'][data-level='optimizer=adamw']"
    )
    kept = page.locator("svg.figure:visible [data-factor='augment'][data-level='augment=none']")
    assert level.first.evaluate(FADED) and not kept.first.evaluate(FADED)
    sync_api.expect(page).to_have_url(re.compile("set=letters.*level=optimizer"))


def test_tables_sort_by_keyboard_and_the_address_keeps_the_order(visit, address):
    page = visit(address)
    head = page.locator("#finding-1-table-2 thead th").nth(2)
    cells = page.locator("#finding-1-table-2 tbody td:nth-child(3)")
    head.locator("button").focus()
    page.keyboard.press("Enter")
    values = [float(text) for text in cells.all_text_contents()]
    assert values == sorted(values, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    page.keyboard.press("Enter")
    again = visit(page.evaluate("location.href"))
    found = again.locator("#finding-1-table-2 tbody td:nth-child(3)").all_text_contents()
    assert [float(text) for text in found] == sorted(values)


def test_a_number_leads_to_its_origin_in_two_clicks(visit, address):
    page = visit(address, permissions=["clipboard-read", "clipboard-write"])
    page.locator("a.origin:visible").first.click()
    sync_api.expect(page).to_have_url(re.compile("#finding-1-origin$"))
    page.locator("button.copy:visible").first.click()
    page.get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "oodometer show 8fa532d92597 --store 'my store'"
    page.locator("#provenance button.copy").click()
    page.locator("#provenance").get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "name: demo\nood: [letters]\n"


def test_a_number_of_a_table_leads_to_the_scores_of_each_run(visit, address):
    page = visit(address, permissions=["clipboard-read", "clipboard-write"])
    table = page.locator("#finding-1-table-1")
    table.locator("tr[data-detector='knn'] .number-origin").nth(1).click()
    # The scores are unpacked when they are asked for: the page fills in after the click.
    sync_api.expect(page.locator("#origin-title")).to_have_text("knn on letters")
    rows = page.locator("#origin-runs tr").all_inner_texts()
    words = [" ".join(row.split()) for row in rows]
    assert words == ["seed=0 1a2 Copy 1a0 Copy", "seed=1 1b2 Copy missing"]
    page.locator("#origin-runs .copy").first.click()
    page.get_by_text("Copied").wait_for()
    assert (
        page.evaluate("navigator.clipboard.readText()") == "oodometer show --store 'my store' 1a2"
    )
    page.keyboard.press("Escape")
    assert page.locator("#origin").is_hidden()
    # One stop of the tab key per table, arrows within it.
    assert table.locator(".number-origin[tabindex='0']").count() == 1
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator("#origin-title").get_by_text("mahalanobis(space=logits) on").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_the_page_fits_its_width_in_light_and_dark(visit, address, width, scheme):
    page = visit(address, viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(17, 21, 27)") == (scheme == "dark")


@pytest.mark.skipif(not AXE, reason="OODOMETER_AXE does not name axe.min.js (npm: axe-core)")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_axe_finds_no_serious_flaw(visit, address, width, scheme):
    page = visit(address, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.evaluate(Path(AXE).read_text(encoding="utf-8"))  # by the debugger, which no policy stops
    found = page.evaluate("axe.run().then(result => result.violations)")
    serious = [own for own in found if own["impact"] in ("serious", "critical")]
    assert not [(own["id"], own["nodes"][0]["html"]) for own in serious]


def test_on_paper_everything_is_open_and_controls_are_gone(visit, address):
    page = visit(address)
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    evidence = page.locator(".evidence")
    assert all(evidence.nth(n).is_visible() for n in range(evidence.count()))
    assert page.locator("#filters").is_hidden() and page.locator("#theme").is_hidden()


def test_without_scripts_all_is_there(visit, address):
    page = visit(address, java_script_enabled=False)
    assert page.locator("svg.figure:visible").count() == 3
    assert page.locator("#filters").is_hidden()
    page.locator(".claim summary").first.click()
    assert page.locator(".evidence:visible").count() == 1


def test_large_parts_are_unpacked_when_they_are_seen(visit, tmp_path, monkeypatch):
    monkeypatch.setattr(html, "_LARGE_PAGE", 0)
    monkeypatch.setattr(html, "_LARGE", 2_000)
    (path,) = report([marked(ranking())], tmp_path)
    assert path.stat().st_size < 300_000
    page = visit(f"{path.as_uri()}#set=letters")
    table = page.locator("#finding-1-table-2")
    assert table.count() == 0
    page.locator("h3", has_text="Missing").scroll_into_view_if_needed()
    table.wait_for()
    table.locator("thead button").nth(2).click()
    values = [float(text) for text in table.locator("td:nth-child(3)").all_text_contents()]
    assert values == sorted(values, reverse=True)
    page.locator("details.data summary").first.click()
    page.locator("#finding-1-figure-1-data").wait_for()
    plain = visit(path.as_uri(), java_script_enabled=False)
    assert "format csv or md" in plain.locator("noscript:visible").first.text_content()


@pytest.mark.parametrize("name", [HOSTILE, "n" * 10_000, "\u202eكاشف <b>\u202c", '"]{}*{}<!--'])
def test_any_name_is_shown_as_text(visit, tmp_path, name):
    (path,) = report([marked(ranking(detectors=("knn", name, "vim")))], tmp_path, title=name)
    page = visit(path.as_uri(), viewport={"width": 400, "height": 900})
    page.locator("h3", has_text="Tables").scroll_into_view_if_needed()
    table = page.locator("#finding-1-table-1")
    table.wait_for(state="attached")  # a name of this length makes a large page
    shown = table.locator("tr[data-detector] th").nth(1).text_content()
    codes = {"\x1b": "", "\x00": "", "\u202e": "\\u202e", "\u202c": "\\u202c"}
    assert shown == " ".join(name.translate(str.maketrans(codes)).split())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#filter-detector").select_option(index=2)
    own = page.locator("svg.figure:visible [data-detector='vim']").first
    assert own.evaluate(FADED)
