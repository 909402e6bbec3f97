"""Searches as a part of studies: planned, kept, resumed, shared, collected and shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from oodometer.engine.lead.collect import gather
from oodometer.engine.lead.estimates import Cost
from oodometer.engine.lead.jobs import jobs_of
from oodometer.engine.lead.run import make_plan, read_contents, run_study
from oodometer.engine.lead.searched import with_searches
from oodometer.engine.plan.plan import Plan
from oodometer.engine.plan.study_index import Outcome, plan_record
from oodometer.engine.stores import MemoryStore, Store
from oodometer.engine.stores.base import content_path
from oodometer.engine.upkeep.verify import recompute
from oodometer.engine.upkeep.watch import Progress
from oodometer.engine.work.codecs import bytes_to_arrays
from oodometer.errors import UserError
from oodometer.lab.search import make_variation
from oodometer.lab.search import run as searching
from oodometer.study import Study

OWN = """
import torch
from oodometer import detector

calls = []

@detector(needs={"logits"}, paper="none")
def broken(train):
    def score(outputs):
        calls.append(len(outputs))
        if len(calls) > 20:
            raise ValueError("out of luck")
        return -outputs.logits.max(1).values
    return score

steps = []

@detector(needs={"logits"}, paper="none")
def unsure(train):  # of one image, in the middle of the first search
    def score(outputs):
        values = -outputs.logits.max(1).values
        steps.extend([1] * (len(values) == 10))
        if len(values) == 10 and len(steps) == 4:
            return torch.where(torch.arange(10) == 3, torch.nan, values)
        return values
    return score

@detector(needs={"logits"}, paper="none")
def constant(train):
    return lambda outputs: torch.zeros(len(outputs.logits))
