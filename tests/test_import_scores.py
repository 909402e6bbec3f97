"""Imported scores: checked by digest, length and finiteness; they join a study and stay in it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from data_files import write_stripes
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import oodometer as om
from oodometer.cli import app
from oodometer.engine.executors.in_process import InProcess
from oodometer.engine.lead.collect import gather
from oodometer.engine.lead.importing import export_sets, forget_import, import_scores, read_digests
from oodometer.engine.lead.run import run_study
from oodometer.engine.plan.imports import imports_in
from oodometer.engine.plan.study_index import latest_plan, studies_in
from oodometer.engine.stores import FolderStore
from oodometer.errors import UserError
from oodometer.study import parse_study

LABEL = "mine (imported)"
INVERTED = "inverted stripes"


def make_study(folder: Path):
    content = {
        "name": "tiny",
        "base": {"data": str(folder / "stripes.npz"), "network": "mlp", "width": 4, "epochs": 1},
        "factors": [{"field": "seed", "levels": [0, 1, 2]}],
        "detectors": ["max_softmax", "energy"],
        "ood": ["inverted", "uniform_noise"],
        "keep_unlearned": True,
    }
    return parse_study(content, "study")


@pytest.fixture(scope="module", autouse=True)
def unchanging_code():
    """A finished study is known by the bytes of all code, which somebody may be editing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oodometer.engine.plan.study_index.package_version", lambda: "as it is now")
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    write_stripes(folder / "stripes.npz")
    run_study(make_study(folder), FolderStore(folder / "store"), executor=InProcess())
    export_sets("tiny", FolderStore(folder / "store"), folder / "samples")
    return folder


@pytest.fixture
def folder(finished, tmp_path) -> Path:
    shutil.copytree(finished / "store", tmp_path / "store")
    shutil.copytree(finished / "samples", tmp_path / "samples")
    return tmp_path


@pytest.fixture
def store(folder) -> FolderStore:
    return FolderStore(folder / "store")


def my_scores(folder: Path, runs: int | None = None) -> dict[str, np.ndarray]:
    """Scores of a detector that sees the samples: the mean of each, and noise per run."""
    rng = np.random.default_rng(0)
    sets = json.loads((folder / "samples/sets.json").read_text())["runs"]["seed=0"]
    found = {}
    for name, about in sets.items():
        with np.load(folder / "samples" / about["file"]) as arrays:
            mean = arrays["inputs"].reshape(about["samples"], -1).mean(1)
        found[name] = mean + rng.normal(size=(runs, len(mean))) if runs else mean
    return found


def import_mine(folder: Path, *options: str, scores: dict[str, np.ndarray] | None = None):
    np.savez(folder / "mine.npz", **(my_scores(folder) if scores is None else scores))
    return CliRunner().invoke(
        app,
        ["import", str(folder / "mine.npz"), "--detector", "mine", "--study", "tiny", "--store",
         str(folder / "store"), "--higher", "ood", "--id", "stripes", *options],
    )  # fmt: skip


def with_sets(folder: Path) -> list[str]:
    return ["--sets", str(folder / "samples/sets.json")]


def test_export_writes_what_is_scored(folder, store):
    listed = json.loads((folder / "samples/sets.json").read_text())
    _, plan = latest_plan("tiny", store)
    assert read_digests(folder / "samples/sets.json") == plan.sets
    assert listed["id"] == "stripes"
    table = gather(plan, store)
    for name, about in listed["runs"]["seed=1"].items():
        with np.load(folder / "samples" / about["file"]) as arrays:
            assert len(arrays["inputs"]) == len(arrays["labels"]) == about["samples"]
        assert len(table.scores("seed=1", "energy", name)) == about["samples"]
        assert table.sets[name].digest == about["digest"]


