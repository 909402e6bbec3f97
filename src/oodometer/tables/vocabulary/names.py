"""How people call things in results tables: detectors, data sets, roles of columns."""

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
     "benchmark", "datensatz", "datensätze", "données", "jeudedonnées", "conjuntodedatos", "データ",
     "データセット", "数据集", "데이터셋", "corpus"}
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
    "strategy", "approaches", "variant", "ablation", "kernel", "name", "featureset",
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
     "modules", "features", "calibration"}
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
     "day", "weekday", "month", "season", "hour", "gender", "sex", "age", "ethnicity", "race",
     "subgroup", "subpopulation", "region", "object", "objects"}
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
     "numberofseeds", "trials", "ntrials", "numtrials", "repetitions", "repeats",
     "nrepeats", "replicates", "count", "folds", "nfolds", "numfolds"}
)  # fmt: skip

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
# Families of classifiers and of detectors that are fitted to each data set anew.
_MODELS = re.compile(
    r"(?:wide|pre)?(?:res|dense|mobile|efficient|squeeze|shuffle|conv|reg|alex|google|le|u|vgg)net"
    r"|inception|xception|vgg|vit|deit|swin|bert|roberta|deberta|distilbert|gpt|llama|mistral|clip"
    r"|mlp|fcn|lstm|gru|rnn|svm|svc|randomforest|xgb|lightgbm|lgbm|catboost|adaboost|gradientboost"
    r"|histgradient|logisticregression|naivebayes|decisiontree|transformer|autoencoder|tabnet|tabpfn"
    r"|meanteacher|[a-z]{0,5}cnn|[a-z]lenet|rocket|minirocket|linearregression|ridge|lasso"
)
_FITTED = frozenset(
    {"abod", "ae", "anogan", "autoencoder", "cblof", "cof", "copod", "dagmm", "deepsvdd", "ecod",
     "fb", "featurebagging", "gaal", "gmm", "goad", "hbos", "iforest", "inne", "isolationforest",
     "kde", "knn", "loda", "lof", "lscp", "lunar", "mcd", "mogaal", "mp", "neutral", "norma",
     "ocsvm", "oneclasssvm", "pca", "rrcf", "slad", "sod", "sogaal", "sos", "suod", "vae", "xgbod",
     "localoutlierfactor", "lstm", "cnn", "iforest1", "poly", "damp", "usad", "anomalytransformer"}
)  # fmt: skip
# Names of detectors that tables of other things hold, too.
_GENERIC = frozenset(
    {"ours", "baseline", "proposed", "ensemble", "dropout", "softmax", "augmix", "cutmix",
     "cosine", "margin", "relation", "ml", "line", "gen", "scale", "deepensemble", "pixmix",
     "conf", "residual", "entropy", "ae", "vae", "gmm", "knn", "mcdropout", "gaussianmixture"}
)  # fmt: skip
# Words of titles that name some quantity; columns of several such are nothing to average.
QUANTITIES = frozenset(
    {"median", "iqr", "quantile", "percentile", "variance", "confidence", "uncertainty", "entropy",
     "probability", "prob", "rate", "ratio", "error", "threshold", "num", "number", "nb", "length",
     "len", "min", "max", "minimum", "maximum", "std", "avg", "average", "mean", "total", "norm",
     "skew", "kurtosis", "coverage", "correlation", "corr", "duration", "bytes"}
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
# Words that say which of several metrics, not on which data set.
_SPLITS = frozenset(
    {"train", "training", "val", "valid", "validation", "dev", "testing", "image", "pixel", "i",
     "p", "imagelevel", "pixellevel", "level", "px", "sp", "img", "pix"}
)  # fmt: skip
_QUALIFIERS = _SPLITS | frozenset(
    {"clean", "robust", "standard", "natural", "adversarial", "certified", "segmentation",
     "localization", "sample", "instance", "classification", "zero", "shot", "zeroshot", "fewshot",
     "linear", "probe", "final", "last", "aa", "autoattack", "pgd", "fgsm", "macro", "micro",
     "weighted", "nominal", "benign", "adv", "pa", "nonpa", "non", "raw", "event", "point", "range",
     "segment", "r", "t", "based", "adjusted", "pointadjusted", "pointwise", "eventbased",
     "rbased", "affiliation", "norm", "normalized", "normalised", "strict", "estricta", "lenient",
     "relaxed", "exact", "bit", "token", "char", "character", "word", "sentence", "seq", "sequence",
     "sent", "bound", "boundary", "phrase", "span", "entity", "slot", "intent", "field",
     "critical",
     "adaptive", "static", "classwise", "balanced", "unbalanced",
     "corrupted", "perturbed"}
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
     "all", "averageood", "total", "aggregate", "aggregated",
     "meanood", "avgood", "moyenne", "mittelwert", "durchschnitt", "media", "média", "promedio",
     "near", "far", "nearoodavg", "faroodavg", "fsnearood"}
)  # fmt: skip
_MU = re.compile(r"\$?(?:\\mu|μ)(?![A-Za-z])")  # as papers write a mean; not μJ
_AVERAGE = re.compile(  # Mean over sets, Avg. (4), Average (far)
    r"(?:avg|average|averaged|mean|ø|∅|mittel|mittelwert|durchschnitt|moyenne|promedio)"
    r"(?:over|of|across|for|on|all|the|ood|id|near|far|out|outlier|sets?|data|datasets?|methods?|"
    r"detectors?|outliers?|perf|performance|scores?|results?|values?|accuracy|acc|auroc|auc|ranks?|"
    r"ranking|tasks?|\d+)*"
)
_ALL = re.compile(  # All classes, all texture classes
    r"(?i)(?:all|total)\s+(?:\w+\s+){0,2}(?:classes|categories|objects|textures|datasets|sets|tasks|domains)"
)
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
# Words of titles whose numbers are no results of detectors.
NO_RESULTS = frozenset(
    {"params", "parameters", "time", "times", "seconds", "ms", "hours", "flops", "gflops", "macs",
     "latency", "memory", "gb", "mb", "speed", "throughput", "p", "pvalue", "pvalues",
     "improvement", "diff", "difference", "δ", "year", "epochs", "cost", "gain", "delta", "rank",
     "citations"}
)  # fmt: skip
# Words of titles of what a method costs, which is neither a result nor a setting.
_COSTS = frozenset(
    {"time", "times", "seconds", "hours", "minutes", "runtime", "walltime", "flops", "gflops",
     "macs", "latency", "memory", "throughput", "fps", "params", "parameters", "cost", "gpu",
     "duration", "elapsed", "speedup", "kwh", "usd", "zeit", "laufzeit", "dauer", "temps",
     "durée", "tiempo", "时间", "耗时", "用时"}
)  # fmt: skip
_UNIT = re.compile(r"[a-z0-9][_ ]\(?(?:s|secs?|ms|us|mins|hrs|kb|[mg]i?b|[KMG]i?B)\)?$")  # fit_sec


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

    >>> is_mere_average("Avg. (4)"), is_mere_average("trimmed_mean"), is_average("trimmed_mean")
    (True, False, True)
    """
    title = _SPREAD_BEHIND.sub("", title)
    signs = title.strip() in ("Ø", "∅") or _MU.match(title) or _ALL.fullmatch(title.strip())
    said = plain(title)
    return said in AVERAGES | _LAST_WORDS or bool(_AVERAGE.fullmatch(said) or signs)


def names_costs(title: str) -> bool:
    """Whether a title is about what a method costs, by its words or the unit at its end.

    >>> names_costs("Train Runtime (hours)"), names_costs("# params"), names_costs("timestep")
    (True, True, False)
    >>> names_costs("lda_fit_sec"), names_costs("Train (s)"), names_costs("ViT-S")
    (True, True, False)
    """
    words = words_of(title)
    return bool(_UNIT.search(title.strip())) or not _COSTS.isdisjoint(words)


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


def is_statistic(title: str) -> bool:
    """Whether some word of a title names a statistic of numbers.

    >>> is_statistic("rho_all_median"), is_statistic("lambda")
    (True, False)
    """
    words = words_of(title)
    return not words.isdisjoint(MEANS | SPREADS | OTHER_STATISTICS)


def repeat_name(title: str) -> str | None:
    """Return the common name of a column that merely numbers repeats, else None.

    >>> repeat_name("Random seed"), repeat_name("Lauf"), repeat_name("optimizer")
    ('seed', 'run', None)
    """
    title = plain(title)
    return TITLES[title].name or title if title in REPEAT_TITLES else None


def is_qualifier(words: str, *, of_sets: bool = False) -> bool:
    """Whether words say which of several metrics; beside data sets "clean" may be one of them.

    >>> is_qualifier("Pixel-Level"), is_qualifier("clean"), is_qualifier("clean", of_sets=True)
    (True, True, False)
    """
    known = _SPLITS if of_sets else _QUALIFIERS
    said = words_of(words)
    return all(word in known or _STORED_AS.fullmatch(word) for word in said)


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


def is_detector(name: str) -> bool:
    """Whether a name is that of a detector that people use.

    >>> is_detector("MSP"), is_detector("KNN (k=50)"), is_detector("SVHN")
    (True, True, False)
    """
    return plain(re.sub(r"[(\[].*", "", name)) in KNOWN_DETECTORS


def is_model(name: str) -> bool:
    """Whether a name is that of a classifier, or of a detector that is fitted to each data set.

    >>> is_model("ResNet-18"), is_model("Time-CNN"), is_model("COPOD"), is_model("MSP")
    (True, True, True, False)
    """
    bare = plain(name[:100])
    return bare in _FITTED or bool(_MODELS.match(bare))


def is_whole_model(name: str) -> bool:
    """Whether all of a name is that of a model, though a word of it names something else.

    >>> is_whole_model("Time-CNN"), is_whole_model("ResNet time")
    (True, False)
    """
    bare = plain(name[:100])
    return bare in _FITTED or bool(_MODELS.fullmatch(bare))


def is_posthoc(name: str) -> bool:
    """Whether a name is that of a detector for classifiers that are trained already.

    >>> is_posthoc("Energy"), is_posthoc("IForest")
    (True, False)
    """
    return is_detector(name) and plain(re.sub(r"[(\[].*", "", name)) not in _FITTED


def is_surely_detector(name: str) -> bool:
    """Whether a name is that of a detector, and of nothing else that tables compare.

    >>> is_surely_detector("ODIN"), is_surely_detector("Ours")
    (True, False)
    """
    return is_detector(name) and plain(re.sub(r"[(\[].*", "", name)) not in _GENERIC
