"""Generators that are trained on images: draw, search among their images, save, load."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.fitted.files import load_detector
from oodometer.fitted.fit import training_spec
from oodometer.fitted.images import Pictures, as_images
from oodometer.fitted.models import Notify, Progress, train_network
from oodometer.fitted.storage import MOST_NUMBERS, does_not_fit, read_file, write_file
from oodometer.lab.asking.extract import extract
from oodometer.lab.data.datasets import load_part
from oodometer.lab.data.portions import portion_rows
from oodometer.lab.data.samples import Images
from oodometer.lab.generators import Drawing, GeneratorCard, find_generator
from oodometer.lab.generators.quality import Quality, measure_quality
from oodometer.lab.generators.variation import generator_variation
from oodometer.lab.search.chains import draw
from oodometer.lab.search.variations import Variation
from oodometer.lab.training.train import train
from oodometer.study import TrainSpec

_ROWS = 500  # images that are made at a time


@dataclass(frozen=True, eq=False)
class FittedGenerator:
    """A generator that was trained on images.

    It can be given to `search` and `attack` as a variation.
    """

    card: GeneratorCard
    spec: TrainSpec
    shape: tuple[int, ...]  # of an image: channels, height, width
    network: nn.Module  # the part that makes images, in eval mode
    curve: Mapping[str, tuple[float, ...]]
    seconds: float  # of training
    drawing: Drawing = field(default_factory=Drawing)

    @property
    def name(self) -> str:
        """The name of the generator."""
        return self.card.name

    @property
    def dimensions(self) -> int:
        """How many coordinates a point has; points lie on the unit sphere."""
        return self.card.dimensions(self.network)

    @cached_property
    def variation(self) -> Variation:
        """The images of all its points, for a search."""
        return generator_variation(self.card, self.network, self.drawing, self.shape)

    def images(self, points: Tensor | NDArray[np.floating]) -> Tensor:
        """The images of points (n, dimensions): (n, channels, height, width), from 0 to 1.

        The same point has the same image, unless noise is random.
        """
        given = torch.as_tensor(points, dtype=torch.float32)
        if given.dim() != 2 or given.shape[1] != self.dimensions:
            raise UserError(
                f"Points of generator '{self.name}' must have shape (n, {self.dimensions}), got "
                f"{tuple(given.shape)}."
            )
        nothing = torch.zeros(len(given), 0)  # it varies no images, but makes them
        parts = zip(torch.split(nothing, _ROWS), torch.split(given, _ROWS), strict=True)
        return torch.cat([self.variation.images(*part) for part in parts])

    def samples(self, count: int = 16, seed: int = 0) -> NDArray[np.float32]:
        """Images of random points, (count, channels, height, width)."""
        points = draw(self.variation, count, torch.Generator().manual_seed(seed))
        with torch.no_grad():
            made: NDArray[np.float32] = self.images(points).numpy(force=True)
        return made

    def with_settings(
        self, *, truncation: float = 1.0, cutoff: int | None = None, random_noise: bool = False
    ) -> FittedGenerator:
        """The same generator with truncated styles, or with noise that is drawn anew.

        A `truncation` below 1 draws the first `cutoff` styles (None: all) to their mean, for better
        images of less variety.
        """
        return replace(self, drawing=Drawing(truncation, cutoff, random_noise))

    def quality(
        self,
        images: Pictures,
        train_images: Pictures,
        labels: object = None,
        *,
        features: Callable[[Tensor], Tensor] | None = None,
        count: int = 1000,
        seed: int = 0,
    ) -> Quality:
        """Compare `count` generated images with twice as many real ones that were not trained on.

        `train_images` are those that it was trained on. Distances are measured on `features`, a
        function from images to rows; by default those of a small classifier, trained on
        `train_images` and their `labels`. Of a named data set, the test part is held out.
        """
        held_out = load_part(images, "test") if isinstance(images, str) else as_images(images)
        known = as_images(train_images)
        assert isinstance(held_out, Images), "of images, the other part is images, too"
        for given in (held_out, known):
            if given.shape != self.shape:
                raise UserError(
                    f"Generator '{self.name}' makes images of shape {self.shape}, but "
                    f"'{given.name}' has shape {given.shape}."
                )
        count = min(count, len(held_out) // 2)
        random = np.random.default_rng(seed)
        rows = random.permutation(len(held_out))[: 2 * count]
        trained = known.take(portion_rows(self.spec, known.labels)[0])
        return measure_quality(
            torch.from_numpy(self.samples(count, seed)),
            _tensor(held_out.take(rows)),
            _tensor(trained),
            features or _classifier_features(as_images(train_images, labels), seed),
        )

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Write weights and settings to one file, which `load_generator` reads."""
        arrays = {
            name: value.numpy(force=True) for name, value in self.network.state_dict().items()
        }
        said = {
            "generator": self.name,
            "shape": self.shape,
            "spec": self.spec.model_dump(mode="json"),
            "curve": {name: list(values) for name, values in self.curve.items()},
            "seconds": round(self.seconds, 3),
            "drawing": asdict(self.drawing),
        }
        return write_file(Path(file), arrays, said)


