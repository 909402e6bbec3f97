"""What to do next: longest first, what depends on nothing undone, as much as memory allows."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from oodometer.engine.lead.durations import Durations, Timed
from oodometer.engine.lead.jobs import Job, Piece

_OVERRUN = (
    0.25  # of the time that a task has taken so far: it is not about to end because it should
)


class TimeLeft(NamedTuple):
    """How long the rest of a study will take."""

    seconds: float
    at_least: bool  # some of the rest cannot be guessed, or only by networks of other kinds


class Schedule:
    """The jobs of a study, and which of them are under way.

    A worker continues with the run that it has in memory, or prepares another one, the longest
    first; of those that share a training run one at a time, until the model is there. When nothing
    is left to prepare, workers share the detectors of prepared runs in pieces that become smaller,
    so that they end together. Searches take long: one at a time, and after the rest of their run.
    """

    def __init__(
        self,
        jobs: list[Job],
        durations: Durations,
        *,
        slots: int,
        memory: int | None = None,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.durations, self.slots = durations, slots
        self._memory, self._tell = memory, tell
        self._warned = False
        self.open = sorted(jobs, key=self._length, reverse=True)
        self.under_way: dict[str, Piece] = {}

    def pick(self, group: str, claim: Callable[[Job], bool]) -> Piece | None:
        """Choose for a worker that did `group` last; `claim` tells whether the job may be done."""
        for job in self._candidates(group):
            if not self._fits(job) or not claim(job):
                continue
            # To claim it is to look what is left of it, and perhaps nothing is.
            if not job.prepared and not job.working:
                return self._start(Piece(job, trains=not job.trained))
            if job.prepared and job.waiting:
                return self._start(Piece(job, self._share(job)))
        return None

    def end(self, name: str) -> Piece:
        """Record that a piece is no longer under way."""
        piece = self.under_way.pop(name)
        piece.job.working -= 1
        return piece

    def release(self, job: Job) -> None:
        """Let units of a job be handed out, except those that come after searches that are left."""
        left = {other.search for other in self.open if other.of is job and not other.done}
        free = [unit for unit in job.blocked if left.isdisjoint(job.run.before(unit))]
        job.waiting += free
        job.blocked = [unit for unit in job.blocked if unit not in free]

    def close_done(self) -> list[Job]:
        """Take out and return the jobs that are done."""
        done = [job for job in self.open if job.done]
        if done:
            self.open = [job for job in self.open if not job.done]
        return done

    def time_left(
        self, elapsed: Mapping[str, float], training: Mapping[str, float] = MappingProxyType({})
    ) -> TimeLeft | None:
        """Guess how long the rest will take; None while nothing is known of any of it.

        What is under way keeps its worker for what is left of it. Then whoever is free first
        prepares the longest of the other runs, which cannot be divided; scoring can. `elapsed` are
        the seconds that each piece has taken, `training` those that its training still takes, where
        the pace of its epochs tells.
        """
        known = _Seconds(self.durations)
        rests = {
            piece: known.rest(piece, elapsed.get(name, 0.0), training.get(name))
            for name, piece in self.under_way.items()
        }
        free = [*rests.values(), *[0.0] * (self._workers() - len(rests))]
        prepared = {piece.job: rest for piece, rest in rests.items() if not piece.units}
        self._prepare_others(free, prepared, known)
        # A search that runs share is done once.
        busy = {piece.job.claim for piece in self.under_way.values() if piece.job.search}
        left = {job.claim: job for job in self.open if not (job.search and job.claim in busy)}
        scoring = {job: known.scoring(job) for job in left.values()}
        if not known.anything and not known.everything:
            return None
        mine = sum(seconds for job, seconds in scoring.items() if not job.elsewhere)
        ends = (
            prepared.get(job.of or job, 0.0) + (seconds if job.search else seconds / len(free))
            for job, seconds in scoring.items()
        )
        seconds = max((sum(free) + mine) / len(free), *free, *ends)
        return TimeLeft(seconds, at_least=not known.everything)

    def _prepare_others(
        self, free: list[float], prepared: dict[Job, float], known: _Seconds
    ) -> None:
        """Go on from when each worker is `free`, and runs are `prepared`, until all of them are."""
        heapq.heapify(free)
        trained = {job.run.training: end for job, end in prepared.items() if not job.trained}
        left = [job for job in self.open if not job.prepared and job not in prepared]
        for job in sorted(left, key=known.preparing, reverse=True):
            waits = not job.trained and job.run.training in trained  # another run trains for it
            seconds = known.extracting(job) if waits else known.preparing(job)
            start = 0.0 if job.elsewhere else heapq.heappop(free)
            prepared[job] = max(start, trained[job.run.training] if waits else 0.0) + seconds
            if not job.trained:
                trained.setdefault(job.run.training, prepared[job])
            if not job.elsewhere:
                heapq.heappush(free, prepared[job])

    def _workers(self) -> int:
        """How many can work at once: as many as there are, or as memory allows."""
        largest = max((job.cost.memory for job in self.open), default=0)
        most = self.slots if self._memory is None or not largest else self._memory // largest
        return max(1, min(self.slots, most))

    def _candidates(self, group: str) -> Iterator[Job]:
        """Jobs that a worker may do something of, the best first."""
        # Runs share some searches: what is done for one of them is there for the others.
        busy = {p.job.claim for p in self.under_way.values() if p.job.search}
        prepared = [
            job
            for job in self.open
            if job.prepared
            and job.waiting
            and not job.elsewhere
            and not (job.search and job.claim in busy)
        ]
        prepared.sort(key=lambda job: (bool(job.search), -len(job.waiting)))
        yield from (job for job in prepared if job.run.label == group)
        yield from self._to_prepare()
        yield from prepared

    def _to_prepare(self) -> Iterator[Job]:
        busy = {piece.job.run.training for piece in self.under_way.values() if piece.trains}
        for job in self.open:
            if not job.prepared and not job.working and not job.elsewhere:
                if job.trained:
                    yield job
                elif job.run.training not in busy:
                    busy.add(job.run.training)
                    yield job

    def _share(self, job: Job) -> tuple[str, ...]:
        """Units for one worker: all, while the others have enough to do without them."""
        lost = [label for label in job.waiting if job.losses[label]]
        if lost:
            return (lost[0],)  # alone, so that the others do not suffer from it
        others = sum(1 for _ in self._to_prepare())
        if self.slots == 1 or others >= self.slots:
            return tuple(job.waiting)
        longest = sorted(job.waiting, key=lambda unit: -self.durations.seconds("score", unit, 1.0))
        return tuple(longest[: math.ceil(len(longest) / (2 * self.slots))])

    def _start(self, piece: Piece) -> Piece:
        for unit in piece.units:
            piece.job.waiting.remove(unit)
        piece.job.working += 1
        self.under_way[piece.name] = piece
        return piece

    def _fits(self, job: Job) -> bool:
        """Whether there is memory for it beside what is under way; alone, everything fits."""
        if self._memory is None:
            return True
        if not self.under_way:
            if job.cost.memory > self._memory and not self._warned:
                self._warned = True
                self._tell(
                    f"run {job.run.label} needs about {job.cost.memory / 1e9:.1f} GB, more than "
                    f"--memory allows ({self._memory / 1e9:.1f} GB): "
                    "such runs are executed one at a time"
                )
            return True
        used = sum(piece.job.cost.memory for piece in self.under_way.values())
        return used + job.cost.memory <= self._memory

    def _length(self, job: Job) -> tuple[float, float]:
        if job.trained:
            return 0.0, 0.0
        seconds = self.durations.seconds("train", job.run.network, job.cost.training)
        return seconds, job.cost.training


class _Seconds:
    """How long the parts of a study take, as guessed by the durations of others."""

    def __init__(self, durations: Durations) -> None:
        self._durations = durations
        self.anything, self.everything = False, True  # what is known

    def rest(self, piece: Piece, elapsed: float, training: float | None) -> float:
        """What is left of a piece under way: of one that takes longer than others, more."""
        if training is not None:
            self.anything = True
            return max(0.0, training) + self.extracting(piece.job)
        if piece.units:
            whole = sum(self._unit(piece.job, unit) for unit in piece.units)
        else:
            whole = self.preparing(piece.job) if piece.trains else self.extracting(piece.job)
        return max(whole - elapsed, elapsed * _OVERRUN)

    def preparing(self, job: Job) -> float:
        """To train and to extract, or only to extract."""
        if job.trained:
            return self.extracting(job)
        return self.extracting(job) + self._guess("train", job.run.network, job.cost.training)

    def extracting(self, job: Job) -> float:
        """To ask a trained network."""
        if not job.cost.extraction:
            return 0.0
        return self._guess("extract", job.run.network, job.cost.extraction)

    def scoring(self, job: Job) -> float:
        """To score all units that nobody works on yet."""
        return sum(self._unit(job, unit) for unit in (*job.waiting, *job.blocked))

    def _unit(self, job: Job, unit: str) -> float:
        asking = job.cost.asking.get(unit)
        if asking is not None:
            return self._guess("search", asking.name, asking.units)
        return self._guess("score", unit, 1.0)

    def _guess(self, stage: Timed, name: str, units: float) -> float:
        guess = self._durations.guess(stage, name, units)
        if guess is None:
            self.everything = False
            return 0.0
        self.anything = True
        self.everything &= guess.sure
        return guess.seconds
