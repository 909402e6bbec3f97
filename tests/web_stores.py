"""Stores for the tests of web pages, written without training anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from oodometer.engine.plan.keys import digest
from oodometer.engine.stores import FolderStore
from oodometer.engine.work.codecs import arrays_to_bytes

HOSTILE = (
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "x" * 10_000,
    "كاشف الشذوذ",
    '"><img src=x onerror=alert(1)>',
    "=cmd()",
)


def write_store(
    folder: Path,
    *,
    name: str = "made",
    detectors: Sequence[str] = ("energy", "knn"),
    seeds: int = 3,
    sets: Sequence[str] = ("noise", "digits"),
    scored: bool = True,
    seed: int = 0,
) -> FolderStore:
    """A study with a plan and scores, of which no classifier was trained."""
    rng = np.random.default_rng(seed)
    store = FolderStore(folder)
    cells: dict[str, dict[str, dict[str, str]]] = {}
    for number in range(seeds):
        run = f"seed={number}"
        for place, detector in enumerate(detectors):
            for ood in ("letters", *sets):
                key = digest(name, run, detector, ood)
                cells.setdefault(run, {}).setdefault(detector, {})[ood] = key
                if scored:
                    shift = 0.0 if ood == "letters" else 1.0 + 0.3 * place
                    scores = rng.normal(size=40) + shift
                    about = {"run": run, "detector": detector, "data set": ood, "parents": []}
                    store.save("scores", key, arrays_to_bytes({"-": scores}), about)
    write_plan(store, name, cells, seeds, detectors)
    return store


def write_plan(
    store: FolderStore,
    name: str,
    cells: dict[str, dict[str, dict[str, str]]],
    seeds: int,
    detectors: Sequence[str],
) -> str:
    """Record a plan of these scores, as `record_plan` does."""
    content = {
        "study": {
            "name": name,
            "base": {"data": "letters"},
            "factors": [{"field": "seed", "levels": list(range(seeds))}],
            "ood": ["uniform_noise"],
        },
        "id": "letters",
        "levels": {run: {"seed": number} for number, run in enumerate(cells)},
        "settings": {detector: [""] for detector in detectors},
        "same_samples": True,
        "runs": {run: {"score": {"scores": by_name}} for run, by_name in cells.items()},
        "trainings": {},
    }
    key = digest("plan", content)
    store.save("plans", key, json.dumps(content).encode(), {"study": name})
    return key
