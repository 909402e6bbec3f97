"""Write a world of `table_worlds` as tables of many forms."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from table_formats import PAGES, SUFFIXES, TEXTS, Sheet, as_xlsx
from table_worlds import METRICS, Axis, Cell, World

from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.names import is_detector, is_model


@dataclass(frozen=True)
class Written:
    """A file or folder, the part of the world that it shows, and what its names leave open."""

    path: Path
    world: World
    unsettled: frozenset[str]
    form: str  # of the file
    numbered: bool = True  # the repeats are numbered somewhere


Layout = Callable[[World, random.Random, Path], Written | None]
_AVERAGES = ("Average", "Avg.", "Mean", "avg")


def _text(world: World, cell: Cell, metric: str, between: str) -> str:
    """Return the number of a cell as it is written, or the sign for a gap."""
    number = world.cells[cell].get(metric)
    if number is None:
        return world.failed
    spread = world.spreads.get(cell, {}).get(metric)
    if spread is None:
        return number
    return f"{number} ({spread})" if between == "(" else f"{number}{between}{spread}"


def _between(rng: random.Random) -> str:
    return rng.choice(("±", " ± ", "(", " +/- "))


def _write(
    sheets: dict[str, Sheet], rng: random.Random, folder: Path, name: str, about: str,
    forms: Sequence[str] = (*TEXTS, "xlsx"),
) -> tuple[Path, str]:  # fmt: skip
    """Write tables into one file of a random format, each with its caption."""
    form = rng.choice([f for f in forms if len(sheets) == 1 or f in PAGES or f == "xlsx"])
    path = folder / f"{name}.{SUFFIXES.get(form, form)}"
    if form == "xlsx":
        as_xlsx(path, {title[:31].replace("/", "-"): sheet for title, sheet in sheets.items()})
        return path, form
    parts = []
    for title, sheet in sheets.items():
        if form in PAGES:
            said = f"{about} {'on' * bool(about)} {title}".strip() if len(sheets) > 1 else about
            if form == "md" and len(sheets) > 1:
                parts.append(f"## {title}\n\n")
                said = about
            sheet = replace(sheet, about=said)
        parts.append(TEXTS[form](sheet))
    path.write_text("\n".join(parts), encoding="utf-8")
    return path, form


def long(world: World, rng: random.Random, folder: Path) -> Written:
    """One line per cell; metrics in columns of their own, or named in one."""
    between = _between(rng)
    melt = rng.random() < 0.2 and not world.spreads and set(world.metrics) <= set(METRICS)
    apart = bool(world.spreads) and rng.random() < 0.4
    titles = [axis.title for axis in world.axes]
    rows = []
    absent = rng.random() < 0.5
    for cell, numbers in world.cells.items():
        extras = [extra(cell) for extra in world.extras.values()]
        if melt:
            rows += [[*cell, *extras, world.title(m), text] for m, text in numbers.items()]
            continue
        if not numbers and absent:
            continue
        shown = []
        for metric in world.metrics:
            if apart:
                known = metric in numbers
                shown += [numbers[metric], world.spreads[cell][metric]] if known else ["", ""]
            else:
                shown.append(_text(world, cell, metric, between))
        rows.append([*cell, *extras, *shown])
    measured = [world.title(m) for m in world.metrics]
    if apart:
        ends = rng.choice((("_mean", "_std"), (" mean", " std"), ("", "_std")))
        bare = [title.strip(" ↑↓").replace(" ", "_") for title in measured]
        measured = [f"{title}{end}" for title in bare for end in ends]
    header = [*titles, *world.extras, *(["metric", "value"] if melt else measured)]
    if rng.random() < 0.4:
        rng.shuffle(rows)
    if rng.random() < 0.3:
        order = list(range(len(header)))
        rng.shuffle(order)
        header, rows = [header[n] for n in order], [[row[n] for n in order] for row in rows]
    sheet = Sheet([header], rows, len(titles))
    if rng.random() < 0.15:
        return _as_json_records(world, sheet, rng, folder)
    path, form = _write({"results": sheet}, rng, folder, "table", "Results of all runs")
    return Written(path, world, world.unsettled, form)


def _as_json_records(world: World, sheet: Sheet, rng: random.Random, folder: Path) -> Written:
    records = [dict(zip(sheet.header[0], map(_typed, row), strict=True)) for row in sheet.rows]
    form = rng.choice(("json", "jsonl", "columns"))
    if form == "columns":
        text = json.dumps({title: [r[title] for r in records] for title in sheet.header[0]})
    else:
        lines = "\n".join(map(json.dumps, records))
        text = json.dumps(records) if form == "json" else lines
    path = folder / f"table.{'jsonl' if form == 'jsonl' else 'json'}"
    path.write_text(text, encoding="utf-8")
    return Written(path, world, world.unsettled, form)


def _typed(text: str) -> object:
    if text in ("nan", ""):
        return None
    try:
        number = float(text)
    except ValueError:
        return text
    return text if text.startswith("0") and text.isdigit() and text != "0" else (
        int(text) if text.isdigit() else number)  # fmt: skip


def unnumbered(world: World, rng: random.Random, folder: Path) -> Written | None:
    """One line per run, without a column that numbers them."""
    repeats = [n for n, axis in enumerate(world.axes) if axis.kind == "repeat"]
    if len(repeats) != 1 or any(not numbers for numbers in world.cells.values()):
        return None
    keep = [n for n in range(len(world.axes)) if n not in repeats]
    header = [*(world.axes[n].title for n in keep), *map(world.title, world.metrics)]
    rows = [
        [*(cell[n] for n in keep), *(_text(world, cell, m, "±") for m in world.metrics)]
        for cell in world.cells
    ]
    path, form = _write({"results": Sheet([header], rows, len(keep))}, rng, folder, "table", "")
    return Written(path, world, world.unsettled, form, numbered=False)


def _grouped(world: World, across: Sequence[int]) -> dict[Cell, dict[Cell, Cell]]:
    """Return the cells by what stands in their line, then by what stands above them."""
    lines: dict[Cell, dict[Cell, Cell]] = {}
    for cell in world.cells:
        line = tuple(level for n, level in enumerate(cell) if n not in across)
        lines.setdefault(line, {})[tuple(cell[n] for n in across)] = cell
    return lines


def _column_title(axis: Axis, level: str, rng_form: int) -> str:
    if axis.kind in ("detector", "id", "ood"):
        return level
    return (f"{axis.title} {level}", f"{axis.title}_{level}", f"{axis.title}={level}")[rng_form]


def _may_be_wide(world: World) -> list[int]:
    kinds = ("detector", "id", "ood", "repeat", "re_evaluation")
    inner = {axis.within for axis in world.axes}
    return [n for n, a in enumerate(world.axes)
            if a.kind in kinds and a.kind not in inner and len(a.levels) > 1]  # fmt: skip


def _names_are_known(axis: Axis) -> bool:
    test = (
        is_data if axis.kind in ("id", "ood") else lambda name: is_detector(name) or is_model(name)
    )
    return axis.kind not in ("detector", "id", "ood") or 2 * sum(map(test, axis.levels)) > len(
        axis.levels
    )


def _open_in_titles(world: World, across: Sequence[int]) -> frozenset[str]:
    """Say what is open where titles of columns name an axis by its levels alone."""
    unknown = [n for n in across if not _names_are_known(world.axes[n])]
    return world.unsettled | ({"axis"} if unknown else set())


@dataclass(frozen=True)
class _Wide:
    """A sheet with a column per level of an axis and metric, and what it leaves open."""

    sheet: Sheet
    world: World
    about: str
    name: str
    unsettled: frozenset[str]


def _wide(world: World, rng: random.Random, across: Sequence[int], *, plain: bool = False) -> _Wide:
    """Lay out a world with the levels of one or two axes above its numbers."""
    between = _between(rng)
    metrics = world.metrics if len(world.metrics) > 1 and rng.random() < 0.6 else (world.main,)
    world = replace(world, metrics=metrics)
    lines = _grouped(world, across)
    heads = list(dict.fromkeys(head for line in lines.values() for head in line))
    form = rng.randrange(3)
    axes = [world.axes[n] for n in across]
    names = {
        head: [_column_title(a, level, form) for a, level in zip(axes, head, strict=True)]
        for head in heads
    }
    labels = [a.title for n, a in enumerate(world.axes) if n not in across]
    metric_first = rng.random() < 0.3
    pairs = [(h, m) for m in metrics for h in heads] if metric_first else [
        (h, m) for h in heads for m in metrics]  # fmt: skip
    columns = [_levels_above(names[h], world.title(m), metric_first) for h, m in pairs]
    in_titles = len(metrics) > 1 or rng.random() < 0.35
    if not in_titles:
        columns = [names[h] for h, _ in pairs]
    rows = [
        [*line, *(_text(world, cells[h], m, between) if h in cells else world.failed
                  for h, m in pairs)]
        for line, cells in lines.items()
    ]  # fmt: skip
    said = world.unsettled | _open_in_titles(world, across)
    columns, rows = _with_averages(world, rng, axes, columns, rows, lines, pairs, plain)
    depth = len(columns[0])
    if depth > 1 and rng.random() < 0.6:
        header = _header_lines(columns, labels, rng)
    else:
        joint = rng.choice((" ", "_", "/", " ")) if depth > 1 else " "
        header = [[*labels, *(joint.join(parts) for parts in columns)]]
    metric = world.title(world.main)
    about = "" if in_titles else f"{metric.strip(' ↑↓')} of all methods"
    name = "table" if in_titles else metric.strip(" ↑↓").replace("@", "")
    if not in_titles and world.main not in METRICS:
        said |= {"metric"}
    return _Wide(Sheet(header, rows, len(labels)), world, about, name, frozenset(said))


def _levels_above(names: list[str], metric: str, metric_first: bool) -> list[str]:
    return [metric, *names] if metric_first else [*names, metric]


def _with_averages(
    world: World, rng: random.Random, axes: Sequence[Axis], columns: list[list[str]],
    rows: list[list[str]], lines: dict[Cell, dict[Cell, Cell]], pairs: list[tuple[Cell, str]],
    plain: bool,
) -> tuple[list[list[str]], list[list[str]]]:  # fmt: skip
    """Add columns of means over data sets, or a line of means over all lines of data."""
    several = len(axes) == 1 and len({h for h, _ in pairs}) > 2
    if plain or not several or axes[0].kind not in ("ood", "id") or rng.random() < 0.6:
        return columns, rows
    word = rng.choice(_AVERAGES)
    name = pairs[0][0]
    for metric in dict.fromkeys(m for _, m in pairs):
        place = next(n for n, (h, m) in enumerate(pairs) if m == metric and h == name)
        title = [word if part == axes[0].levels[0] else part for part in columns[place]]
        columns = [*columns, title]
        means = []
        for cells in lines.values():
            known = [world.cells[c].get(metric) for c in cells.values()]
            full = len(known) == len({h for h, _ in pairs}) and None not in known
            fine = len((known[0] or "0.0").partition(".")[2])
            means.append(f"{fmean(float(t) for t in known if t):.{fine}f}" if full else "-")
        rows = [[*row, mean] for row, mean in zip(rows, means, strict=True)]
    return columns, rows


def _header_lines(
    columns: list[list[str]], labels: list[str], rng: random.Random
) -> list[list[str]]:
    """Write titles in several lines; a group's name stands above its first column, or all."""
    depth = len(columns[0])
    repeated = rng.random() < 0.3
    labels_last = rng.random() < 0.7
    header = []
    for level in range(depth):
        cells, before = [], None
        for parts in columns:
            group = parts[: level + 1]
            shown = level == depth - 1 or repeated or group != before
            cells.append(parts[level] if shown else "")
            before = group
        own = labels if (level == depth - 1) == labels_last or depth == 1 else [""] * len(labels)
        if not labels_last:
            own = labels if level == 0 else [""] * len(labels)
        header.append([*own, *cells])
    return header


