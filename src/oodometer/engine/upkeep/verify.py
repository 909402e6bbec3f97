"""Check a store: every checksum; and a sample is computed again and compared byte by byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oodometer.engine.plan.artefacts import MADE_BY_RUNS, Artefact, model_of
from oodometer.engine.plan.imports import imported_keys
from oodometer.engine.plan.plan import Plan
from oodometer.engine.plan.study_index import read_plan
from oodometer.engine.plan.trainings import TrainingPlan
from oodometer.engine.stores import KINDS, DamagedError, Kind, MemoryStore, Store, StoreError
from oodometer.engine.stores.base import File, content_path, record_path
from oodometer.engine.work.codecs import bytes_to_arrays
from oodometer.errors import UserError, describe

Part = tuple[Kind, str]  # an artefact


@dataclass(frozen=True)
class Difference:
    """An artefact that came out differently when it was made again."""

    kind: Kind
    key: str
    name: str  # whose it is, in words
    reason: str


@dataclass(frozen=True)
class Recomputed:
    """The result of making a sample again."""

    same: tuple[Part, ...]
    differences: tuple[Difference, ...]
    impossible: tuple[tuple[Part, str], ...]  # with the reason


def check_all(store: Store) -> Iterator[tuple[Part, str]]:
    """Read every artefact of a store; yield each with what is wrong with it, or ""."""
    for kind in KINDS:
        for key in store.keys(kind):
            try:
                store.view(kind, key)
            except DamagedError as problem:
                yield (kind, key), str(problem)
            else:
                yield (kind, key), ""


def recompute(store: Store, size: int, rng: np.random.Generator) -> Recomputed:
    """Make a random sample of models, outputs, probes and scores again and compare them.

    A study's results can be made again while its data are available and the code that made them is
    the current code; otherwise they are counted as impossible, with the reason.
    """
    plans, reasons = _plans(store)
    origins = _origins(plans)
    imported = imported_keys(store)  # nothing here could make them again
    keys = ((kind, key) for kind in MADE_BY_RUNS for key in store.keys(kind))
    there = [part for part in keys if part[1] not in imported]
    chosen = rng.permutation(len(there))[:size]
    sample = [there[place] for place in sorted(chosen)]
    other = reasons[0] if reasons else "it was made by other code, or for a study that is not known"
    same: list[Part] = []
    differences: list[Difference] = []
    impossible = [(part, other) for part in sample if part not in origins]
    for group in _groups(origins[part] for part in sample if part in origins):
        again, failure = _make_again(group, store)
        for origin in group:
            part = origin.artefact.kind, origin.artefact.key
            before, damage = _load(part, store)
            after, lack = _load(part, again)
            if before is None or after is None:
                impossible.append((part, damage or failure or lack))
            elif after == before:
                same.append(part)
            else:
                reason = _compare(before, after)
                differences.append(Difference(*part, origin.artefact.title, reason))
    return Recomputed(tuple(same), tuple(differences), tuple(impossible))


def _load(part: Part, store: Store) -> tuple[bytes | None, str]:
    """The content of an artefact, or why there is none."""
    if not store.has(*part):
        return None, "it was not made again"
    try:
        return store.load(*part), ""
    except DamagedError as problem:
        return None, str(problem)


class _Origin(NamedTuple):
    """Where an artefact comes from."""

    plan: Plan
    run: TrainingPlan
    artefact: Artefact


def _origins(plans: Iterable[Plan]) -> dict[Part, _Origin]:
    """The first run of any plan that each artefact belongs to."""
    origins: dict[Part, _Origin] = {}
    for made in plans:
        for run in made.trainings:
            for artefact in run.artefacts:
                origins.setdefault((artefact.kind, artefact.key), _Origin(made, run, artefact))
    return origins


def _groups(origins: Iterable[_Origin]) -> Iterable[list[_Origin]]:
    """Artefacts of one kind of one run, which are made together."""
    groups: dict[tuple[int, str, Kind], list[_Origin]] = {}
    for origin in origins:
        key = id(origin.plan), origin.run.label, origin.artefact.kind
        groups.setdefault(key, []).append(origin)
    return groups.values()


def _plans(store: Store) -> tuple[list[Plan], list[str]]:
    """The studies of the store, planned by the current code; and why some cannot be."""
    from oodometer.engine.lead.run import make_plan, read_contents

    plans: list[Plan] = []
    reasons = []
    for key in store.keys("plans"):
        try:
            study = read_plan(key, store).study
            made = make_plan(study, read_contents(study))
        except (UserError, DamagedError) as problem:
            reasons.append(str(problem))
            continue
        if made not in plans:
            plans.append(made)
    return plans, reasons


def _make_again(group: list[_Origin], store: Store) -> tuple[MemoryStore, str]:
    """Make artefacts of a run again, all of one kind, from what the store holds besides them."""
    from oodometer.engine.work.worker import open_worker

    made, run, first = group[0]
    artefacts = [origin.artefact for origin in group]
    hidden: set[Part] = {(artefact.kind, artefact.key) for artefact in artefacts}
    if first.stage == "train":  # from the start, not from a later checkpoint
        models = (model_of(run, *checkpoint) for checkpoint in run.checkpoints.items())
        hidden |= {(model.kind, model.key) for model in models}
        hidden.add(("progress", run.progress))
    layer = _Layer(store, {path(*part) for part in hidden for path in (content_path, record_path)})
    device = _device(store, first)
    worker = open_worker(run, made.study.ood, made.named_detectors, layer, device)
    try:
        failures = worker.make(artefacts)
    except StoreError:
        raise
    except Exception as problem:  # noqa: BLE001 - what it was made from may be anything
        return layer, describe(problem)
    return layer, str(failures[0]) if failures else ""


def _device(store: Store, artefact: Artefact) -> str:
    """The device that an artefact was made on."""
    try:
        made_from = store.record(artefact.kind, artefact.key)["made_from"]
    except DamagedError:
        return "cpu"
    return str(made_from.get("device", "cpu")) if isinstance(made_from, Mapping) else "cpu"


def _compare(before: bytes, after: bytes) -> str:
    """Say how two artefacts of arrays differ."""
    one, two = bytes_to_arrays(before), bytes_to_arrays(after)
    if one.keys() != two.keys():
        return f"it holds {', '.join(sorted(one.keys() ^ two.keys()))} only once"
    for name, first in one.items():
        second = two[name]
        if first.shape != second.shape or first.dtype != second.dtype:
            return f"{name} has another shape or type"
        if first.tobytes() != second.tobytes():
            with np.errstate(all="ignore"):
                gap = np.abs(first.astype(float) - second.astype(float))
            many = int((first != second).sum())
            return f"{name} differs in {many} of {first.size} numbers, by up to {gap.max():.3g}"
    return "the arrays are the same, their bytes are not"


class _Layer(MemoryStore):
    """A store in memory over another, of which some files are hidden and none is changed."""

    def __init__(self, below: Store, hidden: set[str]) -> None:
        super().__init__()
        self._below, self._hidden = below, hidden

    def read_file(self, path: str) -> bytes:
        """Return the content of a file, or raise FileNotFoundError."""
        if super().has_file(path) or path in self._hidden:
            return super().read_file(path)
        return bytes(self._below.read_file(path))

    def has_file(self, path: str) -> bool:
        """Whether there is such a file."""
        return super().has_file(path) or (path not in self._hidden and self._below.has_file(path))

    def remove_file(self, path: str) -> None:
        """Remove a file from this layer and hide it below."""
        super().remove_file(path)
        self._hidden.add(path)

    def list_files(self, folder: str, *, unseen: str = "?") -> dict[str, File]:
        """All files below a folder, by their path relative to it."""
        below = self._below.list_files(folder, unseen=unseen)
        visible = {p: f for p, f in below.items() if f"{folder}/{p}" not in self._hidden}
        return visible | super().list_files(folder)
