"""Read tables of known worlds, say what each reading got wrong, and count by form and fault."""

from __future__ import annotations

import argparse
import random
import re
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from table_layouts import LAYOUTS, Written
from table_worlds import METRICS, OWN, World, random_world

from oodometer.errors import UserError
from oodometer.factors import plain
from oodometer.results import Results
from oodometer.tables import Reading, read_results
from oodometer.tables.vocabulary.measures import base_metric

_OPTION = re.compile(r'--columns "([^"]*)"')
_MOST_QUESTIONS = 4  # one after the other
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Outcome:
    """How the reading of one table ended."""

    kind: str  # right, question, needless, unanswerable, wrong, refused or crash
    fault: str = ""
    reading: Reading | None = None
    questions: tuple[str, ...] = ()


def name(text: str, title: str = "") -> str:
    """Return a name or level without what layouts add to it: capitals, signs, its axis."""
    bare = re.sub(rf"(?i)^.*\b{re.escape(title)}[\s_=:]*(?=\w)", "", text) if title else text
    try:
        return f"{float(bare):g}"
    except ValueError:
        return plain(bare)


def judge(written: Written, reading: Reading) -> str:
    """Return what a reading got wrong, or nothing."""
    world = written.world
    main = reading.results[0]
    if world.main in OWN:  # the user says which is better, and the column may bear any name
        return _fault(written, main, world.main)
    if base_metric(main.metric) != world.main and not _may_decide(world, main.metric):
        return f"main metric is {main.metric}, not {world.main}"
    for results in reading.results:
        metric = base_metric(results.metric)
        if metric not in world.metrics:
            return f"metric {results.metric} is none of the table"
        if metric in METRICS and results.higher_is_better != METRICS[metric].higher:
            return f"direction of {metric}"
        if fault := _fault(written, results, metric):
            return fault if results is main else f"beside the main metric: {fault}"
    return ""


def _may_decide(world: World, metric: str) -> bool:
    """Whether no rule says which of several metrics decides, and this is one of them.

    A metric that some detector lacks altogether decides after one that all have.
    """
    place = world.place("detector")
    having = {m: {c[place] for c, n in world.cells.items() if m in n} for m in world.metrics}
    most = max(map(len, having.values()))
    ruled = {m for m in ("auroc", "accuracy") if len(having.get(m, ())) == most}
    return not ruled and base_metric(metric) in world.metrics


def _fault(written: Written, results: Results, metric: str) -> str:
    world, frame = written.world, results.frame
    expected = _expected(world, metric)
    for kind, column in (("detector", "detector"), ("id", "id"), ("ood", "ood")):
        axis = world.axis(kind)
        found = set(map(name, frame[column].unique())) if column in frame.columns else set()
        levels = {cell[world.place(kind)] for cell in expected} if axis else set()
        if axis is None and kind == "detector":
            continue
        if kind == "detector" and found != levels:
            return f"detectors: {_difference(found, levels)}"
    sets = _sets(world, results)
    if sets is None:
        return f"data sets are {_shown(results.ids)} and {_shown(results.ood)}"
    columns = [*sets]
    matched = _factors(written, results)
    if isinstance(matched, str):
        return matched
    places = [world.place("detector"), *(world.place(kind) for kind in columns)]
    keys = ["detector", *sets.values()]
    titles = ["", *("" for _ in columns)]
    for place, column in matched.items():
        places.append(place)
        keys.append(column)
        titles.append(world.axes[place].title)
    return _compared(written, results, metric, places, keys, titles)


