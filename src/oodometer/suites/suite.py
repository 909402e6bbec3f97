"""A suite: a study whose evaluation sets are fixed by digest, so that anybody's scores compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from oodometer.engine.lead.run import read_contents
from oodometer.engine.plan.keys import digest
from oodometer.errors import UserError, no_file
from oodometer.files import real_path, refuse_special
from oodometer.study import Study, parse_study

VERSION = 1  # of the file
Digests = Mapping[str, Mapping[str, str]]  # run -> data set -> digest of its samples
# What does not change how classifiers are trained or what is scored.
_ASIDE = {"name", "detectors", "ours", "protocols", "scales", "accuracy", "keep_unlearned", "ood"}


@dataclass(frozen=True)
class Suite:
    """A study and the digests of what its detectors score."""

    study: Study
    sets: Digests

    @property
    def key(self) -> str:
        """What two suites have in common whose scores can be compared."""
        return suite_key(self.study, self.sets)

    def to_yaml(self) -> str:
        """The file of the suite."""
        content = {
            "suite": VERSION,
            "study": self.study.model_dump(mode="json", exclude_defaults=True),
            "sets": {run: dict(own) for run, own in self.sets.items()},
        }
        return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)


def suite_key(study: Study, sets: Digests) -> str:
    """Where data lie and what they are called elsewhere does not matter, what they hold does."""
    recipe = study.model_dump(mode="json", exclude=_ASIDE)
    recipe["base"].pop("data")
    if recipe["searches"] is not None:
        recipe["searches"].pop("detectors")
    return digest("suite", recipe, {run: dict(own) for run, own in sets.items()})


def make_suite(study: Study) -> Suite:
    """Fix the evaluation sets of a study as they are now."""
    return Suite(study, sets_of(study))


def sets_of(study: Study) -> dict[str, dict[str, str]]:
    """The digests of what each run of a study scores; reads the data."""
    return {run: content.scored for run, content in read_contents(study).items()}


def load_suite(path: Path) -> Suite:
    """Read the file of a suite."""
    try:
        refuse_special(path, "Suite")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise no_file("Suite", path, (".yaml", ".yml")) from None
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
        raise UserError(f"Suite '{path}' could not be read: {reason}.") from None
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UserError(f"Suite '{path}' is not valid YAML.") from None
    if not isinstance(content, dict) or "suite" not in content:
        raise UserError(
            f"'{path}' is not a suite: 'oodometer suite make STUDY' writes one from a study."
        )
    if content["suite"] != VERSION:
        raise UserError(f"Suite '{path}' has format {content['suite']}, but {VERSION} is read.")
    sets = content.get("sets")
    if not isinstance(sets, dict) or not all(isinstance(own, dict) for own in sets.values()):
        raise UserError(f"Suite '{path}' must say under 'sets' what each run scores.")
    study = parse_study(content.get("study"), f"Suite '{path}'", real_path(path.parent))
    named = {str(run): {str(k): str(v) for k, v in own.items()} for run, own in sets.items()}
    return Suite(study, named)


def differences(wanted: Digests, found: Digests) -> str:
    """What differs between the sets of two suites, in words; empty: nothing."""
    for run, own in wanted.items():
        if run not in found:
            return f"run '{run}' is missing"
        for name, key in own.items():
            if name not in found[run]:
                return f"data set '{name}' is missing in run '{run}'"
            if found[run][name] != key:
                return (
                    f"data set '{name}' has digest {found[run][name][:12]} instead of {key[:12]} "
                    f"in run '{run}'"
                )
        extra = sorted(set(found[run]) - set(own))
        if extra:
            return f"data set '{extra[0]}' does not belong to the suite"
    other = sorted(set(found) - set(wanted))
    return f"run '{other[0]}' does not belong to the suite" if other else ""
