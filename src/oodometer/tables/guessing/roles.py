"""What the columns of a table can be, and what the user says they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from oodometer.errors import UserError, nearest, unknown
from oodometer.factors import Kind
from oodometer.tables.columns import with_columns
from oodometer.tables.vocabulary.measures import (
    MEASURES,
    Measure,
    base_metric,
    measure_called,
    metric_named,
)

if TYPE_CHECKING:
    import pandas as pd

SINGLE = ("detector", "id", "ood", "metric", "runs")  # roles that one column has
SECTION = "section"  # title of a column for headings between the lines
KINDS: tuple[Kind, ...] = ("repeat", "condition", "re_evaluation", "part")
MANY = ("factor", *KINDS, "covariate", "ignore", "higher", "lower")  # roles that several may have
DIRECTIONS, IGNORED = ("higher", "lower"), "ignore"  # roles of numbers in cells of several
ALL = "*"  # instead of a column: all columns of numbers whose titles name no metric
WIDE = ("detector", "id", "ood", *KINDS)  # what titles of several columns may name
COLUMNS = "\0columns"  # instead of a column: the titles of those with results
UNNAMED = "value"  # what a metric is called that nothing names
MEAN_OF_OTHERS = "a mean of other columns"  # why a column is not used
OTHER_STATISTIC = "another statistic"
_DECIMAL = r"-?(?:\d*\.\d+(?:[eE]-?\d+)?|\d+[eE]-\d+)"  # 0.91, 5e-05
_PARTS = re.compile(r",(?=\s*[\w/@.+-]+\s*=)|,\s*$")  # titles may hold commas
_PAIRS = re.compile(r"[\w@.-]+(?:/[\w@.-]+)+\s*=\s*\*")  # MSE/MAE=*, ROC-AUC/FPR@95=*


@dataclass
class Roles:
    """Which column is what; several with results hold one set, detector or condition each."""

    detector: str | None = None
    id: str | None = None
    ood: str | None = None
    metric: str | None = None  # a column that names the metric of each line
    runs: str | None = None  # a column that says over how many runs each mean is
    measured: dict[str, tuple[str, str]] = field(default_factory=dict)  # column -> metric, of what
    spreads: dict[str, str] = field(default_factory=dict)  # measured column -> that of its spread
    factors: list[str] = field(default_factory=list)
    covariates: list[str] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)  # column -> why
    chosen: set[str] = field(default_factory=set)  # columns whose roles the user says
    kinds: dict[str, Kind] = field(default_factory=dict)  # of factors, as the user says
    sets: Literal["ood", "id"] = "ood"  # what data sets in the titles of wide columns are
    are_titles: bool = False  # titles of wide columns name what is compared
    wide: str = ""  # what titles of wide columns name, as the user says
    own: dict[str, Measure] = field(default_factory=dict)  # metrics that no table of names knows
    is_supposed: bool = False  # nothing names a metric: numbers are read as AUROC
    said: str = ""  # the roles that the user says, as given

    @property
    def main(self) -> list[str]:
        """The metrics of the columns that the user says."""
        return [metric for column, (metric, _) in self.measured.items() if column in self.chosen]

    def measure(self, name: str) -> Measure:
        """Return a metric of this table by its name."""
        return self.own[name] if name in self.own else MEASURES[name]

    def option(self, **chosen: str) -> str:
        """Write the option that gives columns their roles, beside what the user says already."""
        return option(self.said, **chosen)

    def listing(self) -> list[tuple[str, str]]:
        """Every column with its role, as shown to the user."""
        named = [(getattr(self, role), role) for role in SINGLE if getattr(self, role)]
        values = [
            (column, f"{metric}{f' of {what}' if what else ''}")
            for column, (metric, what) in self.measured.items()
        ]
        values += [(spread, f"spread of {column}") for column, spread in self.spreads.items()]
        factors = [(column, self.kinds.get(column, "factor")) for column in self.factors]
        covariates = [(column, "about the run") for column in self.covariates]
        return [
            *named, *values, *factors, *covariates,
            *((column, f"not used: {why}") for column, why in self.ignored.items()),
        ]  # fmt: skip


def parse_columns(text: str, frame: pd.DataFrame, titles: Mapping[str, str]) -> dict[str, str]:
    """Read ``detector=Method, auroc=AUC, factor=Batch`` into column -> role.

    `titles` says which were changed on reading: a user may say what stands in the file.
    """
    allowed = [*SINGLE, *MANY, *(name.replace(" ", "_") for name in MEASURES)]
    chosen: dict[str, str] = {}
    for part in parts_of(text):
        role, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UserError(f"--columns takes role=column, such as detector=Method; got '{part}'.")
        measure = None if role in (*SINGLE, *MANY) else measure_called(role)
        if role not in allowed and measure is None:
            is_column = titles.get(role, role) in frame.columns
            raise _unknown_role(role, column, allowed, is_column=is_column)
        column = titles.get(column, column)
        is_metric = measure is not None or role in ("higher", "lower")
        if column == ALL and role in WIDE and ALL not in frame.columns:
            chosen[COLUMNS] = role
            continue
        if is_metric and column != ALL and (others := _others(column, frame)):
            chosen = dict.fromkeys(others, "ignore") | chosen  # what the user says counts
            column = ALL
        if column not in frame.columns and not (column == ALL and is_metric):
            raise unknown("column", column, frame.columns)
        if role in SINGLE and role in chosen.values():
            raise UserError(f"--columns names two columns as {role}.")
        chosen[column] = role if measure is None else measure.name
    _require_one_direction(chosen)
    return chosen


def parts_of(text: str) -> list[str]:
    """Part what the user says of columns; what follows a comma in a title begins no role.

    >>> parts_of("detector=Model, higher=Robust accuracy, ε = 8/255")
    ['detector=Model', 'higher=Robust accuracy, ε = 8/255']
    """
    parts: list[str] = []
    for part in _PARTS.split(text):
        role = part.partition("=")[0].strip()
        if parts and "=" in part and not _may_be_role(role):
            parts[-1] = f"{parts[-1]},{part}".rstrip()
        else:
            parts.append(part.strip())
    return [part for part in parts if part]


def _may_be_role(name: str) -> bool:
    """Whether a word is a role, or close to one: a slip is refused by its name."""
    known = (*SINGLE, *MANY)
    if are_wide(name):
        return True
    is_metric = all(measure_called(part) or part in known for part in name.split("/"))
    return is_metric or metric_named(name) is not None or nearest(name, known) is not None


def are_wide(role: str) -> bool:
    """Whether a role, or each of two roles joined by +, may be what titles of columns name."""
    return all(name.strip() in WIDE for name in role.split("+"))


def _require_one_direction(chosen: Mapping[str, str]) -> None:
    """Refuse detectors in titles whose columns differ in which is better."""
    ways = {role: column for column, role in chosen.items() if role in ("higher", "lower")}
    if chosen.get(COLUMNS) == "detector" and len(ways) > 1:
        both = " and ".join(f"{role}={column}" for role, column in ways.items())
        raise UserError(
            f"--columns says {both}, but detector=* compares the titles of columns, which hold one "
            f"metric: use {option(detector=ALL, higher=ALL)} or {option(detector=ALL, lower=ALL)}."
        )


def _others(pattern: str, frame: pd.DataFrame) -> list[str]:
    """Return the columns of decimals that a pattern such as ``*R@1`` leaves out; none for a title.

    What it stands for are the results of one metric on several data sets; R@5 may be whole.
    """
    titles = [str(column) for column in frame.columns]
    if ALL not in pattern or pattern in titles:
        return []
    exact = re.compile(".*".join(map(re.escape, pattern.split(ALL))))
    kept = [title for title in titles if exact.fullmatch(title)]
    if not kept:
        raise unknown("column", pattern, titles)
    left = [title for title in titles if title not in kept]
    return [t for t in left if "@" in t or frame[t].str.fullmatch(_DECIMAL).any()]


def parted_pairs(text: str) -> tuple[str, str]:
    """Part what the user says of cells with several numbers from the roles of columns.

    Of metrics that nobody knows, one is taken: `higher/ignore/ignore=*` is the first of three.

    >>> parted_pairs("detector=Method, FPR95/AUROC=*"), parted_pairs("higher=*")
    (('FPR95/AUROC', 'detector=Method'), ('', 'higher=*'))
    >>> parted_pairs("higher/ignore=*")
    ('higher/ignore', 'higher=*')
    """
    parts = parts_of(text)
    named = [part for part in parts if _PAIRS.fullmatch(part)]
    if not named:
        return "", text
    pairs = named[0].partition("=")[0].strip()
    words = [name for name in pairs.split("/") if name in DIRECTIONS]
    if words and {*pairs.split("/")} - {words[0], IGNORED}:
        raise UserError(f"--columns {named[0]}: beside '{words[0]}' all others are '{IGNORED}'.")
    parts += [f"{words[0]}={ALL}"] if words else []
    for name in pairs.split("/"):
        if metric_named(name) is None and name not in (*DIRECTIONS, IGNORED):
            raise UserError(
                f"--columns {named[0]}: '{name}' is not a known metric, such as auroc, fpr95, "
                "accuracy, mse."
            )
    return pairs, ", ".join(part for part in parts if part and part not in named)


def _unknown_role(role: str, column: str, allowed: Sequence[str], *, is_column: bool) -> UserError:
    """Refuse a role that does not exist, or one that stands behind its column."""
    if is_column and (column in allowed or measure_called(column) is not None):
        return UserError(
            f"--columns takes role=column, but '{role}' is a column: write {column}={role}."
        )
    close = nearest(role, allowed)
    hint = f" Did you mean '{close}'?" if close is not None else ""
    return UserError(
        f"Unknown role of a column '{role}'.{hint} Known: {', '.join((*SINGLE, *MANY))}, and the "
        "names of metrics, such as auroc, fpr95, accuracy, rmse."
    )


def role_of(metric: str) -> str:
    """Return the role of columns of a metric; of one that nothing names, higher is better.

    >>> role_of("@4 balanced accuracy"), role_of("value")
    ('balanced_accuracy', 'higher')
    """
    return "higher" if metric == UNNAMED else base_metric(metric).replace(" ", "_")


def with_joined(text: str, frame: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """Join the columns that ``detector=Training+Method`` names into one of that title."""
    for part in parts_of(text):
        name = part.partition("=")[2].strip()
        if "+" not in name or titles.get(name, name) in frame.columns:
            continue
        parts = [titles.get(title.strip(), title.strip()) for title in name.split("+")]
        for title in parts:
            if title not in frame.columns:
                raise unknown("column", title, frame.columns)
        frame = joined_column(frame, parts, name)
    return frame


def joined_column(frame: pd.DataFrame, parts: Sequence[str], name: str) -> pd.DataFrame:
    """Replace columns by one of that name that holds the texts of all."""
    lines = frame[list(parts)].to_numpy().tolist()
    joined = [" + ".join(dict.fromkeys(filter(None, line))) for line in lines]
    return with_columns(frame.drop(columns=list(parts)), {name: joined})


def option(said: str = "", /, **chosen: str) -> str:
    """Write the option that gives columns their roles, beside those that were `said` already.

    >>> option(detector="Model ID", higher="acc"), option("id=a, higher=*", lower="*", part="b")
    ('--columns "detector=Model ID, higher=acc"', '--columns "id=a, lower=*, part=b"')
    >>> option("higher=*", detector="*"), option("detector=*", id="*")
    ('--columns "higher=*, detector=*"', '--columns "id=*"')
    >>> option("MSE/MAE=*", ignore="a")  # says of cells what they hold
    '--columns "MSE/MAE=*, ignore=a"'
    """
    taken = {(column, column == ALL and are_wide(role)) for role, column in chosen.items()}
    kept = [
        part
        for part in parts_of(said)
        if (pair := [piece.strip() for piece in part.partition("=")])[2]
        and ("/" in pair[0] or (pair[2], pair[2] == ALL and are_wide(pair[0])) not in taken)
        and not (pair[0] in SINGLE and pair[0] in chosen)
    ]
    parts = kept + [f"{role}={column}" for role, column in chosen.items()]
    return f'--columns "{", ".join(parts)}"'
