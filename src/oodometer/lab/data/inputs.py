"""Whatever form a user's data have, as batches for a model."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oodometer.errors import UserError, describe


@runtime_checkable
class Rows(Protocol):
    """A map-style data set: ``len(data)`` samples, each an input or an (input, label) pair."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> object: ...


Array: TypeAlias = Tensor | NDArray[Any]
# Inputs, (inputs, labels), both by name, a map-style data set, or a loader of batches of either.
Data: TypeAlias = Array | tuple[Array, Array] | Mapping[str, Array] | Rows | Iterable[Any]
Batch: TypeAlias = Tensor | Mapping[str, Tensor]
_LABELS = ("labels", "label", "targets", "target")  # what mappings call them


def batches_of(
    name: str, data: Data, size: int, names: Sequence[str] = ()
) -> Iterator[tuple[Batch, Tensor | None]]:
    """Yield (inputs, labels or None) from whatever form the data have.

    `names` are those of the model's parameters: several inputs in a row are given by name.
    """
    if isinstance(data, Mapping):  # what a tokenizer returns
        yield from _slices(*_of_equal_length(name, *split_batch(name, data, names)), size)
    elif isinstance(data, tuple) and len(data) == 2 and _is_array(data[0]):
        yield from _slices(*_labelled(name, *data), size)
    elif _is_array(data):
        yield from _slices(_tensor(name, data), None, size)
    elif _is_data_set(data):
        yield from (split_batch(name, batch, names) for batch in _loader(name, data, size))
    elif isinstance(data, Iterable) and not isinstance(data, str):
        yield from (split_batch(name, batch, names) for batch in data)
    else:
        raise UserError(
            f"Data set '{name}' is a {type(data).__name__}; allowed are arrays, tensors, (inputs, "
            "labels) pairs, mappings of them, map-style data sets and loaders."
        )


def _labelled(name: str, inputs: object, labels: object) -> tuple[Tensor, Tensor]:
    if not _is_array(labels):
        raise UserError(
            f"Labels of data set '{name}' must be an array or tensor of numbers, got "
            f"{_form(labels)}; leave them out if there are none."
        )
    pair = _tensor(name, inputs), _tensor(name, labels)
    if len(pair[0]) != len(pair[1]):
        raise UserError(f"Data set '{name}' has {len(pair[0])} inputs but {len(pair[1])} labels.")
    return pair


def _form(value: object) -> str:
    """A type; of an array, also that of its elements, such as <U1 for text."""
    if isinstance(value, np.ndarray):
        first = f", such as '{value.flat[0]}'" if value.size else ""
        return f"an array of {value.dtype}{first}"
    return type(value).__name__


def _slices(
    inputs: Batch, labels: Tensor | None, size: int
) -> Iterator[tuple[Batch, Tensor | None]]:
    count = len(inputs) if isinstance(inputs, Tensor) else len(next(iter(inputs.values())))
    for start in range(0, count, size):
        rows = slice(start, start + size)
        some = (
            inputs[rows]
            if isinstance(inputs, Tensor)
            else {key: value[rows] for key, value in inputs.items()}
        )
        yield some, None if labels is None else labels[rows]


def _of_equal_length(
    name: str, inputs: Batch, labels: Tensor | None
) -> tuple[Batch, Tensor | None]:
    """Refuse inputs by name that are not as many as each other, or not as many as the labels."""
    named = {"inputs": inputs} if isinstance(inputs, Tensor) else inputs
    parts = named if labels is None else {**named, "labels": labels}
    counts = {key: len(part) if part.ndim else 0 for key, part in parts.items()}
    if not named or len(set(counts.values())) > 1:
        found = ", ".join(f"{key}: {count}" for key, count in counts.items()) or "none"
        raise UserError(
            f"Data set '{name}' must have as many rows in each of its tensors, got {found}."
        )
    return inputs, labels


def _is_data_set(data: object) -> bool:
    """Whether data yield samples, which must be put into batches; loaders yield batches."""
    if isinstance(data, torch.utils.data.DataLoader):
        return False
    if isinstance(data, list | tuple | dict | str):
        return _are_samples(data)
    return isinstance(data, torch.utils.data.IterableDataset | Rows)


def positional_names(model: torch.nn.Module) -> list[str]:
    """What a model calls the inputs that it takes one after the other."""
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):  # TorchScript tells nothing
        return []
    return [parameter.name for parameter in parameters if parameter.kind in by_name]


def _are_samples(data: object) -> bool:
    """Tell a list of samples, each with its label, from a list of batches."""
    first = data[0] if isinstance(data, list | tuple) and data else None
    if not isinstance(first, list | tuple) or len(first) != 2 or not _is_array(first[0]):
        return False
    return isinstance(first[1], int | np.integer) or (
        isinstance(first[1], Tensor | np.ndarray) and first[1].ndim == 0
    )


