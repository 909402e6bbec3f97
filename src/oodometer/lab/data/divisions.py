"""How a set is divided into what is trained on, validated on and tested on: the splits by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError, unknown
from oodometer.lab.data import splits
from oodometer.lab.data.datasets import Parts, load_part
from oodometer.lab.data.label_files import list_positions, read_names
from oodometer.lab.data.openood import CIFAR10_VALIDATION
from oodometer.lab.data.samples import Images, Raw, Texts
from oodometer.lab.options import choose

Split = int | str


@dataclass(frozen=True, eq=False)
class Division:
    """A data set in parts that share no sample; not every split says what to validate on."""

    train: Raw
    test: Raw
    validation: Raw | None = None


def divide(split: Split, data: str, parts: Parts) -> Division:
    """Divide a data set. `split` is 0: as it comes; a seed: drawn anew; or a name with settings."""
    if split == 0:
        return Division(parts.train, parts.test)
    if isinstance(split, int):
        return resampled(data, parts, seed=split)
    return choose("split", split, KNOWN)(data, parts)


def check_split(split: Split) -> None:
    """Raise, unless this is a split that can be read."""
    if isinstance(split, str):
        choose("split", split, KNOWN)


def gives_validation(split: Split) -> bool:
    """Whether the split itself says what to validate on."""
    return isinstance(split, str) and split.partition("(")[0].strip() in _WITH_VALIDATION


def resampled(data: str, parts: Parts, *, seed: int = 0, generator: str = "numpy") -> Division:
    """Train and test pooled and drawn anew, in their sizes; generator=torch as PyTorch does it."""
    chosen = cast(Literal["numpy", "torch"], generator)
    train, test = splits.resample(len(parts.train), len(parts.test), seed, chosen)
    pool = _pool(parts.train, parts.test)
    return Division(pool.take(train), pool.take(test))


def od_test(data: str, parts: Parts, *, seed: int = 0) -> Division:
    """The parts of OD-test: for mnist 50,000, 10,000 and 10,000. arXiv:1809.04729.

    Where it permuted the images by a list that is not published, ours comes from `seed`.
    """
    if isinstance(parts.train, Texts):
        raise UserError(f"Split 'od_test' is for images; '{parts.name}' holds texts.")
    roles = splits.OD_TEST.get(parts.name, {})
    if "train" not in roles:
        known = [name for name, ranges in splits.OD_TEST.items() if "train" in ranges]
        raise unknown("data set with a split of OD-test", parts.name, known)
    published: dict[str, Images] = {
        "train": parts.train,
        "val": cast(Images, parts.test),  # of Tiny ImageNet, whose test part has no labels
        "test": cast(Images, parts.test),
    }
    if roles["valid"].part == "val":
        published["test"] = load_part(data, "unlabelled")

    def part(role: Literal["train", "valid", "test"]) -> Images:
        source = published[roles[role].part]
        return source.take(splits.od_test_rows(parts.name, role, len(source), seed)[1])

    return Division(part("train"), part("test"), part("valid"))


def openood(data: str, parts: Parts) -> Division:
    """OpenOOD's parts of CIFAR-10: 1,000 of the test images validate. arXiv:2210.07242.

    All 50,000 images train, and 9,000 test. The label-noise study of arXiv:2404.01775 has the same.
    """
    if parts.name != "cifar10" or len(parts.test) != 10_000:
        raise UserError(
            f"Split 'openood' knows the list of cifar10 with its 10,000 test images, not that of "
            f"'{parts.name}' with {len(parts.test):,}; give the list as listed(path=...)."
        )
    rows = [
        np.flatnonzero(parts.test.labels == number)[np.array(counts) - 1]
        for number, counts in enumerate(CIFAR10_VALIDATION)
    ]
    return _set_aside(parts, np.concatenate(rows))


def listed(data: str, parts: Parts, *, path: str = "") -> Division:
    """Those test samples validate that a file names, a line each: ``.../cat/0042.png 3``.

    42 counts the cats among the test samples from 1, as OpenOOD's lists do.
    """
    if not path:
        raise UserError("Split 'listed' needs the path of a list: listed(path=val_cifar10.txt).")
    return _set_aside(parts, list_positions(read_names(path), parts.test.labels))


KNOWN: Mapping[str, Callable[..., Division]] = {
    divided.__name__: divided for divided in (resampled, od_test, openood, listed)
}
_WITH_VALIDATION = (od_test.__name__, openood.__name__, listed.__name__)


def _set_aside(parts: Parts, rows: NDArray[np.int64]) -> Division:
    """Some test samples become the validation part; both keep the order of the data."""
    others = np.setdiff1d(np.arange(len(parts.test)), rows)
    if not others.size:
        raise UserError(f"The list for validation leaves no test sample of '{parts.name}'.")
    return Division(parts.train, parts.test.take(others), parts.test.take(np.sort(rows)))


def _pool(first: Raw, second: Raw) -> Raw:
    if isinstance(first, Texts) and isinstance(second, Texts):
        return first.joined(second)
    return cast(Images, first).joined(cast(Images, second))
