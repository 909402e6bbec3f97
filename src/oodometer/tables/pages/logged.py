"""Logs as tables: blocks of lines such as "test_auroc: 0.91", of which each is a row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from oodometer.factors import TITLES, plain
from oodometer.tables.cells import Rows, is_gap, read_cell
from oodometer.tables.pages.outline import Outline, PageTable
from oodometer.tables.vocabulary.measures import metric_named

_PAIR = re.compile(r"\s*([^\W\d][^:=|]{0,60}?|\[[^:=|]{1,60}?)\s*[:=]\s*(\S[^:=]*?)\s*")
_BETWEEN = re.compile(r"\s+--+\s+|\s*[;|]\s*|,\s+|\t+")  # several pairs in a line
_RULE = frozenset(" \t=-_*~#+|`")
_LONGEST = 200  # characters of a line
_FEWEST = 2  # blocks, and pairs in each
_NUMBERED = re.compile(r"([^\W\d_]+)[\s_#:=\-]*(\d+)")


@dataclass
class _Block:
    """Pairs below each other, and the text above them."""

    name: str
    pairs: dict[str, str] = field(default_factory=dict)


def logged_tables(text: str) -> list[PageTable]:
    """Return the table that the blocks of a log are; none if it is not made of such blocks."""
    blocks = [block for block in _blocks(text.splitlines()) if _has_results(block)]
    if len(blocks) < _FEWEST or any(b.pairs.keys() != blocks[0].pairs.keys() for b in blocks):
        return []
    keys = list(blocks[0].pairs)
    title, names = _named([block.name for block in blocks])
    rows: Rows = [[title, *keys] if title else list(keys)]
    for name, block in zip(names, blocks, strict=True):
        cells = [block.pairs[key] for key in keys]
        rows.append([name, *cells] if title else cells)
    outline = Outline()
    outline.table(rows)
    return outline.tables


def _blocks(lines: Sequence[str]) -> list[_Block]:
    """Part lines into blocks; a key that comes again begins the next one."""
    blocks: list[_Block] = []
    name = ""
    is_open = is_fenced = False
    for line in lines:
        pairs = _pairs(line)
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif not pairs and plain(line) and not _RULE.issuperset(line):
            is_open = False
            if not (is_fenced and re.search(r"[:=#]", line)):  # settings, comments
                name = line.strip(" \t#*=-:")
        if not pairs:
            continue
        if not is_open or any(key in blocks[-1].pairs for key, _ in pairs):
            blocks.append(_Block(name))
        blocks[-1].pairs.update(pairs)
        is_open = True
    return blocks


def _pairs(line: str) -> list[tuple[str, str]]:
    """Return the keys and numbers of a line that holds nothing else."""
    if len(line) > _LONGEST:
        return []
    found = [_PAIR.fullmatch(part) for part in _BETWEEN.split(line.strip()) if part]
    pairs = [(match[1], match[2]) for match in found if match]
    numbers = [value for _, value in pairs if read_cell(value) is not None or is_gap(value)]
    return pairs if pairs and len(numbers) == len(found) else []


def _has_results(block: _Block) -> bool:
    measured = [key for key in block.pairs if metric_named(key)]
    return len(block.pairs) >= _FEWEST and bool(measured)


def _named(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the title of what stands above the blocks, and the names; no title if all are alike.

    >>> _named(["epoch 1", "epoch 2"]), _named(["knn", "msp"]), _named(["", ""])
    (('epoch', ['1', '2']), ('name', ['knn', 'msp']), ('', ['', '']))
    """
    found = [_NUMBERED.fullmatch(name) for name in names]
    kinds = {plain(match[1]) if match else "" for match in found}
    if len(kinds) == 1 and kinds <= TITLES.keys():
        return kinds.pop(), [match[2] for match in found if match]
    return ("name" if len(set(names)) > 1 else ""), list(names)
