"""What titles of columns say: roles, repeats, settings, costs."""

from __future__ import annotations

import re

from oodometer.factors import TITLES, plain, words_of

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
     "train", "trainset", "ind", "indset", "inddataset"}
)  # fmt: skip
# Data sets of either kind: those that classifiers are trained on, or outliers.
SET_TITLES = frozenset(
    {"dataset", "datasets", "datasetname", "datasetnames", "data", "dataname", "set", "setname",
     "benchmark", "bench", "benchmarkname", "datensatz", "datensätze", "données", "jeudedonnées",
     "conjuntodedatos", "データ", "データセット", "数据集", "데이터셋", "corpus"}
)  # fmt: skip
OOD_TITLES = SET_TITLES | frozenset(
    {"ood", "ooddataset", "oodset", "outdataset", "outofdistribution", "outdist", "dout",
     "testset", "testdataset", "target", "targetdataset", "outlier",
     "outliers", "outlierset", "oodtest", "ooddata", "oodname", "outofdistributiondataset",
     "testdatensatz", "donnéesood", "outofdist", "oodtestset", "test", "testedon", "oodbenchmark",
     "testood"}
)  # fmt: skip
# Titles of what may be compared, or be data: only where nothing else is.
MODEL_TITLES = (
    "modelfullname", "classifiername", "classifier", "classifiers", "modelname", "modelid", "model",
    "models", "framework", "frameworkname",
    "algorithmname", "algorithms", "algo", "estimator", "learner", "system", "technique",
    "strategy", "approaches", "variant", "ablation", "kernel", "name", "featureset", "tool",
    "solver", "tracker", "trackers",
    "modelo", "modèle", "modell", "模型", "モデル", "모델", "分类器", "分類器", "분류기",
    "classificador", "klassifikator", "classifieur", "算法", "アルゴリズム", "알고리즘",
)  # fmt: skip
ARCHITECTURE_TITLES = (
    "architecture", "arch", "network", "backbone", "encoder", "configuration", "config",
    "网络", "主干网络", "骨干网络", "架构", "配置", "구성",
)  # fmt: skip
# Words of titles that say that a column names what is compared: Training scheme, loss_fn.
COMPARED_WORDS = frozenset(
    {"method", "methods", "model", "models", "detector", "algorithm", "algo", "approach",
     "network", "net", "classifier", "architecture", "arch", "backbone", "encoder", "decoder",
     "loss", "strategy", "variant", "ablation", "experiment", "experiments", "exp", "setup",
     "setting", "settings", "config", "configuration", "scheme", "system", "technique", "pipeline",
     "optimizer", "regularizer", "augmentation", "estimator", "learner", "kernel", "policy",
     "agent", "baseline", "team", "submission", "entry", "solver", "framework", "library", "tool",
     "embedding", "embeddings", "tokenizer", "prompt", "prompting", "postprocessor", "scorer",
     "training", "pretraining", "objective", "aggregation", "fusion", "sampler", "sampling",
     "imputer", "scaler", "name", "arm", "arms", "row", "component", "components", "module",
     "modules", "features", "calibration", "revision", "revisions"}
)  # fmt: skip
WEAK_SET_TITLES = (
    "category", "categories", "task", "tasks", "groups", "problem", "domain", "environment",
    "env", "scene", "object", "objects", "language", "game", "subset", "city", "country",
    "hospital", "site", "institution", "slice", "shift",
)  # fmt: skip
# Words of titles whose column says of which data the numbers are.
DATA_WORDS = frozenset(
    {"sample", "samples", "data", "dataset", "class", "classes", "image", "images", "subject",
     "patient", "series", "file", "filename", "corruption", "domain", "category", "split", "group",
     "task", "tasks", "groups", "country", "language", "game", "environment", "set", "sets",
     "datasets", "categories", "domains", "corruptions", "subjects", "benchmark", "benchmarks",
     "bench", "day", "weekday", "month", "season", "hour", "gender", "sex", "age", "ethnicity",
     "race", "subgroup", "subpopulation", "region", "object", "objects"}
)  # fmt: skip
# Words of titles that say nothing about a model.
INCIDENTAL = frozenset(
    {"date", "time", "timestamp", "commit", "host", "hostname", "user", "path", "log", "url",
     "link", "paper", "venue", "reference", "notes", "note", "description", "comment", "hash",
     "created", "source", "code", "citation", "info", "license", "licencia", "备注", "说明", "비고"}
)  # fmt: skip
# Words of titles of what training started from.
_STARTS = frozenset({"weights", "init", "initialization", "initialisation", "upstream"})
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
REPEAT_WORD = "|".join(  # in regular expressions: seed, run_id
    re.sub(r"(?<=\w)(id|idx|index|seed|fold)$", r"[\\s_-]?\1", title)
    for title in sorted(REPEAT_TITLES, key=len, reverse=True)
)
# Titles of columns that say over how many runs a mean is.
RUN_COUNT_TITLES = frozenset(
    {"n", "runs", "nruns", "numruns", "numberofruns", "seeds", "nseeds", "numseeds",
     "numberofseeds", "nreplicates", "numreplicates", "nreps",
     "trials", "ntrials", "numtrials", "repetitions", "repeats",
     "nrepeats", "replicates", "count", "folds", "nfolds", "numfolds"}
)  # fmt: skip
# Words of titles that name some quantity; columns of several such are nothing to average.
QUANTITIES = frozenset(
    {"median", "iqr", "quantile", "percentile", "variance", "confidence", "uncertainty", "entropy",
     "probability", "prob", "rate", "ratio", "error", "threshold", "num", "number", "nb", "length",
     "len", "min", "max", "minimum", "maximum", "std", "avg", "average", "mean", "total", "norm",
     "skew", "kurtosis", "coverage", "correlation", "corr", "duration", "bytes", "errors",
     "failures", "mistakes"}
)  # fmt: skip
_SETTINGS = re.compile(
    r"lr|learningrate|weightdecay|wd|epochs?|batchsize|bs|width|depth|temperature|k|eps(ilon)?|"
    r"trainsize|layers?|momentum|dropout|noise|noiserate|step|episode|iteration|index|year|params|"
    r"parameters|nsamples|samples|size|id|rank|place|level|severity|alpha|beta|gamma|lambda"
)
# Words of titles that name a setting, whatever stands beside them.
_SETTING_WORDS = frozenset(
    {"size", "layers", "width", "depth", "lr", "shots", "shot", "level", "severity", "dim",
     "dimension", "epochs", "temperature", "horizon", "sparsity", "noise", "budget", "order",
     "bits", "degree", "strength", "stage", "length", "classes", "neighbors", "clusters",
     "components"}
)  # fmt: skip
# Words of titles whose numbers are no results of detectors.
NO_RESULTS = frozenset(
    {"ms", "gb", "mb", "speed", "p", "pvalue", "pvalues", "improvement", "diff", "difference", "δ",
     "year", "epochs", "gain", "delta", "rank", "citations"}
)  # fmt: skip


