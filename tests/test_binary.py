"""OD-test's binary classifier as a network: its two sides, its training in studies, its scores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_studies import run_inside
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

import oodometer as om
from oodometer.engine.lead.run import count_done, make_plan, read_contents
from oodometer.engine.plan.plan import Plan
from oodometer.engine.plan.study_index import Outcome, find_finished
from oodometer.engine.stores import FolderStore
from oodometer.engine.upkeep.survey import find_prunable
from oodometer.engine.upkeep.verify import recompute
from oodometer.engine.work.codecs import bytes_to_arrays, bytes_to_table
from oodometer.engine.work.failures import remember_failure
from oodometer.errors import UserError
from oodometer.lab.data.samples import Images, Samples, Tokens
from oodometer.lab.data.sources import Source
from oodometer.lab.detector_models.binary import binary_source, binary_spec
from oodometer.lab.training.schedules import make_stopping
from oodometer.lab.training.train import Training
from oodometer.needs import Need, parse_needs
from oodometer.scores import Missing, ScoreTable, validation_half
from oodometer.scoring import choices
from oodometer.study import Study, TrainSpec, parse_study

SIDE = 4  # pixels
DISTANCE = 1.5  # between known images and outliers, in deviations of their projection


# --- the two sides --------------------------------------------------------------------------------


def images(name: str, first: int, count: int, kind: type = np.float32) -> Images:
    """Images that can be told by their first pixel: numbers from `first` on."""
    pixels = np.zeros((count, 1, 2, 2), kind)
    pixels[:, 0, 0, 0] = np.arange(first, first + count)
    return Images(name, pixels, np.arange(count) % 3)


def numbers(samples: Samples) -> set[int]:
    assert isinstance(samples, Images)
    return set(samples.pixels[:, 0, 0, 0].astype(int).tolist())


def known(**changes: object) -> Source:
    parts = {"train": images("a", 0, 60), "test": images("a", 100, 40)}
    return Source("a", **{"held_out": None, "classes": 3, **parts, **changes})


def sides(source: Source, outliers: Samples, *, balanced: bool = True, **spec: object) -> Source:
    return binary_source(source, TrainSpec(data="a", **spec), outliers, balanced=balanced)


def test_known_are_all_but_the_test_half_and_outliers_the_validation_half():
    source, outliers = known(), images("b", 200, 50)
    both = sides(source, outliers, balanced=False)
    assert both.validation is not None
    everything = numbers(both.train) | numbers(both.validation)
    learned = {100 + row for row in np.flatnonzero(validation_half(40))}
    strange = {200 + row for row in np.flatnonzero(validation_half(50))}
    assert everything == set(range(60)) | learned | strange
    for part in (both.train, both.validation):
        pixels = part.values[:, 0, 0, 0]
        assert np.array_equal(part.labels, (pixels >= 200).astype(int))
    assert not numbers(both.train) & numbers(both.validation)
    # A fifth of either side is held out, to one sample.
    assert np.bincount(both.validation.labels).tolist() == [16, 5]
    assert both.classes == 2 and not both.test.labels.any()


@pytest.mark.parametrize("outliers", [10, 500])
def test_the_smaller_side_is_repeated_until_both_are_as_many(outliers):
    both = sides(known(), images("b", 200, outliers))
    assert both.validation is not None
    for part in (both.train, both.validation):
        one, two = np.bincount(part.labels)
        assert one == two
        _, often = np.unique(
            part.values[part.labels == (outliers < 100), 0, 0, 0], return_counts=True
        )
        assert often.max() - often.min() <= 1
    assert not numbers(both.train) & numbers(both.validation)


def test_of_a_smaller_training_set_all_is_known_and_nothing_else():
    source = known(validation=images("a", 150, 20))  # which no detector learns from
    both = sides(source, images("b", 200, 10), train_size=30, validation=0.5)
    assert both.validation is not None
    seen = numbers(both.train) | numbers(both.validation)
    assert len(seen & set(range(60))) == 30
    assert not seen & set(range(150, 170))


def test_what_the_split_sets_aside_is_known_if_the_classifier_validates_on_it():
    both = sides(known(validation=images("a", 150, 20)), images("b", 200, 10))
    assert both.validation is not None
    seen = numbers(both.train) | numbers(both.validation)
    assert set(range(60)) | set(range(150, 170)) <= seen


@pytest.mark.parametrize("outliers", range(4, 12))
@pytest.mark.parametrize("others", range(40, 50))
def test_both_sides_are_held_out_however_few_there_are(outliers, others):
    both = sides(known(train=images("a", 0, others)), images("b", 200, outliers), balanced=False)
    assert both.validation is not None
    for part in (both.train, both.validation):
        assert np.bincount(part.labels, minlength=2).min() >= 1


def test_bytes_and_floats_together_are_floats_and_texts_stay_numbers():
    floats = Images("b", np.full((8, 1, 2, 2), 0.5, np.float32), np.full(8, -1))
    bytes_alone = known(train=images("a", 0, 60, np.uint8), test=images("a", 100, 40, np.uint8))
    both = sides(bytes_alone, floats)
    assert both.train.values.dtype == np.float32 and both.train.values.max() <= 1
    words = [
        Tokens(n, np.full((20, 3), v, np.int32), np.arange(20) % 2) for n, v in [("a", 1), ("b", 2)]
    ]
    told = sides(known(train=words[0], test=words[0], classes=2), words[1])
    assert isinstance(told.train, Tokens)
    assert np.array_equal(told.train.labels, (told.train.words[:, 0] == 2).astype(int))


def test_too_few_outliers_are_refused():
    with pytest.raises(UserError, match="half of the 3 of 'b': it needs a set of at least 4"):
        sides(known(), images("b", 200, 3))


def test_the_training_is_the_classifiers_own_on_another_task():
    spec = TrainSpec(
        data="a", network="mlp", optimizer="sgd", epochs=60, label_noise="uniform(rate=0.2)",
        loss="logistic", seed=3, train_size=9, stopping="early", epoch=5, adversarial=0.01,
    )  # fmt: skip
    made = binary_spec(spec, (1, 8, 8))
    assert (made.network, made.optimizer, made.seed) == ("mlp", "sgd", 3)
    assert (made.epochs, made.checkpoint) == (29, "validation_accuracy")
    assert (made.label_noise, made.loss, made.adversarial) == ("none", "cross_entropy", 0.0)
    assert binary_spec(spec.model_copy(update={"epochs": 2}), (1, 8, 8)).epochs == 2


def test_training_stops_when_a_measure_is_reached():
    stopping = make_stopping("reached(on=validation_accuracy, value=0.9)")
    assert stopping.reads == "validation_accuracy"
    assert not stopping.done({"validation_accuracy": []})
    assert not stopping.done({"validation_accuracy": [0.5, 0.89]})
    assert stopping.done({"validation_accuracy": [0.5, 0.9]})
    assert make_stopping("reached(on=train_loss, value=0.1)").done({"train_loss": [0.1]})
    with pytest.raises(UserError, match="Unknown measure"):
        make_stopping("reached(on=accuracy)")
    for never in ("value=99.99", "value=-0.1", "on=train_loss, value=-1"):
        with pytest.raises(UserError, match="must be (between 0 and 1|at least 0)"):
            make_stopping(f"reached({never})")


# --- in studies -----------------------------------------------------------------------------------


def write(path: Path, shift: float, seed: int, train: int = 200, test: int = 400) -> str:
    """Noise with a deviation of 0.1, moved along one direction: what tells them is known."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for part, count in (("train", train), ("test", test)):
        labels = np.arange(count) % 2
        pixels = rng.normal(0.5 + 0.1 * shift / SIDE, 0.1, (count, SIDE, SIDE))
        pixels[:, 0] += 0.2 * (2 * labels[:, None] - 1)  # which class
        arrays |= {f"{part}_images": pixels.astype(np.float32), f"{part}_labels": labels}
    np.savez(path, **arrays)
    return str(path)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "known.npz", 0.0, 0)
    write(tmp_path / "bright.npz", DISTANCE, 1)
    write(tmp_path / "dark.npz", -DISTANCE, 2)
    return tmp_path


