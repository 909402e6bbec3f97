"""SNGP: a classifier that keeps distances, with a Gaussian process as its last layer.

Liu et al. 2020, arXiv:2006.10108, as re-implemented by van Amersfoort et al. 2021 (DUE),
arXiv:2102.11409.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_input

from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.detector_models.representations.encoders import (
    Standardized,
    encoder,
    require_images,
)
from oodometer.lab.training.losses import as_classes
from oodometer.lab.training.networks.wide_resnet import PreActivated
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec

VARIANTS = ("due", "google")
MEASURES = ("dempster_shafer", "variance", "max_softmax")
_RIDGE = 1.0


@dataclass(frozen=True)
class _Variant:
    limit: float  # of the spectral norm of each layer
    mean_field: float  # how much the variance flattens the logits
    dropout: float  # at the size of the paper
    recipe: Mapping[str, object]  # at the size of the paper


DUE = _Variant(3.0, 25.0, 0.3, {"epochs": 200, "learning_rate": 0.05, "batch_size": 128})
GOOGLE = _Variant(6.0, 20.0, 0.1, {"epochs": 250, "learning_rate": 0.08, "batch_size": 256})


@dataclass(frozen=True)
class _Size:
    body: str | tuple[int, ...]
    features: int
    recipe: Mapping[str, object]
    projected: int = 0  # number of features after a fixed projection; 0: none
    published: bool = False  # whether dropout and recipe are those of the variant
    momentum: float = 0.1  # of batch norm: the share of a new batch in its running values


_SIZES = {
    "tiny": _Size(
        (8, 16), 32, {"epochs": 2, "batch_size": 32, "train_size": 256, "learning_rate": 0.1}
    ),
    "small": _Size(
        (16, 32, 64, 64), 256, {"epochs": 20, "train_size": 10_000, "schedule": "cosine"}
    ),
    "paper": _Size(
        "wide_resnet_28_10",
        1024,
        {
            "weight_decay": 5e-4,
            "schedule": "steps(at=60/120/160, factor=0.2)",
            "augment": "crop_flip",
        },
        projected=128,
        published=True,
        momentum=0.01,
    ),
}


class BoundedConvolution(nn.Conv2d):
    """A convolution whose spectral norm, as a map of whole images, is kept below a limit.

    The norm is estimated by one power iteration per training step, by the convolution itself and
    its transpose at the size of the layer's inputs. A 1 x 1 convolution is its matrix at each
    position, so that one position will do.
    """

    left: Tensor
    right: Tensor

    def __init__(self, plain: nn.Conv2d, size: tuple[int, int], limit: float) -> None:
        super().__init__(
            plain.in_channels,
            plain.out_channels,
            plain.kernel_size,  # type: ignore[arg-type]
            plain.stride,  # type: ignore[arg-type]
            plain.padding,  # type: ignore[arg-type]
            bias=plain.bias is not None,
        )
        self.weight, self.bias, self.limit = plain.weight, plain.bias, limit
        size = (1, 1) if plain.kernel_size == (1, 1) else size
        self.register_buffer("right", _unit(torch.randn(1, plain.in_channels, *size)))
        with torch.no_grad():
            self.register_buffer("left", _unit(self._mapped(self.right)))

    def _mapped(self, images: Tensor) -> Tensor:
        return functional.conv2d(images, self.weight, None, self.stride, self.padding)

    @torch.no_grad()
    def iterate(self) -> None:
        """Bring the singular vectors one step closer to those of the largest singular value."""
        back: Tensor = conv2d_input(  # type: ignore[no-untyped-call]
            self.right.shape, self.weight, self.left, self.stride, self.padding
        )
        self.right.copy_(_unit(back))
        self.left.copy_(_unit(self._mapped(self.right)))

    def norm(self) -> Tensor:
        """The spectral norm, as far as the singular vectors are known."""
        stretched: Tensor = (self.left * self._mapped(self.right)).sum()
        return stretched

    def forward(self, inputs: Tensor) -> Tensor:
        """Convolve by the weights, divided by what their norm exceeds the limit by."""
        if self.training:
            self.iterate()
        weight = self.weight / (self.norm() / self.limit).clamp_min(1)
        result: Tensor = self._conv_forward(inputs, weight, self.bias)
        return result


class BoundedNorm(nn.BatchNorm2d):
    """Batch norm whose largest gain over running deviation is kept below a limit."""

    def __init__(self, plain: nn.BatchNorm2d, limit: float, momentum: float) -> None:
        super().__init__(plain.num_features, plain.eps, momentum)
        self.limit, self.share = limit, momentum

    def forward(self, inputs: Tensor) -> Tensor:
        """Normalize with the bounded gain."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        largest = (self.weight.abs() / (self.running_var + self.eps).sqrt()).amax()
        gain = self.weight / (largest / self.limit).clamp_min(1)
        if self.training:
            self.num_batches_tracked.add_(1)
        return functional.batch_norm(
            inputs,
            self.running_mean,
            self.running_var,
            gain,
            self.bias,
            self.training,
            self.share,
            self.eps,
        )


