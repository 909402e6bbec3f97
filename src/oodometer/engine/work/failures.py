"""Failures are results: kept in the store with their reasons and tracebacks."""

from __future__ import annotations

import json

from oodometer.engine.plan.keys import digest
from oodometer.engine.plan.plan import RunPlan
from oodometer.engine.stores import Store
from oodometer.scores import Missing


def failure_key(run: RunPlan, detector: str = "") -> str:
    """Return the key under which it is kept that a run, or a detector on it, failed."""
    return digest(sorted(run.scores[detector].values())) if detector else run.model


def remember_failure(store: Store, run: RunPlan, failure: Missing) -> None:
    """Keep a failure with its traceback."""
    payload = json.dumps(vars(failure), indent=1).encode()
    key = failure_key(run, failure.detector)
    wanted = run.scores[failure.detector].values() if failure.detector else [run.model]
    about = {"run": failure.run, "detector": failure.detector, "parents": [*wanted]}
    store.save("failures", key, payload, about)
