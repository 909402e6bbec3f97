"""Which column names what is compared: by its names, by its title, or because no other can."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import LABELS, TITLES, are_checkpoints, plain, words_of
from oodometer.tables.cells import is_gap
from oodometer.tables.frames.parted_pairs import HEADERS
from oodometer.tables.guessing.likeness import (
    are_data,
    are_runs,
    is_about_data,
    mostly,
    name_setups,
    share,
    wide_names,
)
from oodometer.tables.guessing.questions import (
    models_or_data,
    or_lower,
    trained_and_tested,
    unnamed_option,
    which_axis,
    which_column,
)
from oodometer.tables.guessing.rivals import (
    METHODS,
    require_no_detectors,
    require_no_methods,
    require_no_rivals,
)
from oodometer.tables.guessing.roles import SECTION, Roles
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.measures import GENERAL, metric_named, without_metric
from oodometer.tables.vocabulary.names import is_compared, is_detector, is_model, is_surely_detector
from oodometer.tables.vocabulary.others import (
    are_data_files,
    are_remarks,
    are_yes_or_no,
    names_condition,
    names_parameters,
)
from oodometer.tables.vocabulary.statistics import is_mere_average
from oodometer.tables.vocabulary.titles import (
    ARCHITECTURE_TITLES,
    INCIDENTAL,
    JOB_TITLES,
    MODEL_TITLES,
    REPEAT_TITLES,
    SET_TITLES,
    mentions_setting,
)

if TYPE_CHECKING:
    import pandas as pd

_NUMBERED = frozenset({"step", "epoch", "episode", "iteration", "iter", "seed", "severity"})
_OF_RUNS = REPEAT_TITLES | JOB_TITLES
_VALUES = frozenset({"value", "values", "level", "setting"})  # plain titles, beside parameters
_NAMES_OF_RUNS = frozenset({"name", "runname", "experimentname"})  # plain titles
_NUMBERED_NAME = re.compile(r"([^\d]+)(\d+(?:\.\d+)?)")  # lr=0.1, trainsample_3404
_OBJECTIVES = frozenset({"objective", "objectives", "loss", "losses", "criterion"})
_MOST_SPACES = 5  # in the name of a metric; more is a heading
_STATED = re.compile(r"(\S+(?: \S+)?)[ :=]+[+\-−]?\d+[.,]?\d*(?![\w@])")  # RMSE 17.1±4.6


def find_compared(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str | None:
    """Return the column of known detectors, or else the one that can only be theirs."""
    if roles.wide == "detector":
        return None
    free = [column for column in free if _may_name(frame[column])]
    free = [c for c in free if not words_of(c) & INCIDENTAL] or free
    surely = _known_detectors(frame, free)
    if surely is not None:
        return surely
    wide = wide_names(roles)
    setups = [c for c in free if plain(c) in _OF_RUNS and name_setups(frame[c].tolist())]
    known = {*TITLES} - {*MODEL_TITLES, *map(plain, setups)}
    rest = [c for c in free if plain(c) not in known]
    rest += [c for c in free if c not in rest and _is_of_titles(frame[c])]
    free = rest if rest or wide else free  # a checkpoint is compared only where nothing else is
    if are_runs(wide):
        return _beside_numbers(frame, free, roles)
    if not roles.measured or mostly(wide, is_detector) or mostly(wide, is_model):
        require_no_detectors(frame, free, roles)
        return None
    return _unknown_detectors(frame, free, roles)


def _is_of_titles(texts: pd.Series[str]) -> bool:
    """Whether "Step" above names without any number is what the titles beside it are called."""
    numbered = plain(str(texts.name)) in _NUMBERED
    return numbered and not any(map(str.isdigit, "".join(texts.unique())))


def _unknown_detectors(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str | None:
    """Return the column that can only name what is compared, where no name is known, or ask."""
    wide = wide_names(roles)
    _require_no_pairs(frame, [column for column in free if is_untitled(column)], roles)
    named = _by_model_title(frame, free, roles)
    require_no_methods(frame, free, named, roles)
    if _is_beside_data(frame, free, wide, roles):
        return named or free[0]  # whatever its title, such as "ID / OOD data set"
    about = [column for column in free if is_about_data(frame, column)]
    free = _without_setting([column for column in free if column not in about], wide)
    if named is not None or not free:
        roles.are_titles = named is None and not about and _only_titles(wide, roles)
        return named
    about += [c for c in (roles.ood, roles.id) if c is not None]
    if _are_in_titles(frame, free, about, roles):
        roles.are_titles = True
        return None
    return _only_one(frame, free, roles)


def _is_beside_data(
    frame: pd.DataFrame, free: Sequence[str], wide: Sequence[str], roles: Roles
) -> bool:
    """Whether titles name data sets, and the only other column does not."""
    titled = are_data(wide) or bool(roles.wide)
    return titled and len(free) == 1 and share(frame[free[0]], is_data) < 0.5


def _are_in_titles(
    frame: pd.DataFrame, free: Sequence[str], about: Sequence[str], roles: Roles
) -> bool:
    """Whether titles name what is compared: lines are told by headings, or by names of data."""
    wide = wide_names(roles)
    if len(wide) < 2 or are_data(wide):
        return False
    headings = roles.metric is not None and all(column.endswith(SECTION) for column in free)
    return headings or any(_are_told_by(frame, c, free) for c in about)


def _without_setting(free: list[str], wide: Sequence[str]) -> list[str]:
    """Leave out the only column if it is a setting or a condition: all may be of one model."""
    if len(free) != 1 or wide:
        return free
    known = names_condition(free[0]) or plain(free[0]) in LABELS
    return [] if known or mentions_setting(free[0]) else free


def _only_titles(wide: Sequence[str], roles: Roles) -> bool:
    """Whether nothing but titles can name what is compared: rows name metrics, and nothing else."""
    beside = roles.id is None and roles.ood is None
    return roles.metric is not None and beside and len(wide) > 1 and not are_data(wide)


def _are_told_by(frame: pd.DataFrame, column: str, others: Sequence[str]) -> bool:
    """Whether a column names every line, and the others merely say of what kind it is."""
    return frame[column].is_unique and all(2 * frame[c].nunique() <= len(frame) for c in others)


def _may_name(texts: pd.Series[str]) -> bool:
    """Whether a column may name detectors: it varies, is mostly filled, and names no metrics."""
    filled = len(texts.unique()) > 1 and 2 * sum(map(is_gap, texts)) < len(texts)
    worded = share(texts, lambda text: any(map(str.isalpha, text))) > 0.5  # not 2/3
    trained = not _OBJECTIVES.isdisjoint(words_of(str(texts.name)))  # by MSE, by cross-entropy
    named = max(share(texts, is_metric) if not trained else 0.0, share(texts, is_mere_average))
    others = (are_checkpoints, are_yes_or_no, are_data_files, are_remarks)
    return filled and worded and named < 0.5 and not any(test(texts.unique()) for test in others)


def _known_detectors(frame: pd.DataFrame, free: Sequence[str]) -> str | None:
    """Return the column that holds most names of detectors, if at least every second is one."""
    sure = [c for c in free if any(map(is_surely_detector, frame[c].unique()))]
    known = {column: share(frame[column], is_detector) for column in sure}
    best = max(known, key=known.__getitem__, default=None)
    return best if best is not None and known[best] >= 0.5 else None


def _only_one(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str:
    """Return the column that can only be that of the detectors, or ask."""
    wide = wide_names(roles)
    free = _without_twins(frame, free, roles)
    untitled = [column for column in free if is_untitled(column)]
    if len(free) > 1 and len(untitled) == 1 and are_data(wide):
        return untitled[0]
    if len(free) > 1 and untitled == free and (known := _known_models(frame, free)):
        return known
    if len(free) > 1 and (method := _method_beside_settings(free)):
        return method
    if len(free) > 1:
        raise which_column(frame, free, roles)
    if len(wide) > 1 and not are_data(wide) and not roles.wide:
        raise which_axis(frame, free[0], roles)
    _require_no_values(frame, free[0], roles)
    names = [str(name) for name in frame[free[0]].unique()]
    heading = free[0].endswith(SECTION) and roles.id is None and roles.ood is None
    unsure = _may_be_data(frame, free[0]) if is_untitled(free[0]) else heading
    if unsure and not any(map(is_compared, names)):
        raise models_or_data(names, free[0], roles)
    return free[0]


def _method_beside_settings(free: Sequence[str]) -> str | None:
    """Return the only column called a method of something, where all others are settings.

    >>> _method_beside_settings(["Noise Regime", "Estimation Method"])
    'Estimation Method'
    """
    methods = [c for c in free if plain(c.split()[-1]) in METHODS]
    others = [c for c in free if c not in methods]
    return methods[0] if len(methods) == 1 and all(map(mentions_setting, others)) else None


def _may_be_data(frame: pd.DataFrame, column: str) -> bool:
    """Whether some names of a column are those of data, and no other column holds more of them."""
    known = {c: share(frame[c], is_data) for c in frame.columns}
    beside = [other for c, other in known.items() if c != column]
    return known[column] > 0 and max(beside, default=0.0) < max(0.5, known[column])


def _require_no_pairs(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> None:
    """Ask what two columns are that hold the same names: data of training and of tests, perhaps."""
    for first, second in combinations(free, 2):
        names = [str(name) for name in frame[first].unique()]
        if {*names} == {*frame[second].unique()} and not any(map(is_compared, names)):
            raise trained_and_tested(names, first, second, roles)


def _known_models(frame: pd.DataFrame, free: Sequence[str]) -> str | None:
    """Return the only column with several known models, where no other name is that of one."""
    names = {column: [str(name) for name in frame[column].unique()] for column in free}
    known = {c: sum(map(is_compared, own)) for c, own in names.items()}
    best = max(free, key=known.__getitem__)
    alone = sum(known.values()) == known[best] > 1
    return best if alone and mostly(names[best], is_compared) else None


def _require_no_values(frame: pd.DataFrame, column: str, roles: Roles) -> None:
    """Ask whether settings are compared that one column names and another gives the values of."""
    values = [c for c in frame.columns if plain(c) in _VALUES and c not in roles.measured]
    told = [c for c in values if not frame.duplicated([column, c]).any()]
    if told and names_parameters(column) and not frame[column].is_unique:
        raise UserError(
            f"Lines differ in settings, which '{column}' and '{told[0]}' name: if these are "
            f"compared, use {roles.option(detector=f'{column}+{told[0]}')}; else there is nothing "
            "to compare."
        )


def _require_no_setting(frame: pd.DataFrame, column: str, roles: Roles) -> None:
    """Ask whether a setting is compared, where names of runs say nothing but its value."""
    parts = [_NUMBERED_NAME.fullmatch(name) for name in frame[column]]
    if plain(column) not in _NAMES_OF_RUNS or len({found and found[1] for found in parts}) > 1:
        return
    values = [found[2] if found else "" for found in parts]
    same = [c for c in frame.columns if c != column and frame[c].tolist() == values]
    if same:
        raise UserError(
            f"Lines differ in '{same[0]}', which '{column}' names: if its values are compared, use "
            f"{roles.option(detector=column)}; else there is nothing to compare."
        )


def _without_twins(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> list[str]:
    """Leave out columns that merely name otherwise what the data sets or an earlier column name."""
    kept = [column for column in (roles.id, roles.ood) if column is not None]
    others = []
    for column in free:
        if len(free) > 1 and any(_are_twins(frame, column, other) for other in kept):
            continue
        kept.append(column)
        others.append(column)
    return others or list(free)


def _are_twins(frame: pd.DataFrame, column: str, other: str) -> bool:
    """Whether two columns name the same things, each of which has several lines."""
    pairs = len(frame[[column, other]].drop_duplicates())
    same = frame[column].nunique() == frame[other].nunique() == pairs
    return same and 2 < 2 * pairs <= len(frame)


def _beside_numbers(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str | None:
    """Return the column of names beside columns that are numbered: runs of each."""
    named = _by_model_title(frame, free, roles)
    free = [column for column in free if not is_about_data(frame, column)]
    if named is not None or not free or roles.ood or roles.id:
        return named or next(iter(free), None)
    unnamed = unnamed_option(roles)
    raise UserError(
        f"Columns are numbered like runs: if '{free[0]}' names detectors or models, use "
        f"{roles.option(detector=free[0], **unnamed)}{or_lower(roles)}; if it names the data sets "
        "of one model, there is nothing to compare."
    )


def _by_model_title(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str | None:
    """Return the column whose title says that it names models, where none names detectors."""
    wide = [] if are_runs(wide_names(roles)) else wide_names(roles)
    columns = (*roles.factors, *free)
    titles = {plain(part): c for c in columns for part in c.split(" / ")}  # System / Condition
    titles |= {plain(column): column for column in columns}
    titles = {title: c for title, c in titles.items() if len(frame[c].unique()) > 1}
    allowed = (*MODEL_TITLES, *(() if wide and not are_data(wide) else ARCHITECTURE_TITLES))
    known = [titles[title] for title in allowed if title in titles]
    found = next(iter(known), None)
    if found is not None and plain(found) in ARCHITECTURE_TITLES:
        others = known[1:] or _names_of_lines(frame, found, free)
        # Names in titles that are crossed with data, of which nothing says that they are settings.
        others += [c for c in free if c in HEADERS and c != found and len(frame[c].unique()) > 1]
        if others:
            raise which_column(frame, [found, *others], roles)
    if found is not None:
        require_no_rivals(frame, found, free, roles)
        _require_no_setting(frame, found, roles)
    if found in roles.factors:
        if all(text.isdigit() for text in frame[found].unique()):
            return None
        roles.factors.remove(found)
    return found


def _names_of_lines(frame: pd.DataFrame, found: str, free: Sequence[str]) -> list[str]:
    """Return columns with a name of its own for every line, beside one that few lines differ in."""
    if 2 * frame[found].nunique() > len(frame):
        return []
    other = {*TITLES, *SET_TITLES}
    return [c for c in free if c != found and frame[c].is_unique and plain(c) not in other]


def is_untitled(column: str) -> bool:
    """Whether a column has no title of its own."""
    return bool(re.fullmatch(r"column \d+|unnamed: ?\d+|", column.lower()))


def is_metric(text: str) -> bool:
    """Whether a text is the name of a metric, or states one with its value."""
    if text.count(" ") > _MOST_SPACES:
        return False
    stated = _STATED.match(text)
    metric = metric_named(stated[1] if stated else text)
    if stated and metric:
        return True
    return bool(metric) and (metric not in GENERAL or not without_metric(text))
