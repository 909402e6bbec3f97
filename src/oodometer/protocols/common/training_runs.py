"""Training runs: runs that differ in re-evaluations alone are one case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oodometer.factors import Factor, names
from oodometer.metrics.counts import Floats


@dataclass(frozen=True)
class TrainingRuns:
    """Which runs evaluate the same training run: together they are one case.

    >>> levels = {"a": {"seed": 0, "epoch": 1}, "b": {"seed": 0, "epoch": 2}, "c": {"seed": 1}}
    >>> factors = [Factor("seed", "repeat"), Factor("epoch", "re_evaluation")]
    >>> TrainingRuns.of(levels, factors)
    TrainingRuns(names=('seed=0', 'c'), members=((0, 1), (2,)))
    """

    names: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]  # positions of the runs that evaluate each

    @staticmethod
    def of(levels: Mapping[str, Mapping[str, object]], factors: Iterable[Factor]) -> TrainingRuns:
        """Group runs, by name, that differ in re-evaluations, or in parts of a set, alone."""
        later = names(factors, "re_evaluation", "part")
        found: dict[tuple[tuple[str, object], ...], list[int]] = {}
        for place, (run, own) in enumerate(levels.items()):
            trained = tuple((name, level) for name, level in own.items() if name not in later)
            # Without factors, runs are told apart by their names alone.
            found.setdefault(trained if own else (("", run),), []).append(place)
        runs = list(levels)
        return TrainingRuns(
            tuple(
                runs[own[0]]
                if len(own) == 1
                else ", ".join(f"{name}={level}" for name, level in trained) or "the training run"
                for trained, own in found.items()
            ),
            tuple(map(tuple, found.values())),
        )

    def __len__(self) -> int:
        """How many training runs there are."""
        return len(self.members)

    @property
    def has_re_evaluations(self) -> bool:
        """Whether some training run is evaluated more than once."""
        return any(len(own) > 1 for own in self.members)

    @cached_property
    def numbers(self) -> NDArray[np.intp]:
        """Which training run each run evaluates."""
        numbers = np.empty(sum(map(len, self.members)), dtype=np.intp)
        for number, members in enumerate(self.members):
            numbers[list(members)] = number
        return numbers

    def mean(self, values: Floats, axis: int = -1) -> Floats:
        """Average values by run over the runs of each training run."""
        parts = [values.take(own, axis=axis).mean(axis=axis) for own in self.members]
        return np.stack(parts, axis=axis)


def without_repeats(factors: Iterable[Factor]) -> str:
    """Say of what another run would be another one, if no two were trained alike; else nothing.

    >>> without_repeats([Factor("optimizer")])
    'under another optimizer like these'
    >>> without_repeats([Factor("optimizer"), Factor("seed", "repeat")]), without_repeats([])
    ('', '')
    """
    given = tuple(factors)
    conditions = names(given, "condition")
    if not conditions or names(given, "repeat"):
        return ""
    return f"under another {' or '.join(conditions)} like these"


def run_word(factors: Iterable[Factor]) -> str:
    """The word for a run: if no two were trained alike, for a condition.

    That is the title of its column, if it is a noun with a plural.

    >>> run_word([Factor("corruption")]), run_word([Factor("lr")]), run_word([])
    ('corruption', 'condition', 'run')
    """
    given = tuple(factors)
    conditions = names(given, "condition")
    if not without_repeats(given):
        return "run"
    if len(conditions) == 1 and re.fullmatch(r"(?i)[a-z]{4,}[a-rt-z]", conditions[0]):
        return conditions[0].lower()
    return "condition"


def independent_changes(
    levels: Mapping[str, Mapping[str, object]], factor: str, factors: Sequence[Factor]
) -> int:
    """How many independent changes of one factor runs show, each of which has a partner.

    n training runs that agree in everything else show n - 1, however often each was evaluated;
    re-evaluations of one training run show one.

    >>> runs = {f"{s} {e}": {"seed": s, "epoch": e} for s in (0, 1, 2) for e in (10, 20)}
    >>> factors = [Factor("seed", "repeat"), Factor("epoch", "re_evaluation")]
    >>> independent_changes(runs, "seed", factors), independent_changes(runs, "epoch", factors)
    (2, 3)
    """
    trained = TrainingRuns.of(levels, factors)
    if factor in names(factors, "re_evaluation"):
        return len(trained)
    runs = list(levels)
    without = {runs[own[0]]: {**levels[runs[own[0]]], factor: ""} for own in trained.members}
    return len(trained) - len(TrainingRuns.of(without, factors))
