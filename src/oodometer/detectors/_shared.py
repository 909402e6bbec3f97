"""Quantities that several detectors or settings read off the same outputs, computed once each."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from oodometer.detectors._arrays import blocks, by_rows, energy_of, precise
from oodometer.outputs import View

Result = TypeVar("Result")


def once(view: View, key: Hashable, compute: Callable[[], Result]) -> Result:
    """Share a result; what was computed without gradients is not handed to whoever wants them."""
    return view.shared((key, torch.is_grad_enabled()), compute)


class Same:
    """A tensor as part of a key: equal to nothing but itself, and alive as long as the key."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __hash__(self) -> int:
        return id(self.tensor)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.tensor is other.tensor


def head_of(train: View) -> tuple[Tensor, Tensor]:
    """Weight and bias of the head in float64, cut off from the network that they belong to."""
    return precise(train.head.weight.detach()), precise(train.head.bias.detach())


class Posterior(NamedTuple):
    """Softmax in logarithms, the top class apart, so that nothing near 0 or 1 is rounded away."""

    log_top: Tensor  # (n,) log p of the top class
    log_not_top: Tensor  # (n,) log(1 - p) of the top class
    log_rest: Tensor  # (n, classes) log p of every other class; -inf in the place of the top one
    log_odds: Tensor  # (n,) log((1 - p) / p) of the top class


def posterior(logits: Tensor, temperature: float = 1.0) -> Posterior:
    """Softmax of the logits at a temperature; row by row."""
    top, place = logits.max(dim=1, keepdim=True)
    rest = ((logits - top) / temperature).scatter(1, place, -torch.inf)
    odds = rest.logsumexp(1)
    # p = 1 / (1 + odds) and 1 - p = odds / (1 + odds)
    log_top = logsigmoid(-odds)
    return Posterior(log_top, logsigmoid(odds), rest + log_top[:, None], odds)


def energies(view: View) -> Tensor:
    """-log sum_c exp(z_c) of every sample."""
    per_row = 3 * view.logits.shape[1]
    return once(view, "energies", lambda: by_rows(energy_of, view.logits, numbers_per_row=per_row))


@torch.no_grad()
def feature_mean(train: View) -> Tensor:
    """Mean of all training features, (width,), in float64."""

    def compute() -> Tensor:
        total = torch.zeros_like(precise(train.features[0]))
        for rows in blocks(len(train), len(total)):
            total += precise(train.features[rows]).sum(0)
        return total / len(train)

    return once(train, "feature mean", compute)


def drawn_share(train: View, kept: int) -> Tensor:
    """So many of the training features, always the same; all of them if there are no more."""
    rows = train.features
    if kept >= len(train):
        return rows
    drawn = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:kept]
    places = drawn.sort().values.to(rows.device)
    # In parts: around every row that is read of a file, the system reads more.
    return torch.cat([rows[places[part]] for part in blocks(kept, 8 * rows.shape[1])])


@torch.no_grad()
def largest_feature(train: View) -> Tensor:
    """Size of the largest number in the training features, in float64."""

    def compute() -> Tensor:
        largest = torch.zeros_like(precise(train.features[0, 0]))
        for rows in blocks(len(train), train.features.shape[1]):
            low, high = train.features[rows].aminmax()
            largest = torch.maximum(largest, precise(torch.maximum(-low, high)))
        return largest

    return once(train, "largest feature", compute)


class Sums(NamedTuple):
    """Sums of rows by class, and how many rows each class has."""

    sums: Tensor  # (classes, width)
    counts: Tensor  # (classes,)

    @property
    def means(self) -> Tensor:
        """Mean of every class, (classes, width); zero for a class without rows."""
        return self.sums / self.counts.clamp_min(1)[:, None]


@torch.no_grad()
def class_sums(values: Tensor, groups: Tensor, classes: int) -> Sums:
    """Add up the rows of every group 0..classes-1 in float64; group -1 is left out."""
    width = values.shape[1]
    device = precise(values[:1]).device
    sums = torch.zeros((classes, width), dtype=torch.float64, device=device)
    counts = torch.zeros(classes, dtype=torch.float64, device=device)
    for rows in blocks(len(values), 3 * width):
        part, group = precise(values[rows]), groups[rows].to(device)
        known = group >= 0
        if not bool(known.all()):
            part, group = part[known], group[known]
        sums.index_add_(0, group, part)
        counts += torch.bincount(group, minlength=classes)
    return Sums(sums, counts)


def numbered_labels(train: View) -> Tensor:
    """Training labels, numbered anew without gaps: class 10,000,000 may be one of three."""

    def compute() -> Tensor:
        known = train.labels >= 0
        numbers = torch.full_like(train.labels, -1)
        numbers[known] = torch.unique(train.labels[known], return_inverse=True)[1]
        return numbers

    return once(train, "numbered labels", compute)


def labelled_sums(train: View) -> Sums:
    """Add up the training features by label, as `numbered_labels` has them."""
    numbers = numbered_labels(train)
    classes = int(numbers.max()) + 1
    return once(
        train, "features by label", lambda: class_sums(train.features.detach(), numbers, classes)
    )
