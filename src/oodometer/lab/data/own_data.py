"""Data of a user for a user's own classifier: known names, paths, or objects that are imported."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
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
    train: str, id: str, ood: Sequence[str], mean: Sequence[float], std: Sequence[float]
) -> OwnData:
    """Load what a classifier was trained on, other data of the same kind, and outlier sets.

    Each is a name or path of images, or ``package.module:object``: an array, data set or loader
    that goes to the model as it is, or a function that makes one. Images are brought to the shape
    of the training images, to [0, 1], and normalised by `mean` and `std` per channel. An outlier
    set may be named, as in ``mine=path/to/images``.
    """
    first = _load(train, "train", None)
    shape = first.shape if isinstance(first, Images) else _shape_of(train, first)
    second = _load(id, "test", shape)
    sets: dict[str, Images | Data] = {"train": first, "id": second}
    classes = None
    if isinstance(first, Images):
        classes = int(first.labels.max()) + 1 or None
        if isinstance(second, Images) and second.digest == first.digest:
            raise UserError(
                f"--train '{train}' and --id '{id}' are the same samples: detectors must not be "
                "tried on what they are fitted to."
            )
    for text in ood:
        title, data = _titled(text)
        found = _outliers(data, sets, shape, named=bool(title))
        name = title or (found.name if isinstance(found, Images) else data.rpartition(":")[2])
        if name in sets:
            raise UserError(
                f"Two data sets are called '{name}': give one another name, as in --ood "
                f"mine={data}."
            )
        sets[name] = found
    channels = shape[0] if shape else None
    shift, scale = (
        _per_channel(what, numbers, default, channels)
        for what, numbers, default in (("mean", mean, 0.0), ("std", std, 1.0))
    )
    return OwnData(sets, shape, classes, shift, scale)


def _titled(text: str) -> tuple[str, str]:
    """Tell ``name=data`` from data that have an equals sign of their own."""
    match = re.fullmatch(r"([^=()/\\.:]+)=(.+)", text)
    return (match[1].strip(), match[2]) if match else ("", text)


def _load(data: str, part: str, shape: tuple[int, ...] | None) -> Images | Data:
    if _is_imported(data):
        return _imported(data)
    name, options = split_options(data, ("part", "size"))
    if "size" in options:
        name = f"{name}(size={options['size']})"
    size = (shape[1], shape[2]) if shape and "size" not in options else None
    images = load_part(name, options.get("part", part), size)  # type: ignore[arg-type]
    return conform(images, *shape) if shape else images


def _outliers(
    data: str, sets: Mapping[str, Images | Data], shape: tuple[int, ...] | None, *, named: bool
) -> Images | Data:
    """Outliers in the shape of the training images, also those that are made of these."""
    if _is_imported(data):
        return _imported(data)
    train, test = sets["train"], sets["id"]
    if not isinstance(train, Images) or not isinstance(test, Images):
        return _load(data, "test", shape)
    source = Source(train.name, train, test, None, int(train.labels.max()) + 1)
    if named and "rule=" not in data:
        source = replace(source, name="")  # what it is called by itself is of no account
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
    if isinstance(found, Iterator):
        raise UserError(
            f"Data set '{data}' is an iterator, which can be read only once: use a data set, a "
            "loader or a list of batches."
        )
    return found  # type: ignore[no-any-return]


def _shape_of(name: str, data: Data) -> tuple[int, ...] | None:
    """The shape of an image in somebody's own data, if it holds images."""
    inputs, _ = next(batches_of(name, data, 1), (None, None))
    if inputs is None or isinstance(inputs, Mapping) or inputs.dim() != 4:
        return None
    return tuple(inputs.shape[1:])


def _per_channel(
    what: str, numbers: Sequence[float], default: float, channels: int | None
) -> NDArray[np.float32]:
    if channels is not None and len(numbers) not in (0, 1, channels):
        raise UserError(
            f"--{what} has {len(numbers)} numbers, but the images have {channels} channels."
        )
    values = np.array(numbers or [default], dtype=np.float32)
    if not np.isfinite(values).all() or (what == "std" and (values <= 0).any()):
        allowed = "positive numbers" if what == "std" else "finite numbers"
        raise UserError(f"--{what} takes {allowed}, got {', '.join(map(str, numbers))}.")
    return values[:, None, None]
