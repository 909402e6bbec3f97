"""One table of detectors, by name; those of other people are imported when they are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points
from types import ModuleType

from oodometer.calls import Setting, parse_call, setting_text
from oodometer.errors import UserError, describe, unknown
from oodometer.imports import import_module
from oodometer.needs import Need
from oodometer.registry.card import Detector, Scorer

ENTRY_POINTS = "oodometer.detectors"  # the group in which other packages announce theirs

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
    losses: Sequence[str] = (),
) -> Callable[[Callable[..., Scorer]], Callable[..., Scorer]]:
    """Register the decorated function as a detector under its own name.

    The function takes the training outputs and keyword-only settings, and returns a function
    from outputs to scores, (n,), higher = more out-of-distribution. It sees only what `needs`
    declares; `grid` lists the values of each setting that are worth trying. Where a need depends
    on a setting, `needs_for` says on which value: ``{"space": {"logits": {"logits"}, ...}}``.
    A need that several settings list is needed where all of them do. Values that `needs_for` lists
    beyond the grid may be named, but are not tried.
    `only_by_name` leaves a costly one out of "all". `reads` names files, relative to the module,
    that the function reads, or that are imported by a computed name: without it, stored results
    do not notice that they changed. `losses`: it is scored on classifiers trained with these only.
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
            tuple(losses),
        )

    return add


Adopt = Callable[[str, object], "Detector | None"]
_adopting: list[Adopt] = []


def adopt_with(function: Adopt) -> None:
    """Let a function make detectors of what is decorated with nothing: the lab knows how."""
    _adopting[:] = [function]


def _adopt(name: str, thing: object) -> Detector | None:
    return next((made for adopt in _adopting if (made := adopt(name, thing)) is not None), None)


def load_plugins() -> None:
    """Import what other packages announce; one that fails is remembered, not raised."""
    for point in entry_points(group=ENTRY_POINTS):
        try:
            made = _adopt(point.name, point.load())
            if made is not None:
                DETECTORS.setdefault(point.name, made)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a stranger's import
            BROKEN_PLUGINS[point.name] = describe(problem)


def find(name: str | Detector | Callable[..., object]) -> Detector:
    """Look a detector up by name or by its function, or import it.

    ``package.module:name`` and ``file.py:name`` are imported.
    """
    if isinstance(name, Detector):
        return name
    if not isinstance(name, str):
        for card in DETECTORS.values():
            if card.build is name:
                return card
        made = _adopt(getattr(name, "__name__", ""), name)
        if made is None:
            raise UserError(
                f"{name!r} is not a detector: decorate it with @detector, or give its name."
            )
        return made
    module_name, colon, function = name.rpartition(":")
    if not colon:
        if name not in DETECTORS:
            raise unknown("detector", name, DETECTORS)
        return DETECTORS[name]
    here = detectors_in(module_name)
    if function not in here:
        module = import_module(f"Detectors in '{module_name}'", module_name)
        made = _adopt(function, getattr(module, function, None))
        if made is None:
            own = [n for n, v in vars(module).items() if _defined_in(module, v)]
            raise unknown(f"detector in '{module_name}':", function, {*here, *own})
        return made
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


def classes_in(module_name: str) -> dict[str, Detector | UserError]:
    """The classes of a module or file that have ``fit`` and ``score``, as detectors."""
    module = import_module(f"Detectors in '{module_name}'", module_name)
    found: dict[str, Detector | UserError] = {}
    for name, thing in list(vars(module).items()):
        if isinstance(thing, type) and _defined_in(module, thing) and not name.startswith("_"):
            try:
                made = _adopt(name, thing)
            except UserError as problem:
                found[name] = problem
                continue
            if made is not None:
                found[name] = made
    return found


def _defined_in(module: ModuleType, thing: object) -> bool:
    """Whether it is a class or function that a module defines."""
    return callable(thing) and getattr(thing, "__module__", "") == module.__name__


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

    @cached_property
    def beyond_outputs(self) -> tuple[Need, ...]:
        """What it needs, with its whole grid, that plain outputs do not hold."""
        return tuple(sorted(need for need in self.needs(grid=True) if need.beyond_outputs))


def choose(text: str) -> Choice:
    """Read ``name`` or ``name(setting=value, ...)``."""
    name, settings = parse_call("detector", text)
    return choice_of(find(name), settings, text)


def choice_of(card: Detector, settings: Mapping[str, Setting], text: str = "") -> Choice:
    """Choose a detector with some settings; the others are as by default."""
    full = card.complete(settings)
    changed = {name: value for name, value in full.items() if value != card.defaults[name]}
    label = f"{card.name}({setting_text(changed)})" if changed else card.name
    return Choice(card, full, label, text or label, frozenset(settings))
