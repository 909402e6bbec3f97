"""What the tests of the engine share: a small study, ways to run one here, and what came of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from oodometer.engine.executors.in_process import InProcess
from oodometer.engine.lead.collect import collect, conclude
from oodometer.engine.lead.run import make_plan, read_contents, run_study
from oodometer.engine.plan.plan import RunPlan
from oodometer.engine.plan.study_index import Outcome
from oodometer.engine.stores import FolderStore, Store
from oodometer.engine.work.worker import RunWorker
from oodometer.scores import Missing
from oodometer.study import Study, parse_study

DETECTORS = ["max_softmax", "energy", "knn(k=3)", "mahalanobis"]
_NO_RESULTS = {"studies", "plans", "claims", "reports", "runners", "unfinished"}


def make_study(data: str, **changes: object) -> Study:
    """Two trainings of a small network, four detectors and two outlier sets."""
    content = {
        "name": "tiny",
        "base": {"data": data, "network": "mlp", "width": 4, "epochs": 2},
        "factors": [{"field": "seed", "levels": [0, 1]}],
        "detectors": DETECTORS,
        "ood": ["uniform_noise", "inverted"],
        "keep_unlearned": True,  # they are too small to learn much, and it does not matter here
    }
    return parse_study(content | changes, "study")


def execute(
    run: RunPlan, ood: Sequence[str], detectors: Sequence[str], store: Store, device: str = "cpu"
) -> list[Missing]:
    """Do all that the store lacks of one run; return what could not be done."""
    worker = RunWorker(run, ood, detectors, store, device)
    return worker.prepare() or worker.score(list(run.scores))


def run_here(study: Study, store: FolderStore) -> Outcome:
    """Run a study in this process, run after run, without a runner."""
    made = make_plan(study, read_contents(study))
    failed: list[Missing] = []
    for run in made.runs:
        failed += execute(run, study.ood, made.named_detectors, store)
    collected = collect(made, store, failed)
    assert collected is not None
    return conclude(study, *collected, store)


def run_inside(study: Study, store: FolderStore, **given: object) -> Outcome:
    """Run a study as always, but all of it in this process."""
    with contextlib.closing(InProcess()) as executor:
        return run_study(study, store, executor=executor, **given)


def payloads(store: FolderStore) -> dict[str, bytes]:
    """All results in a store; not the records, which tell times, nor what kills left half done."""
    return {
        str(path.relative_to(store.folder)): path.read_bytes()
        for path in store.folder.rglob("*")
        if path.is_file() and path.suffix != ".json" and not _NO_RESULTS & set(path.parts)
    }
