"""Extraction: the true forward pass, once, from any module, leaving it as it was."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from oodometer import extract
from oodometer.errors import UserError


class FunctionalStem(nn.Module):
    """A network whose stem ReLU is functional: chaining its children would skip it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(4 * 36, 3)

    def forward(self, x):
        x = functional.relu(self.norm(self.conv(x)))
        return self.fc(self.drop(x).flatten(1))


def seeded(build):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build()


@pytest.fixture
def model():
    return seeded(FunctionalStem)


@pytest.fixture
def images():
    return torch.rand(23, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def test_features_and_logits_are_those_of_the_forward_pass(model, images):
    got = extract(model, {"a": images}, batch_size=7)["a"]
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(got.logits, model(images))
        true = functional.relu(model.norm(model.conv(images))).flatten(1)
    torch.testing.assert_close(got.features, true)
    assert (got.features >= 0).all(), "the stem's ReLU was skipped"
    assert got.labels.tolist() == [-1] * 23


@pytest.mark.parametrize("size", [1, 7, 23, 100])
def test_batches_do_not_matter(model, images, size):
    whole = extract(model, {"a": images})["a"]
    torch.testing.assert_close(
        extract(model, {"a": images}, batch_size=size)["a"].logits, whole.logits
    )


def test_every_form_of_data_gives_the_same(model, images):
    labels = torch.arange(23) % 3
    forms = {
        "tensors": (images, labels),
        "arrays": (images.numpy().astype(np.float64), labels.numpy()),
        "rows": TensorDataset(images, labels),
        "loader": DataLoader(TensorDataset(images, labels), batch_size=5),
        "generator": ((images[i : i + 4], labels[i : i + 4]) for i in range(0, 23, 4)),
    }
    got = extract(model, forms)
    for name in forms:
        torch.testing.assert_close(got[name].logits, got["tensors"].logits)
        assert torch.equal(got[name].labels, labels), name


def test_the_model_is_left_exactly_as_it_was(model, images):
    model.train()
    model.norm.eval()  # frozen statistics, as in fine-tuning
    before = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    extract(model, {"a": images})
    assert model.training and model.drop.training and not model.norm.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(not module._forward_hooks for module in model.modules())
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert torch.equal(state, torch.get_rng_state())


def test_the_model_is_restored_after_an_error(model):
    model.train()
    with pytest.raises(UserError, match=r"failed on data set 'bad', on a batch of shape \(2, 5\)"):
        extract(model, {"bad": torch.rand(2, 5)})
    assert model.training and all(not module._forward_hooks for module in model.modules())


def test_each_input_goes_through_the_model_once(model, images):
    rows = []
    hook = model.register_forward_hook(lambda _, inputs, output: rows.append(len(inputs[0])))
    extract(model, {"a": images, "b": images[:4]}, batch_size=10)
    hook.remove()
    assert rows == [10, 10, 3, 4]


class Wrapped(nn.Module):
    def __init__(self, wrap) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.ReLU())
        self.head, self.auxiliary, self.wrap = nn.Linear(5, 3), nn.Linear(5, 3), wrap

    def forward(self, x):
        hidden = self.body(x)
        logits = self.head(hidden)
        self.auxiliary(hidden)  # runs last, but is not the answer
        return self.wrap(logits)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda z: z,
        lambda z: z.log_softmax(1),
        lambda z: z.softmax(1),
        lambda z: (z, None),
        lambda z: {"logits": z},
    ],
    ids=["plain", "log-softmax", "softmax", "tuple", "mapping"],
)
def test_the_head_is_found_by_what_it_returns(wrap, images):
    model = seeded(lambda: Wrapped(wrap))
    got = extract(model, {"a": images})["a"]
    assert torch.equal(got.head.weight, model.head.weight)
    torch.testing.assert_close(got.logits, model.head(model.body(images)).detach())


@pytest.mark.parametrize("form", ["tuple", "mapping", "named"])
def test_several_heads_need_a_word(form, images):
    class Twins(Wrapped):
        def forward(self, x):
            hidden = self.body(x)
            main, other = self.head(hidden), self.auxiliary(hidden)
            return {
                "tuple": (main, other),
                "mapping": {"main": main, "other": other},
                "named": {"logits": main, "other": other},
            }[form]

    model = seeded(lambda: Twins(None))
    if form == "named":
        assert torch.equal(extract(model, {"a": images})["a"].head.weight, model.head.weight)
        return
    with pytest.raises(UserError, match="several linear layers: head, auxiliary. Name the head"):
        extract(model, {"a": images})
    assert len(extract(model, {"a": images}, head="head")["a"]) == 23


