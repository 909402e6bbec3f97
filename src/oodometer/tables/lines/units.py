"""Percent and fractions: bring all numbers of a metric to fractions, or refuse to guess."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.tables.vocabulary.measures import Measure

if TYPE_CHECKING:
    import pandas as pd

PERCENT = "\0percent"  # column: the cell or its title says percent; no title of a user's is equal
LARGEST_SPREAD = 0.71  # of two numbers between 0 and 1: one at each end
LOWEST_PERCENT = 5.0  # an AUROC among fractions that is less, but above 1, is none
_FEW = 0.05  # of percentages lie below 1
_ROUNDING = 1e-6  # of a fraction: what floating point leaves beyond 0 and 1
Mask = NDArray[np.bool_]


def one_unit(
    long: pd.DataFrame, measures: Mapping[str, Measure], notes: list[str]
) -> tuple[pd.DataFrame, dict[str, Measure]]:
    """Bring percent and fractions to fractions; where they are mixed, say which is which.

    Return also the metrics, of which each now is a share or not: others stay as they are. A metric
    beside the first that cannot be read is left out.
    """
    import pandas as pd

    parts, known = [], {}
    for name, measure in measures.items():
        part = long[long["metric"] == name]
        numbers = part["value"].to_numpy(dtype=float)
        known[name] = measure._replace(is_share=_is_share(measure, numbers))
        try:
            parts.append(_as_shares(part, name, notes) if known[name].is_share else part)
        except UserError as problem:
            if not parts:
                raise
            del known[name]
            notes.append(f"{name} was left out: {str(problem).rstrip('.')}")
    return pd.concat(parts, ignore_index=True), known


def _as_shares(long: pd.DataFrame, metric: str, notes: list[str]) -> pd.DataFrame:
    """Bring the numbers of one metric to fractions."""
    percent = long[PERCENT].to_numpy(dtype=bool, copy=True)
    values = _rounded(long["value"].to_numpy(dtype=float))
    _require_range(long, values)
    zero = values == 0  # in either unit
    above = ~percent & (values > 1)
    below = ~percent & (values <= 1) & ~zero
    if below.any() and (above.any() or percent.any()):
        said = f"{metric}: {int(below.sum())} of {len(long)} numbers are"
        if metric.endswith("auroc"):
            _require_apart(metric, values, above, below)
            # No detector that anybody tabulates has an AUROC of 1 %.
            notes.append(f"{said} fractions among percentages; each was read by its size")
        else:
            _require_percent(long, metric, above, below, percent)
            notes.append(f"{said} at most 1 and were read as percentages like the others")
            percent |= below
    percent |= zero & (above | percent).any()
    unit = np.where(percent | above, 100.0, 1.0)
    spreads = long["spread"].to_numpy(dtype=float) / unit
    if (spreads > LARGEST_SPREAD).any():
        worst = long.iloc[int(np.nanargmax(spreads))]
        raise UserError(
            f"{worst['detector']} has a spread of {worst['spread']:g} behind {worst['value']:g}, "
            "more than such numbers can have."
        )
    return long.assign(value=values / unit, spread=spreads)


def _is_share(measure: Measure, values: NDArray[np.float64]) -> bool:
    """Whether numbers are fractions or percentages, where the name of the metric leaves it open."""
    if measure.is_share is None:
        small = float((values <= 1).mean()) if len(values) else 0.0
        percent = small < _FEW and bool(len(values)) and 20 < values.max() <= 100
        percent = percent and bool((values % 1).any())  # whole numbers are counts as well
        return bool(len(values)) and bool(values.min() >= 0 and (small == 1.0 or percent))
    return measure.is_share


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bring what lies beyond 0, 1 and 100 by rounding only back to them."""
    rounded = values.copy()
    for limit, beyond in ((0.0, -_ROUNDING), (1.0, 1 + _ROUNDING), (100.0, 100 + 100 * _ROUNDING)):
        low, high = min(limit, beyond), max(limit, beyond)
        rounded[(low <= rounded) & (rounded <= high)] = limit
    return rounded


def _require_range(long: pd.DataFrame, values: NDArray[np.float64]) -> None:
    bad = np.flatnonzero((values < 0) | (values > 100))
    if len(bad):
        line = long.iloc[bad[0]]
        raise UserError(
            f"{line['metric']} of {line['value']:g} is neither a fraction nor a percentage: "
            f"{line['detector']} on {line['ood'] or line.get('id') or 'all data'}."
        )


def _require_apart(metric: str, values: NDArray[np.float64], above: Mask, below: Mask) -> None:
    """Refuse numbers above 1 that are too small to be percentages."""
    if above.any() and values[above].min() < LOWEST_PERCENT:
        raise UserError(
            f"{metric} holds {values[below].min():g} and {values[above].min():g}: neither "
            "fractions nor percentages; --columns says what they are."
        )


def _require_percent(
    long: pd.DataFrame, metric: str, above: Mask, below: Mask, signed: Mask
) -> None:
    """Refuse where small numbers may be fractions: an error of 0.5 is 50% or half a percent."""
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
