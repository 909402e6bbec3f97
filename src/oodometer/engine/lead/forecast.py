"""How long a study will take on this machine: from a few timed steps, extrapolated."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from oodometer.engine.lead.durations import Durations
from oodometer.engine.lead.estimates import Cost
from oodometer.engine.lead.jobs import jobs_of
from oodometer.engine.lead.paces import time_steps
from oodometer.engine.lead.timing import work_by_kind
from oodometer.engine.plan.artefacts import present
from oodometer.engine.plan.plan import Plan
from oodometer.engine.stores import Store

_SECONDS = 6.0  # of measuring, about


@dataclass(frozen=True)
class Forecast:
    """Seconds of one core that a study will take, as far as it could be timed."""

    training: float
    extraction: float
    searching: float
    longest: float  # of the training runs, which cannot be divided
    steps: int  # that were timed
    untimed: tuple[str, ...] = ()  # training runs that nothing is known of

    def seconds(self, workers: int) -> float:
        """How long this number of workers takes, each on a core of its own."""
        return max(self.longest, (self.training + self.extraction + self.searching) / workers)


def forecast(made: Plan, costs: Mapping[str, Cost], store: Store) -> Forecast:
    """Time a few steps of each kind of network and extrapolate to what the store lacks.

    Networks with most work come first; when the time for measuring is over, the others are taken
    to be as fast, by their multiplications.
    """
    jobs = jobs_of(made.trainings, costs, present(made.artefacts, store))
    paces, began = {}, time.process_time()
    for kind in work_by_kind(jobs):
        pace = time_steps(kind) if time.process_time() - began < _SECONDS else None
        if pace is not None:
            paces[kind] = pace._replace(waited=pace.spent)  # on idle cores
    durations = Durations()
    durations.expect_paces(paces, [(job.run, job.cost) for job in jobs if not job.search])
    durations.expect_asking(a for job in jobs for a in job.cost.asking.values())
    lacking = {job.run.training: job for job in jobs if not job.trained}  # checkpoints share it
    trainings, untimed = [], []
    for job in lacking.values():
        guess = durations.guess("train", job.run.network, job.cost.training)
        if guess is None:
            untimed.append(job.run.label)
        else:
            trainings.append(guess.seconds)
    asked = [job for job in jobs if not job.prepared]
    extraction = sum(
        durations.seconds("answer", job.run.network, job.cost.extraction) for job in asked
    )
    searches = {job.claim: job for job in jobs if job.search and not job.done}  # runs share some
    asking = [job.cost.asking[job.search] for job in searches.values()]
    searching = sum(durations.seconds("search", each.name, each.units) for each in asking)
    steps = sum(pace.timed for pace in paces.values())
    longest = max(trainings, default=0.0)
    return Forecast(sum(trainings), extraction, searching, longest, steps, tuple(untimed))
