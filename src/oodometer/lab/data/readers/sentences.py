"""Texts with labels: CSV, JSON lines and Parquet, and scikit-learn's cache of the newsgroups."""

from __future__ import annotations

import csv
import io
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.files import most_unpacked
from oodometer.lab.data.readers.common import (
    LabelledTexts,
    Request,
    TextParts,
    fault,
    read_all,
    read_lines,
    refuse_bomb,
)
from oodometer.lab.data.readers.pickled import PickledArray, read_pickle
from oodometer.lab.data.readers.tables import columns_of, read_columns, shards

_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz")
_TEXT = ("text", "content", "sentence", "title", "description", "article", "body", "document")
_LABEL = ("label", "category", "class", "target", "topic", "label_text", "class index")
_SPLITS = {
    "train": "train", "training": "train", "test": "test", "all": "all",
    "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
}  # fmt: skip
_FIELD_LIMIT = 1 << 24  # characters of one field: csv's own limit is below some articles


def matches_table(path: Path) -> bool:
    """Whether this is a CSV or JSON lines file, or a folder of them."""
    return bool(_files(path))


def table(path: Path, request: Request) -> TextParts:
    """Texts from columns found by their names, or without a header by what is in them.

    Several columns of text (a title and a description) are joined by a space. Labels that are
    whole numbers from 1 are counted from 0; names are numbered in alphabetical order. A single
    file may say in a column "split" which part each text belongs to.
    """
    if path.is_file():
        return _read_parts(path)
    return {part: partial(_read_table, file) for part, file in _files(path).items()}


def matches_parquet(path: Path) -> bool:
    """Whether this is Parquet with a column of texts."""
    return any("text" in columns_of(files[0]) for files in shards(path).values())


def parquet(path: Path, request: Request) -> TextParts:
    """Texts as Hugging Face keeps them."""
    return {part: partial(_read_parquet, files, request) for part, files in shards(path).items()}


def matches_newsgroups(path: Path) -> bool:
    """Whether this is scikit-learn's cache of the 20 newsgroups."""
    return path.is_file() and path.name.startswith("20news") and path.suffix == ".pkz"


def newsgroups(path: Path, request: Request) -> TextParts:
    """The cache is a compressed pickle; it is read without running anything."""
    return {part: partial(_read_newsgroups, path, part) for part in ("train", "test")}


def _files(path: Path) -> dict[str, Path]:
    if path.is_file():
        return {"all": path} if path.name.lower().endswith(_SUFFIXES) else {}
    if not path.is_dir():
        return {}
    found: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        word = file.name.lower()
        for part in ("train", "test"):
            if word.endswith(_SUFFIXES) and part in word.split(".")[0]:
                found.setdefault(part, file)
    return found


def matches_pair(path: Path) -> bool:
    """Whether there are files PATH-train and PATH-test, such as ag-news-test.csv.gz."""
    return bool(_pair(path))


def pair(path: Path, request: Request) -> TextParts:
    """Two files whose names begin alike."""
    return {part: partial(_read_table, file) for part, file in _pair(path).items()}


def _pair(path: Path) -> dict[str, Path]:
    return {
        part: file
        for part in ("train", "test")
        for suffix in reversed(_SUFFIXES)
        if (file := path.parent / f"{path.name}-{part}{suffix}").is_file()
    }


@dataclass(frozen=True)
class _Columns:
    """The columns of a table of texts: which hold the texts, their labels and their parts."""

    texts: tuple[int, ...]
    label: int | None
    split: int | None
    names: tuple[str, ...]

    @property
    def summary(self) -> str:
        """Which columns are used, in words."""
        texts = ", ".join(self.names[column] for column in self.texts)
        return f"texts: {texts}; labels: {'none' if self.label is None else self.names[self.label]}"


def _read_table(path: Path) -> LabelledTexts:
    """Read one file of texts with labels."""
    columns, rows = _parse(path)
    return _labelled(path, columns, rows)


def _read_parts(path: Path) -> TextParts:
    """Read a file whose column 'split' says which part a text belongs to, or all as one part.

    A validation part becomes the test part where there is none, and is left out otherwise.
    """
    columns, rows = _parse(path)
    whole = _labelled(path, columns, rows)  # classes are numbered over all parts alike
    if columns.split is None:
        return {"all": partial(_rows_of, whole, range(len(rows)))}
    parts: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        part = _SPLITS.get(str(row[columns.split]).strip().lower())
        if part is None:
            raise fault(
                path, f"has the split {row[columns.split]!r} in its text number {number + 1}; "
                f"allowed are {', '.join(_SPLITS)}"
            )  # fmt: skip
        parts.setdefault(part, []).append(number)
    validation = parts.pop("validation", None)
    if validation is not None:
        parts.setdefault("test", validation)
    return {part: partial(_rows_of, whole, numbers) for part, numbers in parts.items()}


def _rows_of(whole: LabelledTexts, numbers: Sequence[int]) -> LabelledTexts:
    texts = tuple(whole.texts[number] for number in numbers)
    return replace(whole, texts=texts, labels=whole.labels[numbers])


def _parse(path: Path) -> tuple[_Columns, list[list[Any]]]:
    """Return the columns of a file and the rows below its header, if it has one."""
    content = read_lines(path, _FIELD_LIMIT)
    rows = _json_rows(path, content) if ".jsonl" in path.name else _csv_rows(path, content)
    if len(rows) < 2:
        raise fault(path, "is empty")
    columns = _by_name(rows[0])
    if columns is None and ".jsonl" in path.name:
        keys = ", ".join(map(str, rows[0]))[:120]
        raise fault(path, f"has no key for the text, such as 'text'; it has {keys}")
    return (_guess(path, rows), rows) if columns is None else (columns, rows[1:])


