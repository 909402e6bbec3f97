"""What each column of somebody's table is: guessed from titles and content, or told by the user."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.tables.cells import is_gap, numeric_share, read_cell
from oodometer.tables.content import by_content, untitled_results
from oodometer.tables.names import (
    COVARIATE_TITLES,
    DETECTOR_TITLES,
    HIGHER_IS_BETTER,
    ID_TITLES,
    MEANS,
    OOD_TITLES,
    OTHER_STATISTICS,
    REPEAT_TITLES,
    RUN_COUNT_TITLES,
    SPREADS,
    is_average,
    is_set,
    metric_named,
    plain,
    without_metric,
)
from oodometer.tables.roles import SINGLE, Roles

if TYPE_CHECKING:
    import pandas as pd

OTHER_METRIC = "another kind of metric"
_NO_SETTINGS = {"rank", "range", "delta", *SPREADS}  # words of titles
_ALWAYS_NAMES = ("detector", "method", "postprocessor", "detectorname", "methodname")


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
    rest = _counts_of_runs(frame, rest, roles)
    numeric = [column for column in rest if numeric_share(frame[column]) > 0.5]
    rest = [column for column in rest if column not in numeric]
    sets = [column for column in numeric if is_set(column)]
    bare = [column for column, (_, what) in roles.measured.items() if not what]
    if len(sets) > 1 and len(bare) == 1 and not given:
        default_metric = roles.measured.pop(bare[0])[0]
        roles.ignored[bare[0]] = "a mean of other columns"
    if not roles.measured:
        untitled_results(frame, numeric, roles, default_metric)
    _require_one_each(roles)
    for column in [c for c in numeric if plain(c) in SPREADS]:
        if len(roles.measured) == 1 and not roles.spreads:
            roles.spreads[next(iter(roles.measured))] = column
        elif column not in roles.spreads.values():
            roles.ignored[column] = "the spread of which column is not said"
    by_content(frame, rest, roles)
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
        what = " ".join(word for word in words if plain(word) not in (MEANS | SPREADS))
        statistics = {plain(word) for word in words}
        if metric == "":
            roles.ignored[column] = OTHER_METRIC
        elif given and metric in {m for m, _ in roles.measured.values()}:
            roles.ignored[column] = f"--columns names {metric}"
        elif statistics & SPREADS:
            spreads[column] = (metric, what)
        elif statistics & OTHER_STATISTICS:
            roles.ignored[column] = "another statistic"
        elif statistics & MEANS or is_average(what):
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


def _counts_of_runs(frame: pd.DataFrame, columns: list[str], roles: Roles) -> list[str]:
    """Find the column that says over how many runs means are; lines of single runs have none."""
    if roles.runs is None and _states_spreads(frame, roles):
        for column in (*columns, *roles.factors):
            texts = frame[column]
            if plain(column) in RUN_COUNT_TITLES and texts.str.fullmatch(r"\d+(\.0)?").all():
                roles.runs = column
                roles.factors = [name for name in roles.factors if name != column]
                return [name for name in columns if name != column]
    return columns


def _states_spreads(frame: pd.DataFrame, roles: Roles) -> bool:
    if roles.spreads or any(plain(column) in SPREADS for column in frame.columns):
        return True
    return any(
        (cell := read_cell(text)) is not None and cell.spread is not None
        for column in frame.columns
        for text in frame[column].unique()
    )


def _by_title(frame: pd.DataFrame, columns: list[str], roles: Roles) -> list[str]:
    rest = []
    titles = [plain(column) for column in columns]
    for column in columns:
        title = plain(column)
        numeric = numeric_share(frame[column]) > 0.5
        names = not numeric or (
            title in _ALWAYS_NAMES
            or (title != "score" and title != "id" and _are_labels(frame[column]))
        )
        words = {plain(word) for word in re.split(r"[\W_]+", column)}
        described = title in OTHER_STATISTICS - RUN_COUNT_TITLES and bool(MEANS & set(titles))
        if (words & _NO_SETTINGS and title not in SPREADS) or (described and numeric):
            roles.ignored[column] = "another statistic"
        elif title in COVARIATE_TITLES and numeric:
            roles.covariates.append(column)
        elif title in REPEAT_TITLES:
            roles.factors.append(column)
        elif title in ("metric", "metrics", "measure") and roles.metric is None:
            roles.metric = column
        elif title in DETECTOR_TITLES and roles.detector is None and names:
            roles.detector = column
        elif title == "id" and _names_lines(frame, column, titles):
            roles.ignored[column] = "names of lines"
        elif title in ID_TITLES and roles.id is None and names:
            roles.id = column
        elif title in OOD_TITLES and roles.ood is None and names and _is_first(title, titles):
            roles.ood = column
        else:
            rest.append(column)
    return rest


def _names_lines(frame: pd.DataFrame, column: str, titles: Iterable[str]) -> bool:
    """Tell whether a column called ID names every line, as trackers of experiments do."""
    texts = frame[column]
    several = len(texts) > 2 and texts.is_unique and any(t in DETECTOR_TITLES for t in titles)
    return several and 2 * sum(map(is_set, texts)) < len(texts)


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
