"""What says that something is compared: its title, a known name, or names of data beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import OPTIMIZERS, TITLES, plain, words_of
from oodometer.tables.cells import numeric_share
from oodometer.tables.frames.parted_pairs import HEADERS
from oodometer.tables.guessing.compared import is_untitled
from oodometer.tables.guessing.content import are_detectors
from oodometer.tables.guessing.likeness import are_decimals, mostly, wide_names
from oodometer.tables.guessing.questions import or_lower, unnamed_option, which_column
from oodometer.tables.guessing.roles import ALL, SECTION, Roles
from oodometer.tables.lines.levels import determines
from oodometer.tables.vocabulary.names import is_compared
from oodometer.tables.vocabulary.others import names_level
from oodometer.tables.vocabulary.statistics import is_qualifier
from oodometer.tables.vocabulary.titles import (
    ARCHITECTURE_TITLES,
    COMPARED_WORDS,
    DETECTOR_TITLES,
    MODEL_TITLES,
    REPEAT_TITLES,
)

if TYPE_CHECKING:
    import pandas as pd

_KNOWN_TITLES = {*DETECTOR_TITLES, *MODEL_TITLES, *ARCHITECTURE_TITLES, *OPTIMIZERS}
_VARIANT = re.compile(r"(?i)\bours?\b|\bproposed\b|\bbaseline\b|\bw/|\bwithout\b|\bwith\b|\+")


def require_evidence(frame: pd.DataFrame, roles: Roles) -> None:
    """Ask whether names are compared, where nothing says it but that no others are there."""
    column = roles.detector
    if column is None:
        _require_titles(roles)
    elif column in frame.columns and column not in roles.chosen and "detector" not in roles.said:
        _require_no_runs(frame, column, roles)
        _require_no_other(frame, column, roles)
        _require_rows(frame, column, roles)


def _require_no_runs(frame: pd.DataFrame, column: str, roles: Roles) -> None:
    """Ask what is compared, if each name has one seed, as the names of runs do.

    Somebody who repeats runs repeats them for all that is compared.
    """
    repeats = [c for c in roles.factors if plain(c) in REPEAT_TITLES and len(frame[c].unique()) > 1]
    single = [c for c in repeats if determines(frame, column, c)]
    others = [
        c
        for c in roles.factors
        if c not in repeats
        and 1 < frame[c].nunique() < frame[column].nunique()
        and not are_decimals(frame[c])
    ]
    if single and others and all(determines(frame, column, c) for c in others):
        raise which_column(frame, [*others, column], roles)


def _require_no_other(frame: pd.DataFrame, column: str, roles: Roles) -> None:
    """Ask what is compared, if it seems to be optimizers, but another column of names may be."""
    words = [c for c in roles.factors if numeric_share(frame[c]) == 0 and plain(c) not in TITLES]
    others = [c for c in words if len(frame[c].unique()) > 1]
    if plain(column) in OPTIMIZERS and others:
        raise which_column(frame, [*others, column], roles)


def _require_rows(frame: pd.DataFrame, column: str, roles: Roles) -> None:
    """Ask whether lines are compared, if they may as well be the data of one model."""
    beside_data = roles.id is not None or roles.ood is not None or bool(wide_names(roles))
    names = [str(name) for name in frame[column].unique()]
    if (
        beside_data
        or len(names) < 2
        or _says_compared(column)
        or any(map(_mentions_compared, names))
    ):
        return
    option = roles.option(detector=column, **unnamed_option(roles))
    raise UserError(
        f"Does '{column}' ({names[0]}, {names[1]}{', …' * (len(names) > 2)}) name what is compared "
        f"({option}{or_lower(roles)}), or data or conditions of one model, so that there is "
        "nothing to compare?"
    )


def _require_titles(roles: Roles) -> None:
    """Ask whether titles are compared, if they are words for conditions or forms: Easy, raw."""
    titles = list(dict.fromkeys(wide_names(roles)))
    data = roles.id or roles.ood
    if roles.wide or data is None or len(titles) < 2 or not are_detectors(roles):
        return
    conditions = mostly(titles, names_level) or any(map(is_qualifier, titles))
    if not conditions or any(map(_mentions_compared, titles)):
        return
    unnamed = unnamed_option(roles)
    options = [roles.option(detector=ALL, **unnamed), roles.option(detector=data, **unnamed)]
    raise UserError(
        f"Do the titles of columns ({titles[0]}, {titles[1]}{', …' * (len(titles) > 2)}) name what "
        f"is compared ({options[0]}), or does '{data}', so that they are data or conditions "
        f"({options[1]}{or_lower(roles)})?"
    )


def _says_compared(title: str) -> bool:
    """Whether a title says that its column names what is compared, or says nothing at all."""
    if is_untitled(title) or title.endswith((*HEADERS, SECTION)):
        return True
    return plain(title) in _KNOWN_TITLES or not words_of(title).isdisjoint(COMPARED_WORDS)


def _mentions_compared(name: str) -> bool:
    """Whether a name is that of a model or a detector, or of a variant of one."""
    parts = re.split(r"[\s_/,;:()\[\]+&]+", name[:100])
    known = any(is_compared(part) for part in _joined(parts) if len(part) > 1)
    return known or bool(_VARIANT.search(name))


def _joined(words: Sequence[str]) -> list[str]:
    """Return words, and pairs of neighbours, which may be one name."""
    return [*words, *(f"{a} {b}" for a, b in pairwise(words))]
