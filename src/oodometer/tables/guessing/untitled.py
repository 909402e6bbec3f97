"""Columns of results whose titles name no metric: measurements, not settings or other numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from oodometer.errors import UserError
from oodometer.factors import plain, words_of
from oodometer.tables.cells import Cell, read_cell, value_of
from oodometer.tables.columns import with_columns
from oodometer.tables.guessing.likeness import are_copies, are_ranks, are_runs
from oodometer.tables.guessing.measurements import Cells, is_known, may_measure, measurements
from oodometer.tables.guessing.questions import mean_of_one, what_are
from oodometer.tables.guessing.roles import (
    ALL,
    MEAN_OF_OTHERS,
    OTHER_STATISTIC,
    UNNAMED,
    Roles,
)
from oodometer.tables.guessing.spreads import paired
from oodometer.tables.guessing.titled import OTHER_METRIC, REPORTED
from oodometer.tables.lines.summaries import are_like
from oodometer.tables.vocabulary.data_names import is_set
from oodometer.tables.vocabulary.groups import sure_means
from oodometer.tables.vocabulary.names import is_compared
from oodometer.tables.vocabulary.statistics import (
    MEANS,
    OTHER_STATISTICS,
    SPREADS,
    SUMMARIES,
    is_average,
)
from oodometer.tables.vocabulary.titles import (
    QUANTITIES,
)

if TYPE_CHECKING:
    import pandas as pd

_SPLIT = re.compile(
    r"(?<![^\W_])(?:train(?:ing)?|val(?:id(?:ation)?)?|dev|test(?:ing)?)(?![^\W_])", re.I
)
_TRAINING = re.compile(r"(?<![^\W_])train(?:ing)?(?![^\W_])", re.IGNORECASE)
MEAN_AND_SPREAD = re.compile(r"\s*\(?mean\s*(?:±|\+/-|\+-)\s*(?:std|sd|stdev)\.?\)?", re.I)
_REPORTED = re.compile(r"(?:origin(?:al)?|paper|published|reported|(?:in|from)paper)+")
# Words that name quantities, and parts of names of detectors: mean-teacher, max-cosine.
_OF_SCORES = frozenset(
    {"mean", "max", "min", "entropy", "confidence", "probability", "prob", "uncertainty", "norm"}
)
_LEVEL = re.compile(r"=\s*\d+(?:\.\d+)?$")
_OTHER_QUANTITY = "another quantity"
_LARGE = 5  # percentages, beside fractions
_SHOWN = 4  # columns that a question names
_FEWEST_RUNS = 3  # whose mean and spread are known by their numbers
_VALUES = frozenset({"value", "values", "score", "scores", "result", "results"})
_METRICS = frozenset({"metric", "metrics", "measure", "name"})


def untitled_results(
    frame: pd.DataFrame, numeric: Sequence[str], roles: Roles, metric: str
) -> None:
    """Find columns of results that no title names: measurements rather than settings."""
    cells = {column: _numbers(frame[column]) for column in numeric}
    is_share = metric in (UNNAMED, *roles.own) or roles.measure(metric).is_share
    # Where each line names its metric, some of them are no shares.
    bounded = bool(is_share) and metric not in roles.own and roles.metric is None
    pairs = paired(cells)
    of_pairs = {*pairs, *(spread for _, spread in pairs.values())}
    pairs = {mean: pair for mean, pair in pairs.items() if not is_quantity(pair[0])}
    kept = {*pairs, *(spread for _, spread in pairs.values())}
    roles.ignored |= dict.fromkeys((c for c in numeric if c in of_pairs - kept), _OTHER_QUANTITY)
    asked = ALL in roles.chosen
    if asked:  # numbers with a sign are results if the user says so
        frame = with_columns(frame, {c: frame[c].str.lstrip("+") for c in numeric})
    measured = [c for c in measurements(frame, cells, bounded) if c not in of_pairs]
    if not measured and not pairs:
        measured = _any_numbers(frame, cells, roles)
    measured = _of_runs(_without_statistics(measured, roles), frame, roles)
    measured = _on_test_data(measured, roles)
    _require_one_split(measured, roles)
    if roles.metric is not None:
        measured = _of_lines(measured, frame, roles)
    measured = _alike(measured, cells, roles, metric, asked=asked)
    measured = _of_one_size(measured, cells, roles, bounded)
    if bounded and not asked:
        _require_one_form(measured, cells, roles)
    called = [c for c in numeric if c not in measured and _is_called_summary(c)]
    letters = [c for c in numeric if len(c) == 1 and c not in measured]  # A, C, P, S: P is no p
    called += letters if sum(len(c) == 1 for c in measured) > 1 else []
    measured += _results_after_all(called, measured, cells)
    alone = len(measured) == 1 and not pairs and not (roles.ood is None and is_set(measured[0]))
    for column in measured:
        bare = MEAN_AND_SPREAD.sub("", column).strip(" ↑↓")
        what = "" if alone or plain(column) == "value" else bare
        roles.measured[column] = (metric, what)
    for column, (what, spread) in pairs.items():
        roles.measured[column] = (metric, what)
        roles.spreads[column] = spread
    free = [c for c in numeric if c not in roles.measured]
    left = [c for c in free if plain(c) in SUMMARIES - SPREADS]
    roles.ignored |= dict.fromkeys(left, OTHER_STATISTIC)


def _without_statistics(measured: list[str], roles: Roles) -> list[str]:
    """Leave out quantiles and means of the other columns."""
    if any(plain(c) in MEANS for c in measured):  # as pandas describes numbers: 25%, 50%, 75%
        quantiles = [c for c in measured if re.fullmatch(r"\d+(?:\.\d+)?\s?%", c)]
        roles.ignored |= dict.fromkeys(quantiles, OTHER_STATISTIC)
        measured = [c for c in measured if c not in quantiles]
    stems = {plain(MEAN_AND_SPREAD.sub("", c)) for c in measured}
    others = [c for c in measured if _stem_of_statistic(c) in stems]
    roles.ignored |= dict.fromkeys(others, OTHER_STATISTIC)
    measured = [c for c in measured if c not in others]
    reported = [c for c in measured if _REPORTED.fullmatch(plain(c))]
    if len(measured) - len(reported) > 2:
        roles.ignored |= dict.fromkeys(reported, REPORTED)
        measured = [c for c in measured if c not in reported]
    means = [c for c in measured if is_average(c) and not _is_beside_one(c, measured)]
    means = sure_means(means, len(measured) - len(means))
    if len(means) == len(measured):
        return measured
    if len(means) == 1 and len(measured) == 2:
        raise mean_of_one(means[0], *(c for c in measured if c not in means))
    roles.ignored |= dict.fromkeys(means, MEAN_OF_OTHERS)
    return [column for column in measured if column not in means]


def _stem_of_statistic(title: str) -> str | None:
    """Return what stands before a word such as range, which a mean beside it is called, too."""
    stem, _, last = re.sub(r"[_.]", " ", title).rpartition(" ")
    return plain(stem) if stem and plain(last) in OTHER_STATISTICS else None


def _is_beside_one(column: str, measured: Sequence[str]) -> bool:
    """Whether a mean stands beside one other column of its group: over samples, not over columns.

    Such are Avg. and WGA below each of several data sets.
    """
    group = " ".join(column.split()[:-1])
    of_group = [c for c in measured if group and c.startswith(f"{group} ")]
    return len(of_group) == 2 and 4 <= len(measured) == 2 * sum(map(is_average, measured))


def _of_lines(measured: list[str], frame: pd.DataFrame, roles: Roles) -> list[str]:
    """Return the column that holds what each line names, called value or score; or ask which."""
    values: list[str] = []
    for column in (c for c in measured if words_of(c) & _VALUES):
        same = next((v for v in values if are_copies(frame[v], frame[column])), None)
        if same is None:
            values.append(column)
        else:
            roles.ignored[column] = f"the same as {same}"
    beside = [c for c in values if _bare(c, _VALUES) == _bare(roles.metric or "", _METRICS)]
    if len(beside) == 1 and _bare(beside[0], _VALUES):  # metric_primary and value_primary
        others = [column for column in values if column not in beside]
        roles.ignored |= dict.fromkeys(others, OTHER_METRIC)
        return beside
    if len(values) > 1 and not any(map(is_known, measured)):
        options = [roles.option(ignore=", ignore=".join(v for v in values if v != kept))
                   for kept in values[:2]]  # fmt: skip
        raise UserError(
            f"{' and '.join(map(repr, values[:2]))} may hold what each line names as its metric: "
            f"say which is left out, with {' or '.join(options)}."
        )
    return values or measured


def _bare(title: str, words: frozenset[str]) -> frozenset[str]:
    """Return what a title says beside some words."""
    return frozenset(words_of(title)) - words


def _of_runs(measured: list[str], frame: pd.DataFrame, roles: Roles) -> list[str]:
    """Leave out what is the mean or the spread of runs beside it, whatever it is called."""
    others = [c for c in measured if not are_runs([c, c])]
    runs = [c for c in measured if c not in others]
    if len(runs) < 2 or not others:
        return measured
    roles.ignored |= dict.fromkeys(others, "not one of the runs beside it")
    if len(runs) < _FEWEST_RUNS:
        return runs
    table = np.array([[value_of(text) for text in frame[c]] for c in runs])
    statistics = {MEAN_OF_OTHERS: [table.mean(axis=0)], OTHER_STATISTIC: [
        table.std(axis=0), table.std(axis=0, ddof=1), np.ptp(table, axis=0)
    ]}  # fmt: skip
    for column in others:
        own = np.array([value_of(text) for text in frame[column]])
        for why, known in statistics.items():
            if any(np.allclose(own, numbers, rtol=0.02, equal_nan=True) for numbers in known):
                roles.ignored[column] = why
    return runs


def _numbers(texts: pd.Series[str]) -> list[Cell]:
    return [cell for text in texts if (cell := read_cell(text)) is not None]


def _alike(
    measured: list[str], cells: Cells, roles: Roles, metric: str, *, asked: bool
) -> list[str]:
    """Leave out other quantities beside results; refuse columns that are unlike quantities."""
    other = [c for c in measured if is_quantity(c) and not _is_beside_one(c, measured)]
    known = [column for column in measured if is_known(column)]
    if other and len(known) >= 2:
        if asked:
            return measured
        alike = [c for c in _of_their_size(other, known, cells) if _may_name_score(c)]
        if alike and roles.detector is None:
            of = "higher" if metric == UNNAMED else metric.replace(" ", "_")
            raise UserError(
                f"Is '{alike[0]}' compared with {known[0]} and {known[1]} "
                f"({roles.option(**{of: ALL})}), or another quantity "
                f"({roles.option(ignore=', ignore='.join(other))})?"
            )
        roles.ignored |= dict.fromkeys(other, _OTHER_QUANTITY)
        return [column for column in measured if column not in set(other)]
    if len(measured) > 1 and 2 * len(other) >= len(measured) and not asked:
        shown = ", ".join(f"'{column}'" for column in measured[:_SHOWN])
        means = (c for c, why in roles.ignored.items() if why == MEAN_OF_OTHERS)
        one = next(means, measured[0])
        raise UserError(
            f"No column names a metric, and {shown}{', …' * (len(measured) > _SHOWN)} are unlike "
            "quantities, which cannot be averaged or compared with each other: name one that says "
            f"which is better, such as {roles.option(higher=one)} or {roles.option(lower=one)}."
        )
    return measured


def _require_one_form(measured: Sequence[str], cells: Cells, roles: Roles) -> None:
    """Ask where some columns are percentages and others fractions: unlike quantities, perhaps.

    Without a sign, several of either size are: accuracies in percent beside errors below 1.
    """
    small = [c for c in measured if all(cell.value <= 1 and not cell.percent for cell in cells[c])]
    signed = [c for c in measured if all(cell.percent for cell in cells[c])]
    large = [c for c in measured if all(cell.value > _LARGE for cell in cells[c])]
    signed = signed or (large if min(len(large), len(small)) > 1 else [])
    if len(signed) + len(small) < len(measured) or not signed or not small:
        return
    aside = [c for c, why in roles.ignored.items() if why == _OTHER_QUANTITY and cells.get(c)]
    small += [c for c in aside if all(cell.value <= 1 for cell in cells[c])]  # Birth Rate
    others = [roles.option(ignore=", ignore=".join(group), higher=ALL) for group in (signed, small)]
    raise UserError(
        f"'{small[0]}' holds fractions and '{signed[0]}' percentages, and no title names a metric: "
        f"if the fractions are the results, use {others[0]}; if the percentages are, use "
        f"{others[1]} (lower={ALL} if lower is better)."
    )


def _any_numbers(frame: pd.DataFrame, cells: Cells, roles: Roles) -> list[str]:
    """Return all columns that may be results if the user says so; else ask what they are."""
    free = [c for c in cells if cells[c] and may_measure(frame, c, cells[c], bounded=False)]
    free = [c for c in free if "ci" not in words_of(c)]  # the ends of intervals
    if ALL in roles.chosen or len(free) < 2:
        return free if ALL in roles.chosen else []
    free = _alike(free, cells, roles, UNNAMED, asked=False)
    shares = all(0 <= cell.value <= 100 for c in free for cell in cells[c])
    raise what_are(free, roles, shares=shares, ranks=are_ranks(frame, free))


def _of_one_size(measured: list[str], cells: Cells, roles: Roles, bounded: bool) -> list[str]:
    """Leave out numbers above 1, such as a share of outliers in percent, among many fractions."""
    small = [c for c in measured if max(cell.value for cell in cells[c]) <= 1]
    large = [c for c in measured if np.median([cell.value for cell in cells[c]]) > 1]
    if not bounded or len(small) < max(_SHOWN, 2 * len(large)) or any(map(is_known, large)):
        return measured
    roles.ignored |= dict.fromkeys(large, _OTHER_QUANTITY)
    return [column for column in measured if column not in large]


def _on_test_data(measured: list[str], roles: Roles) -> list[str]:
    """Leave out results on the training data where each has one on test data beside it."""
    titles = {plain(column) for column in measured}
    train = [c for c in measured if _TRAINING.search(c)]
    tested = [plain(_TRAINING.sub(" test ", c)) in titles for c in train]
    if len(train) < 2 or not all(tested):
        return measured
    roles.ignored |= dict.fromkeys(train, "on training data")
    return [column for column in measured if column not in train]


def _require_one_split(measured: Sequence[str], roles: Roles) -> None:
    """Ask which split counts, where columns are those of training, validation and test."""
    splits = {c: _SPLIT.search(c) for c in measured}
    named = [c for c, found in splits.items() if found]
    rest = {_SPLIT.sub("", c) for c in named}
    test = next((c for c in named if "test" in c.casefold()), named[-1]) if named else ""
    if len(named) > 1 and len(rest) < len(named):
        raise UserError(
            f"{', '.join(map(repr, named[:_SHOWN]))} are results on different parts of the data: "
            f"say which count, such as {roles.option(higher=test)} or {roles.option(lower=test)}."
        )


def is_quantity(title: str) -> bool:
    """Whether a title names some quantity, such as a median, rather than a set or a detector.

    >>> is_quantity("id_median"), is_quantity("edl_rejection_rate_0.5"), is_quantity("SVHN")
    (True, True, False)
    """
    bare = MEAN_AND_SPREAD.sub("", title[:200])
    words = words_of(bare)
    named = is_compared(title) or is_set(title) or plain(title) in MEANS
    named = named or bool(_LEVEL.search(title))  # num_components = 20
    return not named and not words.isdisjoint(QUANTITIES)


def _may_name_score(title: str) -> bool:
    """Whether a title may be the name of a detector, though a word of it names a quantity.

    >>> _may_name_score("mean-teacher"), _may_name_score("anomaly_ratio"), _may_name_score("mean")
    (True, False, False)
    """
    words = words_of(title)
    said = words & QUANTITIES
    return said < words and said <= _OF_SCORES


def _is_called_summary(title: str) -> bool:
    """Whether a title is a word for summaries, or may be: SE is semantic entropy, too; delta-x."""
    return plain(title) in SUMMARIES | {"se"} or "delta" in words_of(title)


def _results_after_all(named: list[str], measured: Sequence[str], cells: Cells) -> list[str]:
    """Return columns that are called like summaries, but hold numbers like the results'."""
    return _of_their_size(named, measured, cells) if len(measured) > 1 else []


def _of_their_size(named: Sequence[str], measured: Sequence[str], cells: Cells) -> list[str]:
    """Return the columns whose numbers are of the size of those in others, line by line."""
    size = min(len(cells[column]) for column in (*measured, *named))
    table = {c: np.array([cell.value for cell in cells[c][:size]]) for c in (*measured, *named)}
    others = np.array([table[column] for column in measured])
    return [column for column in named if are_like(table[column], others)]
