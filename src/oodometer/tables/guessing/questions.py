"""Questions about what is compared, each with the option for every answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import plain
from oodometer.tables.guessing.likeness import are_data, wide_names
from oodometer.tables.guessing.roles import ALL, UNNAMED, Roles, option
from oodometer.tables.vocabulary.measures import base_metric, main_first, without_metric
from oodometer.tables.vocabulary.names import is_compared
from oodometer.tables.vocabulary.statistics import is_average
from oodometer.tables.vocabulary.titles import DETECTOR_TITLES, MODEL_TITLES

if TYPE_CHECKING:
    import pandas as pd

_NAMING = DETECTOR_TITLES.union(MODEL_TITLES)  # plain titles of what is compared
_SHOWN = 3  # readings that a question names
_LONGEST = 24  # letters of a name in a question


def which_column(frame: pd.DataFrame, free: Sequence[str], roles: Roles) -> UserError:
    """Ask which of several columns names what is compared."""
    shown = list(free[:_SHOWN])
    counts = ", ".join(f"'{c}' ({_described(frame[c])})" for c in shown)
    wide = list(dict.fromkeys(wide_names(roles)))
    if len(wide) > 1 and not are_data(wide) and not roles.wide:
        counts += f", or the titles of columns ({', '.join(wide[:2])}, …)"
        shown.append(ALL)
    if len(shown) == 2 and _are_joint_names(frame, shown):
        shown.append("+".join(shown))
    options = " or ".join(roles.option(detector=c, **unnamed_option(roles)) for c in shown)
    untitled = all(str(column).startswith("column ") for column in free)  # nothing says so
    neither = untitled or not any(
        plain(c) in _NAMING or any(map(is_compared, frame[c])) for c in free
    )
    none = "; if none does, there is nothing to compare" * neither
    return UserError(
        f"Which column names the detectors or models: {counts}? Use {options}{or_lower(roles)}"
        f"{none}."
    )


def _are_joint_names(frame: pd.DataFrame, columns: Sequence[str]) -> bool:
    """Whether two columns name each line together, and few of their pairs have one.

    Then the levels of neither share those of the other, and combinations may be compared.
    """
    if ALL in columns or any(frame[c].is_unique for c in columns):
        return False
    if frame.duplicated(list(columns)).any():
        return False
    first, second = (frame[c].nunique() for c in columns)
    return 2 * len(frame) <= first * second


def _described(names: pd.Series[str]) -> str:
    """Say how many names a column holds, and which, if its title does not tell what they are."""
    distinct = list(dict.fromkeys(names))
    count = f"{len(distinct)} names"
    if not str(names.name).startswith("column "):
        return count
    shown = ", ".join(
        name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…" for name in distinct[:2]
    )
    return f"{count}: {shown}{', …' * (len(distinct) > 2)}"


def which_axis(frame: pd.DataFrame, column: str, roles: Roles) -> UserError:
    """Ask whether lines are detectors and columns are data sets, or the other way round."""
    rows = ", ".join(frame[column].unique()[:2])
    titles = ", ".join(list(dict.fromkeys(wide_names(roles)))[:2])
    unnamed = unnamed_option(roles)
    options = [roles.option(detector=column, **unnamed), roles.option(detector=ALL, **unnamed)]
    if roles.ood is None and roles.id is None:
        options[1] = roles.option(id=column, **unnamed)
    return UserError(
        f"Which are the detectors or models: the rows ({rows}, …) or the columns ({titles}, …)? "
        f"Use {' or '.join(options)}{or_lower(roles)}."
    )


def unnamed_option(roles: Roles) -> dict[str, str]:
    """Return the part of an option that says what the numbers are, if nothing else does."""
    open_question = any(metric == UNNAMED for metric, _ in roles.measured.values())
    return {"higher": ALL} if open_question and UNNAMED not in roles.own else {}


def or_lower(roles: Roles) -> str:
    """Say what to write instead of `higher=*` in the options of a question."""
    said = f", with lower={ALL} instead of higher={ALL} if lower is better"
    return said if unnamed_option(roles) else ""


def models_or_data(names: Sequence[str], column: str, roles: Roles) -> UserError:
    """Ask whether names of which some are those of data sets are compared."""
    models = roles.option(detector=column, **unnamed_option(roles))
    return UserError(
        f"Are {names[0]}, {names[1]}{', …' * (len(names) > 2)} models ({models}{or_lower(roles)}), "
        "or data sets of one model, so that there is nothing to compare?"
    )


def trained_and_tested(names: Sequence[str], first: str, second: str, roles: Roles) -> UserError:
    """Ask about two columns with the same names, as of data for training and for tests."""
    unnamed = unnamed_option(roles)
    one, other = (
        roles.option(detector=trained, ood=tested, **unnamed)
        for trained, tested in ((first, second), (second, first))
    )
    return UserError(
        f"'{first}' and '{second}' hold the same names ({', '.join(names[:2])}, …): if '{first}' "
        f"says what each model was trained on and '{second}' where it was tested, {one} compares "
        f"these models, and {other} if it is the other way round{or_lower(roles)}; else there is "
        "nothing to compare."
    )


def what_are(
    columns: Sequence[str], roles: Roles, *, shares: bool = True, ranks: bool = False
) -> UserError:
    """Ask what numbers are that nothing names; only `shares` may be accuracies."""
    shown = ", ".join(f"'{column}'" for column in columns[:2])
    if ranks:
        return UserError(
            f"The numbers in {shown}{', …' * (len(columns) > 2)} are 1 to {len(columns)} on each "
            f"line, as ranks are: use {roles.option(lower=ALL)} if 1 is the best, or "
            f"{roles.option(higher=ALL)} if {len(columns)} is."
        )
    known = f"{roles.option(accuracy=ALL)} (or another metric), " if shares else ""
    return UserError(
        f"Nothing says what the numbers in {shown}{', …' * (len(columns) > 2)} are: use "
        f"{known}{roles.option(higher=ALL)} or {roles.option(lower=ALL)} (which is better)."
    )


def what_are_others(titled: Sequence[str], bare: Sequence[str], roles: Roles) -> UserError:
    """Ask what numbers are beside those whose titles name a metric."""
    metric = main_first(roles.measured[column][0] for column in titled)[0]
    if metric == UNNAMED:
        return what_are([*titled, *bare], roles, shares=False)
    role = base_metric(metric).replace(" ", "_")  # BLEU of @4 BLEU: a role that --columns takes
    alike = [c for c in titled if roles.measured[c][0] == metric and not is_average(c)]
    shown = (alike or list(titled))[0]
    if _differ_in_direction([*titled, *bare]):
        options = [roles.option(**{role: shown})]
        options += [roles.option(**{_better(column): column}) for column in bare[: _SHOWN - 1]]
        return UserError(
            f"'{shown}', '{bare[0]}'{', …' * (len(bare) + len(titled) > 2)} are different "
            f"metrics, as their arrows say: say which decides, with {' or '.join(options)}."
        )
    other = roles.option(ignore=", ignore=".join(bare))
    own = [roles.option(**{better: bare[0]}) for better in ("higher", "lower")]
    if len({roles.measured[c][0] for c in titled}) > 1 and not any(map(without_metric, titled)):
        more = ", …" * (len(bare) > 1)  # columns are of one metric each: these are none of them
        return UserError(
            f"'{bare[0]}'{more} beside '{shown}' {'names' if not more else 'name'} no known "
            f"metric: leave out what does not decide, with {other}, or say which decides, with "
            f"{own[0]} or {own[1]}."
        )
    same = roles.option(**{role: f", {role}=".join([*alike, *bare])})
    return UserError(
        f"'{shown}' says what its numbers are, but '{bare[0]}' does not: if they are {metric}, "
        f"too, use {same}; if they are something else, {other}, or {own[0]} or {own[1]} if "
        "these decide."
    )


def _differ_in_direction(columns: Sequence[str]) -> bool:
    """Whether titles have arrows, and not all the same: each names a metric of its own."""
    ways = {_better(column) if ("↑" in column) != ("↓" in column) else "" for column in columns}
    return ways == {"higher", "lower"}


def _better(column: str) -> str:
    return "lower" if "↓" in column else "higher"


def mean_of_one(mean: str, other: str, role: str = "higher") -> UserError:
    """Ask which of two columns decides if one is called average: no mean is of one column."""
    options = " or ".join(option(**{role: column}) for column in (mean, other))
    lower = " (lower= if lower is better)" * (role == "higher")
    return UserError(
        f"'{mean}' cannot be the mean of '{other}' alone: say which decides, with {options}{lower}."
    )


def each_its_own(metrics: Mapping[str, str], roles: Roles) -> UserError:
    """Ask what counts where every data set has a metric of its own: metric -> one of its sets."""
    shown = ", ".join(f"{metric} on {name}" for metric, name in metrics.items())
    value = next(iter(roles.measured), "value")
    averaged = roles.option(higher=value, ignore=str(roles.metric))
    return UserError(
        f"Data sets have different metrics ({shown}, …): if higher is better on all of them and "
        f"they may be averaged, use {averaged}; else give the rows of one metric."
    )
