"""JSON of any common shape as lines of a table: records, columns, or names inside names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

from oodometer.tables.formats.json_nested import (
    SETTINGS,
    WRAPPERS,
    Json,
    Line,
    are_of_epochs,
    holds_lines,
    is_number,
    nested_lines,
    title_of_names,
)
from oodometer.tables.formats.json_parts import (
    titled_lines,
    unlike_tables,
    without_means,
    without_summaries,
)
from oodometer.tables.vocabulary.costs import names_costs
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.names import is_surely_detector
from oodometer.tables.vocabulary.titles import is_setting

_OF_RUNS = re.compile(
    r"(?i)[\s_-]+(?:(?:per|by|all|over)[\s_-]+)?(?:runs?|seeds?|folds?|values|all)$"
)
_Value = str | int | float


def json_lines(content: Json) -> list[Line] | None:
    """Return one object per line of the table, or None if there is no table in it.

    >>> json_lines({"msp": {"svhn": 0.9, "dtd": 0.8}})
    [{'column 1': 'msp', 'svhn': 0.9, 'dtd': 0.8}]
    >>> json_lines({"auroc": {"0": 0.9, "1": 0.8}})
    [{'auroc': 0.9}, {'auroc': 0.8}]
    """
    content = without_means(content)
    if isinstance(content, dict):
        content = without_summaries(content)
        if unlike_tables(content):
            return None
    return next((lines for shape in _SHAPES if (lines := shape(content)) is not None), None)


def _rows(content: Json) -> list[Line] | None:
    """A list of lists: the titles, then a list per line."""
    if not isinstance(content, list) or not content or not _are_lists(content):
        return None
    titles, *rows = content
    return titled_lines(titles, rows)


def _records(content: Json) -> list[Line] | None:
    """A list of objects, one per line."""
    if not isinstance(content, list) or not _are_objects(content):
        return None
    inside = [_list_inside(entry) for entry in content]
    if content and all(inside) and len(set(inside)) == 1:
        return [line for entry in content for line in _lines_inside(entry, str(inside[0]))]
    return [line for entry in content for line in _with_runs(_flat(entry))]


def _with_runs(entry: Line) -> list[Line]:
    """Return a line per run, where a record has a list of numbers for a metric: auroc_runs."""
    lists = {n: v for n, v in entry.items() if isinstance(v, list) and v and metric_named(n)}
    lengths = {len(values) for values in lists.values()}
    numbers = all(is_number(value) for values in lists.values() for value in values)
    if len(lengths) != 1 or not numbers or are_of_epochs(lists):
        return [entry]
    rest = {name: value for name, value in entry.items() if name not in lists}
    titles = [_OF_RUNS.sub("", name) for name in lists]
    runs = zip(*lists.values(), strict=True)
    return [{**rest, "run": n, **dict(zip(titles, run, strict=True))} for n, run in enumerate(runs)]


def _list_inside(entry: Line) -> str | None:
    """Return the name of the only list of objects in one, such as the results of a model."""
    lists = {name: value for name, value in entry.items() if isinstance(value, list) and value}
    named = [name for name, value in lists.items() if _are_objects(value)]
    return named[0] if len(named) == 1 and len(entry) > 1 else None


def _lines_inside(entry: Line, name: str) -> list[Line]:
    """Return the lines of the list inside an object, each with what the object tells of it.

    Metrics beside the list, such as those of a baseline, are no results of its lines.
    """
    about = _prefixed({key: value for key, value in entry.items() if key != name})
    known = {key: value for key, value in about.items() if not metric_named(key)}
    inner = entry[name]
    assert isinstance(inner, list)
    return [known | _prefixed(line) for line in inner]


def _prefixed(entry: Line) -> Line:
    """Lift what stands in inner objects, by its whole name: model name, dataset name."""
    flat: Line = {}
    for name, value in entry.items():
        if isinstance(value, dict):
            flat |= {f"{name} {key}": lifted for key, lifted in _prefixed(value).items()}
        else:
            flat[name] = value
    return flat


def _pandas(content: Json) -> list[Line] | None:
    """What pandas writes with orient="split" and orient="table"."""
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(data, list):
        return None
    titles, index = content.get("columns"), content.get("index")
    if isinstance(titles, list) and _are_lists(data):
        counted: list[Json] = [*range(len(data))]
        told = index if isinstance(index, list) and len(index) == len(data) else counted
        names = [[] if told == counted else _levels(name) for name in told]
        joined = [" ".join(map(str, filter(None, _levels(title)))) for title in titles]
        lines = [[*own, *line] for own, line in zip(names, data, strict=True)]
        return titled_lines([*("" for _ in (names or [[]])[0]), *joined], lines)
    if not _are_objects(data):
        return None
    return [_flat({k: v for k, v in entry.items() if k != "index"}) for entry in data]


def _levels(name: Json) -> list[Json]:
    """The levels of a title or a name of an index, which may have one alone."""
    return name if isinstance(name, list) else [name]


def _wrapped(content: Json) -> list[Line] | None:
    """An object around a list of lines, however deep: {"data": {"values": [...]}}."""
    while isinstance(content, dict) and len(content) == 1:
        content = next(iter(content.values()))
    is_list = isinstance(content, list) and bool(content) and _are_objects(content)
    return _records(content) if is_list else None


def _columns(content: Json) -> list[Line] | None:
    """An object of equally long lists, one per column; or of one list of lines."""
    if not isinstance(content, dict) or not _are_lists(list(content.values())):
        return None
    columns = list(content.values())
    if len({len(column) for column in columns}) != 1:
        return None
    if len(columns) == 1 and _are_objects(columns[0]):
        return _records(columns[0])
    if all(map(holds_lines, columns)):
        return None  # tables with as many lines each
    return [dict(zip(content, row, strict=True)) for row in zip(*columns, strict=True)]


def _among_facts(content: Json) -> list[Line] | None:
    """An object with one list of lines, among facts about all of them."""
    if not isinstance(content, dict):
        return None
    lists = [value for value in content.values() if isinstance(value, list) and value]
    records = [value for value in lists if _are_objects(value)]
    return _with_facts(records[0], content) if len(records) == 1 else None


def _groups(content: Json) -> list[Line] | None:
    """An object of several lists of like lines, each under the name of its group."""
    if not isinstance(content, dict):
        return None
    lists = {name: value for name, value in content.items() if isinstance(value, list) and value}
    groups = {name: value for name, value in lists.items() if _are_objects(value)}
    if len(groups) < 2 or len(groups) < len(lists):
        return None
    lines = {name: _records(value) or [] for name, value in groups.items()}
    first, *others = [set(line) for each in lines.values() for line in each]
    if any(2 * len(first & keys) < len(first) for keys in others) or not _are_alike(lines):
        return None  # tables of different things
    return [{"column 1": name, **line} for name, each in lines.items() for line in each]


def _are_alike(groups: Mapping[str, list[Line]]) -> bool:
    """Whether what names the lines of one group names those of all others, too."""
    names = [
        set.intersection(*({k for k, v in line.items() if isinstance(v, str)} for line in lines))
        for lines in groups.values()
    ]
    keys = [set.union(*(set(line) for line in lines)) for lines in groups.values()]
    return all(own <= known for own in names for known in keys)


def _one_run(content: Json) -> list[Line] | None:
    """An object with the results of one run, among its settings."""
    if not isinstance(content, dict):
        return None
    facts = {name: value for name, value in content.items() if _is_fact(name, value)}
    results = {name: value for name, value in content.items() if name not in facts}
    if not facts or not results or not _are_objects(list(results.values())):
        return None
    return _with_facts(results, facts)


def _one_line(content: Json) -> list[Line] | None:
    """An object that is a line itself: the metrics of one run, perhaps with its settings."""
    if not isinstance(content, dict) or not all(_is_fact(*entry) for entry in content.items()):
        return None
    named = [name for name, value in content.items() if metric_named(name) and is_number(value)]
    return [_flat(content)] if named else None


def _numbers_by_name(content: Json) -> list[Line] | None:
    """An object of names with one result each: {"msp": 0.91, "energy": 0.93}."""
    if not isinstance(content, dict) or len(content) < 2:
        return None
    if not all(is_number(value) and value != int(value) for value in content.values()):
        return None
    if any(is_setting(name) or names_costs(name) for name in content):
        return None
    return [{"column 1": name, "value": value} for name, value in content.items()]


def _names_inside_names(content: Json) -> list[Line] | None:
    """Objects inside objects: of numbered lines, as pandas writes columns, or of names."""
    objects = _objects_in(content)
    if not objects:
        return None
    level = ""
    while len(objects) == 1 and not _is_name(next(iter(objects))):
        name, value = next(iter(objects.items()))
        below = _objects_in(value)
        if below is None:
            break
        objects = below  # {"results": {...}} says no more than what is inside
        level = title_of_names(name) or level
    keys = dict.fromkeys(key for value in objects.values() for key in value)
    deeper = any(isinstance(entry, dict) for value in objects.values() for entry in value.values())
    if all(map(str.isdigit, keys)) and not deeper:
        return [{name: value.get(key) for name, value in objects.items()} for key in keys]
    return list(nested_lines(dict(objects), level)) or None


def _is_name(key: str) -> bool:
    """Whether a name says something of what is inside: a metric, a data set or a detector."""
    return metric_named(key) is not None or is_data(key) or is_surely_detector(key)


# In the order in which they are tried.
_SHAPES: tuple[Callable[[Json], list[Line] | None], ...] = (
    _rows, _records, _wrapped, _pandas, _columns, _among_facts, _groups, _one_run, _one_line,
    _numbers_by_name, _names_inside_names,
)  # fmt: skip


def _is_fact(name: str, value: Json) -> bool:
    """Whether an entry is about the whole run: one value, a list of such, or settings."""
    settings = isinstance(value, dict) and name.casefold() in SETTINGS
    values = isinstance(value, list) and all(isinstance(entry, _Value) for entry in value)
    return settings or values or value is None or isinstance(value, _Value)


def _with_facts(content: Json, facts: Line) -> list[Line] | None:
    """Return the lines of a table, each with what is known of all of them."""
    lines = json_lines(content)
    told = {name: value for name, value in facts.items() if not isinstance(value, list)}
    known = _flat({name: value for name, value in told.items() if _is_fact(name, value)})
    known = {name: value for name, value in known.items() if not isinstance(value, list)}
    return None if lines is None else [{**known, **line} for line in lines]


def _objects_in(content: Json) -> dict[str, Line] | None:
    """Return an object whose values are all objects, else None."""
    if not isinstance(content, dict) or not _are_objects(list(content.values())):
        return None
    return content


def _are_lists(entries: list[Json]) -> bool:
    return all(isinstance(entry, list) for entry in entries)


def _are_objects(entries: list[Json]) -> bool:
    return all(isinstance(entry, dict) for entry in entries)


def _flat(entry: Line) -> Line:
    """Lift what stands in inner objects, by its own name if no other has it.

    Among several objects, the names of some say what is inside; config and metrics do not.

    >>> _flat({"config": {"seed": 1}, "metrics": {"auroc": 0.9}})
    {'seed': 1, 'auroc': 0.9}
    >>> _flat({"svhn": {"auroc": 0.9}, "dtd": {"fpr95": 0.3}})
    {'svhn auroc': 0.9, 'dtd fpr95': 0.3}
    """
    inner = {name: _flat(value) for name, value in entry.items() if isinstance(value, dict)}
    if not inner:
        return entry
    flat = {name: value for name, value in entry.items() if name not in inner}
    times = Counter([*flat, *(key for value in inner.values() for key in value)])
    for name, value in inner.items():
        bare = len(inner) == 1 or name.casefold() in (*SETTINGS, *WRAPPERS)
        flat |= {
            key if bare and times[key] == 1 else f"{name} {key}": lifted
            for key, lifted in value.items()
        }
    return flat
