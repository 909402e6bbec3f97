"""From somebody's results to Results: what was read, how it was understood, what was noticed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.results import Results
from oodometer.tables.columns import Roles, guess, mostly_detectors, parse_columns
from oodometer.tables.files import SUFFIXES, read_file, texts
from oodometer.tables.long import COVARIATE, to_long
from oodometer.tables.names import (
    AVERAGES,
    HIGHER_IS_BETTER,
    REPLICATE_TITLES,
    is_detector,
    metric_named,
    plain,
)

if TYPE_CHECKING:
    import pandas as pd

    PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Reading:
    """What was found in a table: results per metric, what each column was taken for, and notes."""

    results: tuple[Results, ...]  # AUROC first where there is one
    columns: tuple[tuple[str, str], ...]  # column, role
    notes: tuple[str, ...]


def read_results(given: PathLike | Sequence[PathLike] | pd.DataFrame, columns: str = "") -> Reading:
    """Read one or several tables, or folders of them; `columns` corrects what would be guessed.

    `columns` is such as ``detector=Method, ood=Test set, auroc=AUC, factor=Batch``; roles are
    detector, id, ood, metric, factor, covariate, ignore, and the names of metrics.
    """
    import pandas as pd

    notes: list[str] = []
    stem = ""
    if isinstance(given, pd.DataFrame):
        frame = texts(given)
    else:
        named = [given] if isinstance(given, str | os.PathLike) else given
        paths = [Path(part) for part in named]
        frame = _gather(_files(paths), notes)
        stem = paths[0].stem if len(paths) == 1 else ""
    if frame.empty:
        raise UserError("The table has no lines.")
    double = frame.duplicated()
    if double.any():
        notes.append(f"{int(double.sum())} lines occur twice, word for word; taken once")
        frame = frame[~double].reset_index(drop=True)
    default = (metric_named(stem) if stem else None) or "auroc"
    roles = guess(frame, parse_columns(columns, frame), default)
    _require(roles, frame)
    titles = (*roles.measured, stem)
    if roles.metric is None and not any(metric_named(title) for title in titles):
        notes.append(
            f"no column names a metric: the numbers are taken for {default}, higher is better; "
            "--columns fpr95=COLUMN says otherwise"
        )
    long, more = to_long(frame, roles)
    notes += more
    long = _without_means(long, notes)
    long = _once(long, notes)
    factors, set_aside = _factors(long, roles, notes)
    found = [
        _results(part, str(name), factors, notes)
        for name, part in long.groupby("metric", sort=False)
    ]
    found.sort(key=lambda part: part.metric != "auroc")
    listing = [(c, r) for c, r in roles.listing() if c not in set_aside]
    listing += [(column, f"not used: {why}") for column, why in set_aside.items()]
    return Reading(tuple(found), tuple(listing), tuple(dict.fromkeys(notes)))


def _files(paths: Sequence[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
            if not inside:
                raise UserError(f"Folder '{path}' holds no table ({', '.join(SUFFIXES)}).")
            files += inside
        else:
            files.append(path)
    return files


def _gather(files: Sequence[Path], notes: list[str]) -> pd.DataFrame:
    """Read all files into one table; their names tell detector and seed where columns do not."""
    import pandas as pd

    frames = []
    for file in files:
        frame, remarks = read_file(file)
        notes += [f"{file.name}: {remark}" for remark in remarks]
        frames.append(frame)
    if len(files) == 1 and not _detector_in(files[0]):
        return frames[0]
    for file, frame in zip(files, frames, strict=True):
        titles = {plain(column) for column in frame.columns}
        if not titles & {"method", "detector", "methods", "postprocessor"}:
            detector = _detector_in(file) or file.stem
            if len(files) > 1 or not any(map(is_detector, frame.iloc[:, 0])):
                frame["detector"] = detector
        seed = re.search(r"(?:^|[/_\-])(?:seed|s|run)_?(\d+)(?=[/_\-.]|$)", file.as_posix())
        if seed and not titles & REPLICATE_TITLES and len(files) > 1:
            frame["seed"] = seed[1]
    if len(files) > 1:
        notes.append(f"{len(files)} files were read as one table")
    return pd.concat(frames, ignore_index=True).fillna("")


def _detector_in(file: Path) -> str | None:
    """Find the name of a detector in that of a file or of its folder."""
    for name in (file.stem, file.parent.name):
        if is_detector(name):
            return name
        known = [word for word in re.split(r"[_\-.\s]+", name) if is_detector(word)]
        if known:
            return known[-1]
    return None


def _require(roles: Roles, frame: pd.DataFrame) -> None:
    titles = ", ".join(map(str, frame.columns))
    if not roles.measured:
        raise UserError(
            f"No column holds results; the columns are {titles}: say which with --columns "
            "auroc=COLUMN."
        )
    wide = [what for _, what in roles.measured.values() if what]
    if roles.detector is None and not (wide and mostly_detectors(wide)):
        raise UserError(
            f"No column names the detector; the columns are {titles}: say which with --columns "
            "detector=COLUMN."
        )


def _without_means(long: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    for column in ("ood", "detector"):
        means = long[column].map(lambda name: plain(str(name)) in AVERAGES)
        if means.any() and not means.all():
            names = ", ".join(dict.fromkeys(long.loc[means, column]))
            notes.append(f"lines that are means of others were left out: {names}")
            long = long[~means]
    return long


def _once(long: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Take equal lines once; number lines that differ only in their value as runs."""
    long = long.drop_duplicates()
    cell = [column for column in long.columns if column not in ("value", "spread")]
    covariates = [column for column in cell if column.startswith(COVARIATE)]
    cell = [column for column in cell if column not in covariates]
    if long.duplicated(cell).any():
        number = long.groupby(cell, dropna=False).cumcount() + 1
        notes.append(
            f"{int((number > 1).sum())} lines repeat a cell with another value: taken for "
            "repeated runs, numbered in the order of the file, so that equal numbers are compared"
        )
        long = long.assign(**{"run": number.astype(str)})
    return long


