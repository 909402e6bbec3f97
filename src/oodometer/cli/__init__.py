"""The command line: parse arguments, call the library, print. Nothing is computed here.

Each module registers a group of commands on import; heavy modules are imported inside the commands.
"""

from oodometer.cli import (
    analysis,
    attack,
    checking,
    compare,
    data,
    evaluate,
    import_scores,
    lists,
    od_test,
    serve,
    stores,
    studies,
    suites,
)
from oodometer.cli.common import app, main

__all__ = [
    "analysis",
    "app",
    "attack",
    "checking",
    "compare",
    "data",
    "evaluate",
    "import_scores",
    "lists",
    "main",
    "od_test",
    "serve",
    "stores",
    "studies",
    "suites",
]
