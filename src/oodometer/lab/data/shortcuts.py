"""Simple statistics of images, and how well they alone tell two sets apart."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from oodometer.lab.data.duplicates import Pixels, grey

Statistic = NDArray[np.float64]

_GRID = 8  # JPEG compresses blocks of 8 x 8 pixels
_FOLDS = 5

MEANINGS: Mapping[str, str] = {
    "brightness": "mean grey value",
    "contrast": "standard deviation of grey values",
    "sharpness": "mean absolute Laplacian",
    "saturation": "mean of 1 - darkest / brightest channel",
    "warmth": "mean red minus mean blue",
    "greenness": "mean green minus the mean of red and blue",
    "clipping": "share of pixels that are black or white",
    "frame": "mean of the outermost pixels minus that of the others",
    "blockiness": "steps across the borders of JPEG's 8 x 8 blocks against steps inside",
}


def statistics(pixels: Pixels) -> dict[str, Statistic]:
    """Return one number per image for each statistic that images of this shape have.

    `MEANINGS` says what they are; with an intercept, a linear model of all has ten parameters. Grey
    images have no colour, and images of up to 8 pixels no block borders.
    """
    images = grey(pixels)
    found = {
        "brightness": images.mean(axis=(1, 2)),
        "contrast": images.std(axis=(1, 2)),
    }
    height, width = images.shape[1:]
    if min(height, width) >= 3:
        middle = images[:, 1:-1, 1:-1]
        around = images[:, :-2, 1:-1] + images[:, 2:, 1:-1]
        around = around + images[:, 1:-1, :-2] + images[:, 1:-1, 2:]
        found["sharpness"] = np.abs(4 * middle - around).mean(axis=(1, 2))
        inside = middle.sum(axis=(1, 2)) / middle[0].size
        outside = (images.sum(axis=(1, 2)) - middle.sum(axis=(1, 2))) / (
            height * width - middle[0].size
        )
        found["frame"] = outside - inside
    if pixels.shape[1] == 3:
        brightest, darkest = pixels.max(axis=1), pixels.min(axis=1)
        found["saturation"] = ((brightest - darkest) / np.maximum(brightest, 1 / 255)).mean((1, 2))
        red, green, blue = (pixels[:, channel].mean(axis=(1, 2)) for channel in range(3))
        found["warmth"] = red - blue
        found["greenness"] = green - (red + blue) / 2
    half = 0.5 / 255
    found["clipping"] = ((images < half) | (images > 1 - half)).mean(axis=(1, 2))
    if max(height, width) > _GRID:
        found["blockiness"] = blockiness(images)
    return {name: found[name].astype(np.float64) for name in MEANINGS if name in found}


def blockiness(images: Pixels) -> Statistic:
    """(across - inside) / (across + inside) of mean absolute steps between neighbouring pixels.

    Across: from the last pixel of a block of 8 to the first of the next, in rows and columns;
    inside: all other steps. 0 without a trace of blocks, and in an image without any step.
    """
    across = np.zeros(len(images))
    inside = np.zeros(len(images))
    for axis in (1, 2):
        length = images.shape[axis]
        if length <= _GRID:
            continue
        steps = np.abs(np.diff(images, axis=axis)).mean(axis=3 - axis)
        border = np.arange(1, length) % _GRID == 0
        across += steps[:, border].mean(axis=1)
        inside += steps[:, ~border].mean(axis=1)
    total = across + inside
    return np.divide(across - inside, total, out=np.zeros_like(total), where=total > 1e-6)


def probe(
    id_statistics: Mapping[str, Statistic], ood_statistics: Mapping[str, Statistic], seed: int
) -> tuple[Statistic, Statistic]:
    """Return scores of ID and OOD images by a logistic model that never saw them in training.

    Five folds; in each the statistics are scaled by the training part. Higher = more OOD.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    columns = [
        np.concatenate([id_statistics[name], ood_statistics[name]]) for name in id_statistics
    ]
    table = np.stack(columns, axis=1)
    count = len(columns[0]) - len(next(iter(ood_statistics.values())))
    is_ood = np.arange(len(table)) >= count
    scores = np.empty(len(table))
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    for train, test in folds.split(table, is_ood):
        model = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
        model.fit(table[train], is_ood[train])
        scores[test] = model.decision_function(table[test])
    return scores[:count], scores[count:]
