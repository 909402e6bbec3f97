"""A worker does one run: it trains, asks and scores, and makes only what the store lacks."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from oodometer.engine.plan.artefacts import Artefact, lacking_detectors
from oodometer.engine.plan.plan import RunPlan
from oodometer.engine.stores import DamagedError, Kind, Store, StoreError
from oodometer.engine.work.ask import Asker
from oodometer.engine.work.codecs import arrays_to_bytes, bytes_to_arrays
from oodometer.engine.work.data import read_data
from oodometer.engine.work.failures import remember_failure
from oodometer.engine.work.score import Scorer
from oodometer.engine.work.train import Trainer
from oodometer.errors import UserError, describe
from oodometer.lab.data.portions import split_portions
from oodometer.lab.data.samples import Samples
from oodometer.lab.data.sources import Source
from oodometer.lab.detector_models.binary import binary_source
from oodometer.outputs import Outputs
from oodometer.scores import Missing


def execute(
    run: RunPlan, ood: Sequence[str], detectors: Sequence[str], store: Store, device: str = "cpu"
) -> list[Missing]:
    """Do all that the store lacks of one run; return what could not be done, with reasons.

    `ood` and `detectors` are names as the study gives them. A failure is kept in the store with
    its traceback, and the rest goes on.
    """
    worker = RunWorker(run, ood, detectors, store, device)
    return worker.prepare() or worker.score(list(run.scores))


class RunWorker:
    """Does one run: what is needed is loaded or made once, when it is needed."""

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
        self._artefacts = {(part.kind, part.key): part for part in run.artefacts}
        self._source: Source | None = None
        self._model: nn.Module | None = None
        self._companions: dict[str, RunWorker] = {}  # of other runs that it reads
        self._trainer, self.asker = Trainer(self), Asker(self)
        self._scorer = Scorer(self, detectors)

    def prepare(self) -> list[Missing]:
        """Train and ask what the store lacks; return the failure, if there is one."""
        lacking = [p for p in self.run.artefacts if p.stage != "score" and not self._has(p)]
        if not lacking:
            return []
        try:
            with _reproducible(self.device):
                self.model()
                self.asker.prepare(part.key for part in lacking)
        except StoreError:
            raise
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - the other runs go on
            trace = "".join(traceback.format_exception(problem))
            failure = Missing(describe(problem), run=self.run.label, traceback=trace)
            remember_failure(self.store, self.run, failure)
            return [failure]
        self._let_go()
        return []

    def score(self, labels: Sequence[str]) -> list[Missing]:
        """Make what the store lacks of these detectors; return what could not be made."""
        lacking = set(lacking_detectors(self.run, self._has))
        missing: list[Missing] = []
        with _reproducible(self.device):
            for label in labels:
                if label in lacking:
                    self.asker.prepare_for(label)
                    missing += self._scorer.score(label)
        self._let_go()
        return missing

    def make(self, artefacts: Iterable[Artefact]) -> list[Missing]:
        """Make artefacts of which the store has none; return what could not be made."""
        parts = list(artefacts)
        with _reproducible(self.device):
            if any(part.kind == "models" for part in parts):
                self.model()
            self.asker.make(part.key for part in parts if part.kind in ("outputs", "probes"))
        self._let_go()
        return self.score(list({p.about.name: p for p in parts if p.kind == "scores"}))

    def _has(self, artefact: Artefact) -> bool:
        return self.store.has(artefact.kind, artefact.key)

    def _let_go(self) -> None:
        """Forget the network and the data: scoring needs neither."""
        self._model = self._source = None
        self._companions.clear()

    def spent(self, on: str, since: float) -> None:
        """Note how long something took."""
        self.seconds[on] = self.seconds.get(on, 0.0) + time.monotonic() - since

    def outputs_of(self, companion: RunPlan, name: str) -> Outputs:
        """Outputs of another run, from the store or its model."""
        if companion.label == self.run.label:
            return self.asker.outputs(name)
        if companion.label not in self._companions:
            done = self.store.has("outputs", companion.outputs[name])
            if not done and self.store.has("failures", companion.model):
                raise UserError(f"it needs run {companion.label} too, which failed.")
            other = RunWorker(companion, self.ood, self._detectors, self.store, self.device)
            self._companions[companion.label] = other
        return self._companions[companion.label].asker.outputs(name)

    def model(self) -> nn.Module:
        """The trained network, from memory, the store or training."""
        if self._model is None:
            self._model = self._trainer.network(self.source()).to(self.device)
        return self._model

    def source(self) -> Source:
        """What the network learns."""
        if self._source is None:
            data = read_data(self.run.spec, self.ood, self.run.content)
            self._source = data.source
            if self.run.against is not None:
                outliers = data.outliers[self.run.against.outliers]
                self._source = binary_source(data.source, outliers, self.run.against)
        return self._source

    def samples(self, name: str) -> Samples:
        """The samples of a data set ("" = what detectors are fitted to)."""
        source = self.source()
        if not name:
            return self._fitted_on(source)
        outliers = read_data(self.run.spec, self.ood, self.run.content).outliers
        return outliers.get(name, source.test)

    def _fitted_on(self, source: Source) -> Samples:
        """What detectors are fitted to: what was trained on, as labelled, or what validates."""
        trained, aside = split_portions(self.run.spec, source.train, source.classes)
        if self.run.spec.fitted_on == "train":
            return trained
        validating = source.validation if aside is None else aside
        assert validating is not None, "a plan without validation samples is refused"
        return validating

    def artefact(self, kind: Kind, key: str) -> Artefact:
        """The artefact of this run that has this key."""
        return self._artefacts[kind, key]

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
        artefact: Artefact,
        arrays: Mapping[str, NDArray[Any]],
        started: float,
        **about: object,
    ) -> None:
        """Keep arrays, with how they came about."""
        against = self.run.against
        if against is not None:
            about["learned to tell"] = against.in_words
        self.store.save(
            artefact.kind,
            artefact.key,
            arrays_to_bytes(arrays),
            {
                **artefact.record,
                **about,
                "seconds": round(time.monotonic() - started, 3),
                "specification": self.run.spec.model_dump(mode="json"),
                "seed": self.run.spec.seed,
                "device": self.device,
            },
        )


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
