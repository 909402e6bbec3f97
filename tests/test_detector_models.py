"""Detector models: a user's own in one file, who shares one, and what is wrong with a card."""

from __future__ import annotations

import linecache
import re
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_studies import payloads, run_inside
from torch import nn
from typer.testing import CliRunner

import oodometer as om
from oodometer.cli import app
from oodometer.engine.lead import tasks
from oodometer.engine.lead.estimates import Cost
from oodometer.engine.lead.jobs import Job
from oodometer.engine.lead.run import make_plan, read_contents
from oodometer.engine.plan.models import _version
from oodometer.engine.plan.plan import Plan
from oodometer.engine.stores import FolderStore
from oodometer.engine.upkeep.verify import recompute
from oodometer.engine.work import train as engine_training
from oodometer.engine.work.codecs import bytes_to_arrays, bytes_to_table
from oodometer.engine.work.network import NetworkWorker
from oodometer.errors import UserError
from oodometer.lab.data.samples import Images
from oodometer.lab.detector_models import MODELS, answers_of, detector_model, find_model
from oodometer.lab.training.train import Training
from oodometer.needs import Need
from oodometer.registry import DETECTORS
from oodometer.study import Study, TrainSpec, parse_study

PAGE = (Path(__file__).parent.parent / "docs" / "detector-models.md").read_text(encoding="utf-8")
CODE, YAML = (
    re.search(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
    for kind in ("python", "yaml")
)
NEED = Need("model", "my_autoencoder")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my_autoencoder.py").write_text(CODE)
    return tmp_path


def make_study(data: str, **changes: object) -> Study:
    """Two runs of a tiny classifier with the autoencoder of the docs."""
    content = {
        "name": "own",
        "base": {"data": data, "network": "mlp", "width": 4, "epochs": 1},
        "factors": [{"field": "seed", "levels": [0, 1]}],
        "detectors": ["my_autoencoder.py:my_reconstruction_error", "energy"],
        "ood": ["uniform_noise"],
    }
    return parse_study(content | changes, "study")


def plan(study: Study) -> Plan:
    return make_plan(study, read_contents(study))


def models(made: Plan) -> set[str]:
    return {model.model for run in made.runs for model in run.models.values()}


# --- in one file of the user's ----------------------------------------------------------------


def test_the_study_of_the_docs_in_worker_processes(folder):
    Path("study.yaml").write_text(YAML)

    def run(*words: str) -> str:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{result.output} {result.exception}"
        return result.output + result.stderr

    run("run", "study.yaml", "--store", "store", "--workers", "2")
    store = FolderStore(folder / "store")
    table = bytes_to_table(store.view("tables", *store.keys("tables")))
    rows = {(row.run, row.detector, row.dataset): row.scores for row in table.rows}
    assert {detector for _, detector, _ in rows} == {"my_reconstruction_error", "energy"}
    for name in ("uniform noise", "inverted digits"):
        one, two = (rows[each, "my_reconstruction_error", name] for each in table.runs)
        assert np.array_equal(one, two), "both seeds share the autoencoder"
        inside = rows[next(iter(table.runs)), "my_reconstruction_error", table.id]
        assert om.metrics.auroc(inside, one) > 0.95
    trained = [bytes_to_arrays(store.load("models", key)) for key in store.keys("models")]
    (own,) = (arrays for arrays in trained if "curve/train_accuracy" not in arrays)
    assert len(trained) == 3
    assert int(own["epoch"]) == 1 + int(np.argmin(own["curve/validation_loss"]))
    before = {kind: sorted(store.keys(kind)) for kind in ("models", "probes", "scores")}
    run("run", "study.yaml", "--store", "store", "--workers", "1")
    run("verify", "store", "--sample", "9")
    run("prune", "store")
    assert before == {kind: sorted(store.keys(kind)) for kind in before}


def test_verified_pruned_and_found_again(folder, stripes):
    store = FolderStore(folder / "store")
    study = make_study(stripes)
    assert not run_inside(study, store).missing
    made = plan(study)
    assert len(made.trainings) == 3 and len(set(store.keys("models"))) == 3
    again = recompute(store, 1000, np.random.default_rng(0))
    assert not again.differences and not again.impossible
    (model,) = made.runs[0].models.values()
    assert ("models", model.model) in again.same
    assert {("probes", key) for key in model.answers.values()} <= set(again.same)
    for kind, key in (("models", model.model), ("probes", model.answers["uniform noise"])):
        before = store.load(kind, key)
        store.discard(kind, key)
        run_inside(study, store)
        assert store.load(kind, key) == before


def test_interrupted_it_resumes_and_ends_with_the_same_bytes(folder, stripes, monkeypatch):
    study = make_study(stripes)
    whole, cut = FolderStore(folder / "whole"), FolderStore(folder / "cut")
    run_inside(study, whole)
    (key,) = {model.model for model in plan(study).trainings[2:]}
    epoch, passed = Training.run_epoch, []

    def run_epoch(self):
        if "accuracy" not in self.task.measures:
            passed.append(self.epoch)
            if len(passed) == 7:
                raise KeyboardInterrupt
        epoch(self)

    monkeypatch.setattr(Training, "run_epoch", run_epoch)
    monkeypatch.setattr(engine_training, "SECONDS_BETWEEN_SNAPSHOTS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        run_inside(study, cut)
    assert not cut.has("models", key) and list(cut.keys("progress"))
    run_inside(study, cut)
    assert passed[6:8] == [6, 6], "it went on where it was cut"
    assert cut.load("models", key) == whole.load("models", key)
    assert not list(cut.keys("progress"))


def test_keys_cover_the_file_and_what_it_imports(folder, stripes):
    study = make_study(stripes)
    before = models(plan(study))

    def elsewhere(name: str, code: str, size: int) -> set[str]:
        """The models of the same study with other files in another folder."""
        place = folder / name
        place.mkdir()
        (place / "my_autoencoder.py").write_text(code)
        (place / f"beside_{name}.py").write_text(f"SIZE = {size}\n")
        MODELS.pop("my_autoencoder")
        DETECTORS.pop("my_reconstruction_error")
        detectors = [f"{place}/my_autoencoder.py:my_reconstruction_error", "energy"]
        return models(plan(make_study(stripes, detectors=detectors)))

    assert elsewhere("same", f"# moved\n{CODE}", 1) == before
    assert elsewhere("edited", CODE.replace('"epochs": 20', '"epochs": 21'), 1) != before
    assert elsewhere("a", f"import beside_a\n{CODE}", 1) != before


def test_keys_cover_the_labels_that_a_recipe_names(folder, stripes):
    noise = f"file(path={folder}/labels.npy)"
    Path("my_autoencoder.py").write_text(
        CODE.replace('{"epochs": 20,', f'{{"label_noise": "{noise}", "epochs": 20,')
    )
    versions = set()
    for label in (0, 1):
        np.save(folder / "labels.npy", np.full(60, label))
        versions |= models(plan(make_study(stripes)))
    assert len(versions) == 2


def test_keys_cover_what_a_notebook_defines_in_other_cells(monkeypatch):
    def version(scale: int, loss: str, comment: str = "") -> str:
        """The version of a model whose functions are in no file."""
        module = types.ModuleType("notebook")
        cells = (
            f"import oodometer as om\nSCALE = {scale}\ndef scaled(x):\n    return x * SCALE\n",
            f"def loss(spec, model, batch):\n    return model(batch.inputs).{loss}(), {{}}\n",
            "TASK = om.Task(lambda spec, shape, classes: None, loss)\n",
            "@om.detector_model(task=TASK)\ndef typed(model, inputs):\n    return scaled(inputs)\n",
        )
        for number, cell in enumerate(cells):
            file = f"/nowhere/{scale}{loss}{comment}{number}.py"
            text = f"{comment}\n{cell}"
            monkeypatch.setitem(linecache.cache, file, (1, None, text.splitlines(True), file))
            exec(compile(text, file, "exec"), vars(module))
        return _version(MODELS["typed"])

    before = version(1, "mean")
    assert version(1, "mean", "# moved") == before
    assert len({before, version(2, "mean"), version(1, "sum")}) == 3


# --- who shares one -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "levels", "number"),
    [
        ("optimizer", ["sgd", "adam"], 1),
        ("epochs", [1, 2], 1),
        ("label_noise", ["none", "uniform(rate=0.3)"], 1),
        ("test_size", [20, 30], 1),
        ("train_size", [30, 40], 2),
        ("split", [0, 1], 2),
        ("model_seed", [0, 1], 2),
    ],
)
def test_one_per_data_serves_all_runs_of_the_same_data(folder, stripes, field, levels, number):
    made = plan(make_study(stripes, factors=[{"field": field, "levels": levels}]))
    assert len(models(made)) == number


def test_one_per_run_follows_the_run(folder, stripes):
    Path("my_autoencoder.py").write_text(CODE.replace('per="data"', 'per="run"'))
    assert len(models(plan(make_study(stripes)))) == 2
    one = make_study(stripes, factors=[{"field": "optimizer", "levels": ["sgd", "adam"]}])
    assert len(models(plan(one))) == 2


def test_answers_about_the_training_data_are_those_of_the_part_that_is_fitted(folder, stripes):
    fitted = CODE.replace("spec=recipe)", "spec=recipe, of_training=True)").replace(
        "    return lambda test: test.model", "    usual = train.model(\"my_autoencoder\").mean()\n"
        "    return lambda test: test.model(\"my_autoencoder\") - usual * len(train)  #",
    )  # fmt: skip
    Path("my_autoencoder.py").write_text(fitted)
    study = make_study(stripes, base={**make_study(stripes).base.model_dump(), "train_size": 30})
    store = FolderStore(folder / "store")
    assert not run_inside(study, store).missing
    (model,) = {run.models[NEED].label: run.models[NEED] for run in plan(study).runs}.values()
    answers = {n: bytes_to_arrays(store.load("probes", k)) for n, k in model.answers.items()}
    assert len(answers[""]["values"]) == 30
    table = bytes_to_table(store.view("tables", *store.keys("tables")))
    row = next(r for r in table.rows if r.dataset == "uniform noise" and "recon" in r.detector)
    expected = answers["uniform noise"]["values"] - 30 * answers[""]["values"].mean()
    np.testing.assert_allclose(row.scores, expected, rtol=1e-5)


# --- what is wrong with a card --------------------------------------------------------------------


def card(answer, **changes):
    """The card of the docs with another answer."""
    namespace: dict[str, object] = {}
    exec(CODE.partition("@om.detector_model")[0], namespace)
    task = om.Task(namespace["network"], namespace["loss"])
    detector_model(**({"task": task} | changes))(answer)
    return find_model(answer.__name__)


def images(count: int = 300) -> Images:
    return Images("a", np.zeros((count, 1, 4, 4), np.float32), np.zeros(count, np.int64))


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda x: x.mean(), r"256 inputs of 'a' with one row each, .* got shape \(\)"),
        (lambda x: x[:9], r"shape \(256, ...\), got shape \(9, 1, 4, 4\)"),
        (lambda x: x[:, 0, 0, 0] / 0, "256 of them hold NaN or infinity, the first at row 0"),
        (lambda x: [0.0] * len(x), r"a tensor of shape \(256, ...\), got list"),
        (lambda x: torch.zeros(len(x), len(x)), r"rows of one shape, got \(44,\) and \(256,\)"),
    ],
)
def test_bad_answers_are_one_sentence(answer, sentence):
    def own(model, inputs):
        return answer(inputs)

    with pytest.raises(UserError, match=f"Model 'own' must answer .*{sentence}"):
        answers_of(card(own), nn.Identity(), images())


