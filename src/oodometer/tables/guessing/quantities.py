"""Numbers that one mean would mix: of different units, or of metrics that nobody knows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import plain
from oodometer.tables.cells import numeric_share
from oodometer.tables.guessing.content import are_detectors
from oodometer.tables.guessing.roles import Roles
from oodometer.tables.vocabulary.measures import main_first
from oodometer.tables.vocabulary.others import METRIC_TITLES

if TYPE_CHECKING:
    import pandas as pd

_UNIT = re.compile(  # RMSE [m], error (m/s) ↓
    r"[\[(]\s*((?:[mckµu]?m|km|in|ft|px|pixels?|deg(?:rees)?|°|rad|K|°C|[mk]?[VAW]|[kMG]?Wh?|[hkM]?Pa"
    r"|[kmµ]?g|[mµ]?s|min|h|[kM]?Hz|m?eV|k?cal|k?J|mol|mmHg|bpm|%)"
    r"(?:\s*[/·]\s*[A-Za-zµ°Å²³0-9]{1,5})*[²³]?)\s*[\])]\s*[↑↓]?\s*$"
)


def require_one_unit(roles: Roles) -> None:
    """Ask which columns of the main metric count, where their titles state different units.

    A mean over meters and meters per second says nothing.
    """
    if roles.main or roles.metric is not None or not roles.measured:
        return
    main = main_first(metric for metric, _ in roles.measured.values())[0]
    columns = [column for column, (metric, _) in roles.measured.items() if metric == main]
    units = {column: found[1] for column in columns if (found := _UNIT.search(column))}
    kinds = list(dict.fromkeys(units.values()))
    if len(kinds) < 2:
        return
    options = [
        f"{kind}: {roles.option(ignore=', ignore='.join(c for c in units if units[c] != kind))}"
        for kind in kinds
    ]
    first = [next(c for c in units if units[c] == kind) for kind in kinds[:2]]
    raise UserError(
        f"'{first[0]}' and '{first[1]}' have different units, so that no mean is over both: say "
        f"which columns count, those in {', or those in '.join(options)}."
    )


def require_known_metrics(frame: pd.DataFrame, roles: Roles) -> None:
    """Refuse lines of several metrics that nobody knows, as a column of their names says.

    Which way each of them is better is not known either.
    """
    for column in roles.factors:
        named = plain(column) in METRIC_TITLES and column not in roles.chosen
        if not named or numeric_share(frame[column]) > 0:
            continue
        if roles.detector is None and not are_detectors(roles):
            continue  # it may name what is compared
        names = list(dict.fromkeys(frame[column]))
        if len(names) > 1:
            raise UserError(
                f"'{column}' names metrics, of which most are not known: "
                f"{', '.join(names[:3])}{', …' * (len(names) > 3)}. They are not averaged: give "
                "the lines of one of them, or call them as others do, such as RMSE."
            )
