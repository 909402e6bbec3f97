"""Commands about data: diagnose, and what compatibility rules exclude."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from oodometer.cli import app
from oodometer.errors import UserError
from oodometer.lab.data.compatibility import excluded_classes, outliers_for


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_diagnose_tells_and_reports(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 8, 8)).astype(np.uint8)
    bright = (images // 4 + 190).astype(np.uint8)
    bright[7] = images[3]
    np.savez(tmp_path / "mine.npz", images=images, labels=np.arange(60) % 3)
    np.savez(tmp_path / "theirs.npz", images=bright)
    out = tmp_path / "report"
    mine, theirs = str(tmp_path / "mine.npz"), str(tmp_path / "theirs.npz")
    said = invoke("diagnose", "--id", mine, "--ood", theirs, "--ood", "rotated", "--out", str(out))
    text = " ".join(said.split())
    assert "1 of 60 images of theirs has an exact copy in mine" in text
    assert "above all" in text and "rotated mine as outliers for mine" in text
    page = (out / "report.html").read_text()
    assert "theirs as outliers for mine" in page and "rotated mine" in page


@pytest.mark.parametrize(
    ("data", "ood", "sentence"),
    [
        ("digits", "digits", "has the name of the in-distribution data"),
        ("digit", "rotated", "Unknown data set 'digit'. Did you mean 'digits'"),
        ("digits", "rotate", "Unknown outlier set 'rotate'. Did you mean 'rotated'"),
        ("digits", "random_words", "made from texts, but 'digits' holds images"),
    ],
)
def test_diagnose_names_mistakes(data, ood, sentence):
    with pytest.raises(UserError, match=sentence):
        invoke("diagnose", "--id", data, "--ood", ood)


def test_compatibility_is_listed():
    entries = json.loads(invoke("list", "compatibility", "--json"))
    allowed = {entry["name"] for entry in entries if entry["allowed"] == "yes"}
    assert len(entries) == 6 * 9 - 6 and len(allowed) == 46
    assert {f"stl10 / {name}" for name in outliers_for("stl10")} <= allowed
    assert "cifar10 / stl10" not in allowed
    (bees,) = (e for e in entries if e["name"] == "tiny-imagenet / cifar100")
    named = bees["omitted classes (rule=published)"]
    numbers = {int(part.split()[-1]) for part in named.split(", ")}
    assert "bee 6" in named and numbers == excluded_classes("tiny-imagenet", "cifar100")
