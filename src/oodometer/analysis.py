"""Statistics on anybody's results table: read it, apply what its columns allow, conclude."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Finding
from oodometer.protocols.instability import instability_of
from oodometer.protocols.label_noise import label_noise_of
from oodometer.protocols.label_noise_field import NOISE_FACTORS
from oodometer.protocols.robustness import robustness_of
from oodometer.protocols.standing import standing
from oodometer.tables import Reading, read_results

if TYPE_CHECKING:
    import pandas as pd

    from oodometer.tables.reading import PathLike


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
    tried: list[tuple[str, Callable[[], Finding]]] = [
        ("robustness over a factor", lambda: robustness_of(*reading.results)),
        ("instability", lambda: instability_of(main)),
    ]
    if set(NOISE_FACTORS) & set(main.factors):
        tried.append(("label noise", lambda: label_noise_of(by_metric, rng)))
    findings = [standing(main, rng)]
    refused = []
    for name, apply in tried if main.factors else ():
        try:
            findings.append(apply())
        except UserError as problem:
            refused.append(f"Not applied, {name}: {problem}")
    findings += [standing(results, rng) for results in reading.results[1:]]
    notes = tuple(f"On reading: {note}." for note in reading.notes)
    taken = tuple((f"column {column}", role) for column, role in reading.columns)
    first = findings[0]
    caveats = (*notes, *first.caveats, *refused)
    return [replace(first, caveats=caveats, facts=first.facts + taken), *findings[1:]]
