"""Survey a store: what it holds, the progress of its studies, who works, what can be removed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from oodometer.engine.plan.artefacts import Stage, count_present
from oodometer.engine.plan.imports import imports_in
from oodometer.engine.plan.study_index import PlanRecord, read_plan
from oodometer.engine.stores import KINDS, Claim, DamagedError, Kind, Store
from oodometer.engine.stores.base import File
from oodometer.engine.stores.claims import Claims
from oodometer.engine.upkeep.watch import RunnerReport, read_reports, sweep_reports
from oodometer.errors import unknown

_LEFT_BEHIND = 3600.0  # seconds after which a half-written file is nobody's


@dataclass(frozen=True)
class StudyState:
    """How far a study is."""

    name: str
    finished: bool
    stages: Mapping[Stage, tuple[int, int]]  # what is done and what is wanted of each
    failed: int
    earlier: int  # other versions of the study that the store knows


@dataclass(frozen=True)
class Survey:
    """What a store holds."""

    sizes: Mapping[Kind, Mapping[str, int]]  # bytes of every artefact
    studies: tuple[StudyState, ...]  # the latest version of each, latest last
    runners: tuple[RunnerReport, ...]
    claims: tuple[Claim, ...]
    halves: Mapping[str, File]  # payloads without a record and files without a name
    strays: Mapping[str, File]  # files that no version of this program wrote


@dataclass
class _Version:
    """One version of a study: what it wants, and what it came to, if it is finished."""

    name: str
    saved: float
    plan: str | None = None
    outcomes: list[str] = field(default_factory=list)  # keys in "studies"


def survey(store: Store) -> Survey:
    """See what a store holds and how far its studies are."""
    sizes, halves, strays = _listed(store)
    versions = _versions(store, sizes)
    latest = {version.name: version for version in versions}
    states = []
    for name, version in latest.items():
        record = _plan_record(version, store)
        stages: dict[Stage, tuple[int, int]] = {}
        failed = 0
        if record is not None:
            stages = count_present(record.artefacts, lambda part: part.key in sizes[part.kind])
            failed = sum(key in sizes["failures"] for key in record.failures.values())
        earlier = sum(other.name == name for other in versions) - 1
        states.append(StudyState(name, bool(version.outcomes), stages, failed, earlier))
    runners, claims = tuple(read_reports(store)), tuple(store.claims())
    return Survey(sizes, tuple(states), runners, claims, halves, strays)


def as_data(found: Survey) -> dict[str, object]:
    """The survey as plain data for other programs; stages are counted in artefacts."""

    def counts(stages: Mapping[Stage, tuple[int, int]]) -> dict[str, dict[str, int]]:
        return {stage: {"done": done, "wanted": all} for stage, (done, all) in stages.items()}

    return {
        "kinds": {
            kind: {"count": len(sizes), "bytes": sum(sizes.values())}
            for kind, sizes in found.sizes.items()
        },
        "studies": [{**asdict(state), "stages": counts(state.stages)} for state in found.studies],
        "runners": [
            {
                **asdict(runner),
                "stale": runner.stale,
                "progress": {
                    "stages": counts(runner.progress.stages),
                    "failed": runner.progress.failed,
                    "elsewhere": runner.progress.elsewhere,
                    "seconds_left": runner.progress.seconds_left,
                    "at_least": runner.progress.at_least,
                },
            }
            for runner in found.runners
        ],
        "claims": [{**asdict(claim), "stale": claim.stale} for claim in found.claims],
        "unfinished": sorted(found.halves),
        "strays": sorted(found.strays),
    }


@dataclass(frozen=True)
class Prunable:
    """What can be removed from a store without loss to any of its studies."""

    artefacts: Mapping[Kind, Mapping[str, int]]  # bytes of each
    files: Mapping[str, int]  # left half written
    claims: tuple[Claim, ...]
    unknown: tuple[str, ...]  # studies whose needs are not known, so that nothing else is removed

    @property
    def bytes(self) -> int:
        """How much would be freed."""
        return sum(map(sum, (sizes.values() for sizes in self.artefacts.values()))) + sum(
            self.files.values()
        )


def find_prunable(
    store: Store, *, superseded: bool = False, forget: Iterable[str] = ()
) -> Prunable:
    """Find what no study of the store needs, be it finished or to be resumed.

    An unfinished version is given up once a later version of the same name is finished. With
    `superseded`, so are finished versions; `forget` names studies to be given up altogether.
    """
    sizes, halves, _ = _listed(store)
    versions = _versions(store, sizes)
    names = {version.name for version in versions}
    for name in forget:
        if name not in names:
            raise unknown("study in this store", name, names)
    kept = _kept_versions(versions, superseded=superseded, forget=set(forget))
    needed: dict[Kind, set[str]] = {kind: set() for kind in KINDS}
    unplanned = [v.name for v in kept if not _add_needed(v, sizes, needed, store)]
    _add_imports({version.name for version in kept}, needed, store)
    _add_tables(sizes, needed, store)
    artefacts: dict[Kind, dict[str, int]] = {}
    if not unplanned:  # otherwise any result might be theirs
        artefacts = {
            kind: {key: size for key, size in sizes[kind].items() if key not in needed[kind]}
            for kind in KINDS
        }
    before = time.time() - _LEFT_BEHIND
    old = {path: file.size for path, file in halves.items() if file.changed < before}
    stale = tuple(claim for claim in store.claims() if claim.stale)
    return Prunable(artefacts, old, stale, tuple(dict.fromkeys(unplanned)))


def _kept_versions(
    versions: Iterable[_Version], *, superseded: bool, forget: set[str]
) -> list[_Version]:
    """The versions of studies that are not given up."""
    last_finished = {version.name: version.saved for version in versions if version.outcomes}

    def is_kept(version: _Version) -> bool:
        latest = version.saved >= last_finished.get(version.name, 0.0)
        return latest or (bool(version.outcomes) and not superseded)

    return [v for v in versions if v.name not in forget and is_kept(v)]


def _add_needed(
    version: _Version,
    sizes: Mapping[Kind, Mapping[str, int]],
    needed: Mapping[Kind, set[str]],
    store: Store,
) -> bool:
    """Add what a version of a study needs; False if its plan cannot be read."""
    needed["studies"].update(version.outcomes)
    for outcome in version.outcomes:
        parents = _parents(store, "studies", outcome)
        needed["findings"].update(parents)
        needed["tables"].update(parents)
    record = _plan_record(version, store)
    if record is None or version.plan is None:
        return False
    needed["plans"].add(version.plan)
    for artefact in record.artefacts:
        needed[artefact.kind].add(artefact.key)
    needed["failures"].update(record.failures.values())
    for progress, models in record.trainings.items():
        if not all(model in sizes["models"] for model in models):
            needed["progress"].add(progress)
    needed["progress"].update(
        p for p, key in record.searches.items() if key not in sizes["searches"]
    )
    return True


def _add_imports(studies: set[str], needed: Mapping[Kind, set[str]], store: Store) -> None:
    """Add what was imported for studies that are kept."""
    for made in imports_in(store):
        if made.study in studies:
            needed["imports"].add(made.key)
            needed["scores"].update(
                key for by_set in made.scores.values() for key in by_set.values()
            )


def _add_tables(
    sizes: Mapping[Kind, Mapping[str, int]], needed: Mapping[Kind, set[str]], store: Store
) -> None:
    """Add the table and findings of studies that were stopped just before they were finished."""
    needed["tables"].update(
        key
        for key in sizes["tables"]
        if _made_from(store, "tables", key).get("plan") in needed["plans"]
    )
    needed["findings"].update(
        key
        for key in sizes["findings"]
        if needed["tables"].intersection(_parents(store, "findings", key))
    )


def prune(store: Store, found: Prunable) -> None:
    """Remove what was found; outcomes first, so that no finished study lacks a result."""
    for kind in reversed(KINDS):
        for key in found.artefacts.get(kind, ()):
            store.discard(kind, key)
    for path in found.files:
        store.remove_file(path)
    for claim in found.claims:
        Claims(store).remove(claim)
    sweep_reports(store)


def _listed(
    store: Store,
) -> tuple[dict[Kind, dict[str, int]], dict[str, File], dict[str, File]]:
    """Sizes of all artefacts; what was left half written; and files of others."""
    sizes: dict[Kind, dict[str, int]] = {}
    halves = {f"unfinished/{path}": file for path, file in store.list_files("unfinished").items()}
    strays: dict[str, File] = {}
    for kind in KINDS:
        sizes[kind], others = store.sizes(kind)
        for path, file in others.items():
            name = path.rpartition("/")[2]
            half = path == f"{name[:2]}/{name}" and name.isalnum()
            (halves if half else strays)[f"{kind}/{path}"] = file
    return sizes, halves, strays


def _versions(store: Store, sizes: Mapping[Kind, Mapping[str, int]]) -> list[_Version]:
    """All versions of studies in the store, in the order in which they were recorded."""
    by_plan: dict[str, _Version] = {}
    without: list[_Version] = []
    for key in sizes["plans"]:
        about = _study_of(store, "plans", key)
        if about is not None:
            by_plan[key] = _Version(*about, key)
    for key in sizes["studies"]:
        about = _study_of(store, "studies", key)
        if about is None:
            continue
        name, saved = about
        tables = [k for k in _parents(store, "studies", key) if k in sizes["tables"]]
        plans = [_made_from(store, "tables", table).get("plan") for table in tables]
        version = next((by_plan[str(p)] for p in plans if str(p) in by_plan), None)
        if version is None or version.name != name:
            version = _Version(name, saved, None if version is None else version.plan)
            without.append(version)
        version.outcomes.append(key)
        version.saved = max(version.saved, saved)
    return sorted([*by_plan.values(), *without], key=lambda version: version.saved)


def _plan_record(version: _Version, store: Store) -> PlanRecord | None:
    if version.plan is None:
        return None
    try:
        return read_plan(version.plan, store)
    except DamagedError:
        return None


def _study_of(store: Store, kind: Kind, key: str) -> tuple[str, float] | None:
    """Which study a record is about, and when it was saved; None if it cannot be read."""
    try:
        record = store.record(kind, key)
    except DamagedError:
        return None
    return str(_made_from(store, kind, key).get("study", "")), float(str(record.get("saved", 0)))


def _made_from(store: Store, kind: Kind, key: str) -> dict[str, object]:
    try:
        made_from = store.record(kind, key)["made_from"]
    except DamagedError:
        return {}
    return made_from if isinstance(made_from, dict) else {}


def _parents(store: Store, kind: Kind, key: str) -> list[str]:
    parents = _made_from(store, kind, key).get("parents")
    return [str(parent) for parent in parents] if isinstance(parents, list) else []
