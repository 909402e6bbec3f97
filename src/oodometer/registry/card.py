"""The card of a detector: how to fit it, what it reads, its settings, its paper."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from oodometer.calls import Setting
from oodometer.errors import NotFiniteError, UserError, unknown
from oodometer.needs import OUTLIERS, Need, in_text, parse_needs
from oodometer.outputs import Outputs, RefusedError, View

Scorer = Callable[[View], Tensor]  # (n,) floats; higher = more out-of-distribution, always
ScoreOutputs = Callable[[Outputs], Tensor]


class Validation(NamedTuple):
    """What detectors learn from that learn from outliers."""

    inside: Outputs
    outside: Outputs
    outliers: str = ""  # name of the outlier set, by which models trained against it are known


class InputsChangedError(UserError):
    """A detector wrote into its inputs."""


@dataclass(frozen=True, eq=False)
class Detector:
    """The card of a detector: all that anybody needs to know to list, fit, tune or test it.

    Needs may be given as text, such as {"logits", "probe:odin"}; the card holds what they say.
    """

    name: str
    build: Callable[..., Scorer]
    paper: str
    needs: frozenset[Need]  # all that it reads at any setting
    grid: Mapping[str, tuple[Setting, ...]]
    # setting -> value -> those of its needs that belong to this value alone
    needs_for: Mapping[str, Mapping[Setting, frozenset[Need]]] = field(default_factory=dict)
    only_by_name: bool = False  # too costly to be meant by "all"
    reads: tuple[str, ...] = ()  # files that it reads, relative to its module
    losses: tuple[str, ...] = ()  # of the classifiers that it is meant for; empty: all
    # (complete settings) -> all that it needs at these, where every setting is another model
    needs_at: Callable[[Mapping[str, Setting]], frozenset[Need]] | None = None

    def __post_init__(self) -> None:
        parameters = list(inspect.signature(self.build).parameters.values())
        if not parameters:
            raise UserError(f"Detector '{self.name}' must take the training outputs.")
        train, *rest = parameters
        if any(p.kind is not p.KEYWORD_ONLY or p.default is p.empty for p in rest):
            raise UserError(
                f"Detector '{self.name}' takes {train.name} and then keyword-only settings with "
                f"defaults: def {self.name}({train.name}, *, setting=default)."
            )
        kind = f"need of detector '{self.name}'"
        needs_for = {
            setting: {value: parse_needs(needs, kind) for value, needs in by_value.items()}
            for setting, by_value in self.needs_for.items()
        }
        object.__setattr__(self, "needs", parse_needs(self.needs, kind))
        object.__setattr__(self, "needs_for", needs_for)
        object.__setattr__(self, "grid", MappingProxyType(dict(self.grid)))
        if set(self.grid) != set(self.defaults):
            raise UserError(
                f"The grid of detector '{self.name}' names {sorted(self.grid)} but its settings "
                f"are {sorted(self.defaults)}: each setting needs a grid."
            )
        for setting, values in self.grid.items():
            if self.defaults[setting] not in values:
                raise UserError(
                    f"The grid of detector '{self.name}' for {setting} lacks its default "
                    f"{self.defaults[setting]!r}."
                )
        for setting, by_value in self.needs_for.items():
            if setting not in self.grid:
                raise unknown(f"setting in needs_for of detector '{self.name}'", setting, self.grid)
            if not set(by_value) >= set(self.grid[setting]):
                raise UserError(
                    f"needs_for of detector '{self.name}' must say what every value of {setting} "
                    f"needs: {', '.join(map(str, self.grid[setting]))}."
                )
            if any(not needs <= self.needs for needs in by_value.values()):
                raise UserError(
                    f"needs_for of detector '{self.name}' names what is not among its needs."
                )

    @cached_property
    def defaults(self) -> dict[str, Setting]:
        """Every setting with its default, in the order of the signature."""
        parameters = inspect.signature(self.build).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.build) or "").partition("\n")[0]

    @property
    def formula(self) -> str:
        """The docstring after its first line."""
        return (inspect.getdoc(self.build) or "").partition("\n")[2].strip()

    def settings(
        self, fixed: Mapping[str, tuple[Setting, ...]] = MappingProxyType({})
    ) -> Iterator[dict[str, Setting]]:
        """Every combination in the grid; one empty one if there is no grid.

        Settings that are `fixed` have these values in place of those of the grid. The first setting
        varies fastest, as in published searches, where the first of equally good combinations wins.
        """
        names, grid = list(self.defaults), {**self.grid, **fixed}
        for values in itertools.product(*(grid[name] for name in reversed(names))):
            yield dict(zip(names, reversed(values), strict=True))

    def complete(self, settings: Mapping[str, Setting]) -> dict[str, Setting]:
        """Fill in the defaults; refuse a setting that is unknown or of another type."""
        defaults = self.defaults
        for name, value in settings.items():
            if name not in defaults:
                raise unknown(f"setting of '{self.name}'", name, defaults)
            wanted = type(defaults[name])
            fits = isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))
            if not fits and not (wanted is float and type(value) is int):
                raise UserError(
                    f"Setting {name} of '{self.name}' must be {wanted.__name__} "
                    f"(default {defaults[name]!r}), got {value!r}."
                )
            if isinstance(value, float) and not math.isfinite(value):
                raise UserError(f"Setting {name} of '{self.name}' must be finite, got {value}.")
            allowed = dict.fromkeys([*self.grid[name], *self.needs_for.get(name, ())])
            if wanted is str and value not in allowed:
                raise unknown(f"{name} of '{self.name}'", value, map(str, allowed))
        return defaults | {
            name: float(value) if isinstance(defaults[name], float) else value
            for name, value in settings.items()
        }

    def needed(self, settings: Mapping[str, Setting]) -> frozenset[Need]:
        """What it needs at these settings: nothing that other values of any of them need alone."""
        full = self.defaults | dict(settings)
        if self.needs_at is not None:
            return self.needs_at(full)
        of_others = (
            frozenset().union(*each.values()) - each.get(full[name], frozenset())
            for name, each in self.needs_for.items()
        )
        return self.needs.difference(*of_others)

    @property
    def learns_from_outliers(self) -> bool:
        """Whether it is fitted on validation outliers too."""
        return OUTLIERS in self.needs

    def fit(
        self,
        train: Outputs,
        *,
        validation: tuple[Outputs, Outputs] | Validation | None = None,
        **settings: Setting,
    ) -> ScoreOutputs:
        """Fit to the training outputs; return the function that scores other outputs.

        `validation`, in-distribution and outliers, is for those that learn from outliers.
        """
        full = self.complete(settings)
        needs = self.needed(full)
        # Few detectors read a probe of the training data: reading one that is not there tells.
        required = {need for need in needs if need.source in ("outputs", "layers")}
        lacking = in_text(required - train.available)
        if lacking:
            sentence = (
                f"Detector '{self.name}' needs {' and '.join(lacking)}, which the outputs that it "
                "is fitted on lack"
            )
            why = next((train.refused[need] for need in lacking if need in train.refused), None)
            raise RefusedError(sentence, str(why)) if why else UserError(f"{sentence}.")
        if not len(train):
            raise UserError(f"Detector '{self.name}' cannot be fitted on an empty data set.")
        shown = self._shown(train)
        readable = needs - {
            Need("outputs", "labels")
        }  # labels of scored data are never shown to a detector
        learns = validation is not None and self.learns_from_outliers
        *learned_from, outliers = Validation(*validation) if learns and validation else ("",)
        view = shown.only(needs, self.name, outliers)
        seen_too = [self._shown(part) for part in learned_from]
        if seen_too:
            inside, outside = (part.only(readable, self.name, outliers) for part in seen_too)
            view.with_validation(inside, outside)
        score = self.build(view, **full)
        if not callable(score):
            raise UserError(
                f"Detector '{self.name}' returned a value of type {type(score).__name__} when it "
                "was fitted: it must return a function that scores other outputs, such as lambda "
                "test: -test.logits.amax(1)."
            )
        for own, original in zip((shown, *seen_too), (train, *learned_from), strict=True):
            self._require_untouched(own, original)

        def scored(test: Outputs) -> Tensor:
            seen = self._shown(test)
            values = score(seen.only(readable, self.name, outliers))
            self._require_untouched(seen, test)
            if not isinstance(values, Tensor) or values.shape != (len(test),):
                shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
                raise UserError(
                    f"Detector '{self.name}' must return one score per sample, shape "
                    f"({len(test)},), but returned {shape}."
                )
            if not values.is_floating_point():
                raise UserError(
                    f"Detector '{self.name}' must return floats, got {str(values.dtype)[6:]}."
                )
            bad = ~values.isfinite()
            if bad.any():
                rows = bad.nonzero()[:, 0].tolist()
                raise NotFiniteError(
                    f"Detector '{self.name}' returned NaN or infinity for {len(rows)} of "
                    f"{len(test)} samples, the first at row {rows[0]}.",
                    rows,
                )
            return values

        return scored

    def _shown(self, outputs: Outputs) -> Outputs:
        """Our own detectors, which the contract has checked, get the outputs; others a copy."""
        return outputs if self.build.__module__.startswith("oodometer.") else outputs.copy()

    def _require_untouched(self, shown: Outputs, original: Outputs) -> None:
        if shown is original:
            return
        kept = original.tensors()
        for name, tensor in shown.tensors().items():
            if not torch.equal(tensor, kept[name]):
                raise InputsChangedError(
                    f"Detector '{self.name}' wrote into outputs.{name}, which others read too: "
                    "work on a copy."
                )
