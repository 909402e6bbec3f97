"""One line per number: melt wide tables, read cells, and bring all numbers to one unit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.tables.cells import Cell, is_gap, read_cell
from oodometer.tables.content import are_detectors
from oodometer.tables.names import REPEAT_WORD, SPREADS, is_average, metric_named, plain
from oodometer.tables.roles import Roles

if TYPE_CHECKING:
    import pandas as pd

COVARIATE = "about "  # before the name of a column that is about a run, not about a condition
RESERVED = ("detector", "id", "ood", "metric", "value", "spread", "accuracy", "runs", "set", "unit")
LARGEST_SPREAD = 0.71  # of two numbers between 0 and 1: one at each end
LOWEST_PERCENT = 5.0  # an AUROC among fractions that is less, but above 1, is none
_ROW, _PERCENT = "\0row", "\0percent"  # no title of a user's can be equal to these
_PERCENT_TITLE = re.compile(r"(?<!\d)(?<!\d\s)%")  # AUROC (%), but not FPR@95%
_REPEAT = re.compile(rf"({REPEAT_WORD})[\s_#=\-]*(\w+)", re.IGNORECASE)
_LEVEL = re.compile(r"([^\W\d_]+(?:[\s_-][^\W\d_]+)*)[\s_#=\-]*(\d+(?:\.\d+)?)")  # epoch 10
_RUN_OF = re.compile(rf"(.*\S)[\s_/\-]+({REPEAT_WORD})[\s_#=\-]*(\d+)", re.IGNORECASE)
_ROUNDING = 1e-6  # of a fraction: what floating point leaves beyond 0 and 1


def to_long(frame: pd.DataFrame, roles: Roles) -> tuple[pd.DataFrame, list[str]]:
    """Return one line per number (detector, id, ood, factors, metric, value, spread), and notes."""
    import pandas as pd

    notes: list[str] = []
    parts: list[dict[str, list[object]]] = []
    gaps: dict[str, int] = {}
    remarks: dict[str, None] = {}
    words: dict[str, None] = {}  # of cells without a number
    wide = _what_is_wide(roles)
    runs = _run_in_titles(roles)
    for column, (metric, what) in roles.measured.items():
        cells = _cells(column, frame[column].tolist())
        gaps[column] = sum(cell is None for cell in cells)
        pairs = zip(frame[column], cells, strict=True)
        words |= {t: None for t, cell in pairs if cell is None and any(map(str.isalpha, t))}
        labels = {} if not what else {wide: what}
        if what and wide in ("ood", "detector") and runs:
            labels = {wide: _RUN_OF.sub(r"\1", what), runs: _RUN_OF.sub(r"\3", what)}
        elif what and wide not in ("ood", "detector"):
            numbered = _REPEAT if _REPEAT.fullmatch(what) else _LEVEL
            labels = {wide: what if wide == "condition" else numbered.sub(r"\2", what)}
        stated = roles.spreads.get(column)
        spreads = cells if stated is None else _cells(stated, frame[stated].tolist())
        by_title = bool(_PERCENT_TITLE.search(column)) and not any(
            cell.percent for cell in cells if cell
        )
        if by_title and max(cell.value for cell in cells if cell) <= 1 and "auroc" in metric:
            raise UserError(
                f"The title of column '{column}' says percent, but no value is above 1: percent or "
                "fractions?"
            )
        filled = [row for row, cell in enumerate(cells) if cell is not None]
        parts.append(
            {
                _ROW: [*filled],
                "metric": [metric] * len(filled),
                **{name: [label] * len(filled) for name, label in labels.items()},
                "value": [cell.value for cell in cells if cell is not None],
                "spread": [_spread(spreads[row], stated is not None) for row in filled],
                _PERCENT: [cell.percent or by_title for cell in cells if cell is not None],
            }
        )
        remarks |= {cell.remark: None for cell in cells if cell is not None and cell.remark}
    if remarks:
        shown = ", ".join(list(remarks)[:3])
        notes.append(f"what cells say behind their number is no spread and not used: {shown}")
    names = dict.fromkeys(name for part in parts for name in part)
    long = pd.DataFrame(
        {n: [v for part in parts for v in part.get(n) or [np.nan] * len(part[_ROW])] for n in names}
    ).astype({_ROW: int, "value": float, "spread": float, _PERCENT: bool})
    if long.empty:
        raise UserError("All cells that should hold results are empty.")
    missing = {column: number for column, number in gaps.items() if number}
    if missing:
        told = ", ".join(f"{column} {number}" for column, number in missing.items())
        such = f", such as '{next(iter(words))}'" if words else ""
        notes.append(f"empty cells count as missing: {sum(missing.values())} ({told}){such}")
    if wide in long:
        long = _one_label_each(long, wide, notes)
    long = _with_labels(long, frame, roles, notes)
    if roles.metric is not None:
        long = _named_metrics(long, notes)
    long = _without_means(long, notes)
    return _one_unit(long, notes).drop(columns=[_ROW, _PERCENT]), notes


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
    other = {"ood": "OOD"}.get(wide, "(empty)")
    return long.assign(**{wide: long[wide].fillna(labels[0] if len(labels) == 1 else other)})


def _spread(cell: Cell | None, stated: bool) -> float:
    """Return the spread behind ±, or the number in a column of spreads."""
    spread = None if cell is None else cell.value if stated else cell.spread
    return np.nan if spread is None else spread


def _what_is_wide(roles: Roles) -> str:
    """Say what the titles of several columns of one metric tell apart."""
    titles = [what for _, what in roles.measured.values() if what]
    repeats = [found[1].casefold() for what in titles if (found := _REPEAT.fullmatch(what))]
    if titles and len(repeats) == len(titles) and len(set(repeats)) == 1:
        return repeats[0]
    if len(titles) > 1 and all(title.isdigit() for title in titles) and roles.ood is not None:
        return "run"
    if are_detectors(roles):
        return "detector"
    if roles.ood is None:
        return "ood"
    levels = [found[1].casefold() for what in titles if (found := _LEVEL.fullmatch(what))]
    taken = {*RESERVED, *map(str.casefold, (*roles.factors, *roles.covariates))}
    one = len(titles) > 1 and len(levels) == len(titles) and len(set(levels)) == 1
    return levels[0] if one and levels[0] not in taken else "condition"


def _run_in_titles(roles: Roles) -> str | None:
    """Say what the ends of wide titles number, as in SVHN seed0, SVHN seed1."""
    found = [_RUN_OF.fullmatch(what) for _, what in roles.measured.values() if what]
    kinds = {match[2].casefold() for match in found if match}
    taken = {plain(column) for column in roles.factors}
    return kinds.pop() if found and all(found) and len(kinds) == 1 and not kinds & taken else None


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
            f"Column '{column}' holds '{wrong[0]}', which is no number, a mean±spread or an empty "
            "cell; --columns ignore=COLUMN leaves it out."
        )


def _with_labels(
    long: pd.DataFrame, frame: pd.DataFrame, roles: Roles, notes: list[str]
) -> pd.DataFrame:
    """Add to every number what its line says."""
    rows = long[_ROW].to_numpy()
    for role in ("detector", "id", "ood"):
        column = getattr(roles, role)
        if column is not None:
            long[role] = _filled(frame, column, role, roles, notes)[rows]
        elif role == "ood" and role not in long:
            long[role] = "OOD"
    for column in roles.factors:
        name = f"{column} column" if column in RESERVED or column in long.columns else column
        texts = _merged(frame, column, roles, notes)[rows]
        if not all(texts):
            notes.append(f"{column} is empty in some lines, which count as a level of their own")
        long[name] = np.where(texts == "", "(empty)", texts)
    for column in roles.covariates:
        known = {text: read_cell(text) for text in frame[column].unique()}
        cells = [known[text] for text in frame[column]]
        numbers = np.array([np.nan if cell is None else cell.value for cell in cells])
        long[f"{COVARIATE}{_covariate_name(column)}"] = numbers[rows]
    if roles.runs is not None:
        cells = [read_cell(text) for text in frame[roles.runs]]
        long["runs"] = np.array([0 if cell is None else int(cell.value) for cell in cells])[rows]
    if roles.metric is not None:
        long["metric"] = frame[roles.metric].to_numpy()[rows]
    return long


def _covariate_name(column: str) -> str:
    title = plain(column)
    if title in ("acc", "accuracy", "idaccuracy", "idacc", "testaccuracy", "testacc", "top1"):
        return "accuracy"
    if title == "noiserate":
        return "noise_rate"
    return f"{column} column" if column in RESERVED else column


def _filled(
    frame: pd.DataFrame, column: str, role: str, roles: Roles, notes: list[str]
) -> NDArray[np.object_]:
    """Return names; one that is empty below others is theirs, as merged cells are exported."""
    texts = frame[column].to_numpy(dtype=object)
    empty = texts == ""
    if not empty.any():
        return texts
    below = frame[column].where(~empty).ffill()
    labels = [c for c in frame.columns if c not in roles.measured and c not in roles.ignored]
    told = frame[labels].assign(**{column: below})
    if empty[0] or told.duplicated().any():
        line = int(np.flatnonzero(empty)[0]) + 1
        raise UserError(f"Line {line} of the table names no {role}.")
    notes.append(
        f"lines without {role}: {int(empty.sum())}, taken for that of the line above, as merged "
        "cells are exported"
    )
    return below.to_numpy(dtype=object)


def _merged(
    frame: pd.DataFrame, column: str, roles: Roles, notes: list[str]
) -> NDArray[np.object_]:
    """Return the levels of a factor; merged cells, if lines could not be told apart without."""
    texts = frame[column].to_numpy(dtype=object)
    labels = [c for c in frame.columns if c not in roles.measured and c not in roles.ignored]
    labels = [c for c in labels if c not in (*roles.spreads.values(), *roles.covariates)]
    if all(texts) or not texts[0] or not frame[labels].duplicated().any():
        return texts
    below = frame[column].where(texts != "").ffill()
    if frame[labels].assign(**{column: below}).duplicated().any():
        return texts
    notes.append(f"{column} is empty in some lines: taken for that of the line above, as merged "
                 "cells are exported")  # fmt: skip
    return below.to_numpy(dtype=object)


def _named_metrics(long: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    names = {name: metric_named(str(name)) for name in long["metric"].unique()}
    left_out = [str(name) for name, metric in names.items() if not metric]
    if left_out:
        notes.append(f"metrics that are not known were left out: {', '.join(left_out)}")
    long = long.assign(metric=long["metric"].map(names))
    long = long[long["metric"].map(bool)]
    if long.empty:
        raise UserError(f"No metric is known among {', '.join(left_out)}.")
    return long


def _without_means(long: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    for column in ("ood", "detector"):
        means = long[column].isin([n for n in long[column].unique() if _is_statistic(str(n))])
        if means.any() and not means.all():
            names = ", ".join(dict.fromkeys(long.loc[means, column]))
            notes.append(f"lines that are means of others were left out: {names}")
            long = long[~means]
    return long


def _is_statistic(name: str) -> bool:
    """Tell whether a line is computed from others: a mean, a spread, a gain."""
    return is_average(name) or plain(name) in (*SPREADS, "δ", "delta", "gain", "improvement")


def _one_unit(long: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Bring percent and fractions to fractions; where they are mixed, say which is which."""
    percent = long[_PERCENT].to_numpy(dtype=bool, copy=True)
    values = long["value"].to_numpy(copy=True)
    for metric in long["metric"].unique():
        here = (long["metric"] == metric).to_numpy()
        _round(values, here)
        bad = np.flatnonzero(here & ((values < 0) | (values > 100)))
        if len(bad):
            line = long.iloc[bad[0]]
            raise UserError(
                f"{metric} of {line['value']:g} is neither a fraction nor a percentage: "
                f"{line['detector']} on {line['ood']}."
            )
        signed = here & percent
        above = here & ~percent & (values > 1)
        below = here & ~percent & (values <= 1)
        if below.any() and (above.any() or signed.any()):
            if metric.endswith("auroc"):
                if above.any() and values[above].min() < LOWEST_PERCENT:
                    raise UserError(
                        f"{metric} holds {values[below].min():g} and {values[above].min():g}: "
                        "neither fractions nor percentages; --columns says what they are."
                    )
                # No detector that anybody tabulates has an AUROC of 1 %.
                notes.append(
                    f"{metric}: {int(below.sum())} of {int(here.sum())} numbers are fractions "
                    "among percentages; each was read by its size"
                )
            else:
                _require_percent(long, metric, above, below, signed)
                notes.append(
                    f"{metric}: {int(below.sum())} of {int(here.sum())} numbers are at most 1 and "
                    "were read as percentages like the others"
                )
                percent |= below
        percent |= above
    unit = np.where(percent, 100.0, 1.0)
    spreads = long["spread"].to_numpy(dtype=float) / unit
    if (spreads > LARGEST_SPREAD).any():
        worst = long.iloc[int(np.nanargmax(spreads))]
        raise UserError(
            f"{worst['detector']} has a spread of {worst['spread']:g} behind {worst['value']:g}, "
            "more than such numbers can have."
        )
    return long.assign(value=values / unit, spread=spreads)


def _round(values: NDArray[np.float64], here: NDArray[np.bool_]) -> None:
    """Bring what lies beyond 0, 1 and 100 by rounding only back to them."""
    for limit, beyond in ((0.0, -_ROUNDING), (1.0, 1 + _ROUNDING), (100.0, 100 + 100 * _ROUNDING)):
        low, high = min(limit, beyond), max(limit, beyond)
        values[here & (low <= values) & (values <= high)] = limit


def _require_percent(
    long: pd.DataFrame,
    metric: str,
    above: NDArray[np.bool_],
    below: NDArray[np.bool_],
    signed: NDArray[np.bool_],
) -> None:
    """Refuse where small numbers may be fractions: an error of 0.5 is 50 % or half a percent."""
    whole = above | below
    names = long["detector"].to_numpy()
    doubtful = [d for d in dict.fromkeys(names[below]) if not above[whole & (names == d)].any()]
    if doubtful or signed.any():
        others = int(above.sum() + signed.sum())
        only = f", and {doubtful[0]} has only the former" if doubtful else ""
        raise UserError(
            f"{metric} mixes {int(below.sum())} numbers up to 1 with {others} percentages{only}: "
            "percent or fractions? Write all in one unit."
        )
