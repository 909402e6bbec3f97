"""How people call things in results tables: detectors, roles of columns, metrics."""

from __future__ import annotations

import re

from oodometer.factors import TITLES, plain

# Column titles, lower case without signs, that tell what a column holds.
DETECTOR_TITLES = frozenset(
    {"detector", "detectors", "method", "methods", "ooddetector", "oodmethod", "postprocessor",
     "algorithm", "approach", "score", "scorefunction", "scoringfunction", "confidence",
     "methodname", "detectorname", "modelmethod", "detectionmethod", "verfahren", "methode",
     "méthode", "méthodes", "método", "metodo", "detektor", "détecteur", "手法", "方法", "방법"}
)  # fmt: skip
ID_TITLES = frozenset(
    {"id", "iid", "iddataset", "iiddataset", "indataset", "indistribution", "indist", "idset",
     "indistributiondataset", "source", "sourcedataset", "din", "idata", "iddata", "trainedon",
     "train", "trainset"}
)  # fmt: skip
OOD_TITLES = frozenset(
    {"ood", "ooddataset", "oodset", "outdataset", "outofdistribution", "outdist", "dout",
     "dataset", "datasets", "testset", "testdataset", "target", "targetdataset", "outlier",
     "outliers", "outlierset", "oodtest", "ooddata", "oodname", "outofdistributiondataset", "set",
     "datensatz", "datensätze", "testdatensatz", "donnéesood", "données", "jeudedonnées",
     "conjuntodedatos", "データ", "データセット", "数据集", "데이터셋", "outofdist", "oodtestset",
     "test", "testedon", "benchmark", "oodbenchmark"}
)  # fmt: skip
# Numbers about the classifier of a run, not about a detector.
COVARIATE_TITLES = frozenset(
    {"acc", "accuracy", "idaccuracy", "idacc", "testaccuracy", "testacc", "valaccuracy", "valacc",
     "top1", "loss", "testloss", "valloss", "trainloss", "ece", "noiserate", "time", "seconds",
     "duration", "runtime", "fittime", "scoretime", "numclasses", "nclasses", "classes"}
)  # fmt: skip
# Titles of repeats, and of names that a cluster or an experiment tracker gave to runs.
REPEAT_TITLES = frozenset(
    title for title, said in TITLES.items() if said.kind == "repeat" and not said.is_job
)
JOB_TITLES = frozenset(title for title, said in TITLES.items() if said.is_job)
REPEAT_WORD = "|".join(sorted(REPEAT_TITLES, key=len, reverse=True))  # in regular expressions
# Titles of columns that say over how many runs a mean is.
RUN_COUNT_TITLES = frozenset(
    {"n", "runs", "nruns", "numruns", "numberofruns", "seeds", "nseeds", "numseeds",
     "numberofseeds", "trials", "ntrials", "numtrials", "repetitions", "repeats",
     "nrepeats", "replicates", "count"}
)  # fmt: skip

# Metric -> how it is called, and whether higher is better. The first match wins.
_METRICS: tuple[tuple[str, str, bool], ...] = (
    (r"(?:fpr|tnr)(?:_?at)?_?(?:tpr_?)?(?:80|90|98|99)", "", True),  # other points of the curve
    (r"(?:^|_)(?:1|100)_(?:au_?roc|auc)|acc(?:uracy)?_?(?:at_?)?95_?tpr|autc", "", True),
    (r"failure_?(?:detection_?)?auroc|auroc_?failure", "failure_auroc", True),
    (r"incorrect_?(?:vs_?)?(?:ood_?)?auroc|auroc_?incorrect(?:_?ood)?", "incorrect_auroc", True),
    (r"(?<!in)correct_?(?:vs_?)?(?:ood_?)?auroc|auroc_?correct(?:_?ood)?", "correct_auroc", True),
    (r"(?:^|_)(?:auc_?pr(?:c|_|$)|pr_?auc(?!_?i[nd](?:_|$)))|au_?prc", "aupr_out", True),
    (r"au_?roc|roc_?auc|auc_?roc|^auc$|^au_?c(?=_|$)|(?:^|_)auc$", "auroc", True),
    (r"aupr_?in|pr_?auc_?in|aupr_?id", "aupr_in", True),
    (r"aupr|pr_?auc|average_?precision|^ap$", "aupr_out", True),
    (r"fpr(?:_?at)?_?(?:tpr_?)?95(?:_?tpr)?|fpr_?95|fpr$|fpr95tpr", "fpr95", False),
    (r"tnr(?:_?at)?_?(?:tpr_?)?95(?:_?tpr)?|tnr$", "tnr95", True),
    (r"detection_?err(?:or)?|det_?err(?:or)?|^de$", "detection_error", False),
    (r"detection_?acc(?:uracy)?|dt_?acc", "detection_accuracy", True),
    (r"ccr_?\d+", "", True),  # classification under a false positive rate: another question
    (r"(?:^|_)(?:nll|ece|mce|brier(?:_score)?|r?mse|mae|(?:e_)?aurc|ausc|f1(?:_score)?|mcc|oscr|eer|"
     r"precision|recall|specificity|sensitivity|latency|g?flops|throughput|fps)(?:_|$)", "", True),
)  # fmt: skip
HIGHER_IS_BETTER = {name: higher for _, name, higher in _METRICS if name}