def make_study(folder: Path, **changes: object) -> Study:
    base = {"data": str(folder / "known.npz"), "network": "mlp", "width": 4, "epochs": 2}
    content = {
        "name": "binary",
        "base": base | dict(changes.pop("base", {})),
        "factors": [],
        "detectors": ["max_softmax", "binary_network"],
        "ood": [str(folder / name) for name in ("bright.npz", "dark.npz")],
        "protocols": ["ranking", "od_test"],
        "keep_unlearned": True,
    }
    return parse_study(content | changes, "study")


def plan(study: Study) -> Plan:
    return make_plan(study, read_contents(study))


def table_of(outcome: Outcome, store: FolderStore) -> ScoreTable:
    return bytes_to_table(store.view("tables", outcome.table_key))


def scores(table: ScoreTable, setting: str, name: str) -> np.ndarray:
    (found,) = [
        row.scores
        for row in table.rows
        if (row.detector, row.dataset) == ("binary_network", name)
        and row.setting == f"outliers={setting}, balanced=True"
    ]
    return found


def test_it_tells_what_it_has_learned_as_well_as_can_be_and_nothing_else(folder, tmp_path):
    # Two normal clouds with a distance d: no rule has an AUROC above Phi(d / sqrt 2).
    far = 3.0
    write(folder / "bright.npz", far, 1)
    write(folder / "dark.npz", -far, 2)
    store = FolderStore(tmp_path / "store")
    study = make_study(folder, base={"epochs": 25, "width": 8})
    table = table_of(run_inside(study, store), store)
    best = norm.cdf(far / np.sqrt(2))
    tested = ~validation_half(400)
    for learned, other in (("bright", "dark"), ("dark", "bright")):
        inside = scores(table, learned, table.id)[tested]
        target = np.repeat([0, 1], tested.sum())
        on_it = roc_auc_score(target, np.append(inside, scores(table, learned, learned)[tested]))
        off_it = roc_auc_score(target, np.append(inside, scores(table, learned, other)[tested]))
        assert best - 0.05 < on_it < best + 0.03
        assert off_it < 0.5  # the other side of what it knows


