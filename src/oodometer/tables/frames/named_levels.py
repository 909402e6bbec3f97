"""Headers whose first cells say what each of their lines names: Metric, OOD, Variation."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from oodometer.factors import plain
from oodometer.tables.cells import Rows
from oodometer.tables.frames.headers import header_columns, names_the_index
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.names import is_detector
from oodometer.tables.vocabulary.others import names_metrics
from oodometer.tables.vocabulary.titles import DETECTOR_TITLES, MODEL_TITLES, OOD_TITLES

_METRIC = frozenset({"metric", "metrics", "measure", "score"})
_VALUE = "value"  # title of numbers that no other level of the header names
_NAMES = "name"  # title of what lines are, where no other cell says it
_GROUPS = "group"  # title of what stands before these
_FEWEST = 2  # levels with a name, values of one that is crossed


def with_named_levels(
    titles: Sequence[str], header: Rows, body: Rows, numeric: Collection[int], notes: list[str]
) -> tuple[list[str], Rows]:
    """Give the first column a title of its own, and a level that is crossed with others a column.

    pandas writes the names of levels like this: the last one is no title of the lines below it.
    """
    if len(header) > 1 and names_the_index(header[-1]):
        return stacked(titles, header, body, sum(map(bool, header[-1])), notes)
    levels = [row[0] if row else "" for row in header]
    if not _are_named(levels, numeric):
        return list(titles), body
    labels = [c for c in range(len(titles)) if c not in numeric]
    titles = _named_labels(titles, labels, levels)
    parts = header_columns(header, numeric, len(titles))
    crossed = next((n for n in range(len(levels)) if _is_crossed(levels, parts, n, numeric)), None)
    if crossed is None:
        return titles, body
    rests = {
        c: " ".join(filter(None, (part for n, part in enumerate(parts[c]) if n != crossed)))
        for c in numeric
    }
    parts = [[part.removeprefix(f"{levels[n]} ") for n, part in enumerate(own)] for own in parts]
    values = dict.fromkeys(parts[c][crossed] for c in numeric)
    of = {(parts[c][crossed], rest): c for c, rest in rests.items()}
    whole = list(dict.fromkeys(rests.values()))
    rows = []
    for value in values:
        cells = [of.get((value, rest)) for rest in whole]
        for row in (row for row in body if any(_at(row, c) for c in numeric)):
            rows.append([*(_at(row, c) for c in labels), value, *(_at(row, c) for c in cells)])
    notes.append(f"a line of the header names {levels[crossed]}: {', '.join(values)}")
    return [*(titles[c] for c in labels), levels[crossed], *whole], rows


def stacked(
    titles: Sequence[str], header: Rows, body: Rows, labels: int, notes: list[str]
) -> tuple[list[str], Rows]:
    """Give each level of titles that has a name a column, as pandas does when it stacks levels.

    The names stand above the first `labels` columns. Metrics stay titles.
    """
    width = len(titles)
    names = [" ".join(filter(None, row[:labels])) for row in header[:-1]]
    above = [
        [name, *[""] * (labels - 1), *row[labels:]]
        for name, row in zip(names, header, strict=False)
    ]
    parts = header_columns([*above, header[-1]], range(labels, width), width)[labels:]
    parts = [
        [part.removeprefix(f"{name} ") for part, name in zip(own, names, strict=False)]
        for own in parts
    ]
    known = {plain(title) for title in titles[:labels]}
    named = [
        level
        for level, name in enumerate(names)
        if plain(name) not in {"", *known} and _may_be_called(name, [own[level] for own in parts])
    ]
    keys = [tuple(own[level] for level in named) for own in parts]
    rests = [
        " ".join(dict.fromkeys(p for n, p in enumerate(own) if p and n not in named)) or _VALUE
        for own in parts
    ]
    whole = list(dict.fromkeys(rests))
    of = dict(zip(zip(keys, rests, strict=True), range(labels, width), strict=True))
    if not named or len(of) < len(parts) or not all(all(key) for key in keys):
        return list(titles), body
    rows = [
        [*(_at(row, c) for c in range(labels)), *key, *(_at(row, of.get((key, r))) for r in whole)]
        for key in dict.fromkeys(keys)
        for row in body
    ]
    called = [names[level] for level in named]
    notes.append(f"titles of columns became the column{'s' * (len(called) > 1)} "
                 f"{' and '.join(called)}")  # fmt: skip
    return [*titles[:labels], *called, *whole], rows


def _may_be_called(name: str, values: Sequence[str]) -> bool:
    """Whether a level may bear its name: not of metrics, and no data that are called methods."""
    distinct = dict.fromkeys(values)
    if len(distinct) < _FEWEST or names_metrics(name) or plain(name) in _METRIC:
        return False
    if any(metric_named(value) is not None for value in distinct):
        return False
    compared = plain(name) in DETECTOR_TITLES or plain(name) in MODEL_TITLES
    wrong = is_data if compared else is_detector
    return 2 * sum(map(wrong, distinct)) < len(distinct)


def _named_labels(titles: Sequence[str], labels: Sequence[int], levels: Sequence[str]) -> list[str]:
    """Title the columns of names that are called like a level: the last one, and their groups."""
    called = [c for c in labels if any(titles[c].startswith(level) for level in levels)]
    new = {c: _NAMES if c == called[-1] else f"{_GROUPS} {n}".removesuffix(" 0")
           for n, c in enumerate(called)}  # fmt: skip
    return [new.get(c, title) for c, title in enumerate(titles)]


def _are_named(levels: Sequence[str], numeric: Collection[int]) -> bool:
    """Whether the first cells of a header name its lines: a metric and data, but not models."""
    said = [plain(level) for level in levels]
    names = any(word in DETECTOR_TITLES or word in MODEL_TITLES for word in said)
    if len(said) < _FEWEST or len(set(said)) < len(said) or not all(said) or names or 0 in numeric:
        return False
    return not _METRIC.isdisjoint(said) and any(word in OOD_TITLES for word in said)


def _is_crossed(
    levels: Sequence[str], parts: Sequence[Sequence[str]], level: int, numeric: Collection[int]
) -> bool:
    """Whether a level is neither the metric nor the data, and some value comes with several."""
    if plain(levels[level]) in _METRIC or plain(levels[level]) in OOD_TITLES:
        return False
    with_others: dict[str, set[tuple[str, ...]]] = {}
    for column in numeric:
        others = tuple(part for n, part in enumerate(parts[column]) if n != level)
        with_others.setdefault(parts[column][level], set()).add(others)
    shared = [value for value, others in with_others.items() if len(others) >= _FEWEST]
    return len(shared) >= _FEWEST and len(shared) == len(with_others)


def _at(row: Sequence[str], column: int | None) -> str:
    return row[column] if column is not None and column < len(row) else ""
