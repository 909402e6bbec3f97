"""Columns of one metric that may be forms of it, or results on other data: asked about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from oodometer.errors import UserError
from oodometer.factors import plain, words_of
from oodometer.tables.cells import value_of
from oodometer.tables.guessing.forms import STATES, is_form, listed
from oodometer.tables.guessing.likeness import is_mean_of, mostly, wide_names
from oodometer.tables.guessing.questions import which_column
from oodometer.tables.guessing.roles import ALL, MEAN_OF_OTHERS, UNNAMED, Roles, role_of
from oodometer.tables.guessing.stated import stated_direction
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.measures import (
    base_metric,
    main_first,
    metric_named,
    without_metric,
)

if TYPE_CHECKING:
    import pandas as pd

    from oodometer.results import Results

_SHOWN = 3  # columns that a question names
_ROUNDED = 1e-4  # by which the difference of two rounded shares may be off
_FEWEST = 3  # lines on which a reference is the same, metrics that make a table of metrics
_OVER_ALL = "over the data that other columns are about"  # why a column is not used
_OTHERWISE = "about something else than the column that decides"
_LEVELS = frozenset({"image", "pixel"})  # of which an AUROC is
_SHORT = {"px": "pixel", "pix": "pixel", "sp": "image", "img": "image"}  # sp: of samples
_CLASSES = frozenset({"class", "classes", "digit", "digits", "oneclass", "normal"})
_RUNS = frozenset({"seed", "seeds", "run", "runs", "fold", "folds", "trial", "trials"})
_ONE_SIDED = frozenset({"precision", "recall", "specificity"})
_AT_RANK = re.compile(r"(\S*@\d+)(\s\S)?")  # of a ranking: R@5, recall@10 de
_ATTACKS = frozenset(
    {"mia", "membership", "attack", "attacker", "inference", "privacy", "leakage", "adversary"}
)


def require_detection(named: Mapping[str, tuple[str, str]], roles: Roles) -> None:
    """Ask which is better where an AUROC is that of an attack, which should fail."""
    for column, (metric, what) in named.items():
        if metric == "auroc" and not _ATTACKS.isdisjoint(map(plain, what.split())):
            raise UserError(
                f"'{column}' seems to be the AUROC of an attack: say which is better with "
                f"{roles.option(lower=column)} or {roles.option(higher=column)}, or name another "
                "column."
            )


def require_alike(frame: pd.DataFrame, roles: Roles) -> None:
    """Ask about titles that tell other tasks, ranks or conditions apart than data sets would."""
    _require_one_level(roles)
    _require_lines_of_one_level(frame, roles)
    _require_one_cutoff(roles)
    _require_no_states(roles)
    _require_no_reference(frame, roles)
    _require_no_contest(frame, roles)


def _require_one_level(roles: Roles) -> None:
    """Ask which columns count, where some are about images and others about their pixels.

    Such are "Ours (image-level)" and "Ours (pixel-level)": two tasks, not two detectors or sets.
    """
    if roles.wide or roles.metric is not None:
        return
    levels = {c: _levels_of(what) for c, (_, what) in roles.measured.items()}
    said = set().union(*levels.values())
    if said != _LEVELS or any(len(words) != 1 for words in levels.values()):
        return
    of = {word: [c for c, own in levels.items() if word in own] for word in sorted(_LEVELS)}
    images, pixels = of.values()
    options = [roles.option(ignore=", ignore=".join(others)) for others in (pixels, images)]
    raise UserError(
        f"'{images[0]}' and '{pixels[0]}' are results of different tasks: if those of images "
        f"count, use {options[0]}; if those of pixels do, {options[1]}."
    )


def _require_lines_of_one_level(frame: pd.DataFrame, roles: Roles) -> None:
    """Refuse to compare lines of which some are about images and others about their pixels."""
    roles_of = dict.fromkeys(roles.factors, "condition")
    if roles.detector is not None:
        roles_of[roles.detector] = "detector"
    for column, role in roles_of.items():
        if column in roles.chosen:
            continue
        levels = {name: _levels_of(name) for name in map(str, frame[column].unique())}
        first = {level: name for name, own in reversed(levels.items()) for level in own}
        if first.keys() == _LEVELS and all(len(own) == 1 for own in levels.values()):
            raise UserError(
                f"'{first['image']}' and '{first['pixel']}' are results of different tasks, images "
                "and pixels: give a table of one of them, or compare all lines nonetheless, with "
                f"{roles.option(**{role: column})}."
            )


def _levels_of(name: str) -> set[str]:
    """Return whether a name says that results are of images or of their pixels."""
    return {_SHORT.get(word, word) for word in words_of(name)} & _LEVELS


def settle_digits(roles: Roles, about: str) -> None:
    """Say what columns called 0 to 9 are, or ask: the classes of digits, or repeated runs.

    In one-class classification, models of its own are trained for each class.
    """
    if roles.wide or roles.detector is None or [*map(str, range(10))] != wide_names(roles):
        return
    words = words_of(about)
    if words & _CLASSES:
        roles.wide = roles.sets = "id"
    elif not words & _RUNS:
        raise UserError(
            "Columns are called 0 to 9: are these classes, each with models of its own "
            f"({roles.option(id=ALL)}), repeated runs ({roles.option(repeat=ALL)}), conditions "
            f"({roles.option(condition=ALL)}) or steps of the same runs "
            f"({roles.option(re_evaluation=ALL)})?"
        )


def require_two_sided(ordered: Sequence[str], results: Mapping[str, Results], roles: Roles) -> None:
    """Ask which metric decides, if each tells one side of decisions and they have other leaders.

    Whoever flags more has the higher recall and the lower precision.
    """
    sides = [metric for metric in ordered if base_metric(metric) in _ONE_SIDED]
    if not sides or sides[0] != ordered[0] or len({_leader(results[m]) for m in sides}) < 2:
        return
    columns = {metric: column for column, (metric, _) in reversed(roles.measured.items())}
    if roles.metric is not None or not columns.keys() >= set(sides):
        return
    options = " or ".join(roles.option(higher=columns[metric]) for metric in sides[:_SHOWN])
    raise UserError(
        f"{listed([columns[metric] for metric in sides])} have different leaders, and each tells "
        f"one side of the decisions only: say which decides, with {options}."
    )


def _leader(results: Results) -> str:
    """Return what has the highest mean over all lines."""
    return str(results.frame.groupby("detector")["value"].mean().idxmax())


def _require_one_cutoff(roles: Roles) -> None:
    """Ask which columns decide, where titles on several data sets end each ranking elsewhere.

    Such are R@1 and R@5 of images and of texts: of different metrics, not of as many data sets.
    """
    if roles.wide or roles.main or ALL in roles.chosen or roles.metric is not None:
        return
    main = base_metric(main_first(metric for metric, _ in roles.measured.values())[0])
    patterns: dict[str, list[str]] = {}
    for column, (metric, _) in roles.measured.items():
        if (cut := _AT_RANK.search(column)) and base_metric(metric) in (main, "recall", UNNAMED):
            patterns.setdefault(f"*{cut[1]}{' *' if cut[2] else ''}", []).append(column)
    ranks = {re.sub(r".*@", "", pattern) for pattern in patterns}
    if len(ranks) < 2 or max(map(len, patterns.values())) < 2:
        return
    shown = [own[0] for own in patterns.values()][:_SHOWN]
    options = " or ".join(roles.option(higher=pattern) for pattern in list(patterns)[:_SHOWN])
    raise UserError(
        f"{', '.join(map(repr, shown))} are different metrics: say which decides, with {options}."
    )


def _require_no_states(roles: Roles) -> None:
    """Ask what titles are that end in clean again and again, behind names that nobody knows.

    Such are C10 clean, C10 noisy and Clo clean: conditions of several data sets, not as many
    outlier sets. Where names are known, titles were parted before.
    """
    names = [what for _, what in roles.measured.values() if what]
    if roles.wide or roles.main or ALL in roles.chosen or mostly(names, is_data):
        return
    states = [name for name in names if " " in name and plain(name.split()[-1]) in STATES]
    if len(states) < 2 or len(states) == len(names):
        return
    raise UserError(
        f"Titles such as '{states[0]}' and '{states[1]}' seem to hold a data set and a condition: "
        f"use {roles.option(**{'id+condition': ALL})} if it is an ID set, "
        f"{roles.option(**{'ood+condition': ALL})} if it is an outlier set, or "
        f"{roles.option(ood=ALL)} if each title names an outlier set."
    )


def settle_overall(frame: pd.DataFrame, roles: Roles) -> None:
    """Leave out a column that is over all data beside those of its parts, or ask which decide.

    Such is "Accuracy" beside "Accuracy A" and "Accuracy B": it is not a third data set. If the
    user says that such a one decides, parts of other metrics are left out.
    """
    if roles.detector is None or roles.wide or roles.metric is not None:
        return
    main = main_first(metric for metric, _ in roles.measured.values())[0]
    chosen = [column for column in roles.measured if column in roles.chosen]
    parts_chosen = [c for c in chosen if metric_named(c) is not None and without_metric(c)]
    decides = bool(chosen) and not parts_chosen
    others = [metric for metric, _ in roles.measured.values() if metric not in roles.main]
    for metric in dict.fromkeys(others):
        own = {c: what for c, (m, what) in roles.measured.items() if m == metric}
        bare = [column for column, what in own.items() if not what]
        parts = [column for column, what in own.items() if what]
        if len(bare) != 1 or not parts:
            continue
        is_mean = is_mean_of(frame, bare[0], parts)
        if metric == main and not is_mean and not roles.main:
            held = "results" if metric == UNNAMED else metric
            over_all = _only(bare[0], parts, metric, roles)
            if len(parts) == 1:
                raise UserError(
                    f"'{bare[0]}' and '{parts[0]}' both hold {held}, of different data or in "
                    f"different forms: say which decides, with {over_all} or "
                    f"{_only(parts[0], bare, metric, roles)}."
                )
            shown = ", ".join(f"'{part}'" for part in parts[:_SHOWN])
            raise UserError(
                f"'{bare[0]}' may be over all the data that {shown} are about: use {over_all} if "
                f"it decides, or {roles.option(ignore=bare[0])} for the others as data sets."
            )
        why = _OTHERWISE if decides else MEAN_OF_OTHERS if is_mean else _OVER_ALL
        for column in parts if decides else bare:
            del roles.measured[column]
            roles.ignored[column] = why


def _only(column: str, others: Sequence[str], metric: str, roles: Roles) -> str:
    """Write the option by which one column decides, where the user may have said what all are."""
    if ALL in roles.chosen:
        return roles.option(ignore=", ignore=".join(others))
    return f"{roles.option(**{role_of(metric): column})}{' (or lower=)' * (metric == UNNAMED)}"


def _require_no_reference(frame: pd.DataFrame, roles: Roles) -> None:
    """Ask what is compared, where one of two columns is the same on every line: a reference.

    Such is the AUROC of the whole model beside those without each of its parts.
    """
    lines = roles.id or roles.ood
    if roles.detector is not None or roles.wide or roles.chosen or lines is None:
        return
    main = main_first(metric for metric, _ in roles.measured.values())[0]
    columns = [c for c, (metric, what) in roles.measured.items() if metric == main and what]
    same = [c for c in columns if len(frame[c].unique()) == 1]
    if len(frame) < _FEWEST or len(columns) != 2 or len(same) != 1:
        return
    other = next(c for c in columns if c not in same)
    role = role_of(main)
    raise UserError(
        f"'{same[0]}' is {frame[same[0]].iloc[0]} on every line: if the names in '{lines}' are "
        f"compared by '{other}', use {roles.option(detector=lines, **{role: other})}; if they are "
        f"data sets, on which the titles of columns are compared, {roles.option(detector=ALL)}."
    )


def _require_no_contest(frame: pd.DataFrame, roles: Roles) -> None:
    """Ask what is compared, where a column holds the difference of two others: these, perhaps.

    Such are the accuracies of two implementations of several models.
    """
    column = roles.detector
    if column is None or column in roles.chosen or roles.wide or roles.metric is not None:
        return
    main = main_first(metric for metric, _ in roles.measured.values())[0]
    two = {c: what for c, (metric, what) in roles.measured.items() if metric == main and what}
    said = [word for what in two.values() for word in what.split()]
    if len(two) != 2 or any(map(is_data, two.values())) or any(map(is_form, said)):
        return
    one, other = (np.array([value_of(text) for text in frame[c]]) for c in two)
    for left in (c for c in roles.ignored if c in frame.columns and c not in roles.chosen):
        difference = np.array([value_of(text) for text in frame[left]])
        if np.allclose(np.abs(difference), np.abs(one - other), atol=_ROUNDED, rtol=0.01):
            raise which_column(frame, [column], roles)


def require_agreeing_arrows(roles: Roles) -> None:
    """Ask which is better, where a title of the main metric says the contrary: AUROC ↓.

    It may be a slip, or another quantity, such as how much AUROC varies.
    """
    if roles.main or ALL in roles.chosen or roles.metric is not None:
        return
    main = main_first(metric for metric, _ in roles.measured.values())[0]
    higher = roles.measure(main).higher if main != UNNAMED else None
    columns = [column for column, (metric, _) in roles.measured.items() if metric == main]
    stated = {column: stated_direction(column) for column in columns}
    against = [column for column, said in stated.items() if said is (not higher)]
    if higher is None or not against or higher in stated.values():
        return
    role = role_of(main)
    slip = roles.option(**{role: f", {role}=".join(against)})
    other = roles.option(**{"lower" if higher else "higher": against[0]})
    raise UserError(
        f"'{against[0]}' says that {'lower' if higher else 'higher'} is better, but of {main} "
        f"{'higher' if higher else 'lower'} values are: use {slip} if that is a slip, or "
        f"{other} if the numbers are something else."
    )
