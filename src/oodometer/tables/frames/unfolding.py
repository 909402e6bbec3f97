"""Cells and lines that hold several things: pairs of metrics, ID → OOD, means and spreads."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import plain, words_of
from oodometer.tables.cells import is_gap, numeric_share, read_cell
from oodometer.tables.columns import with_columns
from oodometer.tables.frames.odd_cells import with_plain_cells
from oodometer.tables.frames.pairs_of_detectors import with_detectors_of_pairs
from oodometer.tables.guessing.roles import ALL, DIRECTIONS, IGNORED, parts_of
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.statistics import MEANS, OTHER_STATISTICS, SPREADS, is_qualifier
from oodometer.tables.vocabulary.titles import INCIDENTAL

if TYPE_CHECKING:
    import pandas as pd

_SLASHES = re.compile(r"([\w@%.\-↑↓ ]+(?:\s*/\s*[\w@%.\-↑↓ ]+)+)")  # FPR95/AUROC
_METRICS = re.compile(r"([^\s/()]+(?:/[^\s/()]+)+)")  # AUC/ACC amid other words
# AUROC ↑ / FPR95 ↓ / AUPR ↑ in a heading
_SEVERAL = re.compile(r"[\w@%.\-]{1,40}(?:\s?[↑↓]?\s?/\s?[\w@%.\-]{0,40}[\w%])+")
_STATED = re.compile(  # (mean / std), μ ↓ / Var ↓
    r"[($]*\s*(?:\\?mu|μ|mean|avg)\s*[↑↓]?\s*/\s*(var(?:iance)?|std|sd|stdev|σ)\s*[↑↓]?[)$]*", re.I
)
_TUPLE = re.compile(r"\s*\([^()]*,[^()]*\)\s*")
_REPEAT = re.compile(r"(?:.+[_-])?(seed|fold|run|split|trial)[_=-]?(\d+)")  # 7592_fold_0
_MARKS = frozenset({"✓", "✔", "✔️", "✅", "☑", "√", "checkmark", ":white_check_mark:", "●"})
_FOLD = re.compile(r"split(\d+)_test_(\w+)")
_OF_SEARCH = re.compile(r"(?:split\d+|mean|std|rank)_\w+|param_|iter$|n_resources$")
_PROSE = 8  # spaces: a sentence with "vs" in it
_ARROW = r"^\s*(\S.*?)\s*(?:→|->|⇒|\bvs\b\.?)\s*(\S.*?)\s*$"


def unfolded(
    frame: pd.DataFrame, notes: list[str], about: str = "", pairs: str = "", said: str = ""
) -> pd.DataFrame:
    """Return a table in which every cell holds one number or name, or a mean with its spread.

    `about` is the text around the table, which may say what pairs of numbers are, unless the user
    says it: `pairs`, such as FPR95/AUROC. Columns that are ignored as `said` stay as they are.
    """
    ignored = _ignored_in(said)
    frame = with_plain_cells(frame, notes)
    frame = frame if pairs else with_detectors_of_pairs(frame, about, notes)
    frame = _with_metrics(_split_searches(frame, notes), about, pairs, ignored)
    frame = _split_pairs(_with_spreads(frame, notes), notes, ignored)
    frame = _split_keys(_split_tuples(frame, notes), notes)
    return _join_statistics(_name_by_marks(_split_arrows(frame, notes), notes), notes)


def _ignored_in(said: str) -> set[str]:
    """Return the columns that the user says to ignore."""
    parts = ([piece.strip() for piece in part.partition("=")] for part in parts_of(said))
    return {column for role, _, column in parts if role == IGNORED}


def _split_searches(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return a row per configuration and fold of what scikit-learn's searches write.

    Means, spreads and ranks over folds say no more, nor do columns of single parameters.
    """
    import pandas as pd

    folds = {c: found for c in map(str, frame.columns) if (found := _FOLD.fullmatch(c))}
    if "params" not in frame.columns or len({found[1] for found in folds.values()}) < 2:
        return frame
    own = [c for c in map(str, frame.columns) if not _OF_SEARCH.match(c) and c != "params"]
    parts = []
    for number in dict.fromkeys(found[1] for found in folds.values()):
        results = {f"test_{m[2]}": frame[c] for c, m in folds.items() if m[1] == number}
        parts.append(frame[own].assign(configuration=frame["params"], fold=number, **results))
    notes.append("results of a search by scikit-learn: each configuration has a row per fold")
    return pd.concat(parts, ignore_index=True)


