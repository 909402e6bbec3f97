"""Families of detectors, by what they read."""

from __future__ import annotations

from collections.abc import Iterable

from oodometer.needs import Need, Source

# The first that applies: a detector with a network of its own may read features, too.
_BY_SOURCE: dict[Source, str] = {
    "model": "own network",
    "outliers": "validation outliers",
    "runs": "several training runs",
    "probe": "further passes",
    "layers": "layers",
}


def family_of(needs: Iterable[Need]) -> str:
    """Say what sets a detector with these needs apart: the most that it reads.

    >>> family_of([Need("outputs", "logits"), Need("outputs", "features")])
    'features'
    >>> family_of([Need("outputs", "logits"), Need("probe", "odin")])
    'further passes'
    """
    read = list(needs)
    sources = {need.source for need in read}
    named = next((family for source, family in _BY_SOURCE.items() if source in sources), "")
    return named or ("features" if any(need.name == "features" for need in read) else "logits")
