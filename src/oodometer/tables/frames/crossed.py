"""Two lines of titles that are crossed, each below each: as columns, one for either line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oodometer.factors import TITLES, plain
from oodometer.tables.cells import numeric_share
from oodometer.tables.frames.parted_pairs import HEADERS, Pairs, crossed, grouped, mostly_are
from oodometer.tables.guessing.likeness import factor_in
from oodometer.tables.vocabulary.costs import names_costs
from oodometer.tables.vocabulary.data_names import are_outliers_first, is_data, is_set
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.names import is_compared, is_detector, is_model
from oodometer.tables.vocabulary.statistics import INSIDE, is_average, is_qualifier, is_statistic
from oodometer.tables.vocabulary.titles import (
    DETECTOR_TITLES,
    ID_TITLES,
    MODEL_TITLES,
    OOD_TITLES,
    REPEAT_TITLES,
    SET_TITLES,
    mentions_setting,
)

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 4  # columns of results
_MOST = 200
_NUMBERED = re.compile(
    r"[^\W\d]{2,}(?:\s[^\W\d]+)*[\s#=\-]*\d+(?:\.0+)?"
)  # seed 42, which is known as it is
_SHOTS = re.compile(r"(?i)\d[\s\-]?shots?\b")  # of a data set: mini-ImageNet 5-shot
_OUTSIDE = frozenset({"ood", "outofdomain", "outofdistribution"})
_NETWORK = "network"  # title of what methods are compared on
_VALUE = "value"  # title of the numbers, where titles name no metric
_BETWEEN = re.compile(r"\s*([/|])\s*")  # two levels of a title: SVHN / seed 0


def uncrossed(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return a line per number where titles such as "Easy A, Easy B, Hard A, Hard B" are crossed.

    Pairs of known data sets are ID sets with their outliers. Others are parted where no column
    names what is compared, so that one of the two parts does, and where one part names data sets:
    two data sets under three conditions are not six.
    """
    numeric = [c for c in map(str, frame.columns) if may_measure(frame, c)]
    labels = [c for c in map(str, frame.columns) if c not in numeric]
    said = {c: said_beside_metric(c) for c in numeric}
    results = results_of(said)
    whats = [said[c] for c in results]
    if _are_networks(whats, frame, labels):
        levels = {c: (said[c],) for c in results}
        return lines_of_parts(frame, numeric, levels, (_NETWORK,), notes)
    if key := _stated_factor(whats, frame):
        levels = {c: (said[c].partition("=")[2].strip(),) for c in results}
        return lines_of_parts(frame, numeric, levels, (key,), notes)
    if not _FEWEST <= len(set(whats)) <= _MOST:
        return frame
    sets = _pairs_of_sets(whats)
    if sets is not None and not _names_sets(labels):
        own = _names_of_sets(sets)
        return lines_of_parts(frame, numeric, dict(zip(results, sets, strict=True)), own, notes)
    parts = crossed(whats) or grouped(whats)
    compared = any(_names_compared(frame, c) for c in labels)
    keys = [factor_in([*dict.fromkeys(side)]) for side in zip(*parts or [], strict=True)]
    known = any(keys) and (not compared or _names_sets(labels) or not _are_of_runs(keys[1:]))
    if parts is None or (
        compared
        and not known
        and (_names_sets(labels) or not _are_of_sets(parts))
        and not _are_on_networks(parts, frame, labels)
    ):
        return frame
    names: tuple[str, ...] = _names_of(parts, frame, labels)
    if any(keys):
        names = tuple(key or name for key, name in zip(keys, names, strict=True))
        parts = [_levels(pair, keys) for pair in parts]
    if compared and not _names_sets(labels) and (_are_of_runs(keys) or _NETWORK in names):
        # Methods were run on something, several times or on several networks: on data.
        names = tuple("dataset" if name in HEADERS else name for name in names)
    form = _side_of_forms(parts) if all(map(metric_named, results)) else None
    if form is None:
        return lines_of_parts(frame, numeric, dict(zip(results, parts, strict=True)), names, notes)
    title = HEADERS[0] if names == HEADERS else names[1 - form]
    others = {c: (pair[1 - form],) for c, pair in zip(results, parts, strict=True)}
    forms = {c: pair[form] for c, pair in zip(results, parts, strict=True)}
    return lines_of_parts(frame, numeric, others, (title,), notes, forms)


def results_of(said: Mapping[str, str]) -> list[str]:
    """Return the columns that hold results on something, by what each title says beside a metric.

    Means over the others are left out.
    """
    return [c for c, what in said.items() if what and not is_average(what) and not is_average(c)]


def _are_of_runs(keys: Sequence[str | None]) -> bool:
    """Whether a part of titles numbers runs, which are known as they are behind data sets."""
    return any(key is not None and plain(key) in REPEAT_TITLES for key in keys)


