"""A number and how far it can be trusted."""

from __future__ import annotations

from typing import NamedTuple


class Estimate(NamedTuple):
    """A value with the lower and upper end of its interval."""

    value: float
    low: float
    high: float
