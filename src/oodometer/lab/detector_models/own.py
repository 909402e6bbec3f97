"""Anybody's own detector on images: a class with ``fit`` and ``score``, or a function.

Both become detector models, so that studies train, store, share and verify them like any other.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from oodometer.calls import Setting, setting_text
from oodometer.errors import UserError, describe, unknown
from oodometer.imports import exits_caught
from oodometer.lab.detector_models.cards import MODELS, WITH_SETTINGS, DetectorModel
from oodometer.lab.detector_models.own_state import (
    attributes_of,
    is_function,
    load_state,
    state_of,
)
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.needs import Need
from oodometer.outputs import View
from oodometer.registry import DETECTORS, Detector, Scorer, adopt_with
from oodometer.study import TrainSpec

_ROWS = 4096  # in the batches of the one epoch, in which nothing is learned


@contextmanager
def _settings_kept() -> Iterator[None]:
    """Run somebody's code in a process that others use, too: settings stay as they are."""
    kind, threads, gradients = (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
    )
    try:
        with exits_caught():
            yield
    finally:
        torch.set_default_dtype(kind)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(gradients)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        with _settings_kept():
            yield
    except UserError:
        raise
    except (Exception, SystemExit) as problem:
        raise UserError(f"{what}: {describe(problem)}") from problem


class OwnModel(nn.Module):
    """Holds somebody's own detector where the training loop expects a network."""

    def __init__(self, name: str, own: object) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))  # an optimizer must have something to do
        self.name = name
        self._held = (own,)  # in a tuple: a network of its own stays out of this one

    @property
    def own(self) -> Any:
        """The object that learns and scores."""
        return self._held[0]

    def state_dict(self, *_: object, **__: object) -> dict[str, Tensor]:  # type: ignore[override]
        """What it has learned, as tensors."""
        with _explained(f"The state of detector '{self.name}' cannot be kept"):
            return {"unused": self.unused.data, **state_of(self.name, self.own)}

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Give it what it had learned."""
        with _explained(f"Detector '{self.name}' cannot be given its state back"):
            load_state(self.name, self.own, {n: v for n, v in state_dict.items() if n != "unused"})

    def score(self, inputs: Tensor) -> Tensor:
        """The scores of a batch, one per input."""
        score = self.own if is_function(self.own) else self.own.score
        for module in (v for v in attributes_of(self.own).values() if isinstance(v, nn.Module)):
            module.eval()
        try:
            with _settings_kept():
                scores = score(inputs.numpy(force=True))
        except (Exception, SystemExit) as problem:
            raise UserError(
                f"Detector '{self.name}' cannot score: {describe(problem)}"
            ) from problem
        return _numbers(self.name, scores)


def _numbers(name: str, scores: object) -> Tensor:
    """The scores that somebody's code returned; refuse what are no real numbers."""
    try:
        if isinstance(scores, Tensor):
            scores = scores.numpy(force=True)
        values = np.asarray(scores)
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as problem:
        raise UserError(
            f"Detector '{name}' must return one score per image, got {type(scores).__name__}: "
            f"{describe(problem, named=False)}"
        ) from None
    if values.dtype.kind not in "fiub":
        kind = "text" if values.dtype.kind in "US" else str(values.dtype)
        raise UserError(
            f"Detector '{name}' must return one score per image, a number, got "
            f"{type(scores).__name__} of {kind}."
        )
    return torch.from_numpy(values.astype(np.float64))


_ADOPTED: dict[int, tuple[object, Detector]] = {}  # by the identity of what they are made of


def is_adopted(detector: Detector) -> bool:
    """Whether a detector was made of a class, a function or a model's answer."""
    return any(made is detector for _, made in _ADOPTED.values())


def adopt(name: str, thing: object) -> Detector | None:
    """Make a detector of a class, a function or a model's answer; None if it is nothing of it."""
    if id(thing) in _ADOPTED and _ADOPTED[id(thing)][1].name in MODELS:
        return _ADOPTED[id(thing)][1]
    made = _adopted(name, thing)
    if made is not None:
        _ADOPTED[id(thing)] = thing, made
    return made


