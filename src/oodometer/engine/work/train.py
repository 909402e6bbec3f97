"""Train the network of a run, or resume it: checkpoints and unfinished training runs are kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from oodometer.engine.plan.artefacts import About, Artefact, model_of
from oodometer.engine.plan.trainings import checkpoint_key
from oodometer.engine.stores import StoreError
from oodometer.errors import UserError
from oodometer.lab.data.sources import Source
from oodometer.lab.training.train import Training, stopped_before

if TYPE_CHECKING:
    from oodometer.engine.work.network import NetworkWorker

SECONDS_BETWEEN_SNAPSHOTS = 10.0  # of an unfinished training; less than this is lost by a kill


class Trainer:
    """Trains for the run that a worker does."""

    def __init__(self, worker: NetworkWorker) -> None:
        self._worker, self._run = worker, worker.plan
        self._resumed_at = 0  # epoch

    def network(self, source: Source) -> nn.Module:
        """The trained network of the run, from the store or training."""
        run, store = self._run, self._worker.store
        arrays = self._worker.load("models", run.model) or self._train(source)
        if all(store.has("models", key) for key in run.checkpoints.values()):
            store.discard("progress", run.progress)  # left by a kill at the very end
        model = self._worker.task.fresh_network(run.spec, source.train.shape, source.classes)
        weights = {
            n.removeprefix("weights/"): v for n, v in arrays.items() if n.startswith("weights/")
        }
        model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
        return model

    def _train(self, source: Source) -> dict[str, NDArray[Any]]:
        """Train, saving all checkpoints that the study wants; return this run's."""
        run = self._run
        self._refuse_what_was_never_reached()
        started = time.monotonic()
        training = Training(
            run.spec,
            source.train,
            source.classes,
            task=self._worker.task,
            validation=source.validation,
            auxiliary=self._worker.auxiliary(),
            checkpoints=run.checkpoints,
            device=self._worker.device,
        )
        self._resume(training)
        self._resumed_at = training.epoch
        try:
            self._run_epochs(training, started)
        except UserError as problem:
            if isinstance(problem, StoreError) or not self._worker.store.has("models", run.model):
                raise
            # It diverged after the epoch that this run is about; another run will say so.
        self._refuse_what_was_never_reached()
        self._worker.store.discard("failures", run.model)
        self._worker.spent("train", started)
        self._worker.trained = (training.epoch - self._resumed_at) / run.last_epoch
        arrays = self._worker.load("models", run.model)
        if arrays is None:
            raise StoreError(f"The model {run.model} was lost as soon as it was saved.")
        return arrays

    def _run_epochs(self, training: Training, started: float) -> None:
        """Train up to the last epoch that is wanted, saving checkpoints and progress."""
        run, saved, until = self._run, started, self._run.last_epoch
        done = training.epoch >= until or training.finished
        while not done:
            training.run_epoch()
            done = training.epoch >= until or training.finished
            if training.epoch in run.checkpoints:
                self._save_checkpoint(training, training.epoch, started)
            if not done and time.monotonic() - saved >= SECONDS_BETWEEN_SNAPSHOTS:
                self._save_progress(training, started)
                saved = time.monotonic()
        for checkpoint in run.checkpoints:
            if not isinstance(checkpoint, int):
                self._save_checkpoint(training, checkpoint, started)
        if training.epoch < until and "last" not in run.checkpoints:
            self._save_checkpoint(training, "last", started)  # it says where training stopped
        self._worker.store.discard("progress", run.progress)

    def _resume(self, training: Training) -> None:
        """Resume an unfinished training run, if it was kept with all its checkpoints."""
        arrays = self._worker.load("progress", self._run.progress)
        if arrays is None:
            return
        passed = len(arrays["curve/train_loss"])
        if all(
            self._worker.store.has("models", key)
            for number, key in self._run.checkpoints.items()
            if isinstance(number, int) and number <= passed
        ):
            training.restore(arrays)

    def _refuse_what_was_never_reached(self) -> None:
        """Say so if training is known to have stopped before the epoch that this run is about."""
        wanted = self._run.spec.epoch
        if not isinstance(wanted, int) or self._worker.store.has("models", self._run.model):
            return
        last = self._worker.load("models", checkpoint_key(self._run.training, "last"))
        if last is not None and int(last["epoch"]) < wanted:
            raise stopped_before(wanted, int(last["epoch"]))

    def _save_progress(self, training: Training, started: float) -> None:
        """Save all that is needed to resume the training."""
        run = self._run
        state = Artefact("progress", run.progress, "train", About(run.label))
        timed = training.epoch - self._resumed_at
        about = {"training": run.training, "epoch": training.epoch, "epochs_timed": timed}
        self._worker.save(state, training.snapshot(), started, **about)

    def _save_checkpoint(self, training: Training, checkpoint: int | str, started: float) -> None:
        """Save weights with the learning curve up to now."""
        weights = training.finished_weights(checkpoint)
        arrays = {f"weights/{name}": v for name, v in weights.items()}
        arrays |= self._worker.extras(weights)
        arrays |= {f"curve/{name}": np.array(v) for name, v in training.curve.items()}
        arrays["epoch"] = np.array(training.used_epoch(checkpoint))
        model = model_of(self._run, checkpoint, checkpoint_key(self._run.training, checkpoint))
        about = {"data": self._run.content.train, "training": self._run.training}
        # How many epochs the seconds of the record are about.
        timed = training.epoch - self._resumed_at
        self._worker.save(model, arrays, started, **about, epochs_timed=timed)
