"""The tasks of a study, as executors call them; PyTorch is imported only where they are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oodometer.engine.lead.estimates import Kind, Pace
from oodometer.engine.plan.artefacts import Stage
from oodometer.engine.plan.trainings import TrainingPlan
from oodometer.engine.stores import Store, StoreError, open_store
from oodometer.engine.work.data import forget_data
from oodometer.scores import Missing

if TYPE_CHECKING:
    from oodometer.engine.work.network import NetworkWorker


@dataclass(frozen=True)
class Work:
    """One run, and all that a worker has to know to do it."""

    run: TrainingPlan
    ood: tuple[str, ...]  # outlier sets as the study names them
    detectors: tuple[str, ...]  # as the study names them
    store: str  # its address
    device: str


@dataclass(frozen=True)
class Report:
    """What a task could not do; and what is wrong with the store, if it cannot be used."""

    missing: tuple[Missing, ...] = ()
    # spent on a stage, and on which unit of scoring
    seconds: Mapping[tuple[Stage, str], float] = field(default_factory=dict)
    failed: tuple[str, ...] = ()  # units of scoring
    trained: float = 0.0  # the share of the wanted epochs that were trained in these seconds
    store_error: str = ""


def warm_up() -> None:
    """Import what tasks need, while the runner still plans."""
    import oodometer.engine.work.worker  # noqa: F401


def time_steps(kind: Kind, detectors: tuple[str, ...]) -> Pace | None:
    """Time steps of a kind of network; None if it does not take made-up samples."""
    from oodometer.engine.lead import paces
    from oodometer.scoring import choices

    choices(detectors)  # imports the files of users, which register their models
    return paces.time_steps(kind)


def prepare(work: Work) -> Report:
    """Train and extract what the store lacks of a run."""
    return _report(work, lambda worker: worker.prepare())


def score(work: Work, units: tuple[str, ...]) -> Report:
    """Make these units of scoring of a run."""
    return _report(work, lambda worker: worker.score(units))


def _report(work: Work, do: Callable[[NetworkWorker], list[Missing]]) -> Report:
    try:
        worker = _worker(work)
        worker.seconds.clear()
        worker.failed.clear()
        worker.trained = 0.0
        missing = do(worker)
    except StoreError as problem:
        return Report(store_error=str(problem))
    return Report(tuple(missing), dict(worker.seconds), tuple(worker.failed), worker.trained)


# A process keeps the worker of the run that it did last: what was just extracted is scored from
# memory. It keeps the store, too.
_workers: dict[tuple[str, ...], NetworkWorker] = {}
_stores: dict[str, Store] = {}


def _worker(work: Work) -> NetworkWorker:
    from oodometer.engine.work.worker import open_worker

    wanted = (part.key for part in work.run.artefacts)
    key = (work.store, work.device, work.run.label, *wanted, *work.detectors)
    if key not in _workers:
        _close_workers()
        if work.store not in _stores:
            opened = open_store(work.store)
            opened.require_present()  # whoever gave this task has begun it
            _stores[work.store] = opened
        store = _stores[work.store]
        _workers[key] = open_worker(work.run, work.ood, work.detectors, store, work.device)
    return _workers[key]


def _close_workers() -> None:
    for worker in _workers.values():
        worker.close()
    _workers.clear()


def lend(store: Store) -> None:
    """Let tasks in this process use this very store."""
    forget()
    _stores[store.address] = store


def forget() -> None:
    """Forget what is kept between tasks."""
    _close_workers()
    _stores.clear()
    forget_data()
