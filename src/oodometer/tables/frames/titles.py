"""Titles and names without the dress that papers, pages and experiment trackers give them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from oodometer.factors import plain
from oodometer.tables.cells import read_cell
from oodometer.tables.columns import with_columns
from oodometer.tables.pages.classified import with_classes
from oodometer.tables.vocabulary.statistics import SUMMARIES, is_average
from oodometer.tables.vocabulary.titles import DETECTOR_TITLES, MODEL_TITLES, REPEAT_WORD

if TYPE_CHECKING:
    import pandas as pd

_TRACKED = re.compile(r"^(?:params|metrics|config|summary|tags|hparams|hyperparameters)[./]+(?=\w)")
_DRESSES = (
    (re.compile(r"!?\[([^][]+)\]\([^()\s]*\)"), r"\1"),  # a link
    (re.compile(r"\$?\\uparrow\$?"), "↑"),
    (re.compile(r"\$?\\downarrow\$?"), "↓"),
    (re.compile(r"\\(?:cite[a-z]*|footnote|label)\{[^{}]*\}"), ""),
    (re.compile(r"\\[a-zA-Z]+\{([^{}]*)\}"), r"\1"),  # \textbf{Avg.}
    (re.compile(r"\*\*(.+?)\*\*"), r"\1"),
    (re.compile(r"^\*([^*]+)\*$"), r"\1"),
    (re.compile(r"^`(.+)`$"), r"\1"),
    (re.compile(r"</?(?:b|i|u|em|strong|sub|sup|span)(?:\s[^<>]*)?>"), ""),
)
_CITED = re.compile(r"(?<!_)\s*\[\d{1,3}(?:\s?[,–-]\s?\d{1,3})*\]$")  # MSP [16]
_REMARKED = re.compile(r"(\S[^()]*?)\s*\([^()]+\)")
_UNTITLED = re.compile(r"column \d+|unnamed: ?\d+|(?:sub)*section", re.IGNORECASE)
_REPEAT = rf"^(?i:({REPEAT_WORD}))[\s_#=\-]*(\d+)$"
_STATED = re.compile(r"(\D*[^\W\d]\s*=\s*)\d+(?:\.\d+)?")  # components = 20
_SHORT_SEED = re.compile(r"(|.*[^\W_][\s_/.\-]+)s(\d+)")  # CIFAR-10 s42
_RANKED = re.compile(r"(|.*[\s_/.\-])R\s?(@?)\s?(\d+)")
_RANKS = frozenset({"1", "5", "10", "50", "100"})  # at which retrieval is measured
_AT_OVERLAP = re.compile(r"AP[\s_@]*(?:0?\.)?(?:50?|75)(?!\d)")  # AP50, AP@0.75
_MOMENTS = frozenset({"best", "last", "final"})  # of training, at which a network was stored
_SEEDS_FROM = 10  # a number from which on it is hardly that of a split or a severity
_SIGNS = re.compile(r"[\\\[*`<]")  # a text without any of these wears none


def undressed(text: str) -> str:
    r"""Return a name without what only makes it bold or links it.

    >>> undressed("[MSP](https://example.org)"), undressed(r"\textbf{Avg.}"), undressed("a_b")
    ('MSP', 'Avg.', 'a_b')
    """
    bare = text
    if _SIGNS.search(text):
        for pattern, inside in _DRESSES:
            bare = pattern.sub(inside, bare)
    return " ".join(bare.split()) or text


_EMPHASIZED = re.compile(r"\*{1,2}(\d+(?:\.\d+)?)\*{1,2}")


def tidied(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Undress titles and names; return the table, and what the changed titles became."""
    frame = with_classes(frame)
    new = _bare_titles(frame.columns)
    frame = frame.rename(columns=new)
    for column in list(frame.columns):
        kind, numbers = _numbered_repeats(frame, column)
        if numbers is not None:
            frame = with_columns(frame, {column: numbers}).rename(columns={column: kind})
            continue
        bare = {text: _bare_name(text) for text in frame[column].unique()}
        short = {text: _CITED.sub("", name) or name for text, name in bare.items()}
        bare = short if len({*short.values()}) == len({*bare.values()}) else bare
        if any(text != name for text, name in bare.items()):
            frame[column] = frame[column].map(bare)
    return frame, {old: name for old, name in new.items() if old != name}


def _bare_name(text: str) -> str:
    if emphasized := _EMPHASIZED.fullmatch(text):  # a level in bold: **100**
        return emphasized[1]
    return undressed(text) if _SIGNS.search(text) and read_cell(text) is None else text


def _bare_titles(titles: Iterable[str]) -> dict[str, str]:
    """Undress titles, as far as they stay different."""
    bare = {title: _without_remark(_CITED.sub("", undressed(title))) for title in titles}
    short = {title: _TRACKED.sub("", name) for title, name in bare.items()}
    times = Counter(short.values())
    new = {
        title: name if name and times[name] == 1 else bare[title] or title
        for title, name in short.items()
    }
    new = _with_moments(_with_overlaps(_with_ranks(_with_seeds(_with_settings(new)))))
    return new if len(set(new.values())) == len(new) else {title: title for title in new}


