"""Numbers that a careful reader would doubt: AUROCs that are no AUROCs, zeros that are gaps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.factors import words_of
from oodometer.tables.cells import value_of
from oodometer.tables.guessing.roles import ALL, MEAN_OF_OTHERS, Roles
from oodometer.tables.vocabulary.measures import Measure, metric_named
from oodometer.tables.vocabulary.statistics import MEANS

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 8  # numbers before their share says anything about a metric that is named
_FEWEST_UNSAID = 4  # and about one that nothing names
_MOST = 0.9  # of AUROCs below 0.5 that are doubted
_MANY = 0.3  # of numbers below 0.5 that are hardly AUROCs if nothing says that they are
SCALES = 20  # times larger on one data set than on another: a mean over both says little
_THOUSANDS = re.compile(r"[1-9]\d{0,2},\d{3}")  # or three decimals behind a comma
_COMMA = re.compile(r"\d+,(?:\d{1,2}|\d{4,})|0,\d+")  # surely decimals
_POINT = re.compile(r"\d+\.\d+")
_ROUNDING = 0.001  # of a stated mean, relative to the largest number
_OF_ANSWERS = frozenset({"rate", "rates", "classification", "test", "top1", "accuracy"})
_LOWEST = 0.2  # an AUROC of exactly 0 among others that are all above this is a gap


def without_zeros(
    lines: pd.DataFrame, frame: pd.DataFrame, roles: Roles, notes: list[str]
) -> pd.DataFrame:
    """Leave out AUROCs of exactly 0 that stand for gaps: all others are far above.

    Where a column of means in the `frame` counts them, they are values.
    """
    if _count_in_means(frame, roles):
        return lines
    is_auroc = _doubtful(lines, roles)
    values = lines["value"].to_numpy(dtype=float)
    zero = is_auroc & (values == 0)
    others = values[is_auroc & ~zero]
    if not zero.any() or 2 * zero.sum() >= is_auroc.sum():
        return lines
    if others.min() < _LOWEST * (1 if others.max() <= 1 else 100):
        return lines
    notes.append(f"AUROCs of exactly 0 count as missing (did not finish?): {int(zero.sum())}")
    kept: pd.DataFrame = lines[~zero]
    return kept.reset_index(drop=True)


def _count_in_means(frame: pd.DataFrame, roles: Roles) -> bool:
    """Whether zeros are part of the means that a column of the table states."""
    columns = [c for c, (metric, _) in roles.measured.items() if metric == "auroc"]
    means = [c for c, why in roles.ignored.items() if why == MEAN_OF_OTHERS and c in frame.columns]
    if len(columns) < 2 or not means:
        return False
    table = np.array([[value_of(text) for text in frame[c]] for c in columns])
    zero = (table == 0).any(axis=0)
    stated = np.array([[value_of(text) for text in frame[c]] for c in means])
    off = np.abs(stated - table.mean(axis=0)) > _ROUNDING * np.nanmax(table)
    return bool(zero.any() and (~off[:, zero]).all(axis=1).any())


def require_above_chance(lines: pd.DataFrame, roles: Roles) -> None:
    """Ask what numbers are that are called AUROC and almost all below 0.5, or are not called so."""
    is_auroc = _doubtful(lines, roles)
    if not is_auroc.any():
        return
    below = float((lines["value"].to_numpy(dtype=float)[is_auroc] < 0.5).mean())
    if below < (_MANY if roles.is_supposed else _MOST):
        return
    columns = [c for c, (metric, _) in roles.measured.items() if metric == "auroc"]
    column = columns[0] if len(columns) == 1 else ALL
    unsaid = "Nothing says that the numbers are AUROCs, and " if roles.is_supposed else ""
    numbers = "them" if roles.is_supposed else "the AUROCs"
    raise UserError(
        f"{unsaid}{below:.0%} of {numbers} are below 0.5: if the scores are reversed or lower is "
        f"better, use {roles.option(lower=column)}; if this is another metric, "
        f"{roles.option(higher=column)}; if they are AUROCs indeed, {roles.option(auroc=column)}."
    )


def require_error_rates(roles: Roles) -> None:
    """Ask what a mean error is: a share of wrong answers, or how far numbers are off."""
    for column, (metric, _) in roles.measured.items():
        words = words_of(column)
        doubtful = metric == "error rate" and words & MEANS and not words & _OF_ANSWERS
        if doubtful and column not in roles.chosen:
            raise UserError(
                f"'{column}' may be a share of wrong answers "
                f"({roles.option(error_rate=column)}) or how far numbers are off, such as an "
                f"error of reconstruction: is lower better ({roles.option(lower=column)}) or "
                f"higher ({roles.option(higher=column)})?"
            )


def require_clear_commas(frame: pd.DataFrame, roles: Roles) -> None:
    """Refuse numbers such as 35,403 that may be thousands, unless others say what commas are."""
    named = [] if roles.metric is None else map(metric_named, frame[roles.metric].unique())
    of_lines = [name for name in named if name]
    for column, (metric, _) in roles.measured.items():
        texts = [text.strip() for text in frame[column].unique()]
        commas = [text for text in texts if "," in text]
        doubtful = [text for text in commas if _THOUSANDS.fullmatch(text)]
        if not doubtful or any(map(_COMMA.fullmatch, commas)):
            continue
        metrics = of_lines if roles.metric is not None else [metric]
        shares = all(roles.measure(name).is_share for name in metrics)
        if any(map(_POINT.fullmatch, texts)) or not shares:
            number = doubtful[0]
            raise UserError(
                f"'{number}' in column '{column}' may be {number.replace(',', '')} or "
                f"{number.replace(',', '.')}: write it without a comma."
            )


def note_scales(lines: pd.DataFrame, measures: Mapping[str, Measure], notes: list[str]) -> None:
    """Say where data sets have scales of their own, of which the largest decides every mean."""
    for metric, measure in measures.items():
        own = lines[lines["metric"] == metric]
        if measure.is_share or "id" not in own.columns:
            continue
        sizes = own["value"].abs().groupby(own["id"]).median()
        ends = sizes[sizes > 0].sort_values()
        if len(ends) > 1 and ends.iloc[-1] > SCALES * ends.iloc[0]:
            notes.insert(
                0,
                f"{metric} is about {ends.iloc[0]:.2g} on {ends.index[0]} and "
                f"{ends.iloc[-1]:.2g} on {ends.index[-1]}: sets with large numbers decide its "
                "mean, so look at how often each ranks first",
            )


def _doubtful(lines: pd.DataFrame, roles: Roles) -> NDArray[np.bool_]:
    """Return which numbers are AUROCs that the user has not confirmed; none if they are few."""
    is_auroc = (lines["metric"] == "auroc").to_numpy()
    named = {ALL, *(c for c, (metric, _) in roles.measured.items() if metric == "auroc")}
    fewest = _FEWEST_UNSAID if roles.is_supposed else _FEWEST
    believed = is_auroc.sum() < fewest or bool(named & roles.chosen)
    return np.zeros_like(is_auroc) if believed else is_auroc
