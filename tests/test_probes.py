"""Probes: what a network is asked beside the plain pass, what it costs, that it stays as it was."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import entropy as scipy_entropy
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import oodometer as om
from oodometer.errors import UserError
from oodometer.lab.asking.probes import PROBES, dropout, pixels
from oodometer.lab.asking.probes.layers import without_leading
from oodometer.lab.asking.stages import as_matrix
from oodometer.lab.asking.votes import LOG_NOTHING, summarize_votes
from oodometer.lab.training.networks import build_network
from oodometer.needs import ENSEMBLE

USUAL = {name for name, probe in PROBES.items() if not probe.only_by_name}  # what "all" means


def seeded(build):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build().eval()


def images(rows: int, *shape: int, seed: int = 1) -> Tensor:
    return torch.rand(rows, *shape, generator=torch.Generator().manual_seed(seed))


def with_dropout() -> nn.Sequential:
    """Two convolutions, then dropout, a hidden layer, dropout, the head."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Dropout2d(0.2),
        nn.Flatten(),
        nn.Linear(4 * 36, 10),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(10, 3),
    )


@contextmanager
def counted(*modules: nn.Module) -> Iterator[tuple[Counter[int], Counter[int]]]:
    """Count rows that go forward and backward through modules, by their place."""
    forward: Counter[int] = Counter()
    backward: Counter[int] = Counter()
    hooks = []
    for place, module in enumerate(modules):
        hooks.append(
            module.register_forward_hook(
                lambda _, given, output, place=place: forward.update({place: len(output)})
            )
        )
        hooks.append(
            module.register_full_backward_hook(
                lambda _, given, output, place=place: backward.update({place: len(output[0])})
            )
        )
    try:
        yield forward, backward
    finally:
        for hook in hooks:
            hook.remove()


# What it costs


def test_odin_costs_a_backward_pass_per_temperature_and_a_forward_pass_per_point():
    model = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ELU(), nn.Linear(8, 3)))
    x = images(10, 1, 6, 6)
    with counted(model[1]) as (forward, backward):
        om.extract(model, {"a": x}, needs=["probe:odin"], batch_size=4)
    assert forward[0] == 10 * (1 + 4 * 4), "the plain pass, and 4 temperatures x 4 steps"
    assert backward[0] == 10 * 4
    with counted(model[1]) as (forward, backward):
        om.extract(model, {"a": x}, needs=["probe:odin_fine"], batch_size=4)
    assert forward[0] == 10 * (1 + 10 * 20), "10 temperatures x 20 steps, and the plain pass"
    assert backward[0] == 10 * 10
    assert forward[0] <= 10 * (10 + 10 * 20), "temperatures + perturbed points"


def test_mc_dropout_repeats_only_what_lies_behind_the_first_dropout():
    model = seeded(with_dropout)
    x = images(10, 1, 6, 6)
    with counted(model[0], model[5], model[8]) as (forward, _):
        got = om.extract(model, {"a": x}, needs=["probe:mc_dropout"], batch_size=4)["a"]
    assert got.probes["mc_dropout"].shape == (10, 3, 4)
    assert forward[0] == 10 and forward[1] == forward[2] == 10 * 31
    with _conv_calls() as calls:
        om.extract(model, {"a": x}, needs=["probe:mc_dropout"], batch_size=4)
    assert calls == [4, 4, 2], "the convolution was computed more than once"


@contextmanager
def _calls(*functions) -> Iterator[list[int]]:
    """Rows of every call of these functions that is really computed, whoever calls it."""
    calls: list[int] = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function in functions:
                calls.append(len(args[0]))
            return function(*args, **(kwargs or {}))

    with Watch():
        yield calls


_conv_calls = functools.partial(_calls, functional.conv2d, torch.conv2d)


def test_all_probes_share_the_plain_pass():
    model = seeded(lambda: build_network("cnn", (1, 8, 8), 3, 4))
    x, y = images(12, 1, 8, 8), torch.arange(12) % 3
    with counted(model.get_submodule("stage1")) as (forward, backward):
        om.extract(
            model,
            {"train": (x, y), "a": x},
            needs=["layers", "probe:gram", "probe:nac", "probe:odin"],
        )
    assert forward[0] == 12 + 12 * (1 + 16), "one pass of the training set, then odin's points"
    assert backward[0] == 12 * 4 + 0, "odin's; the gradients of nac end at the first stage"


