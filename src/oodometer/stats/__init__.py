"""Statistics over several training runs: intervals, tests, ranks, orders and shares of variance."""

from oodometer.stats import (
    agreement,
    intervals,
    leaderboard,
    order,
    paired,
    power,
    ranks,
    tuning,
    variance,
)
from oodometer.stats.averaging import average_over_sets
from oodometer.stats.comparison import (
    Difference,
    Placements,
    against_best,
    auroc_difference,
    holm,
    mean_auroc,
)
from oodometer.stats.ranks import rank_matrix

__all__ = [
    "Difference",
    "Placements",
    "against_best",
    "agreement",
    "auroc_difference",
    "average_over_sets",
    "holm",
    "intervals",
    "leaderboard",
    "mean_auroc",
    "order",
    "paired",
    "power",
    "rank_matrix",
    "ranks",
    "tuning",
    "variance",
]
