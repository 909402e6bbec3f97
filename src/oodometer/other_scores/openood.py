"""Score files of OpenOOD: one .npz of pred, conf and label per data set, in a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.factors import Factor
from oodometer.other_scores.files import read_columns
from oodometer.other_scores.pieces import ONE_RUN, Columns, Part, Piece, listed

_MOST_FILES = 10_000
_RUN = re.compile(r"s(?:eed)?_?(\d+)")  # folders such as s0
_BETWEEN = ("scores", "ood", "fsood", "nearood", "farood", "osr")  # folders that name no detector


def is_openood(columns: Columns) -> bool:
    """Whether a file is one of OpenOOD's score files."""
    return {"conf", "label"} <= set(columns) <= {"pred", "conf", "label"}


def find_files(folder: Path) -> list[Path]:
    """All .npz files below a folder, which must not hold much else."""
    inside: list[Path] = []
    for place, _, names in os.walk(folder):  # which follows no links
        inside += (Path(place, name) for name in names)
        if len(inside) > _MOST_FILES:
            raise UserError(
                f"Folder '{folder}' holds more than {_MOST_FILES:,} files: give the folder of the "
                "scores themselves."
            )
    found = [path for path in inside if path.suffix.lower() == ".npz"]
    if not found:
        for path in inside:
            if path.suffix.lower() == ".pkl":
                read_columns(path)  # says why not
        raise UserError(f"Folder '{folder}' holds no score files (.npz), nor a scores.parquet.")
    return sorted(found)


def named_by(path: Path) -> tuple[str, str]:
    """Detector and run that the folders of a score file tell: the nearest that name one."""
    run, detector = ONE_RUN, ""
    for folder in path.absolute().parents:
        if match := _RUN.fullmatch(folder.name):
            run = run or match[1]
        elif folder.name.lower() not in _BETWEEN:
            detector = folder.name
            above = _RUN.fullmatch(folder.parent.name)  # s0/msp/scores instead of msp/s0/scores
            run = run or (above[1] if above else ONE_RUN)
            break
    return detector, run


def read_openood(detector: str, run: str, files: Mapping[Path, Columns]) -> Part:
    """Read the score files of one detector in one run. `conf` is higher for ID samples.

    The in-distribution set is the one whose labels are all classes; those of outliers are -1.
    """
    pieces, known = [], {}
    for path, columns in files.items():
        label = columns["label"]
        for name, values in columns.items():
            if values.ndim != 1 or len(values) != len(label) or values.dtype.kind not in "fiub":
                raise UserError(
                    f"'{name}' of '{path}' must be a vector of {label.size} numbers, one per label;"
                    f" got shape {values.shape} of {values.dtype}."
                )
        pieces.append(Piece(detector, run, path.stem, columns["conf"], "id"))
        if label.size and (label >= 0).all():
            known[path.stem] = columns
    id = next(iter(known)) if len(known) == 1 else ""
    right: dict[str, NDArray[np.bool_]] = {}
    if id and "pred" in known[id]:
        right[run] = known[id]["pred"] == known[id]["label"]
    return Part(
        tuple(pieces),
        f"OpenOOD's score files of {detector}: {listed(piece.dataset for piece in pieces)}",
        id,
        {run: {"seed": int(run)} if run.isdigit() else {"run": run}} if run else {},
        (Factor("seed" if run.isdigit() else "run", "repeat"),) if run else (),
        right,
    )