def wide(world: World, rng: random.Random, folder: Path, kind: str) -> Written | None:
    """A column per level of one axis."""
    places = [n for n in _may_be_wide(world) if world.axes[n].kind == kind]
    if not places:
        return None
    laid = _wide(world, rng, places[:1])
    path, form = _write({"results": laid.sheet}, rng, folder, laid.name, laid.about)
    return Written(path, laid.world, laid.unsettled, form)


def wide_twice(world: World, rng: random.Random, folder: Path) -> Written | None:
    """Two axes above the numbers, in two or three lines of titles."""
    places = [n for n in _may_be_wide(world) if world.axes[n].kind in ("id", "ood", "detector")]
    if len(places) < 3:  # something must be left for the lines
        return None
    order = rng.choice(((1, 2), (0, 2), (2, 0)))
    laid = _wide(world, rng, [places[n] for n in order])
    forms = [form for form in (*TEXTS, "xlsx") if form not in ("txt",)]
    path, form = _write({"results": laid.sheet}, rng, folder, laid.name, laid.about, forms)
    return Written(path, laid.world, laid.unsettled, form)


def _parted(world: World, place: int, level: str) -> World:
    """Return the part of a world at one level of an axis, without that axis."""
    axes = tuple(axis for n, axis in enumerate(world.axes) if n != place)

    def part(cells: dict[Cell, dict[str, str]]) -> dict[Cell, dict[str, str]]:
        return {(*c[:place], *c[place + 1 :]): v for c, v in cells.items() if c[place] == level}

    extras = {name: (lambda cell, extra=extra: extra((*cell[:place], level, *cell[place:])))
              for name, extra in world.extras.items()}  # fmt: skip
    return replace(world, axes=axes, cells=part(dict(world.cells)),
                   spreads=part(dict(world.spreads)), extras=extras)  # fmt: skip


