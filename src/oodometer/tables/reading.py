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
from oodometer.tables.cells import is_gap, read_cell
from oodometer.tables.columns import Roles, guess, mostly_detectors, parse_columns
from oodometer.tables.files import texts
from oodometer.tables.long import COVARIATE, to_long
from oodometer.tables.names import (
    HIGHER_IS_BETTER,
    is_average,
    metric_named,
)
from oodometer.tables.paths import gather
from oodometer.tables.runs import once, one_spelling, promote, telling

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
        if not paths:
            raise UserError("No file was given.")
        frame = gather(paths, notes)
        stem = paths[0].stem if len(paths) == 1 else ""
    if frame.empty:
        raise UserError("The table has no lines.")
    frame = _split_pairs(frame, notes)
    double = frame.duplicated()
    if double.any():
        notes.append(f"{int(double.sum())} lines occur twice, word for word; taken once")
        frame = frame[~double].reset_index(drop=True)
    default = (metric_named(stem) if stem else None) or "auroc"
    roles = guess(frame, parse_columns(columns, frame), default)
    _require(roles, frame)
    titles = (*roles.measured, stem)
    if roles.metric is None and not columns and not any(metric_named(t) for t in titles):
        notes.append(
            f"no column names a metric: the numbers are taken for {default}, higher is better; "
            "--columns fpr95=COLUMN says otherwise"
        )
    long, more = to_long(frame, roles)
    notes += more
    long = one_spelling(long, notes)
    long = _without_means(long, notes)
    long = promote(long)
    long, factors, set_aside = telling(long, notes)
    long, factors = once(long, factors, notes)
    found = [
        _results(part, str(name), factors, notes)
        for name, part in long.groupby("metric", sort=False)
    ]
    found.sort(key=lambda part: part.metric != "auroc")
    set_aside = {_title(name, frame): why for name, why in set_aside.items()}
    listing = [
        (c, "factor" if c in roles.covariates and c in factors else role)
        for c, role in roles.listing()
        if c not in set_aside
    ]
    listing += [(column, f"not used: {why}") for column, why in set_aside.items()]
    return Reading(tuple(found), tuple(listing), tuple(dict.fromkeys(notes)))


def _title(name: str, frame: pd.DataFrame) -> str:
    """Return the title of a column that had to be renamed to be a factor."""
    original = name.removesuffix(" column")
    return name if name in frame.columns or original not in frame.columns else original


def _split_pairs(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Split columns such as SVHN (FPR95/AUROC) with cells such as 40.1/91.2."""
    import pandas as pd

    columns: dict[str, list[str]] = {}
    split = []
    for title in map(str, frame.columns):
        texts = frame[title].tolist()
        if "/" not in title:
            columns[title] = texts
            continue
        found = re.search(r"([\w@%.\-↑↓ ]+(?:\s*/\s*[\w@%.\-↑↓ ]+)+)", title)
        names = [name.strip() for name in found[1].split("/")] if found else []
        cells = [[part.strip() for part in text.split("/")] for text in texts]
        whole = all(len(parts) in (1, len(names)) for parts in cells)
        several = any(len(parts) == len(names) for parts in cells)
        if not found or len(names) < 2 or not whole or not several:
            columns[title] = texts
            continue
        metrics = [metric_named(name.split()[-1] if name else "") for name in names]
        if None in metrics:
            columns[title] = texts
            continue
        what = title.replace(found[1], names[0].removesuffix(names[0].split()[-1])).strip(" ()[]")
        split.append(title)
        for place, name in enumerate(names):
            values = [parts[place] if len(parts) == len(names) else "" for parts in cells]
            columns[f"{what} {name.split()[-1]}".strip()] = values
    if not split:
        return frame
    notes.append(f"columns that hold several metrics were split: {', '.join(split)}")
    return pd.DataFrame(columns, dtype=object)


def _require(roles: Roles, frame: pd.DataFrame) -> None:
    titles = ", ".join(map(str, frame.columns))
    if not roles.measured:
        for column in frame.columns:
            wrong = [t for t in frame[column] if not is_gap(t) and read_cell(t) is None]
            if metric_named(column) and wrong:
                raise UserError(
                    f"Column '{column}' should hold results, but most of its cells are no numbers, "
                    f"such as '{wrong[0]}'."
                )
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
        means = long[column].isin([n for n in long[column].unique() if is_average(str(n))])
        if means.any() and not means.all():
            names = ", ".join(dict.fromkeys(long.loc[means, column]))
            notes.append(f"lines that are means of others were left out: {names}")
            long = long[~means]
    return long


def _results(
    part: pd.DataFrame, metric: str, factors: tuple[str, ...], notes: list[str]
) -> Results:
    keep = ["detector", *(["id"] if "id" in part.columns else []), "ood", *factors]
    covariates = [column for column in part.columns if column.startswith(COVARIATE)]
    frame = part[[*keep, *covariates, "value"]].copy()
    if part["spread"].notna().any():
        frame["spread"] = part["spread"]
        notes.append(
            "numbers with ± are means with a standard deviation; the single runs behind them are "
            "not known, which supports fewer conclusions"
        )
    if len(frame) > 1 and len(set(frame["value"])) == 1:
        notes.append(f"{metric}: every value is {frame['value'].iloc[0]:g}")
    frame = frame.rename(columns={c: c.removeprefix(COVARIATE) for c in covariates})
    return Results(frame.reset_index(drop=True), factors, metric, HIGHER_IS_BETTER[metric])
