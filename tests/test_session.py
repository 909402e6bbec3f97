"""An open classifier: the same answers batch by batch, gradients to inputs, nothing left behind."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import oodometer as om
from oodometer.errors import UserError
from oodometer.lab.asking.session import Session


class Counting(nn.Module):
    """A network with dropout, a buffer and a view of how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()
        )
        self.drop, self.fc = nn.Dropout(0.5), nn.Linear(4 * 36, 3)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.fc(self.drop(self.body(x)))


@pytest.fixture
def model() -> Counting:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Counting()


def images(rows: int, seed: int = 1) -> Tensor:
    return torch.rand(rows, 1, 6, 6, generator=torch.Generator().manual_seed(seed))


def test_batches_that_are_asked_one_by_one_give_what_extract_gives(model):
    x, y = images(20), torch.arange(20) % 3
    needs = ["layers", "probe:odin", "probe:gram", "probe:mahalanobis"]
    data = {"train": (x, y), "a": images(12, 2)}
    whole = om.extract(model, data, needs=needs, batch_size=4)["a"]
    with Session(model, needs=needs, train=(x, y), batch_size=4) as session:
        parts = [session.ask(batch) for batch in torch.split(data["a"], 4)]
    for name in ("logits", "features"):
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(whole, name))
    for kind in ("layers", "probes"):
        for name, values in getattr(whole, kind).items():
            assert torch.equal(torch.cat([getattr(part, kind)[name] for part in parts]), values)
    assert torch.equal(parts[0].head.weight, model.fc.weight)


def test_one_pass_serves_plain_outputs_layers_and_probes(model):
    x, y = images(20), torch.arange(20) % 3
    needs = ["layers", "probe:gram", "probe:nac", "probe:pixel_neighbors"]  # none asks again
    om.extract(model, {"train": (x, y), "a": images(12, 2)}, needs=needs, batch_size=4)
    # Two samples to find the head, without which the stages before it are not known.
    assert model.calls == 1 + 5 + 3
    model.calls = 0
    with Session(model, batch_size=4) as session:
        for batch in torch.split(x, 4):
            session.ask(batch)
    assert model.calls == 5


def test_gradients_reach_the_inputs_and_nothing_else(model):
    x = images(5).requires_grad_()
    with Session(model, needs=["layers", "probe:odin"], layers=["body"]) as session:
        got = session.ask(x, gradients=True)
        (got.logits.logsumexp(1) + got.features.sum(1) + got.layers["body"].sum(1)).sum().backward()
        assert not got.probes["odin"].requires_grad
        assert not session.ask(x).logits.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
    model.eval()
    other = images(5).requires_grad_()
    features = model.body(other)
    energy = model.fc(features).logsumexp(1) + features.sum(1)
    # The stage `body` gives vectors, so that its mean over positions is itself.
    (energy + features.sum(1)).sum().backward()
    torch.testing.assert_close(x.grad, other.grad)


def test_gradients_without_a_head_and_of_inputs_by_name():
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.eye(4, 3))

        def forward(self, first: Tensor, second: Tensor) -> Tensor:
            return first.sin() @ self.weight + second @ self.weight

    model, x = Named(), images(3)[:, 0, 0, :4].clone().requires_grad_()
    with pytest.raises(UserError, match="no linear layer"), Session(model) as session:
        session.ask({"first": x, "second": x})
    with Session(model, lenient=True) as session:
        got = session.ask({"first": x, "second": x}, gradients=True)
        got.logits.sum().backward()
    assert got.features is None and "no linear layer" in got.refused["features"].reason
    expected = (x.detach().cos() + 1) @ torch.eye(4, 3).sum(1).diag()
    torch.testing.assert_close(x.grad, expected)
    assert model.weight.grad is None and model.weight.requires_grad


def test_a_search_by_gradients_moves_its_inputs(model):
    x = images(5).requires_grad_()
    with Session(model) as session:
        before = session.ask(x).logits.logsumexp(1)
        for _ in range(10):
            energy = session.ask(x, gradients=True).logits.logsumexp(1).sum()
            (slope,) = torch.autograd.grad(energy, x)
            x = (x + 0.1 * slope).detach().requires_grad_()
        after = session.ask(x).logits.logsumexp(1)
    assert (after > before).all()


def test_the_model_is_left_exactly_as_it_was(model):
    model.train()
    model.body[1].eval()  # frozen statistics, as in fine-tuning
    model.body[0].bias.requires_grad_(False)
    before = copy.deepcopy(model.state_dict())
    strides = [parameter.stride() for parameter in model.parameters()]
    modes = [module.training for module in model.modules()]
    wanted = [parameter.requires_grad for parameter in model.parameters()]
    x, y = images(8).requires_grad_(), torch.arange(8) % 3
    state = torch.get_rng_state()
    session = Session(model, needs="all", train=(images(8), y))
    session.ask(x, gradients=True).logits.sum().backward()
    with pytest.raises(UserError, match=r"failed on data set 'odd', on a batch of shape \(2, 5\)"):
        session.ask(torch.rand(2, 5, generator=torch.Generator()), name="odd")
    assert torch.equal(state, torch.get_rng_state())
    session.close()
    session.close()  # once more does no harm
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == wanted
    assert [parameter.stride() for parameter in model.parameters()] == strides
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    for module in model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks
        assert "forward" not in module.__dict__
    with pytest.raises(UserError, match="This session is closed"):
        session.ask(x)


def test_what_the_caller_does_in_between_is_left_alone(model):
    generator_state = torch.get_rng_state()
    weight = torch.ones(3, requires_grad=True)
    with Session(model) as session:
        session.ask(images(2))
        assert (2 * weight).requires_grad, "gradients are on outside of questions"
        drawn = torch.rand(3)
        session.ask(images(2))
        later = torch.rand(3)
    torch.set_rng_state(generator_state)
    assert torch.equal(torch.cat([drawn, later]), torch.rand(6))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"needs": ["probe:gram"]}, "Probe 'gram' learns from the training set, but there is no"),
        ({"needs": ["probe:odn"]}, r"Did you mean 'probe:odin'\?"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"head": "fz"}, r"Unknown linear layer 'fz'. Did you mean 'fc'\?"),
        ({"device": "foo"}, "Device 'foo' cannot be used here"),
    ],
)
def test_bad_arguments_leave_the_model_alone(model, arguments, sentence):
    model.train()
    with pytest.raises(UserError, match=sentence):
        Session(model, **arguments)
    assert model.training


def test_layers_that_are_lost_in_a_later_batch_are_refused_and_the_rest_is_kept():
    class Twice(nn.Module):
        """Runs a stage twice on the last, shorter batch."""

        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            self.second = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            hidden = self.second(self.first(x))
            return self.head(hidden if len(x) == 8 else self.second(hidden))

    outputs = om.extract(
        Twice(), {"a": torch.rand(12, 4)}, needs=["layers"], batch_size=8, lenient=True
    )["a"]
    assert len(outputs) == 12 and not outputs.layers
    assert "must run once in a forward pass" in str(outputs.refused["layers"])
