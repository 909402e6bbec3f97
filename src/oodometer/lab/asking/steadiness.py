"""Whether a classifier says the same of an input every time, and whatever stands beside it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.asking.session import Session
from oodometer.lab.data.inputs import Data, batches_of, first_rows, positional_names, size_of

_ROWS = 32
_SHARE = 1e-3  # of the range of the logits: rounding in deep networks stays far below it


def unsteadiness(
    model: nn.Module,
    data: Data,
    *,
    head: str | nn.Module | None = None,
    device: torch.device | str | None = None,
) -> dict[str, float]:
    """Ask about the first inputs twice ("passes") and in two halves ("batches").

    Return by how much the logits differ, as a share of their range, where rounding does not explain
    it; nothing for a steady model.
    """
    batches = batches_of("data", data, _ROWS, positional_names(model))
    with torch.random.fork_rng(devices=[]):  # a loader that shuffles
        inputs = first_rows(next(iter(batches))[0], _ROWS)
    with Session(model, head=head, device=device, lenient=True) as session:

        def logits(start: int, stop: int) -> Tensor:
            part = (
                inputs[start:stop]
                if isinstance(inputs, Tensor)
                else {name: values[start:stop] for name, values in inputs.items()}
            )
            answer = session.ask(part).logits
            assert answer is not None  # of a model there always are some
            return answer.double()

        rows = size_of(inputs)
        first = logits(0, rows)
        gaps = {"passes": _gap(first, logits(0, rows), model)}
        if rows > 1 and not gaps["passes"]:
            try:
                halves = torch.cat([logits(0, rows // 2), logits(rows // 2, rows)])
            except UserError:  # it takes batches of one size only
                return {}
            gaps["batches"] = _gap(first, halves, model)
    return {kind: gap for kind, gap in gaps.items() if gap}


def _gap(first: Tensor, second: Tensor, model: nn.Module) -> float:
    """The largest difference as a share of the range; 0 if rounding explains it."""
    gap = float((first - second).abs().max())
    floats = (part.dtype for part in model.parameters() if part.is_floating_point())
    rounding = 8 * torch.finfo(next(floats, torch.float32)).eps * float(first.abs().max())
    spread = float(first.max() - first.min())
    return gap / max(spread, gap) if gap > _SHARE * spread + rounding else 0.0
