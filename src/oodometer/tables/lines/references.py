"""Lines that others are measured by, such as an oracle, chance or people: no competitors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.tables.guessing.roles import ALL, COLUMNS, Roles
from oodometer.tables.vocabulary.names import is_reference

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 2  # others that must be left to compare


def without_references(lines: pd.DataFrame, roles: Roles, notes: list[str]) -> pd.DataFrame:
    """Leave out bounds, chance and people among detectors, unless the user says what is compared.

    They would be the best of all, or add comparisons that nobody asks for.
    """
    if "detector" not in lines.columns or roles.chosen & {roles.detector, COLUMNS}:
        return lines
    names = [str(name) for name in lines["detector"].unique()]
    found = [name for name in names if is_reference(name)]
    if not found or len(names) - len(found) < _FEWEST:
        return lines
    notes.append(
        f"not compared, because others are measured by them: {', '.join(found)}; "
        f"{roles.option(detector=roles.detector or ALL)} compares all"
    )
    return lines[~lines["detector"].isin(found)].reset_index(drop=True)
