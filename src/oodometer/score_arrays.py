"""Arrays of scores from anywhere: what is not one is refused in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oodometer.errors import UserError, describe, unknown

Higher = Literal["ood", "id"]  # for which samples scores are higher


def require_nested(scores: Mapping[str, Mapping[str, ArrayLike]]) -> None:
    """Refuse anything but detector -> data set -> scores."""
    wanted = "a mapping of detectors to mappings of data sets to scores"
    if not isinstance(scores, Mapping) or not scores:
        got = "none" if isinstance(scores, Mapping) else type(scores).__name__
        raise UserError(f"scores must be {wanted}, got {got}.")
    for detector, sets in scores.items():
        if not isinstance(sets, Mapping) or not sets:
            got = "none" if isinstance(sets, Mapping) else type(sets).__name__
            raise UserError(f"scores must be {wanted}, got {got} for detector '{detector}'.")
        for name in (detector, *sets):
            if not isinstance(name, str) or not name.strip():
                raise UserError(f"Names of detectors and data sets must be text, got {name!r}.")


def signs_of(higher: Higher | Mapping[str, Higher], detectors: Iterable[str]) -> dict[str, float]:
    """By what scores are multiplied to be higher for outliers."""
    named = list(detectors)
    said = dict(higher) if isinstance(higher, Mapping) else dict.fromkeys(named, higher)
    for name in said:
        if name not in named:
            raise unknown("detector in 'higher'", name, named)
    if lacking := [name for name in named if name not in said]:
        raise UserError(
            f"'higher' does not say whether scores of '{lacking[0]}' are higher for outliers "
            "('ood') or for in-distribution samples ('id')."
        )
    signs: dict[object, float] = {"ood": 1.0, "id": -1.0}
    for name, side in said.items():
        if not isinstance(side, str) or side not in signs:
            raise UserError(
                f"Scores of '{name}' are higher for 'ood' or for 'id' samples, got {side!r}."
            )
    return {name: signs[side] for name, side in said.items()}


def matrix_of(values: ArrayLike, detector: str, dataset: str) -> NDArray[np.float64]:
    """Scores by run and sample."""
    where = f"Scores of '{detector}' on '{dataset}'"
    if np.ma.is_masked(values):
        raise UserError(f"{where} must not be masked.")
    try:
        if hasattr(values, "detach"):  # a tensor, on any device, of a type that NumPy may lack
            values = values.detach().cpu().double()
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as problem:
        reason = describe(problem, named=False).rstrip(".")
        raise UserError(f"{where} are not an array of numbers: {reason}.") from None
    if array.dtype.kind not in "fiub":
        raise UserError(f"{where} must be numbers, got {array.dtype} such as {_sample(array)}.")
    if array.ndim not in (1, 2) or not array.size or (array.ndim == 2 and array.shape[1] == 1):
        raise UserError(
            f"{where} must have shape (samples,), or (runs, samples) for several runs, got "
            f"{array.shape}."
        )
    return np.atleast_2d(array.astype(np.float64))


def _sample(array: NDArray[np.generic]) -> str:
    return repr(array.flat[0])[:40] if array.size else "none"
