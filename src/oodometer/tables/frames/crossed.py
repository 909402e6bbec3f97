"""Two lines of titles that are crossed, each below each: as columns, one for either line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from oodometer.factors import plain
from oodometer.tables.cells import numeric_share, read_cell
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.names import (
    DETECTOR_TITLES,
    MODEL_TITLES,
    is_average,
    is_detector,
    is_model,
    is_statistic,
)

if TYPE_CHECKING:
    import pandas as pd

_TITLES = ("header", "subheader")  # of the columns that the two lines become
_FEWEST = 4  # columns of results
_MOST = 200


def uncrossed(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return a line per number where titles such as "Easy A, Easy B, Hard A, Hard B" are crossed.

    Only where no column names what is compared: then one of the two parts does.
    """
    import pandas as pd

    numeric = [c for c in map(str, frame.columns) if numeric_share(frame[c]) > 0.5]
    labels = [c for c in map(str, frame.columns) if c not in numeric]
    results = [c for c in numeric if not is_average(c)]
    if not _FEWEST <= len(results) <= _MOST or any(_names_compared(frame, c) for c in labels):
        return frame
    parts = _crossed(results)
    if parts is None:
        return frame
    names = _names_of(parts)
    lines = [
        frame[labels].assign(**dict(zip(names, pair, strict=True)), value=frame[title].tolist())
        for title, pair in zip(results, parts, strict=True)
    ]
    notes.append(f"titles of two lines became the columns {names[0]} and {names[1]}")
    return pd.concat(lines, ignore_index=True)


def _names_compared(frame: pd.DataFrame, column: str) -> bool:
    names = frame[column].unique()
    known = sum(is_detector(name) or is_model(name) for name in names)
    return plain(column) in (*DETECTOR_TITLES, *MODEL_TITLES) or 2 * known >= len(names)


def _crossed(titles: Sequence[str]) -> list[tuple[str, str]] | None:
    """Part titles in two, so that every first part stands before every second one, else None.

    >>> _crossed(["Easy A", "Easy B", "Hard A", "Hard B"])
    [('Easy', 'A'), ('Easy', 'B'), ('Hard', 'A'), ('Hard', 'B')]
    >>> _crossed(["Easy A", "Easy B", "Hard A", "Mean"])
    """
    words = titles[0].split()
    given = set(titles)
    for cut in range(1, len(words)):
        first, second = " ".join(words[:cut]), " ".join(words[cut:])
        groups = [t.removesuffix(f" {second}") for t in titles if t.endswith(f" {second}")]
        below = [t.removeprefix(f"{first} ") for t in titles if t.startswith(f"{first} ")]
        pairs = {f"{a} {b}": (a, b) for a in groups for b in below}
        crossed = min(len(groups), len(below)) > 1 and pairs.keys() == given
        names = [*groups, *below]
        if crossed and _are_names(names) and not _are(names, is_data):
            return [pairs[title] for title in titles]
    return None


def _are_names(texts: Sequence[str]) -> bool:
    """Whether texts may name something: no metrics, numbers or statistics."""
    return not any(
        metric_named(text) is not None or read_cell(text) is not None or is_statistic(text)
        for text in texts
    )


def _are(names: Sequence[str], test: Callable[[str], bool]) -> bool:
    return 2 * sum(map(test, names)) >= len(names)


def _names_of(parts: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return the titles of both parts; known detectors or models are called so."""
    known = [
        _are(sorted(set(names)), lambda name: is_detector(name) or is_model(name))
        for names in zip(*parts, strict=True)
    ]
    if known == [True, False]:
        return "method", _TITLES[1]
    return (_TITLES[0], "method") if known == [False, True] else _TITLES