KNOWN_DETECTORS = frozenset(
    {"adascale", "adascalea", "adascalel", "ae", "aethreshold", "arpl", "ascood", "ash", "ashb",
     "ashp", "ashs", "augmix", "baseline",
     "binclass", "cider", "combood", "conf", "confbranch", "cosine", "csi", "cutmix",
     "deepensemble", "dice", "dropout", "ebo", "energy", "ensemble", "entropy", "fdbd", "fe",
     "freeenergy", "gaussianmixture", "gen", "generalizedentropy", "gmm", "godin", "gradnorm",
     "gram", "iforest", "iodin", "isolationforest", "klm", "klmatching", "knn", "knnsvm",
     "line", "localoutlierfactor", "lof", "lofc", "lofe", "logisticsvm", "logitnorm", "lts",
     "mah", "maha", "mahalanobis", "margin", "maxlogit", "maxsoftmax", "maxsoftmaxprobability",
     "mcd", "mcdropout", "mds", "mdsens", "mdsensemble", "mixoe", "ml", "mls", "msp",
     "mos", "mutualinformation", "nac", "nci", "neco", "nnguide", "npos", "ocsvm", "odin", "oe",
     "oneclasssvm", "opengan", "openmax", "otod", "ours", "outlierexposure", "palm", "proposed",
     "softmax", "ssd", "t2fnorm", "tempscaling", "weiper", "weiperkld", "pixelcnn", "pixmix",
     "pnml",
     "rankfeat", "react", "relation", "relativemahalanobis", "residual", "rmds", "rotpred",
     "rts", "scale", "scoresvm", "she",
     "simplifiedhopfield", "temperaturescaling", "tempscale", "udg", "vae", "vim", "vos", "vra",
     "weightedenergy"}
)  # fmt: skip
# Lines of a table that are means of other lines.
AVERAGES = frozenset(
    {"nearood", "farood", "average", "avg", "mean", "overall", "all", "averageood", "total",
     "meanood", "avgood", "moyenne", "mittelwert", "durchschnitt", "media", "promedio",
     "near", "far", "nearoodavg", "faroodavg", "fsnearood"}
)  # fmt: skip
_AVERAGE = re.compile(  # Mean over sets, Avg. (4), Average (far)
    r"(?:avg|average|averaged|mean|ø|∅|mittel|mittelwert|durchschnitt|moyenne|promedio)"
    r"(?:over|of|across|for|on|all|the|ood|id|near|far|out|outlier|sets?|data|datasets?|methods?|"
    r"detectors?|outliers?|\d+)*"
)
_AROUND_METRICS = re.compile(
    r"%|at|in|out|test|val|eval|evaluation|metrics?|results?|scores?|roc|tpr|(?:tpr=?)?0?\.?95%?(?:tpr)?"
)
_REMARKS = re.compile(
    r"[(\[][^()\[\]]*(?:better|higher|lower|percent)[^()\[\]]*[)\]]|(?:±|\+/?-|\\pm)\s*\w+",
    re.IGNORECASE,
)
# What belongs to a metric behind a dash or a dot: ROC-AUC, FPR-95, AUPR-IN, auroc.1.
_NO_NAME = re.compile(r"(?:[\d.%]+|roc|auc|pr|au|in|out|id|tpr|fpr|at)(?![a-z])", re.IGNORECASE)
MEANS = frozenset({"mean", "avg", "average", "mu"})
SPREADS = frozenset({"std", "stdev", "stddev", "sd", "standarddeviation", "spread", "sigma"})
OTHER_STATISTICS = frozenset(
    {"min", "max", "median", "range", "delta", "rank", "sem", "stderr", "se", "ci", "ci95", "low",
     "high", "lo", "hi", "lower", "upper", "variance", "var", "count", "best", "worst", "gain"}
)  # fmt: skip
# Words of titles whose numbers are no results of detectors.
NO_RESULTS = frozenset(
    {"params", "parameters", "time", "times", "seconds", "ms", "hours", "flops", "gflops", "macs",
     "latency", "memory", "gb", "mb", "speed", "throughput", "p", "pvalue", "pvalues",
     "improvement", "diff", "difference", "δ", "year", "epochs", "cost", "gain", "delta", "rank",
     "citations"}
)  # fmt: skip
# Names of data sets that people take for ID or for outliers.
KNOWN_SETS = frozenset(
    {"cifar", "cifar10", "cifar100", "cub", "dtd", "eurosat", "fashionmnist", "fmnist", "fer2013",
     "food101", "gaussian", "gaussiannoise", "gtsrb", "imagenet", "imagenet1k", "imagenet200",
     "imageneto", "imagenetr", "imagenetc", "inaturalist", "isun", "kmnist", "kuzushijimnist",
     "lsun", "lsunc", "lsuncrop", "lsunr", "lsunresize", "mnist", "ninco", "noise", "notmnist",
     "omniglot", "openimage", "openimageo", "openimages", "place365", "places", "places365",
     "ssbhard", "stl10", "sun", "svhn", "texture", "textures", "tin", "tinyimagenet", "tinyimages",
     "uniform", "uniformnoise", "usps", "clothing1m", "imagenet21k", "celeba", "coco", "voc"}
)  # fmt: skip


