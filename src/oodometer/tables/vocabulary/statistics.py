"""Words that say how numbers were made of others: means, spreads, forms of a metric."""

from __future__ import annotations

import re

from oodometer.factors import plain, words_of

# Words that say which of several metrics, not on which data set.
_SPLITS = frozenset(
    {"train", "training", "val", "valid", "validation", "dev", "testing", "image", "pixel", "i",
     "p", "imagelevel", "pixellevel", "level", "px", "sp", "img", "pix", "submission",
     "leaderboard", "lb", "kaggle", "holdout", "heldout"}
)  # fmt: skip
_OF_SPLITS = frozenset({"on", "the", "set", "split", "data", "partition"})  # submission set
_QUALIFIERS = _SPLITS | frozenset(
    {"clean", "robust", "standard", "natural", "adversarial", "certified", "segmentation",
     "localization", "sample", "instance", "classification", "zero", "shot", "zeroshot", "fewshot",
     "linear", "probe", "final", "last", "aa", "autoattack", "pgd", "fgsm", "macro", "micro",
     "weighted", "nominal", "benign", "adv", "pa", "nonpa", "non", "raw", "event", "point", "range",
     "segment", "r", "t", "based", "adjusted", "pointadjusted", "pointwise", "eventbased",
     "rbased", "affiliation", "norm", "normalized", "normalised", "strict", "estricta", "lenient",
     "relaxed", "loose", "exact", "bit", "token", "char", "character", "word", "sentence", "seq",
     "sequence", "sent", "bound", "boundary", "phrase", "span", "entity", "slot", "intent", "field",
     "critical",
     "adaptive", "static", "classwise", "balanced", "unbalanced",
     "corrupted", "corruption", "perturbed", "aligned", "conflict", "conflicting", "biased",
     "unbiased",
     "minority", "majority"}
)  # fmt: skip
_STORED_AS = re.compile(r"(?:fp|f|bf|float|int|uint|q)(?:2|4|8|16|32|64)(?:bit)?")  # int8, fp16
# Words for data like those of training, beside which "ood" says which of two metrics.
INSIDE = frozenset({"id", "iid", "ind", "indomain", "indistribution", "insample"})
# Names of lines and columns that may be computed from the others; their numbers decide.
SUMMARIES = frozenset(
    {"wins", "win", "losses", "ties", "rank", "ranks", "ranking", "delta", "diff", "difference",
     "gain", "improvement", "sum", "count", "best", "worst", "std", "stdev", "stddev", "sd",
     "standarddeviation", "spread", "sigma", "median", "min", "max", "range", "variance", "var"}
)  # fmt: skip
# Lines of a table that are means of other lines.
AVERAGES = frozenset(
    {"平均", "平均值", "평균", "среднее", "nearood", "farood", "average", "avg", "mean", "overall",
     "all", "macroall", "averageood", "total", "aggregate", "aggregated",
     "meanood", "avgood", "moyenne", "mittelwert", "durchschnitt", "media", "média", "promedio",
     "near", "far", "nearoodavg", "faroodavg", "fsnearood"}
)  # fmt: skip
_MU = re.compile(r"\$?(?:\\mu|μ)(?![A-Za-z])")  # as papers write a mean; not μJ
_AVERAGE = re.compile(  # Mean over sets, Avg. (4), Average (far)
    r"(?:avg|average|averaged|mean|ø|∅|mittel|mittelwert|durchschnitt|moyenne|promedio)"
    r"(?:over|of|across|for|on|all|the|ood|id|near|far|out|outlier|sets?|data|datasets?|methods?|"
    r"detectors?|outliers?|perf|performance|scores?|results?|values?|accuracy|acc|auroc|auc|ranks?|"
    r"ranking|tasks?|best|last|final|\d+)*"
)
_ALL = re.compile(  # All classes, all texture classes
    r"(?i)(?:all|total)\s+(?:\w+\s+){0,2}(?:classes|categories|objects|textures|datasets|sets|tasks|domains)"
)
_IN_BRACKETS = re.compile(r"\s*\([^()]*\)\s*$")  # Avg(math6)
_SPREAD_BEHIND = re.compile(r"\s*(?:±|\+/-).*")  # mean ± 95% CI
_LAST_WORDS = frozenset({"avg", "average", "mean", "moyenne", "macro", "overall"})
MEANS = frozenset({"mean", "avg", "average", "mu", "平均", "平均值", "均值", "평균"})
SPREADS = frozenset(
    {"std", "stdev", "stddev", "sd", "standarddeviation", "spread", "sigma", "desvio",
     "desviopadrão", "desviaciónestándar", "écarttype", "standardabweichung", "标准差",
     "標準偏差", "표준편차"}
)  # fmt: skip
OTHER_STATISTICS = frozenset(
    {"min", "max", "median", "range", "delta", "rank", "sem", "stderr", "se", "ci", "ci95", "low",
     "high", "lo", "hi", "lower", "upper", "variance", "var", "count", "best", "worst", "gain"}
)  # fmt: skip


def is_average(title: str) -> bool:
    """Whether a title says that its numbers are means of others.

    >>> is_average("Near-OOD"), is_average("Far-OOD Avg."), is_average("SVHN")
    (True, True, False)
    """
    title = _SPREAD_BEHIND.sub("", title)
    last = re.split(r"[\s_/|:()]+", title.strip())[-1]
    ends = title.endswith(("平均", "平均值", "均值", "평균"))
    return ends or plain(last) in _LAST_WORDS or is_mere_average(title)


def is_mere_average(title: str) -> bool:
    """Whether a title says that its numbers are means of others, and nothing else.

    >>> is_mere_average("Avg(math6)"), is_mere_average("trimmed_mean"), is_average("trimmed_mean")
    (True, False, True)
    """
    title = _SPREAD_BEHIND.sub("", title)
    signs = title.strip() in ("Ø", "∅") or _MU.match(title) or _ALL.fullmatch(title.strip())
    said = plain(_IN_BRACKETS.sub("", title) if plain(title) not in AVERAGES else title)
    return said in AVERAGES | _LAST_WORDS or bool(_AVERAGE.fullmatch(said) or signs)


def is_statistic(title: str) -> bool:
    """Whether some word of a title names a statistic of numbers.

    >>> is_statistic("rho_all_median"), is_statistic("lambda")
    (True, False)
    """
    words = words_of(title)
    return not words.isdisjoint(MEANS | SPREADS | OTHER_STATISTICS)


def without_words_for_splits(what: str) -> str:
    """Return which split of the data words name, without those that merely say that it is one.

    >>> without_words_for_splits("on submission set"), without_words_for_splits("on set")
    ('submission', '')
    >>> without_words_for_splits("SVHN set")
    'SVHN set'
    """
    words = what.split()
    rest = [word for word in words if plain(word) not in _OF_SPLITS]
    return " ".join(rest) if is_qualifier(" ".join(rest), of_sets=True) else what


def is_qualifier(words: str, *, of_sets: bool = False) -> bool:
    """Whether words say which of several metrics; beside data sets "clean" may be one of them.

    >>> is_qualifier("Pixel-Level"), is_qualifier("clean"), is_qualifier("clean", of_sets=True)
    (True, True, False)
    """
    known = _SPLITS if of_sets else _QUALIFIERS
    said = words_of(words)
    return all(word in known or _STORED_AS.fullmatch(word) for word in said)
