"""What a probe gets to see: one batch, the classifier, and what its plain forward pass gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from oodometer.errors import UserError
from oodometer.lab.asking.replay import Prefix
from oodometer.lab.asking.subject import Answer, Subject
from oodometer.lab.data.inputs import Batch
from oodometer.outputs import Outputs

State = dict[str, Tensor]  # what a probe learned from the training data


@dataclass(frozen=True)
class Question:
    """One batch. What several probes need of it is computed once: the plain pass, its graph."""

    subject: Subject
    dataset: str
    inputs: Batch  # with gradients on, if they are floats and a probe wants the graph
    labels: Tensor | None
    place: int  # of the first row of this batch in its data set
    answer: Answer  # of the plain forward pass, without gradients
    graph: Answer | None  # the same with gradients, if a probe wants them
    prefix: Prefix | None  # what was computed before the first dropout, if a probe wants it

    def source(self, probe: str) -> tuple[Tensor, Answer]:
        """The inputs and the answer to take gradients of; refuse inputs that have none."""
        assert self.graph is not None, f"probe '{probe}' does not want a graph"
        if not isinstance(self.inputs, Tensor) or not self.inputs.requires_grad:
            raise UserError(
                f"Probe '{probe}' needs the gradient of the inputs: those of data set "
                f"'{self.dataset}' are not one tensor of floats."
            )
        return self.inputs, self.graph

    def again(self, inputs: Batch, *, stages: bool = False) -> Answer:
        """Ask about other inputs; without gradients."""
        return self.subject.ask(self.dataset, inputs, stages=stages)


class Learner(Protocol):
    """Learns from the training data, batch by batch, what a probe needs to know."""

    def see(self, question: Question) -> None:
        """Look at a batch."""

    def learned(self, train: Outputs) -> tuple[State, Tensor | None]:
        """Return what was learned, and the probe's values of the training samples, if any."""


def rows_gradient(values: Tensor, source: Tensor) -> Tensor:
    """Gradient of each row's value by its own row of the source; rows do not touch each other."""
    (gradient,) = torch.autograd.grad(values.sum(), source, retain_graph=True)
    return gradient.detach()


def precise(values: Tensor) -> Tensor:
    """Return the values in float64, which Apple's GPU does not have."""
    return (values.cpu() if values.device.type == "mps" else values).double()
