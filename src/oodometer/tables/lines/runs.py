"""Which columns tell runs apart, and what repeated lines are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import TYPE_CHECKING

import numpy as np

from oodometer.factors import TITLES, plain
from oodometer.results import NOT_GIVEN
from oodometer.tables.cells import numeric_share
from oodometer.tables.columns import with_columns
from oodometer.tables.guessing.roles import Roles
from oodometer.tables.lines.kinds import (
    is_decimal,
    require_crossed,
    require_known_kinds,
    require_met,
    require_one_scale,
    require_shared,
    with_named_corruptions,
)
from oodometer.tables.lines.levels import (
    count_levels,
    determines,
    id_column,
    is_scattered,
    is_unplanned,
)
from oodometer.tables.lines.long import Long
from oodometer.tables.lines.redundant import (
    RUN_TITLES,
    are_as_distinct,
    partly_given,
    reason_as_finer,
    reason_as_name,
    reason_as_outcome,
    reason_beside_another,
)
from oodometer.tables.lines.repeats import each_once, require_told_apart
from oodometer.tables.vocabulary.titles import (
    JOB_TITLES,
    REPEAT_TITLES,
    is_incidental,
    mentions_setting,
    repeat_name,
)

if TYPE_CHECKING:
    import pandas as pd

_SETTINGS = ("noise_rate", "num_classes", "nclasses", "classes")  # about a run, or what it varied
_SUBSETS = 64  # of columns, tried to find those that tell runs apart
_USUAL = 0.5  # of the numbers of runs must be the same for what was planned
_MOSTLY = 0.7  # of the lines must have a number of their own for what no setting has
_SHARED = 0.5  # of the lines must lie at levels that several detectors have
_DIGITS = re.compile(r"\.\d{7}|e-1[2-9]$")  # this many decimals are computed, not set
_TYPED = 3  # digits of a setting
_HASH = re.compile(r"(?=\w*[a-f])(?=\w*\d)[0-9a-f]{7,64}")


@dataclass(frozen=True, eq=False)
class Runs:
    """The lines of a table, each cell of every run once, and why columns are not factors."""

    long: Long
    set_aside: Mapping[str, str]  # title of a column -> why it is not a factor


def find_runs(long: Long, notes: list[str], roles: Roles) -> Runs:
    """Choose the columns that tell runs apart, and name them as protocols know them.

    The columns that the user chose stay factors unless they are constant.
    """
    long = replace(long, frame=_one_spelling(long.frame, notes))
    long = _with_named_repeats(_with_promoted_settings(long))
    long = with_named_corruptions(long, roles)
    wanted = {name for name, title in long.factors.items() if title in roles.chosen}
    given = long
    long, reasons = _choose_factors(long, wanted, notes)
    notes += _notes_on_empty(long)
    require_known_kinds(long, roles)
    require_shared(long, roles)
    require_one_scale(long, roles)
    require_met(long, roles)
    require_crossed(long, roles)
    if not wanted:
        lines = given.frame.assign(detector=long.frame["detector"])
        require_told_apart(long, replace(given, frame=lines), roles)
    return Runs(each_once(_with_named_jobs(long), roles, notes), reasons)


def _notes_on_empty(long: Long) -> list[str]:
    """Say which factors are not given on some lines."""
    empty = [n for n in long.factors if NOT_GIVEN in long.frame[n].unique()]
    return [f"{n} is empty in some rows, which form a level of their own" for n in empty]


def _one_spelling(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Take names that differ in capitals or spaces only for the same."""
    for column in [c for c in frame.columns if c in ("detector", "id", "ood")]:
        first: dict[str, str] = {}
        spelling = {
            name: first.setdefault("".join(name.casefold().split()), name)
            for name in map(str, frame[column].unique())
        }
        other = [f"{name} = {known}" for name, known in spelling.items() if name != known]
        if other:
            frame = with_columns(frame, {column: frame[column].replace(spelling)})
            notes.append(
                f"names that differ only in capitalization were merged: {', '.join(other)}"
            )
    return frame


