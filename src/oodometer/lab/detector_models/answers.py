"""Ask a trained detector model about a data set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from oodometer.errors import NotFiniteError, UserError
from oodometer.lab.asking.forward import evaluation_mode
from oodometer.lab.asking.layout import fast_layout, give_up
from oodometer.lab.data.inputs import copied, moved
from oodometer.lab.data.samples import Samples
from oodometer.lab.detector_models.cards import DetectorModel

_MOST_ROWS, _MOST_NUMBERS = 256, 256 * 3 * 32 * 32  # in a batch


def answers_of(card: DetectorModel, model: nn.Module, samples: Samples) -> Tensor:
    """One row per sample, (n, ...): what the model answers, in eval mode.

    Whatever it draws, it draws from the same seed, and the global random state is left alone.
    """
    with opened_model(card, model) as ask, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        batches = samples.batches(rows_at_once(samples.shape))
        rows = [ask(torch.from_numpy(values), samples.name) for values, _ in batches]
    shapes = {tuple(part.shape[1:]) for part in rows}
    if len(shapes) > 1:
        raise UserError(
            f"Model '{card.name}' must answer every batch of '{samples.name}' with rows of one "
            f"shape, got {' and '.join(map(str, sorted(shapes)))}."
        )
    return torch.cat(rows)


@contextmanager
def opened_model(
    card: DetectorModel, model: nn.Module
) -> Iterator[Callable[[Tensor, str], Tensor]]:
    """A model that stays open, in eval mode: a function of inputs and the name of their data set.

    What it draws depends on the global random state.
    """
    with evaluation_mode(model, None) as (place, dtype), fast_layout(model):

        def ask(inputs: Tensor, name: str) -> Tensor:
            # A copy: a model may work in place, and the data belong to other runs, too.
            own = copied(moved(name, inputs, place, dtype))
            assert isinstance(own, Tensor)
            with torch.set_grad_enabled(card.gradients):
                return _checked(card, _answer(card, model, own), len(inputs), name)

        yield ask


def rows_at_once(shape: tuple[int, ...]) -> int:
    """How many inputs are asked about together: fewer if they are large, to bound the memory."""
    return max(8, min(_MOST_ROWS, _MOST_NUMBERS // math.prod(shape)))


def draw_samples(card: DetectorModel, model: nn.Module, count: int, seed: int) -> Tensor:
    """Images that a generative model draws, (count, channels, height, width) in [0, 1]."""
    assert card.samples is not None
    generator = torch.Generator().manual_seed(seed)
    with (
        evaluation_mode(model, None),
        torch.random.fork_rng(devices=[]),
        torch.set_grad_enabled(card.gradients),
    ):
        torch.manual_seed(seed)
        images = card.samples(model, count, generator)
    if not isinstance(images, Tensor) or images.dim() != 4 or len(images) != count:
        shape = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
        raise UserError(
            f"Samples of model '{card.name}' must have shape ({count}, channels, height, width), "
            f"got {shape}."
        )
    return images.detach().to("cpu", torch.float32).nan_to_num(0.0).clamp(0, 1)


def _answer(card: DetectorModel, model: nn.Module, inputs: Tensor) -> object:
    try:
        return card.answer(model, inputs)
    except RuntimeError:  # it may not work with the fast layout, because it reshapes with `view`
        if not give_up(model):
            raise
        return card.answer(model, inputs)


def _checked(card: DetectorModel, answer: object, rows: int, name: str) -> Tensor:
    """Return an answer as floats; refuse what is not one finite row per sample."""
    wanted = f"Model '{card.name}' must answer {rows} inputs of '{name}' with one row each"
    if not isinstance(answer, Tensor):
        raise UserError(f"{wanted}, a tensor of shape ({rows}, ...), got {type(answer).__name__}.")
    if answer.dim() < 1 or len(answer) != rows:
        raise UserError(f"{wanted}, shape ({rows}, ...), got shape {tuple(answer.shape)}.")
    values = answer.detach().to("cpu", torch.float32)
    bad = ~values.isfinite().reshape(rows, -1).all(1)
    if bad.any():
        lacking = bad.nonzero()[:, 0].tolist()
        raise NotFiniteError(
            f"{wanted}, but {len(lacking)} of them hold NaN or infinity, the first at row "
            f"{lacking[0]}.",
            lacking,
        )
    return values