# What it says


@pytest.mark.parametrize(
    ("probe", "heats", "steps"),
    [
        ("odin", (1.0, 10.0, 100.0, 1000.0), (0.0, 0.00035, 0.0007, 0.0014, 0.0028)),
        ("odin_fine", (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), np.linspace(0, 0.004, 21)),
    ],
)
def test_odin_of_a_linear_model_is_known_in_closed_form(probe, heats, steps):
    linear = seeded(lambda: nn.Linear(6, 4).double())
    x = images(9, 6).double()
    got = om.extract(linear, {"a": x}, needs=[f"probe:{probe}"])["a"].probes[probe]
    assert got.shape == (9, len(heats), len(steps))
    weight, bias = linear.weight.detach(), linear.bias.detach()
    for place, heat in enumerate(heats):
        for column, step in enumerate(steps):
            logits = x @ weight.T + bias
            guess, p = logits.argmax(1), (logits / heat).softmax(1)
            # d(-log p_top)/dx = sum_c (p_c - [c = top]) w_c / T
            slope = p @ weight - weight[guess]
            moved = (x - step * slope.sign()) @ weight.T + bias
            top = (moved / heat).softmax(1).amax(1)
            ours = 1 / (1 + 3 * torch.exp(got[:, place, column] / heat))
            torch.testing.assert_close(ours, top, rtol=1e-12, atol=0)


def test_odin_keeps_its_digits_in_float32():
    """At T = 1000, probabilities of different samples are equal in float32; this is not."""
    model = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 10)))
    x = images(2000, 1, 6, 6)
    got = om.extract(model, {"a": x}, needs=["probe:odin"])["a"]
    ties = 2000 - len(got.probes["odin"][:, 3, 0].unique())
    plain = 2000 - len((got.logits / 1000).softmax(1).amax(1).unique())
    assert ties < 5 < 100 < plain


@pytest.mark.parametrize(
    "kind", [nn.Dropout, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout]
)
def test_dropout_is_that_of_torch(kind, monkeypatch):
    """The mean softmax over many thinned networks, against torch's own dropout."""
    model = seeded(
        lambda: nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.SELU(), kind(0.4), nn.Flatten(), nn.Linear(12, 3)
        )
    )
    x = 3 * images(4, 1, 4, 4)
    monkeypatch.setattr(dropout, "SAMPLES", (3000,))
    got = om.extract(model, {"a": x}, needs=["probe:mc_dropout"])["a"].probes["mc_dropout"][:, 0]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model[2].train()
        rows = model(x.repeat(3000, 1, 1, 1)).reshape(3000, 4, 3).double().softmax(2)
    mean = rows.mean(0)
    entropy = -(mean * mean.log()).sum(1)
    inside = -(rows * rows.log()).sum(2).mean(0)
    torch.testing.assert_close(got[:, 0].exp().double(), entropy, rtol=0.03, atol=0)
    torch.testing.assert_close(got[:, 1].exp().double(), entropy - inside, rtol=0.12, atol=0)


def test_mc_dropout_depends_on_neither_batches_nor_order_nor_global_state():
    model, x = seeded(with_dropout), images(11, 1, 6, 6)
    state = torch.get_rng_state()
    whole = om.extract(model, {"a": x}, needs=["probe:mc_dropout"])["a"].probes["mc_dropout"]
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(5)
    order = torch.randperm(11)
    for size in (1, 4, 100):
        again = om.extract(model, {"a": x[order]}, needs=["probe:mc_dropout"], batch_size=size)[
            "a"
        ].probes["mc_dropout"]
        torch.testing.assert_close(again, whole[order], rtol=1e-4, atol=1e-4)


