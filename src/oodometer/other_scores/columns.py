"""Which column is what: the set of a sample, its run, its name, or a detector's scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError, unknown
from oodometer.factors import TITLES, Factor, by_title, plain
from oodometer.other_scores.pieces import Columns, Part, Piece, listed
from oodometer.scores import Level

Role = Literal["set", "is_ood", "is_id", "detector", "score", "run", "sample", "ignore"]
Roles = Mapping[str, Role]  # column -> role; every other column has the scores of a detector

_WORDS: Mapping[Role, str] = {
    "set": "set dataset datasets",
    "is_ood": "isood isoutlier outlier isanomaly anomaly",
    "is_id": "isid isinlier inlier",
    "detector": "detector detectors method postprocessor",
    "score": "score scores",
    "sample": "sample sampleid sampleindex index idx image imageid filename file path",
    "ignore": "unnamed0",  # an index that pandas has written
}
_SEVERAL: tuple[Role, ...] = ("run", "ignore")  # roles that several columns may have
_ROLES = {title: role for role, titles in _WORDS.items() for title in titles.split()}
# What is not a score, and could be several other things.
_UNCLEAR = (
    *("label", "labels", "target", "targets", "y", "ytrue", "class", "split", "epoch", "step"),
    *("pred", "preds", "prediction", "predictions", "ypred", "correct"),
)
_TRUE, _FALSE = ("1", "1.0", "true", "True"), ("0", "0.0", "false", "False")


def parse_roles(text: str) -> dict[str, Role]:
    """Read ``set=Source, run=seed+fold``: column -> role."""
    roles: dict[str, Role] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        role, equals, names = part.partition("=")
        if not equals or not names.strip():
            raise UserError(f"--columns takes ROLE=COLUMN, such as set=dataset; got '{part}'.")
        if role.strip() not in get_args(Role):
            raise unknown("role of a column", role.strip(), get_args(Role))
        for name in names.split("+"):
            roles[name.strip()] = role.strip()  # type: ignore[assignment]  # checked above
    return roles


def roles_of(columns: Columns, said: Roles) -> dict[str, Role]:
    """Roles of a file's columns: those that were said, then those that titles tell."""
    roles = {name: role for name, role in said.items() if name in columns}
    taken = set(roles.values())
    for name in columns:
        title = plain(name)
        known: Role | None = _ROLES.get(title)
        if known is None and (title in TITLES and TITLES[title].kind == "repeat"):
            known = "run"
        if not title:  # an index, too
            known = "ignore"
        if name not in roles and known is not None and (known not in taken or known in _SEVERAL):
            roles[name] = known
    return roles


def has_sets(roles: Roles) -> bool:
    """Whether the rows of a file say which data set they are of."""
    return not {"set", "is_ood", "is_id"}.isdisjoint(roles.values())


def read_table(name: str, columns: Columns, roles: Roles, detector: str, run: str) -> Part:
    """Read one row per sample, a column per detector; or a row per detector and sample.

    A column `score` that names no detector is of the `detector` that the file is called after;
    rows without a run are of the `run` that was named with the file.
    """
    columns = {title: _vector(name, title, values) for title, values in columns.items()}
    by_role: dict[Role, list[str]] = {role: [] for role in get_args(Role)}
    for title, role in roles.items():
        by_role[role].append(title)
    _require_one_each(name, columns, by_role)
    is_long = bool(by_role["detector"] and by_role["score"])
    if is_long:
        cells = _long_cells(name, columns, by_role)
    else:
        cells = _wide_cells(name, columns, by_role, roles, detector)
    sets, id = _sets(name, columns, by_role)
    runs, labels = _runs(name, columns, by_role["run"], run)
    samples = [str(s) for s in columns[by_role["sample"][0]]] if by_role["sample"] else []
    pieces = []
    for (detector, values, rows), run, dataset in product(cells, _names(labels), _names(sets)):
        chosen = np.flatnonzero(rows & (labels == run) & (sets == dataset))
        scores = values[chosen]
        if len(scores) and not np.isnan(scores).all():  # a detector may lack a set
            named = tuple(samples[place] for place in chosen) if samples else ()
            pieces.append(Piece(detector, run, dataset, scores, samples=named))
    form = "one row per detector and sample" if is_long else "one column per detector"
    said = ", ".join(f"{role}: {listed(titles)}" for role, titles in by_role.items() if titles)
    factors = tuple(by_title(title, np.unique(columns[title])) for title in by_role["run"])
    factors = factors or (Factor("run", "repeat"),) * bool(run)
    return Part(tuple(pieces), f"{form} ({said})", id, runs, factors)


_Cell = tuple[str, NDArray[np.float64], NDArray[np.bool_]]  # detector, scores, which rows are its


