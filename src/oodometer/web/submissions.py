"""Submissions to suites: files in a folder, checked before anything of them is shown."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path

from oodometer.web.queries import Result, StudyEntry


@dataclass(frozen=True)
class Submissions:
    """Submissions that were read; none."""

    folder: Path | None = None

    def state(self) -> Hashable:
        """Something that changes whenever the folder does."""
        return None

    def checked(self) -> list[object]:
        """Every file with what is wrong with it."""
        return []

    def results_for(self, entry: StudyEntry) -> Iterator[Result]:
        """The results that were submitted for a study."""
        yield from ()
