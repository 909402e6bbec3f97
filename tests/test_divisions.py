"""Splits of the papers as a study names them, and parts of outlier sets."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from oodometer.engine.plan.trainings import DataContent, training_key
from oodometer.errors import UserError
from oodometer.lab.data import splits
from oodometer.lab.data.cards import CARDS
from oodometer.lab.data.catalog import find as find_data
from oodometer.lab.data.compatibility import excluded_classes
from oodometer.lab.data.datasets import Parts, load_parts, read_part
from oodometer.lab.data.divisions import check_split, divide, gives_validation
from oodometer.lab.data.openood import CIFAR10_VALIDATION
from oodometer.lab.data.outliers import load_outliers
from oodometer.lab.data.portions import portion_rows
from oodometer.lab.data.samples import Images
from oodometer.lab.data.sources import load_source
from oodometer.lab.training.train import Training, check_spec
from oodometer.study import TrainSpec


def numbered(name: str, train: int, test: int, classes: int = 10) -> Parts:
    """Images whose pixels are their own number in the pool, train first."""

    def part(numbers: np.ndarray) -> Images:
        pixels = numbers.astype("<u4").view(np.uint8).reshape(-1, 1, 2, 2)
        return Images(name, pixels, numbers % classes)

    whole = np.arange(train + test)
    return Parts(name, part(whole[:train]), part(whole[train:]))


def numbers_of(images: Images) -> np.ndarray:
    return np.ascontiguousarray(images.pixels).reshape(-1, 4).view("<u4").reshape(-1)


@pytest.mark.parametrize(
    ("name", "train", "test", "expected"),
    [
        ("mnist", 60_000, 10_000, [(0, 50_000), (50_000, 60_000), (60_000, 70_000)]),
        ("cifar10", 50_000, 10_000, [(0, 40_000), (40_000, 50_000), (50_000, 60_000)]),
        ("stl10", 5_000, 8_000, [(0, 5_000), (5_000, 9_000), (9_000, 13_000)]),
    ],
)
def test_od_test_takes_the_published_rows(name, train, test, expected):
    made = divide("od_test", name, numbered(name, train, test))
    for part, (start, stop) in zip((made.train, made.validation, made.test), expected, strict=True):
        assert np.array_equal(numbers_of(part), np.arange(start, stop))


def test_od_test_needs_its_data_sets():
    with pytest.raises(UserError, match="Unknown data set with a split of OD-test 'svhn'"):
        divide("od_test", "svhn", numbered("svhn", 20, 10))
    with pytest.raises(UserError, match="rows 0 to 49,999 of the train part of .mnist."):
        divide("od_test", "mnist", numbered("mnist", 200, 100))


@pytest.mark.parametrize("seed", [0, 7])
def test_resampled_splits_are_those_of_pytorch(seed):
    parts = numbered("own", 50, 10)
    made = divide(f"resampled(seed={seed}, generator=torch)", "own", parts)
    generator = torch.Generator().manual_seed(seed)
    train, test = torch.utils.data.random_split(range(60), [50, 10], generator)
    assert numbers_of(made.train).tolist() == list(train)
    assert numbers_of(made.test).tolist() == list(test)
    plain = divide(f"resampled(seed={seed})", "own", parts)
    assert not np.array_equal(numbers_of(plain.train), numbers_of(made.train))
    if seed:
        assert np.array_equal(numbers_of(divide(seed, "own", parts).train), numbers_of(plain.train))


def test_openood_sets_a_hundred_of_each_class_aside(tmp_path):
    parts = numbered("cifar10", 50_000, 10_000)
    made = divide("openood", "cifar10", parts)
    assert (len(made.train), len(made.validation), len(made.test)) == (50_000, 1_000, 9_000)
    assert np.bincount(made.validation.labels).tolist() == [100] * 10
    together = np.concatenate([numbers_of(made.validation), numbers_of(made.test)])
    assert np.array_equal(np.sort(together), numbers_of(parts.test))
    # The same from the file, as OpenOOD writes it: class folders in alphabetical order.
    names = list(CARDS["cifar10"].class_names)
    lines = [
        f"cifar10/test/{name}/{count:04d}.png {number}"
        for number, (name, counts) in enumerate(zip(names, CIFAR10_VALIDATION, strict=True))
        for count in counts
    ]
    (tmp_path / "val.txt").write_text("\n".join(lines) + "\n")
    from_file = divide(f"listed(path={tmp_path / 'val.txt'})", "cifar10", parts)
    assert from_file.validation.digest == made.validation.digest
    assert from_file.test.digest == made.test.digest


def test_the_published_list_of_openood():
    """Figures read off val_cifar10.txt: its first and last lines, and how many a class has."""
    assert CIFAR10_VALIDATION[0][:3] == (187, 361, 731) and CIFAR10_VALIDATION[9][-1] == 952
    assert [len(set(counts)) for counts in CIFAR10_VALIDATION] == [100] * 10
    assert all(1 <= count <= 1000 for counts in CIFAR10_VALIDATION for count in counts)


@pytest.mark.parametrize(
    ("split", "sentence"),
    [
        ("od-test", "Unknown split 'od-test'. Did you mean 'od_test'"),
        ("resampled(sed=1)", "Unknown setting of 'resampled' 'sed'. Did you mean 'seed'"),
        ("resampled(seed=a)", "seed is a, but must be a whole number"),
        ("resampled(generator=jax)", "Unknown generator 'jax'"),
        ("listed", "needs the path of a list"),
        ("listed(path=nowhere.txt)", "'nowhere.txt' does not exist"),
        ("openood", "knows the list of cifar10"),
    ],
)
def test_bad_splits_are_named(split, sentence):
    with pytest.raises(UserError, match=sentence):
        check_split(split)
        divide(split, "own", numbered("own", 30, 20))


def test_what_a_split_sets_aside_is_validated_on(tmp_path):
    (tmp_path / "list.txt").write_text("".join(f"{k}/0001.png\n{k}/0003.png\n" for k in range(10)))
    wanted = TrainSpec(
        data="digits",
        split=f"listed(path={tmp_path / 'list.txt'})",
        network="mlp",
        epochs=1,
        epoch="best",
        train_size=100,
    )
    check_spec(wanted)  # validation is 0, but the split gives one
    assert gives_validation(wanted.split)
    source = load_source(wanted)
    assert len(source.validation) == 20 and len(source.test) == len(load_parts("digits").test) - 20
    training = Training(wanted, source.train, source.classes, validation=source.validation)
    training.run_epoch()
    right = round(training.curve["validation_accuracy"][0] * 20)
    assert training.curve["validation_accuracy"][0] == right / 20
    share = Training(wanted.model_copy(update={"validation": 0.5}), source.train, source.classes)
    share.run_epoch()
    assert share.curve["validation_accuracy"][0] * 50 % 1 == 0


def test_a_named_split_draws_subsets_by_its_seed():
    labels = np.arange(1000) % 10
    rows = {
        text: portion_rows(TrainSpec(data="digits", split=text, train_size=50), labels)[0].tolist()
        for text in ("resampled(seed=3)", "resampled(seed=4)", "od_test")
    }
    assert rows["resampled(seed=3)"] != rows["resampled(seed=4)"]
    plain = portion_rows(TrainSpec(data="digits", split=3, train_size=50), labels)[0].tolist()
    assert rows["resampled(seed=3)"] == plain
    plain = portion_rows(TrainSpec(data="digits", train_size=50), labels)[0].tolist()
    assert rows["od_test"] == plain


# ---- parts of outlier sets ---------------------------------------------------------------------


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("OODOMETER_DATA", str(tmp_path))
    return tmp_path


def save(path, train: int, test: int, classes: int = 3) -> None:
    rng = np.random.default_rng(0)
    arrays = {}
    for part, size in (("train", train), ("test", test)):
        arrays[f"{part}_images"] = rng.integers(0, 256, (size, 8, 8)).astype(np.uint8)
        arrays[f"{part}_labels"] = np.arange(size) % classes
    np.savez(path, **arrays)


def test_parts_of_outlier_sets_can_be_chosen(root):
    save(root / "mnist.npz", 30, 12)
    source = load_source(TrainSpec(data="digits"))
    made = {part: load_outliers(f"mnist(part={part})", source) for part in ("train", "test", "all")}
    assert {part: len(images) for part, images in made.items()} == {
        "train": 30,
        "test": 12,
        "all": 42,
    }
    assert made["test"].name == "mnist" == load_outliers("mnist", source).name
    assert made["train"].name == "mnist (train)" and made["all"].name == "mnist (all)"
    assert np.array_equal(
        made["all"].pixels, np.concatenate([made["train"].pixels, made["test"].pixels])
    )
    drawn = load_outliers(
        "mnist(part=train)", load_source(TrainSpec(data="digits", test_size=5, ood_draw=0))
    )
    rows = next(splits.outlier_draws(30, 5))
    assert np.array_equal(drawn.pixels, made["train"].pixels[rows])


def test_roles_of_od_test_as_parts(root):
    save(root / "notmnist.npz", 1, 9)
    source = load_source(TrainSpec(data="digits"))
    halves = [
        load_outliers(f"notmnist(part={role}_outlier)", source) for role in ("validation", "test")
    ]
    whole = load_outliers("notmnist(part=all)", source)
    assert [len(half) for half in halves] == [5, 5]
    assert halves[0].name == "notmnist (validation)" and halves[1].name == "notmnist"
    seen = sorted(image.tobytes() for half in halves for image in half.pixels)
    assert seen == sorted(image.tobytes() for image in whole.pixels)


def test_classes_that_the_source_shows_are_left_out(root):
    save(root / "tiny-imagenet.npz", 400, 400, classes=200)
    save(root / "cifar100.npz", 200, 100, classes=100)
    source = load_source(TrainSpec(data="cifar100"))
    kept = load_outliers("tiny-imagenet(rule=published)", source)
    labels = read_part("tiny-imagenet").labels
    gone = excluded_classes("cifar100", "tiny-imagenet")
    assert len(gone) == 9 and len(kept) == (~np.isin(labels, sorted(gone))).sum() == 400 - 18
    assert len(load_outliers("tiny-imagenet", source)) == 400


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mnist(part=valid)", "Unknown part of 'mnist' 'valid'"),
        ("mnist(prt=train)", "Unknown setting of data set 'mnist' 'prt'. Did you mean 'part'"),
        ("mnist(size=0)", "must be a number of pixels from 1 to 9999, got 0"),
        ("mnist(size=big)", "must be a number of pixels"),
        ("mnist(rule=strict)", "Unknown source of OD-test 'digits'"),
        ("digits(part=train)", "has the name of the in-distribution data"),
        ("svnh(part=train)", "Unknown outlier set 'svnh'. Did you mean 'svhn'"),
        ("usps(part=test_outlier)", "Unknown data set with OD-test parts 'usps'"),
    ],
)
def test_bad_parts_are_named(root, name, sentence):
    save(root / "mnist.npz", 30, 12)
    source = load_source(TrainSpec(data="digits"))
    with pytest.raises(UserError, match=sentence):
        load_outliers(name, source)


def test_od_test_takes_the_unlabelled_part_of_tiny_imagenet(root, monkeypatch):
    rng = np.random.default_rng(0)

    def write(path, count: int) -> None:
        path.mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (8, 8, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(path / f"{path.parent.name}_{number}.png")

    top = root / "tiny-imagenet" / "tiny-imagenet-200"
    for name in ("n01", "n02"):
        write(top / "train" / name / "images", 4)
    write(top / "val" / "images", 3)
    write(top / "test" / "images", 5)
    (top / "wnids.txt").write_text("n01\nn02\n")
    (top / "val" / "val_annotations.txt").write_text(
        "".join(f"val_{k}.png\tn02\t0\n" for k in range(3))
    )
    sizes = {"train": ("train", 8), "valid": ("val", 3), "test": ("test", 5)}
    ranges = {
        role: splits.Range(part, 0, size, size, permuted=role == "train")
        for role, (part, size) in sizes.items()
    }
    monkeypatch.setitem(splits.OD_TEST, "tiny-imagenet", ranges)
    source = load_source(TrainSpec(data="tiny-imagenet", split="od_test"))
    assert (len(source.train), len(source.validation), len(source.test)) == (8, 3, 5)
    assert (source.test.labels == -1).all() and source.validation.labels.tolist() == [1, 1, 1]
    assert source.classes == 2
    assert len(load_parts("tiny-imagenet").test) == 3, "as it comes, the validation part tests"


LISTS = Path(os.environ.get("OODOMETER_DATA") or "none") / "openood-imglists"


@pytest.mark.parametrize(("name", "classes"), [("cifar10", 10), ("cifar100", 100)])
def test_real_lists_of_openood(name, classes):
    listed = LISTS / name / f"val_{name}.txt"
    if find_data(name) is None or not listed.is_file():
        pytest.skip(f"OODOMETER_DATA does not lead to {name} and OpenOOD's lists")
    whole = load_parts(name)
    division = divide(f"listed(path={listed})", name, whole)
    assert np.bincount(division.test.labels).tolist() == [9_000 // classes] * classes
    if name == "cifar10":
        published = divide("openood", name, whole)
        assert published.validation.digest == division.validation.digest
        first = np.flatnonzero(whole.test.labels == 0)[186]  # airplane/0187.png
        same = (published.validation.pixels == whole.test.pixels[first]).all(axis=(1, 2, 3))
        assert same.sum() == 1


def test_keys_cover_what_is_validated_on_and_not_where_files_lie():
    def key(aside: str = "", **changes: object) -> str:
        content = DataContent("x", "train", "test", {}, validation=aside)
        return training_key(TrainSpec(**({"data": "x", "network": "mlp"} | changes)), content)

    assert key() == key(split="od_test") != key("aside")
    assert key("aside") != key("other")
    assert key("aside", validation=0.1) == key("other", validation=0.1)
    assert key(adversarial=0.01) != key()
    noises = [f"file(path={folder}/labels.npz, key=a)" for folder in ("/one", "/two")]
    assert key(label_noise=noises[0]) == key(label_noise=noises[1])  # their content is in the key
    assert key(label_noise=noises[0]) != key(label_noise=noises[0].replace("key=a", "key=b"))