def test_answers_draw_the_same_and_leave_everything_as_it_was():
    def own(model, inputs):
        return model(inputs).flatten(1) + torch.randn(len(inputs), 16)

    model, before = nn.Dropout().train(), torch.get_rng_state()
    one, two = (answers_of(card(own), model, images()) for _ in range(2))
    assert torch.equal(one, two) and one.shape == (300, 16) and one.std() > 0.5
    assert model.training and torch.equal(torch.get_rng_state(), before)
    data = images()
    answers_of(card(lambda model, inputs: inputs.add_(1.0)), model, data)
    assert not data.pixels.any(), "other runs read the same array"


def test_bad_cards_are_one_sentence():
    def own(model, inputs):
        return inputs

    for changes, sentence in (
        ({"per": "dta"}, "Unknown value of per in model 'own' 'dta'. Did you mean 'data'"),
        ({"task": len}, r"task of model 'own' must be a Task\(network, loss\)"),
        ({"per": "outliers"}, "Model 'own' is trained per outlier set: give a source"),
    ):
        with pytest.raises(UserError, match=sentence):
            card(own, **changes)
    spec = TrainSpec(data="digits")
    for update, sentence in (
        ({"data": "mnist"}, "changes data, which the study decides: 'digits' became 'mnist'"),
        ({"epochs": 0}, "The spec of model 'own' sets epochs to 0: "),
        (None, "must return a TrainSpec, got NoneType"),
    ):
        made = card(own, spec=lambda s, _, u=update: s.model_copy(update=u) if u else None)
        with pytest.raises(UserError, match=sentence):
            made.recipe(spec, (60, 1, 8, 8))

    def binary(model, inputs):
        return inputs

    with pytest.raises(UserError, match="'binary' of .* is already registered by oodometer.lab"):
        card(binary)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ('needs={"model:my_autoencodr"}', "Unknown model in the needs .* mean 'my_autoencoder'"),
        ('needs={"probe:odn"}', "Unknown probe in the needs of .* Did you mean 'odin'"),
        ('needs={"modl:my_autoencoder"}', "Unknown need of detector 'my_reconstruction_error'"),
    ],
)
def test_unknown_needs_are_refused_before_anything_is_trained(folder, stripes, changed, sentence):
    code = CODE.replace('needs={"model:my_autoencoder"}', changed)
    Path("my_autoencoder.py").write_text(code)
    with pytest.raises(UserError, match=sentence):
        plan(make_study(stripes))


