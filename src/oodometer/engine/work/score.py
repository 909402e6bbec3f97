"""Score the outputs of a run with detectors; scores, refusals and failures are kept."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from oodometer.engine.plan.keys import libraries_of
from oodometer.engine.stores import StoreError
from oodometer.engine.work.codecs import REFUSED, text_to_array
from oodometer.engine.work.failures import remember_failure
from oodometer.errors import describe
from oodometer.registry import Choice
from oodometer.scores import Level, Missing, ScoreRow
from oodometer.scoring import choices, score_choice

if TYPE_CHECKING:
    from oodometer.engine.work.worker import RunWorker


class Scorer:
    """Scores the run that a worker does."""

    def __init__(self, worker: RunWorker, detectors: Sequence[str]) -> None:
        self._worker, self._run = worker, worker.run
        self._detectors = detectors
        self._choices: dict[str, Choice] | None = None

    def score(self, label: str) -> list[Missing]:
        """Score what the store lacks with a detector; return what could not be done."""
        started = time.monotonic()
        if self._choices is None:
            self._choices = {choice.label: choice for choice in choices(self._detectors)}
        store = self._worker.store
        keys = self._run.scores[label]
        names = [name for name, key in keys.items() if not store.has("scores", key)]
        missing = self._score(self._choices[label], names) if names else []
        self._worker.spent("score", started, label)
        return missing

    def _score(self, choice: Choice, names: Sequence[str]) -> list[Missing]:
        """Score these data sets with one detector, at every setting of its grid."""
        started = time.monotonic()
        if choice.detector.learns_from_outliers:  # all scores depend on all data sets
            names = list(self._run.outputs)
        scores: dict[str, dict[str, NDArray[Any]]] = {name: {} for name in names}
        learned_from: dict[str, str] = {}  # setting -> outlier set
        settings: dict[str, Mapping[str, Level]] = {}  # setting -> its values by name
        missing: list[Missing] = []
        for part in self._results(choice, names):
            if isinstance(part, ScoreRow):
                scores[part.dataset][part.setting] = part.scores
                learned_from |= {part.setting: part.learned_from} if part.learned_from else {}
                settings |= {part.setting: part.settings} if part.settings else {}
            else:
                missing.append(part)
        whole = next((part for part in missing if not part.setting), None)
        if whole is not None and not whole.lasting:
            remember_failure(self._worker.store, self._run, whole, choice.label)
            return missing
        refused: dict[str, NDArray[Any]] = {}
        if whole is not None:  # what is refused is refused at every setting
            missing = [part for part in missing if part is whole or not part.lasting]
            refused = {REFUSED: text_to_array(whole.reason)}
        # Settings of the grid that failed: whoever reads the scores should know.
        failed = [[part.setting, part.reason] for part in missing if part.setting]
        for name, by_setting in scores.items():
            artefact = self._worker.artefact("scores", self._run.scores[choice.label][name])
            self._worker.save(
                artefact,
                _named(by_setting) | refused,
                started,
                missing=failed,
                learned_from=learned_from,
                settings=settings,
                libraries=libraries_of(choice.detector.build),
            )
        return missing

    def _results(self, choice: Choice, names: Sequence[str]) -> Iterator[ScoreRow | Missing]:
        """Fit and score; what a detector needs and cannot be made is its failure."""
        label, run, asker = choice.label, self._run.label, self._worker.asker
        try:
            train = asker.outputs("", label)
            tests = {name: asker.outputs(name, label) for name in names}
        except StoreError:
            raise
        except Exception as problem:  # noqa: BLE001 - the other detectors continue
            trace = "".join(traceback.format_exception(problem))
            yield Missing(describe(problem), run, label, traceback=trace)
            return
        read = [refusal for part in (train, *tests.values()) for refusal in part.refused.values()]
        passing = {refusal.reason for refusal in read if not refusal.lasting}
        id = self._run.content.id
        for part in score_choice(choice, train, tests, id=id, grid=True, run=run):
            if isinstance(part, Missing) and part.reason in passing:
                part = replace(part, lasting=False)  # its model is trained again by the next run
            yield part


def _named(by_setting: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Settings as names of arrays; a detector without settings has one, called "-"."""
    return {setting or "-": scores for setting, scores in by_setting.items()}
