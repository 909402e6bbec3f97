"""The temperature at which a network's probabilities fit its training labels."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, by_rows, precise
from oodometer.detectors._checks import require_labelled, require_range, require_two_classes
from oodometer.detectors._shared import posterior
from oodometer.outputs import View
from oodometer.registry import Scorer, detector


@detector(
    paper="Guo et al. 2017, arXiv:1706.04599",
    needs={"relative_logits", "labels"},
    grid={"steps": (0,)},
)
def temperature_scaling(train: View, *, steps: int = 0) -> Scorer:
    """Logarithm of one minus the maximum softmax probability of the calibrated network.

    log(1 - max_c softmax(z / T)_c), T the minimum of the mean negative log-likelihood of the
    training labels, found by Newton's method to full precision and limited to 1/100 to 100 times
    the spread of the logits, because a training set without errors would give T = 0. Libraries stop
    early: steps=50 is their 50 steps of L-BFGS at rate 0.01 from T = 1.5, wherever these end, even
    at a negative T (pytorch-ood starts from 1). For a fixed temperature, use
    `odin_without_perturbation`.
    """
    require_range("temperature_scaling", "steps", steps, at_least=0)
    require_two_classes("temperature_scaling", train.relative_logits)
    require_labelled("temperature_scaling", train.labels)
    known = train.labels >= 0
    logits, labels = train.relative_logits.detach(), train.labels
    if not bool(known.all()):
        logits, labels = logits[known], labels[known]
    temperature = (
        _published_temperature(logits, labels, steps)
        if steps
        else _best_temperature(logits, labels)
    )

    def score(logits: Tensor) -> Tensor:
        # Published steps may overshoot zero: then the smallest logit is the likeliest.
        signed = logits if temperature > 0 else -logits
        return posterior(signed, abs(temperature)).log_not_top

    return lambda test: by_rows(
        score, test.relative_logits, numbers_per_row=4 * test.relative_logits.shape[1]
    )


@torch.no_grad()
def _best_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the temperature of the largest likelihood: the loss is convex in 1 / T."""
    classes = logits.shape[1]

    def slopes(coldness: float) -> tuple[float, float]:
        """First and second derivative of the mean loss."""
        first = second = 0.0
        for rows in blocks(len(logits), 6 * classes):
            z = precise(logits[rows])
            z = z - z.amax(1, keepdim=True)
            p = (coldness * z).softmax(1)
            mean = (p * z).sum(1)
            own = z.gather(1, labels[rows].to(z.device)[:, None])[:, 0]
            first += float((mean - own).sum())
            second += float((p * (z - mean[:, None]).square()).sum())
        return first / len(logits), second / len(logits)

    squares = sum(
        float(precise(logits[rows]).sub(precise(logits[rows]).mean(1, keepdim=True)).square().sum())
        for rows in blocks(len(logits), 3 * classes)
    )
    spread = math.sqrt(squares / logits.numel())
    if spread == 0:
        return 1.0  # every class is as likely as any other, at every temperature
    low, high = 0.01 / spread, 100 / spread
    if slopes(high)[0] <= 0:
        return 1 / high
    if slopes(low)[0] >= 0:
        return 1 / low
    coldness = 1 / spread
    for _ in range(100):
        first, second = slopes(coldness)
        low, high = (low, coldness) if first > 0 else (coldness, high)
        step = coldness - first / second if second > 0 else low
        following = step if low < step < high else math.sqrt(low * high)
        if abs(following - coldness) <= 1e-14 * coldness:
            break
        coldness = following
    return 1 / coldness


def _published_temperature(logits: Tensor, labels: Tensor, steps: int) -> float:
    """Return the temperature after `steps` steps of L-BFGS, as published implementations do."""
    z = precise(logits)
    with torch.enable_grad():
        temperature = torch.tensor(1.5, dtype=z.dtype, device=z.device, requires_grad=True)
        optimizer = torch.optim.LBFGS([temperature], lr=0.01, max_iter=steps)

        def loss() -> Tensor:
            optimizer.zero_grad()
            value = torch.nn.functional.cross_entropy(z / temperature, labels.to(z.device))
            value.backward()  # type: ignore[no-untyped-call]
            return value

        optimizer.step(loss)  # type: ignore[no-untyped-call]
    return float(temperature.detach())
