"""Probabilities in place of logits: recognized, used where they suffice, refused elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import oodometer as om
from oodometer.cli import app
from oodometer.errors import UserError
from oodometer.needs import Need
from oodometer.outputs import Head, Outputs, softmax_kind
from oodometer.registry import DETECTORS, Detector
from oodometer.testing.toys import toy_outputs, train_toys, validation_toys

LOGITS, RELATIVE, HEAD = (Need("outputs", name) for name in ("logits", "relative_logits", "head"))
KINDS = {"probabilities": lambda z: z.softmax(1), "log-probabilities": lambda z: z.log_softmax(1)}


def in_percent(logits: Tensor) -> Tensor:
    return 100 * logits.softmax(1)


@pytest.mark.parametrize("classes", [2, 10, 1000])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("sharpness", [0.1, 1.0, 30.0])
def test_a_softmax_is_recognized_however_it_was_rounded(classes, dtype, sharpness):
    generator = torch.Generator().manual_seed(classes)
    logits = sharpness * torch.randn(50, classes, generator=generator, dtype=torch.float64)
    assert softmax_kind(logits.to(dtype)) is None
    for kind, make in KINDS.items():
        assert softmax_kind(make(logits).to(dtype)) == kind
    assert softmax_kind(in_percent(logits).to(dtype)) == "probabilities"
    assert softmax_kind(logits.softmax(1).mul(1e3 * classes).round().div(1e3 * classes)) is not None
    spoilt = logits.softmax(1)
    spoilt[-1] *= 1.5  # one row that is no softmax, and none is
    assert softmax_kind(spoilt) is None


def test_nothing_else_is_taken_for_a_softmax():
    for logits in (torch.empty(0, 3), torch.ones(4, 1), torch.zeros(4, 3), torch.eye(3) * 2):
        assert softmax_kind(logits) is None


def settings_of(card: Detector, need: Need) -> list[dict[str, object]]:
    return [values for values in card.settings() if need in card.needed(values)][:12]


def shifted(outputs: Outputs, size: float) -> Outputs:
    """The same without a head, every sample's logits moved by a number of its own."""
    moved = outputs.logits + size * torch.linspace(-1, 1, len(outputs)).double().sin()[:, None]
    return replace(outputs, logits=moved, head=None)


@pytest.mark.parametrize(
    "card", [c for c in DETECTORS.values() if RELATIVE in c.needs], ids=lambda card: card.name
)
def test_relative_logits_are_all_that_some_detectors_read(card):
    assert LOGITS not in card.needs
    for values in settings_of(card, RELATIVE):
        found = [
            card.fit(shifted(train_toys(), size), validation=None, **values)(
                shifted(toy_outputs(80, 1), size)
            )
            for size in (0.0, 3.0)
        ]
        torch.testing.assert_close(*found, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "card",
    [c for c in DETECTORS.values() if LOGITS in c.needs and HEAD not in c.needs],
    ids=lambda card: card.name,
)
def test_no_detector_is_refused_that_would_do_with_probabilities(card):
    (values, *_) = settings_of(card, LOGITS)
    inliers, outliers = validation_toys()
    found = [
        card.fit(
            shifted(train_toys(), size),
            validation=(shifted(inliers, size), shifted(outliers, size)),
            **values,
        )(shifted(toy_outputs(80, 1), size))
        for size in (0.0, 3.0)
    ]
    spread = float(found[0].max() - found[0].min())
    assert float((found[0] - found[1]).abs().max()) > 0.01 * spread


def classifier(rows: int, seed: int) -> Tensor:
    return 3 * torch.randn(rows, 5, generator=torch.Generator().manual_seed(seed)).double()


def sets(make) -> dict[str, Outputs]:
    parts = {"train": classifier(60, 1), "test": classifier(40, 2), "odd": classifier(30, 3) / 2}
    return {name: Outputs(make(logits)) for name, logits in parts.items()}


