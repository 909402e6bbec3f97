"""Several files as one table: what their paths tell becomes columns."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import LABELS, OPTIMIZERS, plain
from oodometer.tables.cells import numeric_share
from oodometer.tables.columns import with_columns
from oodometer.tables.formats.files import SUFFIXES, Table, read_file
from oodometer.tables.frames.named_paths import SETS, detector_in, metric_behind, named_in_paths
from oodometer.tables.vocabulary.data_names import is_set
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.names import (
    is_compared,
    is_detector,
    is_model,
    is_surely_detector,
)
from oodometer.tables.vocabulary.others import METRIC_TITLES
from oodometer.tables.vocabulary.titles import (
    ARCHITECTURE_TITLES,
    DETECTOR_TITLES,
    ID_TITLES,
    MODEL_TITLES,
    OOD_TITLES,
    REPEAT_TITLES,
    mentions_setting,
)
from oodometer.tables.vocabulary.uncertainty import common

if TYPE_CHECKING:
    import pandas as pd


def gather(paths: Sequence[Path], notes: list[str]) -> Table:
    """Read files and folders of files into one table, with columns for what their paths tell."""
    import pandas as pd

    tables = _read_all(paths, notes)
    if len(tables) == 1:
        return _with_detector(*tables.popitem(), notes)
    _require_alike(tables)
    metric = metric_behind(tables)
    named = named_in_paths(list(tables), metric)
    frames = []
    added: dict[str, None] = {}  # columns that no file has
    for file, table in tables.items():
        levels = _levels(file, table.frame, named[file])
        new = {name: level for name, level in levels.items() if name not in table.frame.columns}
        frames.append(with_columns(table.frame, new))
        added |= dict.fromkeys(new)
    of_sheets = any(file.parent.is_file() for file in tables)
    notes.append(f"{len(tables)} {'sheets' if of_sheets else 'files'} were read as one table")
    frame = pd.concat(frames, ignore_index=True).fillna("")
    for name in [name for name in ("file", "folder") if name in added]:
        if _tells_nothing(frame, name):
            frame = frame.drop(columns=name)
            del added[name]
    if "file" in added:  # a column of that title would hold parts of the data
        title = "sheet" if of_sheets else "from file"
        frame = frame.rename(columns={"file": title})
        added = {title if name == "file" else name: None for name in added}
    if added:
        names = "sheet" if of_sheets else "file and folder"
        notes.append(f"taken from {names} names: {', '.join(added)}")
    about = {f"{table.about} {metric}".strip() for table in tables.values()}
    found = tuple(found for table in tables.values() for found in table.found)
    said = common(table.uncertainty for table in tables.values())
    return Table(frame, (), about.pop() if len(about) == 1 else "", found, said)


def _require_alike(tables: Mapping[Path, Table]) -> None:
    """Refuse files whose columns of names are called otherwise: they are not parts of one table."""
    naming = {*DETECTOR_TITLES, *MODEL_TITLES, *OOD_TITLES, *ID_TITLES}
    first: tuple[Path, set[str]] | None = None
    for file, table in tables.items():
        columns = [c for c in table.frame.columns if numeric_share(table.frame[c]) <= 0.5]
        own = {plain(column) for column in columns} & naming
        if first is None or (own and own > first[1]):
            first = file, own
        elif not own <= first[1]:
            titles = (", ".join(sorted(names)) or "none" for names in (first[1], own))
            raise UserError(
                f"These files are not parts of one table: the columns of names are {next(titles)} "
                f"in '{first[0].name}', but {next(titles)} in '{file.name}'. Analyze them one by "
                "one, or name those that belong together."
            )


def _with_detector(file: Path, table: Table, notes: list[str]) -> Table:
    """Add the detector that a file is named after, if its table names none."""
    folder = file.parent.name if is_detector(file.parent.name) else ""
    detector = detector_in(Path(file.name)) or folder  # other folders say where somebody works
    if not detector or _tells_detectors(table.frame) or _tells_models(table.frame):
        return table
    if plain(detector) != plain(file.stem) and not is_surely_detector(detector) and not folder:
        return table  # vae is hardly what a file called vae_results.csv is all about
    notes.append(f"the detector, {detector}, is taken from the file name")
    return replace(table, frame=table.frame.assign(detector=detector))


def _levels(file: Path, frame: pd.DataFrame, named: Mapping[str, str]) -> dict[str, str]:
    """Return what the path of a file says that its table does not: column -> level."""
    titles = {plain(column) for column in frame.columns}
    levels = dict(named)
    models = [c for c in frame.columns if plain(c) in MODEL_TITLES and len(frame[c].unique()) > 1]
    if _tells_detectors(frame):
        levels.pop("detector", None)
    elif "detector" in levels or _names_others(frame):
        pass  # the names in the table may be compared as well: asked about later
    elif not (models and (_tells_of_runs(levels) or _tells_models(frame))):
        rest = levels.pop("file", "") or levels.pop("folder", "")
        if rest or not levels:  # not seed_0, which says what it is
            levels["detector"] = rest or file.stem
    if levels.get("file") == file.stem and levels.get("detector", "?") in file.stem:
        levels.pop("file")  # it names the detector, and nothing else
    if is_set(levels.get("file", "")):
        levels[SETS] = levels.pop("file")
    has_sets = bool(titles & OOD_TITLES) or any(map(_names_set, frame.columns))
    has_sets |= any(2 * sum(map(is_set, names)) >= len(names) for names in _texts(frame))
    if SETS in levels and titles & ID_TITLES:
        levels["ood"] = levels.pop(SETS)
    elif SETS in levels and has_sets:
        levels["id"] = levels.pop(SETS)
    elif "id" in levels and not has_sets and SETS not in levels:
        levels[SETS] = levels.pop("id")
    if titles & REPEAT_TITLES:
        levels.pop("seed", None)
    if titles & ID_TITLES:
        levels.pop("id", None)
    return levels


def _names_others(frame: pd.DataFrame) -> bool:
    """Whether lines are told apart by words called metrics that are none: scores, perhaps."""
    words = [c for c in frame.columns if plain(c) in METRIC_TITLES and numeric_share(frame[c]) == 0]
    return any(frame[c].is_unique and not any(map(metric_named, frame[c])) for c in words)


def _texts(frame: pd.DataFrame) -> Iterator[list[str]]:
    """Return the different names in each column that does not hold numbers."""
    words = (frame[c] for c in frame.columns if numeric_share(frame[c]) <= 0.5)
    return (texts.unique().tolist() for texts in words)


def _names_set(title: str) -> bool:
    return is_set(title) or is_set(without_metric(title))


def _tells_of_runs(levels: Mapping[str, str]) -> bool:
    """Whether a path says which run, or which data set, and nothing else."""
    file = levels.get("file", "")
    return (
        bool(levels)
        and "folder" not in levels
        and (not file or is_set(file) or mentions_setting(file) or _names_condition(file))
    )


def _names_condition(file: str) -> bool:
    """Whether a name begins with what varies: optimizer adam."""
    return plain(re.split(r"[\s_=\-]", file)[0]) in {*LABELS, *OPTIMIZERS, *ARCHITECTURE_TITLES}


def _tells_nothing(table: pd.DataFrame, name: str) -> bool:
    """Return whether rows are distinct without file names; repeated rows may be in two.

    Only names and numbers of repeats tell lines apart: accuracies differ from file to file, too.
    """
    rest = table.drop(columns=name).drop_duplicates()
    labels = [
        column
        for column in rest.columns
        if plain(column) in REPEAT_TITLES or numeric_share(rest[column].unique()) <= 0.5
    ]
    return bool(labels) and not rest.duplicated(labels).any()


def _read_all(paths: Sequence[Path], notes: list[str]) -> dict[Path, Table]:
    """Read what is named, each once."""
    named: dict[Path, Path] = {}
    for path in paths:
        named.setdefault(Path(os.path.realpath(path)), path)
    if len(named) < len(paths):
        notes.append("files named more than once were read once")
    tables: dict[Path, Table] = {}
    for path in named.values():
        tables |= _read_folder(path, notes) if path.is_dir() else _read(path, notes)
    return tables


def _read_folder(folder: Path, notes: list[str]) -> dict[Path, Table]:
    """Read the tables in a folder and those below it; what is not a table is left out."""
    files = sorted(
        file
        for file in folder.rglob("*")
        if _is_table(file.relative_to(folder)) and not _is_report(file)
    )
    if not files:
        raise UserError(f"Folder '{folder}' holds no table ({', '.join(SUFFIXES)}).")
    tables: dict[Path, Table] = {}
    refused: dict[Path, str] = {}
    for file in files:
        try:
            tables |= _with_numbers(file, _read(file, notes))
        except UserError as problem:
            refused[file] = str(problem)
    if not tables:
        raise UserError(f"Folder '{folder}' holds no table: {next(iter(refused.values()))}")
    if refused:
        names = ", ".join(file.relative_to(folder).as_posix() for file in refused)
        notes.append(f"files that are not tables were left out: {names}")
    return tables


def _with_numbers(file: Path, tables: dict[Path, Table]) -> dict[Path, Table]:
    """Return the tables of a file, or raise if one has no column of numbers."""
    for table in tables.values():
        if not any(numeric_share(table.frame[column]) > 0.5 for column in table.frame.columns):
            raise UserError(f"'{file}' holds no column of numbers.")
    return tables


def _is_table(file: Path) -> bool:
    """Whether a file in a folder may be a table: not those that programs keep beside it."""
    bare = file.with_suffix("") if file.suffix.casefold() in (".gz", ".bz2", ".xz") else file
    hidden = any(part.startswith((".", "~$", "__MACOSX")) for part in file.parts)
    return bare.suffix.casefold() in SUFFIXES and not hidden


def _is_report(file: Path) -> bool:
    """Whether a file was written by an analysis before this one, into the same folder."""
    return file.stem == "report" and all(
        file.with_suffix(suffix).is_file() for suffix in (".html", ".md", ".tex", ".csv")
    )


def _read(file: Path, notes: list[str]) -> dict[Path, Table]:
    """Read the tables of a file; those of a workbook count as files in a folder of its name."""
    tables = read_file(file)
    notes += [f"{file.name}: {note}" for table in tables.values() for note in table.notes]
    return {
        file / sheet.replace("/", "-") if sheet else file: table for sheet, table in tables.items()
    }


def _tells_detectors(frame: pd.DataFrame) -> bool:
    """Whether a table itself says which detectors its numbers belong to."""
    titles = [without_metric(title) for title in map(str, frame.columns)]
    if sum(map(is_compared, titles)) >= 2:
        return True
    for column in frame.columns:
        if numeric_share(frame[column]) > 0.5:
            continue
        lines = frame[column].value_counts()
        named = sum(int(lines[name]) for name in lines.index if is_detector(name))
        if plain(column) in DETECTOR_TITLES or 2 * named >= len(frame):
            return True
    return False


def _tells_models(frame: pd.DataFrame) -> bool:
    """Whether a column names several models that are not mere architectures below a detector."""
    return any(
        plain(column) in MODEL_TITLES
        and len(names := frame[column].unique()) > 1
        and 2 * sum(map(is_model, names)) <= len(names)
        for column in frame.columns
    )
