"""One table of detectors: name -> how to fit it, what it reads, its settings, its paper."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from types import MappingProxyType, ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from oodometer.calls import Setting, parse_call, setting_text
from oodometer.errors import UserError, describe, unknown
from oodometer.imports import import_module
from oodometer.needs import OUTLIERS, Need, in_text, parse_needs
from oodometer.outputs import Outputs, RefusedError, View

Scorer = Callable[[View], Tensor]  # (n,) floats; higher = more out-of-distribution, always
ScoreOutputs = Callable[[Outputs], Tensor]
ENTRY_POINTS = "oodometer.detectors"  # the group in which other packages announce theirs


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

    @property
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
                raise UserError(
                    f"Detector '{self.name}' returned NaN or infinity for {int(bad.sum())} of "
                    f"{len(test)} samples, the first at row {int(bad.nonzero()[0])}."
                )
            return values

        return scored

    def _shown(self, outputs: Outputs) -> Outputs:
        """Our own detectors, which the contract has checked, get the outputs; others a copy.

        Whatever they do to it cannot reach anybody else.
        """
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


DETECTORS: dict[str, Detector] = {}
BROKEN_PLUGINS: dict[str, str] = {}  # entry points that could not be loaded, and why
# Detectors of imported modules whose cards are invalid: module, name -> what is wrong
_INVALID: dict[tuple[str, str], UserError] = {}
_importing: ContextVar[bool] = ContextVar("importing detectors by name", default=False)


def detector(
    *,
    paper: str,
    needs: set[str],
    grid: Mapping[str, tuple[Setting, ...]] | None = None,
    needs_for: Mapping[str, Mapping[Setting, set[str]]] | None = None,
    only_by_name: bool = False,
    reads: Sequence[str] = (),
) -> Callable[[Callable[..., Scorer]], Callable[..., Scorer]]:
    """Register the decorated function as a detector under its own name.

    The function takes the training outputs and keyword-only settings, and returns a function
    from outputs to scores, (n,), higher = more out-of-distribution. It sees only what `needs`
    declares; `grid` lists the values of each setting that are worth trying. Where a need depends
    on a setting, `needs_for` says on which value: ``{"space": {"logits": {"logits"}, ...}}``.
    `only_by_name` leaves a costly one out of "all". `reads` names files, relative to the module,
    that the function reads, or that are imported by a computed name: without it, stored results
    do not notice that they changed.
    """

    def add(build: Callable[..., Scorer]) -> Callable[..., Scorer]:
        try:
            register(build)
        except UserError as problem:
            if not _importing.get():
                raise
            _INVALID[build.__module__, build.__name__] = problem  # the others of its file count
        return build

    def register(build: Callable[..., Scorer]) -> None:
        name = build.__name__
        known = DETECTORS.get(name)
        # The same function again is a notebook cell run twice; another one would hide the first.
        if known is not None and known.build.__module__ != build.__module__:
            raise UserError(
                f"Detector '{name}' of {build.__module__} is already registered by "
                f"{known.build.__module__}: choose another name."
            )
        DETECTORS[name] = Detector(
            name,
            build,
            paper,
            needs,  # type: ignore[arg-type]  # the card reads the texts, these and the next
            grid or {},
            needs_for or {},  # type: ignore[arg-type]
            only_by_name,
            tuple(reads),
        )

    return add


def load_plugins() -> None:
    """Import what other packages announce; one that fails is remembered, not raised."""
    for point in entry_points(group=ENTRY_POINTS):
        try:
            point.load()
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a stranger's import
            BROKEN_PLUGINS[point.name] = describe(problem)


def find(name: str | Callable[..., Scorer]) -> Detector:
    """Look a detector up by name or by its function, or import it.

    ``package.module:name`` and ``file.py:name`` are imported.
    """
    if not isinstance(name, str):
        for card in DETECTORS.values():
            if card.build is name:
                return card
        raise UserError(
            f"{name!r} is not a detector: decorate it with @detector, or give its name."
        )
    module_name, colon, function = name.rpartition(":")
    if not colon:
        if name not in DETECTORS:
            raise unknown("detector", name, DETECTORS)
        return DETECTORS[name]
    here = detectors_in(module_name)
    if function not in here:
        raise unknown(f"detector in '{module_name}':", function, here)
    found = here[function]
    if isinstance(found, UserError):
        raise found
    return found


def detectors_in(module_name: str) -> dict[str, Detector | UserError]:
    """Import a module or a file; return its detectors, or what is wrong with their cards."""
    token = _importing.set(True)
    try:
        module = import_module(f"Detectors in '{module_name}'", module_name)
    finally:
        _importing.reset(token)
    here = {name: bad for (place, name), bad in _INVALID.items() if place == module.__name__}
    return here | {card.name: card for card in DETECTORS.values() if _belongs(card, module)}


def _belongs(card: Detector, module: ModuleType) -> bool:
    """Tell whether a module defines a detector, or offers it under its name."""
    return card.build is getattr(module, card.name, None)


@dataclass(frozen=True, eq=False)
class Choice:
    """A detector with settings, as a user writes it: ``knn`` or ``knn(k=10)``."""

    detector: Detector
    settings: Mapping[str, Setting]  # complete
    label: str  # how tables call it: the name, and the settings that are not the default
    text: str  # as the user wrote it
    named: frozenset[str] = frozenset()  # settings that the user fixed

    @property
    def setting(self) -> str:
        """All settings in one canonical text, such as ``k=50``."""
        return setting_text(self.settings)

    def tried(self, *, grid: bool) -> list[Mapping[str, Setting]]:
        """The settings to score; with `grid`, all of the grid, where the user fixed none.

        ``ash(variant=s)`` tries every percentile, and no other variant.
        """
        if not grid:
            return [self.settings]
        fixed = {name: (self.settings[name],) for name in self.named}
        return list(self.detector.settings(fixed))

    def needs(self, *, grid: bool) -> frozenset[Need]:
        """What the detector needs at the settings to score."""
        return frozenset().union(*map(self.detector.needed, self.tried(grid=grid)))

    @property
    def beyond_outputs(self) -> tuple[Need, ...]:
        """What it needs, with its whole grid, that plain outputs do not hold."""
        return tuple(sorted(need for need in self.needs(grid=True) if need.beyond_outputs))


def choose(text: str) -> Choice:
    """Read ``name`` or ``name(setting=value, ...)``."""
    name, settings = parse_call("detector", text)
    card = find(name)
    full = card.complete(settings)
    changed = {name: value for name, value in full.items() if value != card.defaults[name]}
    label = f"{card.name}({setting_text(changed)})" if changed else card.name
    return Choice(card, full, label, text, frozenset(settings))
