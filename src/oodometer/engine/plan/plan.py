"""What a study has to do: pure, from a study and the content of its data to keys of results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from oodometer.calls import parse_call
from oodometer.engine.plan.artefacts import Artefact, artefacts_of
from oodometer.engine.plan.keys import code_version, digest, function_version
from oodometer.lab.data.portions import split_seed
from oodometer.lab.detector_models.binary import FEWEST_OUTLIERS, Against, binary_spec
from oodometer.needs import ENSEMBLE, LAYERS, Need
from oodometer.study import Level, Study, TrainSpec
from oodometer.study.fields import RE_EVALUATED

# Raised by hand when engine/work changes what it makes of the same call of the same code.
_STEPS = {"train": 1, "extract": 1, "score": 1}

# What a step imports and does not depend on. What is said in the specification or told by the
# content of the data needs no code in the key; what comes later cannot matter.
_READING = (
    "errors", "study", "lab/__init__", "lab/data/__init__", "lab/data/cards", "lab/data/catalog",
    "lab/data/divisions", "lab/data/openood", "lab/data/readers", "lab/data/sources",
    "lab/data/splits",
)  # fmt: skip
_AFTER_TRAINING = ("outputs", "lab/asking/extract")
_PROBING = (
    "lab/asking/probes",
    "lab/asking/replay",
    "lab/asking/votes",
)  # plain outputs do not depend on it
_BESIDE_SCORING = ("errors", "detectors", "metrics", "scores")  # of a detector: its own module
_BALANCED = {"binary": True, "binary_unbalanced": False}  # models trained against outliers
_AUGMENTING = ("lab/training/augment", "lab/training/color")
_MISLABELLING = ("lab/data/label_noise", "lab/data/label_files")

if TYPE_CHECKING:  # importing it would load PyTorch, which a finished study does not need
    from oodometer.registry import Choice


@dataclass(frozen=True)
class DataContent:
    """What a run reads: the name of its ID set and the content digest of every data set."""

    id: str
    train: str
    test: str
    ood: Mapping[str, str]  # name of the outlier set -> digest
    noise: str = ""  # digest of the file that the label noise is read from, if it is
    validation: str = ""  # digest of what the split sets aside for validation, if it does
    sizes: Mapping[str, int] = field(default_factory=dict)  # samples of each outlier set

    @property
    def scored(self) -> dict[str, str]:
        """The data sets that detectors score: ID first, then the outliers."""
        return {self.id: self.test, **self.ood}


@dataclass(frozen=True)
class RunPlan:
    """The keys of everything that one training leads to."""

    label: str
    spec: TrainSpec
    levels: Mapping[str, Level]
    content: DataContent
    training: str  # key of the training that the model is a checkpoint of
    checkpoints: Mapping[int | str, str]  # all that the study wants of the training -> key
    model: str
    train_outputs: str
    outputs: Mapping[str, str]  # scored data set -> key
    scores: Mapping[str, Mapping[str, str]]  # detector label -> scored data set -> key
    # need beyond plain outputs -> data set ("" = what detectors are fitted to) -> key
    probes: Mapping[Need, Mapping[str, str]] = field(default_factory=dict)
    needs: Mapping[str, tuple[Need, ...]] = field(default_factory=dict)  # detector -> those of it
    ensemble: tuple[RunPlan, ...] = ()  # runs that differ from this one in the seed only, and it
    # need such as "model:binary/svhn" -> the training of the network that is asked
    rivals: Mapping[Need, RunPlan] = field(default_factory=dict)
    against: Against | None = None  # of such a network: what it learns to tell from known data

    @property
    def output_keys(self) -> dict[str, str]:
        """All that is extracted, by data set ("" = what detectors are fitted to)."""
        fitted = {"": self.train_outputs} if self.against is None else {}  # by no detector
        return fitted | dict(self.outputs)

    @property
    def companions(self) -> tuple[RunPlan, ...]:
        """Other runs that some of its detectors wait for."""
        return (*self.ensemble, *self.rivals.values())

    def made_of_others(self, need: Need) -> bool:
        """Whether a probe is made of what other networks say."""
        return not need.of_classifier

    @property
    def progress(self) -> str:
        """The key of its unfinished training: what that keeps depends on what is wanted of it."""
        return digest("progress", sorted(self.checkpoints.values()))

    @property
    def fitted(self) -> str:
        """In words, what detectors are fitted to; not the name of a scored data set."""
        words = "training set" if self.spec.fitted_on == "train" else "validation set"
        return f"{words} of the run" if words in self.outputs else words

    @cached_property
    def artefacts(self) -> tuple[Artefact, ...]:
        """All results of the run, each after those that it is made from."""
        return tuple(artefacts_of(self))

    def waits(self, detector: str) -> bool:
        """Whether a detector can be scored only when other runs are extracted."""
        needs = self.needs.get(detector, ())
        together = ENSEMBLE in needs and len(self.ensemble) > 1
        return together or any(need in self.rivals for need in needs)


@dataclass(frozen=True)
class Plan:
    """All runs of a study. The same study on the same data with the same code: the same keys."""

    study: Study
    id: str
    detectors: tuple[str, ...]  # their labels
    named_detectors: tuple[str, ...]  # as the user wrote them, "all" spelt out
    settings: Mapping[str, tuple[str, ...]]  # label -> the grid; the first represents the detector
    runs: tuple[RunPlan, ...]
    same_samples: bool

    @property
    def trainings(self) -> tuple[RunPlan, ...]:
        """The runs of the study, and the networks that are trained for detectors of theirs."""
        rivals = {rival.label: rival for run in self.runs for rival in run.rivals.values()}
        return (*self.runs, *rivals.values())

    @property
    def artefacts(self) -> Iterator[Artefact]:
        """All results of the study's runs; some belong to several runs."""
        return (artefact for run in self.trainings for artefact in run.artefacts)


