"""From a results table to `Results`: the whole pipeline, with notes on what was assumed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import Factor, by_title, within_runs
from oodometer.results import Results, label_of
from oodometer.tables.cells import holds_numbers, is_gap, numeric_share
from oodometer.tables.formats.files import LEFT_OUT, Table, texts
from oodometer.tables.found import Found, beside
from oodometer.tables.frames.crossed import uncrossed
from oodometer.tables.frames.differences import without_differences
from oodometer.tables.frames.entries import metric_of_names, with_whole_names
from oodometer.tables.frames.glued import (
    with_crossed_names,
    with_sets_of_names,
    with_sets_of_series,
    without_names_of_others,
)
from oodometer.tables.frames.id_sets import with_id_sets
from oodometer.tables.frames.line_metrics import with_metrics_of_lines
from oodometer.tables.frames.negated import unnegated
from oodometer.tables.frames.parted_titles import with_parted_titles
from oodometer.tables.frames.paths import gather
from oodometer.tables.frames.stated_titles import with_stated_titles
from oodometer.tables.frames.titles import tidied
from oodometer.tables.frames.unfolding import unfolded
from oodometer.tables.guessing.alternatives import (
    require_agreeing_arrows,
    require_alike,
    settle_digits,
    settle_overall,
)
from oodometer.tables.guessing.columns import guess
from oodometer.tables.guessing.content import are_detectors
from oodometer.tables.guessing.evidence import require_evidence
from oodometer.tables.guessing.forms import doubted_forms, require_one_form
from oodometer.tables.guessing.quantities import require_known_metrics, require_one_unit
from oodometer.tables.guessing.refusals import (
    NothingComparedError,
    require_no_listing,
    require_no_matrix,
    require_no_samples,
    require_results,
)
from oodometer.tables.guessing.roles import ALL, Roles, parse_columns, parted_pairs, with_joined
from oodometer.tables.guessing.splits import on_test_data
from oodometer.tables.guessing.unexplained import note_unexplained, require_compared
from oodometer.tables.guessing.unnamed import require_metric_of_text, settle_metric
from oodometer.tables.lines.doubts import require_clear_commas, require_error_rates
from oodometer.tables.lines.kinds import assumed_kinds, settle_cutoffs, settle_names_of_runs
from oodometer.tables.lines.long import Long, to_long
from oodometer.tables.lines.runs import Runs, find_runs
from oodometer.tables.lines.stated_spreads import of_titles, with_spreads
from oodometer.tables.main_metric import (
    NAME_OF_FILE,
    main_metric_first,
    note_sets_without,
    stated_main,
)
from oodometer.tables.vocabulary.measures import MEASURES, metric_named
from oodometer.tables.vocabulary.mentioned import metric_stated, metrics_in_name
from oodometer.tables.vocabulary.others import names_metrics
from oodometer.tables.vocabulary.uncertainty import Uncertainty

if TYPE_CHECKING:
    import pandas as pd

    PathLike = str | os.PathLike[str]


_MOST_COLUMNS = 10_000  # of which each is looked at several times, to find its role
_FEWEST_NUMBERS = 2  # columns of numbers, all of which a row must lack to be left out
_TEXT = "text above the table"


@dataclass(frozen=True, eq=False)
class Reading:
    """What a table holds: results per metric, the role of each column, and notes."""

    results: tuple[Results, ...]  # AUROC first where there is one
    columns: tuple[tuple[str, str], ...]  # column, role
    notes: tuple[str, ...]
    found: tuple[Found, ...] = ()  # the tables of the files, and which of them were read
    # Factors that are assumed to be conditions -> what to ask if the answer depends on it.
    assumed: Mapping[str, str] = field(default_factory=dict)
    doubt: str = ""  # what to ask if the answer depends on titles being names of data sets


def read_results(
    given: PathLike | Sequence[PathLike] | pd.DataFrame, columns: str = "", runs: int | None = None
) -> Reading:
    """Read one or several tables, or folders of them; `columns` corrects what would be guessed.

    `columns` is such as ``detector=Method, ood=Test set, auroc=AUC, repeat=Batch``; roles are
    detector, id, ood, metric, runs, factor, repeat, condition, re_evaluation, part, covariate,
    ignore, higher, lower, and the names of metrics. `runs` is how many stand behind each mean ±
    standard deviation, where no column says it.
    """
    if runs is not None and runs < 2:
        raise UserError(f"runs must be at least 2, got {runs}: one run has no standard deviation.")
    notes: list[str] = []
    table, stem = _table(given, notes)
    try:
        return _read(table, stem, columns, runs, notes)
    except UserError as problem:
        others = beside(table.found) if isinstance(problem, NothingComparedError) else ""
        parts = next((f" ({note}.)" for note in notes if LEFT_OUT in note), "")
        raise UserError(f"{problem}{others}{parts}") from None


def _read(table: Table, stem: str, columns: str, runs: int | None, notes: list[str]) -> Reading:
    """Read one table: first what its columns are, then its lines."""
    frame, titles = tidied(with_stated_titles(table.frame, notes))
    require_no_matrix(frame, columns)
    pairs, roles_said = parted_pairs(columns)
    frame = unfolded(frame, notes, table.about, pairs, roles_said)
    frame = with_metrics_of_lines(unnegated(frame, roles_said, notes), notes)
    frame = with_id_sets(frame, notes)
    frame, roles_said = with_parted_titles(without_differences(frame, notes), roles_said, notes)
    frame = uncrossed(frame, notes)
    frame = with_sets_of_names(with_sets_of_series(frame, roles_said, notes), roles_said, notes)
    frame = with_crossed_names(frame, roles_said, notes)
    default, source = _default_metric(stem, table.about)
    if default is None:
        default, frame = metric_of_names(frame)
        source = "names of the files"
    frame = with_joined(roles_said, frame, titles)
    chosen = parse_columns(roles_said, frame, titles)
    frame = on_test_data(_without_empty_rows(frame, notes), chosen, columns, notes)
    require_no_samples(frame, chosen)
    require_no_listing(frame, chosen)
    roles = guess(frame, chosen, default, columns)
    frame = _of_one_detector(frame, roles, stem, notes)
    frame = without_names_of_others(frame, roles, notes)
    require_results(roles, frame)
    settle_digits(roles, table.about)
    require_known_metrics(frame, roles)
    require_one_unit(roles)
    require_alike(frame, roles)
    require_one_form(frame, roles)
    settle_overall(frame, roles)
    require_agreeing_arrows(roles)
    require_error_rates(roles)
    frame = with_whole_names(frame, roles, notes)
    settle_metric(frame, roles, notes)
    if source == _TEXT and not roles.main and ALL not in chosen:
        require_metric_of_text(frame, default, roles, table.about)
    unnamed = roles.metric is None and not any(map(metric_named, roles.measured))
    if default is not None and unnamed and not chosen:
        better = "higher" if MEASURES[default].higher else "lower"
        told = f"the {source} says that the numbers are {label_of(default)}"
        notes.append(f"{told}: {better} is better")
    require_evidence(frame, roles)
    settle_cutoffs(roles)
    settle_names_of_runs(frame, roles)
    require_clear_commas(frame, roles)
    measured = find_runs(to_long(frame, roles, notes), notes, roles)
    note_unexplained(frame, measured.set_aside, roles, notes)
    said = of_titles(map(str, frame.columns)).or_else(table.uncertainty)
    results = {
        str(metric): _results(
            replace(measured.long, frame=part), str(metric), roles, runs, said, notes
        )
        for metric, part in measured.long.frame.groupby("metric", sort=False)
    }
    stated = stated_main(frame, default, source, table.about)
    ordered = main_metric_first(frame, results, roles, stated, notes)
    _require_several(results[ordered[0]], frame, roles)
    note_sets_without(frame, results[ordered[0]], roles, notes)
    return Reading(
        tuple(results[metric] for metric in ordered),
        _listing(roles, measured),
        tuple(dict.fromkeys(notes)),
        table.found,
        assumed_kinds(measured.long, roles),
        doubted_forms(roles),
    )


def _require_several(main: Results, frame: pd.DataFrame, roles: Roles) -> None:
    """Refuse a column of detectors of which the main metric is given for one alone."""
    column = roles.detector
    if column is None or column in roles.chosen or column not in frame.columns:
        return
    named = [str(name) for name in main.frame["detector"].unique()]
    several = frame[column].nunique()
    if len(named) == 1 and several > 2 and roles.metric is not None:
        raise UserError(
            f"{main.metric} is given for {named[0]} alone, one of {several} names in column "
            f"'{column}': if another column names what is compared, say which with --columns "
            f"detector=COLUMN; if the titles of columns do, use {roles.option(detector=ALL)}."
        )


def _table(
    given: PathLike | Sequence[PathLike] | pd.DataFrame, notes: list[str]
) -> tuple[Table, str]:
    """Return the table as texts, and the name of its file, if it is one."""
    import pandas as pd

    stem = ""
    if isinstance(given, pd.DataFrame):
        table = Table(texts(given))
    else:
        paths = [Path(p) for p in ([given] if isinstance(given, str | os.PathLike) else given)]
        if not paths:
            raise UserError("No file was given.")
        table = gather(paths, notes)
        stem = paths[0].stem if len(paths) == 1 else ""
    if table.frame.empty:
        raise UserError("The table has no lines.")
    if (columns := len(table.frame.columns)) > _MOST_COLUMNS:
        raise UserError(
            f"The table has {columns:,} columns; at most {_MOST_COLUMNS:,} can be read: give one "
            "line per detector and outlier set instead."
        )
    return table, stem


def _without_empty_rows(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Leave out rows that name something, but hold no number where the others do."""
    first, *others = frame.columns
    of_metrics = names_metrics(first) and len(others) >= _FEWEST_NUMBERS
    numeric = [c for c in frame.columns if numeric_share(frame[c]) > 0.5]
    if len(numeric) < _FEWEST_NUMBERS and not of_metrics:
        return frame
    if of_metrics:  # some in words: Use case
        empty = ~frame[others].map(holds_numbers).any(axis=1)
    else:
        empty = frame[numeric].map(is_gap).all(axis=1)
    if empty.all():
        return frame
    if not empty.any():
        return frame
    notes.append(f"rows without any number were left out: {int(empty.sum())}")
    kept: pd.DataFrame = frame[~empty]
    return kept.reset_index(drop=True)


