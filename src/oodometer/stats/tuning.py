"""What choosing a setting on outliers gains, and how much of it is self-deception.

All settings of a grid are scored, so choosing one is arithmetic: by AUROC on outlier sets kept for
validation, by nobody (the default), or by the very sets that the result is reported on (the oracle,
which no honest user has). Validation and test use different ID samples and different outlier sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from oodometer.errors import UserError, unknown
from oodometer.metrics import auroc
from oodometer.metrics.counts import Floats, finite_scores

Scores = Mapping[str, Mapping[str, ArrayLike]]  # setting -> data set -> one score per sample


class Choice(NamedTuple):
    """A setting and its mean AUROC over the validation sets and over the test sets."""

    setting: str
    validation: float
    test: float


class Tuning(NamedTuple):
    """One detector's settings: chosen on validation outliers, not chosen, chosen on the test."""

    validation: tuple[str, ...]
    test: tuple[str, ...]
    tuned: Choice
    default: Choice
    oracle: Choice

    @property
    def gain(self) -> float:
        """What honest tuning adds to the default on the test sets; may be negative."""
        return self.tuned.test - self.default.test

    @property
    def optimism(self) -> float:
        """What tuning on the test sets themselves would claim beyond honest tuning; never < 0."""
        return self.oracle.test - self.tuned.test


def tuning_leave_one_out(
    scores: Scores, *, id: str, default: str, id_validation: ArrayLike
) -> tuple[Tuning, ...]:
    """Choose a setting on all outlier sets but one, and judge it there: each set is the test once.

    The setting with the best mean AUROC over the validation sets is chosen, the first in the order
    of `scores` if several are equal. `id_validation` marks the ID samples that validation may see;
    AUROC on the test set uses the others.
    """
    names = _outlier_sets(scores, id)
    if len(names) < 2:
        raise UserError("Tuning needs two outlier sets: one to validate on and one to test on.")
    areas = _areas(scores, id, default, names, id_validation)
    return tuple(
        _choose(areas, tuple(other for other in names if other != name), (name,)) for name in names
    )


def sensitivity(scores: Scores, *, id: str) -> dict[str, float]:
    """Mean AUROC of every setting over the outlier sets, with all ID samples."""
    names = _outlier_sets(scores, id)
    vectors = _vectors(scores, (id, *names))
    return {
        setting: float(np.mean([auroc(row[id], row[name]) for name in names]))
        for setting, row in vectors.items()
    }


def cross_fitted_range(curves: Floats) -> Floats:
    """Best less worst setting in every run, chosen by all other runs; of (settings, runs).

    The best and the worst of equal settings differ, too, in the runs that made them so. Empty with
    fewer than two runs.
    """
    runs = curves.shape[1]
    if runs < 2:
        return np.empty(0)
    others = (curves.sum(axis=1, keepdims=True) - curves) / (runs - 1)
    own = np.arange(runs)
    return np.asarray(curves[others.argmax(axis=0), own] - curves[others.argmin(axis=0), own])


class _Areas(NamedTuple):
    """AUROC (settings, outlier sets) with the ID samples for validation, and with the others."""

    settings: tuple[str, ...]
    default: int
    datasets: tuple[str, ...]
    validation: Floats
    test: Floats


def _areas(
    scores: Scores, id: str, default: str, names: tuple[str, ...], id_validation: ArrayLike
) -> _Areas:
    vectors = _vectors(scores, (id, *names))
    if default not in vectors:
        raise unknown("setting", default, vectors)
    seen = np.asarray(id_validation)
    size = next(iter(vectors.values()))[id].size
    if seen.dtype != np.bool_ or seen.shape != (size,):
        raise UserError(
            f"id_validation must be {size} booleans, one per sample of '{id}', got {seen.dtype} of "
            f"shape {seen.shape}."
        )
    if seen.all() or not seen.any():
        raise UserError("id_validation must leave ID samples for validation and for the test.")
    first, second = (
        np.array([[auroc(row[id][part], row[name]) for name in names] for row in vectors.values()])
        for part in (seen, ~seen)
    )
    return _Areas(tuple(vectors), list(vectors).index(default), names, first, second)


def _choose(areas: _Areas, validation: tuple[str, ...], test: tuple[str, ...]) -> Tuning:
    seen = areas.validation[:, [areas.datasets.index(name) for name in validation]].mean(axis=1)
    unseen = areas.test[:, [areas.datasets.index(name) for name in test]].mean(axis=1)

    def choice(row: int) -> Choice:
        return Choice(areas.settings[row], float(seen[row]), float(unseen[row]))

    return Tuning(
        validation,
        test,
        tuned=choice(int(seen.argmax())),
        default=choice(areas.default),
        oracle=choice(int(unseen.argmax())),
    )


def _outlier_sets(scores: Scores, id: str) -> tuple[str, ...]:
    if not scores:
        raise UserError("scores holds no setting.")
    first = next(iter(scores.values()))
    names = tuple(name for name in first if name != id)
    if not names:
        raise UserError(f"scores holds no data set besides '{id}'.")
    return names


def _vectors(scores: Scores, names: tuple[str, ...]) -> dict[str, dict[str, Floats]]:
    """All scores as vectors: every setting on the same samples."""
    if not scores:
        raise UserError("scores holds no setting.")
    vectors: dict[str, dict[str, Floats]] = {}
    for setting, sets in scores.items():
        for name in names:
            if name not in sets:
                raise unknown(f"data set of setting '{setting}'", name, sets)
        vectors[setting] = {
            name: finite_scores(sets[name], f"Scores of '{setting}' on '{name}'") for name in names
        }
    first = next(iter(vectors.values()))
    for setting, row in vectors.items():
        for name in names:
            if row[name].size != first[name].size:
                raise UserError(
                    f"Setting '{setting}' has {row[name].size} scores on '{name}' where the first "
                    f"has {first[name].size}: all settings must score the same samples."
                )
    return vectors
