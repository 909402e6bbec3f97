"""Probes, learning from outliers and ensembles in studies: asked once, kept, the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from engine_studies import make_study, payloads, run_here, run_inside

from oodometer.engine.lead.run import count_done, make_plan, read_contents
from oodometer.engine.plan.study_index import find_finished, record_plan
from oodometer.engine.stores import FolderStore
from oodometer.engine.upkeep.survey import find_prunable, prune
from oodometer.engine.upkeep.verify import recompute
from oodometer.engine.upkeep.watch import Progress
from oodometer.engine.work import ask as probing
from oodometer.engine.work.codecs import array_to_text, bytes_to_arrays, bytes_to_table
from oodometer.engine.work.data import read_data
from oodometer.engine.work.train import Trainer
from oodometer.lab.asking.probes import PROBES
from oodometer.lab.asking.votes import summarize_votes
from oodometer.lab.data.portions import split_portions
from oodometer.lab.data.sources import Source, load_source
from oodometer.lab.training.train import Training
from oodometer.needs import ENSEMBLE, Need, parse_needs
from oodometer.study import Study

DETECTORS = ["max_softmax", "odin", "mc_dropout", "gram", "score_svm", "deep_ensemble"]


@pytest.fixture
def study(tiny_npz) -> Study:
    return make_study(tiny_npz(), detectors=DETECTORS)


@pytest.fixture
def store(tmp_path) -> FolderStore:
    return FolderStore(tmp_path / "store")


@pytest.fixture
def asked(monkeypatch) -> list[list[str]]:
    """Which needs the networks were asked for, call by call."""
    calls: list[list[str]] = []
    extract = probing.extract

    def counted(model: torch.nn.Module, sets: object, **given: object) -> object:
        if given.get("needs"):
            calls.append(sorted(given["needs"]))
        return extract(model, sets, **given)

    monkeypatch.setattr(probing, "extract", counted)
    return calls


def test_a_study_with_all_kinds_of_detectors(study, store, asked):
    outcome = run_inside(study, store)
    table = bytes_to_table(store.load("tables", outcome.table_key))
    assert {(part.detector, part.lasting) for part in outcome.missing} == {("mc_dropout", True)}
    assert {row.detector for row in table.rows} == {*DETECTORS} - {"mc_dropout"}
    steps = {row.setting for row in table.rows if row.detector == "odin"}
    assert len(steps) == 20, "the whole grid is scored from one probe"
    learned = {(row.setting, row.default) for row in table.rows if row.detector == "score_svm"}
    assert learned == {("outliers=uniform noise", False), ("outliers=inverted stripes", False)}
    assert table.outliers_by_setting == {f"outliers={name}": name for name in table.ood}
    (finding,) = outcome.findings
    assert not finding.missing
    (line,) = [text for text in finding.caveats if "mc_dropout" in text]
    assert line.startswith("Not applicable to this network: mc_dropout (Probe 'mc_dropout'")
    assert dict(finding.facts)["detectors"] == "4"
    assert not any("Not ranked" in text for text in finding.caveats)
    made = make_plan(study, read_contents(study))
    assert count_done(made, store)["score"][0] == count_done(made, store)["score"][1]


@pytest.fixture
def counted(monkeypatch) -> list[int]:
    """How many samples each forward pass of a run's network was about."""
    passes: list[int] = []
    network = Trainer.network

    def counting(trainer: Trainer, source: Source) -> torch.nn.Module:
        model = network(trainer, source)
        model.register_forward_pre_hook(lambda _, inputs: passes.append(len(inputs[0])))
        return model

    monkeypatch.setattr(Trainer, "network", counting)
    return passes


