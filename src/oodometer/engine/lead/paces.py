"""How fast each kind of network of a study is on this machine: a few timed steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from oodometer.engine.lead.estimates import DataSize, Kind, Pace, estimate
from oodometer.engine.work.model import SAMPLES_KEPT
from oodometer.lab.data.samples import Images, Samples, Tokens
from oodometer.lab.detector_models import answers_of, draw_samples, find_model
from oodometer.lab.training.task import CLASSIFIER, Task
from oodometer.lab.training.train import Training

_SECONDS = 1.5  # of one measurement, about
_DRAWING = 0.3  # seconds after which drawing images is given up
_WORK = 1.5e10  # multiplications of one step: about a second


def time_steps(kind: Kind) -> Pace | None:
    """Time steps on made-up samples; None if the network does not take them."""
    spent, waited = time.process_time(), time.monotonic()
    try:
        pace = _pace(kind)
    except (Exception, SystemExit):  # noqa: BLE001 - made-up samples may not be what it wants
        return None
    return pace._replace(spent=time.process_time() - spent, waited=time.monotonic() - waited)


def _pace(kind: Kind) -> Pace:
    """If a batch is too much work, two smaller ones tell what a sample adds."""
    task: Task = find_model(kind.model).task if kind.model else CLASSIFIER
    one = DataSize(1, 0, kind.shape, kind.classes, 0)
    spec = kind.spec.model_copy(update={"epochs": 1})
    affordable = int(_WORK / estimate(spec, one, 0, task=task).training)
    if affordable >= kind.spec.batch_size:
        whole = _timed(kind, task, kind.spec.batch_size)
        return whole._replace(step=0.0, sample=whole.step / kind.spec.batch_size)
    large = max(6, affordable)
    small = large // 3
    few, many = (_timed(kind, task, batch) for batch in (small, large))
    sample = max(0.0, many.step - few.step) / (large - small)
    return many._replace(
        step=max(0.0, few.step - small * sample),
        sample=sample or many.step / large,
        timed=few.timed + many.timed,
    )


def _timed(kind: Kind, task: Task, batch: int) -> Pace:
    """Time steps of one batch each: those of an idle core, also on a busy machine."""
    spec = kind.spec.model_copy(update={"batch_size": batch})
    samples = _made_up(batch, kind.shape, kind.classes)
    auxiliary = replace(_made_up(batch, kind.shape, kind.classes, seed=1), name="auxiliary")
    training = Training(spec, samples, kind.classes, task=task, auxiliary=auxiliary)
    # Some losses change on the way: if time allows, all epochs pass, of one step each.
    wanted, steps = max(3, kind.spec.epochs), list[float]()
    while len(steps) < wanted and (len(steps) < 2 or sum(steps) < _SECONDS):
        steps.append(_seconds(training.run_epoch))
    usual = steps[1:]  # the first makes buffers and plans
    step = sum(usual) / len(usual) if len(steps) == wanted else min(steps)
    weights = training.finished_weights()
    finish = _seconds(training.finished_weights) if task.finish is not None else 0.0
    model = task.fresh_network(spec, kind.shape, kind.classes)
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    try:
        answer = _seconds(lambda: _answer(kind, model, samples))
    except Exception:  # noqa: BLE001 - it has hardly learned, and its answers need not be finite
        answer = step / 3  # a step goes back, too, which takes twice as long
    draw, whole = _drawing(kind, model)
    return Pace(
        step, 0.0, finish / batch, answer / batch, draw, whole, len(steps), spent=0.0, waited=0.0
    )


class _TooLongError(Exception):
    """It takes longer than there is time to measure it."""


def _drawing(kind: Kind, model: nn.Module) -> tuple[float, bool]:
    """Seconds to draw images for the report, and whether that is all: pixel by pixel takes long."""
    card = find_model(kind.model) if kind.model else None
    if card is None or card.samples is None or len(kind.shape) != 3:
        return 0.0, True
    began = time.process_time()

    def stop(*_: object) -> None:
        if time.process_time() - began > _DRAWING:
            raise _TooLongError

    hooks = [module.register_forward_pre_hook(stop) for module in model.modules()]
    try:
        draw_samples(card, model, SAMPLES_KEPT, seed=0)
    except Exception:  # noqa: BLE001 - it takes too long, or it has hardly learned
        return time.process_time() - began, False
    finally:
        for hook in hooks:
            hook.remove()
    return time.process_time() - began, True


def _answer(kind: Kind, model: nn.Module, samples: Samples) -> object:
    """Ask about the samples as a search or an extraction does."""
    if not kind.model:
        with torch.inference_mode():
            return [model.eval()(torch.from_numpy(values)) for values, _ in samples.batches()]
    card = find_model(kind.model)
    if card.of_outliers and card.samples is not None:  # it is asked for images
        return draw_samples(card, model, len(samples), seed=0)
    return answers_of(card, model, samples)


def _seconds(do: Callable[[], object]) -> float:
    began = time.process_time()
    do()
    return time.process_time() - began


def _made_up(rows: int, shape: tuple[int, ...], classes: int, seed: int = 0) -> Samples:
    rng, labels = np.random.default_rng(seed), np.arange(rows) % classes
    if len(shape) == 1:
        return Tokens("made up", rng.integers(1, 1000, (rows, *shape), dtype=np.int32), labels)
    return Images("made up", rng.integers(0, 256, (rows, *shape), dtype=np.uint8), labels)
