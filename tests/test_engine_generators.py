"""Generators as a part of studies: one per outlier set, kept, shared and searched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_engine_searches import kept, make_study, planned
from test_generators import bars

from oodometer.engine.lead.collect import gather
from oodometer.engine.lead.estimates import Cost
from oodometer.engine.lead.jobs import jobs_of
from oodometer.engine.lead.run import run_study
from oodometer.engine.plan.plan import Plan
from oodometer.engine.plan.study_index import Outcome, plan_record
from oodometer.engine.stores import MemoryStore, Store
from oodometer.engine.work.codecs import bytes_to_arrays
from oodometer.errors import UserError
from oodometer.lab.generators import GENERATORS, Drawing
from oodometer.study import GENERATED, Study

VARIATION = "stylegan2(truncation=0.7)"


@pytest.fixture(scope="module")
def outliers(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("outliers") / "bars.npz"
    np.savez(path, train_images=bars(48).pixels, test_images=bars(20, 5).pixels // 2,
             train_labels=np.zeros(48, int), test_labels=np.zeros(20, int))  # fmt: skip
    return str(path)


def study_of(stripes: str, outliers: str, **changes: object) -> Study:
    searches = {"variations": ["color", VARIATION], "steps": 3, "images": 6}
    given = {"ood": [outliers], "detectors": ["max_softmax"], "searches": searches}
    return make_study(stripes, **(given | changes))


@pytest.fixture(scope="module")
def done(stripes: str, outliers: str) -> tuple[Plan, Store, Outcome]:
    study, store = study_of(stripes, outliers), MemoryStore()
    outcome = run_study(study, store)
    return planned(study), store, outcome


def test_one_generator_serves_all_runs_and_is_a_parent_of_searches(done) -> None:
    made, store, outcome = done
    assert not outcome.missing
    assert all(store.has(part.kind, part.key) for part in made.artefacts)
    networks = {m.model: m for run in made.runs for m in run.models.values()}
    (network,) = networks.values()
    assert network.label == "seed=0, model stylegan2 of bars"
    searches = [part for part in made.artefacts if part.kind == "searches"]
    by_generator = [part for part in searches if "stylegan2" in part.title]
    assert len(searches) == 2 * 2 and len(by_generator) == 2
    assert all((network.model in part.parents) == (part in by_generator) for part in searches)
    jobs = jobs_of(made.runs, dict.fromkeys(made.study.runs(), Cost(1, 1, 1)), lambda part: False)
    for job in jobs:
        waits = any(plan.model == network.model for plan in job.needs)
        assert waits == ("stylegan2" in job.search or not job.search)


def test_what_is_found_are_images_of_the_generator(done) -> None:
    made, store, _ = done
    run = made.runs[0]
    plan = run.searches[f"{VARIATION} of bars against max_softmax"]
    arrays = bytes_to_arrays(store.load("searches", plan.key))
    assert arrays["latent"].shape == (6, 8) and len(arrays["shown/clean"]) == 0
    np.testing.assert_allclose(np.linalg.norm(arrays["latent"], axis=1), 1, rtol=1e-5)
    (network,) = run.models.values()
    weights = bytes_to_arrays(store.load("models", network.model))
    assert weights["samples"].shape == (16, *run.content.train_shape[1:])
    card = GENERATORS["stylegan2"]
    model = card.task.fresh_network(network.spec, run.content.train_shape[1:], 1).eval()
    state = {n.removeprefix("weights/"): torch.from_numpy(v) for n, v in weights.items()
             if n.startswith("weights/")}  # fmt: skip
    model.load_state_dict(state)
    points = torch.from_numpy(arrays["latent"][arrays["shown/rows"]])
    with torch.no_grad():
        images = card.images(model.get_submodule(card.part), points, Drawing(truncation=0.7))
    np.testing.assert_allclose(images * 255, arrays["shown/found"], atol=1.5)
    table = gather(plan_record(made), store)
    scores = table.scores("seed=0", "max_softmax", plan.title)
    assert scores is not None
    np.testing.assert_allclose(scores, arrays["scores"], rtol=1e-4)


def test_the_generator_depends_on_the_outliers_and_on_nothing_of_the_runs(
    done, stripes: str, outliers: str, tmp_path: Path
) -> None:
    made, _, _ = done
    (known,) = {model.model for run in made.runs for model in run.models.values()}

    def key(path: str = outliers, **base: object) -> str:
        fields = {"data": stripes, "epochs": 2, "width": 4, "validation": 0.2, "model_size": "tiny"}
        study = study_of(stripes, path, base=fields | base)
        (model,) = {m.model for run in planned(study).runs for m in run.models.values()}
        return model

    assert key() == key(epochs=3, train_size=40, validation=0.3, test_size=10) == known
    assert key(model_seed=1) != known
    assert key(model_size="small") != known
    # The same test part, another training part.
    other = str(tmp_path / "bars.npz")
    np.savez(other, train_images=bars(48, 7).pixels, test_images=bars(20, 5).pixels // 2)
    assert key(other) != known


def test_the_same_study_gives_the_same_bytes(done, stripes: str, outliers: str) -> None:
    made, store, _ = done
    again = MemoryStore()
    run_study(study_of(stripes, outliers), again)
    assert kept(again, made) == kept(store, made)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ood": ["uniform_noise"]}, "generator learns from must name a data set, got 'uniform_no"),
        ({"searches": {"variations": ["stylegan3"]}}, "Unknown variation 'stylegan3'.*stylegan2"),
        ({"searches": {"variations": ["stylegan2(truncation=3)"]}}, "truncation is 3"),
        ({"searches": {"variations": ["stylegan2(psi=1)"]}}, "Unknown setting of 'stylegan2' 'psi"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_trained(
    stripes: str, outliers: str, changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        planned(study_of(stripes, outliers, **changes))


def test_studies_know_all_generators() -> None:
    assert set(GENERATED) == set(GENERATORS)
