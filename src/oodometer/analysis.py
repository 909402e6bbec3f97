"""Statistics on anybody's results table: read it, apply what its columns allow, conclude."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from oodometer.errors import UserError, unknown
from oodometer.finding import Finding, Table
from oodometer.protocols import PROTOCOLS
from oodometer.protocols.common.cases import cases_of
from oodometer.protocols.common.measured import Measured
from oodometer.protocols.ranking.unpaired import (
    are_separate,
    over_separate_repeats,
    own_runs_compared,
)
from oodometer.results import Results
from oodometer.tables import Reading, described, read_results
from oodometer.tables.described import listed, shortened

if TYPE_CHECKING:
    import pandas as pd

    from oodometer.tables.reading import PathLike

COLUMNS = "columns"  # name of the table of how each column was read
MOST_POINTS = 2500  # in one picture
MOST_LABELS = 60  # lines of a picture, or columns of a heat map


def analyze(
    results: PathLike | Sequence[PathLike] | pd.DataFrame,
    *,
    columns: str = "",
    runs: int | None = None,
    ours: str = "",
    rng: np.random.Generator | None = None,
) -> list[Finding]:
    """Conclude what a table of results allows: a file, several, a folder, or a DataFrame.

    `columns` corrects what would be guessed, such as ``detector=Method, auroc=AUC``; `runs` is how
    many stand behind each mean ± standard deviation, where no column says it. `ours` names the
    detector whose comparisons are declared in advance: it is compared with every other one first.
    How the table was read is `reading` of the first finding.
    """
    return findings_of(read_results(results, columns, runs), rng, ours)


def _settled(reading: Reading) -> Reading:
    """Ask what a factor is whose kind is assumed, if something is decided only as it was read.

    As conditions, its levels are training runs of their own; if each run was evaluated at all of
    them, they are one case, and a lead may rest on counting it several times. If it does not, a
    note says so.
    """
    main, assumed = reading.results[0], dict(reading.assumed)
    if not assumed or not _decides(main):
        return reading
    # One by one first, so that the question is about the one that matters; then all together.
    for names in (*((name,) for name in assumed), tuple(assumed)):
        factors = tuple(
            replace(factor, kind="re_evaluation") if factor.name in names else factor
            for factor in main.factors
        )
        if not _decides(replace(main, factors=factors)):
            raise UserError(assumed[names[0]])
    notes = (
        f"{name} is read as a condition; what is decided also holds if its levels are evaluations "
        "of the same runs"
        for name in assumed
    )
    return replace(reading, notes=(*reading.notes, *notes))


def _of_sets(reading: Reading) -> Reading:
    """Ask whether titles name data sets, if a lead is decided that not every one of them shows.

    If nothing is decided, or the same detector leads on each, a note says how they were read.
    """
    if not reading.doubt:
        return reading
    main = reading.results[0]
    sets = "id" if len(main.ids) > 1 else "ood"
    means = main.frame.pivot_table("value", sets, "detector", "mean", sort=False)
    leaders = (means if main.higher_is_better else -means).idxmax(axis="columns")
    if len(set(leaders)) > 1 and _decides(main):
        raise UserError(reading.doubt)
    shown = listed([shortened(str(name)) for name in means.index])
    note = f"{shown} are read as data sets, not as forms of {main.label}"
    return replace(reading, notes=(note, *reading.notes))


def _decides(results: Results) -> bool:
    """Whether a table decides something about who leads."""
    measured = Measured(over_separate_repeats(results), {results.metric: results}, "")
    protocol = PROTOCOLS["ranking"]
    if protocol.of_results is None or not protocol.applies(measured):
        return False
    try:
        finding = protocol.of_results(measured, np.random.default_rng(0))
    except UserError:
        return False
    return any(claim.theme == "leads" and claim.verdict == "holds" for claim in finding.claims)


def findings_of(
    reading: Reading, rng: np.random.Generator | None = None, ours: str = ""
) -> list[Finding]:
    """Apply every protocol that a results table allows; those that it does not say why."""
    rng = np.random.default_rng(0) if rng is None else rng
    reading = _of_sets(_settled(reading))
    whole = reading.results[0]
    main = over_separate_repeats(whole)
    if ours and ours not in main.detectors:
        raise unknown("detector of the table", ours, main.detectors)
    measured = Measured(main, {results.metric: results for results in reading.results}, ours)
    findings: list[Finding] = []
    notes: list[str] = []
    reasons: list[str] = []
    averaged = [name for name in whole.factor_names if name not in main.factor_names]
    if averaged:
        notes.append(f"Detectors share no {', '.join(averaged)}: their means over it are compared.")
    for name, protocol in PROTOCOLS.items():
        if protocol.of_results is None or not protocol.applies(measured):
            continue
        try:
            finding = protocol.of_results(measured, rng)
        except UserError as problem:
            if protocol.is_required:
                raise
            reasons.append(str(problem))
            notes.append(f"Not applied, {name.replace('_', ' ')}: {problem}")
            continue
        if _is_empty(finding):
            lacking = "every detector lacks some of its results"
            notes.append(f"Not applied, {name.replace('_', ' ')}: {lacking}.")
        else:
            findings.append(finding)
    if not findings:
        raise UserError(f"Nothing can be said about these results. {' '.join(reasons)}")
    first = findings[0]
    columns = Table(
        COLUMNS, "How each column was read", ("column", "read as"), reading.columns,
        "--columns corrects it.",
    )  # fmt: skip
    findings[0] = replace(
        first,
        caveats=(*first.caveats, *notes),
        tables=(*first.tables, columns),
        reading=described(reading, _compared(main)),
    )
    return [_readable(finding) for finding in findings]


def _compared(results: Results) -> str:
    """Say which part of a table is compared, if not all of it."""
    if are_separate(results):
        return own_runs_compared(results)
    try:
        cases = cases_of(results)
    except UserError:  # detectors share no run: their means are compared
        return ""
    parts = []
    if cases.left_out:
        parts.append(
            f"{len(cases.detectors)} of {len(results.detectors)} detectors; too many gaps: "
            f"{listed([*map(shortened, cases.left_out)])}"
        )
    if lacking := cases.incomplete + cases.unbalanced:
        cell = [*results.keys, *results.factor_names]
        cell.remove("detector")
        total = len(results.frame[cell].drop_duplicates())
        varied = " and ".join(["combinations of set", *results.factor_names])
        cells = varied if results.factor_names else "sets"
        sets = f", all on {listed([*cases.kept_sets])}" if cases.kept_sets else ""
        kept = f"the {total - lacking} of {total} {cells} that every compared detector has"
        parts.append(kept + sets * bool(results.factor_names))
    return "; ".join(parts)


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
    caveat = f"Figures with too many points show the first ones only: {'; '.join(cut)}."
    return replace(finding, series=tuple(shown), caveats=(*finding.caveats, caveat))
