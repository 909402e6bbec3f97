"""The index of a store: the plans of its studies, and the outcomes of those that are finished."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import entry_points

from oodometer.engine.plan.artefacts import About, Artefact, Stage, failure_key
from oodometer.engine.plan.imports import imported_cells, imports_in
from oodometer.engine.plan.keys import digest, package_version
from oodometer.engine.plan.plan import Plan
from oodometer.engine.plan.trainings import DataContent
from oodometer.engine.stores import DamagedError, Kind, Store, StoreError
from oodometer.engine.versions import SCORING, minor_versions
from oodometer.errors import UserError, unknown
from oodometer.finding import Finding, from_json
from oodometer.scores import Missing, SetInfo
from oodometer.study import Level, Study

_MOST_FILES = 20_000  # of one kind


@dataclass(frozen=True)
class Outcome:
    """The results of a study."""

    study: Study
    findings: tuple[Finding, ...]
    finding_keys: tuple[str, ...]
    table_key: str
    missing: tuple[Missing, ...]


@dataclass(frozen=True)
class PlanRecord:
    """The plan of a study as a store keeps it: which key is which cell of the score table."""

    study: Study
    id: str
    runs: Mapping[str, Mapping[str, Level]]  # label -> levels; not of networks that detectors need
    settings: Mapping[str, tuple[str, ...]]  # detector -> the grid, its default setting first
    same_samples: bool
    artefacts: tuple[Artefact, ...]
    trainings: Mapping[str, tuple[str, ...]]  # key of its unfinished state -> its models
    # run -> data set -> digest of the samples that are scored; older plans lack it
    sets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    found_sets: Mapping[str, SetInfo] = field(default_factory=dict)  # what searches find
    searches: Mapping[str, str] = field(default_factory=dict)  # unfinished state -> its search
    families: Mapping[str, str] = field(default_factory=dict)  # detector -> what it reads

    @property
    def failures(self) -> dict[tuple[str, str], str]:
        """Under which key the failure of a run ("" for no unit) or a unit of scoring is kept."""
        keys: dict[tuple[str, str], list[str]] = {}
        for artefact in self.artefacts:
            if artefact.kind == "models" or artefact.unit:
                keys.setdefault((artefact.about.run, artefact.unit), []).append(artefact.key)
        return {
            (run, unit): failure_key(those) if unit else those[0]
            for (run, unit), those in keys.items()
        }


def plan_record(made: Plan) -> PlanRecord:
    """What is kept of a plan."""
    return PlanRecord(
        made.study,
        made.id,
        {run.label: dict(run.levels) for run in made.runs},
        made.settings,
        made.same_samples,
        tuple(made.artefacts),
        {run.progress: tuple(sorted(run.checkpoints.values())) for run in made.trainings},
        {run.label: run.content.scored for run in made.runs},
        made.found_sets,
        {search.progress: search.key for run in made.runs for search in run.searches.values()},
        made.families,
    )


def with_imports(plan: PlanRecord, store: Store) -> PlanRecord:
    """A plan with the scores that were imported for it."""
    cells = tuple(imported_cells(plan, store))
    settings = {cell.about.name: ("",) for cell in cells}
    return replace(plan, artefacts=plan.artefacts + cells, settings={**plan.settings, **settings})


def record_plan(made: Plan, store: Store) -> str:
    """Record what a study wants, so that others can follow it, and tell what it needs."""
    record = plan_record(made)
    # By run, stage, kind, name and data set: names that many artefacts share stand once.
    runs: dict[str, dict[Stage, dict[Kind, dict[str, dict[str, str]]]]] = {}
    for artefact in record.artefacts:
        by_kind = runs.setdefault(artefact.about.run, {}).setdefault(artefact.stage, {})
        by_set = by_kind.setdefault(artefact.kind, {}).setdefault(artefact.about.name, {})
        by_set[artefact.about.dataset] = artefact.key
    content = {
        "study": record.study.model_dump(mode="json"),
        "id": record.id,
        "levels": record.runs,
        "settings": record.settings,
        "same_samples": record.same_samples,
        "runs": runs,
        "trainings": record.trainings,
        "sets": record.sets,
        "found_sets": {name: vars(info) for name, info in record.found_sets.items()},
        "searches": record.searches,
        "families": record.families,
    }
    key = digest("plan", content)
    try:
        store.view("plans", key)
    except DamagedError:  # or not there
        store.save("plans", key, json.dumps(content).encode(), {"study": made.study.name})
    return key


def read_plan(key: str, store: Store) -> PlanRecord:
    """Read what a study wants; needs no PyTorch."""
    payload = store.load("plans", key)
    with _understood(f"plans/{key}"):
        content = json.loads(payload)
        artefacts = (
            Artefact(kind, key, stage, About(run, name, dataset))
            for run, by_stage in content["runs"].items()
            for stage, by_kind in by_stage.items()
            for kind, by_name in by_kind.items()
            for name, by_set in by_name.items()
            for dataset, key in by_set.items()
        )
        return PlanRecord(
            Study.model_validate(content["study"]),
            content["id"],
            content["levels"],
            {name: tuple(settings) for name, settings in content["settings"].items()},
            content["same_samples"],
            tuple(artefacts),
            {key: tuple(models) for key, models in content["trainings"].items()},
            content.get("sets", {}),
            {name: SetInfo(**info) for name, info in content.get("found_sets", {}).items()},
            content.get("searches", {}),
            content.get("families", {}),
        )


def latest_plan(study: str, store: Store) -> tuple[str, PlanRecord]:
    """The latest plan of a study in a store, with its key."""
    saved: dict[str, tuple[float, str]] = {}
    for key in store.keys("plans"):
        try:
            about = store.record("plans", key)["made_from"]
            name = str(about.get("study")) if isinstance(about, dict) else ""
            saved[name] = max(saved.get(name, (0.0, "")), (store.saved_at("plans", key), key))
        except DamagedError:
            continue
    if study not in saved:
        raise unknown("study in this store", study, saved)
    try:
        return saved[study][1], read_plan(saved[study][1], store)
    except DamagedError as problem:
        raise UserError(f"The plan of study '{study}' cannot be read: {problem}") from None


def record_outcome(
    study: Study, contents: Mapping[str, DataContent], outcome: Outcome, plan: str, store: Store
) -> None:
    """Record the outcome of a study, so that the same study is known to be finished at once.

    `plan` is the key of its plan record.
    """
    record_later_outcome(_study_key(study, contents), outcome, plan, store)


def record_later_outcome(base: str, outcome: Outcome, plan: str, store: Store) -> None:
    """Record the outcome of a study with what is imported now; `base` is its key without."""
    study = outcome.study
    content = {
        "study": study.model_dump(mode="json"),
        "findings": outcome.finding_keys,
        "table": outcome.table_key,
        "missing": [asdict(part) for part in outcome.missing],
    }
    about = {"study": study.name, "parents": [*outcome.finding_keys, outcome.table_key]}
    about |= {"plan": plan, "files": _files_of(plan, outcome.table_key, store), "base": base}
    key = _with_imported(base, study, store)
    store.save("studies", key, json.dumps(content, indent=1).encode(), about)


def outcome_of_plan(plan: str, store: Store) -> str | None:
    """What the latest outcome of a plan is called, apart from imports; None if there is none."""
    found = []
    for key in store.keys("studies"):
        with suppress(DamagedError):
            about = store.record("studies", key)["made_from"]
            if isinstance(about, dict) and about.get("plan") == plan and about.get("base"):
                found.append((store.saved_at("studies", key), str(about["base"])))
    return max(found)[1] if found else None


def find_finished(
    study: Study, contents: Mapping[str, DataContent], store: Store
) -> Outcome | None:
    """Return the outcome of a finished study, if nothing that it depends on has changed.

    Neither PyTorch nor a detector is imported for this, so it is quick. If a file that the study
    is made of is gone or was written to, it is not known to be finished.
    """
    named = study.detectors if study.detectors != "all" else ()
    networks = [spec.network for spec, _ in study.runs().values()]
    own = any(":" in name for name in (*named, *networks))
    if own or entry_points(group="oodometer.detectors"):
        return None  # other people's code: only importing it tells whether it changed
    key = _with_imported(_study_key(study, contents), study, store)
    if not store.has("studies", key):
        return None
    try:
        outcome = read_outcome(key, store)
        about = store.record("studies", key)["made_from"]
    except DamagedError:
        store.discard("studies", key)
        return None
    if any(part.failure for part in outcome.missing):
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
    wanted: dict[Kind, set[str]] = {"tables": {table}}
    for artefact in read_plan(plan, store).artefacts:
        wanted.setdefault(artefact.kind, set()).add(artefact.key)
    seen: list[str] = []
    for kind, known in sorted(wanted.items()):
        if len(known) <= _MOST_FILES:
            for path, file in store.list_files(kind).items():
                name = path.rpartition("/")[2]
                if name.removesuffix(".json") in known:
                    seen.append(f"{kind} {name} {file.size} {file.changed}")
        else:
            names = (path.rpartition("/")[2] for path in store.list_names(kind))
            seen += [f"{kind} {name}" for name in names if name.removesuffix(".json") in known]
    return digest(sorted(seen))


def read_outcome(key: str, store: Store) -> Outcome:
    """Read the outcome of a finished study."""
    payload = store.load("studies", key)
    with _understood(f"studies/{key}"):
        content = json.loads(payload)
        return Outcome(
            Study.model_validate(content["study"]),
            tuple(
                from_json(bytes(store.load("findings", k)).decode()) for k in content["findings"]
            ),
            tuple(content["findings"]),
            content["table"],
            tuple(Missing(**part) for part in content["missing"]),
        )


@contextmanager
def _understood(name: str) -> Iterator[None]:
    """Treat a record that this version cannot read, such as an older one, as damaged."""
    try:
        yield
    except StoreError:
        raise
    except (ValueError, TypeError, KeyError) as problem:
        raise DamagedError(f"{name} was written by another version: {problem!r}") from None


def _study_key(study: Study, contents: Mapping[str, DataContent]) -> str:
    spec = study.model_dump(mode="json")
    spec["base"].pop("data")  # known by its content
    spec.pop("ood")
    read = {label: asdict(content) for label, content in contents.items()}
    return digest("study", spec, read, package_version(), minor_versions(SCORING))


def _with_imported(base: str, study: Study, store: Store) -> str:
    """The key of an outcome with the scores that were imported for the study, if there are any."""
    imported = [made.key for made in imports_in(store, study.name)]
    return digest("study", base, imported) if imported else base


def studies_in(store: Store) -> dict[str, Outcome]:
    """The finished studies of a store by name, the latest version of each; latest last."""
    found = []
    for key in store.keys("studies"):
        try:
            found.append((store.saved_at("studies", key), key, read_outcome(key, store)))
        except DamagedError:
            continue
    return {outcome.study.name: outcome for *_, outcome in sorted(found, key=lambda part: part[:2])}
