"""Import what users wrote: ``package.module:object``, or ``path/to/file.py:object``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from oodometer.errors import UserError, describe, nearest, no_file
from oodometer.files import real_path


@contextmanager
def exits_caught() -> Iterator[None]:
    """Run somebody's code: ``os._exit`` raises SystemExit, as ``sys.exit`` does.

    Otherwise the process would end without a word. Forked processes and other threads may still
    end it. The working directory is the same afterwards.
    """
    end, process, thread, place = os._exit, os.getpid(), threading.get_ident(), Path.cwd()

    def instead(status: int) -> NoReturn:
        if (os.getpid(), threading.get_ident()) != (process, thread):
            end(status)
        raise SystemExit(f"os._exit({status}) was called")

    os._exit = instead
    try:
        yield
    finally:
        os._exit = end
        if Path.cwd() != place:
            os.chdir(place)


def import_object(kind: str, name: str) -> object:
    """Import an object by ``module:object``, also from the working directory.

    The module is a dotted name or the path of a Python file; the object may be an attribute of
    another, as in ``package.module:Class.method``. `kind` is what it is, for the error.
    """
    module_name, _, path = name.rpartition(":")
    if not module_name or not path:
        such = f", such as {name}:NAME" if name.endswith(".py") else ""
        raise UserError(
            f"{kind} '{name}' must be written as package.module:object or file.py:object{such}."
        )
    found: object = import_module(f"{kind} '{name}'", module_name)
    for part in path.split("."):
        if not hasattr(found, part):
            close = nearest(part, dir(found))
            hint = f" Did you mean '{close}'?" if close is not None else ""
            raise UserError(
                f"{kind} '{name}' does not exist: '{module_name}' has nothing called "
                f"'{path}'.{hint}"
            )
        found = getattr(found, part)
    return found


def import_module(title: str, name: str) -> ModuleType:
    """Import a module by dotted name or by path; `title` is what is imported, for the error."""
    try:
        with exits_caught():
            if name.endswith(".py"):
                return _import_file(title, real_path(Path(name)))
            if str(Path.cwd()) not in sys.path:
                sys.path.insert(0, str(Path.cwd()))
            return importlib.import_module(name)
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as problem:  # also one that ends programs, or a kind of their own
        sentence = f"{title} could not be imported: {describe(problem)}"
        raise UserError(f"{sentence.rstrip('.')}.") from problem


def _import_file(title: str, path: Path) -> ModuleType:
    if not path.is_file():
        raise no_file(f"{title} could not be imported: the file", path, (".py",))
    # Two files may have one name, and a file that of a module: its place tells them apart.
    mark = hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()
    name = f"{path.stem}_{mark}"
    if name not in sys.modules:
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))  # for the modules beside it
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None  # it ends in .py
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
