"""Networks: their published sizes, their images, their stages, and anybody's own."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.asking.extract import extract
from oodometer.lab.training.networks import KNOWN as ALL
from oodometer.lab.training.networks import build_network, check_network
from oodometer.lab.training.networks.resnet import PadShortcut
from oodometer.lab.training.networks.transformers import Attention, StochasticDepth

CIFAR, MNIST, IMAGENET = (3, 32, 32), (1, 28, 28), (3, 224, 224)
TOKENS = {"cct7", "mlp_mixer"}  # their stages are rows of tokens
VECTORS = {"mlp"}
RESIDUAL_STEMS = [
    "resnet18", "resnet50", "resnet50_od_test", "resnet101_kuangliu", "resnet101_torchvision",
    "resnet110", "resnet152", "mobilenet_v2", "fast_resnet",
]  # fmt: skip

KNOWN = {name: entry for name, entry in ALL.items() if entry.takes == "images"}


def seeded(name: str, shape: tuple[int, int, int], classes: int = 5, units: int = 4) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_network(name, shape, classes, units)


def images(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(1))


def blueprint(name: str, shape: tuple[int, int, int], classes: int, units: int | None = None):
    with torch.device("meta"):  # shapes without numbers: quick, however large
        return build_network(name, shape, classes, units)


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


# ---------------------------------------------------------------------------- published sizes


@pytest.mark.parametrize(
    ("name", "shape", "classes", "published"),
    [
        # Printed by users of the reference code bases for CIFAR-10: kuangliu/pytorch-cifar,
        ("resnet18", CIFAR, 10, 11_173_962),
        ("resnet50", CIFAR, 10, 23_520_842),
        ("resnet101_kuangliu", CIFAR, 10, 42_512_970),
        ("resnet152", CIFAR, 10, 58_156_618),
        ("vgg16", CIFAR, 10, 14_728_266),
        ("mobilenet_v2", CIFAR, 10, 2_296_922),
        # He et al. 2016, Table 6 (1.7M), and Zagoruyko and Komodakis 2016 (2.2M, 36.5M), in full;
        ("resnet110", CIFAR, 10, 1_727_962),
        ("wide_resnet_40_2", CIFAR, 10, 2_243_546),
        ("wide_resnet_28_10", CIFAR, 10, 36_479_194),
        # measured elsewhere, with a program of its own: 87.5% on CIFAR-10 after 12 epochs;
        ("fast_resnet", CIFAR, 10, 153_882),
        # Keras' summary of its example;
        ("cnn", MNIST, 10, 1_199_882),
        # torchvision's documentation of its networks for ImageNet;
        ("resnet18", IMAGENET, 1000, 11_689_512),
        ("resnet50", IMAGENET, 1000, 25_557_032),
        ("resnet101_torchvision", IMAGENET, 1000, 44_549_160),
        ("resnet152", IMAGENET, 1000, 60_192_808),
        ("vgg16_od_test", IMAGENET, 1000, 138_365_992),
        # the last but one with 10 classes and 3 x 3 instead of 7 x 7 filters in the stem.
        ("resnet101_torchvision", CIFAR, 10, 44_549_160 - 990 * 2049 - 64 * 3 * (49 - 9)),
    ],
)
def test_parameters_are_as_many_as_published(name, shape, classes, published):
    assert count(blueprint(name, shape, classes)) == published


def linear(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs


def test_transformer_has_its_size_by_arithmetic_and_in_print():
    layer = 2 * 2 * 256 + 256 * 768 + linear(256, 256) + linear(256, 512) + linear(512, 256)
    rest = 7 * layer + 2 * 256 + linear(256, 1) + linear(256, 10)
    small = 3 * 9 * 256 + 16 * 16 * 256 + rest
    assert count(blueprint("cct7", CIFAR, 10)) == small == 3_760_139
    assert round(small / 1e6, 3) == 3.760  # Compact-Transformers, CCT-7/3x1
    two = 3 * 9 * 64 + 64 * 9 * 256 + rest
    assert round((two + 8 * 8 * 256) / 1e6, 3) == 3.853  # the same, CCT-7/3x2 at 32 pixels
    assert count(blueprint("cct7", (3, 64, 64), 10)) == two + 16 * 16 * 256
    large = 3 * 49 * 64 + 64 * 49 * 256 + 14 * 14 * 256 + rest
    assert count(blueprint("cct7", IMAGENET, 10)) == large


@pytest.mark.parametrize(("side", "patch", "depth"), [(32, 4, 6), (28, 4, 6), (224, 16, 8)])
def test_mixer_has_its_size_by_arithmetic(side, patch, depth):
    tokens = (side // patch) ** 2
    layer = linear(tokens, 4 * tokens) + linear(4 * tokens, tokens)
    layer += linear(512, 256) + linear(256, 512) + 4 * 512
    whole = linear(3 * patch**2, 512) + depth * layer + 2 * 512 + linear(512, 10)
    assert count(blueprint("mlp_mixer", (3, side, side), 10)) == whole
    assert whole == 1_819_530 or side != 32


@pytest.mark.parametrize(
    ("name", "shape", "classes", "megabytes"),
    # Shafaei et al. 2019, Table 2: the sizes of files with parameters and running statistics.
    [
        ("vgg16_od_test", MNIST, 10, 19),
        ("vgg16_od_test", CIFAR, 10, 159.8),
        ("vgg16_od_test", CIFAR, 100, 161.3),
        ("vgg16_od_test", (3, 64, 64), 200, 162.9),
        ("vgg16_od_test", (3, 96, 96), 10, 201.7),
        ("resnet50_od_test", MNIST, 10, 70),
        ("resnet50_od_test", CIFAR, 10, 94.3),
        ("resnet50_od_test", CIFAR, 100, 95.1),
        ("resnet50_od_test", (3, 64, 64), 200, 95.9),
        ("resnet50_od_test", (3, 96, 96), 10, 94.3),
    ],
)
def test_od_test_networks_have_the_printed_sizes(name, shape, classes, megabytes):
    network = blueprint(name, shape, classes)
    size = sum(value.numel() * value.element_size() for value in network.state_dict().values())
    if isinstance(megabytes, int):  # printed without decimals, cut off
        assert int(size / 1e6) == megabytes
    else:
        assert size / 1e6 == pytest.approx(megabytes, abs=0.1)


def operations(network: nn.Module, shape: tuple[int, int, int], *, thop: bool) -> int:
    """Multiply-adds of convolutions and linear layers.

    The tool thop also counts 1 for each output of a convolution with bias, and 2 of a norm.
    """
    total = 0

    def note(module: nn.Module, _: object, output: Tensor) -> None:
        nonlocal total
        if isinstance(module, nn.Conv2d):
            total += output.numel() * module.weight[0].numel()
            total += output.numel() * (thop and module.bias is not None)
        elif isinstance(module, nn.Linear):
            total += output.numel() * module.in_features
        elif isinstance(module, nn.BatchNorm2d):
            total += 2 * thop * output.numel()

    for module in network.modules():
        module.register_forward_hook(note)
    network.eval()(torch.zeros(1, *shape, device="meta"))
    return total


@pytest.mark.parametrize(
    ("name", "shape", "millions"),
    # Numbers of parameters do not see strides and poolings; these do.
    [
        # kuangliu/pytorch-cifar by thop
        ("resnet18", CIFAR, 556.65),
        ("resnet50", CIFAR, 1304.71),
        ("vgg16", CIFAR, 314.03),
        ("mobilenet_v2", CIFAR, 94.61),
        # Compact-Transformers
        ("cct7", CIFAR, 947),
        # torchvision's documentation
        ("resnet18", IMAGENET, 1814),
        ("resnet50", IMAGENET, 4089),
        ("resnet101_torchvision", IMAGENET, 7801),
        ("resnet152", IMAGENET, 11514),
        ("vgg16_od_test", IMAGENET, 15470),
    ],
)
def test_operations_are_as_many_as_published(name, shape, millions):
    thop = isinstance(millions, float)
    network = blueprint(name, shape, 1000 if shape == IMAGENET else 10)
    made = operations(network, shape, thop=thop) / 1e6
    # What is left is the average pooling, of which thop counts each input.
    assert made == pytest.approx(millions, abs=0.04 if thop else 0.6)


def test_width_one_half_is_half_the_channels():
    for name, entry in KNOWN.items():
        full, half = (blueprint(name, CIFAR, 10, entry.default_width // parts) for parts in (1, 2))
        for one, two in zip(full.parameters(), half.parameters(), strict=True):
            # The tokens of a mixer are as many whatever the width.
            assert two.numel() * 5 > one.numel()
        assert count(half) < 0.65 * count(full), name


# ---------------------------------------------------------------------------- images


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("side", [28, 32, 64, 96, 224])
def test_networks_take_images_of_all_sizes(name, side):
    for channels in (1, 3):
        network = seeded(name, (channels, side, side), classes=7).eval()
        with torch.no_grad():
            assert network(torch.zeros(1, channels, side, side)).shape == (1, 7)


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 13), (1, 28, 28), (3, 32, 48), (3, 66, 70)])
def test_extraction_finds_head_and_features(name, shape):
    network = seeded(name, shape)
    made = extract(network, {"images": images(3, *shape)})["images"]
    head = list(network.modules())[-1]
    assert isinstance(head, nn.Linear) and torch.equal(made.head.weight, head.weight)
    assert made.logits.shape == (3, 5) and made.features.shape == (3, head.in_features)
    assert made.features.std(dim=0).max() > 0, "all images look alike"


@pytest.mark.parametrize("name", KNOWN)
def test_every_weight_is_trained(name):
    network = seeded(name, (3, 32, 32)).train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        loss = nn.functional.cross_entropy(network(images(4, 3, 32, 32)), torch.arange(4))
    loss.backward()
    for key, parameter in network.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), key
    total = sum(float(p.grad.abs().sum()) for p in network.parameters())
    assert math.isfinite(total) and total > 0


@pytest.mark.parametrize("name", KNOWN)
def test_an_image_has_its_answer_whatever_stands_beside_it(name):
    network, batch = seeded(name, (3, 32, 32)).eval().double(), images(3, 3, 32, 32).double()
    with torch.no_grad():
        alone = torch.cat([network(image[None]) for image in batch])
        assert torch.allclose(network(batch), alone, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------------------- stages


def stage_outputs(network: nn.Module, batch: Tensor) -> dict[str, Tensor]:
    heard: dict[str, Tensor] = {}
    hooks = [
        network.get_submodule(name).register_forward_hook(
            lambda _, __, output, name=name: heard.__setitem__(name, output.clone())
        )
        for name in network.stage_names
    ]
    with torch.no_grad():
        network(batch)
    for hook in hooks:
        hook.remove()
    return heard


@pytest.mark.parametrize("name", KNOWN)
def test_stages_can_be_heard(name):
    network = seeded(name, (3, 32, 32)).eval()
    heard = stage_outputs(network, images(2, 3, 32, 32))
    assert tuple(heard) == network.stage_names, "stages run in their order, each once"
    assert len(heard) >= 2
    dimensions = 2 if name in VECTORS else 3 if name in TOKENS else 4
    for output in heard.values():
        assert output.dim() == dimensions and len(output) == 2 and output.isfinite().all()


@pytest.mark.parametrize(
    ("name", "side", "sizes"),
    [
        ("resnet18", 32, [32, 32, 16, 8, 4]),
        ("resnet18", 224, [56, 56, 28, 14, 7]),
        ("resnet110", 32, [32, 32, 16, 8]),
        ("wide_resnet_40_2", 32, [32, 32, 16, 8, 8]),
        ("mobilenet_v2", 32, [32, 32, 32, 16, 8, 8, 4, 4, 4]),
        ("mobilenet_v2", 224, [112, 112, 56, 28, 14, 14, 7, 7, 7]),  # the paper's Table 2
        ("vgg16", 32, [16, 8, 4, 2, 1]),
        ("vgg16_od_test", 28, [14, 7, 3, 1]),
        ("vgg16_od_test", 32, [16, 8, 4, 2, 2]),
        ("vgg16_od_test", 96, [48, 24, 12, 6, 3]),
        ("resnet50_od_test", 28, [28, 28, 14, 7, 4]),
        ("resnet50_od_test", 64, [32, 32, 16, 8, 4]),
        ("resnet50_od_test", 96, [48, 48, 24, 12, 6]),
        ("cnn", 28, [26, 12]),
    ],
)
def test_stages_have_their_sizes(name, side, sizes):
    heard = stage_outputs(seeded(name, (1, side, side)).eval(), images(1, 1, side, side))
    assert [tuple(output.shape[2:]) for output in heard.values()] == [(n, n) for n in sizes]


@pytest.mark.parametrize("name", [n for n in KNOWN if n.startswith(("res", "wide", "mob"))])
def test_features_are_the_mean_of_the_last_stage(name):
    network, batch = seeded(name, (3, 32, 32)).eval(), images(2, 3, 32, 32)
    last = stage_outputs(network, batch)[network.stage_names[-1]]
    features = extract(network, {"images": batch})["images"].features
    # Extraction may lay weights out in another order, and so add in another.
    assert torch.allclose(last.mean(dim=(2, 3)), features, rtol=1e-4, atol=1e-6 * float(last.max()))
    assert (features >= 0).all()


@pytest.mark.parametrize("name", RESIDUAL_STEMS)
def test_a_chain_of_children_that_skips_the_stems_relu_gives_other_features(name):
    """An extractor that chains children misses what is no module, as the first ReLU often was."""
    network, batch = seeded(name, (3, 32, 32)).eval(), images(4, 3, 32, 32)
    features = extract(network, {"images": batch})["images"].features

    def chained(skipped: str) -> Tensor:
        x = batch
        for key, module in network.stem.named_children():
            x = x if key == skipped else module(x)
        for key, module in network.named_children():
            x = x if key in ("stem", "head") else module(x)
        return x

    with torch.no_grad():
        assert torch.allclose(chained("nothing"), features, rtol=1e-4, atol=1e-4)
        gap = (chained("relu") - features).abs().mean() / features.abs().mean()
        assert gap > 0.01


# ---------------------------------------------------------------------------- weights and layers


def test_first_networks_keep_their_weights():
    def sequential_cnn(units: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, units, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(units, 2 * units, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * units * 4, 4 * units),
            nn.ReLU(),
            nn.Linear(4 * units, 5),
        )

    def sequential_mlp(units: int) -> nn.Module:
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 4 * units),
            nn.ReLU(),
            nn.Linear(4 * units, 4 * units),
            nn.ReLU(),
            nn.Linear(4 * units, 5),
        )

    for name, make in {"small_cnn": sequential_cnn, "mlp": sequential_mlp}.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            expected = make(16).state_dict()
        made = seeded(name, (1, 8, 8), units=KNOWN[name].default_width).state_dict()
        assert list(made) == list(expected)
        assert all(torch.equal(made[key], expected[key]) for key in made)


@pytest.mark.parametrize("name", KNOWN)
def test_weights_depend_on_the_seed_alone(name):
    one, two = (seeded(name, (1, 28, 28)).state_dict() for _ in range(2))
    assert all(torch.equal(one[key], two[key]) for key in one)


def spread(network: nn.Module, path: str) -> float:
    return float(network.get_submodule(path).weight.detach().std())


@pytest.mark.parametrize(
    ("name", "units", "path", "expected"),
    [
        # PyTorch's own: uniform on +- 1 / sqrt(fan in), so a spread of 1 / sqrt(3 fan in)
        ("resnet101_kuangliu", 16, "stage3.5.body.1.conv", (3 * 9 * 64) ** -0.5),
        ("resnet101_torchvision", 64, "stem.conv", (3 * 27) ** -0.5),
        # He: sqrt(2 / fan out) in torchvision, sqrt(2 / fan in) at akamaster
        ("resnet101_torchvision", 16, "stage3.5.body.2.conv", (2 / 256) ** 0.5),
        ("resnet50", 16, "stage4.0.shortcut.conv", (2 / 512) ** 0.5),
        ("wide_resnet_40_2", 16, "stage2.0.body.0", (2 / (9 * 64)) ** 0.5),
        ("resnet110", 16, "stage2.0.body.0.conv", (2 / (9 * 16)) ** 0.5),
        ("resnet110", 64, "head", (2 / 256) ** 0.5),
        ("vgg16_od_test", 16, "pool.4", 0.01),
        ("cct7", 64, "stage3.feed.0", 0.02),
        ("cnn", 32, "pool.2", (2 / (64 * 14 * 14 + 128)) ** 0.5),
    ],
)
def test_initial_weights_are_spread_as_in_the_references(name, units, path, expected):
    made = spread(seeded(name, (3, 32, 32), classes=100, units=units), path)
    assert made == pytest.approx(expected, rel=0.06)


def test_shortcut_without_weights():
    x = images(2, 3, 5, 5)
    out = PadShortcut(3, 6)(x)
    assert out.shape == (2, 6, 3, 3)
    assert torch.equal(out[:, 1:4], x[:, :, ::2, ::2])
    assert not out[:, :1].any() and not out[:, 4:].any()


def test_attention_is_the_same_however_it_is_computed():
    attention, x = Attention(8), torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    attention.dropout.p = 0.0
    assert torch.allclose(attention.train()(x), attention.eval()(x), atol=1e-6)
    parts = (x @ attention.split.weight.T).reshape(2, 5, 3, 4, 2)
    mixed = torch.zeros(2, 5, 4, 2)
    for sample in range(2):
        for head in range(4):
            query, key, value = (parts[sample, :, part, head] for part in range(3))
            weights = torch.softmax(query @ key.T / 2**0.5, dim=1)
            mixed[sample, :, head] = weights @ value
    assert torch.allclose(attention.join(mixed.reshape(2, 5, 8)), attention(x), atol=1e-6)


def test_stochastic_depth_drops_samples_and_keeps_the_mean():
    layer, x = StochasticDepth(0.25), torch.ones(4000, 2, 3)
    assert torch.equal(layer.eval()(x), x)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        dropped = layer.train()(x)
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])
    assert (dropped == dropped[:, :1, :1]).all()
    assert float(dropped.mean()) == pytest.approx(1, abs=0.03)


def test_fast_resnet_normalizes_its_input():
    network = seeded("fast_resnet", CIFAR).train()
    stem = network.get_submodule("stem.input")
    for _ in range(150):
        stem(0.2 + 0.1 * images(64, *CIFAR))
    network.eval()
    entered = stem(0.2 + 0.1 * images(64, *CIFAR))
    assert entered.mean((0, 2, 3)).abs().max() < 0.02
    assert entered.std((0, 2, 3)).sub(1).abs().max() < 0.02
    with pytest.raises(UserError, match="'fast_resnet' needs images of at least 8 x 8, got 7 x 9"):
        build_network("fast_resnet", (3, 7, 9), 10)


# ---------------------------------------------------------------------------- registry


def test_every_network_is_described():
    page = (Path(__file__).parents[1] / "docs" / "studies.md").read_text(encoding="utf-8")
    section = page.partition("## Networks")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    documented = {
        name.strip(" `"): None if row[3].strip() == "fixed" else int(row[3])
        for row in rows
        for name in row[1].split(",")
        if row[3]
    }
    assert documented == {name: entry.default_width for name, entry in ALL.items()}
    for name, entry in ALL.items():
        assert entry.build.__name__ == name
        summary = entry.__doc__.partition("\n")[0]
        assert summary == entry.build.__doc__.partition("\n")[0]
        assert "`width`" in summary and summary.endswith("."), "say what the width scales"


def test_bad_networks_are_named():
    with pytest.raises(UserError, match="Unknown network 'resnet19'. Did you mean 'resnet18'"):
        build_network("resnet19", CIFAR, 10)
    with pytest.raises(UserError, match="'small_cnn' needs images of at least 4 x 4, got 3 x 9"):
        build_network("small_cnn", (1, 3, 9), 10)
    with pytest.raises(UserError, match="'cnn' needs images of at least 6 x 6, got 5 x 5"):
        build_network("cnn", (1, 5, 5), 10)
    with pytest.raises(UserError, match="'cct7' must be a multiple of 4, got 6"):
        build_network("cct7", CIFAR, 10, 6)
    with pytest.raises(UserError, match="needs at least 2 classes, got 1"):
        build_network("mlp", CIFAR, 1)
    with pytest.raises(UserError, match="must be at least 1, got 0"):
        build_network("mlp", CIFAR, 10, 0)


def test_torchvision_is_not_needed():
    code = (
        "import sys; sys.modules['torchvision'] = None; "
        "from oodometer.lab.training.networks import KNOWN; "
        "print(len(KNOWN))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) == len(ALL)


# ---------------------------------------------------------------------------- anybody's own


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "my_networks.py").write_text(
        """
