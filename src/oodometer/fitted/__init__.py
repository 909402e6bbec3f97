"""Detectors that are trained on images, without a study: fit, score, save and load."""

from oodometer.fitted.detector import FittedDetector
from oodometer.fitted.files import load_detector
from oodometer.fitted.fit import fit_detector

__all__ = ["FittedDetector", "fit_detector", "load_detector"]
