"""What columns hold whose titles do not say it: by their numbers and by the names in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from oodometer.factors import plain
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
)
from oodometer.tables.roles import MEAN_OF_OTHERS, OTHER_STATISTIC, SECTION, Roles

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
    measured = _measurements(frame, numeric)
    if any(plain(c) in MEANS for c in measured):  # as pandas describes numbers: 25%, 50%, 75%
        quantiles = [c for c in measured if re.fullmatch(r"\d+(?:\.\d+)?\s?%", c)]
        roles.ignored |= dict.fromkeys(quantiles, OTHER_STATISTIC)
        measured = [c for c in measured if c not in quantiles]
    means = [column for column in measured if is_average(column)]
    if len(means) < len(measured):
        roles.ignored |= dict.fromkeys(means, MEAN_OF_OTHERS)
    alone = len(measured) == 1 and not (roles.ood is None and is_set(measured[0]))
    for column in [c for c in measured if c not in roles.ignored]:
        what = "" if alone or plain(column) == "value" else column.strip(" ↑↓")
        roles.measured[column] = (metric, what)


def _measurements(frame: pd.DataFrame, numeric: Sequence[str]) -> list[str]:
    """Return the columns that hold measurements, by their numbers or by names as titles."""
    measured = [column for column in numeric if _measures(frame, column)]
    lowest = min((_lowest(frame, column) for column in measured), default=10.0)
    # Whole numbers may be percentages too: if the title is a name, or like the others in size.
    whole = [c for c in numeric if c not in measured and _may_measure(frame, c)]
    alike = [c for c in whole if lowest > 1 and _lowest(frame, c) >= 0.5 * lowest]
    named = [c for c in whole if is_set(c) or is_detector(c)]
    if not measured and not named and len(alike) < 2:
        return []
    return [c for c in numeric if c in (*measured, *alike, *named)]


def _measures(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column of numbers holds measurements rather than settings."""
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
        roles.detector = _detector(frame, free, roles)
    free = [column for column in free if column != roles.detector]
    if roles.metric is None:
        roles.metric = _metric(frame, free, roles)
    _find_sets(frame, [column for column in free if column != roles.metric], roles)


def _detector(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str | None:
    """Return the column of known detectors, or else the one that can only be theirs."""
    known = {column: _share(frame[column], is_detector) for column in free}
    best = max(known, key=known.__getitem__, default=None)
    if best is None or known[best] >= 0.5:
        return best
    wide = _wide(roles)
    if wide:
        return None if are_detectors(roles) else next(iter(_untitled(free)), free[0])
    return free[0] if roles.measured and len(free) == 1 else None


def _metric(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str | None:
    """Return the column that names the metric of each line, unless the titles name it."""
    if _wide(roles) and any(map(metric_named, roles.measured)):
        return None
    named = (c for c in free if _share(frame[c], lambda text: bool(metric_named(text))) == 1.0)
    return next(named, None)


def _find_sets(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> None:
    """Find the ID set and the outlier set of each line."""
    sets = [column for column in free if _share(frame[column], is_set) >= 0.5]
    wide = _wide(roles)
    if wide and 2 * sum(map(is_set, wide)) >= len(wide):  # the titles name the outlier sets
        if roles.id is None and roles.ood is not None:
            roles.id, roles.ood = roles.ood, None
            return
        if roles.id is None and len(sets) == 1:
            roles.id = sets[0]
            return
    elif roles.ood is None and len(sets) == 1:
        roles.ood = sets[0]
        return
    untitled = _untitled(free)
    if roles.id is None and SECTION in sets:
        roles.id = SECTION
    elif roles.ood is None and not wide and untitled:
        roles.ood = untitled[0]


def _wide(roles: Roles) -> list[str]:
    """What the titles of several columns of results name, one of them each."""
    return [what for _, what in roles.measured.values() if what]


def _untitled(columns: Iterable[str]) -> list[str]:
    return [c for c in columns if re.fullmatch(r"column \d+|unnamed: ?\d+|", c.lower())]


def _share(texts: pd.Series[str], test: Callable[[str], bool]) -> float:
    distinct = [text for text in texts.unique() if not is_gap(text)]
    return sum(map(test, distinct)) / len(distinct) if distinct else 0.0


def are_detectors(roles: Roles) -> bool:
    """Whether the titles of wide columns name detectors: known ones, or nothing else does."""
    titles = _wide(roles)
    if roles.detector is not None or not titles:
        return False
    mostly = 2 * sum(map(is_detector, titles)) >= len(titles)
    return mostly or (roles.ood is not None and len(titles) > 1)
