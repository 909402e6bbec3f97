"""What several names have in common: those of data sets, of detectors, or mere numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from oodometer.factors import CORRUPTIONS, LABELS, OPTIMIZERS, TITLES, plain, words_of
from oodometer.tables.cells import Cell, is_gap, numeric_share, read_cell
from oodometer.tables.guessing.roles import Roles
from oodometer.tables.vocabulary.costs import names_costs
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.names import is_compared
from oodometer.tables.vocabulary.titles import (
    DATA_WORDS,
    REPEAT_WORD,
    SET_TITLES,
    mentions_setting,
)

if TYPE_CHECKING:
    import pandas as pd

# checkpoint=early, noise rate 0.1, but not Split A ARC
KEYED = re.compile(r"([^\W\d_]+(?:[\s_][^\W\d_]+)?)[\s_=]+(\S+)")
_FACTORS = frozenset({*TITLES, *LABELS, *OPTIMIZERS, *CORRUPTIONS})
_REPEATED = re.compile(rf"({REPEAT_WORD})[\s_#=\-]*\d+(?:\.0+)?", re.IGNORECASE)  # seed 42


def wide_names(roles: Roles) -> list[str]:
    """What the titles of several columns of results name, one of them each."""
    return [what for _, what in roles.measured.values() if what]


def are_data(names: Sequence[str]) -> bool:
    """Whether names are those of data sets: most of them, or several and none of a detector."""
    known = sum(map(is_data, names))
    others = sum(map(is_compared, names))
    return 0 < len(names) <= 2 * known or known >= 3 > others == 0


def mostly(names: Sequence[str], test: Callable[[str], bool]) -> bool:
    """Whether at least every second of some names passes a test."""
    return bool(names) and 2 * sum(map(test, names)) >= len(names)


def share(texts: pd.Series[str], test: Callable[[str], bool]) -> float:
    """Return which share of the different names in a column passes a test."""
    distinct = [text for text in texts.unique() if not is_gap(text)]
    return sum(map(test, distinct)) / len(distinct) if distinct else 0.0


def factor_in(titles: Sequence[str]) -> str | None:
    """Return the known factor whose levels titles name, one each.

    >>> factor_in(["checkpoint=early", "checkpoint=late"]), factor_in(["plant a", "plant b"])
    ('checkpoint', None)
    """
    found = {match[1].casefold() if match else "" for match in map(KEYED.fullmatch, titles)}
    name = found.pop() if len(found) == 1 and len(titles) > 1 else ""
    return name if plain(name) in _FACTORS else None


def are_numbers(titles: Sequence[str]) -> bool:
    """Whether titles merely number columns, from 0 or 1 on.

    >>> are_numbers(["0", "1", "2"]), are_numbers(["10", "50"]), are_numbers([])
    (True, False, False)
    """
    first = [*map(str, range(len(titles)))], [*map(str, range(1, len(titles) + 1))]
    return len(titles) > 1 and list(titles) in first


def are_ranks(frame: pd.DataFrame, columns: Sequence[str]) -> bool:
    """Whether the numbers of each line are 1, 2, …, each once; some may be missing."""
    lines = [[read_cell(text) for text in line] for line in frame[list(columns)].to_numpy()]
    values = [[cell.value for cell in line if cell is not None] for line in lines]
    known = set(range(1, len(columns) + 1))
    distinct = all(len(set(line)) == len(line) and known.issuperset(line) for line in values)
    return len(columns) > 2 and len(lines) > 2 and distinct


def are_copies(first: pd.Series[str], second: pd.Series[str]) -> bool:
    """Whether two columns hold the same numbers, but for rounding: 0.2857 ± 0.0027 and 0.28574."""
    pairs = [(read_cell(one), read_cell(other)) for one, other in zip(first, second, strict=True)]
    known = [(one.value, other.value) for one, other in pairs if one and other]
    columns = [[f"{value:.10g}" for value in column] for column in zip(*known, strict=True)]
    places = [max(len(text.partition(".")[2]) for text in column) for column in columns]
    unit = 10.0 ** -min(places, default=0)
    return len(known) == len(pairs) > 1 and all(abs(a - b) <= 0.51 * unit for a, b in known)


def are_runs(titles: Sequence[str]) -> bool:
    """Whether titles number runs.

    >>> are_runs(["seed 42", "seed 123"]), are_runs(["0", "1"]), are_runs(["SVHN", "LSUN"])
    (True, True, False)
    """
    kinds = {found[1].casefold() if found else "" for found in map(_REPEATED.fullmatch, titles)}
    return are_numbers(titles) or (len(titles) > 1 and len(kinds) == 1 and "" not in kinds)


def have_numbers(texts: Iterable[str]) -> bool:
    """Whether some text begins with a number, such as 2nd; ranks in words are none.

    >>> have_numbers(["1st", "2nd"]), have_numbers(["min", "q1", "max"])
    (True, False)
    """
    return any(re.match(r"[#+\-−]?\d", text) for text in texts)


def name_setups(texts: Sequence[str]) -> bool:
    """Whether a column called run has a name in words for every line, of what was run.

    >>> name_setups(["llama_4bit", "llama_8bit", "base"]), name_setups(["run 1", "run 2", "run 3"])
    (True, False)
    """
    worded = all(re.search(r"[^\W\d_]{3}", text) for text in texts)
    return worded and len(set(texts)) == len(texts) > 2 and not are_runs(texts)


def are_decimals(texts: pd.Series[str]) -> bool:
    """Whether at least every second text is a number with a decimal point."""
    decimals = sum("." in text and read_cell(text) is not None for text in texts)
    return 2 * decimals >= len(texts)


def are_within(cells: Sequence[Cell], low: float, high: float) -> bool:
    """Whether all numbers lie between two others, and are no levels of a setting."""
    return all(low <= cell.value <= high for cell in cells) and not are_levels(cells)


def are_partly_whole(cells: Sequence[Cell], most: float) -> bool:
    """Whether some shares are whole and others are not: 1, 1, 0.998, but not 1, 0, 1."""
    fine = any(cell.value != int(cell.value) for cell in cells)
    return fine and are_within(cells, 0, most)


def are_levels(cells: Sequence[Cell]) -> bool:
    """Whether numbers are levels of a setting: few, and each of them equally often."""
    times = Counter(cell.value for cell in cells)
    exact = sum(len(f"{value:g}".replace(".", "").strip("0-")) > 3 for value in times)
    return (
        2 * exact <= len(times)
        and 1 < len(times) <= len(cells) / 2
        and len(set(times.values())) == 1
    )


def is_about_data(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column says of which data the numbers are, by its title or by known names.

    A benchmark beside data sets may be anything, such as the features that are compared.
    """
    words = set(words_of(column))
    if "benchmark" in words and any(plain(c) in SET_TITLES for c in frame.columns if c != column):
        words.discard("benchmark")
    return not words.isdisjoint(DATA_WORDS) or share(frame[column], is_data) >= 0.5


