"""Load a study from a YAML file or a mapping; paths are relative to the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import yaml
from pydantic import ValidationError
from yaml.reader import ReaderError

from oodometer.errors import UserError, no_file
from oodometer.files import real_path, refuse_special
from oodometer.study.complaints import explain
from oodometer.study.fields import FILE_IN_A_FIELD, Factor
from oodometer.study.study import Study

_NAMING_FILES = ("label_noise", "network", "split")  # fields that may name a file


def parse_study(content: object, source: str, folder: Path | None = None) -> Study:
    """Turn a mapping into a Study; paths in it are relative to `folder`."""
    if not isinstance(content, Mapping):
        kind = "empty" if content is None else "a list" if isinstance(content, list) else "a scalar"
        raise UserError(f"{source} must be a mapping with the keys of a study, but is {kind}.")
    try:
        study = Study.model_validate(content)
    except ValidationError as problem:
        raise explain(problem, Study, source) from None
    return study if folder is None else _with_absolute_paths(study, folder)


def load_study(path: str | Path) -> Study:
    """Read a study from a YAML file; raise a UserError that says what is wrong with it."""
    path = Path(path)
    try:
        refuse_special(path, "Study file")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise no_file("Study file", path, (".yaml", ".yml")) from None
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
        raise UserError(f"Study file '{path}' could not be read: {reason}.") from None
    try:
        content = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise UserError(f"Study file '{path}'{_yaml_error(problem)}.") from None
    return parse_study(content, f"Study file '{path}'", real_path(path.parent))


def to_yaml(study: Study) -> str:
    """Write a study as the text of a file that `load_study` reads; defaults are left out."""
    content = study.model_dump(mode="json", exclude_defaults=True)
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


def _yaml_error(problem: Exception) -> str:
    """Where a text is not valid YAML, and why."""
    if isinstance(problem, ReaderError):
        place = problem.position + 1
        return f" is not valid YAML: character {place}, U+{problem.character:04X}, is not allowed"
    if not isinstance(problem, yaml.MarkedYAMLError):  # a date in month 13, ten thousand brackets
        said = "it is nested too deeply" if isinstance(problem, RecursionError) else problem
        return f" could not be read: {said}"
    mark = problem.problem_mark
    place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    said = problem.problem or "the text cannot be parsed"
    if said.startswith("but found"):  # the second half of a sentence
        said = f"{problem.context}, {said}"
    if "'\\t'" in said:
        said = "a tab is used where only spaces are allowed, such as for indentation"
    return f"{place} is not valid YAML: {said}"


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML that rejects duplicate keys instead of silently using the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(
                    problem="a key must be a scalar", problem_mark=key.start_mark
                )
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key '{key.value}' occurs twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _with_absolute_paths(study: Study, folder: Path) -> Study:
    def beside(file: str) -> str:
        # A file that is not next to the study may be in the data folder.
        place = real_path(folder / file)
        return str(place) if place.exists() else file

    return _with_paths(study, lambda path: str(real_path(folder / path)), beside)


def without_folders(study: Study) -> Study:
    """The same study with files and folders by their last names: for readers elsewhere."""
    return _with_paths(study, _last_name, _last_name)


def text_without_folders(value: str) -> str:
    """A field of a study with files and folders by their last names.

    >>> text_without_folders("/home/me/mine.npz(split=test)"), text_without_folders("cifar10")
    ('mine.npz(split=test)', 'cifar10')
    """
    if _is_path(value):
        return _last_name(value)
    return FILE_IN_A_FIELD.sub(lambda match: f"path={_last_name(match[1])}", value)


def _last_name(path: str) -> str:
    plain, bracket, rest = path.partition("(")
    return f"{Path(plain).name}{bracket}{rest}"


def _with_paths(
    study: Study, of_path: Callable[[str], str], of_argument: Callable[[str], str]
) -> Study:
    """Write the paths of a study in another way; `of_argument`: those within a call."""

    def renamed(name: str) -> str:
        return of_path(name) if _is_path(name) else name

    def with_file(detector: str) -> str:
        file, suffix, rest = detector.partition(".py:")
        return f"{of_path(file)}{suffix}{rest}" if suffix else detector

    def of_field(field: str, value: object) -> object:
        if not isinstance(value, str):
            return value
        if field in _NAMING_FILES:
            return FILE_IN_A_FIELD.sub(lambda match: f"path={of_argument(match[1])}", value)
        return renamed(value) if field in ("data", "auxiliary") else value

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
        return tuple(renamed(name) for name in names)

    def with_files(detectors: Literal["all"] | tuple[str, ...] | None) -> object:
        if detectors is None or detectors == "all":
            return detectors
        return tuple(with_file(name) for name in detectors)

    scales = {
        name: scale.model_copy(
            update={
                "base": of_base(scale.base),
                "factors": of_factors(scale.factors),
                "ood": None if scale.ood is None else located(scale.ood),
                "detectors": with_files(scale.detectors),
            }
        )
        for name, scale in study.scales.items()
    }
    return study.model_copy(
        update={
            "base": study.base.model_copy(update=of_base(dict(study.base))),
            "factors": of_factors(study.factors),
            "ood": located(study.ood),
            "detectors": with_files(study.detectors),
            "scales": scales,
        }
    )


def _is_path(name: str) -> bool:
    plain = name.partition("(")[0].removesuffix(".gz")
    return "/" in plain or plain.endswith((".npz", ".parquet", ".csv", ".jsonl"))