def _compared(
    written: Written, results: Results, metric: str, places: list[int], keys: list[str],
    titles: list[str],
) -> str:  # fmt: skip
    """Compare numbers cell by cell; runs without numbers in any order."""
    world = written.world
    wanted: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for cell, (value, spread) in _expected(world, metric).items():
        key = tuple(cell[place] for place in places)
        wanted.setdefault(key, []).append((value, spread))
    found: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    has_spread = "spread" in results.frame.columns
    for line in results.frame.to_dict("records"):
        key = tuple(name(str(line[k]), t) for k, t in zip(keys, titles, strict=True))
        spread = float(line["spread"]) if has_spread else float("nan")
        found.setdefault(key, []).append((float(line["value"]), spread))
    if set(found) != set(wanted):
        missing, extra = set(wanted) - set(found), set(found) - set(wanted)
        return f"cells: {len(missing)} missing, {len(extra)} more: {sorted(missing | extra)[:2]}"
    for key, values in wanted.items():
        if len(values) != len(found[key]):
            return f"{len(found[key])} numbers instead of {len(values)} at {key}"
        for (value, spread), (other, stated) in zip(
            sorted(values), sorted(found[key]), strict=True
        ):
            if abs(value - other) > _ROUNDING:
                return f"value {other:g} instead of {value:g} at {key}"
            if spread == spread and not abs(spread - stated) <= _ROUNDING:
                return f"spread {stated:g} instead of {spread:g} at {key}"
    return ""


def _expected(world: World, metric: str) -> dict[tuple[str, ...], tuple[float, float]]:
    """Return value and spread of all cells, with names as they are compared."""
    lines = {}
    for cell, numbers in world.cells.items():
        if metric in numbers:
            key = tuple(name(c, a.title) for c, a in zip(cell, world.axes, strict=True))
            spread = world.spreads.get(cell, {}).get(metric)
            stated = float("nan") if spread is None else world.value(metric, spread)
            lines[key] = (world.value(metric, numbers[metric]), stated)
    return lines


def _sets(world: World, results: Results) -> dict[str, str] | None:
    """Return the column in which the data of each axis are found, or None."""
    matched: dict[str, str] = {}
    for kind in ("id", "ood"):
        axis = world.axis(kind)
        if axis is None:
            continue
        present = {cell[world.place(kind)] for cell, n in world.cells.items() if n}
        levels = {name(level) for level in present}
        for column in ("id", "ood") if kind == "id" else ("ood", "id"):
            found = set(results.frame[column]) if column in results.frame.columns else set()
            if {name(str(level)) for level in found} == levels and column not in matched.values():
                matched[kind] = column
                break
        else:
            if len(levels) > 1:
                return None
    named = [c for c in ("id", "ood") if c in results.frame.columns]
    spare = [c for c in named if c not in matched.values() and results.frame[c].nunique() > 1]
    both = world.axis("id") is not None and world.axis("ood") is not None
    if spare or (both and matched.get("id") == "ood") or _is_misplaced(world, matched):
        return None
    return matched


def _is_misplaced(world: World, matched: Mapping[str, str]) -> bool:
    """Whether outlier sets of post-hoc detectors are taken for data that they were trained on."""
    return world.axis("id") is None and matched.get("ood") == "id" and "fpr95" in world.metrics


def _factors(written: Written, results: Results) -> dict[int, str] | str:
    """Return the column of each factor by its place among the axes, or what is wrong."""
    world, frame = written.world, results.frame
    kinds = {factor.name: factor.kind for factor in results.factors}
    left = dict(kinds)
    matched: dict[int, str] = {}
    for place, axis in enumerate(world.axes):
        if axis.kind in ("detector", "id", "ood"):
            continue
        if axis.kind == "repeat" and not written.numbered:
            found = [c for c, kind in left.items() if kind == "repeat"]
            if len(found) != 1:
                return f"{len(found)} repeats instead of 1"
            del left[found[0]]
            continue
        present = {cell[place] for cell, numbers in world.cells.items() if numbers}
        levels = {name(level, axis.title) for level in present}
        same = [c for c in left
                if {name(str(v), axis.title) for v in frame[c].unique()} == levels]  # fmt: skip
        same.sort(key=lambda c: plain(c) not in plain(axis.title))
        if not same:
            return f"factor {axis.title} is not one of {', '.join(kinds) or 'none'}"
        matched[place] = same[0]
        if left.pop(same[0]) != axis.kind:
            return f"{axis.title} is a {kinds[same[0]]}, not a {axis.kind}"
    return f"factor {next(iter(left))} is none" if left else matched


def _difference(found: set[str], wanted: set[str]) -> str:
    more, fewer = sorted(found - wanted), sorted(wanted - found)
    return f"{_shown(more)} too many, {_shown(fewer)} missing"


