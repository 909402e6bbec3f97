"""How people call columns that are no results: conditions, findings, tests, single samples."""

from __future__ import annotations

import re
from collections.abc import Iterable

from oodometer.factors import plain, words_of

# Titles of columns that name the metric of each line.
METRIC_TITLES = frozenset(
    {"metric", "metrics", "measure", "metricname", "metrictype", "measurename", "evalmetric",
     "evaluationmetric"}
)  # fmt: skip
_TESTS = frozenset({"p", "pvalue", "t", "z", "paired", "wilcoxon", "ttest", "holm", "statistic",
                    "pval", "stat"})  # fmt: skip
# Titles of what a line of a comparison shows, in words.
VERDICTS = frozenset({"winner", "winners", "verdict"})
_OF_P_VALUES = frozenset({"value", "values", "val", "vs", "wilcoxon", "ttest", "holm", "adj",
                          "adjusted", "friedman"})  # fmt: skip
_OUTCOMES = frozenset({"wins", "losses", "ties", "draws"})  # words of titles
# Words of titles of what was found in each run, and what it is that was.
_FOUND = frozenset(  # worst: the data set on which a model is worst
    {
        "best",
        "worst",
        "selected",
        "stopped",
        "stopping",
        "chosen",
        "optimal",
        "stop",
        "ran",
        "converged",
    }
)
_FINDINGS = frozenset(
    {"epoch", "epochs", "step", "steps", "iteration", "iterations", "iter", "threshold", "round",
     "params", "parameters", "hyperparameters", "checkpoint", "dataset", "datasets"}
)  # fmt: skip
# Words of titles of what one model is tested under, or what is done to its data.
_CONDITIONS = frozenset(
    {"condition", "conditions", "perturbation", "perturbations", "attack", "attacks", "corruption",
     "corruptions", "distortion", "distortions", "degradation", "transformation", "noiselevel"}
)  # fmt: skip
_OVER_OUTLIERS = re.compile(
    r"(?i)\(?\b(?:averaged?|avg\.?|means?)\s+(?:over|of|across|on)\s+(?:all\s+|the\s+)*(?:\w+\s+)?"
    r"(?:ood|out[ -]of[ -]distribution|outlier)[ -](?:test\s+)?(?:data\s?)?sets?\b\)?"
)
# Words of titles of what a data set is like.
_OF_DATA = frozenset({"dimensions", "dimensionality", "contamination", "samples", "instances"})
_OUTLIERS = frozenset({"outlier", "outliers", "anomaly", "anomalies"})
_SHARES = frozenset({"perc", "percent", "percentage", "pct", "ratio", "share", "fraction"})
_JUDGEMENTS = frozenset({"status", "verdict", "trend", "remark", "remarks"})
_PROSE = 8  # spaces in a remark
_OF_TRACKERS = frozenset({"_runtime", "_step", "_timestamp", "_wandb"})  # columns of W&B
_PARAMETERS = frozenset(
    {"parameter", "parameters", "param", "hyperparameter", "hyperparam", "setting", "knob"}
)
_BESIDE_CONDITIONS = frozenset({"type", "name", "kind", "level", "id", "setting", "test"})
# Words for levels of a condition, in which data or runs differ.
_LEVELS = frozenset(
    {"easy", "medium", "moderate", "hard", "difficult", "clean", "noisy", "noise", "low", "mid",
     "middle", "high", "small", "large", "big", "short", "long", "day", "night", "male", "female",
     "young", "old", "seen", "unseen", "novel", "weak", "strong", "mild", "severe", "early", "late",
     "indoor", "outdoor", "rare", "common", "frequent", "majority", "minority", "many", "few",
     "head", "tail", "positive", "negative", "simple", "complex", "sparse", "dense", "before",
     "after", "open", "closed", "fast", "slow", "dark", "bright", "left", "right"}
)  # fmt: skip
_DATA_FILE = re.compile(
    r"(?i).*\.(?:csv|tsv|txt|json|npy|npz|mat|arff|wav|flac|mp3|png|jpe?g|dcm|parquet)"
)
# Titles of what is true of a single sample, and of what a model says of it.
_TRUTHS = frozenset(
    {"ytrue", "groundtruth", "truelabel", "truelabels", "trueclass", "goldlabel", "gold", "gt",
     "gtlabel", "isanomaly", "isood", "isoutlier", "istrueanomaly", "anomaly", "labeltrue"}
)  # fmt: skip
_PREDICTED = frozenset(
    {"ypred", "pred", "preds", "prediction", "predictions", "predicted", "predictedlabel",
     "predlabel", "predictedclass", "yprob", "yscore", "anomalyscore", "oodscore"}
)  # fmt: skip
_YES_OR_NO = frozenset({"true", "false", "yes", "no", "0", "1", "00", "10", "y", "n"})


def is_kept_by_tracker(title: str) -> bool:
    """Whether a column is what a tracker of experiments keeps of each run, whatever was tried.

    >>> is_kept_by_tracker("_step"), is_kept_by_tracker("step")
    (True, False)
    """
    return title in _OF_TRACKERS


def names_metrics(title: str) -> bool:
    """Whether a title, or a part of it, says that a column names metrics.

    >>> names_metrics("Metric"), names_metrics("Metric / Model"), names_metrics("Model")
    (True, True, False)
    """
    return any(plain(part) in METRIC_TITLES for part in (title, *title.split(" / ")))


