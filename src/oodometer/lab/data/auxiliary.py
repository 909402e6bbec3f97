"""Auxiliary outliers: what some detector models learn from besides the training data."""

from __future__ import annotations

from dataclasses import replace

from oodometer.calls import setting_text
from oodometer.errors import UserError
from oodometer.lab.data.datasets import split_options
from oodometer.lab.data.outliers import KNOWN, OPTIONS, load_outliers
from oodometer.lab.data.samples import Samples
from oodometer.lab.data.sources import Source


def load_auxiliary(name: str, source: Source) -> Samples:
    """Read the training part of a data set, all of it, in the shape of the source's inputs."""
    data, options = split_options(name, OPTIONS)
    if data in KNOWN:
        raise UserError(
            f"auxiliary must name a data set, got '{name}', which is made from the test set."
        )
    part = setting_text({"part": "train", **options})
    return load_outliers(f"{data}({part})", replace(source, test_size=None, ood_draw=None))
