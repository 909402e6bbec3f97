"""Metrics of detection: arrays of scores in, a number (with its interval) out."""

from oodometer.metrics.bootstrap import estimate_all, interval
from oodometer.metrics.conventions import BY_NAME, CONVENTIONS
from oodometer.metrics.delong import auroc_interval
from oodometer.metrics.estimate import Estimate
from oodometer.metrics.points import (
    METRICS,
    Metric,
    aupr_in,
    aupr_out,
    auroc,
    detection_accuracy,
    detection_error,
    fpr_at_tpr,
    tnr_at_tpr,
)

__all__ = [
    "BY_NAME",
    "CONVENTIONS",
    "METRICS",
    "Estimate",
    "Metric",
    "aupr_in",
    "aupr_out",
    "auroc",
    "auroc_interval",
    "detection_accuracy",
    "detection_error",
    "estimate_all",
    "fpr_at_tpr",
    "interval",
    "tnr_at_tpr",
]
