"""Of what kind factors are whose titles do not say it: asked, or assumed and told."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import CORRUPTIONS, LABELS, OPTIMIZERS, TITLES, by_title, plain, words_of
from oodometer.results import NOT_GIVEN
from oodometer.tables.cells import numeric_share
from oodometer.tables.guessing.compared import is_untitled
from oodometer.tables.guessing.likeness import are_numbers, mostly
from oodometer.tables.guessing.roles import ALL, Roles
from oodometer.tables.lines.doubts import SCALES
from oodometer.tables.lines.levels import count_levels
from oodometer.tables.lines.long import OUTLIERS, Long
from oodometer.tables.vocabulary.data_names import are_corruptions, is_data
from oodometer.tables.vocabulary.measures import base_metric
from oodometer.tables.vocabulary.names import is_detector, is_model, what_is_chosen
from oodometer.tables.vocabulary.titles import (
    ARCHITECTURE_TITLES,
    JOB_TITLES,
    MODEL_TITLES,
    mentions_setting,
)

if TYPE_CHECKING:
    import pandas as pd

_FEW = 0.3  # of the detectors at any one condition: fewer, and most could not be compared
_MOST = 0.6  # of them: no more, and many could not, if hardly any has several conditions
_SINGLE = 0.75  # of the detectors, each of which has one condition
_KNOWN = frozenset(
    {*TITLES, *LABELS, *OPTIMIZERS, *CORRUPTIONS, *MODEL_TITLES, *ARCHITECTURE_TITLES}
)
# Words of titles of what is chosen before training.
_CHOICES = frozenset(
    {"loss", "losses", "augmentation", "augment", "aug", "scheduler", "schedule", "pretrained",
     "pretraining", "training", "train", "regularization", "regularizer", "init", "activation",
     "normalization", "network", "backbone", "architecture", "optimizer", "classifier", "model",
     "sampler", "sampling", "embedding", "embeddings", "initialization", "objective", "teacher",
     "finetuning", "resampling", "imputation", "preprocessing", "contamination", "weights", "lr",
     "learningrate", "decay", "wd", "batch", "batchsize", "bs", "width", "depth", "layers",
     "momentum", "dropout", "epochs", "shot", "shots", "params", "parameters", "trainsize"}
)  # fmt: skip

# Plain titles of columns that are called after where their names are from.
_PLACES = frozenset({"sheet", "fromfile"})
_DISTURBANCES = frozenset(
    {"noise", "perturbation", "perturbed", "corruption", "missing", "missingness", "occlusion",
     "blur", "snr", "attack"}
)  # fmt: skip
_OF_TRAINING = frozenset({"label", "labels", "train", "training"})
_COUNTED = frozenset({"labels", "trainlabels"})  # with numbers below: 1000 labels, no kind of them
_CUTOFFS = frozenset({"k", "topk", "atk"})  # titles of how many results of a ranking count
_RANKED = frozenset({"NDCG", "MRR", "Hits"})  # metrics of rankings
_NOTHING = frozenset({"none", "null", "na", "no", "off", "nothing", plain(NOT_GIVEN)})  # is set


def settle_cutoffs(roles: Roles) -> None:
    """Take k beside metrics of rankings for a re-evaluation: the same ranking, cut off elsewhere.

    Beside others, k is a choice, such as that of neighbors.
    """
    if _RANKED.isdisjoint(base_metric(metric) for metric, _ in roles.measured.values()):
        return
    found = (c for c in roles.factors if plain(c) in _CUTOFFS and c not in roles.chosen)
    roles.kinds.update((column, "re_evaluation") for column in found)


def settle_names_of_runs(frame: pd.DataFrame, roles: Roles) -> None:
    """Take names of runs for conditions, if each says which network or data it is of.

    Runs that repeat another have a number or a code for a name.
    """
    for column in roles.factors:
        if plain(column) in JOB_TITLES and column not in roles.chosen:
            parts = [re.split(r"[\W_]+", str(name)) for name in frame[column].unique()]
            if all(any(is_model(part) or is_data(part) for part in own) for own in parts):
                roles.kinds[column] = "condition"


def assumed_kinds(long: Long, roles: Roles) -> dict[str, str]:
    """Return the factors that are merely assumed to be conditions, each with the question about it.

    Their titles are not known: choices before training, ways to evaluate the same run, or data
    sets.
    """
    levels = {name: list(long.frame[name].unique()) for name in long.factors}
    return {
        name: _question(title, levels[name], long.frame, roles)
        for name, title in long.factors.items()
        if title not in {*roles.chosen, roles.wide}
        and name not in CORRUPTIONS
        and _is_assumed(title, levels[name])
    }


def with_named_corruptions(long: Long, roles: Roles) -> Long:
    """Call a column corruption whose title does not say it, but whose levels do: clean, blur, …"""
    if "corruption" in long.frame.columns:
        return long
    for name, title in long.factors.items():
        levels = [str(level) for level in long.frame[name].unique()]
        if title in {*roles.chosen, roles.wide} or not _is_assumed(title, levels):
            continue
        if are_corruptions(levels):
            factors = {"corruption" if n == name else n: t for n, t in long.factors.items()}
            frame = long.frame.rename(columns={name: "corruption"})
            return replace(long, frame=frame, factors=factors)
    return long


def _is_assumed(title: str, levels: list[str]) -> bool:
    words = words_of(title)
    said = plain(title) in _KNOWN or not _CHOICES.isdisjoint({*words, plain(title)})
    if plain(title) in _COUNTED and all(level.isdigit() for level in levels):
        said = False
    if words & _DISTURBANCES and not words & _OF_TRAINING and plain(title) not in _KNOWN:
        said = False  # of the training data, or of those that the same model is tested on
    if said:
        return False
    named = mostly(levels, is_detector) or bool(what_is_chosen(levels))
    return by_title(title, levels).kind == "condition" and not named


def _question(title: str, levels: list[str], frame: pd.DataFrame, roles: Roles) -> str:
    sets = "ood" if (frame["ood"] == OUTLIERS).all() else "id" if "id" not in frame.columns else ""
    named = {"ood": "outlier sets", "id": "data sets"}.get(sets, "")
    column = _column(title, roles)
    option = f", or {named} ({roles.option(**{sets: column})})" if sets else ""
    model = roles.detector if plain(roles.detector or "") in MODEL_TITLES else None
    words = numeric_share(levels) == 0 and model is not None and model not in roles.chosen
    instead = f", or what is compared ({roles.option(detector=column)})" * words
    what = "titles of columns are" if column == ALL else f"'{title}' is"
    return (
        f"The answer depends on what {what} ({', '.join(levels[:2])}"
        f"{', …' * (len(levels) > 2)}): choices before training, so that each level has runs of "
        f"its own ({roles.option(condition=column)}){',' if sets else ' or'} ways to evaluate the "
        f"same runs ({roles.option(re_evaluation=column)}){option}{instead}?"
    )


def _column(title: str, roles: Roles) -> str:
    """Return the column that an option names: * where titles of columns hold the levels."""
    return title if title in roles.factors else ALL


def require_known_kinds(long: Long, roles: Roles) -> None:
    """Ask what a column is whose title is not known, where its levels allow several readings."""
    for name, title in long.factors.items():
        said = title in {*roles.chosen, roles.wide} or name in CORRUPTIONS
        if said or plain(title) in {*TITLES, *LABELS} or mentions_setting(title):
            continue
        levels, column = list(long.frame[name].unique()), _column(title, roles)
        sets = next((c for c in ("id", "ood") if _is_nested(long.frame, name, c)), None)
        if sets is not None and not is_decimal(levels):
            nothing = f" or nothing that matters ({roles.option(ignore=title)})"
            raise UserError(
                f"Each '{title}' belongs to one data set: is it a part of the set "
                f"({roles.option(part=column)}), a repeated run ({roles.option(repeat=column)}), a "
                f"condition ({roles.option(condition=column)}){nothing * (column != ALL)}?"
            )
        untitled = is_untitled(title) and not what_is_chosen(levels)
        if numeric_share(levels) == 0 and (untitled or _may_be_sets(long, title, levels)):
            raise UserError(
                f"Nothing says what {levels[0]}, {levels[1]}{', …' * (len(levels) > 2)} are "
                f"('{title}'): conditions ({roles.option(condition=column)}), data sets "
                f"({roles.option(id=column)}){_or_outliers(long, title, roles)} or the same "
                f"results in other forms ({roles.option(re_evaluation=column)})?"
            )
        if are_numbers(sorted(levels, key=lambda level: (len(level), level))):
            raise UserError(
                f"'{title}' numbers {len(levels)} levels: are they repeated runs "
                f"({roles.option(repeat=column)}), conditions ({roles.option(condition=column)}), "
                f"evaluations of the same runs ({roles.option(re_evaluation=column)}) or parts of "
                f"the data ({roles.option(part=column)})?"
            )


def _may_be_sets(long: Long, title: str, levels: list[str]) -> bool:
    """Whether names of files or sheets may be those of data sets: no column names any."""
    sets = [c for c in ("id", "ood") if c in long.frame.columns]
    several = any(count_levels(long.frame, c) > 1 for c in sets)
    return plain(title) in _PLACES and not several and _is_assumed(title, levels)


def _or_outliers(long: Long, title: str, roles: Roles) -> str:
    """Offer outlier sets, where no column names any."""
    free = (long.frame["ood"] == OUTLIERS).all()
    return (
        f", outlier sets of the same models ({roles.option(ood=_column(title, roles))})"
        if free
        else ""
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
    if share < _FEW or (share <= _MOST and _have_one_each(frame, words)):
        title = long.factors[max(words, key=lambda name: count_levels(frame, name))]
        raise UserError(
            f"Few of the {count_levels(frame, 'detector')} '{detector}' share a '{title}': is it "
            f"part of what is compared ({roles.option(detector=f'{detector}+{title}')}), or a "
            f"condition, so that only those that share it are compared "
            f"({roles.option(condition=title)})?"
        )


def _have_one_each(frame: pd.DataFrame, conditions: list[str]) -> bool:
    """Whether most detectors have one level of a condition, and not all the same one."""
    for name in conditions:
        own = frame.groupby("detector", sort=False)[name].agg(["nunique", "first"])
        single = own[own["nunique"] == 1]
        if len(single) >= _SINGLE * len(own) and len(set(single["first"])) > 1:
            return True
    return False


def require_one_scale(long: Long, roles: Roles) -> None:
    """Ask what words are whose numbers differ in size: data sets, perhaps, and no conditions.

    Of conditions the largest numbers would decide every mean.
    """
    metric, measure = next(iter(long.measures.items()))
    sets = [c for c in ("id", "ood") if c in long.frame.columns]
    if measure.is_share or any(count_levels(long.frame, c) > 1 for c in sets):
        return
    lines = long.frame[long.frame["metric"] == metric]
    for name, title in long.factors.items():
        if title in {*roles.chosen, roles.wide} or not _is_assumed(title, [*lines[name].unique()]):
            continue
        sizes = lines["value"].abs().groupby(lines[name]).median().sort_values()
        sizes = sizes[sizes > 0]
        if len(sizes) > 2 and sizes.iloc[-1] > SCALES * sizes.iloc[0]:
            column = _column(title, roles)
            raise UserError(
                f"{metric} is about {sizes.iloc[0]:.2g} at '{title}' {sizes.index[0]} and "
                f"{sizes.iloc[-1]:.2g} at {sizes.index[-1]}: does it name data sets, each with a "
                f"scale of its own ({roles.option(id=column)}), or conditions of the same data "
                f"({roles.option(condition=column)})?"
            )


def require_met(long: Long, roles: Roles) -> None:
    """Ask whether settings count that leave a detector without any other to compare it with.

    Such are the prompt's length, 0 of fine-tuning, the epochs that each method needs, and how
    features are selected, none by the baseline.
    """
    frame = long.frame
    cell = [c for c in ("id", "ood", "metric") if c in frame.columns]
    kinds = {n: by_title(n, frame[n].unique()).kind for n in long.factors}
    conditions = [n for n, kind in kinds.items() if kind == "condition"]
    free = [n for n in conditions if long.factors[n] not in {*roles.chosen, roles.wide}]
    alone = [name for name, met in _met(frame, [*cell, *conditions]).items() if not met]
    if not alone or len(alone) == count_levels(frame, "detector"):
        return
    own = frame[frame["detector"] == alone[0]]
    free = [n for n in free if numeric_share(frame[n].unique()) == 1.0 or _has_none(own[n])]
    if not free:
        return
    for size in (1, 2):
        shares = {
            part: _met(frame, [*cell, *(n for n in conditions if n not in part)])[alone[0]]
            for part in combinations(free, size)
        }
        best = max(shares, key=shares.__getitem__, default=())
        if not best or not shares[best]:
            continue
        titles = [long.factors[n] for n in best]
        them = "it" if size == 1 else "them"
        raise UserError(
            f"'{alone[0]}' shares no {' and '.join(map(repr, titles))} with others: leave {them} "
            f"out to compare all ({roles.option(ignore=', ignore='.join(titles))}), or compare "
            f"only those that share {them} "
            f"({roles.option(condition=', condition='.join(titles))})?"
        )


def require_crossed(long: Long, roles: Roles) -> None:
    """Ask whether a setting is part of what is compared, where most detectors have one of it.

    Such is the number of beams, 20 of some systems and 50 of others: as a condition it would leave
    detectors out.
    """
    frame, detector = long.frame, roles.detector
    settled = roles.wide or not roles.chosen.isdisjoint(roles.ignored)  # who leaves out, has looked
    if detector is None or detector in roles.chosen or settled:
        return
    for name, title in long.factors.items():
        levels = frame[name].unique()
        known = title in roles.chosen or plain(title) in {*TITLES, *LABELS}
        if known or numeric_share(levels) < 1 or by_title(name, levels).kind != "condition":
            continue
        own = frame.groupby("detector", sort=False)[name].agg(["nunique", "first"])
        single = own[own["nunique"] == 1]
        if len(own) > 2 * (len(own) - len(single)) and len(set(single["first"])) > 1:
            raise UserError(
                f"Most '{detector}' have one '{title}' each, and not the same: is it part of what "
                f"is compared ({roles.option(detector=f'{detector}+{title}')}), or a condition, so "
                f"that only those that share it are compared ({roles.option(condition=title)})?"
            )


def _has_none(levels: pd.Series[str]) -> bool:
    """Whether levels all say that there is nothing to set, such as none."""
    return all(plain(level) in _NOTHING for level in levels.unique())


def _met(frame: pd.DataFrame, cell: list[str]) -> dict[str, float]:
    """Return the share of the lines of each detector that lie beside those of another one."""
    several = frame.groupby(cell, dropna=False)["detector"].transform("nunique") > 1
    return {
        str(name): float(met) for name, met in several.groupby(frame["detector"]).mean().items()
    }


def is_decimal(levels: Iterable[str]) -> bool:
    """Whether levels are all numbers, and some of them no whole ones."""
    return any("." in level for level in levels) and numeric_share(levels) == 1.0
