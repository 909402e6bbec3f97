"""Notice dropout that a forward method calls as a function, without a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class Kind(NamedTuple):
    """What a way of dropping does."""

    channels: bool = False  # whole channels at once
    alpha: bool = False  # to what SELU tends to, in place of 0


FUNCTIONS: dict[Callable[..., Tensor], Kind] = {
    functional.dropout: Kind(),
    torch.dropout: Kind(),
    functional.dropout1d: Kind(channels=True),
    functional.dropout2d: Kind(channels=True),
    functional.dropout3d: Kind(channels=True),
    functional.alpha_dropout: Kind(alpha=True),
    functional.feature_alpha_dropout: Kind(channels=True, alpha=True),
}


class DropoutCalls(TorchFunctionMode):
    """Let ``answer(x, rate, kind)`` stand in for every call of dropout in the block.

    A call counts whether or not it says that it is training: in eval mode none does. What returns
    None is computed as usual.
    """

    def __init__(self, answer: Callable[[Tensor, float, Kind], Tensor | None]) -> None:
        super().__init__()
        self._answer = answer

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # whatever the function returns
        named = dict(kwargs or {})
        if func in FUNCTIONS:
            x, rate = _input_and_rate(*args, **named)
            answer = self._answer(x, rate, FUNCTIONS[func]) if rate > 0 else None
            if answer is not None:
                return answer
        return func(*args, **named)


def _input_and_rate(
    input: Tensor, p: float = 0.5, *_: object, **__: object
) -> tuple[Tensor, float]:
    return input, p
