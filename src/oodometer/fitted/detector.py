"""A detector with its trained networks: scores images, draws samples, can be saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oodometer.errors import UserError
from oodometer.fitted.images import as_images
from oodometer.fitted.models import FittedModel, training_outputs
from oodometer.lab.data.samples import Images
from oodometer.lab.detector_models import draw_samples
from oodometer.lab.search.variations import Variation, generated
from oodometer.needs import Need
from oodometer.outputs import Outputs
from oodometer.registry import Choice, ScoreOutputs


@dataclass(frozen=True, eq=False)
class FittedDetector:
    """A detector that was trained on images."""

    choice: Choice
    shape: tuple[int, ...]  # of an image: channels, height, width
    classes: int
    models: Mapping[Need, FittedModel]
    trained_on: Mapping[
        Need, Tensor
    ]  # answers about the training images, if the detector reads them

    @property
    def name(self) -> str:
        """The name of the detector, with the settings that are not the default."""
        return self.choice.label

    @property
    def curve(self) -> dict[str, tuple[float, ...]]:
        """What was measured after each epoch of training; of an ensemble, its first member."""
        return dict(next(iter(self.models.values())).curve)

    @property
    def seconds(self) -> float:
        """How long training took."""
        return sum(model.seconds for model in self.models.values())

    @cached_property
    def score_outputs(self) -> ScoreOutputs:
        """The function from answers of its networks to scores."""
        with torch.no_grad():
            train = training_outputs(self.trained_on)
            return self.choice.detector.fit(train, validation=None, **self.choice.settings)

    def score(self, images: object) -> NDArray[np.float64]:
        """One score per image; higher means more out-of-distribution."""
        given = as_images(images)
        self.require_shape(given)
        outputs = Outputs(answers={need: m.answers(given) for need, m in self.models.items()})
        with torch.no_grad():
            scores: NDArray[np.float64] = self.score_outputs(outputs).cpu().double().numpy()
        return scores

    def require_shape(self, images: Images) -> None:
        """Refuse images of another shape than those that it was trained on."""
        if images.shape != self.shape:
            raise UserError(
                f"Detector '{self.name}' was trained on images of shape {self.shape}, got "
                f"{images.shape}."
            )

    def samples(self, count: int = 16, seed: int = 0) -> NDArray[np.float32]:
        """Images that the model draws, (count, channels, height, width), if it is generative."""
        for model in self.models.values():
            if model.card.samples is not None:
                drawn: NDArray[np.float32] = draw_samples(
                    model.card, model.network, count, seed
                ).numpy()
                return drawn
        raise UserError(f"Detector '{self.name}' has no generative model, so it draws no samples.")

    def decoder(self) -> Variation:
        """The images that its network decodes from codes, for `search`, if it has a decoder."""
        for need, model in self.models.items():
            if model.card.codes is not None:
                codes = model.card.codes(model.network, self.trained_on.get(need))
                made = generated(
                    codes.decode,
                    codes.dimensions,
                    space=codes.space,
                    name=f"decoder of {self.name}",
                )
                return replace(made, note=codes.note, shape=self.shape)
        raise UserError(f"Detector '{self.name}' has no decoder, so it makes no images of codes.")

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Write weights and settings to one file, which `load_detector` reads."""
        from oodometer.fitted.files import save_detector

        return save_detector(self, file)