def test_imported_scores_join_statistics_and_report(folder, store):
    done = import_mine(folder, *with_sets(folder), scores=my_scores(folder, runs=3))
    assert done.exit_code == 0, done.output
    scores = my_scores(folder, runs=3)
    _, plan = latest_plan("tiny", store)
    table = gather(plan, store)
    assert set(table.detectors) == {"max_softmax", "energy", LABEL}
    for run in range(3):
        assert np.array_equal(table.scores(f"seed={run}", LABEL, INVERTED), scores[INVERTED][run])
    outcome = studies_in(store)["tiny"]
    (row,) = [row for row in outcome.findings[0].tables[0].rows if row[0] == LABEL]
    ids, outliers = scores["stripes"], [scores[INVERTED], scores["uniform noise"]]
    expected = np.mean(
        [
            roc_auc_score([0] * len(ids[r]) + [1] * len(o[r]), np.concatenate([ids[r], o[r]]))
            for r in range(3)
            for o in outliers
        ]
    )
    assert any(cell[0] == pytest.approx(expected) for cell in row[1:] if isinstance(cell, tuple)), (
        row
    )
    assert any("Imported scores: mine (imported), from" in c for c in outcome.findings[0].caveats)
    written = CliRunner().invoke(app, ["report", str(store.folder), "--out", str(folder / "page")])
    assert written.exit_code == 0, written.output
    assert LABEL in (folder / "page/report.html").read_text()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "typst", None)
        given = ["report", str(store.folder), "--format", "svg", "--out", str(folder / "page")]
        told = CliRunner().invoke(app, given)
    assert told.exit_code == 0 and "pip install 'oodometer[figures]'" in told.stderr
    assert "<text" in (folder / "page/figures/ranking-leaders.svg").read_text()


def test_a_run_finds_the_study_finished_with_its_imports(finished, folder, store):
    assert import_mine(folder, *with_sets(folder), "--runs", "all").exit_code == 0
    said: list[object] = []
    outcome = run_study(
        make_study(finished), store, executor=InProcess(), progress=lambda state: said.append(state)
    )
    assert not said  # nothing was left to do
    assert any(LABEL in str(row) for row in outcome.findings[0].tables[0].rows)


def test_verify_prune_and_show_know_them(folder, store):
    assert import_mine(folder, *with_sets(folder), "--runs", "all").exit_code == 0
    (made,) = imports_in(store)
    before = {kind: set(store.keys(kind)) for kind in ("imports", "scores", "tables", "findings")}
    pruned = CliRunner().invoke(app, ["prune", str(store.folder), "--superseded"])
    assert pruned.exit_code == 0
    assert {kind: set(store.keys(kind)) for kind in before} == before
    checked = CliRunner().invoke(app, ["verify", str(store.folder), "--sample", "200"])
    assert checked.exit_code == 0, checked.output
    assert "not recomputed" not in checked.output
    key = made.scores["seed=0"][INVERTED]
    shown = CliRunner().invoke(app, ["show", key, "--store", str(store.folder)])
    assert "imported: " in shown.output
    assert f"detector: {LABEL}" in shown.output
    forgotten = CliRunner().invoke(app, ["prune", str(store.folder), "--forget", "tiny"])
    assert forgotten.exit_code == 0
    assert not [*store.keys("imports")]
    assert not [*store.keys("scores")]


def test_damaged_imports_are_told_and_left_out(folder, store):
    assert import_mine(folder, *with_sets(folder), "--runs", "all").exit_code == 0
    (made,) = imports_in(store)
    key = made.scores["seed=0"][INVERTED]
    path = store.folder / "scores" / key[:2] / key
    path.write_bytes(b"x" + path.read_bytes()[1:])
    checked = CliRunner().invoke(app, ["verify", str(store.folder), "--sample", "0"])
    assert checked.exit_code == 1
    assert "import it again" in checked.output
    _, plan = latest_plan("tiny", store)
    missing = gather(plan, store).missing  # of three runs, which share the scores
    assert ["import them again" in part.reason for part in missing] == [True] * 3
    assert import_mine(folder, *with_sets(folder), "--runs", "all", "--replace").exit_code == 0
    assert not gather(plan, store).missing


