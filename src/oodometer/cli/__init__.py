"""The command line: reads arguments, calls the library, prints. Nothing is computed here.

Each module holds a group of commands and adds them to the application when it is imported; what
is heavy is imported inside the commands.
"""

from oodometer.cli import analysis, data, evaluate, lists, od_test, stores, studies
from oodometer.cli.common import app, main

__all__ = ["analysis", "app", "data", "evaluate", "lists", "main", "od_test", "stores", "studies"]
