"""Which columns of numbers hold measurements: by their numbers, or by names as titles."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from oodometer.factors import plain, words_of
from oodometer.tables.cells import Cell, read_cell
from oodometer.tables.guessing.likeness import (
    are_levels,
    are_partly_whole,
    are_within,
    numbers_lines,
)
from oodometer.tables.vocabulary.costs import names_costs
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.names import is_compared, is_detector, is_whole_model
from oodometer.tables.vocabulary.others import names_property_of_data
from oodometer.tables.vocabulary.statistics import (
    OTHER_STATISTICS,
    SPREADS,
    is_average,
)
from oodometer.tables.vocabulary.titles import (
    ID_TITLES,
    NO_RESULTS,
    OOD_TITLES,
    REPEAT_TITLES,
    is_setting,
    mentions_setting,
)

if TYPE_CHECKING:
    import pandas as pd

Cells = Mapping[str, Sequence[Cell]]  # column -> its numbers
_MANY = 4  # columns of measurements, whose size others may have
_REPEATED = 4  # times that each number of a setting comes, on average
_FAR = 3  # times smaller than results is what no result is
_COUNT = re.compile(r"(?i)(?:n|num|nb)_[^\W\d]")  # n_cells


def measurements(frame: pd.DataFrame, cells: Cells, bounded: bool) -> list[str]:
    """Return the columns that hold measurements, by their numbers or by names as titles."""
    may = {c for c in cells if may_measure(frame, c, cells[c], bounded)}
    measured = {c for c in cells if _measures(c, cells[c], c in may)}
    sizes = [cell.value for column in measured for cell in cells[column]]
    whole = {c: cells[c] for c in may - measured if not _is_flag(frame[c], sizes) or is_known(c)}
    found = measured | _whole_numbers(whole, sizes, len(measured))
    if measured:  # negative ones, which will be asked about
        largest = max(sizes)
        found |= {c for c in cells if _is_beyond(frame, c, cells[c], largest)}
    return [c for c in cells if c in found and not _is_setting_by_size(c, found, cells)]


def _is_setting_by_size(column: str, found: Collection[str], cells: Cells) -> bool:
    """Whether numbers that come again and again are far below all others: k1 and b of BM25.

    Settings stand before results, or behind them, but not amid them.
    """
    own = [cell.value for cell in cells[column]]
    if len(found) < _MANY or is_known(column) or _REPEATED * len({*own}) > len(own):
        return False
    titles = [c for c in cells if c in found]
    if 1 < titles.index(column) < len(titles) - 1:
        return False
    others = [cells[c] for c in found if c != column]
    varied = [own for own in others if 2 * len({cell.value for cell in own}) > len(own)]
    return 2 * len(varied) > len(others) and _FAR * max(own) < min(map(_lowest, varied))


def _whole_numbers(cells: Cells, sizes: Sequence[float], measured: int) -> set[str]:
    """Return columns of whole numbers that are percentages: by their titles, or by their size."""
    lowest = min(sizes, default=10.0)
    alike = {c for c in cells if lowest > 1 and _lowest(cells[c]) >= 0.5 * lowest}
    named = {c for c in cells if is_data(c) or is_detector(c)}
    if measured > 1:  # 1.000 among fractions, or 100 among percentages
        named |= {c for c in cells if are_partly_whole(cells[c], 1 if max(sizes) <= 1 else 100)}
    if not measured and not named and len(alike) < 2:
        return set()
    if measured >= _MANY:  # numbers of the size of many others are like them
        largest = max(sizes)
        alike |= {c for c in cells if are_within(cells[c], lowest, largest)}
    return alike | named


def _is_flag(texts: pd.Series[str], sizes: Sequence[float]) -> bool:
    """Whether whole numbers beside fractions say yes or no, or are always the same."""
    bare = {text for text in texts.unique() if read_cell(text) is not None}
    beside = bool(sizes) and float(np.median(sizes)) <= 1
    return beside and (len(bare) < 2 or not any("." in text for text in bare))


def _is_beyond(frame: pd.DataFrame, column: str, cells: Sequence[Cell], largest: float) -> bool:
    """Whether numbers are like those of other columns, but for some that are negative."""
    negative = sum(cell.value < 0 for cell in cells)
    alike = 0 < 2 * negative < len(cells) and max(abs(cell.value) for cell in cells) <= largest
    return alike and may_measure(frame, column, cells, bounded=False)


def _measures(column: str, cells: Sequence[Cell], may: bool) -> bool:
    """Whether a column of numbers holds measurements rather than settings."""
    if any(cell.spread is not None for cell in cells):
        return True
    if any(cell.percent for cell in cells):
        return not mentions_setting(column)
    if plain(column) == "value":
        return may
    fine = sum(cell.value != int(cell.value) for cell in cells) > len(cells) / 2
    return may and fine and not are_levels(cells)


def may_measure(frame: pd.DataFrame, column: str, cells: Sequence[Cell], bounded: bool) -> bool:
    """Whether a column may hold measurements, by its title and the range of its numbers."""
    title = plain(column)
    within = not bounded or all(0 <= cell.value <= 100 for cell in cells)
    words = words_of(column)
    gains = 2 * sum(text.startswith("+") for text in frame[column]) > len(frame)
    fine = any(cell.value != int(cell.value) for cell in cells)
    code = _is_code(column, frame.columns)
    on_split = title in ID_TITLES | {"test"} and fine
    known = (
        title in SPREADS | OTHER_STATISTICS | REPEAT_TITLES | OOD_TITLES
        and not on_split
        and not code
    )
    setting = (is_setting(column) and not on_split) or (mentions_setting(column) and not fine)
    setting = setting and not (fine and is_data(column) and not are_levels(cells))  # noise
    is_name = code or is_detector(column) or is_whole_model(column)  # rank-feat, Time-CNN
    counts = bool(_COUNT.match(column)) and not fine
    named = not is_name and (
        bool(words & NO_RESULTS) or names_costs(column) or names_property_of_data(column) or counts
    )
    other = known or gains or named or setting or numbers_lines(frame, column)
    return within and not other and not ("paired" in words or "wilcoxon" in words)


def _is_code(title: str, titles: Iterable[str]) -> bool:
    """Whether two capitals are one of many such names: SD and MS beside CF, DB and FQ."""
    codes = [text for text in map(str, titles) if len(text) == 2 and text.isalpha()]
    return title in codes and title.isupper() and sum(map(str.isupper, codes)) > _MANY


def _lowest(cells: Sequence[Cell]) -> float:
    return min(cell.value for cell in cells)


def is_known(title: str) -> bool:
    """Whether a title is the name of a data set, a detector or a model, or says average."""
    return is_data(title) or is_compared(title) or is_average(title)
