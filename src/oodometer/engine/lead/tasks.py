"""The tasks of a study, as executors call them; PyTorch is imported only where they are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oodometer.engine.plan.plan import RunPlan
from oodometer.engine.stores import Store, StoreError, open_store
from oodometer.scores import Missing

if TYPE_CHECKING:
    from oodometer.engine.work.steps import Bench


@dataclass(frozen=True)
class Work:
    """One run, and all that a worker has to know to do it."""

    run: RunPlan
    ood: tuple[str, ...]  # outlier sets as the study names them
    detectors: tuple[str, ...]  # likewise
    store: str  # its address
    device: str


@dataclass(frozen=True)
class Report:
    """What a task could not do; and what is wrong with the store, if it cannot be used."""

    missing: tuple[Missing, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)  # spent on: train, extract, ...
    store_error: str = ""


def warm_up() -> None:
    """Import what tasks need, while the runner still plans."""
    import oodometer.engine.work.steps  # noqa: F401


def prepare(work: Work) -> Report:
    """Train and extract what the store lacks of a run."""
    return _report(work, lambda bench: bench.prepare())


def score(work: Work, labels: tuple[str, ...]) -> Report:
    """Score a run with these detectors."""
    return _report(work, lambda bench: bench.score(labels))


def _report(work: Work, do: Callable[[Bench], list[Missing]]) -> Report:
    try:
        bench = _bench(work)
        bench.seconds.clear()
        missing = do(bench)
    except StoreError as problem:
        return Report(store_error=str(problem))
    return Report(tuple(missing), dict(bench.seconds))


# A worker keeps the bench of the run that it did last: what was just extracted is scored from
# memory. It keeps the store, too.
_benches: dict[tuple[str, ...], Bench] = {}
_stores: dict[str, Store] = {}


def _bench(work: Work) -> Bench:
    from oodometer.engine.work.steps import Bench

    key = (work.store, work.device, work.run.label, *work.run.outputs.values(), *work.detectors)
    if key not in _benches:
        _benches.clear()
        if work.store not in _stores:
            _stores[work.store] = open_store(work.store)
        store = _stores[work.store]
        _benches[key] = Bench(work.run, work.ood, work.detectors, store, work.device)
    return _benches[key]


def lend(store: Store) -> None:
    """Let tasks in this process use this very store."""
    forget()
    _stores[store.address] = store


def forget() -> None:
    """Forget what is kept between tasks."""
    _benches.clear()
    _stores.clear()