def plan(study: Study, contents: Mapping[str, DataContent], choices: Sequence[Choice]) -> Plan:
    """Plan a study. `contents` gives, for each run's label, what its data hold."""
    code = code_version("lab/asking/extract", "outputs", apart_from=(*_READING, *_PROBING))
    extraction = [_STEPS["extract"], code]
    scoring = [_STEPS["score"], code_version("scoring", apart_from=_BESIDE_SCORING)]
    # The grid belongs to the key: scores are kept for every setting of it.
    recipes = {
        choice.label: digest(
            scoring,
            choice.detector.name,
            function_version(choice.detector.build),
            dict(choice.settings),
            {name: list(values) for name, values in choice.detector.grid.items()},
        )
        for choice in choices
    }
    specs = study.runs()
    trainings = {label: _training_key(spec, contents[label]) for label, (spec, _) in specs.items()}
    checkpoints: dict[str, dict[int | str, str]] = {}
    for label, (spec, _) in specs.items():
        key = trainings[label]
        checkpoints.setdefault(key, {})[spec.checkpoint] = checkpoint_key(key, spec.checkpoint)
    models = {n for choice in choices for n in choice.beyond_outputs if n.source == "model"}
    binary_needs = sorted(models)
    shared: dict[object, RunPlan] = {}  # networks that several runs ask are trained once
    runs = []
    for label, (spec, levels) in specs.items():
        content = contents[label]
        model = checkpoint_key(trainings[label], spec.checkpoint)
        train_outputs = digest("outputs", extraction, spec.features, model, _fitted(spec, content))
        outputs = _output_keys(extraction, spec.features, model, content)
        run = RunPlan(
            label=label,
            spec=spec,
            levels=levels,
            content=content,
            training=trainings[label],
            checkpoints=checkpoints[trainings[label]],
            model=model,
            train_outputs=train_outputs,
            outputs=outputs,
            scores={},
        )
        runs.append(replace(run, rivals=_rivals(run, binary_needs, extraction, shared)))
    groups = _ensembles(runs) if any(ENSEMBLE in c.detector.needs for c in choices) else {}
    runs = [_with_scores(run, choices, recipes, groups.get(run.label, ())) for run in runs]
    first = next(iter(contents.values()))
    return Plan(
        study=study,
        id=first.id,
        detectors=tuple(choice.label for choice in choices),
        named_detectors=tuple(choice.text for choice in choices),
        settings={choice.label: _grid(choice) for choice in choices},
        runs=tuple(runs),
        same_samples=all(content.scored == first.scored for content in contents.values()),
    )


def _grid(choice: Choice) -> tuple[str, ...]:
    """All settings of a detector in words, the one that represents it first."""
    from oodometer.registry import setting_text

    grid = (setting_text(settings) for settings in choice.tried(grid=True))
    return (*dict.fromkeys((choice.setting, *grid)),)


def _with_scores(
    run: RunPlan, choices: Sequence[Choice], recipes: Mapping[str, str], group: tuple[RunPlan, ...]
) -> RunPlan:
    """Add what the detectors lead to: the keys of probes and scores."""
    needs = {c.label: _spelt_out(n, run) for c in choices if (n := c.beyond_outputs)}
    wanted = sorted({need for those in needs.values() for need in those})
    probes = {need: keys for need in wanted if (keys := _probe_keys(need, run, group))}
    scores: dict[str, dict[str, str]] = {}
    for choice in choices:
        label = choice.label
        asked = [need for need in needs.get(label, ()) if need in probes]
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


