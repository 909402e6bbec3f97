"""What to say where no column names what is compared, or none holds results."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from oodometer.errors import UserError
from oodometer.factors import TITLES, are_checkpoints, plain
from oodometer.tables.cells import is_gap, numeric_share, read_cell, value_of
from oodometer.tables.frames.differences import DIFFERENCES
from oodometer.tables.guessing.content import are_detectors
from oodometer.tables.guessing.likeness import are_runs
from oodometer.tables.guessing.roles import ALL, OTHER_STATISTIC, Roles
from oodometer.tables.guessing.titled import OTHER_METRIC
from oodometer.tables.vocabulary.measures import GENERAL, MEASURES, metric_named
from oodometer.tables.vocabulary.names import (
    OOD_TITLES,
    is_setting,
    is_statistic,
    mentions_setting,
    names_costs,
)
from oodometer.tables.vocabulary.others import (
    are_yes_or_no,
    is_test,
    names_prediction,
    names_truth,
)

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 3  # readings that a question names
_COUNTS = frozenset({"samples", "nsamples", "support", "size", "count"})  # of what was tested
_TYPED = 4  # digits of a number that somebody has set
_FEWEST_SAMPLES = 30  # lines
_HASH = re.compile(r"(?=\w*[a-f])(?=\w*\d)[0-9a-f]{7,64}")
_PAIR = re.compile(r"[\d.,]+\s*%?\s*/\s*[\d.,]+\s*%?")  # 91.2 / 40.1


class NothingComparedError(UserError):
    """A table has no results, or nothing that is compared: another one of the page may have."""


def require_no_samples(frame: pd.DataFrame, chosen: Collection[str]) -> None:
    """Refuse a table in which each line is a sample, with what is true of it and its score.

    A column such as ground_truth says so if it merely says yes or no, or one of predictions is
    beside it.
    """
    if chosen or len(frame) < _FEWEST_SAMPLES:
        return
    predicted = [c for c in frame.columns if names_prediction(c)]
    for column in filter(names_truth, frame.columns):
        if predicted or are_yes_or_no(frame[column].unique()):
            beside = f" and a prediction in '{predicted[0]}'" if predicted else ""
            raise UserError(
                f"Each of the {len(frame)} lines seems to be one sample, with its truth in "
                f"'{column}'{beside}: a table of results such as AUROCs is expected. `oodometer "
                "compare` computes them from the scores of samples."
            )


def require_results(roles: Roles, frame: pd.DataFrame) -> None:
    """Raise if no column holds results, or none names the detector."""
    if not roles.measured:
        raise NothingComparedError(_why_no_results(roles, frame))
    used = {*roles.measured, *roles.ignored, *roles.spreads.values()}
    for column in [c for c in frame.columns if c not in used and metric_named(c)]:
        pairs = [text for text in frame[column] if _PAIR.fullmatch(text)]
        if 2 * len(pairs) > len(frame) and metric_named(column) not in GENERAL:
            raise UserError(
                f"Cells of column '{column}', such as '{pairs[0]}', hold two numbers: give each a "
                f"column of its own, or leave it out with {roles.option(ignore=column)}."
            )
    if roles.detector is None and not are_detectors(roles):
        raise NothingComparedError(_why_no_detector(roles, frame))


def _why_no_detector(roles: Roles, frame: pd.DataFrame) -> str:
    """Name the columns that may hold what is compared."""
    free = _candidates(roles, frame)
    titles = [what for _, what in roles.measured.values() if what]
    if len(titles) > 1 and not roles.wide and not are_runs(titles):
        return (
            f"Do the titles of columns ({', '.join(titles[:2])}, …) name what is compared "
            f"({roles.option(detector=ALL)}), or are they data sets of one detector or model, so "
            "that there is nothing to compare?"
        )
    others = _like_results(roles, frame)
    if len(others) > 1 and ALL not in roles.chosen:
        metric = next(iter(roles.measured.values()))[0]
        option = roles.option(detector=ALL, **{metric.replace(" ", "_"): ALL})
        return (
            f"Do the titles of columns ({', '.join(others[:2])}, …) name what is compared, all by "
            f"{metric} ({option}), or is there one detector or model, and nothing to compare?"
        )
    if not free:
        return (
            "No column names what is compared, such as detectors or models: add one, or say which "
            "it is with --columns detector=COLUMN."
        )
    data = [c for c in (roles.ood, roles.id) if c in free]
    of_data = f", and '{data[0]}' says of which data the numbers are" if data else ""
    free.sort(key=lambda column: column in data)
    options = " or ".join(roles.option(detector=column) for column in free[:_SHOWN])
    return (
        f"No column names the detector{of_data}: if all rows are of one, there is nothing to "
        f"compare; else say which column tells what is compared, with {options}."
    )


def _like_results(roles: Roles, frame: pd.DataFrame) -> list[str]:
    """Return columns whose titles name no metric, with numbers of the size of those that do."""
    if any(metric not in MEASURES for metric, _ in roles.measured.values()):
        return []
    known = [value_of(text) for column in roles.measured for text in frame[column]]
    low, high = np.nanmin(known), np.nanmax(known)
    free = [c for c in roles.factors if _may_hold_results(frame, c) and not is_statistic(c)]
    values = {c: np.array([value_of(text) for text in frame[c]]) for c in free}
    return [c for c, own in values.items() if low <= np.nanmedian(own) <= high]


def _may_be_set(texts: pd.Series[str], column: str) -> bool:
    """Whether numbers are levels of a setting: by the title, or whole and each several times."""
    whole = all(text.isdigit() for text in texts) and 2 * texts.nunique() <= len(texts)
    return (is_setting(column) or whole) and plain(column) not in _COUNTS


def _why_two(cell: str, roles: Roles) -> str:
    return (
        f"Cells such as '{cell}' hold two numbers: say what they are, in the titles, such as 'SVHN "
        f"(FPR95/AUROC)', or for all of them, such as {roles.option(**{'FPR95/AUROC': ALL})}."
    )


def _candidates(roles: Roles, frame: pd.DataFrame) -> list[str]:
    """Return the columns of words and settings that tell lines apart, or else those of levels."""
    taken = {*roles.measured, *roles.spreads.values(), *roles.ignored, roles.metric, roles.runs}
    free = [c for c in frame.columns if c not in taken and len(frame[c].unique()) > 1]
    free = [c for c in free if metric_named(c) is None and not frame[c].map(is_gap).any()]
    free = [c for c in free if not names_costs(c) and not are_checkpoints(frame[c].unique())]
    words = [c for c in free if numeric_share(frame[c]) <= 0.5 and not _are_hashes(frame[c])]
    settings = [c for c in free if c not in words and _may_be_set(frame[c], c)]
    return [*words, *settings] or [c for c in free if _may_be_compared(frame, c)]


def _may_be_compared(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column of numbers may tell what is compared: levels, but no measurements."""
    exact = sum(len(re.sub(r"^0+|\D", "", text)) > _TYPED for text in frame[column].unique())
    other = is_statistic(column) or is_test(column) or _are_hashes(frame[column])
    return not other and 2 * exact <= frame[column].nunique()


