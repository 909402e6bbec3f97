"""Oodometer: a meter for out-of-distribution detectors."""

__version__ = "0.1.0"
