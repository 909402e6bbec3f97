"""Optimizers by name, with the settings of Keras where the studies of optimizers used Keras.

The update rules are PyTorch's; ``tests/test_train.py`` writes each of them out. Keras differs from
them in the last digits only, by where the small number in the denominator stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import nn
from torch.optim import Optimizer

from oodometer.errors import UserError
from oodometer.lab.options import choose

Parameters = Iterable[nn.Parameter] | Iterable[dict[str, list[nn.Parameter]]]  # or groups of them


def sgd(
    parameters: Parameters,
    rate: float,
    decay: float,
    *,
    momentum: float = 0.0,
    nesterov: bool = False,
) -> Optimizer:
    """Gradient descent on batches."""
    return torch.optim.SGD(parameters, rate, momentum, weight_decay=decay, nesterov=nesterov)


def sgd_momentum(
    parameters: Parameters, rate: float, decay: float, *, momentum: float = 0.9
) -> Optimizer:
    """Gradient descent with momentum."""
    return sgd(parameters, rate, decay, momentum=momentum)


def sgd_nesterov(
    parameters: Parameters, rate: float, decay: float, *, momentum: float = 0.9
) -> Optimizer:
    """Gradient descent with Nesterov's momentum."""
    return sgd(parameters, rate, decay, momentum=momentum, nesterov=True)


def adam(
    parameters: Parameters,
    rate: float,
    decay: float,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-7,
) -> Optimizer:
    """Kingma and Ba 2015, arXiv:1412.6980."""
    return torch.optim.Adam(parameters, rate, (beta1, beta2), epsilon, weight_decay=decay)


def adamw(
    parameters: Parameters,
    rate: float,
    decay: float,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> Optimizer:
    """Adam whose weight decay acts on the weights, not on the gradient. arXiv:1711.05101."""
    return torch.optim.AdamW(parameters, rate, (beta1, beta2), epsilon, weight_decay=decay)


def adamax(
    parameters: Parameters,
    rate: float,
    decay: float,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-7,
) -> Optimizer:
    """Adam with the maximum norm. Kingma and Ba 2015, section 7.1."""
    return torch.optim.Adamax(parameters, rate, (beta1, beta2), epsilon, weight_decay=decay)


def nadam(
    parameters: Parameters,
    rate: float,
    decay: float,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-7,
    schedule_decay: float = 0.004,
) -> Optimizer:
    """Adam with Nesterov's momentum, mu_t = beta1 (1 - 0.96^(t schedule_decay) / 2). Dozat 2016.

    Keras 3 has no schedule_decay any more: it takes 1 for it, up to version 2 it was 0.004.
    """
    return torch.optim.NAdam(
        parameters,
        rate,
        (beta1, beta2),
        epsilon,
        weight_decay=decay,
        momentum_decay=schedule_decay,
    )


def rmsprop(
    parameters: Parameters, rate: float, decay: float, *, rho: float = 0.9, epsilon: float = 1e-7
) -> Optimizer:
    """Gradient over sqrt(v) + epsilon; v is the running mean of its square. Hinton 2012.

    So did Keras 2; Keras 3 divides by sqrt(v + epsilon).
    """
    return torch.optim.RMSprop(parameters, rate, rho, epsilon, weight_decay=decay)


def adagrad(
    parameters: Parameters,
    rate: float,
    decay: float,
    *,
    initial: float = 0.1,
    epsilon: float = 1e-7,
) -> Optimizer:
    """Gradient over the root of the sum of its squares, which starts at `initial`. Duchi 2011."""
    return torch.optim.Adagrad(
        parameters, rate, weight_decay=decay, initial_accumulator_value=initial, eps=epsilon
    )


def adadelta(
    parameters: Parameters, rate: float, decay: float, *, rho: float = 0.95, epsilon: float = 1e-7
) -> Optimizer:
    """Zeiler 2012, arXiv:1212.5701, times a learning rate."""
    return torch.optim.Adadelta(parameters, rate, rho, epsilon, decay)


class _Lars(torch.optim.SGD):
    def __init__(
        self, parameters: Parameters, rate: float, decay: float, momentum: float, trust: float
    ) -> None:
        super().__init__(parameters, rate, momentum)
        self._decay, self._trust = decay, trust

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._scale(parameter, parameter.grad)
        super().step(closure)

    def _scale(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        size, slope = parameter.norm(), gradient.norm()
        gradient.add_(parameter, alpha=self._decay)
        ratio = self._trust * size / (slope + self._decay * size + 1e-8)
        gradient.mul_(torch.where((size > 0) & (slope > 0), ratio, 1.0))


def lars(
    parameters: Parameters,
    rate: float,
    decay: float,
    *,
    momentum: float = 0.9,
    trust: float = 0.001,
) -> Optimizer:
    """Gradient descent with momentum, steps in proportion to each tensor's norm. arXiv:1708.03888.

    The gradient with weight decay is scaled by trust |w| / (|g| + decay |w|); where either norm is
    0, it stays as it is.
    """
    return _Lars(parameters, rate, decay, momentum, trust)


OPTIMIZERS: Mapping[str, Callable[..., Optimizer]] = {
    make.__name__: make
    for make in (
        sgd, sgd_momentum, sgd_nesterov, adam, adamw, adamax, nadam, rmsprop, adagrad, adadelta,
        lars,
    )
}  # fmt: skip

# Learning rates unless the study gives one; those that are not named here take 1e-3.
_USUAL = {
    "sgd": 1e-2, "sgd_momentum": 1e-2, "sgd_nesterov": 1e-2, "adagrad": 1e-2, "adadelta": 0.1,
    "lars": 1.0,
}  # fmt: skip


def usual_rate(text: str) -> float:
    """Return the learning rate of an optimizer for which the study gives none."""
    return _USUAL.get(text.partition("(")[0].strip(), 1e-3)


def make_optimizer(text: str, parameters: Parameters, rate: float, decay: float) -> Optimizer:
    """Build the optimizer that a text names, such as ``adam`` or ``sgd(momentum=0.9)``.

    `decay` times the weights is added to the gradient; ``adamw`` shrinks the weights by it instead.
    """
    make = choose("optimizer", text, OPTIMIZERS)
    try:
        return make(parameters, rate, decay)
    except UserError:
        raise
    except ValueError as problem:  # PyTorch's own check of ranges
        raise UserError(f"Optimizer '{text}' cannot be made: {problem}.") from None
