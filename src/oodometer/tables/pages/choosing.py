"""Which of the tables of a page are read: the one with results, or several that are alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from oodometer.errors import UserError
from oodometer.factors import plain
from oodometer.tables.cells import numeric_share, value_of
from oodometer.tables.found import UNNAMED, Found
from oodometer.tables.frames.differences import DIFFERENCES
from oodometer.tables.frames.grid import Grid, grid_of
from oodometer.tables.frames.titles import undressed
from oodometer.tables.pages.derived import averages, is_of_differences
from oodometer.tables.pages.joining import join
from oodometer.tables.pages.outline import BOLD, CAPTION, PageTable
from oodometer.tables.vocabulary.costs import names_costs
from oodometer.tables.vocabulary.data_names import is_data, is_set
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.mentioned import metrics_in
from oodometer.tables.vocabulary.names import is_detector
from oodometer.tables.vocabulary.others import names_property_of_data
from oodometer.tables.vocabulary.titles import SET_TITLES

_TWO_NUMBERS = re.compile(r"[\W_]*\d[\d.,]*\s*%?\s*/\s*\d")  # 0.91 / 0.40
_LISTED = 6  # tables that a question names
_EVERY = "tables"  # instead of the number of a table: list them
_SHOWN = 60  # characters of the name of a table
_PERCENT = 100  # which no share exceeds


@dataclass(frozen=True)
class Candidate:
    """A table of a page that may be the one to read, or the reason why it is not."""

    table: PageTable
    found: Found
    grid: Grid | None
    problem: str = ""


def choose(tables: Sequence[PageTable], file: str, wanted: str) -> tuple[Grid, tuple[Found, ...]]:
    """Return what is read of a page, and all tables that it has.

    `wanted` picks tables: `3`, `1,3` or words of a caption or heading. Without it, the table that
    names a metric is read; several with the same columns are read as one.
    """
    names = _names(tables)
    candidates = [_candidate(table, n, names[n]) for n, table in enumerate(tables)]
    left = _wanted(candidates, file, wanted) if wanted else _with_results(candidates, file)
    derived = {} if wanted else _derived(left)
    left = [c for c in left if c.found.number not in derived]
    broken = next((c for c in left if c.grid is None), None)
    if broken is not None:
        raise UserError(f"{broken.problem[:-1]} ('{file}').")
    groups = _groups(left)
    if len(groups) > 1:
        raise UserError(_question(left, groups, file, _broken(candidates)))
    grid = join([(c.table, c.grid) for c in left if c.grid is not None])
    if grid is None and wanted:
        raise UserError(
            f"Nothing tells what stands in {_listed(left)} of '{file}' apart, so that they are not "
            f"read as one table: name one, such as '{file}#{left[0].found.number}'."
        )
    if grid is None or (not wanted and _share_little(left)):
        said = _question(left, groups, file, _broken(candidates), joins=grid is not None)
        raise UserError(said)
    read = {c.found.number for c in left}
    return grid, tuple(_judged(c, read, bool(wanted), derived) for c in candidates)


def _with_results(candidates: Sequence[Candidate], file: str) -> list[Candidate]:
    """Return the tables that may hold results: those that name a metric, or else have numbers."""
    if len(candidates) == 1:
        return list(candidates)
    left = [c for c in candidates if c.grid is not None and _has_numbers(c.grid)]
    if not left:
        raise UserError(f"'{file}' holds {len(candidates)} tables, but none with numbers.")
    left = [c for c in left if not _tells_sizes(c)] or left
    named = [c for c in left if _names_results(c)]
    known = {name for c in named if not _lists_sets(c) for name in _first_words(c)}
    # Of the same detectors as those: results, too, of whatever.
    also = [c for c in left if c not in named and len(known & _first_words(c)) > 1]
    return [c for c in left if c in named or c in also] or left


def _tells_sizes(candidate: Candidate) -> bool:
    """Whether a table says how large or costly things are: seconds, parameters, numbers of images.

    Whole numbers beyond 100 are counts, and so are those beside them.
    """
    grid = candidate.grid
    if grid is None or _names_metric(grid):
        return False
    columns = dict(zip(grid.titles, zip(*grid.rows, strict=True), strict=True))
    numbers = {title: cells for title, cells in columns.items() if numeric_share(cells) > 0.5}
    sizes = [title for title in numbers if names_costs(title) or names_property_of_data(title)]
    others = [value_of(c) for t, cells in numbers.items() if t not in sizes for c in cells]
    values = [value for value in others if value == value]
    return all(value.is_integer() for value in values) and max(values, default=inf) > _PERCENT


def _lists_sets(candidate: Candidate) -> bool:
    """Whether the first column names data sets, which another table may merely describe."""
    return candidate.grid is not None and plain(candidate.grid.titles[0]) in SET_TITLES


def _share_little(candidates: Sequence[Candidate]) -> bool:
    """Whether tables with the same columns name different things in each: of different data, maybe.

    Numbers do not tell whether all of these may be compared with each other. One or two names that
    come again, such as that of a baseline, do not tell it, either.
    """
    names = [_first_names(candidate) for candidate in candidates]
    if len(names) < 2 or numeric_share(name for own in names for name in own) > 0:
        return False
    times = Counter(name for own in names for name in own)
    shared = [sum(times[name] > 1 for name in own) for own in names]
    return all(2 * known < len(own) for known, own in zip(shared, names, strict=True))


def _first_names(candidate: Candidate) -> set[str]:
    """Return the names in the first column."""
    rows = candidate.grid.rows if candidate.grid else []
    return {undressed(row[0]).casefold() for row in rows if row[0]} if rows else set()


def _first_words(candidate: Candidate) -> set[str]:
    """Return the names in the first column that are no numbers, as levels of settings are."""
    return {name for name in _first_names(candidate) if not numeric_share([name])}


def _derived(candidates: Sequence[Candidate]) -> dict[int, str]:
    """Return the tables that are computed from others, by number, and what they are."""
    grids = {c.found.number: c.grid for c in candidates if c.grid is not None}
    found = {number: DIFFERENCES for number, grid in grids.items() if is_of_differences(grid)}
    rest = {number: grid for number, grid in grids.items() if number not in found}
    for candidate in candidates:
        number, name = candidate.found.number, candidate.found.name.rpartition(" / ")[2]
        others = [grid for n, grid in rest.items() if n != number]
        if number in rest and averages(rest[number], name, others):
            found[number] = "means of other tables"
    return found if len(found) < len(candidates) else {}


def _judged(
    candidate: Candidate, read: set[int], chosen: bool, derived: Mapping[int, str]
) -> Found:
    found = candidate.found
    if found.number in read:
        return replace(found, is_read=True)
    if found.number in derived:
        return replace(found, why_not=derived[found.number])
    if candidate.grid is None:
        return replace(found, why_not=candidate.problem.rstrip("."))
    if not _has_numbers(candidate.grid):
        return replace(found, why_not="no column of numbers")
    return replace(found, why_not="not chosen" if chosen else UNNAMED)


def _candidate(table: PageTable, place: int, name: str) -> Candidate:
    number = place + 1
    about = _about(table)
    try:
        if table.problem:
            raise UserError(table.problem)
        grid = grid_of([list(row) for row in table.rows], f"table {number}", about)
    except UserError as problem:
        width = max(map(len, table.rows))
        return Candidate(table, Found(number, name, len(table.rows), width), None, str(problem))
    grid = grid._replace(uncertainty=table.uncertainty.or_else(grid.uncertainty))
    return Candidate(table, Found(number, name, len(grid.rows), len(grid.titles)), grid)


def _about(table: PageTable) -> str:
    """Return what says most about a table: the nearest text that names a metric, or the nearest."""
    headings = [table.levels[level] for level in sorted(table.levels, reverse=True)]
    own = headings[: 1 if max(table.levels, default=0) >= CAPTION else 0]
    texts = [*own, table.above, *headings[len(own) :]]
    nearest = next((text for text in texts if metrics_in(text)), next(filter(None, texts), ""))
    two = sum(bool(_TWO_NUMBERS.match(cell)) for row in table.rows for cell in row)
    return f"{nearest} {table.pairs}" if table.pairs and two > len(table.rows) else nearest


def _names(tables: Sequence[PageTable]) -> list[str]:
    """Name each table after its caption or the heading above it; by outer ones, where need be."""
    names = [_name(table, 1) for table in tables]
    for depth in (2, 3):
        twice = {name for name, times in Counter(names).items() if times > 1}
        names = [_name(t, depth) if n in twice else n for t, n in zip(tables, names, strict=True)]
    return names


def _name(table: PageTable, depth: int) -> str:
    levels = sorted(table.levels)[-depth:]
    said = [table.levels[level] for level in levels] or [table.above]
    if levels and levels[-1] < BOLD and depth > 2 and table.above:
        said.append(table.above)
    return " / ".join(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…" for text in said)


def _wanted(candidates: Sequence[Candidate], file: str, wanted: str) -> list[Candidate]:
    """Return the tables that the user picks: by number, or by words of their names."""
    parts = [part.strip() for part in wanted.split(",")]
    if all(part.isdecimal() for part in parts):
        numbers = {int(part) for part in parts}
        missing = numbers - {c.found.number for c in candidates}
        if missing:
            many = len(candidates)
            have = f"its tables are 1 to {many}" if many > 1 else "it has one table"
            raise UserError(f"'{file}' has no table {min(missing)}: {have}.")
        return [c for c in candidates if c.found.number in numbers]
    words = wanted.casefold()
    if words == _EVERY:
        every = "; ".join(f"#{c.found.label}" for c in candidates)
        raise UserError(f"'{file}' holds {len(candidates)} tables: {every}.")
    picked = [c for c in candidates if words in _all_said(c.table).casefold()]
    if not picked:
        raise UserError(
            f"'{file}' has no table with '{wanted}' in its caption or headings: "
            f"{_listed(candidates)}."
        )
    return picked


def _all_said(table: PageTable) -> str:
    return "\n".join([*table.levels.values(), table.above])


def _has_numbers(grid: Grid) -> bool:
    columns = zip(*grid.rows, strict=True)
    return any(numeric_share(cells, pairs=True) > 0.5 for cells in columns)


def _names_results(candidate: Candidate) -> bool:
    """Whether a table says that it holds results: a metric, or names of sets or detectors."""
    grid = candidate.grid
    if grid is None:
        return False
    if _names_metric(grid):
        return True
    columns = [list(dict.fromkeys(cells)) for cells in zip(*grid.rows, strict=True)]
    texts = [names for names in columns if numeric_share(names) <= 0.5]
    return any(
        sum(map(known, names)) >= 2
        for names in (grid.titles, *texts)
        for known in (is_set, is_detector, lambda name: bool(metric_named(name)))
    )


def _names_metric(grid: Grid) -> bool:
    said = metrics_in(grid.about) - {"loss"}  # in prose, that of training
    return any(map(metric_named, grid.titles)) or bool(said)


def _groups(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Put tables with the same titles together."""
    groups: dict[frozenset[str], list[Candidate]] = {}
    for candidate in candidates:
        titles = candidate.grid.titles if candidate.grid else []
        groups.setdefault(_key(titles), []).append(candidate)
    return list(groups.values())