"""


AUTOENCODER = "reconstruction_error(loss=mse, architecture=od_test)"


def make_study(stripes: str, **changes: object) -> Study:
    content: dict[str, object] = {
        "name": "searched",
        "base": {"data": stripes, "epochs": 2, "width": 4, "validation": 0.2, "model_size": "tiny"},
        "factors": [{"field": "seed", "levels": [0, 1]}],
        "detectors": ["max_softmax", "knn(k=5)", AUTOENCODER],
        "ood": ["uniform_noise", "inverted"],
        "protocols": ["worst_case"],
        "keep_unlearned": True,
        "searches": {"variations": ["affine", "color"], "steps": 4, "images": 10},
    }
    return Study.model_validate(content | changes)


def planned(study: Study) -> Plan:
    return make_plan(study, read_contents(study))


def kept(store: Store, made: Plan) -> dict[str, bytes]:
    return {part.title: bytes(store.load(part.kind, part.key)) for part in made.artefacts}


@pytest.fixture(scope="module")
def done(stripes: str) -> tuple[Plan, Store, Outcome]:
    study, store = make_study(stripes), MemoryStore()
    outcome = run_study(study, store)
    return planned(study), store, outcome


def test_a_search_is_an_artefact_per_run_detector_set_and_variation(done) -> None:
    made, store, outcome = done
    parts = [part for part in made.artefacts if part.kind == "searches"]
    assert len(parts) == 2 * 3 * 2 * 2
    assert all(store.has(part.kind, part.key) for part in made.artefacts)
    assert not outcome.missing
    assert not list(store.keys("progress"))
    assert parts[0].title == ("search for affine of uniform noise against max_softmax, run seed=0")
    # One autoencoder serves both runs, and so do the searches against it.
    keys = {part.key for part in parts}
    assert len(keys) == 2 * 2 * 2 * 2 + 2 * 2


def test_what_is_found_is_scored_by_all_and_collected(done) -> None:
    made, store, outcome = done
    table = gather(plan_record(made), store)
    info = table.sets["color of inverted stripes against knn(k=5)"]
    assert (info.role, info.against, info.of, info.by) == (
        "search", "knn(k=5)", "inverted stripes", "color",
    )  # fmt: skip
    assert table.ood == ("uniform noise", "inverted stripes")
    for run in table.runs:
        for detector in table.detectors:
            own = table.scores(run, detector, f"color of inverted stripes against {detector}")
            clean = table.scores(run, detector, "inverted stripes")
            assert own is not None and clean is not None
            assert (own <= clean[:10] + 1e-5).all()
            other = table.scores(run, detector, "affine of uniform noise against max_softmax")
            assert other is not None and len(other) == 10
    (finding,) = outcome.findings
    assert ("training runs", "2") in finding.facts


def test_what_is_kept_makes_the_images_and_scores_that_were_found(done) -> None:
    made, store, _ = done
    run = made.runs[0]
    plan = run.searches["affine of inverted stripes against max_softmax"]
    arrays = bytes_to_arrays(store.load("searches", plan.key))
    found = bytes_to_arrays(store.load("found", run.found["max_softmax"][plan.title]))
    np.testing.assert_allclose(next(iter(found.values())), arrays["scores"], rtol=1e-5)
    assert arrays["latent"].shape == (10, 5)
    record = store.record("searches", plan.key)["made_from"]
    assert record["search"]["method"] == "metropolis" and record["search"]["steps"] == 4
    assert arrays["trace"].shape == (5, 10)
    shown = torch.from_numpy(arrays["shown/clean"]).float() / 255
    latent = torch.from_numpy(arrays["latent"][arrays["shown/rows"]])
    again = make_variation("affine", tuple(shown.shape[1:])).images(shown, latent)
    np.testing.assert_allclose(again * 255, arrays["shown/found"], atol=1.5)


def test_a_search_that_is_killed_goes_on_in_the_store_to_the_same_bytes(
    stripes: str, done, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, whole, _ = done
    study, store = make_study(stripes), MemoryStore()
    monkeypatch.setattr(searching, "_SECONDS_BETWEEN_SAVES", 0.0)
    steps = 0

    def killed(trace: object, *_: object) -> None:
        nonlocal steps
        steps += 1
        if steps == 7:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("oodometer.engine.work.search._InStore.save", _killing(killed))
        with pytest.raises(KeyboardInterrupt):
            run_study(study, store)
    assert list(store.keys("progress"))
    run_study(study, store)
    assert kept(store, planned(study)) == kept(whole, made)
    assert not list(store.keys("progress"))


def _killing(before):
    from oodometer.engine.work.search import _InStore

    save = _InStore.save

    def killed(self, arrays):
        before(arrays)
        save(self, arrays)

    return killed


def test_another_seed_another_detector_and_another_length_search_anew(stripes: str) -> None:
    def keys(**changes: object) -> set[str]:
        made = planned(make_study(stripes, **changes))
        return {part.key for part in made.artefacts if part.kind == "searches"}

    usual = keys()
    settings = {"variations": ["affine", "color"], "steps": 4, "images": 10}
    assert keys(detectors=["max_softmax", "knn(k=5)", AUTOENCODER, "energy"]) > usual
    for change in ({"seed": 1}, {"steps": 5}, {"images": 11}, {"method": "random_search"}):
        assert not keys(searches=settings | change) & usual
    assert keys(searches=settings | {"variations": ["affine"]}) < usual


def test_searches_are_computed_again_to_the_same_bytes(done) -> None:
    _, store, _ = done
    again = recompute(store, 25, np.random.default_rng(0))
    kinds = {kind for kind, _ in again.same}
    assert {"searches", "found"} <= kinds
    assert not again.differences and not again.impossible


def test_one_detector_that_fails_on_the_way_does_not_stop_the_others(
    stripes: str, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    own = [f"{tmp_path / 'own.py'}:{name}" for name in ("broken", "unsure", "constant")]
    study, store = make_study(stripes, detectors=[*own, "max_softmax"], factors=[]), MemoryStore()
    outcome = run_study(study, store)
    reasons = {part.reason for part in outcome.missing}
    assert any("ValueError: out of luck" in reason for reason in reasons)
    assert all(part.detector == "broken" and part.failure for part in outcome.missing)
    (finding,) = outcome.findings
    shown = {row[0] for row in finding.tables[0].rows}
    assert {"constant", "unsure", "max_softmax"} <= shown
    (reported,) = with_searches(outcome.findings, outcome, store)
    for name, text in (("unsure", "1 of 79 scores were NaN"), ("constant", "the same score")):
        assert sum(name in caveat and text in caveat for caveat in reported.caveats) == 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"searches": None}, "has the protocol worst_case, but no searches"),
        ({"searches": {"variations": ["afine"]}}, "unknown variation 'afine'.*affine"),
        ({"searches": {"variations": ["affine"], "method": "mh"}}, "unknown search method 'mh'"),
        ({"searches": {"variations": ["affine"], "detectors": ["odin"]}}, "named by 'searches'"),
        ({"base": {"data": "", "epochs": 1}}, "no sample of .* is set aside"),
    ],
)
def test_what_cannot_be_searched_is_said_before_anything_is_trained(
    stripes: str, changes: dict[str, object], sentence: str
) -> None:
    if "base" in changes:
        changes = {"base": {"data": stripes, "epochs": 1}}
    with pytest.raises(UserError, match=f"(?i){sentence}"):
        planned(make_study(stripes, **changes))


def test_detectors_that_read_other_runs_or_outliers_are_not_searched(stripes: str) -> None:
    names = ["max_softmax", "deep_ensemble", "binary_network"]
    made = planned(make_study(stripes, detectors=names))
    assert {s.detector for run in made.runs for s in run.searches.values()} == {"max_softmax"}


def test_lost_searches_are_done_again_each_by_any_runner(
    stripes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another runner has the run and one of its searches: the other search is done here."""
    study = make_study(stripes, detectors=["max_softmax"], factors=[], ood=["inverted"])
    store = MemoryStore()
    run_study(study, store)
    made = planned(study)
    before = kept(store, made)
    parts = [part for part in made.artefacts if part.kind in ("searches", "found")]
    theirs, ours = (part for part in parts if part.kind == "searches")
    for part in parts:
        store.remove_file(content_path(part.kind, part.key))
    monkeypatch.setattr("oodometer.engine.lead.runner.SECONDS_BETWEEN_LOOKS", 0.01)
    jobs = jobs_of(made.runs, {"base": Cost(1.0, 1.0, 1)}, lambda part: False)
    claims = [job.claim for job in jobs[:2]]
    other = "somebody else, on another machine"
    for claim in claims:
        assert store.claim(claim, other, 1e6)
    shared: list[bool] = []

    def watch(state: Progress) -> None:
        if not shared and store.has(ours.kind, ours.key):
            shared.append(not store.has(theirs.kind, theirs.key))
            for claim in claims:
                store.release(claim, other)

    run_study(study, store, progress=watch)
    assert shared == [True]
    assert kept(store, made) == before