def test_votes_are_entropy_of_the_mean_and_mutual_information():
    logits = torch.randn(6, 50, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = logits.softmax(2)
    mean = p.mean(0)
    entropy = -(mean * mean.log()).sum(1)
    inside = -(p * p.log()).sum(2).mean(0)
    got = summarize_votes(logits).exp()
    torch.testing.assert_close(got[:, 0], entropy)
    torch.testing.assert_close(got[:, 1], entropy - inside, rtol=1e-10, atol=1e-14)


def test_votes_of_sure_networks_do_not_tie():
    """p = 1 - 1e-200 and beyond, where the difference of two entropies is 0 or negative."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 30, 3, generator=generator, dtype=torch.float64)
    logits[:, :, 0] += torch.linspace(500, 5000, 30)
    got = summarize_votes(logits)
    assert got.isfinite().all()
    assert (got[1:] < got[:-1]).all(), "a surer sample must have less of both"
    # Two classes at p = eps matter: I = sum over them of mean p log(p / mean p).
    rest = logits[:, :1, 1:] - logits[:, :1, :1]
    mean = rest.logsumexp(0) - math.log(4)
    ratio = rest - mean
    scale = float(mean.amax())
    exact = ((rest - scale).exp() * ratio).sum((0, 2)) / 4
    torch.testing.assert_close(got[:1, 1], scale + exact.log(), rtol=1e-9, atol=0)


def test_votes_of_one_mind():
    logits = torch.randn(1, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    got = summarize_votes(logits.expand(5, 4, 3))
    assert (got[:, 1] < -60).all() and got.isfinite().all()
    assert summarize_votes(torch.tensor([[[1e9, 0.0]]] * 2))[0].tolist() == [LOG_NOTHING] * 4


def test_the_leading_direction_is_that_of_the_singular_value_decomposition():
    for shape in ((5, 3, 8), (5, 8, 3), (5, 4, 4)):
        matrix = images(*shape).double() - 0.2
        u, s, v = torch.linalg.svd(matrix, full_matrices=False)
        s[:, 0] = 0
        torch.testing.assert_close(without_leading(matrix), u @ torch.diag_embed(s) @ v)
    assert without_leading(torch.zeros(2, 3, 4)).abs().max() == 0


def test_the_gradient_by_all_weights_is_that_of_a_loop():
    model, x = seeded(with_dropout), images(5, 1, 6, 6)
    got = om.extract(model, {"a": x}, needs=["probe:gradient_uncertainty"])["a"]
    for row in range(5):
        loss = -model(x[row : row + 1]).log_softmax(1).sum()
        slopes = torch.autograd.grad(loss, list(model.parameters()))
        expected = math.sqrt(sum(float(slope.square().sum()) for slope in slopes))
        found = float(got.probes["gradient_uncertainty"][row])
        assert found == pytest.approx(expected, rel=1e-4)


# Inputs among the training inputs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
def test_pixel_neighbors_are_scipys_sorted_distances(dtype, monkeypatch):
    monkeypatch.setattr(pixels, "_TILE", 17)  # several tiles, the last not full
    model = seeded(lambda: ReadsBytes().to(torch.float32 if dtype == torch.uint8 else dtype))
    train, test = ((255 * images(n, 1, 3, 3, seed=n)).to(dtype) for n in (60, 9))
    test[2] = train[5]
    got = om.extract(
        model, {"train": train, "a": test}, needs=["probe:pixel_neighbors"], batch_size=4
    )
    flat = [part.flatten(1).double().numpy() for part in (test, train)]
    expected = np.sort(cdist(*flat), axis=1)[:, :8]
    found = got["a"].probes["pixel_neighbors"]
    exact = 1e-12 if dtype == torch.float64 else 1e-6
    np.testing.assert_allclose(found.numpy(), expected, rtol=exact, atol=exact)
    assert found[2, 0] == 0 and "pixel_neighbors" not in got["train"].probes


class ReadsBytes(nn.Module):
    """A network that divides bytes by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc((x.to(self.fc.weight) / 255).flatten(1))


def test_pixel_neighbors_far_from_zero_are_still_told_apart():
    """Inputs around 1e4 that differ by 1: float32 would see nothing but rounding."""
    model = seeded(lambda: nn.Linear(5, 3))
    train, test = (1e4 + images(n, 5, seed=n) for n in (50, 6))
    got = om.extract(model, {"train": train, "a": test}, needs=["probe:pixel_neighbors"])["a"]
    expected = np.sort(cdist(test.double(), train.double()), axis=1)[:, :8]
    np.testing.assert_allclose(got.probes["pixel_neighbors"], expected, rtol=1e-6)


def test_few_training_inputs_repeat_the_farthest():
    model, x = seeded(lambda: nn.Linear(5, 3)), images(3, 5)
    got = om.extract(model, {"train": x, "a": x}, needs=["probe:pixel_neighbors"])["a"]
    found = got.probes["pixel_neighbors"]
    assert found.shape == (3, 8) and (found[:, 2:] == found[:, 2:3]).all()
    assert found[:, 0].abs().max() == 0


def test_pixel_neighbors_that_cannot_be_had(monkeypatch):
    model = seeded(lambda: nn.Sequential(nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(4, 3)))
    needs = ["probe:pixel_neighbors"]
    with pytest.raises(UserError, match=r"data set 'a' have 7 numbers, .* training set 5\."):
        om.extract(model, {"train": images(9, 1, 5), "a": images(4, 1, 7)}, needs=needs)
    with pytest.raises(UserError, match="learns from the training set, but there is no data set"):
        om.extract(model, {"a": images(4, 1, 7)}, needs=needs)
    monkeypatch.setattr(pixels, "_MOST_BYTES", 100)
    with pytest.raises(UserError, match="keeps all training inputs, and these take more than"):
        om.extract(model, {"train": images(9, 1, 5), "a": images(4, 1, 5)}, needs=needs)


# Whatever the network looks like


class DropoutInside(nn.Module):
    """A residual block with dropout inside, and writing in place as torchvision's blocks do."""

    def __init__(self, harmful: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.norm, self.relu, self.drop = nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Dropout(0.3)
        self.fc = nn.Linear(3, 4)
        self.harmful = harmful

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.first(x)))
        if self.harmful:
            x += 1.0  # in what the ReLU gave
        y = self.drop(x)
        y = self.second(y)
        y += x
        return self.fc(self.relu(y).mean((2, 3)))


