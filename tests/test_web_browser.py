"""Web pages as a person uses them, in Chromium; left out where it or Playwright is missing."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from web_stores import HOSTILE, write_store

from oodometer.engine.stores import FolderStore, this_owner
from oodometer.engine.upkeep.watch import Progress, RunnerReport, write_report
from oodometer.web.index import slug_of

CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("Chromium is not installed", allow_module_level=True)
pytest.importorskip("fastapi", reason="FastAPI is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

AXE = os.environ.get("OODOMETER_AXE", "")
DETECTORS = ("energy", "knn", "vim", *HOSTILE[:4])


@contextlib.contextmanager
def serving(store: FolderStore, cache: str) -> Iterator[str]:
    """A server as a user starts it; its address."""
    command = [sys.executable, "-m", "oodometer", "serve", str(store.folder), "--port", "0"]
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        try:
            said = server.stdout.readline()
            yield re.search(r"http://[^/]+", said)[0]
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(20) == 0
            assert "Traceback" not in server.stderr.read()


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> FolderStore:
    return write_store(tmp_path_factory.mktemp("browser") / "store", detectors=DETECTORS)


@pytest.fixture(scope="module")
def address(store, tmp_path_factory) -> Iterator[str]:
    with serving(store, str(tmp_path_factory.mktemp("cache"))) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextlib.contextmanager
def page_of(browser, **options) -> Iterator[object]:
    """A page of which no error may reach the console."""
    context = browser.new_context(**options)
    problems: list[str] = []
    page = context.new_page()
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    page.on("dialog", lambda dialog: problems.append("a script of a name was run"))
    yield page
    context.close()
    assert not problems


def opened(page, address: str, waiting_for: str) -> None:
    """Open a page, again and again until the index has what it shows."""
    for _ in range(60):
        page.goto(address)
        if page.locator(waiting_for).count():
            return
        time.sleep(0.5)
    raise AssertionError(f"{address} shows no {waiting_for}")


def serious_flaws(page) -> list[tuple[str, str]]:
    """What axe-core finds, if OODOMETER_AXE names its axe.min.js (npm: axe-core)."""
    if not AXE:
        return []
    page.evaluate(Path(AXE).read_text(encoding="utf-8"))  # by the debugger, which no policy stops
    found = page.evaluate("axe.run().then(result => result.violations)")
    return [
        (own["id"], own["nodes"][0]["html"])
        for own in found
        if own["impact"] in ("serious", "critical")
    ]


def test_a_leaderboard_is_sorted_and_filtered(browser, address):
    with page_of(browser, viewport={"width": 1400, "height": 900}) as page:
        opened(page, f"{address}/leaderboard", "tr[data-detector='vim']")
        rows = page.locator("table.filtered tbody tr")
        assert rows.count() == len(DETECTORS)
        page.get_by_role("button", name="detector", exact=True).click()
        shown = rows.locator("th").all_inner_texts()
        assert shown == sorted(shown, key=str.lower)
        page.locator("[data-filter='detector']").fill("kn")
        assert page.locator("tbody tr:visible").count() == 1
        for part in ("detector=kn", "sort=0"):
            playwright.expect(page).to_have_url(re.compile(part))
        assert page.locator("#shown").inner_text() == f"1 of {len(DETECTORS)} shown"
        page.reload()
        assert page.locator("tbody tr:visible").count() == 1
        page.get_by_role("link", name="FPR@95TPR").click()
        page.wait_for_url("**/leaderboard/fpr95/all*")
        assert page.locator("tbody tr:visible").count() == 1  # the filter came along
        page.locator("tbody tr:visible a").first.click()
        playwright.expect(page.locator("h1")).to_have_text("knn")
        page.locator("a.digest").first.click()
        playwright.expect(page.locator(".copy code")).to_contain_text("oodometer show")


@pytest.mark.parametrize(
    ("width", "scheme"), [(1400, "light"), (1400, "dark"), (400, "light"), (400, "dark")]
)
def test_pages_fit_and_names_show_as_text(browser, address, width, scheme):
    with page_of(browser, viewport={"width": width, "height": 900}, color_scheme=scheme) as page:
        opened(page, f"{address}/studies/store/made", "table tbody tr a")
        assert page.get_by_text(HOSTILE[0]).count() >= 1
        run = f"runs/store/made/{slug_of('seed=0')}"
        for route in (
            "", "leaderboard", "detectors", "studies/store/made", "submissions", "api", run,
            f"{run}/knn", "detectors/knn",
        ):  # fmt: skip
            page.goto(f"{address}/{route}")
            over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, route
            assert not serious_flaws(page), route
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, re.findall(r"\d+", ground)[:3])) > 380
        assert light == (scheme == "light")
        page.get_by_role("button", name="Dark" if light else "Light").click()
        changed = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert changed != ground


def test_progress_moves_by_itself(browser, tmp_path):
    store = write_store(tmp_path / "store", scored=False)
    plan = next(iter(store.keys("plans")))

    def report(done: int) -> None:
        progress = Progress(score=(done, 18))
        write_report(RunnerReport(this_owner(), "made", plan, time.time(), progress), store)

    report(3)
    with serving(store, str(tmp_path / "cache")) as address, page_of(browser) as page:
        opened(page, address, ".study")
        page.get_by_text("3 of 18").wait_for(timeout=20_000)
        for done in (7, 12):
            report(done)
            page.get_by_text(f"{done} of 18").wait_for(timeout=20_000)
        write_store(tmp_path / "store")
        page.goto(f"{address}/leaderboard")
        page.locator("tr[data-detector='knn']").wait_for(timeout=30_000)  # without a reload
