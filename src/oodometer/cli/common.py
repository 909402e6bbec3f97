"""What all commands share: the application, the console, options that several of them have."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

import oodometer
from oodometer.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from oodometer.engine.stores import Store

_SEVERAL = ("--outputs", "--ood", "--weights")
LEAST_WIDTH = 40  # columns of text, however narrow the terminal is

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A meter for out-of-distribution detectors: which conclusions survive retraining?",
)


def main() -> None:
    """Run the command line; what a user did wrong is said in one sentence, without a traceback."""
    try:
        app(prog_name="oodometer")
    except UserError as problem:
        sys.stderr.write(f"oodometer: {problem}\n")
        sys.exit(2)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            _end_with(unexpected(problem))
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing fits any more
        _end_with(str(problem.strerror))
    except Exception as problem:  # noqa: BLE001 - nobody else is left to say it
        _end_with(unexpected(problem))


def _end_with(sentence: str) -> NoReturn:
    sys.stderr.write(f"oodometer: {sentence}.\n")
    sys.exit(1)


def unexpected(problem: Exception) -> str:
    """Say it in one sentence; the traceback is for whoever is going to mend it."""
    import traceback

    words = " ".join(f"{type(problem).__name__}: {problem}".split())
    said = f"An error that should not happen: {words[:300]}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="oodometer-error-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write("".join(traceback.format_exception(problem)))
    except OSError:  # a full disk
        return said
    return f"{said} - what led to it is in {file.name}"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"oodometer {oodometer.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    show: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """A meter for out-of-distribution detectors: which conclusions survive retraining?"""


def console() -> Console:
    """Return where tables and texts are printed."""
    from rich.console import Console

    screen = Console()
    return screen if screen.width >= LEAST_WIDTH else Console(width=LEAST_WIDTH)


def require_folder(out: Path) -> None:
    """Find out now, not after the work, whether results can be written there; leave nothing."""
    try:
        there = next(place for place in (out, *out.absolute().parents) if place.exists())
        if not there.is_dir():
            raise UserError(f"Cannot write to '{out}': '{there}' is a file, not a folder.")
        tempfile.TemporaryFile(dir=there).close()
    except OSError as problem:
        raise UserError(f"Cannot write to '{out}': {problem.strerror or problem}.") from None


def open_existing(address: str) -> Store:
    """Open a store that must be there."""
    from oodometer.engine.stores import open_store

    store = open_store(address)
    if not store.exists():
        there = "://" not in address and Path(address).exists()
        problem = "is no store" if there else "does not exist"
        raise UserError(f"Store '{address}' {problem}; 'oodometer run --store FOLDER' makes one.")
    return store


class SeveralValues(TyperCommand):
    """Lets an option take several values in a row: ``--ood svhn textures``."""

    # Any: the context is click's or that of typer's own click, by typer's version.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the name of the option before each of its values."""
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