@pytest.mark.parametrize("network", ["mlp", "small_cnn"])
def test_outputs_layers_and_probes_come_from_one_pass(tiny_npz, store, counted, network):
    study = make_study(
        "",
        base={"data": tiny_npz(), "network": network, "width": 4, "epochs": 2},
        factors=[],
        detectors=["energy", "multi_layer_knn", "gram", "nac"],
    )
    outcome = run_here(study, store)
    assert not [part for part in outcome.missing if not part.setting]
    (run,) = make_plan(study, read_contents(study)).runs
    data = read_data(run.spec, study.ood, run.content)
    sets = [data.source.train, data.source.test, *data.outliers.values()]
    steadiness = [32, 32, 16, 16]  # a batch of the ID data, twice, and in halves
    assert counted[-4:] == steadiness
    del counted[-4:]
    assert sum(counted) == sum(map(len, sets)), "a sample went through the network twice"
    assert len(counted) == sum(len(list(samples.batches())) for samples in sets)
    # What a plain pass gives are the same bytes.
    again = recompute(store, 1000, np.random.default_rng(0))
    assert len(again.same) == 1 + 4 + 3 * 4 + 4 * 3
    assert not again.differences and not again.impossible


def test_outputs_of_convolutions_do_not_depend_on_what_else_is_asked(tiny_npz, tmp_path):
    """Another memory layout would round otherwise: all passes have the same."""
    base = {"data": tiny_npz(), "network": "small_cnn", "epochs": 1}
    kept = []
    for detectors in (["energy"], ["energy", "gram", "odin"]):
        store = FolderStore(tmp_path / str(len(detectors)))
        run_here(make_study("", base=base, factors=[], detectors=detectors), store)
        kept.append({key: store.load("outputs", key) for key in store.keys("outputs")})
    assert kept[0] == kept[1] and len(kept[0]) == 4


def test_the_second_run_is_a_look_into_the_store(study, store, asked):
    first = run_inside(study, store)
    states: list[Progress] = []
    again = run_inside(study, store, progress=states.append)
    assert again.findings == first.findings and not states
    assert find_finished(study, read_contents(study), store) is not None


def test_what_is_refused_is_not_asked_again(study, store, asked, monkeypatch):
    run_here(study, store)
    # All of them in one pass; what one set is refused is then asked of each of the others alone.
    assert asked[0] == ["probe:gram", "probe:mc_dropout", "probe:odin"]
    assert {tuple(call) for call in asked[1:3]} == {("probe:mc_dropout",)}
    asked.clear()
    for key in list(store.keys("scores")):
        store.discard("scores", key)
    run_here(study, store)
    assert not asked


@pytest.mark.parametrize(
    ("problem", "lasting"),
    [
        (OSError("disk"), False),
        (MemoryError(), False),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), False),
        (RuntimeError("an OSError in a sentence"), True),
        (ValueError("out of memory, it says"), True),
    ],
)
def test_only_what_lasts_is_kept_as_a_refusal(tiny_npz, store, monkeypatch, problem, lasting):
    """What was refused for lack of memory or a file is a failure, and tried again."""

    def fail(*_: object) -> None:
        raise problem

    fail.__module__ = PROBES["odin"].ask.__module__  # which the key is about
    study = make_study(tiny_npz(), factors=[], detectors=["energy", "odin"])
    with monkeypatch.context() as patch:
        patch.setitem(PROBES, "odin", replace(PROBES["odin"], ask=fail))
        (part,) = run_here(study, store).missing
    assert part.lasting == lasting and type(problem).__name__ in part.reason
    assert bool(list(store.keys("probes"))) == lasting
    assert (len(run_inside(study, store).missing) == 1) == lasting