def bounded(
    network: nn.Module, shape: tuple[int, ...], *, limit: float, momentum: float = 0.1
) -> nn.Module:
    """Replace all convolutions and batch norms of a network for images of a shape."""
    sizes: dict[nn.Module, tuple[int, int]] = {}

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        sizes[module] = (inputs[0].shape[2], inputs[0].shape[3])

    plain = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    hooks = [module.register_forward_pre_hook(note) for module in plain]
    with torch.no_grad():
        network.eval()(torch.zeros(1, *shape))
    network.train()
    for hook in hooks:
        hook.remove()
    for parent in list(network.modules()):
        for name, module in list(parent.named_children()):
            if isinstance(module, nn.Conv2d):
                parent.add_module(name, BoundedConvolution(module, sizes[module], limit))
            elif isinstance(module, nn.BatchNorm2d):
                parent.add_module(name, BoundedNorm(module, limit, momentum))
    return network


def _unit(vector: Tensor) -> Tensor:
    length = vector.norm()
    return vector / torch.where(length > 0, length, 1.0)


class RandomFeatures(nn.Module):
    """cos(W x + b) / 2, whose products approximate a Gaussian kernel of width 1 (Yu et al. 2016).

    W has orthogonal blocks with rows as long as those of a Gaussian matrix, b is uniform in
    [0, 2 pi); neither is trained. sqrt(2 / m) cos(W x + b) has the products exp(-|x - y|^2 / 2),
    so these have m / 8 times as much. arXiv:1610.09072.
    """

    weight: Tensor
    offset: Tensor

    def __init__(self, inputs: int, features: int) -> None:
        super().__init__()
        blocks = [
            torch.linalg.qr(torch.randn(inputs, inputs))[0] for _ in range(-(-features // inputs))
        ]
        lengths = torch.randn(features, inputs).norm(dim=1, keepdim=True)
        self.register_buffer("weight", torch.cat(blocks)[:features] * lengths)
        self.register_buffer("offset", 2 * math.pi * torch.rand(features))

    def forward(self, inputs: Tensor) -> Tensor:
        """Features (n, m) of inputs (n, d)."""
        return functional.linear(inputs, self.weight, self.offset).cos() / 2


class GaussianProcessClassifier(nn.Module):
    """An encoder that keeps distances, random features, and a linear layer with its covariance."""

    covariance: Tensor

    def __init__(
        self, variant: _Variant, size: _Size, shape: tuple[int, ...], classes: int
    ) -> None:
        super().__init__()
        self.mean_field = variant.mean_field
        body, width = encoder(size.body, shape)
        for block in body.modules():
            if isinstance(block, PreActivated) and size.published:
                block.body.insert(3, nn.Dropout(variant.dropout))
        body = bounded(body, shape, limit=variant.limit, momentum=size.momentum)
        self.encoder = nn.Sequential(Standardized(shape[0]), body)
        self.project: nn.Module = nn.Identity()
        if size.projected:
            self.project = _Fixed(width, size.projected)
        inputs = size.projected or width
        self.normalize = nn.LayerNorm(inputs)
        self.features = RandomFeatures(inputs, size.features)
        self.head = nn.Linear(size.features, classes)
        self.register_buffer("covariance", torch.eye(size.features, dtype=torch.float64) / _RIDGE)

    def featured(self, images: Tensor) -> Tensor:
        """Random features of the images."""
        found: Tensor = self.features(self.normalize(self.project(self.encoder(images))))
        return found

    def forward(self, images: Tensor) -> Tensor:
        """Logits without regard to the variance: what is trained."""
        logits: Tensor = self.head(self.featured(images))
        return logits

    def predictions(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean-field logits z / sqrt(1 + 25 v), and the variance v, in double precision.

        Google's variant has 20 in place of 25.
        """
        features = self.featured(images)
        exact = features.double()
        variance = _RIDGE * ((exact @ self.covariance) * exact).sum(1)
        logits = self.head(features).double()
        return logits / (1 + self.mean_field * variance).sqrt()[:, None], variance


class _Fixed(nn.Module):
    """A Gaussian projection that is not trained."""

    weight: Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.register_buffer("weight", 0.05 * torch.randn(outputs, inputs))

    def forward(self, inputs: Tensor) -> Tensor:
        return functional.linear(inputs, self.weight)


def posterior_covariance(batches: Iterable[Tensor], ridge: float = _RIDGE) -> Tensor:
    """(s I + sum of f f')^-1 over all features f, in double precision.

    s f' (s I + F' F)^-1 f is the posterior variance of a Gaussian process with the kernel f f' and
    noise s: Rasmussen & Williams 2006, equation 2.11.
    """
    precision: Tensor | None = None
    for features in batches:
        exact = features.double()
        if precision is None:
            precision = ridge * torch.eye(exact.shape[1], dtype=exact.dtype, device=exact.device)
        precision.addmm_(exact.T, exact)
    assert precision is not None, "there are training data"
    return torch.cholesky_inverse(torch.linalg.cholesky(precision))


def dempster_shafer(logits: Tensor) -> Tensor:
    """Log-odds of K / (K + sum_c e^z_c): log K - logsumexp(z). Sensoy et al. 2018."""
    return math.log(logits.shape[1]) - logits.logsumexp(1)


def _network(variant: _Variant, spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
    require_images("sngp", shape)
    return GaussianProcessClassifier(variant, _SIZES[spec.model_size], shape, classes)


def _loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    logits = model(batch.inputs)
    hits = (logits.detach().argmax(1) == as_classes(batch.targets)).sum()
    return functional.cross_entropy(logits, batch.targets), {"accuracy": int(hits)}


def _finish(spec: TrainSpec, model: nn.Module, batches: Iterable[Batch]) -> None:
    assert isinstance(model, GaussianProcessClassifier)
    model.covariance.copy_(posterior_covariance(model.featured(each.inputs) for each in batches))


def _recipe(variant: _Variant, spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    size = _SIZES[spec.model_size]
    usual = {"optimizer": "sgd_momentum", "learning_rate": 0.05, "batch_size": 128}
    published = variant.recipe if size.published else {}
    return spec.model_copy(update={**usual, **size.recipe, **published})


def _task(variant: _Variant) -> Task:
    return Task(partial(_network, variant), _loss, ("accuracy",), labelled=True, finish=_finish)


TASK = _task(DUE)


@detector_model(task=TASK, spec=partial(_recipe, DUE), columns=len(MEASURES))
def sngp_due(model: nn.Module, inputs: Tensor) -> Tensor:
    """(n, 3): Dempster-Shafer score, logarithm of the variance, and odds against the top class."""
    assert isinstance(model, GaussianProcessClassifier)
    logits, variance = model.predictions(inputs)
    top, place = logits.max(1, keepdim=True)
    against = (logits - top).scatter(1, place, -torch.inf).logsumexp(1)
    return torch.stack([dempster_shafer(logits), variance.log(), against], dim=1)


@detector_model(task=_task(GOOGLE), spec=partial(_recipe, GOOGLE), columns=len(MEASURES))
def sngp_google(model: nn.Module, inputs: Tensor) -> Tensor:
    """The same, with the settings of the first implementation."""
    return sngp_due(model, inputs)


@detector(
    paper="Liu et al. 2020, arXiv:2006.10108; van Amersfoort et al. 2021, arXiv:2102.11409",
    needs={"model:sngp_due", "model:sngp_google"},
    grid={"measure": MEASURES, "variant": VARIANTS[:1]},
    needs_for={"variant": {name: {f"model:sngp_{name}"} for name in VARIANTS}},
    only_by_name=True,
)
def sngp(train: View, *, measure: str = "dempster_shafer", variant: str = "due") -> Scorer:
    """Classifier that keeps distances, with a Gaussian process as its last layer.

    log K - logsumexp(z / sqrt(1 + 25 v)), the log-odds of K / (K + sum_c exp z_c), K classes, z the
    logits and v the posterior variance of the Gaussian process, f' (I + F' F)^-1 f, f the random
    features of the image, F those of the training images. Every convolution has a spectral
    norm of at most 3. measure="variance" is log v alone, "max_softmax" the log-odds against the
    class with the largest probability. All this is van Amersfoort et al.'s re-implementation, as
    "EvG" uses it (Yoon et al. 2022); variant="google" bounds norms by 6 and has 20 v for 25 v.
    """
    column = MEASURES.index(measure)
    return lambda test: test.model(f"sngp_{variant}")[:, column].double()
