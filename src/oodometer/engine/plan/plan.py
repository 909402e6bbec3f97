"""What a study has to do: pure, from a study and the content of its data to keys of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from oodometer.calls import setting_text
from oodometer.detector_families import family_of
from oodometer.engine.plan.artefacts import Artefact, artefacts_of
from oodometer.engine.plan.keys import code_version, content_version, digest, function_version
from oodometer.engine.plan.models import ModelPlan, plan_models
from oodometer.engine.plan.searches import SearchPlan, plan_searches
from oodometer.engine.plan.trainings import (
    READING,
    STEPS,
    DataContent,
    TrainingPlan,
    checkpoint_key,
    fitted_content,
    training_key,
)
from oodometer.engine.versions import SCORING, minor_versions
from oodometer.errors import unknown
from oodometer.needs import ENSEMBLE, LAYERS, Need
from oodometer.scores import SetInfo
from oodometer.study import Level, Searches, Study

_PROBING = (
    "lab/asking/probes",
    "lab/asking/replay",
    "lab/asking/votes",
)  # plain outputs do not depend on it
_BESIDE_SCORING = (
    "errors",
    "imports",
    "builtin",
    "detectors",
    "metrics",
    "scores",
)  # of a detector: its own

if TYPE_CHECKING:  # importing it would load PyTorch, which a finished study does not need
    from oodometer.lab.detector_models import DetectorModel
    from oodometer.registry import Choice


@dataclass(frozen=True, kw_only=True)
class RunPlan(TrainingPlan):
    """A run of the study: its classifier, and the keys of everything that it leads to."""

    levels: Mapping[str, Level]
    train_outputs: str
    outputs: Mapping[str, str]  # scored data set -> key
    # need beyond plain outputs -> data set ("" = what detectors are fitted to) -> key
    probes: Mapping[Need, Mapping[str, str]] = field(default_factory=dict)
    needs: Mapping[str, tuple[Need, ...]] = field(default_factory=dict)  # detector -> those of it
    scores: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # detector label -> scored data set -> key
    searches: Mapping[str, SearchPlan] = field(default_factory=dict)  # by what they find
    found: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # detector label -> what a search finds -> key of its scores
    ensemble: tuple[RunPlan, ...] = ()  # runs that differ from this one in the seed only, and it
    models: Mapping[Need, ModelPlan] = field(default_factory=dict)  # that detectors need

    @property
    def output_keys(self) -> dict[str, str]:
        """All that is extracted, by data set ("" = what detectors are fitted to)."""
        return {"": self.train_outputs, **self.outputs}

    @property
    def companions(self) -> tuple[TrainingPlan, ...]:
        """Other networks that some of its detectors wait for."""
        return (*self.ensemble, *self.models.values())

    @property
    def fitted(self) -> str:
        """In words, what detectors are fitted to; not the name of a scored data set."""
        words = "training set" if self.spec.fitted_on == "train" else "validation set"
        return f"{words} of the run" if words in self.outputs else words

    @cached_property
    def artefacts(self) -> tuple[Artefact, ...]:
        """All results of the run, each after those that it is made from."""
        return tuple(artefacts_of(self))

    @cached_property
    def units(self) -> Mapping[str, tuple[Artefact, ...]]:
        """What is scored together, in order."""
        units: dict[str, list[Artefact]] = {}
        for artefact in self.artefacts:
            if unit := artefact.unit:
                units.setdefault(unit, []).append(artefact)
        return {unit: tuple(parts) for unit, parts in units.items()}

    def before(self, unit: str) -> tuple[str, ...]:
        """Units of the same run that come before a unit: what is found is scored at the end."""
        if self.units[unit][0].kind != "found":
            return ()
        return tuple(name for name, parts in self.units.items() if parts[0].kind == "searches")

    def waits(self, unit: str) -> bool:
        """Whether a unit can be scored only when other networks, or searches, are done."""
        if self.before(unit):
            return True
        needs = self.needs.get(self.units[unit][0].about.name, ())
        together = ENSEMBLE in needs and len(self.ensemble) > 1
        return together or any(need in self.models for need in needs)


@dataclass(frozen=True)
class Plan:
    """All runs of a study. The same study on the same data with the same code: the same keys."""

    study: Study
    id: str
    detectors: tuple[str, ...]  # their labels
    named_detectors: tuple[str, ...]  # as the user wrote them, "all" spelt out
    settings: Mapping[str, tuple[str, ...]]  # label -> the grid; the first represents the detector
    families: Mapping[str, str]  # label -> what the detector reads
    runs: tuple[RunPlan, ...]
    same_samples: bool

    @property
    def trainings(self) -> tuple[TrainingPlan, ...]:
        """The runs of the study, and the detector models that their detectors need."""
        models = {model.label: model for run in self.runs for model in run.models.values()}
        return (*self.runs, *models.values())

    @property
    def found_sets(self) -> dict[str, SetInfo]:
        """What the searches find, by name."""
        return {title: search.info for run in self.runs for title, search in run.searches.items()}

    @property
    def artefacts(self) -> Iterator[Artefact]:
        """All results of the study's runs; some belong to several runs."""
        return (artefact for run in self.trainings for artefact in run.artefacts)


