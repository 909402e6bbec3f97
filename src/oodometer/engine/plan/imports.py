"""Scores that were computed elsewhere: which ones a store has for a study."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from oodometer.engine.plan.artefacts import About, Artefact
from oodometer.engine.plan.keys import digest
from oodometer.engine.stores import DamagedError, Store

if TYPE_CHECKING:
    from oodometer.engine.plan.study_index import PlanRecord


@dataclass(frozen=True)
class Import:
    """One detector's scores for a study; each cell is an artefact of kind "scores"."""

    study: str
    detector: str  # as tables call it
    source: str  # the file that they come from
    sets: Mapping[str, Mapping[str, str]]  # run -> data set -> digest of the samples
    scores: Mapping[str, Mapping[str, str]]  # run -> data set -> key

    @property
    def key(self) -> str:
        """The key under which the store keeps it."""
        return digest("import", asdict(self))


def imported_label(name: str) -> str:
    """What tables call a detector whose scores were imported."""
    return f"{name} (imported)"


def save_import(made: Import, store: Store) -> None:
    """Note that a study has these scores, which the store has already."""
    keys = [key for by_set in made.scores.values() for key in by_set.values()]
    about = {"study": made.study, "detector": made.detector, "imported": made.source}
    payload = json.dumps(asdict(made), indent=1).encode()
    store.save("imports", made.key, payload, {**about, "parents": keys})


def imports_in(store: Store, study: str | None = None) -> list[Import]:
    """What was imported into a store, for one study or all."""
    found = []
    for key in sorted(store.keys("imports")):
        try:
            made = Import(**json.loads(store.load("imports", key)))
        except (DamagedError, TypeError, ValueError):
            continue  # `verify` tells
        if study is None or made.study == study:
            found.append(made)
    return found


def imported_cells(plan: PlanRecord, store: Store) -> Iterator[Artefact]:
    """The imported scores of a study whose samples are those that its runs score."""
    for made in imports_in(store, plan.study.name):
        for run, by_set in made.scores.items():
            if plan.sets.get(run) == made.sets[run]:
                for dataset, key in by_set.items():
                    yield Artefact("scores", key, "score", About(run, made.detector, dataset))


def imported_keys(store: Store) -> set[str]:
    """The keys of all scores that were imported."""
    return {
        key
        for made in imports_in(store)
        for by_set in made.scores.values()
        for key in by_set.values()
    }
