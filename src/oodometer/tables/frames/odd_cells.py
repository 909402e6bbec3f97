"""Cells as READMEs write them: labels before numbers, numbers of others in brackets, crosses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from oodometer.factors import TITLES, plain, words_of
from oodometer.tables.cells import (
    is_gap,
    is_no_pair,
    may_be_places,
    numeric_share,
    read_cell,
    value_of,
)
from oodometer.tables.columns import with_columns
from oodometer.tables.vocabulary.costs import names_costs
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.others import names_judgement
from oodometer.tables.vocabulary.statistics import is_average, is_statistic
from oodometer.tables.vocabulary.titles import QUANTITIES, is_setting, mentions_setting

if TYPE_CHECKING:
    import pandas as pd

_LABELLED = re.compile(  # Acc@1 73.7, AUROC: 91.2%
    r"([^\W\d][\w@.\-]*)\s*[:=]?\s+(\d+(?:\.\d+)?\s?%?)(?=[\s,;/|]|$)[\s,;/|]*"
)
_BEHIND = re.compile(r"\s*\((\d+(?:\.\d+)?)\s?%?\)\s*$")  # 90.1 (91.2)
_COUNTED = re.compile(r"(\d+)\s*/\s*(\d+)(?:\s*\(\s*[\d.]+\s*%\s*\))?")  # 1602/1740 (92.1%)
_LARGEST_PERCENTAGE = 100
_UNCERTAIN = re.compile(r"([+\-−]?\d+\.(\d+))\((\d{1,3})\)")  # 2.62(26)
_LONGEST = 200  # characters of a cell that is looked at
_CROSSES = frozenset({"x", "X"})
_FEWEST = 2  # labels in a cell, numbers beside crosses
_FEWEST_PAIRS = 3  # numbers with another one in brackets
_ALIKE = (0.8, 1.25)  # how large a number in brackets is, if it is one of the same kind
_MOSTLY = 0.8  # of the cells
_SAME_SIZE = 2.0  # at most, of the medians of columns with the same metric


def with_plain_cells(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return a table whose cells are numbers, as far as labels and brackets hid them."""
    frame = _without_crosses(_by_labels(_without_judgements(frame, notes), notes))
    frame = _with_uncertainties(_with_rates(frame, notes), notes)
    return _with_carried_metric(_without_numbers_of_others(frame, notes), notes)