def _loader(name: str, data: object, size: int) -> Iterator[object]:
    """Batch the samples of a data set; the global random state is left alone."""
    # Without a generator of its own, a loader draws a seed from the global one.
    quiet = torch.Generator().manual_seed(0)
    loader: torch.utils.data.DataLoader[object] = torch.utils.data.DataLoader(
        cast("torch.utils.data.Dataset[object]", data), batch_size=size, generator=quiet
    )
    try:
        yield from loader
    except (TypeError, ValueError, RuntimeError, KeyError) as problem:
        raise UserError(
            f"The samples of data set '{name}' cannot be put into batches: {describe(problem)}"
        ) from problem


def split_batch(name: str, batch: object, names: Sequence[str]) -> tuple[Batch, Tensor | None]:
    """Tell inputs from labels in what a loader yields."""
    if isinstance(batch, Mapping):
        # File names and the like are for people, not for the model.
        inputs = {key: _tensor(name, value) for key, value in batch.items() if _is_array(value)}
        label_key = next((key for key in _LABELS if key in inputs), None)
        labels = None if label_key is None else inputs.pop(label_key)
        if len(inputs) == 1 and names and not set(inputs).intersection(names):
            return next(iter(inputs.values())), labels  # "image": the model calls it otherwise
        return inputs, labels
    if isinstance(batch, list | tuple):
        if len(batch) == 2 and _are_arrays(batch[0]):
            return _several_inputs(name, batch[0], batch[1], names)
        if len(batch) > 1 and all(map(_is_array, batch[:2])):
            return _inputs_and_labels(name, batch)
        batch = batch[0] if len(batch) == 1 else batch
    if not _is_array(batch):
        raise UserError(
            f"Data set '{name}' yields {type(batch).__name__}; a batch must be a tensor, a pair "
            "(inputs, labels) or a mapping of tensors."
        )
    return _tensor(name, batch), None


def _several_inputs(
    name: str, inputs: Sequence[object], labels: object, names: Sequence[str]
) -> tuple[Batch, Tensor]:
    """Name the inputs of a batch ((first, second), labels) as the model calls them."""
    if len(inputs) > len(names) or not _is_array(labels):
        raise UserError(
            f"Data set '{name}' yields {len(inputs)} inputs at a time, but the model takes "
            f"{', '.join(names) or 'none by name'}: give them as a mapping from names."
        )
    pairs = zip(names, inputs, strict=False)
    return {key: _tensor(name, value) for key, value in pairs}, _tensor(name, labels)


def _inputs_and_labels(name: str, batch: Sequence[object]) -> tuple[Tensor, Tensor]:
    """Whatever follows inputs and labels, such as an index, is for the user's own purposes."""
    inputs, labels = _tensor(name, batch[0]), _tensor(name, batch[1])
    if len(batch) > 2 and labels.dim() > 1 and labels.shape == inputs.shape:
        raise UserError(
            f"Data set '{name}' yields several inputs in a row: give them as ((first, second), "
            "labels), or as a mapping from names."
        )
    return inputs, labels


def _are_arrays(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(map(_is_array, value))


def _is_array(value: object) -> bool:
    return isinstance(value, Tensor) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
    )


def _tensor(name: str, value: object) -> Tensor:
    tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.asarray(value).copy())
    if tensor.dim() == 0:
        raise UserError(f"Data set '{name}' holds a single number where an array is needed.")
    return tensor


def moved(name: str, batch: Batch, place: torch.device, dtype: torch.dtype | None) -> Batch:
    """Move to the model's device; floats take the model's precision, integers stay."""
    if isinstance(batch, Mapping):
        return {key: _to_tensor(name, value, place, dtype) for key, value in batch.items()}
    return _to_tensor(name, batch, place, dtype)


def _to_tensor(name: str, value: Tensor, place: torch.device, dtype: torch.dtype | None) -> Tensor:
    if not value.is_floating_point():
        return value.to(place)
    if not value.isfinite().all():
        bad = (~value.isfinite()).reshape(len(value), -1).any(dim=1)
        raise UserError(
            f"Data set '{name}' holds NaN or infinity in {int(bad.sum())} of {len(bad)} inputs of "
            f"a batch, the first at position {int(bad.nonzero()[0])}."
        )
    return value.to(place, dtype)


def size_of(batch: Batch) -> int:
    """Return the number of samples in a batch."""
    return len(next(iter(batch.values()))) if isinstance(batch, Mapping) else len(batch)


def copied(batch: Batch) -> Batch:
    """Return the same samples in memory of their own."""
    if isinstance(batch, Mapping):
        return {key: value.clone() for key, value in batch.items()}
    return batch.clone()


def first_rows(batch: Batch, count: int) -> Batch:
    """Return the first samples of a batch."""
    if isinstance(batch, Mapping):
        return {key: value[:count] for key, value in batch.items()}
    return batch[:count]


def join_labels(name: str, labels: list[Tensor]) -> Tensor:
    """Put the labels of all batches together."""
    try:
        return torch.cat([part.cpu() for part in labels])
    except RuntimeError:
        shapes = ", ".join(sorted({str(tuple(part.shape[1:])) for part in labels}))
        raise UserError(
            f"Labels of data set '{name}' must be one integer per sample, got shapes {shapes}."
        ) from None
