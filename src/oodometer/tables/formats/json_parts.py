"""Parts of a JSON object: its tables of results, and what is computed from them or tells more."""

from __future__ import annotations

import re
from collections.abc import Mapping

from oodometer.tables.vocabulary.measures import metric_named

Json = object  # whatever `json.loads` gives
_OF_ALL = r"(?:_(?:results?|metrics?|scores?|stats|values?|performance|(?:by|over|across|per)_.*))?"
# What is computed from the other tables of a file.
_SUMMARY = re.compile(
    r"(?:aggregat(?:e|es|ed|ion|ions)|summar(?:y|ies)|stat(?:istic)?s|statistical|comparisons?"
    r"|pairwise|paired|differences?|deltas?|significance|rankings?|leaderboard|verdict|hypothes[ie]s"
    rf"|bootstrap|tests?_of)(?:_.*)?|(?:overall|averages?|averaged|means?|best){_OF_ALL}"
)
_SPREAD = re.compile(r"(?:std|stds|stdev|sd|spread|standard_deviations?)(?:_.*)?")
# What tells more about a result: counts, classes, bins.
_DETAIL = re.compile(
    r"(?:confusion|(?:per|by)_|classification_report|class_?(?:wise|_report|_metrics)|report$|counts$"
    r"|histor|curves?$|timings?$|bins?$|buckets?$|calibration|ci$|confidence_interval)"
)


def without_summaries(content: Mapping[str, Json]) -> dict[str, Json]:
    """Leave out the tables of an object that are computed from its others, by their names.

    >>> without_summaries({"runs": [{"auroc": 0.9}], "aggregate": [{"auroc": 0.9}]})
    {'runs': [{'auroc': 0.9}]}
    >>> sorted(without_summaries({"mean": {"msp": 0.9}, "std": {"msp": 0.1}}))
    ['mean', 'std']
    """
    tables = {name: value for name, value in content.items() if _may_be_table(value)}
    names = {name: _spelled(name) for name in tables}
    computed = {name for name, said in names.items() if _SUMMARY.fullmatch(said)}
    others = [value for name, value in tables.items() if name not in computed]
    if any(map(_SPREAD.fullmatch, names.values())) or not any(map(_names_metric, others)):
        return dict(content)
    return {name: value for name, value in content.items() if name not in computed}


def is_detail(name: str, value: Mapping[str, Json]) -> bool:
    """Whether an object beside metrics tells more about them, but is not a result of its own.

    >>> is_detail("confusion_matrix", {"tp": 3}), is_detail("per_class", {"cat": {"f1": 0.9}})
    (True, True)
    >>> is_detail("svhn", {"auroc": 0.9}), is_detail("extra", {"threshold": 0.4})
    (False, True)
    """
    return bool(_DETAIL.match(_spelled(name))) or not (_names_metric(value) or _nests(value))


def _spelled(name: str) -> str:
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_")


def _may_be_table(value: Json) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(entry, dict) for entry in value)
    return isinstance(value, dict) and bool(value)


def _nests(value: Mapping[str, Json]) -> bool:
    return any(isinstance(entry, dict) for entry in value.values())


def _names_metric(value: Json) -> bool:
    """Whether numbers somewhere inside are called after a metric."""
    if isinstance(value, list):
        return any(map(_names_metric, value))
    if not isinstance(value, dict):
        return False
    return any(metric_named(str(name)) or _names_metric(entry) for name, entry in value.items())
