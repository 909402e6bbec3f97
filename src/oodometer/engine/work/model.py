"""Train a detector model and ask it about the data sets of the runs that need it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from numpy.typing import NDArray

from oodometer.engine.plan.models import ModelPlan
from oodometer.engine.stores import Store
from oodometer.engine.work.data import fitted_samples, forget_data
from oodometer.engine.work.network import NetworkWorker
from oodometer.errors import UserError
from oodometer.lab.data.auxiliary import untested_part
from oodometer.lab.data.samples import Samples
from oodometer.lab.data.sources import Source
from oodometer.lab.detector_models import answers_of, draw_samples, find_model
from oodometer.scoring import choices

SAMPLES_KEPT = 16  # images that a generative model draws for the report


class ModelWorker(NetworkWorker):
    """Does one detector model."""

    def __init__(
        self,
        model: ModelPlan,
        ood: Sequence[str],
        detectors: Sequence[str],
        store: Store,
        device: str = "cpu",
    ) -> None:
        super().__init__(model, ood, detectors, store, device)
        choices(detectors)  # imports the files of users, which register their models
        self._plan, self._card = model, find_model(model.name)
        self.task = self._card.task

    def source(self) -> Source:
        """What the model learns from."""
        return self._source

    @cached_property
    def _source(self) -> Source:
        data, plan = self.data(), self._plan
        if self._card.of_outliers:
            text = dict(zip(data.outliers, self.ood, strict=True))[plan.outliers]
            part = untested_part(text, data.source, data.outliers[plan.outliers])
            if part.digest != plan.content.ood_train[plan.outliers][0]:
                raise UserError("The data changed while the study was running: start it again.")
            return replace(data.source, train=part, validation=None)
        if self._card.source is None:
            return data.source
        outliers = data.outliers[plan.outliers] if plan.outliers else None
        source = self._card.source(data.source, plan.portion, outliers)
        # Other runs of this process read the same arrays.
        if data.altered:
            forget_data()
            raise UserError(
                f"The source of model '{plan.name}' wrote into the data that it was given, which "
                "others read too: work on a copy."
            )
        if not isinstance(source, Source):
            raise UserError(
                f"The source of model '{plan.name}' must return a Source, got "
                f"{type(source).__name__}."
            )
        return source

    def auxiliary(self) -> Samples | None:
        """Outliers that it learns from besides."""
        return self.data().auxiliary if self.task.outliers_per_input else None

    def extras(self, weights: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Images that a generative model draws."""
        if self._card.samples is None:
            return {}
        source, spec = self.source(), self._plan.spec
        model = self.task.fresh_network(spec, source.train.shape, source.classes)
        model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
        return {"samples": draw_samples(self._card, model, SAMPLES_KEPT, spec.seed).numpy()}

    def fitted_on(self) -> Samples:
        """What detectors are fitted to."""
        return fitted_samples(self._plan.portion, self.data().source)

    def ask(self, keys: Iterable[str], *, lenient: bool) -> None:
        """Ask the model for its answers."""
        wanted = set(keys)
        for name, key in self._plan.answers.items():
            if key in wanted:
                self._make(name)

    def answers(self, name: str) -> dict[str, NDArray[Any]]:
        """What the model says about a data set, from the store or the model."""
        return self.load("probes", self._plan.answers[name]) or self._make(name)

    def _make(self, name: str) -> dict[str, NDArray[Any]]:
        model = self.model()
        started = time.monotonic()
        arrays = {"values": answers_of(self._card, model, self.samples(name)).numpy()}
        self.save(self.artefact("probes", self._plan.answers[name]), arrays, started)
        self.spent("extract", started)
        return arrays
