"""See that what a study found in its store is whole; drop what is not, so that it is made again."""

from __future__ import annotations

from collections.abc import Iterator

from oodometer.engine.plan.plan import Plan, RunPlan
from oodometer.engine.stores import DamagedError, Kind, Store

Part = tuple[Kind, str]  # an artefact


def drop_damaged(made: Plan, store: Store) -> int:
    """Read all that the store has of a plan and drop what is damaged; return how many.

    What is lost is made again too, even if all scores that come from it are there: a finished
    study has everything that it is made of.
    """
    kinds: tuple[Kind, ...] = ("correct", "scores", "probes", "outputs", "models")
    wanted = {kind: {key for run in made.trainings for key in _keys(run, kind)} for kind in kinds}
    # In this order: what another runner saves in the meantime is saved after what it comes from.
    there: set[Part] = set()
    for kind in kinds:
        there |= {(kind, key) for key in store.present(kind, wanted[kind])}
    damaged = {part for part in sorted(there) if not _is_whole(store, *part)}
    for part in damaged:
        store.discard(*part)
    there -= damaged
    for run in made.trainings:
        for part in _to_be_made_again(run, there):
            store.discard(*part)
    return len(damaged)


def _keys(run: RunPlan, kind: Kind) -> Iterator[str]:
    if kind == "models":
        yield run.model
    elif kind == "outputs":
        yield from run.output_keys.values()
    elif kind == "correct":
        yield run.correct
    else:
        yield from run.probe_keys if kind == "probes" else run.score_keys


def _is_whole(store: Store, kind: Kind, key: str) -> bool:
    try:
        store.view(kind, key)
    except DamagedError:
        return False
    return True


def _to_be_made_again(run: RunPlan, there: set[Part]) -> Iterator[Part]:
    """What has to go beside what is lost, so that the steps of a run make that again.

    A model is made for outputs, outputs before it is noted which predictions are correct, and a
    probe for scores.
    """
    test = "outputs", run.outputs[run.content.id]
    correct = "correct", run.correct
    model_lost = ("models", run.model) not in there
    if model_lost and test in there:
        yield test
    if correct in there and (
        model_lost or any(("outputs", key) not in there for key in _keys(run, "outputs"))
    ):
        yield correct
    for label, needs in run.needs.items():
        for need in needs:
            for name, key in run.probes.get(need, {}).items():
                scores = "scores", run.scores[label][name or run.content.id]
                if ("probes", key) not in there and scores in there:
                    yield scores
