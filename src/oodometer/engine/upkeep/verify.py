"""Check a store: every checksum; and a sample is computed again and compared byte by byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from oodometer.engine.plan.notes import read_wanted
from oodometer.engine.plan.plan import Plan, RunPlan
from oodometer.engine.stores import KINDS, DamagedError, Kind, MemoryStore, Store, StoreError
from oodometer.engine.stores.base import File
from oodometer.engine.work.codecs import bytes_to_arrays
from oodometer.errors import UserError, describe

RECOMPUTED: tuple[Kind, ...] = ("models", "outputs", "probes", "scores")
Part = tuple[Kind, str]  # an artefact


@dataclass(frozen=True)
class Difference:
    """An artefact that came out otherwise when it was made again."""

    kind: Kind
    key: str
    name: str  # whose it is, in words
    reason: str


@dataclass(frozen=True)
class Recomputed:
    """What came of making a sample again."""

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
    makers: dict[Part, tuple[int, RunPlan]] = {}  # number of the plan, and the run
    for number, made in enumerate(plans):
        for run in made.trainings:
            for kind in RECOMPUTED:
                for key in _keys(run, kind):
                    makers.setdefault((kind, key), (number, run))
    there = [(kind, key) for kind in RECOMPUTED for key in store.keys(kind)]
    chosen = rng.permutation(len(there))[:size]
    sample = [there[place] for place in sorted(chosen)]
    other = reasons[0] if reasons else "it was made by other code, or of no study that is known"
    impossible = [(part, other) for part in sample if part not in makers]
    groups: dict[tuple[int, str, Kind], list[Part]] = {}
    for part in sample:
        if part in makers:
            number, run = makers[part]
            groups.setdefault((number, run.label, part[0]), []).append(part)
    same: list[Part] = []
    differences: list[Difference] = []
    for parts in groups.values():
        number, run = makers[parts[0]]
        again, failure = _made_again(plans[number], run, parts, store)
        for kind, key in parts:
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
                differences.append(Difference(kind, key, _name(run, kind, key), reason))
    return Recomputed(tuple(same), tuple(differences), tuple(impossible))


def _plans(store: Store) -> tuple[list[Plan], list[str]]:
    """The studies that the store knows, planned as they would be now; and why some cannot be."""
    from oodometer.engine.lead.run import make_plan, read_contents

    plans: list[Plan] = []
    reasons = []
    for key in store.keys("plans"):
        try:
            study = read_wanted(key, store).study
            made = make_plan(study, read_contents(study))
        except (UserError, DamagedError) as problem:
            reasons.append(str(problem))
            continue
        if made not in plans:
            plans.append(made)
    return plans, reasons


def _keys(run: RunPlan, kind: Kind) -> list[str]:
    if kind == "models":
        return [run.model]
    if kind == "outputs":
        return [*run.output_keys.values()]
    return list(run.probe_keys if kind == "probes" else run.score_keys)


def _made_again(
    made: Plan, run: RunPlan, parts: list[Part], store: Store
) -> tuple[MemoryStore, str]:
    """Make parts of a run again, of the same kind, from what the store holds besides them."""
    from oodometer.engine.work.steps import Bench

    kind = parts[0][0]
    hidden: set[Part] = set(parts)
    if kind == "models":  # a model is made when an output needs it
        hidden |= {("models", key) for key in run.checkpoints.values()}
        hidden |= {("outputs", key) for key in _keys(run, "outputs")}
        hidden.add(("progress", run.progress))
    if kind in ("models", "outputs"):
        hidden.add(("correct", run.correct))
    layer = _Layer(store, {path for part in hidden for path in _paths(*part)})
    device = _device(store, parts[0])
    bench = Bench(run, made.study.ood, made.named_detectors, layer, device)
    keys = {key for _, key in parts}
    try:
        if kind == "scores":
            failures = bench.score([n for n, own in run.scores.items() if keys & {*own.values()}])
        elif kind == "probes":
            failures = bench.probe(keys)
        else:
            failures = bench.prepare()
    except StoreError:
        raise
    except Exception as problem:  # noqa: BLE001 - what it was made from may be anything
        return layer, describe(problem)
    return layer, str(failures[0]) if failures else ""


def _device(store: Store, part: Part) -> str:
    """The device that an artefact was made on."""
    try:
        made_from = store.record(*part)["made_from"]
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


def _name(run: RunPlan, kind: Kind, key: str) -> str:
    """Whose an artefact is, in words."""
    if kind == "models":
        return f"model of run {run.label}"
    if kind == "outputs":
        sets = {k: n or f"the {run.fitted}" for n, k in run.output_keys.items()}
        return f"outputs of run {run.label} on {sets[key]}"
    if kind == "probes":
        answers = {k: (need, n) for need, keys in run.probes.items() for n, k in keys.items()}
        need, name = answers[key]
        return f"{need} of run {run.label} on {name or f'the {run.fitted}'}"
    cells = {k: (label, n) for label, keys in run.scores.items() for n, k in keys.items()}
    return "scores of {} on {}, run {}".format(*cells[key], run.label)


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
