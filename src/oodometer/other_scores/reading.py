"""From files of scores to one table; what they do not say is asked for, never guessed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oodometer.errors import UserError, unknown
from oodometer.factors import Factor
from oodometer.other_scores.columns import bare_pieces, has_sets, parse_roles, read_table, roles_of
from oodometer.other_scores.files import read_columns
from oodometer.other_scores.openood import find_files, is_openood, named_by, read_openood
from oodometer.other_scores.pieces import ONE_RUN, Columns, Part, Piece, aligned, listed
from oodometer.score_arrays import Higher, signs_of
from oodometer.score_files import is_score_table, load_scores
from oodometer.scores import Level, ScoreRow, ScoreTable

_USUAL_ID = "id"  # a name that says it
_OURS = "scores.parquet"  # of `evaluate`
PathLike = str | os.PathLike[str]
Reading = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Source:
    """A file or folder, and what it is about, if that was said: NAME=PATH or NAME@RUN=PATH."""

    path: Path
    name: str = ""
    run: str = ONE_RUN

    @property
    def title(self) -> str:
        return self.name or self.path.stem


def read_scores(
    paths: Sequence[PathLike],
    *,
    id: str = "",
    higher: Higher | Mapping[str, Higher] | None = None,
    columns: str = "",
) -> tuple[ScoreTable, Reading]:
    """Read files of scores as one table; return how they were read, too."""
    if not paths:
        raise UserError("No score files were given.")
    try:
        return _read_scores(paths, id, higher, columns)
    except OSError as problem:  # such as a name that is too long
        named = problem.filename or ", ".join(map(str, paths))
        raise UserError(f"Cannot read '{named}': {problem.strerror or problem}.") from None


def _read_scores(
    paths: Sequence[PathLike],
    id: str,
    higher: Higher | Mapping[str, Higher] | None,
    columns: str,
) -> tuple[ScoreTable, Reading]:
    roles = parse_roles(columns)
    sources = [_source(path) for path in paths]
    parts: list[Part] = []
    bare: list[tuple[_Source, Columns]] = []
    openood: dict[tuple[str, str], dict[Path, Columns]] = {}
    seen: set[str] = set()
    for source in (inner for outer in sources for inner in _inside(outer)):
        if source.path.suffix.lower() in (".parquet", ".pq") and is_score_table(source.path):
            parts.append(_of_table(source.path))
            continue
        read = read_columns(source.path)
        seen |= read.keys()
        found = roles_of(read, roles)
        if is_openood(read) and not roles:
            detector, run = named_by(source.path)
            key = (source.name or detector, source.run or run)
            openood.setdefault(key, {})[source.path] = read
        elif has_sets(found):
            parts.append(read_table(str(source.path), read, found, source.title, source.run))
        else:
            kept = {name: values for name, values in read.items() if name not in found}
            bare.append((source, kept or read))
    for name in roles:
        if name not in seen:
            raise unknown("column", name, seen)
    parts += [read_openood(*key, files) for key, files in openood.items()]
    parts += _of_bare(bare, id)
    table = _table(parts, id, higher)
    return table, _described(parts, table, higher)


def _source(path: PathLike) -> _Source:
    text = os.fspath(path)
    if not text.strip():
        raise UserError("The name of a score file is empty.")
    name, equals, rest = text.partition("=")
    if Path(text).expanduser().exists() or not equals or "/" in name:
        return _Source(Path(text).expanduser())
    name, _, run = name.partition("@")
    if not name.strip() or not rest.strip():
        raise UserError(f"Score files are FILE, NAME=FILE or NAME@RUN=FILE; got '{text}'.")
    return _Source(Path(rest).expanduser(), name.strip(), run.strip())


def _inside(source: _Source) -> list[_Source]:
    """The files of a folder; a file is itself."""
    if not source.path.is_dir():
        return [source]
    if (source.path / _OURS).is_file():
        return [_Source(source.path / _OURS, source.name, source.run)]
    found = find_files(source.path)
    for path in found:
        if not is_openood(read_columns(path)):
            raise UserError(
                f"Folder '{source.path}' holds '{path.name}', which is not a score file of "
                "OpenOOD's (pred, conf, label): give the files themselves, or NAME=FILE."
            )
    return [_Source(path, source.name, source.run) for path in found]


def _of_table(path: Path) -> Part:
    """Our own format; settings that represent their detector."""
    table = load_scores(path)
    pieces = tuple(
        Piece(row.detector, row.run, row.dataset, row.scores, "ood")
        for row in table.rows
        if row.default and table.sets[row.dataset].role != "search"
    )
    return Part(
        pieces, f"score table of {listed(table.detectors)}", table.id, table.runs, table.factors,
        table.correct, table.chance,
    )  # fmt: skip


def _of_bare(files: Sequence[tuple[_Source, Columns]], id: str) -> list[Part]:
    """Files of arrays that have nothing but names: a file per detector, or a file per data set."""
    if not files:
        return []
    wanted = id or _USUAL_ID
    titles = [source.title for source, _ in files]
    named = {name for _, columns in files for name in columns}
    in_files, in_titles = all(wanted in columns for _, columns in files), wanted in titles
    if id and not in_files and not in_titles:
        raise unknown("in-distribution set, named by 'id':", id, {*named, *titles})
    if in_files == in_titles:
        raise UserError(
            f"Which scores are those of in-distribution samples? Add --id NAME: one of "
            f"{listed(sorted(named))} if each file is a detector, or one of "
            f"{listed(sorted(titles))} if each file is a data set."
        )
    parts = []
    for source, columns in files:
        found = [*bare_pieces(source.title, source.run, columns, is_set=in_titles)]
        runs = dict.fromkeys(run for run, _ in found if run)
        levels: dict[str, dict[str, Level]] = {run: {"run": run} for run in runs}
        words = "data set" if in_titles else "detector"
        inside = "detectors" if in_titles else "data sets"
        read_as = f"{words} {source.title}: {inside} {listed(columns)}"
        factors = (Factor("run", "repeat"),) * bool(levels)
        parts.append(Part(tuple(piece for _, piece in found), read_as, wanted, levels, factors))
    return parts


def _table(
    parts: Sequence[Part], id: str, higher: Higher | Mapping[str, Higher] | None
) -> ScoreTable:
    pieces = aligned(piece for part in parts for piece in part.pieces)
    if not pieces:
        raise UserError("The files hold no scores.")
    signs = _signs(pieces, higher)
    runs = _levels(parts, pieces)
    _require_once(pieces)
    rows = tuple(
        ScoreRow(p.run, p.detector, "", p.dataset, signs[p.detector] * p.scores) for p in pieces
    )
    factors = {factor.name: factor for part in parts for factor in part.factors}
    varied = {name for levels in runs.values() for name in levels}
    chosen = _in_distribution(parts, pieces, id)
    return ScoreTable(
        chosen,
        rows,
        runs,
        correct={run: right for p in parts if p.id == chosen for run, right in p.correct.items()},
        same_samples=_same_sizes(pieces),
        factors=tuple(factor for name, factor in factors.items() if name in varied),
        chance={run: share for part in parts for run, share in part.chance.items()},
    )


def _levels(parts: Iterable[Part], pieces: Iterable[Piece]) -> dict[str, Mapping[str, Level]]:
    """The levels of every run."""
    detectors = {piece.run: piece.detector for piece in pieces}
    if ONE_RUN in detectors and len(detectors) > 1:
        raise UserError(
            f"Scores of '{detectors[ONE_RUN]}' name no run, others do: add NAME@RUN=FILE, or a "
            "column 'run'."
        )
    said = {run: levels for part in parts for run, levels in part.runs.items()}
    return {run: said.get(run, {}) for run in detectors}


def _require_once(pieces: Iterable[Piece]) -> None:
    seen: set[tuple[str, str, str]] = set()
    for piece in pieces:
        cell = (piece.run, piece.detector, piece.dataset)
        if cell in seen:
            within = f" in run '{piece.run}'" if piece.run else ""
            raise UserError(
                f"Two files hold scores of '{piece.detector}' on '{piece.dataset}'{within}: name "
                "them apart, NAME=FILE, or NAME@RUN=FILE if they are runs of one detector."
            )
        seen.add(cell)


def _same_sizes(pieces: Iterable[Piece]) -> bool:
    """Whether every run has as many samples of each data set; detectors must, in any case."""
    sizes: dict[str, set[int]] = {}
    for piece in pieces:
        sizes.setdefault(piece.dataset, set()).add(len(piece.scores))
    return all(len(found) == 1 for found in sizes.values())


def _signs(
    pieces: Iterable[Piece], higher: Higher | Mapping[str, Higher] | None
) -> dict[str, float]:
    """Which detectors to turn around: by what was said of them, or what their format says."""
    by_detector: dict[str, set[Higher | None]] = {}
    for piece in pieces:
        by_detector.setdefault(piece.detector, set()).add(piece.higher)
    named = higher if isinstance(higher, Mapping) else {}
    rest = higher if not isinstance(higher, Mapping) else named.get("")
    said: dict[str, Higher] = {name: side for name, side in named.items() if name}
    for name in said:
        if name not in by_detector:
            raise unknown("detector in --higher", name, by_detector)
    for name, sides in by_detector.items():
        if len(sides) > 1:
            raise UserError(f"Scores of '{name}' come from files of different formats.")
        (known,) = sides
        if name not in said and (side := known or rest) is not None:
            said[name] = side
    if lacking := [name for name in by_detector if name not in said]:
        raise UserError(
            f"Are scores of {listed(lacking)} higher for outliers or for in-distribution samples? "
            'Add --higher ood or --higher id; --higher "ood, NAME=id" if they differ.'
        )
    return signs_of(said, by_detector)


def _in_distribution(parts: Iterable[Part], pieces: Iterable[Piece], id: str) -> str:
    sets = [*dict.fromkeys(piece.dataset for piece in pieces)]
    if id:
        if id not in sets:
            raise unknown("in-distribution set", id, sets)
        return id
    told = {part.id for part in parts if part.id}
    if not told and _USUAL_ID in sets:
        told = {_USUAL_ID}
    if len(told) != 1:
        raise UserError(
            f"Which data set is in-distribution? Add --id NAME; there are {listed(sets, 20)}."
        )
    return told.pop()


def _described(
    parts: Sequence[Part], table: ScoreTable, higher: Higher | Mapping[str, Higher] | None
) -> Reading:
    signs = _signs((piece for part in parts for piece in part.pieces), higher)
    directions = {
        f"higher for {side}": [name for name, own in signs.items() if own == sign]
        for side, sign in {"outliers": 1.0, "in-distribution samples": -1.0}.items()
    }
    samples = "by their names" if any(p.samples for q in parts for p in q.pieces) else "in order"
    return (
        *(("scores", part.read_as) for part in parts[:20]),
        ("in-distribution set", table.id),
        *((side, listed(found)) for side, found in directions.items() if found),
        ("samples", f"matched between detectors {samples}"),
    )
