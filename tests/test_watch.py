"""Following a study while it runs: reports of runners, and the table as far as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from engine_studies import execute, make_study, run_here, run_inside

from oodometer.engine.lead.collect import gather
from oodometer.engine.lead.run import make_plan, read_contents
from oodometer.engine.plan.study_index import read_plan, record_plan
from oodometer.engine.stores import FolderStore, MemoryStore, this_owner
from oodometer.engine.upkeep.watch import (
    CurrentTask,
    Progress,
    RunnerReport,
    read_reports,
    remove_report,
    sweep_reports,
    write_report,
)
from oodometer.engine.work.codecs import bytes_to_table

OWNER = this_owner()
REPORT = RunnerReport(
    "somebody",
    "tiny",
    "abc",
    1e9,
    Progress((1, 2), (0, 2), (3, 8), (1, 0, 3), (0, 0, 0), 1, 0, 12.5),
    (CurrentTask("seed=1", "score", ("energy", "knn"), 2.5),),
    ("run seed=0: it diverged",),
)


@pytest.fixture
def store(tmp_path) -> FolderStore:
    return FolderStore(tmp_path / "store")


def test_reports_are_read_back_and_removed():
    store = MemoryStore()
    write_report(REPORT, store)
    write_report(replace(REPORT, owner=OWNER, started=2e9), store)
    store.write_file("runners/other.json", b"{}")
    store.write_file("runners/half.json", b'{"owner": ')
    first, second = read_reports(store)
    assert replace(first, age=0.0) == REPORT and second.owner == OWNER
    assert not first.stale and replace(first, age=700.0).stale
    remove_report("somebody", store)
    assert [report.owner for report in read_reports(store)] == [OWNER]


def test_reports_of_killed_runners_are_swept(store):
    code = "from oodometer.engine.stores import this_owner; print(this_owner())"
    gone = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    for owner in (gone, OWNER):
        write_report(replace(REPORT, owner=owner), store)
    sweep_reports(store)
    assert [report.owner for report in read_reports(store)] == [OWNER]


def test_a_runner_reports_while_it_runs(tiny_npz, store, monkeypatch):
    monkeypatch.setattr("oodometer.engine.lead.runner.SECONDS_BETWEEN_REPORTS", 0.0)
    study = make_study(tiny_npz(), detectors=["energy", "knn(k=5000)"])
    seen: list[RunnerReport] = []
    stale: list[bool] = []  # while it runs: afterwards the runner has ended

    def look(_: object) -> None:
        for report in read_reports(store):
            seen.append(report)
            stale.append(report.stale)

    run_inside(study, store, progress=look)
    assert {report.study for report in seen} == {"tiny"}
    assert not any(stale) and all(report.stale for report in seen)
    assert {report.owner[:-8] for report in seen} == {OWNER[:-8]}
    assert {report.plan for report in seen} == set(store.keys("plans"))
    last = seen[-1]
    assert last.progress.train == (2, 2) and last.progress.extract == (8, 8)
    assert last.progress.failed == len(last.failures) >= 1 and "5000" in last.failures[0]
    assert not list(read_reports(store)), "a runner that ended cleanly leaves nothing"


def test_the_table_of_a_half_finished_study_needs_no_torch(tiny_npz, store):
    study = make_study(tiny_npz(), detectors=["energy", "knn(k=5000)"])
    made = make_plan(study, read_contents(study))
    key = record_plan(made, store)
    assert not gather(read_plan(key, store), store).rows
    execute(made.runs[0], study.ood, made.named_detectors, store)
    code = (
        "import json, sys\n"
        "from oodometer.engine.lead.collect import gather\n"
        "from oodometer.engine.plan.study_index import read_plan\n"
        "from oodometer.engine.stores import open_store\n"
        f"store = open_store({str(store.folder)!r})\n"
        f"table = gather(read_plan({key!r}, store), store)\n"
        "rows = [[r.run, r.detector, r.setting, r.dataset, len(r.scores)] for r in table.rows]\n"
        "missing = [[part.run, part.detector] for part in table.missing]\n"
        "print(json.dumps([rows, missing, len(table.correct), 'torch' in sys.modules]))\n"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    rows, missing, correct, torch = json.loads(said)
    assert not torch, "following a study must not load PyTorch"
    assert {tuple(row[:2]) for row in rows} == {("seed=0", "energy")} and len(rows) == 4 * 3
    assert missing == [["seed=0", "knn(k=5000)"]] and correct == 1


def test_gathering_changes_nothing_and_gives_the_table(tiny_npz, store):
    study = make_study(tiny_npz())
    outcome = run_here(study, store)
    (key,) = store.keys("plans")
    files = {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}
    table = gather(read_plan(key, store), store)
    kept = bytes_to_table(store.load("tables", outcome.table_key))
    assert (table.id, table.runs, table.factors) == (kept.id, kept.runs, kept.factors)
    assert table.missing == kept.missing
    for one, two in zip(table.rows, kept.rows, strict=True):
        assert vars(one).keys() == vars(two).keys() and one.default == two.default
        np.testing.assert_array_equal(one.scores, two.scores)
    for run, right in kept.correct.items():
        np.testing.assert_array_equal(table.correct[run], right)
    # What is damaged is left out, and left alone.
    path = next(path for path in (store.folder / "scores").rglob("*") if path.suffix == ".json")
    path.with_suffix("").write_bytes(b"")
    assert len(gather(read_plan(key, store), store).rows) < len(kept.rows)
    files[path.with_suffix("")] = b""
    assert files == {p: p.read_bytes() for p in store.folder.rglob("*") if p.is_file()}
