"""What a classifier says about a data set: the waist between networks and detectors."""

from oodometer.outputs.outputs import Head, Outputs
from oodometer.outputs.refusal import Refusal, RefusedError
from oodometer.outputs.softmax import SoftmaxKind, log_probabilities, softmax_kind
from oodometer.outputs.view import View

__all__ = [
    "Head",
    "Outputs",
    "Refusal",
    "RefusedError",
    "SoftmaxKind",
    "View",
    "log_probabilities",
    "softmax_kind",
]
