"""Submissions to suites: files in a folder, checked before anything of them is shown."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oodometer import metrics
from oodometer.errors import UserError
from oodometer.metrics.counts import Counts
from oodometer.suites.submission import ENDING, Submission, read_submission
from oodometer.suites.suite import differences, suite_key
from oodometer.web.index import METRICS, slug_of
from oodometer.web.queries import Result, StudyEntry

SUBMITTED = "submitted"  # how such detectors are marked
_MOST = 500  # files of a folder that are read
Sizes = Mapping[tuple[str, str], int]  # run, data set -> how many samples were scored here
Signature = tuple[str, int, int]  # name, time, bytes


@dataclass(frozen=True)
class Checked:
    """A file with what was found; a problem in one sentence, or none."""

    file: str
    detector: str = ""
    suite: str = ""
    problem: str = ""


@dataclass(frozen=True, eq=False)
class _Kept:
    """What is kept of a submission that could be read: results, not scores."""

    about: Submission | None
    sizes: Sizes
    results: tuple[Result, ...]
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Submissions:
    """The submissions in a folder; a file is read again only when it changes."""

    folder: Path | None = None
    _kept: dict[Signature, _Kept] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def state(self) -> Hashable:
        """Something that changes whenever the folder does."""
        return tuple(self._files())

    def checked(self, entries: Sequence[StudyEntry], sizes: Sequence[Sizes]) -> list[Checked]:
        """Every file with what is wrong with it."""
        found = []
        for signature in self._files():
            kept = self._read(signature)
            if kept.about is None:
                found.append(Checked(signature[0], problem=kept.problem))
                continue
            problems = [
                _problem(kept, entry, own) for entry, own in zip(entries, sizes, strict=True)
                if _is_about(kept.about, entry)
            ]  # fmt: skip
            name = kept.about.suite
            problem = f"No study here is called '{name[:60]}'." if not problems else ""
            if problems and all(problems):
                problem = problems[0]
            found.append(Checked(signature[0], kept.about.detector, name, problem))
        return found

    def results_for(self, entry: StudyEntry, sizes: Sizes) -> Iterator[Result]:
        """The results that were submitted for a study and have passed every check."""
        for signature in self._files():
            kept = self._read(signature)
            if kept.about and _is_about(kept.about, entry) and not _problem(kept, entry, sizes):
                yield from kept.results

    def label_of(self, slug: str) -> str | None:
        """The submitted detector that a part of an address means."""
        for signature in self._files():
            about = self._read(signature).about
            if about is not None and slug_of(submitted_label(about.detector)) == slug:
                return submitted_label(about.detector)
        return None

    def _files(self) -> list[Signature]:
        if self.folder is None:
            return []
        try:
            paths = sorted(path for path in self.folder.iterdir() if path.name.endswith(ENDING))
            about = [(path.name, path.stat()) for path in paths[:_MOST] if path.is_file()]
        except OSError:
            return []
        return [(name, own.st_mtime_ns, own.st_size) for name, own in about]

    def _read(self, signature: Signature) -> _Kept:
        assert self.folder is not None
        with self._lock:
            if signature not in self._kept:
                while len(self._kept) >= _MOST:
                    self._kept.pop(next(iter(self._kept)))
                self._kept[signature] = _kept(self.folder / signature[0])
            return self._kept[signature]


def submitted_label(detector: str) -> str:
    """What tables call a detector whose scores were submitted."""
    return f"{detector} ({SUBMITTED})"


def _is_about(made: Submission, entry: StudyEntry) -> bool:
    return made.suite == entry.name


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
        return f"The classifiers are not trained as those of study '{entry.name}' are."
    for (run, name), wanted in sizes.items():
        given = kept.sizes.get((run, name))
        if given != wanted:
            said = "no scores" if given is None else f"{given} scores"
            return f"It has {said} on '{name}' in run '{run}', but there are {wanted} samples."
    return ""


def _kept(path: Path) -> _Kept:
    try:
        made = read_submission(path)
    except UserError as problem:
        text = str(problem)
        return _Kept(None, {}, (), f"{text[:1].upper()}{text[1:]}"[:500])
    results = []
    for reference, row in made.table.pairs():
        counts = Counts.of_scores(reference.scores, row.scores)
        values = {name: float(metrics.METRICS[name].of_counts(counts)) for name in METRICS}
        label = submitted_label(row.detector)
        results.append(Result(row.run, label, row.dataset, "", "", SUBMITTED, values, ""))
    sizes = {(row.run, row.dataset): len(row.scores) for row in made.table.rows if row.default}
    return _Kept(made, sizes, tuple(results))
