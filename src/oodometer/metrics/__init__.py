"""Metrics of detection: arrays of scores in, a number (with its interval) out."""

from oodometer.metrics.estimate import Estimate

__all__ = ["Estimate"]
