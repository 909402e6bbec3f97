"""What a classifier says about a data set: the waist between networks and detectors."""

from oodometer.outputs.outputs import (
    OF_OTHER_NETWORKS,
    PROBE,
    Head,
    Outputs,
    RefusedError,
    View,
)

__all__ = ["OF_OTHER_NETWORKS", "PROBE", "Head", "Outputs", "RefusedError", "View"]