def _are_hashes(texts: pd.Series[str]) -> bool:
    return all(map(_HASH.fullmatch, texts.unique()))


def _why_no_results(roles: Roles, frame: pd.DataFrame) -> str:
    """Say what the columns hold instead."""
    if why := _why_left_out(roles, frame):
        return why
    pairs = [t for column in frame.columns for t in frame[column] if _PAIR.fullmatch(t)]
    if len(pairs) > len(frame):
        return _why_two(pairs[0], roles)
    for column in filter(metric_named, frame.columns):
        wrong = [t for t in frame[column] if not is_gap(t) and read_cell(t) is None]
        if wrong:
            return (
                f"Column '{column}' should contain results, but most of its cells are not numbers, "
                f"such as '{wrong[0]}'."
            )
    if pairs:
        return _why_two(pairs[0], roles)
    other = [c for c, why in roles.ignored.items() if why == OTHER_METRIC]
    if other:
        return (
            f"Column '{other[0]}' holds another kind of metric: {roles.option(higher=other[0])} or "
            f"{roles.option(lower=other[0])} says which is better."
        )
    numbers = [c for c in frame.columns if _may_hold_results(frame, c)]
    if numbers and not roles.chosen:
        column = numbers[0]
        others = f" (or so for {', '.join(map(repr, numbers[1:_SHOWN]))})" if numbers[1:] else ""
        return (
            f"No column names a known metric: if '{column}' holds results, say which is better, "
            f"with {roles.option(higher=column)} or {roles.option(lower=column)}{others}."
        )
    return (
        f"No column holds results; the columns are {', '.join(frame.columns)}: say which with "
        "--columns auroc=COLUMN."
    )


def _may_hold_results(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column holds numbers that vary, and no settings, repeats or costs."""
    varies = 2 * len(frame[column].unique()) > len(frame) > 1
    other = (
        mentions_setting(column) or names_costs(column) or plain(column) in {*TITLES, *OOD_TITLES}
    )
    return numeric_share(frame[column]) > 0.5 and varies and not other


def _why_left_out(roles: Roles, frame: pd.DataFrame) -> str:
    """Say which numbers are known as something else: differences, statistics."""
    gains = [t for column in frame.columns for t in frame[column] if t.startswith("+")]
    if len(gains) > len(frame):
        return f"Numbers with a sign, such as {gains[0]}, are read as differences, not as results."
    statistics = [c for c, why in roles.ignored.items() if why == OTHER_STATISTIC]
    if statistics:
        column = statistics[0]
        return (
            f"Column '{column}' holds a statistic, such as a rank, and no other holds results: "
            f"{roles.option(lower=column)} or {roles.option(higher=column)} takes it for one."
        )
    differences = [c for c, why in roles.ignored.items() if why == DIFFERENCES]
    if differences:
        return (
            f"Column '{differences[0]}' holds differences to other numbers: give a table with the "
            "numbers themselves."
        )
    return ""
