"""What to say of outlier sets that hold in-distribution samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from oodometer.overlap import SHARED, shared_rows
from oodometer.scores import ScoreTable

_FEWEST = 2  # detectors: a single one may give many samples the same score


def copy_caveats(table: ScoreTable) -> Iterator[str]:
    """Name outlier sets with samples that every detector scores exactly like an ID sample.

    Each set is looked at in the first run that has it: copies are the same in all of them.
    """
    found: dict[str, int] = {}
    for run in table.runs:
        rows = _scores_of(table, run)
        detectors = [name for name, of_set in rows.items() if table.id in of_set]
        for outliers in table.ood:
            known = [name for name in detectors if outliers in rows[name]]
            if outliers not in found and len(known) >= _FEWEST:
                one, other = (
                    np.stack([rows[name][data] for name in known], axis=1)
                    for data in (outliers, table.id)
                )
                found[outliers] = shared_rows(one, other)
                if found[outliers] >= SHARED * len(one):
                    yield (
                        f"{found[outliers]} of {len(one)} samples of {outliers} have exactly the "
                        "scores of an in-distribution sample with every detector: they are "
                        "probably the same samples, and a detector that accepts them is right."
                    )


def _scores_of(table: ScoreTable, run: str) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Scores with default settings: detector -> data set -> one number per sample."""
    rows: dict[str, dict[str, NDArray[np.float64]]] = {}
    for row in table.rows:
        if row.run == run and row.default and not row.learned_from:
            rows.setdefault(row.detector, {})[row.dataset] = row.scores
    return rows