def numbers_lines(frame: pd.DataFrame, column: str) -> bool:
    """Whether a first column without a title gives each line a whole number: names, not results."""
    texts = frame[column]
    first = len(frame.columns) > 2 and column == frame.columns[0] == "column 1"
    return first and texts.is_unique and all(text.isdigit() for text in texts)


def tells_lines_apart(frame: pd.DataFrame, column: str) -> bool:
    """Whether lines differ in a column of few whole numbers that are equal in names and settings.

    So does the rank of adapters: the rank of results is another one on every line, or says
    nothing that names do not.
    """
    texts = frame[column]
    if 2 * texts.nunique() > len(texts) or not all(map(str.isdigit, texts)):
        return False
    others = names_and_settings(frame, column)
    return bool(frame.duplicated(others).any()) and not frame.duplicated([*others, column]).any()


def names_and_settings(frame: pd.DataFrame, column: str) -> list[str]:
    """Return the columns beside one that hold names, settings or numbers of runs."""
    others = [c for c in frame.columns if c != column and not names_costs(c)]
    return [c for c in others if numeric_share(frame[c]) == 0 or _is_set(str(c))]


def _is_set(title: str) -> bool:
    """Whether a title is that of a setting or of something that is numbered, such as a seed."""
    return mentions_setting(title) or plain(title) in TITLES


def is_mean_of(frame: pd.DataFrame, column: str, parts: Sequence[str]) -> bool:
    """Whether numbers are the means of those beside them, but for rounding."""
    cells = [[read_cell(text) for text in frame[c]] for c in (column, *parts)]
    lines = [line for line in zip(*cells, strict=True) if None not in line]
    values = [[cell.value for cell in line if cell is not None] for line in lines]
    rounding = 0.002 * max((abs(line[0]) for line in values), default=0.0)
    off = [abs(own - sum(others) / len(others)) for own, *others in values]
    return len(parts) > 1 and bool(off) and max(off) <= rounding