def plan(study: Study, contents: Mapping[str, DataContent], choices: Sequence[Choice]) -> Plan:
    """Plan a study. `contents` gives, for each run's label, what its data hold."""
    code = code_version("lab/asking/extract", "outputs", apart_from=(*READING, *_PROBING))
    extraction = [STEPS["extract"], code]
    scored_by = code_version("scoring", apart_from=_BESIDE_SCORING)
    scoring = [STEPS["score"], scored_by, minor_versions(SCORING)]
    # The grid belongs to the key: scores are kept for every setting of it.
    recipes = {
        choice.label: digest(
            scoring,
            choice.detector.name,
            function_version(choice.detector.build),
            content_version(choice.detector.build, choice.detector.reads),
            dict(choice.settings),
            choice.tried(grid=True),
        )
        for choice in choices
    }
    specs = study.runs()
    trainings = {label: training_key(spec, contents[label]) for label, (spec, _) in specs.items()}
    checkpoints: dict[str, dict[int | str, str]] = {}
    for label, (spec, _) in specs.items():
        key = trainings[label]
        checkpoints.setdefault(key, {})[spec.checkpoint] = checkpoint_key(key, spec.checkpoint)
    models = _models_of(choices, study.searches)
    shared: dict[object, ModelPlan] = {}  # what several runs need is trained once
    runs = []
    for label, (spec, levels) in specs.items():
        content = contents[label]
        model = checkpoint_key(trainings[label], spec.checkpoint)
        train_outputs, *scored = (
            digest("outputs", extraction, spec.features, model, data)
            for data in (fitted_content(spec, content), *content.scored.values())
        )
        run = RunPlan(
            label=label,
            spec=spec,
            levels=levels,
            content=content,
            training=trainings[label],
            checkpoints=checkpoints[trainings[label]],
            train_outputs=train_outputs,
            outputs=dict(zip(content.scored, scored, strict=True)),
            models=plan_models(label, spec, content, models, shared),
        )
        runs.append(run)
    groups = _ensembles(runs) if any(ENSEMBLE in c.detector.needs for c in choices) else {}
    for place, run in enumerate(runs):
        fitting = [choice for choice in choices if fits_loss(choice, run.spec.loss)]
        runs[place] = _with_scores(run, fitting, recipes, groups.get(run.label, ()))
        if study.searches is not None:
            runs[place] = plan_searches(runs[place], study.searches, fitting, recipes)
    first = next(iter(contents.values()))
    return Plan(
        study=study,
        id=first.id,
        detectors=tuple(choice.label for choice in choices),
        named_detectors=tuple(choice.text for choice in choices),
        settings={choice.label: _grid(choice) for choice in choices},
        families={choice.label: family_of(choice.needs(grid=False)) for choice in choices},
        runs=tuple(runs),
        same_samples=all(content.scored == first.scored for content in contents.values()),
    )


def fits_loss(choice: Choice, text: str) -> bool:
    """Whether a detector is meant for classifiers with this loss, such as ``cross_entropy``."""
    losses = choice.detector.losses
    return not losses or text.partition("(")[0].strip() in losses


def _grid(choice: Choice) -> tuple[str, ...]:
    """All settings of a detector in words, the one that represents it first."""
    grid = (setting_text(settings) for settings in choice.tried(grid=True))
    return (*dict.fromkeys((choice.setting, *grid)),)