def test_repeats_search_with_other_seeds_and_change_nothing_of_the_first(
    stripes: str, done: tuple[Plan, MemoryStore, Outcome]
) -> None:
    made, whole, _ = done
    settings = {"variations": ["affine"], "steps": 4, "images": 10, "detectors": ["max_softmax"]}
    study = make_study(stripes, searches=settings | {"repeats": 3}, ood=["inverted"])
    store = MemoryStore()
    store._files = dict(whole._files)
    outcome = run_study(study, store)
    assert not outcome.missing
    again = planned(study)
    new = {part.key for part in again.artefacts} - {part.key for part in made.artefacts}
    repeats = [s for s in again.runs[0].searches.values() if s.repeat > 1]
    assert len(new) == len(again.runs) * len(repeats) * 2  # searches, each scored by one detector
    latent = {
        search.seed: bytes_to_arrays(store.load("searches", search.key))["latent"].tobytes()
        for search in again.runs[0].searches.values()
    }
    assert len(set(latent.values())) == len(latent) == 3
    table = gather(plan_record(again), store)
    names = [name for name, info in table.sets.items() if info.role == "search"]
    assert [table.sets[name].repeat for name in names] == [1, 2, 3]
    ranks = np.array(
        [
            [
                (
                    table.scores(run, "max_softmax", table.id)
                    < table.scores(run, "max_softmax", name).min()
                ).sum()
                for name in names
            ]
            for run in table.runs
        ]
    )
    first = outcome.findings[0].tables[0]
    shown = dict(zip(first.columns, first.rows[0], strict=True))
    within = np.mean([np.std(own, ddof=1) ** 2 for own in ranks]) ** 0.5 / 3**0.5
    assert shown["lowest rank"] == pytest.approx(ranks.mean(), abs=0.05)
    assert shown["± over repeats"] == pytest.approx(within)
    assert shown["± over runs"] == pytest.approx(np.std(ranks.mean(1), ddof=1) / 2**0.5)
