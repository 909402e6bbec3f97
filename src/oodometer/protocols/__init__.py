"""Protocols: from a ScoreTable to a Finding, each a pure function in a file of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oodometer.finding import Finding
from oodometer.protocols.instability.protocol import instability
from oodometer.protocols.label_noise.protocol import label_noise
from oodometer.protocols.od_test.protocol import od_test
from oodometer.protocols.ranking.protocol import ranking
from oodometer.protocols.robustness.protocol import robustness
from oodometer.protocols.standing.protocol import standing
from oodometer.protocols.tuning.protocol import tuning
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