@pytest.mark.parametrize("harmful", [False, True])
def test_a_replay_is_the_true_pass_or_is_not_made(harmful, monkeypatch):
    model, x = seeded(lambda: DropoutInside(harmful)), images(6, 1, 5, 5)
    with _conv_calls() as calls:
        got = om.extract(model, {"a": x}, needs=["probe:mc_dropout"], batch_size=3)["a"]
    monkeypatch.setattr(dropout, "_reliable", lambda *_: False)
    with _conv_calls() as full:
        slow = om.extract(model, {"a": x}, needs=["probe:mc_dropout"], batch_size=3)["a"]
    torch.testing.assert_close(got.probes["mc_dropout"], slow.probes["mc_dropout"])
    assert len(full) == 2 * 2 * 31
    # Both convolutions once a batch, the second thirty times more; one trial on the first batch.
    assert len(calls) == (2 * (2 + 30) + 1 if not harmful else len(full) + 1)


class Nested(nn.Module):
    """One block and one ReLU that are used before the dropout and after it, within other blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.block = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), self.relu)
        self.deep = nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1),
            nn.Sequential(self.block, nn.Sequential(self.relu, nn.Dropout(0.4), self.block)),
            self.block,
        )
        self.fc = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        x.sub_(0.5)  # a model that normalises in place
        x = self.deep(x)
        return self.fc(self.block(self.relu(x)).mean((2, 3)))


def test_blocks_that_occur_before_and_after_the_dropout(monkeypatch):
    model, x = seeded(Nested), images(6, 1, 5, 5)
    before = x.clone()
    with _conv_calls() as calls:
        got = om.extract(model, {"a": x}, needs=["probe:mc_dropout", "probe:odin"])["a"]
    assert torch.equal(x, before), "the user's images were changed"
    assert len(calls) == 5 + 16 * 5 + 3 * 31, "3 of 5 convolutions lie behind; one trial"
    monkeypatch.setattr(dropout, "_reliable", lambda *_: False)
    slow = om.extract(model, {"a": x}, needs=["probe:mc_dropout"])["a"]
    torch.testing.assert_close(got.probes["mc_dropout"], slow.probes["mc_dropout"])


class Functional(nn.Module):
    """Dropout as functions, before a dropout layer and behind it."""

    def __init__(self, first: float = 0.3, layer: float = 0.4, last: float = 0.5) -> None:
        super().__init__()
        self.one, self.two, self.fc = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.first, self.last = first, last
        self.drop = nn.Dropout(layer)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.dropout(self.one(x).relu(), self.first, training=self.training)
        x = self.drop(self.two(x))
        return self.fc(functional.alpha_dropout(x, p=self.last, training=self.training))


@pytest.mark.parametrize("rates", [(0.3, 0.0, 0.0), (0.0, 0.4, 0.5), (0.3, 0.4, 0.5)])
def test_dropout_that_is_called_as_a_function_is_sampled(rates, monkeypatch):
    """The mean softmax over many thinned networks, against torch's own in training mode."""
    model, x = seeded(lambda: Functional(*rates)), 3 * images(4, 6)
    monkeypatch.setattr(dropout, "SAMPLES", (1500,))
    got = om.extract(model, {"a": x}, needs=["probe:mc_dropout"])["a"].probes["mc_dropout"][:, 0]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        rows = model.train()(x.repeat(3000, 1)).reshape(3000, 4, 3).double().softmax(2)
    mean = rows.mean(0)
    entropy, inside = -(mean * mean.log()).sum(1), -(rows * rows.log()).sum(2).mean(0)
    torch.testing.assert_close(got[:, 0].exp().double(), entropy, rtol=0.03, atol=0)
    torch.testing.assert_close(got[:, 1].exp().double(), entropy - inside, rtol=0.15, atol=0)