def fit_generator(
    generator: str,
    images: Pictures,
    *,
    size: str = "small",
    seed: int = 0,
    device: str = "cpu",
    notify: Notify = lambda _: None,
) -> FittedGenerator:
    """Train a generator ("stylegan2") on images, to search among what it makes of points.

    `images` is an array or tensor (n, channels, height, width), bytes or floats from 0 to 1, or the
    name of a data set, of which the training part is used. `size` is "tiny", "small" or "paper".
    `notify` is told how far training is and how long it will take.
    """
    card, given = find_generator(generator), as_images(images)
    shape = (len(given), *given.shape)
    spec = card.recipe(training_spec(size, seed), shape)
    progress = Progress(card.name, spec.epochs, 0, notify)
    trained = train_network(card.task, spec, given, progress, device=device)
    part = trained.network.get_submodule(card.part).eval()
    return FittedGenerator(card, spec, given.shape, part, trained.curve, trained.seconds)


def load_generator(file: str | os.PathLike[str]) -> FittedGenerator:
    """Read a generator that `FittedGenerator.save` wrote."""
    path = Path(file)
    arrays, said = read_file(path, "generator")
    card = find_generator(str(said["generator"]))
    try:
        shape = tuple(map(int, said["shape"]))
        if not 0 < math.prod(shape) <= MOST_NUMBERS:
            raise ValueError(f"shape {shape}")
        spec = TrainSpec.model_validate(said["spec"])
        part = card.task.fresh_network(spec, shape, 1).get_submodule(card.part)
        part.load_state_dict({name: torch.from_numpy(value) for name, value in arrays.items()})
        curve = {str(n): tuple(map(float, values)) for n, values in said["curve"].items()}
        made = FittedGenerator(card, spec, shape, part.eval(), curve, float(said["seconds"]))
        return made.with_settings(**said["drawing"])
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, ValidationError) as why:
        raise does_not_fit(path, "generator", said, why) from why


def load_variation(file: str | os.PathLike[str]) -> Variation:
    """The images that a saved generator makes, or that the decoder of a saved detector does."""
    path = Path(file)
    _, said = read_file(path, "generator", "detector")
    is_generator = "generator" in said
    made = load_generator(path).variation if is_generator else load_detector(path).decoder()
    return replace(made, name=f"{made.name} {path.stem}")


def _tensor(images: Images) -> Tensor:
    return torch.from_numpy(images.floats(np.arange(len(images))))


def _classifier_features(images: Images, seed: int) -> Callable[[Tensor], Tensor]:
    """Features of a small classifier that is trained on these images and their labels."""
    if (images.labels < 0).any():
        raise UserError(
            "Quality is measured on features of a classifier, which needs a label for every "
            "training image: give labels, or features, a function from images to rows."
        )
    classes = int(images.labels.max()) + 1
    size = min(len(images), 10_000)
    spec = TrainSpec(data="images", epochs=3, train_size=size, seed=seed)
    model = train(spec, images, classes).model

    def features(part: Tensor) -> Tensor:
        found = extract(model, {"images": part}, batch_size=256)["images"].features
        assert found is not None, "small_cnn has features"
        return found

    return features
