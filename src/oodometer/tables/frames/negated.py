"""Metrics with their sign turned, as optimizers minimize them: -AUROC, neg. RMSE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oodometer.tables.cells import is_gap, numeric_share, read_cell
from oodometer.tables.columns import with_columns
from oodometer.tables.guessing.stated import stated_direction
from oodometer.tables.vocabulary.measures import MEASURES, metric_named

if TYPE_CHECKING:
    import pandas as pd

_NEGATED = re.compile(r"(?i)^\s*(?:[-\u2212\u2013]\s*|neg(?:ative|ated)?[.\s_]+)(?=[a-z])")
_REMARK = re.compile(r"\s*[(\[][^()\[\]]*\bbetter\b[^()\[\]]*[)\]]|\s*[(\[]?[\u2191\u2193][)\]]?")
_MINUS = re.compile(r"^(\W*?)[-\u2212\u2013](?=[\d.])")


def unnegated(frame: pd.DataFrame, said: str, notes: list[str]) -> pd.DataFrame:
    """Turn the sign of columns whose titles say that they hold a known metric less than zero.

    A title that says which is better must agree: of a metric that should be high, low is better.
    Columns that the user names, as `said`, stay as they are.
    """
    free = [column for column in map(str, frame.columns) if column not in said]
    new = {c: bare for c in free if (bare := _unnegated_title(c))}
    new = {c: bare for c, bare in new.items() if _are_below_zero(frame[c].tolist())}
    if not new or {*new.values()} & {*frame.columns} or len({*new.values()}) < len(new):
        return frame
    turned = {c: [_MINUS.sub(r"\1", text) for text in frame[c]] for c in new}
    notes.append(f"numbers below zero were read without their sign: {', '.join(new)}")
    return with_columns(frame, turned).rename(columns=new)


def _unnegated_title(title: str) -> str:
    """Return the title of a metric without what turns its sign, or "" if nothing does.

    >>> _unnegated_title("-AUROC (lower is better)"), _unnegated_title("RMSE")
    ('AUROC', '')
    """
    bare = _REMARK.sub("", _NEGATED.sub("", title)).strip()
    measure = MEASURES.get(metric_named(bare) or "")
    if not _NEGATED.match(title) or measure is None or metric_named(title) == "negative error":
        return ""
    return bare if stated_direction(title) in (None, not measure.higher) else ""


def _are_below_zero(texts: Sequence[str]) -> bool:
    """Whether all numbers of a column are at most zero, and none is a mean with its spread."""
    cells = [read_cell(text) for text in texts if not is_gap(text)]
    if numeric_share(texts) <= 0.5 or any(cell is None for cell in cells):
        return False
    values = [cell.value for cell in cells if cell is not None]
    return max(values, default=1.0) <= 0.0 and min(values) < 0.0
