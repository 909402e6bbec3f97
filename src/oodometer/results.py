"""What a results table holds: one number per detector, outlier set and run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

from oodometer import metrics
from oodometer.errors import UserError, unknown
from oodometer.factors import Factor, Kind, declared, names
from oodometer.scores import Missing, ScoreTable

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
NOT_GIVEN = "not given"  # the level of a run for which a table states none
COLUMNS = ("detector", "ood", "value")  # what every results table has


def label_of(metric: str) -> str:
    """How readers call a metric.

    >>> label_of("auroc"), label_of("regret")
    ('AUROC', 'regret')
    """
    known = metrics.BY_NAME.get(metric)
    return metric.replace("auroc", "AUROC") if known is None else known.label


@dataclass(frozen=True, eq=False)
class Results:
    """Values of one metric: a line per detector, data set, outlier set and run.

    The frame has the columns detector, ood and value, one column per factor, and where they are
    known `id` (the data set that the classifier or detector is trained on and tested with),
    `spread` (the standard deviation that a cell such as 91.2±0.3 states) and `runs` (over how many
    runs). Where a data set has no outlier sets of its own, as in benchmarks of classification, ood
    is empty. Values are finite; gaps are not rows.
    """

    frame: pd.DataFrame
    # The columns that tell runs apart, such as seed or optimizer; a bare name is taken `by_title`.
    factors: tuple[Factor, ...] = ()
    metric: str = "auroc"
    higher_is_better: bool = True
    missing: tuple[Missing, ...] = ()
    is_share: bool = True  # values lie between 0 and 1; else they are in a unit of their own
    mean_of: int = 0  # runs behind each value, where a text says so but no spread is stated
    _made: dict[object, object] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        factors = [f.name if isinstance(f, Factor) else f for f in self.factors]
        for name in (*COLUMNS, *factors):
            if name not in self.frame.columns:
                raise unknown("column of a results table", name, map(str, self.frame.columns))
        object.__setattr__(self, "factors", declared(self.factors, self._levels))
        values = self.frame["value"].to_numpy(dtype=float)
        bad = values != values  # NaN; infinite values are refused with it
        if not len(values) or bad.any() or abs(values).max() == float("inf"):
            raise UserError("A results table needs at least one line, and finite values only.")
        cell = [*self.keys, *self.factor_names]
        double = self.frame.duplicated(cell)
        if double.any():
            line = self.frame.loc[double, cell].iloc[0]
            named = ", ".join(f"{name} {value}" for name, value in line.items())
            raise UserError(
                f"{int(double.sum())} lines of a results table repeat a cell, the first {named}: "
                "a column that tells runs apart is needed, such as seed."
            )

    @property
    def are_means(self) -> bool:
        """Whether values are stated as means over runs."""
        return self.mean_of > 1 or "spread" in self.frame.columns

    def once(self, make: Callable[[Results], T]) -> T:
        """What a function makes of this table, made only once: protocols ask for the same."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast("T", self._made[make])

    @property
    def label(self) -> str:
        """How readers call the metric."""
        return label_of(self.metric)

    @property
    def factor_names(self) -> tuple[str, ...]:
        """The columns that tell runs apart."""
        return names(self.factors)

    def _levels(self, name: str) -> list[object]:
        levels: list[object] = self.frame[name].dropna().unique().tolist()
        return levels

    def kind(self, name: str) -> Kind:
        """Of what kind a factor is."""
        for factor in self.factors:
            if factor.name == name:
                return factor.kind
        raise unknown("factor of a results table", name, self.factor_names)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The columns that tell what was measured: detector, outlier set, and ID set if known."""
        return tuple(name for name in ("detector", "id", "ood") if name in self.frame.columns)

    @cached_property
    def detectors(self) -> tuple[str, ...]:
        """Detectors, in the order of their first line."""
        return tuple(self.frame["detector"].unique().tolist())

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Data sets that something was trained on, in the order of their first line."""
        return tuple(self.frame["id"].unique().tolist()) if "id" in self.frame.columns else ("",)

    @cached_property
    def ood(self) -> tuple[str, ...]:
        """Outlier sets, in the order of their first line."""
        return tuple(self.frame["ood"].unique().tolist())


def results(table: ScoreTable, metric: str = "auroc") -> Results:
    """Reduce scores to one number per cell, at the setting that represents each detector."""
    import pandas as pd

    if metric not in metrics.BY_NAME:
        raise unknown("metric", metric, metrics.BY_NAME)
    measure = metrics.BY_NAME[metric]
    lines = [
        {
            "detector": row.detector,
            "id": table.id,
            "ood": row.dataset,
            **table.runs[row.run],
            "value": measure.function(reference.scores, row.scores),
        }
        for reference, row in table.pairs()
    ]
    return Results(
        pd.DataFrame(lines),
        table.factors,
        metric,
        measure.higher_is_better,
        tuple(part for part in table.missing if not part.setting),
    )
