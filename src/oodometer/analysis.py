"""Statistics on anybody's results table: read it, apply what its columns allow, conclude."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Finding, Table
from oodometer.protocols.agreement.protocol import metric_agreement
from oodometer.protocols.instability.protocol import instability_of
from oodometer.protocols.label_noise.field import NOISE_FACTORS
from oodometer.protocols.label_noise.protocol import label_noise_of
from oodometer.protocols.robustness.protocol import robustness_of
from oodometer.protocols.standing.protocol import standing_of
from oodometer.protocols.standing.unpaired import (
    are_separate,
    over_separate_repeats,
    separate_runs,
    spread_claims,
    stated_spreads,
)
from oodometer.results import Results
from oodometer.tables import Reading, read_results

if TYPE_CHECKING:
    import pandas as pd

    from oodometer.tables.reading import PathLike

MOST_POINTS = 2500  # in one picture
MOST_LABELS = 60  # lines of a picture, or columns of a heat map
# Metrics that ask the same question: are ID and outliers separated?
COMPARED = ("auroc", "fpr95", "aupr_in", "aupr_out", "tnr95", "detection_error",
            "detection_accuracy")  # fmt: skip


def analyze(
    results: PathLike | Sequence[PathLike] | pd.DataFrame,
    *,
    columns: str = "",
    runs: int | None = None,
    rng: np.random.Generator | None = None,
) -> list[Finding]:
    """Conclude what a table of results allows: a file, several, a folder, or a DataFrame.

    `columns` corrects what would be guessed, such as ``detector=Method, auroc=AUC``; `runs` is how
    many stand behind each mean ± standard deviation, where no column says it. What was noticed
    while reading stands among the caveats of the first finding.
    """
    return findings_of(read_results(results, columns, runs), rng)


def findings_of(reading: Reading, rng: np.random.Generator | None = None) -> list[Finding]:
    """Apply every protocol that the columns of a table allow; those that they do not say why."""
    rng = np.random.default_rng(0) if rng is None else rng
    main = over_separate_repeats(reading.results[0])
    by_metric = {results.metric: results for results in reading.results}
    several = [results for results in reading.results if results.metric in COMPARED]
    tried: list[tuple[str, Callable[[], Finding]]] = []
    if main.factors and not are_separate(main):
        tried.append(("robustness over a factor", lambda: robustness_of(*(several or [main]))))
        tried.append(("instability", lambda: instability_of(main)))
    if set(NOISE_FACTORS) & set(main.factor_names):
        tried.append(("label noise", lambda: label_noise_of(by_metric, rng)))
    if len(several) > 1:
        tried.append(("agreement of metrics", lambda: metric_agreement(several)))
    findings, refused = _best(main, rng)
    for name, apply in tried:
        try:
            finding = apply()
        except UserError as problem:
            refused.append(f"Not applied, {name}: {problem}")
            continue
        if _is_empty(finding):
            refused.append(f"Not applied, {name}: every detector lacks some of its results.")
        else:
            findings.append(finding)
    notes = tuple(f"On reading: {note}." for note in reading.notes)
    taken = Table(
        "columns", "What each column was taken for", ("column", "taken for"), reading.columns,
        "--columns corrects it.",
    )  # fmt: skip
    first = findings[0]
    if len(main.factors) < len(reading.results[0].factors):
        told = ", ".join(
            name for name in reading.results[0].factor_names if name not in main.factor_names
        )
        notes = (*notes, f"Detectors share no {told}: their means over it are compared.")
    caveats = (*first.caveats, *notes, *refused)
    findings[0] = replace(first, caveats=caveats, tables=(*first.tables, taken))
    return [_readable(finding) for finding in findings]


def _best(results: Results, rng: np.random.Generator) -> tuple[list[Finding], list[str]]:
    """Say who is best, by paired runs, by runs of each detector's own, or by stated spreads."""
    if are_separate(results):
        return [separate_runs(results)], []
    standing = standing_of(results, rng)
    standing = replace(standing, claims=(*standing.claims, *spread_claims(results)))
    if "runs" not in results.frame.columns:
        return [standing], []
    try:
        return [stated_spreads(results), standing], []
    except UserError as problem:
        return [standing], [f"Not applied, a test by the stated spreads: {problem}"]


def _is_empty(finding: Finding) -> bool:
    """Tell whether the first table of a finding holds no number at all."""
    return bool(finding.tables) and not any(
        isinstance(cell, float | tuple) for row in finding.tables[0].rows for cell in row
    )


def _readable(finding: Finding) -> Finding:
    """Leave out pictures of one cell; of those that nobody could read, show the first labels."""
    shown, cut = [], []
    for series in finding.series:
        key = "column" if series.kind == "heatmap" else "label"
        labels = list(dict.fromkeys(point.get(key, "") for point in series.points))
        most = MOST_LABELS
        if len(series.points) > MOST_POINTS:
            most = min(most, max(1, MOST_POINTS * len(labels) // len(series.points)))
        if series.kind == "heatmap" and len(series.points) == 1:
            continue
        if len(labels) > most:
            few = set(labels[:most])
            points = tuple(point for point in series.points if point.get(key, "") in few)
            series = replace(series, points=points)
            cut.append(f"{series.title} ({most} of {len(labels)})")
        shown.append(series)
    if not cut:
        return replace(finding, series=tuple(shown))
    caveat = f"Pictures with too many points show the first only: {'; '.join(cut)}."
    return replace(finding, series=tuple(shown), caveats=(*finding.caveats, caveat))