def _key(titles: Sequence[str]) -> frozenset[str]:
    """Titles without their dress; the first may be that of the data set of the table."""
    first = "" if titles and is_data(undressed(titles[0])) else titles[0] if titles else ""
    return frozenset(undressed(title).casefold() for title in (first, *titles[1:]))


def _listed(candidates: Sequence[Candidate]) -> str:
    shown = [f"#{c.found.label}" for c in candidates[:_LISTED]]
    more = len(candidates) - _LISTED
    rest = f"; and {more} more, which FILE#{_EVERY} lists" if more > 0 else ""
    return "; ".join(shown) + rest


def _question(
    candidates: Sequence[Candidate],
    groups: Sequence[Sequence[Candidate]],
    file: str,
    broken: str,
    *,
    joins: bool = False,
) -> str:
    """Ask which tables are meant; `joins` if all can be read as one, `broken` if some cannot."""
    first = candidates[0].found.number
    several = len(groups) > 1 or joins
    alike = next((group for group in groups if len(group) > 1 and several), None)
    more = ""
    if alike:
        numbers = ",".join(str(c.found.number) for c in alike)
        more = f", or several with the same columns, such as '{file}#{numbers}'"
    what = "results" if _names_results(candidates[0]) else "numbers"
    return (
        f"'{file}' holds {len(candidates)} tables with {what}: {_listed(candidates)}; name one, "
        f"such as '{file}#{first}'{more}.{broken}"
    )


def _broken(candidates: Sequence[Candidate]) -> str:
    """Say which tables of a page cannot be read, and why."""
    problems = [c.problem for c in candidates if c.grid is None]
    return f" Not read: {problems[0]}" if problems else ""
