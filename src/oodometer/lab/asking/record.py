"""The outputs of a classifier on a data set, collected batch by batch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from oodometer.errors import UserError
from oodometer.lab.asking.heads import HeadLayer
from oodometer.lab.asking.probes import Question
from oodometer.lab.asking.subject import Answer
from oodometer.lab.data.inputs import join_labels, size_of
from oodometer.outputs import Head, Outputs, Refusal
from oodometer.outputs.labels import labels_of_outliers


class Record:
    """Collects the answers to batches and puts them together as Outputs."""

    def __init__(self, dataset: str) -> None:
        self.dataset, self.rows = dataset, 0
        self._features: list[Tensor] = []
        self._logits: list[Tensor] = []
        self._labels: list[Tensor] = []
        self._layers: dict[str, list[Tensor]] = {}
        self._probes: dict[str, list[Tensor]] = {}

    def add(self, question: Question, answer: Answer, *, layers: bool) -> None:
        """Keep the answer to a batch, on the CPU."""
        rows = size_of(question.inputs)
        if question.subject.lacking is None:
            self._features.append(answer.features.cpu())
        self._logits.append(answer.logits.cpu())
        labels = question.labels
        self._labels.append(torch.full((rows,), -1) if labels is None else labels)
        if layers:
            for stage, values in question.subject.pooled(answer).items():
                self._layers.setdefault(stage, []).append(values.cpu())
        self.rows += rows

    def add_probe(self, name: str, values: Tensor) -> None:
        """Keep the values of a probe on the same batch; they must be finite."""
        bad = ~values.isfinite().reshape(len(values), -1).all(1)
        if bad.any():
            raise UserError(
                f"Probe '{name}' gives NaN or infinity for {int(bad.sum())} of {len(values)} "
                f"samples of a batch of data set '{self.dataset}'."
            )
        self._probes.setdefault(name, []).append(values.cpu())

    def outputs(
        self,
        head: HeadLayer | None,
        *,
        layers: bool,
        probes: Mapping[str, object],
        refused: Mapping[str, Refusal],
        strict: bool,
    ) -> Outputs:
        """Join the batches; layers and probes only if they were answered on all of them."""
        if not self.rows:
            raise UserError(f"Data set '{self.dataset}' is empty.")
        logits: Tensor | None = torch.cat(self._logits)
        assert logits is not None
        labels = join_labels(self.dataset, self._labels)
        if not strict:  # labels of outlier sets are of other classes
            labels = labels_of_outliers(labels, logits.shape[1])
        kept = torch.float64 if logits.dtype == torch.float64 else torch.float32
        features = None
        if head is not None:
            weight, bias = head.weight_and_bias()
            kept = torch.float64 if weight.dtype == torch.float64 else torch.float32
            features = torch.cat(self._features)
            # In half precision the head's own rounding would look like wrong features: redo it.
            logits = logits if features.dtype == kept else None
            features = features.to(kept)
        try:
            return Outputs(
                logits=None if logits is None else logits.to(kept),
                features=features,
                labels=labels,
                head=None
                if head is None
                else Head(weight.to(kept, copy=True), bias.to(kept, copy=True)),
                layers={
                    stage: torch.cat(parts).to(kept)
                    for stage, parts in self._layers.items()
                    if layers
                },
                probes={
                    name: torch.cat(parts).to(kept)
                    for name, parts in self._probes.items()
                    if name in probes
                },
                refused=dict(refused),
            )
        except UserError as problem:
            raise UserError(f"Data set '{self.dataset}': {problem}") from None
