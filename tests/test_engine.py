"""The engine: the same study gives the same bytes, whatever happened on the way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from engine_studies import DETECTORS, make_study, payloads, run_here, run_inside
from typer.testing import CliRunner

from oodometer.calls import setting_text
from oodometer.cli import app
from oodometer.engine.lead import collect as collecting
from oodometer.engine.lead.reported import report_content
from oodometer.engine.lead.run import count_done, make_plan, read_contents, run_study
from oodometer.engine.stores import FolderStore
from oodometer.engine.upkeep.find import find_artefacts
from oodometer.engine.upkeep.watch import Progress
from oodometer.engine.work import train as training
from oodometer.engine.work.codecs import (
    arrays_to_bytes,
    bytes_to_arrays,
    bytes_to_table,
)
from oodometer.errors import UserError
from oodometer.lab.data.portions import split_portions
from oodometer.lab.data.sources import load_source
from oodometer.lab.training.train import Training, train
from oodometer.study import Factor, Study


@pytest.fixture
def study(tiny_npz):
    return make_study(tiny_npz())


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


# ---- codecs -------------------------------------------------------------------------------------


def test_codecs_keep_everything():
    arrays = {
        "a": np.arange(6.0).reshape(2, 3).T,
        "b": np.array([True, False]),
        "c": np.array(3),
    }
    back = bytes_to_arrays(arrays_to_bytes(arrays))
    assert all(np.array_equal(back[name], value) for name, value in arrays.items())
    assert all(back[name].shape == value.shape for name, value in arrays.items())


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
        {"weight_decay": 0.1},
        {"loss": "logistic"},
        {"schedule": "cosine"},
        {"stopping": "early(on=train_loss)"},
        {"validation": 0.2},
        {"augment": "crop_flip"},
        {"label_noise": "uniform(rate=0.2)"},
        {"train_size": 40},
        {"epoch": 1},
    ):
        assert not all_keys(make_study("", base=base | change)) & before, change
    with np.load(moved) as arrays:
        changed = dict(arrays)
    changed["train_images"][0, 0, 0] += 1
    np.savez(moved, **changed)
    assert not all_keys(make_study(str(moved))) & before, "another content, the same path"


@pytest.mark.parametrize(
    "change", [{"test_size": 30}, {"ood_draw": 1}, {"features": "skip_stem_relu"}]
)
def test_what_comes_after_training_does_not_train_again(tiny_npz, change):
    base = {"data": tiny_npz(), "network": "mlp", "width": 4, "epochs": 2}
    plans = []
    for extra in ({}, change):
        study = make_study("", base=base | extra)
        plans.append(make_plan(study, read_contents(study)))
    one, two = (made.runs[0] for made in plans)
    assert one.model == two.model
    scored = [{k for keys in run.scores.values() for k in keys.values()} for run in (one, two)]
    assert scored[0] != scored[1]


def test_an_added_outlier_set_or_detector_keeps_what_is_there(study):
    before = all_keys(study)
    more = study.model_copy(
        update={"ood": (*study.ood, "gaussian_noise"), "detectors": (*study.detectors, "vim")}
    )
    assert before < all_keys(more)


# ---- a whole study -----------------------------------------------------------------------------


def test_twice_gives_the_same_bytes(study, tmp_path):
    one, two = FolderStore(tmp_path / "one"), FolderStore(tmp_path / "two")
    first, second = run_here(study, one), run_here(study, two)
    assert payloads(one) == payloads(two) and len(payloads(one)) > 30
    assert first.findings == second.findings


def test_the_grid_is_kept_where_the_user_fixed_nothing(study, store):
    outcome = run_here(study.model_copy(update={"detectors": ("energy", "knn(k=3)")}), store)
    table = bytes_to_table(store.load("tables", outcome.table_key))
    assert table.detectors == ("energy", "knn(k=3)")
    settings = {row.setting: row.default for row in table.rows if row.detector == "energy"}
    assert len(settings) > 1 and sum(settings.values()) == 1
    named = {row.setting for row in table.rows if row.detector == "knn(k=3)"}
    for row in table.rows:  # what the text says, as data
        assert row.setting == setting_text(row.settings)
    assert {type(row.settings["k"]) for row in table.rows if row.detector == "knn(k=3)"} == {int}
    assert len(named) > 1 and all(setting.startswith("k=3, ") for setting in named)
    (default,) = {r.setting for r in table.rows if r.detector == "knn(k=3)" and r.default}
    assert default.startswith("k=3, normalize=True")
    assert table.correct.keys() == table.runs.keys() and table.same_samples


@pytest.fixture(scope="module")
def finished(stripes, tmp_path_factory) -> tuple[Study, FolderStore]:
    """A study and the store in which it is finished; not to be changed."""
    study, store = make_study(stripes), FolderStore(tmp_path_factory.mktemp("finished"))
    run_here(study, store)
    return study, store


def damage_all(store: FolderStore, kind: str, how: str = "flipped") -> int:
    files = [p for p in (store.folder / kind).rglob("*") if p.is_file() and p.suffix != ".json"]
    for path in files:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        if how == "removed":
            path.unlink()
        else:
            path.write_bytes(content[: len(content) // 2] if how == "cut" else content)
    return len(files)


@pytest.mark.parametrize("kind", ["models", "outputs", "scores", "tables", "findings"])
@pytest.mark.parametrize("how", ["flipped", "cut", "removed"])
def test_what_was_damaged_is_made_again(finished, tmp_path, kind, how):
    study, whole = finished
    shutil.copytree(whole.folder, tmp_path / "store")
    store = FolderStore(tmp_path / "store")
    assert damage_all(store, kind, how)
    if kind in ("models", "outputs"):  # read only if something that follows is missing
        for key in list(store.keys("scores")):
            store.discard("scores", key)
        for key in list(store.keys("outputs")) if kind == "models" else ():
            store.discard("outputs", key)
    made = make_plan(study, read_contents(study))
    if kind == "scores":
        for key in list(store.keys("tables")):
            store.discard("tables", key)
        assert collecting.collect(made, store, []) is None, "damage must be noticed"
    run_here(study, store)
    assert payloads(store) == payloads(whole)


def test_every_number_of_a_report_leads_to_the_scores_that_it_is_made_of(finished):
    study, store = finished
    outcome = run_here(study, store)
    content = report_content(outcome, store, "my store", trained=False)
    assert {tuple(finding.families.items()) for finding in content.findings} == {
        (("max_softmax", "logits"), ("energy", "logits"), ("knn(k=3)", "features"),
         ("mahalanobis", "features"))
    }  # fmt: skip
    (cells,) = {id(finding.origin.cells): finding.origin.cells for finding in content.findings
                }.values()  # fmt: skip
    assert cells.command == "oodometer show --store 'my store'"
    table = bytes_to_table(store.view("tables", outcome.table_key))
    checked = 0
    for detector, by_set in cells.digests.items():
        assert set(by_set) == {table.id, *table.ood}
        for name, digests in by_set.items():
            for run, digest in zip(cells.runs, digests, strict=True):
                ((kind, key),) = find_artefacts(store, digest)
                kept = [np.array_equal(own, table.scores(run, detector, name))
                        for own in bytes_to_arrays(store.load(kind, key)).values()]  # fmt: skip
                assert kind == "scores" and any(kept)
                checked += 1
    assert checked == len(DETECTORS) * 2 * 3


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
    assert dict(outcome.findings[0].facts)["training runs"] == "1 of 2"


def test_nothing_at_all_is_an_error(study, store):
    with pytest.raises(UserError, match="Nothing of study 'tiny' could be scored"):
        run_here(study.model_copy(update={"detectors": ("knn(k=5000)",)}), store)


# ---- checkpoints and interrupted trainings -----------------------------------------------------


def epochs_study(data: str, *levels: int | str, **changes: object) -> Study:
    base = {"data": data, "network": "mlp", "width": 4, "epochs": 5, "validation": 0.2}
    return make_study(
        data,
        base=base | changes,
        factors=[{"field": "epoch", "levels": list(levels)}],
        detectors=["max_softmax"],
        ood=["inverted"],
    )


@pytest.fixture
def epochs_run(monkeypatch):
    """Count the epochs that are trained; after `kill_after` of them the process dies."""

    class Counter:
        trained, kill_after = 0, 10**9

    counter, original = Counter(), Training.run_epoch

    def counted(training: Training) -> None:
        if counter.trained >= counter.kill_after:
            raise KeyboardInterrupt
        original(training)
        counter.trained += 1

    monkeypatch.setattr(Training, "run_epoch", counted)
    monkeypatch.setattr(training, "SECONDS_BETWEEN_SNAPSHOTS", 0.0)
    return counter


def test_runs_that_differ_in_the_epoch_train_once(tiny_npz, store, epochs_run):
    study = epochs_study(tiny_npz(), 2, "best", "last", 4)
    made = make_plan(study, read_contents(study))
    assert len({run.training for run in made.runs}) == 1
    assert len({run.model for run in made.runs}) == 4
    run_here(study, store)
    assert epochs_run.trained == 5 and not list(store.keys("progress"))
    source = load_source(study.base)
    for run in made.runs:
        kept = bytes_to_arrays(store.load("models", run.model))
        alone = train(run.spec, source.train, source.classes)
        assert int(kept["epoch"]) == alone.epoch
        assert len(kept["curve/train_loss"]) == len(alone.losses)
        for name, value in alone.model.state_dict().items():
            assert np.array_equal(kept[f"weights/{name}"], value.numpy()), (run.label, name)


def test_epochs_that_nobody_asks_for_are_not_trained(tiny_npz, store, epochs_run):
    run_here(epochs_study(tiny_npz(), 1, 3), store)
    assert epochs_run.trained == 3


def test_the_measure_of_the_best_epoch_is_no_other_training(tiny_npz, store, epochs_run):
    study = epochs_study(tiny_npz(), "best", "last").model_copy(
        update={
            "factors": (
                Factor(field="epoch", levels=("best", "last")),
                Factor(field="best_by", levels=("validation_loss", "train_loss")),
            )
        }
    )
    run_here(study, store)
    assert epochs_run.trained == 5 and len(list(store.keys("models"))) == 3


def test_an_epoch_after_early_stopping_is_told_and_costs_no_second_training(
    tiny_npz, store, epochs_run
):
    study = epochs_study(
        tiny_npz(), 1, 4, 5, learning_rate=1.0, stopping="early(on=validation_loss, patience=1)"
    )
    outcome = run_here(study, store)
    trained = epochs_run.trained
    assert trained < 4 and not list(store.keys("progress"))
    assert [part.run for part in outcome.missing] == ["epoch=4", "epoch=5"]
    assert f"training stopped early, after epoch {trained}" in outcome.missing[1].reason


def test_a_training_that_diverges_late_leaves_its_early_epochs(tiny_npz, store, monkeypatch):
    original = Training.run_epoch

    def diverging(training: Training) -> None:
        if training.epoch == 3:
            raise UserError("Training diverged.")
        original(training)

    monkeypatch.setattr(Training, "run_epoch", diverging)
    outcome = run_here(epochs_study(tiny_npz(), 2, 5), store)
    assert [part.run for part in outcome.missing] == ["epoch=5"]


@pytest.fixture(scope="module")
def trained(stripes, tmp_path_factory) -> tuple[Study, dict[str, bytes]]:
    """A study of several epochs of one training, and what it comes to undisturbed."""
    study = epochs_study(stripes, 2, "best", "last", network="cnn", schedule="cosine")
    store = FolderStore(tmp_path_factory.mktemp("trained"))
    run_here(study, store)
    return study, payloads(store)


@pytest.mark.parametrize("kill_after", range(1, 5))
@pytest.mark.parametrize("damage", [False, True])
def test_killed_within_a_training_it_ends_with_the_same_bytes(
    trained, store, epochs_run, kill_after, damage
):
    study, expected = trained
    epochs_run.kill_after = kill_after
    with pytest.raises(KeyboardInterrupt):
        run_here(study, store)
    assert len(list(store.keys("progress"))) == 1
    if damage:
        assert damage_all(store, "progress")
    epochs_run.trained, epochs_run.kill_after = 0, 10**9
    run_here(study, store)
    assert epochs_run.trained == (5 if damage else 5 - kill_after)
    assert payloads(store) == expected


def test_a_lost_checkpoint_is_made_again(tiny_npz, store, epochs_run):
    study = epochs_study(tiny_npz(), 2, "last")
    made = make_plan(study, read_contents(study))
    epochs_run.kill_after = 4
    with pytest.raises(KeyboardInterrupt):
        run_here(study, store)
    store.discard("models", made.runs[0].model)
    epochs_run.trained, epochs_run.kill_after = 0, 10**9
    run_here(study, store)
    assert epochs_run.trained == 5


def test_workers_share_a_training(tiny_npz, two_workers, tmp_path):
    study = epochs_study(tiny_npz(), 2, "best", "last")
    here, pool = FolderStore(tmp_path / "here"), FolderStore(tmp_path / "pool")
    run_here(study, here)
    seen: list[Progress] = []
    run_study(study, pool, executor=two_workers, progress=seen.append)
    assert payloads(pool) == payloads(here)
    assert [state.train[0] for state in seen] == sorted(state.train[0] for state in seen)
    assert (seen[-1].train, seen[-1].extract, seen[-1].score) == ((3, 3), (9, 9), (6, 6))
    makers = {pool.record("models", key)["made_from"]["run"] for key in pool.keys("models")}
    assert makers == {"epoch=2"}


def test_detectors_see_what_was_trained_on(tiny_npz, store):
    study = make_study(
        tiny_npz(),
        base={
            "data": tiny_npz(),
            "network": "mlp",
            "epochs": 1,
            "validation": 0.2,
            "train_size": 50,
            "label_noise": "uniform(rate=0.5)",
        },
    )
    run_here(study, store)
    made = make_plan(study, read_contents(study))
    kept = bytes_to_arrays(store.load("outputs", made.runs[0].train_outputs))
    source = load_source(study.base)
    part, _ = split_portions(study.base, source.train, source.classes)
    assert len(kept["labels"]) == 40 and np.array_equal(kept["labels"], part.labels)


def test_a_changed_file_of_labels_is_another_training(tiny_npz, tmp_path):
    file = tmp_path / "labels.txt"
    file.write_text("\n".join(["0", "1", "2"] * 20))
    base = {"data": tiny_npz(), "network": "mlp", "label_noise": f"file(path={file})"}
    before = all_keys(make_study("", base=base))
    assert all_keys(make_study("", base=base)) == before
    file.write_text("\n".join(["1", "2", "0"] * 20))
    assert not all_keys(make_study("", base=base)) & before
    file.unlink()
    with pytest.raises(UserError, match="labels.txt. does not exist"):
        all_keys(make_study("", base=base))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"base": {"network": "restnet"}}, "Unknown network 'restnet'"),
        ({"base": {"optimizer": "adma"}}, "Unknown optimizer 'adma'. Did you mean 'adam"),
        ({"base": {"epoch": "best"}}, "Epoch 'best' goes by validation_accuracy, but validation"),
        ({"base": {"schedule": "cosin"}}, "Unknown schedule 'cosin'. Did you mean 'cosine'"),
        ({"base": {"train_size": 61}}, "train_size is 61, but there are 60 images"),
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


def test_a_pool_gives_the_same_and_is_remembered(study, two_workers, tmp_path):
    here, pool = FolderStore(tmp_path / "here"), FolderStore(tmp_path / "pool")
    run_here(study, here)
    steps: list[Progress] = []
    first = run_study(study, pool, executor=two_workers, progress=steps.append)
    assert payloads(pool) == payloads(here), "processes must not change the bytes"
    units = 2 * len(DETECTORS) * 3  # runs, detectors, data sets
    assert steps[-1].score == (units, units) and steps[-1].found == (0, 0, 0)
    assert steps[-1].made == tuple(done for done, _ in steps[-1].stages.values()), "all of it here"
    assert [step.score for step in steps] == sorted(step.score for step in steps)
    steps.clear()
    again = run_study(study, pool, workers=2, progress=steps.append)
    assert again.findings == first.findings and not steps
    done = count_done(make_plan(study, read_contents(study)), pool)
    assert all(have == wanted for have, wanted in done.values())


# ---- other people's detectors ------------------------------------------------------------------


def write_own(folder: Path, body: str, extra: str = "") -> str:
    """Write a detector file whose score is `body`; return how a study names it."""
    (folder / "own_detectors.py").write_text(
        f"{extra}\nimport oodometer as om\n\n\n"
        '@om.detector(paper="Somebody 2026", needs={"logits"})\n'
        "def own(train):\n"
        '    """Whatever this test wants."""\n'
        f"    return lambda test: {body}\n"
    )
    return f"{folder}/own_detectors.py:own"


def test_a_changed_helper_is_a_changed_detector(tmp_path, monkeypatch):
    from oodometer.engine.plan.keys import function_version
    from oodometer.registry import find

    folder = tmp_path / "somewhere"
    folder.mkdir()
    (folder / "own_helper.py").write_text("from own_deeper import SIGN\n")
    (folder / "own_deeper.py").write_text("SIGN = -1\n")
    name = write_own(folder, "SIGN * test.logits.amax(1)", "from own_helper import SIGN")
    monkeypatch.syspath_prepend(folder)
    card = find(name)
    before = function_version(card.build)
    function_version.cache_clear()
    assert function_version(card.build) == before
    (folder / "own_deeper.py").write_text("SIGN = +1\n")
    function_version.cache_clear()
    assert function_version(card.build) != before


def test_helpers_that_exchange_their_contents_are_another_detector(tmp_path, monkeypatch):
    from oodometer.engine.plan.keys import function_version
    from oodometer.registry import find

    imports = "from own_plus import SIGN as A\nfrom own_minus import SIGN as B"
    name = write_own(tmp_path, "(2 * A + B) * test.logits.amax(1)", imports)
    monkeypatch.syspath_prepend(tmp_path)
    helpers = [tmp_path / "own_plus.py", tmp_path / "own_minus.py"]
    for helper, sign in zip(helpers, ("+1", "-1"), strict=True):
        helper.write_text(f"SIGN = {sign}\n")
    card = find(name)
    before = function_version(card.build)
    for helper, sign in zip(helpers, ("-1", "+1"), strict=True):
        helper.write_text(f"SIGN = {sign}\n")
    function_version.cache_clear()
    assert function_version(card.build) != before


def test_networks_made_by_partial_functions_and_objects_have_keys(tmp_path):
    """They have no source of their own; a built-in has none at all, and is refused."""
    from oodometer.engine.plan.keys import function_version
    from oodometer.imports import import_object

    file = tmp_path / "makers.py"
    file.write_text(
        "from functools import partial\n\n\ndef make(classes, hidden):\n    return hidden\n\n\n"
        "few, many = partial(make, hidden=2), partial(make, hidden=3)\n\n\n"
        "class Maker:\n    def __call__(self, classes):\n        return 5\n\n\nmaker = Maker()\n"
    )
    made = [import_object("Network", f"{file}:{name}") for name in ("few", "many", "maker")]
    assert len({function_version(each) for each in made}) == 3
    with pytest.raises(UserError, match="'posix:system' is built into Python"):
        function_version(import_object("Network", "os:system"))


def test_a_file_that_a_detector_reads_is_in_its_key_if_declared(tiny_npz, tmp_path):
    name = write_own(tmp_path, "test.logits.amax(1)")
    module = tmp_path / "own_detectors.py"
    module.write_text(
        module.read_text().replace('needs={"logits"}', 'needs={"logits"}, reads=["means.csv"]')
    )
    study = make_study(tiny_npz(), detectors=[name])
    contents = read_contents(study)
    with pytest.raises(UserError, match="'own' reads 'means.csv', which cannot be read"):
        make_plan(study, contents)
    (tmp_path / "means.csv").write_text("1\n")
    before = make_plan(study, contents).runs[0]
    (tmp_path / "means.csv").write_text("2\n")
    after = make_plan(study, contents).runs[0]
    assert before.model == after.model and before.outputs == after.outputs
    assert not set(before.scores["own"].values()) & set(after.scores["own"].values())


@pytest.fixture
def upgrade(monkeypatch):
    """Pretend that a library is installed in another version."""
    from oodometer.engine import versions
    from oodometer.engine.plan import keys
    from oodometer.engine.stores import base

    caches = (versions.installed, base._made_by, keys.function_version, keys.libraries_of)

    def to(library: str, version: str) -> None:
        real = versions.version
        monkeypatch.setattr(versions, "version", lambda n: version if n == library else real(n))
        for cached in caches:
            cached.cache_clear()

    yield to
    monkeypatch.undo()
    for cached in caches:
        cached.cache_clear()


def test_another_minor_version_is_another_key_and_a_patch_is_said(tiny_npz, tmp_path, upgrade):
    """Results of another patch version are reused, and the finding says that they are mixed."""
    data = tiny_npz()
    store = FolderStore(tmp_path / "store")
    upgrade("scipy", "1.99.0")
    first = make_study(data, detectors=["max_softmax", "energy"])
    told: list[str] = []
    run_inside(first, store, tell=told.append)
    upgrade("scipy", "1.99.5")
    assert not told
    run_inside(first, store, tell=told.append)
    assert told == [
        "all scores were computed with scipy 1.99.0, but 1.99.5 is installed: --strict-versions "
        "recomputes them"
    ]
    study = make_study(data, detectors=["max_softmax", "energy", "entropy"])
    mixed = run_inside(study, store)
    sentence = "with different versions of scipy are compared: 1.99.0 (12) and 1.99.5 (6)"
    assert any(sentence in caveat for caveat in mixed.findings[0].caveats)
    kept = make_plan(study, read_contents(study)).runs[0]
    told.clear()
    strict = run_inside(study, store, strict_versions=True, tell=told.append)
    assert not any("versions" in caveat for caveat in strict.findings[0].caveats)
    assert "of other versions" in told[0]
    again = run_inside(study, store)
    assert again.findings == strict.findings, "the table of mixed versions is gone"
    upgrade("scipy", "1.100.0")
    other = make_plan(study, read_contents(study)).runs[0]
    assert kept.model == other.model and kept.outputs == other.outputs
    assert not set(kept.scores["energy"].values()) & set(other.scores["energy"].values())
    upgrade("torch", "3.0.0")
    assert make_plan(study, read_contents(study)).runs[0].model != kept.model


def test_a_library_that_only_an_own_detector_imports_is_in_its_key(tmp_path, upgrade):
    from oodometer.engine.plan.keys import function_version, libraries_of
    from oodometer.registry import find

    card = find(write_own(tmp_path, "test.logits.amax(1)", "import yaml"))
    before = function_version(card.build)
    assert set(libraries_of(card.build)) == {"PyYAML"}
    upgrade("PyYAML", "99.1.0")
    other = function_version(card.build)
    assert other != before and libraries_of(card.build) == {"PyYAML": "99.1.0"}
    upgrade("PyYAML", "99.1.7")
    assert function_version(card.build) == other


def test_a_detector_that_exits_costs_only_itself(tiny_npz, tmp_path):
    name = write_own(tmp_path, "sys.exit(3)", "import sys")
    study = make_study(tiny_npz(), detectors=["energy", name])
    path = tmp_path / "study.yaml"
    path.write_text(json.dumps(study.model_dump(mode="json")))
    words = ("run", path, "--store", tmp_path / "store", "--workers", 1)
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 3, done.stderr
    assert "failed: 2" in done.stdout and "2 parts missing" in done.stdout
    assert "SystemExit: 3" in done.stdout, "a failure is never hidden"


def test_the_table_does_not_tell_how_the_run_went(study, two_workers, tmp_path):
    """Settings that fail are in it in the same order and under the same key, resumed or not."""
    study = study.model_copy(update={"detectors": ("knn", "energy")})  # most k are too large
    once, twice = FolderStore(tmp_path / "once"), FolderStore(tmp_path / "twice")
    first = run_study(study, once, executor=two_workers)
    assert any(part.setting for part in first.missing)
    second = run_here(study, twice)
    for kind in ("tables", "findings"):
        for key in list(twice.keys(kind)):
            twice.discard(kind, key)
    third = run_here(study, twice)
    assert first.table_key == second.table_key == third.table_key
    assert payloads(once) == payloads(twice)


def test_a_study_declares_a_detector_in_advance(study, store):
    """Another declaration is another finding of the same table; an unknown one is refused."""
    plain, declared = (
        run_here(study.model_copy(update={"ours": n}), store) for n in ("", "energy")
    )
    assert plain.table_key == declared.table_key and plain.finding_keys != declared.finding_keys
    assert dict(declared.findings[0].facts)["declared in advance"] == "energy"
    assert "energy" in declared.findings[0].claims[0].text
    with pytest.raises(UserError, match="named by 'ours': 'enrgy'. Did you mean 'energy'"):
        run_here(study.model_copy(update={"ours": "enrgy"}), store)
