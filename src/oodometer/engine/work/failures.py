"""Failures are results: kept in the store with their reasons and tracebacks."""

from __future__ import annotations

import json

from oodometer.engine.plan import artefacts
from oodometer.engine.plan.trainings import TrainingPlan
from oodometer.engine.stores import Store
from oodometer.scores import Missing


def failure_key(run: TrainingPlan, detector: str = "") -> str:
    """Return the key under which the failure of a run, or of a detector on it, is kept."""
    return artefacts.failure_key(run.scores[detector].values()) if detector else run.model


def remember_failure(store: Store, run: TrainingPlan, failure: Missing) -> None:
    """Keep a failure with its traceback."""
    payload = json.dumps(vars(failure), indent=1).encode()
    key = failure_key(run, failure.detector)
    wanted = run.scores[failure.detector].values() if failure.detector else [run.model]
    about = {"run": failure.run, "detector": failure.detector, "parents": [*wanted]}
    store.save("failures", key, payload, about)
