"""Keys of results: a hash of everything that made them, so that a stale result is never met."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections.abc import Callable
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
    """Hash the code of a detector: its whole module, and the modules beside it in a package.

    Its helpers live there; a changed helper is a changed detector.
    """
    file = inspect.getsourcefile(build)
    if file is None or not Path(file).is_file():  # typed into a console or a notebook
        return digest(inspect.getsource(build))
    path = Path(file)
    in_package = (path.parent / "__init__.py").is_file()
    files = sorted(path.parent.glob("*.py")) if in_package else [path]
    return digest(*(_meaning(each.read_text(encoding="utf-8")) for each in files))


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
