"""The data of runs: read once in a process, never stale, and not more than agreed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_studies import make_study, run_inside

from oodometer.engine.lead.run import make_plan, read_contents
from oodometer.engine.stores import FolderStore
from oodometer.engine.work import data
from oodometer.errors import UserError


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """What is read from files, time by time."""
    data.forget_data()
    files: list[str] = []
    load = data.load_source

    def counted(spec):
        files.append(spec.data)
        return load(spec)

    monkeypatch.setattr(data, "load_source", counted)
    yield files
    data.forget_data()


def runs_of(study):
    return make_plan(study, read_contents(study)).runs


def test_a_process_reads_data_once_for_all_runs(tiny_npz, tmp_path, reads):
    study = make_study(tiny_npz(), factors=[{"field": "seed", "levels": [0, 1, 2]}])
    run_inside(study, FolderStore(tmp_path / "store"))
    assert len(reads) == 1


def test_other_content_is_read_again(tiny_npz, reads):
    path = tiny_npz()
    study = make_study(path, factors=[])
    (before,) = runs_of(study)
    first = data.read_data(before.spec, study.ood, before.content)
    assert data.read_data(before.spec, study.ood, before.content) is first
    with np.load(path) as arrays:
        content = dict(arrays)
    content["train_images"].flat[0] += 1
    np.savez(path, **content)
    (after,) = runs_of(study)
    second = data.read_data(after.spec, study.ood, after.content)
    assert second.source.train.digest == after.content.train != first.source.train.digest
    assert len(reads) == 2
    data.forget_data()
    with pytest.raises(UserError, match="data changed while the study was running"):
        data.read_data(before.spec, study.ood, before.content)


def test_only_so_much_is_kept_when_other_data_are_read(tiny_npz, reads, monkeypatch):
    study = make_study(tiny_npz(), factors=[{"field": "test_size", "levels": [20, 30, 40]}])
    runs = runs_of(study)
    sizes = [data.read_data(run.spec, study.ood, run.content).bytes for run in runs]
    assert sizes == sorted(set(sizes)) and len(reads) == 3
    for run in runs:
        data.read_data(run.spec, study.ood, run.content)
    assert len(reads) == 3, "all of them fit"
    data.forget_data()
    reads.clear()
    monkeypatch.setattr(data, "KEPT_BYTES", sizes[1])
    for run in (*runs, runs[2], runs[0], runs[2]):
        data.read_data(run.spec, study.ood, run.content)
    # The third takes more than is kept: it is dropped for the first, and read again.
    assert len(reads) == 3 + 1 + 1
    with pytest.raises(UserError, match="data changed"):
        data.read_data(runs[0].spec, study.ood, replace(runs[0].content, train="x"))
