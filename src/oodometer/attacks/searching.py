"""The searches of an attack against one detector, and what could not be scored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from oodometer.errors import NotFiniteError, UserError
from oodometer.evaluation import PathLike
from oodometer.lab.search import HasVariation, SearchResult, Variation, as_variation, search
from oodometer.scores import Missing, SetInfo, search_title
from oodometer.searches.scorers import Scorer

Varied = str | Variation | HasVariation

_SECONDS_BETWEEN_NOTES = 10.0


@dataclass(frozen=True)
class SearchSettings:
    """What to search, and how long."""

    variations: tuple[Varied, ...]
    method: str
    steps: int
    seconds: float | None
    seed: int
    repeats: int
    batch_size: int
    folder: PathLike | None


class Failures:
    """What could not be scored: one line per detector and reason, however many sets lack it."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str], tuple[str, list[str]]] = {}

    def add(self, problem: UserError, detector: str, dataset: str) -> None:
        """Note why a detector has no scores on a data set."""
        kind = "not finite" if isinstance(problem, NotFiniteError) else str(problem)
        _, sets = self._sets.setdefault((detector, kind), (str(problem), []))
        sets.append(dataset)

    def lines(self) -> tuple[Missing, ...]:
        """What is missing, with the reasons."""
        return tuple(
            Missing(_also(reason, len(sets) - 1), detector=detector, dataset=sets[0])
            for (detector, _), (reason, sets) in self._sets.items()
        )


def _also(reason: str, more: int) -> str:
    sets = f"{more} more data set{'s' * (more > 1)}"
    return f"{reason.rstrip('.')} (and on {sets})." if more else reason


@dataclass
class Searching:
    """The searches against one detector."""

    label: str
    scorer: Scorer
    known_scores: NDArray[np.float64]  # by which its scores are standardized
    plan: SearchSettings
    run: str
    note: Callable[[str], None]
    failures: Failures
    # What a generator makes does not depend on an outlier set: one search serves them all.
    _made: dict[tuple[int, int, int], SearchResult] = field(default_factory=dict)

    def among(self, name: str, images: Tensor) -> Iterator[tuple[SetInfo, SearchResult]]:
        """Search among all variations of an outlier set; what fails is noted."""
        for number, asked in enumerate(self.plan.variations):
            made = as_variation(asked, tuple(images.shape[1:]))
            for repeat in range(1, self.plan.repeats + 1):
                info = SetInfo("search", self.label, name, made.name, repeat)
                try:
                    yield info, self._search(made, number, images, info)
                except UserError as problem:
                    self.failures.add(problem, self.label, name)

    def _search(self, made: Variation, number: int, images: Tensor, info: SetInfo) -> SearchResult:
        key = number, len(images), info.repeat
        if key in self._made:
            return self._made[key]
        title = search_title(made.name, info.of, self.label, info.repeat)
        plan = self.plan
        result = search(
            self.scorer, made, images if made.conditional else None, method=plan.method,
            steps=plan.steps, seconds=plan.seconds, seed=plan.seed + info.repeat - 1,
            chains=None if made.conditional else len(images), known_scores=self.known_scores,
            batch_size=plan.batch_size, folder=plan.folder,
            progress=_Progress(title, self.run, self.note),
        )  # fmt: skip
        if not made.conditional:
            self._made[key] = result
        return result


class _Progress:
    """Says now and then how far a search is, and how long it may take."""

    def __init__(self, title: str, run: str, note: Callable[[str], None]) -> None:
        self._title = f"{run}: {title}" if run else title
        self._note, self._started = note, time.monotonic()
        self._said = self._started

    def __call__(self, done: int, steps: int) -> None:
        now = time.monotonic()
        if now - self._said >= _SECONDS_BETWEEN_NOTES:
            self._said = now
            left = (now - self._started) / done * (steps - done)
            self._note(f"{self._title}: step {done} of {steps}, about {left:.0f} s left")
