"""Protocols: from a ScoreTable to a Finding, each a pure function in a file of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oodometer.finding import Finding
from oodometer.protocols.instability import instability
from oodometer.protocols.label_noise import label_noise
from oodometer.protocols.od_test import od_test
from oodometer.protocols.ranking import ranking
from oodometer.protocols.robustness import robustness
from oodometer.protocols.standing import standing
from oodometer.protocols.tuning import tuning
from oodometer.scores import ScoreTable

Protocol = Callable[[ScoreTable, np.random.Generator], Finding]

PROTOCOLS: dict[str, Protocol] = {
    "ranking": ranking,
    "robustness": robustness,
    "od_test": od_test,
    "instability": instability,
    "label_noise": label_noise,
    "standing": standing,
    "tuning": tuning,
}