def _divisible(world: World, *kinds: str) -> list[int]:
    inner = {axis.within for axis in world.axes} - {""}
    free = [n for n, a in enumerate(world.axes) if a.kind in kinds and not a.within]
    return [n for n in free if world.axes[n].kind not in inner and len(world.axes[n].levels) > 1]


def _sets_above(part: World) -> list[int]:
    return [n for n in _may_be_wide(part) if part.axes[n].kind in ("ood", "id")][-1:]


def _same_layout(world: World, place: int, rng: random.Random) -> dict[str, _Wide] | None:
    """Lay out the parts of a world alike, each with a column per data set."""
    state = rng.getrandbits(64)
    found = {}
    for level in world.axes[place].levels:
        part = _parted(world, place, level)
        across = _sets_above(part)
        if not across:
            return None
        found[level] = _wide(part, random.Random(state), across)
    return found


def sections(world: World, rng: random.Random, folder: Path) -> Written | None:
    """One table whose lines stand below headings."""
    places = _divisible(world, "id", "condition")
    if not places or (laid := _same_layout(world, place := rng.choice(places), rng)) is None:
        return None
    if world.axes[place].kind == "id" and world.axis("ood") is None:
        return None
    first, *others = laid.values()
    if any(part.sheet.header != first.sheet.header for part in others):
        return None
    rows, headings = [], {}
    for level, part in laid.items():
        axis = world.axes[place]
        headings[len(rows)] = level if axis.kind == "id" else f"{axis.title}: {level}"
        rows += part.sheet.rows
    sheet = replace(first.sheet, rows=rows, headings=headings)
    path, form = _write({"results": sheet}, rng, folder, first.name, first.about)
    return Written(path, replace(world, metrics=first.world.metrics), first.unsettled, form)


