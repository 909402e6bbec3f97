"""What a store knows of studies: those that are wanted, and those that are finished."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points

from oodometer.engine.failures import failure_key
from oodometer.engine.keys import digest, package_version
from oodometer.engine.plan import DataContent, Plan
from oodometer.engine.store import DamagedError, Kind, Store, StoreError
from oodometer.finding import Finding, from_json
from oodometer.scores import Missing
from oodometer.study import Study

STAGES: dict[str, Kind] = {"train": "models", "extract": "outputs", "score": "scores"}


@dataclass(frozen=True)
class Outcome:
    """What a study came to."""

    study: Study
    findings: tuple[Finding, ...]
    finding_keys: tuple[str, ...]
    table_key: str
    missing: tuple[Missing, ...]


@dataclass(frozen=True)
class Wanted:
    """A study and the keys of everything that it wants, by kind."""

    study: Study
    keys: Mapping[Kind, tuple[str, ...]]
    trainings: Mapping[str, tuple[str, ...]]  # key of what is kept of it -> the models it leads to


def announce(made: Plan, store: Store) -> str:
    """Note what a study wants, so that others can tell how far it is and what it needs."""
    runs = made.runs
    keys: dict[Kind, set[str]] = {
        "models": {key for run in runs for key in (run.model, *run.checkpoints.values())},
        "outputs": {key for run in runs for key in (run.train_outputs, *run.outputs.values())},
        "correct": {run.correct for run in runs},
        "scores": {key for run in runs for key in run.score_keys},
        "failures": {failure_key(run, label) for run in runs for label in ("", *run.scores)},
    }
    wanted = {kind: sorted(those) for kind, those in keys.items()}
    trainings = {run.progress: sorted(run.checkpoints.values()) for run in runs}
    note = {"study": made.study.model_dump(mode="json"), "keys": wanted, "trainings": trainings}
    key = digest("plan", note)
    if not store.has("plans", key):
        payload = json.dumps(note).encode()
        store.save("plans", key, payload, {"study": made.study.name})
    return key


def read_wanted(key: str, store: Store) -> Wanted:
    """Read what a study wants."""
    payload = store.load("plans", key)
    with _understood(f"plans/{key}"):
        note = json.loads(payload)
        keys = {kind: tuple(those) for kind, those in note["keys"].items()}
        trainings = {key: tuple(models) for key, models in note["trainings"].items()}
        return Wanted(Study.model_validate(note["study"]), keys, trainings)


def remember(
    study: Study, contents: Mapping[str, DataContent], outcome: Outcome, store: Store
) -> None:
    """Note what a study came to, so that the same study is known to be finished at once."""
    note = {
        "study": study.model_dump(mode="json"),
        "findings": outcome.finding_keys,
        "table": outcome.table_key,
        "missing": [asdict(part) for part in outcome.missing],
    }
    key = _study_key(study, contents)
    about = {"study": study.name, "parents": [*outcome.finding_keys, outcome.table_key]}
    store.save("studies", key, json.dumps(note, indent=1).encode(), about)


def recall(study: Study, contents: Mapping[str, DataContent], store: Store) -> Outcome | None:
    """Return what a finished study came to, if nothing that it depends on has changed.

    Neither PyTorch nor a detector is imported for this, so it is quick.
    """
    named = study.detectors if study.detectors != "all" else ()
    networks = [spec.network for spec, _ in study.runs().values()]
    own = any(":" in name for name in (*named, *networks))
    if own or entry_points(group="oodometer.detectors"):
        return None  # other people's code: only importing it tells whether it changed
    key = _study_key(study, contents)
    if not store.has("studies", key):
        return None
    try:
        outcome = read_outcome(key, store)
    except DamagedError:
        store.discard("studies", key)
        return None
    finished = all(part.setting for part in outcome.missing)
    return outcome if finished else None  # what failed is tried again


def read_outcome(key: str, store: Store) -> Outcome:
    """Read a remembered study from the store."""
    payload = store.load("studies", key)
    with _understood(f"studies/{key}"):
        note = json.loads(payload)
        return Outcome(
            Study.model_validate(note["study"]),
            tuple(from_json(bytes(store.load("findings", k)).decode()) for k in note["findings"]),
            tuple(note["findings"]),
            note["table"],
            tuple(Missing(**part) for part in note["missing"]),
        )


@contextmanager
def _understood(name: str) -> Iterator[None]:
    """Take a note that this version cannot read, such as one of an older version, for damaged."""
    try:
        yield
    except StoreError:
        raise
    except (ValueError, TypeError, KeyError) as problem:
        raise DamagedError(f"{name} was noted by another version: {problem!r}") from None


def _study_key(study: Study, contents: Mapping[str, DataContent]) -> str:
    spec = study.model_dump(mode="json")
    spec["base"].pop("data")  # known by its content
    spec.pop("ood")
    return digest("study", spec, {k: asdict(v) for k, v in contents.items()}, package_version())


def studies_in(store: Store) -> dict[str, Outcome]:
    """The studies that a store remembers, by name, the latest run of each; latest last."""
    notes = []
    for key in store.keys("studies"):
        try:
            notes.append((store.saved_at("studies", key), key, read_outcome(key, store)))
        except DamagedError:
            continue
    return {outcome.study.name: outcome for *_, outcome in sorted(notes, key=lambda note: note[:2])}
