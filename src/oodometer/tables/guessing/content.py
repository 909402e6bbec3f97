"""What columns hold whose titles do not say it: by the names in them, and by those above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import LABELS, OPTIMIZERS, TITLES, plain, words_of
from oodometer.tables.guessing.compared import find_compared, is_metric, is_untitled
from oodometer.tables.guessing.likeness import (
    are_runs,
    is_about_data,
    mostly,
    share,
    wide_names,
)
from oodometer.tables.guessing.roles import SECTION, UNNAMED, Roles
from oodometer.tables.guessing.sides import part_columns, part_sets
from oodometer.tables.vocabulary.costs import names_costs
from oodometer.tables.vocabulary.data_names import (
    are_trained_on,
    is_data,
    is_set,
    is_undisturbed,
)
from oodometer.tables.vocabulary.measures import GENERAL, base_metric, metric_named
from oodometer.tables.vocabulary.names import (
    is_detector,
    is_model,
    is_posthoc,
    is_surely_detector,
    what_is_chosen,
)
from oodometer.tables.vocabulary.others import without_mean_over_outliers
from oodometer.tables.vocabulary.titles import (
    ARCHITECTURE_TITLES,
    COMPARED_WORDS,
    INCIDENTAL,
    MODEL_TITLES,
    OOD_TITLES,
    SET_TITLES,
    WEAK_SET_TITLES,
    is_pretraining,
    mentions_setting,
)

if TYPE_CHECKING:
    import pandas as pd

_ONLY_OOD = frozenset(
    {"fpr95", "tnr95", "aupr_in", "detection_error", "detection_accuracy", "failure_auroc",
     "correct_auroc", "incorrect_auroc"}
)  # fmt: skip
_OF_CLASSIFIERS = frozenset({"calibration error", "NLL", "Brier score"})
_OF_DECISIONS = frozenset({"precision", "recall", "F1", "MCC", "specificity"})
_OF_KINDS = frozenset({"category", "categories", "groups"})  # of data sets, and of methods
_WITHIN_SETS = frozenset({"class", "classes", "subject", "patient"})  # parts of a data set
_BENCHMARK = 4  # data sets that nobody takes for outliers, from which on they are a benchmark


def by_content(frame: pd.DataFrame, texts: list[str], roles: Roles) -> None:
    """Find the detector and the outlier set among text columns that no title explains."""
    free = [column for column in _free(texts, roles) if column != roles.metric]
    if roles.detector is None:
        roles.detector = find_compared(frame, free, roles)
    _find_sets(frame, [column for column in free if column != roles.detector], roles)


def _free(texts: Sequence[str], roles: Roles) -> list[str]:
    free = [c for c in texts if c not in roles.factors and not names_costs(c)]
    return [c for c in free if (metric_named(c) or "") in {"", *GENERAL}]  # shifted by a cell


def metric_of_lines(frame: pd.DataFrame, texts: Sequence[str], roles: Roles) -> str | None:
    """Return the column that names the metric of each line, unless the titles name it."""
    free = _free(texts, roles)
    if any(metric_named(c) == base_metric(metric) for c, (metric, _) in roles.measured.items()):
        return None  # not DE among other names of detectors
    known = [c for c in free if any(map(is_metric, frame[c].unique()))]
    return next((c for c in known if share(frame[c], _may_be_metric) == 1.0), None)


def _may_be_metric(text: str) -> bool:
    # Risk@90 ↓, and what is known but not read: FPR80
    return is_metric(text) or text.endswith(("↑", "↓")) or metric_named(text) == ""


def _find_sets(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> None:
    """Find the ID set and the outlier set of each line."""
    free = [column for column in free if not is_pretraining(column)]
    free = [c for c in free if plain(c) not in ARCHITECTURE_TITLES]  # a backbone of ImageNet
    sets = [column for column in free if share(frame[column], is_set) >= 0.5]
    wide = wide_names(roles)
    if are_runs(wide):
        wide = []
        _sets_beside_numbers(frame, free, roles)
        sets = [column for column in sets if column != roles.ood]
    if wide and mostly(wide, is_set):
        if roles.id is None and (roles.ood is not None or len(sets) == 1):
            part_sets(frame, roles.ood or sets[0], roles)
            return
    elif roles.ood is None and len(sets) == 1:
        roles.ood = sets[0]
        return
    elif roles.ood is None and roles.id is None and part_columns(frame, sets, roles):
        return
    elif roles.id is None and roles.ood is not None and _is_other_set(frame, sets):
        roles.id = sets[0]
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
    named = is_about_data(frame, column) or title in WEAK_SET_TITLES or is_untitled(column)
    if not named and not any(map(is_data, frame[column].unique())):
        raise UserError(
            f"Does '{column}' name data sets ({roles.option(id=column)}) or conditions "
            f"({roles.option(condition=column)})?"
        )
    roles.ood = column


def _is_other_set(frame: pd.DataFrame, sets: Sequence[str]) -> bool:
    """Whether one other column names data, and not the same of all lines, as settings do."""
    return len(sets) == 1 and len(frame[sets[0]].unique()) > 1


def _about_data(
    frame: pd.DataFrame, free: Sequence[str], roles: Roles, *, is_wide: bool
) -> str | None:
    """Return the column that says of which data lines are, by a weak title or as the only one."""
    free = [column for column in free if not _is_property(frame, column, roles)]
    weak = {plain(column): column for column in free}
    named = [c for c in free if _knows_data(frame[c])]
    if roles.detector is not None:  # so that names of data cannot be what is compared
        named += [c for c in free if len(frame[c].unique()) > 1 and share(frame[c], is_data) == 1]
    if not named and roles.detector is not None:
        _require_one_set(frame, [weak[t] for t in WEAK_SET_TITLES if t in weak], free, roles)
    named += [weak[title] for title in WEAK_SET_TITLES if title in weak]
    untitled = [c for c in free if is_untitled(c) and not any(map(is_undisturbed, frame[c]))]
    untitled = [c for c in untitled if not what_is_chosen(frame[c].unique().tolist())]
    about = [column for column in free if is_wide and is_about_data(frame, column)]
    about = [column for column in about if plain(column) not in _WITHIN_SETS]
    return next(iter([*named, *untitled, *about]), None)


def _require_one_set(
    frame: pd.DataFrame, weak: Sequence[str], free: Sequence[str], roles: Roles
) -> None:
    """Ask which column names the data sets, where a subset may be a part of those in another."""
    known = {*TITLES, *LABELS, *MODEL_TITLES, *ARCHITECTURE_TITLES}
    others = [c for c in free if c not in weak and plain(c) not in known]
    weak = [column for column in weak if len(frame[column].unique()) > 1]
    finer = [c for c in others if weak and frame[c].nunique() > max(2, frame[weak[0]].nunique())]
    finer = [c for c in finer if not mentions_setting(c)]
    finer = [c for c in finer if not words_of(c) & (INCIDENTAL | COMPARED_WORDS)]
    if finer:
        first, second = finer[0], weak[0]
        raise UserError(
            f"Which column names the data sets: '{first}' ({frame[first].nunique()} names, "
            f"{roles.option(id=first)}) or '{second}' ({frame[second].nunique()} names, "
            f"{roles.option(id=second)})? If neither does, use "
            f"{roles.option(condition=f'{first}, condition={second}')}."
        )


def _knows_data(texts: pd.Series[str]) -> bool:
    """Whether several names of a column are known as data sets, and none as a detector."""
    names = texts.unique()
    return sum(map(is_data, names)) >= _BENCHMARK > 4 * sum(map(is_detector, names))


def settle_sets(frame: pd.DataFrame, roles: Roles) -> None:
    """Say whether data sets are those that models are trained on, or outliers of one model."""
    if _is_of_each_model(frame, roles):
        roles.factors.append(str(roles.id))
        roles.id = None
    if roles.wide in ("id", "ood"):
        _leave_to_titles(roles)
        return
    if roles.id is not None or roles.sets == "id":
        return
    wide = wide_names(roles)
    if roles.ood is None and roles.detector is not None and wide and not are_runs(wide):
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
    elif _are_id_sets(frame, roles, frame[roles.ood].unique().tolist()):
        roles.id, roles.ood = roles.ood, None


def _leave_to_titles(roles: Roles) -> None:
    """Take a column of data sets for those of the other role, as the titles have this one."""
    roles.sets = "id" if roles.wide == "id" else "ood"
    column, other = (roles.id, "ood") if roles.sets == "id" else (roles.ood, "id")
    if column is None or column in roles.chosen:
        return
    setattr(roles, roles.sets, None)
    if getattr(roles, other) is None:
        setattr(roles, other, column)
    else:
        roles.factors.append(column)


def _is_of_each_model(frame: pd.DataFrame, roles: Roles) -> bool:
    """Whether what models were trained on tells of each of them, where all have one line each.

    They are compared all the same: on the data that the table is about.
    """
    column, named = roles.id, roles.detector
    if column is None or named is None or column in roles.chosen or named in roles.chosen:
        return False
    trained = any(word.startswith("train") for word in words_of(column))
    return trained and roles.ood is None and frame[named].is_unique


def _are_id_sets(frame: pd.DataFrame, roles: Roles, sets: Sequence[str]) -> bool:
    """Whether a column holds ID sets: by what titles say of its numbers, by its names or others."""
    over_outliers = [without_mean_over_outliers(column) != column for column in roles.measured]
    of_classes = ["classification" in words_of(column) for column in roles.measured]
    said = all(over_outliers) or all(of_classes) or are_trained_on(sets)
    return said or _are_trained_on(frame, roles, sets)


def _is_property(frame: pd.DataFrame, column: str, roles: Roles) -> bool:
    """Whether a column tells of what kind each detector is: not where it was measured.

    If each detector has a task of its own, it was measured there only.
    """
    if roles.detector is None or min(frame[[column, roles.detector]].nunique()) < 2:
        return False
    as_many = frame[column].nunique() == frame[roles.detector].nunique()
    if as_many and plain(column) in WEAK_SET_TITLES and plain(column) not in _OF_KINDS:
        return False
    return bool(frame.groupby(roles.detector)[column].nunique().max() < 2)


def are_of_classifiers(frame: pd.DataFrame, roles: Roles) -> bool:
    """Whether a table without names of data sets is about classifiers, not about outliers."""
    return _are_trained_on(frame, roles, ())


def _are_trained_on(frame: pd.DataFrame, roles: Roles, sets: Sequence[str]) -> bool:
    """Whether each data set has models of its own: by the metrics, then by the detectors."""
    metrics = {metric for metric, _ in roles.measured.values()}
    if roles.metric is not None:
        metrics = {metric_named(text) or "" for text in frame[roles.metric].unique()}
    if metrics and metrics <= _OF_CLASSIFIERS:  # whatever is known of temperature scaling
        return True
    names = detector_names(frame, roles)
    if metrics & _ONLY_OOD or any(is_posthoc(n) and is_surely_detector(n) for n in names):
        return False
    if metrics <= GENERAL | roles.own.keys() | {UNNAMED} or mostly(names, is_model):
        return True
    beside = {metric_named(column) for column in roles.ignored}
    decisions = {*_OF_DECISIONS, "accuracy"} if beside & _OF_DECISIONS else _OF_DECISIONS
    if len(beside & decisions) > 1:  # AUROC of classifiers, beside their precision and recall
        return True
    return not mostly(sets, is_set) and len(sets) >= _BENCHMARK


def detector_names(frame: pd.DataFrame, roles: Roles) -> list[str]:
    """Return the names of what is compared."""
    if roles.detector is not None:
        return [str(name) for name in frame[roles.detector].unique()]
    return wide_names(roles) if are_detectors(roles) else []


def are_detectors(roles: Roles) -> bool:
    """Whether the titles of wide columns name detectors: known ones, or nothing else does."""
    titles = wide_names(roles)
    if roles.detector is not None or not titles or are_runs(titles):
        return False
    if roles.wide:
        return roles.wide == "detector"
    if all(map(str.isdigit, titles)):  # 20, 40: how many classes, or epochs
        return False
    if roles.are_titles or mostly(titles, is_detector) or mostly(titles, is_model):
        return True
    return (roles.ood is not None or roles.id is not None) and len(titles) > 1
