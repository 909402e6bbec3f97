"""Metrics that prose, captions and names of files mention."""

from __future__ import annotations

import re

from oodometer.tables.vocabulary.measures import GENERAL, KNOWN, joined, without_metric

_LISTED = 3  # metrics of classifiers in a text, from which on it lists metrics
_IN_BRACKETS = re.compile(r"\(([^()]*)\)")
_IN_NAMES = {"ap": "AUPR", "roc": "auroc"}  # words of names of files
# Words of prose that name a metric, and more often something else.
_OTHER_SENSE = re.compile(
    r"sensitivity(?!.*specificity)|(?:mixed|half|full|single|low)_precision|error_analysis"
)
# Accuracy of finding something else than outliers, in prose: symmetry detection accuracy.
_DETECTED = re.compile(
    r"(?<=[a-z]_)(?<!ood_)(?<!outlier_)(?<!anomaly_)(?<!novelty_)(?<!distribution_)detection_(?=acc)"
)


def metrics_in(text: str) -> set[str]:
    """Return the metrics of detection that a text mentions, or else the others.

    >>> sorted(metrics_in("Table 2: FPR@95TPR (%) on CIFAR-10")), metrics_in("accuracy of nets")
    (['fpr95'], {'accuracy'})
    >>> metrics_in("balanced_accuracy_results")
    {'balanced accuracy'}
    """
    words = _DETECTED.sub("", _OTHER_SENSE.sub("", joined(text)))
    found = set()
    for known in KNOWN:  # the first match decides: balanced accuracy is not accuracy
        words, times = known.pattern.subn("__", words)
        found |= {known.measure.name} if times else set()
    found -= {""}
    if len(found & GENERAL) >= _LISTED:  # all that was computed
        return found
    return found - GENERAL or found


def metric_stated(text: str) -> str | None:
    """Return the only metric that a text mentions, or the only one that stands in brackets alone.

    >>> metric_stated("Detection accuracy (ROCAUC %)"), metric_stated("AUROC and FPR95")
    ('auroc', None)
    """
    named = metrics_in(text)
    named = named if len(named) < 2 else metrics_in_brackets(text)
    return named.pop() if len(named) == 1 else None


def metrics_in_brackets(text: str) -> set[str]:
    """Return the metrics that stand in brackets alone, as units of the numbers do.

    >>> metrics_in_brackets("Accuracy of detection (ROCAUC %)"), metrics_in_brackets("AUROC (ours)")
    ({'auroc'}, set())
    """
    alone = [part for part in _IN_BRACKETS.findall(text) if not without_metric(part)]
    return {metric for part in alone for metric in metrics_in(part)}


def metrics_in_name(stem: str) -> set[str]:
    """Return the metrics that the name of a file mentions, where short words are no prose.

    >>> metrics_in_name("benchmark_ap"), metrics_in_name("roc_df"), len(metrics_in_name("ap_roc"))
    ({'AUPR'}, {'auroc'}, 2)
    """
    parts = joined(stem).split("_")
    return metrics_in(stem) or {_IN_NAMES[part] for part in parts if part in _IN_NAMES}