def test_scores_are_the_log_odds_of_the_network_in_the_store(folder, tmp_path):
    store = FolderStore(tmp_path / "store")
    study = make_study(folder)
    table = table_of(run_inside(study, store), store)
    (only,) = plan(study).runs
    model = only.models[Need("model", "binary", "dark")]
    arrays = bytes_to_arrays(store.load("models", model.model))
    weights = {n.removeprefix("weights/"): v for n, v in arrays.items() if n.startswith("weights/")}
    layers = [weights[name].astype(np.float64) for name in weights if name.endswith("weight")]
    biases = [weights[name].astype(np.float64) for name in weights if name.endswith("bias")]
    values = np.load(folder / "bright.npz")["test_images"].reshape(400, -1)
    for place, (weight, bias) in enumerate(zip(layers, biases, strict=True)):
        values = values @ weight.T + bias
        values = np.maximum(values, 0) if place < len(layers) - 1 else values
    np.testing.assert_allclose(
        scores(table, "dark", "bright"), values[:, 1] - values[:, 0], rtol=1e-4, atol=1e-5
    )


def test_od_test_has_it_and_the_ranking_has_not(folder, tmp_path):
    for name, shift in (("left", 4.0), ("right", -4.0)):
        write(folder / f"{name}.npz", shift, 5)
    store = FolderStore(tmp_path / "store")
    ood = [str(folder / f"{name}.npz") for name in ("bright", "dark", "left", "right")]
    ranking, od_test = run_inside(make_study(folder, ood=ood), store).findings
    methods = {row[0] for table in od_test.tables for row in table.rows}
    assert "binary_network" in methods
    assert "binary_network" not in {row[0] for table in ranking.tables for row in table.rows}


def test_a_study_has_the_same_bytes_again_and_all_of_it_is_accounted_for(folder, tmp_path):
    study = make_study(folder)
    first, second = (FolderStore(tmp_path / name) for name in ("one", "two"))
    run_inside(study, first)
    run_inside(study, second)
    made = plan(study)
    assert [training.label for training in made.trainings[1:]] == [
        f"{made.runs[0].label}, model binary against {name}" for name in ("bright", "dark")
    ]
    for kind in ("models", "outputs", "probes", "scores"):
        keys = set(first.keys(kind))
        assert keys == set(second.keys(kind)) and keys
        assert all(first.load(kind, key) == second.load(kind, key) for key in keys)
    assert all(done == wanted for done, wanted in count_done(made, first).values())
    assert count_done(made, first)["train"] == (3, 3)
    assert not any(find_prunable(first).artefacts.values())
    again = recompute(first, 1000, np.random.default_rng(0))
    assert not again.differences and not again.impossible
    assert len(again.same) == sum(
        len(list(first.keys(k))) for k in ("models", "outputs", "probes", "scores")
    )


