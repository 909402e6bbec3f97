"""Check a store: every checksum; and a sample is computed again and compared byte by byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from oodometer.engine.plan.artefacts import MADE_BY_RUNS, Artefact, model_of
from oodometer.engine.plan.plan import Plan
from oodometer.engine.plan.study_index import read_plan
from oodometer.engine.plan.trainings import TrainingPlan
from oodometer.engine.stores import KINDS, DamagedError, Kind, MemoryStore, Store, StoreError
from oodometer.engine.stores.base import File
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

    A study's parts can be made again while its data are there and the code that made them is the
    code of now; otherwise they are counted as impossible, with the reason.
    """
    plans, reasons = _plans(store)
    makers: dict[Part, tuple[int, TrainingPlan, Artefact]] = {}  # number of the plan, the run
    for number, made in enumerate(plans):
        for run in made.trainings:
            for artefact in run.artefacts:
                makers.setdefault((artefact.kind, artefact.key), (number, run, artefact))
    there = [(kind, key) for kind in MADE_BY_RUNS for key in store.keys(kind)]
    chosen = rng.permutation(len(there))[:size]
    sample = [there[place] for place in sorted(chosen)]
    other = reasons[0] if reasons else "it was made by other code, or of no study that is known"
    impossible = [(part, other) for part in sample if part not in makers]
    groups: dict[tuple[int, str, Kind], list[Artefact]] = {}
    for part in sample:
        if part in makers:
            number, run, artefact = makers[part]
            groups.setdefault((number, run.label, artefact.kind), []).append(artefact)
    same: list[Part] = []
    differences: list[Difference] = []
    for group in groups.values():
        number, run, _ = makers[group[0].kind, group[0].key]
        again, failure = _make_again(plans[number], run, group, store)
        for artefact in group:
            kind, key = artefact.kind, artefact.key
            try:
                before = store.load(kind, key)
            except DamagedError as problem:
                impossible.append(((kind, key), str(problem)))
                continue
            if not again.has(kind, key):
                impossible.append(((kind, key), failure or "it was not made again"))
            elif (after := again.load(kind, key)) == before:
                same.append((kind, key))
            else:
                reason = _compare(before, after)
                differences.append(Difference(kind, key, artefact.title, reason))
    return Recomputed(tuple(same), tuple(differences), tuple(impossible))


def _plans(store: Store) -> tuple[list[Plan], list[str]]:
    """The studies that the store knows, planned as they would be now; and why some cannot be."""
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


def _make_again(
    made: Plan, run: TrainingPlan, group: list[Artefact], store: Store
) -> tuple[MemoryStore, str]:
    """Make artefacts of a run again, all of one kind, from what the store holds besides them."""
    from oodometer.engine.work.worker import open_worker

    hidden: set[Part] = {(artefact.kind, artefact.key) for artefact in group}
    if group[0].stage == "train":  # from the start, not from a later checkpoint
        models = (model_of(run, *checkpoint) for checkpoint in run.checkpoints.items())
        hidden |= {(model.kind, model.key) for model in models}
        hidden.add(("progress", run.progress))
    layer = _Layer(store, {path for part in hidden for path in _paths(*part)})
    device = _device(store, group[0])
    worker = open_worker(run, made.study.ood, made.named_detectors, layer, device)
    try:
        failures = worker.make(group)
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


def _paths(kind: Kind, key: str) -> tuple[str, str]:
    path = f"{kind}/{key[:2]}/{key}"
    return path, f"{path}.json"


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
        """Tell whether there is such a file."""
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
