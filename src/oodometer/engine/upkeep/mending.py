"""Check what a study finds in its store; drop what is damaged, so that it is made again."""

from __future__ import annotations

from oodometer.engine.plan.artefacts import Artefact, present
from oodometer.engine.plan.plan import Plan
from oodometer.engine.stores import DamagedError, Kind, Store


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


def _is_whole(artefact: Artefact, store: Store) -> bool:
    try:
        store.view(artefact.kind, artefact.key)
    except DamagedError:
        return False
    return True
