"""Detectors: their cards, and the table in which they are found by name."""

from oodometer.registry.card import (
    Detector,
    InputsChangedError,
    ScoreOutputs,
    Scorer,
    Validation,
)
from oodometer.registry.lookup import (
    BROKEN_PLUGINS,
    DETECTORS,
    ENTRY_POINTS,
    Choice,
    adopt_with,
    choice_of,
    choose,
    classes_in,
    detector,
    detectors_in,
    find,
    load_plugins,
)

__all__ = [
    "BROKEN_PLUGINS",
    "DETECTORS",
    "ENTRY_POINTS",
    "Choice",
    "Detector",
    "InputsChangedError",
    "ScoreOutputs",
    "Scorer",
    "Validation",
    "adopt_with",
    "choice_of",
    "choose",
    "classes_in",
    "detector",
    "detectors_in",
    "find",
    "load_plugins",
]
