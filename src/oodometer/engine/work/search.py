"""Search for outliers that fool the detectors of a run, and score what was found with all."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from oodometer.engine.plan.artefacts import About, Artefact
from oodometer.engine.plan.models import ModelPlan
from oodometer.engine.plan.searches import SearchPlan, needs_of_default, reads_classifier
from oodometer.engine.stores import StoreError
from oodometer.engine.work.codecs import text_to_array
from oodometer.engine.work.data import validation_samples
from oodometer.engine.work.failures import remember_failure
from oodometer.engine.work.model import ModelWorker
from oodometer.errors import UserError, describe
from oodometer.lab.data.samples import Images, Samples
from oodometer.lab.detector_models import find_model
from oodometer.lab.detector_models.answers import rows_at_once
from oodometer.lab.generators import draws
from oodometer.lab.generators.variation import generator_variation
from oodometer.lab.search import SearchResult, Variation, make_variation, search
from oodometer.needs import Need
from oodometer.registry import Choice
from oodometer.scores import Missing
from oodometer.scoring import choices
from oodometer.searches.gallery import SHOWN
from oodometer.searches.scorers import Scorer, opened_detector, scores_of

if TYPE_CHECKING:
    from oodometer.engine.work.worker import RunWorker

_KNOWN = 1000  # validation images, at most, that standardize scores
_TRACED = 200  # points of a chain's trace that are kept, at most


class Searcher:
    """Searches against the detectors of the run that a worker does."""

    def __init__(self, worker: RunWorker, detectors: Sequence[str]) -> None:
        self._worker, self._run, self._detectors = worker, worker.run, detectors
        self._kept: _Open | None = None  # the detector of the last search: the next may be its own

    def search(self, search: Artefact) -> list[Missing]:
        """Do a search that the store lacks; return what failed."""
        missing: list[Missing] = []
        with self._telling(search, missing):
            opened = self._open(search.about.name)
            self._search(self._run.searches[search.about.dataset], opened.scorer, opened.known)
        return missing

    def close(self) -> None:
        """Let go of the networks that are kept open from search to search."""
        if self._kept is not None:
            self._kept.networks.close()
            self._kept = None

    def _open(self, label: str) -> _Open:
        """A detector with its networks, and its scores of known data; kept for the next search."""
        if self._kept is None or self._kept.label != label:
            self.close()
            with ExitStack() as networks:
                scorer = networks.enter_context(self._opened(label))
                known = validation_samples(self._run.spec, self._worker.source())
                scores = scores_of(scorer, _floats(known, _KNOWN), self._batch)
                self._kept = _Open(label, scorer, scores, networks.pop_all())
        return self._kept

    def score_found(self, parts: Sequence[Artefact]) -> list[Missing]:
        """Score what the searches of the run have found with a detector."""
        store, missing = self._worker.store, list[Missing]()
        lacking = [part for part in parts if not store.has("found", part.key)]
        label = parts[0].about.name
        with self._telling(parts[0], missing, whole=True), self._opened(label) as scorer:
            for part in lacking:
                plan, started = self._run.searches[part.about.dataset], time.monotonic()
                arrays = self._worker.load("searches", plan.key)
                if arrays is None:  # that search failed, and said why
                    continue
                with self._telling(part, missing):
                    scores = scores_of(scorer, self._found(plan, arrays), self._batch)
                    setting = self._choice(label).setting or "-"
                    self._worker.save(part, {setting: scores}, started)
        return missing

    @property
    def _batch(self) -> int:
        return rows_at_once(self._run.content.train_shape[1:])

    def _choice(self, label: str) -> Choice:
        return next(choice for choice in choices(self._detectors) if choice.label == label)

    @contextmanager
    def _opened(self, label: str) -> Iterator[Scorer]:
        """A detector as a function of images, with its networks open."""
        run, worker, choice = self._run, self._worker, self._choice(label)
        models = {}
        for need in needs_of_default(choice, run):
            if need in run.models:
                models[need] = find_model(need.name), self._trained(run.models[need])
        classifier = worker.model() if reads_classifier(choice) else None
        data = worker.fitted_on().batches()
        learned = worker.asker.outputs("", label)
        with opened_detector(choice, learned, classifier, data, models, self._batch) as scorer:
            yield scorer

    def _trained(self, model: ModelPlan) -> nn.Module:
        """A detector model or a generator; one that failed is not trained once more here."""
        worker = self._worker
        worker.require_possible(model, "models", model.model)
        own = ModelWorker(model, worker.ood, self._detectors, worker.store, worker.device)
        return own.model()

    @contextmanager
    def _telling(
        self, part: Artefact, missing: list[Missing], *, whole: bool = False
    ) -> Iterator[None]:
        """Keep a failure, of an artefact or of its whole unit, and let the rest go on."""
        try:
            yield
        except StoreError:
            raise
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - the others continue
            trace = "".join(traceback.format_exception(problem))
            failure = Missing(
                describe(problem), self._run.label, part.about.name,
                dataset="" if whole else part.about.dataset, traceback=trace,
            )  # fmt: skip
            remember_failure(self._worker.store, self._run, failure, part.unit)
            missing.append(failure)

    def _given(self, plan: SearchPlan) -> Tensor:
        return _floats(self._worker.samples(plan.outliers), plan.settings.images)

    def _found(self, plan: SearchPlan, arrays: Mapping[str, NDArray[Any]]) -> Tensor:
        """The images that a search has found, made again from their latent points."""
        given, latent = self._given(plan), torch.from_numpy(arrays["latent"])
        variation = self._variation(plan, tuple(given.shape[1:]))
        parts = zip(torch.split(given, self._batch), torch.split(latent, self._batch), strict=True)
        with torch.no_grad():
            return torch.cat([variation.images(*part) for part in parts])

    def _variation(self, plan: SearchPlan, shape: tuple[int, ...]) -> Variation:
        """How images vary: by a formula, or by the generator of the outlier set."""
        named = draws(plan.variation)
        if named is None:
            return make_variation(plan.variation, shape)
        card, drawing = named
        own = self._run.models[Need("model", card.name, plan.outliers)]
        part = self._trained(own).get_submodule(card.part)
        return generator_variation(card, part.eval(), drawing, shape)

    def _search(self, plan: SearchPlan, scorer: Scorer, known: NDArray[np.float64]) -> None:
        started, given, wanted = time.monotonic(), self._given(plan), plan.settings
        count = len(given)
        varied = self._variation(plan, tuple(given.shape[1:]))
        given = given if varied.conditional else given[:0]
        made = search(
            scorer, varied, given if len(given) else None,
            chains=None if len(given) else count, method=wanted.method_of(plan.variation),
            steps=wanted.steps, seed=plan.seed, known_scores=known, batch_size=self._batch,
            kept=_InStore(self._worker, plan),
        )  # fmt: skip
        if made.steps < wanted.steps:  # resumed at the next attempt
            raise UserError(made.notes[0])
        self._worker.save(
            self._worker.artefact("searches", plan.key),
            _arrays(made, given),
            started,
            search={
                "method": made.method,
                "parameters": list(made.parameters),
                **wanted.model_dump(include={"steps", "images"}),
                "seed": plan.seed,
            },
        )
        self._worker.store.discard("progress", plan.progress)


@dataclass(frozen=True)
class _Open:
    """A detector as a function of images."""

    label: str
    scorer: Scorer
    known: NDArray[np.float64]  # scores of validation images
    networks: ExitStack


@dataclass(frozen=True)
class _InStore:
    """An unfinished search that is kept in the store."""

    worker: RunWorker
    plan: SearchPlan

    def load(self) -> dict[str, NDArray[Any]] | None:
        """What was kept last."""
        return self.worker.load("progress", self.plan.progress)

    def save(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep it in place of what was kept before."""
        about = About(self.worker.run.label)
        state = Artefact("progress", self.plan.progress, "score", about)
        self.worker.save(state, arrays, time.monotonic(), search=self.plan.title)


def _floats(samples: Samples, most: int) -> Tensor:
    """The first samples as images in [0, 1]."""
    assert isinstance(samples, Images), "a study that searches among texts is refused"
    return torch.from_numpy(samples.floats(slice(0, most)))


def _arrays(made: SearchResult, given: Tensor) -> dict[str, NDArray[Any]]:
    """What is kept of a search: points, scores, traces, and the worst images to show."""
    lowest = np.argsort(made.scores, kind="stable")[:SHOWN]
    every = -(-len(made.trace) // _TRACED)
    bytes_of = {"clean": given[lowest] if len(given) else given, "found": made.images[lowest]}
    pictures = {
        f"shown/{name}": (images * 255).round().to(torch.uint8).numpy()
        for name, images in bytes_of.items()
    }
    return {
        "latent": made.latent,
        "scores": made.scores,
        "clean_scores": made.clean_scores,
        "trace": made.trace[::every],
        "acceptance": made.acceptance,
        "effective": made.effective,
        "asked": np.array(made.asked),
        "notes": text_to_array("\n".join(made.notes)),
        "shown/rows": lowest,
        **pictures,
    }
