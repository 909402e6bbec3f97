"""Extract logits, features, layers and probes of any classifier on any data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import nn

from oodometer.errors import UserError
from oodometer.lab.asking.session import Session
from oodometer.lab.data.inputs import Data
from oodometer.outputs import Outputs


def extract(
    model: nn.Module,
    datasets: Mapping[str, Data],
    *,
    needs: Literal["all"] | Iterable[str] = (),
    train: str = "train",
    layers: Sequence[str] | None = None,
    head: str | nn.Module | None = None,
    batch_size: int = 64,
    device: torch.device | str | None = None,
    lenient: bool = False,
) -> dict[str, Outputs]:
    """Return the outputs of a classifier on each data set, in one pass over each.

    A data set is an array or tensor of inputs, a pair (inputs, labels), a mapping as tokenizers
    return it (with "labels", if there are any), a map-style data set, or a DataLoader, whose
    batches may be mappings, too, or ((first, second), labels). Samples
    without a label get -1; if there is a set called `train`, so do samples of other sets whose
    label is not one of the classifier's. `head` is the last linear layer or its name; by default
    it is found automatically, including anything equivalent to a linear layer. The model runs in
    eval mode without gradients, on `device` (default: where it is), and is left exactly as it was.

    `needs` asks for more than logits, features, labels and head: "layers", the mean output of
    every stage, and probes such as "probe:odin", which take extra passes;
    ``oodometer.needs_of(detectors)`` lists what detectors need. "all" is everything that this model
    and these data allow, except for probes that are only used by name because of their cost
    ("probe:odin_fine"); ``outputs.refused`` gives the reason for whatever is missing. `lenient`
    does the same for needs that are named, and for features and head of a model without a linear
    head. `train` is the training set, which some probes learn from. `layers` names modules, in
    place of the stages that are found automatically.
    """
    if not isinstance(datasets, Mapping) or not datasets:
        got = "an empty one" if isinstance(datasets, Mapping) else type(datasets).__name__
        raise UserError(
            "extract needs a mapping from names to data sets, such as {'train': train, 'test': "
            f"test}}; got {got}."
        )
    with Session(
        model,
        needs=needs,
        train=datasets.get(train),
        layers=layers,
        head=head,
        batch_size=batch_size,
        device=device,
        lenient=lenient,
        train_name=train,
    ) as session:
        # The training set first: some probes learn from it.
        outputs = {train: session.learn()} if train in datasets else {}
        for name in datasets:
            if name != train:
                outputs[name] = session.read(name, datasets[name])
    return {name: outputs[name] for name in datasets}


@contextmanager
def stem_relu_skipped(model: nn.Module) -> Iterator[None]:
    """Skip the ReLU after the first layers, as one published extractor did by mistake.

    It chained a network's child modules and so missed a ReLU that was called as a function: its
    features are those of a network that was never trained.
    """
    relu = dict(model.named_modules()).get("stem.relu")
    if relu is None:
        raise UserError(
            "features 'skip_stem_relu' needs a network with a ReLU in its stem, such as resnet18; "
            f"{type(model).__name__} has none."
        )
    hook = relu.register_forward_hook(lambda _, inputs, output: inputs[0])
    try:
        yield
    finally:
        hook.remove()
