"""status, show, verify and prune: what they tell is true, and what is needed stays."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_files import write_stripes
from typer.testing import CliRunner

from oodometer.cli import app
from oodometer.engine.executors.in_process import InProcess
from oodometer.engine.lead.run import make_plan, read_contents, run_study
from oodometer.engine.plan.study_index import find_finished, record_plan, studies_in
from oodometer.engine.stores import KINDS, FolderStore, Store, open_store, this_owner
from oodometer.engine.upkeep.survey import find_prunable, prune, survey
from oodometer.engine.upkeep.watch import (
    CurrentTask,
    Progress,
    RunnerReport,
    read_reports,
    write_report,
)
from oodometer.engine.work.codecs import arrays_to_bytes, bytes_to_arrays, bytes_to_table
from oodometer.errors import UserError
from oodometer.study import Study, parse_study


def make_study(folder: Path, **changes: object) -> Study:
    content = {
        "name": "tiny",
        "base": {"data": str(folder / "stripes.npz"), "network": "mlp", "width": 4, "epochs": 1},
        "factors": [{"field": "seed", "levels": [0, 1]}],
        "detectors": ["max_softmax", "energy"],
        "ood": ["inverted"],
    }
    return parse_study(content | changes, "study")


def finish(study: Study, store: Store) -> None:
    run_study(study, store, executor=InProcess())


@pytest.fixture(scope="module", autouse=True)
def unchanging_code():
    """A finished study is known by the bytes of all code, which somebody may be editing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oodometer.engine.plan.study_index.package_version", lambda: "as it is now")
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with data and a store, in which a study is finished; not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    write_stripes(folder / "stripes.npz")
    finish(make_study(folder), FolderStore(folder / "store"))
    return folder


@pytest.fixture
def folder(made, tmp_path) -> Path:
    """A copy of it, to be changed; the data stay where they are."""
    shutil.copytree(made / "store", tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def store(folder) -> FolderStore:
    return FolderStore(folder)


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, UserError):
        return 2, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def everything(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def payloads(folder: Path) -> dict[str, bytes]:
    return {
        path: content
        for path, content in everything(folder).items()
        if not path.endswith(".json") and path.split("/")[0] not in ("studies", "plans")
    }


def in_an_object_store(folder: Path) -> str:
    """Copy a store to an address that is no folder."""
    address = f"memory://store-{time.time_ns()}"
    there = open_store(address)
    for path, content in everything(folder).items():
        there.write_file(path, content)
    return address


# ---- status ------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [str, in_an_object_store], ids=["folder", "object store"])
def test_status_counts_what_is_there(folder, place: Callable[[Path], str]):
    code, text = run("status", place(folder))
    assert code == 0
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}
    for kind in KINDS:
        files = [p for p in (folder / kind).rglob("*") if p.is_file() and p.suffix != ".json"]
        if not files:
            assert kind not in lines
            continue
        assert int(lines[kind][0]) == len(files)
        total = sum(path.stat().st_size for path in files)
        shown = float(lines[kind][1]) * {"bytes": 1, "kB": 1e3}[lines[kind][2]]
        assert shown == pytest.approx(total, abs=50)
    assert "study tiny: finished: train 2 of 2, extract 6 of 6, score 8 of 8" in text


def test_status_tells_who_works_on_what(store, made):
    study = make_study(made, name="more", factors=[{"field": "seed", "levels": [0, 1, 2]}])
    record_plan(make_plan(study, read_contents(study)), store)
    store.claim("train-abc", this_owner(), 60)
    store.write_file("scores/.DS_Store", b"")
    store.write_file("scores/ab/abcd", b"half")
    code, text = run("status", store.folder)
    assert code == 0
    assert "study more: not finished: train 2 of 3, extract 6 of 9, score 8 of 12" in text
    assert f"claimed: train-abc by process {os.getpid()} on " in text
    assert re.search(r"renewed \d+ s ago$", text, re.MULTILINE)
    assert "1 incomplete files, which are ignored: scores/ab/abcd" in text
    assert "1 files that do not belong to the store: scores/.DS_Store" in text