def test_imports_can_be_replaced_and_removed(folder, store):
    assert import_mine(folder, *with_sets(folder), "--runs", "all").exit_code == 0
    again = import_mine(folder, *with_sets(folder), "--runs", "all")
    assert "add --replace" in str(again.exception)
    other = {name: -values for name, values in my_scores(folder).items()}
    done = import_mine(folder, *with_sets(folder), "--runs", "all", "--replace", scores=other)
    assert done.exit_code == 0, done.output
    _, plan = latest_plan("tiny", store)
    assert np.array_equal(gather(plan, store).scores("seed=0", LABEL, INVERTED), other[INVERTED])
    outcome = forget_import("mine", "tiny", store)
    assert LABEL not in str(outcome.findings)
    assert gather(plan, store).detectors == ("max_softmax", "energy")
    with pytest.raises(UserError, match="Unknown imported detector"):
        forget_import("mine", "tiny", store)


def test_what_does_not_fit_is_refused_and_the_store_unchanged(folder, store):
    before = {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}
    mine, sets = my_scores(folder), with_sets(folder)
    short = {**mine, INVERTED: mine[INVERTED][:-1]}
    lacking = {name: values for name, values in mine.items() if name != INVERTED}
    nan = {**mine, INVERTED: np.full(len(mine[INVERTED]), np.nan)}
    odd = {**mine, "svhn": mine[INVERTED]}
    listed = json.loads((folder / "samples/sets.json").read_text())
    listed["runs"]["seed=1"][INVERTED]["digest"] = "0" * 64
    (folder / "other.json").write_text(json.dumps(listed))
    (folder / "wrong.json").write_text("[1")
    other = ["--sets", str(folder / "other.json")]
    for options, scores, sentence in [
        (["--runs", "all"], mine, "add --sets FILE"),
        (sets, mine, "has 3 runs: add --runs all"),
        ([*sets, "--runs", "seed=7"], mine, "Unknown run 'seed=7'"),
        (
            [*sets, "--runs", "all"],
            short,
            "scores on 'inverted stripes' in run 'seed=0', which has",
        ),
        (
            [*sets, "--runs", "all"],
            lacking,
            "Scores on 'inverted stripes' in run 'seed=0' are missing",
        ),
        ([*sets, "--runs", "all"], nan, "NaN"),
        ([*sets, "--runs", "all"], odd, "Unknown data set of study 'tiny' 'svhn'"),
        (
            [*other, "--runs", "all"],
            mine,
            "of other samples than those of 'inverted stripes' in run 'seed=1'",
        ),
        (["--sets", str(folder / "wrong.json")], mine, "is not a list of data sets"),
        (["--sets", str(folder / "none.json")], mine, "Cannot read"),
        ([*sets, "--id", INVERTED, "--runs", "all"], mine, "is 'stripes', not 'inverted stripes'"),
        ([*sets, "--study", "tinny"], mine, "Did you mean 'tiny'?"),
        ([*sets, "--detector", " "], mine, "--detector is missing"),
        ([*sets, "--store", str(folder / "none")], mine, "does not exist"),
    ]:
        done = import_mine(folder, *options, scores=scores)
        assert done.exit_code != 0
        assert isinstance(done.exception, UserError), done.exception
        assert sentence in str(done.exception)
    after = {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}
    assert after == before


def test_our_own_table_brings_its_digests(folder, store):
    _, plan = latest_plan("tiny", store)
    table = gather(plan, store)
    energy = [row for row in table.rows if row.detector == "energy"]
    part = om.ScoreTable(
        table.id, tuple(energy), table.runs, factors=table.factors, sets=table.sets
    )
    om.save_scores(part, folder / "energy.parquet")
    read = om.load_scores(folder / "energy.parquet")
    done = import_scores(read, "again", "tiny", store, source="energy.parquet")
    both = gather(plan, store)
    assert done.outcome is not None
    assert np.array_equal(
        both.scores("seed=1", "again (imported)", INVERTED),
        both.scores("seed=1", "energy", INVERTED),
    )
