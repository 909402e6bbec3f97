"""The search for outliers that a detector takes for known data."""

from oodometer.lab.search.energy import Energy, Standard
from oodometer.lab.search.run import METHODS, SearchResult, search
from oodometer.lab.search.variations import (
    VARIATIONS,
    HasVariation,
    Variation,
    affine,
    as_variation,
    color,
    generated,
    linf,
    make_variation,
)

__all__ = [
    "METHODS",
    "VARIATIONS",
    "Energy",
    "HasVariation",
    "SearchResult",
    "Standard",
    "Variation",
    "affine",
    "as_variation",
    "color",
    "generated",
    "linf",
    "make_variation",
    "search",
]
