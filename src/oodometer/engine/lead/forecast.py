"""How long a study will take on this machine: from a few timed training steps, extrapolated."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from oodometer.engine.lead.estimates import Cost, DataSize, Durations, estimate
from oodometer.engine.plan.models import ModelPlan
from oodometer.engine.plan.plan import Plan
from oodometer.engine.plan.trainings import TrainingPlan
from oodometer.engine.stores import Store
from oodometer.lab.data.samples import Images, Samples, Tokens
from oodometer.lab.training.task import CLASSIFIER, Task
from oodometer.lab.training.train import Training
from oodometer.study import TrainSpec

_SECONDS = 6.0  # of measuring, about
_WORK = 1.5e10  # multiplications of one step: about a second
# What decides how fast a step is.
_OF_A_STEP = ("network", "width", "model_size", "auxiliary", "optimizer", "batch_size", "loss",
              "adversarial", "augment", "gradient_norm", "epochs")  # fmt: skip


@dataclass(frozen=True)
class Forecast:
    """Seconds of one core that training and asking will take, as far as it could be timed."""

    training: float
    extraction: float
    searching: float
    longest: float  # of the training runs, which cannot be divided
    steps: int  # that were timed
    untimed: tuple[str, ...] = ()  # training runs that nothing is known of

    def seconds(self, workers: int) -> float:
        """How long this number of workers takes, each on a core of its own."""
        return max(self.longest, (self.training + self.extraction + self.searching) / workers)


def forecast(
    made: Plan, sizes: Mapping[str, DataSize], costs: Mapping[str, Cost], store: Store
) -> Forecast:
    """Time a few steps of each kind of network and extrapolate to what the store lacks.

    Networks with most work come first; when the time for measuring is over, the others are taken
    to be as fast, by their multiplications.
    """
    lacking = _lacking(made, store)
    work: dict[_Kind, float] = {}
    kinds = {run.label: _kind(run, sizes[_first(made, run)]) for run in lacking.values()}
    for run in lacking.values():
        kind = kinds[run.label]
        work[kind] = work.get(kind, 0.0) + costs[run.label].training
    names = {kind: str(n) for n, kind in enumerate(sorted(work, key=lambda kind: -work[kind]))}
    durations, steps, began = Durations(), 0, time.process_time()
    for kind, name in names.items():
        pace = _pace(kind) if time.process_time() - began < _SECONDS else None
        if pace is None:
            continue
        steps += pace.timed
        for run in lacking.values():
            if kinds[run.label] == kind:
                size = sizes[_first(made, run)]
                seconds = _training_seconds(run, size, pace)
                durations.note("train", name, costs[run.label].training, seconds)
    trainings, extraction, searching, untimed = [], 0.0, 0.0, []
    for run in lacking.values():
        cost = costs[run.label]
        own = durations.guess("train", names[kinds[run.label]], cost.training)
        if own is None:
            untimed.append(run.label)
            continue
        trainings.append(own)
        extraction += own / cost.training * cost.extraction if cost.training else 0.0
        searching += own / cost.training * cost.searching if cost.training else 0.0
    longest = max(trainings, default=0.0)
    return Forecast(sum(trainings), extraction, searching, longest, steps, tuple(untimed))


def _training_seconds(run: TrainingPlan, size: DataSize, pace: _Pace) -> float:
    samples = min(size.train, run.spec.train_size or size.train)
    steps = math.ceil(samples / run.spec.batch_size)
    return run.last_epoch * (steps * pace.step + samples * pace.sample)


def _lacking(made: Plan, store: Store) -> dict[str, TrainingPlan]:
    """One run for each training that the store has not finished: its checkpoints share it."""
    there = store.present("models", {run.model for run in made.trainings})
    return {run.training: run for run in made.trainings if run.model not in there}


def _first(made: Plan, run: TrainingPlan) -> str:
    """A run of the study that reads the same data as this one, or as this detector model."""
    if not isinstance(run, ModelPlan):
        return run.label
    return next(own.label for own in made.runs if run in own.models.values())


@dataclass(frozen=True)
class _Kind:
    """What decides how fast a training step is."""

    spec: TrainSpec  # of a training run of this kind
    shape: tuple[int, ...]
    classes: int
    model: str = ""  # the detector model, if it is one


def _kind(run: TrainingPlan, size: DataSize) -> _Kind:
    spec = TrainSpec(data="-", **{name: getattr(run.spec, name) for name in _OF_A_STEP})
    model = run.name if isinstance(run, ModelPlan) else ""
    classes = 2 if isinstance(run, ModelPlan) and run.outliers else size.classes
    return _Kind(spec, size.shape, classes, model)


class _Pace(NamedTuple):
    """What a training step takes: seconds, and seconds for each sample of the batch."""

    step: float
    sample: float
    timed: int  # steps


def _pace(kind: _Kind) -> _Pace | None:
    """Time steps on made-up samples; None if the network does not take them.

    If a batch is too much work, two smaller ones tell what a sample adds.
    """
    from oodometer.lab.detector_models import find_model

    task: Task = find_model(kind.model).task if kind.model else CLASSIFIER
    one = DataSize(1, 0, kind.shape, kind.classes, 0)
    spec = kind.spec.model_copy(update={"epochs": 1})
    affordable = int(_WORK / estimate(spec, one, 0, task=task).training)
    try:
        if affordable >= kind.spec.batch_size:
            seconds = _step_seconds(kind, task, kind.spec.batch_size)
            return _Pace(0.0, min(seconds) / kind.spec.batch_size, len(seconds))
        large = max(6, affordable)
        small = large // 3
        both = [_step_seconds(kind, task, batch) for batch in (small, large)]
    except (Exception, SystemExit):  # noqa: BLE001 - made-up samples may not be what it wants
        return None
    sample = max(0.0, min(both[1]) - min(both[0])) / (large - small)
    step = max(0.0, min(both[0]) - small * sample)
    return _Pace(step, sample or min(both[1]) / large, sum(map(len, both)))


def _step_seconds(kind: _Kind, task: Task, batch: int) -> list[float]:
    """Seconds of some steps: those of an idle core, also on a busy machine."""
    spec = kind.spec.model_copy(update={"batch_size": batch})
    samples = _made_up(batch, kind.shape, kind.classes)
    auxiliary = replace(_made_up(batch, kind.shape, kind.classes, seed=1), name="auxiliary")
    training = Training(spec, samples, kind.classes, task=task, auxiliary=auxiliary)
    seconds: list[float] = []
    while len(seconds) < 3 and sum(seconds) < _SECONDS / 4:  # the first makes buffers and plans
        began = time.process_time()
        training.run_epoch()
        seconds.append(time.process_time() - began)
    return seconds


def _made_up(rows: int, shape: tuple[int, ...], classes: int, seed: int = 0) -> Samples:
    rng, labels = np.random.default_rng(seed), np.arange(rows) % classes
    if len(shape) == 1:
        return Tokens("made up", rng.integers(1, 1000, (rows, *shape), dtype=np.int32), labels)
    return Images("made up", rng.integers(0, 256, (rows, *shape), dtype=np.uint8), labels)
