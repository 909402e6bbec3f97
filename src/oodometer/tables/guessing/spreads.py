"""Columns of means with their spreads beside them: acc_mean and acc_std."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from oodometer.factors import plain
from oodometer.tables.guessing.roles import Roles
from oodometer.tables.guessing.titled import WHOSE_SPREAD
from oodometer.tables.vocabulary.statistics import MEANS, SPREADS


def paired(columns: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Find x_mean beside x_std: column of means -> x, column of spreads.

    >>> paired(["acc_mean", "acc_std", "f1_mean"])
    {'acc_mean': ('acc', 'acc_std')}
    """
    found: dict[str, dict[str, str]] = {}
    for column in columns:
        for kind, names in (("mean", MEANS), ("spread", SPREADS)):
            words = _words(column)
            rest = [word for word in words if plain(word) not in names]
            if rest and len(rest) == len(words) - 1:
                found.setdefault(" ".join(rest), {})[kind] = column
    pairs = {what: pair for what, pair in found.items() if len(pair) == 2}
    return {pair["mean"]: (what, pair["spread"]) for what, pair in pairs.items()}


def take_spreads(columns: list[str], roles: Roles) -> list[str]:
    """Find the spreads of the means that the user chose, and return the other columns."""
    pairs = {mean: spread for mean, (_, spread) in paired([*roles.measured, *columns]).items()}
    bare = {_without(SPREADS, column): column for column in columns}
    for mean in roles.measured:  # acc_mean, or acc beside acc_std
        spread = pairs.get(mean) or bare.get(_without(MEANS, mean), "")
        if spread in columns and _without(SPREADS, spread) != " ".join(_words(spread)):
            roles.spreads[mean] = spread
    return [column for column in columns if column not in roles.spreads.values()]


def spreads_by_title(numeric: Sequence[str], roles: Roles) -> None:
    """Take a column that is merely called spread for that of the only results."""
    for column in [c for c in numeric if plain(c) in SPREADS and c not in roles.measured]:
        if len(roles.measured) == 1 and not roles.spreads:
            roles.spreads[next(iter(roles.measured))] = column
        elif column not in roles.spreads.values():
            roles.ignored[column] = WHOSE_SPREAD


def _without(names: Collection[str], column: str) -> str:
    return " ".join(word for word in _words(column) if plain(word) not in names)


def _words(column: str) -> list[str]:
    return [word for word in re.split(r"[\s_./\-()]+", column) if word]
