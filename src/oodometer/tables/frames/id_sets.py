"""ID sets in titles of columns: "CIFAR-10 vs SVHN", "ID: CIFAR-10 AUROC", "CIFAR-10 SVHN AUROC"."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oodometer.factors import plain
from oodometer.tables.cells import numeric_share
from oodometer.tables.columns import with_columns
from oodometer.tables.vocabulary.data_names import are_outliers_first, is_set
from oodometer.tables.vocabulary.groups import is_group
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.statistics import INSIDE, is_average

if TYPE_CHECKING:
    import pandas as pd

_ID = "id"  # title of the column that the sets become
_MARKED = re.compile(
    r"(?:in[- ]?distribution(?:\s+data(?:\s?sets?)?)?|id(?:\s+data(?:\s?sets?)?)?|trained\s+on)"
    r"\s*[:=]?\s+(?P<rest>\S.*)",
    re.IGNORECASE,
)
_MARKED_BEHIND = re.compile(  # CIFAR-10 (ID) SVHN
    r"(?P<id>[^()]*\S)\s*\(\s*(?:in[- ]?dist(?:ribution|\.)?|id|ind)(?:\s+data(?:\s?set)?)?\s*\)"
    r"\s*(?P<rest>\S.*)",
    re.IGNORECASE,
)
_AGAINST = re.compile(r"(?P<id>\S.*?)\s*(?:\bvs\b\.?|→|->|⇒)\s*(?P<rest>\S.*)", re.IGNORECASE)
_MOST_WORDS = 3  # in the name of a set
_FEWEST = 2  # ID sets
_LONGEST = 200  # letters of a title that is looked at
_Parted = dict[str, tuple[str, str]]  # title -> ID set, what else it says


def with_id_sets(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return a line per ID set, where titles of results say which it is beside all else."""
    import pandas as pd

    numeric = [c for c in map(str, frame.columns) if numeric_share(frame[c]) > 0.5]
    parted = _parted([title for title in numeric if len(title) < _LONGEST])
    if not parted or _ID in frame.columns:
        return frame
    others = [c for c in numeric if c not in parted]
    left = [c for c in others if is_average(without_metric(c) or c)]
    unknown = any(metric_named(c) is not None or is_set(c) for c in others if c not in left)
    if unknown or 2 * len(others) > len(numeric):
        return frame
    names = list(dict.fromkeys(name for name, _ in parted.values()))
    kept = [c for c in map(str, frame.columns) if c not in parted and c not in left]
    rests = list(dict.fromkeys(rest for _, rest in parted.values()))
    parts = []
    for name in names:
        own = {rest: title for title, (of, rest) in parted.items() if of == name}
        results = {rest: frame[own[rest]] if rest in own else "" for rest in rests}
        parts.append(with_columns(frame[kept], {_ID: name, **results}))
    notes.append(f"titles of columns name the ID set: {', '.join(names)}")
    if left:
        notes.append(f"averages over ID sets were left out: {', '.join(left)}")
    return pd.concat(parts, ignore_index=True)


def _parted(titles: Sequence[str]) -> _Parted:
    """Part titles by the first way that fits several ID sets, if any does.

    >>> _parted(["CIFAR-10 vs SVHN", "CIFAR-100 vs SVHN"])["CIFAR-10 vs SVHN"]
    ('CIFAR-10', 'SVHN')
    """
    for way in (_by_mark, _by_mark_behind, _by_sign, _by_groups):
        parted = way(titles)
        pairs = Counter(parted.values())
        if len({name for name, _ in pairs}) >= _FEWEST and max(pairs.values()) == 1:
            return parted
    return {}


def _by_mark(titles: Sequence[str]) -> _Parted:
    """Part "ID: CIFAR-10 AUROC" into CIFAR-10 and AUROC."""
    parted: _Parted = {}
    for title in titles:
        found = _MARKED.fullmatch(title)
        if found is None:
            continue
        name, rest = _leading_set(found["rest"])
        if not name:
            name = without_metric(found["rest"])
            rest = found["rest"].removeprefix(name).strip()
        if name and (not rest or metric_named(rest) is not None or is_set(without_metric(rest))):
            parted[title] = name, rest or "value"
    return parted


def _by_mark_behind(titles: Sequence[str]) -> _Parted:
    """Part "CIFAR-10 (ID) SVHN AUROC" into CIFAR-10 and SVHN AUROC."""
    found = {title: _MARKED_BEHIND.fullmatch(title) for title in titles}
    return {title: (match["id"], match["rest"]) for title, match in found.items() if match}


def _by_sign(titles: Sequence[str]) -> _Parted:
    """Part "CIFAR-10 vs SVHN AUROC" into CIFAR-10 and SVHN AUROC."""
    found = {title: _AGAINST.fullmatch(title) for title in titles}
    return {
        title: (match["id"], match["rest"])
        for title, match in found.items()
        if match and is_set(match["id"])
    }


def _by_groups(titles: Sequence[str]) -> _Parted:
    """Part "CIFAR-10 SVHN AUROC", if the same outlier sets stand below several ID sets."""
    parted: _Parted = {}
    for title in titles:
        name, rest = _leading_set(title)
        what = _data_in(rest)
        if name and (not what or _is_outliers(what) or plain(what) in INSIDE):
            parted[title] = name, rest
    named = [(name, what) for name, rest in parted.values() if is_set(what := _data_in(rest))]
    if named and are_outliers_first([name for name, _ in named], [what for _, what in named]):
        return {}
    of: dict[str, set[str]] = {}
    for name, rest in parted.values():
        of.setdefault(rest, set()).add(name)
    below = {r: n for r, n in of.items() if _is_outliers(_data_in(r) or r)}
    return parted if below and max(map(len, below.values())) >= _FEWEST else {}


def _data_in(title: str) -> str:
    """Return what a title names beside a metric; Near-OOD names none."""
    return without_metric(title) if metric_named(title) is not None else title


def _is_outliers(what: str) -> bool:
    return is_set(what) or is_average(what) or is_group(what)


def _leading_set(title: str) -> tuple[str, str]:
    """Return the data set that a title begins with, and the rest; nothing if it names none.

    >>> _leading_set("CIFAR-10 SVHN AUROC"), _leading_set("Tiny ImageNet AUROC")
    (('CIFAR-10', 'SVHN AUROC'), ('Tiny ImageNet', 'AUROC'))
    """
    words = title.split()
    for count in range(min(_MOST_WORDS, len(words)), 0, -1):
        name = " ".join(words[:count]).rstrip(":,")
        if is_set(name):
            return name, " ".join(words[count:])
    return "", title