def _with_promoted_settings(long: Long) -> Long:
    """Make a setting among the covariates a factor, if no factor determines it."""
    frame, factors, covariates = long.frame, dict(long.factors), dict(long.covariates)
    settings = [name for name in _SETTINGS if name in covariates]
    _, aside = _set_aside_alone(long, (), []) if settings else (frame, {})
    telling = [c for c, title in factors.items() if c not in aside and not is_incidental(title)]
    for name in settings:
        keys = [c for c in telling if not _joins(frame, c, name, telling)] + id_column(frame)
        per_cell = frame.groupby(keys)[name].nunique().max() if keys else frame[name].nunique()
        if per_cell > 1:
            frame = with_columns(frame, {name: frame[name].map("{:g}".format)})
            factors[name] = covariates.pop(name)
    return replace(long, frame=frame, factors=factors, covariates=covariates)


def _joins(frame: pd.DataFrame, column: str, setting: str, others: Iterable[str]) -> bool:
    """Whether a column is a name for a setting and another factor: exp-42-0.4."""
    finest = count_levels(frame, column)
    beside = [c for c in others if c != column and count_levels(frame, c) < finest]
    known = determines(frame, column, setting) and not determines(frame, setting, column)
    return known and any(determines(frame, column, c) for c in beside)


def _with_named_repeats(long: Long) -> Long:
    """Call columns that number repeats seed, run, fold, split or repeat, as protocols know them."""
    names: dict[str, str] = {}
    for column in long.factors:
        name = repeat_name(column)
        if name and name not in long.frame.columns and name not in names.values():
            names[column] = name
    return _renamed(long, names)


def _with_named_jobs(long: Long) -> Long:
    """Rename the job number that distinguishes runs to run: it is not a condition."""
    jobs = [name for name in long.factors if plain(name) in JOB_TITLES]
    if len(jobs) != 1 or "run" in long.frame.columns:
        return long
    return _renamed(long, {jobs[0]: "run"})


def _renamed(long: Long, names: Mapping[str, str]) -> Long:
    factors = {names.get(name, name): title for name, title in long.factors.items()}
    return replace(long, frame=long.frame.rename(columns=names), factors=factors)


def _choose_factors(
    long: Long, wanted: Collection[str], notes: list[str]
) -> tuple[Long, dict[str, str]]:
    """Keep the columns that tell runs apart: not constant, not determined by anything else.

    Return also the titles of the others, with the reason. Those that are `wanted` stay, unless
    they are constant.
    """
    frame, reasons = _set_aside_alone(long, wanted, notes)
    factors = [column for column in long.factors if column not in reasons]
    reasons |= _redundant(frame, [c for c in factors if c not in wanted], factors)
    if not wanted:
        reasons |= dict.fromkeys(_incidental(frame, factors), "differs from line to line")
        rest = [column for column in factors if column not in reasons]
        reasons |= dict.fromkeys(partly_given(frame, rest), "given on some lines only")
    factors = [column for column in factors if column not in reasons]
    for column in [c for c in factors if is_incidental(long.factors[c]) and c not in wanted]:
        others = [other for other in factors if other != column]
        if are_as_distinct(frame, others, column):
            factors, reasons[column] = others, "says nothing about a run"
    kept = {name: title for name, title in long.factors.items() if name not in reasons}
    titles = {long.factors[name]: reason for name, reason in reasons.items()}
    return replace(long, frame=frame.drop(columns=list(reasons)), factors=kept), titles


def _redundant(frame: pd.DataFrame, columns: Collection[str], factors: list[str]) -> dict[str, str]:
    """Take columns out of the factors that tell no more than others, and say why."""
    reasons: dict[str, str] = {}
    for rule in (reason_as_name, reason_as_finer, reason_beside_another, reason_as_outcome):
        order = factors[::-1] if rule is reason_beside_another else list(factors)
        if rule is reason_beside_another:  # of twins, words stay: Sex, not the number of patients
            order.sort(key=lambda c: not _is_mere_number(frame, c))
        for column in [c for c in order if c in columns]:
            reason = rule(frame, column, [other for other in factors if other != column])
            if reason:
                factors.remove(column)
                reasons[column] = reason
    return reasons


