"""Failures are results: kept in the store with their reasons and tracebacks."""

from __future__ import annotations

import json
from collections.abc import Iterable

from oodometer.engine.plan import artefacts
from oodometer.engine.plan.trainings import TrainingPlan
from oodometer.engine.stores import Store
from oodometer.scores import Missing


def failure_key(run: TrainingPlan, unit: str = "") -> str:
    """Return the key under which the failure of a run, or of a unit of scoring, is kept."""
    return artefacts.failure_key(part.key for part in run.units[unit]) if unit else run.model


def remember_failure(store: Store, run: TrainingPlan, failure: Missing, unit: str = "") -> None:
    """Keep a failure with its traceback."""
    payload = json.dumps(vars(failure), indent=1).encode()
    wanted = [part.key for part in run.units[unit]] if unit else [run.model]
    about = {"run": failure.run, "detector": failure.detector, "parents": wanted}
    store.save("failures", failure_key(run, unit), payload, about)


def known_failures(runs: Iterable[TrainingPlan], store: Store) -> set[str]:
    """Keys of what failed in earlier executions of these runs."""
    if not any(True for _ in store.keys("failures")):
        return set()
    wanted = {failure_key(run, unit) for run in runs for unit in ("", *run.units)}
    return store.present("failures", wanted)
