"""What columns hold whose titles do not say it: by the names in them, and by those above."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import LABELS, OPTIMIZERS, TITLES, are_checkpoints, plain
from oodometer.tables.cells import is_gap
from oodometer.tables.guessing.likeness import (
    are_data,
    are_runs,
    is_about_data,
    mostly,
    share,
    wide_names,
)
from oodometer.tables.guessing.questions import (
    models_or_data,
    or_lower,
    unnamed_option,
    which_axis,
    which_column,
)
from oodometer.tables.guessing.rivals import (
    require_no_detectors,
    require_no_methods,
    require_no_rivals,
)
from oodometer.tables.guessing.roles import SECTION, UNNAMED, Roles
from oodometer.tables.guessing.sides import part_columns, part_sets
from oodometer.tables.vocabulary.data_names import are_trained_on, is_data, is_set
from oodometer.tables.vocabulary.measures import GENERAL, metric_named, without_metric
from oodometer.tables.vocabulary.names import (
    ARCHITECTURE_TITLES,
    INCIDENTAL,
    MODEL_TITLES,
    OOD_TITLES,
    SET_TITLES,
    WEAK_SET_TITLES,
    is_average,
    is_detector,
    is_model,
    is_posthoc,
    is_pretraining,
    is_surely_detector,
    mentions_setting,
    names_costs,
)

if TYPE_CHECKING:
    import pandas as pd

_ONLY_OOD = frozenset(
    {"fpr95", "tnr95", "aupr_in", "detection_error", "detection_accuracy", "failure_auroc",
     "correct_auroc", "incorrect_auroc"}
)  # fmt: skip
_OF_DECISIONS = frozenset({"precision", "recall", "F1", "MCC", "specificity"})
_BENCHMARK = 4  # data sets that nobody takes for outliers, from which on they are a benchmark
_MOST_SPACES = 5  # in the name of a metric; more is a heading
_STATED = re.compile(r"(\S+(?: \S+)?)[ :=]+[+\-−]?\d+[.,]?\d*(?![\w@])")  # RMSE 17.1±4.6


def by_content(frame: pd.DataFrame, texts: list[str], roles: Roles) -> None:
    """Find the detector and the outlier set among text columns that no title explains."""
    free = [c for c in texts if c not in roles.factors and not names_costs(c)]
    free = [c for c in free if (metric_named(c) or "") in {"", *GENERAL}]  # shifted by a cell
    if roles.metric is None:
        roles.metric = _metric(frame, free, roles)
    free = [column for column in free if column != roles.metric]
    if roles.detector is None:
        roles.detector = _detector(frame, free, roles)
    _find_sets(frame, [column for column in free if column != roles.detector], roles)


def _detector(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str | None:
    """Return the column of known detectors, or else the one that can only be theirs."""
    if roles.wide == "detector":
        return None
    free = [column for column in free if _may_name(frame[column])]
    free = [c for c in free if not _words(c) & INCIDENTAL] or free
    known = _known_detectors(frame, free)
    if known is not None:
        return known
    wide = wide_names(roles)
    rest = [c for c in free if plain(c) not in TITLES or plain(c) in MODEL_TITLES]
    free = rest if rest or wide else free  # a checkpoint is compared only where nothing else is
    if are_runs(wide):
        return _beside_numbers(frame, free, roles)
    if not roles.measured or mostly(wide, is_detector) or mostly(wide, is_model):
        require_no_detectors(frame, free, roles)
        return None
    return _unknown_detectors(frame, free, roles)


def _unknown_detectors(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str | None:
    """Return the column that can only name what is compared, where no name is known, or ask."""
    wide = wide_names(roles)
    named = _by_model_title(frame, free, roles)
    require_no_methods(frame, free, named, roles)
    if (are_data(wide) or roles.wide) and len(free) == 1 and share(frame[free[0]], is_data) < 0.5:
        return named or free[0]  # whatever its title, such as "ID / OOD data set"
    about = [column for column in free if is_about_data(frame, column)]
    free = _without_setting([column for column in free if column not in about], wide)
    if named is not None or not free:
        roles.are_titles = named is None and not about and _only_titles(wide, roles)
        return named
    about += [c for c in (roles.ood, roles.id) if c is not None]
    if len(wide) > 1 and not are_data(wide):
        headings = roles.metric is not None and all(column.endswith(SECTION) for column in free)
        if headings or any(_are_told_by(frame, c, free) for c in about):
            roles.are_titles = True
            return None
    return _only_one(frame, free, roles)


def _without_setting(free: list[str], wide: Sequence[str]) -> list[str]:
    """Leave out the only column if it is a setting: its lines may all be of one model."""
    is_setting = len(free) == 1 and (mentions_setting(free[0]) or plain(free[0]) in LABELS)
    return [] if is_setting and not wide else free


def _only_titles(wide: Sequence[str], roles: Roles) -> bool:
    """Whether nothing but titles can name what is compared: rows name metrics, and nothing else."""
    beside = roles.id is None and roles.ood is None
    return roles.metric is not None and beside and len(wide) > 1 and not are_data(wide)


def _are_told_by(frame: pd.DataFrame, column: str, others: Sequence[str]) -> bool:
    """Whether a column names every line, and the others merely say of what kind it is."""
    return frame[column].is_unique and all(2 * frame[c].nunique() <= len(frame) for c in others)


def _may_name(texts: pd.Series[str]) -> bool:
    """Whether a column may name detectors: it varies, is mostly filled, and names no metrics."""
    filled = len(texts.unique()) > 1 and 2 * sum(map(is_gap, texts)) < len(texts)
    worded = share(texts, lambda text: any(map(str.isalpha, text))) > 0.5  # not 2/3
    named = max(share(texts, _is_metric), share(texts, is_average))  # near, far
    return filled and worded and named < 0.5 and not are_checkpoints(texts.unique())


def _known_detectors(frame: pd.DataFrame, free: Sequence[str]) -> str | None:
    """Return the column that holds most names of detectors, if at least every second is one."""
    sure = [c for c in free if any(map(is_surely_detector, frame[c].unique()))]
    known = {column: share(frame[column], is_detector) for column in sure}
    best = max(known, key=known.__getitem__, default=None)
    return best if best is not None and known[best] >= 0.5 else None


def _only_one(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str:
    """Return the column that can only be that of the detectors, or ask."""
    wide = wide_names(roles)
    untitled = [column for column in free if _is_untitled(column)]
    if len(free) > 1 and len(untitled) == 1 and are_data(wide):
        return untitled[0]
    if len(free) > 1:
        raise which_column(frame, free, roles)
    if len(wide) > 1 and not are_data(wide) and not roles.wide:
        raise which_axis(frame, free[0], roles)
    names = [str(name) for name in frame[free[0]].unique()]
    heading = free[0].endswith(SECTION) and roles.id is None and roles.ood is None
    unsure = any(map(is_data, names)) if _is_untitled(free[0]) else heading
    if unsure and not any(map(_is_compared, names)):
        raise models_or_data(names, free[0], roles)
    return free[0]


def _is_compared(name: str) -> bool:
    return is_detector(name) or is_model(name)


def _beside_numbers(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str | None:
    """Return the column of names beside columns that are numbered: runs of each."""
    named = _by_model_title(frame, free, roles)
    free = [column for column in free if not is_about_data(frame, column)]
    if named is not None or not free or roles.ood or roles.id:
        return named or next(iter(free), None)
    unnamed = unnamed_option(roles)
    raise UserError(
        f"Columns are numbered like runs: if '{free[0]}' names detectors or models, use "
        f"{roles.option(detector=free[0], **unnamed)}{or_lower(roles)}; if it names the data sets "
        "of one model, there is nothing to compare."
    )


def _by_model_title(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str | None:
    """Return the column whose title says that it names models, where none names detectors."""
    wide = [] if are_runs(wide_names(roles)) else wide_names(roles)
    titles = {plain(column): column for column in (*roles.factors, *free)}
    titles = {title: c for title, c in titles.items() if len(frame[c].unique()) > 1}
    allowed = (*MODEL_TITLES, *(() if wide and not are_data(wide) else ARCHITECTURE_TITLES))
    known = [titles[title] for title in allowed if title in titles]
    if len(known) > 1 and plain(known[0]) in ARCHITECTURE_TITLES:
        raise which_column(frame, known, roles)
    found = next(iter(known), None)
    if found is not None:
        require_no_rivals(frame, found, free, roles)
    if found in roles.factors:
        if all(text.isdigit() for text in frame[found].unique()):
            return None
        roles.factors.remove(found)
    return found


def _metric(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> str | None:
    """Return the column that names the metric of each line, unless the titles name it."""
    if any(map(metric_named, roles.measured)):
        return None
    known = [c for c in free if any(map(_is_metric, frame[c].unique()))]
    return next((c for c in known if share(frame[c], _may_be_metric) == 1.0), None)


def _may_be_metric(text: str) -> bool:
    return _is_metric(text) or text.endswith(("↑", "↓"))  # Risk@90 ↓


def _is_metric(text: str) -> bool:
    if text.count(" ") > _MOST_SPACES:
        return False
    stated = _STATED.match(text)
    metric = metric_named(stated[1] if stated else text)
    if stated and metric:
        return True
    return bool(metric) and (metric not in GENERAL or not without_metric(text))


def _find_sets(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> None:
    """Find the ID set and the outlier set of each line."""
    free = [column for column in free if not is_pretraining(column)]
    free = [c for c in free if plain(c) not in ARCHITECTURE_TITLES]  # a backbone of ImageNet
    sets = [column for column in free if share(frame[column], is_set) >= 0.5]
    wide = wide_names(roles)
    if are_runs(wide):
        wide = []
        _sets_beside_numbers(frame, free, roles)
    if wide and mostly(wide, is_set):
        if roles.id is None and (roles.ood is not None or len(sets) == 1):
            part_sets(frame, roles.ood or sets[0], roles)
            return
    elif roles.ood is None and len(sets) == 1:
        roles.ood = sets[0]
        return
    elif roles.ood is None and roles.id is None and part_columns(frame, sets, roles):
        return
    if roles.id is None and SECTION in sets:
        roles.id = SECTION
    elif roles.ood is None and roles.id is None and not (len(wide) > 1 and roles.detector):
        roles.ood = _about_data(frame, free, roles, is_wide=bool(wide))


def _sets_beside_numbers(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> None:
    """Take the only other column for the data sets, where titles merely number runs, or ask."""
    if not roles.detector or len(free) != 1 or roles.id or roles.ood:
        return
    title = plain(column := free[0])
    if title in {*TITLES, *LABELS, *OPTIMIZERS, *ARCHITECTURE_TITLES} or mentions_setting(column):
        return
    named = is_about_data(frame, column) or title in WEAK_SET_TITLES or _is_untitled(column)
    if not named and not any(map(is_data, frame[column].unique())):
        raise UserError(
            f"Does '{column}' name data sets ({roles.option(id=column)}) or conditions "
            f"({roles.option(condition=column)})?"
        )
    roles.ood = column


def _about_data(
    frame: pd.DataFrame, free: Sequence[str], roles: Roles, *, is_wide: bool
) -> str | None:
    """Return the column that says of which data lines are, by a weak title or as the only one."""
    free = [column for column in free if not _is_property(frame, column, roles)]
    weak = {plain(column): column for column in free}
    named = [c for c in free if _knows_data(frame[c])]
    if not named and roles.detector is not None:
        _require_one_set(frame, [weak[t] for t in WEAK_SET_TITLES if t in weak], free, roles)
    named += [weak[title] for title in WEAK_SET_TITLES if title in weak]
    untitled = [column for column in free if _is_untitled(column)]
    about = [column for column in free if is_wide and is_about_data(frame, column)]
    return next(iter([*named, *untitled, *about]), None)


def _require_one_set(
    frame: pd.DataFrame, weak: Sequence[str], free: Sequence[str], roles: Roles
) -> None:
    """Ask which column names the data sets, where a subset may be a part of those in another."""
    known = {*TITLES, *LABELS, *MODEL_TITLES, *ARCHITECTURE_TITLES}
    others = [c for c in free if c not in weak and plain(c) not in known]
    weak = [column for column in weak if len(frame[column].unique()) > 1]
    finer = [c for c in others if weak and frame[c].nunique() > max(2, frame[weak[0]].nunique())]
    finer = [c for c in finer if not mentions_setting(c) and not _words(c) & INCIDENTAL]
    if finer:
        first, second = finer[0], weak[0]
        raise UserError(
            f"Which column names the data sets: '{first}' ({frame[first].nunique()} names, "
            f"{roles.option(id=first)}) or '{second}' ({frame[second].nunique()} names, "
            f"{roles.option(id=second)})?"
        )


def _knows_data(texts: pd.Series[str]) -> bool:
    """Whether several names of a column are known as data sets, and none as a detector."""
    names = texts.unique()
    return sum(map(is_data, names)) >= _BENCHMARK > 4 * sum(map(is_detector, names))


def settle_sets(frame: pd.DataFrame, roles: Roles) -> None:
    """Say whether data sets are those that models are trained on, or outliers of one model."""
    if roles.id is not None or roles.sets == "id":
        return
    wide = wide_names(roles)
    if roles.wide in ("id", "ood"):
        roles.sets = "id" if roles.wide == "id" else "ood"
    elif roles.ood is None and roles.detector is not None and wide and not are_runs(wide):
        trained = are_trained_on(wide) or _are_trained_on(frame, roles, wide)
        roles.sets = "id" if trained else "ood"
    elif (
        roles.ood is None
        or plain(roles.ood) in OOD_TITLES - SET_TITLES
        or roles.ood in roles.chosen
    ):
        titled = [c for c in roles.factors if plain(c) in SET_TITLES and c not in roles.chosen]
        if roles.ood is not None and titled:
            roles.id = titled[0]
            roles.factors.remove(titled[0])
    elif _are_trained_on(frame, roles, frame[roles.ood].unique().tolist()):
        roles.id, roles.ood = roles.ood, None


def _is_property(frame: pd.DataFrame, column: str, roles: Roles) -> bool:
    """Whether a column tells of what kind each detector is: not where it was measured."""
    if roles.detector is None or min(frame[[column, roles.detector]].nunique()) < 2:
        return False
    return bool(frame.groupby(roles.detector)[column].nunique().max() < 2)


def _are_trained_on(frame: pd.DataFrame, roles: Roles, sets: Sequence[str]) -> bool:
    """Whether each data set has models of its own: by the metrics, then by the detectors."""
    metrics = {metric for metric, _ in roles.measured.values()}
    if roles.metric is not None:
        metrics = {metric_named(text) or "" for text in frame[roles.metric].unique()}
    names = detector_names(frame, roles)
    if metrics & _ONLY_OOD or any(is_posthoc(n) and is_surely_detector(n) for n in names):
        return False
    if metrics <= GENERAL | roles.own.keys() | {UNNAMED} or mostly(names, is_model):
        return True
    beside = {metric_named(column) for column in roles.ignored}
    if len(beside & _OF_DECISIONS) > 1:  # AUROC of classifiers, beside their precision and recall
        return True
    return not mostly(sets, is_set) and len(sets) >= _BENCHMARK


def detector_names(frame: pd.DataFrame, roles: Roles) -> list[str]:
    """Return the names of what is compared."""
    if roles.detector is not None:
        return [str(name) for name in frame[roles.detector].unique()]
    return wide_names(roles) if are_detectors(roles) else []


def _is_untitled(column: str) -> bool:
    return bool(re.fullmatch(r"column \d+|unnamed: ?\d+|", column.lower()))


def _words(title: str) -> set[str]:
    return {plain(word) for word in re.split(r"[\W_]+", title)}


def are_detectors(roles: Roles) -> bool:
    """Whether the titles of wide columns name detectors: known ones, or nothing else does."""
    titles = wide_names(roles)
    if roles.detector is not None or not titles or are_runs(titles):
        return False
    if roles.wide:
        return roles.wide == "detector"
    if roles.are_titles or mostly(titles, is_detector) or mostly(titles, is_model):
        return True
    return (roles.ood is not None or roles.id is not None) and len(titles) > 1