def _is_mere_number(frame: pd.DataFrame, column: str) -> bool:
    """Whether levels are numbers below a title that names no setting."""
    known = plain(column) in TITLES or mentions_setting(column)
    return not known and numeric_share(frame[column].unique()) == 1.0


def _set_aside_alone(
    long: Long, wanted: Collection[str], notes: list[str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the rows, and the columns that can be set aside without checking other factors."""
    frame = long.frame
    reasons: dict[str, str] = {}
    several = count_levels(frame, "detector") > 1
    for column in long.factors:
        if count_levels(frame, column) == 1:
            reasons[column] = f"always {frame[column].iloc[0]}"
        elif column in wanted:
            continue
        elif (
            several
            and not _tells_of_sets(frame, column)
            and _is_parameter(frame, column)
            and (not is_incidental(column))
        ):
            if reason := _reason_as_parameter(frame, column, long.factors):
                reasons[column] = reason
                continue
            if plain(column) in RUN_TITLES:
                continue
            frame = _with_parameter(frame, column)
            notes.append(f"{column} is given for some detectors only: it became part of their name")
            reasons[column] = "part of the detector's name"
        elif reason := _reason_alone(frame, column, several):
            reasons[column] = reason
    return frame, reasons


def _reason_alone(frame: pd.DataFrame, column: str, several: bool) -> str:
    """Say why a column cannot tell runs apart, if detectors and outlier sets alone show it."""
    if several and determines(frame, "detector", column):
        return "determined by the detector"
    if plain(column) in REPEAT_TITLES:
        return ""
    if determines(frame, "ood", column):
        return "determined by the outlier set"
    if several and not _is_shared(frame, column):
        return "differs from detector to detector"
    if all(map(_HASH.fullmatch, frame[column].unique())):
        return "hashes"
    measured = not mentions_setting(column) and _is_measured(frame, column)
    found = several and (is_unplanned(frame, column) or _hardly_repeats(frame, column))
    if measured or found:
        return "numbers that are not settings"
    return ""


def _hardly_repeats(frame: pd.DataFrame, column: str) -> bool:
    """Whether numbers below a title that names no setting are others on most lines: val_correct."""
    once = frame[frame["metric"] == frame["metric"].iloc[0]]
    levels = once[column].unique()
    return _MOSTLY * len(once) < len(levels) < len(once) and _is_mere_number(once, column)


def _reason_as_parameter(frame: pd.DataFrame, column: str, factors: Iterable[str]) -> str:
    """Say that numbers were found in each run, such as an epoch by validation: no parameters.

    Where seeds number runs, lines are told apart without them. A name of each run tells all apart.
    """
    if _is_found_anew(frame, column):
        return "another one in each run"
    repeats = [n for n in factors if plain(n) in RUN_TITLES and not _names_lines(frame, n)]
    if not repeats or column in repeats:
        return ""
    cell = [c for c in ("detector", "id", "ood", "metric") if c in frame.columns]
    others = [c for c in factors if c != column and c not in repeats and _is_shared(frame, c)]
    told = not frame.duplicated([*cell, *repeats, *others]).any()
    return "found in each run" if told else ""


def _names_lines(frame: pd.DataFrame, column: str) -> bool:
    """Whether every line has a level of its own, in words: the name of a run."""
    once = frame[frame["metric"] == frame["metric"].iloc[0]]
    return bool(once[column].is_unique) and numeric_share(once[column]) == 0


def _is_found_anew(frame: pd.DataFrame, column: str) -> bool:
    """Whether values of a parameter come irregularly on several data sets, as tuning finds them.

    What was varied on purpose has the same number of runs with each value on each data set.
    """
    import pandas as pd

    lines = frame[frame["metric"] == frame["metric"].iloc[0]]
    given = lines[lines[column] != NOT_GIVEN].groupby("detector", sort=False)
    sets = [*id_column(frame), "ood"]
    tables = [pd.crosstab([part[c] for c in sets], part[column]) for _, part in given]
    varied = [table.to_numpy().ravel() for table in tables if min(table.shape) > 1]
    usual = [np.unique(counts, return_counts=True)[1].max() / len(counts) for counts in varied]
    return bool(varied) and max(usual) <= _USUAL


def _tells_of_sets(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column is a property of data sets, such as their size."""
    return any(determines(frame, name, column) for name in id_column(frame))


def _is_parameter(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column is empty for some detectors, and several values for others."""
    once = frame[frame["metric"] == frame["metric"].iloc[0]]
    given = once.loc[once[column] != NOT_GIVEN, column]
    hardly_repeat = 2 * len(given.unique()) > len(given) and is_decimal(given.unique())
    if hardly_repeat or (not mentions_setting(column) and _is_measured(frame, column)):
        return False  # a measurement
    empty = (frame[column] == NOT_GIVEN).groupby(frame["detector"]).mean()
    levels = frame.groupby("detector")[column].nunique()
    return bool((empty == 1).any() and (empty < 1).any() and (levels[empty == 0] > 1).any())


def _with_parameter(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    given = frame[column] != NOT_GIVEN
    named = frame["detector"] + " (" + column + "=" + frame[column] + ")"
    return frame.assign(detector=frame["detector"].where(~given, named))


def _is_shared(frame: pd.DataFrame, column: str) -> bool:
    """Whether enough lines lie at levels at which several detectors were measured."""
    detectors = frame.groupby(column)["detector"].nunique()
    return bool((frame[column].map(detectors) > 1).mean() >= _SHARED)


def _incidental(frame: pd.DataFrame, factors: list[str]) -> list[str]:
    """Name columns that prevent pairing of detectors, if rows are distinct without them.

    Such are the number of a job, its date or its commit: with them no two detectors were ever
    measured in the same run. The fewest columns stay that tell lines apart and let them meet.
    """
    fixed = [c for c in ("id", "ood", "metric") if c in frame.columns]
    detectors = count_levels(frame, "detector")

    def meet(names: Iterable[str]) -> bool:
        met = frame.groupby([*fixed, *names])["detector"].nunique() == detectors
        return bool(met.mean() > _SHARED)

    if len(factors) < 2 or detectors < 2 or meet(factors):
        return []
    subsets = (part for size in range(1, len(factors)) for part in combinations(factors, size))
    for part in islice(subsets, _SUBSETS):
        if not frame.duplicated(["detector", *fixed, *part]).any() and meet(part):
            return [name for name in factors if name not in part]
    return _own_numbers(frame, factors, fixed)


def _own_numbers(frame: pd.DataFrame, factors: list[str], fixed: list[str]) -> list[str]:
    """Name columns of numbers that keep detectors apart which would meet without them.

    Nothing says that they are settings, and lines are distinct without them.
    """
    left: list[str] = []
    for column in [c for c in factors if _is_mere_number(frame, c)]:
        others = [c for c in factors if c != column and c not in left]
        cell = [*fixed, *others]
        if cell and not frame.duplicated(["detector", *cell]).any():
            met = frame.groupby([*cell, column])["detector"].nunique().max()
            left += [column] * bool(met < frame.groupby(cell)["detector"].nunique().max())
    return left


def _is_measured(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column holds numbers that hardly repeat or have a spread, as no setting does."""
    levels = [level for level in frame[column].unique() if level != NOT_GIVEN]
    if any("±" in level for level in levels):
        return True
    fine = sum("." in level or "," in level for level in levels)
    many = len(levels) > 12 and 2 * fine > len(levels)
    exact = 3 * sum(bool(_DIGITS.search(level)) for level in levels) > len(levels)
    computed = len(levels) > 2 and 3 * sum(map(_is_computed, levels)) > 2 * len(levels)
    scattered = 2 * fine > len(levels) and is_scattered(frame, column)
    return bool((many or exact or computed or scattered) and numeric_share(levels) == 1.0)


def _is_computed(level: str) -> bool:
    """Whether a number has more digits than people type: 0.81653, but not 0.0001 or 1024."""
    mantissa = level.casefold().partition("e")[0]
    return "." in mantissa and len(mantissa.replace(".", "").strip("0-")) > _TYPED
