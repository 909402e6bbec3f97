"""Which metric the title of a column names, beside which others, and which statistic of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from oodometer.factors import plain, words_of
from oodometer.tables.cells import numeric_share, value_of
from oodometer.tables.vocabulary.data_names import is_set
from oodometer.tables.vocabulary.measures import GENERAL, is_amid, metric_named, without_metric
from oodometer.tables.vocabulary.names import is_choice, is_detector
from oodometer.tables.vocabulary.others import without_mean_over_outliers
from oodometer.tables.vocabulary.statistics import (
    MEANS,
    OTHER_STATISTICS,
    SPREADS,
    is_average,
    is_qualifier,
    without_words_for_splits,
)

if TYPE_CHECKING:
    import pandas as pd

_RATES = frozenset({"fpr95", "tnr95"})
_AT_THRESHOLD = frozenset(
    {"F1", "precision", "recall", "accuracy", "balanced accuracy", "specificity"}
)
_OF_CLASSIFIERS = frozenset({"accuracy", "balanced accuracy"})
_OF_OVERLAP = frozenset({"IoU", "Hausdorff distance", "pixel accuracy", "Dice"})
_DICE = frozenset({"dice", "dicescore", "dicecoefficient", "meandice", "dicemean"})
_CLASS = re.compile(r"(?i)^class(?!ifi)[\s_\-]*\w+|\bclass[\s_\-]*\d+\b")  # class 0, of one metric
_MACRO = re.compile(r"(?i)macro[\s_-]+(?:f_?\d|f[\s_-]?score|prec|rec|acc)")
_AP = re.compile(r"(?:^|[\W_])ap(?:$|[\W_])", re.IGNORECASE)
_BESIDE = re.compile(r"(?i)(?:^|[\W_])(?:ap|aa|dice)(?:$|[\W_])")  # metrics beside certain others
_INTERVAL = re.compile(r"\s*[\[(][^\[\]()]*\bCI\b[^\[\]()]*[\])]")  # AUROC [95% CI]
# Metrics, the titles of their two sides, and their own: what is left says of what they are.
_TWO_SIDED = (
    ("F1", re.compile(r"(?:(.*?)[\s_\-]+)?[PRpr]"),
     re.compile(r"(?i)[\s_\-]*f[\s_\-]?1(?:[\s_\-]?score)?$")),
    ("EER", re.compile(r"(?i)(?:(.*?)[\s_\-]+)?(?:far|frr|fmr|fnmr|apcer|bpcer)\W*"),
     re.compile(r"(?i)[\s_\-]*eer\W*$")),
)  # fmt: skip
_BRIER = re.compile(r"bs\W*", re.IGNORECASE)


def named_metrics(frame: pd.DataFrame, columns: Sequence[str]) -> dict[str, str]:
    """Return the metric that the title of each column of numbers names; "" for one not read."""
    named = {c: metric for c in columns if (metric := metric_named(c)) is not None}
    if "auroc" in named.values():  # beside it, AP is that of the same curves
        named |= {c: "AUPR" for c in columns if c not in named and _AP.search(c.casefold())}
    if "calibration error" in named.values():  # beside it, BS is not the batch size
        named |= {c: "Brier score" for c in columns if _BRIER.fullmatch(c)}
    if any("oa" in words_of(c) for c in named):  # beside overall accuracy, AA is no attack
        named |= {c: "balanced accuracy" for c in columns if "aa" in words_of(c)}
    if _OF_OVERLAP & {*named.values()} or len(GENERAL & {*named.values()}) > 2:  # not DICE
        named |= {c: "Dice" for c in columns if c not in named and "dice" in words_of(c)}
    elif not any(is_detector(c) for c in columns if plain(c) not in _DICE):
        named |= {c: "Dice" for c in columns if plain(c) in _DICE}
    named = _without_losses(columns, named) | _sides(columns, named)
    named = {c: metric for c, metric in named.items() if numeric_share(frame[c]) > 0.5}
    if {plain(c) for c in named} <= {"de"}:  # alone it is a name: a deep ensemble, German
        named = {}
    named = without_rates(_without_classes(_without_names(frame, columns, named)))
    return _with_errors(frame, named)


def _without_losses(columns: Sequence[str], named: Mapping[str, str]) -> dict[str, str]:
    """Take Cross Entropy and Focal Loss for names beside others that are chosen before training."""
    chosen = [c for c in columns if is_choice(c)]
    return {c: m for c, m in named.items() if c not in chosen or all(o in named for o in chosen)}


def _sides(columns: Sequence[str], named: Mapping[str, str]) -> dict[str, str]:
    """Find frame_p and frame_r beside frame_f1, and FAR and FRR beside EER: two sides of it."""
    found: dict[str, str] = {}
    for metric, side, own in _TWO_SIDED:
        stems = {c: (match[1] or "") for c in columns if (match := side.fullmatch(c))}
        whole = {own.sub("", c) for c, name in named.items() if name == metric}
        both = {stem for stem, times in Counter(stems.values()).items() if times > 1}
        found |= {c: "" for c, stem in stems.items() if c not in named and stem in whole & both}
    return found


def _without_names(
    frame: pd.DataFrame, columns: Sequence[str], named: Mapping[str, str]
) -> dict[str, str]:
    """Leave out names such as word_recall_task, few among many that name no metric."""
    rest = {c: statistic_of(c)[1] for c, m in named.items() if m in GENERAL and is_amid(c)}
    tests = (is_set, is_average, is_qualifier)
    names = {c for c, what in rest.items() if not any(test(what) for test in tests)}
    others = sum(numeric_share(frame[c]) > 0.5 for c in columns if c not in named)
    return {c: m for c, m in named.items() if c not in names or 2 * len(names) > others}


def _without_classes(named: Mapping[str, str]) -> dict[str, str]:
    """Leave out the results on single classes, f1_class_0, beside those on all of them."""
    classes = {c for c in named if _CLASS.search(without_metric(c))}
    whole = len(classes) < len(named)
    return {c: "" if whole and c in classes else metric for c, metric in named.items()}


def _with_errors(frame: pd.DataFrame, named: Mapping[str, str]) -> dict[str, str]:
    """Take top1 and top5 for errors where top5 is lower: no accuracy among five guesses can be."""
    metrics = {c: named.get(c, metric_named(c)) for c in map(str, frame.columns)}  # chosen, too
    first = {without_metric(c): c for c, metric in metrics.items() if metric == "accuracy"}
    pairs = [
        (first[what], column)
        for column, metric in named.items()
        if metric == "top-5 accuracy" and (what := without_metric(column)) in first
    ]
    errors = dict(named)
    for one, five in pairs:
        values = [[value_of(text) for text in frame[column]] for column in (one, five)]
        both = [(a, b) for a, b in zip(*values, strict=True) if a == a and b == b]
        if both and all(a >= b for a, b in both) and any(a > b for a, b in both):
            errors |= {c: m for c, m in ((one, "error rate"), (five, "top-5 error")) if c in named}
    return {c: _error_by_size(frame, c, metric) for c, metric in errors.items()}


def _error_by_size(frame: pd.DataFrame, column: str, metric: str) -> str:
    """Take an error far above 100 for how far numbers are off, not for a rate: 552 on diamonds."""
    if metric != "error rate" or "rate" in column.casefold() or "%" in column:
        return metric
    return "other error" if any(value_of(text) > 100 for text in frame[column]) else metric


def without_rates(named: Mapping[str, str]) -> dict[str, str]:
    """Take FPR beside F1, recall or FPR95 for that at some threshold, not for FPR95."""
    bare = {c for c, m in named.items() if m in _RATES and "95" not in re.sub(r"\d+\s?%", "", c)}
    others = {metric for column, metric in named.items() if column not in bare}
    detection = bool(others - GENERAL - {""})  # accuracy beside AUROC is that of the classifier
    decided = others & (_AT_THRESHOLD - _OF_CLASSIFIERS if detection else _AT_THRESHOLD)
    stated = {m for c, m in named.items() if m in _RATES and c not in bare}
    if not bare or not (decided or stated):
        return dict(named)
    return {column: "" if column in bare else metric for column, metric in named.items()}


def statistic_of(
    column: str, *, beside_inside: bool = False
) -> tuple[Literal["spread", "other", "mean", "best", "value"], str]:
    """Return which statistic of a metric a title names, and what it is of.

    "ood" says nothing, unless other columns are about data like those of training.
    """
    column = without_mean_over_outliers(column) or column
    column = _INTERVAL.sub("", column) or column
    named = metric_named(column) is not None
    short = _BRIER.sub(" ", column) if _BRIER.fullmatch(column) else _BESIDE.sub(" ", column)
    words = (without_metric(column) if named else short.replace("_", " ")).split()
    left_out = MEANS | SPREADS | {"best"} | (set() if beside_inside else {"ood"})
    what = without_words_for_splits(" ".join(w for w in words if plain(w) not in left_out))
    said = {plain(word) for word in words}
    if said & SPREADS:
        return "spread", what
    if "best" in said:
        return "best", what
    if said & OTHER_STATISTICS:
        return "other", what
    bare = what.removesuffix(" macro") if _MACRO.search(column) else what  # SVHN macro F1
    return ("mean" if said & MEANS or is_average(bare) else "value"), what
