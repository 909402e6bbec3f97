"""A study on real images, where they are on this machine: MNIST against letters and drawings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oodometer.engine.executors.in_process import InProcess
from oodometer.engine.lead.run import run_study
from oodometer.engine.stores import FolderStore
from oodometer.study import parse_study

DATA = Path(os.environ.get("OODOMETER_DATA") or "none")
NEEDED = [DATA / f"{name}.npz" for name in ("mnist", "notmnist", "omniglot")]

pytestmark = pytest.mark.skipif(
    not all(path.is_file() for path in NEEDED),
    reason="OODOMETER_DATA names no folder with mnist.npz, notmnist.npz and omniglot.npz",
)


def test_mnist_is_told_from_letters(tmp_path):
    mnist, *letters = map(str, NEEDED)
    study = parse_study(
        {
            "name": "mnist",
            "base": {"data": mnist, "epochs": 1, "batch_size": 64, "width": 8},
            "detectors": ["max_softmax", "energy", "mahalanobis", "vim"],
            "ood": [*letters, "uniform_noise"],
        },
        "study",
    )
    outcome = run_study(study, FolderStore(tmp_path / "store"), executor=InProcess())
    assert not outcome.missing
    (finding,) = outcome.findings
    facts = dict(finding.facts)
    assert facts["test samples"] == "10000"
    assert float(facts["test accuracy"].rstrip("%")) > 93
    columns = finding.tables[0].columns
    assert columns[2:] == ("notmnist", "omniglot", "uniform noise")
    for detector, *cells in finding.tables[0].rows:
        for column, cell in zip(columns[1:], cells, strict=True):
            assert 0 < cell.high - cell.low < 0.05, "10,000 samples make a narrow interval"
            # Letters are easy outliers for a digit classifier; a wrong sign or split is far below.
            # Noise is not easy for every detector.
            if column in ("notmnist", "omniglot"):
                assert cell.value > 0.75, f"{detector} on {column}: {cell}"
    assert max(row[-1].value for row in finding.tables[0].rows) > 0.9, "none sees uniform noise"
