"""What a classifier says about a data set: the waist between networks and detectors."""

from oodometer.outputs.outputs import Head, Outputs, View
from oodometer.outputs.refusal import Refusal, RefusedError

__all__ = ["Head", "Outputs", "Refusal", "RefusedError", "View"]
