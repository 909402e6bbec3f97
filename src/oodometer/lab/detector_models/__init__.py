"""Networks that are trained for detection, one file each."""

from oodometer.lab.detector_models import (  # noqa: F401 - importing registers them
    autoencoder,
    binary,
    glow,
    normalized_autoencoder,
    own,
    pixelcnn,
    vae,
    with_outliers,
)
from oodometer.lab.detector_models.answers import answers_of, draw_samples
from oodometer.lab.detector_models.cards import (
    MODELS,
    ONE_PER_CLASS,
    DetectorModel,
    detector_model,
    find_model,
    portion,
)
from oodometer.lab.detector_models.representations import csi, ensemble, sngp, ssd  # noqa: F401
from oodometer.lab.generators import stylegan2  # noqa: F401

__all__ = [
    "MODELS",
    "ONE_PER_CLASS",
    "DetectorModel",
    "answers_of",
    "detector_model",
    "draw_samples",
    "find_model",
    "portion",
]
