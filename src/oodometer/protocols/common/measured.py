"""What a results table offers to protocols: one or more metrics of the same cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oodometer.results import Results

# Metrics that ask the same question: are ID and outliers separated?
SEPARATING = ("auroc", "fpr95", "aupr_in", "aupr_out", "AUPR", "tnr95", "detection_error",
              "detection_accuracy")  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """The metric by which detectors are ranked, and all that there are."""

    main: Results
    by_metric: Mapping[str, Results]
    ours: str = ""  # the detector whose comparisons are declared in advance

    @property
    def separating(self) -> list[Results]:
        """Metrics of how well ID and outliers are separated."""
        return [results for name, results in self.by_metric.items() if name in SEPARATING]

    @property
    def states_runs(self) -> bool:
        """Whether cells state a spread, and over how many runs."""
        return "runs" in self.main.frame.columns
