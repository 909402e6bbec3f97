"""Which columns tell runs apart, and what repeated lines are."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations, islice
from typing import TYPE_CHECKING

from oodometer.tables.cells import numeric_share
from oodometer.tables.long import COVARIATE
from oodometer.tables.names import JOB_TITLES, REPEAT_TITLES, plain, repeat_name

if TYPE_CHECKING:
    import pandas as pd

_FIXED = ("detector", "id", "ood", "metric", "value", "spread", "runs")
_SETTINGS = ("noise_rate", "num_classes", "nclasses", "classes")  # about a run, or what it varied
_SUBSETS = 64  # of columns, tried to find those that tell runs apart
_SHARED = 0.5  # of the lines must lie at levels that several detectors have
EMPTY = "(empty)"


def one_spelling(long: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Take names that differ in capitals or spaces only for the same."""
    for column in [c for c in long.columns if c in ("detector", "id", "ood")]:
        first: dict[str, str] = {}
        spelling = {}
        for name in map(str, long[column].unique()):
            spelling[name] = first.setdefault("".join(name.casefold().split()), name)
        other = [f"{name} = {known}" for name, known in spelling.items() if name != known]
        if other:
            long[column] = long[column].replace(spelling)
            notes.append(f"names that differ in capitals only are the same: {', '.join(other)}")
    return long


def factor_columns(long: pd.DataFrame) -> list[str]:
    """The columns that may tell runs apart."""
    return [c for c in long.columns if c not in _FIXED and not c.startswith(COVARIATE)]


def promote(long: pd.DataFrame) -> pd.DataFrame:
    """Make a setting that was taken for a fact about runs a factor, if nothing else tells it."""
    for name in _SETTINGS:
        column = f"{COVARIATE}{name}"
        if column not in long.columns:
            continue
        keys = [*factor_columns(long), *(c for c in ("id",) if c in long.columns)]
        per_cell = long.groupby(keys)[column].nunique().max() if keys else long[column].nunique()
        if per_cell > 1:
            long[name] = long.pop(column).map(lambda value: f"{value:g}")
    return long