def _with_metrics(
    frame: pd.DataFrame, about: str, pairs: str, ignored: Collection[str]
) -> pd.DataFrame:
    """Add to the titles of pairs of numbers what the text above, or the user, calls them."""
    found = (re.sub(r"[\s↑↓]", "", match[0]) for match in _SEVERAL.finditer(about))
    said = pairs or next(filter(_are_metrics, found), "")
    named = any(metric_named(title) is not None for title in map(str, frame.columns))
    if not said or (named and not pairs):
        return frame
    two = [c for c in frame.columns if numeric_share(frame[c], pairs=True) > 0.5]
    two = [c for c in two if numeric_share(frame[c]) < 0.5 and c not in ignored]
    if not two and pairs:
        raise UserError(f"--columns {pairs}={ALL}: no column holds cells of two numbers.")
    names = said.split("/")
    kept = [place for place, name in enumerate(names) if name != IGNORED]
    if len(kept) < len(names):
        less = {c: [_kept(text, kept, len(names)) for text in frame[c]] for c in two}
        frame = with_columns(frame, less)
    said = "/".join(names[place] for place in kept if names[place] not in DIRECTIONS)
    return frame.rename(columns={c: f"{c} {said}".strip() for c in two})


def _kept(text: str, places: Sequence[int], size: int) -> str:
    """Return some of the numbers of a cell that holds as many as the user says."""
    parts = text.split("/")
    return "/".join(parts[place].strip() for place in places) if len(parts) == size else text


