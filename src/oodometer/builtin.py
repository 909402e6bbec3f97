"""Importing this registers the built-in detectors, and those that other packages announce."""

import oodometer.detectors
import oodometer.lab.detector_models  # noqa: F401 - importing registers them
from oodometer.registry import load_plugins

load_plugins()
