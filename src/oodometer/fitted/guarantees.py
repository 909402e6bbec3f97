"""Guarantees of fitted detectors: what no small change of an outlier can undo."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from oodometer.errors import UserError
from oodometer.fitted.detector import FittedDetector
from oodometer.fitted.images import as_images
from oodometer.lab.detector_models.with_outliers.certificates import (
    BOUNDED,
    Certificate,
    certificate,
)
from oodometer.needs import Need
from oodometer.outputs import Outputs


def certify(
    fitted: FittedDetector,
    id: object,
    ood: object,
    *,
    radius: float = 0.01,
    steps: int = 40,
    seed: int = 0,
) -> Certificate:
    """Guarantee an AUROC for outliers of which every pixel may change by `radius`, within [0, 1].

    Interval bounds limit the confidence of the classifiers that learn from outliers (good, ceda,
    acet, outlier_exposure in the sizes tiny and small); the AUROC of these bounds is guaranteed,
    whatever the attack. Beside it are the AUROC of the images as they are, and under `steps` steps
    of an attack by gradients: ``guaranteed <= attacked <= auroc``.
    """
    models = list(fitted.models.values())
    if len(models) != 1 or models[0].card.name not in BOUNDED:
        raise UserError(
            f"Detector '{fitted.name}' has no known bounds: certify good, ceda, acet or "
            "outlier_exposure, or attack it with om.search."
        )
    if not 0 < radius <= 1:
        raise UserError(f"radius must be above 0 and at most 1, got {radius:g}.")
    card, network = models[0].card, models[0].network
    need = Need("model", card.name)

    def score(points: Tensor) -> Tensor:
        return fitted.score_outputs(Outputs(answers={need: card.answer(network, points)}))

    known, outliers = (_tensor(fitted, images) for images in (id, ood))
    return certificate(score, known, outliers, radius, bounded=network, steps=steps, seed=seed)


def _tensor(fitted: FittedDetector, images: object) -> Tensor:
    given = as_images(images)
    fitted.require_shape(given)
    return torch.from_numpy(given.floats(np.arange(len(given))))
