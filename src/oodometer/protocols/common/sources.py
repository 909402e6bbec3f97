"""Training runs in which a detector has the same scores: one case of it, not several."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from oodometer.errors import UserError
from oodometer.finding import Claim
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.protocols.common.words import count, listing
from oodometer.scores import ScoreRow, ScoreTable
from oodometer.stats.pairwise import Sources

_WHY = "a network of its own that was trained once, or all runs together"
_Rows = Mapping[tuple[str, str], ScoreRow]  # setting, data set


def sources_of(
    table: ScoreTable, runs: Sequence[str], training_runs: TrainingRuns
) -> dict[str, Sources]:
    """For each detector and training run, the first one in which it has the same scores.

    A network of a detector's own may serve several classifiers, and is not a new case in each. What
    a search has found is not looked at: it differs with the search.
    """
    rows: dict[str, dict[str, dict[tuple[str, str], ScoreRow]]] = {}
    for row in table.rows:
        if (row.default or row.learned_from) and table.sets[row.dataset].role != "search":
            by_run = rows.setdefault(row.detector, {})
            by_run.setdefault(row.run, {})[row.setting, row.dataset] = row
    return {
        name: _first_same(rows.get(name, {}), runs, training_runs, table.id)
        for name in table.detectors
    }


def sources_at(sources: Sources, own: Sequence[int]) -> Sources:
    """The first training runs with the same scores, among some training runs only.

    >>> sources_at((0, 1, 0, 3), [1, 2, 3]), sources_at((0, 0, 0, 3), [1, 2])
    ((0, 1, 2), (0, 0))
    """
    first: dict[int, int] = {}
    return tuple(first.setdefault(sources[run], place) for place, run in enumerate(own))


def _first_same(
    by_run: Mapping[str, _Rows], runs: Sequence[str], training_runs: TrainingRuns, id_set: str
) -> Sources:
    """The first training run with the same scores wherever all have some; without scores, itself.

    Scores of the ID set differ almost always, and then the others need not be read.
    """
    cells = set.intersection(*(set(own) for own in by_run.values())) if by_run else set()
    inside = sorted(cell for cell in cells if cell[1] == id_set)
    outside = sorted(cell for cell in cells if cell[1] != id_set)
    known = [[by_run[runs[run]] for run in own if runs[run] in by_run]
             for own in training_runs.members]  # fmt: skip
    found = list(range(len(known)))
    for read in (inside, [*inside, *outside]):
        first: dict[frozenset[bytes], int] = {}
        for place, own in enumerate(known):
            if own:
                digests = frozenset(_digest(rows, read) for rows in own)
                found[place] = first.setdefault(digests, place)
        if len(set(found)) == len(found):
            break
    return tuple(found)


def _digest(rows: _Rows, cells: Sequence[tuple[str, str]]) -> bytes:
    made = hashlib.sha256()
    for cell in cells:
        made.update(rows[cell].scores.tobytes())
    return made.digest()


def _sources(table: ScoreTable) -> dict[str, Sources]:
    with_scores = {row.run for row in table.rows}
    runs = [run for run in table.runs if run in with_scores]
    training_runs = TrainingRuns.of({run: table.runs[run] for run in runs}, table.factors)
    return sources_of(table, runs, training_runs)


def shared_scores(table: ScoreTable) -> tuple[str, ...]:
    """Detectors with the same scores in more training runs than others: these retrain less of them.

    Where two factors retrain one part of the detectors each, as `seed` and `model_seed` in a grid,
    no detector is new in every run; those with the most cases are compared then.
    """
    return with_fewer_cases(_sources(table))


def with_fewer_cases(sources: Mapping[str, Sources]) -> tuple[str, ...]:
    """Detectors with fewer cases than the others have, or with one in several training runs."""
    cases = {name: len({*own}) for name, own in sources.items()}
    most = max(cases.values(), default=0)
    return tuple(name for name, own in cases.items() if own < most or own == 1 < len(sources[name]))


def trained_once(table: ScoreTable) -> tuple[str, ...]:
    """Detectors with the same scores in all training runs, of which there are several."""
    return tuple(name for name, own in _sources(table).items() if len({*own}) == 1 < len(own))


def retrained(
    table: ScoreTable, protocol: str, fewest: int = 1
) -> tuple[ScoreTable, tuple[str, ...]]:
    """The table without detectors that have the same scores in several training runs, and these.

    `protocol` names who asks, where fewer than `fewest` detectors are left.
    """
    shared = shared_scores(table)
    if not shared:
        return table, ()
    if len(table.detectors) - len(shared) < fewest:
        are = "is" if fewest == 1 else "are"
        raise UserError(
            f"{protocol} needs {count(fewest, 'detector')} that {are} retrained in every training "
            f"run; {listing(shared)} {_have(shared)} the same scores in several ({_WHY})."
        )
    rows = tuple(row for row in table.rows if row.detector not in shared)
    return replace(table, rows=rows), shared


def left_out_claims(
    shared: Sequence[str], unknown: str, why: str = "left out of the other claims"
) -> list[Claim]:
    """Say which detectors take no part because they were not retrained, and what is `unknown`."""
    if not shared:
        return []
    text = (
        f"{unknown} is unknown for {listing(shared)}, which {_have(shared)} the same scores in "
        "several training runs."
    )
    return [Claim(text, "undecided", f"{_WHY}; {why}", "missing")]


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def trained_once_caveats(sources: Mapping[str, Sources], names: Sequence[str]) -> list[str]:
    """Say which of these detectors are one case each, whatever the number of training runs."""
    same = [name for name in names if len({*sources[name]}) == 1 < len(sources[name])]
    if not same:
        return []
    return [
        f"Same scores in all {len(sources[same[0]])} training runs: {listing(same)}. Each is one "
        f"case ({_WHY}), whose spread over retraining is unknown."
    ]
