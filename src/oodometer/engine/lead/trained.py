"""How the detector models of a study were trained: learning curves, time and samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.engine.plan.study_index import Outcome, read_plan
from oodometer.engine.stores import DamagedError, Store
from oodometer.engine.work.codecs import bytes_to_arrays
from oodometer.finding import Finding, Series, Table, Value
from oodometer.pictures import Gallery, picture

_MOST_POINTS = 100  # of a curve
_MOST_MODELS = 12  # whose curves and samples are shown


def training_finding(outcome: Outcome, store: Store) -> Finding | None:
    """What there is to see of the training of detector models; None if the study has none.

    It is not stored: it holds durations, which differ from run to run.
    """
    found = list(_models_of(outcome, store))
    if not found:
        return None
    shown = found[:_MOST_MODELS]
    omitted = len(found) - len(shown)
    note = f"The first {_MOST_MODELS} of {len(found)} models." if omitted else ""
    return Finding(
        protocol="detector_models",
        title="Training of detector models",
        question="Did the networks of trained detectors learn, and how long did that take?",
        claims=(),
        tables=(_table(found),),
        series=(_curves(shown, note),),
        galleries=tuple(_galleries(shown)),
        facts=(("detector models", str(len(found))),),
    )


_Model = tuple[str, Mapping[str, Any], Mapping[str, NDArray[Any]]]  # label, record, arrays


def _models_of(outcome: Outcome, store: Store) -> Iterator[_Model]:
    try:
        made_from = store.record("tables", outcome.table_key).get("made_from")
        plan = read_plan(str(made_from.get("plan")) if isinstance(made_from, dict) else "", store)
    except DamagedError:
        return
    seen = set()
    for artefact in plan.artefacts:
        # Runs of the study are known by their labels; all others are networks for detectors.
        if artefact.kind != "models" or artefact.about.run in plan.runs or artefact.key in seen:
            continue
        seen.add(artefact.key)
        try:
            record = store.record("models", artefact.key).get("made_from")
            arrays = bytes_to_arrays(store.load("models", artefact.key))
        except DamagedError:
            continue
        yield artefact.about.run, record if isinstance(record, dict) else {}, arrays


def _table(models: list[_Model]) -> Table:
    rows = []
    for label, record, arrays in models:
        weights = sum(v.size for n, v in arrays.items() if n.startswith("weights/"))
        seconds, spec = record.get("seconds"), record.get("specification")
        size = spec.get("model_size") if isinstance(spec, dict) else None
        epochs, losses = len(arrays["curve/train_loss"]), arrays["curve/train_loss"]
        loss = float(losses[-1]) if np.isfinite(losses[-1]) else None
        time = float(seconds) if isinstance(seconds, int | float) else None
        rows.append((label, size, weights, epochs, int(arrays["epoch"]), loss, time))
    return Table(
        "detector_models",
        "Detector models",
        ("model", "size", "numbers", "epochs", "epoch used", "last training loss", "seconds"),
        tuple(rows),
        "Numbers: weights and buffers. Seconds: of the last session, if training was resumed.",
    )


def _curves(models: list[_Model], note: str) -> Series:
    points: list[dict[str, Value]] = []
    for label, _, arrays in models:
        for name in ("train_loss", "validation_loss"):
            values = arrays.get(f"curve/{name}", np.empty(0))
            step = max(1, -(-len(values) // _MOST_POINTS))
            rows = sorted({*range(0, len(values), step), *([len(values) - 1] * bool(len(values)))})
            points += [
                {"label": label, "panel": name.replace("_", " "), "x": row + 1,
                 "value": float(values[row]) if np.isfinite(values[row]) else None}
                for row in rows
            ]  # fmt: skip
    return Series(
        "lines",
        "learning_curves",
        "Learning curves",
        f"Loss of each detector model by epoch. {note}".strip(),
        "loss",
        tuple(points),
        higher_is_better=False,
        x_label="epoch",
    )


def _galleries(models: list[_Model]) -> Iterator[Gallery]:
    for label, _, arrays in models:
        if "samples" in arrays:
            pictures = tuple(picture(image) for image in arrays["samples"])
            yield Gallery(f"samples of {label}", f"Samples drawn by {label}", pictures)
