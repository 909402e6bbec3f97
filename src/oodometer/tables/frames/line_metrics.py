"""Names of lines that hold a metric, too: "SVHN AUROC", "SVHN FPR95"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.factors import plain
from oodometer.tables.cells import numeric_share
from oodometer.tables.columns import with_columns
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.others import names_metrics
from oodometer.tables.vocabulary.statistics import is_average

if TYPE_CHECKING:
    import pandas as pd

_METRIC = "metric"  # title of the column that names them
_FEWEST = 2  # names


def with_metrics_of_lines(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Part names of lines from their metrics, if each name comes with all of several metrics.

    Of one metric alone, all names must end or begin with it.
    """
    titles = list(map(str, frame.columns))
    said = any(metric_named(title) is not None or names_metrics(title) for title in titles)
    labels = [c for c in titles if numeric_share(frame[c]) <= 0.5]
    if said or len(labels) == len(titles) or _METRIC in map(plain, titles):
        return frame
    for column in labels:
        texts = frame[column].unique().tolist()
        pairs = {text: (without_metric(text), metric_named(text)) for text in texts}
        if not all(name and metric for name, metric in pairs.values()):
            continue
        known = {pair for pair in pairs.values() if not is_average(pair[0])}
        names = {name for name, _ in known}
        metrics = {metric for _, metric in known}
        are_crossed = len(known) == len(names) * len(metrics)
        if len(names) < _FEWEST or not are_crossed or len({*pairs.values()}) < len(pairs):
            continue
        if len(metrics) == 1 and not _are_alike(texts, [name for name, _ in pairs.values()]):
            continue
        parted = {
            column: [pairs[text][0] for text in frame[column]],
            _METRIC: [text.replace(pairs[text][0], "").strip(" -/_|") for text in frame[column]],
        }
        notes.append(f"names in {column} hold the metric, which became a column")
        return with_columns(frame, parted)
    return frame


def _are_alike(texts: list[str], names: list[str]) -> bool:
    """Whether texts have the same words beside their names."""
    pairs = zip(texts, names, strict=True)
    rests = {text.replace(name, "") if name in text else text for text, name in pairs}
    return len(rests) == 1
