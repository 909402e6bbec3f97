"""Texts as numbers: how that is done, and words by how often the training texts have them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.lab.data.samples import Texts, Tokens

NOTHING, UNKNOWN = 0, 1  # behind the end of a text; a word that training texts hardly have
WORDS = 20_000  # numbers that there are, with these two
LENGTH = 128  # words of a text that are read; the rest is left out
_SEEN = 2  # so often must the training texts have a word


class Numbering(Protocol):
    """A way to turn texts into numbers; 0 is behind the end of a text."""

    def encode(self, texts: Texts) -> Tokens:
        """Turn texts into numbers."""

    @property
    def marks(self) -> NDArray[np.int32]:
        """Numbers that stand for no part of a text."""

    @property
    def begins(self) -> NDArray[np.bool_]:
        """Whether each number begins a word; the others continue one."""

    @property
    def words(self) -> NDArray[np.int32]:
        """Numbers of whole words, which random texts are drawn from."""


def words_of(text: str) -> list[str]:
    """Return the first words of a text in lower case; what is neither letter nor digit parts them.

    >>> words_of("Oil prices, again: up 3%!")
    ['oil', 'prices', 'again', 'up', '3']
    """
    found = islice(re.finditer(r"\w+", text), LENGTH)
    return [match[0].lower() for match in found]


@dataclass(frozen=True)
class Vocabulary:
    """Words with their numbers, the most frequent first; all others have one number."""

    numbers: Mapping[str, int]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Vocabulary:
        """Number the words of training texts; of words as frequent, in alphabetical order."""
        counts = Counter(word for text in texts for word in words_of(text))
        known = sorted(
            (word for word, count in counts.items() if count >= _SEEN),
            key=lambda word: (-counts[word], word),
        )
        if not known:
            raise UserError(f"The training texts have no word that occurs {_SEEN} times.")
        return cls({word: number + 2 for number, word in enumerate(known[: WORDS - 2])})

    def encode(self, texts: Texts) -> Tokens:
        """Turn texts into numbers; one without any word becomes a single unknown word."""
        rows = np.full((len(texts), LENGTH), NOTHING, np.int32)
        for row, text in zip(rows, texts.texts, strict=True):
            numbers = [self.numbers.get(word, UNKNOWN) for word in words_of(text)] or [UNKNOWN]
            row[: len(numbers)] = numbers
        return Tokens(texts.name, rows, texts.labels)

    @property
    def marks(self) -> NDArray[np.int32]:
        """There are none."""
        return np.empty(0, np.int32)

    @property
    def begins(self) -> NDArray[np.bool_]:
        """Each number is a word."""
        return np.ones(UNKNOWN + 1 + len(self.numbers), bool)

    @property
    def words(self) -> NDArray[np.int32]:
        """All but the unknown word."""
        return np.arange(UNKNOWN + 1, UNKNOWN + 1 + len(self.numbers), dtype=np.int32)