@pytest.mark.parametrize("rates", [(0.3, 0.0, 0.0), (0.3, 0.4, 0.5), (0.0, 0.4, 0.5)])
def test_a_dropout_function_is_a_place_to_begin_at(rates, monkeypatch):
    model, x = seeded(lambda: Functional(*rates)), images(4, 6)
    with _calls(functional.linear) as calls:
        got = om.extract(model, {"a": x}, needs=["probe:mc_dropout"], batch_size=2)["a"]
    monkeypatch.setattr(dropout, "_reliable", lambda *_: False)
    slow = om.extract(model, {"a": x}, needs=["probe:mc_dropout"])["a"]
    torch.testing.assert_close(got.probes["mc_dropout"], slow.probes["mc_dropout"])
    # Of three layers, one lies before the function, and two before the layer that drops.
    behind = 2 if rates[0] else 1
    assert len(calls) == 2 * (3 + 30 * behind) + behind, "each batch, and one trial"


def test_a_network_whose_dropout_has_rate_zero_has_none():
    model = seeded(lambda: Functional(0.0, 0.0, 0.0))
    with pytest.raises(UserError, match=r"functional, at a rate above 0; Functional runs none\.$"):
        om.extract(model, {"a": images(4, 6)}, needs=["probe:mc_dropout"])


def test_attention_whose_dropout_runs_only_in_training():
    """cct7 drops attention weights by hand in training; eval mode takes another way."""
    model = seeded(lambda: build_network("cct7", (1, 8, 8), 3, 8))
    x = images(4, 1, 8, 8)
    got = om.extract(model, {"a": x}, needs=["probe:mc_dropout"])["a"]
    assert (got.probes["mc_dropout"][:, :, 1] > -40).all(), "thinned networks disagree"


def test_the_fast_path_of_transformers_does_not_pass_dropout_by():
    layer = lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)  # noqa: E731

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.fc = (
                nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False),
                nn.Linear(8, 3),
            )

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(self.encoder(x).mean(1))

    model, x = seeded(Reader), images(5, 7, 8)
    got = om.extract(model, {"a": x}, needs=["probe:mc_dropout"])["a"]
    assert (got.probes["mc_dropout"][:, :, 1] > -20).all()