def test_status_shows_what_runners_report(store):
    task = CurrentTask("seed=1", "score", ("energy", "knn", "vim", "she"), 2.5)
    progress = Progress((1, 2), (1, 2), (3, 8), failed=1, seconds_left=300.0)
    report = RunnerReport(
        this_owner(), "tiny", "abc", time.time() - 200, progress, (task,), ("run a: it diverged",)
    )
    write_report(report, store)
    lines = run("status", store.folder)[1].splitlines()
    (first,) = [place for place, line in enumerate(lines) if line.startswith("running: ")]
    assert re.fullmatch(
        rf"running: study tiny by process {os.getpid()} on \S+, for 3 min: train 1 of 2, "
        r"extract 1 of 2, score 3 of 8, 1 failed, about 5 min left; updated \d s ago",
        lines[first],
    )
    assert lines[first + 1] == "  score energy, knn, vim and 1 more, run seed=1 (2 s)"
    assert lines[first + 2] == "  failed: run a: it diverged"
    write_report(replace(report, owner="killed", started=0.0), store)
    for path in (store.folder / "runners").iterdir():
        if b"killed" in path.read_bytes():
            os.utime(path, (0, 0))
    assert "ago, whose process has ended" in run("status", store.folder)[1]
    run("prune", store.folder)
    assert len(list(read_reports(store))) == 1


def test_status_tells_failures_and_earlier_versions(store, made):
    finish(make_study(made, detectors=["energy", "knn(k=5000)"]), store)
    text = run("status", store.folder)[1]
    assert "score 4 of 8; 2 failed; earlier versions: 1" in text


def test_a_store_that_is_not_there_is_told(tmp_path):
    for command in ("status", "prune", "verify"):
        assert run(command, tmp_path / "nowhere") == (
            2,
            f"Store '{tmp_path}/nowhere' does not exist; "
            "'oodometer run --store FOLDER' creates one.",
        )
    assert not (tmp_path / "nowhere").exists(), "looking makes nothing"
    assert run("status", tmp_path)[1].startswith(f"'{tmp_path}' is not a store;")
    assert run("status", "/") == (
        2,
        "Store '/' is the root of the file system: give a folder in it.",
    )


def test_a_store_that_is_near_is_named(tmp_path, store):
    """The demo keeps its store in a folder beside the report, and names are misspelt."""
    demo = tmp_path / "demo"
    shutil.copytree(store.folder, demo / "results")
    (demo / "report.html").write_text("")
    told = f"'{demo}' is not a store. Did you mean '{demo / 'results'}'?"
    assert run("report", demo) == run("status", demo) == (2, told)
    near = run("status", demo / "result")[1]
    assert near == f"Store '{demo}/result' does not exist. Did you mean '{demo}/results'?"


# ---- show --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [str, in_an_object_store], ids=["folder", "object store"])
def test_show_tells_how_a_result_came_about(folder, store, place):
    made = bytes_to_table(store.load("tables", next(store.keys("tables"))))
    assert made.runs["seed=1"] == {"seed": 1}
    address = place(folder)
    key = next(
        key
        for key in store.keys("scores")
        if store.record("scores", key)["made_from"]["run"] == "seed=1"
    )
    code, text = run("show", key[:10], "--store", address)
    assert code == 0 and text.startswith(f"scores {key}\n")
    for part in (
        "torch: ",
        "numpy: ",
        "python: ",
        "machine: ",
        "seconds: ",
        "seed: 1",
        "epochs: 1",
    ):
        assert f"  {part}" in text, part
    assert "intact, sha256" in text
    parents = store.record("scores", key)["made_from"]["parents"]
    assert len(parents) == 2
    for parent in parents:
        assert f"  parent: outputs {parent} (run seed=1" in text
        text_of_parent = run("show", parent.upper(), "--store", address)[1]
        assert "  parent: models " in text_of_parent


@pytest.mark.parametrize("kind", ["models", "outputs", "scores"])
def test_every_record_tells_all(store, kind):
    for key in store.keys(kind):
        record = store.record(kind, key)
        assert record["made_by"].keys() >= {"oodometer", "torch", "numpy", "python", "machine"}
        made_from = record["made_from"]
        assert made_from.keys() >= {"run", "specification", "seed", "seconds", "parents"}
        assert made_from["specification"]["seed"] == made_from["seed"]
        assert f"seed={made_from['seed']}" == made_from["run"]


def test_show_refuses_what_is_not_one(store):
    key = next(store.keys("models"))
    wrong = key[:-1] + ("0" if key[-1] != "0" else "1")
    code, text = run("show", wrong, "--store", store.folder)
    assert code == 2 and text.endswith(f"has digest '{wrong}'. The nearest is '{key}'.")
    assert "A digest is required" in run("show", " ", "--store", store.folder)[1]
    for other in (f"{key[:5]}00", f"{key[:5]}11"):
        store.save("scores", other, b"", {})
    code, text = run("show", key[:5], "--store", store.folder)
    assert code == 2 and f"Digest '{key[:5]}' is not unique: 3 results begin with it" in text
    assert run("show", key, "--store", store.folder)[0] == 0