def test_a_probe_that_is_needed_later_trains_nothing_again(tiny_npz, store, asked, monkeypatch):
    run_here(make_study(tiny_npz(), detectors=["energy"]), store)
    assert not asked and not list(store.keys("probes"))
    before = payloads(store)

    def refuse(*_: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(Training, "run_epoch", refuse)
    later = make_study(tiny_npz(), detectors=["energy", "odin"])
    states: list[Progress] = []
    outcome = run_inside(later, store, progress=states.append)
    assert not outcome.missing
    after = payloads(store)
    assert {k: v for k, v in after.items() if k in before} == before
    new = {name.partition(os.sep)[0] for name in after if name not in before}
    assert new == {"probes", "scores", "tables", "findings"}


def test_an_added_outlier_set_is_all_that_is_compared_with_the_training_set(tiny_npz, store):
    base = {"data": tiny_npz(), "network": "mlp", "width": 4, "epochs": 1, "validation": 0.2}
    few = make_study(
        "",
        base=base | {"fitted_on": "validation"},
        factors=[],
        detectors=["knn_svm(space=pixels)"],
        ood=["uniform_noise", "inverted"],
    )
    run_here(few, store)
    records = {key: store.record("probes", key) for key in store.keys("probes")}
    assert len(records) == 3
    more = few.model_copy(update={"ood": (*few.ood, "gaussian_noise")})
    run_here(more, store)
    assert {key: store.record("probes", key) for key in records} == records
    assert len(list(store.keys("probes"))) == 4 and len(list(store.keys("models"))) == 1
    # Against the definition: distances to the validation part, as the network sees it.
    run = make_plan(more, read_contents(more)).runs[0]
    source = load_source(run.spec)
    _, aside = split_portions(run.spec, source.train, source.classes)
    bank, rows = (
        torch.from_numpy(np.concatenate([x for x, _ in part.batches()])).double().flatten(1)
        for part in (aside, source.test)
    )
    expected = torch.cdist(rows, bank).sort(1).values[:, :8]
    kept = bytes_to_arrays(
        store.load("probes", run.probes[Need("probe", "pixel_neighbors")]["stripes"])
    )
    np.testing.assert_allclose(kept["values"], expected.numpy(), rtol=1e-5, atol=1e-5)
    # What detectors were fitted to is told by its name.
    assert store.record("outputs", run.train_outputs)["made_from"]["data set"] == "validation set"


def test_plain_keys_do_not_follow_probes(study, monkeypatch):
    contents = read_contents(study)
    made = make_plan(study, contents)
    run = made.runs[0]
    assert set(run.probes) == {
        *parse_needs({"probe:odin", "probe:mc_dropout", "probe:gram"}),
        ENSEMBLE,
    }
    assert "" in run.probes[Need("probe", "gram")] and "" not in run.probes[Need("probe", "odin")]
    plain = make_plan(study.model_copy(update={"detectors": ("max_softmax",)}), contents).runs[0]
    assert plain.scores["max_softmax"] == run.scores["max_softmax"]
    assert plain.outputs == run.outputs and not plain.probes
    from oodometer.engine.plan import keys

    code = keys._code_of
    probes = keys.PACKAGE / "lab/asking/probes/perturbation.py"
    source = probes.read_text()

    def edited(text: str) -> tuple[str, tuple[str, ...]]:
        meaning, imported = code(text)
        return (meaning + "!" if text == source else meaning), imported

    monkeypatch.setattr(keys, "_code_of", edited)
    keys.code_version.cache_clear()
    try:
        other = make_plan(study, contents).runs[0]
    finally:
        keys.code_version.cache_clear()
    assert other.outputs == run.outputs and other.model == run.model
    assert other.probes[Need("probe", "odin")] != run.probes[Need("probe", "odin")]
    assert other.probes[Need("probe", "gram")] == run.probes[Need("probe", "gram")]
    assert other.scores["odin"] != run.scores["odin"]
    assert other.scores["gram"] == run.scores["gram"]


def test_learning_from_outliers_depends_on_every_data_set(tiny_npz):
    few = make_study(tiny_npz(), detectors=["score_svm", "energy"])
    more = few.model_copy(update={"ood": (*few.ood, "gaussian_noise")})
    one, two = (make_plan(study, read_contents(study)).runs[0] for study in (few, more))
    assert one.scores["energy"].items() <= two.scores["energy"].items()
    assert not set(one.scores["score_svm"].values()) & set(two.scores["score_svm"].values())


def test_the_ensemble_is_of_all_seeds_and_the_same_in_all(study, store):
    outcome = run_here(study, store)
    table = bytes_to_table(store.load("tables", outcome.table_key))
    made = make_plan(study, read_contents(study))
    assert [len(run.ensemble) for run in made.runs] == [2, 2]
    logits = {
        run.label: {
            name: bytes_to_arrays(store.load("outputs", key))["logits"]
            for name, key in run.outputs.items()
        }
        for run in made.runs
    }
    for name in made.runs[0].outputs:
        first, second = (table.scores(run, "deep_ensemble", name) for run in table.runs)
        np.testing.assert_array_equal(first, second)
        # The definition in plain NumPy: entropy of the mean softmax.
        z = np.stack([logits[run][name].astype(float) for run in table.runs])
        p = np.exp(z - z.max(2, keepdims=True))
        mean = (p / p.sum(2, keepdims=True)).mean(0)
        np.testing.assert_allclose(first, np.log(-(mean * np.log(mean)).sum(1)), rtol=1e-4)
        votes = summarize_votes(torch.from_numpy(z))[:, 0]
        np.testing.assert_allclose(first, votes.numpy(), rtol=1e-5)


def test_other_factors_than_the_seed_make_other_ensembles(tiny_npz):
    factors = [
        {"field": "seed", "levels": [0, 1, 2]},
        {"field": "optimizer", "levels": ["sgd", "adam"]},
    ]
    study = make_study(tiny_npz(), detectors=["deep_ensemble"], factors=factors)
    made = make_plan(study, read_contents(study))
    for run in made.runs:
        assert {member.spec.optimizer for member in run.ensemble} == {run.spec.optimizer}
        assert {member.spec.seed for member in run.ensemble} == {0, 1, 2}
    assert len({run.probes[ENSEMBLE]["uniform noise"] for run in made.runs}) == 2


def test_an_ensemble_of_one_is_refused_in_one_sentence(tiny_npz, store):
    study = make_study(tiny_npz(), detectors=["energy", "deep_ensemble"], factors=[])
    outcome = run_inside(study, store)
    (part,) = outcome.missing
    assert part.lasting and "an ensemble needs runs that differ in the seed only" in part.reason
    assert find_finished(study, read_contents(study), store) is not None
    key = make_plan(study, read_contents(study)).runs[0].probes[ENSEMBLE]["inverted stripes"]
    kept = bytes_to_arrays(store.load("probes", key))["refused"]
    assert "differ in the seed" in array_to_text(kept)


def test_an_ensemble_without_one_of_its_runs_is_missing(tiny_npz, store, monkeypatch):
    study = make_study(tiny_npz(), detectors=["energy", "deep_ensemble"])
    run_epoch = Training.run_epoch

    def diverging(training: Training) -> None:
        if training.spec.seed == 1:
            raise ValueError("diverged")
        run_epoch(training)

    monkeypatch.setattr(Training, "run_epoch", diverging)
    outcome = run_inside(study, store)
    told = {(part.run, part.detector, part.lasting): part.reason for part in outcome.missing}
    assert set(told) == {("seed=1", "", False), ("seed=0", "deep_ensemble", False)}
    assert told["seed=0", "deep_ensemble", False] == "it needs run seed=1, which failed."
    monkeypatch.undo()
    assert not run_inside(study, store).missing, "what failed is tried again"


def test_texts_have_no_gradient_of_their_inputs(tmp_path, store):
    for part in ("train", "test"):
        lines = [
            json.dumps({"text": f"{word} today, {word} again {row}", "label": row % 2})
            for row, word in enumerate(["sun", "rain"] * 20)
        ]
        (tmp_path / "news").mkdir(exist_ok=True)
        (tmp_path / "news" / f"{part}.jsonl").write_text("\n".join(lines))
    base = {"data": str(tmp_path / "news"), "network": "text_bag", "width": 8, "epochs": 1}
    study = make_study("", base=base, ood=["random_words"], detectors=["energy", "odin", "gram"])
    outcome = run_inside(study, store)
    refused = [part for part in outcome.missing if part.detector == "odin"]
    assert len(refused) == 2 and all(part.lasting for part in refused)
    assert "are not one tensor of floats" in refused[0].reason
    assert len([text for text in outcome.findings[0].caveats if "odin" in text]) == 1


def test_killed_while_the_network_is_asked_it_ends_with_the_same_bytes(study, tmp_path):
    whole, killed = FolderStore(tmp_path / "whole"), FolderStore(tmp_path / "killed")
    run_inside(study, whole)
    path = tmp_path / "study.yaml"
    path.write_text(study.model_dump_json())
    program = (
        "import os, signal\n"
        "from oodometer.engine.executors.in_process import InProcess\n"
        "from oodometer.engine.lead.run import run_study\n"
        "from oodometer.engine.stores import FolderStore\n"
        "from oodometer.study import load_study\n"
        "write = FolderStore.write_file\n"
        "def write_file(store, name, content):\n"
        "    write(store, name, content)\n"
        "    if name.startswith('probes/') and len(list(store.keys('probes'))) == 2:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "FolderStore.write_file = write_file\n"
        f"store = FolderStore({str(killed.folder)!r})\n"
        f"run_study(load_study({str(path)!r}), store, executor=InProcess())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(list(killed.keys("probes"))) == 2 and not list(killed.keys("scores"))
    assert [claim.stale for claim in killed.claims()] == [True, True]
    run_inside(study, killed)
    assert payloads(killed) == payloads(whole) and not killed.claims()


def test_verify_makes_probes_again(study, store):
    run_inside(study, store)
    found = recompute(store, 1000, np.random.default_rng(0))
    assert not found.differences and not found.impossible
    assert {kind for kind, _ in found.same} == {"models", "outputs", "probes", "scores"}
    assert len([1 for kind, _ in found.same if kind == "probes"]) == len(list(store.keys("probes")))


@pytest.mark.parametrize("need", [Need("probe", "odin"), ENSEMBLE], ids=str)
def test_verify_notices_another_probe(study, store, need):
    run_inside(study, store)
    run = make_plan(study, read_contents(study)).runs[0]
    key = run.probes[need]["inverted stripes"]
    payload, record = store.read("probes", key)
    changed = bytearray(payload)
    changed[-2] ^= 1
    store.save("probes", key, bytes(changed), record["made_from"])
    (difference,) = recompute(store, 1000, np.random.default_rng(0)).differences[:1]
    assert difference.kind in ("probes", "scores")


def test_prune_keeps_what_an_unfinished_study_needs(study, store):
    made = make_plan(study, read_contents(study))
    record_plan(made, store)
    run_here(study.model_copy(update={"name": "other"}), store)
    probes = set(store.keys("probes"))
    store.save("probes", "ab" * 20, b"of nobody", {})
    found = find_prunable(store)
    assert set(found.artefacts["probes"]) == {"ab" * 20}
    prune(store, found)
    assert set(store.keys("probes")) == probes


def test_a_runner_counts_what_the_store_has(tiny_npz, store):
    """Probes, votes of an ensemble, a detector that fails: as `status` and a dry run count."""
    study = make_study(tiny_npz(), detectors=[*DETECTORS, "knn(k=5000)"])
    made = make_plan(study, read_contents(study))
    before = count_done(made, store)
    seen: list[Progress] = []
    run_inside(study, store, progress=seen.append)
    first, last = seen[0], seen[-1]
    assert {stage: wanted for stage, (_, wanted) in first.stages.items()} == {
        stage: wanted for stage, (_, wanted) in before.items()
    }
    assert last.stages == count_done(made, store) and last.failed == 2
    done, wanted = last.score
    assert wanted - done == 2 * 3, "two runs on three data sets with the detector that fails"
    assert last.found == (0, 0, 0) and last.made == tuple(n for n, _ in last.stages.values())
    counts = [progress.score[0] for progress in seen]
    assert counts == sorted(counts)
    seen.clear()
    run_inside(study, store, progress=seen.append)
    assert seen[-1].found == last.made and seen[-1].made == (0, 0, 0)
