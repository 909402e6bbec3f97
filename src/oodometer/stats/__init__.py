"""Statistics over several trainings: comparisons and ranks."""

from oodometer.stats.comparison import (
    Difference,
    Placements,
    auroc_difference,
    holm,
    mean_auroc,
)
from oodometer.stats.ranks import first_places, rank_matrix, win_matrix

__all__ = [
    "Difference",
    "Placements",
    "auroc_difference",
    "first_places",
    "holm",
    "mean_auroc",
    "rank_matrix",
    "win_matrix",
]
