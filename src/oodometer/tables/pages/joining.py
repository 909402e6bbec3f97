"""Tables with the same columns as one: what their headings say becomes columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oodometer.factors import plain, words_of
from oodometer.tables.cells import Rows, numeric_share
from oodometer.tables.frames.common_words import without_common_words
from oodometer.tables.frames.grid import Grid
from oodometer.tables.frames.titles import undressed
from oodometer.tables.guessing.roles import SECTION
from oodometer.tables.pages.outline import PageTable
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.mentioned import metrics_in
from oodometer.tables.vocabulary.uncertainty import common

_SECTIONS = (SECTION, f"sub{SECTION}", f"subsub{SECTION}")  # titles of columns from headings
_MANY_WORDS = 12
# What headings say above those that name data sets: Per-dataset results, Results on each benchmark.
_SAYS_DATA = re.compile(
    r"(?i)\b(?:per|by|each|every|individual)[\s-]+(?:the[\s-]+)?(?:data[\s-]?sets?|benchmarks?|corpus)\b"
)
_DATA = "dataset"  # title of the column of these names
_FIRST = "Method"  # title of a first column that bears the name of a data set instead


def join(parts: Sequence[tuple[PageTable, Grid]]) -> Grid | None:
    """Put tables below each other; None if nothing tells them apart, or they must stay apart."""
    if len(parts) == 1:
        return parts[0][1]
    tables = [table for table, _ in parts]
    grids, own = _with_common_titles([grid for _, grid in parts])
    columns = _columns(tables, own, grids[0].titles)
    titles = [*grids[0].titles, *columns]
    rows: Rows = []
    for place, grid in enumerate(grids):
        said = [levels[place] for levels in columns.values()]
        order = [grid.titles.index(title) for title in grids[0].titles]
        rows += [[*(row[n] for n in order), *said] for row in grid.rows]
    if not _are_told_apart(columns, grids) or any(map(_are_two_tasks, columns.values())):
        return None
    notes = list(dict.fromkeys(note for grid in grids for note in grid.notes))
    about = {grid.about: metrics_in(grid.about) for grid in grids}
    alike = len({frozenset(metrics) for metrics in about.values()}) == 1
    uncertainty = common(grid.uncertainty for grid in grids)
    return Grid(titles, rows, notes, next(iter(about)) if alike else "", uncertainty)


def _with_common_titles(grids: Sequence[Grid]) -> tuple[list[Grid], list[str]]:
    """Give all tables the titles of the first; return the names of sets in first titles, too."""
    own = [undressed(grid.titles[0]) for grid in grids]
    if len(set(own)) > 1 and any(map(is_data, own)):
        title = next((name for name in own if not is_data(name)), _FIRST)
        grids = [grid._replace(titles=[title, *grid.titles[1:]]) for grid in grids]
    else:
        own = []
    known = {_key(title): title for title in grids[0].titles}
    return [grid._replace(titles=[known[_key(t)] for t in grid.titles]) for grid in grids], own


def _key(title: str) -> str:
    return undressed(title).casefold()


def _are_told_apart(columns: dict[str, list[str]], grids: Sequence[Grid]) -> bool:
    """Whether no two lines have the same names, but for those within one table."""
    seen: dict[tuple[str, ...], int] = {}
    for place, grid in enumerate(grids):
        said = tuple(levels[place] for levels in columns.values())
        names = [
            title
            for title, cells in zip(grid.titles, zip(*grid.rows, strict=True), strict=True)
            if numeric_share(cells) <= 0.5
        ]
        numbers = [grid.titles.index(name) for name in sorted(names)]
        for row in grid.rows:
            if seen.setdefault((*said, *(row[n] for n in numbers)), place) != place:
                return False
    return True


def _are_two_tasks(texts: Sequence[str]) -> bool:
    """Whether headings tell the AUROC of images from that of pixels: not two values of one."""
    words = [words_of(text) for text in texts]
    return len({frozenset(said & {"image", "pixel"}) for said in words} - {frozenset()}) > 1


def _columns(
    tables: Sequence[PageTable], own: Sequence[str], titles: Sequence[str]
) -> dict[str, list[str]]:
    """Return columns, title -> what it says of each table, that tell tables apart."""
    levels = sorted({level for table in tables for level in table.levels})
    said = [[_heading(table, level) for table in tables] for level in levels]
    headings = [texts for texts in said if len(set(texts)) > 1]
    facts = _facts(tables)
    if own:  # Movielens 100k and 1M: what is common to data sets belongs to their names
        facts = {_DATA: list(own), **facts}
    if not headings and not facts:
        above = [table.above for table in tables]
        headings = [above] if len(set(above)) > 1 and all(above) else []
    has_metric = any(map(metric_named, titles)) or any(table.pairs for table in tables)
    kept = list(facts.items())
    of_data = any(_SAYS_DATA.search(text) for table in tables for text in table.levels.values())
    for texts in headings:
        for title, bare in _parted(texts, has_metric):
            _keep(kept, title or _DATA * of_data, bare)
            of_data = False  # the outermost of headings that differ
    taken = {plain(title) for title in titles}
    sections = iter([name for name in _SECTIONS if name not in taken])
    columns: dict[str, list[str]] = {}
    for title, texts in kept:
        free = title and plain(title) not in taken and title not in columns
        name = title if free else next(sections, f"heading {len(columns) + 1}")
        columns[name] = texts
    return columns


def _heading(table: PageTable, level: int) -> str:
    """Return the heading of some level above a table, or else the nearest one around it."""
    outer = [known for known in table.levels if known <= level]
    return table.levels[max(outer)] if outer else ""


def _facts(tables: Sequence[PageTable]) -> dict[str, list[str]]:
    """Return what lines such as "- ID dataset: CIFAR-10" say of all tables, but not the same."""
    keys = [key for key in tables[0].facts if all(key in table.facts for table in tables)]
    facts = {key: [table.facts[key] for table in tables] for key in keys}
    return {key: said for key, said in facts.items() if len(set(said)) > 1}


def _keep(kept: list[tuple[str, list[str]]], title: str, texts: list[str]) -> None:
    """Add a column, unless another tells the same apart: of two headings the shorter one stays."""
    for place, (other, known) in enumerate(kept):
        if len(set(zip(known, texts, strict=True))) == len(set(known)) == len(set(texts)):
            if not other and (title or len("".join(texts)) < len("".join(known))):
                kept[place] = title, texts
            return
    kept.append((title, texts))


def _parted(texts: Sequence[str], has_metric: bool) -> list[tuple[str, list[str]]]:
    """Part headings into the metric and the rest, if each names one; else drop common words."""
    metrics = [metrics_in(text) for text in texts]
    named = [min(found) for found in metrics if len(found) == 1]
    if has_metric or len(named) < len(texts) or len(set(named)) < 2:
        return [without_common_words(texts)]
    rest = [without_metric(t) if t.count(" ") < _MANY_WORDS else t for t in texts]
    more = [without_common_words(rest)] if len(set(rest)) > 1 else []
    return [("metric", named), *more]