def test_the_model_is_left_exactly_as_it_was():
    model, x = seeded(with_dropout), images(12, 1, 6, 6)
    model.train()
    model[1].eval()
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    wanted = [parameter.requires_grad for parameter in model.parameters()]
    om.extract(model, {"train": (x, torch.arange(12) % 3), "a": x}, needs="all")
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == wanted
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    for module in model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks
        assert not module._backward_hooks and "forward" not in module.__dict__
    assert torch.backends.mha.get_fastpath_enabled()


def test_asking_more_changes_nothing_of_the_plain_outputs():
    model, x = seeded(with_dropout), images(12, 1, 6, 6)
    data = {"train": (x, torch.arange(12) % 3), "a": x}
    plain, asked = om.extract(model, data)["a"], om.extract(model, data, needs="all")["a"]
    torch.testing.assert_close(asked.logits, plain.logits)
    torch.testing.assert_close(asked.features, plain.features)
    assert not plain.probes and not plain.layers and not plain.refused


@pytest.mark.parametrize("form", ["frozen", "inference", "half", "double", "loader", "generator"])
def test_every_probe_works_in_every_form(form):
    model, x, y = seeded(with_dropout), images(12, 1, 6, 6), torch.arange(12) % 3
    data = {"a": x, "train": (x, y)}  # the training set need not come first
    if form == "frozen":
        model.requires_grad_(False)
    elif form in ("half", "double"):
        model = model.bfloat16() if form == "half" else model.double()
    elif form == "loader":
        data = {name: DataLoader(TensorDataset(x, y), batch_size=5) for name in data}
    elif form == "generator":
        data = {name: iter([(x[:7], y[:7]), (x[7:], y[7:])]) for name in data}
    with torch.inference_mode(form == "inference"):
        got = om.extract(model, data, needs="all", batch_size=5)
    assert list(got) == ["a", "train"]
    assert set(got["a"].probes) == USUAL and not got["a"].refused
    assert set(got["train"].probes) == {name for name, card in PROBES.items() if card.of_training}
    if form in ("frozen", "inference", "loader", "generator"):
        usual = om.extract(seeded(with_dropout), {"train": (x, y), "a": x}, needs="all")["a"]
        for name in USUAL:
            torch.testing.assert_close(
                got["a"].probes[name], usual.probes[name], rtol=2e-3, atol=2e-3
            )


def test_batches_do_not_matter():
    model, x, y = seeded(with_dropout), images(13, 1, 6, 6), torch.arange(13) % 3
    data = {"train": (x, y), "a": images(7, 1, 6, 6, seed=2)}
    model = model.double()
    whole = om.extract(model, data, needs="all")
    parts = om.extract(model, data, needs="all", batch_size=3)
    for name in ("train", "a"):
        for kind, values in whole[name].tensors().items():
            torch.testing.assert_close(parts[name].tensors()[kind], values, rtol=1e-7, atol=1e-9)


# Which layers


class LikeTorchvision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1, self.relu = (
            nn.Conv2d(1, 2, 3),
            nn.BatchNorm2d(2),
            nn.ReLU(inplace=True),
        )
        self.layer1 = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(inplace=True))
        self.layer2 = nn.Sequential(nn.Conv2d(3, 4, 3))
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x)))))
        return self.fc(x.relu_().mean((2, 3)))  # writes into what the last stage gave


class LikeVgg(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 3, 3), nn.ReLU())
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(48, 5), nn.ReLU(), nn.Linear(5, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


class WithList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2))
        self.unused = nn.Sequential(nn.Linear(8, 8))
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.fc(x)


@pytest.mark.parametrize(
    ("build", "shape", "stages"),
    [
        (LikeTorchvision, (1, 8, 8), ["layer1", "layer2"]),
        (LikeVgg, (1, 8, 8), ["features.1", "features.3"]),
        (WithList, (8,), ["blocks.0", "blocks.1"]),
        (with_dropout, (1, 6, 6), ["2", "6"]),
        (lambda: nn.DataParallel(with_dropout()), (1, 6, 6), ["2", "6"]),
        (lambda: nn.DataParallel(build_network("mlp", (1, 4, 4), 3, 2)), (1, 4, 4),
         ["2", "4"]),
        (lambda: build_network("resnet18", (1, 8, 8), 3, 2), (1, 8, 8),
         ["stem", "stage1", "stage2", "stage3", "stage4"]),
    ],
)  # fmt: skip
def test_stages_are_found(build, shape, stages):
    model = seeded(build)
    got = om.extract(model, {"a": images(5, *shape)}, needs=["layers"])["a"]
    assert list(got.layers) == stages
    heads = {"a": images(5, *shape)}
    assert (
        list(om.extract(model, heads, needs=["layers"], layers=stages[:1])["a"].layers)
        == stages[:1]
    )


