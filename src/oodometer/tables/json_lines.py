"""JSON of any common shape as lines of a table: records, columns, or names inside names."""

from __future__ import annotations

from collections.abc import Iterator

from oodometer.tables.names import metric_named

_SETTINGS = ("config", "configuration", "params", "parameters", "args", "hparams", "settings",
             "hyperparameters", "options", "meta", "metadata")  # fmt: skip
Json = object  # whatever `json.loads` gives
Line = dict[str, Json]


def json_lines(content: Json) -> list[Line] | None:
    """Return one object per line of the table, or None if there is no table in it.

    >>> json_lines({"msp": {"svhn": 0.9, "dtd": 0.8}})
    [{'column 1': 'msp', 'svhn': 0.9, 'dtd': 0.8}]
    >>> json_lines({"auroc": {"0": 0.9, "1": 0.8}})
    [{'auroc': 0.9}, {'auroc': 0.8}]
    """
    if isinstance(content, list):
        if content and _are_lists(content):
            titles, *rows = content
            return [dict(zip(map(str, titles), row, strict=False)) for row in rows]
        return [_flat(entry) for entry in content] if _are_objects(content) else None
    if not isinstance(content, dict) or not content:
        return None
    names, data = content.get("columns"), content.get("data")
    if isinstance(names, list) and isinstance(data, list) and _are_lists(data):  # pandas: split
        return [dict(zip(map(str, names), row, strict=False)) for row in data]
    if isinstance(data, list) and _are_objects(data):  # pandas: table
        return [_flat({k: v for k, v in entry.items() if k != "index"}) for entry in data]
    lists = [value for value in content.values() if isinstance(value, list)]
    if len(lists) == len(content) and len({len(column) for column in lists}) == 1:
        if len(lists) == 1 and _are_objects(lists[0]):
            return json_lines(lists[0])
        return [dict(zip(content, row, strict=True)) for row in zip(*lists, strict=True)]
    records = [value for value in lists if value and _are_objects(value)]
    if len(records) == 1:  # the table among facts about it
        return _with_facts(records[0], content)
    inner = {name: value for name, value in content.items() if isinstance(value, dict)}
    facts = {name: value for name, value in content.items() if _is_fact(name, value)}
    results = {name: value for name, value in inner.items() if name not in facts}
    if facts and results and len(facts) + len(results) == len(content):  # one run, and its settings
        return _with_facts(results, facts)
    if len(inner) < len(content):
        return None
    while len(content) == 1 and not metric_named(next(iter(content))):
        below = next(iter(content.values()))
        if not isinstance(below, dict) or not all(isinstance(v, dict) for v in below.values()):
            break
        content = below  # {"results": {...}} says no more than what is inside
    if all(key.isdigit() for value in content.values() for key in value):  # pandas: columns
        keys = dict.fromkeys(key for value in content.values() for key in value)
        return [{name: value.get(key) for name, value in content.items()} for key in keys]
    return list(_nested(content, ())) or None


def _is_fact(name: str, value: Json) -> bool:
    """Tell whether an entry is about the whole run: one value, or an object of settings."""
    settings = isinstance(value, dict) and name.casefold() in _SETTINGS
    return settings or value is None or isinstance(value, str | int | float)


def _with_facts(content: Json, facts: Line) -> list[Line] | None:
    """Return the lines of a table, each with what is known of all of them."""
    lines = json_lines(content)
    known = _flat({name: value for name, value in facts.items() if _is_fact(name, value)})
    return None if lines is None else [{**known, **line} for line in lines]


def _are_lists(entries: list[Json]) -> bool:
    return all(isinstance(entry, list) for entry in entries)


def _are_objects(entries: list[Json]) -> bool:
    return all(isinstance(entry, dict) for entry in entries)


def _flat(entry: Line) -> Line:
    """Lift what stands in inner objects, by its own name if no other has it."""
    inner = {name: value for name, value in entry.items() if isinstance(value, dict)}
    if not inner:
        return entry
    flat = {name: value for name, value in entry.items() if name not in inner}
    for name, value in inner.items():
        for key, lifted in _flat(value).items():
            flat[f"{name} {key}" if key in flat or len(inner) > 1 else key] = lifted
    return flat


def _nested(content: Line, names: tuple[str, ...]) -> Iterator[Line]:
    """One line per innermost object, which holds the columns; the names outside it are labels."""
    if any(isinstance(value, dict) for value in content.values()):
        for name, value in content.items():
            if isinstance(value, dict):
                yield from _nested(value, (*names, name))
        return
    labels = {f"column {number}": name for number, name in enumerate(names, start=1)}
    runs = {len(value) for value in content.values() if isinstance(value, list)}
    if len(runs) == 1 and all(isinstance(value, list) for value in content.values()):
        for run in range(runs.pop()):
            values = {
                name: value[run] for name, value in content.items() if isinstance(value, list)
            }
            yield {**labels, "run": run, **values}
        return
    yield {**labels, **content}
