"""Statistics over several trainings: comparisons and ranks."""

from oodometer.stats.averaging import average_over_sets
from oodometer.stats.comparison import (
    Difference,
    Placements,
    auroc_difference,
    holm,
    mean_auroc,
)
from oodometer.stats.ranks import rank_matrix

__all__ = [
    "Difference",
    "Placements",
    "auroc_difference",
    "average_over_sets",
    "holm",
    "mean_auroc",
    "rank_matrix",
]
