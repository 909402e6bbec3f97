"""Training runs in which a detector has the same scores: one case of it, not several."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.protocols.common.words import listing
from oodometer.scores import ScoreTable
from oodometer.stats.pairwise import Sources


def sources_of(
    table: ScoreTable, detector: str, runs: Sequence[str], training_runs: TrainingRuns
) -> Sources:
    """For each training run, the first one in which the detector has the same scores.

    A network of a detector's own may serve several classifiers, and is no new case in each.
    """
    sets = (table.id, *table.ood)
    first: dict[tuple[bytes, ...], int] = {}
    found = []
    for place, members in enumerate(training_runs.members):
        scored = (table.scores(runs[run], detector, name) for run in members for name in sets)
        digests = (b"" if s is None else hashlib.sha256(s.tobytes()).digest() for s in scored)
        found.append(first.setdefault(tuple(digests), place))
    return tuple(found)


def trained_once_caveats(table: ScoreTable) -> list[str]:
    """Name detectors with the same scores in all training runs: none of them was retrained."""
    with_scores = {row.run for row in table.rows}
    runs = [run for run in table.runs if run in with_scores]
    training_runs = TrainingRuns.of({run: table.runs[run] for run in runs}, table.factors)
    if len(training_runs) < 2:
        return []
    same = [
        detector
        for detector in table.detectors
        if len(set(sources_of(table, detector, runs, training_runs))) == 1
        and table.scores(runs[0], detector, table.id) is not None
    ]
    if not same:
        return []
    return [
        f"Same scores in all {len(training_runs)} training runs: {listing(same)}. Each is one case "
        "(a network of its own that was trained once, or all runs together), whose spread over "
        "retraining is unknown."
    ]
