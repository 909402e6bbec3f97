"""Numbers whose titles name no metric, beside those whose titles do: results, perhaps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import TITLES, plain
from oodometer.tables.cells import numeric_share, read_cell
from oodometer.tables.guessing.likeness import are_decimals, are_levels, mostly, wide_names
from oodometer.tables.guessing.questions import what_are_others
from oodometer.tables.guessing.roles import ALL, Roles
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.measures import GENERAL, without_metric
from oodometer.tables.vocabulary.names import is_detector, is_surely_detector
from oodometer.tables.vocabulary.others import is_test
from oodometer.tables.vocabulary.statistics import is_average, is_statistic
from oodometer.tables.vocabulary.titles import mentions_setting

if TYPE_CHECKING:
    import pandas as pd

_LOOKED_AT = 1000  # lines of a table
_SHOWN = 3  # columns that a note names
_FPR = "fpr"  # of outlier detection, or of any other decision
_SEVERAL = 2  # columns that nothing explains, from which on they may be what a table is about


def require_named(frame: pd.DataFrame, numeric: Sequence[str], roles: Roles) -> None:
    """Ask what numbers are that may well be results, beside some with a metric as title.

    Such are columns of known detectors or data sets, and several that nothing explains beside no
    more that are explained: an unknown metric may be the main one, or a known one be the name of
    a data set.
    """
    frame = frame.iloc[:_LOOKED_AT]
    bare = [c for c in numeric if are_decimals(frame[c])]
    titled = list(roles.measured)
    if not titled or roles.chosen:
        return
    if without_metric(titled[0]):
        _require_known([c for c in bare if not _is_setting(frame[c])], titled, roles)
    stems = tuple({plain(what) for c in titled if (what := without_metric(c))})
    beside = [c for c in bare if len(stems) > 1 and plain(c).startswith(stems)]
    # Of a set of which a column beside it states the metric: another quantity.
    unexplained = [c for c in bare if c not in beside and _may_be_result(frame[c])]
    named = roles.detector is not None or bool(wide_names(roles))  # else it is asked by whom
    general = named and all(
        metric in GENERAL or plain(title) == _FPR for title, (metric, _) in roles.measured.items()
    )
    if general and len(unexplained) >= max(_SEVERAL, len(titled)) and roles.metric is None:
        raise what_are_others(titled, unexplained, roles)


def require_compared(frame: pd.DataFrame, roles: Roles) -> None:
    """Ask what numbers are beside a metric, if no column and no other title says what is compared.

    A metric may be called like a method: MCC beside DANN and CDAN.
    """
    titled = list(roles.measured)
    if roles.chosen or len(titled) != 1 or roles.metric is not None or without_metric(titled[0]):
        return
    frame = frame.iloc[:_LOOKED_AT]
    bare = [c for c in roles.factors if are_decimals(frame[c]) and _may_be_result(frame[c])]
    if bare:
        raise _compared_or_metric(titled[0], bare, roles)


def note_unexplained(
    frame: pd.DataFrame, not_used: Iterable[str], roles: Roles, notes: list[str]
) -> None:
    """Tell which numbers that may well be results are not compared."""
    frame = frame.iloc[:_LOOKED_AT]
    not_used = [c for c in not_used if c in frame.columns]
    pairs = [c for c in not_used if _are_pairs(frame[c])]
    if pairs:
        notes.append(
            f"{_shown(pairs)}: not compared, because no title says what the numbers in a cell "
            "are; write it into the titles, such as 'SVHN (FPR95/AUROC)'"
        )
    left = [c for c in not_used if are_decimals(frame[c])]
    left = [c for c in left if _may_be_result(frame[c])]
    if left:
        notes.append(
            f"{_shown(left)}: not compared, because no known metric is named so; "
            f"{roles.option(higher=left[0])} compares it"
        )


def _shown(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns[:_SHOWN])) + ", …" * (len(columns) > _SHOWN)


def _are_pairs(texts: pd.Series[str]) -> bool:
    """Whether cells hold several numbers with decimals each: 40.1 / 91.2."""
    several = numeric_share(texts) <= 0.5 < numeric_share(texts, pairs=True)
    return several and any("." in text for text in texts)


def _require_known(bare: Sequence[str], titled: Sequence[str], roles: Roles) -> None:
    """Ask what numbers of a known detector or data set are."""
    if roles.detector is not None:
        sets = [c for c in bare if not is_average(c)]
        if mostly(sets, is_data):
            raise what_are_others(titled, sets, roles)
        return
    several = len(titled) > 1
    if several and not mostly(wide_names(roles), is_detector):
        return
    known = is_detector if several else is_surely_detector
    if any(known(words[-1]) for c in bare if (words := c.split())):
        raise what_are_others(titled, bare, roles)


def _compared_or_metric(titled: str, bare: Sequence[str], roles: Roles) -> UserError:
    """Ask whether the title of a column is its metric, or one of the names that are compared."""
    shown = ", ".join([*bare[:_SHOWN], *["…"] * (len(bare) > _SHOWN)])
    options = {better: f", {better}=".join([*bare, titled]) for better in ("higher", "lower")}
    one, other = (roles.option(detector=ALL, **{how: said}) for how, said in options.items())
    metric = roles.measured[titled][0].replace(" ", "_")
    return UserError(
        f"Is '{titled}' compared with {shown} ({one}, or {other} if lower is better), or the "
        f"metric of all lines ({roles.option(**{metric: titled}, ignore=', ignore='.join(bare))})?"
    )


def _is_setting(texts: pd.Series[str]) -> bool:
    """Whether a title that may be that of data names a setting, as its numbers come again."""
    cells = [cell for text in texts if (cell := read_cell(text)) is not None]
    return mentions_setting(str(texts.name)) and are_levels(cells)


def _may_be_result(texts: pd.Series[str]) -> bool:
    """Whether numbers are measured, by their variety, and no setting, statistic or repeat."""
    title = str(texts.name)
    known = plain(title) in TITLES or is_statistic(title) or mentions_setting(title)
    cells = [cell for text in texts if (cell := read_cell(text)) is not None]
    varied = 2 * len({cell.value for cell in cells}) > len(texts)
    return varied and not known and not is_test(title) and not are_levels(cells)
