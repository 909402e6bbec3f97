"""What a method costs: time, memory and the like, which are neither results nor settings."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oodometer.factors import words_of

# Words of titles of costs.
_COSTS = frozenset(
    {"time", "times", "seconds", "hours", "minutes", "runtime", "walltime", "latency", "memory",
     "throughput", "fps", "parameters", "cost", "gpu", "duration", "elapsed", "speedup", "kwh",
     "usd", "zeit", "laufzeit", "dauer", "temps", "durée", "tiempo", "时间", "耗时", "用时"}
)  # fmt: skip
_COUNTED = re.compile(r"[kmgt]?(?:flops|macs|params)")  # image_mparams
_UNIT = re.compile(r"[a-z0-9][_ ]\(?(?:s|secs?|ms|us|mins|hrs|kb|[mg]i?b|[KMG]i?B)\)?$")  # fit_sec
# Cells with a unit of time, memory or speed: 4,880 ms, 1.2 GB, 73,484/s.
_AMOUNT = re.compile(
    r"\W*\d[\d.,]*\s?(?:(?:[nuµm]?s|secs?|seconds?|min|mins|minutes?|h|hrs?|hours?|days?|[kmg]i?b|"
    r"[kmgt]?flops|fps|hz)|\w*/(?:s|sec|min|h))\W*",
    re.IGNORECASE,
)


def names_costs(title: str) -> bool:
    """Whether a title is about what a method costs, by its words or the unit at its end.

    >>> names_costs("Train Runtime (hours)"), names_costs("# params"), names_costs("timestep")
    (True, True, False)
    >>> names_costs("lda_fit_sec"), names_costs("Train (s)"), names_costs("ViT-S")
    (True, True, False)
    """
    words = words_of(title)
    named = not _COSTS.isdisjoint(words) or any(map(_COUNTED.fullmatch, words))
    return named or bool(_UNIT.search(title.strip()))


def are_costs(texts: Sequence[str]) -> bool:
    """Whether texts are amounts of time, memory or speed, another one on most lines.

    Levels of a condition come again and again: windows of 5 s and 10 s.

    >>> are_costs(["0 ms", "4,880 ms", "12 ms"]), are_costs(["5 s", "10 s", "5 s", "10 s"])
    (True, False)
    """
    varied = 2 * len(set(texts)) > len(texts)
    return varied and len(texts) > 1 and all(map(_AMOUNT.fullmatch, texts))