def _levels(pair: tuple[str, str], keys: Sequence[str | None]) -> tuple[str, str]:
    """Return the level alone where a part of a title names its factor, too: 0 of seed 0."""
    first, second = (
        part[len(key) :].strip(" _#=-") if key else part
        for part, key in zip(pair, keys, strict=True)
    )
    return first, second


def _stated_factor(whats: Sequence[str], frame: pd.DataFrame) -> str:
    """Return what all titles state a level of, as do optimizer=sgd and optimizer=adam, or ""."""
    stated = [what.partition("=") for what in whats]
    keys = {key.strip() for key, _, _ in stated}
    levels = {level.strip() for _, _, level in stated}
    if len(keys) != 1 or len(levels) < 2 or not all(level and "=" not in level for level in levels):
        return ""
    key = keys.pop()
    if len(levels) >= _FEWEST and crossed(whats):  # trial=0 SVHN
        return ""
    return key if key and plain(key) not in {plain(str(c)) for c in frame.columns} else ""


def _are_networks(whats: Sequence[str], frame: pd.DataFrame, labels: Sequence[str]) -> bool:
    """Whether titles are networks on which methods are compared, which a column names."""
    distinct = [*dict.fromkeys(whats)]
    networks = (
        len(distinct) > 1
        and mostly_are(distinct, is_model)
        and not mostly_are(distinct, is_detector)
    )
    if not networks or any(map(is_data, distinct)) or crossed(distinct):
        return False
    methods = (c for c in labels if plain(c) in DETECTOR_TITLES)
    return any(
        _varies(frame, c) and not mostly_are(frame[c].unique().tolist(), is_data) for c in methods
    )


def _side_of_forms(parts: Pairs) -> int | None:
    """Return which part tells forms of a metric apart, such as image and pixel AUROC, if one does.

    >>> _side_of_forms([("A", "Image"), ("A", "Pixel")]), _side_of_forms([("A", "x"), ("B", "x")])
    (1, None)
    """
    sides = [all(map(is_qualifier, names)) for names in zip(*parts, strict=True)]
    return sides.index(True) if sides.count(True) == 1 else None


