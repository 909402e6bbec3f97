"""What the columns of a table can be, and what the user says they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oodometer.errors import UserError, unknown
from oodometer.tables.names import HIGHER_IS_BETTER

if TYPE_CHECKING:
    import pandas as pd

SINGLE = ("detector", "id", "ood", "metric", "runs")  # roles that one column has
SECTION = "section"  # title of a column for headings between the lines
MANY = ("factor", "covariate", "ignore")  # roles that several may have
MEAN_OF_OTHERS = "a mean of other columns"  # why a column is not used
OTHER_STATISTIC = "another statistic"
_PARTS = re.compile(r",(?=\s*\w+\s*=)|,\s*$")  # titles may hold commas


@dataclass
class Roles:
    """Which column is what; several with results hold one set, detector or condition each."""

    detector: str | None = None
    id: str | None = None
    ood: str | None = None
    metric: str | None = None  # a column that names the metric of each line
    runs: str | None = None  # a column that says over how many runs each mean is
    measured: dict[str, tuple[str, str]] = field(default_factory=dict)  # column -> metric, of what
    spreads: dict[str, str] = field(default_factory=dict)  # measured column -> that of its spread
    factors: list[str] = field(default_factory=list)
    covariates: list[str] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)  # column -> why

    def listing(self) -> list[tuple[str, str]]:
        """Every column with its role, as shown to the user."""
        named = [(getattr(self, role), role) for role in SINGLE if getattr(self, role)]
        values = [
            (column, f"{metric}{f' of {what}' if what else ''}")
            for column, (metric, what) in self.measured.items()
        ]
        values += [(spread, f"spread of {column}") for column, spread in self.spreads.items()]
        factors = [(column, "factor") for column in self.factors]
        covariates = [(column, "about the run") for column in self.covariates]
        return [
            *named, *values, *factors, *covariates,
            *((column, f"not used: {why}") for column, why in self.ignored.items()),
        ]  # fmt: skip


def parse_columns(text: str, frame: pd.DataFrame, titles: Mapping[str, str]) -> dict[str, str]:
    """Read ``detector=Method, auroc=AUC, factor=Batch`` into column -> role.

    `titles` says which were changed on reading: a user may say what stands in the file.
    """
    allowed = [*SINGLE, *MANY, *HIGHER_IS_BETTER]
    chosen: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in _PARTS.split(text))):
        role, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UserError(f"--columns takes role=column, such as detector=Method; got '{part}'.")
        if role not in allowed:
            raise unknown("role of a column", role, allowed)
        column = titles.get(column, column)
        if column not in frame.columns:
            raise unknown("column", column, frame.columns)
        if role in SINGLE and role in chosen.values():
            raise UserError(f"--columns names two columns as {role}.")
        chosen[column] = role
    return chosen


def with_joined(text: str, frame: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """Join the columns that ``detector=Training+Method`` names into one of that title."""
    for part in _PARTS.split(text):
        name = part.partition("=")[2].strip()
        if "+" not in name or titles.get(name, name) in frame.columns:
            continue
        parts = [titles.get(title.strip(), title.strip()) for title in name.split("+")]
        for title in parts:
            if title not in frame.columns:
                raise unknown("column", title, frame.columns)
        lines = frame[parts].to_numpy().tolist()
        joined = [" + ".join(dict.fromkeys(filter(None, line))) for line in lines]
        frame = frame.drop(columns=parts).assign(**{name: joined})
    return frame
