"""Columns that tell nothing, set aside before the others are looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oodometer.factors import plain, words_of
from oodometer.tables.cells import interval_of, is_gap, numeric_share, read_cell
from oodometer.tables.frames.differences import DIFFERENCES
from oodometer.tables.guessing.gains import holds_differences
from oodometer.tables.guessing.likeness import names_and_settings
from oodometer.tables.guessing.roles import ALL, OTHER_STATISTIC, Roles
from oodometer.tables.vocabulary.costs import are_costs
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.others import (
    METRIC_TITLES,
    VERDICTS,
    counts_outcomes,
    is_found,
    is_kept_by_tracker,
    names_p_values,
)

if TYPE_CHECKING:
    import pandas as pd

_INTERVALS = "intervals of results"  # why a column is not used
_OF_INTERVALS = frozenset({"ci", "cis", "interval", "intervals", "confint", "bounds"})  # in titles
_SAMPLES = "number of samples"
COSTS = "what it costs"
_TESTS = frozenset({"p", "dm", "t", "z", "w", "u", "stat", "chi2"})  # before what they test
_LOOKED_AT = 100  # lines whose names are taken apart
_MADE_OF = 0.7  # of the letters of a name that other columns of its line must tell


def set_aside(frame: pd.DataFrame, columns: list[str], roles: Roles) -> list[str]:
    """Leave out columns that can tell nothing: empty, running numbers or differences."""
    kept = []
    for column in columns:
        texts = frame[column]
        named = plain(column) in METRIC_TITLES and any(map(metric_named, texts.unique()))
        if all(is_gap(text) for text in texts) and not named:  # "error" is a metric, too
            roles.ignored[column] = "empty"
        elif not any(plain(text) for text in texts.unique()):
            roles.ignored[column] = "signs only"
        elif plain(column) == "support" and any(map(metric_named, columns)):
            roles.ignored[column] = _SAMPLES  # as scikit-learn calls it
        elif holds_differences(frame, column, columns, asked=ALL in roles.chosen):
            roles.ignored[column] = DIFFERENCES
        elif (
            counts_outcomes(column, columns)
            or names_p_values(column)
            or _is_standard_error(column, columns)
            or _is_of_test(frame, column, columns)
        ):
            roles.ignored[column] = OTHER_STATISTIC
        elif plain(column) in VERDICTS and numeric_share(texts) == 0:
            roles.ignored[column] = "a verdict on the line"
        elif is_kept_by_tracker(column):
            roles.ignored[column] = "kept by the tracker"
        elif is_found(column):
            roles.ignored[column] = "found in each run"
        elif _holds_costs(frame, column):
            roles.ignored[column] = COSTS
        elif _are_intervals(frame, column):
            roles.ignored[column] = _INTERVALS
        elif plain(column) in ("", "index", "unnamed0", "column1", "id", "no", "nr") and _counts(
            texts.tolist()
        ):
            roles.ignored[column] = "row numbers"
        elif _names_columns(frame, column):
            roles.ignored[column] = "names one of the columns"
        elif parts := _made_of(frame, column):
            roles.ignored[column] = f"made of {', '.join(parts[:-1])} and {parts[-1]}"
        else:
            kept.append(column)
    return kept


def _is_of_test(frame: pd.DataFrame, column: str, columns: Sequence[str]) -> bool:
    """Whether a column is p_X or the statistic of the same test, such as dm_X, beside X."""
    test, _, what = column.partition("_")
    if what not in columns or f"p_{what}" not in columns:
        return False
    p_values = [cell.value for text in frame[f"p_{what}"] if (cell := read_cell(text))]
    return test.casefold() in _TESTS and all(0 <= value <= 1 for value in p_values)


def _is_standard_error(column: str, columns: Sequence[str]) -> bool:
    """Whether a column such as rf_acc_se stands beside the one whose standard errors it holds."""
    of = re.sub(r"[\s_\-.]+(?:se|sem)$", "", column, flags=re.IGNORECASE)
    return of != column and of in columns


def _holds_costs(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column states amounts of time or memory, of lines that other names tell apart."""
    if not are_costs([text for text in frame[column] if not is_gap(text)]):
        return False
    names = [c for c in frame.columns if c != column and numeric_share(frame[c]) == 0]
    named = [c for c in names if not are_costs(frame[c].tolist())]
    return bool(named) and not frame.duplicated(named).any()