def _with_scores(
    run: RunPlan, choices: Sequence[Choice], recipes: Mapping[str, str], group: tuple[RunPlan, ...]
) -> RunPlan:
    """Add what the detectors lead to: the keys of probes and scores."""
    needs = {c.label: _spelt_out(n, run) for c in choices if (n := c.beyond_outputs)}
    wanted = sorted({need for those in needs.values() for need in those})
    probes = {need: _probe_keys(need, run, group) for need in wanted}
    scores: dict[str, dict[str, str]] = {}
    for choice in choices:
        label = choice.label
        asked = needs.get(label, ())
        parents: dict[str, list[object]] = {  # what is read of each data set
            name: [key, {str(need): probes[need].get(name) for need in asked}] if asked else [key]
            for name, key in {"": run.train_outputs, **run.outputs}.items()
        }
        everything: list[object] = []
        if choice.detector.learns_from_outliers:  # whatever it scores depends on every data set
            halves = code_version("scores", apart_from=("errors", "metrics"))
            everything = [halves, run.content.id, [[n, parents[n]] for n in run.outputs]]
        scores[label] = {
            name: digest("scores", recipes[label], *parents[""], *parents[name], *everything)
            for name in run.outputs
        }
    return replace(run, scores=scores, probes=probes, needs=needs, ensemble=group)


def _models_of(choices: Sequence[Choice], searches: Searches | None) -> list[DetectorModel]:
    """The models that detectors and searches need; unknown probes and models are refused here."""
    from oodometer.lab.asking.probes import PROBES  # loads PyTorch, as detectors do
    from oodometer.lab.detector_models import find_model

    models = {name: find_model(name) for name in (searches.generators if searches else ())}
    for choice in choices:
        for need in choice.beyond_outputs:
            if need.source == "probe" and need.name not in PROBES:
                raise unknown(f"probe in the needs of '{choice.label}'", need.name, PROBES)
            if need.source == "model":
                models[need.name] = find_model(need.name, f"model in the needs of '{choice.label}'")
    return [models[name] for name in sorted(models)]


def _spelt_out(needs: Sequence[Need], run: RunPlan) -> tuple[Need, ...]:
    """Needs of a detector; of models that are trained against outliers, one per outlier set."""
    own = [need for need in needs if need.source != "model"]
    return (*own, *(each for each in run.models if _declared(each) in needs))


def _declared(need: Need) -> Need:
    """A model as detectors declare it: they read one, or all members of it."""
    return replace(need, outliers="", member=0)


def _probe_keys(need: Need, run: RunPlan, group: tuple[RunPlan, ...]) -> dict[str, str]:
    """The keys of what is read beyond plain outputs, by data set."""
    if need in run.models:
        return dict(run.models[need].answers)
    if need == ENSEMBLE:
        code = code_version("lab/asking/votes")
        members = {name: sorted({m.outputs[name] for m in group}) for name in run.outputs}
        return {name: digest("probe", str(need), code, keys) for name, keys in members.items()}
    from oodometer.lab.asking.probes import PROBES  # loads PyTorch

    modules = ["lab/asking/extract", "outputs"]
    learns, of_training = False, True
    if need != LAYERS:
        probe = PROBES[need.name]
        modules += probe.modules
        learns, of_training = probe.learner is not None, probe.of_training
    code = code_version(*modules, apart_from=(*READING, "lab/asking/probes"))
    content = run.content
    fitted = fitted_content(run.spec, content)
    read = ({"": fitted} if of_training else {}) | content.scored
    fitted_on = fitted if learns else ""
    return {
        name: digest("probe", STEPS["extract"], str(need), code, run.model, data, fitted_on)
        for name, data in read.items()
    }


def _ensembles(runs: Sequence[RunPlan]) -> dict[str, tuple[RunPlan, ...]]:
    """For each run, those that differ from it in the seed only and are scored on its samples."""
    groups: dict[str, list[RunPlan]] = {}
    group_of = {
        run.label: digest(run.spec.model_dump(mode="json", exclude={"seed"}), run.content.scored)
        for run in runs
    }
    for run in runs:
        groups.setdefault(group_of[run.label], []).append(run)
    return {label: tuple(groups[group]) for label, group in group_of.items()}
