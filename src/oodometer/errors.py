"""Errors caused by user input, each described in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path


class UserError(ValueError):
    """Invalid input. The message is one sentence: the thing, its value, and what is allowed.

    The command line prints it without a traceback; in Python it is an ordinary ``ValueError``.
    """


class NotFiniteError(UserError):
    """Some answers are NaN or infinite: those at `rows`."""

    def __init__(self, sentence: str, rows: Sequence[int]) -> None:
        super().__init__(sentence)
        self.rows = tuple(rows)


def describe(problem: BaseException, *, named: bool = True) -> str:
    r"""Put an exception into one line: its type, if `named`, and 300 characters of its message.

    >>> describe(RuntimeError("shapes differ:\n  (2, 5)"))
    'RuntimeError: shapes differ: (2, 5)'
    """
    if isinstance(problem, UserError):
        return str(problem)
    text = " ".join(str(problem).split())[:300]
    if text and not named:
        return text
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def unknown(kind: str, name: object, known: Iterable[str]) -> UserError:
    """Return the error "Unknown X. Did you mean Y?".

    >>> str(unknown("detector", "enrgy", ["energy", "knn"]))
    "Unknown detector 'enrgy'. Did you mean 'energy'? Known: energy, knn."
    """
    names = sorted(known)
    close = nearest(str(name), names)
    hint = f" Did you mean '{close}'?" if close is not None else ""
    return UserError(f"Unknown {kind} '{name}'.{hint} Known: {', '.join(names) or 'none'}.")


def no_file(what: str, path: Path, endings: Iterable[str]) -> UserError:
    """Return the error "X does not exist. Did you mean Y?" for a file."""
    kinds = tuple(endings)
    there = (file.name for file in path.parent.glob("*"))  # a link to nowhere is there, too
    names = [n for n in there if n.lower().endswith(kinds) and n != path.name]
    neighbours = {Path(name).stem: name for name in sorted(names)}  # equal endings tell nothing
    close = nearest(path.stem, neighbours)
    hint = f" Did you mean '{path.parent / neighbours[close]}'?" if close is not None else ""
    return UserError(f"{what} '{path}' does not exist.{hint}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `name`, or None if none is close.

    >>> nearest("adma", ["adagrad", "adam", "adamax"])  # a transposition is one edit
    'adam'
    """
    lowered, wrong = {candidate.lower(): candidate for candidate in sorted(known)}, name.lower()
    alike = difflib.get_close_matches(wrong, list(lowered), n=5, cutoff=0.5)

    # Edit distance counts most, then a common prefix, then overall similarity.
    def distance(other: str) -> int:
        return min(_edits(wrong, other), 2 if other.startswith(wrong) else 3)

    best = min(alike, key=distance, default=None)
    return None if best is None else lowered[best]


def _edits(first: str, second: str) -> int:
    """Edit distance with transpositions (optimal string alignment; Damerau 1964)."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        before, last, row = row, before, [i]
        for j, other in enumerate(second, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and other == first[i - 2]:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