from torch import nn

class Plain(nn.Sequential):
    def __init__(self, classes, height, width, channels):
        super().__init__(nn.Flatten(), nn.Linear(channels * height * width, classes))

def wide(classes, *, channels=3, height=4, width=4, units=2):
    size = channels * height * width
    return nn.Sequential(nn.Flatten(), nn.Linear(size, units), nn.Linear(units, classes))

def anything(**settings):
    return Plain(*(settings[key] for key in ("classes", "height", "width", "channels")))

def layered(classes, width=64, **settings):
    return nn.Sequential(nn.Flatten(), nn.Linear(48, width), nn.Linear(width, classes))

def deaf():
    return Plain(1000, 4, 4, 3)

def demanding(classes, secret):
    return None

def headless(classes, channels):
    return nn.Sequential(nn.Conv2d(channels, classes, 4), nn.Flatten(), nn.Tanh())

def wrong():
    return "a network"

def picky(classes):
    return Plain(classes, 5, 5, 3)

number = 3
"""
    )
    (tmp_path / "my_broken_networks.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("my_networks", "my_broken_networks"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("mine")
def test_own_networks_get_what_they_take():
    for name in ("my_networks:Plain", "my_networks:anything", "my_networks:wide"):
        check_network(name)
        network = build_network(name, (3, 4, 4), 5)
        assert network(torch.zeros(2, 3, 4, 4)).shape == (2, 5)
    assert build_network("my_networks:wide", (3, 4, 4), 5, 7)[1].out_features == 7
    # A width without a height is not that of the images.
    assert build_network("my_networks:layered", (3, 4, 4), 5)[1].out_features == 64


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("name", "units", "sentence"),
    [
        ("my_networks:Plain", 8, "takes no argument 'units', so its width cannot be 8: leave"),
        ("my_networks:deaf", None, "has 1000 outputs for 5 classes"),
        ("my_networks:demanding", None, "alone: missing a required argument: 'secret'"),
        ("torch.nn:Linear", None, "called without arguments: missing .* argument: 'in_feat"),
        ("my_networks:headless", None, "has no linear layer"),
        ("my_networks:wrong", None, "must make a torch.nn.Module, but made a str"),
        ("my_networks:picky", None, "cannot be used: The model failed on .* shape .2, 3, 4, 4."),
        ("my_networks:number", None, "must be a function or a class .* of type int"),
        ("my_networks:none", None, "'my_networks' has nothing called 'none'"),
        ("my_broken_networks:mine", None, "could not be imported: ZeroDivisionError: division"),
        ("my_missing_networks:mine", None, "could not be imported: ModuleNotFoundError: No module"),
        ("my_networks:plain", None, "nothing called 'plain'. Did you mean 'Plain'"),
        (":mine", None, "':mine' must be written as package.module:object"),
        ("my_networks:", None, "must be written as package.module:object"),
    ],
)
def test_own_networks_that_do_not_work_are_explained(name, units, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        build_network(name, (3, 4, 4), 5, units)
    assert f"'{name}'" in str(caught.value)