@pytest.mark.parametrize(("kind", "make"), [*KINDS.items(), ("probabilities", in_percent)])
def test_energy_is_refused_and_softmax_detectors_continue(kind, make):
    plain = om.score(sets(lambda z: z), ["max_softmax", "entropy"])
    table = om.score(sets(make), ["max_softmax", "entropy", "energy", "max_logit"])
    for row, expected in zip(table.rows, plain.rows, strict=True):
        np.testing.assert_allclose(row.scores, expected.scores, rtol=1e-9)
    assert [part.detector for part in table.missing] == ["energy", "max_logit"]
    for part in table.missing:
        assert part.lasting and part.reason.startswith(f"the logits are {kind}, which determine")
        assert part.reason.endswith("give the outputs before the softmax")


def test_users_detectors_that_need_logits_are_refused_too():
    card = Detector("mine", lambda train: lambda test: -test.logits[:, 0], "", {"logits"}, {})
    with pytest.raises(
        UserError, match="needs logits, which .* lack: the logits are probabilities"
    ):
        card.fit(Outputs(classifier(9, 1).softmax(1)))
    fitted = card.fit(Outputs(classifier(9, 1)))
    with pytest.raises(UserError, match="which these outputs lack: the logits are probabilities"):
        fitted(Outputs(classifier(9, 1).softmax(1)))


def test_all_sets_must_be_saved_alike():
    mixed = sets(lambda z: z) | {"odd": Outputs(classifier(30, 3).softmax(1))}
    with pytest.raises(UserError, match="'odd' holds probabilities, but 'train' logits"):
        om.score(mixed, ["max_softmax"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_head_gives_the_logits_back(kind):
    head = Head(torch.randn(5, 7).double(), torch.randn(5).double())
    features = torch.randn(20, 7).double()
    made = Outputs(KINDS[kind](head(features)), features, head=head)
    assert torch.equal(made.logits, head(features)) and "logits" not in made.refused


def test_rows_and_copies_keep_what_is_known():
    made = Outputs(classifier(9, 1).softmax(1))
    for part in (made.take(torch.arange(3)), made.copy(), made.refusing({})):
        assert LOGITS not in part.available and RELATIVE in part.available
        assert part.refused["logits"] == made.refused["logits"]


class Headless(nn.Module):
    """A network whose last layer is a function, so that there is no head to be found."""

    def __init__(self, end) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(5, 6, generator=generator, dtype=torch.float64))
        self.end = end

    def forward(self, inputs: Tensor) -> Tensor:
        return self.end(inputs.tanh() @ self.weight.T)


def data() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        name: size * torch.randn(rows, 6, generator=generator, dtype=torch.float64)
        for name, rows, size in (("train", 60, 1.0), ("id", 40, 1.0), ("far", 30, 3.0))
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_returns_its_softmax(kind):
    train, id, far = data().values()
    names = ["max_softmax", "odin", "energy", "knn"]
    plain = om.evaluate(Headless(lambda z: z), train, id, {"far": far}, detectors=names)
    heard: list[str] = []
    made = om.evaluate(
        Headless(KINDS[kind]), train, id, {"far": far}, detectors=names, notify=heard.append
    )
    assert {row.detector for row in made.table.rows} == {"max_softmax", "odin"}
    for name in ("max_softmax", "odin"):
        np.testing.assert_allclose(
            made.table.scores("", name, "far"), plain.table.scores("", name, "far"), rtol=1e-6
        )
    assert {row.detector for row in plain.table.rows} == {"max_softmax", "odin", "energy"}
    (note,) = [text for text in made.notes if "probabilities" in text]
    assert note in heard and "detectors that need logits, such as energy, are left out" in note


def test_a_softmax_behind_a_linear_head_costs_nothing():
    model = nn.Sequential(nn.Tanh(), nn.Linear(6, 5), nn.Softmax(1)).double()
    made = om.extract(model, {"id": data()["id"]})["id"]
    assert torch.allclose(made.logits, model[:2](data()["id"])) and not made.refused


def test_evaluate_says_so_on_the_terminal_and_in_the_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, part in sets(lambda z: z).items():
        np.savez(f"{name}.npz", logits=part.logits.softmax(1).numpy())
    files = ["train=train.npz", "id=test.npz", "odd=odd.npz"]
    done = CliRunner().invoke(app, ["evaluate", "--outputs", *files, "--out", "out"])
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    assert "note: 'train.npz', 'test.npz', 'odd.npz': the logits are probabilities: " in told
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "the logits are probabilities, which determine logits only up to a constant" in report
    assert "the logits are probabilities: detectors that need logits, such as energy" in report
