"""Submissions to suites: files in a folder, checked before anything of them is shown.

They are read where the index is kept up to date; pages see what the index has of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from oodometer import metrics
from oodometer.engine.plan.keys import digest
from oodometer.errors import UserError
from oodometer.metrics.counts import Counts
from oodometer.scores import ScoreTable
from oodometer.suites.submission import ENDING, Submission, read_submission
from oodometer.suites.suite import differences, suite_key
from oodometer.web import queries
from oodometer.web.cells import put_labels
from oodometer.web.index import METRICS, READ
from oodometer.web.queries import SUBMITTED, Size, StudyEntry
from oodometer.web.reading import PUT_RESULT

_MOST = 500  # files of a folder that are read
_MOST_RESULTS = 100_000  # of one file
Sizes = Mapping[Size, int]
Signature = tuple[str, int, int]  # name, time, bytes
Line = tuple[str, str, str, tuple[float, ...]]  # run, data set, variation, metrics
_ID = ""  # in sizes: the in-distribution set, whatever it is called


@dataclass(frozen=True, eq=False)
class _Kept:
    """What is kept of a submission that could be read: results, not scores."""

    about: Submission | None
    sizes: Sizes
    lines: tuple[Line, ...]
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Submissions:
    """The submissions in a folder; a file is read again only when it changes."""

    folder: Path | None = None
    _kept: dict[Signature, _Kept] = field(default_factory=dict)

    def state(self) -> Hashable:
        """Something that changes whenever the folder does."""
        return tuple(self._files())

    def suites(self) -> set[str]:
        """The names of the suites that something was submitted to."""
        return {kept.about.suite for _, kept in self.read() if kept.about is not None}

    def read(self) -> Iterator[tuple[str, _Kept]]:
        """Every file with what is in it, or what is wrong with it."""
        files = self._files()
        for gone in self._kept.keys() - set(files):
            del self._kept[gone]
        for signature in files:
            if signature not in self._kept:
                assert self.folder is not None
                self._kept[signature] = _kept(self.folder / signature[0])
            yield signature[0], self._kept[signature]

    def _files(self) -> list[Signature]:
        if self.folder is None:
            return []
        try:
            paths = sorted(path for path in self.folder.iterdir() if path.name.endswith(ENDING))
        except OSError:
            return []
        found = []
        for path in paths[:_MOST]:
            try:
                own = path.lstat()
            except OSError:  # just removed
                continue
            found.append((path.name, own.st_mtime_ns, own.st_size))
        return found


def put_submissions(
    connection: sqlite3.Connection, submissions: Submissions, entries: Sequence[StudyEntry]
) -> set[int]:
    """Replace what an index knows of submissions; return the studies whose results changed."""
    before = _labels(connection)
    connection.execute("delete from submissions")
    connection.execute("delete from results where key in (select key from cells where kind = ?)",
                       (SUBMITTED,))  # fmt: skip
    connection.execute("delete from cells where kind = ?", (SUBMITTED,))
    known = [whole for entry in entries if (whole := queries.whole(connection, entry))]
    sizes = {entry.number: queries.sizes_of(connection, entry) for entry in known}
    taken: set[tuple[int, str]] = set()
    for file, kept in submissions.read():
        if kept.about is None:
            row = (file, "", "", kept.problem, "")
        else:
            row = _checked(connection, file, kept, known, sizes, taken)
        connection.execute("insert into submissions values (?, ?, ?, ?, ?)", row)
    after = _labels(connection)
    return {study for study, *_ in before ^ after}


def _labels(connection: sqlite3.Connection) -> set[tuple[int, str]]:
    rows = connection.execute("select study, key from cells where kind = ?", (SUBMITTED,))
    return {(row["study"], row["key"]) for row in rows}


def _checked(
    connection: sqlite3.Connection,
    file: str,
    kept: _Kept,
    entries: Sequence[StudyEntry],
    sizes: Mapping[int, Sizes],
    taken: set[tuple[int, str]],
) -> tuple[str, str, str, str, str]:
    """Check a submission against the studies of its name; its results are added where it fits."""
    made = kept.about
    assert made is not None
    label, problems, fits = submitted_label(made.detector), [], False
    for entry in entries:
        if entry.name != made.suite:
            continue
        problem = _problem(kept, entry, sizes[entry.number])
        if not problem and label in entry.settings:
            problem = f"Study '{entry.name}' has a detector '{label[:60]}' of its own."
        if not problem and (entry.number, label) in taken:
            problem = f"Another file has a submission of '{made.detector[:60]}'."
        problems.append(problem)
        if not problem:
            fits = True
            taken.add((entry.number, label))
            _add_results(connection, entry.number, label, kept)
    problem = problems[0] if problems else f"No study here is called '{made.suite[:60]}'."
    has_worst = any(variation for _, _, variation, _ in kept.lines)
    note = "average and worst case" if has_worst else "average case"
    return file, made.detector, made.suite, "" if fits else problem, note


def _add_results(connection: sqlite3.Connection, study: int, label: str, kept: _Kept) -> None:
    put_labels(connection, {label})
    for run, dataset, variation, values in kept.lines:
        key = digest(SUBMITTED, study, label, run, dataset, variation, values)
        inside, outside = (
            kept.sizes.get(own, 0) for own in ((run, _ID, ""), (run, dataset, variation))
        )
        connection.execute(PUT_RESULT, (key, "", *values, inside, outside, ""))
        connection.execute(
            "insert into cells (study, kind, stage, run, name, dataset, variation, key, role, "
            "reference, mark, state) values (?, ?, '', ?, ?, ?, ?, ?, ?, '', ?, ?)",
            (study, SUBMITTED, run, label, dataset, variation, key,
             "search" if variation else "ood", SUBMITTED, READ),
        )  # fmt: skip


def submitted_label(detector: str) -> str:
    """What tables call a detector whose scores were submitted."""
    return f"{detector} ({SUBMITTED})"


def _problem(kept: _Kept, entry: StudyEntry, sizes: Sizes) -> str:
    """What is wrong with a submission to a study; empty: nothing."""
    made = kept.about
    assert made is not None
    if not entry.sets:
        return f"Study '{entry.name}' does not say what it scores: run it again."
    different = differences(entry.sets, made.sets)
    if different:
        return f"The data are not those of study '{entry.name}': {different}."
    if made.key != suite_key(entry.study, entry.sets):
        return (
            f"The classifiers are not trained, or the searches not made, as those of study "
            f"'{entry.name}' are."
        )
    wanted = {(run, _ID if name == entry.data else name, by): number
              for (run, name, by), number in sizes.items()}  # fmt: skip
    has_worst = any(by for _, _, by in kept.sizes)

    def named(dataset: str, variation: str) -> str:
        return f"{variation} of {dataset}" if variation else dataset or entry.data

    for (run, name, by), number in wanted.items():
        given = kept.sizes.get((run, name, by))
        if given == number or (by and not has_worst):  # not every detector can be searched against
            continue
        said = "no scores" if given is None else f"{given} scores"
        return (
            f"It has {said} on '{named(name, by)}' in run '{run}', but there are {number} samples."
        )
    for run, name, by in kept.sizes.keys() - wanted.keys():
        if wanted:
            return f"It has scores on '{named(name, by)}' in run '{run}', which has none here."
    return ""


def _kept(path: Path) -> _Kept:
    try:
        made = read_submission(path)
    except (MemoryError, RecursionError):
        return _Kept(None, {}, (), "It is too large or too deeply nested to be read.")
    except UserError as problem:
        text = str(problem)
        return _Kept(None, {}, (), f"{text[:1].upper()}{text[1:]}"[:500])
    table = made.table
    lines: list[Line] = []
    sizes: dict[Size, int] = {}
    if len(table.rows) > _MOST_RESULTS:
        return _Kept(None, {}, (), f"It has more than {_MOST_RESULTS:,} score vectors.")
    for row in table.rows:
        about = table.sets[row.dataset]
        if not row.default or (about.role == "search" and about.against != made.detector):
            continue
        name = about.of if about.role == "search" else row.dataset
        cell = (row.run, _ID if about.role == "id" else name, about.by)
        sizes[cell] = len(row.scores)
        reference = table.scores(row.run, row.detector, table.id)
        if about.role != "id" and reference is not None:
            counts = Counts.of_scores(reference, row.scores)
            values = tuple(float(metrics.METRICS[m].of_counts(counts)) for m in METRICS)
            lines.append((row.run, name, about.by, values))
    return _Kept(replace(made, table=ScoreTable(table.id, ())), sizes, tuple(lines))
