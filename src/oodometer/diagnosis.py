"""Diagnose outlier sets: measure them, and conclude whether they are fair."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from oodometer.finding import Finding
from oodometer.lab.data.diagnostics import NEAR, compare_images, compare_sets
from oodometer.protocols.fairness.protocol import fairness


def diagnose(
    id_images: ArrayLike,
    ood_images: ArrayLike,
    *,
    id_name: str = "ID",
    ood_name: str = "OOD",
    id_classes: Sequence[str] = (),
    ood_classes: Sequence[str] = (),
    near: float = NEAR,
    seed: int = 0,
) -> Finding:
    """Report whether two image sets share images or classes, or differ in simple statistics.

    Images are (n, channels, height, width), floats in [0, 1] or bytes, and of one shape. `near` is
    the correlation from which two images are near copies, `seed` that of the cross-validation.
    """
    return fairness(
        compare_images(
            id_images,
            ood_images,
            id_name=id_name,
            ood_name=ood_name,
            id_classes=id_classes,
            ood_classes=ood_classes,
            near=near,
            seed=seed,
        )
    )


def diagnose_sets(
    data: str, outliers: Sequence[str], max_images: int | None = None
) -> list[Finding]:
    """Diagnose outlier sets for a data set, each by the name a study gives it."""
    return [fairness(overlap) for overlap in compare_sets(data, outliers, max_images)]
