"""Classifiers that learn from auxiliary outliers, one file each, and what they share."""

from oodometer.lab.detector_models.with_outliers import (  # noqa: F401 - importing registers them
    acet,
    atom,
    ceda,
    good,
    outlier_exposure,
    rowl,
)
