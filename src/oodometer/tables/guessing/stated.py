"""Metrics that no vocabulary knows, whose titles say which is better: Elo ↑."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.tables.cells import numeric_share
from oodometer.tables.guessing.roles import Roles
from oodometer.tables.guessing.untitled import is_known
from oodometer.tables.vocabulary.measures import Measure, metric_named
from oodometer.tables.vocabulary.titles import names_costs

if TYPE_CHECKING:
    import pandas as pd

_BETTER = re.compile(
    r"(?i)[(\[]?\s*(higher|larger|bigger|lower|smaller)(?: is| the)? better\s*[)\]]?"
)
_SIGNS = re.compile(r"[(\[]?\s*[↑↓]\s*[)\]]?")
_SHOWN = 3  # readings that a question names


def stated_direction(title: str) -> bool | None:
    """Return whether higher is better, if a title says it.

    >>> stated_direction("Elo ↑"), stated_direction("regret (lower is better)")
    (True, False)
    >>> stated_direction("Elo"), stated_direction("↑ or ↓")
    (None, None)
    """
    words = {found.casefold() in ("higher", "larger", "bigger") for found in _BETTER.findall(title)}
    said = words | {sign == "↑" for sign in title if sign in "↑↓"}
    return said.pop() if len(said) == 1 else None


def stated_results(frame: pd.DataFrame, columns: list[str], roles: Roles) -> list[str]:
    """Take the only column whose title says which is better for results, and return the others.

    Where titles of unknown metrics say different things, it is asked which decides.
    """
    if roles.measured or roles.metric is not None:
        return columns
    better = {c: stated_direction(c) for c in columns if _may_be_results(frame, c)}
    stated = {column: higher for column, higher in better.items() if higher is not None}
    if len(set(stated.values())) > 1:
        raise UserError(
            f"{' and '.join(map(repr, list(stated)[:_SHOWN]))} are different metrics: say which "
            f"decides, with {_options(stated, roles)}."
        )
    if len(stated) != 1:
        return columns
    column, higher = stated.popitem()
    name = _without_direction(column)
    roles.own[name] = Measure(name, higher, is_share=None)
    roles.measured[column] = (name, "")
    return [other for other in columns if other != column]


def _without_direction(title: str) -> str:
    return _SIGNS.sub("", _BETTER.sub("", title)).strip()


def _options(stated: Mapping[str, bool], roles: Roles) -> str:
    shown = list(stated.items())[:_SHOWN]
    return " or ".join(roles.option(**{"higher" if up else "lower": c}) for c, up in shown)


def _may_be_results(frame: pd.DataFrame, column: str) -> bool:
    bare = _without_direction(column)
    other = metric_named(column) is not None or names_costs(bare) or is_known(bare)
    return bool(bare) and not other and numeric_share(frame[column]) > 0.5
