"""Files of fitted detectors: safetensors, with everything that is no array as JSON beside them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch
from numpy.typing import NDArray
from pydantic import ValidationError

import oodometer
from oodometer.errors import UserError, no_file
from oodometer.files import refuse_special
from oodometer.fitted.detector import FittedDetector
from oodometer.fitted.fit import Named, chosen
from oodometer.fitted.models import FittedModel, models_needed, spelt_out
from oodometer.lab.detector_models import find_model
from oodometer.needs import Need
from oodometer.registry import DETECTORS
from oodometer.study import TrainSpec

_KEY, _FORMAT = "oodometer", 1
_MOST_NUMBERS, _MOST_CLASSES = 2**24, 2**20  # of an image; a file that claims more is not one


def save_detector(fitted: FittedDetector, file: str | os.PathLike[str]) -> Path:
    """Write a fitted detector; return the file."""
    path = Path(file)
    arrays: dict[str, NDArray[Any]] = {}
    for need, model in fitted.models.items():
        for name, value in model.network.state_dict().items():
            arrays[f"{need} {name}"] = value.numpy(force=True)
    arrays |= {f"answers {need}": value.numpy() for need, value in fitted.trained_on.items()}
    said = {
        "format": _FORMAT,
        "version": oodometer.__version__,
        "detector": fitted.choice.detector.name,
        "settings": dict(fitted.choice.settings),
        "shape": fitted.shape,
        "classes": fitted.classes,
        "models": {str(need): _described(model) for need, model in fitted.models.items()},
    }
    whole = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in arrays.items()}
    content = safetensors.numpy.save(whole, {_KEY: json.dumps(said)})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        part.write_bytes(content)
        part.replace(path)
    except OSError as problem:
        raise UserError(f"Cannot write '{path}': {problem.strerror or problem}.") from None
    return path


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
    arrays, said = _read(path)
    if said.get("format") != _FORMAT:
        raise UserError(
            f"'{path}' was written by another version of oodometer ({said.get('version')}), whose "
            f"format {said.get('format')!r} is not {_FORMAT}."
        )
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
        if not (0 < math.prod(shape) <= _MOST_NUMBERS and 0 < classes <= _MOST_CLASSES):
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
        reason = " ".join(str(why).split())[:200]
        raise UserError(
            f"'{path}' does not fit the detector '{name}' of this version of oodometer "
            f"({oodometer.__version__}; it was written by {said.get('version')}): {reason}."
        ) from why
    return FittedDetector(choice, shape, classes, models, read)


def _read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of a file and what is said beside them."""
    refuse_special(path, "Detector file")
    try:
        with safetensors.safe_open(path, framework="numpy") as opened:
            said = json.loads((opened.metadata() or {}).get(_KEY, "null"))
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise no_file("Detector file", path, (".safetensors",)) from None
    except OSError as problem:
        raise UserError(f"Cannot read '{path}': {problem.strerror or problem}.") from None
    except (safetensors.SafetensorError, ValueError, RecursionError, TypeError) as problem:
        raise UserError(
            f"'{path}' is damaged, or is not a file that save wrote: "
            f"{' '.join(str(problem).split())[:200]}."
        ) from None
    if not isinstance(said, dict):
        raise UserError(f"'{path}' is not a file that FittedDetector.save wrote.")
    return arrays, said


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
