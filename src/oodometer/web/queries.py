"""Questions to an index; every answer is bounded."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from oodometer.engine.plan.artefacts import STAGES, Stage
from oodometer.engine.plan.study_index import Outcome, read_outcome
from oodometer.engine.stores import DamagedError, StoreError
from oodometer.protocols.common.learned import unlearned
from oodometer.scores import Level, ScoreTable
from oodometer.study import Study
from oodometer.study.fields import factor_of
from oodometer.web.index import ABSENT, METRICS, READ, Index, Place, slug_of

Accuracy = tuple[int, int, float]  # correct, samples, chance


class Result(NamedTuple):
    """One detector in one run on one outlier set: every metric, and where the scores are."""

    run: str
    detector: str
    ood: str
    key: str
    reference: str  # key of the scores on the in-distribution set
    mark: str
    values: Mapping[str, float | None]
    problem: str


@dataclass(frozen=True, eq=False)
class StudyEntry:
    """The latest version of a study in a store."""

    number: int
    place: Place
    name: str
    plan: str
    saved: float
    data: str  # the in-distribution set
    outcome: str  # key; empty: not finished
    content: str
    generation: int

    @cached_property
    def _content(self) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = json.loads(self.content)
        return found

    @cached_property
    def study(self) -> Study:
        """Its file."""
        return Study.model_validate(self._content["study"])

    @cached_property
    def runs(self) -> dict[str, dict[str, Level]]:
        """The factor levels of each run."""
        return self._content["runs"]  # type: ignore[return-value]  # as it was written

    @cached_property
    def settings(self) -> dict[str, list[str]]:
        """Detectors, each with its grid, the default setting first."""
        return self._content["settings"]  # type: ignore[return-value]  # as it was written

    @cached_property
    def sets(self) -> dict[str, dict[str, str]]:
        """What each run scores, by digest; empty if the plan does not say so."""
        return self._content["sets"]  # type: ignore[return-value]  # as it was written

    @cached_property
    def outlier_sets(self) -> list[str]:
        """What its detectors score beside the in-distribution set; not what searches found."""
        return self._content["outlier_sets"]  # type: ignore[return-value]  # as it was written

    @property
    def route(self) -> str:
        """The part of an address that names it."""
        return f"{self.place.slug}/{slug_of(self.name)}"


def studies(index: Index, connection: sqlite3.Connection) -> list[StudyEntry]:
    """All studies, the latest first."""
    rows = connection.execute(
        "select s.*, coalesce(g.number, 0) as generation from studies s "
        "left join generations g on g.study = s.id order by s.saved desc, s.id"
    )
    return [
        StudyEntry(
            row["id"], index.places[row["store"]], row["name"], row["plan"], row["saved"],
            row["data"], row["outcome"], row["content"], row["generation"],
        )
        for row in rows
    ]  # fmt: skip


def generation(connection: sqlite3.Connection) -> int:
    """A number that grows whenever something changes."""
    row = connection.execute("select number from generations where study = 0").fetchone()
    return 0 if row is None else int(row["number"])


def stage_counts(connection: sqlite3.Connection, study: int) -> dict[Stage, tuple[int, int]]:
    """Per stage, how many results are there and how many are wanted."""
    found: dict[str, tuple[int, int]] = {
        row["stage"]: (row["done"], row["wanted"])
        for row in connection.execute(
            "select stage, sum(state <> ?) as done, count(*) as wanted from cells "
            "where study = ? and counted = 1 group by stage",
            (ABSENT, study),
        )
    }
    return {stage: found.get(stage, (0, 0)) for stage in STAGES}


def failures(connection: sqlite3.Connection, study: int, limit: int) -> list[tuple[str, str, str]]:
    """Runs and detectors that failed, and the key under which the reason is kept."""
    rows = connection.execute(
        "select run, name, key from cells where study = ? and kind = 'failures' and state <> ? "
        "order by run, name limit ?",
        (study, ABSENT, limit),
    )
    return [(row["run"], row["name"], row["key"]) for row in rows]


def results(
    connection: sqlite3.Connection, study: int, *, run: str | None = None, name: str | None = None
) -> Iterator[Result]:
    """The results of a study that are known; of one run or detector, if these are given."""
    given = {"run": run, "name": name}
    chosen = {column: value for column, value in given.items() if value is not None}
    # In the order of an index, so that the first results of a large study come at once.
    rows = connection.execute(
        "select c.run, c.name, c.dataset, c.mark, r.* from cells c "
        "join cells i on i.study = c.study and i.run = c.run and i.name = c.name "
        "and i.kind = 'scores' and i.role = 'id' "
        "join results r on r.key = c.key and r.reference = i.key "
        "where c.study = ? and c.kind = 'scores' and c.role = 'ood' and c.state = ? "
        + "".join(f"and c.{column} = ? " for column in chosen)
        + "order by c.run, c.name, c.rowid",
        (study, READ, *chosen.values()),
    )
    for row in rows:
        yield Result(
            row["run"], row["name"], row["dataset"], row["key"], row["reference"], row["mark"],
            {metric: row[metric] for metric in METRICS}, row["problem"],
        )  # fmt: skip


def accuracies(connection: sqlite3.Connection, study: int) -> dict[str, Accuracy]:
    """How many samples of the in-distribution set each run's classifier gets right."""
    rows = connection.execute(
        "select c.run, a.* from cells c join accuracies a on a.key = c.key "
        "where c.study = ? and c.kind = 'outputs' and c.role = 'id'",
        (study,),
    )
    return {row["run"]: (row["correct"], row["samples"], row["chance"]) for row in rows}


