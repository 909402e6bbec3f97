"""Schedules of the learning rate, and rules for stopping, by name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oodometer.errors import UserError
from oodometer.lab.options import choose, require
from oodometer.lab.training.curves import Curve, badness, check_measure, epochs_without_gain


@dataclass(frozen=True)
class Schedule:
    """The learning rates of an epoch's steps, from what came before it.

    `rates` takes the base rate, the number of steps of an epoch, the number of epochs and the
    curve so far, whose length tells which epoch comes next.
    """

    rates: Callable[[float, int, int, Curve], list[float]]
    reads: str = ""  # the measure of the curve that it follows
    warm_up: int = 0


@dataclass(frozen=True)
class Stopping:
    """When to stop before the last epoch, from the curve so far."""

    done: Callable[[Curve], bool]
    reads: str = ""


def constant() -> Schedule:
    """The same rate throughout."""
    return Schedule(lambda base, steps, epochs, curve: [base] * steps)


def cosine(*, minimum: float = 1e-6, warm_up: int = 0) -> Schedule:
    """Half a cosine from the base rate to the minimum, changed at every step.

    Step t of T has the rate ``minimum + (base - minimum) (1 + cos(pi t / T)) / 2``, t from 0
    (Loshchilov and Hutter 2017, arXiv:1608.03983). During `warm_up` epochs of W steps in all, the
    rate is ``base (t + 1) / W``, and the cosine covers the steps that remain.
    """
    require(minimum >= 0, "The minimum of cosine", minimum, "at least 0")
    require(warm_up >= 0, "The warm_up of cosine", warm_up, "a number of epochs from 0")

    def rates(base: float, steps: int, epochs: int, curve: Curve) -> list[float]:
        first = len(curve["train_loss"]) * steps
        warm, total = warm_up * steps, epochs * steps
        lowest = min(minimum, base)
        return [
            base * (step + 1) / warm
            if step < warm
            else lowest
            + (base - lowest) * (1 + math.cos(math.pi * (step - warm) / (total - warm))) / 2
            for step in range(first, first + steps)
        ]

    return Schedule(rates, warm_up=warm_up)


def exponential(*, factor: float) -> Schedule:
    """The rate times `factor` after every step."""
    require(0 < factor <= 1, "The factor of exponential", factor, "above 0 and at most 1")

    def rates(base: float, steps: int, epochs: int, curve: Curve) -> list[float]:
        first = len(curve["train_loss"]) * steps
        return [base * factor**step for step in range(first, first + steps)]

    return Schedule(rates)


def steps(*, at: int | str, factor: float | str) -> Schedule:
    """The rate times `factor` after each of these epochs: ``steps(at=60/120/160, factor=0.2)``.

    Several factors, one for each of the epochs, may raise it, too: ``factor=0.2/0.2/3.2``.
    """
    after = _numbers("The epochs of steps", at)
    ascending = after == sorted(set(after)) and after[0] >= 1 and all(e == int(e) for e in after)
    require(ascending, "The epochs of steps", at, "whole numbers from 1, ascending")
    factors = _numbers("The factor of steps", factor)
    factors = factors * len(after) if len(factors) == 1 else factors
    counted = len(factors) == len(after) and min(factors) > 0
    require(counted, "The factor of steps", factor, "above 0, one for all epochs or one for each")

    def rates(base: float, steps: int, epochs: int, curve: Curve) -> list[float]:
        passed = sum(epoch <= len(curve["train_loss"]) for epoch in after)
        return [base * math.prod(factors[:passed])] * steps

    return Schedule(rates)


def _numbers(what: str, text: float | str) -> list[float]:
    """Read numbers with slashes between them."""
    parts = str(text).split("/")
    plain = all(re.fullmatch(r"\d*\.?\d+(e-?\d+)?", part) for part in parts)
    require(plain, what, text, "numbers with / between them")
    return list(map(float, parts))


def one_cycle(*, rise: float = 0.25, start: float = 0.04, end: float = 1e-4) -> Schedule:
    """Half a cosine up to the base rate during the share `rise` of all steps, then one down.

    It starts at `start` and ends at `end` times the base rate. Smith and Topin 2018,
    arXiv:1708.07120; the formula is that of PyTorch's OneCycleLR.
    """
    require(0 < rise < 1, "The rise of one_cycle", rise, "between 0 and 1")
    require(0 <= start <= 1, "The start of one_cycle", start, "between 0 and 1")
    require(0 <= end <= 1, "The end of one_cycle", end, "between 0 and 1")

    def rates(base: float, steps: int, epochs: int, curve: Curve) -> list[float]:
        first = len(curve["train_loss"]) * steps
        top, last = rise * epochs * steps - 1, epochs * steps - 1

        def rate(step: int) -> float:
            begin, other, done = (
                (start, 1.0, step / top) if step < top else (1.0, end, (step - top) / (last - top))
            )
            return base * (other + (begin - other) * (1 + math.cos(math.pi * done)) / 2)

        return [rate(step) for step in range(first, first + steps)]

    return Schedule(rates)


def plateau(
    *,
    on: str = "train_loss",
    patience: int = 5,
    factor: float = 0.1,
    threshold: float = 1e-4,
    minimum: float = 1e-5,
) -> Schedule:
    """The rate times `factor` after more than `patience` epochs in a row without gain.

    A loss gains when it is below (1 - threshold) of the best so far, an accuracy when it is above
    (1 + threshold) of it, as in PyTorch's ReduceLROnPlateau.
    """
    check_measure(on)
    require(patience >= 0, "The patience of plateau", patience, "a number of epochs from 0")
    require(0 < factor < 1, "The factor of plateau", factor, "between 0 and 1")
    require(0 <= threshold < 1, "The threshold of plateau", threshold, "at least 0 and below 1")
    require(minimum >= 0, "The minimum of plateau", minimum, "at least 0")

    def rates(base: float, steps: int, epochs: int, curve: Curve) -> list[float]:
        rate, best, waited = base, math.inf, 0
        for value in badness(curve, on):
            # An accuracy is turned into a negative number, so that the margin has its sign.
            if value < best - threshold * abs(best) or best == math.inf:
                best, waited = value, 0
            else:
                waited += 1
            if waited > patience:
                rate, waited = min(rate, max(rate * factor, minimum)), 0
        return [rate] * steps

    return Schedule(rates, reads=on)


def none() -> Stopping:
    """All epochs are trained."""
    return Stopping(lambda curve: False)


def early(*, on: str = "validation_loss", patience: int = 10) -> Stopping:
    """Stop when `patience` epochs in a row were not better than the best before them."""
    check_measure(on)
    require(patience >= 1, "The patience of early", patience, "a number of epochs from 1")
    return Stopping(lambda curve: epochs_without_gain(curve, on) >= patience, reads=on)


def reached(*, on: str = "validation_accuracy", value: float = 1.0) -> Stopping:
    """Stop when a measure is as good as `value`: an accuracy no lower, a loss no higher."""
    check_measure(on)
    most, allowed = (1.0, "between 0 and 1") if "accuracy" in on else (math.inf, "at least 0")
    require(0 <= value <= most, f"The value of reached for {on}", value, allowed)
    goal = badness({on: [value]}, on)[0]
    return Stopping(lambda curve: any(bad <= goal for bad in badness(curve, on)[-1:]), reads=on)


SCHEDULES: Mapping[str, Callable[..., Schedule]] = {
    make.__name__: make for make in (constant, cosine, exponential, steps, one_cycle, plateau)
}
STOPPINGS: Mapping[str, Callable[..., Stopping]] = {
    make.__name__: make for make in (none, early, reached)
}


def make_schedule(text: str, epochs: int) -> Schedule:
    """Build the schedule that a text names, such as ``cosine(warm_up=5)``."""
    made = choose("schedule", text, SCHEDULES)()
    if made.warm_up >= epochs:
        raise UserError(
            f"Schedule '{text}' warms up for {made.warm_up} epochs, but training has {epochs}."
        )
    return made


def make_stopping(text: str) -> Stopping:
    """Build the rule for stopping that a text names, such as ``early(patience=5)``."""
    return choose("stopping", text, STOPPINGS)()
