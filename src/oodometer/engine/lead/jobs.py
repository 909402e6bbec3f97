"""What is left to do of a study, in parts that runners claim one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from oodometer.engine.lead.estimates import Cost
from oodometer.engine.plan.artefacts import Artefact, Has, Stage, lacking_units
from oodometer.engine.plan.keys import digest
from oodometer.engine.plan.trainings import TrainingPlan


@dataclass(eq=False)
class Job:
    """What is left to do of one run, or one search against a detector of it.

    Searches take long, and need of the run no more than what is in the store. So each is a job of
    its own, which another runner can do.
    """

    run: TrainingPlan
    cost: Cost
    trained: bool = False  # its model is in the store
    prepared: bool = False  # what the model says about all data sets, too
    waiting: list[str] = field(default_factory=list)  # units that nobody works on, nor has
    blocked: list[str] = field(default_factory=list)  # units that wait for other runs, or units
    working: int = 0  # tasks under way
    elsewhere: bool = False  # another runner has it
    losses: Counter[str] = field(default_factory=Counter)  # unit, or "" for the preparation
    search: str = ""  # the unit, if it is a search
    of: Job | None = None  # of a search, the job that prepares the run

    @cached_property
    def artefacts(self) -> tuple[Artefact, ...]:
        """What it makes."""
        if self.search:
            return self.run.units[self.search]
        return tuple(part for part in self.run.artefacts if part.kind != "searches")

    @cached_property
    def claim(self) -> str:
        """The name under which a runner claims this job: who wants the same results, wants it."""
        if self.search:
            return f"search-{self.artefacts[0].key}"
        return f"run-{digest(sorted(part.key for part in self.run.artefacts))}"

    @cached_property
    def needs(self) -> tuple[TrainingPlan, ...]:
        """What must be prepared before its blocked units: other networks, of a search its run."""
        if not self.search:
            return self.run.companions
        read = {key for part in self.artefacts for key in part.parents}
        return (self.run, *(m for m in self.run.companions if m.model in read))

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return self.prepared and not self.left and not self.working

    @property
    def left(self) -> int:
        """How many units are still to be handed out."""
        return len(self.waiting) + len(self.blocked)

    def give_up(self) -> None:
        """Leave undone what is left."""
        self.prepared = True
        self.waiting.clear()
        self.blocked.clear()

    def look_up(self, has: Has) -> Job:
        """See what the store lacks of it."""
        run = self.run
        if self.search:
            self.trained = self.prepared = True
            lacks, free = not all(map(has, self.artefacts)), bool(self.waiting)
            self.waiting = [self.search] if lacks and free else []
            self.blocked = [self.search] if lacks and not free else []
            return self
        searches = {unit for unit, parts in run.units.items() if parts[0].kind == "searches"}
        lacking = [unit for unit in lacking_units(run, has) if unit not in searches]
        self.waiting = [unit for unit in lacking if not run.waits(unit)]
        self.blocked = [unit for unit in lacking if run.waits(unit)]
        self.trained = all(has(part) for part in run.artefacts if part.stage == "train")
        self.prepared = self.trained and all(has(p) for p in run.artefacts if p.stage == "extract")
        return self


def jobs_of(runs: Iterable[TrainingPlan], costs: Mapping[str, Cost], has: Has) -> list[Job]:
    """The jobs of all runs; each search after the job of its run."""
    jobs = []
    for run in runs:
        whole = Job(run, costs[run.label]).look_up(has)
        jobs.append(whole)
        for unit, parts in run.units.items():
            if parts[0].kind == "searches":
                jobs.append(Job(run, whole.cost, search=unit, of=whole).look_up(has))
    return jobs


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a job for one worker: some units of scoring; none means to prepare it."""

    job: Job
    units: tuple[str, ...] = ()
    trains: bool = False  # and not only extracts

    @property
    def stage(self) -> Stage:
        """What it is about."""
        return "score" if self.units else "train" if self.trains else "extract"

    @property
    def name(self) -> str:
        """A name that no other piece under way has."""
        return "/".join((self.job.run.label, *self.units[:1]))
