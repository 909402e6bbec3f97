"""Data sets that are known by name: what they are, where they lie, and how they are found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from oodometer.errors import UserError, unknown
from oodometer.lab.data.cards import CARDS, Card
from oodometer.lab.data.readers import FORMATS, recognise

VARIABLE = "OODOMETER_DATA"
_ENDINGS = {
    "images": (".npz", ".parquet"),
    "texts": (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet"),
}


@dataclass(frozen=True)
class Found:
    """Where a data set lies, and in which format."""

    path: Path
    format: str


def data_folder() -> Path:
    """Where data sets are looked for and put: $OODOMETER_DATA, or a folder in the user's cache."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "oodometer"


def card_of(name: str) -> Card:
    """Return the card of a known name, or say which one may be meant."""
    if name not in CARDS:
        raise unknown("data set", name, CARDS)
    return CARDS[name]


def find(name: str, root: Path | None = None) -> Found | None:
    """Look for a known data set under `root` (or the data folder), then in places of the system."""
    card = card_of(name)
    if name == "digits":
        return _find_digits()
    for format, path in _candidates(card, root or data_folder()):
        if not format:
            format = recognise(path) or ""
        elif not FORMATS[format].matches(path):
            continue
        if format:
            return Found(path, format)
    return None


def not_found(name: str) -> UserError:
    """Return the sentence for a known data set that is not on this machine."""
    card = card_of(name)
    folder = data_folder()
    tried = [name, *(f"{name}{ending}" for ending in _ENDINGS[card.kind])]
    tried += [path for _, path in card.layouts if path not in (".", name)]
    where = f"'{folder}'" + (f" (${VARIABLE})" if os.environ.get(VARIABLE) else "")
    get = f"'oodometer data get {name}' downloads it" if card.files else card.by_hand
    return UserError(
        f"Data set '{name}' was not found: {where} has none of {', '.join(tried)}; {get}, or give "
        "the path of your copy."
    )


def _candidates(card: Card, root: Path) -> Iterator[tuple[str, Path]]:
    """Where the set may lie, as (format, path); no format: whatever format is recognised."""
    names = [name for name in (card.name, card.beside) if name]
    for own in (root / name for name in names):
        if own.is_dir():
            yield from ((format, own / path) for format, path in card.layouts)
            yield "", own
    for file in (root / f"{name}{ending}" for name in names for ending in _ENDINGS[card.kind]):
        if file.is_file():
            yield "", file
    yield from ((format, root / path) for format, path in card.layouts)
    for format, text in card.system:
        yield format, Path(os.path.expandvars(text)).expanduser()


def _find_digits() -> Found | None:
    # Found in the wheel without importing scikit-learn, which would cost a second.
    try:
        path = distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    except PackageNotFoundError:
        return None
    return Found(Path(str(path)), "digits")
