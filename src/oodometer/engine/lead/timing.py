"""How long the work of a runner takes: as measured, as recorded, and by the pace of epochs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oodometer.engine.lead.estimates import Durations
from oodometer.engine.lead.jobs import Job, Piece
from oodometer.engine.lead.schedule import Schedule
from oodometer.engine.lead.tasks import Report
from oodometer.engine.plan.trainings import TrainingPlan
from oodometer.engine.stores import DamagedError, Kind, Store

_RECORDS_TO_READ = 30  # of earlier training runs


class _Timed(NamedTuple):
    """What a record says of a training run."""

    epoch: int
    seconds_per_epoch: float


class Timing:
    """Durations of finished tasks, and when those under way began."""

    def __init__(self) -> None:
        self.durations = Durations()
        self._started: dict[str, float] = {}
        self._epochs: dict[str, int] = {}  # of training runs under way
        self._ends: dict[str, float] = {}  # when they will end, at the pace of these epochs

    def learn(self, jobs: Sequence[Job], store: Store) -> None:
        """Read from the store how long finished training runs took."""
        done = [
            job
            for job in jobs
            if not job.search and job.trained and store.has("models", job.run.model)
        ]
        for job in done[:: max(1, len(done) // _RECORDS_TO_READ)]:
            timed = _read_timed("models", job.run.model, store)
            if timed is not None:
                seconds = timed.seconds_per_epoch * job.run.last_epoch
                self.durations.note("train", job.run.network, job.cost.training, seconds)

    def start(self, name: str) -> None:
        """A piece is begun."""
        self._started[name] = time.monotonic()

    def stop(self, name: str) -> None:
        """A piece is no longer under way."""
        for known in (self._started, self._epochs, self._ends):
            known.pop(name, None)

    def note(self, piece: Piece, report: Report) -> None:
        """Learn from what is done; what scoring asks of a network besides is a part of scoring."""
        cost = piece.job.cost
        for (stage, detector), seconds in report.seconds.items():
            if stage == "train":
                units = cost.training * report.trained
                self.durations.note(stage, piece.job.run.network, units, seconds)
            elif stage == piece.stage or not piece.units:
                units = cost.extraction if stage == "extract" else 1.0
                self.durations.note(stage, detector, units, seconds)

    def watch(self, under_way: Mapping[str, Piece], store: Store) -> None:
        """See how far training runs under way are: workers keep their progress in the store."""
        for name, piece in under_way.items():
            run: TrainingPlan = piece.job.run
            timed = _read_timed("progress", run.progress, store) if piece.trains else None
            if timed is not None and timed.epoch != self._epochs.get(name):
                self._epochs[name] = timed.epoch
                rest = timed.seconds_per_epoch * (run.last_epoch - timed.epoch)
                self._ends[name] = time.monotonic() + rest

    def elapsed(self) -> dict[str, float]:
        """Seconds since each piece under way was begun."""
        now = time.monotonic()
        return {name: now - started for name, started in self._started.items()}

    def seconds_left(self, schedule: Schedule) -> float | None:
        """Guess how long the rest of a study will take."""
        now = time.monotonic()
        training = {name: end - now for name, end in self._ends.items()}
        return schedule.seconds_left(self.elapsed(), training)


def _read_timed(kind: Kind, key: str, store: Store) -> _Timed | None:
    """The pace of a training run, as a record tells it, if there is one."""
    try:
        about = store.record(kind, key)["made_from"]
    except DamagedError:  # or there is none
        return None
    known = about if isinstance(about, dict) else {}
    epoch, epochs, seconds = (known.get(n) for n in ("epoch", "epochs_timed", "seconds"))
    if not isinstance(epochs, int) or not isinstance(seconds, int | float) or epochs < 1:
        return None
    return _Timed(epoch if isinstance(epoch, int) else 0, seconds / epochs)
