"""Which columns tell runs apart, and what repeated lines are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import LABELS, TITLES, are_checkpoints, by_title, plain
from oodometer.results import NOT_GIVEN
from oodometer.tables.cells import numeric_share
from oodometer.tables.guessing.likeness import are_numbers
from oodometer.tables.guessing.roles import Roles
from oodometer.tables.lines.long import Long
from oodometer.tables.lines.repeats import each_once, id_column, require_alike
from oodometer.tables.vocabulary.names import (
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
_SHARED = 0.5  # of the lines must lie at levels that several detectors have
_DIGITS = re.compile(r"\.\d{7}")  # this many decimals are computed, not set
_TYPED = 3  # digits of a setting
_HASH = re.compile(r"(?=\w*[a-f])(?=\w*\d)[0-9a-f]{7,64}")
_UNTITLED = re.compile(r"column \d+|unnamed: ?\d+|", re.IGNORECASE)
_RUN_TITLES = REPEAT_TITLES | JOB_TITLES


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
    wanted = {name for name, title in long.factors.items() if title in roles.chosen}
    lines = long.frame
    long, reasons = _choose_factors(long, wanted, notes)
    _require_known_kinds(long, roles)
    if not wanted:
        require_alike(long, lines.assign(detector=long.frame["detector"]), roles)
    return Runs(each_once(_with_named_jobs(long), roles, notes), reasons)


def _require_known_kinds(long: Long, roles: Roles) -> None:
    """Ask what a column is whose title is not known, where its levels allow several readings."""
    for name, title in long.factors.items():
        if title in roles.chosen or plain(title) in {*TITLES, *LABELS} or mentions_setting(title):
            continue
        levels = list(long.frame[name].unique())
        if _UNTITLED.fullmatch(title) and numeric_share(levels) == 0:
            raise UserError(
                f"Nothing says what {levels[0]}, {levels[1]}{', …' * (len(levels) > 2)} are "
                f"('{title}'): conditions ({roles.option(condition=title)}), data sets "
                f"({roles.option(id=title)}) or the same results in other forms "
                f"({roles.option(re_evaluation=title)})?"
            )
        sets = next((c for c in ("id", "ood") if _is_nested(long.frame, name, c)), None)
        if sets is not None and not _is_decimal(levels):
            raise UserError(
                f"Each '{title}' belongs to one data set: is it a part of the set "
                f"({roles.option(part=title)}), a repeated run ({roles.option(repeat=title)}) or a "
                f"condition ({roles.option(condition=title)})?"
            )
        if are_numbers(sorted(levels, key=lambda level: (len(level), level))):
            raise UserError(
                f"'{title}' numbers {len(levels)} levels: are they repeated runs "
                f"({roles.option(repeat=title)}) or conditions ({roles.option(condition=title)})?"
            )


def _is_nested(frame: pd.DataFrame, column: str, sets: str) -> bool:
    """Whether every level of a column lies in one of several sets that have several of them."""
    if sets not in frame.columns or _levels(frame, sets) < 2:
        return False
    pairs = frame[[sets, column]].drop_duplicates()
    several = pairs[sets].value_counts() > 1
    return bool(several.mean() > 0.5) and len(pairs) == _levels(frame, column)


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
            frame = frame.assign(**{column: frame[column].replace(spelling)})
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
            frame = frame.assign(**{name: frame[name].map("{:g}".format)})
            factors[name] = covariates.pop(name)
    return replace(long, frame=frame, factors=factors, covariates=covariates)


def _joins(frame: pd.DataFrame, column: str, setting: str, others: Iterable[str]) -> bool:
    """Whether a column is a name for a setting and another factor: exp-42-0.4."""
    beside = [c for c in others if c != column and _levels(frame, c) < _levels(frame, column)]
    known = _determines(frame, column, setting) and not _determines(frame, setting, column)
    return known and any(_determines(frame, column, c) for c in beside)


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
    for rule, order in ((_reason_as_name, factors), (_reason_beside_another, factors[::-1])):
        for column in [c for c in order if c in factors and c not in wanted]:
            reason = rule(frame, column, [other for other in factors if other != column])
            if reason:
                factors.remove(column)
                reasons[column] = reason
    if not wanted:
        reasons |= dict.fromkeys(_incidental(frame, factors), "differs from line to line")
    factors = [column for column in factors if column not in reasons]
    for column in [c for c in factors if is_incidental(long.factors[c]) and c not in wanted]:
        others = [other for other in factors if other != column]
        if _are_as_distinct(frame, others, column):
            factors, reasons[column] = others, "says nothing about a run"
    kept = {name: title for name, title in long.factors.items() if name not in reasons}
    titles = {long.factors[name]: reason for name, reason in reasons.items()}
    return replace(long, frame=frame.drop(columns=list(reasons)), factors=kept), titles


def _are_as_distinct(frame: pd.DataFrame, columns: list[str], other: str) -> bool:
    """Whether lines are told apart by some columns as well as with another one."""
    cell = ["detector", *id_column(frame), "ood", "metric", *columns]
    return bool(frame.duplicated(cell).sum() == frame.duplicated([*cell, other]).sum())


def _set_aside_alone(
    long: Long, wanted: Collection[str], notes: list[str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the rows, and the columns that can be set aside without checking other factors."""
    frame = long.frame
    reasons: dict[str, str] = {}
    several = _levels(frame, "detector") > 1
    for column in long.factors:
        if _levels(frame, column) == 1:
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
            if plain(column) in _RUN_TITLES:
                continue
            frame = _with_parameter(frame, column)
            notes.append(f"{column} is given for some detectors only: it became part of their name")
            reasons[column] = "part of the detector's name"
        elif reason := _reason_alone(frame, column, several):
            reasons[column] = reason
    return frame, reasons


