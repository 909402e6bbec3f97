"""Networks to train: what a training run reads, and the keys of what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oodometer.calls import parse_call
from oodometer.engine.plan.keys import code_version, digest, function_version
from oodometer.engine.versions import PRETRAINED, TRAINING, minor_versions
from oodometer.lab.data.portions import split_seed
from oodometer.study import TrainSpec
from oodometer.study.fields import OF_DETECTOR_MODELS, RE_EVALUATED

if TYPE_CHECKING:
    from oodometer.engine.plan.artefacts import Artefact

# Raised by hand when engine/work changes what it makes of the same call of the same code.
STEPS = {"train": 1, "extract": 1, "score": 1}

# What a step imports and does not depend on. What is said in the specification or told by the
# content of the data needs no code in the key; what comes later cannot matter.
READING = (
    "errors", "imports", "study", "lab/__init__", "lab/data/__init__", "lab/data/cards",
    "lab/data/catalog", "lab/data/divisions", "lab/data/encoders", "lab/data/openood",
    "lab/data/readers", "lab/data/sources", "lab/data/splits",
)  # fmt: skip
# Fields that a specification did not always have: these values change nothing, and no key.
_LATER: Mapping[str, object] = {"gradient_norm": 0.0}
_AFTER_TRAINING = ("outputs", "lab/asking/extract")
_AUGMENTING = ("lab/training/augment", "lab/training/color")
_MISLABELLING = ("lab/data/label_noise", "lab/data/label_files")


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
    # Of each outlier set, digest and size of the training part, if generators learn from these.
    ood_train: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    auxiliary: str = ""  # digest of the auxiliary outliers, if the study names some
    train_shape: tuple[int, ...] = ()  # of the training set, samples first
    weights: str = ""  # digest of what the network starts from, if it is pretrained

    @property
    def scored(self) -> dict[str, str]:
        """The data sets that detectors score: ID first, then the outliers."""
        return {self.id: self.test, **self.ood}


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """A network to train, at one of its checkpoints."""

    label: str
    spec: TrainSpec
    content: DataContent
    training: str  # key of the training run that the model is a checkpoint of
    checkpoints: Mapping[int | str, str]  # all that the study wants of the training run -> key

    @property
    def model(self) -> str:
        """The key of its weights."""
        return self.checkpoints[self.spec.checkpoint]

    @property
    def last_epoch(self) -> int:
        """The last epoch that somebody asks for: the others are not trained."""
        numbers = [number for number in self.checkpoints if isinstance(number, int)]
        return max(numbers) if len(numbers) == len(self.checkpoints) else self.spec.epochs

    @property
    def network(self) -> str:
        """What kind of network it is, to guess how long its training takes."""
        return self.spec.network

    @property
    def progress(self) -> str:
        """The key of its unfinished training: what that keeps depends on what is wanted of it."""
        return digest("progress", sorted(self.checkpoints.values()))

    @property
    def record(self) -> dict[str, object]:
        """What its specification does not tell, for the records of what it leaves."""
        return {}

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        """All that it leaves, each after what it is made from."""
        raise NotImplementedError

    @property
    def companions(self) -> tuple[TrainingPlan, ...]:
        """Other networks that some of its detectors wait for."""
        return ()

    @property
    def units(self) -> Mapping[str, tuple[Artefact, ...]]:
        """What is scored together, in order; there are no scores but of the network of a run."""
        return {}

    def waits(self, unit: str) -> bool:
        """Whether a unit can be scored only when other networks have been asked."""
        return False

    def before(self, unit: str) -> tuple[str, ...]:
        """Units of the same run that come before a unit."""
        return ()


def fitted_content(spec: TrainSpec, content: DataContent) -> str:
    """What detectors are fitted to; which part of it, the training's key tells."""
    if spec.fitted_on == "train":
        return content.train
    return digest("validation", content.train if spec.validation else content.validation)


def checkpoint_key(training: str, checkpoint: int | str) -> str:
    """Return the key of a training run's weights, as `TrainSpec.checkpoint` names them."""
    return digest("model", training, checkpoint)


def training_key(spec: TrainSpec, content: DataContent) -> str:
    """Return the key of a training run, shared by runs that differ only in their epoch."""
    # What the data are is told by their content; where they came from does not matter.
    # Nor does what comes after training.
    recipe = spec.model_dump(
        exclude={"data", "split", "held_out_classes"} | RE_EVALUATED | OF_DETECTOR_MODELS
    )
    if spec.validation or spec.train_size is not None:
        recipe["split"] = split_seed(spec)  # by which these are drawn
    # The file that label noise comes from is told by its content, too.
    noise, settings = parse_call("label noise", spec.label_noise)
    recipe["label_noise"] = [noise, {k: v for k, v in settings.items() if k != "path"}]
    for name, usual in _LATER.items():
        if recipe[name] == usual:
            del recipe[name]
    left = [*READING, *_AFTER_TRAINING]
    left += _AUGMENTING if spec.augment == "none" else ()
    left += _MISLABELLING if spec.label_noise == "none" else ()
    code: list[object] = [
        str(STEPS["train"]),
        minor_versions(TRAINING),
        code_version("lab/training/train", "lab/training/networks", apart_from=(*left,)),
    ]
    if ":" in spec.network:  # somebody's own
        from oodometer.lab.training.networks import load_factory

        code.append(function_version(load_factory(spec.network)))
    if content.weights:  # told by their content, not by where they are
        name, settings = parse_call("network", spec.network)
        recipe["network"] = [name, {k: v for k, v in settings.items() if k != "path"}]
        code += [content.weights, minor_versions(PRETRAINED)]
    validation = "" if spec.validation else content.validation
    return digest("training", code, recipe, content.train, content.noise, validation)
