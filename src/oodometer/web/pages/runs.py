"""The page of a run, and of one detector in it: learning curve, accuracy, score histograms."""

from __future__ import annotations

import sqlite3
from contextlib import suppress

from oodometer.engine.stores import DamagedError
from oodometer.web import queries
from oodometer.web.arrays import read_arrays
from oodometer.web.figures import curve_series, draw_twice, histogram_series
from oodometer.web.index import METRICS
from oodometer.web.queries import StudyEntry
from oodometer.web.reading import read_scores
from oodometer.web.site import NotFoundError, Shown, Site

_MOST_SETS = 30  # whose histograms are drawn


def run(site: Site, connection: sqlite3.Connection, parts: list[str]) -> Shown:
    """Route: runs/STORE/STUDY/RUN, and /DETECTOR."""
    if not 3 <= len(parts) <= 4:
        raise NotFoundError("A run is found by runs/STORE/STUDY/RUN.")
    entry = site.entry(connection, parts)
    label = site.label(connection, parts[2], "run")
    if label not in entry.runs:
        raise NotFoundError(f"Study '{entry.name}' has no run '{label[:60]}'.")
    if len(parts) == 4:
        return _cell(site, connection, entry, label, parts[3])
    known = queries.accuracies(connection, entry.number).get(label)
    found = list(queries.results(connection, entry.number, run=label))
    values = {(result.detector, result.ood): result for result in found}
    return Shown(
        "run.html.j2",
        f"Run {label}",
        {
            "entry": entry,
            "run": label,
            "levels": entry.runs[label],
            "accuracy": None if known is None else (known[0] / known[1], *known),
            "curves": _curves(connection, entry, label),
            "detectors": list(dict.fromkeys(result.detector for result in found)),
            "sets": list(dict.fromkeys(result.ood for result in found)),
            "values": values,
            "models": queries.keys_of_run(connection, entry.number, label, "models"),
        },
    )


def _curves(connection: sqlite3.Connection, entry: StudyEntry, label: str) -> list[object]:
    """The learning curve of a run's classifier, drawn, or nothing."""
    for _, _, key in queries.keys_of_run(connection, entry.number, label, "models")[:1]:
        with suppress(DamagedError):
            payload = entry.place.store.view("models", key)
            arrays = read_arrays(payload, lambda name: name.startswith("curve/"))
            arrays = {name: values for name, values in arrays.items() if values.ndim == 1}
            if any(len(values) for values in arrays.values()):
                return [draw_twice(curve_series(arrays), "curve")]
    return []


def _cell(
    site: Site, connection: sqlite3.Connection, entry: StudyEntry, label: str, slug: str
) -> Shown:
    detector = site.label(connection, slug, "detector")
    found = list(queries.results(connection, entry.number, run=label, name=detector))
    if not found:
        raise NotFoundError(f"There are no results of '{detector[:60]}' in run '{label[:60]}'.")
    setting = entry.settings.get(detector, [""])[0]
    keys = {entry.data: found[0].reference} | {result.ood: result.key for result in found}
    scores = {}
    for name, key in list(keys.items())[:_MOST_SETS]:
        with suppress(DamagedError):
            scores[name] = read_scores(entry.place.store, "scores", key, setting or "-")
    return Shown(
        "cell.html.j2",
        f"{detector} in run {label}",
        {
            "entry": entry,
            "run": label,
            "detector": detector,
            "setting": setting,
            "results": found,
            "columns": METRICS,
            "figures": [draw_twice(histogram_series(scores, detector), "histogram")]
            if scores
            else [],
            "keys": keys,
        },
    )