def test_a_new_outlier_set_trains_one_more_network_and_no_other(folder, tmp_path):
    store = FolderStore(tmp_path / "store")
    run_inside(make_study(folder), store)
    before = set(store.keys("models"))
    write(folder / "left.npz", 5.0, 6)
    ood = [str(folder / f"{name}.npz") for name in ("bright", "left", "dark")]
    run_inside(make_study(folder, ood=ood), store)
    assert len(set(store.keys("models")) - before) == 1


@pytest.mark.parametrize(
    ("field", "levels"),
    [
        ("label_noise", ["none", "uniform(rate=0.3)"]),
        ("loss", ["cross_entropy", "logistic"]),
        ("features", ["forward", "skip_stem_relu"]),
        ("epoch", [1, 2]),
        ("best_by", ["train_loss", "validation_loss"]),
        ("adversarial", [0.0, 0.1]),
        ("epochs", [40, 60]),
    ],
)
def test_what_has_no_part_in_it_shares_its_networks(folder, field, levels):
    made = plan(make_study(folder, factors=[{"field": field, "levels": levels}]))
    one, two = made.runs
    assert one.models == two.models
    assert len(made.trainings) == 4, "each is one task"


@pytest.mark.parametrize(
    ("field", "levels"),
    [
        ("seed", [0, 1]),
        ("split", [0, 1]),
        ("train_size", [50, 100]),
        ("validation", [0.1, 0.2]),
        ("test_size", [100, 200]),
        ("ood_draw", [0, 1]),
        ("network", ["mlp", "small_cnn"]),
        ("augment", ["none", "crop_flip"]),
        ("epochs", [1, 2]),
    ],
)
def test_what_has_a_part_in_it_trains_others(folder, field, levels):
    made = plan(make_study(folder, factors=[{"field": field, "levels": levels}]))
    models = made.trainings[len(made.runs) :]
    assert len({model.model for model in models}) == len(models) == 4


def test_the_same_outliers_under_two_names_are_learned_once(folder, tmp_path):
    shutil.copy(folder / "bright.npz", folder / "bright, clear.npz")
    names = ("bright", "bright, clear", "dark")
    study = make_study(folder, ood=[str(folder / f"{name}.npz") for name in names])
    assert len(plan(study).trainings) == 3
    store = FolderStore(tmp_path / "store")
    outcome = run_inside(study, store)
    assert "tuned" not in json.dumps([table.rows for table in outcome.findings[1].tables])
    table = table_of(outcome, store)
    for name in (table.id, *names):
        one, two = (scores(table, learned, name) for learned in names[:2])
        assert np.array_equal(one, two)


def test_a_set_that_is_too_small_to_learn_from_leaves_the_others(folder, tmp_path):
    write(folder / "few.npz", 5.0, 6, test=3)
    ood = [str(folder / f"{name}.npz") for name in ("bright", "few", "dark")]
    study, store = make_study(folder, ood=ood), FolderStore(tmp_path / "store")
    outcome = run_inside(study, store)
    (part,) = outcome.missing
    assert (part.detector, part.setting) == ("binary_network", "outliers=few")
    assert "needs 2 samples of each side, got 200 in-distribution and 1 outliers" in part.reason
    assert scores(table_of(outcome, store), "dark", "few").size == 3
    assert find_finished(study, read_contents(study), store) is not None, "nothing to try again"


def test_what_its_networks_cannot_do_is_said_before_anything_is_trained(folder):
    base = {"epochs": 40, "schedule": "cosine(warm_up=30)"}
    with pytest.raises(UserError, match="Model 'binary' cannot be trained: .* training has 29"):
        plan(make_study(folder, base=base))
    plan(make_study(folder, base=base, detectors=["max_softmax"]))


def test_a_network_tells_what_it_has_learned(folder, tmp_path):
    study, store = make_study(folder, base={"train_size": 50}), FolderStore(tmp_path / "store")
    run_inside(study, store)
    model = plan(study).runs[0].models[Need("model", "binary", "dark")]
    told = store.record("models", model.model)["made_from"]["detector model"]
    assert told == {"name": "binary", "outliers": "dark", "train_size": 50, "validation": 0.0}