def test_small_logits_do_not_confuse_layers(images):
    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(36, 6), nn.Linear(6, 6)

        def forward(self, x):
            return self.two(self.one(x.flatten(1) * 1e-7) * 1e-7)

    model = seeded(Small)
    for parameter in (model.one.bias, model.two.bias):
        nn.init.zeros_(parameter)
    got = extract(model, {"a": images})["a"]
    assert torch.equal(got.head.weight, model.two.weight)


def test_odd_outputs_of_models(images):
    class Odd(Wrapped):
        def forward(self, x):
            answer = {"logits": self.head(input=self.body(x)), "note": "text"}
            answer["self"] = answer
            return answer

    got = extract(seeded(lambda: Odd(None)), {"a": images})["a"]
    assert len(got) == 23
    broken = seeded(lambda: Wrapped(lambda z: z))
    nn.init.constant_(broken.head.weight, torch.nan)
    with pytest.raises(UserError, match=r"head.weight must be finite"):
        extract(broken, {"a": images})


def test_more_forms_of_data(model, images):
    labels = torch.arange(23) % 3

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([(images[i], int(labels[i])) for i in range(23)])

    class Named(torch.utils.data.Dataset):
        def __len__(self):
            return 23

        def __getitem__(self, index):
            return {"x": images[index], "label": int(labels[index]), "file": f"{index}.png"}

    state = torch.get_rng_state()
    triples = [(images, labels, torch.arange(23))]
    got = extract(model, {"stream": Stream(), "triples": iter(triples), "named": Named()})
    assert all(torch.equal(part.labels, labels) for part in got.values())
    assert torch.equal(state, torch.get_rng_state()), "a loader drew from the global state"


def test_the_head_can_be_told(images):
    model = seeded(lambda: Wrapped(lambda z: z))
    for head in ("auxiliary", model.auxiliary):
        got = extract(model, {"a": images}, head=head)["a"]
        assert torch.equal(got.head.weight, model.auxiliary.weight)
    with pytest.raises(UserError, match="Unknown linear layer 'haed'. Did you mean 'head'"):
        extract(model, {"a": images}, head="haed")


def test_a_head_without_bias_and_half_precision(images):
    model = seeded(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Linear(8, 3, bias=False))
    )
    got = extract(model.bfloat16(), {"a": images})["a"]
    assert got.logits.dtype == torch.float32 and got.head.bias.tolist() == [0, 0, 0]


def test_inputs_by_name(images):
    class Named(Wrapped):
        def forward(self, pixels, mask):
            return super().forward(pixels * mask)

    model = seeded(lambda: Named(lambda z: z))
    batches = [
        {"pixels": images, "mask": torch.ones(23, 1, 1, 1), "labels": torch.zeros(23).long()}
    ]
    got = extract(model, {"a": batches and iter(batches)})["a"]
    assert got.labels.tolist() == [0] * 23 and len(got) == 23


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: nn.Sequential(nn.Conv2d(1, 3, 6), nn.Flatten(), nn.ReLU()), "has no linear layer"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 3), nn.Tanh()), "head cannot be found"),
        (lambda: nn.Sequential(nn.Linear(6, 3)), "head cannot be found.*Linear layers that ran: 0"),
    ],
)
def test_models_without_a_linear_head(build, sentence, images):
    with pytest.raises(UserError, match=sentence):
        extract(build(), {"a": images})


