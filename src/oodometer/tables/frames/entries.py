"""Lines that are entries of their own: a model and what it was trained on name it together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import by_title, words_of
from oodometer.tables.cells import numeric_share
from oodometer.tables.guessing.roles import Roles, joined_column
from oodometer.tables.vocabulary.measures import without_metric
from oodometer.tables.vocabulary.mentioned import metrics_in
from oodometer.tables.vocabulary.titles import INCIDENTAL, mentions_setting

if TYPE_CHECKING:
    import pandas as pd

_FILLED = 0.5  # of the grid of two columns: less, and they were not crossed on purpose
# Words of titles that tell variants of one model apart.
_VARIANTS = frozenset(
    {"pretrained", "pretraining", "training", "train", "weights", "data", "backbone", "arch",
     "architecture", "variant", "version", "resolution", "config", "configuration", "loss",
     "augmentation", "size", "initialization", "samples"}
)  # fmt: skip


def with_whole_names(frame: pd.DataFrame, roles: Roles, notes: list[str]) -> pd.DataFrame:
    """Join to the detector what tells its lines apart, where that was not varied for all alike."""
    detector = roles.detector
    if detector is None or detector in roles.chosen or roles.chosen & set(roles.factors):
        return frame
    kinds = {c: by_title(c, frame[c].unique()).kind for c in roles.factors}
    keys = [c for c in (detector, roles.id, roles.ood, roles.metric) if c is not None]
    keys += [c for c, kind in kinds.items() if kind != "condition"]
    conditions = [c for c, kind in kinds.items() if kind == "condition"]
    sparse = [c for c in conditions if _is_sparse(frame, detector, c)]
    keys += [c for c in conditions if c not in sparse and _may_tell(frame, c)]
    sizes = {column: len(frame[column].unique()) for column in sparse}
    joined = _telling(frame, keys, sorted(sparse, key=sizes.__getitem__))  # no names of lines
    if not joined:
        return frame
    name = "+".join([detector, *joined])
    if not all(words_of(column) & _VARIANTS for column in joined):
        one = joined[0]
        raise UserError(
            f"Lines with the same '{detector}' differ in '{one}': other models "
            f"({roles.option(detector=name)}), repeated runs ({roles.option(repeat=one)}) or "
            f"conditions ({roles.option(condition=one)})?"
        )
    notes.append(f"each row is a model of its own, named by {' and '.join([detector, *joined])}")
    roles.detector = name
    roles.factors = [column for column in roles.factors if column not in joined]
    return joined_column(frame, [detector, *joined], name)


def _telling(frame: pd.DataFrame, keys: list[str], columns: list[str]) -> list[str]:
    """Return the first columns with which no two lines are alike; none if all are not enough."""
    joined: list[str] = []
    double = frame.duplicated(keys).sum()
    for column in columns:
        left = frame.duplicated([*keys, *joined, column]).sum()
        if left < double:
            joined.append(column)
            double = left
    return [] if double else joined


def _is_sparse(frame: pd.DataFrame, detector: str, column: str) -> bool:
    """Whether few detectors share the levels of a column of names."""
    if numeric_share(frame[column]) > 0.5 or words_of(column) & INCIDENTAL:
        return False
    pairs = frame[[detector, column]].drop_duplicates()
    detectors, levels = len(frame[detector].unique()), len(frame[column].unique())
    most = pairs[column].value_counts().max()
    return levels > 1 and len(pairs) < _FILLED * detectors * levels and most < _FILLED * detectors


def _may_tell(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column of names or settings may tell lines apart: no measurement."""
    return numeric_share(frame[column]) <= 0.5 or mentions_setting(column)


def metric_of_names(frame: pd.DataFrame) -> tuple[str | None, pd.DataFrame]:
    """Return the metric that every detector's name ends with, and the names without it.

    Such are HC2_accuracy and ResNet_accuracy, taken from the names of files.
    """
    names = [str(name) for name in frame["detector"].unique()] if "detector" in frame else []
    metrics = {metric for name in names for metric in metrics_in(name[-40:])}
    bare = {name: without_metric(name) for name in names}
    if len(names) < 2 or len(metrics) != 1 or not all(bare[n] and bare[n] != n for n in names):
        return None, frame
    if len(set(bare.values())) < len(names):
        return None, frame
    return metrics.pop(), frame.assign(detector=frame["detector"].map(bare))
