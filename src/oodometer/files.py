"""One rule for files that users name: plain files only, and no more unpacked than can be meant."""

from __future__ import annotations

from pathlib import Path

from oodometer.errors import UserError

HARMLESS = 1 << 28  # bytes that may be unpacked from anything
RATIO = 200  # beyond that, no data shrink by more: what does is a bomb


def refuse_special(path: Path, title: str) -> None:
    """Raise if something is there that is neither file nor folder: reading it may never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(f"{title} '{path}' is a pipe or a device, not a file.")


def most_unpacked(packed: int) -> int:
    """How many bytes may come out of a compressed file of this size."""
    return max(HARMLESS, RATIO * packed)
