"""Keys of results: a hash of everything that made them, so that a stale result is never met."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import oodometer
from oodometer.engine.versions import distributions_of, minor_versions, versions_of
from oodometer.errors import UserError

PACKAGE = Path(oodometer.__file__).parent
# What models and detectors are registered with: what it says of them is in their keys.
DECLARING = ("registry", "lab/detector_models/__init__", "lab/detector_models/cards")
_WORD = re.compile(r"[^\W\d]\w*")


# Made once: a large study has hundreds of thousands of keys.
_JSON = json.JSONEncoder(sort_keys=True, allow_nan=False, ensure_ascii=False)


def digest(*parts: object) -> str:
    """Hash parts that JSON can hold; the order of keys in mappings does not matter."""
    return hashlib.blake2b(_JSON.encode(parts).encode(), digest_size=20).hexdigest()


@cache
def code_version(*parts: str, apart_from: tuple[str, ...] = ()) -> str:
    """Hash the code of modules or folders of this package and of all of it that they import.

    Comments and layout do not count. `apart_from` are modules and folders that are not followed,
    because what they do is in the key in another form, such as the content of the data.
    """
    found: dict[Path, str] = {}
    waiting = [file for part in parts for file in _files_of(PACKAGE / part)]
    if not waiting:
        raise FileNotFoundError(f"no code in {', '.join(parts)}")
    while waiting:
        path = waiting.pop()
        name = path.relative_to(PACKAGE).with_suffix("").as_posix()
        left = any(name == part or name.startswith(f"{part}/") for part in apart_from)
        if path in found or (left and name not in parts):
            continue
        found[path], imported = _code_of(path.read_text(encoding="utf-8"))
        places = [PACKAGE / part for part in imported]
        files = [f for place in places for f in (place.with_suffix(".py"), place / "__init__.py")]
        waiting += [file for file in files if file.is_file()]
    return digest(*(meaning for _, meaning in sorted(found.items())))


def _files_of(path: Path) -> list[Path]:
    file = path.with_suffix(".py")
    return sorted(path.rglob("*.py")) if path.is_dir() else [file] if file.is_file() else []


@cache
def _code_of(source: str) -> tuple[str, tuple[str, ...]]:
    """The meaning of a module of this package, and which parts of the package it imports."""
    tree = ast.parse(source)
    names = (name.split(".", 1) for name in _imported(tree, ""))
    parts = {rest[0].replace(".", "/") for top, *rest in names if top == "oodometer" and rest}
    return _meaning(tree), tuple(sorted(parts))


@cache
def function_version(build: Callable[..., object]) -> str:
    """Hash the code of a detector or network: its module and every module of the user's it imports.

    What lies in site-packages is known by its minor version and not read, unless it is of the same
    package. A changed helper is a changed detector, and so are two helpers that exchange names.
    """
    place = getattr(build, "__module__", "")
    if place.startswith(("oodometer.detectors.", "oodometer.lab.detector_models.")):
        module = place.removeprefix("oodometer.").replace(".", "/")
        beside = ("errors", "imports", "detectors/__init__", "study", "lab", *DECLARING[1:])
        return code_version(module, apart_from=beside)
    sources, libraries = _sources(build)
    return digest(sources, minor_versions(libraries))


@cache
def libraries_of(build: Callable[..., object]) -> dict[str, str]:
    """Versions of the distributions that the user's modules behind a function import."""
    if getattr(build, "__module__", "").startswith("oodometer."):
        return {}
    return versions_of(_sources(build)[1])


def _sources(build: Callable[..., object]) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The meaning of every module of the user's behind a function, and imported distributions."""
    if isinstance(build, partial):
        sources, imported = _sources(build.func)
        return {**sources, "arguments": repr((build.args, build.keywords))}, imported
    if not (inspect.isroutine(build) or inspect.isclass(build)):
        return _sources(type(build))
    if inspect.isbuiltin(build):
        raise UserError(
            f"'{build.__module__}:{build.__name__}' is built into Python: name a function or a "
            "class of your own, whose code can be read."
        )
    file = inspect.getsourcefile(build)
    if file is None or not Path(file).is_file():  # typed into a console or a notebook
        return _typed_sources(build), ()
    package = build.__module__.partition(".")[0]
    found: dict[str, str] = {}
    libraries: set[str] = set()
    # A file that was imported by its path has a name that depends on where it lies.
    waiting = [(Path(file).resolve(), build.__module__, "")]
    while waiting:
        path, module, called = waiting.pop()
        if called in found:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = tuple(_imported(tree, module))
        found[called] = _meaning(tree)
        for name in imported:
            origin = _origin(name, package)
            if origin is not None:
                waiting.append((origin, name, name.removeprefix(build.__module__)))
            elif (top := name.partition(".")[0]) != "oodometer":
                libraries.update(distributions_of(top))
    return found, tuple(sorted(libraries))


def _typed_sources(build: Callable[..., object]) -> dict[str, str]:
    """Sources of a function that is in no file, and of what it names of its module.

    Functions and classes that it names are followed, numbers and texts count by their values.
    """
    names = getattr(inspect.unwrap(build), "__globals__", {})
    found: dict[str, str] = {}
    waiting = {build.__qualname__: build}
    while waiting:
        name, part = waiting.popitem()
        found[name] = inspect.getsource(part)
        for word in set(_WORD.findall(found[name])).intersection(names).difference(found):
            value = names[word]
            if getattr(value, "__module__", None) == build.__module__ and callable(value):
                if inspect.isroutine(value) or inspect.isclass(value):
                    waiting[word] = value
            elif isinstance(value, bool | int | float | str):
                found[word] = repr(value)
    return found


def content_version(build: Callable[..., object], reads: Sequence[str]) -> list[str]:
    """Hash the files that a function reads, named relative to its module."""
    folder = Path(inspect.getsourcefile(build) or ".").resolve().parent
    found = []
    for name in reads:
        try:
            found.append(hashlib.blake2b((folder / name).read_bytes(), digest_size=20).hexdigest())
        except OSError as problem:
            raise UserError(
                f"'{build.__name__}' reads '{name}', which cannot be read in {folder}: "
                f"{problem.strerror}."
            ) from None
    return found


def _imported(tree: ast.Module, module: str) -> Iterator[str]:
    """Names of modules that a source imports, and of what it imports from them, in case."""
    for node in ast.walk(tree):
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


def _meaning(tree: ast.Module) -> str:
    """Write down a syntax tree, out of which docstrings are taken."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return ast.dump(tree)
