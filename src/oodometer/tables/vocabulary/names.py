"""Names of what is compared: detectors and models."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oodometer.factors import plain
from oodometer.tables.vocabulary.known import known_names

KNOWN_DETECTORS = known_names("detectors")
# Families of classifiers and of detectors that are fitted to each data set anew.
_MODELS = re.compile(
    r"(?:wide|pre)?(?:res|dense|mobile|efficient|squeeze|shuffle|conv|reg|alex|google|le|u|vgg)net"
    r"|inception|xception|vgg|vit|deit|swin|bert|roberta|deberta|distilbert|gpt|llama|mistral|clip"
    r"|mlp|fcn|lstm|gru|rnn|svm|svc|randomforest|xgb|lightgbm|lgbm|catboost|adaboost|gradientboost"
    r"|histgradient|logisticregression|naivebayes|decisiontree|transformer|autoencoder|tabnet|tabpfn"
    r"|meanteacher|[a-z]{0,5}cnn|[a-z]lenet|rocket|minirocket|linearregression|ridge|lasso"
    r"|resnext|convnext|wrn\d|nfnet|hrnet|darknet|coatnet|maxvit|poolformer|segformer|yolov?\d"
    r"|qwen|gemma|phi\d|mixtral|falcon\d|vicuna|alpaca(?!eval)|deepseek|internlm|internvl|baichuan|chatglm"
    r"|llava(?!bench)|blip\d|flant5|t5|mt5|bart|albert|electra|xlnet|xlmr|codellama|starcoder|pythia|gptneo"
    r"|bloomz|wizardlm|claude\d|gemini\d|commandr|wav2vec|hubert|wavlm|siglip|eva\d|dinov\d"
)
KNOWN_MODELS = known_names("models")
_OPTIMIZERS = known_names("optimizers")
_CHOICES = known_names("choices")  # before training, beside networks and optimizers
# Names of detectors that tables of other things hold, too.
_GENERIC = frozenset(
    {"ours", "baseline", "proposed", "ensemble", "dropout", "softmax", "augmix", "cutmix",
     "cosine", "margin", "relation", "ml", "line", "gen", "scale", "deepensemble",
     "deepensembles", "pixmix", "conf", "residual", "entropy", "ae", "vae", "gmm",
     "knn", "mcdropout", "gaussianmixture", "sngp", "swag", "duq", "due", "laplace",
     "batchensemble"}
)  # fmt: skip
# What others are measured by, and nobody can use: bounds, chance, people.
_REFERENCES = re.compile(
    r"(?:the|theoretical|supervised|performance)*(?:oracle)?(?:upper|lower)bound|oracle|groundtruth"
    r"|(?:random)?(?:chance|guess|guessing)(?:level|baseline|performance)?|random(?:baseline|level)|noisefloor"
    r"|(?:non)?(?:expert)?humans?(?:expert|level)?s?(?:performance|baseline|accuracy|average|score)?"
)


def is_reference(name: str) -> bool:
    """Whether a line is called after what others are measured by: a bound, chance or people.

    >>> is_reference("Oracle (upper bound)"), is_reference("Human baseline"), is_reference("Random")
    (True, True, False)
    """
    bare = plain(re.sub(r"[(\[].*", "", name[:100]))
    return bool(_REFERENCES.fullmatch(bare))


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
    return bare in KNOWN_MODELS or bool(_MODELS.match(bare))


def is_compared(name: str) -> bool:
    """Whether a name is that of a detector or a model.

    >>> is_compared("MSP"), is_compared("ResNet-18"), is_compared("SVHN")
    (True, True, False)
    """
    return is_detector(name) or is_model(name)


def is_choice(name: str) -> bool:
    """Whether a name is that of an optimizer, an augmentation or a loss, chosen before training.

    >>> is_choice("Focal Loss"), is_choice("validation loss")
    (True, False)
    """
    return plain(name) in _OPTIMIZERS | _CHOICES


def what_is_chosen(names: Sequence[str]) -> str:
    """Return what is chosen before training, if most names are those of such choices, else "".

    >>> what_is_chosen(["SGD", "AdamW"]), what_is_chosen(["ResNet-18", "WRN-28"])
    ('optimizer', 'network')
    >>> what_is_chosen(["mixup", "none"]), what_is_chosen(["SVHN", "iSUN"])
    ('setup', '')
    """
    kinds = [_kind_of_choice(name) for name in names]
    known = {kind for kind in kinds if kind}
    if not known or 2 * sum(map(bool, kinds)) < len(kinds):
        return ""
    return known.pop() if len(known) == 1 else "setup"


def _kind_of_choice(name: str) -> str:
    if plain(name) in _OPTIMIZERS:
        return "optimizer"
    if plain(name) in _CHOICES:
        return "setup"
    return "network" if is_model(name) else ""


def is_whole_model(name: str) -> bool:
    """Whether all of a name is that of a model, though a word of it names something else.

    >>> is_whole_model("Time-CNN"), is_whole_model("ResNet time")
    (True, False)
    """
    bare = plain(name[:100])
    return bare in KNOWN_MODELS or bool(_MODELS.fullmatch(bare))


def is_posthoc(name: str) -> bool:
    """Whether a name is that of a detector for classifiers that are trained already.

    >>> is_posthoc("Energy"), is_posthoc("IForest")
    (True, False)
    """
    return is_detector(name) and plain(re.sub(r"[(\[].*", "", name)) not in KNOWN_MODELS


def is_surely_detector(name: str) -> bool:
    """Whether a name is that of a detector, and of nothing else that tables compare.

    >>> is_surely_detector("ODIN"), is_surely_detector("Ours")
    (True, False)
    """
    return is_detector(name) and plain(re.sub(r"[(\[].*", "", name)) not in _GENERIC
