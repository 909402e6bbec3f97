"""Logs as tables: blocks of lines such as "test_auroc: 0.91", of which each is a row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from oodometer.factors import TITLES, plain, words_of
from oodometer.tables.cells import Rows, is_gap, read_cell
from oodometer.tables.guessing.roles import SECTION
from oodometer.tables.pages.outline import Outline, PageTable
from oodometer.tables.vocabulary.data_names import is_set
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.names import is_detector
from oodometer.tables.vocabulary.statistics import is_average

_PAIR = re.compile(r"\s*([^\W\d][^:=|]{0,60}?|\[[^:=|]{1,60}?)\s*[:=]\s*(\S[^:=]*?)\s*")
# Several pairs in a line; the last are parted by spaces alone: Subject: 1   Test_acc: 0.88
_BETWEEN = re.compile(r"\s+--+\s+|\s*[;|]\s*|,\s+|\t+|(?<![:=\s])\s{2,20}(?=[^\W\d])")
_COUNTED = re.compile(r"([^\W\d][\w ]{0,30}?\s(?:no|nr)\.?)\s*(\d+)")  # Train no. 1
_DURATION = re.compile(r"\d+(?:\.\d+)?\s?(?:ms|s|secs?|m|mins?|h|hrs?|hours?|minutes?|seconds?)")
_LEADING = re.compile(r"\[?([^\W\d_]+)\s?#?(\d+)(?:/\d+)?\]?\s*[:,|-]\s+(?=[^\W\d])")
_MOST_WORDS = 6  # of a key; more is prose
_REMARK = re.compile(r"(?:\S+\s+){6,30}\S+\s?[:=]\s?[\d.]+%?\s*")  # Best model saved ...
_SPLITS = frozenset({"train", "val", "valid", "validation", "test", "dev"})  # the loss on these
_BULLET = re.compile(r"^\s*[-*+•]\s+")
_RULE = frozenset(" \t=-_*~#+|`─━═—")
_TABBED = re.compile(r"(?<=[:=])\s*\t\s*|\s*\t\s*(?=\+/-|±)")  # FPR95:\t\t40.1\t+/- 0.3
_CLOSE = re.compile(
    r"(?<![^\W\d]\d)(?<=[\d%])\s+(?=[^\W\d][\w@]{1,30}\s?[:=])"
)  # AUROC: 91.2 AUPR_IN: 90.1
_BARRED = re.compile(r"^[ \t]*\|.*$", re.MULTILINE)  # a line of another table
_SETTING = re.compile(r"\s*\([^()]*=[^()]*\)")  # F1 (tol=5): 0.29 (P=1.0, R=0.2)
_BOLD = re.compile(r"\*\*|`")
_NAMED_PAIRS = re.compile(  # MSP  AUROC=0.91 FPR95=0.39, KNN: AUROC 0.91
    r"\s*(?:[-*+•]\s+)?([^\W\d][^:=|]{0,40}?)\s*(?:\s{2,}|:\s|\t|\|)\s*([^\W\d][\w@]{1,20}\s?[:=].*)"
)
_SAID = re.compile(r"([^\W\d_]\w{1,20})\s*[:=]\s*(\S.*)")  # Method: MSP
_OF_TRAINING = frozenset({"epoch", "epochs", "step", "steps", "iter", "iteration", "loss", "lr"})
_ERRORS = re.compile(r"(?i)(?:errors?|misclassifications?|failures?) detection")  # of ID data
_DETECTION = ("detection", "detecting")
# Words beside the name of a data set in logs.
_OF_LOGS = frozenset(
    {*_DETECTION, "computing", "performing", "processing", "evaluating", "evaluation", "testing",
     "metrics", "inference", "results", "result", "on", "for", "of", "the", "dataset", "datasets",
     "data", "set", "ood", "test", "start", "begin", "running"}
)  # fmt: skip
_DATA = "dataset"  # title of what is detected
_WORD = re.compile(r"[^\W_]")  # some letter or digit
_PROSE = 80  # characters of what names no table
_LONGEST = 200  # characters of a line
_APART = 2  # blank lines that end a block
_FEWEST = 2  # blocks, and pairs in each
_FEWEST_SINGLE = 3  # blocks of one number
_MOST_OTHERS = 3  # lines of a log for one with pairs
_NUMBERED = re.compile(  # epoch 1, Training on subject 3
    r"(?P<before>(?:[^\W\d]+\s){0,4})(?P<kind>[^\W\d_]+)(?:\s(?:no|nr)\.?)?[\s_#:=\-]*(?P<number>\d+)(?:\s?/\s?\d+)?"
)
_KEYED = re.compile(  # Results for Target: T72
    r"(?P<before>(?:[^\W\d_]+\s){0,4})(?P<key>[^\W\d_]\w{1,20})\s*[:=]\s*(?P<value>\S.*)"
)
_NAMED = re.compile(  # KNN - AUROC: 0.91
    r"\s*(?:[-*+•]\s+|\d+[.)]\s+)?(?P<name>[^\W\d][^:=|]{0,60}?)\s+[-–—]\s+"
    r"(?P<key>[^\W\d][^:=|]{0,60}?)\s*[:=]\s*(?P<value>\S+)\s*"
)
_METHOD = re.compile(r"[^\W\d]\w*(?:[-.+]\w+)*")  # one word that may name a method: wrn_baseline


@dataclass
class _Block:
    """Pairs below each other, and the texts above them: the nearest line, and the one above it."""

    name: str
    outer: str
    pairs: dict[str, str] = field(default_factory=dict)
    lines: int = 0


def logged_tables(text: str) -> list[PageTable]:
    """Return the table that the blocks of a log are; none if it is not made of such blocks."""
    blocks = _blocks(text) or _single_results(text)
    if len(blocks) < _FEWEST or len(_groups(blocks)) > 1:
        return []
    outline = Outline()
    outline.table(_rows(blocks))
    return outline.tables


def _single_results(text: str) -> list[_Block]:
    """Return blocks of one number each, such as "Final Test: 71.2 ± 0.2", below different names."""
    found = _all_blocks(text.splitlines()) if _may_hold_pairs(text) else []
    blocks = [block for block in found if all(map(_is_of_test, block.pairs))]
    named = any(
        len(set(names)) == len(names)
        for names in ([block.name for block in blocks], [block.outer for block in blocks])
    )
    return blocks if len(blocks) >= _FEWEST_SINGLE and named else []


def _is_of_test(key: str) -> bool:
    return metric_named(key) is not None or "test" in words_of(key)


def mixed_logs(text: str) -> list[PageTable]:
    """Return a table for all blocks with the same keys, where most lines of a text are in some.

    Such are epochs below a summary of them, and runs with a line of their mean.
    """
    blocks = _blocks(text)
    groups = _groups(blocks)
    many = sum(len(group) for group in groups if len(group) >= _FEWEST)
    covered = sum(block.lines for block in blocks)
    if 2 * many <= len(blocks) or _MOST_OTHERS * covered < sum(
        map(bool, map(str.strip, text.splitlines()))
    ):
        return []
    return _tables(groups)


def logs_beside(text: str) -> list[PageTable]:
    """Return the tables that blocks of results are on a page which holds other tables, too.

    Histories of training are none: what has epochs or losses is not what a page reports.
    """
    blocks = _blocks(_BARRED.sub("", text))
    groups = [group for group in _groups(blocks) if len(group) >= _FEWEST]
    return _tables([group for group in groups if not any(map(_is_history, group[0].pairs))])


def _is_history(key: str) -> bool:
    return not _OF_TRAINING.isdisjoint(words_of(key))


def _groups(blocks: Sequence[_Block]) -> list[list[_Block]]:
    """Put blocks with the same keys together, but the detection of errors apart."""
    groups: dict[tuple[frozenset[str], bool], list[_Block]] = {}
    for block in blocks:
        of_errors = any(map(_ERRORS.fullmatch, (block.name, block.outer)))
        groups.setdefault((frozenset(block.pairs), of_errors), []).append(block)
    return list(groups.values())


def _tables(groups: Sequence[Sequence[_Block]]) -> list[PageTable]:
    outline = Outline()
    for group in groups:
        several = len({block.name for block in group}) > 1 and len(group[0].outer) < _PROSE
        outline.say(group[0].outer if several and group[0].outer else group[0].name)
        outline.table(_rows(group))
    return outline.tables


def named_lines(text: str) -> list[PageTable]:
    """Return the table of lines such as "- KNN - AUROC: 0.91", if a text holds little else."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = [_NAMED.fullmatch(line[:_LONGEST]) for line in lines]
    cells: dict[str, dict[str, str]] = {}
    for match in found:
        if match and _is_number(match["value"]):
            cells.setdefault(match["name"], {})[match["key"]] = match["value"]
    keys = dict.fromkeys(key for own in cells.values() for key in own)
    few = _MOST_OTHERS * sum(map(bool, found)) < len(lines)
    if few or len(cells) < _FEWEST or not any(map(metric_named, keys)):
        return []
    outline = Outline()
    rows = [[name, *(own.get(key, "") for key in keys)] for name, own in cells.items()]
    outline.table([["name", *keys], *rows])
    return outline.tables