def pages(world: World, rng: random.Random, folder: Path) -> Written | None:
    """Several tables with headings or captions, or sheets of a workbook."""
    places = _divisible(world, "id", "condition", "repeat")
    if not places or (laid := _same_layout(world, place := rng.choice(places), rng)) is None:
        return None
    if world.axes[place].kind == "id" and world.axis("ood") is None:
        return None
    first = next(iter(laid.values()))
    axis = world.axes[place]
    titles = {level: level if axis.kind == "id" else f"{axis.title} {level}" for level in laid}
    sheets = {titles[level]: part.sheet for level, part in laid.items()}
    path, form = _write(sheets, rng, folder, first.name, first.about)
    return Written(path, replace(world, metrics=first.world.metrics), first.unsettled, form)


def files(world: World, rng: random.Random, folder: Path) -> Written | None:
    """A folder with a file per level of an axis, whose name says which."""
    places = _divisible(world, "detector", "id", "repeat")
    if not places:
        return None
    axis = world.axes[place := rng.choice(places)]
    if axis.kind == "id" and world.axis("ood") is None:
        return None
    state = rng.getrandbits(64)
    target = folder / "results"
    target.mkdir()
    nested = rng.random() < 0.3
    unsettled = _open_in_titles(world, [place])
    for level in axis.levels:
        part = _parted(world, place, level)
        named = level.replace("/", "-") if axis.kind != "repeat" else f"{axis.title}_{level}"
        sheet = _long_sheet(part, random.Random(state))
        file = target / named / "metrics.csv" if nested else target / f"{named}.csv"
        file.parent.mkdir(exist_ok=True)
        file.write_text(TEXTS["csv"](sheet), encoding="utf-8")
    return Written(target, world, unsettled, "folder")


