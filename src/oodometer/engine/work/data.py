"""The data of runs: read once in a process, and checked to be what the plan was made for."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from oodometer.engine.plan.trainings import DataContent
from oodometer.errors import UserError
from oodometer.lab.data.auxiliary import load_auxiliary
from oodometer.lab.data.encoders import encoder_of
from oodometer.lab.data.outliers import load_outliers
from oodometer.lab.data.portions import split_portions
from oodometer.lab.data.samples import Samples
from oodometer.lab.data.sources import Source, load_source
from oodometer.study import TrainSpec

KEPT_BYTES = 256 * 2**20  # that data of earlier runs may take, when others are read


@dataclass(frozen=True)
class RunData:
    """What a run is trained on and scored on."""

    source: Source
    outliers: Mapping[str, Samples]
    auxiliary: Samples | None = None  # outliers that some detector models learn from

    @property
    def parts(self) -> Iterator[Samples]:
        """All data sets."""
        source = self.source
        yield from (source.train, source.test, *self.outliers.values())
        yield from (part for part in (source.validation, self.auxiliary) if part is not None)

    @cached_property
    def bytes(self) -> int:
        """The memory that it takes."""
        return sum(part.values.nbytes for part in self.parts)

    @property
    def altered(self) -> bool:
        """Whether somebody has written into the data since they were read."""
        # A digest is computed once: a new object computes it again.
        return any(replace(part).digest != part.digest for part in self.parts)

    @property
    def digests(self) -> tuple[object, ...]:
        """The content of all data sets."""
        source = self.source
        more = ("" if part is None else part.digest for part in (source.validation, self.auxiliary))
        outliers = {name: samples.digest for name, samples in self.outliers.items()}
        return source.train.digest, source.test.digest, *more, tuple(sorted(outliers.items()))


def data_fields(spec: TrainSpec) -> tuple[object, ...]:
    """What of a specification decides which data are read."""
    which = spec.test_size, spec.ood_draw, spec.auxiliary
    tokenizer = encoder_of(spec.network)  # by which texts are read
    return spec.data, spec.split, spec.held_out_classes, *which, tokenizer


def read_data(spec: TrainSpec, ood: Sequence[str], content: DataContent) -> RunData:
    """The data of a run, from memory if this process has read them before.

    The content belongs to the key: data that changed on disk are never met with an older plan.
    """
    whole = (content.train, content.test, content.validation, content.auxiliary)
    wanted = (*whole, tuple(sorted(content.ood.items())))
    key = (data_fields(spec), tuple(ood), wanted)
    with _lock:
        if key in _kept:
            _kept[key] = _kept.pop(key)  # now the latest
            return _kept[key]
        while sum(data.bytes for data in _kept.values()) > KEPT_BYTES:
            del _kept[next(iter(_kept))]
        source = load_source(spec)
        sets = [load_outliers(name, source) for name in ood]
        auxiliary = load_auxiliary(spec.auxiliary, source) if spec.auxiliary else None
        data = RunData(source, {samples.name: samples for samples in sets}, auxiliary)
        if data.digests != wanted:
            raise UserError("The data changed while the study was running: start it again.")
        _kept[key] = data
        return data


def fitted_samples(spec: TrainSpec, source: Source) -> Samples:
    """What detectors are fitted to: what was trained on, as labelled, or what validates."""
    if spec.fitted_on == "validation":
        return validation_samples(spec, source)
    return split_portions(spec, source.train, source.classes)[0]


def validation_samples(spec: TrainSpec, source: Source) -> Samples:
    """What the run, or the split of its data, sets aside for validation."""
    _, aside = split_portions(spec, source.train, source.classes)
    validating = source.validation if aside is None else aside
    assert validating is not None, "a plan without validation samples is refused"
    return validating


def forget_data() -> None:
    """Free the memory of all data that were read."""
    with _lock:
        _kept.clear()


_kept: dict[tuple[object, ...], RunData] = {}  # the latest last
_lock = threading.Lock()