def test_show_tells_damage(store):
    key = next(store.keys("models"))
    path = store.folder / "models" / key[:2] / key
    path.write_bytes(b"")
    assert "damaged: the next run recomputes it" in run("show", key, "--store", store.folder)[1]
    for content in ("{", "[" * 100_000):
        path.with_suffix(".json").write_text(content)
        code, text = run("show", key, "--store", store.folder)
        assert code == 2 and "has no readable record; the next run recomputes it" in text


# ---- prune -------------------------------------------------------------------------------------


def test_a_finished_study_loses_nothing(folder, store, made):
    before = everything(folder)
    assert run("prune", folder) == (0, "freed 0 bytes\n")
    assert everything(folder) == before
    study = make_study(made)
    assert find_finished(study, read_contents(study), store) is not None


@pytest.mark.parametrize("place", [str, in_an_object_store], ids=["folder", "object store"])
def test_what_nobody_refers_to_goes(folder, place):
    address = place(folder)
    store = open_store(address)
    before = {kind: set(store.keys(kind)) for kind in KINDS}
    for kind in KINDS:
        if kind not in ("plans", "studies"):
            store.save(kind, "abcdef", b"x" * 1000, {})
    code, text = run("prune", address, "--dry-run")
    assert code == 0 and "would free " in text and store.has("models", "abcdef")
    code, told = run("prune", address)
    assert code == 0 and told == text.replace("would free", "freed")
    assert {kind: set(store.keys(kind)) for kind in KINDS} == before


def test_versions_of_a_study(folder, store, made, tmp_path):
    """An unfinished version goes once a later one is finished; a finished one only on request."""
    unfinished = make_study(made, name="other", detectors=["vim"])
    record_plan(make_plan(unfinished, read_contents(unfinished)), store)
    store.save("scores", make_keys(unfinished)[0], b"begun", {})
    assert find_prunable(store).bytes == 0, "it may go on"
    later = make_study(made, detectors=["energy"], base={**base(made), "epochs": 2})
    finish(later, store)
    assert find_prunable(store).bytes == 0, "both finished versions stay"
    assert find_finished(make_study(made), read_contents(later), store) is not None
    finish(make_study(made, name="other", detectors=["energy"]), store)
    found = find_prunable(store)
    assert set(found.artefacts["scores"]) == {make_keys(unfinished)[0]}
    prune(store, found)
    assert find_finished(make_study(made), read_contents(later), store) is not None
    assert run("prune", folder, "--superseded", "--forget", "other")[0] == 0
    assert find_finished(make_study(made), read_contents(later), store) is None
    alone = FolderStore(tmp_path / "alone")
    finish(later, alone)
    assert payloads(folder) == payloads(alone.folder), "what is needed, all of it, and no more"
    assert [state.name for state in survey(store).studies] == ["tiny"] and len(studies_in(store))


def base(made: Path) -> dict[str, object]:
    return {"data": str(made / "stripes.npz"), "network": "mlp", "width": 4}


def make_keys(study: Study) -> list[str]:
    made = make_plan(study, read_contents(study))
    return [part.key for part in made.artefacts if part.kind == "scores"]


def test_what_is_stale_goes_and_what_is_fresh_or_not_ours_stays(store, made):
    study = make_study(made, name="more", factors=[{"field": "seed", "levels": [0, 5]}])
    plan = make_plan(study, read_contents(study))
    record_plan(plan, store)
    store.save("progress", plan.runs[1].progress, b"half a training", {})
    finished = make_plan(make_study(made), read_contents(make_study(made)))
    store.save("progress", finished.runs[0].progress, b"left by a kill", {})
    gone = this_owner().split(":")
    gone[2] = "1"
    store.claim("train-gone", ":".join(gone), 60)
    store.claim("train-here", this_owner(), 60)
    old, fresh = ("unfinished/1-old", "scores/ab/abcd"), ("unfinished/1-new", "scores/ab/abce")
    for path in (*old, *fresh, "scores/notes.txt"):
        store.write_file(path, b"x")
    for path in (*old, "scores/notes.txt"):
        os.utime(store.folder / path, (1e9, 1e9))
    assert run("prune", store.folder)[0] == 0
    kept = {path for path in (*old, *fresh, "scores/notes.txt") if store.has_file(path)}
    assert kept == {*fresh, "scores/notes.txt"}
    assert [claim.name for claim in store.claims()] == ["train-here"]
    assert store.has("progress", plan.runs[1].progress), "it will go on"
    assert not store.has("progress", finished.runs[0].progress)


def test_stopped_before_it_was_noted_as_finished_a_study_keeps_its_table(folder, store):
    store.discard("studies", next(store.keys("studies")))
    before = everything(folder)
    assert run("prune", folder) == (0, "freed 0 bytes\n")
    assert everything(folder) == before