def _shown(names: object) -> str:
    texts = [str(n) for n in names]  # type: ignore[attr-defined]
    return f"{len(texts)} ({', '.join(texts[:3])})"


def read(written: Written) -> Outcome:
    """Read a table without options; where a question is asked, try every answer that it names."""
    return _read(written, "", ())


def _read(written: Written, columns: str, asked: tuple[str, ...]) -> Outcome:
    try:
        reading = read_results(written.path, columns)
    except UserError as problem:
        return _asked(written, columns, (*asked, str(problem)))
    except Exception:  # noqa: BLE001 - whatever it is, it is a crash
        return Outcome("crash", traceback.format_exc().splitlines()[-1], None, asked)
    fault = judge(written, reading)
    return Outcome("wrong" if fault else "right", fault, reading, asked)


def _asked(written: Written, columns: str, asked: tuple[str, ...]) -> Outcome:
    options = _OPTION.findall(asked[-1])
    if not options:
        return Outcome("refused", asked[-1], None, asked)
    if len(asked) > _MOST_QUESTIONS:
        return Outcome("unanswerable", asked[0], None, asked)
    for option in options:
        if option != columns:
            outcome = _read(written, option, asked)
            if outcome.kind in ("right", "question", "needless"):
                kind = "question" if written.unsettled else "needless"
                return Outcome(kind, asked[0], outcome.reading, outcome.questions)
    return Outcome("unanswerable", asked[0], None, asked)


@dataclass(frozen=True)
class Case:
    """One table, by the numbers that make it again."""

    seed: int
    number: int
    layout: str
    written: Written
    outcome: Outcome


def cases(seed: int, numbers: range, folder: Path, layouts: tuple[str, ...] = ()) -> Iterator[Case]:
    """Draw a world per number, write it in one layout, and read it."""
    for number in numbers:
        rng = random.Random(f"{seed} {number}")
        world = random_world(rng)
        order = list(layouts or LAYOUTS)
        rng.shuffle(order)
        for layout in order:
            own = folder / f"{number}"
            own.mkdir()
            written = LAYOUTS[layout](world, rng, own)
            if written is not None:
                yield Case(seed, number, layout, written, read(written))
                shutil.rmtree(own)
                break
            shutil.rmtree(own)


def general(fault: str) -> str:
    """Return a fault without the names and numbers of one table."""
    return re.sub(r"'[^']*'|\d[\d.]*|\([^()]*\)", "…", fault)[:70]


def main() -> None:
    parser = argparse.ArgumentParser(description="Read random tables whose right reading is known.")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--layouts", default="", help="comma-separated; default: all")
    parser.add_argument("--show", default="wrong,crash,refused", help="outcomes to list, or none")
    parser.add_argument("--keep", default="", help="folder for the tables that are listed")
    arguments = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    faults: Counter[str] = Counter()
    chosen = tuple(filter(None, arguments.layouts.split(",")))
    numbers = range(arguments.first, arguments.first + arguments.cases)
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(arguments.seed, numbers, Path(folder), chosen):
            counts.setdefault(case.layout, Counter())[case.outcome.kind] += 1
            if case.outcome.kind not in ("right", "question"):
                faults[f"{case.outcome.kind}: {general(case.outcome.fault)}"] += 1
            if case.outcome.kind in arguments.show.split(","):
                print(f"{case.number} {case.layout} ({case.written.form}) {case.outcome.kind}: "
                      f"{case.outcome.fault[:300]}")  # fmt: skip
                if arguments.keep:
                    kept = Path(arguments.keep) / f"{case.seed}-{case.number}"
                    shutil.rmtree(kept, ignore_errors=True)
                    shutil.copytree(case.written.path.parent, kept)
    kinds = ("right", "question", "needless", "unanswerable", "wrong", "refused", "crash")
    print(f"\n{'layout':18}" + "".join(f"{kind:>13}" for kind in kinds))
    for layout, count in [*sorted(counts.items()), ("all", sum(counts.values(), Counter()))]:
        print(f"{layout:18}" + "".join(f"{count[kind]:13}" for kind in kinds))
    print()
    for fault, times in faults.most_common(40):
        print(f"{times:5} {fault}")


if __name__ == "__main__":
    main()
