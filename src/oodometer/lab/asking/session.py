"""An open classifier: ask it about one batch after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from oodometer.errors import UserError
from oodometer.lab.asking.forward import as_written, evaluation_mode
from oodometer.lab.asking.heads import scripted
from oodometer.lab.asking.layout import fast_layout
from oodometer.lab.asking.probes import Learner, Question, dropouts
from oodometer.lab.asking.record import Record
from oodometer.lab.asking.replay import Prefix
from oodometer.lab.asking.request import Needs, Request
from oodometer.lab.asking.subject import StagesError, Subject
from oodometer.lab.data.inputs import (
    Batch,
    Data,
    batches_of,
    moved,
    positional_names,
    split_batch,
)
from oodometer.outputs import Outputs

_PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)


class Session:
    """A classifier that stays open: its head and stages are found once, at the first batch.

    ``ask`` answers about a batch, ``read`` about a data set. Until the session is closed, the model
    is in eval mode, on `device`, with its convolutions in the fastest memory layout; afterwards
    its modes, hooks, buffers, layout and gradients are exactly what they were. The global random
    state is never touched. The arguments are those of `extract`; `train` is the training set,
    which is read when a probe that learns from it is first asked for, and `train_name` what errors
    call it.

    >>> with Session(torch.nn.Linear(4, 3)) as session:
    ...     session.ask(torch.zeros(2, 4)).logits.shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        needs: Needs = (),
        train: Data | None = None,
        layers: Sequence[str] | None = None,
        head: str | nn.Module | None = None,
        batch_size: int = 64,
        device: torch.device | str | None = None,
        lenient: bool = False,
        train_name: str = "train",
    ) -> None:
        if not isinstance(model, nn.Module):
            raise UserError(f"extract needs a torch.nn.Module, got {type(model).__name__}.")
        if not isinstance(batch_size, int) or batch_size < 1:
            raise UserError(f"batch_size must be a whole number of at least 1, got {batch_size!r}.")
        self._request = Request.parse(needs, lenient=lenient)
        self._train, self._train_name, self._batch_size = train, train_name, batch_size
        self._learned = False
        if train is None:
            self._request.refuse_training(train_name)
        model, head, layers = _without_parallel(model, head, layers)
        if any(part.is_meta for part in (*model.parameters(), *model.buffers())):
            raise UserError(
                "The model is on the device 'meta' and has no weights: make it on the CPU, or load "
                "weights into it by model.to_empty(device='cpu') and load_state_dict."
            )
        if isinstance(model, torch.jit.ScriptModule):
            raise scripted()
        if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
            self._request.refuse_all(scripted())
        self._subject = Subject(model, head, layers, lenient=self._request.lenient)
        self._names = positional_names(model)
        self._random_state = torch.get_rng_state()
        with ExitStack() as opened:
            self._place, self._dtype = opened.enter_context(evaluation_mode(model, device))
            unmade = any(map(is_lazy, model.parameters()))
            if self._place.type == "cpu" and not unmade:
                opened.enter_context(fast_layout(model))
            self._opened: ExitStack | None = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the model as it was; a closed session cannot be asked."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def ask(self, batch: object, *, gradients: bool = False, name: str = "batch") -> Outputs:
        """Return what the classifier says about one batch, in one forward pass.

        A batch is what a data loader yields: inputs, a pair (inputs, labels), or a mapping. With
        `gradients`, logits, features and layers keep their graph to inputs that require a
        gradient, and to these alone: ``backward`` leaves no gradients in the model.
        """
        if self._request.learning() and not self._learned:
            self.learn()
        inputs, labels = split_batch(name, batch, self._names)
        record = Record(name)
        with self._asking():
            self._answer(record, inputs, labels, gradients=gradients)
            with torch.set_grad_enabled(gradients):
                return self._outputs(record, strict=self._train is None)

    def read(self, name: str, data: Data) -> Outputs:
        """Return what the classifier says about a data set, in one pass over it."""
        if self._request.learning() and not self._learned:
            self.learn()
        record = Record(name)
        with self._asking():
            for inputs, labels in batches_of(name, data, self._batch_size, self._names):
                self._answer(record, inputs, labels)
            return self._outputs(record, strict=self._train is None)

    def learn(self) -> Outputs:
        """Read the training set: return its outputs, and keep what probes learn from it."""
        if self._train is None:
            raise UserError(f"There is no data set '{self._train_name}' to learn from.")
        request, record = self._request, Record(self._train_name)
        learners: dict[str, Learner] = {
            name: probe.learner() for name, probe in request.learning().items() if probe.learner
        }
        batches = batches_of(self._train_name, self._train, self._batch_size, self._names)
        with self._asking():
            for inputs, labels in batches:
                self._answer(record, inputs, labels, learners=learners)
            outputs = self._outputs(record, strict=True)
            for name in [name for name in learners if name in request.probes]:
                try:
                    request.states[name], own = learners[name].learned(outputs)
                except UserError as problem:
                    request.refuse(name, problem)
                    continue
                if own is not None:
                    assert outputs.logits is not None
                    own = own.to(outputs.logits.dtype)
                    outputs = replace(outputs, probes={**outputs.probes, name: own})
        self._learned = True
        return outputs.refusing(request.refused)

    def _answer(
        self,
        record: Record,
        inputs: Batch,
        labels: Tensor | None,
        *,
        gradients: bool = False,
        learners: dict[str, Learner] | None = None,
    ) -> None:
        """Ask about a batch and record what the model and the probes say."""
        request, subject = self._request, self._subject
        inputs = moved(record.dataset, inputs, self._place, self._dtype)
        question = self._question(record, inputs, labels, gradients=gradients)
        if subject.lacking is not None:
            request.refuse_head(subject.lacking)
        for name, learner in (learners or {}).items():
            if name in request.probes:
                with request.blaming(name, record.dataset):
                    learner.see(question)
        asked = request.asked_of(training=learners is not None)
        answer = question.graph if gradients and question.graph is not None else question.answer
        with torch.set_grad_enabled(gradients):
            record.add(question, answer, layers=request.layers)
        for name, probe in asked.items():
            with request.blaming(name, record.dataset):
                record.add_probe(name, probe.ask(question, request.states.get(name, {})))

    def _question(
        self, record: Record, inputs: Batch, labels: Tensor | None, *, gradients: bool
    ) -> Question:
        """Run the one forward pass that all share; with a graph and with a record, if wanted."""
        request, subject = self._request, self._subject
        wants = request.wants
        graph = gradients or "graph" in wants
        prefix = Prefix(subject.model, dropouts(subject.model)) if "prefix" in wants else None
        with ExitStack() as stack:
            if graph:
                stack.enter_context(torch.enable_grad())
                inputs = _with_gradient(inputs, keep=gradients)
            if gradients:
                stack.enter_context(_frozen(subject.model))
            if prefix is not None:
                stack.enter_context(prefix.recording())
            try:
                answer = subject.ask(record.dataset, inputs, stages=request.stages)
            except StagesError as problem:
                request.refuse_layers(problem)
                return self._question(record, inputs, labels, gradients=gradients)
        return Question(
            subject=subject,
            dataset=record.dataset,
            inputs=inputs,
            labels=labels,
            place=record.rows,
            answer=answer.detached(),
            graph=answer if graph else None,
            prefix=prefix,
        )

    def _outputs(self, record: Record, *, strict: bool) -> Outputs:
        head = self._subject.head if record.rows and self._subject.lacking is None else None
        request = self._request
        return record.outputs(
            head,
            layers=request.layers,
            probes=request.probes,
            refused=request.refused,
            strict=strict,
        )

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Run without gradients and with random numbers of the session's own."""
        if self._opened is None:
            raise UserError("This session is closed: open another one to ask the model.")
        outside = torch.get_rng_state()
        torch.set_rng_state(self._random_state)
        try:
            # What is made in inference mode can never have gradients.
            with torch.inference_mode(False), torch.no_grad(), as_written(self._subject.model):
                yield
        finally:
            self._random_state = torch.get_rng_state()
            torch.set_rng_state(outside)


def _without_parallel(
    model: nn.Module, head: str | nn.Module | None, layers: Sequence[str] | None
) -> tuple[nn.Module, str | nn.Module | None, Sequence[str] | None]:
    """Unwrap models that run copies on several devices, which do not support forward hooks."""
    while isinstance(model, _PARALLEL):
        model = model.module
        head = head.removeprefix("module.") if isinstance(head, str) else head
        if layers is not None and not isinstance(layers, str):
            layers = [name.removeprefix("module.") for name in layers]
    return model, head, layers


def _with_gradient(inputs: Batch, *, keep: bool) -> Batch:
    """Inputs to take gradients of: the caller's, if they are to be kept, or a copy."""
    if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
        return inputs
    if keep and inputs.requires_grad:
        return inputs
    return inputs.detach().clone().requires_grad_()


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """Build a graph to the inputs alone: gradients reach no parameter."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
