"""The built-in detectors, filed by what they read. Importing this package registers all of them."""

from oodometer.detectors import (
    densities,
    distances,
    gradients,
    layers,
    learned,
    logits,
    openmax,
    perturbation,
    prototypes,
    relations,
    sampling,
    shaping,
    subspace,
    temperature,
)

__all__ = [
    "densities",
    "distances",
    "gradients",
    "layers",
    "learned",
    "logits",
    "openmax",
    "perturbation",
    "prototypes",
    "relations",
    "sampling",
    "shaping",
    "subspace",
    "temperature",
]