def _joined(text: str) -> str:
    return re.sub(r"[\W_]+", "_", text.casefold()).strip("_")


def metric_named(title: str) -> str | None:
    """Return the metric that a title is about; "" for one that is known but not read, else None.

    >>> metric_named("AUROC ↑"), metric_named("FPR@95"), metric_named("CCR_4"), metric_named("svhn")
    ('auroc', 'fpr95', '', None)
    """
    text = _joined(title)
    for pattern, name, _ in _METRICS:
        if re.search(pattern, text):
            return name
    return None


def metrics_in(text: str) -> set[str]:
    """Return the metrics that a text mentions.

    >>> sorted(metrics_in("Table 2: FPR@95TPR (%) on CIFAR-10"))
    ['fpr95']
    """
    words = _joined(text)
    return {name for pattern, name, _ in _METRICS if name and re.search(pattern, words)}


def without_metric(title: str) -> str:
    """Return what a title says besides its metric.

    >>> without_metric("SVHN AUROC"), without_metric("auroc_svhn"), without_metric("FPR@95 ↓")
    ('SVHN', 'svhn', '')
    """
    bare = _REMARKS.sub("", title)
    metric = metric_named(title)
    words = [
        part
        for word in re.split(r"[\s_/|:()\[\],↑↓@$]+", bare)
        if word
        for part in _apart(word, metric)
    ]
    spans = [(end - start, start, end) for end in range(len(words) + 1) for start in range(end)]
    for _, start, end in sorted(spans):  # the shortest part of the title that says as much
        if metric_named(" ".join(words[start:end])) == metric:
            words = words[:start] + words[end:]
            break
    said = [word for word in words if plain(word) or word in ("Ø", "∅")]
    return " ".join(word for word in said if not _AROUND_METRICS.fullmatch(word.casefold()))


def _apart(word: str, metric: str | None) -> list[str]:
    """Part a word such as SVHN.auroc, AUROC-SVHN or SVHNAUROC; FPR-95 and auroc.1 stay whole."""
    best = [word]
    shortest = len(word)
    for cut in range(1, len(word)):
        signed = word[cut] in ".-"
        front, back = word[:cut], word[cut + signed :]
        for named, other in ((front, back), (back, front)):
            name = plain(other) and not _NO_NAME.match(other) if signed else is_set(other)
            if name and len(named) < shortest and metric_named(named) == metric:
                best, shortest = [front, back], len(named)
    return best


def is_set(name: str) -> bool:
    """Whether a name is that of a data set that people use.

    >>> is_set("CIFAR-10"), is_set("Places365"), is_set("MSP")
    (True, True, False)
    """
    return plain(name) in KNOWN_SETS


def is_average(title: str) -> bool:
    """Whether a title says that its numbers are means of others.

    >>> is_average("Near-OOD"), is_average("Far-OOD Avg."), is_average("SVHN")
    (True, True, False)
    """
    last = re.split(r"[\s_/|:()]+", title.strip())[-1]
    if plain(title) in AVERAGES or plain(last) in ("avg", "average", "mean", "moyenne"):
        return True
    return bool(_AVERAGE.fullmatch(plain(title)) or title.strip() in ("Ø", "∅"))


def repeat_name(title: str) -> str | None:
    """Return the common name of a column that merely numbers repeats, else None.

    >>> repeat_name("Random seed"), repeat_name("Lauf"), repeat_name("optimizer")
    ('seed', 'run', None)
    """
    title = plain(title)
    return TITLES[title].name or title if title in REPEAT_TITLES else None


def is_detector(name: str) -> bool:
    """Whether a name is that of a detector that people use.

    >>> is_detector("MSP"), is_detector("KNN (k=50)"), is_detector("SVHN")
    (True, True, False)
    """
    return plain(re.sub(r"[(\[].*", "", name)) in KNOWN_DETECTORS