def test_what_cannot_be_trained_is_said_before_anything_is(folder, stripes):
    code = CODE.replace('"best_by": "validation_loss"', '"best_by": "validation_accuracy"')
    Path("my_autoencoder.py").write_text(code)
    sentence = "Model 'my_autoencoder' cannot be trained: Epoch 'best' .* not measured here"
    with pytest.raises(UserError, match=sentence):
        plan(make_study(stripes))


def test_one_that_fails_leaves_the_other_detectors(folder, stripes):
    code = CODE.replace(
        "model(batch.inputs), batch.inputs)", "model(batch.inputs), batch.inputs) / 0"
    )
    Path("my_autoencoder.py").write_text(code)
    outcome = run_inside(make_study(stripes), FolderStore(folder / "store"))
    reasons = {(part.run, part.detector): part.reason for part in outcome.missing}
    assert any("Training diverged: in epoch 1, the loss is inf" in r for r in reasons.values())
    assert "which failed" in reasons["seed=0", "my_reconstruction_error"]
    assert outcome.findings


def test_a_source_that_writes_into_its_data_fails_alone(folder, stripes):
    write = (
        "def write(source, spec, outliers):\n    source.train.labels[:] = 0\n    return source\n"
    )
    code = CODE.replace("spec=recipe)", "spec=recipe, source=write)")
    Path("my_autoencoder.py").write_text(
        code.replace("@om.detector_model", f"{write}\n\n@om.detector_model")
    )
    study, whole = make_study(stripes), make_study(stripes, detectors=["energy"])
    outcome = run_inside(study, FolderStore(folder / "store"))
    reasons = [part.reason for part in outcome.missing if not part.detector]
    assert reasons and all("wrote into the data that it was given" in r for r in reasons)
    # The classifiers have learned from the labels as they are.
    run_inside(whole, FolderStore(folder / "other"))
    energies = {p: v for p, v in payloads(FolderStore(folder / "other")).items() if "scores" in p}
    mixed = payloads(FolderStore(folder / "store"))
    assert energies and {path: mixed[path] for path in energies} == energies


