"""Protocols: from a ScoreTable to a Finding, each a pure function in a file of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oodometer.finding import Finding
from oodometer.protocols.ranking import ranking
from oodometer.scores import ScoreTable

Protocol = Callable[[ScoreTable, np.random.Generator], Finding]

PROTOCOLS: dict[str, Protocol] = {"ranking": ranking}
