"""Names that hold a data set and what is compared in one, such as resnet18_svhn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import plain
from oodometer.tables.cells import numeric_share
from oodometer.tables.columns import with_columns
from oodometer.tables.guessing.roles import Roles, option, parts_of
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.groups import is_group
from oodometer.tables.vocabulary.names import is_detector, is_model, is_surely_detector
from oodometer.tables.vocabulary.titles import DATA_WORDS, OOD_TITLES

if TYPE_CHECKING:
    import pandas as pd

_BETWEEN = re.compile(r"[\s_/|:,()\[\]]+")  # words of a name; CIFAR-10 is one
_SETTING = re.compile(r"([A-Za-z]+)\d[\d.]*")  # dm64, in a name
_FEWEST_SETTINGS = 2  # in every name
_EDGE = r"[\s_/|:\-]+"
_DATASET = "dataset"
# Files of series that are numbered throughout: 003_MSL_id_2.csv is the second series of MSL.
_NUMBERED_FILE = re.compile(r"(\d+)[_\-]([^\W\d_]\w*?)[_\-].+")
_FILE_TITLES = frozenset({"file", "filename", "files", "series", "timeseries", "ts", "tsname"})
_SHOWN = 2  # names that a note lists
_LISTED = 4  # names that a question lists
_LONGEST = 40  # letters of a name in a note


def with_sets_of_names(frame: pd.DataFrame, said: str, notes: list[str]) -> pd.DataFrame:
    """Give the data sets a column of their own that every name of a column holds, one each.

    Only known data sets count, and some of the names must be the same but for them. Words that
    all names share are left out.
    """
    columns = [str(column) for column in frame.columns]
    if any(plain(c) in OOD_TITLES or is_data(c) or _says_data(c) for c in columns):
        return frame
    for column in columns:
        if numeric_share(frame[column]) > 0 or not frame[column].is_unique:
            continue
        parted = {name: _parted(name) for name in frame[column]}
        sets = {name: found for name, (found, _) in parted.items()}
        rests = _without_common([rest for _, rest in parted.values()])
        if not all(sets.values()) or not _are_crossed(list(sets.values()), rests):
            continue
        kept, rests = _compared_names(column, rests, said)
        first = next(iter(sets))
        notes.append(
            f"names in '{column}' hold data sets: '{_short(first)}' was read as {_short(rests[0])} "
            f"on {sets[first]}"
        )
        named = with_columns(frame, {kept: rests, _DATASET: list(sets.values())})
        return named if kept == column else named.drop(columns=column)
    return frame


def _compared_names(column: str, names: list[str], said: str) -> tuple[str, list[str]]:
    """Return names with or without the settings that all of them state, such as dm64, as said.

    The title of the column tells which of both were chosen.
    """
    words = [name.split() for name in names]
    keys = [{found[1] for word in line if (found := _SETTING.fullmatch(word))} for line in words]
    common = set.intersection(*keys)
    short = [
        " ".join(w for w in line if not (f := _SETTING.fullmatch(w)) or f[1] not in common)
        for line in words
    ]
    if len(common) < _FEWEST_SETTINGS or not all(short) or len({*short}) in (1, len({*names})):
        return column, names
    new, chosen = f"{column}.1", _columns_in(said)
    if new in chosen or column in chosen:
        return (new, short) if new in chosen else (column, names)
    raise UserError(
        f"Names in '{column}', such as '{_short(names[0])}', hold settings: are {short[0]} and "
        f"the like compared, whatever their settings ({option(said, detector=new)}), or each name "
        f"as it is ({option(said, detector=column)})?"
    )


def with_crossed_names(frame: pd.DataFrame, said: str, notes: list[str]) -> pd.DataFrame:
    """Part names such as "trec msp" or "msp far-OOD", where the same detectors come with others.

    These words are data sets if one of them is known as such; else the user is asked.
    """
    chosen = _columns_in(said)
    for column in map(str, frame.columns):
        texts = frame[column]
        if numeric_share(texts) > 0 or not texts.is_unique:
            continue
        pairs = [tuple(name.rsplit(" ", 1)) for name in texts]
        if not all(len(pair) == 2 for pair in pairs):
            continue
        sides = ([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        if _are_of_detectors(*sides):
            others, detectors = sides
        elif _are_of_detectors(sides[1], sides[0]):
            detectors, others = sides
        else:
            continue
        named = any(is_data(other) or is_group(other) for other in others)
        known = named and not any(map(is_model, others))
        new = _DATASET if known else f"{column}.1"
        if plain(new) in map(plain, frame.columns):
            return frame
        if column in chosen and new not in chosen:  # names are whole, as the user says
            continue
        if known:
            read = f"{detectors[0]} on {others[0]}"
            notes.append(
                f"names in '{column}' hold data sets: '{texts.iloc[0]}' was read as {read}"
            )
        elif new not in chosen:
            raise UserError(
                f"Names such as '{texts.iloc[0]}' hold a detector and something else: are "
                f"{', '.join(list(dict.fromkeys(others))[:_LISTED])} data sets "
                f"({option(said, id=new)}), outlier sets ({option(said, ood=new)}) or conditions "
                f"({option(said, condition=new)}), or is each name compared as it is "
                f"({option(said, detector=column)})?"
            )
        return with_columns(frame, {column: detectors, new: others})
    return frame


def _columns_in(said: str) -> set[str]:
    """Return the columns of which the user says what they are."""
    return {part.partition("=")[2].strip() for part in parts_of(said)}


def _are_of_detectors(others: Sequence[str], detectors: Sequence[str]) -> bool:
    """Whether all combinations of two parts of names come once, and the second are detectors."""
    beside, names = {*others}, {*detectors}
    crossed = min(len(beside), len(names)) > 1 and len(beside) * len(names) == len(others)
    known = 2 * sum(map(is_detector, names)) >= len(names) and any(map(is_surely_detector, names))
    return crossed and known and not any(map(is_surely_detector, beside))


def with_sets_of_series(frame: pd.DataFrame, said: str, notes: list[str]) -> pd.DataFrame:
    """Give the data sets a column of their own that numbered files of series begin with.

    Otherwise every series would count as a data set. Not where the user says what the files are.
    """
    columns = [str(column) for column in frame.columns]
    chosen = _columns_in(said)
    for column in (c for c in columns if plain(c) in _FILE_TITLES and c not in chosen):
        if any(plain(c) in OOD_TITLES or _says_data(c) for c in columns if c != column):
            continue
        found = {name: _NUMBERED_FILE.fullmatch(name) for name in frame[column].unique()}
        sets = {name: match[2] for name, match in found.items() if match}
        numbers = {match[1] for match in found.values() if match}
        several = 1 < len(set(sets.values())) < len(sets)
        if several and len(numbers) == len(sets) == len(found):
            first = next(iter(sets))
            notes.append(
                f"'{column}' holds series of {len(set(sets.values()))} data sets: "
                f"'{_short(first)}' is one of {sets[first]}; {option(said, id=column)} takes each "
                "for a data set of its own"
            )
            return with_columns(frame, {_DATASET: frame[column].map(sets)})
    return frame


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"


def _says_data(title: str) -> bool:
    return not {plain(word) for word in _BETWEEN.split(title)}.isdisjoint(DATA_WORDS)


def _parted(name: str) -> tuple[str, list[str]]:
    """Return the only data set that a name holds, perhaps twice, and its other words."""
    words = [word for word in _BETWEEN.split(name) if word]
    sets = dict.fromkeys(word for word in words if is_data(word))
    found = next(iter(sets)) if len(sets) == 1 else ""
    return found, [word for word in words if word != found]


def _without_common(rests: Sequence[Sequence[str]]) -> list[str]:
    """Return names without the words that all of them have, unless nothing is left of one."""
    common = set.intersection(*map(set, rests)) if rests else set()
    short = [[word for word in rest if word not in common] for rest in rests]
    return [" ".join(words) for words in (short if all(short) else rests)]


def _are_crossed(sets: Sequence[str], rests: Sequence[str]) -> bool:
    """Whether the same names come with several data sets, each with one of them once."""
    pairs = set(zip(rests, sets, strict=True))
    several = len(set(rests)) < len(rests)
    return several and len(set(rests)) > 1 and len(pairs) == len(sets) and all(rests)


def without_names_of_others(frame: pd.DataFrame, roles: Roles, notes: list[str]) -> pd.DataFrame:
    """Take the data set of a line out of the name of its model, and the model out of that set's.

    Such are "SVC (wine)" on wine beside "SVC" on others, and mfe_casf2013 of mfe: only where the
    shorter name comes in other lines, too.
    """
    sets = roles.id or roles.ood
    detector = roles.detector
    if detector is None or sets is None or sets not in frame or detector not in frame:
        return frame
    for column, other in ((detector, sets), (sets, detector)):
        short = _stripped(frame, column, other)
        changed = {old: new for old, new in short.items() if old[0] != new}
        if changed:
            shown = [f"{old} = {new}" for (old, _), new in list(changed.items())[:_SHOWN]]
            more = ", …" * (len(changed) > _SHOWN)
            notes.append(f"names that repeat the {other} of their line: {', '.join(shown)}{more}")
            keys = zip(frame[column], frame[other], strict=True)
            frame = with_columns(frame, {column: [short[key] for key in keys]})
    return frame


def _stripped(frame: pd.DataFrame, column: str, other: str) -> dict[tuple[str, str], str]:
    """Return names without the text of another column at their end or their beginning."""
    keys = dict.fromkeys(zip(frame[column], frame[other], strict=True))
    short = {key: _without(*key) for key in keys}
    given = {name for name, _ in keys}
    others: dict[str, set[str]] = {}
    for (_, beside), name in short.items():
        others.setdefault(name, set()).add(beside)
    new = {
        key: name if name in given or len(others[name]) > 1 else key[0]
        for key, name in short.items()
    }
    alone = {(name, beside) for (_, beside), name in new.items()}
    return new if len(alone) == len(new) else {key: key[0] for key in keys}


def _without(name: str, part: str) -> str:
    """Return a name without a part at its end or its beginning, and the signs between.

    >>> _without("SVC (RBF) (wine)", "wine"), _without("mfe_casf", "mfe"), _without("wine", "wine")
    ('SVC (RBF)', 'casf', 'wine')
    """
    if len(plain(part)) < 2:
        return name
    said = re.escape(part)
    ends = rf"\s*[(\[]\s*{said}\s*[)\]]$|{_EDGE}{said}$|^[(\[]{said}[)\]]\s*|^{said}{_EDGE}"
    bare = re.sub(rf"(?i){ends}", "", name).strip()
    return bare or name
