"""What a card may ask for: auxiliary outliers, ensembles, a last fit, gradients and samples."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from engine_studies import payloads, run_inside
from torch import nn

import oodometer as om
from oodometer.engine.lead import timing
from oodometer.engine.lead.run import make_plan, read_contents
from oodometer.engine.lead.trained import training_finding
from oodometer.engine.plan.plan import Plan
from oodometer.engine.stores import FolderStore
from oodometer.engine.upkeep.verify import recompute
from oodometer.engine.work import train as engine_training
from oodometer.engine.work.codecs import bytes_to_arrays, bytes_to_table
from oodometer.errors import UserError
from oodometer.finding import from_json, to_json
from oodometer.lab.data.samples import Images
from oodometer.lab.detector_models import MODELS
from oodometer.lab.training.task import Batch, Task
from oodometer.lab.training.train import Training, train
from oodometer.needs import Need
from oodometer.outputs import Outputs
from oodometer.pictures import Picture, picture
from oodometer.study import Study, TrainSpec, parse_study
from oodometer.testing import assert_detector

CODE = '''
import math
import torch
from torch import nn
import oodometer as om

WIDTH = {"tiny": 2, "small": 3, "paper": 5}


class Net(nn.Module):
    def __init__(self, spec, shape):
        super().__init__()
        self.shape = shape
        self.layer = nn.Linear(math.prod(shape), WIDTH[spec.model_size])
        self.last = nn.Linear(WIDTH[spec.model_size], 1)
        self.register_buffer("center", torch.zeros(WIDTH[spec.model_size]))

    def forward(self, x):
        return self.last(torch.tanh(self.layer(x.flatten(1))))[:, 0]


def loss(spec, model, batch):
    noisy = batch.outliers + 0.01 * torch.randn(batch.outliers.shape)
    assert len(batch.outliers) == 2 * len(batch.inputs)
    each = nn.functional.softplus(model(batch.inputs)).mean()
    return each + nn.functional.softplus(-model(noisy)).mean(), {}


def choose(spec, model, candidates, count, generator):
    rows = torch.randint(len(candidates), (3 * count,), generator=generator)
    return rows[model(candidates(rows)).argsort()[:count]]


def finish(spec, model, batches):
    hidden = [model.layer(batch.inputs.flatten(1)) for batch in batches]
    assert len(hidden) == len([1 for _ in batches])
    model.center.copy_(torch.cat(hidden).mean(0))


def recipe(spec, shape):
    changes = {"epochs": 6, "train_size": 50, "gradient_norm": 1.0, "batch_size": 16}
    return spec.model_copy(update=changes)


def draw(model, count, generator):
    return torch.rand(count, *model.shape, generator=generator)


TASK = om.Task(
    lambda spec, shape, classes: Net(spec, shape), loss, outliers_per_input=2.0,
    choose_outliers=choose, finish=finish,
)


@om.detector_model(
    task=TASK, spec=recipe, columns=2, members=2, gradients=True, samples=draw, of_training=True
)
def exposed(model, inputs):
    inputs.requires_grad_()
    value = model(inputs)
    (slope,) = torch.autograd.grad(value.sum(), inputs)
    far = (model.layer(inputs.flatten(1)) - model.center).norm(dim=1)
    return torch.stack([value, far + slope.flatten(1).norm(dim=1)], dim=1)


@om.detector(paper="You 2026, arXiv:0000.00000", needs={"model:exposed"}, only_by_name=True)
def outlier_aware(train, *, column: int = 0):
    """How much like an outlier the ensemble finds a sample."""
    usual = train.model("exposed").mean((0, 1))
    return lambda test: (test.model("exposed") - usual).mean(1)[:, column]
'''.replace("only_by_name=True)", 'only_by_name=True, grid={"column": (0, 1)})')


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("exposed.py").write_text(CODE)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (90, 4, 4), np.uint8)
    np.savez("other.npz", train_images=images, train_labels=np.zeros(90, int),
             test_images=images[:9], test_labels=np.zeros(9, int))  # fmt: skip
    return tmp_path


def make_study(data: str, **base: object) -> Study:
    content = {
        "name": "aware",
        "base": {"data": data, "network": "mlp", "width": 4, "epochs": 1, "model_size": "tiny",
                 "auxiliary": "other.npz", **base},
        "factors": [{"field": "seed", "levels": [0, 1]}],
        "detectors": ["exposed.py:outlier_aware", "energy"],
        "ood": ["uniform_noise"],
        "keep_unlearned": True,  # one epoch
    }  # fmt: skip
    return parse_study(content, "study", Path.cwd())


def plan(study: Study) -> Plan:
    return make_plan(study, read_contents(study))


def keys(made: Plan) -> set[str]:
    return {model.model for run in made.runs for model in run.models.values()}


def test_steps_are_timed_before_anything_is_trained_and_change_no_result(
    folder, stripes, monkeypatch
):
    study, said = make_study(stripes), []
    usual, timed = (FolderStore(folder / name) for name in ("usual", "timed"))
    run_inside(study, usual)
    monkeypatch.setattr(timing, "_SHARE", 1e12)
    assert not run_inside(study, timed, progress=said.append).missing
    assert payloads(timed) == payloads(usual)
    # Both members are of one kind, and classifiers of another.
    kinds = [state for state in said if state.train == (0, 4)]
    assert [state.at_least for state in kinds[:2]] == [True, True]
    assert all(state.seconds_left is not None for state in said)


def test_an_ensemble_without_one_of_its_members_is_missing(folder, stripes, monkeypatch):
    study, store = make_study(stripes), FolderStore(folder / "store")
    second = next(m.spec for n, m in plan(study).runs[0].models.items() if n.member == 2)
    epoch = Training.run_epoch

    def run_epoch(self):
        if self.spec.seed == second.seed:
            raise UserError("Training diverged: in a test.")
        epoch(self)

    monkeypatch.setattr(Training, "run_epoch", run_epoch)
    told = {(part.run, part.detector): part for part in run_inside(study, store).missing}
    model = "seed=0, model exposed 2 of 2"
    assert set(told) == {("seed=0", "outlier_aware"), ("seed=1", "outlier_aware"), (model, "")}
    assert told["seed=1", "outlier_aware"].reason == f"it needs run {model}, which failed."
    assert told["seed=1", "outlier_aware"].failure
    monkeypatch.undo()
    assert not run_inside(study, store).missing


def test_all_of_it_in_a_study_verified_and_resumed(folder, stripes, monkeypatch):
    study, store = make_study(stripes), FolderStore(folder / "store")
    outcome = run_inside(study, store)
    assert not outcome.missing
    made = plan(study)
    assert len(keys(made)) == 2, "two members, shared by both seeds"
    assert [n.member for n in made.runs[0].models] == [1, 2]
    members = [bytes_to_arrays(store.load("models", key)) for key in sorted(keys(made))]
    for arrays in members:
        assert arrays["samples"].shape == (16, 1, 8, 8) and arrays["weights/center"].any()
        assert arrays["weights/layer.weight"].shape[0] == 2, "tiny"
    assert not np.array_equal(*(arrays["weights/center"] for arrays in members))
    table = bytes_to_table(store.view("tables", *store.keys("tables")))
    scores = {row.dataset: row.scores for row in table.rows if row.detector == "outlier_aware"}
    assert set(scores) == {table.id, "uniform noise"}
    again = recompute(store, 1000, np.random.default_rng(0))
    assert not again.differences and not again.impossible
    # Killed in the fourth epoch, it goes on and ends with the same bytes.
    epoch, passed = Training.run_epoch, []

    def run_epoch(self):
        if self.task.outliers_per_input:
            passed.append(self.epoch)
            if len(passed) == 4:
                raise KeyboardInterrupt
        epoch(self)

    monkeypatch.setattr(Training, "run_epoch", run_epoch)
    monkeypatch.setattr(engine_training, "SECONDS_BETWEEN_SNAPSHOTS", 0.0)
    cut = FolderStore(folder / "cut")
    with pytest.raises(KeyboardInterrupt):
        run_inside(study, cut)
    run_inside(study, cut)
    for key in keys(made):
        assert cut.load("models", key) == store.load("models", key)
    assert any("other" in caveat for f in outcome.findings for caveat in f.caveats)
    (shared,) = (c for c in outcome.findings[0].caveats if c.startswith("Same scores in all 2 "))
    assert "outlier_aware" in shared and "energy" not in shared


def test_keys_follow_size_and_auxiliary_and_leave_classifiers_alone(folder, stripes):
    plain = plan(make_study(stripes))
    for changes in ({"model_size": "small"}, {"auxiliary": "more.npz"}):
        content = dict(np.load("other.npz"))
        np.savez("more.npz", **content | {"train_images": content["train_images"][::-1]})
        other = plan(make_study(stripes, **changes))
        assert not keys(other) & keys(plain)
        assert [run.training for run in other.runs] == [run.training for run in plain.runs]


def test_without_auxiliary_outliers_it_is_one_sentence(folder, stripes):
    with pytest.raises(UserError, match="'exposed' learns from auxiliary outliers, but none"):
        plan(make_study(stripes, auxiliary=""))
    with pytest.raises(UserError, match="must name a data set, got 'rotated'"):
        plan(make_study(stripes, auxiliary="rotated"))


def test_the_contract_answers_in_the_shape_of_the_card(folder):
    assert_detector("exposed.py:outlier_aware")


def test_answers_of_an_ensemble_are_stacked_in_order():
    one, two = torch.zeros(3, 2), torch.ones(3, 2)
    need = Need.parse("model:many@2")
    assert (need.member, str(need)) == (2, "model:many@2")
    answers = {need: two, Need("model", "many", member=1): one}
    view = Outputs(torch.randn(3, 4), answers=answers).only({Need("model", "many")}, "reader")
    assert torch.equal(view.model("many"), torch.stack([one, two], 1))


# --- the loop itself ------------------------------------------------------------------------------


def images(count: int) -> Images:
    pixels = np.random.default_rng(count).random((count, 1, 2, 2), np.float32)
    return Images(f"{count} images", pixels, np.zeros(count, np.int64))


def linear(spec, shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 1))


def test_batches_have_outliers_and_know_how_far_training_is():
    seen: list[Batch] = []

    def loss(spec, model, batch):
        seen.append(batch)
        return model(batch.inputs).mean(), {}

    spec = TrainSpec(data="-", epochs=2, batch_size=4)
    pool = images(7)
    train(spec, images(10), 1, task=Task(linear, loss, outliers_per_input=0.5), auxiliary=pool)
    assert [batch.progress for batch in seen] == pytest.approx([0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3])
    assert [len(batch.outliers) for batch in seen] == [2, 2, 1] * 2
    known = {tuple(row) for row in pool.pixels.reshape(7, 4)}
    drawn = [tuple(row) for batch in seen for row in batch.outliers.flatten(1).tolist()]
    assert {tuple(np.float32(x)) for x in drawn} <= known and len(set(drawn[:5])) == 5
    assert drawn[:5] != drawn[5:]


def test_a_gradient_is_clipped_to_its_norm():
    def loss(spec, model, batch):
        return 1000.0 * model(batch.inputs).mean(), {}

    def moved(norm: float) -> float:
        spec = TrainSpec(data="-", epochs=1, batch_size=8, optimizer="sgd", learning_rate=1.0)
        spec = spec.model_copy(update={"gradient_norm": norm})
        fresh = Task(linear, loss).fresh_network(spec, (1, 2, 2), 1).state_dict()
        made = train(spec, images(8), 1, task=Task(linear, loss)).model.state_dict()
        return float(torch.cat([(made[n] - fresh[n]).flatten() for n in made]).norm())

    assert moved(0.25) == pytest.approx(0.25, rel=1e-5)
    assert moved(0.0) > 100


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (torch.tensor([9]), "rows from 0 to 6"),
        (torch.tensor([0.5]), "row numbers, int64"),
        (torch.tensor([], dtype=torch.int64), "at least one"),
    ],
)
def test_rows_that_cannot_be_chosen_are_one_sentence(rows, sentence):
    task = Task(
        linear,
        lambda spec, model, batch: (model(batch.inputs).mean(), {}),
        outliers_per_input=1.0,
        choose_outliers=lambda *_: rows,
    )
    with pytest.raises(UserError, match=sentence):
        train(TrainSpec(data="-", epochs=1), images(8), 1, task=task, auxiliary=images(7))
    with pytest.raises(UserError, match=r"shape \(1, 4, 4\), but '8 images' has \(1, 2, 2\)"):
        other = Images("large", np.zeros((2, 1, 4, 4), np.float32), np.zeros(2, np.int64))
        train(TrainSpec(data="-", epochs=1), images(8), 1, task=task, auxiliary=other)


# --- what the report shows of it ------------------------------------------------------------------


def test_the_report_shows_learning_curves_time_and_samples(folder, stripes):
    study, store = make_study(stripes), FolderStore(folder / "store")
    outcome = run_inside(study, store)
    finding = training_finding(outcome, store)
    assert finding is not None and from_json(to_json(finding)) == finding
    (table,), (curves,) = finding.tables, finding.series
    assert [row[1:5] for row in table.rows] == [("tiny", table.rows[0][2], 6, 6)] * 2
    assert {point["x"] for point in curves.points} == set(range(1, 7))
    assert [len(gallery.pictures) for gallery in finding.galleries] == [16, 16]
    (page,) = om.report([*outcome.findings, finding], folder / "out")
    text = page.read_text()
    assert text.count('src="data:image/png;base64,') == 32
    assert "Samples drawn by seed=0, model exposed 1 of 2" in text and "No claims" not in text
    plain = make_study(stripes, auxiliary="").model_copy(update={"detectors": ("energy",)})
    assert training_finding(run_inside(plain, store), store) is None


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB")])
def test_a_picture_is_a_png_of_the_same_pixels(channels, mode):
    pixels = np.random.default_rng(0).integers(0, 256, (channels, 5, 7), np.uint8)
    shown = PIL.Image.open(io.BytesIO(base64.b64decode(picture(pixels, "seven").png)))
    assert shown.mode == mode and shown.size == (7, 5)
    assert np.array_equal(np.asarray(shown).reshape(5, 7, channels), pixels.transpose(1, 2, 0))
    assert picture(pixels.astype(np.float32) / 255).png == picture(pixels).png


def test_pictures_that_are_none_are_one_sentence():
    with pytest.raises(UserError, match="must be a PNG file in base64"):
        Picture('"><script>')
    with pytest.raises(UserError, match=r"shape \(channels, height, width\), got \(2,\)"):
        picture(np.zeros(2))


@pytest.mark.parametrize("size", ["tiny", "small"])
def test_no_size_but_the_published_one_grows_with_the_data(size):
    """Seconds stay seconds on 60,000 images; one published recipe is small as it is."""
    given = TrainSpec(data="none", auxiliary="more", model_size=size)
    most = {"tiny": 2_000, "small": 10_000}[size]
    for name, card in MODELS.items():
        if card.per == "data" and name != "exposed_classifier" * (size == "small"):
            assert card.recipe(given, (60_000, 1, 28, 28)).train_size <= most, name