def unlearned_runs(entry: StudyEntry, known: Mapping[str, Accuracy]) -> set[str]:
    """Runs whose classifier did not learn, which no leaderboard counts; see `unlearned`."""
    if entry.study.keep_unlearned or not known:
        return set()
    table = ScoreTable(
        entry.data,
        (),
        entry.runs,
        correct={run: np.arange(samples) < right for run, (right, samples, _) in known.items()},
        chance={run: chance for run, (*_, chance) in known.items()},
        factors=tuple(factor_of(factor.field) for factor in entry.study.factors),
    )
    found = {run for part in unlearned(table) for run in part.runs}
    return found if found < set(entry.runs) else set()


def keys_of_run(
    connection: sqlite3.Connection, study: int, run: str, kind: str
) -> list[tuple[str, str, str]]:
    """Name, data set and key of the artefacts of a run that are there."""
    rows = connection.execute(
        "select name, dataset, key from cells where study = ? and run = ? and kind = ? "
        "and state <> ? order by rowid",
        (study, run, kind, ABSENT),
    )
    return [(row["name"], row["dataset"], row["key"]) for row in rows]


def detector_models(connection: sqlite3.Connection, entry: StudyEntry) -> list[str]:
    """The keys of networks that are there for detectors: runs of the study are the others."""
    rows = connection.execute(
        "select distinct run, key from cells where study = ? and kind = 'models' and state <> ?",
        (entry.number, ABSENT),
    )
    return [row["key"] for row in rows if row["run"] not in entry.runs]


def label_of(connection: sqlite3.Connection, slug: str) -> str | None:
    """The run or detector that a part of an address means."""
    row = connection.execute("select label from labels where slug = ?", (slug,)).fetchone()
    return None if row is None else str(row["label"])


def detectors(index: Index, connection: sqlite3.Connection) -> dict[str, tuple[int, str]]:
    """Every detector that some study has: in how many studies, and its mark."""
    rows = connection.execute("select distinct name, mark from cells where mark <> ''")
    marks = {row["name"]: row["mark"] for row in rows}
    counted = Counter(name for entry in studies(index, connection) for name in entry.settings)
    return {name: (counted[name], marks.get(name, "")) for name in sorted(counted)}


def outlier_sets(index: Index, connection: sqlite3.Connection) -> list[str]:
    """The outlier sets of all studies."""
    return sorted({name for entry in studies(index, connection) for name in entry.outlier_sets})


def sizes_of(connection: sqlite3.Connection, entry: StudyEntry) -> dict[tuple[str, str], int]:
    """How many samples of each data set were scored in each run."""
    rows = connection.execute(
        "select c.run, c.dataset, max(r.inside) as inside, max(r.outside) as outside from cells c "
        "join results r on r.key = c.key where c.study = ? and c.kind = 'scores' "
        "and c.role = 'ood' and r.problem = '' group by c.run, c.dataset",
        (entry.number,),
    ).fetchall()
    found = {(row["run"], row["dataset"]): int(row["outside"]) for row in rows}
    return found | {(row["run"], entry.data): int(row["inside"]) for row in rows}


def outcome_of(entry: StudyEntry) -> Outcome | None:
    """What a finished study concludes; None if it is not finished, or cannot be read."""
    try:
        return read_outcome(entry.outcome, entry.place.store) if entry.outcome else None
    except (DamagedError, StoreError):
        return None