def repeats_named(long: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Call columns that number repeats seed, run, fold, split or repeat, as protocols know them."""
    renamed: dict[str, str] = {}
    for column in factor_columns(long):
        name = repeat_name(column)
        if name and name not in long.columns and name not in renamed.values():
            renamed[column] = name
    return long.rename(columns=renamed), renamed


def jobs_named(
    long: pd.DataFrame, factors: tuple[str, ...]
) -> tuple[pd.DataFrame, tuple[str, ...], dict[str, str]]:
    """Call the number of a job that does tell runs apart run: it is no condition."""
    jobs = [name for name in factors if plain(name) in JOB_TITLES]
    if len(jobs) != 1 or "run" in long.columns:
        return long, factors, {}
    renamed = {jobs[0]: "run"}
    return long.rename(columns=renamed), tuple(renamed.get(n, n) for n in factors), renamed


def telling(
    long: pd.DataFrame, notes: list[str], told: Collection[str] = ()
) -> tuple[pd.DataFrame, tuple[str, ...], dict[str, str]]:
    """Choose the columns that tell runs apart: not constant, not told by anything else.

    Those that the user `told` to be factors stay, unless they are constant.
    """
    set_aside: dict[str, str] = {}
    factors = factor_columns(long)
    several = _levels(long, "detector") > 1
    for column in list(factors):
        replicate = plain(column) in REPEAT_TITLES
        if _levels(long, column) == 1:
            set_aside[column] = f"always {long[column].iloc[0]}"
        elif column in told:
            continue
        elif several and _is_parameter(long, column):
            long = _with_parameter(long, column)
            notes.append(f"{column} is given for some detectors only: it became part of their name")
            set_aside[column] = "part of the detector's name"
        elif several and _told_by(long, column, "detector"):
            set_aside[column] = "told by the detector"
        elif not replicate and _told_by(long, column, "ood"):
            set_aside[column] = "told by the outlier set"
        elif several and not replicate and not _is_shared(long, column):
            set_aside[column] = "differs from detector to detector"
        elif not replicate and _is_measured(long, column):
            set_aside[column] = "numbers that are no settings"
    factors = [column for column in factors if column not in set_aside]
    for column in [c for c in factors if c not in told]:
        parts = _parts(long, column, [c for c in factors if c != column])
        if parts:
            factors.remove(column)
            together = f"{', '.join(parts[:-1])} and {parts[-1]} together"
            set_aside[column] = f"told by {together if len(parts) > 1 else parts[0]}"
    free = [c for c in factors if c not in told]
    for column in [c for c in reversed(free) if plain(c) not in REPEAT_TITLES | JOB_TITLES]:
        repeats = [c for c in factors if plain(c) in REPEAT_TITLES | JOB_TITLES]
        others = [c for c in factors if c != column and c not in repeats]
        if "id" in long.columns:
            others.append("id")
        others += [c for c in repeats if (long[c] == long[column]).all()]
        for other in others:
            if long[other].nunique() >= long[column].nunique() and _told_by(long, column, other):
                factors.remove(column)
                set_aside[column] = f"told by {other}"
                break
    for column in () if told else _incidental(long, factors):
        factors.remove(column)
        set_aside[column] = "differs from line to line"
    return long.drop(columns=list(set_aside)), tuple(factors), set_aside


def _parts(long: pd.DataFrame, column: str, others: list[str]) -> list[str]:
    """Name the columns that together tell what one tells alone, which is a name for them.

    Such are the number of a job, the name of a run, and that of a configuration. A seed is more
    than a name, and what labels were trained on is known by that name only.
    """
    title = plain(column)
    repeats = [other for other in others if plain(other) in REPEAT_TITLES]
    if "noise" in title or "train" in title or repeat_name(column) not in (None, "run"):
        return []
    if title in REPEAT_TITLES | JOB_TITLES:
        same = [c for c in repeats if _told_by(long, column, c) and _told_by(long, c, column)]
        if same or (title in REPEAT_TITLES and not repeats):
            return same[:1]
    finest = _levels(long, column)
    known = [*others, *(["id"] if "id" in long.columns and _levels(long, "id") > 1 else [])]
    parts = [c for c in known if _levels(long, c) < finest and _told_by(long, c, column)]
    alike = len(parts) > 1 and len(long[parts].drop_duplicates()) == finest
    return parts if alike else []


def _told_by(long: pd.DataFrame, column: str, other: str) -> bool:
    """Tell whether every level of the other column has one level of this one."""
    levels = _levels(long, other)
    return levels > 1 and len(long[[other, column]].drop_duplicates()) == levels


def _levels(long: pd.DataFrame, column: str) -> int:
    return len(long[column].unique())


def _is_parameter(long: pd.DataFrame, column: str) -> bool:
    """Tell whether a column is empty for some detectors, and several values for others."""
    empty = (long[column] == EMPTY).groupby(long["detector"]).mean()
    levels = long.groupby("detector")[column].nunique()
    return bool((empty == 1).any() and (empty < 1).any() and (levels[empty == 0] > 1).any())


def _with_parameter(long: pd.DataFrame, column: str) -> pd.DataFrame:
    given = long[column] != EMPTY
    named = long["detector"] + " (" + column + "=" + long[column] + ")"
    return long.assign(detector=long["detector"].where(~given, named))


def _is_shared(long: pd.DataFrame, column: str) -> bool:
    """Tell whether enough lines lie at levels at which several detectors were measured."""
    detectors = long.groupby(column)["detector"].nunique()
    return bool((long[column].map(detectors) > 1).mean() >= _SHARED)


def _incidental(long: pd.DataFrame, factors: list[str]) -> list[str]:
    """Name columns that keep detectors from meeting, if lines are told apart without them.

    Such are the number of a job, its date or its commit: with them no two detectors were ever
    measured in the same run. The fewest columns stay that tell lines apart and let them meet.
    """
    fixed = [c for c in ("id", "ood", "metric") if c in long.columns]
    detectors = _levels(long, "detector")

    def meet(names: Iterable[str]) -> bool:
        met = long.groupby([*fixed, *names])["detector"].nunique() == detectors
        return bool(met.mean() > _SHARED)

    if len(factors) < 2 or detectors < 2 or meet(factors):
        return []
    subsets = (part for size in range(1, len(factors)) for part in combinations(factors, size))
    for part in islice(subsets, _SUBSETS):
        if not long.duplicated(["detector", *fixed, *part]).any() and meet(part):
            return [name for name in factors if name not in part]
    return []


def _is_measured(long: pd.DataFrame, column: str) -> bool:
    """Tell whether a column holds numbers that hardly repeat, which no setting does."""
    levels = long[column].unique()
    fine = sum("." in level or "," in level for level in levels)
    many = len(levels) > 12 and 2 * fine > len(levels)
    return bool(many and numeric_share(levels) == 1.0)


def once(
    long: pd.DataFrame, factors: tuple[str, ...], notes: list[str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Take equal lines once; number lines that differ only in their value as runs."""
    long = long.drop_duplicates()
    keys = ["detector", *(c for c in ("id",) if c in long.columns), "ood", "metric", *factors]
    if not long.duplicated(keys).any():
        return long, factors
    number = long.groupby(keys, dropna=False).cumcount() + 1
    notes.append(
        f"lines that repeat a cell with another value: {int((number > 1).sum())}, taken for "
        "repeated runs, numbered in the order of the file, so that equal numbers are compared"
    )
    name = "run" if "run" not in factors else "repetition"
    return long.assign(**{name: number.astype(str)}), (*factors, name)
