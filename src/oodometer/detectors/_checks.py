"""The one wording of what a detector refuses: a setting out of range, data it cannot use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from typing import NoReturn

from torch import Tensor

from oodometer.errors import UserError
from oodometer.needs import Need
from oodometer.outputs import View
from oodometer.registry import Choice


def require_range(
    detector: str,
    setting: str,
    value: float,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> None:
    """Refuse a setting outside its range; NaN lies outside every range.

    >>> require_range("knn", "k", 0, at_least=1)
    Traceback (most recent call last):
    oodometer.errors.UserError: Setting k of 'knn' must be at least 1, got 0.
    """
    inside = (
        (at_least is None or value >= at_least)
        and (above is None or value > above)
        and (at_most is None or value <= at_most)
        and (below is None or value < below)
    )
    if not inside:
        bounds = {"at least": at_least, "above": above, "at most": at_most, "below": below}
        allowed = [f"{word} {_plain(bound)}" for word, bound in bounds.items() if bound is not None]
        raise UserError(
            f"Setting {setting} of '{detector}' must be {' and '.join(allowed)}, got "
            f"{_plain(value)}."
        )


def _plain(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def require_two_classes(detector: str, logits: Tensor) -> None:
    """Refuse logits of one class: their softmax is 1 for every sample and says nothing."""
    if logits.shape[1] < 2:
        raise UserError(
            f"Detector '{detector}' needs logits of at least 2 classes, got {logits.shape[1]}."
        )


def require_labelled(detector: str, labels: Tensor) -> None:
    """Refuse training labels that name no class at all."""
    if not bool((labels >= 0).any()):
        raise UserError(
            f"Detector '{detector}' needs training samples with a class, but all {len(labels)} "
            "labels are -1 (no known class)."
        )


def usable_neighbors(
    detector: str, setting: str, value: int, *, default: int, available: int
) -> int:
    """Number of neighbours to use.

    The default shrinks to what a small training set has, so that a detector works untouched on
    small data; a value that somebody chose is never changed behind their back.
    """
    require_range(detector, setting, value, at_least=1)
    if available < 1:  # a training sample is not its own neighbour
        raise UserError(f"Detector '{detector}' needs at least 2 training samples, got 1.")
    if value > available and value != default:
        raise UserError(
            f"Setting {setting} of '{detector}' must be at most {available}, the neighbours that "
            f"this training set offers, got {value}."
        )
    return min(value, available)


def require_possible(choice: Choice) -> None:
    """Refuse settings that a detector refuses whatever the data are, before there are data.

    It is built on nothing: what it says before it reads anything is about its settings alone. Of
    other people's detectors nothing is run so early.
    """
    build = choice.detector.build
    if build.__module__.startswith("oodometer.") and choice.label != choice.detector.name:
        with contextlib.suppress(_Reading):
            build(_Unread(), **choice.settings)


class _Reading(Exception):  # noqa: N818 - nothing is wrong
    """A detector begins to read: its settings are possible."""


class _Unread(View):
    """As many training samples as anybody may ask for, none of which can be read."""

    def __init__(self) -> None:
        pass

    def __len__(self) -> int:
        return 2**62

    def _require_declared(self, need: Need) -> NoReturn:
        raise _Reading

    def shared(self, key: Hashable, compute: Callable[[], object]) -> NoReturn:
        """Nothing is shared either."""
        raise _Reading
