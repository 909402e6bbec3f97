"""Lines of logs in which everything has its name: method=msp dataset=svhn auroc=0.91."""

from __future__ import annotations

import re
from collections.abc import Mapping

from oodometer.factors import TITLES, plain
from oodometer.tables.cells import read_cell
from oodometer.tables.pages.outline import Outline, PageTable
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.titles import (
    ARCHITECTURE_TITLES,
    DETECTOR_TITLES,
    ID_TITLES,
    MODEL_TITLES,
    OOD_TITLES,
)

# What logging packages put before a message: dates, times, levels, names in brackets.
_BEFORE = re.compile(
    r"(?:\s*(?:\[[^\]]{0,80}\]|\d{4}-\d\d-\d\d(?:T\S+)?|\d\d:\d\d:\d\d(?:[.,]\d+)?|"
    r"(?:INFO|DEBUG|WARNING|ERROR)(?::[\w.]+)?|[-–|:>*•=]+)(?=[\s:|\-–\[]))*[\s:|\-–]*"
)
_BETWEEN = re.compile(r"\s*[,;|\t]\s*|\s{2,}")
_NEXT = re.compile(r"\s(?=[^\W\d][\w@%/.+-]*\s?[:=])")  # between pairs that a space parts
_PAIR = re.compile(
    r"([^\W\d][\w@%/.+-]*(?:\s[\w@%/.+-]+){0,2})\s?[:=]\s*([^\s:=](?:[^:=]*[^\s:=])?)"
)
_LABELLED = re.compile(  # AUROC 0.7486
    r"([^\W\d][\w@%/.-]*(?:\s[^\W\d][\w@%/.-]*)?)\s+([-+]?\d[\d.]*\s?%?)"
)
_NAME = "name"  # title of what stands before the first pair
_OF_ALL = {*TITLES, *DETECTOR_TITLES, *MODEL_TITLES, *ARCHITECTURE_TITLES, *ID_TITLES, *OOD_TITLES}
_LONGEST = 500  # characters of a line
_FEWEST = 2  # pairs in a line, and lines in a table
_MOST_OTHERS = 4  # lines of a log for one with results


def keyed_lines(text: str) -> list[PageTable]:
    """Return a table for all lines that name the same things, where many lines of a text are such.

    Lines may lack metrics of others. What lines without results say, such as ``seed=1``, holds for
    those below them.
    """
    if not _may_hold_pairs(text):
        return []
    lines = [line for line in text.splitlines() if line.strip()]
    groups: dict[frozenset[str], list[dict[str, str]]] = {}
    said: dict[str, str] = {}
    for line in lines:
        pairs = _pairs(line)
        if len(pairs) >= _FEWEST and _has_results(pairs):
            names = frozenset(key for key in pairs if metric_named(key) is None)
            groups.setdefault(names, []).append({**said, **pairs})
        else:
            said |= {key: value for key, value in pairs.items() if plain(key) in _OF_ALL}
    many = sum(len(rows) for rows in groups.values() if len(rows) >= _FEWEST)
    if not many or _MOST_OTHERS * many < len(lines):
        return []
    outline = Outline()
    for rows in groups.values():
        titles = list(dict.fromkeys(key for row in rows for key in row))
        outline.table([titles, *([row.get(title, "") for title in titles] for row in rows)])
    return outline.tables


def _may_hold_pairs(text: str) -> bool:
    return "=" in text or ":" in text or "|" in text


def _pairs(line: str) -> dict[str, str]:
    """Return the keys and values of a line that holds nothing else, but what loggers add.

    >>> _pairs("2024-05-01 12:00:01,123 - INFO - method=ViM, ood: LSUN (crop)  auroc=0.91")
    {'method': 'ViM', 'ood': 'LSUN (crop)', 'auroc': '0.91'}
    >>> _pairs("[eval] seed=0 method=msp"), _pairs("loaded 3 files: a.pt")
    ({'seed': '0', 'method': 'msp'}, {})
    >>> _pairs("Max Logit | AUROC 0.7486 | FPR@95 0.8458")
    {'name': 'Max Logit', 'AUROC': '0.7486', 'FPR@95': '0.8458'}
    """
    if len(line) > _LONGEST or not _may_hold_pairs(line):
        return {}
    before = _BEFORE.match(line)
    rest = line[before.end() if before else 0 :].strip()
    parts = [part for whole in _BETWEEN.split(rest) if whole for part in _NEXT.split(whole)]
    found = [_PAIR.fullmatch(part) or _labelled(part) for part in parts]
    pairs = {match[1]: match[2] for match in found if match}
    if len(parts) > _FEWEST and found[0] is None and all(map(metric_named, pairs)):
        pairs = {_NAME: parts[0], **pairs}
    return pairs if len(pairs) == len(parts) else {}


def _labelled(part: str) -> re.Match[str] | None:
    """Return the name of a metric, and the number that stands behind it without a sign."""
    found = _LABELLED.fullmatch(part)
    return found if found and metric_named(found[1]) else None


def _has_results(pairs: Mapping[str, str]) -> bool:
    """Whether pairs hold the value of a metric, and a name: numbers alone are another log."""
    numbers = {key for key, value in pairs.items() if read_cell(value) is not None}
    return len(numbers) < len(pairs) and any(map(metric_named, numbers))