def _with_spreads(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Write 91.2 / 0.3 below "AUROC (mean / std)" as 91.2±0.3; of a variance, take the root."""
    stated = {c: found for c in map(str, frame.columns) if (found := _STATED.search(c))}
    stated = {c: m for c, m in stated.items() if numeric_share(frame[c], pairs=True) > 0.5}
    for column, found in stated.items():
        is_variance = plain(found[1]).startswith("var")
        frame = with_columns(
            frame, {column: [_mean_with_spread(t, is_variance) for t in frame[column]]}
        )
    if stated:
        notes.append(f"means and spreads in one cell were joined: {', '.join(stated)}")
    bare = {c: " ".join(_STATED.sub(" ", c).split()) or c for c in stated}
    different = len({*bare.values(), *frame.columns}) == len(bare) + len(frame.columns)
    return frame.rename(columns=bare) if different else frame


def _mean_with_spread(text: str, is_variance: bool) -> str:
    cells = [read_cell(part.strip()) for part in text.split("/")]
    if len(cells) != 2 or cells[0] is None or cells[1] is None:
        return text
    mean, spread = cells[0].value, cells[1].value
    return f"{mean:g}±{spread**0.5 if is_variance and spread >= 0 else spread:g}"


def _split_pairs(frame: pd.DataFrame, notes: list[str], ignored: Collection[str]) -> pd.DataFrame:
    """Split columns such as SVHN (FPR95/AUROC) with cells such as 40.1/91.2."""
    import pandas as pd

    columns = {title: frame[title].tolist() for title in map(str, frame.columns)}
    several = [title for title in columns if "/" in title and title not in ignored]
    named = any(metric_named(c) is not None and numeric_share(columns[c]) > 0.5 for c in columns)
    parts = {title: _by_metric(title, columns[title], named) for title in several}
    split = [title for title, found in parts.items() if found]
    if not split:
        return frame
    notes.append(f"columns that hold several numbers were split: {', '.join(split)}")
    single = [
        row[0] for row in zip(*columns.values(), strict=True)
        if any(read_cell(cell) is not None for title, cell in zip(columns, row, strict=True)
               if title in split)
    ]  # fmt: skip
    if single:
        notes.append(f"a number alone, where others are several, is not used: {', '.join(single)}")
    whole: dict[str, list[str]] = {}
    for title, texts in columns.items():
        whole |= parts.get(title) or {title: texts}
    return pd.DataFrame(whole, dtype=object)


def _by_metric(title: str, texts: list[str], is_beside: bool) -> dict[str, list[str]]:
    """Return a column per metric that a title names, or none if its cells are not as many.

    If it `is_beside` a column of some metric, its numbers may be anything: Near / Far.
    """
    found = next((m for m in _METRICS.finditer(title) if _are_metrics(m[1])), None)
    found = found or _SLASHES.search(title)
    names = [name.strip() for name in found[1].split("/")] if found else []
    cells = [[part.strip() for part in text.split("/")] for text in texts]
    sizes = {len(parts) for parts in cells}
    if found is None or len(names) not in sizes or not sizes <= {1, len(names)}:
        return {}
    names = _with_metric(names)
    words = [_metric_part(name) for name in names]
    pairs = is_beside and numeric_share(texts, pairs=True) > 0.5
    if None in map(metric_named, words) and not pairs:
        return {}
    if len({name.split()[-1] for name in names}) == 1:  # Train/Test Accuracy
        return {name: [p[n] if len(p) == len(names) else "" for p in cells]
                for n, name in enumerate(names)}  # fmt: skip
    what = title.replace(found[1], names[0].removesuffix(words[0]))
    what = re.sub(r"[(\[]\s*([^()\[\]]*?)\s*[)\]]\s*$", r"\1", what).strip()  # SVHN ()
    return {
        f"{what} {word}".strip(): [p[place] if len(p) == len(names) else "" for p in cells]
        for place, word in enumerate(words)
    }


def _metric_part(name: str) -> str:
    """Return the last words of a name that are the name of a metric, or the last one.

    >>> _metric_part("ImageNet-C Cal. Error"), _metric_part("SVHN FPR95"), _metric_part("SVHN")
    ('Cal. Error', 'FPR95', 'SVHN')
    """
    words = name.split()
    ends = (" ".join(words[start:]) for start in range(len(words)))
    named = (end for end in ends if metric_named(end) is not None and not without_metric(end))
    return next(named, words[-1] if words else "")


def _are_metrics(text: str) -> bool:
    return all(metric_named(part) for part in text.split("/"))


def _with_metric(names: list[str]) -> list[str]:
    """Say of both parts of Train/Test NLL what the last one says."""
    first, *metric = names[-1].split() if names else [""]
    parts = [*names[:-1], first]
    known = metric and all(is_qualifier(part) or plain(part) == "test" for part in parts)
    return [f"{part} {' '.join(metric)}" for part in parts] if known else names


def _split_tuples(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Split a column of cells such as ('glass', 0.1, 1), an index of several levels in Python."""
    for title in map(str, frame.columns):
        if not all(map(_TUPLE.fullmatch, frame[title])):
            continue
        inside = [text.strip("() ") for text in frame[title]]
        parts = list(csv.reader(inside, quotechar="'", skipinitialspace=True))
        width = len(parts[0])
        if width < 2 or any(len(part) != width for part in parts):
            continue
        names = [title, *(f"{title}.{place}" for place in range(2, width + 1))]
        columns = dict(zip(names, map(list, zip(*parts, strict=True)), strict=True))
        place = list(frame.columns).index(title)
        frame = frame.drop(columns=title)
        for shift, (name, texts) in enumerate(columns.items()):
            frame.insert(place + shift, name, texts)
        notes.append(f"{title} holds several things and was split into {', '.join(names)}")
        break
    return frame


def _split_keys(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Split a column of names such as letters__resnet18__seed42 into their parts."""
    for title in map(str, frame.columns):
        width = len(frame[title].iloc[0].split("__"))
        split = {text: text.split("__") for text in (frame[title].unique() if width > 1 else ())}
        if width < 2 or any(len(part) != width or not all(part) for part in split.values()):
            continue
        parts = [split[text] for text in frame[title]]
        columns = list(map(list, zip(*parts, strict=True)))
        if any(len(set(texts)) == len(parts) for texts in columns):
            continue  # a name of the row, not one of several
        columns = [texts for texts in columns if len(set(texts)) > 1] or columns[:1]
        if all(_is_told(frame.drop(columns=title), texts) for texts in columns):
            continue  # the name of a run, made of what other columns say
        place = list(frame.columns).index(title)
        frame = frame.drop(columns=title)
        of_data = "dataset" in words_of(title) and "dataset" not in frame.columns
        for shift, texts in enumerate(columns):
            found = [_REPEAT.fullmatch(text) for text in texts]
            kinds = {match[1] if match else "" for match in found}
            repeat = kinds.pop() if len(kinds) == 1 and kinds.isdisjoint(frame.columns) else ""
            first = "dataset" if of_data else title
            name = repeat or (f"{title}.{shift + 1}" if shift else first)
            levels = [match[2] for match in found if match] if repeat else texts
            if not _tell_as_much(levels, texts, [c for c in columns if c is not texts]):
                name, levels = f"{title}.{shift + 1}", texts
            frame.insert(place + shift, name, levels)
        notes.append(f"{title} holds several things, divided by __, and was split")
        break
    return frame


def _tell_as_much(
    levels: Sequence[str], texts: Sequence[str], others: Sequence[Sequence[str]]
) -> bool:
    """Whether levels tell lines apart as the texts do that they are part of, beside others."""
    return len({*zip(levels, *others, strict=True)}) == len({*zip(texts, *others, strict=True)})


def _is_told(frame: pd.DataFrame, texts: Sequence[str]) -> bool:
    """Whether some column tells lines apart exactly as texts do: seed 42 as s42 does."""
    pairs = ({*zip(texts, frame[c], strict=True)} for c in frame.columns)
    count = len(set(texts))
    return any(len(both) == count == len({level for _, level in both}) for both in pairs)


def _split_arrows(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Split a column of cells such as CIFAR-10 → SVHN into ID set and outlier set."""
    for title in map(str, frame.columns):
        if not re.match(_ARROW, frame[title].iloc[0]):
            continue
        if any(len(re.findall(r"→|->|⇒", text)) > 1 for text in frame[title]):
            continue  # steps of something
        parts = frame[title].str.extract(_ARROW)
        if any(text.count(" ") >= _PROSE for text in frame[title].unique()):
            continue
        if parts.notna().all(axis=None) and not {"id", "ood"} & set(frame.columns):
            frame = frame.drop(columns=title).assign(id=parts[0], ood=parts[1])
            notes.append(f"column {title} was split into the ID set and the outlier set")
            break
    return frame


def _name_by_marks(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Name the rows of an ablation after the columns that they mark, if nothing else names them."""
    labels = [c for c in map(str, frame.columns) if numeric_share(frame[c]) <= 0.5]
    labels = [c for c in labels if INCIDENTAL.isdisjoint(words_of(c))]
    marked = [c for c in labels if _has_marks(frame[c])]
    if len(marked) < 2 or len(marked) < len(labels) or frame.duplicated(marked).any():
        return frame
    names = [
        " + ".join(c for c, text in zip(marked, row, strict=True) if _is_mark(text)) or "none"
        for row in frame[marked].to_numpy().tolist()
    ]
    notes.append(f"rows are named after the columns that they mark: {', '.join(marked)}")
    rest = frame.drop(columns=marked)
    rest.insert(0, "variant", names)
    return rest


def _has_marks(texts: pd.Series[str]) -> bool:
    distinct = texts.unique()
    return any(map(_is_mark, distinct)) and all(_is_mark(t) or is_gap(t) for t in distinct)


def _is_mark(text: str) -> bool:
    return text.strip("\\${} ").casefold() in _MARKS


def _join_statistics(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Join rows of means with those of their spreads, where a column says which is which."""
    known = {*MEANS, *SPREADS, *OTHER_STATISTICS}
    for title in map(str, frame.columns):
        if plain(frame[title].iloc[0]) not in known:
            continue
        kinds = frame[title].map(plain)
        joined = _joined(frame.drop(columns=title), kinds) if kinds.isin(known).all() else None
        if joined is None:
            continue
        others = dict.fromkeys(frame[title][~kinds.isin([*MEANS, *SPREADS])])
        left = f"; left out: {', '.join(others)}" if others else ""
        notes.append(f"rows of means and spreads were joined, as {title} says{left}")
        return joined
    return frame


def _joined(frame: pd.DataFrame, kinds: pd.Series[str]) -> pd.DataFrame | None:
    """Return the rows of means, with their spreads; None if these cannot be matched."""
    numeric = [c for c in frame.columns if numeric_share(frame[c]) > 0.5]
    labels = [c for c in frame.columns if c not in numeric]
    means, spreads = frame[kinds.isin(MEANS)], frame[kinds.isin(SPREADS)]
    if means.empty or not labels or any(p.duplicated(labels).any() for p in (means, spreads)):
        return None
    matched = means[labels].merge(spreads, how="left", on=labels).fillna("")
    joined = means.reset_index(drop=True)
    for column in numeric:
        joined[column] = [
            mean if is_gap(mean) or is_gap(spread) else f"{mean}±{spread}"
            for mean, spread in zip(joined[column], matched[column], strict=True)
        ]
    return joined