def test_a_detector_is_told_how_to_get_answers_about_the_training_data(folder, stripes):
    code = CODE.replace(
        "    return lambda test", '    train.model("my_autoencoder")\n    return lambda test'
    )
    Path("my_autoencoder.py").write_text(code)
    outcome = run_inside(make_study(stripes), FolderStore(folder / "store"))
    (reason,) = {part.reason for part in outcome.missing}
    assert "only if its card has of_training=True" in reason and "oodometer run" not in reason


def test_a_source_that_returns_none_is_one_sentence(folder, stripes):
    code = CODE.replace("spec=recipe)", "spec=recipe, source=lambda source, spec, outliers: None)")
    Path("my_autoencoder.py").write_text(code)
    outcome = run_inside(make_study(stripes), FolderStore(folder / "store"))
    reasons = [part.reason for part in outcome.missing if not part.detector]
    assert reasons == ["The source of model 'my_autoencoder' must return a Source, got NoneType."]


def test_a_recipe_that_fails_is_one_sentence(folder, stripes):
    code = CODE.replace("    changes = {", '    raise KeyError("x")\n    changes = {')
    Path("my_autoencoder.py").write_text(code)
    with pytest.raises(UserError, match="The spec of model 'my_autoencoder' failed: KeyError"):
        plan(make_study(stripes))


