"""Columns of results whose titles name a metric: values, means, spreads and qualified metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from oodometer.factors import plain, words_of
from oodometer.tables.cells import numeric_share, value_of
from oodometer.tables.guessing.alternatives import require_detection
from oodometer.tables.guessing.gains import beside_statistic, is_one_of
from oodometer.tables.guessing.likeness import are_runs, is_mean_of, mostly
from oodometer.tables.guessing.metric_titles import named_metrics, statistic_of
from oodometer.tables.guessing.questions import mean_of_one
from oodometer.tables.guessing.roles import MEAN_OF_OTHERS, OTHER_STATISTIC, Roles, role_of
from oodometer.tables.vocabulary.data_names import is_data, is_set
from oodometer.tables.vocabulary.groups import is_group
from oodometer.tables.vocabulary.measures import (
    GENERAL,
    MEASURES,
    OF_SERIES,
    main_first,
    without_metric,
)
from oodometer.tables.vocabulary.names import is_compared, is_detector
from oodometer.tables.vocabulary.statistics import (
    INSIDE,
    MEANS,
    SUMMARIES,
    is_average,
    is_qualifier,
)
from oodometer.tables.vocabulary.titles import COVARIATE_TITLES, ID_TITLES, OOD_TITLES

if TYPE_CHECKING:
    import pandas as pd

OTHER_METRIC = "another kind of metric"
WHOSE_SPREAD = "spread of other numbers"
REPORTED = "as others report it"
_PAPER = frozenset({"paper", "papers", "reported", "published"})
_OWN = frozenset(
    {"our", "ours", "own", "run", "reproduced", "reproduction", "repro", "measured",
     "implementation", "this", "repo"}
)  # fmt: skip
_MOST_PARTS = 10  # columns of which some may have a mean
_MOST_ROWS = 1000  # that tell whether a column is a mean of others
_SEVERAL = 3  # results of one metric, beside which a mean is over some of them
_SETS = OOD_TITLES | ID_TITLES
_TRAINING = re.compile(r"(?i)(?<![^\W_])train(?:ing)?(?![^\W_])")
_CUTOFF = re.compile(r"(?i)(?:@|_at_?)\s*(\d+)(?![^\W_]|\.)")  # of a ranking: precision@5
_FORMS = frozenset({"micro", "weighted"})  # beside which macro is another form, not a mean
_Named = dict[str, tuple[str, str]]  # column -> metric, or which statistic, of what


def titled_results(
    frame: pd.DataFrame, columns: list[str], roles: Roles, default: str | None
) -> list[str]:
    """Find the columns whose titles name a metric, and return the others.

    `default` is the metric that the text around the table names.
    """
    named = named_metrics(frame, columns)
    general = _are_general(frame, {c: m for c, m in named.items() if m}, roles, default)
    found = _by_statistic(frame, named, roles, general)
    kinds = {statistic: _with_cutoffs(columns, roles) for statistic, columns in found.items()}
    _leave_out_reported(kinds, roles)
    require_detection(kinds["value"] | kinds["mean"], roles)
    roles.measured |= kinds["value"]
    _choose_bests(roles, kinds["best"])
    _choose_means(frame, roles, kinds["mean"], kinds["spread"])
    if roles.wide != "condition":  # else all words tell levels apart, as the user says
        _part_qualifiers(roles, kinds["spread"])
        _name_qualified(roles, kinds["spread"])
    _name_others(roles, kinds["spread"])
    _drop_common_word(roles, kinds["spread"], {plain(column) for column in frame.columns})
    for column, key in kinds["spread"].items():
        owner = next((c for c, known in roles.measured.items() if known == key), None)
        if owner is None:
            roles.ignored[column] = WHOSE_SPREAD
        else:
            roles.spreads[owner] = column
    used = {*roles.measured, *roles.ignored, *kinds["spread"]}
    return [column for column in columns if column not in used]


def _by_statistic(
    frame: pd.DataFrame, named: Mapping[str, str], roles: Roles, general: bool
) -> dict[str, _Named]:
    """Tell values, means, spreads and best values apart; leave out what is not to be read."""
    kinds: dict[str, _Named] = {"value": {}, "mean": {}, "spread": {}, "best": {}}
    chosen = {metric for metric, _ in roles.measured.values()}
    said: _Named = {c: statistic_of(c) for c in named}
    inside = {metric for c, metric in named.items() if plain(said[c][1]) in INSIDE}
    alike = {m: {c: said[c] for c in named if named[c] == m} for m in {*named.values()}}
    for column, metric in named.items():
        statistic, what = statistic_of(column, beside_inside=metric in inside)
        if metric == "" or (metric in GENERAL - OF_SERIES and not general):
            if plain(column) not in COVARIATE_TITLES:
                roles.ignored[column] = OTHER_METRIC
        elif metric in chosen:
            roles.ignored[column] = f"--columns names {metric}"
        elif statistic not in kinds and _is_named(frame, column, alike[metric]):
            kinds["value"][column] = (metric, what)
        elif statistic == "mean" and _is_called_mean(frame, column, alike[metric]):
            kinds["value"][column] = (metric, without_metric(column))
        elif statistic not in kinds:
            roles.ignored[column] = OTHER_STATISTIC
        else:
            kinds[statistic][column] = (metric, what)
    return kinds


def _leave_out_reported(kinds: Mapping[str, _Named], roles: Roles) -> None:
    """Leave out what a paper reports beside own numbers of the same: AUROC (paper), AUROC (ours).

    Beside titles that name methods, "ours" is one of these, too.
    """
    titled = [own for found in kinds.values() for own in found.values()]
    own = [(metric, what) for metric, what in titled if not words_of(what) & _PAPER]
    beside = {(metric, frozenset(words_of(what) - _OWN)) for metric, what in own}
    methods = any(is_detector(what) for _, what in own if not words_of(what) & _OWN)
    if len(own) == len(titled):
        return
    for found in kinds.values():
        for column, (metric, what) in [*found.items()]:
            words = words_of(what)
            if words <= _PAPER | _OWN and methods:
                continue
            if words & _PAPER and (metric, frozenset(words - _PAPER)) in beside:
                roles.ignored[column] = REPORTED
                del found[column]
            elif words and words <= _OWN:
                found[column] = (metric, "")


def _is_named(frame: pd.DataFrame, column: str, alike: _Named) -> bool:
    """Whether what is called like a statistic, such as Delta, is one of those with results.

    So is what has a name of its own, such as Max Logit; SVHN max is the maximum on SVHN.
    """
    what = alike[column][1]
    words = [word for word in what.split() if not is_qualifier(word)]
    others = {c: said for c, said in alike.items() if said[1] and c != column}
    own = beside_statistic(what)
    is_name = bool(own) and own not in {beside_statistic(other) for _, other in others.values()}
    if plain("".join(words)) not in SUMMARIES and not is_name:
        return False
    results = [c for c, (kind, _) in others.items() if kind != "other"]
    return is_detector(what) or is_one_of(frame, column, results)


def _is_called_mean(frame: pd.DataFrame, column: str, alike: _Named) -> bool:
    """Whether what ends in a word for means, such as 10-NN mean, is one of those with results."""
    what = alike[column][1]
    if not what or is_average(what) or plain(without_metric(column).split()[-1]) not in MEANS:
        return False
    if any(kind != "value" and c != column for c, (kind, _) in alike.items()):
        return False
    frame = frame.head(_MOST_ROWS)
    others = [c for c, (kind, said) in alike.items() if kind == "value" and said]
    if len(others) > _MOST_PARTS or not is_one_of(frame, column, others):
        return False
    table = {c: np.array([value_of(text) for text in frame[c]]) for c in (column, *others)}
    sizes = range(2, len(others) + 1)
    parts = (part for size in sizes for part in combinations(others, size))
    means = (np.mean([table[c] for c in part], axis=0) for part in parts)
    return not any(np.allclose(mean, table[column], rtol=0.002) for mean in means)


def _are_general(
    frame: pd.DataFrame, named: Mapping[str, str], roles: Roles, default: str | None
) -> bool:
    """Whether accuracy and such are what a table is about, and not about its classifiers."""
    chosen = {metric for metric, _ in roles.measured.values()}
    if any(m not in GENERAL for m in (*named.values(), *(chosen - set(roles.own)))):
        return False
    if chosen & (GENERAL | set(roles.own)):
        return True
    numbers = (c for c in frame.columns if c not in named and numeric_share(frame[c]) > 0.5)
    beside = {statistic_of(c)[1] for c in numbers}  # SVHN of SVHN_mean and SVHN_std
    of_sets = sum(is_set(what) or is_detector(what) or is_group(what) for what in beside)
    return (default is None or default in GENERAL) and of_sets < 2


def _choose_bests(roles: Roles, bests: _Named) -> None:
    """Take the best of several looks for a result only where no other is stated on such data."""
    named = {m for m, what in roles.measured.values() if not _TRAINING.search(what)}
    for column, (metric, what) in bests.items():
        if metric in named:
            roles.ignored[column] = OTHER_STATISTIC
        else:
            roles.measured[column] = (metric, what)


def _choose_means(frame: pd.DataFrame, roles: Roles, means: _Named, spreads: _Named) -> None:
    """Take means over other columns for results only where there are no such columns.

    A mean whose spread stands beside it is one over runs, unless it may be over several columns.
    """
    named = {metric for metric, _ in roles.measured.values()}
    of_sets = Counter(
        m for m, w in roles.measured.values() if w and not is_qualifier(w, of_sets=True)
    )
    groups = {metric for metric, what in means.values() if is_average(what)}
    for column, (metric, what) in list(roles.measured.items()):
        if of_sets[metric] > 1 and not what and _may_be_mean(frame, column, metric, roles):
            del roles.measured[column]
            roles.ignored[column] = MEAN_OF_OTHERS
    several = Counter(metric for metric, what in roles.measured.values() if what)
    said: dict[str, list[str]] = {metric: [] for metric, _ in means.values()}
    for metric, what in roles.measured.values():  # before means are added
        said.setdefault(metric, []).append(what)
    for column, (metric, what) in means.items():
        _require_several(column, metric, what, roles)
        of_a_set = bool(what) and not is_average(what) and several[metric] < _SEVERAL
        of_a_set |= is_group(what) and several[metric] == 1  # beside in-distribution data alone
        beside = {plain(other) for name, other in roles.measured.values() if name == metric}
        of_a_set |= plain(what) == "macro" and len(beside) == 1 and beside <= _FORMS
        of_form = plain(what) == "macro" and words_of(column).isdisjoint(MEANS)  # Test macro-F1
        of_a_set |= of_form and all("macro" in words_of(other) for other in said[metric])
        of_a_set |= (metric, what) in spreads.values() and several[metric] < _SEVERAL
        if of_a_set or (metric not in named and (what or metric not in groups)):
            roles.measured[column] = (metric, what)
        else:
            roles.ignored[column] = MEAN_OF_OTHERS


def _require_several(column: str, metric: str, what: str, roles: Roles) -> None:
    """Ask what decides where all of something stands beside a part of it: ECE (all), ECE (sure).

    No mean is that of one column, so that it is none.
    """
    others = [c for c, (own, said) in roles.measured.items() if own == metric and said]
    if plain(what) == "all" and len(others) == 1:
        raise mean_of_one(column, others[0], role_of(metric))


def _may_be_mean(frame: pd.DataFrame, column: str, metric: str, roles: Roles) -> bool:
    """Whether a bare metric is the mean of those beside it: over data sets, or by its numbers."""
    parts = {c: what for c, (m, what) in roles.measured.items() if m == metric and what}
    of_sets = mostly(list(parts.values()), _is_name)
    return metric not in GENERAL and (of_sets or is_mean_of(frame, column, list(parts)))


def _with_cutoffs(named: _Named, roles: Roles) -> _Named:
    """Take precision@5 and precision@10 for two metrics, not for one on two data sets."""
    times = Counter(named.values())
    found = dict(named)
    for column, (metric, what) in named.items():
        cut = _CUTOFF.search(column)
        bare = not what and times[metric, what] > 1  # pass@1, pass@8
        of_first = metric == "accuracy" and cut is not None and cut[1] == "1"
        if of_first:  # among one guess: accuracy itself, which people mean by it
            found[column] = (metric, what.removesuffix("1").rstrip())
        elif metric in GENERAL and cut is not None and (what == cut[1] or bare):
            name = f"@{cut[1]} {metric}"
            roles.own[name] = MEASURES[metric]._replace(name=name)
            found[column] = (name, "")
    return found


def _part_qualifiers(roles: Roles, spreads: _Named) -> None:
    """Take SVHN clean and SVHN robust accuracy for two metrics on SVHN, not for one on two sets."""
    parts: dict[tuple[str, str], tuple[str, str]] = {}
    for metric, what in roles.measured.values():
        of_sets = metric not in GENERAL  # on image level and on pixel level; "clean" may be a set
        words = what.split()
        forms_in = [w for w in words if plain(w) and is_qualifier(w, of_sets=of_sets)]
        form = " ".join(forms_in).casefold()
        rest = " ".join(word for word in words if word not in forms_in)
        if form and rest:
            parts[metric, what] = f"{form} {metric}", rest
    forms = Counter((metric, rest) for (metric, _), (_, rest) in parts.items())
    bare = {*roles.measured.values()} - parts.keys()
    of_all = bool(parts) and bare == {*forms}  # SVHN accuracy and SVHN robust accuracy, of each set
    if max(forms.values(), default=0) < 2 and not of_all:
        _forget_form(roles, spreads, parts)
        return
    for (metric, _), (name, _) in parts.items():
        roles.own[name] = MEASURES[metric]._replace(name=name)
    for columns in (roles.measured, spreads):
        columns |= {c: parts[key] for c, key in columns.items() if key in parts}


def _forget_form(
    roles: Roles, spreads: _Named, parts: Mapping[tuple[str, str], tuple[str, str]]
) -> None:
    """Take "macro" out of what titles name, where all of a metric have it: SVHN macro F1."""
    for metric in {metric for metric, _ in parts}:
        own = [key for key in roles.measured.values() if key[0] == metric]
        if len(own) > 1 and len({parts[key][0] if key in parts else "" for key in own}) == 1:
            for columns in (roles.measured, spreads):
                columns |= {c: (metric, parts[key][1]) for c, key in columns.items() if key in own}


def _name_qualified(roles: Roles, spreads: _Named) -> None:
    """Take clean and robust accuracy for two metrics, not for one on two data sets."""
    known = dict.fromkeys(key for key in roles.measured.values() if key[0] not in roles.own)
    names: dict[tuple[str, str], str] = {}
    for metric in dict.fromkeys(metric for metric, _ in known):
        whats = [what for own, what in known if own == metric]
        mixed = metric in GENERAL and _are_forms(whats)
        sets = {what for what in whats if what and not is_qualifier(what)}
        for what in filter(None, whats):
            of_sets = len(sets) - (what in sets) > 1 and not mixed
            alone = metric in GENERAL and not is_set(what) and len(whats) == 1
            if alone or mixed or is_qualifier(what, of_sets=of_sets):
                names[metric, what] = f"{what.casefold()} {metric}" if len(whats) > 1 else metric
    roles.own |= {n: MEASURES[m]._replace(name=n) for (m, _), n in names.items() if n != m}
    for columns in (roles.measured, spreads):
        columns |= {c: (names[key], "") for c, key in columns.items() if key in names}


def _name_others(roles: Roles, spreads: _Named) -> None:
    """Take words for names of minor metrics, not of what is compared, where the main has none.

    Such are rel_adj_error and rel_feat_error beside accuracy.
    """
    keys = list(roles.measured.values())
    main = next(iter(main_first(metric for metric, _ in keys)), None)
    words = [what for _, what in keys if what]
    settled = roles.wide or roles.chosen or any(what for metric, what in keys if metric == main)
    if settled or any(_is_name(word) for word in words):
        return
    names = {(metric, what): f"{what.casefold()} {metric}" for metric, what in keys if what}
    roles.own |= {n: roles.measure(metric)._replace(name=n) for (metric, _), n in names.items()}
    for columns in (roles.measured, spreads):
        columns |= {c: (names[key], "") for c, key in columns.items() if key in names}


def _is_name(word: str) -> bool:
    return is_data(word) or is_compared(word) or are_runs([word, word])


def _are_forms(whats: Sequence[str]) -> bool:
    """Whether words tell forms of a metric apart: clean and robust, or with and without flips."""
    if any(map(is_set, whats)):
        return False
    said = [what for what in whats if what]
    pair = len(whats) == 2 and len(said) == 1 and "+" in said[0]
    words = [re.split(r"[\W_]+", what) for what in said]
    common = set.intersection(*map(set, words)) if len(words) > 1 else set()
    words = [[word for word in parts if word not in common] for parts in words]
    qualified = sum(any(is_qualifier(w) for w in parts if w) for parts in words)
    return pair or (len(said) > 1 and 2 * qualified > len(said))


def _drop_common_word(roles: Roles, spreads: _Named, titles: Collection[str]) -> None:
    """Forget a word that all results share, such as true_auc and true_ap beside data sets."""
    words = {what for _, what in roles.measured.values()}
    word = words.pop() if len(words) == 1 else ""
    if word and not is_set(word) and not _SETS.isdisjoint(titles):
        for columns in (roles.measured, spreads):
            columns |= {c: (metric, "") for c, (metric, what) in columns.items() if what == word}
