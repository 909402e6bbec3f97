"""Size of a large report, and how long Chromium takes to open it: 60 detectors, 20 sets, 70 runs.

    python benchmarks/report_size.py [FOLDER]

It needs Chromium and the package `playwright` for the second number.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import oodometer as om
from oodometer.finding import CellOrigins, Finding, Origin

DETECTORS, SETS, MOST_BYTES, MOST_SECONDS = 60, 20, 3_000_000, 2.0
OPTIMIZERS, AUGMENTATIONS, SEEDS = ("sgd", "adamw"), ("none", "shift", "mixup", "noise", "all"), 7
OPENINGS = 5


def findings() -> list[Finding]:
    """Return what `analyze` says of a made-up table of this size."""
    rng = np.random.default_rng(0)
    runs = [(o, a, s) for o in OPTIMIZERS for a in AUGMENTATIONS for s in range(SEEDS)]
    skill = rng.normal(0.0, 0.8, DETECTORS)[:, None, None]
    difficulty = rng.normal(1.5, 0.8, SETS)[None, :, None]
    training = rng.normal(0.0, 0.3, (DETECTORS, 1, len(runs)))
    noise = rng.normal(0.0, 0.2, (DETECTORS, SETS, len(runs)))
    auroc = 1.0 / (1.0 + np.exp(-(skill + difficulty + training + noise)))
    rows = [
        (f"detector_{d:02}(k={d % 7})", f"outlier set {s:02}", *run, round(float(own), 6))
        for d, by_set in enumerate(auroc)
        for s, by_run in enumerate(by_set)
        for run, own in zip(runs, by_run, strict=True)
    ]
    columns = ["detector", "ood", "optimizer", "augmentation", "seed", "AUROC"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.csv"
        pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
        found = list(om.analyze(path))
    cells = origins(list(dict.fromkeys(row[0] for row in rows)), [str(run) for run in runs], rng)
    origin = Origin("0" * 64, "oodometer show 000000000000 --store STORE", cells)
    return [replace(finding, origin=origin) for finding in found]


def origins(detectors: list[str], runs: list[str], rng: np.random.Generator) -> CellOrigins:
    """Return made-up digests of the scores behind every number, as a study's report has them."""
    sets = ["known", *(f"outlier set {s:02}" for s in range(SETS))]
    digests = {
        detector: {name: tuple(rng.bytes(6).hex() for _ in runs) for name in sets}
        for detector in detectors
    }
    return CellOrigins("oodometer show --store STORE", "known", tuple(runs), digests)


def opening(path: Path, browser_path: str) -> tuple[list[float], float]:
    """Return the seconds until the first figure is there, and how long the processor worked."""
    from playwright.sync_api import sync_playwright

    seconds = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path)
        for _ in range(OPENINGS):
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            started = time.perf_counter()
            page.goto(path.resolve().as_uri())
            page.locator("svg.figure").first.wait_for(timeout=60_000)
            seconds.append(time.perf_counter() - started)
            found = session.send("Performance.getMetrics")["metrics"]
            work = next(own["value"] for own in found if own["name"] == "TaskDuration")
            page.close()
        browser.close()
    return seconds, work


def main() -> None:
    """Write the report and measure it."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    started = time.perf_counter()
    made = findings()
    analyzed = time.perf_counter()
    (path,) = om.report(made, folder)
    written = time.perf_counter()
    size = path.stat().st_size
    print(f"analyze {analyzed - started:.1f} s, report {written - analyzed:.1f} s: {path}")
    print(f"{size:,} bytes of {MOST_BYTES:,}: {'ok' if size <= MOST_BYTES else 'TOO LARGE'}")
    browser = shutil.which("chromium")
    if browser is None:
        print("opening: not measured, there is no Chromium")
        return
    seconds, work = opening(path, browser)
    middle = statistics.median(seconds)
    verdict = "ok" if middle < MOST_SECONDS else "TOO SLOW"
    print(
        f"opening {middle:.2f} s of {MOST_SECONDS:.0f} s, longest {max(seconds):.2f} s: {verdict}"
    )
    print(f"of that, {work:.2f} s of computing; other programs: load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
