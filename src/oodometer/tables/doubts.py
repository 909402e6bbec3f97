"""Numbers that a careful reader would doubt: AUROCs that are no AUROCs, zeros that are gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.tables.roles import ALL, Roles, option

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 8  # numbers before their share says anything
_MOST = 0.9  # of AUROCs below 0.5 that are doubted
_LOWEST = 0.2  # an AUROC of exactly 0 among others that are all above this is a gap


def settled(lines: pd.DataFrame, roles: Roles, notes: list[str]) -> pd.DataFrame:
    """Leave out AUROCs of exactly 0 that stand for gaps; ask where most are below 0.5.

    What the user says to be AUROC is believed.
    """
    is_auroc = (lines["metric"] == "auroc").to_numpy()
    named = {ALL, *(c for c, (metric, _) in roles.measured.items() if metric == "auroc")}
    if is_auroc.sum() < _FEWEST or named & roles.chosen:
        return lines
    values = lines["value"].to_numpy(dtype=float)
    zero = is_auroc & (values == 0)
    others = values[is_auroc & ~zero]
    if zero.any() and 2 * zero.sum() < is_auroc.sum() and others.min() >= _LOWEST:
        notes.append(f"auroc of exactly 0 counts as missing (did not finish?): {int(zero.sum())}")
        lines = lines[~zero].reset_index(drop=True)
    below = float((others < 0.5).mean())
    if below >= _MOST:
        column = next(c for c, (metric, _) in roles.measured.items() if metric == "auroc")
        column = column if len(roles.measured) == 1 else ALL
        raise UserError(
            f"{below:.0%} of the AUROCs are below 0.5: if the scores are reversed or lower is "
            f"better, use {option(lower=column)}; if this is another metric, "
            f"{option(higher=column)}; if they are AUROCs indeed, {option(auroc=column)}."
        )
    return lines