def _reason_alone(frame: pd.DataFrame, column: str, several: bool) -> str:
    """Say why a column cannot tell runs apart, if detectors and outlier sets alone show it."""
    if several and _determines(frame, "detector", column):
        return "determined by the detector"
    if plain(column) in REPEAT_TITLES:
        return ""
    if _determines(frame, "ood", column):
        return "determined by the outlier set"
    if several and not _is_shared(frame, column):
        return "differs from detector to detector"
    if all(map(_HASH.fullmatch, frame[column].unique())):
        return "hashes"
    measured = not mentions_setting(column) and _is_measured(frame, column)
    return "numbers that are not settings" if measured else ""


def _reason_as_name(frame: pd.DataFrame, column: str, others: list[str]) -> str:
    """Say which other columns one is merely a name for, if it is."""
    parts = _parts(frame, column, others)
    if len(parts) < 2:
        return f"determined by {parts[0]}" if parts else ""
    return f"determined by {', '.join(parts[:-1])} and {parts[-1]} together"


def _reason_beside_another(frame: pd.DataFrame, column: str, others: list[str]) -> str:
    """Say which other column determines a condition, if one does."""
    if plain(column) in _RUN_TITLES:
        return _reason_as_label(frame, column, others)
    repeats = [
        c
        for c in others
        if plain(c) in JOB_TITLES or by_title(c, frame[c].unique()).kind == "repeat"
    ]
    files = are_checkpoints(frame[column].unique())  # the names of runs that are numbered, too
    same = [c for c in repeats if files or (frame[c] == frame[column]).all()]
    for other in [*(c for c in others if c not in repeats), *id_column(frame), *same]:
        finer = frame[other].nunique() >= frame[column].nunique()
        if finer and _determines(frame, other, column):
            return f"determined by {other}"
    return ""


def _reason_as_label(frame: pd.DataFrame, column: str, others: list[str]) -> str:
    """Say which condition or data set the name of a run merely repeats, one name for each."""
    is_name = repeat_name(column) in ("run", None) and not all(map(str.isdigit, frame[column]))
    known = [c for c in others if plain(c) not in _RUN_TITLES] + id_column(frame)
    twins = [c for c in known if is_name and _determine_each_other(frame, column, c)]
    return f"determined by {twins[0]}" if twins else ""


