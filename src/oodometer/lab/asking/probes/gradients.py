"""Gradients by the weights, sample by sample."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from oodometer.errors import UserError
from oodometer.lab.asking.forward import record_calls
from oodometer.lab.asking.probes._card import probe
from oodometer.lab.asking.probes._question import Question, State

_BYTES = 256 * 2**20  # for the gradients of several samples at a time


@probe(needs_head=True)
def gradient_uncertainty(question: Question, state: State) -> Tensor:
    """(n,): the length of the gradient by all weights when every class is the target.

    The loss is -sum_c log softmax(z)_c (Lee and AlRegib 2020, arXiv:2008.08030: binary cross
    entropy with a label of all ones). One backward pass, sample by sample.
    """
    inputs = question.inputs
    if not isinstance(inputs, Tensor):
        raise UserError("Probe 'gradient_uncertainty' needs inputs that are one tensor.")
    subject = question.subject
    weights = {name: value.detach() for name, value in subject.model.named_parameters()}
    buffers = {name: value.detach() for name, value in subject.model.named_buffers()}

    def loss(parameters: dict[str, Tensor], row: Tensor) -> Tensor:
        with record_calls([subject.head.layer]) as recorded:
            functional_call(subject.model, (parameters, buffers), (row[None].clone(),))
        ((_, output),) = recorded[subject.head.layer]
        total: Tensor = -subject.head.logits(output).log_softmax(1).sum()
        return total

    def squares(row: Tensor) -> Tensor:
        slopes = grad(loss)(weights, row)
        return torch.stack([slope.double().square().sum() for slope in slopes.values()]).sum()

    per_row = sum(value.numel() * value.element_size() for value in weights.values())
    chunk = max(1, min(len(inputs), _BYTES // max(1, per_row)))
    # The other ways to compute attention cannot be done for many samples at once.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
        # What vmap cannot batch runs sample by sample, which is slow but correct.
        warnings.filterwarnings("ignore", "There is a performance drop")
        rows = inputs.detach()
        try:
            found = vmap(squares, chunk_size=chunk)(rows)
        except RuntimeError:  # an operation that cannot be done for many samples at once
            found = torch.stack([squares(row) for row in rows])
    return found.detach().sqrt()
