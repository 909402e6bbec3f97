"""What to say where no column names what is compared, or none holds results."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from oodometer.errors import UserError
from oodometer.factors import TITLES, are_checkpoints, plain, words_of
from oodometer.tables.cells import is_gap, is_no_pair, numeric_share, read_cell, value_of
from oodometer.tables.frames.differences import DIFFERENCES
from oodometer.tables.guessing.content import are_detectors
from oodometer.tables.guessing.likeness import are_decimals, are_runs
from oodometer.tables.guessing.roles import ALL, IGNORED, OTHER_STATISTIC, UNNAMED, Roles, option
from oodometer.tables.guessing.titled import OTHER_METRIC
from oodometer.tables.vocabulary.costs import names_costs
from oodometer.tables.vocabulary.measures import GENERAL, MEASURES, main_first, metric_named
from oodometer.tables.vocabulary.others import (
    METRIC_TITLES,
    are_remarks,
    are_yes_or_no,
    is_test,
    names_prediction,
    names_truth,
)
from oodometer.tables.vocabulary.statistics import is_statistic
from oodometer.tables.vocabulary.titles import (
    DETECTOR_TITLES,
    MODEL_TITLES,
    OOD_TITLES,
    REPEAT_TITLES,
    is_setting,
    mentions_setting,
)

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 3  # readings that a question names
_SEVERAL_METRICS = 3  # that make a table of metrics
_COUNTS = frozenset({"samples", "nsamples", "support", "size", "count"})  # of what was tested
_NUMBERS_OF = frozenset({"num", "number", "nb", "count"})  # words of titles
_TYPED = 4  # digits of a number that somebody has set
_FEWEST_SAMPLES = 30  # lines
_HASH = re.compile(r"(?=\w*[a-f])(?=\w*\d)[0-9a-f]{7,64}")
_DIGIT = re.compile(r"\d")
_MOST_SHARED = 0.75  # of the names of rows and columns, from which on they make a matrix
_FEWEST_ROWS = 3  # of a matrix
_VALUES = frozenset({"value", "values", "result", "results", "score"})  # plain titles
_AGAINST = re.compile(r"(?i)\bvs\b|\bversus\b")
# 91.2 / 40.1; 0.94 / 76.2% / 0.03 (75.4%)
_SEVERAL = re.compile(r"[\d.,]+\s*%?(?:\s*/\s*[\d.,]+\s*%?)+(?:\s*\([^()]*\))?")


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


def require_no_listing(frame: pd.DataFrame, chosen: Collection[str]) -> None:
    """Refuse a table that lists quantities of one thing: a name and a number on every line."""
    if chosen or len(frame.columns) != 2:
        return
    name, value = frame.columns
    listed = plain(name) in METRIC_TITLES and plain(value) in _VALUES
    if listed and frame[name].is_unique and numeric_share(frame[value]) > 0.5:
        raise NothingComparedError(
            f"'{name}' names another quantity on every line, with its number in '{value}': nothing "
            "is compared. If some lines are about detectors or models, give a table with a line "
            "for each of them."
        )


def require_no_matrix(frame: pd.DataFrame, chosen: Collection[str]) -> None:
    """Refuse tests of pairs, and ask about rows that are called as the columns are."""
    if chosen:
        return
    for test in (c for c in frame.columns if is_test(c) and numeric_share(frame[c]) > 0.5):
        for column in frame.columns:
            if all(map(_AGAINST.search, frame[column].unique())):
                raise UserError(
                    f"Each line tests a pair, such as '{frame[column].iloc[0]}', with the outcome "
                    f"in '{test}': give the results that were tested."
                )
    first, *others = frame.columns
    if len(frame) > 2 * len(others):
        return
    rows, titles = {*map(plain, frame[first])}, {*map(plain, others)}
    shared = len(rows & titles)  # perhaps with a column of recalls beside them
    if shared >= _FEWEST_ROWS and shared >= _MOST_SHARED * max(len(rows), len(titles)):
        both = [title for title in others if plain(title) in rows]
        raise UserError(
            f"Rows and columns have the same names ({', '.join(both[:2])}, …), as in a matrix of "
            "distances, correlations or confusions, not results: if the rows are compared, use "
            f"{option(detector=first, higher=ALL)}."
        )


def require_results(roles: Roles, frame: pd.DataFrame) -> None:
    """Raise if no column holds results, or none names the detector."""
    if not roles.measured:
        raise NothingComparedError(_why_no_results(roles, frame))
    used = {*roles.measured, *roles.ignored, *roles.spreads.values()}
    for column in [c for c in frame.columns if c not in used and metric_named(c)]:
        pairs = [text for text in frame[column] if _holds_several(text)]
        decides = main_first([metric for metric, _ in roles.measured.values()])[0] == "auroc"
        if decides and 2 * len(pairs) > len(frame):
            roles.ignored[column] = "several numbers in each cell"
        elif 2 * len(pairs) > len(frame) and metric_named(column) not in GENERAL:
            raise UserError(
                f"Cells of column '{column}', such as '{pairs[0]}', hold {_count(pairs[0])} "
                "numbers: give each a column of its own, or leave it out with "
                f"{roles.option(ignore=column)}."
            )
    unnamed = {metric for metric, _ in roles.measured.values()} == {UNNAMED}
    if unnamed and ALL not in roles.chosen and (cells := _several(frame)):
        raise UserError(_why_several(cells[0], roles))
    if roles.detector is None and not are_detectors(roles):
        raise NothingComparedError(_why_no_detector(roles, frame))


def _why_no_detector(roles: Roles, frame: pd.DataFrame) -> str:
    """Name the columns that may hold what is compared."""
    free = _candidates(roles, frame)
    titles = list(dict.fromkeys(what for _, what in roles.measured.values() if what))
    if len(titles) > 1 and not roles.wide and not are_runs(titles):
        lines_of = [c for c in free if plain(c) not in REPEAT_TITLES]
        rows = next((c for c in lines_of if c not in (roles.ood, roles.id)), None)
        lines = f", do the lines ({roles.option(detector=rows)})" if rows else ""
        return (
            f"Do the titles of columns ({', '.join(titles[:2])}, …) name what is compared "
            f"({roles.option(detector=ALL)}){lines}, or are they data sets of one detector or "
            "model, so that there is nothing to compare?"
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
    if (only := _only_one(roles, frame)) is not None:
        names = [c for c in free if plain(c) not in REPEAT_TITLES][:_SHOWN]
        options = " or ".join(roles.option(detector=name) for name in names)
        unless = f", unless another column names what is, with {options}" if names else ""
        return f"'{only}' says {frame[only].iloc[0]} on every line: nothing is compared{unless}."
    data = [c for c in (roles.ood, roles.id) if c in free]
    of_data = f", and '{data[0]}' says of which data the numbers are" if data else ""
    free.sort(key=lambda column: column in data)
    options = " or ".join(roles.option(detector=column) for column in free[:_SHOWN])
    bare = [c for c in roles.factors if _may_hold_results(frame, c) and not roles.chosen]
    named = roles.option(detector=ALL, higher=", higher=".join(bare[:2]))
    by_title = f"; if titles do, name all columns of one metric, such as {named}" * (len(bare) > 1)
    return (
        f"No column names the detector{of_data}: if all rows are of one, there is nothing to "
        f"compare; else say which column tells what is compared, with {options}{by_title}."
    )


def _only_one(roles: Roles, frame: pd.DataFrame) -> str | None:
    """Return the column that names one model, the same on all lines, if there is such a one."""
    named = {*DETECTOR_TITLES, *MODEL_TITLES} - {"name", "score", "confidence"}
    titled = [c for c in frame.columns if plain(c) in named and c not in roles.measured]
    return next((c for c in titled if len(frame) > 1 and len(frame[c].unique()) == 1), None)


def _like_results(roles: Roles, frame: pd.DataFrame) -> list[str]:
    """Return columns whose titles name no metric, with numbers of the size of those that do.

    Beside several metrics, they are further ones.
    """
    metrics = {metric for metric, _ in roles.measured.values()}
    if len(metrics) >= _SEVERAL_METRICS or any(metric not in MEASURES for metric in metrics):
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


def _several(frame: pd.DataFrame) -> list[str]:
    """Return the cells with several numbers of columns that hold hardly anything else."""
    columns = [[t for t in frame[c] if not is_gap(t)] for c in frame.columns]
    cells = [[t for t in texts if _holds_several(t)] for texts in columns]
    often = [own for own, texts in zip(cells, columns, strict=True) if 2 * len(own) > len(texts)]
    return [cell for own in often for cell in own]


def _holds_several(text: str) -> bool:
    return _SEVERAL.fullmatch(text) is not None and not is_no_pair(text)


def _count(cell: str) -> str:
    count = cell.count("/") + 1
    return {2: "two", 3: "three"}.get(count, str(count))


def _why_several(cell: str, roles: Roles) -> str:
    count = cell.count("/") + 1
    first = roles.option(**{"/".join(["higher", *[IGNORED] * (count - 1)]): ALL})
    said = {2: "FPR95/AUROC", 3: "NLL/accuracy/ECE"}.get(count)
    if said is None:
        return (
            f"Cells such as '{cell}' hold {_count(cell)} numbers: give each a column of its own, "
            f"or take the first, of which higher is better, with {first}."
        )
    return (
        f"Cells such as '{cell}' hold {_count(cell)} numbers: say what they are, in the titles, "
        f"such as 'SVHN ({said})', or for all of them, such as {roles.option(**{said: ALL})}; "
        f"{first} takes the first, of which higher is better."
    )


def _candidates(roles: Roles, frame: pd.DataFrame) -> list[str]:
    """Return the columns of words and settings that tell lines apart, or else those of levels."""
    taken = {*roles.measured, *roles.spreads.values(), *roles.ignored, roles.metric, roles.runs}
    free = [c for c in frame.columns if c not in taken and len(frame[c].unique()) > 1]
    free = [c for c in free if metric_named(c) is None and not frame[c].map(is_gap).any()]
    free = [c for c in free if not names_costs(c) and not are_checkpoints(frame[c].unique())]
    words = [c for c in free if numeric_share(frame[c]) <= 0.5 and not _are_hashes(frame[c])]
    words = [c for c in words if not are_remarks(frame[c].unique())]
    settings = [c for c in free if c not in words and _may_be_set(frame[c], c)]
    metrics = {metric for metric, _ in roles.measured.values()}
    if not words and len(metrics) >= _SEVERAL_METRICS:  # numbers beside them are further ones
        free = [c for c in free if not are_decimals(frame[c])]
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
    if not any(map(_DIGIT.search, (t for c in frame.columns for t in frame[c]))):
        return "No column holds results: no cell holds a number, so the table may be a template."
    pairs = [t for column in frame.columns for t in frame[column] if _holds_several(t)]
    if len(pairs) > len(frame):
        return _why_several(pairs[0], roles)
    for column in filter(metric_named, frame.columns):
        wrong = [t for t in frame[column] if not is_gap(t) and read_cell(t) is None]
        if wrong and _holds_several(wrong[0]):
            return _why_several(wrong[0], roles)
        if wrong:
            return (
                f"Column '{column}' should contain results, but most of its cells are not numbers, "
                f"such as '{wrong[0]}'."
            )
    if pairs:
        return _why_several(pairs[0], roles)
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
    counts = not _NUMBERS_OF.isdisjoint(words_of(column))
    other = counts or mentions_setting(column) or names_costs(column)
    other = other or plain(column) in {*TITLES, *OOD_TITLES, "default", "defaults"}
    return numeric_share(frame[column]) > 0.5 and varies and not other


def _why_left_out(roles: Roles, frame: pd.DataFrame) -> str:
    """Say which numbers are known as something else: differences, statistics."""
    gains = [t for column in frame.columns for t in frame[column] if t.startswith("+")]
    if len(gains) > len(frame):
        return f"Numbers with a sign, such as {gains[0]}, are read as differences, not as results."
    statistics = [c for c, why in roles.ignored.items() if why == OTHER_STATISTIC]
    if statistics:
        column = next((c for c in statistics if are_decimals(frame[c])), statistics[0])
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
