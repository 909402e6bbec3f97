"""The energy that a search lowers: the standardized score of a detector, for latent points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oodometer.errors import NotFiniteError, UserError, describe
from oodometer.lab.search.variations import Variation

Score = Callable[[Tensor], object]  # images (n, channels, height, width) -> n scores

_FLAT = 1e-3  # added to the standard deviation, as published


@dataclass(frozen=True)
class Standard:
    """The mean and the standard deviation of the scores of known data.

    The energy of a score s is ``(s - mean) / (deviation + 0.001)``.
    """

    mean: float = 0.0
    deviation: float = 1.0 - _FLAT

    @classmethod
    def of(cls, scores: NDArray[np.floating] | Tensor) -> Standard:
        """Take them from scores, best of validation data: test data would leak."""
        values = np.asarray(scores, dtype=np.float64).ravel()
        if len(values) < 2 or not np.isfinite(values).all():
            raise UserError(
                f"Scores of known data must be at least 2 finite numbers, got {len(values)}, "
                f"{int((~np.isfinite(values)).sum())} of them not finite."
            )
        return cls(float(values.mean()), float(values.std(ddof=1)))

    def energy(self, scores: Tensor) -> Tensor:
        """Standardize scores."""
        return (scores - self.mean) / (self.deviation + _FLAT)

    def score(self, energies: Tensor) -> Tensor:
        """Undo it."""
        return energies * (self.deviation + _FLAT) + self.mean


@dataclass(eq=False)
class Energy:
    """Asks the detector, and counts: how often, and how many scores were no numbers.

    Scores are asked for in batches of images, never image by image. A score that is not finite is
    no outlier that fools the detector: its energy is infinite, so that no search stays there.
    """

    score: Score
    variation: Variation
    given: Tensor  # the images to vary, one per chain
    standard: Standard = field(default_factory=Standard)
    batch_size: int = 1000
    asked: int = 0  # images scored
    not_finite: int = 0

    def of(self, latent: Tensor) -> Tensor:
        """Energies (n,) of latent points (n, dimensions), in float64 and without gradients.

        Points are of the given images in turn, so that several may belong to each image.
        """
        with torch.no_grad():
            parts = [
                self._scored(self.variation.images(given, part)) for given, part in self._of(latent)
            ]
        return self.standard.energy(torch.cat(parts))

    def of_images(self, images: Tensor) -> Tensor:
        """Energies (n,) of images."""
        with torch.no_grad():
            parts = [self._scored(part) for part in torch.split(images, self.batch_size)]
        return self.standard.energy(torch.cat(parts))

    def slope(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Energies (n,) and their gradients (n, dimensions)."""
        energies, gradients = [], []
        for given, part in self._of(latent):
            place = part.detach().requires_grad_()
            images = self.variation.images(given, place)
            scores = self._answered(images)
            if not scores.isfinite().any():  # refused, all of them: there is no way from here
                energies.append(self._counted(scores.detach()))
                gradients.append(torch.zeros_like(part))
                continue
            if not scores.requires_grad:
                raise UserError(
                    "The scores have no gradient with respect to the images: use a method without "
                    "gradients, such as metropolis, or a detector that is differentiable."
                )
            energy = self.standard.energy(scores)
            (gradient,) = torch.autograd.grad(energy.sum(), place)
            energies.append(self._counted(energy.detach()))
            gradients.append(gradient.nan_to_num(0.0, 0.0, 0.0))
        return torch.cat(energies), torch.cat(gradients)

    def _of(self, latent: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of latent points, each with the images that they vary, if possible uncopied."""
        count = len(self.given)
        for start in range(0, len(latent), self.batch_size):
            part, first = latent[start : start + self.batch_size], start % count
            if first + len(part) <= count:
                yield self.given[first : first + len(part)], part
            else:
                yield self.given[torch.arange(first, first + len(part)) % count], part

    def _scored(self, images: Tensor) -> Tensor:
        return self._counted(self._answered(images).detach())

    def _answered(self, images: Tensor) -> Tensor:
        self.asked += len(images)
        try:
            answer = self.score(images)
        except NotFiniteError as problem:
            return self._apart_from(images, problem.rows)
        except UserError:
            raise
        except (Exception, SystemExit) as problem:
            raise UserError(f"The detector failed: {describe(problem)}") from problem
        scores = answer if isinstance(answer, Tensor) else torch.as_tensor(np.asarray(answer))
        if scores.shape not in ((len(images),), (len(images), 1)):
            raise UserError(
                f"The detector must return one score per image, {len(images)} numbers, got shape "
                f"{tuple(scores.shape)}."
            )
        if scores.is_complex() or scores.dtype == torch.bool:
            raise UserError(f"The detector must return real numbers, got {scores.dtype}.")
        return scores.reshape(-1).to(torch.float64)

    def _apart_from(self, images: Tensor, rows: Sequence[int]) -> Tensor:
        """Scores of a batch of which some are refused, because they are not finite: the others."""
        refused = torch.zeros(len(images), dtype=torch.bool)
        refused[list(rows)] = True
        scores = torch.full((len(images),), torch.nan, dtype=torch.float64)
        if refused.all() or not refused.any():
            return scores
        (rest,) = torch.where(~refused)
        return scores.index_put((rest,), self._answered(images[rest]))

    def _counted(self, values: Tensor) -> Tensor:
        bad = ~values.isfinite()
        if bad.any():
            self.not_finite += int(bad.sum())
            values = torch.where(bad, torch.inf, values)
        return values