def test_a_layer_is_what_the_module_gave_whatever_writes_into_it_later():
    model, x = seeded(LikeTorchvision), images(5, 1, 8, 8)
    got = om.extract(model, {"a": x}, needs=["layers"])["a"].layers["layer2"]
    with torch.no_grad():
        truth = model.layer2(model.layer1(model.relu(model.bn1(model.conv1(x))))).mean((2, 3))
    torch.testing.assert_close(got, truth)
    assert (got < 0).any(), "the ReLU behind the stage is in it"


def test_tokens_and_one_dimensional_maps_have_their_channels_in_other_places():
    x = images(2, 3, 4)
    assert as_matrix(x, nn.Sequential(nn.LayerNorm(4))).shape == (2, 4, 3)
    assert as_matrix(x, nn.Sequential(nn.Conv1d(3, 3, 1), nn.ReLU())).shape == (2, 3, 4)
    assert as_matrix(images(2, 3), nn.ReLU()).shape == (2, 3, 1)
    assert as_matrix(images(2, 3, 4, 5), nn.ReLU()).shape == (2, 3, 20)


def test_detectors_say_what_to_ask_for():
    assert om.needs_of(["odin", "knn"]) == ("features", "probe:odin", "relative_logits")
    everything = om.needs_of()
    assert {f"probe:{name}" for name in USUAL - {"pixel_neighbors"}} < set(everything)
    assert {f"probe:{name}" for name in USUAL} < set(om.needs_of(grid=True))
    assert om.needs_of(["odin_fine"]) == ("probe:odin_fine", "relative_logits")
    model, x, y = seeded(with_dropout), images(30, 1, 6, 6), torch.arange(30) % 3
    data = {"train": (x, y), "test": (x[:9], y[:9]), "ood": 3 * x[:9]}
    table = om.score(
        om.extract(model, data, needs=everything), ["gram", "nac", "mc_dropout", "odin"]
    )
    assert not table.missing and len(table.rows) == 8


# What cannot be had is said


@pytest.mark.parametrize(
    ("needs", "sentence"),
    [
        (["probe:odn"], r"Unknown need 'probe:odn'. Did you mean 'probe:odin'\?"),
        (["layer"], "Did you mean 'layers'"),
        (["runs:ensemble"], "made of the answers of several training runs"),
        (
            ["probe:gram"],
            "Probe 'gram' learns from the training set, but there is no data set 'train'",
        ),
        (["probe:mc_dropout"], r"needs a network with dropout, .* Sequential runs none\.$"),
        (["probe:rankfeat"], "needs a layer that gives a map"),
    ],
)
def test_one_sentence(needs, sentence):
    model = seeded(lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)))
    with pytest.raises(UserError, match=sentence):
        om.extract(model, {"a": images(3, 4)}, needs=needs)


@pytest.mark.parametrize(
    ("layers", "sentence"),
    [
        (["0", "9"], "Unknown layer '9'"),
        ([], "layers must be a list of names"),
        ("0", "layers must be a list of names"),
        (["0", "0"], "names a module twice"),
        (["2"], "Layer '2' of Sequential cannot be read on 'a'"),  # the head itself
    ],
)
def test_layers_that_are_none(layers, sentence):
    model = seeded(lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)))
    with pytest.raises(UserError, match=sentence):
        om.extract(model, {"a": images(3, 4)}, needs=["layers"], layers=layers)


