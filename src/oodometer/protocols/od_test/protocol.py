"""Does a detector find outliers of a kind that nobody tuned it on? Three data sets, not two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np

from oodometer.errors import UserError, unknown
from oodometer.finding import Claim, Finding
from oodometer.protocols.od_test.claims import answer, claims
from oodometer.protocols.od_test.effects import Accuracies
from oodometer.protocols.od_test.experiments import Experiment, Source, experiment
from oodometer.protocols.od_test.notes import caveats, facts, missing
from oodometer.protocols.od_test.threshold import FITS, Fit
from oodometer.protocols.od_test.views import (
    accuracy_series,
    accuracy_table,
    pair_map,
    run_table,
    source_table,
)
from oodometer.scores import ScoreTable

Triplet = tuple[str, str, str]  # source, validation outliers, test outliers


def od_test(table: ScoreTable, rng: np.random.Generator, *, threshold: Fit = "exact") -> Finding:
    """Learn a threshold on one outlier set, test it on another: the OD-test of one source."""
    return od_test_over_sources([table], rng, threshold=threshold)


def od_test_over_sources(
    tables: Sequence[ScoreTable],
    rng: np.random.Generator,
    *,
    triplets: Iterable[Triplet] | None = None,
    threshold: Fit = "exact",
) -> Finding:
    """OD-test over several sources, each a table with an ID set of its own.

    `triplets`: the experiments that are allowed, by default all ordered pairs of different outlier
    sets of each source. `threshold`: ``exact``, the highest accuracy on the validation samples, or
    ``hinge``, the published fit. ID samples and outliers are split by `scores.validation_half`:
    the one half is learned on, the other tested on. Shafaei et al. 2019, arXiv:1809.04729.
    """
    if threshold not in FITS:
        raise unknown("fit of a threshold", threshold, FITS)
    allowed, absent = _experiments(tables, None if triplets is None else list(triplets))
    sources = tuple(
        experiment(table, allowed[table.id], threshold, rng)
        for table in tables
        if allowed[table.id]
    )
    accuracies = Accuracies(sources)
    comparable = bool(sources) and bool(accuracies.methods)
    return Finding(
        protocol="od_test",
        title="OD-test: outliers that nobody tuned on",
        question="Does a detector whose threshold was learned on some outliers find others?",
        claims=tuple(claims(accuracies) if comparable else _claim_nothing(tables, sources)),
        tables=(accuracy_table(accuracies), *source_table(accuracies), *run_table(accuracies))
        if comparable
        else (),
        series=(accuracy_series(accuracies), *pair_map(accuracies)) if comparable else (),
        caveats=caveats(tables, accuracies, threshold) if comparable else (),
        missing=(*absent, *missing(tables, sources)),
        facts=facts(tables, accuracies) if comparable else (),
        answer=answer(accuracies) if comparable else "",
    )


def _experiments(
    tables: Sequence[ScoreTable], triplets: Sequence[Triplet] | None
) -> tuple[dict[str, list[Experiment]], list[str]]:
    """Pairs of outlier sets per source, and what was asked for but is not there."""
    names = [table.id for table in tables]
    if not tables:
        raise UserError("tables is empty: OD-test needs the scores of at least one source.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"Two tables have the source '{twice[0]}': each source may come once.")
    usable = {table.id: _usable(table) for table in tables}
    if triplets is None:
        return {name: list(permutations(sets, 2)) for name, sets in usable.items()}, []
    allowed: dict[str, dict[Experiment, None]] = {name: {} for name in names}
    absent: dict[str, None] = {}
    for triplet in triplets:
        source, learn, test = _checked(triplet)
        name = _known(source, names)
        if name is None:
            absent[f"source {source}: no table of scores"] = None
            continue
        sets = {wanted: _known(wanted, usable[name]) for wanted in (learn, test)}
        one, other = sets.values()
        if one is not None and other is not None:
            allowed[name][one, other] = None
        for wanted in (wanted for wanted, found in sets.items() if found is None):
            absent[f"source {name}: no scores of outlier set {wanted}"] = None
    return {name: list(pairs) for name, pairs in allowed.items()}, list(absent)


def _checked(triplet: Triplet) -> Triplet:
    if isinstance(triplet, str) or len(triplet) != 3:
        raise UserError(
            f"A triplet is {triplet!r}; a source, a validation set and a test set are needed."
        )
    source, learn, test = triplet
    if _plain(learn) == _plain(test):
        raise UserError(
            f"A triplet of source '{source}' learns and tests on '{learn}': they must differ."
        )
    return triplet


def _usable(table: ScoreTable) -> list[str]:
    """Outlier sets that can be halved, if the ID set can."""
    sizes: dict[str, int] = {}
    for row in table.rows:
        sizes[row.dataset] = min(len(row.scores), sizes.get(row.dataset, len(row.scores)))
    if sizes.get(table.id, 0) < 2:
        return []
    return [name for name in table.ood if sizes[name] > 1]


def _known(wanted: str, names: Sequence[str]) -> str | None:
    """The name as the table writes it: "gaussian_noise" is "Gaussian noise"."""
    if wanted in names:
        return wanted
    return next((name for name in names if _plain(name) == _plain(wanted)), None)


def _plain(name: str) -> str:
    return name.casefold().replace("_", " ").replace("-", " ")


def _claim_nothing(tables: Sequence[ScoreTable], sources: Sequence[Source]) -> list[Claim]:
    """Say why there is no result at all."""
    if sources:
        text = "OD-test is not possible: no method has all scores on every source."
        return [Claim(text, "undecided", "see what is missing below")]
    sets = max((len(table.ood) for table in tables), default=0)
    if sets > 1:
        text = (
            "OD-test is not possible: no pair of outlier sets is allowed and has two samples each"
        )
        return [Claim(f"{text}, beside two of the ID set.", "undecided", "samples are halved")]
    text = "OD-test is not possible: it learns on one outlier set and tests on another, and there "
    text += "is one outlier set only." if sets else "is no outlier set."
    return [Claim(text, "undecided", "at least two outlier sets are needed")]
