"""What each column of a table is: guessed from titles and content, or chosen by the user."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Literal

from oodometer.errors import UserError
from oodometer.factors import plain
from oodometer.tables.cells import is_gap, numeric_share, read_cell
from oodometer.tables.content import by_content, settle_sets, without_names
from oodometer.tables.measures import GENERAL, MEASURES, Measure, metric_named, without_metric
from oodometer.tables.names import (
    COVARIATE_TITLES,
    DETECTOR_TITLES,
    ID_TITLES,
    MEANS,
    OOD_TITLES,
    OTHER_STATISTICS,
    REPEAT_TITLES,
    RUN_COUNT_TITLES,
    SPREADS,
    SUMMARIES,
    is_average,
    is_detector,
    is_qualifier,
    is_set,
)
from oodometer.tables.roles import (
    ALL,
    KINDS,
    MEAN_OF_OTHERS,
    OTHER_STATISTIC,
    SINGLE,
    UNNAMED,
    Roles,
    option,
)
from oodometer.tables.untitled import untitled_results

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
_TRAINING_WORDS = frozenset(
    {"train", "training", "pretrain", "pretraining", "upstream", "source", "id", "iid", "model",
     "size", "type"}
)  # fmt: skip
_ALWAYS_NAMES = ("detector", "method", "postprocessor", "detectorname", "methodname")
_Named = dict[str, tuple[str, str]]  # column -> metric, of what


def guess(frame: pd.DataFrame, chosen: Mapping[str, str], default: str | None) -> Roles:
    """Say what every column is; the roles that the user has chosen, by column, stand.

    `default` is the metric that the name of the file or the text around the table names. Columns
    of results that no title explains have it, or else `UNNAMED`.
    """
    roles = _chosen_roles(chosen)
    given = bool(roles.measured)
    rest = _set_aside(frame, [column for column in frame.columns if column not in chosen], roles)
    rest = _metrics(frame, rest, roles, default)
    rest = _counts_of_runs(frame, _by_title(frame, rest, roles), roles)
    numeric = [column for column in rest if numeric_share(frame[column]) > 0.5]
    said = chosen.get(ALL)
    unnamed = default or UNNAMED if said is None else said if said in MEASURES else UNNAMED
    if not given:
        unnamed = _metric_of_sets(numeric, roles) or unnamed
    if not roles.measured:
        untitled_results(frame, numeric, roles, unnamed)
    _require_one_each(roles)
    _spreads_by_title(numeric, roles)
    words = set(rest) - set(numeric)
    by_content(frame, [column for column in rest if column in words], roles)
    known = {column for column, _ in roles.listing()}
    roles.factors += [c for c in (*numeric, *(c for c in rest if c in words)) if c not in known]
    settle_sets(frame, roles)
    return roles


def _chosen_roles(chosen: Mapping[str, str]) -> Roles:
    roles = Roles(chosen=set(chosen))
    for column, role in chosen.items():
        if role in SINGLE:
            setattr(roles, role, column)
        elif role in ("higher", "lower"):
            name = UNNAMED if column == ALL else column
            roles.own[name] = Measure(name, role == "higher", is_share=None)
            if column != ALL:
                roles.measured[column] = (name, "")
        elif role in MEASURES:
            if column != ALL:
                roles.measured[column] = (role, "")
        elif role == "ignore":
            roles.ignored[column] = "as you asked"
        elif role == "covariate":
            roles.covariates.append(column)
        else:
            roles.factors.append(column)
            roles.kinds.update((column, kind) for kind in KINDS if kind == role)
    times = Counter(metric for metric, _ in roles.measured.values())
    roles.measured = {
        column: (metric, (without_metric(column) or column) if times[metric] > 1 else "")
        for column, (metric, _) in roles.measured.items()
    }
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
                f"{option(ignore=column)} or {option(ignore=other)}."
            )


def _set_aside(frame: pd.DataFrame, columns: list[str], roles: Roles) -> list[str]:
    """Leave out columns that can tell nothing: empty or running numbers."""
    kept = []
    for column in columns:
        texts = frame[column]
        if all(is_gap(text) for text in texts):
            roles.ignored[column] = "empty"
        elif not any(plain(text) for text in texts.unique()):
            roles.ignored[column] = "signs only"
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


def _metrics(
    frame: pd.DataFrame, columns: list[str], roles: Roles, default: str | None
) -> list[str]:
    """Find the columns whose titles name a metric, and tell means and spreads from values."""
    named = {c: metric for c in columns if (metric := metric_named(c)) is not None}
    named = {c: metric for c, metric in named.items() if numeric_share(frame[c]) > 0.5}
    named = without_names(frame, columns, named)
    general = _are_general(frame, {c: m for c, m in named.items() if m}, roles, default)
    means: _Named = {}
    spreads: _Named = {}
    bests: _Named = {}
    by_statistic = {"mean": means, "spread": spreads, "best": bests, "value": roles.measured}
    chosen = {metric for metric, _ in roles.measured.values()}
    for column, metric in named.items():
        statistic, what = _statistic_of(column)
        if metric == "" or (metric in GENERAL and not general):
            if plain(column) not in COVARIATE_TITLES:
                roles.ignored[column] = OTHER_METRIC
        elif metric in chosen:
            roles.ignored[column] = f"--columns names {metric}"
        elif statistic not in by_statistic:
            roles.ignored[column] = OTHER_STATISTIC
        else:
            by_statistic[statistic][column] = (metric, what)
    _choose_bests(roles, bests)
    _choose_means(roles, means)
    _name_qualified(roles, spreads)
    for column, key in spreads.items():
        owner = next((c for c, known in roles.measured.items() if known == key), None)
        if owner is None:
            roles.ignored[column] = _WHOSE_SPREAD
        else:
            roles.spreads[owner] = column
    used = {*roles.measured, *roles.ignored, *spreads}
    return [column for column in columns if column not in used]


def _are_general(
    frame: pd.DataFrame, named: Mapping[str, str], roles: Roles, default: str | None
) -> bool:
    """Whether accuracy and such are what a table is about, and not about its classifiers."""
    chosen = {metric for metric, _ in roles.measured.values()}
    if any(m not in GENERAL for m in (*named.values(), *(chosen - set(roles.own)))):
        return False
    if chosen & (GENERAL | set(roles.own)):
        return True
    beside = [c for c in frame.columns if c not in named and (is_set(c) or is_detector(c))]
    of_sets = sum(numeric_share(frame[c]) > 0.5 for c in beside[:3])
    return (default is None or default in GENERAL) and of_sets < 2


def _statistic_of(
    column: str,
) -> tuple[Literal["spread", "other", "mean", "best", "value"], str]:
    """Return which statistic of a metric a title names, and what it is of."""
    words = without_metric(column).split()
    what = " ".join(w for w in words if plain(w) not in (MEANS | SPREADS | {"best", "ood"}))
    said = {plain(word) for word in words}
    if said & SPREADS:
        return "spread", what
    if "best" in said:
        return "best", what
    if said & OTHER_STATISTICS:
        return "other", what
    return ("mean" if said & MEANS or is_average(what) else "value"), what


def _choose_bests(roles: Roles, bests: _Named) -> None:
    """Take the best of several looks for a result only where nothing else is stated."""
    named = {metric for metric, _ in roles.measured.values()}
    for column, (metric, what) in bests.items():
        if metric in named:
            roles.ignored[column] = OTHER_STATISTIC
        else:
            roles.measured[column] = (metric, what)


def _choose_means(roles: Roles, means: _Named) -> None:
    """Take means over other columns for results only where there are no such columns."""
    named = {metric for metric, _ in roles.measured.values()}
    of_sets = {metric for metric, what in roles.measured.values() if what}
    groups = {metric for metric, what in means.values() if is_average(what)}
    for column, (metric, what) in list(roles.measured.items()):
        if metric in of_sets and not what and metric not in GENERAL:
            del roles.measured[column]
            roles.ignored[column] = MEAN_OF_OTHERS
    for column, (metric, what) in means.items():
        of_a_set = bool(what) and not is_average(what)
        if of_a_set or (metric not in named and (what or metric not in groups)):
            roles.measured[column] = (metric, what)
        else:
            roles.ignored[column] = MEAN_OF_OTHERS


def _name_qualified(roles: Roles, spreads: _Named) -> None:
    """Take clean and robust accuracy for two metrics, not for one on two data sets."""
    known = {key for key in roles.measured.values() if key[0] not in roles.own}
    names: dict[tuple[str, str], str] = {}
    for metric, what in known:
        others = [w for m, w in known if m == metric and w != what]
        of_sets = sum(bool(w) and not is_qualifier(w) for w in others) > 1
        alone = metric in GENERAL and not is_set(what) and not others
        if what and (alone or is_qualifier(what, of_sets=of_sets)):
            name = f"{what.casefold()} {metric}" if others else metric
            names[metric, what] = name
            if others:
                roles.own[name] = MEASURES[metric]._replace(name=name)
    for columns in (roles.measured, spreads):
        columns |= {c: (names[key], "") for c, key in columns.items() if key in names}


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
    words = (plain(word) for column in frame.columns for word in re.split(r"[\W_]+", column))
    if roles.spreads or any(word in SPREADS for word in words):
        return True
    return any(
        (cell := read_cell(text)) is not None and cell.spread is not None
        for column in frame.columns
        for text in frame[column].unique()
    )


def _by_title(frame: pd.DataFrame, columns: list[str], roles: Roles) -> list[str]:
    """Find the columns whose titles say what they hold."""
    rest = []
    titles = {column: plain(column) for column in columns}
    all_titles = set(titles.values())
    for column, title in titles.items():
        numeric = numeric_share(frame[column]) > 0.5
        if _is_other_statistic(column, numeric, all_titles) or (
            roles.measured and title in SUMMARIES - SPREADS
        ):
            roles.ignored[column] = OTHER_STATISTIC
        elif title in COVARIATE_TITLES and numeric:
            roles.covariates.append(column)
        elif title in REPEAT_TITLES:
            roles.factors.append(column)
        elif title == "id" and _names_lines(frame, column, all_titles):
            roles.ignored[column] = "row names"
        elif role := _role_named(frame[column], column, all_titles, numeric, roles):
            if role == "metric" and roles.chosen & set(roles.measured):
                roles.ignored[column] = "--columns names the metric"
            else:
                setattr(roles, role, column)
        else:
            rest.append(column)
    return rest


def _is_other_statistic(column: str, numeric: bool, titles: Collection[str]) -> bool:
    title = plain(column)
    words = {plain(word) for word in re.split(r"[\W_]+", column)}
    described = title in OTHER_STATISTICS - RUN_COUNT_TITLES and not MEANS.isdisjoint(titles)
    several = bool(words & _NO_SETTINGS) and len(words) > 1 and not words & SPREADS
    return several or (described and numeric)


def _role_named(
    texts: Iterable[str], column: str, titles: AbstractSet[str], numeric: bool, roles: Roles
) -> str | None:
    """Return the role that the title of a column names, if no other column has it."""
    title = plain(column)
    named = [role for role, known in _TITLES.items() if title in known]
    if not named and _names_data_sets(column) and not numeric and titles.isdisjoint(OOD_TITLES):
        named = ["ood"]
    role = next((role for role in named if getattr(roles, role) is None), None)
    if role == "metric":
        names = set(texts)
        known = sum(metric_named(name) is not None for name in names)
        return role if 2 * known >= len(names) else None
    if role is None:
        return role
    are_names = not numeric or title in _ALWAYS_NAMES
    if not are_names and (title in ("score", "id") or not _are_labels(texts)):
        return None
    return None if role == "ood" and not _is_first(title, titles) else role


def _names_data_sets(column: str) -> bool:
    """Whether a title such as downstream_dataset says that a column names data sets to test on."""
    words = {plain(word) for word in re.split(r"[\W_]+", column)}
    return bool(words & {"dataset", "datasets", "数据集"}) and words.isdisjoint(_TRAINING_WORDS)


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