def _listing(roles: Roles, runs: Runs) -> tuple[tuple[str, str], ...]:
    """Every column with its final role."""
    names = {title: name for name, title in runs.long.factors.items()}

    def factor(column: str) -> str:
        return "factor" if names[column] == column else f"factor, called {names[column]}"

    used = [
        (column, factor(column) if column in names else role)
        for column, role in roles.listing()
        if column not in runs.set_aside
    ]
    return (*used, *((column, f"not used: {why}") for column, why in runs.set_aside.items()))


def _default_metric(stem: str, about: str) -> tuple[str | None, str]:
    """The metric that the name of the file, or what stands above the table, names alone."""
    of_name = metrics_in_name(stem)
    if len(of_name) == 1:
        return of_name.pop(), NAME_OF_FILE
    if (metric := metric_stated(about)) is not None:
        return metric, _TEXT
    return None, ""


def _of_one_detector(
    frame: pd.DataFrame, roles: Roles, stem: str, notes: list[str]
) -> pd.DataFrame:
    """Read a file that names outlier sets, each once, and no detector as results of one detector.

    OpenOOD writes such files; often only their name says which detector it was.
    """
    cell = [c for c in (roles.ood, roles.id, roles.metric, *roles.factors) if c is not None]
    named = roles.detector is not None or are_detectors(roles) or "detector" in frame.columns
    if named or not stem or roles.ood is None or not roles.measured or frame.duplicated(cell).any():
        return frame
    require_compared(frame, roles)
    roles.detector = "detector"
    notes.append(f"no column names the detector: all rows are read as results of {stem}")
    return frame.assign(detector=stem)


