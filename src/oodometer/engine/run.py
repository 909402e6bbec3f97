"""Run a study: only what the store lacks, then collect and conclude."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oodometer.engine.collect import Outcome, collect, conclude, recall, remember
from oodometer.engine.plan import DataContent, Plan, RunPlan, plan
from oodometer.engine.pool import Progress, count_units, run_pool
from oodometer.engine.store import FolderStore, Kind, Store
from oodometer.errors import UserError, unknown
from oodometer.lab.outliers import load_outliers
from oodometer.lab.portions import noise_digest, portion_rows
from oodometer.lab.sources import load_source
from oodometer.protocols import PROTOCOLS
from oodometer.scores import Missing
from oodometer.study import Study


def read_contents(study: Study) -> dict[str, DataContent]:
    """Load the data of every run and tell what they hold; bad data are found here, early."""
    contents: dict[str, DataContent] = {}
    known: dict[tuple[object, ...], DataContent] = {}
    labels: dict[tuple[object, ...], NDArray[np.int64]] = {}
    checked: set[tuple[object, ...]] = set()
    for label, (spec, _) in study.runs().items():
        reads = (
            spec.data, spec.split, spec.held_out_classes, spec.test_size, spec.ood_draw,
        )  # fmt: skip
        if reads not in known:
            source = load_source(spec)
            sets = [load_outliers(name, source) for name in study.ood]
            names = [images.name for images in sets]
            for name in names:
                if names.count(name) > 1:
                    raise UserError(f"Two outlier sets are called '{name}': rename one file.")
            labels[reads] = source.train.labels
            known[reads] = DataContent(
                id=source.name,
                train=source.train.digest,
                test=source.test.digest,
                ood={images.name: images.digest for images in sets},
            )
        if (portion := (*reads, spec.train_size, spec.validation)) not in checked:
            portion_rows(spec, labels[reads])  # says so if there are too few images
            checked.add(portion)
        contents[label] = replace(known[reads], noise=noise_digest(spec))
    return contents


def make_plan(study: Study, contents: Mapping[str, DataContent]) -> Plan:
    """Check every name in the study, then plan it."""
    from oodometer.lab.train import check_spec
    from oodometer.scoring import choices

    _check_protocols(study)
    for spec, _ in study.runs().values():
        check_spec(spec)
    return plan(study, contents, choices(study.detectors))


def _check_protocols(study: Study) -> None:
    for name in study.protocols:
        if name not in PROTOCOLS:
            raise unknown("protocol", name, PROTOCOLS)


def count_done(made: Plan, store: Store) -> dict[str, tuple[int, int]]:
    """Per stage, how many results the store has and how many the plan wants."""
    wanted: dict[str, tuple[Kind, list[str]]] = {
        "train": ("models", [run.model for run in made.runs]),
        "extract": (
            "outputs",
            [key for run in made.runs for key in (run.train_outputs, *run.outputs.values())],
        ),
        "score": (
            "scores",
            [key for run in made.runs for keys in run.scores.values() for key in keys.values()],
        ),
    }
    return {
        stage: (sum(store.has(kind, key) for key in set(keys)), len(set(keys)))
        for stage, (kind, keys) in wanted.items()
    }


def unfinished(made: Plan, store: Store) -> list[RunPlan]:
    """Runs of which the store lacks a score."""
    return [
        run
        for run in made.runs
        if not store.has("correct", run.correct)
        or not all(store.has("scores", k) for keys in run.scores.values() for k in keys.values())
    ]


def _run_in_turns(
    made: Plan, todo: list[RunPlan], store: FolderStore, workers: int, progress: Progress
) -> list[Missing]:
    """Execute the runs; of those that share a training, one first, which trains for all of them."""
    first: list[RunPlan] = []
    then: list[RunPlan] = []
    claimed: set[str] = set()
    for run in todo:
        ready = store.has("models", run.model)
        (then if run.training in claimed and not ready else first).append(run)
        if not ready:
            claimed.add(run.training)
    total = sum(count_units(run) for run in todo)
    missing: list[Missing] = []
    before = 0
    for turn in filter(None, (first, then)):

        def told(done: int, _: int, before: int = before) -> None:
            progress(before + done, total)

        missing += run_pool(made, turn, store, workers, told)
        before += sum(count_units(run) for run in turn)
    return missing


def run_study(
    study: Study,
    store: FolderStore,
    *,
    workers: int,
    progress: Progress = lambda done, total: None,
) -> Outcome:
    """Do what the store lacks of a study and return its findings."""
    _check_protocols(study)
    contents = read_contents(study)
    remembered = recall(study, contents, store)
    if remembered is not None:
        return remembered
    made = make_plan(study, contents)
    missing: list[Missing] = []
    for _ in range(3):  # damaged scores are noticed when they are collected, and made again
        todo = unfinished(made, store)
        if todo:
            store.require_writable()
            missing = _run_in_turns(made, todo, store, workers, progress)
        collected = collect(made, store, missing)
        if collected is not None:
            break
    else:
        raise UserError(f"Store '{store.folder}' keeps losing what is written to it.")
    outcome = conclude(study, *collected, store)
    remember(study, contents, outcome, store)
    return outcome
