"""How long work takes: as it took before, else as timed steps let expect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from oodometer.engine.lead.estimates import Asking, Cost, Kind, Pace
from oodometer.engine.plan.artefacts import Stage
from oodometer.engine.plan.trainings import TrainingPlan

# What durations are known of: a network answers about images when it is extracted, by which probes
# may ask more, and in a search.
Timed = Stage | Literal["answer", "search"]


class Guess(NamedTuple):
    """Seconds that something may take; `sure` if they rest on the like of it."""

    seconds: float
    sure: bool


class _Sum(NamedTuple):
    """Seconds, and the units of work that they were spent on."""

    seconds: float = 0.0
    units: float = 0.0

    def plus(self, seconds: float, units: float) -> _Sum:
        return _Sum(self.seconds + seconds, self.units + units)

    @property
    def rate(self) -> float | None:
        return self.seconds / self.units if self.units > 0 else None


_NOTHING = _Sum()
Network = tuple[TrainingPlan, Cost]
_Known = dict[tuple[Timed, str], _Sum]  # stage, and which network, detector or search


class Durations:
    """Seconds that work took, or was expected to take, and by them what other work will take."""

    def __init__(self) -> None:
        self._done: _Known = {}
        self._expected: _Known = {}
        self._open: set[tuple[Timed, str]] = set()  # of these, not all could be timed
        self._parts: dict[str, tuple[Timed, str, _Sum]] = {}  # of tasks under way
        self._busy = _NOTHING  # seconds waited for those of one core, while steps were timed
        self._rates: dict[tuple[Timed, str], Guess | None] = {}  # as they follow from the others

    def note(self, stage: Timed, name: str, units: float, seconds: float) -> None:
        """Learn from what was done."""
        self._rates.clear()
        self._done[stage, name] = self._done.get((stage, name), _NOTHING).plus(seconds, units)

    def note_part(self, task: str, stage: Timed, name: str, units: float, seconds: float) -> None:
        """Learn from what is done of a task, until `forget_part`."""
        self._rates.clear()
        self._parts[task] = stage, name, _Sum(seconds, units)

    def forget_part(self, task: str) -> None:
        """The task is no longer under way."""
        self._rates.clear()
        self._parts.pop(task, None)

    def expect(self, stage: Timed, name: str, units: float, seconds: float) -> None:
        """Learn what a few timed steps let expect."""
        self._rates.clear()
        before = self._expected.get((stage, name), _NOTHING)
        self._expected[stage, name] = before.plus(seconds, units)

    def expect_paces(self, paces: Mapping[Kind, Pace], networks: Iterable[Network]) -> None:
        """Learn what timed networks take to be trained, and to answer."""
        self._busy = self._busy.plus(
            sum(pace.waited for pace in paces.values()), sum(pace.spent for pace in paces.values())
        )
        for run, cost in networks:
            pace = None if cost.kind is None else paces.get(cost.kind)
            if pace is not None:
                seconds = pace.training(run.last_epoch, cost.samples, run.spec.batch_size)
                self.expect("train", run.network, cost.training, seconds)
                self._open |= set() if pace.whole else {("train", run.network)}
                self.expect("answer", run.network, cost.sample, pace.answer)
                if not cost.probed:
                    self.expect("extract", run.network, cost.sample, pace.answer)

    def expect_asking(self, asking: Iterable[Asking]) -> None:
        """Learn what searches take, by how fast the networks answer that they ask."""
        for each in asking:
            rates = {name: self._answering(name) for name in each.networks}
            known = {name: rate for name, rate in rates.items() if rate is not None}
            if ("search", each.name) not in self._expected and len(known) == len(rates):
                seconds = sum(known[name] * units for name, units in each.networks.items())
                self.expect("search", each.name, each.units, seconds)

    def _answering(self, network: str) -> float | None:
        """Seconds of a unit: as timed, else as extracted, with probes."""
        timed = self._expected.get(("answer", network), _NOTHING)
        return timed.rate or self._done.get(("extract", network), _NOTHING).rate

    def guess(self, stage: Timed, name: str, units: float) -> Guess | None:
        """Seconds that so much work takes; None before anything is known of its stage.

        What was done counts first; then what was expected, times what other work took for each
        second that it was expected to. What others of the stage take is all there is to know about
        a detector; but a network may have multiplications that are not counted, and be slower.
        """
        if (stage, name) not in self._rates:
            self._rates[stage, name] = self._rate(stage, name)
        rate = self._rates[stage, name]
        return None if rate is None else Guess(rate.seconds * units, rate.sure)

    def seconds(self, stage: Timed, name: str, units: float) -> float:
        """Seconds that so much work takes; 0 before anything is known of its stage."""
        guess = self.guess(stage, name, units)
        return 0.0 if guess is None else guess.seconds

    def _rate(self, stage: Timed, name: str) -> Guess | None:
        """Seconds of one unit."""
        seen = dict(self._done)
        for own, which, part in self._parts.values():
            seen[own, which] = seen.get((own, which), _NOTHING).plus(*part)
        slowness = self._slowness(seen, stage)
        if (rate := seen.get((stage, name), _NOTHING).rate) is not None:
            return Guess(rate, sure=True)
        if (rate := self._expected.get((stage, name), _NOTHING).rate) is not None:
            return Guess(rate * slowness, sure=(stage, name) not in self._open)
        for sums, factor in ((seen, 1.0), (self._expected, slowness)):
            if (rate := _pooled(sums, stage).rate) is not None:
                return Guess(rate * factor, sure=stage == "score")
        return None

    def _slowness(self, seen: _Known, stage: Timed) -> float:
        """Seconds taken for each that was expected: in this stage, else in all, else by steps.

        Never less than 1: what was faster than its timed steps tells little about other networks.
        """
        both = [key for key in seen if key in self._expected]
        for keys in ([key for key in both if key[0] == stage], both):
            expected = sum(seen[key].units * (self._expected[key].rate or 0.0) for key in keys)
            if expected > 0:
                return max(1.0, sum(seen[key].seconds for key in keys) / expected)
        return max(1.0, self._busy.rate or 1.0)


def _pooled(known: Mapping[tuple[Timed, str], _Sum], stage: Timed) -> _Sum:
    """What all names of a stage took together."""
    total = _NOTHING
    for (own, _), part in known.items():
        total = total.plus(*part) if own == stage else total
    return total