def _without_judgements(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Leave out columns that say what to think of each line, such as Status: improved."""
    left = [c for c in map(str, frame.columns) if names_judgement(c)]
    left = [c for c in left if numeric_share(frame[c]) == 0 and len(frame.columns) > _FEWEST]
    if left:
        notes.append(f"columns of remarks were left out: {', '.join(left)}")
    return frame.drop(columns=left)


def _by_labels(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Give each label of cells such as "Acc@1 73.7 Acc@5 91.6" a column of its own."""
    import pandas as pd

    columns: dict[str, list[str]] = {}
    split: list[str] = []
    for title in map(str, frame.columns):
        texts = frame[title].tolist()
        first = next((text for text in texts if not is_gap(text)), "")
        names = [name for name, _ in _labels(first)]
        if not _are_metrics(names):
            columns[title] = texts
            continue
        parts = [[] if is_gap(text) else _labels(text) for text in texts]
        others = {tuple(name for name, _ in own) for own in parts if own}
        whole = sum(map(bool, parts)) == sum(not is_gap(text) for text in texts)
        if not whole or others != {tuple(names)}:
            columns[title] = texts
            continue
        split.append(title)
        for place, name in enumerate(names):
            columns[f"{title} {name}"] = [own[place][1] if own else "" for own in parts]
    if not split:
        return frame
    notes.append(f"cells with a label before each number were split: {', '.join(split)}")
    return pd.DataFrame(columns, dtype=object)


def _are_metrics(names: Sequence[str]) -> bool:
    return len(names) >= _FEWEST and all(metric_named(name) is not None for name in names)


def _labels(text: str) -> list[tuple[str, str]]:
    """Return the labels and numbers of a cell that holds nothing else."""
    if len(text) > _LONGEST:
        return []
    found = list(_LABELLED.finditer(text.strip()))
    whole = sum(len(match[0]) for match in found) == len(text.strip())
    return [(match[1], match[2]) for match in found] if whole else []


def _without_crosses(frame: pd.DataFrame) -> pd.DataFrame:
    """Take an x for a gap in a column that holds nothing else but numbers."""
    for title in map(str, frame.columns):
        texts = frame[title].tolist()
        if _CROSSES.isdisjoint(texts):
            continue
        rest = [text for text in texts if text not in _CROSSES and not is_gap(text)]
        if len(rest) >= _FEWEST and all(map(read_cell, rest)):
            frame = with_columns(frame, {title: ["" if t in _CROSSES else t for t in texts]})
    return frame


def _with_rates(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Read how many of a total were right as a rate: 1602/1740.

    Beside a column of a metric, they are settings: 1024/4096 tokens, an attack of size 8/255.
    """
    new: dict[str, list[str]] = {}
    example = ""
    beside = [c for c in map(str, frame.columns) if metric_named(c) is not None]
    is_beside = any(numeric_share(frame[c]) > 0.5 for c in beside)
    for title in map(str, frame.columns):
        texts = frame[title].tolist()
        if not _begins_with(_COUNTED, texts):
            continue
        counts = [None if is_gap(text) else _COUNTED.fullmatch(text.strip()) for text in texts]
        found = [count for count in counts if count]
        if "/" in title or not found or len(found) < sum(not is_gap(text) for text in texts):
            continue
        if metric_named(title) is None and (is_beside or all(is_no_pair(c[0]) for c in found)):
            continue
        if plain(title) in TITLES or mentions_setting(title) or "resolution" in words_of(title):
            continue
        right, total = ([int(count[group]) for count in found] for group in (1, 2))
        if _are_counts(right, total):
            rates = (f"{100 * int(c[1]) / int(c[2]):.6g}%" if c else "" for c in counts)
            new[title] = list(rates)
            example = example or f"{found[0][1]}/{found[0][2]} is {right[0] / total[0]:.3g}"
    if not new:
        return frame
    notes.append(f"counts of a total are read as rates ({example}): {', '.join(new)}")
    return with_columns(frame, new)


def _begins_with(pattern: re.Pattern[str], texts: Sequence[str]) -> bool:
    """Whether the first cell that is no gap has a pattern: most columns are done with it."""
    first = next((text for text in texts if not is_gap(text)), "")
    return bool(pattern.fullmatch(first.strip()))


def _are_counts(right: Sequence[int], total: Sequence[int]) -> bool:
    """Whether pairs are counts: none above its total, which no percentage is or all lines share."""
    whole = all(part <= of and of for part, of in zip(right, total, strict=True))
    shared = len(set(total)) == 1 and len(total) >= _FEWEST_PAIRS
    numbered = set(right) == set(range(1, max(total) + 1))  # 1/5, 2/5, …
    counted = max(total) > _LARGEST_PERCENTAGE or shared
    return whole and counted and not numbered


def _with_uncertainties(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Read digits in brackets right behind a number as those of its uncertainty: 2.62(26).

    If in each column they may be places in an order, they are ranks.
    """
    cells = {title: frame[title].tolist() for title in map(str, frame.columns)}
    cells = {title: texts for title, texts in cells.items() if _begins_with(_UNCERTAIN, texts)}
    matches = {
        title: [None if is_gap(text) else _UNCERTAIN.fullmatch(text.strip()) for text in texts]
        for title, texts in cells.items()
    }
    found = {
        title: own
        for title, own in matches.items()
        if any(own) and sum(map(bool, own)) == sum(not is_gap(text) for text in cells[title])
    }
    digits = {title: [match[3] for match in own if match] for title, own in found.items()}
    if all(map(may_be_places, digits.values())):
        return frame
    new = {
        title: [f"{m[1]}±{int(m[3]) / 10 ** len(m[2]):g}" if m else "" for m in own]
        for title, own in found.items()
    }
    match = next(m for own in found.values() for m in own if m)
    notes.append(
        "digits in brackets are read as the uncertainty of the last ones: "
        f"{match[0]} is {next(text for own in new.values() for text in own if text)}"
    )
    return with_columns(frame, new)


def _without_numbers_of_others(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Leave out numbers in brackets that are as large as those before them: they are no spreads.

    Such are the numbers of the original paper behind those of an implementation.
    """
    found = [c for c in map(str, frame.columns) if _hold_numbers_of_others(frame[c].tolist())]
    if not found:
        return frame
    notes.append(
        "numbers in brackets are as large as those before them and were left out, as numbers of "
        f"others: {', '.join(found)}"
    )
    return with_columns(frame, {c: [_BEHIND.sub("", text) for text in frame[c]] for c in found})


def _hold_numbers_of_others(texts: Sequence[str]) -> bool:
    first = next((text for text in texts if not is_gap(text)), "")
    if "(" not in first or read_cell(first) is None:
        return False
    short = [text for text in texts if "(" in text and len(text) <= _LONGEST]
    cells = [(match, read_cell(text)) for text in short if (match := _BEHIND.search(text))]
    ratios = [float(match[1]) / cell.value for match, cell in cells if cell and cell.value]
    filled = sum(not is_gap(text) for text in texts)
    alike = sum(_ALIKE[0] <= ratio <= _ALIKE[1] for ratio in ratios)
    return len(ratios) >= _FEWEST_PAIRS and alike >= _MOSTLY * filled


def _with_carried_metric(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Say the metric of the first of several data sets of the others, too: AUC Ped2, Avenue.

    Numbers of the same size must stand in all columns behind it, and none may name another metric.
    """
    titles = [title for title in map(str, frame.columns) if not is_average(title)]
    numeric = [title for title in titles if numeric_share(frame[title]) > 0.5]
    named = [title for title in numeric if metric_named(title) is not None]
    if len(named) != 1 or not _begins_with_metric(named[0]):
        return frame
    others = titles[titles.index(named[0]) + 1 :]
    if not others or set(numeric) - {named[0], *others} or not set(others) <= set(numeric):
        return frame
    if any(map(_names_no_data, others)) or not _are_of_one_size(frame, [named[0], *others]):
        return frame
    word = named[0].split()[0]
    notes.append(f"{word} of '{named[0]}' is read as that of the columns behind it, too")
    return frame.rename(columns={title: f"{word} {title}" for title in others})


def _begins_with_metric(title: str) -> bool:
    words = title.split()
    known = len(words) > 1 and metric_named(words[0]) is not None
    return known and not without_metric(words[0]) and bool(without_metric(title))


def _names_no_data(title: str) -> bool:
    is_other = names_costs(title) or is_setting(title) or is_statistic(title)
    return is_other or not words_of(title).isdisjoint(QUANTITIES)


def _are_of_one_size(frame: pd.DataFrame, columns: Sequence[str]) -> bool:
    sizes = [float(np.nanmedian([abs(value_of(text)) for text in frame[c]])) for c in columns]
    return min(sizes) > 0 and max(sizes) <= _SAME_SIZE * min(sizes)
