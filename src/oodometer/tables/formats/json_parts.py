"""Parts of a JSON object: its tables of results, and what is computed from them or tells more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import combinations

from oodometer.errors import UserError
from oodometer.tables.vocabulary.measures import metric_named

Json = object  # whatever `json.loads` gives
_SHOWN = 5  # names that an error lists
_OF_ALL = r"(?:_(?:results?|metrics?|scores?|stats|values?|performance|(?:by|over|across|per)_.*))?"
# What is computed from the other tables of a file.
_SUMMARY = re.compile(
    r"(?:aggregat(?:e|es|ed|ion|ions)|summar(?:y|ies)|stat(?:istic)?s|statistical|comparisons?"
    r"|pairwise|paired|differences?|deltas?|significance|rankings?|leaderboard|verdict|hypothes[ie]s"
    rf"|bootstrap|tests?_of|wilcoxon|friedman|anova|t_?tests?|p_values?)(?:_.*)?|.*_(?:stats|summary)|(?:overall|averages?|averaged|means?|best){_OF_ALL}"
)
_STATISTIC = re.compile(
    r"(?:mean|avg|average|std|stdev|sd|min|max|median|n|count|var|variance|sem|stderr|ci\w*|n_\w+"
    r"|num_\w+|lower|upper|low|high)"
)
_SPREAD = re.compile(r"(?:std|stds|stdev|sd|spread|standard_deviations?)(?:_.*)?")
# What tells more about a result: counts, classes, bins.
_DETAIL = re.compile(
    r"(?:confusion|(?:per|by)_|classification_report|class_?(?:wise|_report|_metrics)|report$|counts$"
    r"|histor|curves?$|timings?$|bins?$|buckets?$|calibration|ci$|confidence_interval)"
)


def picked(content: Json, wanted: str, file: str) -> Json:
    """Return the part of a JSON file that FILE.json#name or FILE.json#outer/inner names.

    >>> picked({"main": {"msp": 0.9}, "ablation": []}, "main", "f.json")
    {'msp': 0.9}
    """
    for name in filter(None, wanted.split("/")):
        names = [str(key) for key in content] if isinstance(content, dict) else []
        found = [key for key in names if key == name] or [
            key for key in names if _spelled(key) == _spelled(name)
        ]
        if not isinstance(content, dict) or not found:
            has = f"it has {', '.join(map(repr, names[:_SHOWN]))}" if names else "it has no names"
            raise UserError(f"'{file}' holds no '{name}': {has}{', …' * (len(names) > _SHOWN)}.")
        content = content[found[0]]
    return content


def tables_in(content: Json) -> list[str]:
    """Return the names of what may be a table in an object: lines or names with metrics.

    >>> tables_in({"main": [{"auroc": 0.9}], "note": "x", "k": {"5": {"auroc": 0.8}}})
    ['main', 'k']
    """
    if not isinstance(content, dict):
        return []
    tables = {name: value for name, value in content.items() if _may_be_table(value)}
    unlike = unlike_tables(content)
    return [name for name, value in tables.items() if name in unlike or _names_metric(value)]


def unlike_tables(content: Mapping[str, Json]) -> list[str]:
    """Return the names of objects of objects in one, if the innermost have hardly a key in common.

    >>> unlike_tables({"main": {"msp": {"svhn": 0.9}}, "steps": {"2": {"time": 3, "adv": 0.1}}})
    ['main', 'steps']
    >>> unlike_tables({"cifar10": {"msp": {"svhn": 0.9}}, "cifar100": {"msp": {"svhn": 0.8}}})
    []
    """
    if any(map(are_lines, content.values())):
        return []  # which are the results
    deep = {name: value for name, value in content.items() if _is_deep(value)}
    tables = {name: value for name, value in deep.items() if _names_metric(value)} or deep
    keys = {name: own for name, value in tables.items() if (own := _innermost(value))}
    pairs = list(combinations(keys.values(), 2))
    alike = all(3 * len(one & other) > min(len(one), len(other)) for one, other in pairs)
    return [] if alike else list(keys)


def _is_deep(value: Json) -> bool:
    return isinstance(value, dict) and any(isinstance(entry, dict) for entry in value.values())


def _are_numbers(value: Json) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _innermost(value: Json) -> set[str]:
    """Return the names of all numbers inside objects."""
    if not isinstance(value, dict):
        return set()
    numbers = {str(name) for name, entry in value.items() if _is_number(entry)}
    return numbers.union(*(_innermost(entry) for entry in value.values()))


def without_summaries(content: Mapping[str, Json]) -> dict[str, Json]:
    """Leave out the tables of an object that are computed from its others, by their names.

    >>> without_summaries({"runs": [{"auroc": 0.9}], "aggregate": [{"auroc": 0.9}]})
    {'runs': [{'auroc': 0.9}]}
    >>> sorted(without_summaries({"mean": {"msp": 0.9}, "std": {"msp": 0.1}}))
    ['mean', 'std']
    """
    tables = {name: value for name, value in content.items() if _may_be_table(value)}
    names = {name: _spelled(name) for name in tables}
    spreads = {name for name, said in names.items() if _SPREAD.fullmatch(said)}
    computed = spreads | {name for name, said in names.items() if _SUMMARY.fullmatch(said)}
    others = {name: value for name, value in tables.items() if name not in computed}
    results = {name for name, value in others.items() if _names_metric(value)}
    if not results:
        return dict(content)
    details = {name for name in set(others) - results if _DETAIL.search(names[name])}
    if all(_is_deep(others[name]) for name in results):  # beside names that have several metrics
        details |= {name for name in set(others) - results if _are_numbers(others[name])}
    return {name: value for name, value in content.items() if name not in computed | details}


def names_left_out(content: Json) -> list[str]:
    """Return the names of the tables of an object that are left out.

    >>> names_left_out({"runs": [{"auroc": 0.9}], "aggregate": [{"auroc": 0.9}]})
    ['aggregate']
    """
    if not isinstance(content, dict):
        return []
    kept = without_summaries(content)
    lists = [value for value in kept.values() if isinstance(value, list) and _may_be_table(value)]
    if len(lists) == 1:  # the lines of the table, beside which objects of objects are not read
        kept = {name: value for name, value in kept.items() if not _are_objects(value)}
    return [str(name) for name in content if name not in kept]


def _are_objects(value: Json) -> bool:
    inside = list(value.values()) if isinstance(value, dict) else []
    return bool(inside) and all(isinstance(entry, dict) for entry in inside)


def without_means(content: Json) -> Json:
    """Leave out statistics of runs, wherever the runs themselves are beside them.

    >>> without_means({"auroc": {"mean": 0.9, "std": 0.1, "values": [0.8, 1.0]}})
    {'auroc': [0.8, 1.0]}
    >>> without_means({"auroc": [0.8, 1.0], "auroc_mean": 0.9, "n": 2})
    {'auroc': [0.8, 1.0], 'n': 2}
    >>> without_means({"runs": [{"auroc": 0.9}], "mean": {"auroc": 0.9}})
    {'runs': [{'auroc': 0.9}]}
    """
    if isinstance(content, list):
        return [without_means(entry) for entry in content]
    if not isinstance(content, dict):
        return content
    inside = {name: without_means(value) for name, value in content.items()}
    runs = [name for name, value in inside.items() if _are_runs(value)]
    names = {name: _spelled(name) for name in inside if name not in runs}
    described = len(inside) > 1 and all(map(_STATISTIC.fullmatch, names.values()))
    if len(runs) == 1 and described and metric_named(runs[0]) is None:
        return inside[runs[0]]
    if not runs and not any(map(are_lines, inside.values())):
        return inside
    metrics = {metric_named(name) for name in runs} - {None}
    return {name: value for name, value in inside.items() if not _sums_up(name, value, metrics)}


def _are_runs(value: Json) -> bool:
    """Whether a list holds a number for each of several runs."""
    return isinstance(value, list) and len(value) > 1 and all(map(_is_number, value))


def are_lines(value: Json) -> bool:
    """Whether a list holds the results of several runs or data sets, each an object."""
    return isinstance(value, list) and _may_be_table(value) and _names_metric(value)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _sums_up(name: str, value: Json, metrics: Collection[str | None]) -> bool:
    """Whether an entry is a mean or a spread of the runs beside it, by its name."""
    words = _spelled(name).split("_")
    named = any(word in ("mean", "avg", "average", "std", "stdev", "sd") for word in words)
    if isinstance(value, dict):
        return named and _names_metric(value) and len(words) == 1
    of_runs = metric_named(name) in metrics if metrics else metric_named(name) is not None
    return named and _is_number(value) and (of_runs or len(words) == 1)


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


def titled_lines(titles: list[Json], rows: list[list[Json]]) -> list[dict[str, Json]]:
    """Return an object per line; titles that are empty say their place, as in other files."""
    named = [str(title).strip() or f"column {n}" for n, title in enumerate(titles, 1)]
    if double := [title for title, times in Counter(named).items() if times > 1]:
        raise UserError(f"The table has two columns called '{double[0]}'.")
    return [dict(zip(named, row, strict=False)) for row in rows]
