"""Compute results from the scores in a store, one row of metrics each."""

from __future__ import annotations

import sqlite3

import numpy as np
from numpy.typing import NDArray

from oodometer import metrics
from oodometer.engine.stores import DamagedError, Kind, Store
from oodometer.engine.work.codecs import REFUSED, array_to_text
from oodometer.metrics.counts import Counts
from oodometer.web.arrays import read_arrays
from oodometer.web.cells import set_state
from oodometer.web.index import ABSENT, METRICS, PRESENT, READ, WAITING

PUT_RESULT = (
    f"insert or replace into results values (?, ?, {', '.join('?' * len(METRICS))}, ?, ?, ?)"
)


def read_group(
    connection: sqlite3.Connection, store: Store, cells: list[sqlite3.Row], setting: str
) -> None:
    """Compute the results of one detector in one run, on the outlier sets that are new."""
    first = cells[0]
    of_group = (first["study"], first["run"], first["name"])
    reference = connection.execute(
        "select rowid, key, state from cells where study = ? and run = ? and name = ? "
        "and kind = 'scores' and role = 'id'",
        of_group,
    ).fetchone()
    outliers = [cell for cell in cells if cell["role"] in ("ood", "search")]
    if reference is None or reference["state"] == ABSENT:
        set_state(connection, outliers, WAITING)
        return
    if reference["state"] == PRESENT:
        set_state(connection, [reference], READ)
        connection.execute(
            "update cells set state = ? where study = ? and run = ? and name = ? and state = ?",
            (PRESENT, *of_group, WAITING),
        )
    inside: NDArray[np.float64] | None = None
    for cell in outliers:
        pair = cell["key"], cell["reference"]
        known = connection.execute(
            "select 1 from results where key = ? and reference = ? and problem = ''", pair
        ).fetchone()
        if known is None:
            try:
                if inside is None:
                    inside = read_scores(store, "scores", cell["reference"], setting)
                outside = read_scores(store, cell["kind"], cell["key"], setting)
                counts = Counts.of_scores(inside, outside)
                values = [float(metrics.METRICS[name].of_counts(counts)) for name in METRICS]
                sizes = counts.id_total, counts.ood_total
                connection.execute(PUT_RESULT, (*pair, *values, *sizes, ""))
            except (DamagedError, ValueError) as problem:
                empty = [None] * len(METRICS)
                connection.execute(PUT_RESULT, (*pair, *empty, 0, 0, str(problem)[:300]))
    set_state(connection, outliers, READ)


def read_scores(store: Store, kind: Kind, key: str, setting: str) -> NDArray[np.float64]:
    """The scores of one artefact at a setting ("-" if the detector has none)."""
    arrays = read_arrays(store.view(kind, key), lambda name: name in (setting, REFUSED))
    if setting not in arrays:
        if REFUSED in arrays:
            raise DamagedError(array_to_text(arrays[REFUSED]))
        raise DamagedError("the default setting was not scored")
    return arrays[setting].astype(np.float64)


def read_accuracy(connection: sqlite3.Connection, store: Store, key: str) -> None:
    """Keep how many samples of the in-distribution set a classifier gets right."""
    if connection.execute("select 1 from accuracies where key = ?", (key,)).fetchone():
        return
    try:
        arrays = read_arrays(store.view("outputs", key), lambda name: name in ("logits", "labels"))
        labels, logits = arrays["labels"], arrays["logits"]
        if not len(labels) or (labels < 0).any():
            return
        right = int((logits.argmax(1) == labels).sum())
    except (DamagedError, KeyError, ValueError):
        return
    chance = float(np.bincount(labels).max() / len(labels))
    connection.execute(
        "insert or replace into accuracies values (?, ?, ?, ?)", (key, right, len(labels), chance)
    )