def _with_settings(titles: Mapping[str, str]) -> dict[str, str]:
    """Say of numbers beside a title such as "components = 20" what they are, too.

    >>> list(_with_settings({"a": "Score", "b": "components = 20", "c": "50"}).values())
    ['Score', 'components = 20', 'components = 50']
    """
    named, setting = {}, ""
    for old, name in titles.items():
        found = _STATED.fullmatch(name)
        number = setting and name.replace(".", "", 1).isdigit()
        setting = found[1] if found else setting if number else ""
        named[old] = f"{setting}{name}" if number else name
    return named


def _with_seeds(titles: Mapping[str, str]) -> dict[str, str]:
    """Write seeds in full where the same ones, such as s42, stand below all names.

    From s1 on they may be splits or severities as well.

    >>> _with_seeds({"a": "Method", "b": "A s0", "c": "A s1", "d": "B s0", "e": "B s1"})["e"]
    'B seed 1'
    """
    found = {old: match for old, name in titles.items() if (match := _SHORT_SEED.fullmatch(name))}
    numbers: dict[str, set[int]] = {}
    for match in found.values():
        numbers.setdefault(match[1], set()).add(int(match[2]))
    seeds = set().union(*numbers.values())
    alike = len(seeds) > 1 and all(own == seeds for own in numbers.values())
    if not alike or (0 not in seeds and max(seeds) < _SEEDS_FROM):
        return dict(titles)
    return {**titles, **{old: f"{match[1]}seed {match[2]}" for old, match in found.items()}}


def _with_ranks(titles: Mapping[str, str]) -> dict[str, str]:
    """Write recalls of a ranking alike: R@1, and R1 where R5 or R10 stands beside it.

    >>> _with_ranks({"a": "R@1", "b": "R@5"}), _with_ranks({"a": "R1", "b": "R2"})
    ({'a': 'Recall@1', 'b': 'Recall@5'}, {'a': 'R1', 'b': 'R2'})
    >>> _with_ranks({"a": "COCO R1", "b": "COCO R5"})
    {'a': 'COCO R@1', 'b': 'COCO R@5'}
    """
    found = {old: match for old, name in titles.items() if (match := _RANKED.fullmatch(name))}
    ranks = {match[3] for match in found.values() if not match[2]}
    if ranks and ("1" not in ranks or len(ranks) < 2 or not ranks <= _RANKS):
        found = {old: match for old, match in found.items() if match[2]}
    said = {old: f"{m[1]}R@{m[3]}" if m[1] else f"Recall@{m[3]}" for old, m in found.items()}
    return {**titles, **said}


def _with_overlaps(titles: Mapping[str, str]) -> dict[str, str]:
    """Call AP beside AP50 what it is: the mean over overlaps of objects, not an area.

    >>> list(_with_overlaps({"a": "AP", "b": "AP50"}).values())
    ['mAP', 'AP50']
    """
    if not any(map(_AT_OVERLAP.fullmatch, titles.values())):
        return dict(titles)
    return {old: "mAP" if name == "AP" else name for old, name in titles.items()}


def _with_moments(titles: Mapping[str, str]) -> dict[str, str]:
    """Say of "best" and "last" beside each other that they are checkpoints of one training.

    >>> list(_with_moments({"a": "Method", "b": "Best", "c": "Last"}).values())
    ['Method', 'checkpoint=Best', 'checkpoint=Last']
    """
    found = {old: name for old, name in titles.items() if plain(name) in _MOMENTS}
    if len(found) < 2:  # best alone is a statistic of the other columns
        return dict(titles)
    return {**titles, **{old: f"checkpoint={name}" for old, name in found.items()}}


def _without_remark(title: str) -> str:
    """Return the title of a column of names without what stands in brackets behind it.

    >>> _without_remark("Model (same test set)"), _without_remark("AUROC (ID)")
    ('Model', 'AUROC (ID)')
    """
    found = _REMARKED.fullmatch(title)
    return found[1] if found and plain(found[1]) in {*DETECTOR_TITLES, *MODEL_TITLES} else title


def _numbered_repeats(frame: pd.DataFrame, column: str) -> tuple[str, pd.Series[str] | None]:
    """Return the kind and the numbers of repeats in a column without title: seed 0, seed 1.

    Lines that summarize them, such as Average, keep their names.
    """
    if not _UNTITLED.fullmatch(column):
        return "", None
    repeats = frame[column].str.extract(_REPEAT)
    found = repeats.notna().all(axis=1)
    others = [text for text in frame[column][~found] if plain(text) not in SUMMARIES]
    if len(set(repeats[0][found])) != 1 or not all(map(is_average, others)):
        return "", None
    kind = str(repeats[0][found].iloc[0]).casefold()
    return kind, None if kind in frame.columns else repeats[1].where(found, frame[column])
