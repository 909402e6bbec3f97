"""Lines that repeat a cell: runs of the same thing, copies, or something that no column told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import by_title, plain, words_of
from oodometer.tables.cells import numeric_share
from oodometer.tables.columns import with_columns
from oodometer.tables.guessing.roles import Roles
from oodometer.tables.lines.levels import id_column, is_unplanned
from oodometer.tables.lines.long import ROW, Long
from oodometer.tables.vocabulary.titles import (
    INCIDENTAL,
    JOB_TITLES,
    REPEAT_TITLES,
    mentions_setting,
)

if TYPE_CHECKING:
    import pandas as pd

_NUMBER = "\0number"  # of a repeat
_MOST = 0.5  # of the cells must have one line if the others are averaged
# A date, a time, a path, a link or a hash.
_INCIDENT = re.compile(
    r"(?:19|20)\d\d\W?[01]\d\W?[0-3]\d|\d{1,2}[:h]\d\d|^(?:[a-zA-Z]:)?[\\/]|\.[a-zA-Z]\w{1,4}$|https?:|"
    r"^(?=\w*\d)[0-9a-f]{7,64}$"
)


def require_told_apart(long: Long, given: Long, roles: Roles) -> None:
    """Ask what lines are that repeat a cell, if a column of names that is not a factor differs.

    `given` has the lines of `long` with all columns of the file.
    """
    lines = given.frame
    keys = ["detector", *id_column(lines), "ood", "metric", *long.factors]
    keys = [name for name in keys if name in lines.columns]
    double = lines[lines.duplicated(keys, keep=False)]
    if double.empty:
        return
    dropped = [name for name in given.factors if name not in long.factors]
    telling = [name for name in dropped if _may_tell(name, list(double[name].unique()))]
    if not any(plain(name) in REPEAT_TITLES for name in long.factors):
        telling = [n for n in telling if not is_unplanned(lines, n)]  # epochs until a stop
    words = [name for name in telling if numeric_share(double[name].unique()) == 0]
    words = words or telling  # settings, such as the points of a grid
    if words and len(double[[*keys, *telling]].drop_duplicates()) == len(double):
        sizes = {column: len(double[column].unique()) for column in words}
        name = max(sizes, key=sizes.__getitem__)
        levels = list(double[name].unique())
        name = given.factors[name]
        detector = roles.detector or "detector"
        models = f"other models ({roles.option(detector=f'{detector}+{name}')}), "
        raise UserError(
            f"Lines with the same '{detector}' differ in '{name}' ({levels[0]}, {levels[1]}, "
            f"…): {models if roles.detector else ''}repeated runs "
            f"({roles.option(repeat=name)}) or conditions ({roles.option(condition=name)})?"
        )


def _may_tell(name: str, levels: Sequence[str]) -> bool:
    """Whether a column may say what lines are: no name of a job, date, path or measurement."""
    words = words_of(name)
    named = plain(name) in JOB_TITLES | REPEAT_TITLES or words & INCIDENTAL
    if named or len(levels) < 2 or any(map(_INCIDENT.search, levels)):
        return False
    return numeric_share(levels) == 0 or mentions_setting(name)


def each_once(long: Long, roles: Roles, notes: list[str]) -> Long:
    """Number lines that repeat a cell as runs; equal lines of one run are copies."""
    frame = long.frame
    keys = ["detector", *id_column(frame), "ood", "metric", *long.factors]
    kinds = {name: by_title(name, frame[name].unique()).kind for name in long.factors}
    if any(roles.kinds.get(t, kinds[name]) == "repeat" for name, t in long.factors.items()):
        copies = frame.duplicated([*keys, "value", "spread"])
        if copies.any():
            rows = len(frame.loc[copies, ROW].unique())
            notes.append(f"duplicate rows were left out: {rows}")
            frame = frame[~copies]
    twice = frame.duplicated(keys)
    if not twice.any():
        return replace(long, frame=frame.drop(columns=ROW))
    if frame.loc[twice, "spread"].notna().all():
        name = frame.loc[twice, "detector"].iloc[0]
        raise UserError(
            f"Several lines of {name} hold a mean with its spread, and nothing tells them apart: "
            "they may be of different metrics, data sets or conditions. Say which in a column, or "
            "keep the lines of one."
        )
    if _are_few(frame, keys):
        rows = len(frame.loc[twice, ROW].unique())
        notes.append(f"rows that repeat a cell: {rows}, averaged, because most cells have one")
        return replace(long, frame=_averaged(frame, keys).drop(columns=ROW))
    number = frame.sort_values(ROW, kind="stable").groupby(keys, dropna=False, sort=False)
    frame = with_columns(frame, {_NUMBER: number.cumcount() + 1})
    name = "run" if "run" not in long.factors else "repetition"
    shared = _is_order_shared(frame, keys)
    levels = frame[_NUMBER].astype(str)
    frame[name] = levels if shared else frame["detector"] + " " + levels
    equal = int(frame.duplicated([*keys, "value"]).sum())
    notes.append(
        f"rows that repeat a cell: {int((frame[_NUMBER] > 1).sum())}"
        f"{f' ({equal} with the same number: copies?)' * bool(equal)}, read as repeated runs, "
        + ("numbered in file order" if shared else "which detectors do not share")
    )
    frame = frame.drop(columns=[_NUMBER, ROW])
    return replace(long, frame=frame, factors={**long.factors, name: name})


def _are_few(frame: pd.DataFrame, keys: Sequence[str]) -> bool:
    """Whether most cells of several data sets have one line, so that runs cannot be compared."""
    sets = frame[[*id_column(frame), "ood"]].drop_duplicates()
    times = frame.groupby(list(keys), dropna=False).size()
    return len(sets) > 1 and bool((times == 1).mean() > _MOST)


def _averaged(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return one line per cell, with the mean of its values."""
    cells = frame.groupby(list(keys), dropna=False, sort=False)["value"]
    return frame.assign(value=cells.transform("mean"))[~frame.duplicated(list(keys))]


def _is_order_shared(frame: pd.DataFrame, keys: Sequence[str]) -> bool:
    """Whether the order of lines says which repeats of two detectors belong together.

    It does where detectors stand beside each other in one line, or where the whole table comes
    again and again: all first lines before all second ones.
    """
    if frame.groupby(ROW)["detector"].nunique().max() > 1:
        return True
    order = frame.sort_values(ROW, kind="stable")[_NUMBER]
    times = frame.groupby(list(keys), dropna=False)[_NUMBER].max()
    return bool(order.is_monotonic_increasing and times.min() == times.max())
