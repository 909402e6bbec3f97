"""Probes: ways to ask a classifier about a batch more than once, each one function with its card.

What one returns is kept in ``Outputs.probes``; a detector declares that it needs ``probe:NAME``.
"""

from __future__ import annotations

from oodometer.lab.asking.probes import (
    dropout,
    gradients,
    layers,
    perturbation,
    pixels,
    prototypes,
)
from oodometer.lab.asking.probes._card import PROBES, Probe
from oodometer.lab.asking.probes._question import Learner, Question, State
from oodometer.lab.asking.probes.dropout import dropouts

__all__ = [
    "PROBES",
    "Learner",
    "Probe",
    "Question",
    "State",
    "dropout",
    "dropouts",
    "gradients",
    "layers",
    "perturbation",
    "pixels",
    "prototypes",
]
