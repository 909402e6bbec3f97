"""What all workers do: train a network and ask it, and make only what the store lacks."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from oodometer.engine.plan.artefacts import Artefact, Stage
from oodometer.engine.plan.trainings import TrainingPlan
from oodometer.engine.stores import DamagedError, Kind, Store, StoreError
from oodometer.engine.work.codecs import arrays_to_bytes, bytes_to_arrays
from oodometer.engine.work.data import RunData, read_data
from oodometer.engine.work.failures import remember_failure
from oodometer.engine.work.train import Trainer
from oodometer.errors import UserError, describe
from oodometer.lab.data.samples import Samples
from oodometer.lab.data.sources import Source
from oodometer.lab.training.task import Task
from oodometer.scores import Missing


class NetworkFailedError(UserError):
    """Other networks failed, and did not leave what is wanted of them."""

    def __init__(self, *labels: str) -> None:
        runs = f"run{'s' * (len(labels) > 1)} {' and '.join(labels)}"
        super().__init__(f"it needs {runs}, which failed.")
        self.labels = labels


class NetworkWorker(ABC):
    """Does all for one network: what is needed is loaded or made once, when it is needed."""

    task: Task  # what the network learns

    def __init__(
        self,
        plan: TrainingPlan,
        ood: Sequence[str],
        detectors: Sequence[str],
        store: Store,
        device: str = "cpu",
    ) -> None:
        self.plan, self.ood, self.store, self.device = plan, ood, store, device
        self.seconds: dict[tuple[Stage, str], float] = {}  # spent on a stage, by unit of scoring
        self.failed: list[str] = []  # units of scoring
        self.trained = 0.0  # the share of the wanted epochs that were trained in these seconds
        self._detectors = detectors
        self._artefacts = {(part.kind, part.key): part for part in plan.artefacts}
        self._model: nn.Module | None = None
        self._trainer = Trainer(self)

    @abstractmethod
    def source(self) -> Source:
        """What the network learns from."""

    def auxiliary(self) -> Samples | None:
        """Outliers that it learns from besides."""
        return None

    def extras(self, weights: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """What is kept beside the weights of a checkpoint."""
        return {}

    @abstractmethod
    def fitted_on(self) -> Samples:
        """What detectors are fitted to."""

    @abstractmethod
    def ask(self, keys: Iterable[str], *, lenient: bool) -> None:
        """Ask the network for artefacts, given by their keys.

        If `lenient`, what the network does not allow is left to the detectors: they say why.
        """

    def score(self, units: Sequence[str]) -> list[Missing]:
        """Make units of scoring; return what could not be done."""
        assert not units, "detectors score no network but that of a run"
        return []

    def prepare(self) -> list[Missing]:
        """Train and ask what the store lacks; return the failure, if there is one."""
        lacking = [p for p in self.plan.artefacts if p.stage != "score" and not self._has(p)]
        if not lacking:
            return []
        try:
            with reproducible(self.device):
                self.model()
                self.ask([part.key for part in lacking], lenient=True)
        except StoreError:
            raise
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - the other runs continue
            trace = "".join(traceback.format_exception(problem))
            failure = Missing(describe(problem), run=self.plan.label, traceback=trace)
            remember_failure(self.store, self.plan, failure)
            return [failure]
        self._let_go()
        return []

    def make(self, artefacts: Iterable[Artefact]) -> list[Missing]:
        """Make artefacts of which the store has none; return what could not be made."""
        parts = list(artefacts)
        with reproducible(self.device):
            if any(part.kind == "models" for part in parts):
                self.model()
            keys = [part.key for part in parts if part.kind in ("outputs", "probes")]
            self.ask(keys, lenient=False)
        self._let_go()
        return self.score(list(dict.fromkeys(part.unit for part in parts if part.unit)))

    def close(self) -> None:
        """Let go of what is kept open from task to task: nothing, unless it searches."""
        return

    def _has(self, artefact: Artefact) -> bool:
        return self.store.has(artefact.kind, artefact.key)

    def _let_go(self) -> None:
        """Forget the network: scoring does not need it."""
        self._model = None

    def spent(self, stage: Stage, since: float, unit: str = "") -> None:
        """Note how long something took."""
        key = stage, unit
        self.seconds[key] = self.seconds.get(key, 0.0) + time.monotonic() - since

    def model(self) -> nn.Module:
        """The trained network, from memory, the store or training."""
        if self._model is None:
            self._model = self._trainer.network(self.source()).to(self.device)
        return self._model

    def data(self) -> RunData:
        """All that the run reads."""
        return read_data(self.plan.spec, self.ood, self.plan.content)

    def samples(self, name: str) -> Samples:
        """The samples of a data set ("" = what detectors are fitted to)."""
        data = self.data()
        return data.outliers.get(name, data.source.test) if name else self.fitted_on()

    def artefact(self, kind: Kind, key: str) -> Artefact:
        """The artefact that has this key."""
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
        self.store.save(
            artefact.kind,
            artefact.key,
            arrays_to_bytes(arrays),
            {
                **artefact.record,
                **self.plan.record,
                **about,
                "seconds": round(time.monotonic() - started, 3),
                "specification": self.plan.spec.model_dump(mode="json"),
                "seed": self.plan.spec.seed,
                "device": self.device,
            },
        )


@contextmanager
def reproducible(device: str) -> Iterator[None]:
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
