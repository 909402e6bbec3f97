"""What all commands share: the application, the console, options that several of them have."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

import oodometer
from oodometer.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

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

    return Console()
