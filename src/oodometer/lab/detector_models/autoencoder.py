"""Autoencoders: images that are reconstructed badly are outliers.

Two published networks, of OD-test (Shafaei et al. 2019, arXiv:1809.04729) and of EvG (Yoon et al.
2022, arXiv:2208.10940).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.errors import UserError
from oodometer.lab.detector_models.cards import Codes, detector_model
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec

Size = tuple[int, int]  # height and width


@dataclass(frozen=True)
class Widths:
    """Channels of OD-test's network: of its first layer, of its widest ones, and of the code."""

    start: int
    widest: int
    code: int


TINY, SMALL = Widths(8, 16, 8), Widths(16, 64, 32)
# As printed, by the number of halvings: 28 x 28 has 4, 32 x 32 has 5, 64 x 64 and 96 x 96 have 6.
PAPER = {4: Widths(64, 256, 96), 5: Widths(64, 512, 256), 6: Widths(64, 512, 512)}


def widths_of(model_size: str, size: Size) -> Widths:
    """The channels of a network of this size for images of this height and width."""
    if model_size == "paper":
        return PAPER[min(max(len(pooled_sizes(size)) - 1, 4), 6)]
    return {"tiny": TINY, "small": SMALL}[model_size]


def image_size(model: str, shape: tuple[int, ...]) -> Size:
    """Height and width of images; anything else is refused."""
    if len(shape) != 3 or min(shape[1:]) < 2:
        raise UserError(
            f"Model '{model}' is for images of at least 2 x 2 pixels, got inputs of shape {shape}."
        )
    return shape[1], shape[2]