def may_measure(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column may hold results: numbers that neither count runs nor are a setting.

    A title such as "label_noise=0.2" states the level at which they were found.
    """
    setting = mentions_setting(column) and not _SHOTS.search(column) and "=" not in column
    setting = setting and metric_named(column) is None
    known = plain(column) in TITLES or setting or names_costs(column)
    return not known and numeric_share(frame[column]) > 0.5


def _metric_of(title: str) -> str | None:
    """Return the metric that a title names; a word before a level that it states is none.

    >>> _metric_of("Loss=focal AUROC"), _metric_of("Loss=focal"), _metric_of("AUROC k=5")
    ('auroc', None, 'auroc')
    """
    key, _, level = title.partition("=")
    return metric_named(level if level and len(key.split()) == 1 else title)


def said_beside_metric(title: str) -> str:
    """Return what a title says of what was measured, without the metric."""
    if _metric_of(title) is None:
        return _BETWEEN.sub(r"\1", title)
    key, sign, level = title.partition("=")
    if level and len(key.split()) == 1:
        return f"{key}{sign}{without_metric(level)}"
    return _BETWEEN.sub(r"\1", without_metric(title))


def lines_of_parts(
    frame: pd.DataFrame,
    numeric: Sequence[str],
    parts: Mapping[str, tuple[str, ...]],
    names: tuple[str, ...],
    notes: list[str],
    forms: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return a line per pair of names, with a column per metric; means over pairs are left out.

    Where titles tell `forms` of a metric apart, each has a column, and a line has one name.
    """
    import pandas as pd

    rest = [c for c in map(str, frame.columns) if c not in numeric or not _is_beside(c, parts)]
    rest = [c for c in rest if c not in parts]
    columns: dict[tuple[str, ...], dict[str, str]] = {}  # pair -> metric -> column
    for column, pair in parts.items():
        form = f"{forms[column]} " if forms else ""
        columns.setdefault(pair, {})[f"{form}{_metric_title(column)}"] = column
    lines = [
        frame[rest].assign(
            **dict(zip(names, pair, strict=True)),
            **{metric: frame[column].tolist() for metric, column in own.items()},
        )
        for pair, own in columns.items()
    ]
    kept = "the column" if len(names) == 1 else "the columns"
    notes.append(f"titles of columns became {kept} {' and '.join(names)}")
    return pd.concat(lines, ignore_index=True).fillna("")


def _is_beside(column: str, parts: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a column holds a mean over pairs, as do those called after a metric alone."""
    what = said_beside_metric(column)
    return not what or is_average(what) or column in parts


def _metric_title(column: str) -> str:
    """Return the title of a metric's numbers; a percent sign says what these are."""
    metric = _metric_of(column)
    percent = " (%)" if "%" in column and "95%" not in column else ""
    return f"{metric}{percent}" if metric else _VALUE


def _are_of_sets(parts: Pairs) -> bool:
    """Whether one part names known data sets, and the other something else: no run, no mean."""
    sides = [[*dict.fromkeys(names)] for names in zip(*parts, strict=True)]
    for sets, others in (sides, sides[::-1]):
        apart = not any(_is_known_beside_sets(other) for other in others)
        if all(map(is_data, sets)) and apart:
            return True
    return False


def _are_on_networks(parts: Pairs, frame: pd.DataFrame, labels: Sequence[str]) -> bool:
    """Whether one part names networks on which methods are compared, and the other no form."""
    sides = [[*dict.fromkeys(names)] for names in zip(*parts, strict=True)]
    return any(
        _are_networks(networks, frame, labels) and not any(map(_is_known_beside_sets, others))
        for networks, others in (sides, sides[::-1])
    )


def _is_known_beside_sets(name: str) -> bool:
    """Whether a name beside a data set is read as it is: another set, a mean, a run or a form."""
    form = is_qualifier(name) or is_statistic(name) or plain(name) in INSIDE | _OUTSIDE
    numbered = _NUMBERED.fullmatch(name) is not None and not is_compared(name)  # not ResNet-50
    return is_data(name) or is_average(name) or form or numbered


def _pairs_of_sets(whats: Sequence[str]) -> Pairs | None:
    """Part titles that all consist of two known data sets, else return None.

    >>> _pairs_of_sets(["CIFAR-10 SVHN", "CIFAR-100 SVHN"])
    [('CIFAR-10', 'SVHN'), ('CIFAR-100', 'SVHN')]
    >>> _pairs_of_sets(["CIFAR-10 SVHN", "CIFAR-10 LSUN"])
    """
    pairs = []
    for what in whats:
        words = re.split(r"\s*(?:→|->|/|\||_)\s*|\s+(?:vs\.?\s+)?", what)
        cuts = [(" ".join(words[:n]), " ".join(words[n:])) for n in range(1, len(words))]
        known = [(first, second) for first, second in cuts if is_set(first) and is_set(second)]
        if len(known) != 1:
            return None
        pairs.append(known[0])
    return pairs if len({first for first, _ in pairs}) > 1 else None


def _names_sets(labels: Sequence[str]) -> bool:
    """Whether a column besides the titles names data sets."""
    return any(plain(label) in OOD_TITLES | ID_TITLES for label in labels)


def _names_of_sets(pairs: Pairs) -> tuple[str, str]:
    """Return which part names the ID sets: the first, unless it holds more known outliers."""
    first, second = ([*dict.fromkeys(names)] for names in zip(*pairs, strict=True))
    return ("ood", "id") if are_outliers_first(first, second) else ("id", "ood")


def _names_compared(frame: pd.DataFrame, column: str) -> bool:
    names = frame[column].unique()
    known = sum(map(is_compared, names))
    return plain(column) in (*DETECTOR_TITLES, *MODEL_TITLES) or 2 * known >= len(names)


def _names_of(parts: Pairs, frame: pd.DataFrame, labels: Sequence[str]) -> tuple[str, str]:
    """Return the titles of both parts; known detectors or models are called so, and data, too.

    Networks beside lines of something else may be compared, or be where that was compared.
    """
    sides = [[*dict.fromkeys(names)] for names in zip(*parts, strict=True)]
    known = [mostly_are(names, is_compared) and not mostly_are(names, is_data) for names in sides]
    data = [mostly_are(names, is_data) for names in sides]
    if known[0] == known[1]:
        known = [data == [False, True], data == [True, False]]
    if known[0] == known[1]:
        return HEADERS
    if any(_names_compared(frame, c) for c in labels):
        if True not in data:  # networks under seeds
            return (_NETWORK, HEADERS[1]) if known[0] else (HEADERS[0], _NETWORK)
        title = _title_of_sets(sides[data.index(True)], frame, labels)
        return (title, HEADERS[1]) if data[0] else (HEADERS[0], title)
    compared, sets = sides if known[0] else sides[::-1]
    title = _title_of_sets(sets, frame, labels) if any(data) else HEADERS[0 if known[1] else 1]
    networks = mostly_are(compared, is_model) and not mostly_are(compared, is_detector)
    name = _NETWORK if networks and any(_varies(frame, c) for c in labels) else "method"
    return (name, title) if known[0] else (title, name)


def _varies(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column names something else for each line, or for several."""
    return len(frame[column].unique()) > 1


def _title_of_sets(sets: Sequence[str], frame: pd.DataFrame, labels: Sequence[str]) -> str:
    """Say what data sets in titles are beside those in a column: its ID sets, or its outliers."""
    titled = {plain(label): label for label in labels}
    if any(title in ID_TITLES for title in titled):
        return "ood"
    if any(title in OOD_TITLES - SET_TITLES for title in titled):
        return "id"
    of_sets = [title for title in titled if title in SET_TITLES]
    of_sets += [t for t in titled if mostly_are(frame[titled[t]].unique().tolist(), is_set)]
    for label in (titled[title] for title in of_sets):
        outliers = are_outliers_first(frame[label].unique().tolist(), sets)
        return "id" if outliers else "ood"
    return "dataset"