def test_a_head_on_sequences_is_refused():
    model = nn.Sequential(nn.Linear(6, 3), nn.Flatten())
    with pytest.raises(UserError, match=r"features of shape \(4, 5, 6\) for 4 samples"):
        extract(model, {"a": torch.rand(4, 5, 6)}, head="0")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (torch.rand(0, 1, 6, 6), "Data set 'x' is empty"),
        (torch.full((3, 1, 6, 6), torch.nan), "'x' holds NaN or infinity in 3 of 3"),
        ((torch.rand(3, 1, 6, 6), torch.zeros(2).long()), "3 inputs but 2 labels"),
        ((torch.rand(3, 1, 6, 6), torch.full((3,), 0.5)), "vector of integers, but 3 of 3 are not"),
        ((torch.rand(3, 1, 6, 6), torch.ones(3, 2)), r"integers, got shape \(3, 2\) of float32"),
        ((torch.rand(3, 1, 6, 6), torch.full((3,), 7)), "'x': labels must lie in 0..2"),
        ("folder", "is a str; allowed are arrays"),
        ((torch.rand(3, 1, 6, 6), [0, 1, 2]), "Labels of data set 'x' must be an array or tensor"),
        (np.array(["a", "b"]), "cannot be put into batches|a batch must be a tensor"),
        ([["a"]], "a batch must be a tensor"),
        (torch.randint(255, (3, 1, 6, 6)).byte(), "model failed on data set 'x'.*uint8"),
    ],
)
def test_bad_data_is_named(model, data, sentence):
    with pytest.raises(UserError, match=sentence):
        extract(model, {"x": data})


def test_bad_arguments(model, images):
    with pytest.raises(UserError, match="needs a torch.nn.Module, got str"):
        extract("model", {"a": images})
    with pytest.raises(UserError, match="mapping from names to data sets"):
        extract(model, images)
    with pytest.raises(UserError, match="Device 'foo' cannot be used here"):
        extract(model, {"a": images}, device="foo")
    with pytest.raises(UserError, match="Device 'meta' cannot be used here"):
        extract(model, {"a": images}, device="meta")
    with pytest.warns(DeprecationWarning):
        traced = torch.jit.trace(model.eval(), images)
        part = torch.jit.script(nn.Flatten())
    for needs in ((), "all"):
        with pytest.raises(UserError, match="A TorchScript module does not support forward hooks"):
            extract(traced, {"a": images}, needs=needs)
    partly = nn.Sequential(part, nn.Linear(36, 3))
    got = extract(partly, {"a": images}, needs="all")["a"]
    assert got.features.shape == (23, 36) and "TorchScript" in got.refused["probe:odin"].reason
    with pytest.raises(UserError, match="batch_size must be a whole number of at least 1, got 0"):
        extract(model, {"a": images}, batch_size=0)


def test_wrong_features_are_noticed(images):
    class Tricky(nn.Linear):
        def forward(self, x):
            return super().forward(x).relu()  # logits are not weight @ features + bias

    model = seeded(lambda: nn.Sequential(nn.Flatten(), Tricky(36, 3)))
    with pytest.raises(UserError, match="Data set 'a': logits differ from head"):
        extract(model, {"a": images}, head="1")


def test_the_stems_relu_can_be_skipped_and_comes_back(images):
    from oodometer.lab.asking.extract import stem_relu_skipped
    from oodometer.lab.training.networks import build_network

    model = seeded(lambda: build_network("resnet18", (1, 6, 6), 3, 4)).eval()
    true = extract(model, {"a": images})["a"]
    with stem_relu_skipped(model):
        slip = extract(model, {"a": images})["a"]
    with torch.no_grad():
        relu, model.stem.relu = model.stem.relu, nn.Identity()
        expected = extract(model, {"a": images})["a"]
        model.stem.relu = relu
    assert torch.equal(slip.features, expected.features)
    assert not torch.allclose(slip.features, true.features)
    assert torch.equal(extract(model, {"a": images})["a"].features, true.features)
    with (
        pytest.raises(UserError, match="needs a network with a ReLU in its stem"),
        stem_relu_skipped(seeded(FunctionalStem)),
    ):
        pass


