"""The built-in detectors, filed by what they read. Importing this package registers all of them."""

from oodometer.detectors import distances, gradients, logits, shaping, subspace
from oodometer.registry import load_plugins

__all__ = ["distances", "gradients", "logits", "shaping", "subspace"]

load_plugins()
