"""Shares of variance of training runs that were all evaluated under the same conditions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, stdtrit

from oodometer.errors import UserError
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.metrics.delong import check_level
from oodometer.stats.values import run_values

FEWEST = 3  # runs: leaving one out must leave two


class Crossed(NamedTuple):
    """Shares that add up to 1: of the conditions, of the runs, and of their interaction."""

    conditions: Estimate
    trainings: Estimate
    together: Estimate


def crossed_shares(values: ArrayLike, *, level: float = 0.95) -> Crossed | None:
    """Shares of the variance of a table (runs, conditions), such as outlier sets or epochs.

    Conditions are those of the table, runs a sample of possible training runs. With
    mean squares E within (runs x conditions), the parts are E, var(training means) - E / m and
    var(condition means) - (m - 1) E / (m n), none below 0, of n runs under m conditions.
    Intervals are those of the jackknife over runs, on the logit scale with n - 1 degrees of
    freedom: in simulation of 5 to 15 normal runs and 2 to 8 conditions 95% intervals cover
    91% to 98%. None if nothing varies.
    """
    check_level(level)
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(
            "values must be a table (runs, conditions) of real numbers, every row of the same "
            "length."
        ) from None
    if table.ndim != 2 or table.shape[0] < FEWEST or table.shape[1] < 2:
        raise UserError(
            f"values must be a table of at least {FEWEST} runs and two conditions, "
            f"got shape {table.shape}."
        )
    run_values(table.ravel(), "values")
    found = _shares(table)
    if found is None:
        return None
    size = len(table)
    left = [_shares(np.delete(table, training, axis=0)) for training in range(size)]
    known = [shares for shares in left if shares is not None]
    if len(known) < size:
        return None
    logits = _logit(np.array(known))
    errors = np.sqrt((size - 1) / size * ((logits - logits.mean(axis=0)) ** 2).sum(axis=0))
    reach = -float(stdtrit(size - 1.0, 0.5 - 0.5 * level)) * errors
    low, high = expit(_logit(found) - reach), expit(_logit(found) + reach)
    return Crossed(
        *(
            Estimate(float(share), min(float(share), float(down)), max(float(share), float(up)))
            for share, down, up in zip(found, low, high, strict=True)
        )
    )


def _shares(table: Floats) -> Floats | None:
    trainings, conditions = table.shape
    rows, columns = table.mean(axis=1), table.mean(axis=0)
    rest = table - rows[:, None] - columns + table.mean()
    within = float((rest**2).sum()) / ((trainings - 1) * (conditions - 1))
    parts = np.array(
        [
            max(0.0, float(columns.var()) - (conditions - 1) / conditions * within / trainings),
            max(0.0, float(rows.var(ddof=1)) - within / conditions),
            within,
        ]
    )
    total = float(parts.sum())
    if math.sqrt(total) <= 1e-14 * float(np.abs(table).max()):  # rounding
        return None
    return np.asarray(parts / total)


def _logit(shares: Floats) -> Floats:
    inside = np.clip(shares, 1e-12, 1.0 - 1e-12)
    return np.asarray(np.log(inside / (1.0 - inside)))