def test_unbalanced_is_another_network(folder):
    detectors = ["max_softmax", "binary_network", "binary_network(balanced=False)"]
    made = plan(make_study(folder, detectors=detectors))
    assert len({training.model for training in made.trainings}) == 5
    (only,) = made.runs
    assert only.needs["binary_network(balanced=False)"] == tuple(
        Need("model", "binary_unbalanced", name) for name in ("bright", "dark")
    )


def test_lost_networks_are_trained_again(folder, tmp_path):
    study, store = make_study(folder), FolderStore(tmp_path / "store")
    run_inside(study, store)
    model = plan(study).runs[0].models[Need("model", "binary", "bright")]
    kept = {key: store.load("models", key) for key in store.keys("models")}
    for kind, key in (("models", model.model), ("probes", model.answers["dark"])):
        store.discard(kind, key)
        run_inside(study, store)
        assert store.has(kind, key)
    assert {key: store.load("models", key) for key in store.keys("models")} == kept


def test_one_that_fails_is_told_and_tried_again(folder, tmp_path, monkeypatch):
    study, store = make_study(folder), FolderStore(tmp_path / "store")
    label = plan(study).runs[0].label
    train = Training.run_epoch

    def fail(self):
        if self.spec.stopping.startswith("reached"):
            raise UserError("Training diverged: in a test.")
        train(self)

    monkeypatch.setattr(Training, "run_epoch", fail)
    told = {(part.run, part.detector): part.reason for part in run_inside(study, store).missing}
    failed = [f"{label}, model binary against {name}" for name in ("bright", "dark")]
    assert told[label, "binary_network"] == f"it needs runs {' and '.join(failed)}, which failed."
    monkeypatch.setattr(Training, "run_epoch", train)
    outcome = run_inside(study, store)
    assert not outcome.missing
    assert len({row.setting for row in table_of(outcome, store).rows}) == 3


def test_an_old_failure_says_nothing_about_what_is_there(folder, tmp_path):
    study, store = make_study(folder), FolderStore(tmp_path / "store")
    run_inside(study, store)
    (only,) = plan(study).runs
    model = only.models[Need("model", "binary", "dark")]
    # Another runner failed for lack of memory, while this one went on.
    remember_failure(store, model, Missing("MemoryError", run=model.label))
    for part in only.artefacts:
        if part.kind in ("probes", "scores"):
            store.discard(part.kind, part.key)
    assert not run_inside(study, store).missing


def test_if_all_fails_the_run_of_the_study_is_named(folder, tmp_path):
    base = {"optimizer": "sgd", "learning_rate": 1e30}
    with pytest.raises(UserError, match="could be scored. run base: Training diverged"):
        run_inside(make_study(folder, base=base), FolderStore(tmp_path / "store"))


# --- elsewhere ------------------------------------------------------------------------------------


def test_it_is_no_part_of_all_but_can_be_named_beside_it():
    usual = {choice.label for choice in choices("all")}
    assert "binary_network" not in usual
    named = [choice.label for choice in choices(["binary_network", "all", "knn"])]
    assert set(named) == usual | {"binary_network"} and len(set(named)) == len(named)


def test_without_a_study_one_sentence_says_where_it_comes_from():
    logits = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    outputs = {name: om.Outputs(logits=logits + place) for place, name in enumerate("abc")}
    table = om.score(outputs, ["max_softmax", "binary_network"], train="a", id="b")
    (part,) = table.missing
    assert "a study trains it" in part.reason
    with pytest.raises(UserError, match="for 'oodometer run'"):
        om.extract(torch.nn.Linear(2, 2), {"a": torch.zeros(2, 2)}, needs=["model:binary"])


def test_names_of_outlier_sets_may_end_alike():
    given = {Need("model", "n", "b"): torch.zeros(2), Need("model", "n", "a/b"): torch.ones(2)}
    outputs = om.Outputs(logits=torch.zeros(2, 3), answers=given)
    needs = parse_needs({"model:n"})
    assert outputs.only(needs, "own", "a/b").model("n").tolist() == [1, 1]
    assert outputs.only(needs, "own", "b").model("n").tolist() == [0, 0]
    with pytest.raises(UserError, match="needs the model 'n', which these outputs lack"):
        outputs.only(needs, "own", "c").model("n")