def _long_sheet(world: World, rng: random.Random) -> Sheet:
    between = _between(rng)
    header = [*(a.title for a in world.axes), *map(world.title, world.metrics)]
    rows = [[*cell, *(_text(world, cell, m, between) for m in world.metrics)]
            for cell in world.cells]  # fmt: skip
    return Sheet([header], rows, len(world.axes))


def nested_json(world: World, rng: random.Random, folder: Path) -> Written | None:
    """Names inside names; repeats as lists or keys, metrics innermost or outermost."""
    if world.spreads or any(axis.within for axis in world.axes):
        return None
    order = list(range(len(world.axes)))
    rng.shuffle(order)
    repeats = [n for n in order if world.axes[n].kind == "repeat"]
    as_list = len(repeats) == 1 and rng.random() < 0.4 and all(world.cells.values())
    if as_list:
        order = [n for n in order if n != repeats[0]] + [repeats[0]]
    single = len(world.metrics) == 1 and rng.random() < 0.3
    outermost = not single and rng.random() < 0.15
    content: dict[str, object] = {}
    form = rng.randrange(3)
    for cell, numbers in world.cells.items():
        if as_list and len(numbers) < len(world.metrics):
            return None
        names = [_column_title(world.axes[n], cell[n], form) for n in order]
        for metric, text in numbers.items():
            said = [] if single else [world.title(metric)]
            if as_list:
                path = [*said, *names[:-1]] if outermost else [*names[:-1], *said]
                _put(content, path, float(text), listed=True)
            else:
                _put(content, [*said, *names] if outermost else [*names, *said], float(text))
    name = world.title(world.main).strip(" ↑↓") if single else "table"
    path = folder / f"{name.replace('@', '')}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    named = [n for n, a in enumerate(world.axes) if a.kind in ("detector", "id", "ood")]
    unsettled = _open_in_titles(world, named)
    if any(a.kind in ("condition", "re_evaluation") for a in world.axes):
        unsettled |= {"levels"}
    if len(world.axes) > len(named) + 1 or (single and world.main not in METRICS):
        unsettled |= {"levels"}
    return Written(path, world, unsettled, "nested", numbered=not as_list)


