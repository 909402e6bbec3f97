"""What tables and pictures of several protocols have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from oodometer.finding import Role, Series, Value
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.differences import compare_runs
from oodometer.protocols.common.outer_units import INDEPENDENT, OuterUnits
from oodometer.protocols.common.words import LEVEL, listing

ACCURACY = "classifier accuracy"
OF_DETECTORS: Mapping[str, Role] = {"label": "detector"}
OF_DETECTORS_ON_SETS: Mapping[str, Role] = {"label": "detector", "group": "set"}


def rank_rows(
    detectors: Sequence[str], order: NDArray[np.float64]
) -> list[tuple[str, int, float, str]]:
    """How often each detector is first, its mean rank, and between which ranks it moves.

    `order` is (detectors, cases); a shared first place counts for each.
    """
    firsts = (order == order.min(axis=0)).sum(axis=1)
    return [
        (name, int(first), round(float(row.mean()), 2), span(row.min(), row.max()))
        for name, first, row in zip(detectors, firsts, order, strict=True)
    ]


def span(low: float, high: float) -> str:
    """Write a range of ranks.

    >>> span(1, 3), span(2, 2)
    ('1–3', '2')
    """
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"


def interval_series(
    name: str,
    title: str,
    description: str,
    metric: str,
    rows: Iterable[tuple[str, str, Estimate | float]],
    *,
    higher_is_better: bool = True,
    roles: Mapping[str, Role] = OF_DETECTORS,
) -> Series:
    """Values with their intervals, as label, group and estimate; a bare number has no interval."""
    points: list[Mapping[str, Value]] = []
    for label, group, estimate in rows:
        value, low, high = estimate if isinstance(estimate, Estimate) else (estimate, None, None)
        points.append({"label": label, "group": group, "value": value, "low": low, "high": high})
    return Series(
        "intervals",
        name,
        title,
        description,
        metric,
        tuple(points),
        higher_is_better=higher_is_better,
        roles=roles,
    )


def mean_share(values: Floats, units: OuterUnits = INDEPENDENT) -> Estimate | float:
    """Mean of one share per case with its interval for other cases; a single case has none.

    As wide as over what cases share, if that is wider.
    """
    if len(values) == 1:
        return float(values[0])
    found = compare_runs(values[None], units, bounds=(0.0, 1.0), shared=False)
    return found.intervals(LEVEL)[0]


def factor_strips(
    values: NDArray[np.float64],
    detectors: Sequence[str],
    runs: Mapping[str, Mapping[str, object]],
    factors: Sequence[str],
    *,
    metric: str,
    run: str,
    over: str,
    higher_is_better: bool = True,
    accuracy: Mapping[str, float] | None = None,
) -> list[Series]:
    """Every run's value by the level of each factor; nothing if there are no factors.

    `values` is (detectors, runs), `runs` gives the levels of each; `run` is the word for one, and
    `over` says what its value is a mean over. The `accuracy` of each run's classifier, if known,
    is a first row: where it is steady and detection is not, accuracy does not tell them apart.
    """
    known = accuracy or {}
    # A factor with one level shows nothing, unless there is no other.
    varied = [f for f in factors if len({str(own[f]) for own in runs.values() if f in own}) > 1]
    factors = varied or factors
    points: list[Mapping[str, Value]] = [
        {
            "label": detector,
            "panel": factor,
            "level": str(levels[factor]),
            "value": float(values[row, column]),
            "run": name,
        }
        for factor in factors
        for row, detector in enumerate(detectors)
        for column, (name, levels) in enumerate(runs.items())
        if factor in levels
    ]
    if not points:
        return []
    of_classifiers: list[Mapping[str, Value]] = [
        {"label": ACCURACY, "panel": factor, "level": str(levels[factor]), "value": known[name],
         "run": name}
        for factor in factors
        for name, levels in runs.items()
        if factor in levels and name in known
    ]  # fmt: skip
    best = f" The best {len(detectors)} detectors." if len(detectors) < len(values) else ""
    return [
        Series(
            "strips",
            "factors",
            f"{metric} of every {run}, by factor",
            f"Mean {metric} over {over} of each {run}; one panel per factor: {listing(factors)}."
            + best
            + (" The first row is the accuracy of the classifiers." if known else ""),
            metric,
            (*of_classifiers, *points),
            higher_is_better=higher_is_better,
            roles={"label": "detector", "panel": "factor", "level": "level"},
        )
    ]
