"""Classifiers whose outputs are random, or depend on the rest of the batch, are pointed out."""

from __future__ import annotations

import pytest
import torch
from engine_studies import make_study, run_here
from torch import Tensor, nn
from torch.nn import functional

import oodometer as om
from oodometer.engine.stores import FolderStore
from oodometer.lab.asking.steadiness import unsteadiness
from oodometer.lab.training.networks import build_network

RANDOM = "differ between two passes over the same inputs"
BATCH = "depend on the rest of the batch"


class Model(nn.Module):
    """A linear head behind what `kind` does to the inputs."""

    def __init__(self, kind: str, width: int = 6, classes: int = 3) -> None:
        super().__init__()
        self.kind, self.head = kind, nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.kind == "random":
            x = functional.dropout(x, 0.2)  # also in eval mode
        if self.kind == "batch":
            x = x - x.mean(0)
        return self.head(x)


def inputs(rows: int = 40, seed: int = 0, width: int = 6) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("kind", "found"), [("steady", set()), ("random", {"passes"}), ("batch", {"batches"})]
)
def test_a_batch_is_asked_twice_and_in_halves(kind, found):
    model, state = Model(kind), torch.get_rng_state()
    assert set(unsteadiness(model, inputs())) == found
    assert torch.equal(torch.get_rng_state(), state)


def test_one_sample_cannot_show_a_batch():
    assert unsteadiness(Model("batch"), inputs(1)) == {}
    # Dropout leaves one sample in ten as it was.
    assert any(unsteadiness(Model("random"), inputs(1)) for _ in range(20))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rounding_is_no_unsteadiness(dtype):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build_network("resnet18", (3, 16, 16), 5, 8).to(dtype)
    images = torch.rand(64, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    assert unsteadiness(network, images) == {}
    with torch.no_grad():
        [*network.modules()][-1].bias += 1000  # a common offset takes digits away
    assert unsteadiness(network, images) == {}


@pytest.mark.parametrize(("kind", "words"), [("steady", ""), ("random", RANDOM), ("batch", BATCH)])
def test_evaluate_says_so_in_notes_and_caveats(kind, words):
    train, labels = inputs(60), torch.arange(60) % 3
    said: list[str] = []
    result = om.evaluate(
        [Model(kind), Model(kind)], (train, labels), inputs(40, 1), {"far": 4 * inputs(40, 2)},
        detectors=["max_logit", "energy"], notify=said.append,
    )  # fmt: skip
    for finding in result.findings:
        caveats = [caveat for caveat in finding.caveats if RANDOM in caveat or BATCH in caveat]
        assert [words in caveat for caveat in caveats] == ([True] if words else [])
        assert all("in both runs" in caveat for caveat in caveats)
    assert sum(RANDOM in line or BATCH in line for line in said) == bool(words)


@pytest.mark.parametrize(("line", "words"), [("x", ""), ("x - x.mean(0)", BATCH)])
def test_a_study_says_so_in_all_its_findings(tiny_npz, tmp_path, line, words):
    (tmp_path / "own.py").write_text(
        "import math\nfrom torch import nn\n"
        "class Own(nn.Module):\n"
        "    def __init__(self, channels, height, width, classes):\n"
        "        super().__init__()\n"
        "        self.head = nn.Linear(channels * height * width, classes)\n"
        "    def forward(self, x):\n"
        "        x = x.flatten(1)\n"
        f"        return self.head({line})\n"
    )
    base = {"data": tiny_npz(), "network": f"{tmp_path / 'own.py'}:Own", "epochs": 1}
    study = make_study(tiny_npz(), base=base, detectors=["max_logit", "energy"])
    for _ in range(2):  # also from the store
        outcome = run_here(study, FolderStore(tmp_path / "store"))
        for finding in outcome.findings:
            assert any(BATCH in caveat for caveat in finding.caveats) == bool(words)
