"""Wrong training labels: made by the published generators, or read from people who erred.

Every function takes labels and returns new ones; none draws from global random state. The
generators are those of "A noisy elephant in the room" (CVPR 2024, arXiv:2404.01775), whose lists
they repeat label for label with seed 0; the human labels that these imitate are CIFAR-N (Wei et
al. 2022, arXiv:2110.12088).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oodometer.calls import Setting
from oodometer.errors import UserError
from oodometer.lab.data.label_files import read_labels
from oodometer.lab.options import choose

Labels = NDArray[np.int64]


def uniform(labels: ArrayLike, changed: int, classes: int, seed: int = 0) -> Labels:
    """Change exactly `changed` labels, each to a random other class ("SU").

    One draw of `changed` positions without replacement, then for each in drawn order one draw from
    the other classes in increasing order, all from NumPy's legacy generator. arXiv:2404.01775.

    >>> uniform([0, 0, 1, 1, 2, 2], 2, 3).tolist()
    [0, 0, 0, 1, 2, 1]
    """
    clean = checked_labels(labels, classes)
    if not 0 <= changed <= len(clean):
        raise UserError(f"changed must be between 0 and {len(clean)} labels, got {changed}.")
    random = _legacy(seed)
    rows = random.choice(len(clean), changed, replace=False)
    # The k-th of the other classes in increasing order is k, or k + 1 from the own class on.
    drawn = random.randint(0, classes - 1, size=changed)
    noisy = clean.copy()
    noisy[rows] = drawn + (drawn >= clean[rows])
    return noisy


def class_conditional(labels: ArrayLike, counts: ArrayLike, seed: int = 0) -> Labels:
    """Change labels so that clean x noisy counts are exactly those given ("SCC").

    For each class in turn, its positions are drawn without replacement, as many as it has errors,
    and handed out consecutively: the first counts[c, 0] become class 0, the next class 1, and so
    on. The diagonal of `counts` is not read. arXiv:2404.01775.

    >>> class_conditional([0, 0, 0, 1, 1, 1], [[2, 1], [2, 1]]).tolist()
    [0, 0, 1, 0, 1, 0]
    """
    matrix = np.asarray(counts)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise UserError(f"counts must be a square matrix, clean x noisy, got shape {matrix.shape}.")
    if not np.issubdtype(matrix.dtype, np.integer) or (matrix < 0).any():
        raise UserError("counts must hold whole numbers from 0: how many labels go where.")
    errors = matrix.astype(np.int64)
    np.fill_diagonal(errors, 0)
    clean = checked_labels(labels, len(errors))
    random = _legacy(seed)
    noisy = clean.copy()
    for number, row in enumerate(errors):
        places = np.flatnonzero(clean == number)
        if row.sum() > len(places):
            raise UserError(
                f"counts change {row.sum()} labels of class {number}, which has {len(places)}."
            )
        drawn = places[random.permutation(len(places))[: row.sum()]]
        noisy[drawn] = np.repeat(np.arange(len(errors)), row)
    return noisy


def transition(
    labels: ArrayLike, matrix: ArrayLike, seed: int = 0, *, exact: bool = True
) -> Labels:
    """Change labels by a matrix of probabilities, clean x noisy, whose rows sum to 1.

    ``exact``: the counts are those expected, rounded by largest remainder, and placed by
    `class_conditional`; otherwise every label is drawn on its own, so that counts vary.
    """
    probabilities = _checked_transition(matrix)
    clean = checked_labels(labels, len(probabilities))
    if exact:
        return class_conditional(clean, expected_counts(clean, probabilities), seed)
    borders = probabilities.cumsum(axis=1)
    borders[:, -1] = np.inf  # rounding must not leave a gap at the end
    drawn = _legacy(seed).random_sample(len(clean))
    noisy: Labels = (drawn[:, None] >= borders[clean]).sum(axis=1)
    return noisy


def pair(labels: ArrayLike, rate: float, classes: int, seed: int = 0) -> Labels:
    """Change this share of every class to the next one, the last to the first.

    Han et al. 2018, arXiv:1804.06872; exact counts, as in `transition`.
    """
    return transition(labels, pair_matrix(rate, classes), seed)


def pair_matrix(rate: float, classes: int) -> NDArray[np.float64]:
    """Transition matrix of `pair`: 1 - rate on the diagonal, rate to the next class."""
    keep = np.eye(_checked_classes(classes))
    return (1 - _checked_rate(rate)) * keep + rate * np.roll(keep, 1, axis=1)


def random_matrix(rate: float, classes: int, seed: int = 0) -> NDArray[np.float64]:
    """Transition matrix of overall rate `rate` with errors of its own for every class.

    Where errors of a class go is drawn from the flat Dirichlet distribution.
    """
    size = _checked_classes(classes)
    shares = _legacy(seed).dirichlet(np.ones(size - 1), size=size)
    matrix = np.diag(np.full(size, 1 - _checked_rate(rate)))
    matrix[~np.eye(size, dtype=bool)] = rate * shares.ravel()
    return matrix


def expected_counts(labels: ArrayLike, matrix: ArrayLike) -> NDArray[np.int64]:
    """Counts clean x noisy that a transition matrix makes of these labels, by largest remainder.

    Each row is rounded down, then its largest remainders are rounded up until it sums to the
    number of labels of the class; of equal remainders the lower class comes first.
    """
    probabilities = _checked_transition(matrix)
    clean = checked_labels(labels, len(probabilities))
    sizes = np.bincount(clean, minlength=len(probabilities))
    # Rounding to 9 places first: 0.2 * 5 must be 1, not 1.0000000000000002 with a remainder.
    ideal = (probabilities * sizes[:, None]).round(9)
    counts = np.floor(ideal).astype(np.int64)
    for row, target, size in zip(counts, ideal, sizes, strict=True):
        up = np.argsort(row - target, kind="stable")[: size - row.sum()]
        row[up] += 1
    return counts


def count_matrix(clean: ArrayLike, noisy: ArrayLike, classes: int) -> NDArray[np.int64]:
    """Count how many labels of each clean class (row) became which noisy class (column)."""
    first, second = checked_labels(clean, classes), checked_labels(noisy, classes)
    if len(first) != len(second):
        raise UserError(f"There are {len(first)} clean but {len(second)} noisy labels.")
    cells = np.bincount(first * classes + second, minlength=classes**2)
    return cells.reshape(classes, classes)


def noise_rate(clean: ArrayLike, noisy: ArrayLike) -> float:
    """Share of labels that differ."""
    first, second = np.asarray(clean), np.asarray(noisy)
    if first.shape != second.shape or not first.size:
        raise UserError(f"Labels of shapes {first.shape} and {second.shape} cannot be compared.")
    return float((first != second).mean())


def _apply_uniform(clean: Labels, classes: int, *, rate: float, seed: int = 0) -> Labels:
    return uniform(clean, round(_checked_rate(rate) * len(clean)), classes, seed)


def _apply_pair(clean: Labels, classes: int, *, rate: float, seed: int = 0) -> Labels:
    return pair(clean, rate, classes, seed)


def _apply_class_conditional(
    clean: Labels,
    classes: int,
    *,
    rate: float | None = None,
    path: str | None = None,
    key: str | None = None,
    seed: int = 0,
) -> Labels:
    """Errors as a file of noisy labels has them, or drawn; scaled to `rate` if it is given."""
    if path is None:
        if rate is None:
            raise UserError(
                "class_conditional needs a rate, or the path of noisy labels to imitate."
            )
        return transition(clean, random_matrix(rate, classes, seed), seed)
    counts = count_matrix(clean, read_labels(path, key, clean), classes)
    if rate is None:
        return class_conditional(clean, counts, seed)
    return transition(clean, _scaled(counts, rate), seed)


def _apply_file(clean: Labels, classes: int, *, path: str, key: str | None = None) -> Labels:
    return checked_labels(read_labels(path, key, clean), classes)


def _apply_none(clean: Labels, classes: int) -> Labels:
    return clean.copy()


KNOWN: dict[str, Callable[..., Labels]] = {
    "none": _apply_none,
    "uniform": _apply_uniform,
    "class_conditional": _apply_class_conditional,
    "pair": _apply_pair,
    "file": _apply_file,
}


def apply_noise(text: str, labels: ArrayLike, classes: int) -> Labels:
    """Change labels as a study says it, such as ``uniform(rate=0.2, seed=0)``.

    ``none``; ``uniform(rate, seed)``; ``pair(rate, seed)``; ``class_conditional(rate, seed)``, or
    ``class_conditional(path, key)`` with the errors of a file of noisy labels; ``file(path, key)``.

    >>> apply_noise("pair(rate=0.5)", [0, 0, 1, 1], 2).tolist()
    [0, 1, 0, 1]
    """
    function, settings = parse_noise(text)
    return function(checked_labels(labels, classes), classes, **settings)


def parse_noise(text: str) -> tuple[Callable[..., Labels], dict[str, Setting]]:
    """Return the function and the settings that a text names, or say what is wrong with it."""
    chosen = choose("label noise", text, KNOWN)
    settings = chosen.keywords
    if "rate" in settings:
        _checked_rate(settings["rate"])
    if not 0 <= settings.get("seed", 0) < 2**32:
        raise UserError(
            f"seed of label noise must be a whole number from 0, got {settings['seed']!r}."
        )
    paths = {key: str(value) for key, value in settings.items() if key in ("path", "key")}
    return chosen.func, settings | paths


def checked_labels(labels: ArrayLike, classes: int) -> Labels:
    """Return labels as int64, or refuse anything but a vector of classes from 0 to classes - 1."""
    vector = np.asarray(labels)
    _checked_classes(classes)
    if vector.ndim != 1 or not np.issubdtype(vector.dtype, np.integer):
        raise UserError(
            f"Labels must be a vector of integers, got {vector.dtype} of shape {vector.shape}."
        )
    if vector.size and not 0 <= int(vector.min()) <= int(vector.max()) < classes:
        raise UserError(
            f"Labels must lie between 0 and {classes - 1}, got {vector.min()} to {vector.max()}."
        )
    return vector.astype(np.int64)


def _legacy(seed: int) -> np.random.RandomState:
    # The published lists come from this stream, which NumPy keeps as it is for ever.
    return np.random.RandomState(seed)


def _scaled(counts: NDArray[np.int64], rate: float) -> NDArray[np.float64]:
    """Transition matrix with the errors of these counts, scaled to another overall rate."""
    sizes = np.maximum(counts.sum(axis=1), 1)
    matrix: NDArray[np.float64] = counts / sizes[:, None]
    np.fill_diagonal(matrix, 0.0)
    present = 1 - np.trace(counts) / max(int(counts.sum()), 1)
    if not present:
        raise UserError("The noisy labels agree with the clean ones: there is no error to scale.")
    matrix *= rate / present
    left = 1 - matrix.sum(axis=1)
    if left.min() < -1e-9:
        raise UserError(
            f"A rate of {rate:g} would change more labels of class {left.argmin()} than it has; "
            f"with these errors at most {rate / (1 - left.min()):.3f} is possible."
        )
    matrix[np.diag_indices_from(matrix)] = left.clip(0)
    return matrix


def _checked_rate(rate: Any) -> float:
    number = isinstance(rate, int | float) and not isinstance(rate, bool)
    if not number or not math.isfinite(rate) or not 0 <= rate <= 1:
        raise UserError(f"rate of label noise must be a number between 0 and 1, got {rate!r}.")
    return float(rate)


def _checked_classes(classes: int) -> int:
    if classes < 2:
        raise UserError(f"Label noise needs at least 2 classes, got {classes}.")
    return classes


def _checked_transition(matrix: ArrayLike) -> NDArray[np.float64]:
    rows = np.asarray(matrix, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] != rows.shape[1] or len(rows) < 2:
        raise UserError(f"A transition matrix must be square, got shape {rows.shape}.")
    if not np.isfinite(rows).all() or (rows < 0).any():
        raise UserError("A transition matrix must hold probabilities: no negative number, no NaN.")
    sums = rows.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > 1e-6:
        raise UserError(
            f"Rows of a transition matrix must sum to 1; row {worst} sums to {sums[worst]:g}."
        )
    return rows