def pooled_sizes(size: Size) -> list[Size]:
    """Height and width after 0, 1, 2 ... halvings, until one of them is 1.

    >>> pooled_sizes((28, 28))
    [(28, 28), (14, 14), (7, 7), (3, 3), (1, 1)]
    """
    sizes = [size]
    while min(sizes[-1]) > 1:
        sizes.append((sizes[-1][0] // 2, sizes[-1][1] // 2))
    return sizes


def layer_widths(widths: Widths, size: Size) -> list[int]:
    """Channels of the encoder's layers: doubled after every second one, up to the widest.

    >>> layer_widths(PAPER[4], (28, 28))
    [64, 128, 128, 256, 256, 256, 256, 256]
    """
    layers = 2 * (len(pooled_sizes(size)) - 1)
    return [min(widths.start << (number // 2), widths.widest) for number in range(1, layers + 1)]


def _layer(inputs: int, outputs: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ELU())


class Encoder(nn.Module):
    """OD-test's encoder: 3 x 3 layers, the first and every second one followed by a pooling."""

    def __init__(self, channels: int, widths: Sequence[int], code: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(map(_layer, [channels, *widths], [*widths, code]))

    def forward(self, images: Tensor) -> Tensor:
        """Return the code: (n, code, 1, 1) if the images are square."""
        *trunk, last = self.layers
        for number, layer in enumerate(trunk, 1):
            images = layer(images)
            if number % 2:
                images = functional.max_pool2d(images, 2)
        code: Tensor = last(images)
        return code


class Decoder(nn.Module):
    """OD-test's decoder: the encoder's channels in reverse, enlarged where that one pools."""

    def __init__(self, code: int, widths: Sequence[int], channels: int, size: Size) -> None:
        super().__init__()
        reverse = [code, *reversed(widths)]
        self.layers = nn.ModuleList(map(_layer, reverse, reverse[1:]))
        self.last = nn.Conv2d(reverse[-1], channels, 3, padding=1)
        last, *self._sizes = reversed(pooled_sizes(size))
        self.code_shape = (code, *last)

    def forward(self, code: Tensor) -> Tensor:
        """Return images, before their sigmoid."""
        values, sizes = code, iter(self._sizes)
        for number, layer in enumerate(self.layers, 1):
            values = layer(values)
            if number % 2:
                values = _enlarged(values, next(sizes))
        images: Tensor = self.last(values)
        return images


def _enlarged(values: Tensor, size: Size) -> Tensor:
    """Repeat every pixel 2 x 2 times; odd sizes get a row of zeros on top, a column on the left."""
    double = functional.interpolate(values, scale_factor=2.0, mode="nearest")
    rows, columns = size[0] - double.shape[2], size[1] - double.shape[3]
    return functional.pad(double, (columns, 0, rows, 0)) if rows or columns else double


class Autoencoder(nn.Module):
    """An encoder, and a decoder that returns images before their sigmoid."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the code and the reconstruction before its sigmoid."""
        code = self.encoder(images)
        return code, self.decoder(code)


def od_test_autoencoder(model: str, model_size: str, shape: tuple[int, ...]) -> Autoencoder:
    """OD-test's network for images of any size."""
    size = image_size(model, shape)
    channels, widths = shape[0], widths_of(model_size, size)
    layers = layer_widths(widths, size)
    encoder = Encoder(channels, layers, widths.code)
    return Autoencoder(encoder, Decoder(widths.code, layers, channels, size))


# Of the first layer, and of the code; the other layers have 2, 4 and 8 times as many channels.
EVG_WIDTHS = {"tiny": (8, 8), "small": (16, 32), "paper": (128, 128)}
EVG_SIDE = 32


def evg_autoencoder(model: str, model_size: str, shape: tuple[int, ...]) -> Autoencoder:
    """EvG's network, for 32 x 32 pixels; the fourth kernel is 2 x 2, the only one that fits."""
    if image_size(model, shape) != (EVG_SIDE, EVG_SIDE):
        raise UserError(
            f"Model '{model}' is for images of {EVG_SIDE} x {EVG_SIDE} pixels, as published, got "
            f"{shape[1]} x {shape[2]}: use architecture=od_test."
        )
    channels, (width, code) = shape[0], EVG_WIDTHS[model_size]
    widest = 8 * width
    encoder = nn.Sequential(
        *_normalized(nn.Conv2d(channels, width, 4, 2)),
        *_normalized(nn.Conv2d(width, 2 * width, 4, 2)),
        *_normalized(nn.Conv2d(2 * width, 4 * width, 4, 2)),
        *_normalized(nn.Conv2d(4 * width, widest, 2, 2)),
        *_normalized(nn.Conv2d(widest, widest, 1)),
        nn.Conv2d(widest, code, 1),
        nn.Tanh(),
    )
    decoder = nn.Sequential(
        nn.ConvTranspose2d(code, widest, 8),
        nn.ReLU(),
        nn.ConvTranspose2d(widest, 4 * width, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(2 * width, channels, 1),
    )
    return Autoencoder(encoder, decoder)


def _normalized(convolution: nn.Conv2d) -> tuple[nn.Module, ...]:
    return convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU()


Errors = Callable[[Tensor, Tensor], Tensor]  # images before their sigmoid, images -> (n,)


def squared_error(outputs: Tensor, images: Tensor) -> Tensor:
    """Mean squared difference of pixels, (n,)."""
    return (outputs.sigmoid() - images).square().flatten(1).mean(1)


def cross_entropy(outputs: Tensor, images: Tensor) -> Tensor:
    """Mean of -x log s - (1 - x) log(1 - s) over pixels, s the sigmoid of the outputs, (n,)."""
    entropy = functional.binary_cross_entropy_with_logits(outputs, images, reduction="none")
    return entropy.flatten(1).mean(1)


def dequantized(images: Tensor) -> Tensor:
    """Fill the gaps between 256 levels: (255 x + u) / 256, u uniform from 0 to 1."""
    return (255 * images + torch.rand_like(images)) / 256


MIRRORED = "crop_flip(padding=0)"  # half of the images
RECIPES: Mapping[str, Mapping[str, object]] = {
    "tiny": {"epochs": 10, "batch_size": 32, "learning_rate": 1e-3, "train_size": 2_000},
    "small": {"epochs": 10, "batch_size": 64, "learning_rate": 1e-3, "train_size": 10_000},
    "paper": {
        "batch_size": 128,
        "learning_rate": 1e-3,
        "schedule": "plateau(on=train_loss, patience=10, threshold=1e-3, minimum=1e-6)",
        "validation": 0.2,
        "epoch": "best",
        "best_by": "validation_loss",
    },
}


def od_test_recipe(spec: TrainSpec, shape: tuple[int, ...], code_width: int = 1) -> TrainSpec:
    """OD-test's training: 240 epochs or, for wide codes, more; images mirrored, MNIST's not."""
    update = dict(RECIPES[spec.model_size])
    if spec.model_size == "paper":
        code = code_width * widths_of("paper", (shape[1], shape[2])).code
        update["epochs"] = 240 * max(1, code // 256)
        update["augment"] = "none" if spec.data == "mnist" else MIRRORED
    return spec.model_copy(update=update)


def evg_recipe(spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    """EvG's training; how much of the data it validates on is not published."""
    update = {**RECIPES[spec.model_size], "augment": MIRRORED}
    if spec.model_size == "paper":
        update |= {"epochs": 500, "learning_rate": 1e-4, "schedule": "constant", "validation": 0.1}
    return spec.model_copy(update=update)


def _task(
    build: Callable[[str, str, tuple[int, ...]], nn.Module],
    model: str,
    errors: Errors,
    *,
    filled: bool = False,
) -> Task:
    def network(spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
        return build(model, spec.model_size, shape)

    def reconstruction_loss(
        spec: TrainSpec, model: nn.Module, batch: Batch
    ) -> tuple[Tensor, Measures]:
        images = dequantized(batch.inputs) if filled and model.training else batch.inputs
        return errors(model(images)[1], images).mean(), {}

    return Task(network, reconstruction_loss)


def _answer(errors: Errors, model: nn.Module, images: Tensor) -> Tensor:
    code, outputs = model(images)
    return torch.cat([errors(outputs, images)[:, None], code.flatten(1)], 1)


COLUMNS = 1 + SMALL.code  # of the answers of the small size
_MIDDLE = 0.98  # of the training codes, the share that the box spans


def _spanned(model: nn.Module, answers: Tensor | None) -> Codes:
    """The box that most training codes lie in, coordinate by coordinate."""
    assert isinstance(model, Autoencoder) and isinstance(model.decoder, Decoder)
    assert answers is not None, "answers about training data are kept"
    outside = (1 - _MIDDLE) / 2
    codes = answers[:, 1:]
    low, high = (codes.quantile(q, dim=0) for q in (outside, 1 - outside))
    note = f"Each coordinate of a code spans {_MIDDLE:.0%} of the training images' codes."
    return _decoding(model, low, high, model.decoder.code_shape, note)


def _hyperbolic(model: nn.Module, answers: Tensor | None) -> Codes:
    """The box from -1 to 1, which a hyperbolic tangent maps all images into."""
    assert isinstance(model, Autoencoder) and isinstance(model.decoder, nn.Sequential)
    first = model.decoder[0]
    assert isinstance(first, nn.ConvTranspose2d)
    ends = torch.ones(first.in_channels)
    note = "Each coordinate of a code is from -1 to 1."
    return _decoding(model, -ends, ends, (first.in_channels, 1, 1), note)


def _decoding(
    model: Autoencoder, low: Tensor, high: Tensor, shape: tuple[int, ...], note: str
) -> Codes:
    def decode(points: Tensor) -> Tensor:
        values = low.to(points) + points * (high - low).to(points)
        images: Tensor = model.decoder(values.view(-1, *shape)).sigmoid()
        return images

    return Codes(decode, len(low), "box", note)


@detector_model(
    task=_task(od_test_autoencoder, "autoencoder_mse", squared_error),
    spec=od_test_recipe,
    of_training=True,
    columns=COLUMNS,
    codes=_spanned,
)
def autoencoder_mse(model: nn.Module, images: Tensor) -> Tensor:
    """Mean squared error of the reconstruction, and the code."""
    return _answer(squared_error, model, images)


@detector_model(
    task=_task(od_test_autoencoder, "autoencoder_bce", cross_entropy),
    spec=od_test_recipe,
    of_training=True,
    columns=COLUMNS,
    codes=_spanned,
)
def autoencoder_bce(model: nn.Module, images: Tensor) -> Tensor:
    """Mean cross-entropy of the reconstruction, and the code."""
    return _answer(cross_entropy, model, images)


@detector_model(
    task=_task(evg_autoencoder, "autoencoder_evg_mse", squared_error, filled=True),
    spec=evg_recipe,
    columns=COLUMNS,
    codes=_hyperbolic,
)
def autoencoder_evg_mse(model: nn.Module, images: Tensor) -> Tensor:
    """Mean squared error of the reconstruction, and the code, by EvG's network."""
    return _answer(squared_error, model, images)


@detector_model(
    task=_task(evg_autoencoder, "autoencoder_evg_bce", cross_entropy, filled=True),
    spec=evg_recipe,
    columns=COLUMNS,
    codes=_hyperbolic,
)
def autoencoder_evg_bce(model: nn.Module, images: Tensor) -> Tensor:
    """Mean cross-entropy of the reconstruction, and the code, by EvG's network."""
    return _answer(cross_entropy, model, images)


_MODELS = {  # by architecture and loss
    "od_test": {"mse": "autoencoder_mse", "bce": "autoencoder_bce"},
    "evg": {"mse": "autoencoder_evg_mse", "bce": "autoencoder_evg_bce"},
}


@detector(
    paper="Shafaei et al. 2019, arXiv:1809.04729; Yoon et al. 2022, arXiv:2208.10940",
    needs={f"model:{name}" for each in _MODELS.values() for name in each.values()},
    grid={"loss": ("mse",), "architecture": ("od_test",)},
    needs_for={
        "loss": {
            loss: {f"model:{each[loss]}" for each in _MODELS.values()} for loss in ("mse", "bce")
        },
        "architecture": {
            name: {f"model:{model}" for model in each.values()} for name, each in _MODELS.items()
        },
    },
    only_by_name=True,
)
def reconstruction_error(
    train: View, *, loss: str = "mse", architecture: str = "od_test"
) -> Scorer:
    """Reconstruction error of an autoencoder that is trained on the training images.

    score = mean over pixels of (s - x)^2, or of -x log s - (1 - x) log(1 - s) with loss="bce", x
    the image and s its reconstruction. loss="bce" measures brightness, too: even of a perfect
    reconstruction it is log 2 for mid-grey and 0 for black. architecture="od_test" is the network
    of OD-test, "evg" that of EvG, for 32 x 32 pixels, which has loss="mse" in the paper.
    """
    name = _MODELS[architecture][loss]
    return lambda test: test.model(name)[:, 0]