def test_an_object_store_ends_with_the_same_bytes(folder, made):
    there = open_store(f"memory://same-{time.time_ns()}")
    finish(make_study(made), there)
    here = FolderStore(folder)
    for kind in KINDS:
        assert list(there.keys(kind)) == list(here.keys(kind))
        for key in here.keys(kind):
            assert there.load(kind, key) == here.load(kind, key)


@pytest.mark.parametrize("kind", ["plans", "tables"])
def test_where_the_needs_of_a_study_are_not_known_nothing_goes(folder, store, kind):
    key = next(store.keys(kind))
    (folder / kind / key[:2] / f"{key}.json").write_text("{")
    before = everything(folder)
    code, text = run("prune", folder)
    assert (
        code == 0 and "study tiny was planned by another version, so no results are removed" in text
    )
    assert everything(folder) == before


def test_a_study_that_is_not_there_cannot_be_forgotten(folder):
    code, text = run("prune", folder, "--forget", "tyni")
    assert code == 2 and "Unknown study in this store 'tyni'. Did you mean 'tiny'?" in text


# ---- verify ------------------------------------------------------------------------------------


def test_verify_makes_all_again_and_changes_nothing(folder):
    before = everything(folder)
    code, text = run("verify", folder, "--sample", 1000)
    assert (code, text.splitlines()[-1]) == (0, "recomputed: 16 identical, 0 different"), text
    assert everything(folder) == before
    code, text = run("verify", in_an_object_store(folder), "--sample", 3)
    assert code == 0 and "recomputed: 3 identical" in text


@pytest.mark.parametrize("kind", ["models", "outputs", "scores", "tables", "findings"])
@pytest.mark.parametrize("suffix", ["", ".json"])
def test_verify_finds_a_flipped_bit(folder, store, kind, suffix):
    key = next(store.keys(kind))
    path = folder / kind / key[:2] / f"{key}{suffix}"
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    code, text = run("verify", folder, "--sample", 0)
    assert code == 1 and f"{kind}/{key} " in text and ", 1 wrong" in text
    assert not store.has(kind, key), "the next run is said to make it again"


@pytest.mark.parametrize("kind", ["models", "scores", "findings"])
def test_verify_removes_a_folder_in_place_of_a_payload(folder, store, kind):
    key = next(store.keys(kind))
    path = folder / kind / key[:2] / key
    path.unlink()
    (path / "below").mkdir(parents=True)
    code, text = run("verify", folder, "--sample", 0)
    assert code == 1 and f"{kind}/{key} has no content" in text and ", 1 wrong" in text
    assert not path.exists() and not store.has(kind, key)


@pytest.mark.parametrize("kind", ["models", "outputs", "scores"])
def test_verify_names_what_comes_out_otherwise(store, kind):
    """Something else under a right checksum: what a step that is not deterministic leaves."""
    key = next(store.keys(kind))
    payload, record = store.read(kind, key)
    arrays = {name: np.array(values) for name, values in bytes_to_arrays(payload).items()}
    name = next(name for name in arrays if name not in ("labels", "epoch"))
    arrays[name].flat[0] += 1
    store.save(kind, key, arrays_to_bytes(arrays), record["made_from"])
    code, text = run("verify", store.folder, "--sample", 1000)
    assert code == 1 and "correct, 0 wrong" in text
    line = next(line for line in text.splitlines() if f"({kind} {key})" in line)
    assert line.startswith("different: ") and f"run {record['made_from']['run']}" in line
    assert f"{name} differs in 1 of {arrays[name].size} numbers, by up to 1" in line


def test_verify_tells_what_it_cannot_make_again(store, made):
    data = made / "stripes.npz"
    data.rename(made / "away.npz")
    try:
        code, text = run("verify", store.folder, "--sample", 5)
    finally:
        (made / "away.npz").rename(data)
    assert code == 0 and "not recomputed: 5, because: " in text and "stripes.npz" in text
    assert "recomputed: 0 identical, 0 different" in text


def test_the_sample_is_chosen_by_its_seed(folder, store):
    for key in list(store.keys("plans")):
        store.discard("plans", key)
    code, text = run("verify", folder, "--sample", 4, "--seed", 3)
    assert code == 0 and "not recomputed: 4" in text


def test_the_table_is_for_everybody(store):
    """Any reader of Parquet gets one line per cell with one score per sample."""
    import io

    import pandas as pd

    frame = pd.read_parquet(io.BytesIO(store.load("tables", next(store.keys("tables")))))
    assert len(frame) >= 8 and set(frame["dataset"]) == {"stripes", "inverted stripes"}
    assert {len(scores) for scores in frame["scores"]} == {60}
    record = json.dumps(store.record("tables", next(store.keys("tables"))))
    assert '"cells": 8' in record
