"""What each column of somebody's table is: guessed from titles and content, or told by the user."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oodometer.errors import UserError, unknown
from oodometer.tables.cells import is_gap, numeric_share, read_cell
from oodometer.tables.names import (
    COVARIATE_TITLES,
    DETECTOR_TITLES,
    HIGHER_IS_BETTER,
    ID_TITLES,
    OOD_TITLES,
    OTHER_STATISTICS,
    REPLICATE_TITLES,
    SPREADS,
    is_average,
    is_detector,
    is_set,
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
    r"trainsize|layers?|momentum|dropout|noise|noiserate|step|iteration|index|year|params|"
    r"parameters|nsamples|samples|size|id|rank|place|level|severity|alpha|beta|gamma|lambda)$"
)
_NO_SETTINGS = {"rank", "range", "delta", *SPREADS}  # words of titles
_MEANS = ("mean", "avg", "average", "mu")


@dataclass
class Roles:
    """Which column is what; `wide` columns hold one outlier set, detector or condition each."""

    detector: str | None = None
    id: str | None = None
    ood: str | None = None
    metric: str | None = None  # a column that names the metric of each line
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
    if len(roles.measured) > 1 and len({metric for metric, _ in roles.measured.values()}) == 1:
        roles.measured = {c: (m, without_metric(c) or c) for c, (m, _) in roles.measured.items()}
    given = bool(roles.measured)
    rest = [column for column in frame.columns if column not in told]
    rest = _set_aside(frame, rest, roles)
    rest = _metrics(frame, rest, roles, given)
    rest = _by_title(frame, rest, roles)
    numeric = [column for column in rest if numeric_share(frame[column]) > 0.5]
    rest = [column for column in rest if column not in numeric]
    sets = [column for column in numeric if is_set(column)]
    bare = [column for column, (_, what) in roles.measured.items() if not what]
    if len(sets) > 1 and len(bare) == 1 and not given:
        default_metric = roles.measured.pop(bare[0])[0]
        roles.ignored[bare[0]] = "a mean of other columns"
    if not roles.measured:
        _untitled_results(frame, numeric, roles, default_metric)
    _require_one_each(roles)
    for column in [c for c in numeric if plain(c) in SPREADS]:
        if len(roles.measured) == 1 and not roles.spreads:
            roles.spreads[next(iter(roles.measured))] = column
        elif column not in roles.spreads.values():
            roles.ignored[column] = "the spread of which column is not said"
    _by_content(frame, rest, roles)
    taken = {column for column, _ in roles.listing()}
    roles.factors += [column for column in (*numeric, *rest) if column not in taken]
    return roles


def _require_one_each(roles: Roles) -> None:
    first: dict[tuple[str, str], str] = {}
    for column, (metric, what) in roles.measured.items():
        other = first.setdefault((metric, what), column)
        if other != column:
            of = f" of {what}" if what else ""
            raise UserError(
                f"Columns '{other}' and '{column}' both hold {metric}{of}: leave one out with "
                "--columns ignore=COLUMN."
            )


def _set_aside(frame: pd.DataFrame, columns: list[str], roles: Roles) -> list[str]:
    """Leave out columns that can tell nothing: empty or running numbers."""
    kept = []
    for column in columns:
        texts = frame[column]
        if all(is_gap(text) for text in texts):
            roles.ignored[column] = "empty"
        elif plain(column) in ("", "index", "unnamed0", "column1", "id", "no", "nr") and _counts(
            texts.tolist()
        ):
            roles.ignored[column] = "line numbers"
        else:
            kept.append(column)
    return kept


def _counts(texts: list[str]) -> bool:
    lines = len(texts) > 1
    return lines and texts in (
        [str(n) for n in range(len(texts))],
        [str(n + 1) for n in range(len(texts))],
    )


def _metrics(frame: pd.DataFrame, columns: list[str], roles: Roles, given: bool) -> list[str]:
    """Find the columns whose titles name a metric, and tell means and spreads from values."""
    rest: list[str] = []
    means: dict[str, tuple[str, str]] = {}
    spreads: dict[str, tuple[str, str]] = {}
    for column in columns:
        metric = metric_named(column)
        if metric is None or numeric_share(frame[column]) <= 0.5:
            rest.append(column)
            continue
        words = [word for word in without_metric(column).split() if word]
        what = " ".join(word for word in words if plain(word) not in (*_MEANS, *SPREADS))
        statistics = {plain(word) for word in words}
        if metric == "":
            roles.ignored[column] = "another kind of metric"
        elif given and metric in {m for m, _ in roles.measured.values()}:
            roles.ignored[column] = f"--columns names {metric}"
        elif statistics & SPREADS:
            spreads[column] = (metric, what)
        elif statistics & OTHER_STATISTICS:
            roles.ignored[column] = "another statistic"
        elif statistics & set(_MEANS) or is_average(what):
            means[column] = (metric, what)
        else:
            roles.measured[column] = (metric, what)
    _choose_means(roles, means)
    for column, key in spreads.items():
        owner = next((c for c, known in roles.measured.items() if known == key), None)
        if owner is None:
            roles.ignored[column] = "the spread of which column is not said"
        else:
            roles.spreads[owner] = column
    return rest


def _choose_means(roles: Roles, means: Mapping[str, tuple[str, str]]) -> None:
    """Take means over other columns for results only where there are no such columns."""
    single = {metric for metric, what in roles.measured.values() if what}
    whole = {metric for metric, what in roles.measured.values() if not what}
    for column, (metric, what) in list(roles.measured.items()):
        if metric in single and not what:
            del roles.measured[column]
            roles.ignored[column] = "a mean of other columns"
    for column, (metric, what) in means.items():
        of_sets = bool(what) and not is_average(what)
        groups = [w for m, w in means.values() if m == metric and is_average(w)]
        if of_sets or not (metric in single | whole or (not what and groups)):
            roles.measured[column] = (metric, what)
        else:
            roles.ignored[column] = "a mean of other columns"


def _by_title(frame: pd.DataFrame, columns: list[str], roles: Roles) -> list[str]:
    rest = []
    titles = [plain(column) for column in columns]
    for column in columns:
        title = plain(column)
        numeric = numeric_share(frame[column]) > 0.5
        names = not numeric or (title != "score" and title != "id" and _are_labels(frame[column]))
        words = {plain(word) for word in re.split(r"[\W_]+", column)}
        if words & _NO_SETTINGS and title not in SPREADS:
            roles.ignored[column] = "another statistic"
        elif title in COVARIATE_TITLES and numeric:
            roles.covariates.append(column)
        elif title in REPLICATE_TITLES:
            roles.factors.append(column)
        elif title in ("metric", "metrics", "measure") and roles.metric is None:
            roles.metric = column
        elif title in DETECTOR_TITLES and roles.detector is None and names:
            roles.detector = column
        elif title in ID_TITLES and roles.id is None and names:
            roles.id = column
        elif title in OOD_TITLES and roles.ood is None and names and _is_first(title, titles):
            roles.ood = column
        else:
            rest.append(column)
    return rest


def _are_labels(texts: Iterable[str]) -> bool:
    """Tell whether numbers are names: whole, and each of them several times."""
    given = list(texts)
    return all(text.isdigit() for text in given) and 2 * len(set(given)) <= len(given)


def _is_first(title: str, titles: Iterable[str]) -> bool:
    """A column called data set holds the outliers only if none says so more clearly."""
    clear = {
        other for other in titles if other in OOD_TITLES and ("ood" in other or "out" in other)
    }
    return title in clear or not clear


def _untitled_results(
    frame: pd.DataFrame, numeric: Sequence[str], roles: Roles, metric: str
) -> None:
    """Find columns of results that no title names: measurements rather than settings."""
    measured = [column for column in numeric if _measures(frame, column)]
    lowest = min((_lowest(frame, column) for column in measured), default=10.0)
    # Whole numbers may be percentages too: if the title is a name, or like the others in size.
    whole = [c for c in numeric if c not in measured and _may_measure(frame, c)]
    alike = [c for c in whole if lowest > 1 and _lowest(frame, c) >= 0.5 * lowest]
    named = [c for c in whole if is_set(c) or is_detector(c)]
    if measured or named or len(alike) > 1:
        measured = [c for c in numeric if c in measured or c in alike or c in named]
    proper = [column for column in measured if not is_average(column)]
    for column in measured:
        if proper and column not in proper:
            roles.ignored[column] = "a mean of other columns"
        else:
            what = "" if len(measured) == 1 or plain(column) == "value" else column
            roles.measured[column] = (metric, what)


def _measures(frame: pd.DataFrame, column: str) -> bool:
    """Tell whether a column of numbers holds measurements rather than settings."""
    cells = [cell for text in frame[column] if (cell := read_cell(text)) is not None]
    if any(cell.spread is not None or cell.percent for cell in cells):
        return True
    fine = sum(cell.value != int(cell.value) for cell in cells) > len(cells) / 2
    return _may_measure(frame, column) and (fine or plain(column) == "value")


def _may_measure(frame: pd.DataFrame, column: str) -> bool:
    cells = [cell for text in frame[column] if (cell := read_cell(text)) is not None]
    title = plain(column)
    within = all(0 <= cell.value <= 100 for cell in cells)
    known = title in (*SPREADS, *OTHER_STATISTICS, *REPLICATE_TITLES, *OOD_TITLES)
    return within and not known and not _SETTINGS.match(title)


def _lowest(frame: pd.DataFrame, column: str) -> float:
    return min(cell.value for text in frame[column] if (cell := read_cell(text)) is not None)


def _by_content(frame: pd.DataFrame, texts: list[str], roles: Roles) -> None:
    """Find the detector and the outlier set among text columns that no title explains."""
    free = [column for column in texts if column not in roles.factors]
    if roles.detector is None:
        known = {c: _share(frame[c], is_detector) for c in free}
        best = max(known, key=known.__getitem__, default=None)
        if best is not None and known[best] >= 0.5:
            roles.detector = best
            free.remove(best)
    untitled = [c for c in free if re.fullmatch(r"column \d+|unnamed: ?\d+|", c.lower())]
    wide = [what for _, what in roles.measured.values() if what]
    if roles.detector is None and wide and free and not mostly_detectors(wide):
        roles.detector = untitled[0] if untitled else free[0]
        free.remove(roles.detector)
    sets = [c for c in free if _share(frame[c], is_set) >= 0.5]
    wide_sets = bool(wide) and 2 * sum(map(is_set, wide)) >= len(wide)
    if wide_sets and roles.id is None and roles.ood is not None:
        roles.id, roles.ood = roles.ood, None  # the columns are the outlier sets
    elif roles.ood is None and not wide_sets and len(sets) == 1:
        roles.ood = sets[0]
    elif roles.ood is None and not wide and untitled:
        roles.ood = untitled[0]


def _share(texts: pd.Series[str], test: Callable[[str], bool]) -> float:
    distinct = [text for text in texts.unique() if not is_gap(text)]
    return sum(map(test, distinct)) / len(distinct) if distinct else 0.0


def mostly_detectors(titles: Sequence[str]) -> bool:
    """Tell whether at least half of these names are those of detectors."""
    return sum(map(is_detector, titles)) * 2 >= len(titles)
