"""Ask a trained detector model about a data set."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.asking.forward import evaluation_mode
from oodometer.lab.asking.layout import fast_layout, give_up
from oodometer.lab.data.inputs import copied, moved
from oodometer.lab.data.samples import Samples
from oodometer.lab.detector_models.cards import DetectorModel


def answers_of(card: DetectorModel, model: nn.Module, samples: Samples) -> Tensor:
    """One row per sample, (n, ...): what the model answers, in eval mode and without gradients.

    Whatever it draws, it draws from the same seed, and the global random state is left alone.
    """
    rows = []
    with (
        evaluation_mode(model, None) as (place, dtype),
        fast_layout(model),
        torch.random.fork_rng(devices=[]),
        torch.no_grad(),
    ):
        torch.manual_seed(0)
        for values, _ in samples.batches():
            # A copy: a model may work in place, and the data belong to other runs, too.
            inputs = copied(moved(samples.name, torch.from_numpy(values), place, dtype))
            assert isinstance(inputs, Tensor)
            rows.append(_checked(card, _answer(card, model, inputs), len(values), samples.name))
    shapes = {tuple(part.shape[1:]) for part in rows}
    if len(shapes) > 1:
        raise UserError(
            f"Model '{card.name}' must answer every batch of '{samples.name}' with rows of one "
            f"shape, got {' and '.join(map(str, sorted(shapes)))}."
        )
    return torch.cat(rows)


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
        raise UserError(
            f"{wanted}, but {int(bad.sum())} of them hold NaN or infinity, the first at row "
            f"{int(bad.nonzero()[0])}."
        )
    return values
