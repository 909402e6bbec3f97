"""Headings that are alike but for a name: what they have in common is a title, or nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oodometer.factors import TITLES, plain
from oodometer.tables.frames.headers import KNOWN_TITLES
from oodometer.tables.vocabulary.titles import ID_TITLES, REPEAT_TITLES, mentions_setting

_SIGN = re.compile(r"(?<=\w)\s*=\s*(?=\w)")  # between a title and a level: optimizer=sgd
_NUMBERED = re.compile(r"\b([^\W\d_]+)_(?=\d)")  # seed_2
_ID = "ID"  # title of what headings call so


def without_common_words(texts: Sequence[str]) -> tuple[str, list[str]]:
    """Return the title that common first words are, if any, and what is left of each text.

    >>> without_common_words(["Seed 0", "Seed 1"])
    ('Seed', ['0', '1'])
    >>> without_common_words(["Results on CIFAR-10", "Results on SVHN"])
    ('', ['CIFAR-10', 'SVHN'])
    >>> without_common_words(["Leaves as ID", "Wings as ID"])
    ('ID', ['Leaves', 'Wings'])
    >>> without_common_words(["optimizer=sgd", "optimizer=adam"])
    ('optimizer', ['sgd', 'adam'])
    >>> without_common_words(["horizon 96", "horizon 192"])
    ('horizon', ['96', '192'])
    """
    words = [_SIGN.sub("= ", _NUMBERED.sub(_parted, text)).split() for text in texts]
    given = [row for row in words if row]
    first = min(_common(given), min(map(len, given)) - 1)  # a word of each is left
    last = _common([row[:first:-1] for row in given])
    if any(text.count("(") != text.count(")") for text in _cut(words, first, last)):
        first = last = 0
    bare = _cut(words, first, last)
    end = plain("".join(given[0][len(given[0]) - last :])).removeprefix("as").removesuffix("data")
    if end in ID_TITLES:
        return _ID, bare
    start = given[0][:first]
    title = " ".join(start).rstrip(" :=–—-")
    if start and (start[-1].endswith((":", "=")) or plain(title) in {*KNOWN_TITLES, *TITLES}):
        return title, [text.rstrip(":") for text in bare]
    if start and plain(start[-1]) in REPEAT_TITLES and all(map(str.isalnum, filter(None, bare))):
        return start[-1], bare  # AUROC of all methods, seed 1
    numbered = all(text.replace(".", "").isdigit() for text in bare if text)
    if len(start) == 1 and numbered and mentions_setting(title):
        return title, bare
    if start and numbered:
        bare = [f"{start[-1]} {text}" if text else "" for text in bare]
    return "", bare


def _parted(found: re.Match[str]) -> str:
    return f"{found[1]} " if plain(found[1]) in TITLES else found[0]


def _cut(rows: Sequence[Sequence[str]], first: int, last: int) -> list[str]:
    return [" ".join(row[first : len(row) - last]) for row in rows]


def _common(rows: Sequence[Sequence[str]]) -> int:
    """Count the words with which all begin."""
    count = 0
    for words in zip(*rows, strict=False):
        if len(set(words)) > 1:
            break
        count += 1
    return count
