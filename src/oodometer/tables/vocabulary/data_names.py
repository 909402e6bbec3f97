"""Names of data sets that results tables hold: ID sets, outliers, corruptions, other fields."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oodometer.factors import plain, words_of
from oodometer.tables.vocabulary.known import known_names

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
# Data sets that are used as outliers, and hardly for anything else.
_OUTLIER_SETS = frozenset(
    {"isun", "lsun", "lsunc", "lsuncrop", "lsunr", "lsunresize", "ninco", "ssbhard", "imageneto",
     "openimageo", "textures", "texture", "inaturalist", "places365", "notmnist", "dtd", "uniform",
     "gaussian", "gaussiannoise", "uniformnoise", "noise"}
)  # fmt: skip
# Data sets that classifiers are trained on more often than they are used as outliers.
_TRAINED_ON = frozenset(
    {"cifar", "cifar10", "cifar100", "imagenet", "imagenet1k", "imagenet200", "imagenet100"}
)
_CORRUPTIONS = frozenset(
    {"brightness", "contrast", "defocusblur", "elastictransform", "elastic", "fog", "frost",
     "gaussianblur", "gaussiannoise", "glassblur", "impulsenoise", "jpegcompression", "jpeg",
     "motionblur", "pixelate", "saturate", "shotnoise", "snow", "spatter", "specklenoise",
     "zoomblur",
     # of images with depth
     "biterror", "colorquant", "farfocus", "flash", "fog3d", "h265abr", "h265crf", "isonoise",
     "lowlight", "nearfocus", "xymotionblur", "zmotionblur"}
)  # fmt: skip
# Words of what is done to test data, and for data to which nothing was done.
_DISTURBANCES = frozenset(
    {"noise", "blur", "jpeg", "compression", "rotation", "rotate", "occlusion", "brightness",
     "contrast", "resize", "downscale", "crop", "fog", "snow", "frost", "rain", "pixelate",
     "saturation", "shift", "gamma", "flip", "scaling", "masking"}
)  # fmt: skip
_UNDISTURBED = frozenset(
    {"clean", "original", "uncorrupted", "unperturbed", "undistorted", "nonoise", "nocorruption",
     "noperturbation"}
)  # fmt: skip
# Attacks on networks that were trained already, perhaps with their strength: PGD-20.
_ATTACK = re.compile(
    r"(?:m?i?_?fgsm|[bm]im|(?:eot_?)?a?pgd|auto_?attack|aa|cw|c_w|carlini_?wagner|deep_?fool|jsma|"
    r"fab|square|spsa)(?:_?(?:\d+|l?inf|l2|l1|ce|dlr|t|attack))*"
)
_ANSWERED = known_names("answered")  # benchmarks whose results are shares of right answers
# Data sets of other fields, known by name: they tell which axis of a table holds data.
_OTHER_SETS = known_names("data_sets") | _ANSWERED


def is_set(name: str) -> bool:
    """Whether a name is that of a data set that people use.

    >>> is_set("CIFAR-10"), is_set("Places365"), is_set("MSP")
    (True, True, False)
    """
    return plain(name) in KNOWN_SETS


def is_corruption(name: str) -> bool:
    """Whether a name is that of a corruption of images, which have severities.

    >>> is_corruption("shot_noise"), is_corruption("Motion Blur"), is_corruption("SVHN")
    (True, True, False)
    """
    return plain(name) in _CORRUPTIONS


def is_undisturbed(name: str) -> bool:
    """Whether a name says of data that nothing was done to them.

    >>> is_undisturbed("Clean"), is_undisturbed("CIFAR-10")
    (True, False)
    """
    return plain(name) in _UNDISTURBED


def are_corruptions(names: Sequence[str]) -> bool:
    """Whether names are those of corruptions, perhaps beside that of the data without any.

    >>> are_corruptions(["fog", "snow", "SVHN"]), are_corruptions(["Clean", "Noise", "Rotation"])
    (True, True)
    >>> are_corruptions(["clean", "noise"]), are_corruptions(["iSUN", "noise", "blobs"])
    (False, False)
    """
    if len(names) > 1 and 2 * sum(map(is_corruption, names)) > len(names):
        return True
    undisturbed = sum(map(is_undisturbed, names))
    done = sum(not _DISTURBANCES.isdisjoint(words_of(name)) for name in names)
    return undisturbed > 0 and done > 1 and 2 * (undisturbed + done) > len(names)


def are_attacks(names: Sequence[str]) -> bool:
    """Whether names are those of attacks on networks, perhaps beside that of the clean data.

    >>> are_attacks(["Clean", "FGSM", "PGD-20"]), are_attacks(["clean", "AA"])
    (True, False)
    """
    called = [re.sub(r"[\W_]+", "_", name.casefold()).strip("_") for name in names]
    attacks = sum(bool(_ATTACK.fullmatch(name)) for name in called)
    return attacks > 1 and attacks + sum(map(is_undisturbed, names)) == len(names)


def is_data(name: str) -> bool:
    """Whether a name is that of a data set of any field, or of a corruption.

    >>> is_data("CIFAR-10"), is_data("MUTAG"), is_data("shot_noise 3"), is_data("MSP")
    (True, True, True, False)
    """
    bare = re.sub(r"\s+(?:[a-z]+\s+)?\d$", "", name[:100], flags=re.IGNORECASE)
    if is_set(name) or is_corruption(bare) or {plain(name), plain(bare)} & _OTHER_SETS:
        return True
    parts = re.split(r"\s+(?:vs\.?\s+|[→/|]\s*)?|\s*→\s*", name[:100].strip())
    return len(parts) > 1 and all(map(is_set, parts))  # an ID set with an outlier set


def is_outlier_set(name: str) -> bool:
    """Whether a data set is known as outliers, and hardly for anything else.

    >>> is_outlier_set("LSUN-C"), is_outlier_set("CIFAR-10")
    (True, False)
    """
    return plain(name) in _OUTLIER_SETS


def are_answered(names: Sequence[str]) -> bool:
    """Whether several data sets are benchmarks whose results are shares of right answers.

    >>> are_answered(["arc_challenge", "MMLU", "GSM8K"]), are_answered(["MMLU", "WikiText"])
    (True, False)
    """
    return len(set(names)) > 1 and all(plain(name) in _ANSWERED for name in names)


def are_trained_on(names: Sequence[str]) -> bool:
    """Whether several data sets are all of those that classifiers are usually trained on.

    >>> are_trained_on(["CIFAR-10", "CIFAR-100"]), are_trained_on(["CIFAR-100", "SVHN"])
    (True, False)
    """
    return len(set(names)) > 1 and all(plain(name) in _TRAINED_ON for name in names)


def are_outliers_first(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the first of two groups of data sets are the outliers, and the second the ID sets.

    >>> are_outliers_first(["SVHN", "iSUN"], ["CIFAR-10"]), are_outliers_first(["a"], ["iSUN"])
    (True, False)
    """
    return _outlying(first) > _outlying(second)


def _outlying(names: Sequence[str]) -> float:
    """How far a group of data sets are known as outliers: from -1 to 1."""
    places = [is_outlier_set(name) - (plain(name) in _TRAINED_ON) for name in names]
    return sum(places) / max(1, len(places))
