"""Imports point one way, and nothing heavy is loaded before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import oodometer

PACKAGE = Path(oodometer.__file__).parent

# Each part of the package and all that it may import of the others, nearest the ground first.
MAY_IMPORT = {
    "errors": set(),
    "clean_text": set(),
    "grids": set(),
    "whitening": set(),
    "factors": set(),
    "files": {"clean_text", "errors"},
    "calls": {"errors"},
    "imports": {"errors", "files"},
    "metrics": {"errors"},
    "needs": {"errors"},
    "detector_families": {"needs"},
    "outputs": {"errors", "needs"},
    "saved": {"errors", "files", "outputs"},
    "study": {"errors", "files", "factors"},
    "pictures": {"errors"},
    "finding": {"errors", "metrics", "pictures"},
    "overlap": {"metrics"},
    "score_arrays": {"errors"},
    "scores": {"errors", "factors", "metrics", "score_arrays"},
    "score_files": {"errors", "files", "factors", "scores"},
    "other_scores": {
        "errors",
        "files",
        "factors",
        "saved",
        "score_arrays",
        "score_files",
        "scores",
    },
    "results": {"errors", "factors", "metrics", "scores"},
    "tables": {"errors", "files", "factors", "results"},
    "registry": {"errors", "calls", "imports", "needs", "outputs"},
    "stats": {"errors", "metrics"},
    "detectors": {"errors", "grids", "whitening", "needs", "outputs", "registry"},
    "lab": {
        "files",
        "errors",
        "calls",
        "grids",
        "whitening",
        "imports",
        "metrics",
        "needs",
        "outputs",
        "registry",
        "scores",
        "study",
        "overlap",
    },
    "builtin": {"detectors", "lab", "registry"},
    "scoring": {
        "builtin",
        "errors",
        "calls",
        "needs",
        "outputs",
        "registry",
        "scores",
        "detectors",
    },
    "fitted": {
        "builtin",
        "errors",
        "calls",
        "files",
        "lab",
        "needs",
        "outputs",
        "registry",
        "study",
    },
    "searches": {
        "errors",
        "finding",
        "lab",
        "needs",
        "outputs",
        "pictures",
        "registry",
        "scores",
        "scoring",
    },
    "testing": {"builtin", "errors", "calls", "fitted", "lab", "needs", "outputs", "registry"},
    "protocols": {
        "errors",
        "calls",
        "factors",
        "metrics",
        "scores",
        "results",
        "finding",
        "overlap",
        "stats",
    },
    "analysis": {"errors", "finding", "protocols", "results", "tables"},
    "comparison": {
        "errors",
        "files",
        "finding",
        "metrics",
        "other_scores",
        "protocols",
        "score_arrays",
        "score_files",
        "scores",
    },
    "reports": {"clean_text", "errors", "files", "metrics", "finding"},
    "diagnosis": {"finding", "lab", "protocols"},
}
MAY_IMPORT["engine"] = set(MAY_IMPORT) - {
    "builtin",
    "detectors",
    "metrics",
    "reports",
    "stats",
    "testing",
}
MAY_IMPORT["evaluation"] = {
    "comparison",
    "detector_families",
    "errors",
    "files",
    "fitted",
    "lab",
    "needs",
    "outputs",
    "overlap",
    "protocols",
    "registry",
    "saved",
    "scores",
    "scoring",
}
MAY_IMPORT["attacks"] = {
    "comparison",
    "errors",
    "evaluation",
    "fitted",
    "lab",
    "outputs",
    "pictures",
    "protocols",
    "registry",
    "scores",
    "scoring",
    "searches",
}
MAY_IMPORT["suites"] = {"engine", "errors", "files", "score_files", "scores", "study"}
MAY_IMPORT["web"] = {
    "builtin",
    "clean_text",
    "detector_families",
    "engine",
    "errors",
    "files",
    "finding",
    "metrics",
    "needs",
    "pictures",
    "protocols",
    "registry",
    "reports",
    "results",
    "scores",
    "searches",
    "study",
    "suites",
}
MAY_IMPORT["cli"] = set(MAY_IMPORT)
SHELL = {"__init__", "__main__"}  # the public face: refers to everything, when asked


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path, below: str = "") -> set[str]:
    """Parts of the package, or of one part of it, that a file imports, anywhere in it."""
    package = f"oodometer.{below}".rstrip(".")
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    inside = (
        name.removeprefix(f"{package}.") for name in modules if name.startswith(f"{package}.")
    )
    return {name.split(".")[0] for name in inside}


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if part_of(path) not in SHELL]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    part = part_of(path)
    assert part in MAY_IMPORT, f"say in MAY_IMPORT what {part} may import"
    wrong = imported(path) - MAY_IMPORT[part] - {part}
    assert not wrong, f"{part} must not import {', '.join(sorted(wrong))}"


PROTOCOLS = [path for path in FILES if len(path.relative_to(PACKAGE).parts) > 2
             and part_of(path) == "protocols"]  # fmt: skip


@pytest.mark.parametrize("path", PROTOCOLS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_protocols_import_no_sibling(path):
    """A protocol imports `common` and its own package; `common` imports no protocol."""
    own = path.relative_to(PACKAGE).parts[1]
    wrong = imported(path, below="protocols") - {"common", own}
    assert not wrong, f"protocols/{own} must not import {', '.join(sorted(wrong))}"


def test_the_rule_itself_has_no_circle():
    order = list(MAY_IMPORT)
    for part, allowed in MAY_IMPORT.items():
        later = {name for name in allowed if order.index(name) > order.index(part)}
        assert not later - {"cli"} or part == "cli", (
            f"{part} may import {later}, which lie above it"
        )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_stay_small(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("path", sorted((PACKAGE / "cli").glob("*.py")), ids=lambda path: path.name)
def test_commands_print_what_was_cleaned(path):
    """`say`, and reports on a console, let no control character through."""
    calls = [ast.unparse(n.func) for n in ast.walk(ast.parse(path.read_text())) if is_call(n)]
    raw = {"print", "typer.echo", "sys.stdout.write", "sys.stderr.write", "typer.secho"}
    own = {"typer.echo", "sys.stderr.write"} if path.name == "common.py" else set()
    assert not raw.intersection(calls) - own


def is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call)


@cache
def modules_of(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines()[-1].split())


PLANNING = "import oodometer.engine.lead.run"
CHECKING = (
    "import contextlib, oodometer.cli.checking\n"
    "with contextlib.suppress(SystemExit): oodometer.cli.checking.check('max_logit', 900)"
)
HEAVY = {"torch", "pandas", "sklearn", "scipy", "pyarrow"}


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import oodometer", set()),
        ("import oodometer.cli", set()),
        ("import oodometer.reports", {"scipy"}),
        ("import oodometer.study", set()),
        # A finished study is recognised and reported without PyTorch.
        (PLANNING, {"scipy", "pyarrow"}),
        # A detector is checked in another process.
        (CHECKING, set()),
    ],
)
def test_nothing_heavy_is_loaded(statement, allowed):
    loaded = {name.partition(".")[0] for name in modules_of(statement)}
    assert not (loaded & HEAVY) - allowed


def test_planning_and_protocols_do_without_the_statistics_of_scipy():
    # Of it, scipy.special is enough; all of scipy.stats takes 0.7 s in every process.
    loaded = modules_of(PLANNING)
    assert {"oodometer.protocols", "scipy.special"} <= loaded
    assert "scipy.stats" not in loaded
