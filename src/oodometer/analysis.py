"""Statistics on anybody's results table: read it, apply what its columns allow, conclude."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Finding, Table
from oodometer.protocols.instability import instability_of
from oodometer.protocols.label_noise import label_noise_of
from oodometer.protocols.label_noise_field import NOISE_FACTORS
from oodometer.protocols.metric_agreement import metric_agreement
from oodometer.protocols.robustness import robustness_of
from oodometer.protocols.standing import standing_of
from oodometer.tables import Reading, read_results

if TYPE_CHECKING:
    import pandas as pd

    from oodometer.tables.reading import PathLike

MOST_POINTS = 2500  # in one picture
# Metrics that ask the same question: are ID and outliers told apart?
COMPARED = ("auroc", "fpr95", "aupr_in", "aupr_out", "tnr95", "detection_error",
            "detection_accuracy")  # fmt: skip


def analyze(
    results: PathLike | Sequence[PathLike] | pd.DataFrame,
    *,
    columns: str = "",
    rng: np.random.Generator | None = None,
) -> list[Finding]:
    """Conclude what a table of results allows: a file, several, a folder, or a DataFrame.

    `columns` corrects what would be guessed, such as ``detector=Method, auroc=AUC``. What was
    noticed while reading stands among the caveats of the first finding.
    """
    return findings_of(read_results(results, columns), rng)


def findings_of(reading: Reading, rng: np.random.Generator | None = None) -> list[Finding]:
    """Apply every protocol that the columns of a table allow; those that they do not say why."""
    rng = np.random.default_rng(0) if rng is None else rng
    main = reading.results[0]
    by_metric = {results.metric: results for results in reading.results}
    several = [results for results in reading.results if results.metric in COMPARED]
    tried: list[tuple[str, Callable[[], Finding]]] = [
        ("robustness over a factor", lambda: robustness_of(*(several or [main]))),
        ("instability", lambda: instability_of(main)),
    ]
    if set(NOISE_FACTORS) & set(main.factors):
        tried.append(("label noise", lambda: label_noise_of(by_metric, rng)))
    findings = [standing_of(main, rng)]
    refused = []
    if not main.factors:
        tried = []
    if len(several) > 1:
        tried.append(("agreement of metrics", lambda: metric_agreement(several)))
    for name, apply in tried:
        try:
            findings.append(apply())
        except UserError as problem:
            refused.append(f"Not applied, {name}: {problem}")
    notes = tuple(f"On reading: {note}." for note in reading.notes)
    taken = Table(
        "columns", "What each column was taken for", ("column", "taken for"), reading.columns,
        "--columns corrects it.",
    )  # fmt: skip
    first = findings[0]
    caveats = (*notes, *first.caveats, *refused)
    findings[0] = replace(first, caveats=caveats, tables=(*first.tables, taken))
    return [_readable(finding) for finding in findings]


def _readable(finding: Finding) -> Finding:
    """Show the first labels only of pictures that nobody could read, and no browser would open."""
    shown, cut = [], []
    for series in finding.series:
        labels = list(dict.fromkeys(point.get("label", "") for point in series.points))
        if len(series.points) > MOST_POINTS and len(labels) > 1:
            few = set(labels[: max(1, MOST_POINTS * len(labels) // len(series.points))])
            points = tuple(point for point in series.points if point["label"] in few)
            series = replace(series, points=points)
            cut.append(f"{series.title} ({len(few)} of {len(labels)})")
        shown.append(series)
    if not cut:
        return finding
    caveat = f"Pictures with too many points show the first only: {'; '.join(cut)}."
    return replace(finding, series=tuple(shown), caveats=(*finding.caveats, caveat))
