"""What each column of somebody's table is: guessed from titles and content, or told by the user."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oodometer.errors import UserError, unknown
from oodometer.tables.cells import is_gap, numeric_share, read_cell
from oodometer.tables.names import (
    AVERAGES,
    COVARIATE_TITLES,
    DETECTOR_TITLES,
    HIGHER_IS_BETTER,
    ID_TITLES,
    OOD_TITLES,
    REPLICATE_TITLES,
    is_detector,
    metric_named,
    plain,
    without_metric,
)

if TYPE_CHECKING:
    import pandas as pd

SINGLE = ("detector", "id", "ood", "metric")  # roles that one column has
MANY = ("factor", "covariate", "ignore")  # roles that several may have
_SETTINGS = re.compile(
    r"^(lr|learningrate|weightdecay|wd|epochs?|batchsize|bs|width|depth|temperature|k|eps(ilon)?|"
    r"trainsize|layers?|momentum|dropout|noise|noiserate|step|iteration|index)$"
)


@dataclass
class Roles:
    """Which column is what; `wide` columns hold one outlier set, detector or condition each."""

    detector: str | None = None
    id: str | None = None
    ood: str | None = None
    metric: str | None = None  # a column that names the metric of each line
    measured: dict[str, tuple[str, str]] = field(default_factory=dict)  # column -> metric, of what
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
        factors = [(column, "factor") for column in self.factors]
        covariates = [(column, "about the run") for column in self.covariates]
        return [
            *named, *values, *factors, *covariates,
            *((column, f"not used: {why}") for column, why in self.ignored.items()),
        ]  # fmt: skip


def parse_columns(text: str, frame: pd.DataFrame) -> dict[str, str]:
    """Read ``detector=Method, auroc=AUC, factor=Batch`` into column -> role."""
    allowed = [*SINGLE, *MANY, *HIGHER_IS_BETTER]
    told: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        role, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UserError(f"--columns takes role=column, such as detector=Method; got '{part}'.")
        if role not in allowed:
            raise unknown("role of a column", role, allowed)
        if column not in frame.columns:
            raise unknown("column", column, frame.columns)
        if role in SINGLE and role in told.values():
            raise UserError(f"--columns names two columns as {role}.")
        told[column] = role
    return told


def guess(frame: pd.DataFrame, told: Mapping[str, str], default_metric: str) -> Roles:
    """Say what every column is; what the user told stands."""
    roles = Roles()
    for column, role in told.items():
        if role in SINGLE:
            setattr(roles, role, column)
        elif role in HIGHER_IS_BETTER:
            roles.measured[column] = (role, "")
        elif role == "ignore":
            roles.ignored[column] = "you said so"
        else:
            (roles.factors if role == "factor" else roles.covariates).append(column)
    rest = [column for column in frame.columns if column not in told]
    rest = _set_aside(frame, rest, roles)
    rest = _by_title(frame, rest, roles)
    numeric = [column for column in rest if numeric_share(frame[column]) > 0.5]
    rest = [column for column in rest if column not in numeric]
    if not roles.measured:
        measured = [column for column in numeric if _measures(frame, column)]
        for column in measured:
            if plain(column) in AVERAGES:
                roles.ignored[column] = "a mean of other columns"
            else:
                what = "" if len(measured) == 1 or plain(column) == "value" else column
                roles.measured[column] = (default_metric, what)
        numeric = [column for column in numeric if column not in measured]
    _by_content(frame, rest, roles)
    taken = {column for column, _ in roles.listing()}
    for column in (*numeric, *rest):
        if column not in taken:
            roles.factors.append(column)
    return roles


def _set_aside(frame: pd.DataFrame, columns: list[str], roles: Roles) -> list[str]:
    """Leave out columns that can tell nothing: empty or running numbers."""
    kept = []
    for column in columns:
        texts = frame[column]
        if all(is_gap(text) for text in texts):
            roles.ignored[column] = "empty"
        elif plain(column) in ("index", "unnamed0", "column1") and _counts(texts.tolist()):
            roles.ignored[column] = "line numbers"
        else:
            kept.append(column)
    return kept


def _counts(texts: list[str]) -> bool:
    return texts in ([str(n) for n in range(len(texts))], [str(n + 1) for n in range(len(texts))])


def _by_title(frame: pd.DataFrame, columns: list[str], roles: Roles) -> list[str]:
    rest = []
    titles = [plain(column) for column in columns]
    for column in columns:
        title, metric = plain(column), metric_named(column)
        numeric = numeric_share(frame[column]) > 0.5
        if numeric and metric == "":
            roles.ignored[column] = "another kind of metric"
        elif numeric and metric is not None:
            what = without_metric(column)
            if plain(what) in AVERAGES:
                roles.ignored[column] = "a mean of other columns"
            elif column not in roles.measured:
                roles.measured[column] = (metric, what)
        elif title in COVARIATE_TITLES and numeric:
            roles.covariates.append(column)
        elif title in REPLICATE_TITLES:
            roles.factors.append(column)
        elif title in ("metric", "metrics", "measure") and roles.metric is None:
            roles.metric = column
        elif title in DETECTOR_TITLES and roles.detector is None and not numeric:
            roles.detector = column
        elif title in ID_TITLES and roles.id is None and not numeric:
            roles.id = column
        elif title in OOD_TITLES and roles.ood is None and not numeric and _is_first(title, titles):
            roles.ood = column
        else:
            rest.append(column)
    return rest


def _is_first(title: str, titles: Iterable[str]) -> bool:
    """A column called data set holds the outliers only if none says so more clearly."""
    clear = {
        other for other in titles if other in OOD_TITLES and ("ood" in other or "out" in other)
    }
    return title in clear or not clear


def _measures(frame: pd.DataFrame, column: str) -> bool:
    """Tell whether a column of numbers holds measurements rather than settings."""
    cells = [cell for text in frame[column] if (cell := read_cell(text)) is not None]
    if any(cell.spread is not None or cell.percent for cell in cells):
        return True
    within = all(0 <= cell.value <= 100 for cell in cells)
    fine = sum(cell.value != int(cell.value) for cell in cells) > len(cells) / 2
    return within and (fine or plain(column) == "value") and not _SETTINGS.match(plain(column))


def _by_content(frame: pd.DataFrame, texts: list[str], roles: Roles) -> None:
    """Find the detector and the outlier set among text columns that no title explains."""
    free = [column for column in texts if column not in roles.factors]
    if roles.detector is None:
        known = {c: sum(map(is_detector, frame[c].unique())) / frame[c].nunique() for c in free}
        best = max(known, key=known.__getitem__, default=None)
        if best is not None and known[best] >= 0.5:
            roles.detector = best
            free.remove(best)
    untitled = [c for c in free if re.fullmatch(r"column \d+|unnamed: ?\d+", c.lower())]
    wide = [what for _, what in roles.measured.values() if what]
    if roles.detector is None and wide and free and not mostly_detectors(wide):
        roles.detector = untitled[0] if untitled else free[0]
    elif roles.ood is None and not wide and untitled:
        roles.ood = untitled[0]


def mostly_detectors(titles: Sequence[str]) -> bool:
    """Tell whether at least half of these names are those of detectors."""
    return sum(map(is_detector, titles)) * 2 >= len(titles)
