"""What one classifier says about one data set. Detectors see this and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

import torch
from torch import Tensor

from oodometer.errors import UserError
from oodometer.needs import LAYERS, PLAIN, Need
from oodometer.outputs.labels import class_numbers, require_known
from oodometer.outputs.mapped import release_pages
from oodometer.outputs.refusal import Refusal
from oodometer.outputs.softmax import log_probabilities, softmax_kind
from oodometer.outputs.tensors import (
    CHUNK,
    HALF,
    HALF_TOLERANCE,
    TOLERANCE,
    as_tensor,
    in_full,
    require_float,
    rounding,
)
from oodometer.outputs.view import View


@dataclass(frozen=True, eq=False)
class Head:
    """The last linear layer: logits = features @ weight.T + bias."""

    weight: Tensor  # (classes, width)
    bias: Tensor  # (classes,)

    was_half: bool = field(init=False, default=False)  # given in half precision

    def __post_init__(self) -> None:
        for name in ("weight", "bias"):
            given = as_tensor(f"head.{name}", getattr(self, name))
            object.__setattr__(self, "was_half", self.was_half or given.dtype in HALF)
            object.__setattr__(self, name, in_full(given))
        require_float("head.weight", self.weight, dimensions=2)
        require_float("head.bias", self.bias, dimensions=1)
        if not self.weight.numel():
            raise UserError(f"head.weight has shape {tuple(self.weight.shape)}: it holds no class.")
        if len(self.weight) != len(self.bias):
            raise UserError(
                f"head.weight has {len(self.weight)} rows but head.bias has {len(self.bias)} "
                "entries: both need one per class."
            )

    def __call__(self, features: Tensor) -> Tensor:
        """Return the logits of these features."""
        return features @ self.weight.T + self.bias


@dataclass(frozen=True, eq=False)
class Outputs:
    """Logits, features, labels and head of one classifier on one data set.

    Whatever is left out limits the detectors that can be used; what is given must fit together:
    one row per sample, one floating type, finite, and ``logits == head(features)``. Logits that
    are left out are computed when features and head are there. NumPy arrays become tensors; a
    memory-mapped one is read in place. Half precision becomes float32, and logits are then computed
    again from features and head, where these are there. So they are if probabilities or their
    logarithms are given for logits; without features and head, these serve detectors that read no
    more than `relative_logits`.
    """

    logits: Tensor | None = None  # (n, classes)
    features: Tensor | None = None  # (n, width), exactly what enters the head
    labels: Tensor | None = None  # (n,) int64, -1 = no known class
    head: Head | None = None
    layers: Mapping[str, Tensor] = field(default_factory=dict)  # name -> (n, ...)
    probes: Mapping[str, Tensor] = field(default_factory=dict)  # name -> (n, ...), what asking the
    # network more than once gave, such as its answers under dropout
    refused: Mapping[str, Refusal] = field(default_factory=dict)  # need -> why it is not available
    # what other networks say: detector models, or several training runs together; (n, ...)
    answers: Mapping[Need, Tensor] = field(default_factory=dict)
    _shared: dict[Hashable, object] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.logits is None and self.features is None and not self.answers:
            raise UserError("Outputs need logits or features; both are missing.")
        half = self._make_tensors()
        if self.head is not None and not isinstance(self.head, Head):
            raise UserError(f"head must be a Head(weight, bias), got {type(self.head).__name__}.")
        if self.logits is not None:
            require_float("logits", self.logits, dimensions=2)
        if self.features is not None:
            require_float("features", self.features, dimensions=2)
        for name, part in self._named_parts().items():
            require_float(name, part)
        self._require_one_dtype()
        self._undo_softmax()
        half |= self.head is not None and self.head.was_half
        self._require_fitting_head(HALF_TOLERANCE if half else None)
        if half and self.features is not None and self.head is not None:
            object.__setattr__(self, "logits", None)  # its rounding would look like wrong features
        if self.logits is None and self.features is not None and self.head is not None:
            object.__setattr__(self, "logits", _computed(self.head, self.features))
        self._require_labels()
        self._require_equal_rows()

    def __reduce__(self) -> tuple[Callable[..., Outputs], tuple[object, ...]]:
        """Copy, and send to other processes, without what detectors share: it is made again."""
        whole = (self.logits, self.features, self.labels, self.head)
        named = (dict(self.layers), dict(self.probes), dict(self.refused), dict(self.answers))
        return Outputs, (*whole, *named)

    def _undo_softmax(self) -> None:
        """Without the head, what a softmax gave is kept as logarithms, and is not called logits."""
        kind = None if self.logits is None else softmax_kind(self.logits)
        if kind is None:
            return
        assert self.logits is not None
        if self.features is not None and self.head is not None:
            object.__setattr__(self, "logits", None)  # the head will give them
            return
        if kind == "probabilities":
            object.__setattr__(self, "logits", log_probabilities(self.logits))
        reason = (
            f"the logits are {kind}, which determine logits only up to a constant per sample: give "
            "the outputs before the softmax"
        )
        object.__setattr__(self, "refused", {"logits": Refusal(reason), **self.refused})

    def _make_tensors(self) -> bool:
        """Make tensors of whatever was given; tell whether logits or features were rounded."""
        half = False
        for name in ("logits", "features", "labels"):
            if getattr(self, name) is not None:
                given = as_tensor(name, getattr(self, name))
                half |= given.dtype in HALF and name != "labels"
                object.__setattr__(self, name, given if name == "labels" else in_full(given))
        for kind in ("layers", "probes", "answers"):
            parts = getattr(self, kind)
            named = {
                name: in_full(as_tensor(_called(kind, name), part)) for name, part in parts.items()
            }
            object.__setattr__(self, kind, MappingProxyType(named))
        return half

    def _arrays(self) -> dict[str, Tensor]:
        """Every per-sample array that is there, by name."""
        named = {"logits": self.logits, "features": self.features, "labels": self.labels}
        arrays = {name: value for name, value in named.items() if value is not None}
        return arrays | self._named_parts()

    def _named_parts(self) -> dict[str, Tensor]:
        """Every layer, probe and answer, by a name that says which it is."""
        layers = {_called("layers", name): value for name, value in self.layers.items()}
        probes = {_called("probes", name): value for name, value in self.probes.items()}
        answers = {_called("answers", need): value for need, value in self.answers.items()}
        return layers | probes | answers

    def _require_one_dtype(self) -> None:
        floats = {name: value.dtype for name, value in self._arrays().items() if name != "labels"}
        if self.head is not None:
            floats |= {"head.weight": self.head.weight.dtype, "head.bias": self.head.bias.dtype}
        if len(set(floats.values())) > 1:
            listing = ", ".join(f"{name} is {str(dtype)[6:]}" for name, dtype in floats.items())
            raise UserError(f"Outputs need one floating type, but {listing}.")

    def _require_fitting_head(self, tolerance: float | None = None) -> None:
        if self.head is None:
            return
        classes, width = self.head.weight.shape
        if self.features is not None and self.features.shape[1] != width:
            raise UserError(
                f"features have width {self.features.shape[1]} but head.weight takes {width}: "
                "features must be exactly what enters the last linear layer."
            )
        if self.logits is not None and self.logits.shape[1] != classes:
            raise UserError(
                f"logits have {self.logits.shape[1]} classes but head.weight has {classes} rows."
            )
        if self.features is None or self.logits is None or len(self.logits) != len(self.features):
            return
        weight_norm = self.head.weight.norm(dim=1).amax()
        bias_size = self.head.bias.abs().amax()
        tolerance = tolerance or TOLERANCE[self.logits.dtype]
        step = max(1, CHUNK // (width + classes))
        for start in range(0, len(self.logits), step):
            release_pages()
            rows = slice(start, start + step)
            gap = (self.head(self.features[rows]) - self.logits[rows]).abs().amax(1)
            size = self.features[rows].norm(dim=1) * weight_norm + bias_size
            if (gap > tolerance * size).any():
                parts = (self.features[rows], self.logits[rows], self.head.weight)
                tolerance = max(tolerance, *map(rounding, parts))
            allowed = tolerance * size
            worst = int((gap - allowed).argmax())
            if gap[worst] > allowed[worst]:
                raise UserError(
                    f"logits differ from head(features) by {float(gap[worst]):.3g} at row "
                    f"{start + worst} (rounding explains {float(allowed[worst]):.2g}): features "
                    "must be exactly what enters the last linear layer, in the same forward pass; "
                    "leave logits out to have them computed."
                )

    def _require_labels(self) -> None:
        if self.labels is None:
            return
        numbers = class_numbers(self.labels)
        object.__setattr__(self, "labels", numbers)
        require_known(numbers, None if self.logits is None else self.logits.shape[1])

    def _require_equal_rows(self) -> None:
        rows = {name: len(value) for name, value in self._arrays().items()}
        if len(set(rows.values())) > 1:
            listing = ", ".join(f"{name} {count}" for name, count in rows.items())
            raise UserError(f"Outputs need one row per sample, but the rows differ: {listing}.")

    def __len__(self) -> int:
        return len(next(iter(self._arrays().values())))

    @property
    def available(self) -> frozenset[Need]:
        """What a detector may declare to need and finds here."""
        names = {name for name in PLAIN if getattr(self, name) is not None} - set(self.refused)
        filled = {Need("outputs", name) for name in names}
        probes = {Need("probe", name) for name in self.probes}
        return frozenset({*filled, *probes, *self.answers, *([LAYERS] if self.layers else [])})

    @property
    def relative_logits(self) -> Tensor | None:
        """(n, classes): logits up to a constant per sample, which is all that a softmax reads."""
        return self.logits

    def take(self, rows: Tensor) -> Outputs:
        """Return the outputs of these rows only."""
        return replace(
            self,
            logits=None if self.logits is None else self.logits[rows],
            features=None if self.features is None else self.features[rows],
            labels=None if self.labels is None else self.labels[rows],
            layers={name: value[rows] for name, value in self.layers.items()},
            probes={name: value[rows] for name, value in self.probes.items()},
            answers={need: value[rows] for need, value in self.answers.items()},
        )

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that is there, by name."""
        head = self.head
        parts = {} if head is None else {"head.weight": head.weight, "head.bias": head.bias}
        return self._arrays() | parts

    def copy(self) -> Outputs:
        """Return the same outputs with tensors of their own, without a new check."""
        own = {name: tensor.clone() for name, tensor in self.tensors().items()}
        head = None if self.head is None else Head(own["head.weight"], own["head.bias"])
        layers = {name: own[_called("layers", name)] for name in self.layers}
        probes = {name: own[_called("probes", name)] for name in self.probes}
        answers = {need: own[_called("answers", need)] for need in self.answers}
        return self._with(
            **{name: own.get(name) for name in ("logits", "features", "labels")},
            head=head,
            layers=MappingProxyType(layers),
            probes=MappingProxyType(probes),
            answers=MappingProxyType(answers),
        )

    def refusing(self, refused: Mapping[str, Refusal]) -> Outputs:
        """Return the same outputs with more reasons for what they lack, without a new check."""
        return self._with(refused={**refused, **self.refused})

    def _with(self, **changes: object) -> Outputs:
        """Return these outputs with parts that are known to fit: what was checked stays checked."""
        same = object.__new__(Outputs)
        kept = {each.name: getattr(self, each.name) for each in fields(Outputs)}
        for name, value in (kept | changes | {"_shared": {}}).items():
            object.__setattr__(same, name, value)
        return same

    def only(self, needs: Iterable[Need], reader: str, outliers: str = "") -> View:
        """Return a view that shows `reader` what it declared and refuses all else.

        Of models that are trained against an outlier set, it shows those of `outliers`.
        """
        return View(self, frozenset(needs), reader, outliers)


def _called(kind: str, name: object) -> str:
    """How errors call a layer, a probe or an answer."""
    return f"{kind}[{str(name)!r}]"


def _computed(head: Head, features: Tensor) -> Tensor:
    """Return the logits, part by part: features in a file are never in memory as a whole."""
    parts = []
    for rows in torch.split(features, max(1, CHUNK // features.shape[1])):
        release_pages()
        parts.append(head(rows))
    return torch.cat(parts)
