"""One term per thing: what users read keeps to the words of docs/glossary.md."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ODD = {  # what is written instead
    r"(?<![._\w])trainings\b(?!\")": "training runs",
    r"cannot be told": "not significant; cannot be separated",
    r"(?:beyond|within) chance|told from chance": "significant; not significant",
    r"\blooks at\b|\bare looks\b": "re-evaluations",
    r"goes on where": "resumes",
    r"for want of|cannot be had|\bso many\b|\blikewise\b|how surely": "plain English",
    r"(?<=\d) %": "95%, without a space",
    r"\b[Pp] values?\b": "p-value",
    r"Holm's rule": "Holm's method",
}
SHOW_CELLS = (
    "tables/cells.py",
    "reports/latex.py",
    "docs/analyze.md",
    "docs/reading-tables.md",
)  # such as "91.2 %"


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that a reader may meet: of code, those of its strings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING:
            yield from enumerate(token.string.splitlines(), token.start[0])


@cache
def prose() -> list[tuple[str, str]]:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    files = [*sorted((ROOT / "src").rglob("*.py")), *pages]
    return [(f"{p.relative_to(ROOT)}:{n}", line.strip()) for p in files for n, line in texts(p)]


@pytest.mark.parametrize(("odd", "better"), ODD.items())
def test_words_are_those_of_the_glossary(odd, better):
    allowed = SHOW_CELLS if odd.endswith(" %") else ()
    found = [
        f"{place}: {line}"
        for place, line in prose()
        if re.search(odd, line) and not place.partition(":")[0].endswith(allowed)
    ]
    assert not found, f"write: {better}\n" + "\n".join(found)
