"""Who may be an outlier for whom: the published counts, and class numbers that fit their names."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from oodometer.errors import UserError
from oodometer.lab.data import compatibility
from oodometer.lab.data.compatibility import Overlap

DATA = Path(os.environ.get("OODOMETER_DATA") or "none")

NAMES = {
    "cifar10": "airplane automobile bird cat deer dog frog horse ship truck",
    "stl10": "airplane bird car cat deer dog horse monkey ship truck",
    "cifar100": """
        apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge
        bus butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud
        cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish forest fox
        girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man
        maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree
        pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray
        road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel
        streetcar sunflower sweet_pepper table tank telephone television tiger tractor train
        trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """,
}


def test_the_308_experiments():
    triplets = compatibility.triplets()
    assert len(triplets) == len(set(triplets)) == 308
    per_source = Counter(triplet.source for triplet in triplets)
    assert list(per_source.values()) == [56, 56, 42, 56, 42, 56]
    for source, validation, test in triplets:
        assert len({source, validation, test}) == 3


def test_twins_never_serve_each_other():
    assert "stl10" not in compatibility.outliers_for("cifar10")
    assert "cifar10" not in compatibility.outliers_for("stl10")
    for source in compatibility.SOURCES:
        assert source not in compatibility.outliers_for(source)


def test_published_exclusions():
    cifar = {6, 21, 24, 43, 51, 53, 61, 77, 89}
    tiny = {38, 55, 41, 34, 185, 186, 177, 15, 164}
    assert compatibility.excluded_classes("tiny-imagenet", "cifar100") == cifar
    assert compatibility.excluded_classes("cifar100", "tiny-imagenet") == tiny
    for source in compatibility.SOURCES:
        for outlier in compatibility.outliers_for(source):
            if {source, outlier} != {"cifar100", "tiny-imagenet"}:
                assert not compatibility.excluded_classes(source, outlier)
            assert not compatibility.excluded_classes(source, outlier, "published_d32")


def test_the_strict_rule_only_adds():
    for source in compatibility.SOURCES:
        for outlier in compatibility.outliers_for(source):
            strict = compatibility.excluded_classes(source, outlier, "strict")
            assert strict >= compatibility.excluded_classes(source, outlier)
            assert bool(strict) == bool(
                compatibility.excluded_classes(outlier, source, "strict")
                if outlier in compatibility.SOURCES
                else strict
            )
    assert compatibility.excluded_classes("cifar10", "cifar100", "strict") == {58}
    assert compatibility.excluded_classes("cifar100", "cifar10", "strict") == {9}
    assert len(compatibility.excluded_classes("cifar10", "tiny-imagenet", "strict")) == 21
    assert compatibility.excluded_classes("tiny-imagenet", "stl10", "strict") == {1, 2, 3, 5, 7, 9}


def test_class_numbers_are_those_of_the_names():
    names = {data: text.split() for data, text in NAMES.items()}
    assert all(found == sorted(found) for found in names.values())
    assert len(names["cifar100"]) == 100
    assert names["cifar100"][58] == "pickup_truck"
    for source in names:
        for entry in compatibility.overlaps(source, "tiny-imagenet", "strict"):
            assert names[source][entry.first] == entry.name


@pytest.mark.skipif(
    not (DATA / "tiny-imagenet.npz").is_file(),
    reason="OODOMETER_DATA names no folder with tiny-imagenet.npz",
)
def test_class_numbers_of_tiny_imagenet_are_those_of_its_names():
    with np.load(DATA / "tiny-imagenet.npz") as archive:
        names = archive["class_names"]
    for entry in compatibility.overlaps("cifar100", "tiny-imagenet"):
        (number,) = entry.second
        assert entry.name in names[number].split(", ")
    kinds = {  # what a dictionary calls those whose own name does not say it
        "automobile": {"beach wagon", "convertible", "limousine", "sports car"},
        "bird": {"goose", "black stork", "king penguin", "albatross"},
        "cat": {"tabby", "Persian cat", "Egyptian cat"},
        "monkey": {"baboon"},
        "truck": {"moving van", "police van"},
        "beetle": {"ladybug"},
        "snake": {"boa constrictor"},
        "spider": {"black widow", "tarantula"},
    }
    kinds["car"] = kinds["automobile"]
    kinds["dog"] = {"Chihuahua", "Yorkshire terrier", "golden retriever", "Labrador retriever"}
    kinds["dog"] |= {"German shepherd", "standard poodle"}
    for source in ("cifar10", "stl10", "cifar100"):
        for entry in compatibility.overlaps(source, "tiny-imagenet", "strict"):
            found = {names[number].split(",")[0] for number in entry.second}
            word = entry.name.split("_")[-1].removeprefix("tele")
            assert found == kinds.get(entry.name) or all(word in names[n] for n in entry.second)


def test_overlaps_turn_round():
    turned = compatibility.overlaps("tiny-imagenet", "cifar10", "strict")
    assert Overlap("frog", 2, (6,)) in turned
    assert Overlap("frog", 3, (6,)) in turned


def test_kept_rows():
    labels = [6, 0, 9, 58, 6]
    assert compatibility.kept_rows(labels, "tiny-imagenet", "cifar100").tolist() == [1, 2, 3]
    assert compatibility.kept_rows(labels, "mnist", "cifar100").tolist() == [0, 1, 2, 3, 4]


def test_unknown_names_are_refused():
    for call, message in [
        (lambda: compatibility.outliers_for("minst"), "Did you mean 'mnist'"),
        (lambda: compatibility.triplets("notmnist"), "Unknown source"),
        (lambda: compatibility.excluded_classes("mnist", "svhn"), "Unknown outlier set"),
        (lambda: compatibility.overlaps("mnist", "cifar10", "lax"), "Unknown rule"),
    ]:
        with pytest.raises(UserError, match=message):
            call()
