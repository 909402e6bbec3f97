"""What a worker does for one run: train, extract, score; only what the store lacks."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from oodometer.engine.plan.plan import RunPlan
from oodometer.engine.stores import DamagedError, Kind, Store, StoreError
from oodometer.engine.work.ask import Probing
from oodometer.engine.work.codecs import REFUSED, arrays_to_bytes, bytes_to_arrays, text_to_array
from oodometer.engine.work.failures import remember_failure
from oodometer.engine.work.train import Trainer
from oodometer.errors import UserError, describe
from oodometer.lab.asking.extract import extract, stem_relu_skipped
from oodometer.lab.data.outliers import load_outliers
from oodometer.lab.data.portions import split_portions
from oodometer.lab.data.samples import Samples
from oodometer.lab.data.sources import Source, load_source
from oodometer.lab.detector_models.binary import binary_source
from oodometer.lab.training.task import CLASSIFIER
from oodometer.outputs import Head, Outputs
from oodometer.registry import Choice
from oodometer.scores import Missing, ScoreRow
from oodometer.scoring import choices, score_choice


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
        self._companions: dict[str, Bench] = {}  # of other runs that it reads
        self.probing = Probing(self)

    def prepare(self) -> list[Missing]:
        """Train and extract what the store lacks; return the failure, if it is one."""
        lacking = self.lacking()
        if not lacking and self.store.has("correct", self.run.correct):
            return []
        try:
            with _reproducible(self.device):
                for name, key in self.run.output_keys.items():
                    if not self.store.has("outputs", key):
                        self._outputs[name] = self._make_outputs(name)
                self._note_correct()
                self._ask_again(lacking)
        except StoreError:
            raise
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - the other runs go on
            trace = "".join(traceback.format_exception(problem))
            failure = Missing(describe(problem), run=self.run.label, traceback=trace)
            remember_failure(self.store, self.run, failure)
            return [failure]
        self._let_go()
        return []

    def _ask_again(self, labels: Iterable[str]) -> None:
        """Make what detectors need beyond outputs, all in one pass, while the network is here."""
        try:
            self.probing.prepare(labels)
        except StoreError:
            raise
        except Exception:  # noqa: BLE001 - they ask for it themselves, and tell what happens
            pass

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
                    self.spent(f"score {label}", started)
        self._let_go()
        return missing

    def probe(self, keys: Iterable[str]) -> list[Missing]:
        """Ask the network again for these probes."""
        with _reproducible(self.device):
            self.probing.make(keys)
        self._let_go()
        return []

    def _let_go(self) -> None:
        """Forget the network and the data: scoring needs neither."""
        self._model = self._data = None
        self._companions.clear()

    def spent(self, on: str, since: float) -> None:
        """Note how long something took."""
        self.seconds[on] = self.seconds.get(on, 0.0) + time.monotonic() - since

    def _score(self, choice: Choice, names: Sequence[str]) -> list[Missing]:
        """Score these data sets with one detector, at every setting of its grid."""
        started = time.monotonic()
        if choice.detector.learns_from_outliers:  # all scores depend on all data sets
            names = list(self.run.outputs)
        scores: dict[str, dict[str, NDArray[Any]]] = {name: {} for name in names}
        missing: list[Missing] = []
        keys = self.run.scores[choice.label]
        for part in self._scored(choice, names):
            if isinstance(part, ScoreRow):
                scores[part.dataset][part.setting] = part.scores
            else:
                missing.append(part)
        whole = next((part for part in missing if not part.setting), None)
        if whole is not None and whole.lasting:  # what is refused is refused at every setting
            missing = [part for part in missing if part is whole or not part.lasting]
        for name, by_setting in scores.items():
            if whole is None or whole.lasting:
                about = {
                    "detector": choice.label,
                    "data set": name,
                    "parents": self._parents(choice.label, name),
                    # Settings of the grid that failed: whoever reads the scores should know.
                    "missing": [[part.setting, part.reason] for part in missing if part.setting],
                }
                arrays = _named(by_setting)
                if whole is not None:
                    arrays[REFUSED] = text_to_array(whole.reason)
                self.save("scores", keys[name], arrays, about, started)
        if whole is not None and not whole.lasting:
            remember_failure(self.store, self.run, whole)
        return missing

    def _scored(self, choice: Choice, names: Sequence[str]) -> Iterator[ScoreRow | Missing]:
        """Fit and score; what a detector needs and cannot be made is its failure."""
        label, run = choice.label, self.run.label
        try:
            train = self.probing.outputs("", label)
            tests = {name: self.probing.outputs(name, label) for name in names}
        except StoreError:
            raise
        except Exception as problem:  # noqa: BLE001 - the other detectors go on
            trace = "".join(traceback.format_exception(problem))
            yield Missing(describe(problem), run, label, traceback=trace)
            return
        yield from score_choice(choice, train, tests, id=self.run.content.id, grid=True, run=run)

    def _parents(self, label: str, name: str) -> list[str]:
        """The keys of what scores on a data set are made from."""
        run = self.run
        asked = [run.probes[need] for need in run.needs.get(label, ()) if need in run.probes]
        probes = [keys[each] for keys in asked for each in ("", name) if each in keys]
        return [run.train_outputs, run.outputs[name], *probes]

    def outputs(self, name: str) -> Outputs:
        """Outputs on a data set ("" = what is fitted to), from memory, the store or the model."""
        if name not in self._outputs:
            self._outputs[name] = self._load_outputs(name) or self._make_outputs(name)
        return self._outputs[name]

    def _load_outputs(self, name: str) -> Outputs | None:
        arrays = self.load("outputs", self._key(name))
        if arrays is None:
            return None
        tensors = {key: torch.from_numpy(value) for key, value in arrays.items()}
        head = Head(tensors["weight"], tensors["bias"]) if "weight" in tensors else None
        return Outputs(tensors["logits"], tensors.get("features"), tensors["labels"], head)

    def _make_outputs(self, name: str) -> Outputs:
        images, model = self.samples(name), self.model()
        started = time.monotonic()
        made = extract(model, {name: images.batches()})[name]
        if self.run.spec.features == "skip_stem_relu":
            with stem_relu_skipped(model):
                other = extract(model, {name: images.batches()})[name]
            # These features do not give these logits, so there is no head that joins them.
            made = Outputs(made.logits, other.features, made.labels)
        if self.run.against is not None:  # nobody asks for more
            made = Outputs(made.logits, labels=made.labels)
        arrays = {key.removeprefix("head."): value.numpy() for key, value in made.tensors().items()}
        about = {"data set": name or self.run.fitted, "parents": [self.run.model]}
        self.save("outputs", self._key(name), arrays, about, started)
        self.spent("extract", started)
        return made

    def outputs_of(self, companion: RunPlan, name: str) -> Outputs:
        """Outputs of another run, from the store or its model."""
        if companion.label == self.run.label:
            return self.outputs(name)
        if companion.label not in self._companions:
            done = self.store.has("outputs", companion.outputs[name])
            if not done and self.store.has("failures", companion.model):
                raise UserError(f"it needs run {companion.label} too, which failed.")
            other = Bench(companion, self.ood, self._detectors, self.store, self.device)
            self._companions[companion.label] = other
        return self._companions[companion.label].outputs(name)

    def samples(self, name: str) -> Samples:
        """The samples of a data set ("" = what detectors are fitted to)."""
        source, outliers = self.data()
        return outliers.get(name, source.test) if name else self._fitted_on(source)

    def model(self) -> nn.Module:
        """The trained classifier, from memory, the store or training."""
        if self._model is None:
            source, _ = self.data()
            arrays = self.load("models", self.run.model) or Trainer(self).train(source)
            if all(self.store.has("models", key) for key in self.run.checkpoints.values()):
                self.store.discard("progress", self.run.progress)  # left by a kill at the very end
            self._model = CLASSIFIER.fresh_network(
                self.run.spec, source.train.shape, source.classes
            )
            self._model.load_state_dict(
                {
                    name.removeprefix("weights/"): torch.from_numpy(value)
                    for name, value in arrays.items()
                    if name.startswith("weights/")
                }
            )
            self._model.to(self.device)
        return self._model

    def _fitted_on(self, source: Source) -> Samples:
        """What detectors are fitted to: what was trained on, as labelled, or what validates."""
        trained, aside = split_portions(self.run.spec, source.train, source.classes)
        if self.run.spec.fitted_on == "train":
            return trained
        validating = source.validation if aside is None else aside
        assert validating is not None, "a plan without validation samples is refused"
        return validating

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
            if self.run.against is not None:
                strange = outliers[self.run.against.outliers]
                source = binary_source(source, strange, self.run.against)
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
        self.save("correct", self.run.correct, {"correct": right}, about, time.monotonic())

    def _key(self, name: str) -> str:
        return self.run.outputs[name] if name else self.run.train_outputs

    def load(self, kind: Kind, key: str) -> dict[str, NDArray[Any]] | None:
        """Load arrays; None if they are not there or damaged, so that they are made again."""
        if not self.store.has(kind, key):
            return None
        try:
            return bytes_to_arrays(self.store.load(kind, key))
        except DamagedError:
            self.store.discard(kind, key)
            return None

    def save(
        self,
        kind: Kind,
        key: str,
        arrays: Mapping[str, NDArray[Any]],
        about: Mapping[str, object],
        started: float,
    ) -> None:
        """Keep arrays, with how they came about."""
        against = self.run.against
        learned = {} if against is None else {"learned to tell": against.in_words}
        self.store.save(
            kind,
            key,
            arrays_to_bytes(arrays),
            {
                **about,
                **learned,
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
