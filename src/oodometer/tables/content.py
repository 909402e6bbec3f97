"""What columns without a telling title hold: by their numbers and by the names in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from oodometer.tables.cells import is_gap, read_cell
from oodometer.tables.names import (
    MEANS,
    NO_RESULTS,
    OOD_TITLES,
    OTHER_STATISTICS,
    REPEAT_TITLES,
    SPREADS,
    is_average,
    is_detector,
    is_set,
    metric_named,
    plain,
)
from oodometer.tables.roles import SECTION, Roles

if TYPE_CHECKING:
    import pandas as pd

_SETTINGS = re.compile(
    r"^(lr|learningrate|weightdecay|wd|epochs?|batchsize|bs|width|depth|temperature|k|eps(ilon)?|"
    r"trainsize|layers?|momentum|dropout|noise|noiserate|step|iteration|index|year|params|"
    r"parameters|nsamples|samples|size|id|rank|place|level|severity|alpha|beta|gamma|lambda)$"
)


def untitled_results(
    frame: pd.DataFrame, numeric: Sequence[str], roles: Roles, metric: str
) -> None:
    """Find columns of results that no title names: measurements rather than settings."""
    measured = [column for column in numeric if _measures(frame, column)]
    lowest = min((_lowest(frame, column) for column in measured), default=10.0)
    # Whole numbers may be percentages too: if the title is a name, or like the others in size.
    whole = [c for c in numeric if c not in measured and _may_measure(frame, c)]
    alike = [c for c in whole if lowest > 1 and _lowest(frame, c) >= 0.5 * lowest]
    named = [c for c in whole if is_set(c) or is_detector(c)]
    if measured or named or len(alike) > 1:
        measured = [c for c in numeric if c in measured or c in alike or c in named]
    if any(plain(c) in MEANS for c in measured):  # as pandas describes numbers: 25%, 50%, 75%
        quantiles = [c for c in measured if re.fullmatch(r"\d+(?:\.\d+)?\s?%", c)]
        roles.ignored |= dict.fromkeys(quantiles, "another statistic")
        measured = [c for c in measured if c not in quantiles]
    proper = [column for column in measured if not is_average(column)]
    for column in measured:
        if proper and column not in proper:
            roles.ignored[column] = "a mean of other columns"
        else:
            alone = len(measured) == 1 and not (roles.ood is None and is_set(column))
            what = "" if alone or plain(column) == "value" else column.strip(" ↑↓")
            roles.measured[column] = (metric, what)


def _measures(frame: pd.DataFrame, column: str) -> bool:
    """Tell whether a column of numbers holds measurements rather than settings."""
    cells = [cell for text in frame[column] if (cell := read_cell(text)) is not None]
    if any(cell.spread is not None or cell.percent for cell in cells):
        return True
    fine = sum(cell.value != int(cell.value) for cell in cells) > len(cells) / 2
    return _may_measure(frame, column) and (fine or plain(column) == "value")


def _may_measure(frame: pd.DataFrame, column: str) -> bool:
    cells = [cell for text in frame[column] if (cell := read_cell(text)) is not None]
    title = plain(column)
    within = all(0 <= cell.value <= 100 for cell in cells)
    known = title in (*SPREADS, *OTHER_STATISTICS, *REPEAT_TITLES, *OOD_TITLES)
    words = {plain(word) for word in re.split(r"[\W_]+", column)}
    gains = 2 * sum(text.startswith("+") for text in frame[column]) > len(frame)
    return within and not (known or gains or words & NO_RESULTS or _SETTINGS.match(title))


def _lowest(frame: pd.DataFrame, column: str) -> float:
    return min(cell.value for text in frame[column] if (cell := read_cell(text)) is not None)


def by_content(frame: pd.DataFrame, texts: list[str], roles: Roles) -> None:
    """Find the detector and the outlier set among text columns that no title explains."""
    free = [column for column in texts if column not in roles.factors]
    if roles.detector is None:
        known = {c: _share(frame[c], is_detector) for c in free}
        best = max(known, key=known.__getitem__, default=None)
        if best is not None and known[best] >= 0.5:
            roles.detector = best
            free.remove(best)
    untitled = [c for c in free if re.fullmatch(r"column \d+|unnamed: ?\d+|", c.lower())]
    wide = [what for _, what in roles.measured.values() if what]
    if roles.detector is None and wide and free and not are_detectors(roles):
        roles.detector = untitled[0] if untitled else free[0]
        free.remove(roles.detector)
    if roles.detector is None and roles.measured and not wide and len(free) == 1:
        roles.detector = free.pop()  # whatever else could be compared?
    named = [c for c in free if _share(frame[c], lambda text: bool(metric_named(text))) == 1.0]
    if roles.metric is None and named and (not wide or not any(map(metric_named, roles.measured))):
        roles.metric = named[0]
        free.remove(named[0])
    sets = [c for c in free if _share(frame[c], is_set) >= 0.5]
    wide_sets = bool(wide) and 2 * sum(map(is_set, wide)) >= len(wide)
    if wide_sets and roles.id is None and roles.ood is None and len(sets) == 1:
        roles.id = sets[0]
    elif wide_sets and roles.id is None and roles.ood is not None:
        roles.id, roles.ood = roles.ood, None  # the columns are the outlier sets
    elif roles.ood is None and not wide_sets and len(sets) == 1:
        roles.ood = sets[0]
    elif roles.id is None and SECTION in sets:
        roles.id = SECTION
    elif roles.ood is None and not wide and untitled:
        roles.ood = untitled[0]


def _share(texts: pd.Series[str], test: Callable[[str], bool]) -> float:
    distinct = [text for text in texts.unique() if not is_gap(text)]
    return sum(map(test, distinct)) / len(distinct) if distinct else 0.0


def are_detectors(roles: Roles) -> bool:
    """Tell whether the titles of wide columns name detectors: known ones, or nothing else does."""
    titles = [what for _, what in roles.measured.values() if what]
    if roles.detector is not None or not titles:
        return False
    return _mostly_detectors(titles) or (roles.ood is not None and len(titles) > 1)


def _mostly_detectors(titles: Sequence[str]) -> bool:
    return sum(map(is_detector, titles)) * 2 >= len(titles)
