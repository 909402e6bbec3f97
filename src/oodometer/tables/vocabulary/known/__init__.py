"""Known names, kept as text files: one line may hold several, with commas between them."""

from __future__ import annotations

from pathlib import Path

from oodometer.factors import plain


def known_names(kind: str) -> frozenset[str]:
    """Return the names in a file of this folder, each in lower-case letters and digits.

    >>> "isolationforest" in known_names("models")
    True
    """
    text = Path(__file__).with_name(f"{kind}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return frozenset(filter(None, map(plain, ",".join(lines).split(","))))
