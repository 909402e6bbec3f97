"""Generators: networks that make images of latent points, to search among."""

from oodometer.lab.generators import stylegan2  # noqa: F401 - importing registers it
from oodometer.lab.generators.cards import (
    GENERATORS,
    Drawing,
    GeneratorCard,
    draws,
    find_generator,
)

__all__ = ["GENERATORS", "Drawing", "GeneratorCard", "draws", "find_generator"]
