"""Rules for files: plain ones only, no more unpacked than can be meant, no traps written."""

from __future__ import annotations

import os
from pathlib import Path

from oodometer.clean_text import clean
from oodometer.errors import UserError

HARMLESS = 1 << 28  # bytes that may be unpacked from anything
# By which spreadsheets know formulas; some languages write the same signs in full width.
FORMULA = ("=", "+", "-", "@", "\t", "\uff1d", "\uff0b", "\uff0d", "\uff20")
RATIO = 200  # beyond that, no data shrink by more: what does is a bomb


def real_path(path: Path) -> Path:
    """An absolute path without links; of a link that leads to itself, the link.

    `Path.resolve` raises there, before Python 3.13.
    """
    return Path(os.path.realpath(path))


def refuse_special(path: Path, title: str) -> None:
    """Raise if something is there that is neither file nor folder: reading it may never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(f"{title} '{path}' is a pipe or a device, not a file.")


def most_unpacked(packed: int, harmless: int | None = None) -> int:
    """How many bytes may come out of a compressed file of this size; `harmless` in any case."""
    return max(HARMLESS if harmless is None else harmless, RATIO * packed)


def inert(cell: object) -> object:
    r"""A text that no spreadsheet takes for a formula, nor a screen for a command.

    An apostrophe goes before a formula; see `clean_text` for the rest.

    >>> inert("=1+1"), inert("energy"), inert(-3.9), inert("a\u202eb")
    ("'=1+1", 'energy', -3.9, 'a\\u202eb')
    """
    if not isinstance(cell, str):
        return cell
    text = clean(cell)
    return f"'{text}" if text.startswith(FORMULA) else text
