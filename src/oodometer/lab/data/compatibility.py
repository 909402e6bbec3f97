"""Which data set may be an outlier set for which source, and which of its classes must go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oodometer.errors import unknown

Rule = Literal["published", "published_d32", "strict"]
RULES: tuple[Rule, ...] = ("published", "published_d32", "strict")

SOURCES = ("mnist", "fashion-mnist", "cifar10", "cifar100", "stl10", "tiny-imagenet")

# Outlier set -> the sources that it may serve. CIFAR-10 and STL-10 show the same things, so neither
# serves the other. Shafaei et al. 2019, arXiv:1809.04729.
SERVES: Mapping[str, tuple[str, ...]] = {
    "uniform_noise": SOURCES,
    "gaussian_noise": SOURCES,
    "mnist": ("fashion-mnist", "cifar10", "cifar100", "stl10", "tiny-imagenet"),
    "fashion-mnist": ("mnist", "cifar10", "cifar100", "stl10", "tiny-imagenet"),
    "notmnist": SOURCES,
    "cifar10": ("mnist", "fashion-mnist", "cifar100", "tiny-imagenet"),
    "cifar100": ("mnist", "fashion-mnist", "cifar10", "stl10", "tiny-imagenet"),
    "stl10": ("mnist", "fashion-mnist", "cifar100", "tiny-imagenet"),
    "tiny-imagenet": ("mnist", "fashion-mnist", "cifar10", "cifar100", "stl10"),
}


class Overlap(NamedTuple):
    """What two data sets both show: the class in the first and those in the second."""

    name: str
    first: int
    second: tuple[int, ...]


# Class numbers: alphabetical for CIFAR and STL-10, sorted WordNet identifiers for Tiny ImageNet.
_PUBLISHED: Mapping[tuple[str, str], tuple[Overlap, ...]] = {
    ("cifar100", "tiny-imagenet"): (
        Overlap("bee", 6, (38,)),
        Overlap("chimpanzee", 21, (55,)),
        Overlap("cockroach", 24, (41,)),
        Overlap("lion", 43, (34,)),
        Overlap("mushroom", 51, (185,)),
        Overlap("orange", 53, (186,)),
        Overlap("plate", 61, (177,)),
        Overlap("snail", 77, (15,)),
        Overlap("tractor", 89, (164,)),
    )
}

_BIRDS = (11, 20, 21, 22)  # goose, black stork, king penguin, albatross
_CARS = (70, 94, 116, 153)  # beach wagon, convertible, limousine, sports car
_CATS = (30, 31, 32)  # tabby, Persian cat, Egyptian cat; cougar and lion are not house cats
_DOGS = (24, 25, 26, 27, 28, 29)  # from Chihuahua to standard poodle
_TRUCKS = (121, 133)  # moving van, police van

# What the published rule forgets: one class is the other, or a kind of it, by their names. Where a
# name leaves doubt (alligator and crocodile, lifeboat and ship, gazelle and deer), both stay.
_FORGOTTEN: Mapping[tuple[str, str], tuple[Overlap, ...]] = {
    ("cifar10", "tiny-imagenet"): (
        Overlap("automobile", 1, _CARS),
        Overlap("bird", 2, _BIRDS),
        Overlap("cat", 3, _CATS),
        Overlap("dog", 5, _DOGS),
        Overlap("frog", 6, (2, 3)),  # bullfrog, tailed frog
        Overlap("truck", 9, _TRUCKS),
    ),
    ("stl10", "tiny-imagenet"): (
        Overlap("bird", 1, _BIRDS),
        Overlap("car", 2, _CARS),
        Overlap("cat", 3, _CATS),
        Overlap("dog", 5, _DOGS),
        Overlap("monkey", 7, (56,)),  # baboon
        Overlap("truck", 9, _TRUCKS),
    ),
    ("cifar10", "cifar100"): (Overlap("truck", 9, (58,)),),  # pickup truck
    ("stl10", "cifar100"): (Overlap("truck", 9, (58,)),),
    ("cifar100", "tiny-imagenet"): (
        Overlap("bear", 3, (35,)),  # brown bear
        Overlap("beetle", 7, (36,)),  # ladybug
        Overlap("bottle", 9, (73, 130, 135)),  # beer, pill and pop bottle
        Overlap("bridge", 12, (154, 157)),  # steel arch bridge, suspension bridge
        Overlap("bus", 13, (145, 166)),  # school bus, trolleybus
        Overlap("butterfly", 14, (44, 45)),  # monarch, sulphur butterfly
        Overlap("camel", 15, (53,)),  # Arabian camel
        Overlap("chair", 20, (142,)),  # rocking chair
        Overlap("elephant", 31, (57,)),  # African elephant
        Overlap("keyboard", 39, (92,)),  # computer keyboard
        Overlap("lawn_mower", 41, (114,)),
        Overlap("lobster", 45, (18, 19)),  # American lobster, spiny lobster
        Overlap("snake", 78, (5,)),  # boa constrictor
        Overlap("spider", 79, (8, 9)),  # black widow, tarantula
        Overlap("sweet_pepper", 83, (184,)),  # bell pepper
        Overlap("table", 84, (98,)),  # dining table
        Overlap("telephone", 86, (128,)),  # pay-phone
        Overlap("train", 90, (81,)),  # bullet train
    ),
}


class Triplet(NamedTuple):
    """One experiment of OD-test: a source, the outliers to tune on, and those to test on."""

    source: str
    validation: str
    test: str


def outliers_for(source: str) -> tuple[str, ...]:
    """Return the outlier sets that may serve a source.

    >>> [len(outliers_for(source)) for source in SOURCES]
    [8, 8, 7, 8, 7, 8]
    """
    if source not in SOURCES:
        raise unknown("source of OD-test", source, SOURCES)
    return tuple(name for name, served in SERVES.items() if source in served)


def triplets(source: str | None = None) -> tuple[Triplet, ...]:
    """Return every experiment of OD-test: all ordered pairs of different outlier sets per source.

    Shafaei et al. 2019, arXiv:1809.04729.

    >>> len(triplets()), len(triplets("cifar10"))
    (308, 42)
    """
    return tuple(
        Triplet(chosen, validation, test)
        for chosen in (SOURCES if source is None else (source,))
        for validation in outliers_for(chosen)
        for test in outliers_for(chosen)
        if validation != test
    )


def overlaps(source: str, outlier: str, rule: Rule = "published") -> tuple[Overlap, ...]:
    """Return what both sets show, the source's class first.

    ``published``: nine classes of CIFAR-100 and Tiny ImageNet. ``published_d32``: none, as in the
    published experiments on sets reduced to 32 x 32, which the look-up by name missed.
    ``strict``: also what the published rule forgets.
    """
    if rule not in RULES:
        raise unknown("rule of compatibility", rule, RULES)
    if rule == "published_d32":
        return ()
    tables = (_PUBLISHED,) if rule == "published" else (_PUBLISHED, _FORGOTTEN)
    found = [entry for table in tables for entry in table.get((source, outlier), ())]
    for table in tables:
        for entry in table.get((outlier, source), ()):
            found += [Overlap(entry.name, number, (entry.first,)) for number in entry.second]
    return tuple(found)


def excluded_classes(source: str, outlier: str, rule: Rule = "published") -> frozenset[int]:
    """Return the classes that the outlier set drops, since the source shows them too.

    >>> sorted(excluded_classes("tiny-imagenet", "cifar100"))
    [6, 21, 24, 43, 51, 53, 61, 77, 89]
    """
    if source not in SOURCES:
        raise unknown("source of OD-test", source, SOURCES)
    if outlier not in SERVES:
        raise unknown("outlier set of OD-test", outlier, SERVES)
    return frozenset(number for entry in overlaps(source, outlier, rule) for number in entry.second)


def kept_rows(
    labels: ArrayLike, source: str, outlier: str, rule: Rule = "published"
) -> NDArray[np.int64]:
    """Return the rows of the outlier set that remain, given its labels."""
    dropped = sorted(excluded_classes(source, outlier, rule))
    return np.flatnonzero(~np.isin(np.asarray(labels), dropped))