def _require_one_each(name: str, columns: Columns, by_role: Mapping[Role, list[str]]) -> None:
    """Refuse two columns for one role, and columns of different lengths."""
    for role, titles in by_role.items():
        if len(titles) > 1 and role not in _SEVERAL:
            raise UserError(
                f"'{name}' has {len(titles)} columns for the role '{role}', {listed(titles)}: add "
                f'--columns "ignore={titles[-1]}".'
            )
    lengths = {title: len(values) for title, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise UserError(
            f"'{name}' has columns of different lengths: "
            f"{listed(f'{title} {length}' for title, length in lengths.items())}."
        )


def _long_cells(name: str, columns: Columns, by_role: Mapping[Role, list[str]]) -> list[_Cell]:
    detectors = _texts(name, by_role["detector"][0], columns)
    values = _numbers(name, by_role["score"][0], columns)
    return [(detector, values, detectors == detector) for detector in _names(detectors)]


def _wide_cells(
    name: str, columns: Columns, by_role: Mapping[Role, list[str]], roles: Roles, detector: str
) -> list[_Cell]:
    scored = [*by_role["score"], *(title for title in columns if title not in roles)]
    _require_scores(name, columns, scored)
    of_file = scored == by_role["score"]
    cells = []
    for title in scored:
        every = np.ones(len(columns[title]), dtype=bool)
        cells.append((detector if of_file else title, _numbers(name, title, columns), every))
    return cells


def _vector(name: str, title: str, values: NDArray[Any]) -> NDArray[Any]:
    if values.ndim != 1:
        raise UserError(f"'{title}' of '{name}' must be a vector, got shape {values.shape}.")
    return values


def _require_scores(name: str, columns: Columns, scored: list[str]) -> None:
    """Ask about columns that are no scores, or might not be."""
    for title in scored:
        if plain(title) in _UNCLEAR:
            raise UserError(
                f"'{name}' has a column '{title}': add --columns \"ignore={title}\", or say that "
                f'it is 1 for outliers ("is_ood={title}") or for in-distribution samples '
                f'("is_id={title}").'
            )
        if columns[title].dtype.kind not in "fiub":
            raise UserError(
                f"Column '{title}' of '{name}' does not hold numbers, but "
                f"{str(columns[title][0])[:40]!r}: add --columns with its role, such as "
                f'"set={title}" or "ignore={title}".'
            )


def _sets(
    name: str, columns: Columns, by_role: Mapping[Role, list[str]]
) -> tuple[NDArray[Any], str]:
    """The data set of every row, and which of them is the in-distribution set, if that is said."""
    flag = next(iter(by_role["is_ood"] + by_role["is_id"]), None)
    if flag is None:
        return _texts(name, by_role["set"][0], columns), ""
    texts = _texts(name, flag, columns)
    strange = [text for text in _names(texts) if text not in _TRUE + _FALSE]
    if strange:
        raise UserError(
            f"Column '{flag}' of '{name}' must be 1 or 0, true or false, got '{strange[0]}'."
        )
    outlier = np.isin(texts, _TRUE if by_role["is_ood"] else _FALSE)
    if not by_role["set"]:
        return np.where(outlier, "ood", "id"), "id"
    sets = _texts(name, by_role["set"][0], columns)
    known = _names(sets[~outlier])
    if both := set(known) & set(_names(sets[outlier])):
        raise UserError(
            f"'{name}' has samples of '{min(both)}' that are outliers by '{flag}', and others that "
            "are not."
        )
    return sets, known[0] if len(known) == 1 else ""


def _runs(
    name: str, columns: Columns, titles: list[str], run: str
) -> tuple[dict[str, dict[str, Level]], NDArray[Any]]:
    """The levels of every run, and the run of every row, which is `run` if no column says it."""
    size = len(next(iter(columns.values())))
    if not titles:
        return {run: {"run": run} if run else {}}, np.full(size, run)
    levels = [_texts(name, title, columns) for title in titles]
    labels = np.array([", ".join(level) for level in zip(*levels, strict=True)])
    first = {label: place for place, label in reversed([*enumerate(labels)])}
    return {
        label: {title: _level(columns[title][first[label]]) for title in titles}
        for label in _names(labels)
    }, labels


def _level(value: object) -> Level:
    plain_value = value.item() if isinstance(value, np.generic) else value
    return plain_value if isinstance(plain_value, bool | int | float | str) else str(plain_value)


def _texts(name: str, title: str, columns: Columns) -> NDArray[Any]:
    values = columns[title]
    lacking = [p for p, v in enumerate(values) if v is None or v != v]
    if lacking:
        raise UserError(f"Column '{title}' of '{name}' is empty in row {lacking[0]}.")
    return np.array([str(value).strip() for value in values])


def _names(texts: NDArray[Any]) -> list[str]:
    """Different texts in the order of their first row."""
    found, first = np.unique(texts, return_index=True)
    return [str(found[place]) for place in np.argsort(first)]


def _numbers(name: str, title: str, columns: Columns) -> NDArray[np.float64]:
    values = columns[title]
    if values.dtype.kind not in "fiub":
        raise UserError(f"Column '{title}' of '{name}' must hold numbers, got {values.dtype}.")
    return values.astype(np.float64)


def bare_pieces(
    name: str, run: str, columns: Columns, *, is_set: bool
) -> Iterator[tuple[str, Piece]]:
    """Pieces, each with its run, of arrays that have nothing but names: sets, or detectors."""
    for title, values in columns.items():
        if values.dtype.kind not in "fiub" or values.ndim not in (1, 2) or not values.size:
            raise UserError(
                f"'{title}' of '{name}' must be a vector of scores, or (runs, samples), got shape "
                f"{values.shape} of {values.dtype}."
            )
        detector, dataset = (title, name) if is_set else (name, title)
        if values.ndim == 1:
            yield run, Piece(detector, run, dataset, values)
            continue
        if values.shape[1] == 1:
            raise UserError(
                f"'{title}' of '{name}' has shape {values.shape}, which is {len(values)} runs of "
                f"one sample: save a vector of shape ({len(values)},)."
            )
        for place, line in enumerate(values):
            label = f"{run} {place}".strip()
            yield label, Piece(detector, label, dataset, line)