def _factors(
    long: pd.DataFrame, roles: Roles, notes: list[str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Choose the columns that tell runs apart: not constant, not told by another."""
    set_aside: dict[str, str] = {}
    fixed = ("detector", "id", "ood", "metric", "value", "spread")
    factors = [c for c in long.columns if c not in fixed and not c.startswith(COVARIATE)]
    for column in list(factors):
        if len(set(long[column])) == 1:
            factors.remove(column)
            set_aside[column] = f"always {long[column].iloc[0]}"
    for column in [c for c in reversed(factors) if plain(c) not in REPLICATE_TITLES]:
        others = [c for c in factors if c != column and plain(c) not in REPLICATE_TITLES]
        if "id" in long.columns:
            others.append("id")
        for other in others:
            if long[other].nunique() >= long[column].nunique() and (
                long.groupby(other)[column].nunique().max() == 1
            ):
                factors.remove(column)
                set_aside[column] = f"told by {other}"
                break
    if set_aside:
        told = "; ".join(f"{column}: {why}" for column, why in set_aside.items())
        notes.append(f"columns that tell no runs apart were set aside ({told})")
    return tuple(factors), set_aside


def _results(
    part: pd.DataFrame, metric: str, factors: tuple[str, ...], notes: list[str]
) -> Results:
    keep = ["detector", *(["id"] if "id" in part.columns else []), "ood", *factors]
    covariates = [column for column in part.columns if column.startswith(COVARIATE)]
    frame = part[[*keep, *covariates, "value"]].copy()
    if part["spread"].notna().any():
        frame["spread"] = part["spread"]
        notes.append(
            "cells with ± are means with a standard deviation; the single runs behind them are "
            "not known, which supports fewer conclusions"
        )
    if len(frame) > 1 and len(set(frame["value"])) == 1:
        notes.append(f"{metric}: every value is {frame['value'].iloc[0]:g}")
    frame = frame.rename(columns={c: c.removeprefix(COVARIATE) for c in covariates})
    return Results(frame.reset_index(drop=True), factors, metric, HIGHER_IS_BETTER[metric])
