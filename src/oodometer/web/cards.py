"""The cards of the built-in detectors as plain data, read by a process that ends afterwards.

Cards need PyTorch, pages do not. Detectors of users are never imported here: a page shows their
names and results only.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

OTHER = "other"  # the family of what is not built in


@dataclass(frozen=True)
class Card:
    """What is known of a detector."""

    name: str
    family: str
    summary: str
    formula: str
    paper: str
    needs: tuple[str, ...]
    defaults: Mapping[str, str]
    grid: Mapping[str, tuple[str, ...]]


def read_cards() -> dict[str, Card]:
    """The cards of all built-in detectors by name; none if they cannot be read."""
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(cards_here).result()
    except (BrokenProcessPool, OSError):
        return {}


def cards_here() -> dict[str, Card]:
    """The cards, read in this process; loads PyTorch."""
    import oodometer.builtin  # noqa: F401 - importing registers them
    from oodometer.detector_families import family_of
    from oodometer.needs import in_text
    from oodometer.registry import DETECTORS

    return {
        name: Card(
            name,
            family_of(card.needed({})),
            card.summary,
            card.formula,
            card.paper,
            tuple(in_text(card.needs)),
            {setting: str(value) for setting, value in card.defaults.items()},
            {setting: tuple(map(str, values)) for setting, values in card.grid.items()},
        )
        for name, card in DETECTORS.items()
        if card.build.__module__.startswith("oodometer.")
    }


def card_of(detector: str, cards: Mapping[str, Card]) -> Card | None:
    """The card of a detector as studies name it: ``knn(k=10)`` is ``knn``."""
    return cards.get(detector.partition("(")[0].strip())


def family_of(detector: str, cards: Mapping[str, Card]) -> str:
    """The family of a detector, which says what it reads."""
    card = card_of(detector, cards)
    return OTHER if card is None else card.family
