"""Detectors and generators that are trained on images, without a study."""

from oodometer.fitted.detector import FittedDetector
from oodometer.fitted.files import load_detector
from oodometer.fitted.fit import fit_detector
from oodometer.fitted.generator import (
    FittedGenerator,
    fit_generator,
    load_generator,
    load_variation,
)
from oodometer.fitted.guarantees import certify
from oodometer.lab.detector_models.with_outliers.certificates import Certificate

__all__ = [
    "Certificate",
    "FittedDetector",
    "FittedGenerator",
    "certify",
    "fit_detector",
    "fit_generator",
    "load_detector",
    "load_generator",
    "load_variation",
]
