"""The engine: the same study gives the same bytes, whatever happened on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from oodometer.engine import collect as collecting
from oodometer.engine.codecs import arrays_to_bytes, bytes_to_arrays, bytes_to_table, table_to_bytes
from oodometer.engine.keys import _meaning, digest
from oodometer.engine.run import count_done, make_plan, read_contents, run_study, unfinished
from oodometer.engine.steps import execute
from oodometer.engine.store import DamagedError, FolderStore, StoreError
from oodometer.errors import UserError
from oodometer.scores import Missing, ScoreRow, ScoreTable
from oodometer.study import Study, parse_study

DETECTORS = ["max_softmax", "energy", "knn(k=3)", "mahalanobis"]


def make_study(data: str, **changes: object) -> Study:
    content = {
        "name": "tiny",
        "base": {"data": data, "network": "mlp", "width": 4, "epochs": 2},
        "factors": [{"field": "seed", "levels": [0, 1]}],
        "detectors": DETECTORS,
        "ood": ["uniform_noise", "inverted"],
    }
    return parse_study(content | changes, "study")


def run_here(study: Study, store: FolderStore) -> collecting.Outcome:
    """Run a study in this process."""
    contents = read_contents(study)
    made = make_plan(study, contents)
    failed: list[Missing] = []
    for run in unfinished(made, store):
        failed += execute(run, study.ood, made.named_detectors, store)
    collected = collecting.collect(made, store, failed)
    assert collected is not None
    return collecting.conclude(study, *collected, store)


def payloads(store: FolderStore) -> dict[str, bytes]:
    """Everything in a store but the records, which tell times."""
    return {
        str(path.relative_to(store.folder)): path.read_bytes()
        for path in store.folder.rglob("*")
        if path.is_file()
        and path.suffix != ".json"
        and not {"studies", "reports"} & set(path.parts)
    }


@pytest.fixture
def study(tiny_npz):
    return make_study(tiny_npz())


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


# ---- the store ---------------------------------------------------------------------------------


def test_store_gives_back_what_was_saved(store):
    assert not store.has("scores", "ab12") and list(store.keys("scores")) == []
    store.save("scores", "ab12", b"content", {"parents": ["x"]})
    assert store.has("scores", "ab12") and store.load("scores", "ab12") == b"content"
    assert store.record("scores", "ab12")["made_from"] == {"parents": ["x"]}
    assert list(store.keys("scores")) == ["ab12"]
    store.discard("scores", "ab12")
    store.discard("scores", "ab12")
    assert not store.has("scores", "ab12")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b"C" + path.read_bytes()[1:]),
        lambda path: path.unlink(),
        lambda path: path.with_suffix(".json").write_text("{"),
        lambda path: path.with_suffix(".json").write_text("[]"),
    ],
)
def test_damage_is_noticed(store, damage):
    store.save("scores", "ab12", b"content", {})
    damage(store.folder / "scores" / "ab" / "ab12")
    with pytest.raises(DamagedError):
        store.load("scores", "ab12")


def test_a_payload_without_its_record_does_not_count(store):
    store.save("scores", "ab12", b"content", {})
    (store.folder / "scores/ab/ab12.json").unlink()
    assert not store.has("scores", "ab12") and list(store.keys("scores")) == []


def test_a_store_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file; a folder is needed"):
        FolderStore(tmp_path / "file")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "scores").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot be written: .*; choose another folder"):
        FolderStore(tmp_path / "store").save("scores", "ab12", b"content", {})
    assert not list((tmp_path / "store").rglob("*.tmp"))


def test_a_store_of_the_future_is_refused(tmp_path):
    (tmp_path / "oodometer-store.json").write_text('{"format": 99}')
    with pytest.raises(UserError, match="has format 99"):
        FolderStore(tmp_path)


def test_codecs_keep_everything():
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False])}
    back = bytes_to_arrays(arrays_to_bytes(arrays))
    assert all(np.array_equal(back[name], value) for name, value in arrays.items())
    rows = tuple(
        ScoreRow(
            run, "knn", setting, data, np.random.default_rng(0).normal(size=5), setting == "k=1"
        )
        for run in "ab"
        for setting in ("k=1", "k=2")
        for data in ("id", "noise")
    )
    table = ScoreTable(
        "id",
        rows,
        {"a": {"seed": 1, "rate": 0.1, "name": "x"}, "b": {"seed": 2, "rate": 0.2, "name": "y"}},
        (Missing("why", "a", "vim", "k=9", "noise"),),
        {"a": np.array([True, False, True])},
        same_samples=False,
    )
    again = bytes_to_table(table_to_bytes(table))
    for one, two in zip(table.rows, again.rows, strict=True):
        assert np.array_equal(one.scores, two.scores)
        assert (one.run, one.detector, one.setting, one.dataset, one.default) == (
            two.run, two.detector, two.setting, two.dataset, two.default,
        )  # fmt: skip
    assert again.runs == table.runs and again.missing == table.missing
    assert again.correct["a"].tolist() == [True, False, True] and not again.same_samples
    assert table_to_bytes(again) == table_to_bytes(table)


# ---- keys --------------------------------------------------------------------------------------


def all_keys(study: Study) -> set[str]:
    made = make_plan(study, read_contents(study))
    return {key for run in made.runs for keys in run.scores.values() for key in keys.values()}


def test_every_cell_has_a_key_of_its_own(study):
    made = make_plan(study, read_contents(study))
    keys = [key for run in made.runs for keys in run.scores.values() for key in keys.values()]
    assert len(keys) == len(set(keys)) == 2 * len(DETECTORS) * 3
    everything = study.model_copy(update={"detectors": "all"})
    made = make_plan(everything, read_contents(everything))
    keys = [key for run in made.runs for keys in run.scores.values() for key in keys.values()]
    assert len(keys) == len(set(keys))


def test_what_matters_changes_the_keys_and_nothing_else_does(tiny_npz, tmp_path):
    data = tiny_npz()
    before = all_keys(make_study(data))
    moved = Path(data).rename(tmp_path / "elsewhere.npz")
    assert all_keys(make_study(str(moved), name="renamed")) == before
    base = {"data": str(moved), "network": "mlp", "width": 4, "epochs": 2}
    for change in (
        {"epochs": 3},
        {"width": 5},
        {"optimizer": "sgd"},
        {"split": 1},
        {"batch_size": 9},
    ):
        assert not all_keys(make_study("", base=base | change)) & before, change
    with np.load(moved) as arrays:
        changed = dict(arrays)
    changed["train_images"][0, 0, 0] += 1
    np.savez(moved, **changed)
    assert not all_keys(make_study(str(moved))) & before, "another content, the same path"


def test_an_added_outlier_set_or_detector_keeps_what_is_there(study):
    before = all_keys(study)
    more = study.model_copy(
        update={"ood": (*study.ood, "gaussian_noise"), "detectors": (*study.detectors, "vim")}
    )
    assert before < all_keys(more)


def test_code_is_hashed_by_meaning():
    plain = "def f(x):\n    return x + 1\n"
    dressed = '"""Module."""\n# why\ndef f(x):\n    """Doc."""\n    return (x  +  1)  # because\n'
    assert _meaning(plain) == _meaning(dressed) != _meaning(plain.replace("1", "2"))


def test_digest_ignores_the_order_of_keys():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2, "b": 1})


# ---- a whole study -----------------------------------------------------------------------------


def test_twice_gives_the_same_bytes(study, tmp_path):
    one, two = FolderStore(tmp_path / "one"), FolderStore(tmp_path / "two")
    first, second = run_here(study, one), run_here(study, two)
    assert payloads(one) == payloads(two) and len(payloads(one)) > 30
    assert first.findings == second.findings


def test_the_grid_is_kept_and_named_settings_compete(study, store):
    outcome = run_here(study.model_copy(update={"detectors": ("energy", "knn(k=3)")}), store)
    table = bytes_to_table(store.load("tables", outcome.table_key))
    assert table.detectors == ("energy", "knn(k=3)")
    settings = {row.setting: row.default for row in table.rows if row.detector == "energy"}
    assert len(settings) > 1 and sum(settings.values()) == 1
    assert {row.setting for row in table.rows if row.detector == "knn(k=3)"} == {
        "k=3, normalize=True"
    }
    assert table.correct.keys() == table.runs.keys() and table.same_samples


def damage_all(store: FolderStore, kind: str) -> int:
    files = [p for p in (store.folder / kind).rglob("*") if p.is_file() and p.suffix != ".json"]
    for path in files:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    return len(files)


@pytest.mark.parametrize("kind", ["models", "outputs", "correct", "scores", "tables", "findings"])
def test_a_flipped_bit_is_repaired(study, tmp_path, kind):
    whole, store = FolderStore(tmp_path / "whole"), FolderStore(tmp_path / "store")
    run_here(study, whole)
    run_here(study, store)
    assert damage_all(store, kind)
    if kind in ("models", "outputs"):  # read only if something that follows is lacking
        for key in list(store.keys("scores")):
            store.discard("scores", key)
        for key in list(store.keys("outputs" if kind == "models" else "correct")):
            store.discard("outputs" if kind == "models" else "correct", key)
    made = make_plan(study, read_contents(study))
    if kind in ("scores", "correct"):
        for key in list(store.keys("tables")):
            store.discard("tables", key)
        assert collecting.collect(made, store, []) is None, "damage must be noticed"
    run_here(study, store)
    assert payloads(store) == payloads(whole)


def test_failures_are_results(study, store):
    study = study.model_copy(update={"detectors": ("energy", "knn(k=5000)", "max_softmax")})
    outcome = run_here(study, store)
    assert {part.detector for part in outcome.missing if not part.setting} == {"knn(k=5000)"}
    assert any(
        "knn(k=5000)" in line and "in 2 of 2 runs" in line for line in outcome.findings[0].missing
    )
    kept = json.loads(store.load("failures", next(iter(store.keys("failures")))))
    assert "Traceback" in kept["traceback"] and "5000" in kept["reason"]


def test_a_failed_training_leaves_the_others(tiny_npz, store):
    study = make_study(
        tiny_npz(),
        base={"data": tiny_npz(), "network": "mlp", "epochs": 1, "optimizer": "sgd"},
        factors=[{"field": "learning_rate", "levels": [0.01, 1e30]}],
    )
    outcome = run_here(study, store)
    assert [part.run for part in outcome.missing] == ["learning_rate=1e+30"]
    assert "diverged" in outcome.missing[0].reason
    assert dict(outcome.findings[0].facts)["trainings"] == "1 of 2"


def test_nothing_at_all_is_an_error(study, store):
    with pytest.raises(UserError, match="Nothing of study 'tiny' could be scored"):
        run_here(study.model_copy(update={"detectors": ("knn(k=5000)",)}), store)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"base": {"network": "restnet"}}, "Unknown network 'restnet'"),
        ({"base": {"optimizer": "adma"}}, "Unknown optimizer 'adma'. Did you mean 'adam"),
        ({"detectors": ["enrgy"]}, "Unknown detector 'enrgy'. Did you mean 'energy'"),
        ({"detectors": ["knn(kk=3)"]}, "Unknown setting of 'knn' 'kk'. Did you mean 'k'"),
        ({"protocols": ["rankings"]}, "Unknown protocol 'rankings'. Did you mean 'ranking'"),
        ({"ood": ["inverte"]}, "Unknown outlier set 'inverte'. Did you mean 'inverted'"),
    ],
)
def test_names_are_checked_before_anything_runs(tiny_npz, changes, sentence):
    if "base" in changes:
        changes = {"base": {"data": tiny_npz()} | changes["base"]}
    study = make_study(tiny_npz(), **changes)
    with pytest.raises(UserError, match=sentence):
        make_plan(study, read_contents(study))


def test_a_pool_gives_the_same_and_is_remembered(study, tmp_path):
    here, pool = FolderStore(tmp_path / "here"), FolderStore(tmp_path / "pool")
    run_here(study, here)
    steps: list[tuple[int, int]] = []
    first = run_study(study, pool, workers=2, progress=lambda *step: steps.append(step))
    assert payloads(pool) == payloads(here), "processes must not change the bytes"
    units = 2 * (2 + len(DETECTORS))
    assert steps[-1] == (units, units) and steps == sorted(steps)
    steps.clear()
    again = run_study(study, pool, workers=2, progress=lambda *step: steps.append(step))
    assert again.findings == first.findings and not steps
    done = count_done(make_plan(study, read_contents(study)), pool)
    assert all(have == wanted for have, wanted in done.values())


def children_of(pid: int) -> list[int]:
    listing = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True
    )
    return [int(word) for word in listing.stdout.split()]


def test_killed_in_the_middle_it_goes_on_and_leaves_nobody_behind(tiny_npz, tmp_path):
    levels = list(range(6))
    study = make_study(tiny_npz(), factors=[{"field": "seed", "levels": levels}])
    whole, store = FolderStore(tmp_path / "whole"), FolderStore(tmp_path / "store")
    run_here(study, whole)
    path = tmp_path / "study.yaml"
    path.write_text(json.dumps(study.model_dump(mode="json")))
    command = [sys.executable, "-m", "oodometer", "run", str(path), "--store", str(store.folder)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    runner = subprocess.Popen([*command, "--workers", "2"], **quiet)
    deadline = time.monotonic() + 60
    while not list(store.keys("scores")) and time.monotonic() < deadline:
        time.sleep(0.01)
    workers = children_of(runner.pid)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    assert 0 < len(list(store.keys("scores"))) < len(list(whole.keys("scores")))
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()], (
        "workers outlive the runner"
    )
    subprocess.run(command, check=True, **quiet)
    assert payloads(store) == payloads(whole)


def test_a_killed_worker_costs_only_its_task(tiny_npz, tmp_path):
    study = make_study(tiny_npz(), factors=[{"field": "seed", "levels": list(range(4))}])
    store = FolderStore(tmp_path / "store")
    killed: list[int] = []

    def kill_one(done: int, total: int) -> None:
        if not killed and done:
            killed.append(next(pid for pid in children_of(os.getpid()) if _is_worker(pid)))
            os.kill(killed[0], signal.SIGKILL)

    outcome = run_study(study, store, workers=2, progress=kill_one)
    assert killed and not outcome.missing
    whole = FolderStore(tmp_path / "whole")
    run_here(study, whole)
    assert payloads(store) == payloads(whole)


def _is_worker(pid: int) -> bool:
    return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
