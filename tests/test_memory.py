"""Too little memory is one sentence, whoever asked for it, and leaves stores as they were."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import write_stripes

from oodometer.cli.memory import describe_lack, lacks_memory

# Imports first, so that the limit is on what the command itself needs.
LIMITED = """
import importlib, resource, sys
if __name__ == "__main__":
    for name in sys.argv[2].split(","):
        importlib.import_module(name)
    from oodometer.cli import main
    status = open("/proc/self/status").read()
    used = int(status.split("VmSize:")[1].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]) * 2**20,) * 2)
    sys.argv = ["oodometer", *sys.argv[3:]]
    main()
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS and /proc are Linux's")


def limited(folder: Path, megabytes: int, modules: str, *command: object) -> str:
    script = folder / "limited.py"
    script.write_text(LIMITED)
    words = [sys.executable, script, megabytes, modules, *command]
    done = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, timeout=120, check=False, cwd=folder
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


@linux
def test_a_file_that_is_too_large_for_memory(tmp_path):
    np.savez(tmp_path / "a.npz", id=np.zeros(4_000_000), ood=np.ones(10))
    modules = "oodometer.comparison,oodometer.reports,pandas,pyarrow.parquet"
    said = limited(tmp_path, 20, modules, "compare", "a.npz", "--higher", "ood")
    assert said == (
        "oodometer: Not enough memory while reading scores, which asked for another 30.5 MiB; "
        "nothing that was stored is damaged."
    )


@linux
def test_a_study_without_memory_leaves_its_store_whole(tmp_path):
    write_stripes(tmp_path / "stripes.npz")
    (tmp_path / "study.yaml").write_text(
        "{name: tiny, base: {data: stripes.npz, network: mlp, width: 4, epochs: 1}, "
        "detectors: [energy], ood: [inverted]}"
    )
    said = limited(
        tmp_path, 30, "oodometer.engine.lead.run", "run", "study.yaml", "--store", "store"
    )
    assert "Not enough memory while" in said.splitlines()[-1]
    assert "Run the same command again to resume." in said
    assert not [*(tmp_path / "store").rglob("models/*/*")]


def test_the_errors_of_libraries_are_known():
    with pytest.raises(RuntimeError) as of_torch:
        torch.empty(2**46, dtype=torch.float32)
    with pytest.raises(MemoryError) as of_numpy:
        np.empty(2**55)
    for problem in (of_torch.value, of_numpy.value):
        assert lacks_memory(problem)
        assert "asked for another" in describe_lack(problem)
    assert "281 TB" in describe_lack(of_torch.value)
    assert "256 PiB" in describe_lack(of_numpy.value)
    assert lacks_memory(OSError(errno.ENOMEM, "Cannot allocate memory"))
    assert not lacks_memory(OSError(errno.ENOENT, "No such file"))
    assert not lacks_memory(RuntimeError("shapes differ"))
    assert not lacks_memory(KeyError("out of memory"))
