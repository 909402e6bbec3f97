"""A worker does one run: it trains, asks and scores, and makes only what the store lacks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from oodometer.engine.plan.artefacts import lacking_units
from oodometer.engine.plan.models import ModelPlan
from oodometer.engine.plan.plan import RunPlan
from oodometer.engine.plan.trainings import TrainingPlan
from oodometer.engine.stores import Kind, Store
from oodometer.engine.work.ask import Asker
from oodometer.engine.work.data import fitted_samples
from oodometer.engine.work.model import ModelWorker
from oodometer.engine.work.network import NetworkFailedError, NetworkWorker, reproducible
from oodometer.engine.work.score import Scorer
from oodometer.engine.work.search import Searcher
from oodometer.lab.data.samples import Samples
from oodometer.lab.data.sources import Source
from oodometer.lab.training.task import CLASSIFIER
from oodometer.outputs import Outputs
from oodometer.scores import Missing


def open_worker(
    plan: TrainingPlan,
    ood: Sequence[str],
    detectors: Sequence[str],
    store: Store,
    device: str = "cpu",
) -> NetworkWorker:
    """A worker for a run of the study, or for a detector model."""
    if isinstance(plan, ModelPlan):
        return ModelWorker(plan, ood, detectors, store, device)
    assert isinstance(plan, RunPlan)
    return RunWorker(plan, ood, detectors, store, device)


class RunWorker(NetworkWorker):
    """Does one run of the study."""

    task = CLASSIFIER

    def __init__(
        self,
        run: RunPlan,
        ood: Sequence[str],
        detectors: Sequence[str],
        store: Store,
        device: str = "cpu",
    ) -> None:
        super().__init__(run, ood, detectors, store, device)
        self.run = run
        self._companions: dict[str, RunWorker] = {}  # of other runs that it reads
        self.asker = Asker(self)
        self._scorer = Scorer(self, detectors)
        self._searcher = Searcher(self, detectors)

    def source(self) -> Source:
        """What the classifier learns from."""
        return self.data().source

    def fitted_on(self) -> Samples:
        """What detectors are fitted to."""
        return fitted_samples(self.run.spec, self.source())

    def ask(self, keys: Iterable[str], *, lenient: bool) -> None:
        """Ask the classifier for outputs and probes."""
        (self.asker.prepare if lenient else self.asker.make)(keys)

    def score(self, units: Sequence[str]) -> list[Missing]:
        """Make what the store lacks of these units; return what could not be made."""
        lacking = set(lacking_units(self.run, self._has))
        missing: list[Missing] = []
        with reproducible(self.device):
            for unit in units:
                if unit in lacking:
                    lacks = self._score(unit)
                    self.failed += [unit] if any(part.failure for part in lacks) else []
                    missing += lacks
        self._let_go()
        return missing

    def _score(self, unit: str) -> list[Missing]:
        parts = self.run.units[unit]
        if parts[0].kind != "searches":
            self._searcher.close()
        if parts[0].kind == "scores":
            self.asker.prepare_for(parts[0].about.name)
            return self._scorer.score(parts[0].about.name)
        started = time.monotonic()
        if parts[0].kind == "searches":
            missing = self._searcher.search(parts[0])
        else:
            missing = self._searcher.score_found(parts)
        self.spent("score", started, unit)
        return missing

    def close(self) -> None:
        """Let go of what is kept open from task to task."""
        self._searcher.close()

    def _let_go(self) -> None:
        super()._let_go()
        self._companions.clear()

    def outputs_of(self, companion: RunPlan, name: str) -> Outputs:
        """Outputs of another run, from the store or its model."""
        if companion.label == self.run.label:
            return self.asker.outputs(name)
        if companion.label not in self._companions:
            self.require_possible(companion, "outputs", companion.outputs[name])
            other = RunWorker(companion, self.ood, self._detectors, self.store, self.device)
            self._companions[companion.label] = other
        return self._companions[companion.label].asker.outputs(name)

    def answers_of(self, model: ModelPlan, name: str) -> Mapping[str, NDArray[Any]]:
        """What a detector model says about a data set, from the store or the model."""
        self.require_possible(model, "probes", model.answers[name])
        return ModelWorker(model, self.ood, self._detectors, self.store, self.device).answers(name)

    def require_possible(self, companion: TrainingPlan, kind: Kind, key: str) -> None:
        """Say so if another network failed, and did not leave what is wanted of it."""
        if not self.store.has(kind, key) and self.store.has("failures", companion.model):
            raise NetworkFailedError(companion.label)
