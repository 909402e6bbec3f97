"""One line per number: melt wide tables, read cells, and bring all numbers to one unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oodometer.errors import UserError
from oodometer.tables.cells import Cell, is_gap, read_cell
from oodometer.tables.columns import Roles, mostly_detectors
from oodometer.tables.names import STATISTICS, metric_named, plain

if TYPE_CHECKING:
    import pandas as pd

COVARIATE = "about "  # before the name of a column that is about a run, not about a condition


def to_long(frame: pd.DataFrame, roles: Roles) -> tuple[pd.DataFrame, list[str]]:
    """Return one line per number (detector, id, ood, factors, metric, value, spread), and notes."""
    import pandas as pd

    notes: list[str] = []
    parts = []
    gaps: dict[str, int] = {}
    what_is_wide = _what_is_wide(roles)
    for column, (metric, what) in roles.measured.items():
        if plain(column) in STATISTICS:
            continue
        cells = [None if is_gap(text) else read_cell(text) for text in frame[column]]
        _require_numbers(column, frame[column].tolist(), cells)
        gaps[column] = sum(cell is None for cell in cells)
        part = pd.DataFrame({"row": np.arange(len(frame)), "metric": metric})
        if what:
            part[what_is_wide] = what
        part["value"] = [np.nan if cell is None else cell.value for cell in cells]
        part["spread"] = [
            np.nan if cell is None or cell.spread is None else cell.spread for cell in cells
        ]
        part["percent"] = [cell is not None and cell.percent for cell in cells]
        parts.append(part[part["value"].notna()])
    long = pd.concat(parts, ignore_index=True)
    if long.empty:
        raise UserError("All cells that should hold results are empty.")
    missing = {column: number for column, number in gaps.items() if number}
    if missing:
        told = ", ".join(f"{column} {number}" for column, number in missing.items())
        notes.append(f"{sum(missing.values())} cells are empty and count as missing ({told})")
    long = _with_labels(long, frame, roles)
    if roles.metric is not None:
        long = _named_metrics(long, notes)
    return _one_unit(long, notes).drop(columns=["row", "percent"]), notes


def _what_is_wide(roles: Roles) -> str:
    """Say what the titles of several columns of one metric tell apart."""
    titles = [what for _, what in roles.measured.values() if what]
    if roles.detector is None and mostly_detectors(titles):
        return "detector"
    return "ood" if roles.ood is None else "condition"


def _require_numbers(column: str, texts: list[str], cells: list[Cell | None]) -> None:
    wrong = [t for t, cell in zip(texts, cells, strict=True) if cell is None and not is_gap(t)]
    if wrong:
        raise UserError(
            f"Column '{column}' holds '{wrong[0]}', which is no number, a mean±spread or an empty "
            "cell; --columns ignore=COLUMN leaves it out."
        )


def _with_labels(long: pd.DataFrame, frame: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """Add to every number what its line says."""
    for role in ("detector", "id", "ood"):
        column = getattr(roles, role)
        if column is not None:
            long[role] = frame[column].to_numpy()[long["row"]]
        elif role == "ood" and role not in long:
            long[role] = "OOD"
    for column in roles.factors:
        name = f"{column} column" if column in ("metric", "value", "spread", "row") else column
        long[name] = frame[column].to_numpy()[long["row"]]
    for column in roles.covariates:
        cells = [read_cell(text) for text in frame[column]]
        numbers = np.array([np.nan if cell is None else cell.value for cell in cells])
        long[f"{COVARIATE}{column}"] = numbers[long["row"]]
    if roles.metric is not None:
        long["metric"] = frame[roles.metric].to_numpy()[long["row"]]
    for role in ("detector", "ood"):
        empty = long[role].map(lambda name: not str(name).strip())
        if empty.any():
            line = int(long.loc[empty, "row"].iloc[0]) + 1
            raise UserError(f"Line {line} of the table names no {role}.")
    return long


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


def _one_unit(long: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Bring percent and fractions to fractions; where they are mixed, say which is which."""
    percent = long["percent"].to_numpy(dtype=bool, copy=True)
    bare = ~percent  # numbers whose unit only their size tells
    for metric in long["metric"].unique():
        here = (long["metric"] == metric).to_numpy()
        values = long["value"].to_numpy()
        if (values[here] < 0).any() or (values[here] > 100).any():
            bad = values[here & ((values < 0) | (values > 100))][0]
            raise UserError(f"{metric} of {bad:g} is neither a fraction nor a percentage.")
        above = here & bare & (values > 1)
        below = here & bare & (values <= 1)
        if not above.any():
            continue
        if below.any() and metric.endswith("auroc"):
            # No detector that anybody tabulates has an AUROC of 1 %.
            notes.append(
                f"{metric}: {int(below.sum())} of {int(here.sum())} numbers are fractions among "
                "percentages; each was read by its size"
            )
            percent |= above
        elif below.sum() > above.sum():
            raise UserError(
                f"{metric} mixes {int(below.sum())} numbers up to 1 with {int(above.sum())} above "
                "it: percent or fractions? Write all in one unit."
            )
        else:
            percent |= here & bare
    unit = np.where(percent, 100.0, 1.0)
    return long.assign(value=long["value"] / unit, spread=long["spread"] / unit)
