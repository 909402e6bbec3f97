"""Check what a study finds in its store; drop what is damaged, so that it is made again."""

from __future__ import annotations

import contextlib

from oodometer.engine.plan.artefacts import Artefact, present
from oodometer.engine.plan.models import ModelPlan
from oodometer.engine.plan.plan import Plan
from oodometer.engine.stores import DamagedError, Kind, Store
from oodometer.engine.versions import installed, recorded_versions

_DERIVED: tuple[Kind, ...] = ("tables", "findings", "studies")


def drop_damaged(made: Plan, store: Store) -> int:
    """Read all that the store has of a plan and drop what is damaged; return how many.

    What is dropped or lost is made again, even if all scores that come from it are there: a
    finished study has everything that it is made of.
    """
    has = present(made.artefacts, store)
    damaged: set[tuple[Kind, str]] = {
        (artefact.kind, artefact.key)
        for artefact in {(a.kind, a.key): a for a in made.artefacts}.values()
        if has(artefact) and not _is_whole(artefact, store)
    }
    for kind, key in damaged:
        store.discard(kind, key)
    return len(damaged)


def drop_incomplete(made: Plan, store: Store) -> int:
    """Drop scores that lack settings whose models failed; return how many.

    These models are tried again, and the other settings cost little.
    """
    models = {run.model: run for run in made.trainings if isinstance(run, ModelPlan)}
    failed = store.present("failures", set(models))
    lost = {key for model in failed for key in models[model].answers.values()}
    read = {part.key for part in made.artefacts if lost and not lost.isdisjoint(part.parents)}
    there = store.present("scores", read)
    for key in there:
        store.discard("scores", key)
    return len(there)


def _is_whole(artefact: Artefact, store: Store) -> bool:
    try:
        store.view(artefact.kind, artefact.key)
    except DamagedError:
        return False
    return True


def drop_other_versions(made: Plan, store: Store) -> int:
    """Drop what other versions of the libraries computed; return how many.

    Tables and findings are made of scores and cost little: with the first that is dropped, those of
    the study go, too.
    """
    has = present(made.artefacts, store)
    there = {(a.kind, a.key) for a in made.artefacts if has(a)}
    others = [(kind, key) for kind, key in there if _is_of_other_versions(kind, key, store)]
    if others:
        others += _derived(made.study.name, store)
    for kind, key in others:
        store.discard(kind, key)
    return len(others)


def _derived(study: str, store: Store) -> list[tuple[Kind, str]]:
    """What is made of the scores of a study."""
    found: list[tuple[Kind, str]] = []
    for kind in _DERIVED:
        for key in store.keys(kind):
            with contextlib.suppress(DamagedError):
                about = store.record(kind, key)["made_from"]
                if isinstance(about, dict) and about.get("study") == study:
                    found.append((kind, key))
    return found


def _is_of_other_versions(kind: Kind, key: str, store: Store) -> bool:
    try:
        recorded = recorded_versions(store.record(kind, key))
    except DamagedError:
        return True
    return any(installed(library) != version for library, version in recorded.items())