def _adopted(name: str, thing: object) -> Detector | None:
    if any(card.build is thing for card in DETECTORS.values()):
        return None
    models = [card for card in MODELS.values() if card.answer is thing]
    if models:
        return _detector(models[0].name, thing, {}, {})
    if not (_learns(thing) or _scores(thing)):
        return None
    known = MODELS.get(name)
    place = getattr(thing, "__module__", "")
    if known is not None and not any(part.__module__ == place for part in known.code):
        raise UserError(f"Detector '{name}' of {place} has the name of a model: choose another.")
    defaults = _defaults(thing)
    made = _detector(name, thing, defaults, _grid(name, thing, defaults))
    for model in [model for model in MODELS if model.partition("(")[0] == name]:
        del MODELS[model]  # those of the cell of a notebook that was changed and run again
    WITH_SETTINGS[name] = partial(_card, name, thing)
    MODELS[name] = _card(name, thing, {})
    return made


def _card(name: str, thing: Any, settings: Mapping[str, Setting]) -> DetectorModel:
    """The model of a class or function, at these settings."""
    own = _model_name(name, settings)
    labelled = _labelled(thing) if inspect.isclass(thing) else False
    task = Task(
        network=partial(_made, own, thing, settings),
        loss=_nothing,
        labelled=labelled,
        finish=partial(_fit, own, labelled) if inspect.isclass(thing) else None,
    )
    return DetectorModel(own, _answer, task, "data", _recipe, code=(thing,))


def _model_name(name: str, settings: Mapping[str, Setting]) -> str:
    return f"{name}({setting_text(settings)})" if settings else name


def _learns(thing: object) -> bool:
    """Whether it is a class that learns from images and scores images."""
    return inspect.isclass(thing) and all(
        callable(getattr(thing, method, None)) for method in ("fit", "score")
    )


def _scores(thing: object) -> bool:
    """Whether it is a function of images alone; one of outputs says so by its annotation."""
    if not inspect.isfunction(thing) or thing.__name__ == "<lambda>":
        return False
    parameters = list(inspect.signature(thing).parameters.values())
    if not parameters:
        return False
    images, *settings = parameters
    return (
        images.default is images.empty
        and images.kind in (images.POSITIONAL_ONLY, images.POSITIONAL_OR_KEYWORD)
        and "View" not in str(images.annotation)
        and all(p.kind is p.KEYWORD_ONLY and isinstance(p.default, Setting) for p in settings)
    )


def _parameters(thing: Any) -> Mapping[str, inspect.Parameter]:
    """The arguments of ``__init__``, or of a function."""
    try:
        return inspect.signature(thing).parameters
    except (TypeError, ValueError):  # a class that is not written in Python
        return {}


def _defaults(thing: Any) -> dict[str, Setting]:
    """Its settings, with their defaults: arguments of ``__init__``, or keywords of a function."""
    parameters = _parameters(thing)
    return {n: p.default for n, p in parameters.items() if isinstance(p.default, Setting)}


def _without_default(thing: Any) -> set[str]:
    """The arguments that must be given."""
    return {n for n, p in _parameters(thing).items() if p.default is p.empty}


def _grid(
    name: str, thing: object, defaults: Mapping[str, Setting]
) -> dict[str, tuple[Setting, ...]]:
    """The values of each setting that are worth trying: as its `grid` says, or the default only."""
    for taken in {"train", "validation"} & set(defaults):
        raise UserError(f"A setting of detector '{name}' is called {taken}: choose another name.")
    declared = getattr(thing, "grid", None)
    declared = declared if isinstance(declared, Mapping) else {}
    for setting, values in declared.items():
        if setting not in defaults:
            raise unknown(f"setting in the grid of detector '{name}'", str(setting), defaults)
        if not isinstance(values, tuple | list) or not all(isinstance(v, Setting) for v in values):
            raise UserError(
                f"The grid of detector '{name}' must give a tuple of numbers or texts for "
                f"{setting}, got {values!r}."
            )
        if any(set(str(value)) & set("/@(),=") for value in values):
            raise UserError(
                f"The grid of detector '{name}' for {setting} has texts with one of / @ ( ) , =, "
                "which cannot be named."
            )
    return {setting: tuple(declared.get(setting, (value,))) for setting, value in defaults.items()}


