"""Files that users name: pipes and devices are refused at once, and bombs before they unpack."""

from __future__ import annotations

import bz2
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import oodometer as om
from oodometer.errors import UserError
from oodometer.lab.data.label_files import read_labels
from oodometer.saved.files import open_file
from oodometer.score_files import load_scores
from oodometer.study import load_study

READERS: dict[str, Callable[[Path], object]] = {
    "results.csv": om.analyze,
    "outputs.npz": open_file,
    "study.yaml": load_study,
    "labels.txt": lambda path: read_labels(str(path), None, [0, 1]),
    "scores.parquet": load_scores,
}


@pytest.mark.parametrize("name", READERS)
def test_pipes_and_devices_are_refused_at_once(name, tmp_path):
    """Reading them would wait for ever."""
    pipe = tmp_path / name
    os.mkfifo(pipe)
    device = tmp_path / f"zero-{name}"
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(UserError, match=f"'{path}' is a pipe or a device, not a file"):
            READERS[name](path)


def test_a_small_file_that_unpacks_to_gigabytes_is_not_unpacked(tmp_path):
    bomb = tmp_path / "results.csv.bz2"
    bomb.write_bytes(bz2.compress(b"1,2\n" * (1 << 23)))
    with pytest.raises(UserError, match="holds more than 16,777,216 bytes"):
        om.analyze(bomb)
