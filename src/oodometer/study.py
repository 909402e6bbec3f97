"""A study: what is trained, what is varied, and what is asked. One YAML file, keys = fields."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    ValidationError,
)

from oodometer.errors import UserError, unknown

Level = bool | int | float | str
_PATH = re.compile(r"\bpath\s*=\s*([^,()]+?)\s*(?=[,)])")  # of a file, in what a field names
_NAMING_FILES = ("label_noise", "split")  # fields that may name one


def _refuse_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _number_of_epoch(value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not whole and value not in ("last", "best"):
        raise ValueError("must be 'last', 'best' or the number of an epoch from 1")
    return value


def _split(value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32
    if not whole and not (isinstance(value, str) and value):
        raise ValueError("must be a whole number from 0, or a split such as od_test")
    return value


def _in_order(classes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(classes)))


Number = Annotated[float, BeforeValidator(_refuse_bool)]  # takes "1e-3", a text to YAML


class TrainSpec(BaseModel):
    """All that decides one trained classifier. Any field may be a factor of a study."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    data: str = Field(min_length=1)  # a known name, or the path of an .npz file
    held_out_classes: Annotated[
        tuple[Annotated[StrictInt, Field(ge=0)], ...], AfterValidator(_in_order)
    ] = ()  # never trained on
    # 0: as the data come; another number: train and test drawn anew; or a name, such as od_test
    split: Annotated[int | str, BeforeValidator(_split)] = 0
    test_size: Annotated[StrictInt, Field(ge=1)] | None = None  # at most so many, outliers too
    ood_draw: Annotated[StrictInt, Field(ge=0)] | None = None  # which subset of each outlier set
    features: Literal["forward", "skip_stem_relu"] = "forward"  # how detectors' features are taken
    network: str = "small_cnn"
    width: Annotated[StrictInt, Field(ge=1)] | None = None  # None: the network's own
    optimizer: str = "adam"
    learning_rate: Annotated[Number, Field(gt=0)] | None = None  # None: the optimizer's own
    epochs: Annotated[StrictInt, Field(ge=1)] = 10
    batch_size: Annotated[StrictInt, Field(ge=1)] = 32
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] = (
        0  # initial weights and order of the batches
    )
    weight_decay: Annotated[Number, Field(ge=0)] = 0.0
    loss: str = "cross_entropy"
    adversarial: Annotated[Number, Field(ge=0)] = 0.0  # step of images that train as well
    schedule: str = "constant"  # of the learning rate
    stopping: str = "none"
    validation: Annotated[Number, Field(ge=0, lt=1)] = 0.0  # share of the training set set aside
    augment: str = "none"
    label_noise: str = "none"  # of what is trained on; the validation part stays clean
    fitted_on: Literal["train", "validation"] = "train"  # what detectors are fitted to
    train_size: Annotated[StrictInt, Field(ge=1)] | None = None  # None: all; else class-balanced
    epoch: Annotated[int | str, BeforeValidator(_number_of_epoch)] = "last"  # the one to use
    best_by: Literal["validation_accuracy", "validation_loss", "train_loss"] = "validation_accuracy"

    @property
    def checkpoint(self) -> int | str:
        """Which weights of a training are used: a number of epochs, "last", or best by what."""
        return self.best_by if self.epoch == "best" else self.epoch


class Factor(BaseModel):
    """An axis of variation: a field of TrainSpec and the values that it takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    levels: tuple[StrictInt | float | bool | str | tuple[StrictInt, ...], ...] = Field(min_length=1)


class Scale(BaseModel):
    """What a smaller version of a study changes; what it does not name stays as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: Mapping[str, object] = Field(default_factory=dict)  # fields of TrainSpec
    factors: tuple[Factor, ...] = ()  # other levels of the same factors
    detectors: Literal["all"] | tuple[str, ...] | None = None
    ood: tuple[str, ...] | None = None


