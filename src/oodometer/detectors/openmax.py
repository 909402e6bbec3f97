"""OpenMax: extreme values of the distance to a class decide how much of its logit is believed."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from oodometer.detectors._arrays import by_rows, precise
from oodometer.detectors._checks import require_labelled, require_range, require_two_classes
from oodometer.detectors._shared import Same, class_sums, once
from oodometer.outputs import View
from oodometer.registry import Scorer, detector


@detector(
    paper="Bendale & Boult 2016, arXiv:1511.06233",
    needs={"logits", "labels"},
    grid={
        "alpha": (3, 10),
        "distance": ("euclidean", "combined"),
        "ranking": ("descending", "ascending"),
        "tail": (20,),
        "shift": (1,),
    },
)
def openmax(
    train: View,
    *,
    alpha: int = 3,
    distance: str = "euclidean",
    ranking: str = "descending",
    tail: int = 20,
    shift: int = 1,
) -> Scorer:
    """Log-odds of the class "unknown", which receives the mass removed from doubtful logits.

    log(P / (1 - P)), P = exp(v_0) / (exp(v_0) + sum_c exp(v_c)), v_c = z_c (1 - r_c F_c(d_c)),
    v_0 = sum_c (z_c - v_c). r falls from 1 for the largest logit by 1 / alpha per rank, to 0; d_c
    is the distance of z to the mean logits of class c, F_c the Weibull distribution of the `tail`
    largest such distances of correctly classified training samples. As in the authors' library,
    libMR 0.1.9, the fit has two parameters, and distances are moved so that the smallest of the
    tail becomes `shift`; shift=10000 is that of pytorch-ood, with which F_c is nearly Gumbel's.
    distance: "euclidean", or "combined", which is euclidean / 200 + (1 - cosine). A class without
    a correct sample is fitted on those labelled c; without these either, F_c = 1.
    ranking="ascending" gives the weights to the smallest logits first, a mistake of one published
    implementation. P itself is the usual score: the same order.
    """
    require_range("openmax", "alpha", alpha, at_least=1)
    require_range("openmax", "tail", tail, at_least=1)
    require_range("openmax", "shift", shift, above=0)
    require_two_classes("openmax", train.logits)
    require_labelled("openmax", train.labels)
    classes = train.logits.shape[1]
    fitted = once(
        train, ("openmax", distance, tail, shift), lambda: _fit(train, distance, tail, shift)
    )
    used = min(alpha, classes)
    ranks = torch.zeros(classes, dtype=torch.float64, device=fitted.means.device)
    ranks[:used] = 1 - torch.arange(used, dtype=torch.float64) / used

    def score(logits: Tensor, doubt: Tensor) -> Tensor:
        order = logits.detach().argsort(dim=1, descending=ranking == "descending", stable=True)
        weights = torch.zeros_like(logits).scatter(1, order, ranks.expand_as(logits))
        taken = logits * weights * doubt
        return taken.sum(1) - (logits - taken).logsumexp(1)

    def scored(test: View) -> Tensor:
        doubts = once(
            test,
            ("openmax", Same(fitted.means)),
            lambda: by_rows(fitted.doubts, test.logits, numbers_per_row=6 * classes),
        )
        return by_rows(score, test.logits, doubts, numbers_per_row=8 * classes)

    return scored


class _Fitted(NamedTuple):
    """Means of the logits, and what distance to them is extreme."""

    means: Tensor  # (classes, classes)
    start: Tensor  # (classes,) the smallest distance of the tail
    place: Tensor  # (classes,) of the tail, as log(1 + (d - start) / shift): a Gumbel distribution
    width: Tensor  # (classes,)
    known: Tensor  # (classes,) whether there is any sample
    distance: str
    shift: float

    def doubts(self, logits: Tensor) -> Tensor:
        """How extreme every sample's distance to every class is, between 0 and 1."""
        gaps = _distances(logits, self.means, self.distance)
        extreme = _weibull_distribution(
            _shifted(gaps, self.start, self.shift), self.place, self.width
        )
        return torch.where(self.known, extreme, 1.0)


