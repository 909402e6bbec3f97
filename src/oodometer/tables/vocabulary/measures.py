"""The metrics that titles of results tables name: how they are called, and which way is better."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from oodometer.factors import plain
from oodometer.tables.vocabulary.data_names import is_set
from oodometer.tables.vocabulary.names import is_detector


class Measure(NamedTuple):
    """A metric: its name here, whether higher is better, and whether it is a share of 1."""

    name: str
    higher: bool = True
    is_share: bool | None = True  # fractions or percentages; None: as their numbers look


class _Known(NamedTuple):
    """How titles call a metric; the first that matches wins."""

    pattern: re.Pattern[str]
    measure: Measure
    is_general: bool = False  # of classifiers and others; beside AUROC it is about the classifier


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|_)(?:{pattern})(?:_|$)")


_NOT_READ = Measure("")  # known, but neither of detection nor comparable
_DETECTION = (
    (r"(?:fpr|tnr)(?:_?at)?_?(?:tpr_?)?(?:80|90|98|99)", _NOT_READ),  # other points of the curve
    (r"(?:tpr|tar|recall)_?(?:at_?)?(?:\d+_)?\d+_?f[pa]r", _NOT_READ),
    (r"^(?:1|100)_(?:au_?roc|auc)|acc(?:uracy)?_?(?:at_?)?95_?tpr|autc", _NOT_READ),
    (r"failure_?(?:detection_?)?auroc|auroc_?failure", Measure("failure_auroc")),
    (r"incorrect_?(?:vs_?)?(?:ood_?)?auroc|auroc_?incorrect(?:_?ood)?", Measure("incorrect_auroc")),
    (r"(?<!in)correct_?(?:vs_?)?(?:ood_?)?auroc|auroc_?correct(?:_?ood)?",
     Measure("correct_auroc")),
    (r"au_?pro(?:_|$)|pro_?auc", Measure("AUPRO")),  # overlap of regions, not AUPR
    (r"(?:au_?prc?|pr_?auc|auc_?prc?)_?out(?:_|$)", Measure("aupr_out")),
    (r"(?:^|_)(?:auc_?pr(?:c|_|$)|pr_?auc(?!_?i[nd](?:_|$)))|au_?prc", Measure("AUPR")),
    (r"(?:aupr|pr_?auc)_?(?:in|id)(?:_|$)", Measure("aupr_in")),  # not AUPR iNaturalist
    (r"au_?c?_?roc|roc_?auc|(?:^|_)aucs?(?=_|$)|^au_c(?=_|$)", Measure("auroc")),
    (r"aupr(?!o(?:_|$))|pr_?auc|(?<!mean_)(?:average|avg)_?precision|^ap(?=$|_(?:std|sd|mean|avg)$)",
     Measure("AUPR")),  # of which class is not said
    (r"fpr(?:_?at)?_?(?:tpr_?)?95(?:_?tpr)?|fpr_?95|fpr$|fpr95tpr", Measure("fpr95", False)),
    (r"tnr(?:_?at)?_?(?:tpr_?)?95(?:_?tpr)?|tnr$", Measure("tnr95")),
    (r"detection_?err(?:or)?|det_?err(?:or)?|^de$", Measure("detection_error", False)),
    (r"detection_?acc(?:uracy)?|dt_?acc", Measure("detection_accuracy")),
    (r"(?:^|_)ccr(?:_|\d|$)", _NOT_READ),  # classification at a false positive rate
    (r"(?:^|_)(?:latency|g?flops|throughput|fps)(?:_|$)", _NOT_READ),
    (r"(?:^|_)(?:standard_error|std_?err(?:or)?)(?:_|$)", _NOT_READ),
    (r"(?:^|_)(?:n|num|ece|calibration)_bins$", _NOT_READ),  # a setting; not ECE (15 bins)
    (r"(?:^|_)(?:forgetting|[bf]wt)(?:_|$)", _NOT_READ),  # of continual learning: differences
)  # fmt: skip
# Metrics of classifiers, segmentation, regression, ... The order is that in which they are taken
# for the main one: accuracy before the precision and the recall that accompany it.
_GENERAL = (
    (r"(?:mean_|relative_)?corruption_err(?:or)?", Measure("corruption error", False, None)),
    (r"top_?1_?err(?:or)?", Measure("error rate", higher=False)),
    (r"top_?5_?err(?:or)?", Measure("top-5 error", higher=False)),
    (r"(?:mean|average|avg|m)_?(?:per_?)?class_?acc(?:uracy)?|macc"
     r"|bal(?:anced)?_?acc(?:uracy)?|(?:b|(?<![a-z0-9]_)b_)acc(?:uracy)?",  # not plant_b_accuracy
     Measure("balanced accuracy")),
    (r"worst_?(?:group|domain|class|case)_acc(?:uracy)?", Measure("worst-group accuracy")),
    (r"(?:top|acc(?:uracy)?(?:_at)?|prec(?:_at)?)_?5(?:_acc(?:uracy)?)?",
     Measure("top-5 accuracy")),
    (r"(?:top|acc(?:uracy)?(?:_at)?)_?(?:3|10)(?:_acc(?:uracy)?)?(?!_overlap)",
     Measure("top-k accuracy")),
    # Most pixels are background: their accuracy says less than the overlap.
    (r"m_?iou|(?:mean_)?iou|jaccard(?:_index)?", Measure("IoU")),
    (r"(?:m_?|mean_|avg_)dice|dice_(?:scores?|coef\w*|similarity|index)|dsc", Measure("Dice")),
    (r"pix(?:el)?_?(?:wise_)?acc(?:uracy)?", Measure("pixel accuracy")),
    (r"prec(?:_at)?_?1", Measure("accuracy")),
    (r"(?:overall_)?acc(?:uracy|uracies|s)?(?:_at)?_?1?|top_?1(?:_acc(?:uracy)?)?|oa"
     r"|\w*(?:准确率|準確率|准确度|正确率|正解率|정확도)|genauigkeit|exactitude|exactitud|acurácia",
     Measure("accuracy")),
    (r"(?:macro_?|micro_?|weighted_?)?f_?(?:1|beta|measure)(?:_?scores?)?|f1_(?:macro|micro)"
     r"|f1(?:值|分数|スコア|점수|스코어)",
     Measure("F1")),
    (r"h_?mean|harmonic_mean", Measure("H-mean")),  # of precision and recall, or of two groups
    # Of object detection: over all overlaps, or at one. Behind a sign it is a rank: mAP@50.
    (r"(?!map(?:50|75|_0_5|_0_75)(?!_(?:0_)?95)(?:_|$))m_?ap(?:_?\d+)*|mean_average_precision"
     r"|(?:box|bbox|mask)_ap|ap_?(?:50|0_5)_(?:0_)?95", Measure("mAP")),
    (r"(?:(?:b|box|bbox|mask)_?)?(?:m?ap(?:50|_0_5)|ap_50)(?!_(?:0_)?95)", Measure("AP50")),
    (r"(?:(?:b|box|bbox|mask)_?)?(?:m?ap(?:75|_0_75)|ap_75)", Measure("AP75")),
    (r"hota", Measure("HOTA")),
    (r"mota", Measure("MOTA", is_share=False)),
    (r"idf_?1", Measure("IDF1")),
    (r"mcc|matthews(?:_corr\w*)?", Measure("MCC", is_share=False)),
    (r"(?:cohens?_)?kappa|qwk", Measure("kappa", is_share=False)),
    (r"oscr", Measure("OSCR")),
    (r"c_?index|concordance(?:_index)?", Measure("C-index")),
    (r"(?<!attack_)success_rate", Measure("success rate")),
    (r"win_?rate", Measure("win rate")),
    (r"ndcg(?:_?(?:at_)?\d+)?", Measure("NDCG")),
    (r"mrr(?:_?(?:at_)?\d+)?", Measure("MRR")),
    (r"(?:hits?(?:_rate|_ratio)?|hr)(?:_at)?_?\d+", Measure("Hits")),
    (r"exact_match(?:_score)?", Measure("exact match")),
    (r"pass_?(?:at_?)?(?:k|\d+)", Measure("pass rate")),
    (r"vus_?pr", Measure("VUS-PR")),
    (r"vus_?roc", Measure("VUS-ROC")),
    (r"r_?2(?:_?score)?|r_?squared", Measure("R2", is_share=False)),
    (r"(?:adjusted_rand(?:_index)?|ari)", Measure("ARI", is_share=False)),
    (r"nmi", Measure("NMI")),
    (r"(?:sacre)?bleu(?:_?\d)?", Measure("BLEU", is_share=False)),
    (r"chrf", Measure("chrF", is_share=False)),
    (r"rouge(?:_?(?:1|2|l|lsum))?", Measure("ROUGE", is_share=False)),
    (r"psnr", Measure("PSNR", is_share=False)),
    (r"(?:si_?)?sdri?", Measure("SDR", is_share=False)),
    (r"ssim", Measure("SSIM", is_share=False)),
    (r"precision(?:_?(?:at_)?\d+)?|ppv|\w*(?:精确率|精準率|查准率|適合率|정밀도)|précision|präzision"
     r"|precisión|precisão", Measure("precision")),
    (r"recall(?:_?(?:at_)?\d+)?|sensitivity|tpr|(?:true_positive|hit|detection)_rate"
     r"|\w*(?:召回率|查全率|再現率|재현율)|rappel", Measure("recall")),
    (r"specificity", Measure("specificity")),
    (r"eer|equal_error_rate", Measure("EER", higher=False)),
    (r"der|diarization_error_rate", Measure("DER", higher=False, is_share=False)),
    (r"wer|word_error_rate", Measure("WER", higher=False, is_share=False)),
    (r"cer|char(?:acter)?_error_rate", Measure("CER", higher=False, is_share=False)),
    (r"ter|(?:token|translation)_error_rate", Measure("TER", higher=False, is_share=False)),
    (r"neg(?:ative)?_(?:(?:root_)?(?:mean|median)_(?:squared?|absolute)(?:_log|_percentage)?_error"
     r"|log_loss|brier_score)", Measure("negative error", is_share=False)),  # of scikit-learn
    (r"nll|neg(?:ative)?_log_?likelihood|log_?loss|cross_entropy(?:_loss)?",
     Measure("NLL", higher=False, is_share=False)),
    (r"(?:expected_)?cal(?:ibration)?_err(?:or)?|ece(?:_?\d+)?|mce",
     Measure("calibration error", higher=False)),
    (r"brier(?:_?scores?)?", Measure("Brier score", higher=False, is_share=False)),
    (r"rmse|root_mean_squared?_error", Measure("RMSE", higher=False, is_share=False)),
    (r"mse|mean_squared?_error", Measure("MSE", higher=False, is_share=False)),
    (r"mae|mean_absolute_error", Measure("MAE", higher=False, is_share=False)),
    (r"smape|symmetric_mean_absolute_percentage_error",
     Measure("sMAPE", higher=False, is_share=False)),
    (r"mape|mean_absolute_percentage_error", Measure("MAPE", higher=False, is_share=False)),
    (r"mase", Measure("MASE", higher=False, is_share=False)),
    (r"crps", Measure("CRPS", higher=False, is_share=False)),
    (r"wql", Measure("WQL", higher=False, is_share=False)),
    (r"wape", Measure("WAPE", higher=False, is_share=False)),
    (r"(?:episod(?:e|ic)_)?(?:returns?|rewards?)(?!_(?:conditioned|conditioning|model|scale|type))",
     Measure("return", is_share=False)),
    (r"ppl|perplexity", Measure("perplexity", higher=False, is_share=False)),
    (r"e_aurc|eaurc|excess_aurc", Measure("E-AURC", higher=False, is_share=False)),
    (r"aurc|ausc", Measure("AURC", higher=False, is_share=False)),
    (r"fid|kid", Measure("FID", higher=False, is_share=False)),
    (r"hd_?95|hausdorff(?:_distance)?", Measure("Hausdorff distance", higher=False,
                                                is_share=False)),
    (r"pearson(?:_?(?:r|corr\w*))?|plcc", Measure("Pearson correlation", is_share=False)),
    (r"spearman(?:_?(?:r|rho|corr\w*))?|srcc|srocc",
     Measure("Spearman correlation", is_share=False)),
    (r"(?:test_|val_|train_)?loss(?:es)?", Measure("loss", higher=False, is_share=False)),
    # Errors that are no shares of wrong answers: how far numbers are off.
    (r"(?:reconstruction|reconstr|recon|reproj(?:ection)?|rel(?:ative)?|abs(?:olute)?|squared"
     r"|approximation|estimation|tracking|position|pose|rotation|angular|depth|trajectory|median"
     r"|max(?:imum)?|quantization|quantisation|residual|gradient|energy|force)"
     r"_err(?:or)?s?", Measure("other error", higher=False, is_share=False)),
    (r"(?:classification_|test_)?err(?:or)?(?:_?rates?)?(?!_(?:detect|correct))"
     r"|misclassification(?:_rate)?", Measure("error rate", higher=False)),
)  # fmt: skip
KNOWN = (
    *(_Known(re.compile(pattern), measure) for pattern, measure in _DETECTION),
    *(_Known(_words(pattern), measure, is_general=True) for pattern, measure in _GENERAL),
)
MEASURES = {known.measure.name: known.measure for known in KNOWN if known.measure.name}
GENERAL = frozenset(known.measure.name for known in KNOWN if known.is_general)
OF_SERIES = frozenset({"VUS-PR", "VUS-ROC"})  # of detection in time series, beside AUROC, too
_PRECEDENCE = {name: place for place, name in enumerate(["accuracy", *MEASURES])} | {"accuracy": 0}
_LONGEST = 200  # letters: a longer title names no metric
_COMBINED = re.compile(r"\w\+\w.*\w\+\w")  # ROCKET+HCF+Inception-ppv: a name, no metric
_AROUND_METRICS = re.compile(
    r"%|at|in|out|test|eval|evaluation|metrics?|results?|scores?|roc|tpr|(?:tpr=?)?0?\.?95%?(?:tpr)?"
    r"|percent|pct|rates?"
)
_BETWEEN_WORDS = re.compile(r"(?:[\s_|:()\[\],↑↓@$]|(?<![A-Za-z])/|/(?!\d))+")  # not in ViT-B/16
_OURS = re.compile(r"(?<=[\w+]) ?\((ours|proposed)\)", re.IGNORECASE)  # part of a name
_RATE_OF = re.compile(r"rates? =?\d*\.?\d+", re.IGNORECASE)
_SPLIT = re.compile(r"train|training|val|valid|validation|dev|test|eval|final")
_REMARKS = re.compile(
    r"[(\[][^()\[\]]*(?:better|higher|lower|percent)[^()\[\]]*[)\]]|(?:±|\+/?-|\\pm)\s*\w+",
    re.IGNORECASE,
)
_CAMEL = re.compile(  # TrainLoss, but not FocalLoss
    r"(?<![A-Za-z])(Train|Val|Valid|Test|Eval|Mean|Avg|Macro|Micro|Weighted|Best|Final)(?=[A-Z])"
)
_SHORT = (  # names whose letters are capital or small
    (re.compile(r"(?<![^\W_])mCE(?![^\W_])"), "corruption_error"),  # MCE: of calibration
    (re.compile(r"(?<![^\W_])R@(?=\d)"), "recall@"),  # R2: of regression
    (re.compile(r"(?<=[^\W_][\s_|/])AP(?=\W*$)"), "average_precision"),  # beside a name: SVHN AP
)
_SETTING = re.compile(r"(?<![^\W_])(?!tpr)[a-z]+\s?=\s?[\d.]+", re.IGNORECASE)  # (r=2) is not R2
_BEST_SHARE = re.compile(r"\btop[-_ ]?\d+(?:\.\d+)?\s?%", re.IGNORECASE)  # of the samples
_PER_UNIT = re.compile(  # AUROC/MB is no AUROC
    r"(?i)\s*(?:/|\bper\b)\s*(?:[kmgt]i?b|[mg]?flops?|m?params?|parameters?|watts?|joules?|dollars?|\$"
    r"|gpu[ -]?hours?|seconds?|sec|ms)\b\.?"
)
# What belongs to a metric behind a dash or a dot: ROC-AUC, FPR-95, AUPR-IN, auroc.1.
_NO_NAME = re.compile(
    r"(?:[\d.%]+|e(?=$)|roc|auc|pr|au|in|out|id|tpr|fpr|at)(?![a-z])", re.IGNORECASE
)

# What is left of a metric beside a name: FPR@95TPR-SVHN, error_rate-SVHN, SVHN.roc_auc.
_REST = re.compile(
    r"^(?:95%?(?:tpr)?|tpr(?:95)?|rate)[.\-](?=\w)|(?<=\w)[.\-](?:roc|error)$", re.IGNORECASE
)


def joined(text: str) -> str:
    """Write a text in lower case, with one underscore between its words."""
    text = _SETTING.sub(" ", text) if "=" in text else text
    words = re.sub(r"[\W_]+", "_", text.replace("²", "2").casefold()).strip("_")
    return re.sub(r"_(?:percent|pct|percentage)(?=_(?!err)|$)", "", words)


def metric_named(title: str) -> str | None:
    """Return the metric that a title is about; "" for one that is known but not read, else None.

    >>> metric_named("AUROC ↑"), metric_named("FPR@95"), metric_named("CCR_4"), metric_named("svhn")
    ('auroc', 'fpr95', '', None)
    >>> metric_named("SVHN AP ↑"), metric_named("SVHN ap")
    ('AUPR', None)
    >>> metric_named("TestAccuracy"), metric_named("balanced_acc"), metric_named("DICE")
    ('accuracy', 'balanced accuracy', None)
    """
    return None if len(title) > _LONGEST else _metric_of(title)


@lru_cache(maxsize=2**14)  # titles and parts of them come again: 130 times per table
def _metric_of(title: str) -> str | None:
    if _BEST_SHARE.search(title) or _COMBINED.search(title):
        return None
    if _PER_UNIT.search(title):
        return "" if metric_named(_PER_UNIT.sub(" ", title)) is not None else None
    for short, name in _SHORT:
        title = short.sub(name, title)
    text = joined(_CAMEL.sub(r"\1_", title))
    for known in KNOWN:
        if known.pattern.search(text) and not (known.is_general and is_detector(title)):
            return known.measure.name
    first, _, rest = text.partition("_")
    if first != "fpr" or not rest:
        return None
    return "fpr95" if is_set(rest) or is_detector(rest) else ""  # of what, or at which threshold


def is_amid(title: str) -> bool:
    """Whether the word that names a metric has others on both sides, as within a longer name.

    >>> is_amid("word_recall_task"), is_amid("SVHN recall"), is_amid("test_mae_kcal")
    (True, False, False)
    """
    words = [word for word in joined(title).split("_") if not _SPLIT.fullmatch(word)]
    ends = (" ".join(words[1:]), " ".join(words[:-1]))
    return all(metric_named(part) == metric_named(title) for part in ends)


def measure_called(name: str) -> Measure | None:
    """Return the known metric of that name, in whatever case, or that such a title names.

    >>> measure_called("AUROC").name, measure_called("rmse").higher, measure_called("charm")
    ('auroc', False, None)
    """
    by_name = {plain(known): measure for known, measure in MEASURES.items()}
    return by_name.get(plain(name)) or MEASURES.get(metric_named(name) or "")


def without_metric(title: str) -> str:
    """Return what a title says besides its metric.

    >>> without_metric("SVHN AUROC"), without_metric("auroc_svhn"), without_metric("FPR@95 ↓")
    ('SVHN', 'svhn', '')
    >>> [without_metric(title) for title in ("iSUN.ROC-AUC", "pr_auc-s3dis", "top1_accuracy_wine")]
    ['iSUN', 's3dis', 'wine']
    >>> without_metric("noise_rate 0.1 AUROC")
    'noise rate 0.1'
    """
    if len(title) > _LONGEST:
        return title
    bare = _REMARKS.sub("", title)
    metric = metric_named(title)
    given = [word for word in _BETWEEN_WORDS.split(bare) if word]
    beside = zip(["", *given], given, [*given[1:], ""], strict=False)
    words = [part for before, word, after in beside for part in _apart(word, metric, before, after)]
    spans = [(end - start, start, end) for end in range(len(words) + 1) for start in range(end)]
    for _, start, end in sorted(spans):  # the shortest part of the title that says as much
        if metric_named(" ".join(words[start:end])) == metric:
            words = words[:start] + words[end:]
            break
    words = [_REST.sub("", word) for word in words]
    if metric and metric.endswith("accuracy"):  # top1_accuracy: either word names it
        words = [word for word in words if plain(word) not in ("acc", "accuracy")]
    said = [word for word in words if plain(word) or word in ("Ø", "∅", "+")]
    said = said[next((n for n, word in enumerate(said) if word != "+"), 0) :]
    after = [*said[1:], ""]  # the rate of 0.1 is one of something else: noise_rate 0.1
    text = " ".join(
        word
        for word, level in zip(said, after, strict=False)
        if not _AROUND_METRICS.fullmatch(word.casefold()) or _RATE_OF.fullmatch(f"{word} {level}")
    ).removesuffix(" +")
    mark = _OURS.search(bare)
    return text if mark is None else re.sub(rf"(?<=.) {mark[1]}\b", f" ({mark[1]})", text, count=1)


def _apart(word: str, metric: str | None, before: str, after: str) -> list[str]:
    """Part a word such as SVHN.auroc, AUROC-SVHN or SVHNAUROC; FPR-95 and auroc.1 stay whole.

    The words `before` and `after` it may be parts of the metric's name: bal. acc-SVHN.
    """
    best = [word]
    shortest = len(word)
    if metric in map(metric_named, (before, after)):  # the name is complete without this word
        before = after = ""
    for cut in range(1, len(word)):
        signed = word[cut] in ".-"
        front, back = word[:cut], word[cut + signed :]
        for named, other, whole in (
            (front, back, f"{before} {front}"),
            (back, front, f"{back} {after}"),
        ):
            near = re.split(r"[.\-]", other)[0 if other is back else -1]
            around = _NO_NAME.match(near) or _AROUND_METRICS.fullmatch(near.casefold())
            name = plain(other) and not around if signed else is_set(other)
            if name and len(named) < shortest and metric in map(metric_named, (named, whole)):
                best, shortest = [front, back], len(named)
    return best


def main_first(metrics: Iterable[str]) -> list[str]:
    """Order metrics: AUROC, then others of detection, then as they accompany each other.

    >>> main_first(["precision", "accuracy", "recall"]), main_first(["fpr95", "auroc"])
    (['accuracy', 'precision', 'recall'], ['auroc', 'fpr95'])
    """
    return sorted(metrics, key=_place)


def _place(name: str) -> tuple[bool, int, bool]:
    base = base_metric(name)
    return base != "auroc", _PRECEDENCE[base] if base in GENERAL else 0, base != name


def base_metric(name: str) -> str:
    """Return the metric behind a qualified one.

    >>> base_metric("clean accuracy"), base_metric("balanced accuracy"), base_metric("regret")
    ('accuracy', 'balanced accuracy', 'regret')
    """
    known = [metric for metric in MEASURES if name == metric or name.endswith(f" {metric}")]
    return max(known, key=len, default=name)
