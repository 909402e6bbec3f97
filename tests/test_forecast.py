"""The time that a dry run announces: from timed steps, held against a training run."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import torch
from engine_studies import make_study, run_here
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from oodometer.cli.studies import _timed
from oodometer.engine.lead import paces
from oodometer.engine.lead.forecast import forecast
from oodometer.engine.lead.run import costs_of, make_plan, read_data_of
from oodometer.engine.stores import FolderStore
from oodometer.lab.data.sources import load_source
from oodometer.lab.training.train import Training

BASE = {"data": "digits", "network": "small_cnn", "epochs": 3, "batch_size": 64}


def expected(study, store):
    contents, sizes = read_data_of(study)
    plan = make_plan(study, contents)
    return forecast(plan, costs_of(plan, sizes), store)


@pytest.fixture
def work_clock(monkeypatch):
    """A clock that advances with the passes of linear layers: 5 for each, and 1 per sample."""
    passed = [0.0]

    def count(module, inputs, _):
        passed[0] += 5.0 + len(inputs[0]) if isinstance(module, nn.Linear) else 0.0

    hook = register_module_forward_hook(count)
    clock = SimpleNamespace(process_time=lambda: passed[0], monotonic=time.monotonic)
    monkeypatch.setattr(paces, "time", clock)
    yield clock.process_time
    hook.remove()


@pytest.mark.parametrize("work", [1.5e10, 2e7])  # whole batches; parts of them
def test_the_announced_time_is_the_time_it_takes(tmp_path, monkeypatch, work_clock, work):
    monkeypatch.setattr(paces, "_WORK", work)
    factors = [{"field": "seed", "levels": [0, 1]}, {"field": "optimizer", "levels": ["adam"]}]
    study = make_study("digits", base=BASE, factors=factors, ood=["uniform_noise"])
    found = expected(study, FolderStore(tmp_path))
    (spec, _), *_ = study.runs().values()
    source = load_source(spec)
    training = Training(spec, source.train, source.classes)
    began = work_clock()
    while not training.finished:
        training.run_epoch()
    assert found.longest == pytest.approx(work_clock() - began, rel=0.02)  # the last batch is small
    assert found.training == pytest.approx(2 * found.longest) and 0 < found.steps <= 6
    assert found.seconds(2) >= found.longest and not found.untimed


def test_what_is_in_the_store_takes_no_time(tiny_npz, tmp_path):
    study = make_study(tiny_npz(), factors=[], detectors=["energy"])
    store = FolderStore(tmp_path / "store")
    assert expected(study, store).training > 0
    run_here(study, store)
    assert expected(study, store).training == 0


class Picky(nn.Module):
    """A network that refuses bright images, as made-up ones are."""

    def __init__(self, channels: int, height: int, width: int, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(channels * height * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.any():
            raise RuntimeError("not these")
        return self.head(x.flatten(1))


def test_what_cannot_be_timed_is_said(tiny_npz, tmp_path):
    base = {"data": tiny_npz(), "network": f"{__file__}:Picky", "epochs": 1}
    found = expected(make_study("", base=base), FolderStore(tmp_path))
    assert len(found.untimed) == 2 and found.training == 0


def test_nothing_is_expected_to_take_no_time():
    assert (_timed(0.2), _timed(1.4), _timed(600)) == ("less than 1 s", "1 s", "10 min")
