"""Fixtures that several tests share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from data_files import write_stripes
from hypothesis import HealthCheck, settings

import oodometer.builtin  # noqa: F401 - importing registers them
from oodometer.engine.executors.in_process import InProcess
from oodometer.engine.executors.pool import Pool
from oodometer.engine.lead.tasks import warm_up
from oodometer.lab.detector_models import MODELS
from oodometer.outputs import Head, Outputs
from oodometer.registry import DETECTORS

# The same examples on every machine, however slow it is.
settings.register_profile(
    "anywhere", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("anywhere")

collect_ignore = ["oracles"]  # a script that needs another library, in an environment of its own


@pytest.fixture(autouse=True)
def _own_detectors_stay_in_their_test() -> Iterator[None]:
    """Forget the detectors and models that a test registers: some crash, and "all" means them."""
    known, models = dict(DETECTORS), dict(MODELS)
    yield
    DETECTORS.clear()
    DETECTORS.update(known)
    MODELS.clear()
    MODELS.update(models)


@pytest.fixture
def outputs() -> Outputs:
    """Twenty consistent rows: 3 classes, width 4."""
    rng = torch.Generator().manual_seed(0)
    features = torch.randn(20, 4, generator=rng, dtype=torch.float64)
    weight = torch.randn(3, 4, generator=rng, dtype=torch.float64)
    head = Head(weight, torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64))
    return Outputs(head(features), features, torch.arange(20) % 3, head)


@pytest.fixture
def tiny_npz(tmp_path):
    """Write a small, separable image data set; return its path."""

    def write(name: str = "stripes.npz", size: int = 60, **changes: np.ndarray) -> str:
        return write_stripes(tmp_path / name, size, **changes)

    return write


@pytest.fixture(scope="session")
def stripes(tmp_path_factory) -> str:
    """The path of the same data set, for tests that share more than it."""
    return write_stripes(tmp_path_factory.mktemp("data") / "stripes.npz")


@pytest.fixture(scope="session")
def two_workers() -> Iterator[Pool]:
    """Two processes for all tests: to start one takes seconds; who is lost in one is replaced."""
    workers = Pool(2, warm_up=warm_up)
    yield workers
    workers.close()


@pytest.fixture
def checked_here(monkeypatch):
    """Let `check` run detectors in this process: not for those that end it, or never end."""
    monkeypatch.setattr("oodometer.engine.executors.pool.Pool", lambda *_, **__: InProcess())
