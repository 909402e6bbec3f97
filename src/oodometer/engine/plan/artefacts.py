"""What a run leaves in a store, as data: every artefact with its key, its stage and its parents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, get_args

from oodometer.engine.plan.keys import digest
from oodometer.engine.stores import KINDS, Kind, Store

if TYPE_CHECKING:
    from oodometer.engine.plan.plan import RunPlan
    from oodometer.engine.plan.trainings import TrainingPlan

# Progress is counted in artefacts wherever it is shown, by the stage that makes them: models;
# outputs and probes; scores, searches and what these find.
Stage = Literal["train", "extract", "score"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Has = Callable[["Artefact"], bool]

# What `About.name` is in the records of each kind, and the phrase that names the artefact.
_NAMES: Mapping[Kind, str] = {
    "models": "checkpoint", "probes": "probe", "scores": "detector", "searches": "detector",
    "found": "detector",
}  # fmt: skip
_PHRASES: Mapping[Kind, str] = {
    "models": "model of run {run}",
    "outputs": "outputs of run {run} on {dataset}",
    "probes": "{name} of run {run} on {dataset}",
    "scores": "scores of {name} on {dataset}, run {run}",
    "searches": "search for {dataset}, run {run}",
    "found": "scores of {name} on {dataset}, run {run}",
}
# What is scored together, by one worker: with a detector all data sets, a search by itself, and
# with a detector what all searches have found.
_UNITS_OF_WORK: Mapping[Kind, str] = {
    "searches": "search for {dataset}", "found": "{name} on found images",
}  # fmt: skip
MADE_BY_RUNS: tuple[Kind, ...] = tuple(_PHRASES)


@dataclass(frozen=True, slots=True)  # a large study has hundreds of thousands
class About:
    """What an artefact is about."""

    run: str  # its label
    name: str = ""  # the checkpoint of a model, the need of a probe, the detector of scores
    dataset: str = ""  # in words, where it is the set that detectors are fitted to


@dataclass(frozen=True, slots=True)
class Artefact:
    """One result of a run."""

    kind: Kind
    key: str
    stage: Stage  # that makes it
    about: About
    parents: tuple[str, ...] = ()  # keys of what it is made from

    @property
    def title(self) -> str:
        """The artefact in words."""
        return _PHRASES[self.kind].format(**asdict(self.about))

    @property
    def unit(self) -> str:
        """The unit of scoring that makes it; empty if none does."""
        if self.kind == "scores":  # nearly all of a large study: formatting each would be slow
            return self.about.name
        text = _UNITS_OF_WORK.get(self.kind, "")
        return text.format(name=self.about.name, dataset=self.about.dataset) if text else ""

    @property
    def record(self) -> dict[str, object]:
        """What its record in a store says about it."""
        fields: dict[str, object] = {"run": self.about.run}
        if self.about.name:
            fields[_NAMES[self.kind]] = self.about.name
        if self.about.dataset:
            fields["data set"] = self.about.dataset
        return {**fields, "parents": list(self.parents)}


def artefacts_of(run: RunPlan) -> Iterator[Artefact]:
    """All results of a run, each after those that it is made from."""

    def about(name: str, dataset: str) -> About:
        return About(run.label, name, dataset or run.fitted)

    yield model_of(run, run.spec.checkpoint, run.model)
    for dataset, key in run.output_keys.items():
        yield Artefact("outputs", key, "extract", about("", dataset), (run.model,))
    for need, keys in run.probes.items():
        if need in run.models:  # an artefact of the model
            continue
        for dataset, key in keys.items():
            if need.of_classifier:
                stage: Stage = "extract"
                parents: tuple[str, ...] = (run.model,)
            else:
                stage, parents = "score", tuple(m.outputs[dataset] for m in run.ensemble)
            yield Artefact("probes", key, stage, about(str(need), dataset), parents)
    for detector, keys in run.scores.items():
        probes = [run.probes[need] for need in run.needs.get(detector, ())]
        for dataset, key in keys.items():
            read = [by_set[each] for by_set in probes for each in ("", dataset) if each in by_set]
            parents = (run.train_outputs, run.outputs[dataset], *read)
            yield Artefact("scores", key, "score", about(detector, dataset), parents)
    for search in run.searches.values():
        found = about(search.detector, search.title)
        yield Artefact("searches", search.key, "score", found, search.parents)
    for detector, keys in run.found.items():
        for title, key in keys.items():
            parents = (run.train_outputs, run.searches[title].key)
            yield Artefact("found", key, "score", about(detector, title), parents)


def model_of(run: TrainingPlan, checkpoint: int | str, key: str) -> Artefact:
    """The weights of a network at one of its checkpoints."""
    return Artefact("models", key, "train", About(run.label, str(checkpoint)))


def failure_key(scores: Iterable[str]) -> str:
    """The key under which the failure of a detector is kept; that of a run has its model's key."""
    return digest(sorted(scores))


def present(artefacts: Iterable[Artefact], store: Store) -> Has:
    """Ask a store once which of many artefacts it has."""
    wanted: dict[Kind, set[str]] = {kind: set() for kind in KINDS}
    for artefact in artefacts:
        wanted[artefact.kind].add(artefact.key)
    # Children first: what another process saves in the meantime, it saves after its parents.
    there = {kind: store.present(kind, wanted[kind]) for kind in reversed(KINDS)}
    return lambda artefact: artefact.key in there[artefact.kind]


def made_by_scoring(run: TrainingPlan, units: Iterable[str]) -> Iterator[Artefact]:
    """What units of scoring make, and what is made for them alone."""
    wanted = set(units)
    parts = [part for part in run.artefacts if part.stage == "score"]
    own = [part for part in parts if part.unit in wanted]
    read = {key for part in own for key in part.parents}
    yield from own
    yield from (part for part in parts if part.key in read and not part.unit)


def count_present(artefacts: Iterable[Artefact], has: Has) -> dict[Stage, tuple[int, int]]:
    """Per stage, how many artefacts are there and how many are wanted."""
    counted: dict[Stage, dict[tuple[Kind, str], bool]] = {stage: {} for stage in STAGES}
    for artefact in artefacts:
        counted[artefact.stage][artefact.kind, artefact.key] = has(artefact)
    return {stage: (sum(there.values()), len(there)) for stage, there in counted.items()}


def lacking_units(run: TrainingPlan, has: Has) -> list[str]:
    """Units of scoring that lack something, or something else that only scoring makes."""
    lacking = {a.key for a in run.artefacts if a.stage == "score" and not has(a)}
    return [
        unit
        for unit, parts in run.units.items()
        if any(a.key in lacking or lacking.intersection(a.parents) for a in parts)
    ]
