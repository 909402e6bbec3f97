"""Train a detector on images."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import oodometer.builtin  # noqa: F401 - importing registers the built-in detectors
from oodometer.calls import Setting, parse_call
from oodometer.errors import UserError, unknown
from oodometer.fitted.detector import FittedDetector
from oodometer.fitted.images import Pictures, as_images
from oodometer.fitted.models import Notify, models_needed, require_trainable, train_models
from oodometer.lab.data.auxiliary import (
    check_auxiliary_images,
    check_auxiliary_name,
    load_auxiliary,
)
from oodometer.lab.data.samples import Images
from oodometer.lab.data.sources import Source
from oodometer.lab.detector_models import MODELS, find_model
from oodometer.lab.training.outliers import require_auxiliary
from oodometer.needs import in_text
from oodometer.registry import Choice, Detector, choice_of, find
from oodometer.study import TrainSpec

Named = str | Choice | Detector | Callable[..., object]
SIZES = ("tiny", "small", "paper")


def fit_detector(
    detector: Named,
    images: Pictures,
    labels: object = None,
    *,
    auxiliary: Pictures | None = None,
    size: str = "small",
    seed: int = 0,
    device: str = "cpu",
    notify: Notify = lambda _: None,
    **settings: Setting,
) -> FittedDetector:
    """Train a detector that has a network of its own on images, without a study.

    `detector` is a name such as "pixelcnn", ``file.py:name``, or a class or function of your own.
    `images` is an array or tensor (n, channels, height, width), bytes or floats from 0 to 1, or the
    name of a data set. Some detectors need `labels`, some `auxiliary` outliers. `size` is "tiny",
    "small" or "paper". `notify` is told how far training is and how long it will take.
    """
    choice = chosen(detector, settings)
    cards = [find_model(need.name) for need in models_needed(choice)]
    require_own_models(choice)
    given = as_images(images, labels)
    for card in cards:
        require_trainable(card, choice.label, given)
    outliers = checked_auxiliary(auxiliary, given, {})
    spec = training_spec(size, seed, auxiliary)
    models = train_models(cards, given, spec, auxiliary=outliers, device=device, notify=notify)
    read = {need: m.answers(given) for need, m in models.items() if m.card.of_training}
    classes = max(1, int(given.labels.max()) + 1)
    return FittedDetector(choice, given.shape, classes, models, read)


def chosen(detector: Named, settings: Mapping[str, Setting]) -> Choice:
    """Look a detector up, with settings in its text or beside it."""
    if isinstance(detector, Choice):
        return detector
    if not isinstance(detector, str):
        return choice_of(find(detector), settings)
    name, own = parse_call("detector", detector)
    return choice_of(find(name), {**own, **settings}, detector)


def require_own_models(choice: Choice) -> None:
    """Refuse a detector that reads anything but networks of its own."""
    others = in_text(need for need in choice.needs(grid=False) if need.source != "model")
    if others:
        own = sorted(card.name for card in MODELS.values() if card.per == "data")
        raise UserError(
            f"Detector '{choice.label}' needs {' and '.join(others)} of a classifier: use "
            f"evaluate. Detectors with networks of their own read one of {', '.join(own)}."
        )


def training_spec(size: str, seed: int, auxiliary: object = None) -> TrainSpec:
    """The specification from which the recipes of models start."""
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise UserError(f"seed must be a whole number from 0 to {2**32 - 1}, got {seed!r}.")
    name = "" if auxiliary is None else auxiliary if isinstance(auxiliary, str) else "given images"
    fields = {"data": "images", "model_size": size, "seed": seed, "auxiliary": name}
    return TrainSpec.model_validate(fields)


def checked_auxiliary(
    auxiliary: Pictures | None, train: Images, tested: Mapping[str, Images]
) -> Images | None:
    """Auxiliary outliers, if there are any; refuse those of another shape, or known otherwise."""
    if auxiliary is None:
        return None
    if isinstance(auxiliary, str):
        check_auxiliary_name(auxiliary, train.name, list(tested))
    outliers = _auxiliary_images(auxiliary, train)
    require_auxiliary(outliers, train)
    check_auxiliary_images(outliers, [train, *tested.values()])
    return outliers


def _auxiliary_images(auxiliary: Pictures, images: Images) -> Images:
    """Auxiliary outliers in the shape of the training images."""
    if not isinstance(auxiliary, str):
        return as_images(auxiliary, name="auxiliary")
    source = Source(images.name, images, images, None, int(images.labels.max()) + 1)
    loaded = load_auxiliary(auxiliary, source)
    assert isinstance(loaded, Images), "images have images as outliers"
    return loaded
