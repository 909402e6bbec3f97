"""JSON objects inside objects: a line per innermost one, and what the names around it are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import TypeGuard

from oodometer.factors import TITLES, plain, words_of
from oodometer.tables.formats.json_parts import are_lines, is_detail
from oodometer.tables.vocabulary.data_names import is_corruption
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.titles import (
    DETECTOR_TITLES,
    MODEL_TITLES,
    OOD_TITLES,
    REPEAT_TITLES,
    SET_TITLES,
    WEAK_SET_TITLES,
    is_setting,
)

SETTINGS = ("config", "configuration", "params", "parameters", "args", "hparams", "settings",
            "hyperparameters", "options", "meta", "metadata", "setup", "design",
            "environment")  # fmt: skip
WRAPPERS = ("metrics", "results", "scores", "values", "summary")  # of numbers, beside texts
# Parts of what one run tells, each about something else.
_PARTS = frozenset({*SETTINGS, *WRAPPERS, "training", "train", "evaluation", "eval", "timing"})
_OF_EPOCHS = frozenset({"loss", "losses", "val", "epoch", "epochs", "history"})  # in titles
_RUNS = re.compile(  # of lists, whose names say nothing
    r"(?i)(?:(?:all|per|by)[\s_-]+)?(?:runs?|seeds?|folds?|trials?|results?|records?|entries|metrics)"
)
_PER = re.compile(r"(?i)(?:\w+[\s_-])?(?:per|by)[\s_-]+(\w+)")  # by_seed: what the names inside are
_NAMING = frozenset().union(
    DETECTOR_TITLES, MODEL_TITLES, OOD_TITLES, SET_TITLES, WEAK_SET_TITLES, REPEAT_TITLES
)
# Words beside what numbers are: severity_curve, results_by_epoch.
_AROUND_NUMBERS = frozenset(
    {"curve", "curves", "by", "per", "results", "levels", "level", "sweep", "values"}
)  # fmt: skip
Json = object  # whatever `json.loads` gives
Line = dict[str, Json]


def title_of_names(around: str) -> str:
    """Return what the names inside an object are, if that around them tells; else "".

    >>> title_of_names("tasks"), title_of_names("by_seed"), title_of_names("results")
    ('task', 'seed', '')
    """
    if said := _PER.fullmatch(around):
        return said[1]
    one = around[:-1]
    return one if around.endswith("s") and plain(one) in _NAMING else ""


def _title_of_numbers(around: str) -> str:
    """Return what numbers inside an object are, if the name around them tells; else "".

    >>> _title_of_numbers("severity_curve"), _title_of_numbers("fog"), _title_of_numbers("svhn")
    ('severity', 'severity', '')
    """
    said = [word for word in words_of(around) if word not in _AROUND_NUMBERS]
    known = len(said) == 1 and (said[0] in TITLES or is_setting(said[0]))
    return said[0] if known else "severity" if is_corruption(around) else ""


def _are_numbered(content: Line) -> bool:
    return len(content) > 1 and all(map(str.isdigit, content))


def nested_lines(content: Line, level: str = "") -> Iterator[Line]:
    """Return a line per innermost object; `level` is the title of the outermost names, if known."""
    for line in _nested(content, (), {}):
        yield {level if level and title == "column 1" else title: v for title, v in line.items()}


def _nested(content: Line, names: tuple[str, ...], told: Line) -> Iterator[Line]:
    """One line per innermost object, which holds the columns; the names outside it are labels.

    A name around numbers may say what they are: {"severity": {"1": …, "2": …}}.

    Texts and seeds beside inner objects, such as the name of a model, are `told` of all lines
    inside.
    """
    content = _merged(_without_details(content))
    title = _title_of_numbers(names[-1]) if names and _are_numbered(content) else ""
    if title and not is_corruption(names[-1]):
        names = names[:-1]
    inside = list(_inside(content))
    if inside:
        told = told | {name: value for name, value in content.items() if _is_told(name, value)}
        for name, value in inside:
            own = {title: name} if title else {}
            yield from _nested(value, (*names, name) if name and not title else names, told | own)
        return
    if title:
        content = {f"{title}={number}": value for number, value in content.items()}
    labels = {f"column {number}": name for number, name in enumerate(names, start=1)} | told
    yield from ({**labels, **line} for line in _of_lists(content))


def numbers_beside(content: Json) -> list[str]:
    """Return the names of numbers beside objects with several numbers, such as those of a baseline.

    >>> numbers_beside({"swat": {"base": 0.6, "variants": {"a": 0.7, "b": 0.8}}})
    ['base']
    """
    if not isinstance(content, dict):
        return []
    inner = [value for value in content.values() if isinstance(value, dict)]
    several = [own for own in inner if sum(map(is_number, own.values())) > 1]
    beside = [
        name
        for name, value in content.items()
        if several and is_number(value) and plain(name) not in REPEAT_TITLES
    ]
    return list(dict.fromkeys([*beside, *(name for own in inner for name in numbers_beside(own))]))


def _inside(content: Line) -> Iterator[tuple[str, Line]]:
    """Return the objects in one, or in its lists, each with its name, or "" if that says nothing.

    Lists beside results, such as bins, merely explain these.
    """
    inner = {name: value for name, value in content.items() if isinstance(value, dict)}
    for name, value in inner.items():
        yield "" if len(inner) == 1 < len(content) and name.casefold() in WRAPPERS else name, value
    if inner or _names_results(content):
        return
    for name, entries in content.items():
        if holds_lines(entries) and are_lines(entries):
            yield from (("" if _RUNS.fullmatch(name) else name, entry) for entry in entries)


def _of_lists(content: Line) -> Iterator[Line]:
    """Return a line per run or epoch, where all that an object holds are lists as long; else it."""
    lists = [value for value in content.values() if isinstance(value, list)]
    if len(lists) < len(content) or len({len(values) for values in lists}) != 1:
        yield content
        return
    number = "epoch" if are_of_epochs(content) else "run"
    titles = [f"train_{title}" if f"val_{title}" in content else title for title in content]
    for run, values in enumerate(zip(*lists, strict=True)):
        yield {number: run, **dict(zip(titles, values, strict=True))}


def are_of_epochs(titles: Iterable[str]) -> bool:
    """Whether lists are the history of one training: a loss, or results on validation data.

    >>> are_of_epochs(["loss", "val_loss", "acc"]), are_of_epochs(["auroc", "fpr95"])
    (True, False)
    """
    words = [set(re.split(r"[\W_]+", title.casefold())) for title in titles]
    return any(said & _OF_EPOCHS for said in words)


def _merged(content: Line) -> Line:
    """Join objects that tell different things of one run: its settings, training, evaluation."""
    inner = {name: value for name, value in content.items() if isinstance(value, dict)}
    keys = [key for value in inner.values() for key in value]
    flat = not any(isinstance(entry, dict) for value in inner.values() for entry in value.values())
    known = any(name.casefold() in _PARTS for name in inner)
    if len(inner) < 2 or not flat or not known or len(set(keys)) < len(keys):
        return content
    rest = {name: value for name, value in content.items() if name not in inner}
    for name, value in inner.items():
        bare = name.casefold() in SETTINGS
        rest |= {key if bare else f"{name} {key}": entry for key, entry in value.items()}
    return rest


def _names_results(content: Line) -> bool:
    """Whether an object has results of its own, which bins and the like merely explain."""
    return any(metric_named(name) and is_number(value) for name, value in content.items())


def holds_lines(value: Json) -> TypeGuard[list[Line]]:
    """Whether a value is a list of objects."""
    return isinstance(value, list) and bool(value) and _are_objects(value)


def _is_told(name: str, value: Json) -> bool:
    """Whether an entry is about all objects beside it: a text, or the number of a run."""
    return isinstance(value, str) or (is_number(value) and plain(name) in REPEAT_TITLES)


def _without_details(content: Line) -> Line:
    """Leave out what an object with metrics of its own tells in detail: per class, by bin."""
    if not _names_results(content):
        return content
    return {
        name: value
        for name, value in content.items()
        if not isinstance(value, dict) or not is_detail(name, value)
    }


def is_number(value: Json) -> TypeGuard[int | float]:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _are_objects(entries: list[Json]) -> bool:
    return all(isinstance(entry, dict) for entry in entries)
