"""Questions to an index; every answer is bounded."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypedDict

from oodometer.engine.plan.artefacts import STAGES, Stage
from oodometer.engine.plan.study_index import Outcome, read_outcome
from oodometer.engine.stores import DamagedError, StoreError
from oodometer.study import Level, Study
from oodometer.web.board import Board
from oodometer.web.index import ABSENT, METRICS, READ, Index, Place, slug_of

Accuracy = tuple[int, int, float]  # correct, samples, chance
Size = tuple[str, str, str]  # run, data set, variation that was searched (empty: none)
SUBMITTED = "submitted"  # mark, and kind of cell, of detectors whose scores were submitted


class Result(NamedTuple):
    """One detector in one run on one outlier set: every metric, and where the scores are."""

    run: str
    detector: str
    ood: str
    variation: str  # that a search among the outliers varied; empty: the outliers as they are
    key: str  # of the scores; empty: submitted
    reference: str  # of the scores on the in-distribution set, the same
    mark: str
    values: Mapping[str, float | None]
    samples: int  # outliers
    problem: str


class Brief(TypedDict):
    """What pages about many studies need to know of each."""

    runs: int
    settings: dict[str, list[str]]  # detectors, each with its grid, the default setting first
    outlier_sets: list[str]  # not what searches found


class Content(TypedDict):
    """What only the pages of a study need."""

    study: dict[str, object]
    runs: dict[str, dict[str, Level]]
    sets: dict[str, dict[str, str]]


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
    generation: int
    brief: Brief
    content: str = ""  # JSON; only if a study was asked for by itself

    @cached_property
    def _content(self) -> Content:
        found: Content = json.loads(self.content)
        return found

    @cached_property
    def study(self) -> Study:
        """Its file."""
        return Study.model_validate(self._content["study"])

    @property
    def runs(self) -> dict[str, dict[str, Level]]:
        """The factor levels of each run."""
        return self._content["runs"]

    @property
    def sets(self) -> dict[str, dict[str, str]]:
        """What each run scores, by digest; empty if the plan does not say so."""
        return self._content["sets"]

    @property
    def settings(self) -> dict[str, list[str]]:
        """Detectors, each with its grid, the default setting first."""
        return self.brief["settings"]

    @property
    def outlier_sets(self) -> list[str]:
        """What its detectors score beside the in-distribution set; not what searches found."""
        return self.brief["outlier_sets"]

    @property
    def route(self) -> str:
        """The part of an address that names it."""
        return f"{self.place.slug}/{slug_of(self.name)}"


def studies(index: Index, connection: sqlite3.Connection) -> list[StudyEntry]:
    """All studies, the latest first, without their content."""
    rows = connection.execute(
        "select s.id, s.store, s.name, s.plan, s.saved, s.data, s.outcome, s.brief, "
        "coalesce(g.number, 0) as generation from studies s "
        "left join generations g on g.study = s.id order by s.saved desc, s.id"
    )
    return [
        StudyEntry(
            row["id"], index.places[row["store"]], row["name"], row["plan"], row["saved"],
            row["data"], row["outcome"], row["generation"], json.loads(row["brief"]),
        )
        for row in rows
    ]  # fmt: skip


def whole(connection: sqlite3.Connection, entry: StudyEntry) -> StudyEntry | None:
    """A study with its content; None if it is no longer there."""
    row = connection.execute("select content from studies where id = ?", (entry.number,)).fetchone()
    return None if row is None else replace(entry, content=row["content"])


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
        "select run, name, key from cells where study = ? and kind = 'failures' "
        f"and state <> {ABSENT} order by run, name limit ?",
        (study, limit),
    )
    return [(row["run"], row["name"], row["key"]) for row in rows]


@dataclass(frozen=True)
class Chosen:
    """Results of a study: all, or those of one run or detector, on outliers as they are or not."""

    study: int
    run: str | None = None
    name: str | None = None

    def count(self, connection: sqlite3.Connection) -> int:
        """How many there are."""
        where, values = self._where()
        return int(
            connection.execute(f"select count(*) from cells c {where}", values).fetchone()[0]
        )

    def read(
        self, connection: sqlite3.Connection, limit: int = -1, offset: int = 0
    ) -> Iterator[Result]:
        """The results themselves, in the order of an index, so that the first come at once."""
        where, values = self._where()
        rows = connection.execute(
            "select c.run, c.name, c.dataset, c.variation, c.mark, r.* from cells c "
            f"join results r on r.key = c.key and r.reference = c.reference {where} "
            "order by c.run, c.name, c.rowid limit ? offset ?",
            (*values, limit, offset),
        )
        for row in rows:
            own = row["mark"] != SUBMITTED
            yield Result(
                row["run"], row["name"], row["dataset"], row["variation"],
                row["key"] if own else "", row["reference"] if own else "", row["mark"],
                {metric: row[metric] for metric in METRICS}, row["outside"], row["problem"],
            )  # fmt: skip

    def _where(self) -> tuple[str, tuple[str | int, ...]]:
        given = {"study": self.study, "run": self.run, "name": self.name}
        chosen = {column: value for column, value in given.items() if value is not None}
        parts = [*(f"c.{column} = ?" for column in chosen), "c.role in ('ood', 'search')"]
        return f"where {' and '.join(parts)} and c.state = {READ}", tuple(chosen.values())


def results(
    connection: sqlite3.Connection, study: int, *, run: str | None = None, name: str | None = None
) -> Iterator[Result]:
    """The results of a study that are known; of one run or detector, if these are given."""
    return Chosen(study, run, name).read(connection)


def board(connection: sqlite3.Connection, study: int, metric: str, ood: str = "") -> Board:
    """A leaderboard of a study as it was last made; empty if it was not yet."""
    row = connection.execute(
        "select content from boards where study = ? and metric = ? and ood = ?",
        (study, metric, ood),
    ).fetchone()
    return Board((), "") if row is None else Board.from_json(row["content"])


def accuracies(connection: sqlite3.Connection, study: int) -> dict[str, Accuracy]:
    """How many samples of the in-distribution set each run's classifier gets right."""
    rows = connection.execute(
        "select c.run, a.* from cells c join accuracies a on a.key = c.key "
        "where c.study = ? and c.kind = 'outputs' and c.role = 'id'",
        (study,),
    )
    return {row["run"]: (row["correct"], row["samples"], row["chance"]) for row in rows}


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


