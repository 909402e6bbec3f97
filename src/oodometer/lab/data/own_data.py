"""Data of a user for a user's own classifier: known names, paths, or objects that are imported."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from oodometer.calls import parse_call
from oodometer.errors import UserError, describe
from oodometer.imports import import_object
from oodometer.lab.data.datasets import conform, load_part, split_options
from oodometer.lab.data.inputs import Data, batches_of
from oodometer.lab.data.outliers import load_outliers
from oodometer.lab.data.samples import Images
from oodometer.lab.data.sources import Source


@dataclass(frozen=True)
class OwnData:
    """Data sets by name, "train" and "id" first, and what a factory is told of them."""

    sets: Mapping[str, Images | Data]
    shape: tuple[int, ...] | None  # of an image, where that is known
    classes: int | None
    shift: NDArray[np.float32]
    scale: NDArray[np.float32]

    def batches(self) -> dict[str, Data]:
        """The data sets as a model takes them, from the beginning."""
        return {
            name: self._normalised(data) if isinstance(data, Images) else data
            for name, data in self.sets.items()
        }

    def _normalised(self, images: Images) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        for pixels, labels in images.batches():
            yield (pixels - self.shift) / self.scale, labels


def load_own_data(
    train: str | Data,
    id: str | Data,
    ood: str | Sequence[str] | Mapping[str, str | Data],
    mean: Sequence[float],
    std: Sequence[float],
) -> OwnData:
    """Load what a classifier was trained on, held-out data of the same kind, and outlier sets.

    Each is a name or path of images, an array, data set or loader that goes to the model as it is,
    or ``package.module:object``: one of these, or a function that makes one. Images are brought to
    the shape of the training images, to [0, 1], and normalized by `mean` and `std` per channel.
    Outlier sets are named by a mapping, or as in ``mine=path/to/images``.
    """
    first = _load(train, "train", None)
    shape = first.shape if isinstance(first, Images) else _shape_of("train", first)
    second = _load(id, "id", shape)
    sets: dict[str, Images | Data] = {"train": first, "id": second}
    if second is first or (
        isinstance(first, Images) and isinstance(second, Images) and second.digest == first.digest
    ):
        raise UserError(
            f"train{_quoted(train)} and id{_quoted(id)} are the same samples: detectors must not "
            "be evaluated on the data they are fitted to."
        )
    for title, data in _titles(ood):
        found = _outliers(title, data, sets, shape)
        name = title or (found.name if isinstance(found, Images) else _last_name(data))
        if name in sets:
            hint = f", as in mine={data}" if isinstance(data, str) else ""
            raise UserError(f"Two data sets are called '{name}': rename one{hint}.")
        sets[name] = found
    channels = shape[0] if shape else None
    shift, scale = (
        _per_channel(what, numbers, default, channels)
        for what, numbers, default in (("mean", mean, 0.0), ("std", std, 1.0))
    )
    classes = int(first.labels.max()) + 1 or None if isinstance(first, Images) else None
    return OwnData(sets, shape, classes, shift, scale)


def _quoted(data: str | Data) -> str:
    return f" '{data}'" if isinstance(data, str) else ""


def _last_name(data: str | Data) -> str:
    return str(data).rpartition(":")[2]


def _titles(
    ood: str | Sequence[str] | Mapping[str, str | Data],
) -> list[tuple[str, str | Data]]:
    """Names and data of the outlier sets; an empty name: as the data are called by themselves."""
    if isinstance(ood, Mapping):
        return list(ood.items())
    texts = [ood] if isinstance(ood, str) else ood
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise UserError(
            "ood must be a mapping from names to outlier sets, such as {'svhn': svhn}, or names of "
            f"data sets; got {type(ood).__name__}."
        )
    return [_titled(text) for text in texts]


def _titled(text: str) -> tuple[str, str]:
    """Tell ``name=data`` from data that have an equals sign of their own."""
    match = re.fullmatch(r"([^=()/\\.:]+)=(.+)", text)
    return (match[1].strip(), match[2]) if match else ("", text)


def _load(data: str | Data, part: str, shape: tuple[int, ...] | None) -> Images | Data:
    """A data set; of one that is named, the part called train, or that for tests."""
    if not isinstance(data, str):
        return _readable_again(part, data)
    if _is_imported(data):
        return _imported(data)
    name, options = split_options(data, ("part", "size"))
    if "size" in options:
        name = f"{name}(size={options['size']})"
    size = (shape[1], shape[2]) if shape and "size" not in options else None
    usual = "train" if part == "train" else "test"
    images = load_part(name, options.get("part", usual), size)  # type: ignore[arg-type]
    return conform(images, *shape) if shape else images


def _outliers(
    title: str, data: str | Data, sets: Mapping[str, Images | Data], shape: tuple[int, ...] | None
) -> Images | Data:
    """Outliers in the shape of the training images, also those that are made of these."""
    train, test = sets["train"], sets["id"]
    made_here = isinstance(data, str) and not _is_imported(data)
    if not made_here or not isinstance(train, Images) or not isinstance(test, Images):
        return _load(data, title or "ood", shape)
    assert isinstance(data, str)
    source = Source(train.name, train, test, None, int(train.labels.max()) + 1)
    if title and "rule=" not in data:
        source = replace(source, name="")  # what it is called by itself does not matter
    made = load_outliers(data, source)
    assert isinstance(made, Images), "made of images"
    return made


def _is_imported(data: str) -> bool:
    return re.match(r"[\w.]+:[A-Za-z_]", data) is not None and not Path(data).exists()


def _imported(data: str) -> Data:
    """Import a data set by ``package.module:object``, or a function that makes one."""
    name, settings = parse_call("data set", data)
    found: Any = import_object("Data set", name)
    if callable(found) and not hasattr(found, "__getitem__") and not hasattr(found, "__iter__"):
        try:
            found = found(**settings)
        except (Exception, SystemExit) as problem:
            sentence = f"Data set '{data}' could not be loaded: {describe(problem)}"
            raise UserError(sentence) from problem
    return _readable_again(data, found)


def _readable_again(name: str, data: Data) -> Data:
    if isinstance(data, Iterator):
        raise UserError(
            f"Data set '{name}' is an iterator, which can be read only once: use a data set, a "
            "loader or a list of batches."
        )
    return data


def _shape_of(name: str, data: Data) -> tuple[int, ...] | None:
    """The shape of an image in somebody's own data, if it holds images."""
    with torch.random.fork_rng(devices=[]):  # a loader that shuffles draws its order
        inputs, _ = next(batches_of(name, data, 1), (None, None))
    if inputs is None or isinstance(inputs, Mapping) or inputs.dim() != 4:
        return None
    return tuple(inputs.shape[1:])


def _per_channel(
    what: str, numbers: Sequence[float], default: float, channels: int | None
) -> NDArray[np.float32]:
    if channels is not None and len(numbers) not in (0, 1, channels):
        raise UserError(
            f"{what} has {len(numbers)} numbers, but the images have {channels} "
            f"channel{'s' * (channels != 1)}."
        )
    values = np.array(numbers or [default], dtype=np.float32)
    if not np.isfinite(values).all() or (what == "std" and (values <= 0).any()):
        allowed = "positive numbers" if what == "std" else "finite numbers"
        raise UserError(f"{what} takes {allowed}, got {', '.join(map(str, numbers))}.")
    return values[:, None, None]
