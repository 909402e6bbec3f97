"""Probe cards: all that is known of a probe stands beside its function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from oodometer.lab.asking.probes._question import Learner, Question, State

Ask = Callable[[Question, State], Tensor]
Want = Literal["graph", "stages", "prefix"]  # what it wants of the plain forward pass

PROBES: dict[str, Probe] = {}


@dataclass(frozen=True)
class Probe:
    """A way to ask a classifier: ``ask(question, state)`` returns one float tensor, (n, ...)."""

    name: str
    ask: Ask
    wants: frozenset[Want] = frozenset()
    learner: Callable[[], Learner] | None = None  # for those that learn from the training set
    needs_head: bool = False  # reads features, so the model must have a linear head
    keeps_inputs: bool = False  # keeps the training inputs in memory
    of_training: bool = False  # whether detectors read it of the training set, too
    only_by_name: bool = False  # too costly to be meant by "all"
    grid: Mapping[str, Sequence[float]] = field(default_factory=dict)  # points that it asks at

    @property
    def modules(self) -> tuple[str, ...]:
        """The code that its values depend on, as paths in the package."""
        names = (self.ask.__module__, Question.__module__)
        return tuple(name.removeprefix("oodometer.").replace(".", "/") for name in names)


def probe(
    *,
    wants: Iterable[Want] = (),
    learner: Callable[[], Learner] | None = None,
    needs_head: bool = False,
    keeps_inputs: bool = False,
    of_training: bool = False,
    only_by_name: bool = False,
    grid: Mapping[str, Sequence[float]] | None = None,
) -> Callable[[Ask], Ask]:
    """Register a function as the probe of its name; see `Probe`."""

    def register(ask: Ask) -> Ask:
        name = ask.__name__
        assert name not in PROBES, f"two probes are called '{name}'"
        PROBES[name] = Probe(
            name,
            ask,
            frozenset(wants),
            learner,
            needs_head=needs_head,
            keeps_inputs=keeps_inputs,
            of_training=of_training,
            only_by_name=only_by_name,
            grid=grid or {},
        )
        return ask

    return register