def is_incidental(title: str) -> bool:
    """Whether a title is that of a remark or a circumstance, which no result depends on.

    >>> is_incidental("Git commit"), is_incidental("optimizer")
    (True, False)
    """
    return not INCIDENTAL.isdisjoint(words_of(title))


def is_pretraining(title: str) -> bool:
    """Whether a column says what models were pretrained on, before any data set of the table.

    >>> is_pretraining("Pretrained on"), is_pretraining("weights"), is_pretraining("train set")
    (True, True, False)
    """
    words = words_of(title)
    return any(w.startswith("pretrain") or w in _STARTS for w in words)


def names_outliers(title: str) -> bool:
    """Whether a title says that a column holds outlier sets, not just data sets to test on.

    >>> names_outliers("OOD set"), names_outliers("test_set")
    (True, False)
    """
    short = plain(title)
    return short in OOD_TITLES and ("ood" in short or "out" in short)


def repeat_name(title: str) -> str | None:
    """Return the common name of a column that merely numbers repeats, else None.

    >>> repeat_name("Random seed"), repeat_name("Lauf"), repeat_name("optimizer")
    ('seed', 'run', None)
    """
    title = plain(title)
    return TITLES[title].name or title if title in REPEAT_TITLES else None


def is_setting(title: str) -> bool:
    """Whether a title is that of something that people set.

    >>> is_setting("Learning rate"), is_setting("n_shots")
    (True, False)
    """
    short = plain(title)
    apart = len(short) < 4 and re.search(r"[\s>→]", title.strip())  # W → D is not weight decay
    return bool(_SETTINGS.fullmatch(short)) and not apart


def mentions_setting(title: str) -> bool:
    """Whether some word of a title names a setting, so that the levels below it mean something.

    >>> mentions_setting("Learning rate"), mentions_setting("n_shots"), mentions_setting("batch")
    (True, True, False)
    """
    words = words_of(title)
    return is_setting(title) or not words.isdisjoint(_SETTING_WORDS)
