"""Classes that two data sets share, by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oodometer.overlap import SharedName

_IDLE = frozenset({"and", "for", "misc", "other", "the", "with"})  # say nothing about a thing


def shared_names(first: Sequence[str], second: Sequence[str]) -> list[SharedName]:
    """Return pairs of classes with the same name, then those that share a word.

    Case, plural, underscores, hyphens and camelCase make no difference; a comma separates
    synonyms, as in ImageNet's names. A shared word may mean the same thing, a kind of it, or
    nothing at all (teddy bear): a reader has to judge.

    >>> shared_names(["Pickup_Trucks", "cat"], ["truck", "tabby, Cats", "dog"])
    ... # doctest: +NORMALIZE_WHITESPACE
    [SharedName(id_class='cat', ood_class='tabby, Cats', kind='same'),
     SharedName(id_class='Pickup_Trucks', ood_class='truck', kind='shared word')]
    """
    ours, theirs = ([(str(name), _synonyms(name)) for name in names] for names in (first, second))
    same, similar = [], []
    for name, meanings in ours:
        words = _distinctive_words(meanings)
        for other, other_meanings in theirs:
            if meanings & other_meanings:
                same.append(SharedName(name, other, "same"))
            elif words & _distinctive_words(other_meanings):
                similar.append(SharedName(name, other, "shared word"))
    return same + similar


def _synonyms(name: str) -> frozenset[tuple[str, ...]]:
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    parts = (tuple(map(_singular, re.findall(r"\w+", part))) for part in _parts(apart))
    return frozenset(part for part in parts if part)


def _parts(name: str) -> list[str]:
    return name.lower().replace("_", " ").split(",")


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if re.search(r"(ch|sh|ss|[^aeo]us|x|z)es$", word):
        return word[:-2]
    return word[:-1] if len(word) > 3 and re.search(r"[^siu]s$", word) else word


def _distinctive_words(meanings: frozenset[tuple[str, ...]]) -> frozenset[str]:
    words = (word for meaning in meanings for word in meaning)
    return frozenset(word for word in words if len(word) > 2 and word not in _IDLE)
