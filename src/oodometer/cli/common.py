"""What all commands share: the application, its errors, the console, repeated options."""

from __future__ import annotations

import errno
import gc
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

import oodometer
from oodometer.clean_text import clean
from oodometer.cli.interrupts import only_users_interrupt
from oodometer.cli.memory import describe_lack, lacks_memory
from oodometer.errors import UserError, describe, nearest

if TYPE_CHECKING:
    from rich.console import Console

    from oodometer.engine.stores import Store
    from oodometer.finding import Finding

_ORDER = (
    *("demo", "evaluate", "compare", "analyze", "diagnose", "run", "report", "od-test"),
    *("serve", "export", "suite"),
    *("list", "check", "data", "import", "status", "show", "verify", "prune"),
)
_SEVERAL = ("--outputs", "--ood", "--weights")
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Print tables, caveats and all notes, too.")
]
_MOST_TRIED = 200  # folders among which a store is looked for that was misspelt
_LONGEST_WORD, _LONGEST_SENTENCE = 400, 2000  # letters of an error message
# What is wrong with a path that a user gave, wherever it is first used.
_OF_PATHS = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENAMETOOLONG),
    *(errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENODEV),
)
_SECONDS_FOR_THREADS = 1.0  # of a user's code, after the command has ended
LEAST_WIDTH = 40  # characters, however narrow the terminal is


class _Commands(TyperGroup):
    """Commands in the order in which a new user meets them."""

    # Any: the context is click's or that of typer's own click, by typer's version.
    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help text."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what ends programs is an error unless the user asked for it."""
        with only_users_interrupt():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A meter for out-of-distribution detectors: which conclusions survive retraining?",
)


def main() -> None:
    """Run the command line and exit, also if a user's code has left a thread running."""
    before = threading.enumerate()
    try:
        _run_command()
    except SystemExit as ended:
        if _left_since(before):
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            watch = threading.Timer(_SECONDS_FOR_THREADS, _leave, (before, code))
            watch.daemon = True  # Python ends many threads by itself, such as those of a pool
            watch.start()
        raise


def _left_since(before: Sequence[threading.Thread]) -> bool:
    """Whether there are new threads that Python waits for before it exits."""
    return any(not thread.daemon for thread in threading.enumerate() if thread not in before)


def _leave(before: Sequence[threading.Thread], code: int) -> None:
    """Exit without waiting for threads that have not ended meanwhile, perhaps never do."""
    if not _left_since(before):
        return
    try:
        say("oodometer: not waiting for a thread that other code has started.", err=True)
        sys.stdout.flush()
    finally:
        os._exit(code)


def _run_command() -> None:
    """Run a command; report a user's error in one sentence, without a traceback."""
    try:
        app(prog_name="oodometer")
    except UserError as problem:
        sys.stderr.write(f"oodometer: {_printable(str(problem))}\n")
        sys.exit(2)
    except BrokenPipeError:  # the reader of a pipe closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as problem:
        if problem.errno in _OF_PATHS and problem.filename is not None:
            path = _printable(f"'{os.fsdecode(problem.filename)}'")
            say(f"oodometer: {path} cannot be used: {problem.strerror}.", err=True)
            sys.exit(2)
        if problem.errno != errno.ENOSPC:
            end_with(unexpected(problem))
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # no room for another message
        end_with(f"{problem.strerror}.")
    except Exception as problem:  # noqa: BLE001 - the last to report it
        end_with(unexpected(problem))


def say(text: object, *, err: bool = False) -> None:
    """Print a line; names in a user's files, and messages of a user's code, are cleaned first."""
    typer.echo(clean(str(text)), err=err)


def end_with(sentence: str) -> NoReturn:
    """Report what is no user's error, and exit with code 1."""
    sys.stderr.write(f"oodometer: {_printable(sentence)}\n")
    sys.exit(1)


def _printable(sentence: str) -> str:
    """Return one line without control characters, which names in a user's file may contain."""
    try:
        from oodometer.reports.words import one_line, with_short_words
    except (MemoryError, ImportError, OSError):  # no memory for it: the sentence is our own
        return sentence

    line = with_short_words(one_line(sentence), _LONGEST_WORD)
    return line if len(line) <= _LONGEST_SENTENCE else f"{line[:_LONGEST_SENTENCE]}..."


def unexpected(problem: Exception) -> str:
    """Describe an internal error in one line; the traceback goes to a file for a bug report."""
    import traceback

    if lacks_memory(problem):
        return describe_lack(problem)
    message = f"Internal error: {describe(problem).rstrip('.')}."
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="oodometer-error-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write("".join(traceback.format_exception(problem)))
    except OSError:  # a full disk
        return f"{message} Please report it."
    return f"{message} The traceback was saved to {file.name}; please report it."


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"oodometer {oodometer.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    show: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """A meter for out-of-distribution detectors: which conclusions survive retraining?"""


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no cycles while very many objects are made that have none and all stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def console() -> Console:
    """Return the console for tables and text."""
    from rich.console import Console

    screen = Console(markup=False)
    return screen if screen.width >= LEAST_WIDTH else Console(width=LEAST_WIDTH, markup=False)


def show_findings(screen: Console, findings: Sequence[Finding], *, verbose: bool) -> None:
    """Print the main claims and the leaderboard; everything, if `verbose`."""
    from oodometer import reports

    if verbose:
        for finding in findings:
            screen.print(reports.terminal(finding))
    else:
        screen.print(reports.summary(findings, lines=12, leaderboard=True))


def require_folder(out: Path) -> None:
    """Fail before the work, not after it, if nothing can be written to `out`; leave no trace."""
    try:
        existing = next(path for path in (out, *out.absolute().parents) if path.exists())
        if not existing.is_dir():
            raise UserError(f"Cannot write to '{out}': '{existing}' is a file, not a folder.")
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as problem:
        raise UserError(f"Cannot write to '{out}': {problem.strerror or problem}.") from None


def open_existing(address: str) -> Store:
    """Open a store that must exist."""
    from oodometer.engine.stores import open_store

    store = open_store(address)
    if not store.exists():
        exists = "://" not in address and Path(address).exists()
        problem = f"'{address}' is not a store" if exists else f"Store '{address}' does not exist"
        near = _store_near(Path(address)) if "://" not in address else None
        if near is not None:
            raise UserError(f"{problem}. Did you mean '{near}'?")
        raise UserError(f"{problem}; 'oodometer run --store FOLDER' creates one.")
    return store


def _store_near(path: Path) -> Path | None:
    """A store within this folder, as the demo makes one, or beside it under a similar name."""
    from oodometer.engine.stores import open_store

    def stores(folder: Path) -> dict[str, Path]:
        found = sorted(own for own in folder.iterdir() if own.is_dir()) if folder.is_dir() else []
        return {own.name: own for own in found[:_MOST_TRIED] if open_store(str(own)).exists()}

    try:
        within = stores(path)
        beside = {} if path.exists() else stores(path.parent)
    except OSError:  # a folder that may not be read
        return None
    close = nearest(path.name, beside)
    return next(iter(within.values())) if len(within) == 1 else beside.get(close or "")


class SeveralValues(TyperCommand):
    """Allow several values after one option: ``--ood svhn textures``."""

    # Any: the context is click's or that of typer's own click, by typer's version.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each of its values."""
        spread: list[str] = []
        option = ""
        for argument in args:
            if argument.startswith("-"):
                name, equals, _ = argument.partition("=")
                option = name if name in _SEVERAL else ""
                if not option or equals:
                    spread.append(argument)
            elif option:
                spread += [option, argument]
            else:
                spread.append(argument)
        return super().parse_args(ctx, spread)