def _put(
    content: dict[str, object], path: Sequence[str], number: float, *, listed: bool = False
) -> None:
    *outer, last = path
    for name in outer:
        content = content.setdefault(name, {})  # type: ignore[assignment]
    if listed:
        content.setdefault(last, []).append(number)  # type: ignore[attr-defined]
    else:
        content[last] = number


def json_lists(world: World, rng: random.Random, folder: Path) -> Written | None:
    """A record per detector or run, with a list of its results inside."""
    outer = [0] if rng.random() < 0.5 else [n for n, a in enumerate(world.axes) if a.kind != "ood"]
    inner = [n for n in range(len(world.axes)) if n not in outer]
    if not inner or world.spreads:
        return None
    groups: dict[Cell, list[dict[str, object]]] = {}
    for cell, numbers in world.cells.items():
        line: dict[str, object] = {world.axes[n].title: cell[n] for n in inner}
        line |= {world.title(m): float(numbers[m]) if m in numbers else None for m in world.metrics}
        groups.setdefault(tuple(cell[n] for n in outer), []).append(line)
    records = [
        {world.axes[n].title: level for n, level in zip(outer, names, strict=True)}
        | {"results": lines}
        for names, lines in groups.items()
    ]
    path = folder / "table.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return Written(path, world, world.unsettled, "lists")


def pandas_pivot(world: World, rng: random.Random, folder: Path) -> Written | None:
    """What pandas writes of a pivoted table: several lines of titles, then the index's names."""
    import pandas as pd

    places = _may_be_wide(world)
    if world.spreads or not places or len(world.axes) < 2:
        return None
    across = rng.choice(
        [n for n in places if world.axes[n].kind in ("detector", "ood", "id")] or places
    )
    titles = [axis.title for axis in world.axes]
    table = pd.DataFrame([
        {**dict(zip(titles, cell, strict=True)),
         **{world.title(m): float(t) for m, t in numbers.items()}}
        for cell, numbers in world.cells.items()
    ])  # fmt: skip
    rows = [title for n, title in enumerate(titles) if n != across]
    wide = table.pivot_table(index=rows, columns=titles[across],
                             values=[world.title(m) for m in world.metrics])  # fmt: skip
    if rng.random() < 0.3:
        wide = wide.swaplevel(axis=1).sort_index(axis=1)
    path = folder / "table.csv"
    text = wide.to_csv()
    if rng.random() < 0.25:
        path, text = folder / "table.html", wide.to_html()
    path.write_text(text, encoding="utf-8")
    return Written(path, world, _open_in_titles(world, [across]), f"pandas {path.suffix[1:]}")


def turned(world: World, rng: random.Random, folder: Path) -> Written | None:
    """A long table on its side: titles in the first column."""
    if len(world.cells) > 40:
        return None
    sheet = _long_sheet(world, rng)
    lines = [*sheet.header, *sheet.rows]
    columns = [list(column) for column in zip(*lines, strict=True)]
    path = folder / "table.csv"
    path.write_text(TEXTS["csv"](Sheet(columns[:1], columns[1:], 1)), encoding="utf-8")
    return Written(path, world, world.unsettled, "csv")


def _by(kind: str) -> Layout:
    return lambda world, rng, folder: wide(world, rng, folder, kind)


LAYOUTS: dict[str, Layout] = {
    "long": long, "unnumbered": unnumbered, "by outlier set": _by("ood"), "by data set": _by("id"),
    "by detector": _by("detector"), "by repeat": _by("repeat"),
    "by re-evaluation": _by("re_evaluation"), "two axes": wide_twice, "sections": sections,
    "pages": pages, "files": files, "nested JSON": nested_json, "JSON lists": json_lists,
    "pandas": pandas_pivot, "transposed": turned,
}  # fmt: skip
