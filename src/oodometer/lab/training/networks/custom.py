"""Anybody's network: a factory that can be imported, by ``package.module:factory``."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import nn

from oodometer.errors import UserError
from oodometer.imports import import_object
from oodometer.lab.asking.extract import extract
from oodometer.lab.data.vocabulary import WORDS


def load_factory(name: str) -> Callable[..., object]:
    """Import a factory by ``package.module:factory``, also from the working directory."""
    factory = import_object("Network", name)
    if not callable(factory):
        raise UserError(
            f"Network '{name}' must be a function or a class that makes a torch.nn.Module, but is "
            f"of type {type(factory).__name__}."
        )
    return factory


def inputs_of(shape: tuple[int, ...]) -> dict[str, int]:
    """What factories are told of their inputs: sizes of an image, or of a text and all words."""
    if len(shape) == 1:
        return {"length": shape[0], "words": WORDS}
    return dict(zip(("channels", "height", "width"), shape, strict=True))


def build_custom(name: str, shape: tuple[int, ...], classes: int, units: int | None) -> nn.Module:
    """Call a factory with those of `inputs_of`, classes (and units) that it takes."""
    factory = load_factory(name)
    offered = inputs_of(shape) | {"classes": classes}
    if units is not None:
        offered["units"] = units
    taken = _arguments(name, factory, offered)
    if units is not None and "units" not in taken:
        raise UserError(
            f"Network '{name}' takes no argument 'units', so its width cannot be {units}: leave "
            "the width out."
        )
    network = factory(**taken)
    if not isinstance(network, nn.Module):
        raise UserError(
            f"Network '{name}' must make a torch.nn.Module, but made a {type(network).__name__}."
        )
    _check_head(name, network, shape, classes)
    return network


def argument_names(signature: inspect.Signature) -> set[str]:
    """Return the names by which a factory takes arguments.

    A width counts beside a height only, as the image's; alone it is that of the network's layers.
    """
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = {p.name for p in signature.parameters.values() if p.kind in by_name}
    return names if "height" in names else names - {"width"}


def _arguments(
    name: str, factory: Callable[..., object], offered: dict[str, int]
) -> dict[str, int]:
    """Return those of the offered arguments that a factory takes."""
    try:
        signature = inspect.signature(factory)
    except ValueError:  # some callables written in C tell nothing
        return offered
    names = argument_names(signature)
    if any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        names |= offered.keys() - signature.parameters.keys()
    taken = {key: value for key, value in offered.items() if key in names}
    try:
        signature.bind(**taken)
    except TypeError as problem:
        how = f"with {', '.join(taken)} alone" if taken else "without arguments"
        raise UserError(
            f"Network '{name}' cannot be called {how}: {problem} "
            f"(a study offers {', '.join(offered)})."
        ) from None
    return taken


def _check_head(name: str, network: nn.Module, shape: tuple[int, ...], classes: int) -> None:
    """Ask the network about two blank inputs: detectors need a linear head, one output a class."""
    kind = torch.float32 if len(shape) == 3 else torch.int64
    blank = "blank images" if len(shape) == 3 else "empty texts"
    try:
        outputs = extract(network, {blank: torch.zeros(2, *shape, dtype=kind)})[blank]
    except UserError as problem:
        raise UserError(f"Network '{name}' cannot be used: {problem}") from problem
    assert outputs.logits is not None
    if outputs.logits.shape[1] != classes:
        raise UserError(
            f"Network '{name}' has {outputs.logits.shape[1]} outputs for {classes} classes: its "
            "factory should take the argument 'classes'."
        )