def test_a_network_that_exits_is_a_failure_of_its_model(folder, stripes):
    code = CODE.replace("    pixels = math.prod(shape)\n", "    raise SystemExit(3)\n")
    Path("my_autoencoder.py").write_text(code)
    outcome = run_inside(make_study(stripes), FolderStore(folder / "store"))
    assert any("SystemExit" in part.reason for part in outcome.missing)
    assert outcome.findings


def test_models_that_share_weights_are_claimed_each_for_itself(folder, stripes):
    made = plan(make_study(stripes, factors=[{"field": "test_size", "levels": [20, 30]}]))
    jobs = [Job(run, Cost(1.0, 1.0, 1)) for run in made.trainings]
    assert len({job.run.model for job in jobs}) == 2 < len(jobs)
    assert len({job.claim for job in jobs}) == len(jobs)


def test_a_process_opens_another_worker_for_another_plan_of_the_same_run(folder, stripes):
    study, store = make_study(stripes), FolderStore(folder / "store")
    store.require_writable()  # as whoever gives tasks does first

    def worker() -> NetworkWorker:
        run = plan(study).runs[0]
        opened = tasks._worker(tasks.Work(run, study.ood, study.detectors, store.address, "cpu"))
        assert opened.plan.scores == run.scores
        return opened

    assert worker() is worker()
    MODELS["my_autoencoder"] = replace(MODELS["my_autoencoder"], of_training=True)
    worker()
    tasks.forget()


def test_a_network_that_reshapes_with_view_is_asked_in_the_usual_layout():
    class Viewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(1, 2, 3)

        def forward(self, x):
            return self.layer(x).view(len(x), -1)

    def own(model, inputs):
        return model(inputs)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Viewing()
    rng = np.random.default_rng(0)
    given = replace(images(), pixels=rng.random((300, 1, 4, 4), np.float32))
    expected = model(torch.from_numpy(given.pixels))
    torch.testing.assert_close(answers_of(card(own), model, given), expected.detach())
