"""Detectors that are trained on images, without a study: fit, score, save, load and certify."""

from oodometer.fitted.detector import FittedDetector
from oodometer.fitted.files import load_detector
from oodometer.fitted.fit import fit_detector
from oodometer.fitted.guarantees import certify
from oodometer.lab.detector_models.with_outliers.certificates import Certificate

__all__ = ["Certificate", "FittedDetector", "certify", "fit_detector", "load_detector"]
