"""Versions of the libraries that compute results: a change of one may change every number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version

TRAINING = ("torch", "numpy")  # what networks are trained and asked with
PRETRAINED = ("transformers",)  # what encoders of texts are built with
SCORING = (*TRAINING, "scipy", "scikit-learn")  # what detectors compute with
_ABSENT = "not installed"


@cache
def installed(distribution: str) -> str:
    """The version of a distribution as it is installed, such as 2.13.0."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return _ABSENT


def versions_of(distributions: Iterable[str]) -> dict[str, str]:
    """Installed versions by distribution, in the order of their names."""
    return {name: installed(name) for name in sorted(set(distributions))}


def minor_versions(distributions: Iterable[str]) -> dict[str, str]:
    """The same up to the second number: within it, results are reused.

    >>> minor_versions(["no such library"])
    {'no such library': 'not installed'}
    """
    return {name: minor(own) for name, own in versions_of(distributions).items()}


def minor(own: str) -> str:
    """A version up to its second number.

    >>> minor("2.13.0+cpu"), minor("3")
    ('2.13', '3')
    """
    return ".".join(own.split("+", 1)[0].split(".")[:2])


def recorded_versions(record: Mapping[str, object]) -> dict[str, str]:
    """Versions of what computed a result, and of what a user's detector imports."""
    made_by, made_from = record.get("made_by"), record.get("made_from")
    computing = (
        {n: v for n, v in made_by.items() if n in SCORING} if isinstance(made_by, dict) else {}
    )
    libraries = made_from.get("libraries") if isinstance(made_from, dict) else None
    return {**computing, **(libraries if isinstance(libraries, dict) else {})}


@cache
def distributions_of(package: str) -> tuple[str, ...]:
    """The distributions that an importable package belongs to; none for the user's own files."""
    return tuple(sorted(set(_distributions().get(package, ()))))


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


class Versions:
    """Counts, library by library, how many results each version computed."""

    def __init__(self) -> None:
        self.counted: dict[str, dict[str, int]] = {}

    def add(self, record: Mapping[str, object]) -> None:
        """Count the versions that the record of a result names."""
        for library, own in recorded_versions(record).items():
            times = self.counted.setdefault(library, {})
            times[own] = times.get(own, 0) + 1


def mixed_versions(record: Mapping[str, object]) -> list[str]:
    """What to say of a table that holds results of several versions of one library."""
    made_from = record.get("made_from")
    counted = made_from.get("versions") if isinstance(made_from, dict) else None
    sentences = []
    for library, versions in sorted((counted or {}).items()):
        if len(versions) > 1:
            parts = " and ".join(
                f"{version} ({count})" for version, count in sorted(versions.items())
            )
            sentences.append(
                f"Scores that were computed with different versions of {library} are compared: "
                f"{parts}; --strict-versions recomputes those of other versions than the "
                "installed one."
            )
    return sentences


def earlier_versions(record: Mapping[str, object]) -> list[str]:
    """What to say of a table whose results all come from another version than the installed one."""
    made_from = record.get("made_from")
    counted = made_from.get("versions") if isinstance(made_from, dict) else None
    return [
        f"all scores were computed with {library} {own}, but {installed(library)} is installed: "
        "--strict-versions recomputes them"
        for library, (own, *others) in sorted((counted or {}).items())
        if not others and installed(library) not in (own, _ABSENT)
    ]
