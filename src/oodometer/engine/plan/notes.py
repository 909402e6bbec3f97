"""What a store knows of studies: those that are wanted, and those that are finished."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points

from oodometer.engine.plan.keys import digest, package_version
from oodometer.engine.plan.plan import DataContent, Plan
from oodometer.engine.stores import DamagedError, Kind, Store, StoreError
from oodometer.engine.work.failures import failure_key
from oodometer.finding import Finding, from_json
from oodometer.scores import Missing
from oodometer.study import Study

_FILES_TO_LOOK_AT = 20_000  # of one kind
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
    runs = made.trainings
    keys: dict[Kind, set[str]] = {
        "models": {key for run in runs for key in (run.model, *run.checkpoints.values())},
        "outputs": {key for run in runs for key in run.output_keys.values()},
        "probes": {key for run in runs for key in run.probe_keys},
        "correct": {run.correct for run in runs},
        "scores": {key for run in runs for key in run.score_keys},
        "failures": {failure_key(run, label) for run in runs for label in ("", *run.scores)},
    }
    wanted = {kind: sorted(those) for kind, those in keys.items()}
    trainings = {run.progress: sorted(run.checkpoints.values()) for run in runs}
    note = {"study": made.study.model_dump(mode="json"), "keys": wanted, "trainings": trainings}
    key = digest("plan", note)
    try:
        store.view("plans", key)
    except DamagedError:  # or not there
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
    study: Study, contents: Mapping[str, DataContent], outcome: Outcome, plan: str, store: Store
) -> None:
    """Note what a study came to, so that the same study is known to be finished at once.

    `plan` is the key under which it is noted what the study wants.
    """
    note = {
        "study": study.model_dump(mode="json"),
        "findings": outcome.finding_keys,
        "table": outcome.table_key,
        "missing": [asdict(part) for part in outcome.missing],
    }
    key = _study_key(study, contents)
    about = {"study": study.name, "parents": [*outcome.finding_keys, outcome.table_key]}
    about |= {"plan": plan, "files": _files_of(plan, outcome.table_key, store)}
    store.save("studies", key, json.dumps(note, indent=1).encode(), about)


def recall(study: Study, contents: Mapping[str, DataContent], store: Store) -> Outcome | None:
    """Return what a finished study came to, if nothing that it depends on has changed.

    Neither PyTorch nor a detector is imported for this, so it is quick. If a file that the study
    is made of is gone or was written to, it is not known to be finished.
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
        about = store.record("studies", key)["made_from"]
    except DamagedError:
        store.discard("studies", key)
        return None
    if not all(part.setting or part.lasting for part in outcome.missing):
        return None  # what failed is tried again
    try:
        assert isinstance(about, dict)
        files = _files_of(str(about.get("plan")), outcome.table_key, store)
    except DamagedError:
        return None
    return outcome if about.get("files") == files else None


def _files_of(plan: str, table: str, store: Store) -> str:
    """A digest of the sizes and times of all files that a study is made of.

    Of very many files the names must do: to ask for more would take longer than a user waits.
    """
    wanted = {**read_wanted(plan, store).keys, "tables": (table,), "failures": ()}
    seen: list[str] = []
    for kind, keys in sorted(wanted.items()):
        known = set(keys)
        if len(known) <= _FILES_TO_LOOK_AT:
            for path, file in store.list_files(kind).items():
                name = path.rpartition("/")[2]
                if name.removesuffix(".json") in known:
                    seen.append(f"{kind} {name} {file.size} {file.changed}")
        else:
            names = (path.rpartition("/")[2] for path in store.list_names(kind))
            seen += [f"{kind} {name}" for name in names if name.removesuffix(".json") in known]
    return digest(sorted(seen))


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
