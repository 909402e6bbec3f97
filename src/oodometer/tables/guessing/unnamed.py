"""What numbers are that no title names: AUROC, what the text above says, or a question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from oodometer.errors import UserError
from oodometer.factors import plain, words_of
from oodometer.tables.cells import read_cell
from oodometer.tables.guessing.content import detector_names
from oodometer.tables.guessing.likeness import are_ranks, are_runs, factor_in
from oodometer.tables.guessing.measurements import is_known
from oodometer.tables.guessing.questions import what_are
from oodometer.tables.guessing.roles import ALL, UNNAMED, Roles
from oodometer.tables.guessing.untitled import MEAN_AND_SPREAD, is_quantity
from oodometer.tables.vocabulary.data_names import are_answered, is_outlier_set
from oodometer.tables.vocabulary.measures import Measure, metric_named
from oodometer.tables.vocabulary.mentioned import metrics_in_brackets
from oodometer.tables.vocabulary.names import is_surely_detector
from oodometer.tables.vocabulary.statistics import MEANS
from oodometer.tables.vocabulary.titles import names_outliers

if TYPE_CHECKING:
    import pandas as pd

_ARROWS = re.compile(r"[↑↓]")  # as labels of metrics have them
_TRANSFER = re.compile(r"→|->|⇒")  # from one domain to another
_PERFORMANCE = frozenset({"perf", "performance", "performances"})
_GENERIC = MEANS | {"value", "values", "score", "scores", "result", "results", "all"}
_CLEAR = 0.5  # correlation of ranks with means that settles which is better
_SHOWN = 4  # columns of a text that may name another metric


def settle_metric(frame: pd.DataFrame, roles: Roles, notes: list[str]) -> None:
    """Say what the numbers are that no title, caption or file name explains, or ask."""
    columns = [c for c, (metric, _) in roles.measured.items() if metric == UNNAMED]
    if not columns or UNNAMED in roles.own or roles.metric is not None:
        return
    names, sets = detector_names(frame, roles), _sets(frame, roles)
    by_title = roles.ood is not None and names_outliers(roles.ood)
    of_outliers = by_title or 2 * sum(map(is_outlier_set, sets)) >= len(sets) > 0
    transfers = 2 * sum(bool(_TRANSFER.search(name)) for name in sets) > len(sets)
    sure = sum(map(is_surely_detector, names))
    if len(columns) == 1 and plain(columns[0]) in MEANS and not sure and _describes(frame):
        raise what_are(columns, roles)
    titles = [roles.measured[c][1] or c for c in columns]
    wide = len(columns) > 1 and not are_runs(titles)
    unknown = wide and not any(is_known(part) for title in titles for part in _ends(title))
    known = of_outliers or (sure > 0 and not transfers and not unknown)
    if known and not any(is_quantity(roles.measured[c][1] or c) for c in columns):
        roles.is_supposed = True
        roles.measured |= {c: ("auroc", what) for c, (_, what) in roles.measured.items()}
        notes.append(
            "no column names a metric: the numbers are read as AUROC, higher is better; "
            f"{roles.option(fpr95=ALL)} says otherwise"
        )
        return
    answered = are_answered(sets)
    higher = True if answered else _direction(frame, columns, roles)
    if higher is None:
        raise what_are(columns, roles, ranks=are_ranks(frame, columns))
    roles.own[UNNAMED] = Measure(UNNAMED, higher, is_share=None)
    why = "on these benchmarks" if answered else "as other titles say"
    notes.append(
        f"no column names a metric: {'higher' if higher else 'lower'} is better, {why}; "
        f"{roles.option(**{'lower' if higher else 'higher': ALL})} says otherwise"
    )


def _describes(frame: pd.DataFrame) -> bool:
    """Whether columns describe other numbers, such as scores: mean, min and max."""
    return {"min", "max"} <= {plain(column) for column in frame.columns}


def _ends(title: str) -> list[str]:
    """Return the first and the last words of a title: what either of two lines may say."""
    words = title.split()
    cuts = range(len(words))
    return [" ".join(part) for n in cuts for part in (words[n:], words[: n + 1])]


def _require_one_sign(
    frame: pd.DataFrame, metric: str | None, columns: Sequence[str], roles: Roles
) -> None:
    """Ask where some columns hold negative numbers only, and others none: unlike quantities."""
    values = {c: [cell.value for cell in map(read_cell, frame[c]) if cell] for c in columns}
    below = [c for c, own in values.items() if own and max(own) < 0]
    if below and any(own and min(own) >= 0 for own in values.values()):
        ignored = ", ignore=".join(below)
        raise UserError(
            f"The text above the table says {metric}, but all numbers in '{below[0]}' are "
            f"negative: use {roles.option(ignore=ignored)} if they are something else, or "
            f"{roles.option(higher=ALL)} if all are alike."
        )


def require_metric_of_text(
    frame: pd.DataFrame, metric: str | None, roles: Roles, about: str
) -> None:
    """Ask where the text around a table names a metric, but the titles of its columns another.

    A text that says which is better (FPR95 ↓), or states the metric in brackets as a unit, is
    about the numbers below it.
    """
    if len(set(_ARROWS.findall(about))) == 1:
        return
    columns = [c for c, (m, _) in roles.measured.items() if m == metric]
    _require_one_sign(frame, metric, columns, roles)
    named = any(is_known(c) or MEAN_AND_SPREAD.search(c) or plain(c) in _GENERIC for c in columns)
    # At the end, as a unit; amid prose it abbreviates what stands before it.
    named |= about.rstrip().endswith(")") and metrics_in_brackets(about) == {metric}
    named |= bool(roles.chosen)  # the user has looked at the columns
    named |= are_runs(columns) or factor_in(columns) is not None  # of whatever the text says
    if metric is None or not 0 < len(columns) < _SHOWN or named or any(map(metric_named, columns)):
        return
    shown = ", ".join(map(repr, columns))
    raise UserError(
        f"The text above the table says {metric}, but {shown} may be something else: use "
        f"{roles.option(**{metric.replace(' ', '_'): ALL})}, {roles.option(higher=columns[0])} or "
        f"{roles.option(lower=columns[0])}."
    )


def _sets(frame: pd.DataFrame, roles: Roles) -> list[str]:
    column = roles.ood or roles.id
    named = [] if column is None else [str(name) for name in frame[column].unique()]
    return named or [what for _, what in roles.measured.values() if what]


def _direction(frame: pd.DataFrame, columns: Sequence[str], roles: Roles) -> bool | None:
    """Return whether higher is better, as arrows, titles or ranks say, else None."""
    for arrow, higher in (("↑", True), ("↓", False)):
        if all(arrow in column for column in columns):
            return higher
    words = {word for column in frame.columns for word in words_of(column)}
    return True if words & _PERFORMANCE else _by_ranks(frame, columns, roles.id or roles.ood)


def _by_ranks(frame: pd.DataFrame, columns: Sequence[str], names: str | None) -> bool | None:
    """Return whether higher is better, as a row of ranks says: those with low ranks are best."""
    if names is None or len(columns) < _SHOWN:
        return None
    ranked = frame[names].map(lambda name: "rank" in plain(name)[-5:])
    if ranked.sum() != 1:
        return None
    ranks = [_mean(frame.loc[ranked, column]) for column in columns]
    means = [_mean(frame.loc[~ranked, column]) for column in columns]
    together = float(np.corrcoef(ranks, means)[0, 1])
    return together < 0 if abs(together) > _CLEAR else None


def _mean(texts: pd.Series[str]) -> float:
    return float(np.mean([cell.value for cell in map(read_cell, texts) if cell] or [np.nan]))