def is_found(title: str) -> bool:
    """Whether a title is that of what was found in each run: where it stopped, what it chose.

    >>> is_found("best_epoch"), is_found("selected threshold"), is_found("epoch")
    (True, True, False)
    """
    words = words_of(title)
    return not words.isdisjoint(_FOUND) and not words.isdisjoint(_FINDINGS)


def is_test(title: str) -> bool:
    """Whether a title is that of the outcome of a statistical test.

    >>> is_test("Wilcoxon p"), is_test("paired t(4)"), is_test("T")
    (True, True, False)
    """
    words = words_of(title)
    return (len(words) > 1 or plain(title) == "pvalue") and not _TESTS.isdisjoint(words)


def names_p_values(title: str) -> bool:
    """Whether a title is that of p-values.

    >>> names_p_values("w_p_vs_R0"), names_p_values("Wilcoxon p"), names_p_values("P-AUROC")
    (True, True, False)
    """
    words = words_of(title)
    return "pvalue" in words or ("p" in words and not words.isdisjoint(_OF_P_VALUES))


def counts_outcomes(title: str, titles: Iterable[str]) -> bool:
    """Whether a title is that of how often something won or lost, where others count the rest.

    >>> counts_outcomes("losses", ["wins", "losses"]), counts_outcomes("losses", ["acc", "losses"])
    (True, False)
    """
    said = words_of(title) & _OUTCOMES
    return bool(said) and len(_OUTCOMES & {w for other in titles for w in words_of(other)}) > 1


def names_condition(title: str) -> bool:
    """Whether a title is that of conditions, such as attacks, which are seldom compared themselves.

    >>> names_condition("attack_type"), names_condition("Noise level"), names_condition("model")
    (True, True, False)
    """
    words = words_of(title)
    known = words & _CONDITIONS
    return plain(title) in _CONDITIONS or (bool(known) and words - known <= _BESIDE_CONDITIONS)


def without_mean_over_outliers(title: str) -> str:
    """Leave out of a title that its numbers are means over outlier sets.

    >>> without_mean_over_outliers("average over 6 OOD datasets AUROC")
    'AUROC'
    """
    return _OVER_OUTLIERS.sub("", title).strip()


def names_property_of_data(title: str) -> bool:
    """Whether a title is that of what a data set is like: how large, how many of it are outliers.

    >>> [names_property_of_data(t) for t in ("# Dimensions", "Outlier Perc", "#Samples", "KNN")]
    [True, True, True, False]
    """
    words = words_of(title)
    share = not words.isdisjoint(_SHARES) and not words.isdisjoint(_OUTLIERS)
    return title.lstrip().startswith("#") or share or not words.isdisjoint(_OF_DATA)


def are_remarks(texts: Iterable[str]) -> bool:
    """Whether most texts are remarks about a line, parted by a dash or long: no names.

    >>> are_remarks(["Slow — no signal", "Fast — peak"]), are_remarks(["Energy (ours)", "MSP"])
    (True, False)
    """
    said = list(texts)
    remarks = [" — " in text or " – " in text or text.count(" ") >= _PROSE for text in said]
    return 2 * sum(remarks) > len(said)


def names_judgement(title: str) -> bool:
    """Whether a column says what to think of each line, such as improved.

    >>> names_judgement("Status"), names_judgement("Static")
    (True, False)
    """
    return plain(title) in _JUDGEMENTS


def names_parameters(title: str) -> bool:
    """Whether a column holds names of settings, whose values another column holds.

    >>> names_parameters("hyperparameter"), names_parameters("Parameter name")
    (True, True)
    """
    return plain(title).removesuffix("name") in _PARAMETERS


def names_level(title: str) -> bool:
    """Whether a title is a word for a level of some condition.

    >>> names_level("Easy"), names_level("Hard AP"), names_level("HardNet")
    (True, True, False)
    """
    return plain(title.split()[0] if title.split() else "") in _LEVELS


def are_data_files(texts: Iterable[str]) -> bool:
    """Whether texts are mostly names of files with data, such as time series or images.

    >>> are_data_files(["a.csv", "b c.csv"]), are_data_files(["resnet.pth", "knn"])
    (True, False)
    """
    names = list(texts)
    return 2 * sum(bool(_DATA_FILE.fullmatch(name.strip())) for name in names) > len(names)


def are_yes_or_no(texts: Iterable[str]) -> bool:
    """Whether texts merely say yes or no.

    >>> are_yes_or_no(["True", "False"]), are_yes_or_no(["0", "1"]), are_yes_or_no(["0", "2"])
    (True, True, False)
    """
    said = {plain(text) for text in texts}
    return bool(said) and said <= _YES_OR_NO


def names_truth(title: str) -> bool:
    """Whether a title is that of what is true of a sample: its label, or whether it is an outlier.

    >>> names_truth("ground_truth"), names_truth("is_anomaly"), names_truth("target")
    (True, True, False)
    """
    return plain(title) in _TRUTHS


def names_prediction(title: str) -> bool:
    """Whether a title is that of what a model says of a single sample.

    >>> names_prediction("y_pred"), names_prediction("top1_pred"), names_prediction("score")
    (True, True, False)
    """
    last = plain(re.split(r"[\W_]+", title.strip())[-1])
    return plain(title) in _PREDICTED or last in {"pred", "preds", "prediction", "predicted"}
