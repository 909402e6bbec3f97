"""Columns of one metric whose words may say which form of it they are: asked about."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import plain, words_of
from oodometer.tables.guessing.likeness import are_runs, factor_in, is_mean_of
from oodometer.tables.guessing.questions import which_column
from oodometer.tables.guessing.roles import ALL, MEAN_OF_OTHERS, UNNAMED, Roles, role_of
from oodometer.tables.vocabulary.data_names import is_corruption, is_data
from oodometer.tables.vocabulary.measures import (
    base_metric,
    main_first,
    metric_named,
    without_metric,
)
from oodometer.tables.vocabulary.names import is_compared
from oodometer.tables.vocabulary.statistics import INSIDE, is_average, is_qualifier
from oodometer.tables.vocabulary.titles import (
    DATA_WORDS,
    MODEL_TITLES,
    OOD_TITLES,
    WEAK_SET_TITLES,
)

if TYPE_CHECKING:
    import pandas as pd

_SETS = OOD_TITLES.union(WEAK_SET_TITLES)  # plain titles of columns that name data
_TEST = re.compile(r"(?i)(?<![^\W_])test(?![^\W_])")
_OF_CLASSIFIERS = frozenset(
    {"accuracy", "balanced accuracy", "error rate", "loss", "NLL", "calibration error",
     "Brier score"}
)  # fmt: skip
_NUMBERED = re.compile(r".*\d")  # epoch 10, noise 0.2: levels of something
_LETTERS = re.compile(r"[^\W\d_]+")  # words of titles such as val2017 and Inst-level-strict
_OVERLAP = re.compile(  # from which on a box is found: AP50, AP .5:.95
    r"(?<![\d.])(?:0?\.)?(?:50?|75|95)(?:\s*[-:]\s*(?:0?\.)?95)?(?![\d.])"
)
_VARIANT = re.compile(
    r"(?i)^\+|\+$|\b(?:original|vanilla|baseline|ours?|proposed|with|without)\b|\bw/"
)
_SHOWN = 3  # columns that a question names
_FEWEST = 3  # metrics that make a table of metrics
_FEW_FORMS = 3  # of one metric; more are hardly anything but data sets
_PLAIN_WORDS = re.compile(r"(?:[A-Z]?[a-z]+)(?:[\s_\-/]+[A-Z]?[a-z]+)*")
STATES = frozenset({"clean", "original", "unperturbed", "uncorrupted"})  # what others differ from


def require_one_form(frame: pd.DataFrame, roles: Roles) -> None:
    """Ask which column of the main metric decides, where their words are not those of data sets.

    Such are raw_ece and calibrated_ece beside columns of models and data sets, and frame_f1 and
    event_f1. Words that a person would take for data sets are read as such.
    """
    settled = roles.wide or roles.main or ALL in roles.chosen or roles.metric is not None
    if settled or roles.detector is None:
        return
    main = base_metric(main_first(metric for metric, _ in roles.measured.values())[0])
    forms = {
        column: _words(metric, what, main)
        for column, (metric, what) in roles.measured.items()
        if base_metric(metric) == main
    }
    said = [words for words in forms.values() if words]
    named = any(metric == main and what for metric, what in roles.measured.values())
    if not named or len(said) < 2 or are_runs(said) or factor_in(said):
        return
    means = [c for c, why in roles.ignored.items() if why == MEAN_OF_OTHERS and c in frame.columns]
    if main == UNNAMED and any(is_mean_of(frame, mean, [*forms]) for mean in means):
        return  # the table itself averages them
    if not (main == "mAP" and _are_overlaps(said)) and not _may_be_forms(frame, said, roles):
        return
    if _may_be_compared(said, roles):
        raise which_column(frame, [roles.detector], roles)
    raise UserError(_question(forms, main, roles))


def doubted_forms(roles: Roles) -> str:
    """Return what to ask if titles such as Skeleton F1 and Directed F1 were read as data sets.

    They are plain words, none of which is known as the name of a data set. Else "".
    """
    settled = roles.wide or roles.main or ALL in roles.chosen or roles.metric is not None
    if settled or roles.detector is None:
        return ""
    main = base_metric(main_first(metric for metric, _ in roles.measured.values())[0])
    forms = {c: what for c, (metric, what) in roles.measured.items() if metric == main}
    titled = all(metric_named(column) == main for column in forms)
    doubted = titled and _are_few_words([*forms.values()])
    return _question(forms, main, roles) if doubted else ""


def _question(forms: Mapping[str, str], main: str, roles: Roles) -> str:
    """Ask which of several columns of a metric decides."""
    means = [c for c, why in roles.ignored.items() if why == MEAN_OF_OTHERS]
    forms = {c: "" for c in means if metric_named(c) == main} | dict(forms)  # macro AUROC
    forms = dict(sorted(forms.items(), key=lambda form: not _TEST.search(form[0])))
    sets = _role_of_sets(roles)
    crossed = _are_crossed([what.split() for what in forms.values() if what])
    parted = (  # on Cityline: ResNet, ViT; on Oakmill: ResNet, ViT
        f"as data sets under conditions with {roles.option(**{f'{sets}+condition': ALL})}, "
    )
    return (
        f"{listed(forms)} may be forms of {_called(main)}, or results on other data: say which "
        f"decides, with {_options(forms, main, roles)}{' (or lower=)' * (main == UNNAMED)}, or "
        f"average them, {parted * crossed}as data sets with {roles.option(**{sets: ALL})}, else "
        f"with {roles.option(condition=ALL)}{_or_compared(forms, roles)}."
    )


def _or_compared(forms: Mapping[str, str], roles: Roles) -> str:
    """Offer to compare titles if some name a method with and without something: Original, +CN."""
    variants = any(_VARIANT.search(what) for what in forms.values())
    return f"; if they name what is compared, {roles.option(detector=ALL)}" * variants


def _may_be_compared(said: Sequence[str], roles: Roles) -> bool:
    """Whether titles beside models and data sets may name methods: they say no form of a metric."""
    by_title = plain(roles.detector or "") in MODEL_TITLES and roles.detector not in roles.chosen
    words = [text.split() for text in said]
    forms = any(is_form(word) for part in words for word in part) or _are_crossed(words)
    return by_title and not forms and (roles.id is not None or roles.ood is not None)


def _role_of_sets(roles: Roles) -> str:
    """Return what data sets in titles are: the outliers of ID sets in a column, or ID sets."""
    return "id" if roles.id is None and (roles.ood is not None or roles.sets == "id") else "ood"


def _called(main: str) -> str:
    return "the same results" if main == UNNAMED else main


def _words(metric: str, what: str, main: str) -> str:
    """What a column says besides its metric: event of event F1."""
    return f"{metric.removesuffix(main).strip()} {what}".strip()


def _are_overlaps(said: Sequence[str]) -> bool:
    """Whether words differ only in the overlap from which on a box counts as found.

    >>> _are_overlaps(["box 50-95 e2e", "box 50 e2e"]), _are_overlaps(["val2017", "COCO"])
    (True, False)
    """
    rest = {_OVERLAP.sub("", text) for text in said}
    return len(rest) == 1 and all(map(_OVERLAP.search, said))


def _are_few_words(said: Sequence[str]) -> bool:
    """Whether titles say a few plain words, as forms of a metric do; data sets have names.

    >>> _are_few_words(["Skeleton", "Directed"]), _are_few_words(["SVHN", "Textures"])
    (True, False)
    >>> _are_few_words(["wine", "glass"]), _are_few_words(["siteA", "siteB"])
    (False, False)
    """
    distinct = set(said)
    known = any(
        is_data(text) or is_corruption(text) or is_compared(text) or is_average(text)
        for text in distinct
    )
    of_data = any(not words_of(text).isdisjoint(DATA_WORDS) for text in distinct)
    plainly = all(_PLAIN_WORDS.fullmatch(text) for text in distinct)
    return 1 < len(distinct) <= _FEW_FORMS and plainly and not known and not of_data


def _may_be_forms(frame: pd.DataFrame, said: Sequence[str], roles: Roles) -> bool:
    """Whether words mostly say which form, or a column names the data sets already."""
    words = [_LETTERS.findall(text) for text in said]
    common = set.intersection(*map(set, words))
    qualified = [any(is_form(word) for word in part if word not in common) for part in words]
    numbered = any(map(_NUMBERED.fullmatch, said)) and not all(qualified)  # else val2017
    if numbered or any(is_data(text) or is_corruption(text) for text in said):
        return False
    titled = [c for c in frame.columns if plain(c) in _SETS]
    sets = [c for c in (roles.id, roles.ood, *titled) if c and len(frame[c].unique()) > 1]
    beside = sum(map(_is_other_main, frame.columns)) >= _FEWEST  # sets would have these, too
    crossed = _are_crossed([text.split() for text in said])
    return bool(sets) or 2 * sum(qualified) >= len(said) or crossed or beside


def _is_other_main(title: str) -> bool:
    """Whether a title is that of a metric alone, and not one that is given of classifiers."""
    metric = metric_named(title)
    return bool(metric) and metric not in _OF_CLASSIFIERS and not without_metric(title)


def _are_crossed(words: Sequence[Sequence[str]]) -> bool:
    """Whether two choices make the names: traditional or fair, of frames or of roles."""
    firsts, lasts = {part[0] for part in words}, {part[-1] for part in words}
    pairs = {tuple(part) for part in words}
    crossed = len(pairs) == len(firsts) * len(lasts) and min(len(firsts), len(lasts)) > 1
    return crossed and all(len(pair) == 2 for pair in pairs)


def is_form(word: str) -> bool:
    """Whether a word says which form of a metric numbers are: raw, clean, in-domain."""
    return is_qualifier(word) or plain(word) in INSIDE | STATES


def listed(forms: Collection[str]) -> str:
    """Name the first columns of some, and that there are more."""
    *first, last = [repr(column) for column in list(forms)[: _SHOWN + 1]]
    more = len(forms) > _SHOWN + 1
    return f"{', '.join([*first, last])}, …" if more else f"{', '.join(first)} and {last}"


def _options(forms: Mapping[str, str], main: str, roles: Roles) -> str:
    role = role_of(main)
    return " or ".join(roles.option(**{role: column}) for column in list(forms)[:_SHOWN])