def _rows(blocks: Sequence[_Block]) -> Rows:
    """Return a line for each of several blocks with the same keys, below their titles."""
    keys = list(blocks[0].pairs)
    labels = _labels(blocks)
    rows: Rows = [[*labels, *keys]]
    for place, block in enumerate(blocks):
        names = [texts[place] for texts in labels.values()]
        rows.append([*names, *(block.pairs[key] for key in keys)])
    return rows


def _may_hold_pairs(text: str) -> bool:
    return ":" in text or "=" in text


def _blocks(text: str) -> list[_Block]:
    """Part the lines of a text into blocks with results; none if it cannot be a log."""
    found = _all_blocks(text.splitlines()) if _may_hold_pairs(text) else []
    return [block for block in found if _has_results(block)]


def _all_blocks(lines: Sequence[str]) -> list[_Block]:
    """Part lines into blocks; a key that comes again begins the next one."""
    blocks: list[_Block] = []
    said = [""]  # the texts above the next block
    outer = ""
    is_open = is_fenced = False
    blank = 0
    for line in lines:
        pairs = _pairs(line)
        named, pairs = ("", pairs) if pairs else _named_pairs(line)
        blank = 0 if line.strip() else blank + 1
        if blank == _APART and is_open:
            is_open, said = False, []
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif not pairs and _says(line):
            said = [] if is_open else said
            is_open = False
            bare = line.strip(" \t#*=-:")
            is_ruled = line.strip().startswith("==")  # === seed 0 ===
            if not is_fenced or is_ruled or not re.search(r"[:=#]", line):  # settings, comments
                said.append(bare)
        if not pairs:
            continue
        if named:
            outer = said[-1] if said else outer
            blocks.append(_Block(named, outer, dict(pairs), 1))
            is_open = False
            continue
        if not is_open or any(key in blocks[-1].pairs for key, _ in pairs):
            outer = said[-2] if len(said) > 1 and said[-2] else outer
            blocks.append(_Block(said[-1] if said else "", outer))
        blocks[-1].pairs.update(pairs)
        blocks[-1].lines += 1
        is_open = True
    return blocks