def test_everything_is_everything_that_can_be_had():
    model = seeded(lambda: build_network("text_cnn", (12,), 3, 4))
    numbers = torch.randint(1, 50, (9, 12), generator=torch.Generator().manual_seed(0))
    data = {"train": (numbers, torch.arange(9) % 3), "test": numbers, "ood": numbers.flip(1)}
    got = om.extract(model, data, needs="all")
    assert set(got["test"].refused) == {
        "probe:odin",
        "probe:iodin",
        "probe:adascale",
        "probe:grood",
        "probe:mahalanobis",
        "probe:rankfeat",
        "probe:pixel_neighbors",
    }
    assert (
        "not one tensor of floats or bytes" in got["test"].refused["probe:pixel_neighbors"].reason
    )
    assert "are not one tensor of floats" in got["test"].refused["probe:odin"].reason
    table = om.score(got, ["gram", "rankfeat"], train="train", id="test")
    (missing,) = table.missing
    assert missing.detector == "rankfeat"
    assert "needs a layer that gives a map; those of Staged give vectors" in missing.reason
    with pytest.raises(UserError, match="the gradient of the inputs: those of data set 'test'"):
        om.extract(model, data, needs=["probe:odin"])


def test_a_network_without_layers_and_without_training_data():
    got = om.extract(seeded(lambda: nn.Linear(4, 3)), {"a": images(3, 4)}, needs="all")["a"]
    assert set(got.probes) == {"odin", "iodin", "adascale", "gradient_uncertainty"}
    assert "No part of Linear can be read as a layer" in got.refused["layers"].reason
    assert "no data set 'train'" in got.refused["probe:mahalanobis"].reason


def test_a_probe_that_fails_says_so():
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x.detach())

    with pytest.raises(UserError, match="Probe 'odin' failed on data set 'a': RuntimeError"):
        om.extract(Stubborn(), {"a": images(3, 4)}, needs=["probe:odin"])


def test_training_labels_that_name_no_class():
    model, x = seeded(with_dropout), images(8, 1, 6, 6)
    with pytest.raises(UserError, match="'mahalanobis' needs training samples with a class"):
        om.extract(model, {"train": x, "a": x}, needs=["probe:mahalanobis"])


def test_several_trainings_make_an_ensemble():
    x, y = images(40, 6), torch.arange(40) % 3
    runs = []
    for seed in range(4):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            runs.append(om.extract(nn.Linear(6, 3).double(), {"test": (x, y), "ood": 9 * x}))
    outputs = {
        name: replace(
            runs[0][name],
            answers={ENSEMBLE: summarize_votes(torch.stack([run[name].logits for run in runs]))},
        )
        for name in ("test", "ood")
    }
    outputs["train"] = runs[0]["test"]
    names = ["deep_ensemble", "deep_ensemble(measure=disagreement)"]
    rows = {(row.detector, row.dataset): row.scores for row in om.score(outputs, names).rows}
    p = torch.stack([run["ood"].logits for run in runs]).softmax(2).numpy()
    mean = p.mean(0)
    assert rows[names[0], "ood"] == pytest.approx(np.log(scipy_entropy(mean, axis=1)))
    between = scipy_entropy(p, np.broadcast_to(mean, p.shape), axis=2).mean(0)
    assert rows[names[1], "ood"] == pytest.approx(np.log(between))
    with pytest.raises(UserError, match="made of the answers of several training runs"):
        om.extract(nn.Linear(6, 3), {"a": x}, needs=["runs:ensemble"])


def test_labels_may_stand_in_a_column_and_layers_may_be_missing():
    model, x = seeded(with_dropout), images(9, 1, 6, 6)
    column = (torch.arange(9) % 3)[:, None]
    got = om.extract(model, {"train": (x, column), "a": x}, needs=["probe:gram"])["a"]
    flat = om.extract(model, {"train": (x, column[:, 0]), "a": x}, needs=["probe:gram"])["a"]
    assert torch.equal(got.probes["gram"], flat.probes["gram"])
    data = {"train": (images(5, 4), torch.arange(5) % 3), "a": images(3, 4)}
    bare = om.extract(seeded(lambda: nn.Linear(4, 3)), data, needs="all")["a"]
    moved = {"odin", "iodin", "adascale", "mahalanobis"}
    assert set(bare.probes) == {*moved, "grood", "gradient_uncertainty", "pixel_neighbors"}
    assert "No part of Linear" in bare.refused["probe:gram"].reason