class Study(BaseModel):
    """Which classifiers to train, which detectors to score on which outliers, and what to ask."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]*$")
    base: TrainSpec
    factors: tuple[Factor, ...] = ()
    design: Literal["grid", "one_at_a_time"] = "grid"
    detectors: Literal["all"] | tuple[str, ...] = "all"
    ood: tuple[str, ...] = Field(min_length=1)
    protocols: tuple[str, ...] = ("ranking",)
    scales: Mapping[str, Scale] = Field(default_factory=dict)  # name -> a smaller version

    def model_post_init(self, context: object) -> None:
        """Check what only the whole can tell: factors are fields, and nothing is named twice."""
        fields = [factor.field for factor in self.factors]
        for name in fields:
            if name not in TrainSpec.model_fields:
                raise unknown("factor", name, TrainSpec.model_fields)
        if "data" in fields:
            raise UserError(
                "'data' cannot be a factor, since all runs of a study are compared on one "
                "in-distribution set: write one study file per data set, and run them into one "
                "store."
            )
        _refuse_repeats("factors", fields)
        for factor in self.factors:
            _refuse_repeats(f"levels of factor '{factor.field}'", factor.levels)
        _refuse_repeats("ood", self.ood)
        _refuse_repeats("protocols", self.protocols)
        if self.detectors != "all":
            _refuse_repeats("detectors", self.detectors)
            if not self.detectors:
                raise UserError("detectors must be 'all' or a list with at least one detector.")
        for name in self.scales:
            self.at_scale(name)  # whatever is wrong with a scale is said now

    def at_scale(self, name: str) -> Study:
        """Return the study at one of its scales, as a study of its own."""
        if name not in self.scales:
            raise unknown(f"scale of study '{self.name}'", name, self.scales)
        scale = self.scales[name]
        varied = {factor.field: factor for factor in self.factors}
        for factor in scale.factors:
            if factor.field not in varied:
                raise unknown(f"factor at scale '{name}'", factor.field, varied)
            varied[factor.field] = factor
        try:
            base = TrainSpec.model_validate(self.base.model_dump() | dict(scale.base))
        except ValidationError as problem:
            raise _explain(problem, TrainSpec, f"scale '{name}', base") from None
        return Study(
            name=f"{self.name}-{name}",
            base=base,
            factors=tuple(varied.values()),
            design=self.design,
            detectors=self.detectors if scale.detectors is None else scale.detectors,
            ood=self.ood if scale.ood is None else scale.ood,
            protocols=self.protocols,
        )

    def runs(self) -> dict[str, tuple[TrainSpec, dict[str, Level]]]:
        """Every run by its label, with its specification and its factor levels."""
        runs: dict[str, tuple[TrainSpec, dict[str, Level]]] = {}
        seen: set[TrainSpec] = set()
        for changed in self._combinations():
            spec = self._spec(changed)
            # As they were understood: 1e-3, which YAML takes for a text, is the number 0.001.
            values = {name: getattr(spec, name) for name in changed}
            levels = {name: _shown(value) for name, value in values.items()}
            if _label(levels) in runs:  # files of one name in two folders
                levels = {name: _shown(value, short=False) for name, value in values.items()}
            label = _label(levels)
            if spec in seen:
                raise UserError(
                    f"Study '{self.name}' has the same training twice, {label}: two levels of a "
                    "factor mean the same."
                )
            seen.add(spec)
            runs[label] = (spec, levels)
        return runs

    def _spec(self, changed: Mapping[str, object]) -> TrainSpec:
        try:
            return TrainSpec.model_validate(self.base.model_dump() | dict(changed))
        except ValidationError as problem:
            raise _explain(problem, TrainSpec, f"Study '{self.name}', factors") from None

    def _combinations(self) -> Iterator[dict[str, object]]:
        if self.design == "grid":
            for values in itertools.product(*(factor.levels for factor in self.factors)):
                yield {f.field: v for f, v in zip(self.factors, values, strict=True)}
            return
        base: dict[str, object] = {f.field: getattr(self.base, f.field) for f in self.factors}
        yield base
        for factor in self.factors:
            for value in factor.levels:
                changed = base | {factor.field: value}
                if self._spec(changed) != self.base:
                    yield changed


def _label(levels: Mapping[str, Level]) -> str:
    return ", ".join(f"{name}={value}" for name, value in levels.items()) or "base"


def _shown(value: object, *, short: bool = True) -> Level:
    """A level as tables show it; of files the name is enough, unless two are called alike."""
    if value is None:
        return "default"
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, str) and short:
        return _PATH.sub(lambda match: f"path={Path(match[1]).name}", value)
    return value if isinstance(value, bool | int | float | str) else str(value)


def parse_study(content: object, source: str, folder: Path | None = None) -> Study:
    """Turn a mapping into a Study; paths in it are taken relative to `folder`."""
    if not isinstance(content, Mapping):
        kind = "nothing" if content is None else f"a {type(content).__name__}"
        raise UserError(f"{source} must hold the keys of a study, but holds {kind}.")
    try:
        study = Study.model_validate(content)
    except ValidationError as problem:
        raise _explain(problem, Study, source) from None
    return study if folder is None else _with_absolute_paths(study, folder)


def load_study(path: str | Path) -> Study:
    """Read a study from a YAML file, or say in one sentence what is wrong with it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        siblings = [sibling.name for sibling in sorted(path.parent.glob("*.y*ml"))]
        close = difflib.get_close_matches(path.name, siblings, n=1, cutoff=0.5)
        hint = f" Did you mean '{path.parent / close[0]}'?" if close else ""
        raise UserError(f"Study file '{path}' does not exist.{hint}") from None
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
        raise UserError(f"Study file '{path}' cannot be read: {reason}.") from None
    try:
        content = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        detail = getattr(problem, "problem", None) or "the text cannot be parsed"
        raise UserError(f"Study file '{path}'{place} is not valid YAML: {detail}.") from None
    return parse_study(content, f"Study file '{path}'", path.parent.resolve())


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML that refuses a key given twice instead of silently taking the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(
                    problem="a key must be a word", problem_mark=key.start_mark
                )
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key '{key.value}' stands twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _with_absolute_paths(study: Study, folder: Path) -> Study:
    def absolute(name: str) -> str:
        return str((folder / name).resolve()) if _is_path(name) else name

    def with_absolute_file(detector: str) -> str:
        file, suffix, rest = detector.partition(".py:")
        return f"{(folder / file).resolve()}{suffix}{rest}" if suffix else detector

    def beside(match: re.Match[str]) -> str:
        # What does not lie beside the study may lie where data are looked for.
        file = (folder / match[1]).resolve()
        return f"path={file}" if file.exists() else match[0]

    def of_field(field: str, value: object) -> object:
        if not isinstance(value, str):
            return value
        if field in _NAMING_FILES:
            return _PATH.sub(beside, value)
        return absolute(value) if field == "data" else value

    def of_base(fields: Mapping[str, object]) -> dict[str, object]:
        return {name: of_field(name, value) for name, value in fields.items()}

    def of_factors(factors: tuple[Factor, ...]) -> tuple[Factor, ...]:
        return tuple(
            factor.model_copy(
                update={"levels": tuple(of_field(factor.field, level) for level in factor.levels)}
            )
            for factor in factors
        )

    def located(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(absolute(name) for name in names)

    def found(detectors: Literal["all"] | tuple[str, ...] | None) -> object:
        if detectors is None or detectors == "all":
            return detectors
        return tuple(with_absolute_file(name) for name in detectors)

    scales = {
        name: scale.model_copy(
            update={
                "base": of_base(scale.base),
                "factors": of_factors(scale.factors),
                "ood": None if scale.ood is None else located(scale.ood),
                "detectors": found(scale.detectors),
            }
        )
        for name, scale in study.scales.items()
    }
    return study.model_copy(
        update={
            "base": study.base.model_copy(update=of_base(dict(study.base))),
            "factors": of_factors(study.factors),
            "ood": located(study.ood),
            "detectors": found(study.detectors),
            "scales": scales,
        }
    )


def _is_path(name: str) -> bool:
    plain = name.partition("(")[0].removesuffix(".gz")
    return "/" in plain or plain.endswith((".npz", ".parquet", ".csv", ".jsonl"))


def _refuse_repeats(where: str, values: Sequence[object]) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise UserError(f"{where} names '{value}' twice.")


def _explain(problem: ValidationError, model: type[BaseModel], source: str) -> UserError:
    """Turn pydantic's complaints into one sentence about the one that explains most."""
    # A misspelt key also leaves the right one missing: the misspelling is the cause.
    complaints = sorted(problem.errors(), key=lambda e: e["type"] != "extra_forbidden")
    first = complaints[0]
    own = first.get("ctx", {}).get("error")
    path = [str(part) for part in first["loc"] if not str(part).startswith(("literal[", "tuple["))]
    where = ".".join(path)
    if isinstance(own, UserError):
        return UserError(f"{source}: {own}")
    known = sorted(_model_at(model, path[:-1]).model_fields)
    if first["type"] == "extra_forbidden":
        kind = f"key of '{'.'.join(path[:-1])}'" if path[:-1] else "key"
        return UserError(f"{source}: {unknown(kind, path[-1], known)}")
    if first["type"] == "missing":
        return UserError(f"{source} lacks the key '{where}'. Known there: {', '.join(known)}.")
    standard = first["msg"].removeprefix("Input ")
    allowed = str(own) if own else _ALLOWED.get(first["type"], standard)
    if where == "detectors":
        allowed = "must be 'all' or a list of detectors"
    return UserError(f"{source}: '{where}' is {first['input']!r}, but {allowed}.")


# pydantic's own words where they would puzzle somebody who writes YAML.
_ALLOWED = {
    "tuple_type": "must be a list",
    "too_short": "must be a list with at least one entry",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "model_type": "must be a mapping of keys to values",
    "string_pattern_mismatch": "may hold only letters, digits, spaces, and . _ -",
}


def _model_at(model: type[BaseModel], path: list[str]) -> type[BaseModel]:
    """Return the model that a path of keys leads to."""
    if path[:1] == ["base"]:
        return TrainSpec
    return Factor if path[:1] == ["factors"] and len(path) > 1 else model
