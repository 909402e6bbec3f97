"""The numbers after ±, as standard deviations over a number of runs, where the table says it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from oodometer.tables.vocabulary.uncertainty import Uncertainty, common, uncertainty_in

if TYPE_CHECKING:
    import pandas as pd


def of_titles(titles: Iterable[str]) -> Uncertainty:
    """Return what titles of columns say, such as AUROC (mean ± std, 3 seeds), if all agree."""
    found = [uncertainty_in(title, is_prose=True) for title in titles]
    runs = common(Uncertainty(runs=said.runs) for said in found if said.runs is not None)
    kind = common(Uncertainty(said.kind) for said in found if said.kind is not None)
    return reduce(Uncertainty.or_else, (runs, kind))


def with_spreads(
    frame: pd.DataFrame, part: pd.DataFrame, said: Uncertainty, runs: int | None, notes: list[str]
) -> pd.DataFrame:
    """Add the standard deviations of means, and the number of their runs, where it is known.

    `runs` is what the user says; it counts more than a column, and that more than the text. From
    a standard error, the deviation over n runs is √n times as large.
    """
    known: pd.Series[float] | int | None = runs
    if known is None:
        known = part["runs"] if "runs" in part.columns else said.runs
    if said.kind == "confidence interval" or (said.kind == "standard error" and known is None):
        why = " and over how many runs they are is not said" if "error" in said.kind else ""
        notes.append(f"numbers after ± are not used: the text says {said.kind}s{why}")
        return frame
    spread = part["spread"]
    if said.kind == "standard error" and known is not None:
        spread = spread * np.sqrt(known)
        notes.append("numbers after ± are standard errors, as the text says")
    if runs is None and "runs" not in part.columns and said.runs is not None:
        notes.append(f"each mean is over {said.runs} runs, as the text says; --runs corrects it")
    notes.append(
        "numbers with ± are read as mean ± standard deviation; without the individual runs, "
        "fewer conclusions are possible"
    )
    more = {} if known is None else {"runs": known}
    return frame.assign(spread=spread, **more)
