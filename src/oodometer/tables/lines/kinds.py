"""Of what kind factors are whose titles do not say it: asked, or assumed and told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import CORRUPTIONS, LABELS, OPTIMIZERS, TITLES, by_title, plain, words_of
from oodometer.tables.cells import numeric_share
from oodometer.tables.guessing.compared import is_untitled
from oodometer.tables.guessing.likeness import are_numbers, mostly
from oodometer.tables.guessing.roles import SECTION, Roles
from oodometer.tables.lines.levels import count_levels
from oodometer.tables.lines.long import OUTLIERS, Long
from oodometer.tables.vocabulary.measures import base_metric
from oodometer.tables.vocabulary.names import (
    ARCHITECTURE_TITLES,
    MODEL_TITLES,
    is_detector,
    is_model,
    mentions_setting,
)

if TYPE_CHECKING:
    import pandas as pd

_FEW = 0.3  # of the detectors at any one condition: fewer, and most could not be compared
_KNOWN = frozenset(
    {*TITLES, *LABELS, *OPTIMIZERS, *CORRUPTIONS, *MODEL_TITLES, *ARCHITECTURE_TITLES}
)
# Words of titles of what is chosen before training.
_CHOICES = frozenset(
    {"loss", "losses", "augmentation", "augment", "aug", "scheduler", "schedule", "pretrained",
     "pretraining", "training", "train", "regularization", "regularizer", "init", "activation",
     "normalization", "network", "backbone", "architecture", "optimizer", "classifier", "model",
     "sampler", "sampling", "embedding", "embeddings", "initialization", "objective", "teacher",
     "finetuning", "resampling", "imputation", "preprocessing", "contamination", "weights"}
)  # fmt: skip

_CUTOFFS = frozenset({"k", "topk", "atk"})  # titles of how many results of a ranking count
_RANKED = frozenset({"NDCG", "MRR", "Hits"})  # metrics of rankings


def settle_cutoffs(roles: Roles) -> None:
    """Take k beside metrics of rankings for a re-evaluation: the same ranking, cut off elsewhere.

    Beside others, k is a choice, such as that of neighbors.
    """
    if _RANKED.isdisjoint(base_metric(metric) for metric, _ in roles.measured.values()):
        return
    found = (c for c in roles.factors if plain(c) in _CUTOFFS and c not in roles.chosen)
    roles.kinds.update((column, "re_evaluation") for column in found)


def assumed_kinds(long: Long, roles: Roles) -> dict[str, str]:
    """Return the factors that are merely assumed to be conditions, each with the question about it.

    Their titles are not known: choices before training, ways to evaluate the same run, or data
    sets.
    """
    levels = {name: list(long.frame[name].unique()) for name in long.factors}
    return {
        name: _question(title, levels[name], long.frame, roles)
        for name, title in long.factors.items()
        if title not in {*roles.chosen, roles.wide} and _is_assumed(title, levels[name])
    }


def _is_assumed(title: str, levels: list[str]) -> bool:
    words = words_of(title)
    said = plain(title) in _KNOWN or mentions_setting(title) or bool(words & _CHOICES)
    if said or title.endswith(SECTION):
        return False
    named = any(mostly(levels, test) for test in (is_model, is_detector))
    return by_title(title, levels).kind == "condition" and not named


def _question(title: str, levels: list[str], frame: pd.DataFrame, roles: Roles) -> str:
    sets = "ood" if (frame["ood"] == OUTLIERS).all() else "id" if "id" not in frame.columns else ""
    named = {"ood": "outlier sets", "id": "data sets"}.get(sets, "")
    option = f", or {named} ({roles.option(**{sets: title})})" if sets else ""
    return (
        f"The answer depends on what '{title}' is ({', '.join(levels[:2])}"
        f"{', …' * (len(levels) > 2)}): choices before training, so that each level has runs of "
        f"its own ({roles.option(condition=title)}){' or' * (not sets)}, ways to evaluate the same "
        f"runs ({roles.option(re_evaluation=title)}){option}?"
    )


def require_known_kinds(long: Long, roles: Roles) -> None:
    """Ask what a column is whose title is not known, where its levels allow several readings."""
    for name, title in long.factors.items():
        said = title in {*roles.chosen, roles.wide}
        if said or plain(title) in {*TITLES, *LABELS} or mentions_setting(title):
            continue
        levels = list(long.frame[name].unique())
        if is_untitled(title) and numeric_share(levels) == 0:
            raise UserError(
                f"Nothing says what {levels[0]}, {levels[1]}{', …' * (len(levels) > 2)} are "
                f"('{title}'): conditions ({roles.option(condition=title)}), data sets "
                f"({roles.option(id=title)}) or the same results in other forms "
                f"({roles.option(re_evaluation=title)})?"
            )
        sets = next((c for c in ("id", "ood") if _is_nested(long.frame, name, c)), None)
        if sets is not None and not is_decimal(levels):
            raise UserError(
                f"Each '{title}' belongs to one data set: is it a part of the set "
                f"({roles.option(part=title)}), a repeated run ({roles.option(repeat=title)}) or a "
                f"condition ({roles.option(condition=title)})?"
            )
        if are_numbers(sorted(levels, key=lambda level: (len(level), level))):
            raise UserError(
                f"'{title}' numbers {len(levels)} levels: are they repeated runs "
                f"({roles.option(repeat=title)}) or conditions ({roles.option(condition=title)})?"
            )


def _is_nested(frame: pd.DataFrame, column: str, sets: str) -> bool:
    """Whether every level of a column lies in one of several sets that have several of them."""
    if sets not in frame.columns or count_levels(frame, sets) < 2:
        return False
    pairs = frame[[sets, column]].drop_duplicates()
    several = pairs[sets].value_counts() > 1
    return bool(several.mean() > 0.5) and len(pairs) == count_levels(frame, column)


def require_shared(long: Long, roles: Roles) -> None:
    """Ask whether a column of names is part of what is compared, where most share no condition.

    Otherwise the few that do would be compared, and the others left out.
    """
    frame, detector = long.frame, roles.detector
    kinds = {n: by_title(n, frame[n].unique()).kind for n in long.factors}
    conditions = [name for name, kind in kinds.items() if kind == "condition"]
    words = [n for n in conditions if numeric_share(frame[n].unique()) == 0]
    words = [n for n in words if long.factors[n] not in roles.chosen]
    if detector is None or detector in roles.chosen or not words:
        return
    cell = [c for c in ("id", "ood") if c in frame.columns] + conditions
    share = frame.groupby(cell)["detector"].nunique().max() / count_levels(frame, "detector")
    if share < _FEW:
        title = long.factors[max(words, key=lambda name: count_levels(frame, name))]
        raise UserError(
            f"Few of the {count_levels(frame, 'detector')} '{detector}' share a '{title}': is it "
            f"part of what is compared ({roles.option(detector=f'{detector}+{title}')}), or a "
            f"condition, so that only those that share it are compared "
            f"({roles.option(condition=title)})?"
        )


def is_decimal(levels: Iterable[str]) -> bool:
    """Whether levels are all numbers, and some of them no whole ones."""
    return any("." in level for level in levels) and numeric_share(levels) == 1.0
