"""What each column of a table is: guessed from titles and content, or chosen by the user."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from oodometer.errors import UserError
from oodometer.factors import plain
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
    without_metric,
)
from oodometer.tables.roles import MEAN_OF_OTHERS, OTHER_STATISTIC, SINGLE, Roles

if TYPE_CHECKING:
    import pandas as pd

OTHER_METRIC = "another kind of metric"
_WHOSE_SPREAD = "spread of an unknown column"
_TITLES = {  # of columns that have a role of their own
    "metric": frozenset({"metric", "metrics", "measure"}),
    "detector": DETECTOR_TITLES,
    "id": ID_TITLES,
    "ood": OOD_TITLES,
}
_NO_SETTINGS = {"rank", "range", "delta", *SPREADS}  # words of titles
_ALWAYS_NAMES = ("detector", "method", "postprocessor", "detectorname", "methodname")


def guess(frame: pd.DataFrame, chosen: Mapping[str, str], default_metric: str) -> Roles:
    """Say what every column is; the roles that the user has chosen, by column, stand."""
    roles = _chosen_roles(chosen)
    given = bool(roles.measured)
    rest = [column for column in frame.columns if column not in chosen]
    for step in (_set_aside, partial(_metrics, given=given), _by_title, _counts_of_runs):
        rest = step(frame, rest, roles)
    numeric = [column for column in rest if numeric_share(frame[column]) > 0.5]
    if not given:
        default_metric = _metric_of_sets(numeric, roles) or default_metric
    if not roles.measured:
        untitled_results(frame, numeric, roles, default_metric)
    _require_one_each(roles)
    _spreads_by_title(numeric, roles)
    by_content(frame, [column for column in rest if column not in numeric], roles)
    known = {column for column, _ in roles.listing()}
    ordered = [*numeric, *(column for column in rest if column not in numeric)]
    roles.factors += [column for column in ordered if column not in known]
    return roles


def _chosen_roles(chosen: Mapping[str, str]) -> Roles:
    roles = Roles()
    for column, role in chosen.items():
        if role in SINGLE:
            setattr(roles, role, column)
        elif role in HIGHER_IS_BETTER:
            roles.measured[column] = (role, "")
        elif role == "ignore":
            roles.ignored[column] = "as you asked"
        else:
            (roles.factors if role == "factor" else roles.covariates).append(column)
    if len(roles.measured) > 1 and len({metric for metric, _ in roles.measured.values()}) == 1:
        roles.measured = {c: (m, without_metric(c) or c) for c, (m, _) in roles.measured.items()}
    return roles


def _metric_of_sets(numeric: Sequence[str], roles: Roles) -> str:
    """Return the metric of columns called after data sets, if one beside them is their mean."""
    bare = [column for column, (_, what) in roles.measured.items() if not what]
    if sum(map(is_set, numeric)) < 2 or len(bare) != 1:
        return ""
    roles.ignored[bare[0]] = MEAN_OF_OTHERS
    return roles.measured.pop(bare[0])[0]


def _spreads_by_title(numeric: Sequence[str], roles: Roles) -> None:
    for column in [c for c in numeric if plain(c) in SPREADS]:
        if len(roles.measured) == 1 and not roles.spreads:
            roles.spreads[next(iter(roles.measured))] = column
        elif column not in roles.spreads.values():
            roles.ignored[column] = _WHOSE_SPREAD


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
            roles.ignored[column] = "row numbers"
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
    by_statistic = {"mean": means, "spread": spreads, "value": roles.measured}
    chosen = {metric for metric, _ in roles.measured.values()} if given else set()
    for column in columns:
        metric = metric_named(column)
        if metric is None or numeric_share(frame[column]) <= 0.5:
            rest.append(column)
            continue
        statistic, what = _statistic_of(column)
        if metric == "":
            roles.ignored[column] = OTHER_METRIC
        elif metric in chosen:
            roles.ignored[column] = f"--columns names {metric}"
        elif statistic not in by_statistic:
            roles.ignored[column] = OTHER_STATISTIC
        else:
            by_statistic[statistic][column] = (metric, what)
    _choose_means(roles, means)
    for column, key in spreads.items():
        owner = next((c for c, known in roles.measured.items() if known == key), None)
        if owner is None:
            roles.ignored[column] = _WHOSE_SPREAD
        else:
            roles.spreads[owner] = column
    return rest


def _statistic_of(column: str) -> tuple[Literal["spread", "other", "mean", "value"], str]:
    """Return which statistic of a metric a title names, and what it is of."""
    words = without_metric(column).split()
    what = " ".join(word for word in words if plain(word) not in (MEANS | SPREADS))
    said = {plain(word) for word in words}
    if said & SPREADS:
        return "spread", what
    if said & OTHER_STATISTICS:
        return "other", what
    return ("mean" if said & MEANS or is_average(what) else "value"), what


def _choose_means(roles: Roles, means: Mapping[str, tuple[str, str]]) -> None:
    """Take means over other columns for results only where there are no such columns."""
    named = {metric for metric, _ in roles.measured.values()}
    of_sets = {metric for metric, what in roles.measured.values() if what}
    groups = {metric for metric, what in means.values() if is_average(what)}
    for column, (metric, what) in list(roles.measured.items()):
        if metric in of_sets and not what:
            del roles.measured[column]
            roles.ignored[column] = MEAN_OF_OTHERS
    for column, (metric, what) in means.items():
        of_a_set = bool(what) and not is_average(what)
        if of_a_set or (metric not in named and (what or metric not in groups)):
            roles.measured[column] = (metric, what)
        else:
            roles.ignored[column] = MEAN_OF_OTHERS


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
    """Find the columns whose titles say what they hold."""
    rest = []
    titles = [plain(column) for column in columns]
    for column, title in zip(columns, titles, strict=True):
        numeric = numeric_share(frame[column]) > 0.5
        if _is_other_statistic(column, numeric, titles):
            roles.ignored[column] = OTHER_STATISTIC
        elif title in COVARIATE_TITLES and numeric:
            roles.covariates.append(column)
        elif title in REPEAT_TITLES:
            roles.factors.append(column)
        elif title == "id" and _names_lines(frame, column, titles):
            roles.ignored[column] = "row names"
        elif role := _role_named(frame[column], title, titles, numeric, roles):
            setattr(roles, role, column)
        else:
            rest.append(column)
    return rest


def _is_other_statistic(column: str, numeric: bool, titles: Collection[str]) -> bool:
    title = plain(column)
    words = {plain(word) for word in re.split(r"[\W_]+", column)}
    described = title in OTHER_STATISTICS - RUN_COUNT_TITLES and not MEANS.isdisjoint(titles)
    return bool(words & _NO_SETTINGS and title not in SPREADS) or (described and numeric)


def _role_named(
    texts: Iterable[str], title: str, titles: Collection[str], numeric: bool, roles: Roles
) -> str | None:
    """Return the role that the title of a column names, if no other column has it."""
    named = [role for role, known in _TITLES.items() if title in known]
    role = next((role for role in named if getattr(roles, role) is None), None)
    if role in (None, "metric"):
        return role
    are_names = not numeric or title in _ALWAYS_NAMES
    if not are_names and (title in ("score", "id") or not _are_labels(texts)):
        return None
    return None if role == "ood" and not _is_first(title, titles) else role


def _names_lines(frame: pd.DataFrame, column: str, titles: Iterable[str]) -> bool:
    """Whether a column called ID names every line, as trackers of experiments do."""
    texts = frame[column]
    several = len(texts) > 2 and texts.is_unique and any(t in DETECTOR_TITLES for t in titles)
    return several and 2 * sum(map(is_set, texts)) < len(texts)


def _are_labels(texts: Iterable[str]) -> bool:
    """Whether numbers are names: whole, and each of them several times."""
    given = list(texts)
    return all(text.isdigit() for text in given) and 2 * len(set(given)) <= len(given)


def _is_first(title: str, titles: Iterable[str]) -> bool:
    """A column called data set holds the outliers only if none says so more clearly."""
    clear = {
        other for other in titles if other in OOD_TITLES and ("ood" in other or "out" in other)
    }
    return title in clear or not clear
