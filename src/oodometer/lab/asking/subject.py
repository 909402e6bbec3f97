"""The classifier that is asked: a model, its head and its stages, found in its first answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.asking.forward import call, record_calls
from oodometer.lab.asking.heads import (
    HeadError,
    HeadLayer,
    any_linear_module,
    convolutions,
    head_by_name,
    headless,
    identify_head,
    linear_layers,
    own_logits,
    settled,
)
from oodometer.lab.asking.stages import (
    as_matrix,
    candidates,
    first_tensor,
    names_stages,
    usable,
    with_first,
)
from oodometer.lab.data.inputs import Batch, copied, first_rows, size_of
from oodometer.outputs import log_probabilities, softmax_kind


class StagesError(UserError):
    """The stages of a network cannot be read."""


class Answer:
    """What one forward pass gave: (n, classes), (n, width), and each stage as it came."""

    def __init__(
        self, logits: Tensor, features: Tensor | HeadError, stages: dict[str, Tensor]
    ) -> None:
        self.logits, self.stages = logits, stages
        self._features = features

    @property
    def features(self) -> Tensor:
        """What enters the head; a model without a head is refused here."""
        if isinstance(self._features, HeadError):
            raise self._features
        return self._features

    def detached(self) -> Answer:
        """The same without gradients."""
        features = self._features
        return Answer(
            self.logits.detach(),
            features if isinstance(features, HeadError) else features.detach(),
            {stage: output.detach() for stage, output in self.stages.items()},
        )


class Subject:
    """A model whose head and stages are known after the first question at the latest.

    With `lenient`, a model without a head is asked for its logits alone; `lacking` says why.
    """

    def __init__(
        self,
        model: nn.Module,
        head: str | nn.Module | None = None,
        layers: Sequence[str] | None = None,
        *,
        lenient: bool = False,
    ) -> None:
        self.model = model
        self._head = None if head is None else head_by_name(model, head)
        self._unsettled = head is not None  # whether a named one is all that it seems
        self._lenient = lenient
        self.lacking: HeadError | None = None  # why there is no head
        self._layers = layers
        self._stages: dict[str, nn.Module] | None = None
        self.replays: bool | None = None  # whether a replay gives the true logits, once tried
        if layers is not None:
            candidates(model, None, layers)  # names are refused before anything runs

    @property
    def head(self) -> HeadLayer:
        """The last linear layer."""
        if self.lacking is not None:
            raise self.lacking
        assert self._head is not None, "nothing was asked yet"
        return self._head

    @property
    def stages(self) -> dict[str, nn.Module]:
        """The modules whose outputs are kept, by name."""
        assert self._stages is not None, "no stages were asked for yet"
        return self._stages

    def ask(self, name: str, inputs: Batch, *, stages: bool = False) -> Answer:
        """Run one forward pass on a batch of the data set of this name."""
        if stages and not self._searched and not names_stages(self.model, self._layers):
            self.ask(name, first_rows(inputs, 2))  # which blocks lie before it must be known
        searched, layer = self._searched, self._head.layer if self._head else None
        wanted: dict[str, nn.Module] = {}
        if stages:
            wanted = self._stages or candidates(self.model, layer, self._layers)
        heads = [layer] if layer is not None else [] if searched else linear_layers(self.model)
        with record_calls(heads) as recorded, _keeping(wanted) as kept:
            answer = call(self.model, name, copied(inputs))  # a model may write into its inputs
        if not searched:
            self._head = identify_head(self.model, answer, recorded)
            if self._head is None:
                self._search_head(name, inputs, recorded)
                return self.ask(name, inputs, stages=stages)
        elif self._unsettled and self._head is not None:
            self._head = settled(self._head, recorded.get(self._head.layer, []))
        self._unsettled = False
        rows = size_of(inputs)
        if stages:
            self._settle_stages(wanted, kept, rows, name)
        features: Tensor | HeadError
        if self._head is None:
            assert self.lacking is not None
            features, logits = self.lacking, own_logits(self.model, answer, rows)
            if softmax_kind(logits) == "probabilities":
                logits = log_probabilities(logits)  # probes read them by a softmax
        else:
            features, logits = self._through_head(recorded.get(self._head.layer, []), name, rows)
        outputs = self.stages.items() if stages else ()
        return Answer(logits, features, {stage: _tensor_of(kept[m][0]) for stage, m in outputs})

    @property
    def _searched(self) -> bool:
        """Whether the head is known, or known not to be there."""
        return self._head is not None or self.lacking is not None

    def _search_head(
        self, name: str, inputs: Batch, recorded: dict[nn.Module, list[tuple[Any, Any]]]
    ) -> None:
        """Search the head among the convolutions, then among all modules.

        On a few samples first, since everything recorded is kept in memory.
        """
        found = convolutions(self.model)
        for batch in (first_rows(inputs, 2), inputs):
            with record_calls(found) as further:
                answer = call(self.model, name, copied(batch))
            self._head = identify_head(self.model, answer, further)
            if self._head is None:
                break
            found = [self._head.layer]  # then on all of the batch
        if self._head is None:
            few = first_rows(inputs, 16)
            with record_calls(self.model.modules()) as everything:
                answer = call(self.model, name, copied(few))
            self._head = any_linear_module(answer, everything)
        if self._head is None:
            self.lacking = headless(self.model, recorded)
            if not self._lenient:
                raise self.lacking

    def _through_head(
        self, calls: list[tuple[Tensor, Any]], name: str, rows: int
    ) -> tuple[Tensor, Tensor]:
        if len(calls) != 1:
            raise UserError(
                f"The head runs {len(calls)} times in one forward pass on '{name}'; it must "
                "run once, on one feature vector per sample."
            )
        given, output = calls[0]
        features, logits = self.head.features(given), self.head.logits(output)
        if features.dim() != 2 or len(features) != rows:
            raise UserError(
                f"The head takes features of shape {tuple(features.shape)} for {rows} samples "
                f"of '{name}'; it must take one vector per sample, ({rows}, width)."
            )
        return features, logits

    def _settle_stages(
        self,
        wanted: dict[str, nn.Module],
        kept: dict[nn.Module, list[object]],
        rows: int,
        name: str,
    ) -> None:
        """Keep the candidates that gave what a stage gives; refuse one that the user named."""
        layer = self._head.layer if self._head else None
        good = {
            stage: module
            for stage, module in wanted.items()
            if usable(kept, module, rows) and all(part is not layer for part in module.modules())
        }
        bad = [stage for stage in wanted if stage not in good]
        found_by_itself = self._stages is None and self._layers is None
        if bad and not found_by_itself:
            raise StagesError(
                f"Layer '{bad[0]}' of {type(self.model).__name__} cannot be read on '{name}': a "
                "layer must run once in a forward pass, before the head, and give floats, one row "
                "per sample."
            )
        if not good:
            raise StagesError(
                f"No part of {type(self.model).__name__} can be read as a layer: name some of its "
                "modules, extract(..., layers=['...'])."
            )
        self._stages = good if self._stages is None else self._stages

    def matrices(self, answer: Answer) -> dict[str, Tensor]:
        """Every stage as (n, channels, positions)."""
        return {
            stage: as_matrix(output, self.stages[stage]) for stage, output in answer.stages.items()
        }

    def pooled(self, answer: Answer) -> dict[str, Tensor]:
        """Every stage as (n, channels): the mean over positions."""
        return {stage: matrix.mean(2) for stage, matrix in self.matrices(answer).items()}


def _tensor_of(output: object) -> Tensor:
    tensor = first_tensor(output)
    assert tensor is not None  # `usable` has checked it
    return tensor


@contextmanager
def _keeping(modules: dict[str, nn.Module]) -> Iterator[dict[nn.Module, list[object]]]:
    """Keep what these modules give and hand on a copy: what comes next may write into it."""
    kept: dict[nn.Module, list[object]] = {}

    def keep(module: nn.Module, inputs: object, output: object) -> object:
        tensor = first_tensor(output)
        if tensor is None:
            kept.setdefault(module, []).append(output)
            return None
        if torch.is_grad_enabled() and tensor.is_floating_point() and not tensor.requires_grad:
            tensor = tensor.detach().requires_grad_()  # frozen weights: gradients begin here
        kept.setdefault(module, []).append(tensor)
        return with_first(output, tensor.clone())

    with ExitStack() as stack:
        for module in modules.values():
            stack.callback(module.register_forward_hook(keep).remove)
        yield kept
