"""What a worker does for one run: train, extract, score; only what the store lacks."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from oodometer.engine.codecs import arrays_to_bytes, bytes_to_arrays
from oodometer.engine.failures import remember_failure
from oodometer.engine.plan import RunPlan, checkpoint_key
from oodometer.engine.store import DamagedError, Kind, Store, StoreError
from oodometer.errors import UserError
from oodometer.lab.extract import extract, stem_relu_skipped
from oodometer.lab.outliers import load_outliers
from oodometer.lab.portions import split_portions
from oodometer.lab.samples import Samples
from oodometer.lab.sources import Source, load_source
from oodometer.lab.train import Training, fresh_network, stopped_before
from oodometer.outputs import Head, Outputs
from oodometer.registry import Choice
from oodometer.scores import Missing, ScoreRow
from oodometer.scoring import choices, describe, score_choice

SECONDS_BETWEEN_SNAPSHOTS = 10.0  # of an unfinished training; less than this is lost by a kill


def execute(
    run: RunPlan, ood: Sequence[str], detectors: Sequence[str], store: Store, device: str = "cpu"
) -> list[Missing]:
    """Do all that the store lacks of one run; return what could not be done, with reasons.

    `ood` and `detectors` are names as the study gives them. A failure is kept in the store with
    its traceback, and the rest goes on.
    """
    bench = Bench(run, ood, detectors, store, device)
    return bench.prepare() or bench.score(list(run.scores))


class Bench:
    """One run in work: what is needed is loaded or made once, when it is needed."""

    def __init__(
        self,
        run: RunPlan,
        ood: Sequence[str],
        detectors: Sequence[str],
        store: Store,
        device: str = "cpu",
    ) -> None:
        self.run, self.ood, self.store, self.device = run, ood, store, device
        self._detectors = detectors
        self.seconds: dict[str, float] = {}  # that were spent: train, extract, score DETECTOR
        self._choices: dict[str, Choice] | None = None
        self._outputs: dict[str, Outputs] = {}
        self._data: tuple[Source, dict[str, Samples]] | None = None
        self._model: nn.Module | None = None

    def prepare(self) -> list[Missing]:
        """Train and extract what the store lacks; return the failure, if it is one."""
        if not self.lacking() and self.store.has("correct", self.run.correct):
            return []
        try:
            with _reproducible(self.device):
                for name in ("", *self.run.outputs):
                    if not self.store.has("outputs", self._key(name)):
                        self._outputs[name] = self._make_outputs(name)
                self._note_correct()
        except StoreError:
            raise
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - the other runs go on
            trace = "".join(traceback.format_exception(problem))
            failure = Missing(describe(problem), run=self.run.label, traceback=trace)
            remember_failure(self.store, self.run, failure)
            return [failure]
        self._model = self._data = None  # scoring needs neither
        return []

    def lacking(self) -> dict[str, list[str]]:
        """Detectors of which the store lacks scores, and on which data sets."""
        lacking = {
            label: [name for name, key in keys.items() if not self.store.has("scores", key)]
            for label, keys in self.run.scores.items()
        }
        return {label: names for label, names in lacking.items() if names}

    def score(self, labels: Sequence[str]) -> list[Missing]:
        """Score what the store lacks with these detectors; return what could not be done."""
        if self._choices is None:
            self._choices = {choice.label: choice for choice in choices(self._detectors)}
        missing: list[Missing] = []
        with _reproducible(self.device):
            for label in labels:
                keys = self.run.scores[label]
                names = [name for name, key in keys.items() if not self.store.has("scores", key)]
                if names:
                    started = time.monotonic()
                    missing += self._score(self._choices[label], names)
                    self._spent(f"score {label}", started)
        return missing

    def _spent(self, on: str, since: float) -> None:
        self.seconds[on] = self.seconds.get(on, 0.0) + time.monotonic() - since

    def _score(self, choice: Choice, names: Sequence[str]) -> list[Missing]:
        """Score these data sets with one detector, at every setting of its grid."""
        started = time.monotonic()
        scores: dict[str, dict[str, NDArray[Any]]] = {name: {} for name in names}
        missing: list[Missing] = []
        keys = self.run.scores[choice.label]
        tests = {name: self.outputs(name) for name in names}
        for part in score_choice(choice, self.outputs(""), tests, grid=True, run=self.run.label):
            if isinstance(part, ScoreRow):
                scores[part.dataset][part.setting] = part.scores
            else:
                missing.append(part)
        for name, by_setting in scores.items():
            if choice.setting in by_setting:
                about = {
                    "detector": choice.label,
                    "data set": name,
                    "parents": [self.run.train_outputs, self.run.outputs[name]],
                    # Settings of the grid that failed: whoever reads the scores should know.
                    "missing": [[part.setting, part.reason] for part in missing],
                }
                self._save("scores", keys[name], _named(by_setting), about, started)
        for part in missing:
            if not part.setting:
                remember_failure(self.store, self.run, part)
        return missing

    def outputs(self, name: str) -> Outputs:
        """Outputs on a data set ("" = the training set), from memory, the store or the model."""
        if name not in self._outputs:
            self._outputs[name] = self._load_outputs(name) or self._make_outputs(name)
        return self._outputs[name]

    def _load_outputs(self, name: str) -> Outputs | None:
        arrays = self._load("outputs", self._key(name))
        if arrays is None:
            return None
        tensors = {key: torch.from_numpy(value) for key, value in arrays.items()}
        head = Head(tensors["weight"], tensors["bias"]) if "weight" in tensors else None
        return Outputs(tensors["logits"], tensors["features"], tensors["labels"], head)

    def _make_outputs(self, name: str) -> Outputs:
        source, outliers = self.data()
        images = outliers.get(name, source.test) if name else self._trained_on(source)
        model = self.model()
        started = time.monotonic()
        made = extract(model, {name: images.batches()})[name]
        if self.run.spec.features == "skip_stem_relu":
            with stem_relu_skipped(model):
                other = extract(model, {name: images.batches()})[name]
            # These features do not give these logits, so there is no head that joins them.
            made = Outputs(made.logits, other.features, made.labels)
        arrays = {key.removeprefix("head."): value.numpy() for key, value in made.tensors().items()}
        about = {"data set": name or "training set", "parents": [self.run.model]}
        self._save("outputs", self._key(name), arrays, about, started)
        self._spent("extract", started)
        return made

    def model(self) -> nn.Module:
        """The trained classifier, from memory, the store or training."""
        if self._model is None:
            source, _ = self.data()
            arrays = self._load("models", self.run.model) or self._train(source)
            if all(self.store.has("models", key) for key in self.run.checkpoints.values()):
                self.store.discard("progress", self._progress)  # left by a kill at the very end
            self._model = fresh_network(self.run.spec, source.train.shape, source.classes)
            self._model.load_state_dict(
                {
                    name.removeprefix("weights/"): torch.from_numpy(value)
                    for name, value in arrays.items()
                    if name.startswith("weights/")
                }
            )
            self._model.to(self.device)
        return self._model

    def _train(self, source: Source) -> dict[str, NDArray[Any]]:
        """Train, saving all checkpoints that the study wants; return this run's."""
        run = self.run
        self._refuse_what_was_never_reached()
        started = saved = time.monotonic()
        training = Training(
            run.spec,
            source.train,
            source.classes,
            validation=source.validation,
            checkpoints=run.checkpoints,
            device=self.device,
        )
        self._resume(training)
        numbers = [number for number in run.checkpoints if isinstance(number, int)]
        # Epochs that nobody asks for are not trained.
        until = max(numbers) if len(numbers) == len(run.checkpoints) else run.spec.epochs
        done = training.epoch >= until or training.finished
        try:
            while not done:
                training.run_epoch()
                done = training.epoch >= until or training.finished
                if training.epoch in numbers:
                    self._save_checkpoint(training, training.epoch, started)
                if not done and time.monotonic() - saved >= SECONDS_BETWEEN_SNAPSHOTS:
                    about = {"training": run.training, "epoch": training.epoch}
                    self._save("progress", self._progress, training.snapshot(), about, started)
                    saved = time.monotonic()
        except UserError as problem:
            if isinstance(problem, StoreError) or not self.store.has("models", run.model):
                raise
            # It diverged after the epoch that this run is about; another run will tell.
        else:
            for checkpoint in run.checkpoints:
                if not isinstance(checkpoint, int):
                    self._save_checkpoint(training, checkpoint, started)
            if training.epoch < until and "last" not in run.checkpoints:
                self._save_checkpoint(training, "last", started)  # it tells where training stopped
            self.store.discard("progress", self._progress)
        self._refuse_what_was_never_reached()
        self.store.discard("failures", run.model)
        self._spent("train", started)
        arrays = self._load("models", run.model)
        if arrays is None:
            raise StoreError(f"The model {run.model} was lost as soon as it was saved.")
        return arrays

    @property
    def _progress(self) -> str:
        """The key of an unfinished training: what it keeps depends on what is wanted of it."""
        return self.run.progress

    def _resume(self, training: Training) -> None:
        """Go on with an unfinished training, if it was kept with all that it passed."""
        arrays = self._load("progress", self._progress)
        if arrays is None:
            return
        passed = len(arrays["curve/train_loss"])
        if all(
            self.store.has("models", key)
            for number, key in self.run.checkpoints.items()
            if isinstance(number, int) and number <= passed
        ):
            training.restore(arrays)

    def _refuse_what_was_never_reached(self) -> None:
        """Say so if training is known to have stopped before the epoch that this run is about."""
        wanted = self.run.spec.epoch
        if not isinstance(wanted, int) or self.store.has("models", self.run.model):
            return
        last = self._load("models", checkpoint_key(self.run.training, "last"))
        if last is not None and int(last["epoch"]) < wanted:
            raise stopped_before(wanted, int(last["epoch"]))

    def _save_checkpoint(self, training: Training, checkpoint: int | str, started: float) -> None:
        """Save weights with the learning curve up to now."""
        arrays = {f"weights/{name}": v for name, v in training.weights(checkpoint).items()}
        arrays |= {f"curve/{name}": np.array(v) for name, v in training.curve.items()}
        arrays["epoch"] = np.array(training.used_epoch(checkpoint))
        about: dict[str, object] = {
            "data": self.run.content.train,
            "parents": [],
            "training": self.run.training,
            "checkpoint": checkpoint,
        }
        key = checkpoint_key(self.run.training, checkpoint)
        self._save("models", key, arrays, about, started)

    def _trained_on(self, source: Source) -> Samples:
        """The samples that the classifier was trained on, with the labels that it was given."""
        return split_portions(self.run.spec, source.train, source.classes)[0]

    def data(self) -> tuple[Source, dict[str, Samples]]:
        """The data of this run, checked to be what the plan was made for."""
        if self._data is None:
            source = load_source(self.run.spec)
            sets = [load_outliers(name, source) for name in self.ood]
            outliers = {images.name: images for images in sets}
            content = self.run.content
            found = {name: images.digest for name, images in outliers.items()}
            validation = "" if source.validation is None else source.validation.digest
            if (source.train.digest, source.test.digest, found, validation) != (
                content.train,
                content.test,
                content.ood,
                content.validation,
            ):
                raise UserError("The data changed while the study was running: start it again.")
            self._data = source, outliers
        return self._data

    def _note_correct(self) -> None:
        if self.store.has("correct", self.run.correct):
            return
        name = self.run.content.id
        outputs = self.outputs(name)
        assert outputs.logits is not None and outputs.labels is not None
        right = (outputs.logits.argmax(1) == outputs.labels).numpy()
        if (outputs.labels < 0).any():  # a test part without labels: nobody knows
            right = right[:0]
        about = {"parents": [self.run.outputs[name]]}
        self._save("correct", self.run.correct, {"correct": right}, about, time.monotonic())

    def _key(self, name: str) -> str:
        return self.run.outputs[name] if name else self.run.train_outputs

    def _load(self, kind: Kind, key: str) -> dict[str, NDArray[Any]] | None:
        """Load arrays; None if they are not there or damaged, so that they are made again."""
        if not self.store.has(kind, key):
            return None
        try:
            return bytes_to_arrays(self.store.load(kind, key))
        except DamagedError:
            self.store.discard(kind, key)
            return None

    def _save(
        self,
        kind: Kind,
        key: str,
        arrays: Mapping[str, NDArray[Any]],
        about: Mapping[str, object],
        started: float,
    ) -> None:
        self.store.save(
            kind,
            key,
            arrays_to_bytes(arrays),
            {
                **about,
                "run": self.run.label,
                "seconds": round(time.monotonic() - started, 3),
                "specification": self.run.spec.model_dump(mode="json"),
                "seed": self.run.spec.seed,
                "device": self.device,
            },
        )


def _named(by_setting: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Settings as names of arrays; a detector without settings has one, called "-"."""
    return {setting or "-": scores for setting, scores in by_setting.items()}


@contextmanager
def _reproducible(device: str) -> Iterator[None]:
    """Compute the same bytes in every process: on one thread, by deterministic algorithms."""
    threads = torch.get_num_threads()
    strict = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_num_threads(1)
    # On accelerators some operations have no such algorithm.
    torch.use_deterministic_algorithms(True, warn_only=not device.startswith("cpu"))
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict, warn_only=warn_only)