def _results(
    long: Long,
    metric: str,
    roles: Roles,
    runs: int | None,
    said: Uncertainty,
    notes: list[str],
) -> Results:
    """Return the results of one metric; `runs`, or those said, stand behind each mean ± spread."""
    known = [name for name in ("detector", "id", "ood") if name in long.frame.columns]
    frame = long.frame[[*known, *long.factors, *long.covariates, "value"]].reset_index(drop=True)
    part = long.frame.reset_index(drop=True)
    if part["spread"].notna().any():
        frame = with_spreads(frame, part, said, runs, notes)
    elif runs is not None:
        raise UserError("--runs is for means with a standard deviation, and no cell states one.")
    if len(frame) > 1 and len(set(frame["value"])) == 1:
        notes.append(f"{metric}: every value is {frame['value'].iloc[0]:g}")
    factors = within_runs(
        _factor(name, title, roles, frame[name], long.factors)
        for name, title in long.factors.items()
    )
    measure = long.measures[metric]
    repeated = "spread" in frame.columns or any(factor.kind == "repeat" for factor in factors)
    mean_of = 0 if repeated else said.runs or 0
    is_share = bool(measure.is_share)
    return Results(frame, factors, metric, measure.higher, is_share=is_share, mean_of=mean_of)


def _factor(
    name: str, title: str, roles: Roles, levels: pd.Series[str], beside: Iterable[str]
) -> Factor:
    """Return a factor of the kind that the user says, else of the one that its title says."""
    if title in roles.kinds:
        return Factor(name, roles.kinds[title])
    return by_title(name, levels.unique(), beside)