def _rivals(
    run: RunPlan, needs: Sequence[Need], extraction: object, shared: dict[object, RunPlan]
) -> dict[Need, RunPlan]:
    """Plan a network against every outlier set that is large enough, for each of these needs."""
    if not needs:
        return {}
    spec, content = binary_spec(run.spec), run.content
    # Which samples are known, the classifier's own specification tells.
    known = [run.spec.train_size, run.spec.validation, split_seed(run.spec), content.test]
    validation = "" if run.spec.validation else content.validation
    own = _training_key(spec, replace(content, noise="", validation=validation))
    code = code_version("lab/detector_models/binary", apart_from=_READING)
    few = {name for name, size in content.sizes.items() if size < FEWEST_OUTLIERS}
    rivals = {}
    for need, name in itertools.product(needs, (name for name in content.ood if name not in few)):
        against = Against(name, _BALANCED[need.name], run.spec)
        training = digest("binary", own, code, known, content.ood[name], against.balanced)
        model = checkpoint_key(training, spec.checkpoint)
        outputs = _output_keys(extraction, "logits", model, content)
        rival = RunPlan(
            label=f"{run.label}, {'' if against.balanced else 'unbalanced '}against {name}",
            spec=spec,
            levels=run.levels,
            content=content,
            training=training,
            checkpoints={spec.checkpoint: model},
            model=model,
            train_outputs="",
            outputs=outputs,
            scores={},
            against=against,
        )
        rivals[replace(need, outliers=name)] = shared.setdefault((model, *outputs.items()), rival)
    return rivals


def _spelt_out(needs: Sequence[Need], run: RunPlan) -> tuple[Need, ...]:
    """Needs of a detector; of models that are trained against outliers, one per outlier set."""
    own = [need for need in needs if need.source != "model"]
    return (*own, *(each for each in run.rivals if replace(each, outliers="") in needs))


def _output_keys(
    extraction: object, features: str, model: str, content: DataContent
) -> dict[str, str]:
    return {
        name: digest("outputs", extraction, features, model, data)
        for name, data in content.scored.items()
    }


def _probe_keys(need: Need, run: RunPlan, group: tuple[RunPlan, ...]) -> dict[str, str]:
    """The keys of a probe, by data set; none if there is no such probe."""
    if need in run.rivals:
        return {name: digest("probe", key) for name, key in run.rivals[need].outputs.items()}
    if need == ENSEMBLE:
        code = code_version("lab/asking/votes")
        members = {name: sorted({m.outputs[name] for m in group}) for name in run.outputs}
        return {name: digest("probe", str(need), code, keys) for name, keys in members.items()}
    from oodometer.lab.asking.probes import PROBES  # loads PyTorch

    modules = ["lab/asking/extract", "outputs"]
    learns = of_training = False
    if need == LAYERS:
        of_training = True
    elif (probe := PROBES.get(need.name)) is not None:
        modules += probe.modules
        learns, of_training = probe.learner is not None, probe.of_training
    else:
        return {}
    code = code_version(*modules, apart_from=(*_READING, "lab/asking/probes"))
    content = run.content
    fitted = _fitted(run.spec, content)
    read = ({"": fitted} if of_training else {}) | content.scored
    fitted_on = fitted if learns else ""
    return {
        name: digest("probe", _STEPS["extract"], str(need), code, run.model, data, fitted_on)
        for name, data in read.items()
    }


def _fitted(spec: TrainSpec, content: DataContent) -> str:
    """What detectors are fitted to; which part of it, the training's key tells."""
    if spec.fitted_on == "train":
        return content.train
    return digest("validation", content.train if spec.validation else content.validation)


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


def checkpoint_key(training: str, checkpoint: int | str) -> str:
    """Return the key of a training's weights, as `TrainSpec.checkpoint` names them."""
    return digest("model", training, checkpoint)


def _training_key(spec: TrainSpec, content: DataContent) -> str:
    """Return the key of a training; runs that differ only in the epoch that they use share it."""
    # What the data are is told by their content; where they came from does not matter.
    # Nor does what comes after training.
    recipe = spec.model_dump(exclude={"data", "split", "held_out_classes"} | RE_EVALUATED)
    if spec.validation or spec.train_size is not None:
        recipe["split"] = split_seed(spec)  # by which these are drawn
    # The file that label noise comes from is told by its content, too.
    noise, settings = parse_call("label noise", spec.label_noise)
    recipe["label_noise"] = [noise, {k: v for k, v in settings.items() if k != "path"}]
    left = [*_READING, *_AFTER_TRAINING]
    left += _AUGMENTING if spec.augment == "none" else ()
    left += _MISLABELLING if spec.label_noise == "none" else ()
    code = [
        str(_STEPS["train"]),
        code_version("lab/training/train", "lab/training/networks", apart_from=(*left,)),
    ]
    if ":" in spec.network:  # somebody's own
        from oodometer.lab.training.networks import load_factory

        code.append(function_version(load_factory(spec.network)))
    validation = "" if spec.validation else content.validation
    return digest("training", code, recipe, content.train, content.noise, validation)