def _distances(rows: Tensor, means: Tensor, distance: str) -> Tensor:
    centre = means.mean(0)  # logits may all be large: only their differences count
    apart, goals = rows - centre, means - centre
    squares = apart.square().sum(1, keepdim=True) + goals.square().sum(1) - 2 * apart @ goals.T
    gaps = squares.clamp_min(torch.finfo(rows.dtype).tiny).sqrt()
    if distance == "euclidean":
        return gaps
    lengths = torch.linalg.vector_norm(rows, dim=1)[:, None] * torch.linalg.vector_norm(
        means, dim=1
    )
    cosine = rows @ means.T / torch.where(lengths > 0, lengths, 1.0)
    return gaps / 200 + 1 - cosine


def _shifted(gaps: Tensor, start: Tensor, shift: float) -> Tensor:
    """Logarithm of the moved distance, relative to that of the start of the tail."""
    return torch.log1p(((gaps - start) / shift).clamp_min(-1 + 1e-12))


def _weibull_distribution(logarithms: Tensor, place: Tensor, width: Tensor) -> Tensor:
    """Weibull distribution function, by the Gumbel distribution of the logarithm."""
    steps = ((logarithms - place) / width).clamp(-700, 700)
    return -torch.expm1(-steps.exp())


@torch.no_grad()
def _fit(train: View, distance: str, tail: int, shift: float) -> _Fitted:
    logits, labels, classes = train.logits.detach(), train.labels, train.logits.shape[1]
    correct = logits.argmax(1).to(labels.device) == labels
    right = torch.bincount(labels[correct], minlength=classes)
    # Correct samples only, except for a class that has none.
    group = torch.where(correct | ((labels >= 0) & (right[labels] == 0)), labels, -1)
    sums = class_sums(logits, group, classes)
    means, known = sums.means, sums.counts > 0
    start = torch.zeros_like(sums.counts)
    most = min(tail, len(train))
    tails = torch.full((classes, most), torch.nan, dtype=torch.float64, device=means.device)
    for which in range(classes):
        if known[which]:
            rows = precise(logits[group == which])
            gaps = _distances(rows, means[which : which + 1], distance)[:, 0]
            largest = gaps.topk(min(most, len(gaps))).values
            start[which] = largest[-1]
            tails[which, : len(largest)] = _shifted(largest, largest[-1], shift)
    place, width = _fit_gumbel(tails)
    return _Fitted(means, start, place, width, known, distance, shift)


def _fit_gumbel(tails: Tensor) -> tuple[Tensor, Tensor]:
    """Maximum likelihood of place and width in 1 - exp(-exp((y - place) / width)), row by row.

    The logarithm of a Weibull variable is such a one. The width solves
    width = sum(y e^(y / width)) / sum(e^(y / width)) - mean(y), whose right side falls in width;
    NaN fills up shorter rows. A row without spread has a width of rounding: a step.
    """
    there = ~tails.isnan()
    count = there.sum(1).clamp_min(1)
    values = torch.where(there, tails, 0.0)
    mean = values.sum(1) / count
    range_ = values.amax(1) - torch.where(there, values, torch.inf).amin(1).clamp(max=1e300)
    smallest = torch.finfo(torch.float64).eps
    low = torch.full_like(mean, smallest)
    high = torch.maximum(range_, low)
    for _ in range(100):
        width = (low + high) / 2
        weights = (values / width[:, None]).masked_fill(~there, -torch.inf).softmax(1)
        weights = torch.where(there, weights, 0.0)
        wanted = (weights * values).sum(1) - mean
        larger = wanted > width
        low, high = torch.where(larger, width, low), torch.where(larger, high, width)
    width = (low + high) / 2
    powers = (values / width[:, None]).masked_fill(~there, -torch.inf)
    place = width * (powers.logsumexp(1) - count.log())
    return torch.where(place.isfinite(), place, 0.0), width