def _parts(frame: pd.DataFrame, column: str, others: list[str]) -> list[str]:
    """Name the columns that together say what one says alone, which is a name for them.

    Such are the number of a job, the name of a run, and that of a configuration. A seed is more
    than a name, and what labels were trained on is known by that name only.
    """
    title = plain(column)
    is_known = title in TITLES and title not in _RUN_TITLES  # an epoch, a patient
    if is_known or "noise" in title or "train" in title or repeat_name(column) not in (None, "run"):
        return []
    if title in _RUN_TITLES:
        repeats = [other for other in others if plain(other) in REPEAT_TITLES]
        same = [other for other in repeats if _determine_each_other(frame, column, other)]
        if same or (title in REPEAT_TITLES and not repeats):
            return same[:1]
    finest = _levels(frame, column)
    known = [*others, *(name for name in id_column(frame) if _levels(frame, name) > 1)]
    parts = [c for c in known if _levels(frame, c) < finest and _determines(frame, column, c)]
    alike = len(parts) > 1 and len(frame[parts].drop_duplicates()) == finest
    return parts if alike else []


def _determines(frame: pd.DataFrame, column: str, other: str) -> bool:
    """Whether every level of a column has one level of the other."""
    levels = _levels(frame, column)
    return levels > 1 and len(frame[[column, other]].drop_duplicates()) == levels


def _determine_each_other(frame: pd.DataFrame, column: str, other: str) -> bool:
    return _determines(frame, column, other) and _determines(frame, other, column)


def _levels(frame: pd.DataFrame, column: str) -> int:
    return len(frame[column].unique())


def _reason_as_parameter(frame: pd.DataFrame, column: str, factors: Iterable[str]) -> str:
    """Say that numbers were found in each run, such as an epoch by validation: no parameters.

    Where seeds number runs, lines are told apart without them.
    """
    repeats = [name for name in factors if plain(name) in _RUN_TITLES]
    if not repeats or column in repeats:
        return ""
    cell = [c for c in ("detector", "id", "ood", "metric") if c in frame.columns]
    others = [c for c in factors if c != column and c not in repeats and _is_shared(frame, c)]
    told = not frame.duplicated([*cell, *repeats, *others]).any()
    return "found in each run" if told else ""


def _tells_of_sets(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column is a property of data sets, such as their size."""
    return any(_determines(frame, name, column) for name in id_column(frame))


def _is_parameter(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column is empty for some detectors, and several values for others."""
    given = frame.loc[frame[column] != NOT_GIVEN, column]
    if 2 * len(given.unique()) > len(given) and _is_decimal(given.unique()):
        return False  # a measurement
    empty = (frame[column] == NOT_GIVEN).groupby(frame["detector"]).mean()
    levels = frame.groupby("detector")[column].nunique()
    return bool((empty == 1).any() and (empty < 1).any() and (levels[empty == 0] > 1).any())


def _is_decimal(levels: Iterable[str]) -> bool:
    return any("." in level for level in levels) and numeric_share(levels) == 1.0


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
    detectors = _levels(frame, "detector")

    def meet(names: Iterable[str]) -> bool:
        met = frame.groupby([*fixed, *names])["detector"].nunique() == detectors
        return bool(met.mean() > _SHARED)

    if len(factors) < 2 or detectors < 2 or meet(factors):
        return []
    subsets = (part for size in range(1, len(factors)) for part in combinations(factors, size))
    for part in islice(subsets, _SUBSETS):
        if not frame.duplicated(["detector", *fixed, *part]).any() and meet(part):
            return [name for name in factors if name not in part]
    return []


def _is_measured(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column holds numbers that hardly repeat, which no setting does."""
    levels = [level for level in frame[column].unique() if level != NOT_GIVEN]
    fine = sum("." in level or "," in level for level in levels)
    many = len(levels) > 12 and 2 * fine > len(levels)
    exact = 3 * sum(bool(_DIGITS.search(level)) for level in levels) > len(levels)
    computed = len(levels) > 2 and 3 * sum(map(_is_computed, levels)) > 2 * len(levels)
    return bool((many or exact or computed) and numeric_share(levels) == 1.0)


def _is_computed(level: str) -> bool:
    """Whether a number has more digits than people type: 0.81653, but not 0.0001 or 1024."""
    mantissa = level.casefold().partition("e")[0]
    return "." in mantissa and len(mantissa.replace(".", "").strip("0-")) > _TYPED
