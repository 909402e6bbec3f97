"""The page of a run, and of one detector in it: learning curve, accuracy, score histograms."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from oodometer.engine.stores import DamagedError, Kind
from oodometer.pictures import Gallery
from oodometer.searches.gallery import SHOWN_ARRAYS, found_gallery
from oodometer.web import queries
from oodometer.web.arrays import read_arrays
from oodometer.web.figures import curve_series, draw_twice, histogram_series
from oodometer.web.index import METRICS
from oodometer.web.queries import Result, StudyEntry
from oodometer.web.reading import read_scores
from oodometer.web.site import NotFoundError, Shown, Site

_MOST_SETS = 30  # whose histograms are drawn
_MOST_GALLERIES = 30


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
    columns = list(dict.fromkeys((result.ood, result.variation) for result in found))
    tables = [("AUROC of every detector", [own for own in columns if not own[1]])]
    if searched := [own for own in columns if own[1]]:
        tables.append(("Worst case: AUROC on outliers that were searched for", searched))
    return Shown(
        "run.html.j2",
        f"Run {label}",
        {
            "entry": entry,
            "run": label,
            "levels": entry.runs[label],
            "accuracy": None if known is None else (known[0] / known[1], *known),
            "curves": _curves(connection, entry, label),
            "detectors": {r.detector: r.key != "" for r in found},
            "tables": tables,
            "values": {(r.detector, r.ood, r.variation): r for r in found},
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
    if not found[0].key:
        raise NotFoundError(f"Scores of '{detector[:60]}' were submitted: they are not kept here.")
    keys = {entry.data: found[0].reference} | {_set_of(result): result.key for result in found}
    kinds: dict[str, Kind] = {_set_of(r): "found" if r.variation else "scores" for r in found}
    scores = {}
    for name, key in list(keys.items())[:_MOST_SETS]:
        with suppress(DamagedError):
            kind = kinds.get(name, "scores")
            scores[name] = read_scores(entry.place.store, kind, key, setting or "-")
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
            "galleries": list(_galleries(connection, entry, label, detector, scores)),
        },
    )


def _set_of(result: Result) -> str:
    """What figures call the outliers of a result."""
    return f"{result.variation} of {result.ood}" if result.variation else result.ood


def _galleries(
    connection: sqlite3.Connection,
    entry: StudyEntry,
    label: str,
    detector: str,
    scores: Mapping[str, NDArray[np.float64]],
) -> Iterator[Gallery]:
    """What searches against a detector have found in a run, beside what they began at."""
    known = scores.get(entry.data, np.zeros(0))
    cells = queries.searches_of(connection, entry.number, label, detector)
    for outliers, variation, key in cells[:_MOST_GALLERIES]:
        with suppress(DamagedError, KeyError):
            arrays = read_arrays(
                entry.place.store.view("searches", key), lambda name: name in SHOWN_ARRAYS
            )
            yield found_gallery(f"{variation} of {outliers}", detector, arrays, known)
