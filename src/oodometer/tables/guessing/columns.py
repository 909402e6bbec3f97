"""What each column of a table is: guessed from titles and content, or chosen by the user."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import CORRUPTIONS, plain, words_of
from oodometer.tables.cells import is_gap, may_be_places, numeric_share, read_cell
from oodometer.tables.guessing.aside import COSTS, same_counts, set_aside, without_sample_counts
from oodometer.tables.guessing.content import by_content, metric_of_lines, settle_sets
from oodometer.tables.guessing.gains import is_one_of
from oodometer.tables.guessing.likeness import (
    are_copies,
    are_decimals,
    have_numbers,
    mostly,
    name_setups,
    tells_lines_apart,
)
from oodometer.tables.guessing.roles import (
    ALL,
    COLUMNS,
    KINDS,
    MEAN_OF_OTHERS,
    OTHER_STATISTIC,
    SINGLE,
    UNNAMED,
    Roles,
)
from oodometer.tables.guessing.spreads import spreads_by_title, take_spreads
from oodometer.tables.guessing.stated import stated_results
from oodometer.tables.guessing.titled import OTHER_METRIC, titled_results
from oodometer.tables.guessing.unexplained import require_named
from oodometer.tables.guessing.untitled import untitled_results
from oodometer.tables.vocabulary.costs import names_costs
from oodometer.tables.vocabulary.data_names import is_corruption, is_data, is_set
from oodometer.tables.vocabulary.measures import (
    GENERAL,
    MEASURES,
    Measure,
    main_first,
    metric_named,
    without_metric,
)
from oodometer.tables.vocabulary.names import is_compared, is_detector
from oodometer.tables.vocabulary.others import METRIC_TITLES, names_metrics
from oodometer.tables.vocabulary.statistics import MEANS, OTHER_STATISTICS, SPREADS, SUMMARIES
from oodometer.tables.vocabulary.titles import (
    COVARIATE_TITLES,
    DETECTOR_TITLES,
    ID_TITLES,
    MODEL_TITLES,
    OOD_TITLES,
    REPEAT_TITLES,
    RUN_COUNT_TITLES,
    SET_TITLES,
    mentions_setting,
    names_outliers,
)

if TYPE_CHECKING:
    import pandas as pd

_TITLES = {  # of columns that have a role of their own
    "metric": METRIC_TITLES,
    "detector": DETECTOR_TITLES,
    "id": ID_TITLES,
    "ood": OOD_TITLES,
}
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}")
_NO_SETTINGS = {"rank", "range", "delta", *SPREADS}  # words of titles
_TRAINING_WORDS = frozenset(
    {"train", "training", "pretrain", "pretraining", "upstream", "source", "id", "iid", "model",
     "size", "type"}
)  # fmt: skip
_NAMING = DETECTOR_TITLES.union(MODEL_TITLES) - {"name", "modelid", "score", "confidence"}
_ALWAYS_NAMES = ("detector", "method", "postprocessor", "detectorname", "methodname")


def guess(
    frame: pd.DataFrame, chosen: Mapping[str, str], default: str | None, said: str = ""
) -> Roles:
    """Say what every column is; the roles that the user has chosen, by column, stand.

    `default` is the metric that the name of the file or the text around the table names. Columns
    of results that no title explains have it, or else `UNNAMED`. `said` is what the user wrote.
    """
    roles = _chosen_roles(chosen)
    roles.said = said
    given = bool(roles.measured)
    rest = take_spreads([column for column in frame.columns if column not in chosen], roles)
    rest = set_aside(frame, rest, roles)
    rest = stated_results(frame, titled_results(frame, rest, roles, default), roles)
    rest = _counts_of_runs(frame, _by_title(frame, rest, roles, default), roles)
    rest = without_sample_counts(frame, rest, roles)
    numeric = [column for column in rest if numeric_share(frame[column]) > 0.5]
    words = [column for column in rest if column not in numeric]
    if roles.metric is None:
        roles.metric = metric_of_lines(frame, words, roles)
    if roles.metric is not None and numeric:
        _leave_to_lines(roles)
    unnamed = _metric_of_unnamed(chosen.get(ALL), default)
    if not given:
        unnamed = _metric_of_sets(numeric, roles) or unnamed
    if not roles.measured or ALL in chosen:
        untitled_results(frame, numeric, roles, unnamed)
    if chosen.get(ALL) in MEASURES and unnamed not in dict(roles.measured.values()):
        role = unnamed.replace(" ", "_")
        raise UserError(
            f"--columns {role}=*: the titles of all numbers say what they are: name the columns "
            f"that are meant, such as {role}={next(iter(roles.measured), 'COLUMN')}."
        )
    _require_one_each(frame, roles)
    spreads_by_title(numeric, roles)
    by_content(frame, words, roles)
    _take_factors(frame, numeric, words, roles)
    _part_corruptions(frame, roles)
    settle_sets(frame, roles)
    return roles


def _take_factors(
    frame: pd.DataFrame, numeric: Sequence[str], words: Sequence[str], roles: Roles
) -> None:
    """Take what has no role yet for what runs differ in, except what a method costs."""
    known = {column for column, _ in roles.listing()}
    free = [column for column in (*numeric, *words) if column not in known]
    costs = [c for c in free if names_costs(c) and len(frame[c].unique()) > 1]
    roles.ignored |= dict.fromkeys(costs, COSTS)
    require_named(frame, [c for c in free if c in numeric and c not in costs], roles)
    roles.factors += [column for column in free if column not in costs]


def _part_corruptions(frame: pd.DataFrame, roles: Roles) -> None:
    """Take corruptions of test data for a factor: no model was trained on each of them."""
    column = roles.ood
    if column is None or column in roles.chosen:
        return
    names = frame[column].unique()
    if plain(column) in CORRUPTIONS or 2 * sum(map(is_corruption, names)) > len(names):
        roles.ood = None
        roles.factors.append(column)


def _chosen_roles(chosen: Mapping[str, str]) -> Roles:
    roles = Roles(chosen=set(chosen))
    for column, role in chosen.items():
        if column == COLUMNS:
            roles.wide = role
            roles.kinds.update((role, kind) for kind in KINDS if kind == role)
        elif role in SINGLE:
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
    own = {role for column, role in chosen.items() if column in roles.own}
    if (
        roles.wide
        and len(roles.own) > 1
        and len(own) == 1
        and set(roles.measured) == set(roles.own)
    ):
        roles.own = {UNNAMED: Measure(UNNAMED, own == {"higher"}, is_share=None)}
        roles.measured = dict.fromkeys(roles.measured, (UNNAMED, ""))  # one metric of all titles
    times = Counter(metric for metric, _ in roles.measured.values())
    roles.measured = {
        column: (metric, _what_of(column) if times[metric] > 1 else "")
        for column, (metric, _) in roles.measured.items()
    }
    return roles


def _what_of(column: str) -> str:
    return (without_metric(column) if metric_named(column) is not None else column) or column


def _metric_of_unnamed(role: str | None, default: str | None) -> str:
    """Return what numbers are that no title names: as the user says, or the text around them."""
    metric = default if role is None else role
    return metric if metric in MEASURES else UNNAMED


def _metric_of_sets(numeric: Sequence[str], roles: Roles) -> str:
    """Return the metric of columns called after data sets, if one beside them is their mean."""
    bare = [column for column, (_, what) in roles.measured.items() if not what]
    if sum(map(is_set, numeric)) < 2 or len(bare) != 1:
        return ""
    roles.ignored[bare[0]] = MEAN_OF_OTHERS
    return roles.measured.pop(bare[0])[0]


def _leave_to_lines(roles: Roles) -> None:
    """Leave out columns of one metric where each line names its own: another column holds it."""
    titled = [column for column in roles.measured if column not in roles.chosen]
    roles.ignored |= dict.fromkeys(titled, OTHER_METRIC)
    roles.ignored |= {roles.spreads.pop(c): OTHER_METRIC for c in titled if c in roles.spreads}
    roles.measured = {c: key for c, key in roles.measured.items() if c not in titled}


def _require_one_each(frame: pd.DataFrame, roles: Roles) -> None:
    first: dict[tuple[str, str], str] = {}
    main = next(iter(main_first(metric for metric, _ in roles.measured.values())), None)
    for column, (metric, what) in list(roles.measured.items()):
        other = first.setdefault((metric, what), column)
        if (
            other != column
            and {other, column}.isdisjoint(roles.chosen)
            and are_copies(frame[other], frame[column])
        ):
            roles.ignored[column] = f"the same as {other}"
            del roles.measured[column]
        elif other != column and metric != main and not roles.main:  # such as ECE and MCE
            name = f"{column} {metric}"
            roles.own[name] = roles.measure(metric)._replace(name=name)
            roles.measured[column] = (name, what)
        elif other != column:
            of = f" of {what}" if what else ""
            raise UserError(
                f"Columns '{other}' and '{column}' both hold {metric}{of}: leave one out with "
                f"{roles.option(ignore=column)} or {roles.option(ignore=other)}."
            )


def _counts_of_runs(frame: pd.DataFrame, columns: list[str], roles: Roles) -> list[str]:
    """Find the column that says over how many runs means are; lines of single runs have none."""
    if roles.runs is None and _states_spreads(frame, roles):
        counts = [c for c in (*columns, *roles.factors) if plain(c) in RUN_COUNT_TITLES]
        counts = counts or same_counts(frame, columns)
        for column in sorted(counts, key=lambda c: plain(c) == "n"):  # n may be of samples
            if frame[column].str.fullmatch(r"\d+(\.0)?").all():
                roles.runs = column
                roles.factors = [name for name in roles.factors if name != column]
                return [name for name in columns if name != column]
    return columns


def _states_spreads(frame: pd.DataFrame, roles: Roles) -> bool:
    words = (word for column in frame.columns for word in words_of(column))
    if roles.spreads or any(word in SPREADS for word in words):
        return True
    return any(
        (cell := read_cell(text)) is not None and cell.spread is not None
        for column in frame.columns
        for text in frame[column].unique()
    )


def _by_title(
    frame: pd.DataFrame, columns: list[str], roles: Roles, default: str | None
) -> list[str]:
    """Find the columns whose titles say what they hold."""
    rest = []
    titles = {column: plain(column) for column in columns}
    all_titles = set(titles.values())
    for column, title in titles.items():
        numeric = numeric_share(frame[column]) > 0.5
        beside = bool(roles.measured) and title in SUMMARIES - SPREADS
        named = beside and have_numbers(frame[column].unique())
        named = named and (title != "rank" or may_be_places(frame[column]))
        named = named or _is_other_statistic(frame, column, numeric, titles)
        if named and not tells_lines_apart(frame, column):
            roles.ignored[column] = OTHER_STATISTIC
        elif title in COVARIATE_TITLES and numeric:
            roles.covariates.append(column)
        elif title in REPEAT_TITLES and _may_be_compared(frame[column], all_titles):
            rest.append(column)
        elif title in REPEAT_TITLES or (title == "filter" and "nshot" in all_titles):
            roles.factors.append(column)  # a filter is how lm-evaluation-harness reads answers
        elif title == "id" and _names_lines(frame, column, all_titles):
            if default in GENERAL and are_decimals(frame[column]):
                rest.append(column)  # accuracy on the data set of training
            else:
                roles.ignored[column] = "row names"
        elif role := _role_named(frame[column], column, all_titles, numeric, roles):
            if role == "metric" and roles.chosen & set(roles.measured):
                roles.ignored[column] = "--columns names the metric"
            elif role == "detector" and _is_named_elsewhere(frame, column, columns):
                rest.append(column)  # the same for all lines
            else:
                setattr(roles, role, column)
        else:
            rest.append(column)
    return rest


def _may_be_compared(texts: pd.Series[str], titles: AbstractSet[str]) -> bool:
    """Whether names of runs may be what is compared: no title says that another column is."""
    return titles.isdisjoint(_NAMING) and name_setups(texts.tolist())


def _is_named_elsewhere(frame: pd.DataFrame, column: str, columns: Sequence[str]) -> bool:
    """Whether a column says the same of all lines, and another one names what is compared."""
    names = frame[column].unique()
    others = [c for c in columns if c != column and plain(c) in _NAMING]
    alone = len(names) == 1 and not is_detector(names[0])
    return alone and any(len(frame[c].unique()) > 1 for c in others)


def _is_other_statistic(
    frame: pd.DataFrame, column: str, numeric: bool, titles: Mapping[str, str]
) -> bool:
    words = words_of(column)
    described = titles[column] in OTHER_STATISTICS - RUN_COUNT_TITLES
    described = described and not MEANS.isdisjoint(titles.values())
    several = bool(words & _NO_SETTINGS) and len(words) > 1 and not words & SPREADS
    if (not several and not (described and numeric)) or is_detector(column):
        return False
    others = [c for c in titles if c != column and are_decimals(frame[c])]
    others = [c for c in others if not names_costs(c) and not mentions_setting(c)]
    return not (several and is_one_of(frame, column, others))  # a data set called delta-x


def _role_named(
    texts: pd.Series[str], column: str, titles: AbstractSet[str], numeric: bool, roles: Roles
) -> str | None:
    """Return the role that the title of a column names, if no other column has it."""
    title = plain(column)
    bare = plain(re.sub(r"\(.*?\)", "", column))  # Metric (mean)
    named = [role for role, known in _TITLES.items() if title in known]
    named = named or ["metric"] * (bare in _TITLES["metric"] or names_metrics(column))
    if not named and _names_data_sets(column) and not numeric and titles.isdisjoint(OOD_TITLES):
        named = ["ood"]
    role = next((role for role in named if getattr(roles, role) is None), None)
    if role == "metric":
        names = set(texts)
        known = sum(metric_named(name) is not None for name in names)
        return role if 2 * known >= len(names) or known > 2 else None
    if role is None or _means_otherwise(texts, title, titles):
        return None
    if title in SET_TITLES and _name_models(texts.unique().tolist()):
        named_elsewhere = not titles.isdisjoint({*DETECTOR_TITLES, *MODEL_TITLES})
        return None if roles.detector is not None or named_elsewhere else "detector"
    if role in ("id", "ood") and (are_decimals(texts) or is_gap(texts.iloc[0])):
        return None  # results on such data, or a name that not all lines have
    are_names = not numeric or title in _ALWAYS_NAMES
    if not are_names and (title in ("score", "id") or not _are_labels(texts)):
        return None
    return None if role == "ood" and not _is_first(title, titles) else role


def _name_models(names: Sequence[str]) -> bool:
    """Whether names are those of models and detectors, and none is that of a data set."""
    models = mostly(names, is_compared)
    return len(names) > 1 and models and not any(map(is_data, names))


def _means_otherwise(texts: pd.Series[str], title: str, titles: AbstractSet[str]) -> bool:
    """Whether a title that may name data sets says something else beside the other titles."""
    if all(map(_DATE.fullmatch, set(texts))):  # when a model was trained on something
        return True
    if title == "source":  # where numbers are from
        return "target" not in titles and not any(map(is_data, set(texts)))
    # Perhaps what is compared: the features of a benchmark.
    return title == "benchmark" and not titles.isdisjoint(SET_TITLES - {title})


def _names_data_sets(column: str) -> bool:
    """Whether a title such as downstream_dataset says that a column names data sets to test on."""
    words = words_of(column)
    return bool(words & {"dataset", "datasets", "数据集"}) and words.isdisjoint(_TRAINING_WORDS)


def _names_lines(frame: pd.DataFrame, column: str, titles: Iterable[str]) -> bool:
    """Whether a column called ID names every line, as trackers of experiments do."""
    texts = frame[column]
    others = any(t in DETECTOR_TITLES for t in titles) or any(
        frame[c].is_unique and numeric_share(frame[c]) <= 0.5 for c in frame.columns if c != column
    )
    several = len(texts) > 2 and texts.is_unique and others
    return several and 2 * sum(map(is_set, texts)) < len(texts)


def _are_labels(texts: Iterable[str]) -> bool:
    """Whether numbers are names: whole, several, and each of them several times."""
    given = list(texts)
    return all(text.isdigit() for text in given) and 2 < 2 * len(set(given)) <= len(given)


def _is_first(title: str, titles: Iterable[str]) -> bool:
    """A column called data set holds the outliers only if none says so more clearly."""
    clear = {other for other in titles if names_outliers(other)}
    return title in clear or not clear
