"""What goes wrong because of what a user gave us, said in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class UserError(ValueError):
    """Bad input. The message is one sentence that names the thing, its value and what is allowed.

    The command line prints it without a traceback; in Python it is an ordinary ``ValueError``.
    """


def unknown(kind: str, name: object, known: Iterable[str]) -> UserError:
    """Return the one wording of "unknown X, did you mean Y".

    >>> str(unknown("detector", "enrgy", ["energy", "knn"]))
    "Unknown detector 'enrgy'. Did you mean 'energy'? Known: energy, knn."
    """
    names = sorted(known)
    lowered = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(str(name).lower(), list(lowered), n=1, cutoff=0.5)
    hint = f" Did you mean '{lowered[close[0]]}'?" if close else ""
    return UserError(f"Unknown {kind} '{name}'.{hint} Known: {', '.join(names) or 'none'}.")


def no_file(what: str, path: Path, endings: Iterable[str]) -> UserError:
    """Return the one wording of "X does not exist, did you mean its neighbour Y"."""
    kinds = tuple(endings)
    neighbours = [file.name for file in path.parent.glob("*") if file.name.lower().endswith(kinds)]
    close = difflib.get_close_matches(path.name, sorted(neighbours), n=1, cutoff=0.5)
    hint = f" Did you mean '{path.parent / close[0]}'?" if close else ""
    return UserError(f"{what} '{path}' does not exist.{hint}")