def searches_of(
    connection: sqlite3.Connection, study: int, run: str, detector: str
) -> list[tuple[str, str, str]]:
    """Outlier set, variation and key of the searches against a detector in a run."""
    rows = connection.execute(
        "select dataset, variation, key from cells where study = ? and run = ? and name = ? "
        f"and kind = 'searches' and state <> {ABSENT} order by rowid",
        (study, run, detector),
    )
    return [(row["dataset"], row["variation"], row["key"]) for row in rows]


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
    rows = connection.execute("select distinct mark, study, name from cells where mark <> ''")
    marked = [(row["mark"], row["name"]) for row in rows]
    counted = Counter(name for entry in studies(index, connection) for name in entry.settings)
    counted.update(name for mark, name in marked if mark == SUBMITTED)
    marks = {name: mark for mark, name in marked}
    return {name: (counted[name], marks.get(name, "")) for name in sorted(counted)}


def outlier_sets(index: Index, connection: sqlite3.Connection) -> list[str]:
    """The outlier sets of all studies."""
    return sorted({name for entry in studies(index, connection) for name in entry.outlier_sets})


def sizes_of(connection: sqlite3.Connection, entry: StudyEntry) -> dict[Size, int]:
    """How many samples of each data set were scored here in each run, and how many found."""
    rows = connection.execute(
        "select c.run, c.dataset, c.variation, max(r.inside) as inside, max(r.outside) as outside "
        "from cells c join results r on r.key = c.key and r.reference = c.reference "
        "where c.study = ? and c.role in ('ood', 'search') and c.kind <> ? and r.problem = '' "
        "group by c.run, c.dataset, c.variation",
        (entry.number, SUBMITTED),
    ).fetchall()
    found = {(row["run"], row["dataset"], row["variation"]): int(row["outside"]) for row in rows}
    return found | {(row["run"], entry.data, ""): int(row["inside"]) for row in rows}


class Checked(NamedTuple):
    """A file that was submitted, with what was found; a problem in one sentence, or none."""

    file: str
    detector: str
    suite: str
    problem: str
    note: str  # what is in it


def submissions(connection: sqlite3.Connection) -> list[Checked]:
    """All files that were submitted."""
    rows = connection.execute(
        "select file, detector, suite, problem, note from submissions order by file"
    )
    return [Checked(*row) for row in rows]


def outcome_of(entry: StudyEntry) -> Outcome | None:
    """What a finished study concludes; None if it is not finished, or cannot be read."""
    try:
        return read_outcome(entry.outcome, entry.place.store) if entry.outcome else None
    except (DamagedError, StoreError):
        return None
