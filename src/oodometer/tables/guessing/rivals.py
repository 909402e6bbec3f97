"""Columns that may name what is compared beside one that seems to: asked about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import LABELS, OPTIMIZERS, TITLES, plain, words_of
from oodometer.tables.cells import numeric_share
from oodometer.tables.guessing.likeness import is_about_data, mostly, wide_names
from oodometer.tables.guessing.questions import which_column
from oodometer.tables.guessing.roles import SECTION, Roles
from oodometer.tables.vocabulary.names import is_detector, is_surely_detector
from oodometer.tables.vocabulary.titles import (
    ARCHITECTURE_TITLES,
    MODEL_TITLES,
    WEAK_SET_TITLES,
    mentions_setting,
)

if TYPE_CHECKING:
    import pandas as pd

METHODS = frozenset(  # Calibration Method
    {"method", "methods", "detector", "detectors", "calibrator", "calibrators", "calibration",
     "imputer", "aggregator"}
)  # fmt: skip
# Titles of models that name variants of others, their makers, or anything, as well.
_UNSURE = frozenset({"variant", "ablation", "name", "strategy", "technique", "kernel", "featureset",
                     "framework", "frameworkname", "system"})  # fmt: skip


def require_no_methods(
    frame: pd.DataFrame, free: Sequence[str], named: str | None, roles: Roles
) -> None:
    """Ask what is compared, where one column names models and another methods."""
    if named is None:
        return
    methods = [c for c in free if c != named and plain(c.split()[-1]) in METHODS]
    short = [c for c in free if c != named and [*words_of(c)][-1:] == ["method"]]  # cp_method
    methods += [c for c in short if c not in methods and _are_crossed(frame, named, c)]
    if methods:
        raise which_column(frame, [named, *methods], roles)


def require_no_detectors(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> None:
    """Ask what is compared, where titles name models and a column some known detector."""
    sure = [c for c in free if any(map(is_surely_detector, frame[c].unique()))]
    if sure and roles.measured and not mostly(wide_names(roles), is_detector):
        raise which_column(frame, sure, roles)


def require_no_rivals(frame: pd.DataFrame, named: str, free: Sequence[str], roles: Roles) -> None:
    """Ask what is compared, where another column may name it that was crossed with the models.

    Beside models, such is a column that is called so, too: model and classifier. Networks are
    often a condition: there it is any column of names before theirs that is not a known factor.
    """
    models = {title for title in MODEL_TITLES if title not in _UNSURE}
    is_network = plain(named) in ARCHITECTURE_TITLES
    if not is_network and plain(named) not in models:
        return
    other = {*TITLES, *LABELS, *OPTIMIZERS, *ARCHITECTURE_TITLES, *WEAK_SET_TITLES}
    before = {*frame.columns[: list(frame.columns).index(named)]} if is_network else set()
    rivals = [
        c
        for c in free
        if c != named
        and (plain(c) in models or (c in before and plain(c) not in other))
        and not mentions_setting(c)
        and not c.endswith(SECTION)
        and not is_about_data(frame, c)
        and _are_crossed(frame, named, c)
    ]
    if rivals:
        raise which_column(frame, [c for c in free if c in (named, *rivals)], roles)


def _are_crossed(frame: pd.DataFrame, first: str, second: str) -> bool:
    """Whether names of either column come with several of the other."""
    pairs = frame[[first, second]].drop_duplicates()
    return not (pairs[first].is_unique or pairs[second].is_unique)


def require_difference(frame: pd.DataFrame, metric: str, roles: Roles) -> None:
    """Ask what is compared, where a metric is the same for all methods of each model."""
    titles = {*MODEL_TITLES, *ARCHITECTURE_TITLES}
    models = [c for c in roles.factors if plain(c) in titles and c not in roles.chosen]
    if roles.detector is None or not models:
        return
    others = [c for c in roles.factors if numeric_share(frame[c]) > 0.5]
    instead = (
        f"; if '{others[0]}' holds the results, {roles.option(higher=others[0])} or "
        f"{roles.option(lower=others[0])} (which is better)"
        if others
        else ""
    )
    raise UserError(
        f"{metric} is the same for all names in '{roles.detector}' of each '{models[0]}': if "
        f"'{models[0]}' names what is compared, use {roles.option(detector=models[0])}{instead}."
    )