def _names_columns(frame: pd.DataFrame, column: str) -> bool:
    """Whether each line names one of the columns with numbers, such as that of its best.

    What tells lines apart is no such name: the data that each of them was trained on.
    """
    names = {text for text in frame[column].unique() if not is_gap(text)}
    if len(names) < 2 or not all(name in frame.columns for name in names):
        return False
    others = [c for c in names_and_settings(frame, column) if c not in names]
    told = bool(others) and not frame.duplicated(others).any()
    return told and all(numeric_share(frame[name]) > 0.5 for name in names)


def _made_of(frame: pd.DataFrame, column: str) -> list[str]:
    """Return the columns whose texts make up a name of each line, such as resnet_mnist_relu.

    At least two vary, and together they tell as much.
    """
    texts = frame[column].tolist()
    if len(set(texts)) < max(3, len(texts) // 2) or numeric_share(texts) > 0:
        return []
    others = [str(c) for c in frame.columns if c != column and 1 < frame[c].nunique() < len(texts)]
    words = [c for c in others if numeric_share(frame[c]) < 1 and _are_inside(frame, c, texts)]
    if len(words) < 2 or frame.duplicated(words).any():
        return []
    lines = zip(texts, frame[words].to_numpy().tolist(), strict=True)
    told = [_told(text, parts) for text, parts in list(lines)[:_LOOKED_AT]]
    return words if min(told) >= _MADE_OF else []


def _are_inside(frame: pd.DataFrame, column: str, names: Sequence[str]) -> bool:
    pairs = list(zip(frame[column], names, strict=True))[:_LOOKED_AT]
    return all(len(plain(part)) > 1 and plain(part) in plain(name) for part, name in pairs)


def _told(name: str, parts: Sequence[str]) -> float:
    """Return which share of the letters of a name its parts tell."""
    rest = plain(name)
    for part in sorted(map(plain, parts), key=len, reverse=True):
        rest = rest.replace(part, "", 1)
    return 1 - len(rest) / max(1, len(plain(name)))


def _counts(texts: list[str]) -> bool:
    lines = len(texts) > 1
    return lines and texts in (
        [str(n) for n in range(len(texts))],
        [str(n + 1) for n in range(len(texts))],
    )


def same_counts(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the first of columns such as svhn_n_seeds, if all hold the same one number."""
    ends = tuple(f"{c}{title}" for c in "_ " for title in ("n_seeds", "n_runs", "num_seeds"))
    counts = [c for c in columns if c.casefold().endswith(ends)]
    alike = len({text for c in counts for text in frame[c]}) == 1
    return counts[:1] if alike else []


def without_sample_counts(frame: pd.DataFrame, columns: list[str], roles: Roles) -> list[str]:
    """Leave out how many samples the line of each name is about."""
    named = any(frame[c].is_unique and numeric_share(frame[c]) < 0.5 for c in columns)
    counts = [c for c in columns if plain(c) in ("n", "nsamples", "numsamples") and named]
    roles.ignored |= dict.fromkeys(counts, _SAMPLES)
    return [column for column in columns if column not in counts]


def _are_intervals(frame: pd.DataFrame, column: str) -> bool:
    """Whether cells are intervals that the title calls so, or that hold the results of their lines.

    Bins such as [0, 10) and [10, 20), which lines are sorted into, are not.
    """
    filled = [text for text in frame[column] if not is_gap(text)]
    if not filled or any(interval_of(text) is None for text in filled):
        return False
    words = words_of(column)
    return bool(words & _OF_INTERVALS) or any(
        _hold(frame[column], frame[other])
        for other in map(str, frame.columns)
        if other != column and numeric_share(frame[other]) > 0.5
    )


def _hold(intervals: pd.Series[str], results: pd.Series[str]) -> bool:
    """Whether each interval holds the number beside it, and no two lines share one."""
    pairs = [
        (bounds, cell.value)
        for text, result in zip(intervals, results, strict=True)
        if (bounds := interval_of(text)) and (cell := read_cell(result))
    ]
    inside = [low <= value <= high for (low, high), value in pairs]
    return len(pairs) > 1 and all(inside) and 2 * len({b for b, _ in pairs}) > len(pairs)
