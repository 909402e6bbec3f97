"""YAML as if it were JSON: names are texts, and so are dates."""

from __future__ import annotations

from pathlib import Path

from oodometer.errors import UserError

_DEEPEST = 100  # levels of nesting


def yaml_content(text: str, path: Path) -> object:
    """Return what a YAML text holds, a list of several documents.

    Aliases are refused, since a few may stand for gigabytes.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the fast one, where it is built
    depth = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.AliasEvent):
                raise UserError(f"'{path}' has aliases (*name): write out what they stand for.")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise UserError(f"'{path}' is nested more than {_DEEPEST} levels deep.")
        documents = [*yaml.load_all(text, Loader=loader)]
    except UserError:
        raise
    except (yaml.YAMLError, ValueError) as problem:
        mark = getattr(problem, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 1})"
        raise UserError(f"'{path}' is not valid YAML{where}.") from None
    documents = [document for document in documents if document is not None]
    if not documents:
        raise UserError(f"'{path}' is empty.")
    return _as_json(documents[0] if len(documents) == 1 else documents)


def _as_json(value: object) -> object:
    if isinstance(value, dict):
        return {str(name): _as_json(inside) for name, inside in value.items()}
    if isinstance(value, list):
        return [_as_json(inside) for inside in value]
    return value if isinstance(value, str | float | int | None) else str(value)
