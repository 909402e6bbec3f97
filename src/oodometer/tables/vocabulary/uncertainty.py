"""What texts around a table say of the numbers after ±: what they are, and over how many runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["standard deviation", "standard error", "confidence interval"]

_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "fifty": 50,
}  # fmt: skip
_NUMBER = rf"(?<![\w.,/-])(\d{{1,3}}|{'|'.join(_WORDS)})"
_KINDS_OF_RUNS = (
    r"(?:(?:random|independent|different|distinct|separate|individual|repeated|training|train|"
    r"evaluation|experimental|experiment|model|weight|network|full|complete|cross-validation)\s+)"
)
_RUNS = r"(?:runs?|seeds?|trials?|repetitions?|repeats?|replicates?|initiali[sz]ations?|folds?)"
_COUNTED = re.compile(rf"(?i){_NUMBER}[\s-]+{_KINDS_OF_RUNS}{{0,3}}{_RUNS}\b")
_REPEATED = re.compile(rf"(?i)\b(?:repeated|run|trained|performed)\s+{_NUMBER}\s+times\b")
_EQUALS = re.compile(r"(?i)\b(?:seeds|runs|trials)\s*[=:]\s*(\d{1,3})\b(?![.\d]|\s*[,;]\s*\d)")
_PICKED = re.compile(r"(?i)\b(?:best|top|first|worst|max(?:imum)?|median|out)\s+(?:of|from)\s+$")
_OTHER_RUNS = re.compile(r"(?i)\b(?:tun(?:ed|ing)|search|sweeps?|hyper-?parameters?|budget)\b")
_MEANS = re.compile(r"(?i)±|\\pm|\b(?:averag|mean|std\b|standard|error|over|across|repeat|deviat)")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_DEVIATION = re.compile(r"(?i)\bstandard\s+deviations?|\bstd\b|\bstdev\b|\bs\.?d\.?(?![\w.])|σ")
_ERROR = re.compile(r"(?i)\bstandard\s+errors?\b|\bstd\.?\s*err|\bstderr\b|\bs\.?e\.?m\.?(?!\w)")
_INTERVAL = re.compile(r"(?i)\bconfidence\s+intervals?\b|\b9\d\s*%\s*(?:CI\b|confidence)|±\s*CI\b")
_LONGEST = 2000  # characters of a text


@dataclass(frozen=True)
class Uncertainty:
    """What numbers after ± are, and over how many runs means are; None where nothing says it."""

    kind: Kind | None = None
    runs: int | None = None

    def or_else(self, other: Uncertainty) -> Uncertainty:
        """Return what is said here, completed by what is said farther away."""
        runs = other.runs if self.runs is None else self.runs
        return Uncertainty(self.kind or other.kind, runs)


NOTHING_SAID = Uncertainty()


def uncertainty_in(text: str, *, is_prose: bool = False) -> Uncertainty:
    """Return what a caption, a heading or a title says; a line of prose must speak of means.

    >>> uncertainty_in("OOD detection (mean ± std over five random seeds)")
    Uncertainty(kind='standard deviation', runs=5)
    >>> uncertainty_in("best of 3 runs"), uncertainty_in("tuned with 20 trials")
    (Uncertainty(kind=None, runs=None), Uncertainty(kind=None, runs=None))
    """
    sentences = _SENTENCE.split(text[:_LONGEST])
    spoken = [s for s in sentences if not is_prose or _MEANS.search(s)]
    counts = {count for sentence in spoken for count in _counts(sentence)}
    runs = counts.pop() if len(counts) == 1 else None
    return Uncertainty(_kind(" ".join(spoken)), runs if runs and runs > 1 else None)


def common(said: Iterable[Uncertainty]) -> Uncertainty:
    """Return what is said of all of several tables, or nothing."""
    different = set(said)
    return different.pop() if len(different) == 1 else NOTHING_SAID


def _counts(sentence: str) -> list[int]:
    """Return the numbers of runs in a sentence, unless they are runs of a search; seeds are not."""
    of_search = bool(_OTHER_RUNS.search(sentence))
    found = [
        number[1]
        for pattern in (_COUNTED, _REPEATED, _EQUALS)
        for number in pattern.finditer(sentence)
        if not _PICKED.search(sentence[: number.start()])
        and not (of_search and "seed" not in number[0].casefold())
    ]
    return [_WORDS.get(word.casefold()) or int(word) for word in found]


def _kind(text: str) -> Kind | None:
    if _DEVIATION.search(text):
        return "standard deviation"
    if _ERROR.search(text):
        return "standard error"
    return "confidence interval" if _INTERVAL.search(text) else None
