"""Which of several metrics decides: as the user or the file says, else the usual one; or asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import words_of
from oodometer.results import Results
from oodometer.tables.cells import is_gap
from oodometer.tables.described import listed
from oodometer.tables.guessing.alternatives import require_two_sided
from oodometer.tables.guessing.questions import each_its_own
from oodometer.tables.guessing.rivals import require_difference
from oodometer.tables.guessing.roles import Roles
from oodometer.tables.vocabulary.measures import (
    GENERAL,
    MEASURES,
    base_metric,
    main_first,
    metric_named,
)

if TYPE_CHECKING:
    import pandas as pd

NAME_OF_FILE = "name of the file"  # where a metric is stated
_SHOWN = 3  # readings that a question names
_TRAINING = frozenset({"train", "training"})  # words of titles of results on the training data
_OTHER_SENSES = frozenset({"loss", "error rate"})  # in names: a comparison of losses, of errors
_PRIMARY = re.compile(r"(?i)\b(?:primary|main|headline) (?:evaluation )?metric\b(.{0,80})")
_MAIN_WORDS = frozenset(
    {"primary", "main", "selection", "ranking", "objective", "headline", "decisive", "key"}
)


def stated_main(
    frame: pd.DataFrame, default: str | None, source: str, about: str
) -> Mapping[str, str]:
    """Return the metric that a column such as primary_metric or the file's name states, and where.

    The text `about` a table may well speak of one metric among those that the table has: only
    that which it calls the primary metric counts.
    """
    for column in map(str, frame.columns):
        words = words_of(column)
        if "metric" not in words or not words & _MAIN_WORDS:
            continue
        if len(names := frame[column].unique()) == 1:
            metric = metric_named(str(names[0]))
            return {metric: f"column '{column}'"} if metric else {}
    for said in _PRIMARY.finditer(about):
        parts = re.split(r"[\s,;:()*]+", str(said[1]))
        metric = next((known for part in parts if (known := metric_named(part))), None)
        if metric is not None:
            return {metric: "the text above the table"}
    clear = default is not None and source == NAME_OF_FILE and default not in _OTHER_SENSES
    return {str(default): f"the {source}"} if clear else {}


def main_metric_first(
    frame: pd.DataFrame,
    results: Mapping[str, Results],
    roles: Roles,
    stated: Mapping[str, str],
    notes: list[str],
) -> list[str]:
    """Put the main metric first: as the user says or the file, else AUROC or accuracy; or ask.

    Of metrics of the same kind, one that most detectors have goes before one that few have.
    """
    ordered = main_first(results)
    if roles.main:
        return sorted(ordered, key=lambda metric: metric != roles.main[0])
    for metric, where in stated.items():
        if metric in ordered[1:]:
            notes.append(f"{metric} decides, as {where} says; else {ordered[0]} would")
            return sorted(ordered, key=lambda other: other != metric)
    same = [metric for metric in ordered if _is_same_for_all(results[metric])]
    if len(same) == len(ordered):
        require_difference(frame, same[0], roles)
    elif same and same[0] == ordered[0]:
        notes.append(f"{same[0]} does not differ between detectors: another metric decides")
    ordered.sort(key=same.__contains__)
    counts = {metric: results[metric].frame["detector"].nunique() for metric in ordered}
    first, most = ordered[0], max(counts.values())
    if counts[first] < most:
        alike = [
            m for m in ordered if (base_metric(m) in GENERAL) == (base_metric(first) in GENERAL)
        ]
        best = max(alike, key=lambda metric: counts[metric])
        ordered.sort(key=lambda metric: metric != best)
        notes.append(
            f"{first} is given for {counts[first]} of {most} detectors"
            + (f": {best} decides, which {counts[best]} have" if best != first else "")
        )
    if roles.metric is not None:
        _put_frequent_first(ordered, results, roles, notes)
    require_two_sided(ordered, results, roles)
    base = base_metric(ordered[0])
    rivals = {c: m for c, (m, _) in roles.measured.items() if base_metric(m) == base}
    forms = list(dict.fromkeys(rivals.values()))
    trained = [form for form in forms if words_of(form) & _TRAINING]
    forms = [form for form in forms if form not in trained] or forms
    if ordered[0] in trained and len(forms) == 1:
        notes.append(f"{forms[0]} decides: results on training data do not")
        return sorted(ordered, key=lambda metric: metric != forms[0])
    if ordered[0] not in MEASURES and len(forms) > 1:
        rivals = {c: m for c, m in rivals.items() if m in forms}
        options = " or ".join(_option_of_form(form, rivals, roles) for form in forms[:_SHOWN])
        raise UserError(
            f"{' and '.join(repr(c) for c in rivals)} are different metrics: say which decides, "
            f"with {options}."
        )
    return ordered


def _is_same_for_all(results: Results) -> bool:
    """Whether a metric has one value wherever several detectors were measured: it tells nothing.

    Such is the accuracy of a classifier before and after calibration.
    """
    frame = results.frame
    cell = [c for c in ("id", "ood") if c in frame.columns] + [f.name for f in results.factors]
    counts = frame.groupby(cell, dropna=False)[["detector", "value"]].nunique()
    shared = counts[counts["detector"] > 1]
    return frame["value"].nunique() < 2 or bool(len(shared) and (shared["value"] < 2).all())


def _put_frequent_first(
    ordered: list[str], results: Mapping[str, Results], roles: Roles, notes: list[str]
) -> None:
    """Put the metric of most sets first, where every set has a metric of its own, or ask."""
    sets = {m: {*map(tuple, _sets_of(results[m]))} for m in ordered}
    best = max(ordered, key=lambda metric: len(sets[metric]))
    total = len(set.union(*sets.values()))
    if len(ordered) > 2 and 2 * len(sets[best]) <= total == sum(map(len, sets.values())):
        raise each_its_own({m: str(min(sets[m])[0]) for m in ordered[:2]}, roles)
    if sets[ordered[0]].isdisjoint(sets[best]):
        ordered.sort(key=lambda metric: metric != best)
    others = [m for m in ordered if m != best and sets[m].isdisjoint(sets[best])]
    if others and ordered[0] == best:
        notes.append(
            f"data sets have different metrics: {best} decides, which {len(sets[best])} of {total} "
            f"have; {others[0]} is given for {len(sets[others[0]])}"
        )


def note_sets_without(frame: pd.DataFrame, main: Results, roles: Roles, notes: list[str]) -> None:
    """Say which data sets lack the main metric, but have another one: they are not compared."""
    role = "id" if roles.id is not None else "ood"
    column = getattr(roles, role)
    if column is None or column not in frame.columns or role not in main.frame.columns:
        return
    others = [c for c in (*roles.ignored, *roles.measured) if c in frame and metric_named(c)]
    held = frame[~frame[others].map(is_gap).all(axis=1)] if others else frame[:0]
    known = {*main.frame[role]}
    lacking = [name for name in map(str, held[column].unique()) if name and name not in known]
    if lacking and roles.metric is None:
        notes.append(f"{main.metric} is not given, but other metrics are, on {listed(lacking)}")


def _sets_of(results: Results) -> list[list[str]]:
    keys = [name for name in ("id", "ood") if name in results.frame.columns]
    lines: list[list[str]] = results.frame[keys].drop_duplicates().to_numpy().tolist()
    return lines


def _option_of_form(form: str, rivals: Mapping[str, str], roles: Roles) -> str:
    """Return the option with which one of several forms of a metric decides."""
    own = [column for column, metric in rivals.items() if metric == form]
    if len(own) == 1:
        return roles.option(**{"higher" if roles.measure(form).higher else "lower": own[0]})
    others = ", ignore=".join(column for column, metric in rivals.items() if metric != form)
    return roles.option(ignore=others)