def _by_name(header: list[Any]) -> _Columns | None:
    """Recognise the columns by their names; None if none of them is called text or the like."""
    names = tuple(map(str, header))
    at = {name.strip().lower(): column for column, name in enumerate(names)}
    texts = [at[name] for name in _TEXT if name in at]
    if not texts:
        return None
    # "text" alone is the whole text; a title stands before its description.
    if texts[0] in (at.get("text"), at.get("content")):
        texts = texts[:1]
    label = next((at[name] for name in _LABEL if name in at), None)
    return _Columns(tuple(texts), label, at.get("split"), names)


def _labelled(path: Path, columns: _Columns, rows: list[list[Any]]) -> LabelledTexts:
    for number, row in enumerate(rows, start=1):
        if not all(isinstance(row[column], str) for column in columns.texts):
            raise fault(path, f"holds something else than text in its text number {number}")
    texts = tuple(" ".join(row[column] for column in columns.texts).strip() for row in rows)
    given = None if columns.label is None else [row[columns.label] for row in rows]
    return LabelledTexts(texts, *_numbered(path, given, len(texts)), columns.summary)


def _csv_rows(path: Path, content: str) -> list[list[Any]]:
    delimiter = "\t" if ".tsv" in path.name else ","
    limit = csv.field_size_limit(_FIELD_LIMIT)
    try:
        rows = [
            row for row in csv.reader(io.StringIO(content), delimiter=delimiter, strict=True) if row
        ]
    except csv.Error as problem:
        raise fault(path, f"is damaged: {problem}") from None
    finally:
        csv.field_size_limit(limit)
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise fault(
                path, f"is damaged: row {number} has {len(row)} columns, the first {len(rows[0])}"
            )
    return rows


def _json_rows(path: Path, content: str) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            raise fault(path, f"is damaged: line {number} is not JSON") from None
        if not isinstance(entry, dict):
            raise fault(path, f"is damaged: line {number} holds no object with keys")
        if not rows:
            rows.append(list(entry))
        if set(entry) != set(rows[0]):
            raise fault(path, f"is damaged: the keys of line {number} differ from the first")
        rows.append([entry[key] for key in rows[0]])
    return rows


def _guess(path: Path, rows: list[list[Any]]) -> _Columns:
    """Tell columns of text from the label: texts are long and differ, labels are whole numbers."""
    columns = list(zip(*rows, strict=True))
    numbers = [
        index
        for index, values in enumerate(columns)
        if all(str(value).strip().isdecimal() for value in values)
    ]
    texts = [
        index
        for index, values in enumerate(columns)
        if index not in numbers
        and sum(map(len, map(str, values))) >= 15 * len(values)
        and 2 * len(set(values)) > len(values)
    ]
    if not texts or not numbers:
        raise fault(
            path, "has no header that names its texts ('text'), nor columns of whole numbers and "
            "of texts to tell them by"
        )  # fmt: skip
    names = tuple(f"column {number}" for number in range(1, len(columns) + 1))
    return _Columns(tuple(texts), numbers[0], None, names)


def _numbered(
    path: Path, given: list[Any] | None, count: int
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Turn labels into numbers, and return the names that they had."""
    if given is None:
        return np.full(count, -1), ()
    if all(isinstance(value, int) or str(value).strip().isdecimal() for value in given):
        try:
            labels = np.array([int(value) for value in given], np.int64)
        except (ValueError, OverflowError):
            raise fault(path, "is mislabelled: a label is too large") from None
        distinct = np.unique(labels)
        if labels.min() < 0:
            raise fault(path, f"is mislabelled: it has the label {labels.min()}")
        # Counted from 1, as AG News is, if all of 1 to their number occur and nothing else.
        from_one = distinct[0] == 1 and distinct[-1] == len(distinct)
        return (labels - 1 if from_one else labels), ()
    if not all(isinstance(value, str) and value.strip() for value in given):
        raise fault(path, "is mislabelled: some labels are missing")
    names = sorted(set(given))
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([numbers[name] for name in given], np.int64), tuple(names)


def _read_parquet(files: list[Path], request: Request) -> LabelledTexts:
    texts: list[str] = []
    given: list[Any] | None = []
    for file in files:
        values, labels = read_columns(file, request, "text")
        if not all(isinstance(value, str) for value in values):
            raise fault(file, "holds something else than texts")
        texts += values
        given = None if labels is None or given is None else given + labels
    if not texts:
        raise fault(files[0], "is empty")
    return LabelledTexts(tuple(texts), *_numbered(files[0], given, len(texts)))


def _read_newsgroups(path: Path, part: str) -> LabelledTexts:
    unpack = zlib.decompressobj()
    packed = read_all(path)
    most = most_unpacked(len(packed))
    try:
        content = unpack.decompress(packed, most + 1)
    except zlib.error as problem:
        raise fault(path, f"cannot be read: {problem}") from None
    refuse_bomb(path, len(content))
    cache = read_pickle(content, path)
    group = cache.get(part) if isinstance(cache, dict) else None
    if not isinstance(group, dict) or not isinstance(group.get("data"), list):
        raise fault(path, f"is not a cache of the newsgroups: it has no texts for {part}")
    texts, target = group["data"], group.get("target")
    if not texts or not all(isinstance(text, str) for text in texts):
        raise fault(path, "holds something else than texts")
    try:
        labels = target.array() if isinstance(target, PickledArray) else np.array(target)
        given = [int(label) for label in labels]
    except (ValueError, TypeError, OverflowError) as problem:
        raise fault(path, f"is mislabelled: {problem}") from None
    if len(given) != len(texts):
        raise fault(path, f"has {len(given)} labels for {len(texts)} texts")
    return LabelledTexts(tuple(texts), np.array(given, np.int64))
