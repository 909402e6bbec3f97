"""How long the work of a runner takes: as timed, as measured, and by the pace of epochs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oodometer.engine.executors import Ended, Resources, Task
from oodometer.engine.lead import tasks
from oodometer.engine.lead.durations import Durations
from oodometer.engine.lead.estimates import Asking, Kind, Pace
from oodometer.engine.lead.jobs import Job, Piece
from oodometer.engine.lead.schedule import Schedule, TimeLeft
from oodometer.engine.plan.trainings import TrainingPlan
from oodometer.engine.stores import DamagedError, Store
from oodometer.engine.stores import Kind as KindOfResult

_RECORDS_TO_READ = 30  # of earlier training runs
_PER_SECOND = 1.5e10  # multiplications of one core, about
_LONGEST, _SHARE = 30.0, 0.2  # seconds, and the share of a study, that may be spent on timed steps
_SHORTEST = 1.5  # seconds for the steps of one kind of network, about


class _Timed(NamedTuple):
    """What a record says of a training run."""

    epoch: int
    seconds_per_epoch: float


class Timing:
    """Durations of finished tasks, and when those under way began."""

    def __init__(self, jobs: Sequence[Job] = (), *, steps: bool = True) -> None:
        """`jobs` are all of a study; with `steps`, some of each kind of network are timed first."""
        self.durations = Durations()
        self._started: dict[str, float] = {}
        self._epochs: dict[str, int] = {}  # of training runs under way
        self._ends: dict[str, float] = {}  # when they will end, at the pace of these epochs
        self._jobs = [job for job in jobs if not job.search]
        self._asking = {a.name: a for job in self._jobs for a in job.cost.asking.values()}
        work = work_by_kind(jobs)
        self._to_time = [*work] if steps else []
        self._time = min(_LONGEST, _SHARE * sum(work.values()) / _PER_SECOND)  # for timed steps
        self._timing: dict[str, Kind] = {}  # tasks under way

    def learn(self, store: Store) -> None:
        """Read from the store how long finished training runs took."""
        done = [job for job in self._jobs if job.trained and store.has("models", job.run.model)]
        for job in done[:: max(1, len(done) // _RECORDS_TO_READ)]:
            timed = _read_timed("models", job.run.model, store)
            if timed is not None:
                seconds = timed.seconds_per_epoch * job.run.last_epoch
                self.durations.note("train", job.run.network, job.cost.training, seconds)

    @property
    def times_steps(self) -> bool:
        """Whether a task that times steps is under way."""
        return bool(self._timing)

    def next_steps(self, detectors: Sequence[str]) -> Task | None:
        """A task that times some steps, of the kind with most work first; None if that is enough.

        `detectors` are those of the study, as it names them.
        """
        if not self._to_time or self._time < _SHORTEST:
            return None
        kind = self._to_time.pop(0)
        memory = max(job.cost.memory for job in self._jobs if job.cost.kind == kind)
        name = f"timed steps, {len(self._to_time)} kinds left"
        self._timing[name] = kind
        self._time -= _SHORTEST
        return Task(name, tasks.time_steps, (kind, tuple(detectors)), Resources(memory=memory))

    def take_steps(self, ended: Ended) -> bool:
        """Learn from timed steps; False if the task did something else."""
        kind = self._timing.pop(ended.task.name, None)
        if kind is None:
            return False
        if isinstance(ended.value, Pace):  # else its network does not take made-up samples
            networks = [(job.run, job.cost) for job in self._jobs]
            self.durations.expect_paces({kind: ended.value}, networks)
            self.durations.expect_asking(self._asking.values())
            self._time += _SHORTEST - ended.value.spent
        return True

    def start(self, name: str) -> None:
        """A piece is begun."""
        self._started[name] = time.monotonic()

    def stop(self, name: str) -> None:
        """A piece is no longer under way."""
        self.durations.forget_part(name)
        for known in (self._started, self._epochs, self._ends):
            known.pop(name, None)

    def note(self, piece: Piece, report: tasks.Report) -> None:
        """Learn from what is done; what scoring asks of a network besides is a part of scoring."""
        cost, network = piece.job.cost, piece.job.run.network
        for (stage, unit), seconds in report.seconds.items():
            if stage == "train":
                self.durations.note(stage, network, cost.training * report.trained, seconds)
            elif stage == "extract":
                if not piece.units:
                    self.durations.note(stage, network, cost.extraction, seconds)
                    self.durations.expect_asking(self._asking.values())
            elif unit in cost.asking:
                asking: Asking = cost.asking[unit]
                self.durations.note("search", asking.name, asking.units, seconds)
            else:
                self.durations.note(stage, unit, 1.0, seconds)

    def watch(self, under_way: Mapping[str, Piece], store: Store) -> None:
        """See how far training runs under way are: workers keep their progress in the store."""
        for name, piece in under_way.items():
            run: TrainingPlan = piece.job.run
            timed = _read_timed("progress", run.progress, store) if piece.trains else None
            if timed is not None and timed.epoch != self._epochs.get(name):
                self._epochs[name] = timed.epoch
                rest = timed.seconds_per_epoch * (run.last_epoch - timed.epoch)
                self._ends[name] = time.monotonic() + rest
                whole = timed.seconds_per_epoch * run.last_epoch
                cost = piece.job.cost
                self.durations.note_part(name, "train", run.network, cost.training, whole)

    def elapsed(self) -> dict[str, float]:
        """Seconds since each piece under way was begun."""
        now = time.monotonic()
        return {name: now - started for name, started in self._started.items()}

    def left(self, schedule: Schedule) -> TimeLeft | None:
        """Guess how long the rest of a study will take."""
        now = time.monotonic()
        training = {name: end - now for name, end in self._ends.items()}
        return schedule.time_left(self.elapsed(), training)


def work_by_kind(jobs: Sequence[Job]) -> dict[Kind, float]:
    """Multiplications that are left to each kind of network, most of them first."""
    kinds: dict[Kind, float] = {}
    by_network: dict[str, list[Kind]] = {}
    for job in jobs:
        if job.cost.kind is not None and job.cost.kind not in kinds:
            kinds[job.cost.kind] = 0.0
            by_network.setdefault(job.run.network, []).append(job.cost.kind)
    for job in {job.run.training: job for job in jobs if not job.trained}.values():
        if job.cost.kind is not None:
            kinds[job.cost.kind] += job.cost.training
    for job in {job.claim: job for job in jobs if job.search and not job.done}.values():
        for network, units in job.cost.asking[job.search].networks.items():
            for kind in by_network[network]:
                kinds[kind] += units / len(by_network[network])
    return {kind: kinds[kind] for kind in sorted(kinds, key=lambda k: -kinds[k]) if kinds[kind]}


def _read_timed(kind: KindOfResult, key: str, store: Store) -> _Timed | None:
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
