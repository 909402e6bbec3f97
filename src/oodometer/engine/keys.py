"""Keys of results: a hash of everything that made them, so that a stale result is never met."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import oodometer

PACKAGE = Path(oodometer.__file__).parent


def digest(*parts: object) -> str:
    """Hash parts that JSON can hold; the order of keys in mappings does not matter."""
    text = json.dumps(parts, sort_keys=True, allow_nan=False, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


@cache
def code_version(*parts: str) -> str:
    """Hash the code of modules or folders of this package: comments and layout do not count."""
    files: list[Path] = []
    for part in parts:
        path = PACKAGE / part
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return digest(*(_meaning(file.read_text(encoding="utf-8")) for file in files))


@cache
def function_version(build: Callable[..., object]) -> str:
    """Hash the code of a detector or network: its module and every module of the user's it imports.

    What lies in site-packages or in Python itself is known by its version and not read, unless it
    is of the same package. A changed helper is a changed detector.
    """
    if build.__module__.startswith("oodometer.detectors."):
        return code_version("detectors")
    file = inspect.getsourcefile(build)
    if file is None or not Path(file).is_file():  # typed into a console or a notebook
        return digest(inspect.getsource(build))
    package = build.__module__.partition(".")[0]
    found: dict[Path, str] = {}
    waiting = [(Path(file).resolve(), build.__module__)]
    while waiting:
        path, module = waiting.pop()
        if path in found:
            continue
        source = path.read_text(encoding="utf-8")
        found[path] = _meaning(source)
        waiting += [
            (origin, name)
            for name in _imported(source, module)
            if (origin := _origin(name, package)) is not None
        ]
    return digest(*sorted(found.values()))


def _imported(source: str, module: str) -> Iterator[str]:
    """Names of modules that a source imports, and of what it imports from them, in case."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")
            above = ".".join(parents[: len(parents) - node.level]) if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _origin(name: str, package: str) -> Path | None:
    """The file of a module that may change under the user's hands; None for all others."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top == "oodometer":
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None  # not a module, or one that is not there: importing it would have failed
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    path = Path(spec.origin).resolve()
    installed = "site-packages" in path.parts or "dist-packages" in path.parts
    return None if installed and top != package else path


def package_version() -> str:
    """Hash every file of code in this package, byte for byte: the quick test for "unchanged"."""
    content = hashlib.blake2b(digest_size=20)
    for file in sorted(PACKAGE.rglob("*.py")):
        content.update(file.read_bytes())
    return content.hexdigest()


def _meaning(source: str) -> str:
    """Reduce source code to its syntax tree without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return ast.dump(tree)
