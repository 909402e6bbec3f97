"""One line per number: melt wide tables, read cells, and bring all numbers to one unit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.factors import plain
from oodometer.results import NOT_GIVEN
from oodometer.tables.cells import ABOUT, Cell, is_gap, read_cell
from oodometer.tables.columns import with_columns
from oodometer.tables.frames.titles import undressed
from oodometer.tables.guessing.compared import is_untitled
from oodometer.tables.guessing.content import are_of_classifiers
from oodometer.tables.guessing.metric_titles import without_rates
from oodometer.tables.guessing.roles import ALL, SECTION, Roles
from oodometer.tables.lines.doubts import note_scales, require_above_chance, without_zeros
from oodometer.tables.lines.references import without_references
from oodometer.tables.lines.stated_means import note_wrong_columns
from oodometer.tables.lines.summaries import without_summaries
from oodometer.tables.lines.units import PERCENT, one_unit
from oodometer.tables.lines.wide import NAMED, RESERVED, labels_of, run_in_titles, what_is_wide
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.measures import (
    GENERAL,
    MEASURES,
    Measure,
    main_first,
    metric_named,
    without_metric,
)
from oodometer.tables.vocabulary.names import what_is_chosen
from oodometer.tables.vocabulary.statistics import is_qualifier

if TYPE_CHECKING:
    import pandas as pd

# Numbers about a run that protocols know by these names.
_COVARIATES = {"noiserate": "noise_rate"} | dict.fromkeys(
    ("acc", "accuracy", "idaccuracy", "idacc", "testaccuracy", "testacc", "top1"), "accuracy"
)
_LEAST = 0.1  # of fractions: no table is about models that are right in 0.1% of all cases
OUTLIERS = "outliers"  # what a table is about that names no data set
ROW = "\0row"  # the line of the file; no title of a user's can be equal to this
_PERCENT_TITLE = re.compile(r"(?<!\d)(?<!\d\s)%(?!\d)")  # AUROC (%), but not FPR@95%, PA%20


@dataclass(frozen=True)
class _Measured:
    """A column of results: what its cells say, and the lines that its numbers become."""

    title: str
    texts: list[str]
    cells: list[Cell | None]
    lines: dict[str, list[object]]  # column of the long table -> one entry per number


@dataclass(frozen=True, eq=False)
class Long:
    """One line per number: detector, ood, metric, value, spread, id and runs if known, and these.

    Both say for a column what its title in the file is.
    """

    frame: pd.DataFrame
    factors: Mapping[str, str]  # what may tell runs apart
    covariates: Mapping[str, str]  # numbers about the run
    measures: Mapping[str, Measure]  # by the name of the metric


def to_long(frame: pd.DataFrame, roles: Roles, notes: list[str]) -> Long:
    """Return one line per number, in one unit, with all that its row and its title say."""
    frame = _without_other_rows(frame, roles, notes)
    wide, runs = what_is_wide(roles), run_in_titles(roles)
    named = {metric for metric, what in roles.measured.values() if what and wide == "detector"}
    columns = [  # a detector without a name beside others is called as its column
        _measured(
            frame,
            title,
            metric,
            labels_of(what or title * (metric in named), wide, runs),
            roles.spreads.get(title),
        )
        for title, (metric, what) in roles.measured.items()
    ]
    stacked = _stacked(columns)
    notes += [*_notes_on_remarks(columns), *_notes_on_gaps(columns)]
    if wide in stacked:
        stacked = _one_label_each(stacked, wide, notes)
    labels = [name for name in (wide, runs) if name and name in stacked]
    titled = {name: name for name in labels if name not in NAMED}
    long = _with_labels(Long(stacked, titled, {}, {}), frame, roles, notes)
    lines = long.frame
    if roles.metric is not None:
        long = _qualified_metrics(replace(long, frame=_named_metrics(lines, roles, notes)), roles)
        lines = long.frame
    metrics = main_first(str(name) for name in lines["metric"].unique())
    metrics.sort(key=lambda name: name not in roles.main)
    measures = {name: roles.measure(name) for name in metrics}
    lines = without_zeros(without_summaries(lines, notes, long.factors), frame, roles, notes)
    note_wrong_columns(lines, frame, roles, ROW, notes)
    lines = without_references(lines, roles, notes)
    lines, measures = one_unit(lines, measures, notes)
    require_above_chance(lines, roles)
    note_scales(lines, measures, notes)
    return replace(long, frame=lines.drop(columns=[PERCENT]), measures=measures)


def _without_other_rows(frame: pd.DataFrame, roles: Roles, notes: list[str]) -> pd.DataFrame:
    """Leave out rows of metrics that are not known, such as TN / FP, if they hold no numbers."""
    if roles.metric is None:
        return frame
    columns = list(roles.measured)
    other = [
        not metric_named(name) and any(read_cell(t) is None and not is_gap(t) for t in row)
        for name, row in zip(frame[roles.metric], frame[columns].to_numpy().tolist(), strict=True)
    ]
    if not any(other) or all(other):
        return frame
    names = dict.fromkeys(n for n, out in zip(frame[roles.metric], other, strict=True) if out)
    notes.append(f"rows without a single number were left out: {', '.join(names)}")
    return frame[[not out for out in other]].reset_index(drop=True)


def _measured(
    frame: pd.DataFrame, title: str, metric: str, labels: Mapping[str, str], spread: str | None
) -> _Measured:
    """Read a column of results; `spread` is the column of its spreads, if there is one."""
    texts = frame[title].tolist()
    cells = _cells(title, texts)
    spreads = cells if spread is None else _cells(spread, frame[spread].tolist())
    numbers = {row: cell for row, cell in enumerate(cells) if cell is not None}
    by_title = bool(_PERCENT_TITLE.search(title)) and not any(c.percent for c in numbers.values())
    above_half = metric in MEASURES and MEASURES[metric].higher  # an error may well be below 1 %
    if by_title and above_half and max(c.value for c in numbers.values()) <= 1:
        by_title = False
        if float(np.median([c.value for c in numbers.values()])) < _LEAST:
            raise UserError(
                f"The title of column '{title}' says percent, but no value is above 1: percent or "
                "fractions? Write which, such as 0.4% or 0.004, in its cells."
            )
    lines: dict[str, list[object]] = {
        ROW: [*numbers],
        "metric": [metric] * len(numbers),
        **{name: [label] * len(numbers) for name, label in labels.items()},
        "value": [cell.value for cell in numbers.values()],
        "spread": [_spread(spreads[row], spread is not None) for row in numbers],
        PERCENT: [cell.percent or by_title for cell in numbers.values()],
    }
    return _Measured(title, texts, cells, lines)


def _stacked(columns: Sequence[_Measured]) -> pd.DataFrame:
    """Put the lines of all columns below each other."""
    import pandas as pd

    parts = [column.lines for column in columns]
    names = dict.fromkeys(name for part in parts for name in part)
    long = pd.DataFrame(
        {n: [v for part in parts for v in part.get(n) or [np.nan] * len(part[ROW])] for n in names}
    ).astype({ROW: int, "value": float, "spread": float, PERCENT: bool})
    if long.empty:
        raise UserError("All cells that should hold results are empty.")
    return long


def _notes_on_remarks(columns: Sequence[_Measured]) -> list[str]:
    remarks = dict.fromkeys(c.remark for column in columns for c in column.cells if c and c.remark)
    ranges = [remark for remark in remarks if remark.startswith(ABOUT)]
    others = [remark for remark in remarks if remark not in ranges]
    notes = {
        "text after the numbers in cells is not a spread and is ignored": others,
        "ranges are read by their middle": ranges,
    }
    return [f"{note}: {', '.join(shown[:3])}" for note, shown in notes.items() if shown]


def _notes_on_gaps(columns: Sequence[_Measured]) -> list[str]:
    missing = {column.title: column.cells.count(None) for column in columns}
    if not any(missing.values()):
        return []
    each = ", ".join(f"{title} {count}" for title, count in missing.items() if count)
    words = (
        text
        for column in columns
        for text, cell in zip(column.texts, column.cells, strict=True)
        if cell is None and any(map(str.isalpha, text))
    )
    word = next(words, "")
    such = f", such as '{word}'" if word else ""
    return [f"empty cells count as missing: {sum(missing.values())} ({each}){such}"]


def _one_label_each(long: pd.DataFrame, wide: str, notes: list[str]) -> pd.DataFrame:
    """Say of what columns are whose titles name a metric only, where others say it."""
    unnamed = long[wide].isna()
    if not unnamed.any():
        return long
    labels = long[wide].dropna().unique()
    if wide == "detector":
        notes.append(f"no detector is named for {', '.join(long[unnamed]['metric'].unique())}: "
                     "left out")  # fmt: skip
        return long[~unnamed].reset_index(drop=True)
    of_detection = any(metric in MEASURES and metric not in GENERAL for metric in long["metric"])
    other = {"ood": OUTLIERS if of_detection else "", "id": ""}.get(wide, NOT_GIVEN)
    both = set(long[unnamed]["metric"]) & set(long[~unnamed]["metric"])  # IoU beside IoU on SVHN
    alone = len(labels) == 1 and not both and (wide != "ood" or is_data(labels[0]))
    return with_columns(long, {wide: long[wide].fillna(labels[0] if alone else other)})


def _spread(cell: Cell | None, stated: bool) -> float:
    """Return the spread behind ±, or the number in a column of spreads."""
    spread = None if cell is None else cell.value if stated else cell.spread
    return np.nan if spread is None else spread


def _cells(column: str, texts: list[str]) -> list[Cell | None]:
    """Read a column; equal texts are read once."""
    known = {text: None if is_gap(text) else read_cell(text) for text in dict.fromkeys(texts)}
    cells = [known[text] for text in texts]
    _require_numbers(column, texts, cells)
    return cells


def _require_numbers(column: str, texts: list[str], cells: list[Cell | None]) -> None:
    wrong = [t for t, cell in zip(texts, cells, strict=True) if cell is None and not is_gap(t)]
    if wrong:
        raise UserError(
            f"Column '{column}' contains '{wrong[0]}', which is not a number, a mean±spread or an "
            "empty cell; --columns ignore=COLUMN leaves it out."
        )


def _with_labels(long: Long, frame: pd.DataFrame, roles: Roles, notes: list[str]) -> Long:
    """Add to every number what its line says."""
    lines, factors, covariates = long.frame.copy(), dict(long.factors), dict(long.covariates)
    rows = lines[ROW].to_numpy()
    names = {"detector": roles.detector, "id": roles.id, "ood": roles.ood}
    for role, column in names.items():
        if column is not None:
            lines[role] = _filled(frame, column, role, roles, notes)[rows]
    if "ood" not in lines:
        metrics = {metric for metric, _ in roles.measured.values()}
        if roles.metric is not None:
            metrics = {metric_named(text) or "" for text in frame[roles.metric].unique()} - {""}
        general = all(m in GENERAL or m in roles.own for m in metrics)
        general = general or are_of_classifiers(frame, roles)
        lines["ood"] = "" if "id" in lines or general else OUTLIERS
    for column in roles.factors:
        chosen = what_is_chosen(frame[column].unique().tolist()) if is_untitled(column) else ""
        name = _free_name(chosen or column, lines)
        texts = _merged(frame, column, roles, notes)[rows]
        lines[name] = np.where(texts == "", NOT_GIVEN, texts)
        factors[name] = column
    for column in roles.covariates:
        known = _COVARIATES.get(plain(column))
        name = _free_name(column, lines) if known is None else known
        lines[name] = _numbers(frame[column])[rows]
        covariates[name] = column
    if roles.runs is not None:
        lines["runs"] = np.nan_to_num(_numbers(frame[roles.runs])).astype(int)[rows]
    if roles.metric is not None:
        lines["metric"] = frame[roles.metric].to_numpy()[rows]
    return Long(lines, factors, covariates, {})


def _free_name(column: str, lines: pd.DataFrame) -> str:
    return f"{column} column" if column in RESERVED or column in lines.columns else column


def _numbers(texts: pd.Series[str]) -> NDArray[np.float64]:
    cells = {text: read_cell(text) for text in texts.unique()}
    values = {text: np.nan if cell is None else cell.value for text, cell in cells.items()}
    return np.array([values[text] for text in texts])


def _filled(
    frame: pd.DataFrame, column: str, role: str, roles: Roles, notes: list[str]
) -> NDArray[np.object_]:
    """Return names; one that is empty below others is theirs, as merged cells are exported."""
    names = frame[column].map({text: undressed(text) for text in frame[column].unique()})
    texts = names.to_numpy(dtype=object)
    empty = texts == ""
    if not empty.any():
        return texts
    below = names.where(~empty).ffill()
    labels = [c for c in frame.columns if c not in roles.measured and c not in roles.ignored]
    filled = with_columns(frame[labels], {column: below})
    if empty[0] or filled.duplicated().any():
        line = int(np.flatnonzero(empty)[0]) + 1
        raise UserError(
            f"Line {line} of the table names no {role} in column '{column}': leave it out, say "
            "which column names them with --columns, or read a part of a JSON file: FILE.json#NAME."
        )
    notes.append(
        f"rows without {role}: {int(empty.sum())}, filled from the row above, as for merged cells"
    )
    return below.to_numpy(dtype=object)


def _merged(
    frame: pd.DataFrame, column: str, roles: Roles, notes: list[str]
) -> NDArray[np.object_]:
    """Return the levels of a factor; merged cells, if rows could not be distinguished otherwise."""
    texts = frame[column].to_numpy(dtype=object)
    labels = [c for c in frame.columns if c not in roles.measured and c not in roles.ignored]
    labels = [c for c in labels if c not in (*roles.spreads.values(), *roles.covariates)]
    if all(texts) or not texts[0] or not frame[labels].duplicated().any():
        return texts
    below = frame[column].where(texts != "").ffill()
    if with_columns(frame[labels], {column: below}).duplicated().any():
        return texts
    notes.append(f"{column} is empty in some rows: filled from the row above, as for merged cells")
    return below.to_numpy(dtype=object)


def _qualified_metrics(long: Long, roles: Roles) -> Long:
    """Take image and pixel AUROC, which headings tell apart, for two metrics."""
    lines = long.frame
    if SECTION not in long.factors or not all(map(is_qualifier, lines[SECTION].unique())):
        return long
    names = lines[SECTION].str.casefold() + " " + lines["metric"]
    for name, metric in dict(zip(names, lines["metric"], strict=True)).items():
        roles.own[name] = MEASURES[metric]._replace(name=name)
    factors = {name: title for name, title in long.factors.items() if name != SECTION}
    return replace(long, frame=lines.assign(metric=names).drop(columns=SECTION), factors=factors)


def _named_metrics(long: pd.DataFrame, roles: Roles, notes: list[str]) -> pd.DataFrame:
    """Call metrics by their names here; of one in several forms, each has a name of its own."""
    texts = [str(name) for name in long["metric"].unique()]
    read = {text: metric for text in texts if (metric := metric_named(text)) is not None}
    names = {text: metric for text, metric in without_rates(read).items() if metric}
    left_out = [text for text in texts if text not in names]
    if not names:
        column = str(roles.metric)
        raise UserError(
            f"No metric is known among {', '.join(left_out)}: if they may be averaged, use "
            f"{roles.option(condition=column, higher=ALL)} or "
            f"{roles.option(condition=column, lower=ALL)} (which is better)."
        )
    if left_out:
        notes.append(f"metrics that are not known were left out: {', '.join(left_out)}")
    times = Counter(names.values())
    for text, metric in names.items():
        what = without_metric(text).casefold()
        if times[metric] > 1 and what:
            names[text] = f"{what} {metric}"
            roles.own[names[text]] = MEASURES[metric]._replace(name=names[text])
    known = long[long["metric"].isin(list(names))]
    return known.assign(metric=known["metric"].map(names))
