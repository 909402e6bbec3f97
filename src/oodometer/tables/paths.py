"""Several files as one table: what their paths tell becomes columns."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.tables.cells import numeric_share
from oodometer.tables.files import SUFFIXES, read_file
from oodometer.tables.names import (
    DETECTOR_TITLES,
    ID_TITLES,
    OOD_TITLES,
    REPEAT_TITLES,
    REPEAT_WORD,
    is_detector,
    is_set,
    plain,
)

if TYPE_CHECKING:
    import pandas as pd

_SEED = re.compile(
    rf"(?:^|(?<=[/_\-.,]))(s|{REPEAT_WORD})[_=\- ]?(\d+)(?=[/_\-.,]|$)",
    re.IGNORECASE,
)
_OVERRIDE = re.compile(r"(?:^|(?<=[/,]))\+{0,2}([A-Za-z][\w.]*)=([^/,]+)")  # Hydra: lr=0.1,seed=2


def gather(paths: Sequence[Path], notes: list[str]) -> pd.DataFrame:
    """Read files and folders of files into one table, with columns for what their paths tell."""
    import pandas as pd

    frames = _read_all(paths, notes)
    files = list(frames)
    if len(files) == 1:
        frame = frames[files[0]]
        detector = _detector_in(files[0])
        if detector and not _tells_detectors(frame):
            frame["detector"] = detector
            notes.append(f"the detector, {detector}, is known by the name of the file only")
        return frame
    told = _told_by_paths(files)
    taken: dict[str, None] = {}
    for file, frame in frames.items():
        titles = {plain(column) for column in frame.columns}
        levels = dict(told[file])
        if _tells_detectors(frame):
            levels.pop("detector", None)
        elif "detector" not in levels:
            levels["detector"] = levels.pop("file", "") or levels.pop("folder", "") or file.stem
        if levels.get("file") == file.stem and levels.get("detector", "?") in file.stem:
            levels.pop("file")  # it names the detector, and nothing else
        if is_set(levels.get("file", "")):
            levels["id" if titles & OOD_TITLES else "ood"] = levels.pop("file")
        if titles & REPEAT_TITLES:
            levels.pop("seed", None)
        if titles & ID_TITLES:
            levels.pop("id", None)
        for name, level in levels.items():
            if name not in frame.columns:
                frame[name] = level
                taken.setdefault(name)
    of_sheets = any(file.parent.is_file() for file in files)
    notes.append(f"{len(files)} {'sheets' if of_sheets else 'files'} were read as one table")
    table = pd.concat(frames.values(), ignore_index=True).fillna("")
    for name in [name for name in ("file", "folder") if name in taken]:
        if _tells_nothing(table, name):
            table = table.drop(columns=name)
            del taken[name]
    if taken:
        names = "sheets" if of_sheets else "files and folders"
        notes.append(f"known by the names of {names} only: {', '.join(taken)}")
    return table


def _tells_nothing(table: pd.DataFrame, name: str) -> bool:
    """Tell whether lines are told apart without the names of files; repeated lines may be in two.

    Only names and numbers of repeats tell lines apart: accuracies differ from file to file, too.
    """
    rest = table.drop(columns=name).drop_duplicates()
    labels = [
        column
        for column in rest.columns
        if plain(column) in REPEAT_TITLES or numeric_share(rest[column].unique()) <= 0.5
    ]
    return bool(labels) and not rest.duplicated(labels).any()


def _read_all(paths: Sequence[Path], notes: list[str]) -> dict[Path, pd.DataFrame]:
    """Read what is named; in folders, leave out what is no table."""
    frames: dict[Path, pd.DataFrame] = {}
    named: dict[Path, Path] = {}
    for path in paths:
        named.setdefault(path.resolve(), path)
    if len(named) < len(paths):
        notes.append("what was named more than once was read once")
    for path in named.values():
        if not path.is_dir():
            frames |= _read(path, notes)
            continue
        inside = sorted(
            file
            for file in path.rglob("*")
            if _is_table(file.relative_to(path)) and not _is_report(file)
        )
        if not inside:
            raise UserError(f"Folder '{path}' holds no table ({', '.join(SUFFIXES)}).")
        refused: dict[Path, str] = {}
        for file in inside:
            try:
                found = _read(file, notes)
            except UserError as problem:
                refused[file] = str(problem)
                continue
            if all(_has_numbers(frame) for frame in found.values()):
                frames |= found
            else:
                refused[file] = f"'{file}' holds no column of numbers."
        if len(refused) == len(inside):
            raise UserError(f"Folder '{path}' holds no table: {next(iter(refused.values()))}")
        if refused:
            names = ", ".join(file.relative_to(path).as_posix() for file in refused)
            notes.append(f"files that are no tables were left out: {names}")
    return frames


def _is_table(file: Path) -> bool:
    """Tell whether a file in a folder may be a table: not those that programs keep beside it."""
    bare = file.with_suffix("") if file.suffix.casefold() in (".gz", ".bz2", ".xz") else file
    hidden = any(part.startswith((".", "~$", "__MACOSX")) for part in file.parts)
    return bare.suffix.casefold() in SUFFIXES and not hidden


def _is_report(file: Path) -> bool:
    """Tell whether a file was written by an analysis before this one, into the same folder."""
    return file.stem == "report" and all(
        file.with_suffix(suffix).is_file() for suffix in (".html", ".md", ".tex", ".csv")
    )


def _has_numbers(frame: pd.DataFrame) -> bool:
    return any(numeric_share(frame[column]) > 0.5 for column in frame.columns)


def _read(file: Path, notes: list[str]) -> dict[Path, pd.DataFrame]:
    """Read the tables of a file; those of a workbook count as files in a folder of its name."""
    frames = {}
    for sheet, (frame, remarks) in read_file(file).items():
        notes += [f"{file.name}: {remark}" for remark in remarks]
        frames[file / sheet.replace("/", "-") if sheet else file] = frame
    return frames


def _tells_detectors(frame: pd.DataFrame) -> bool:
    """Tell whether a table itself says which detectors its numbers belong to."""
    if sum(map(is_detector, frame.columns)) >= 2:
        return True
    for column in frame.columns:
        if numeric_share(frame[column]) > 0.5:
            continue
        lines = frame[column].value_counts()
        named = sum(int(lines[name]) for name in lines.index if is_detector(name))
        if plain(column) in DETECTOR_TITLES or 2 * named >= len(frame):
            return True
    return False


def _told_by_paths(files: Sequence[Path]) -> dict[Path, dict[str, str]]:
    """Detector, seed and ID set of each file, as far as its path tells; else what differs in it."""
    root = Path(os.path.commonpath([file.absolute().parent for file in files]))
    told: dict[Path, dict[str, str]] = {}
    rests: dict[Path, tuple[str, str]] = {}
    for file in files:
        inside = file.absolute().relative_to(root)
        levels: dict[str, str] = {}
        text = inside.with_suffix("").as_posix() if file.suffix in SUFFIXES else inside.as_posix()
        for key, value in _OVERRIDE.findall(text):
            name = key.rpartition(".")[2]
            levels["detector" if plain(name) in DETECTOR_TITLES else name] = value
        text = _OVERRIDE.sub("", text)
        seed = _SEED.search(text)
        if seed:
            kind = seed[1].casefold()
            levels["seed" if kind in ("s", "run") else kind] = seed[2]
            text = text[: seed.start()] + text[seed.end() :]
        detector = None if "detector" in levels else _detector_in(inside)
        if detector:
            levels["detector"] = detector
            text = re.sub(rf"(?<![^\W_]){re.escape(detector)}(?![^\W_])", "", text)
        first = re.split(r"[/_\-]", text)[0]
        if is_set(first) and len(inside.parts) > 1:
            levels["id"] = first
            text = text.removeprefix(first)
        folder, _, stem = text.rpartition("/")
        rests[file] = folder.strip("/_-."), stem.strip("/_-.")
        told[file] = levels
    for place, name in enumerate(("folder", "file")):
        if len({rest[place] for rest in rests.values()}) > 1:
            for file, rest in rests.items():
                told[file][name] = rest[place] or file.stem
    return told


def _detector_in(file: Path) -> str | None:
    """Find the longest name of a detector in that of a file or of one of its folders."""
    for name in (file.stem, *(parent.name for parent in file.parents)):
        words = [word for word in re.split(r"(?<=[_\-.\s])|(?=[_\-.\s])", name) if word]
        spans = [
            "".join(words[start:end])
            for length in range(len(words), 0, -1)
            for start in range(len(words) - length, -1, -1)
            for end in (start + length,)
        ]
        found = next((s for s in spans if is_detector(s) and s == s.strip("_-. ")), None)
        if found:
            return found
    return None
