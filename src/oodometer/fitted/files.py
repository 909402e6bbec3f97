"""Files of fitted detectors."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from pydantic import ValidationError

from oodometer.errors import UserError
from oodometer.fitted.detector import FittedDetector
from oodometer.fitted.fit import Named, chosen
from oodometer.fitted.models import FittedModel, models_needed, spelt_out
from oodometer.fitted.storage import MOST_NUMBERS, does_not_fit, read_file, write_file
from oodometer.lab.detector_models import find_model
from oodometer.needs import Need
from oodometer.registry import DETECTORS
from oodometer.study import TrainSpec

_MOST_CLASSES = 2**20  # a file that claims more is not one


def save_detector(fitted: FittedDetector, file: str | os.PathLike[str]) -> Path:
    """Write a fitted detector; return the file."""
    arrays: dict[str, NDArray[Any]] = {}
    for need, model in fitted.models.items():
        for name, value in model.network.state_dict().items():
            arrays[f"{need} {name}"] = value.numpy(force=True)
    arrays |= {f"answers {need}": value.numpy() for need, value in fitted.trained_on.items()}
    said = {
        "detector": fitted.choice.detector.name,
        "settings": dict(fitted.choice.settings),
        "shape": fitted.shape,
        "classes": fitted.classes,
        "models": {str(need): _described(model) for need, model in fitted.models.items()},
    }
    return write_file(Path(file), arrays, said)


def _described(model: FittedModel) -> dict[str, object]:
    return {
        "spec": model.spec.model_dump(mode="json"),
        "epoch": model.epoch,
        "curve": {name: list(values) for name, values in model.curve.items()},
        "seconds": round(model.seconds, 3),
    }


def load_detector(file: str | os.PathLike[str], detector: Named | None = None) -> FittedDetector:
    """Read a detector that `FittedDetector.save` wrote.

    A file names its detector and never imports code: for a detector of your own, give `detector`
    as you gave it to `fit_detector`.
    """
    path = Path(file)
    arrays, said = read_file(path, "detector")
    name = said.get("detector")
    if detector is None and name not in DETECTORS:
        raise UserError(
            f"'{path}' holds the detector '{name}', which is not built in: give it as you gave it "
            "to fit_detector, load_detector(file, detector='file.py:name')."
        )
    try:
        choice = chosen(str(name) if detector is None else detector, dict(said["settings"]))
        if choice.detector.name != name:
            raise UserError(f"'{path}' holds the detector '{name}', not '{choice.detector.name}'.")
        shape, classes = tuple(map(int, said["shape"])), int(said["classes"])
        if not (0 < math.prod(shape) <= MOST_NUMBERS and 0 < classes <= _MOST_CLASSES):
            raise ValueError(f"shape {shape} with {classes} classes")
        needs = [n for need in models_needed(choice) for n in spelt_out(find_model(need.name))]
        models = {
            need: _model(need, said["models"][str(need)], arrays, shape, classes) for need in needs
        }
        read = {
            need: torch.from_numpy(arrays[f"answers {need}"])
            for need in needs
            if find_model(need.name).of_training
        }
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, ValidationError) as why:
        raise does_not_fit(path, "detector", said, why) from why
    return FittedDetector(choice, shape, classes, models, read)


def _model(
    need: Need,
    said: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    shape: tuple[int, ...],
    classes: int,
) -> FittedModel:
    card, spec = find_model(need.name), TrainSpec.model_validate(said["spec"])
    network = card.task.fresh_network(spec, shape, classes)
    own = {n.removeprefix(f"{need} "): v for n, v in arrays.items() if n.startswith(f"{need} ")}
    network.load_state_dict({name: torch.from_numpy(value) for name, value in own.items()})
    curve = {str(n): tuple(map(float, values)) for n, values in said["curve"].items()}
    return FittedModel(
        card, spec, network.eval(), int(said["epoch"]), curve, float(said["seconds"])
    )