def _labelled(thing: Any) -> bool:
    """Whether its fit takes labels, too."""
    return "labels" in inspect.signature(thing.fit).parameters


def _detector(
    name: str,
    thing: object,
    defaults: Mapping[str, Setting],
    grid: Mapping[str, tuple[Setting, ...]],
) -> Detector:
    def changed(settings: Mapping[str, Setting]) -> str:
        own = {n: v for n, v in settings.items() if n not in defaults or v != defaults[n]}
        return _model_name(name, own)

    def needs_at(settings: Mapping[str, Setting]) -> frozenset[Need]:
        return frozenset({Need("model", changed(settings))})

    def build(train: View, **settings: Setting) -> Scorer:
        return lambda test: test.model(changed(settings))

    train, _ = inspect.signature(build).parameters.values()
    keywords = [
        inspect.Parameter(setting, inspect.Parameter.KEYWORD_ONLY, default=value)
        for setting, value in defaults.items()
    ]
    build.__signature__ = inspect.Signature([train, *keywords])  # type: ignore[attr-defined]
    build.__doc__ = inspect.getdoc(thing) or f"{name}, a detector of your own."
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    needs = frozenset().union(*map(needs_at, every))
    return Detector(
        name, build, "your own", needs, grid, only_by_name=True, needs_at=needs_at if grid else None
    )


def _made(
    name: str,
    thing: Callable[..., object],
    settings: Mapping[str, Setting],
    spec: TrainSpec,
    shape: tuple[int, ...],
    classes: int,
) -> OwnModel:
    if not inspect.isclass(thing):
        return OwnModel(name, partial(thing, **settings) if settings else thing)
    known = {"shape": shape, "classes": classes}
    told = {n: v for n, v in known.items() if n in _without_default(thing)}
    try:
        with _settings_kept():
            return OwnModel(name, thing(**settings, **told))
    except (Exception, SystemExit) as problem:
        how = "with these settings" if settings else "without arguments"
        how = f"with {' and '.join(sorted(told))} only" if told and not settings else how
        raise UserError(f"Detector '{name}' cannot be made {how}: {describe(problem)}") from problem


def _nothing(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    assert isinstance(model, OwnModel)
    return 0.0 * model.unused.sum(), {}


def _recipe(spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    return spec.model_copy(update={"epochs": 1, "batch_size": _ROWS, "validation": 0.0})


def _fit(
    name: str, labelled: bool, spec: TrainSpec, model: nn.Module, batches: Iterable[Batch]
) -> None:
    assert isinstance(model, OwnModel)
    images, labels = [], []
    for batch in batches:
        images.append(batch.inputs.contiguous().numpy(force=True))
        labels.append(batch.targets.numpy(force=True))
    given = [np.concatenate(images), *([np.concatenate(labels)] if labelled else [])]
    del images
    try:
        with _settings_kept(), torch.enable_grad():
            model.own.fit(*given)
    except (Exception, SystemExit) as problem:
        raise UserError(f"fit of detector '{name}' failed: {describe(problem)}") from problem


def _answer(model: nn.Module, inputs: Tensor) -> Tensor:
    assert isinstance(model, OwnModel)
    scores = model.score(inputs)
    if scores.dim() != 1:
        raise UserError(
            f"Detector '{model.name}' must return one score per image, shape ({len(inputs)},), got "
            f"{tuple(scores.shape)}."
        )
    return scores


adopt_with(adopt)