class ConvolutionalHead(nn.Module):
    """The head is a convolution: on one position, on all of a map, or averaged over positions."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.body, self.form = nn.Conv2d(1, 4, 3), form
        self.classifier = nn.Conv2d(4, 3, 4 if form == "whole" else 1)

    def forward(self, x):
        maps = self.body(x).relu()
        if self.form == "pooled":
            maps = functional.adaptive_avg_pool2d(maps, 1)
        logits = self.classifier(maps)
        if self.form == "clipped":
            logits = logits.tanh()  # the mean is then none of anything linear
        return logits.mean((2, 3))


@pytest.mark.parametrize("form", ["pooled", "whole", "averaged"])
def test_a_convolution_can_be_the_head(form, images):
    model = seeded(lambda: ConvolutionalHead(form)).eval()
    got = extract(model, {"a": images}, batch_size=7)["a"]
    with torch.no_grad():
        torch.testing.assert_close(got.logits, model(images))
        maps = model.body(images).relu()
    expected = maps.flatten(1) if form == "whole" else maps.mean((2, 3))
    torch.testing.assert_close(got.features, expected)
    assert torch.equal(got.head.weight, model.classifier.weight.detach().flatten(1))
    probed = extract(model, {"a": images}, needs=["probe:gradient_uncertainty"])["a"]
    slopes = []
    for image in images:
        loss = -model(image[None]).log_softmax(1).sum()
        parts = torch.autograd.grad(loss, list(model.parameters()))
        slopes.append(sum(part.square().sum() for part in parts).sqrt())
    torch.testing.assert_close(probed.probes["gradient_uncertainty"], torch.stack(slopes))


def test_without_a_head_the_logits_are_left_and_the_reason_is_told(images):
    model = seeded(lambda: ConvolutionalHead("clipped")).eval()
    with pytest.raises(UserError, match="has no linear layer"):
        extract(model, {"a": images})
    got = extract(model, {"train": (images, torch.arange(23) % 3), "a": images}, needs="all")
    with torch.no_grad():
        torch.testing.assert_close(got["a"].logits, model(images))
    assert got["a"].features is None and got["a"].head is None
    for need in ("features", "head", "probe:mahalanobis", "probe:gradient_uncertainty"):
        assert "has no linear layer" in got["train"].refused[need].reason
    assert "odin" in got["a"].probes and "gram" in got["a"].probes

    class Silent(nn.Module):
        def forward(self, x):
            return x.mean((1, 2, 3))

    with pytest.raises(UserError, match=r"logits of shape \(23, classes\).*it returns \(23,\)"):
        extract(Silent(), {"a": images}, lenient=True)


def test_labels_as_people_have_them(model, images):
    classes = torch.arange(23) % 3
    forms = {
        "floats": classes.double(),
        "column": classes[:, None],
        "one-hot": functional.one_hot(classes).float(),
    }
    for name, labels in forms.items():
        got = extract(model, {"train": (images, labels)})["train"]
        assert torch.equal(got.labels, classes), name
    unknown = classes.double()
    unknown[4] = torch.nan
    assert extract(model, {"a": (images, unknown)})["a"].labels[4] == -1
    # An outlier set has classes of its own; what is trained on must have the classifier's.
    strange = torch.arange(23) + 1
    got = extract(model, {"train": (images, classes), "textures": (images, strange)})
    assert got["textures"].labels.tolist() == [-1] * 23
    with pytest.raises(UserError, match="classes are counted from 0"):
        extract(model, {"train": (images, classes + 1)})


def test_several_inputs_in_a_row_and_lists_of_samples(model, images):
    class Masked(Wrapped):
        def forward(self, pixels, mask):
            return super().forward(pixels * mask)

    labels, mask = torch.arange(23) % 3, torch.ones(23, 1, 1, 1)
    masked = seeded(lambda: Masked(lambda z: z))
    rows = [((images[i], mask[i]), int(labels[i])) for i in range(23)]
    got = extract(masked, {"a": DataLoader(rows, batch_size=5)})["a"]
    torch.testing.assert_close(got.logits, masked(images, mask).detach())
    assert torch.equal(got.labels, labels)
    with pytest.raises(UserError, match="2 inputs at a time, but the model takes x"):
        extract(model, {"a": DataLoader(rows, batch_size=5)})
    with pytest.raises(UserError, match="several inputs in a row"):
        extract(masked, {"a": iter([(images, images, labels)])})
    samples = [(images[i], int(labels[i])) for i in range(23)]
    whole = extract(model, {"list": samples, "tensor": (images, labels)})
    torch.testing.assert_close(whole["list"].logits, whole["tensor"].logits)


class WithAdapter(nn.Module):
    """A frozen linear layer and what was learned on top of it, as LoRA has them."""

    def __init__(self, width, classes):
        super().__init__()
        self.base = nn.Linear(width, classes)
        self.down, self.up = nn.Linear(width, 2, bias=False), nn.Linear(2, classes, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class OwnLinear(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(width, classes))

    def forward(self, x):
        return x @ self.matrix + 1


class AdaptedLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 3 * x[:, :1]


class CosineLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x / x.norm(dim=1, keepdim=True))


def hooked(width, classes):
    layer = nn.Linear(width, classes)
    layer.register_forward_hook(lambda module, inputs, output: 2 * output)
    return layer


@pytest.mark.parametrize("head", [WithAdapter, OwnLinear, AdaptedLinear, hooked])
def test_a_head_may_be_any_module_that_is_linear(head, images):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), head(8, 3)).eval()
    got = extract(model, {"a": images})["a"]
    with torch.no_grad():
        assert torch.allclose(got.features, model[:3](images), atol=1e-6)
        assert torch.allclose(got.logits, model(images), atol=1e-6)
    assert torch.allclose(got.head(got.features), got.logits, atol=1e-5)
    if isinstance(model[3], nn.Linear):
        named = extract(model, {"a": images}, head="3")["a"]
        assert torch.equal(named.head.weight, got.head.weight)


def shifting():
    norm = nn.BatchNorm1d(3)
    norm.running_mean.fill_(0.5)
    return norm


@pytest.mark.parametrize(
    "last",
    [
        lambda: [CosineLinear(8, 3)],
        lambda: [nn.Sequential(nn.Linear(8, 3), nn.ReLU())],
        lambda: [nn.Linear(8, 3), shifting()],  # linear, but what enters it are logits
    ],
)
def test_a_module_that_is_not_linear_is_no_head(last, images):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), *last())
    for inputs in (images, torch.zeros_like(images)):  # where nearly everything looks linear
        with pytest.raises(UserError, match="its head cannot be found"):
            extract(model, {"a": inputs})


def test_what_enters_the_head_is_kept_as_it_was(images):
    class WritesLater(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.fc = nn.Sequential(nn.Flatten(), nn.Linear(36, 8)), nn.Linear(8, 3)

        def forward(self, x):
            features = self.body(x)
            logits = self.fc(features)
            features.relu_()
            return logits

    model = WritesLater()
    got = extract(model, {"a": images})["a"]
    assert torch.allclose(got.features, model.body(images).detach(), atol=1e-6)
    assert (got.features < 0).any()

    class HalvesItsLogits(WritesLater):
        def forward(self, x):
            logits = self.fc(self.body(x))
            logits /= 2
            return logits

    with pytest.raises(UserError, match="its head cannot be found"):
        extract(HalvesItsLogits(), {"a": images})


def test_wrapped_models_are_asked_inside(images):
    inner = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 3))
    plain = extract(inner, {"a": images}, needs=["layers", "probe:gradient_uncertainty"])["a"]
    for model in (nn.DataParallel(inner), torch.compile(inner, backend="eager")):
        got = extract(model, {"a": images}, needs=["layers", "probe:gradient_uncertainty"])["a"]
        assert torch.equal(got.features, plain.features)
        assert torch.equal(got.probes["gradient_uncertainty"], plain.probes["gradient_uncertainty"])
    named = extract(nn.DataParallel(inner), {"a": images}, head="module.3", layers=["module.1"])
    assert torch.equal(named["a"].features, plain.features)


def test_buffers_and_random_numbers_are_given_back(images):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.register_buffer("last", torch.zeros(1))
            self.fc = nn.Linear(36, 3)

        def forward(self, x):
            self.calls += 1
            self.last = x[:1, 0, 0, 0]
            return self.fc(x.flatten(1) + torch.randn(36))

    model, state = Counts(), torch.get_rng_state()
    last = model.last
    extract(model, {"a": images})
    assert model.calls == 0 and model.last is last and last == 0
    assert torch.equal(state, torch.get_rng_state())


def test_a_program_without_eval_mode(images):
    class Exported(nn.Linear):
        def train(self, mode=True):
            raise NotImplementedError("Calling eval() is not supported yet.")

    with pytest.raises(UserError, match=r"^Exported cannot be put into eval mode, .* original"):
        extract(Exported(36, 3), {"a": images.flatten(1)})