def _says(line: str) -> bool:
    """Whether a line may name what is below it: words, but no remark on a number."""
    return bool(_WORD.search(line)) and not _RULE.issuperset(line) and not _REMARK.fullmatch(line)


def _pairs(line: str) -> list[tuple[str, str]]:
    """Return the keys and numbers of a line that holds nothing else."""
    if len(line) > _LONGEST or not _may_hold_pairs(line):
        return []
    line = _BOLD.sub("", _BULLET.sub("", line).strip())
    line = _CLOSE.sub("; ", _TABBED.sub(" ", _SETTING.sub("", line)))
    parts = [part for part in _BETWEEN.split(_with_number(line)) if part]
    found = [_PAIR.fullmatch(part) or _COUNTED.fullmatch(part) for part in parts]
    pairs = [pair for match in found if match for pair in _apart(match[1], match[2])]
    numbers = [value for key, value in pairs if _is_number(value) and key.count(" ") < _MOST_WORDS]
    return pairs if pairs and len(numbers) == len(pairs) and all(found) else []


def _named_pairs(line: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the name before the keys and numbers of a line, all of which are metrics.

    >>> _named_pairs("Energy   AUROC=0.92 FPR95=0.33")
    ('Energy', [('AUROC', '0.92'), ('FPR95', '0.33')])
    """
    found = _NAMED_PAIRS.fullmatch(line) if len(line) <= _LONGEST else None
    pairs = _pairs(found[2]) if found else []
    known = len(pairs) >= _FEWEST and all(metric_named(key) is not None for key, _ in pairs)
    return (found[1].strip(), pairs) if found and known else ("", [])


def _with_number(line: str) -> str:
    """Write "Epoch 3: Test AUC: 0.88" as pairs alone."""
    begun = _LEADING.match(line)
    known = begun is not None and plain(begun[1]) in TITLES
    return f"{begun[1]}: {begun[2]}, {line[begun.end() :]}" if begun and known else line


def _apart(key: str, value: str) -> list[tuple[str, str]]:
    """Part "Image-level AUC/AUPR" with two numbers into two pairs.

    >>> _apart("Pixel AUC/AUPR", "0.94 0.31"), _apart("loss", "0.2")
    ([('Pixel AUC', '0.94'), ('Pixel AUPR', '0.31')], [('loss', '0.2')])
    """
    before, _, last = key.rpartition(" ")
    names, values = last.split("/"), value.split()
    if len(names) < 2 or len(names) != len(values):
        return [(key, value)]
    return [(f"{before} {name}".strip(), own) for name, own in zip(names, values, strict=True)]


def _is_number(value: str) -> bool:
    return read_cell(value) is not None or is_gap(value) or bool(_DURATION.fullmatch(value))


def _has_results(block: _Block) -> bool:
    measured = [key for key in block.pairs if metric_named(key) or plain(key) in _SPLITS]
    return len(block.pairs) >= _FEWEST and bool(measured)


def _labels(blocks: Sequence[_Block]) -> dict[str, list[str]]:
    """Return columns that name the blocks: the lines above them, and the ones above those.

    The latter count if they stand above several blocks, or if the former are all alike.
    """
    inner, outer = [block.name for block in blocks], [block.outer for block in blocks]
    several = 1 < len(set(outer)) < len(outer) and len(set(inner)) < len(inner)
    of_all: dict[str, list[str]] = {}
    if len(set(inner)) == 1 and len(set(outer)) == len(outer) > 1:
        if _METHOD.fullmatch(inner[0]) and plain(inner[0]) not in _OF_LOGS:
            of_all = {"method": inner}  # of which each block is another result
        inner = outer
    title, names = _label(inner)
    labels = {title: names} if title else {}
    if several:
        about, texts = _label(outer)
        known = about != title and (about == _DATA or about in TITLES)
        labels |= {about: texts} if known else _keyed(outer)
    return of_all | labels


def _label(texts: Sequence[str]) -> tuple[str, list[str]]:
    """Return the title of texts above blocks, and what they name."""
    title, names = _named(_shortened(texts))
    if len(set(names)) < len(set(texts)):
        title, names = _named(texts)
    about_data = sum(map(_is_of_detection, texts)) >= _FEWEST and not any(map(is_detector, names))
    return (_DATA if title == "name" and about_data else title), names


def _is_of_detection(name: str) -> bool:
    """Whether a line says what is detected: Rademacher Noise Detection."""
    words = name.split()
    return len(words) > 1 and plain(words[-1]) in _DETECTION


def _keyed(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the column that texts are: Method for "Method: MSP" and "Method: ODIN"."""
    found = [_SAID.fullmatch(text) for text in texts]
    keys = {match[1] if match else "" for match in found}
    if len(keys) == 1 and "" not in keys:
        return {keys.pop(): [match[2] for match in found if match]}
    return {SECTION: list(texts)}


def _shortened(names: Sequence[str]) -> list[str]:
    """Return the data sets that lines are about; where two are known, one word names another."""
    short = [_short(name) for name in names]
    if sum(own != name for own, name in zip(short, names, strict=True)) < _FEWEST:
        return short
    rests = [_without_words_of_logs(name) for name in names]
    return [
        " ".join(rest) if own == name and len(rest) == 1 else own
        for own, name, rest in zip(short, names, rests, strict=True)
    ]


def _short(name: str) -> str:
    """Return the data set that a line is about, without the words of a log around it.

    >>> _short("Computing metrics on cifar100 dataset..."), _short("Rademacher Noise Detection")
    ('cifar100', 'Rademacher Noise')
    >>> _short("Computing mean metrics..."), _short("knn on GPU")
    ('mean', 'knn on GPU')
    """
    rest = _without_words_of_logs(name)
    last = plain(name.split()[-1]) if name.split() else ""
    known = is_set(" ".join(rest)) or is_average(" ".join(rest)) or last in _DETECTION
    return " ".join(rest) if rest and known else name


def _without_words_of_logs(name: str) -> list[str]:
    words = [word.strip(".:,") for word in name.split()]
    return [word for word in words if plain(word) and plain(word) not in _OF_LOGS]


def _named(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the title of what stands above the blocks, and the names; no title if all are alike.

    >>> _named(["epoch 1", "epoch 2"]), _named(["knn", "msp"]), _named(["", ""])
    (('epoch', ['1', '2']), ('name', ['knn', 'msp']), ('', ['', '']))
    >>> _named(["SVHN", "LSUN"]), _named(["Training on subject 1", "Training on subject 2"])
    (('dataset', ['SVHN', 'LSUN']), ('subject', ['1', '2']))
    >>> _named(["Results for Target: 2S1", "Results for Target: T72"])
    ('Target', ['2S1', 'T72'])
    """
    found = [_NUMBERED.fullmatch(name) for name in names]
    said = {(match["before"], plain(match["kind"])) if match else ("", "") for match in found}
    kinds = {kind for _, kind in said}
    if len(said) == 1 and kinds <= TITLES.keys():
        return kinds.pop(), [match["number"] for match in found if match]
    keyed = [_KEYED.fullmatch(name) for name in names]
    keys = {(match["before"], match["key"]) if match else ("", "") for match in keyed}
    if len(keys) == 1 and "" not in {key for _, key in keys}:
        return keys.pop()[1], [match["value"] for match in keyed if match]
    title = "name" if sum(map(is_set, names)) < _FEWEST or any(map(is_detector, names)) else _DATA
    return (title if len(set(names)) > 1 else ""), list(names)
