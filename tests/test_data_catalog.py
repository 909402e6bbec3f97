"""Known data sets: found where others lay them out, brought to shape, and listed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import data_files as files
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner

from oodometer.cli import app
from oodometer.errors import UserError
from oodometer.lab.asking.extract import extract
from oodometer.lab.data.cards import CARDS
from oodometer.lab.data.catalog import Found, data_folder, find
from oodometer.lab.data.datasets import (
    conform,
    load_part,
    load_parts,
    load_texts,
)
from oodometer.lab.data.outliers import KNOWN, load_outliers
from oodometer.lab.data.readers import FORMATS
from oodometer.lab.data.samples import Images
from oodometer.lab.data.sources import load_source
from oodometer.study import TrainSpec

DATA = os.environ.get("OODOMETER_DATA") or "none"


def real(*names: str) -> pytest.MarkDecorator:
    lacking = [name for name in names if find(name, Path(DATA)) is None]
    return pytest.mark.skipif(
        bool(lacking), reason=f"OODOMETER_DATA has no {', '.join(lacking) or 'data'}"
    )


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty data folder, on a machine that has no data of its own."""
    monkeypatch.setenv("OODOMETER_DATA", str(tmp_path))
    for name, card in CARDS.items():
        monkeypatch.setitem(CARDS, name, replace(card, system=()))
    return tmp_path


def test_cards_are_complete():
    wanted = (
        "mnist fashion-mnist kmnist emnist-letters notmnist omniglot usps digits cifar10 cifar100 "
        "cifar100-coarse svhn stl10 tiny-imagenet textures celeba places lsun eurosat food101 "
        "caltech101 ag-news 20newsgroups bbc clinc150 clinc150-oos trec sst2 imdb"
    )
    assert set(wanted.split()) == set(CARDS)
    for card in CARDS.values():
        assert card.summary.endswith(".") and card.kind in ("images", "texts")
        assert card.files or card.by_hand, f"{card.name}: how does one get it?"
        if card.class_names:
            assert len(card.class_names) == len(set(card.class_names)) == card.classes
        for format, _ in (*card.layouts, *card.system):
            assert (isinstance(FORMATS[format], type(FORMATS["npz"]))) == (card.kind == "images")
        for remote in card.files:
            assert len(remote.md5) in (0, 32) and len(remote.sha256) in (0, 64)
            assert int(remote.md5 or "0", 16) >= 0 and int(remote.sha256 or "0", 16) >= 0


LAYOUTS = {
    # where people have it: (name, folder that is written, writer, labels that come out)
    "torchvision mnist": ("mnist", "MNIST/raw", files.write_idx),
    "torchvision fashion": ("fashion-mnist", "FashionMNIST/raw", files.write_idx),
    "torchvision kmnist": ("kmnist", "KMNIST/raw", lambda f: files.write_idx(f, gz=True)),
    "own folder": ("mnist", "mnist", lambda f: files.write_idx(f, gz=True)),
    "torchvision emnist": (
        "emnist-letters",
        "EMNIST/raw",
        lambda f: files.write_idx(f, "emnist-letters-", "test"),
    ),
    "unpacked emnist": (
        "emnist-letters",
        "emnist-letters/gzip",
        lambda f: files.write_idx(f, "emnist-letters-", "test", gz=True),
    ),
    "torchvision cifar10": ("cifar10", "cifar-10-batches-py", files.write_cifar_python),
    "binary cifar10": ("cifar10", "cifar10/cifar-10-batches-bin", files.write_cifar_binary),
    "torchvision cifar100": (
        "cifar100",
        "cifar-100-python",
        lambda f: files.write_cifar_python(f, 100),
    ),
    "coarse": (
        "cifar100-coarse",
        "cifar100/cifar-100-binary",
        lambda f: files.write_cifar_binary(f, 100),
    ),
    "torchvision svhn": ("svhn", ".", files.write_svhn),
    "torchvision stl10": ("stl10", "stl10_binary", files.write_stl10),
    "torchvision usps": ("usps", ".", files.write_usps),
    "tiny-imagenet": (
        "tiny-imagenet",
        "tiny-imagenet/tiny-imagenet-200",
        files.write_tiny_imagenet,
    ),
    "dtd": ("textures", "dtd/dtd/images", lambda f: files.write_images(f, ("banded", "dotted"))),
    "eurosat": ("eurosat", "eurosat/2750", lambda f: files.write_images(f, ("Forest", "River"))),
    "folder": ("lsun", "lsun", lambda f: files.write_images(f, ("bridge", "tower"))),
    "hub": (
        "cifar10",
        "cifar10",
        lambda f: [
            files.write_parquet(f / f"{part}-00000-of-00001.parquet", 6, "img", label=[0, 1] * 3)
            for part in ("train", "test")
        ],
    ),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_sets_are_found_where_others_lay_them_out(root, case):
    name, folder, write = LAYOUTS[case]
    assert find(name) is None
    write(root / folder)
    found = find(name)
    assert found is not None and found.path == root / folder
    parts = load_parts(name)
    assert parts.name == name and parts.train.labels.max() < CARDS[name].classes
    assert len(load_part(name, "test")) in (len(parts.test), len(parts.test) + len(parts.train))
    others = [other for other in CARDS if other not in (name, "digits") and find(other)]
    assert set(others) <= {"cifar100", "cifar100-coarse"}, "mistaken for another"


def test_omniglot_is_turned_to_light_on_dark(root):
    ink = np.full((4, 4), 255, np.uint8)
    ink[1:3] = 0
    for part in ("background", "evaluation"):
        folder = root / "omniglot" / f"images_{part}" / "Greek" / "character01"
        folder.mkdir(parents=True)
        Image.fromarray(ink > 0).save(folder / "0001.png")
    assert np.array_equal(load_part("omniglot").pixels[0, 0], 255 - ink)


def test_texts_are_found(root):
    (root / "ag-news").mkdir()
    for part in ("train", "test"):
        lines = [f'"{k % 4 + 1}","A title of length {k}","Its text {k}, long"' for k in range(8)]
        (root / "ag-news" / f"{part}.csv").write_text("\n".join(lines))
    assert load_texts("ag-news")["train"].labels.tolist() == [0, 1, 2, 3] * 2
    for part in ("train", "test"):
        for group in ("alt.atheism", "sci.med"):
            folder = root / "20newsgroups" / f"20news-bydate-{part}" / group
            folder.mkdir(parents=True)
            (folder / "49960").write_text(f"Subject: {group}")
    parts = load_texts("20newsgroups")
    assert set(parts) == {"train", "test"} and parts["test"].labels.tolist() == [0, 1]
    assert parts["test"].digest == load_texts("20newsgroups")["train"].digest, "content alone"


def test_a_column_may_say_the_part(root):
    rows = ["train,a,one", "train,oos,odd", "val,a,two", "test,b,three", "test,oos,even"]
    (root / "clinc150.csv").write_text("\n".join(["split,label,text", *rows]))
    parts = load_texts("clinc150")
    assert parts["train"].texts == ("one",) and parts["test"].texts == ("three",)
    assert [*parts["train"].labels, *parts["test"].labels] == [0, 1], "numbered over all parts"
    outliers = load_texts("clinc150-oos")["test"]
    assert outliers.texts == ("even",) and outliers.labels.tolist() == [-1]
    (root / "own.csv").write_text("split,label,text\ntrain,a,one\ndev,b,two\n")
    assert load_texts(str(root / "own.csv"))["test"].texts == ("two",), "validation serves as test"
    (root / "own.csv").write_text("split,label,text\ntrain,a,one\nhalf,b,two\n")
    with pytest.raises(UserError, match="split 'half' in its text number 2; allowed are train"):
        load_texts(str(root / "own.csv"))
    (root / "clinc150.csv").write_text("split,label,text\ntrain,a,one\ntest,b,two\n")
    with pytest.raises(UserError, match="clinc150.csv' has no texts of 'clinc150-oos'"):
        load_texts("clinc150-oos")


def test_numbers_from_one_are_counted_alike_in_all_parts(root):
    rows = ["train,1,one", "train,2,two", "train,3,three", "test,2,two", "test,3,three"]
    (root / "own.csv").write_text("\n".join(["split,label,text", *rows]))
    parts = load_texts(str(root / "own.csv"))
    assert parts["train"].labels.tolist() == [0, 1, 2] and parts["test"].labels.tolist() == [1, 2]


def test_what_is_not_there_is_said(root, monkeypatch):
    sentence = (
        r"'cifar100' was not found: '.*' \(\$OODOMETER_DATA\) has none of cifar100, "
        ".*cifar-100-python.*'oodometer data get cifar100'"
    )
    with pytest.raises(UserError, match=sentence):
        load_parts("cifar100")
    with pytest.raises(UserError, match="'celeba' was not found.*mmlab.*path of your copy"):
        load_part("celeba")
    with pytest.raises(UserError, match="Unknown data set 'cifar_10'. Did you mean 'cifar10'"):
        load_parts("cifar_10")
    monkeypatch.delenv("OODOMETER_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(root))
    assert data_folder() == root / "oodometer"


def test_known_sets_must_have_their_classes(root):
    np.savez(
        root / "cifar10.npz", test_images=files.pixels(3, 4, 4, 3), test_labels=np.array([0, 1, 10])
    )
    with pytest.raises(UserError, match="cifar10.npz' is mislabelled: it has the label 10"):
        load_part("cifar10")


def test_an_official_set_may_have_its_known_broken_images(root):
    files.write_images(root / "notMNIST_small", ("A", "B"))
    for name in ("A", "B"):
        (root / "notMNIST_small" / name / "broken.png").write_bytes(b"")
    assert len(load_part("notmnist")) == 6
    (root / "notMNIST_small" / "B" / "worse.png").write_bytes(b"")
    with pytest.raises(UserError, match="is not a readable image"):
        load_part("notmnist")


def test_bytes_stay_bytes():
    pixels = files.pixels(5, 1, 3, 3)
    images = Images("x", pixels, np.zeros(5, np.int64))
    assert images.pixels.dtype == np.uint8
    assert images.floats().dtype == np.float32
    assert np.array_equal(images.floats(), (pixels / 255).astype(np.float32))
    assert np.array_equal(images.floats(np.array([4, 0])), images.floats()[[4, 0]])
    joined = [np.concatenate(column) for column in zip(*images.batches(2), strict=True)]
    assert np.array_equal(joined[0], images.floats()) and len(joined[1]) == 5
    same = Images("y", images.floats(), images.labels)
    assert np.array_equal(same.floats(), images.floats())
    with pytest.raises(UserError, match="must be uint8 or float32, got float64"):
        Images("x", pixels.astype(np.float64), images.labels)


def test_a_classifier_sees_bytes_as_their_floats():
    images = Images("x", files.pixels(9, 1, 4, 4), np.arange(9) % 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    made = extract(model, {"cut": images.batches(4), "whole": (images.floats(), images.labels)})
    assert torch.allclose(made["cut"].logits, made["whole"].logits, atol=1e-6)
    assert torch.equal(made["cut"].labels, made["whole"].labels)


def test_conform_is_what_pillow_does():
    rgb = Images("x", files.pixels(4, 3, 9, 12), np.full(4, -1))
    made = conform(rgb, 1, 6, 5).pixels
    for image, expected in zip(made, rgb.pixels, strict=True):
        picture = Image.fromarray(expected.transpose(1, 2, 0))
        theirs = picture.resize((5, 6), Image.Resampling.BILINEAR).convert("L")
        assert np.array_equal(image[0], np.asarray(theirs)), "resized first, then made grey"
    grey = Images("x", files.pixels(4, 1, 9, 12), np.full(4, -1))
    assert conform(grey, 1, 9, 12) is grey
    colour = conform(grey, 3, 9, 12).pixels
    assert colour.shape[1] == 3 and (colour == grey.pixels).all()
    floats = Images("x", rgb.floats(), rgb.labels)
    close = conform(floats, 1, 6, 5).pixels * 255 - made
    assert floats.pixels.dtype == np.float32 and abs(close).max() < 1.6, "but for rounding"


def test_outliers_are_brought_to_the_shape_of_their_source(root):
    files.write_svhn(root)
    files.write_images(root / "textures", ("a", "b"), size=9)
    files.write_images(root / "textures", ("c",), size=5)
    source = load_source(TrainSpec(data="digits"))
    for name, count in (("svhn", 6), ("textures", 9), (str(root / "test_32x32.mat"), 6)):
        outliers = load_outliers(name, source)
        assert outliers.pixels.shape == (count, 1, 8, 8)
        assert (outliers.labels == -1).all()
    assert load_outliers("svhn", source).name == "svhn"
    with pytest.raises(UserError, match="has the name of the in-distribution data, 'digits'"):
        load_outliers("digits", source)


def test_a_study_may_ask_for_another_size(root):
    files.write_svhn(root)
    source = load_source(TrainSpec(data="svhn(size=16)"))
    assert source.train.pixels.shape == (12, 3, 16, 16) and source.name == "svhn"
    assert load_parts("digits(size=28)").train.pixels.shape[1:] == (1, 28, 28)


def test_made_outliers_keep_the_range_of_bytes(root):
    files.write_svhn(root)
    source = load_source(TrainSpec(data="svhn", held_out_classes=(9,)))
    for name in (name for name in KNOWN if not name.endswith("_words")):
        outliers = load_outliers(name, source)
        floats = outliers.floats()
        assert 0 <= floats.min() <= floats.max() <= 1, name
    low, high = source.train.pixels.min(), source.train.pixels.max()
    inverted = load_outliers("inverted", source).pixels
    assert (inverted.astype(int) + source.test.pixels == int(low) + int(high)).all()
    wide = load_outliers("wide_gaussian_noise", source).pixels
    # Normal(0.5, 1): 31 % lie below 0, and as many above 1.
    assert abs((wide == 0).mean() - 0.3085) < 0.02 and abs((wide == 1).mean() - 0.3085) < 0.02


def test_lists_say_what_was_found(root):
    files.write_svhn(root)
    listed = CliRunner().invoke(app, ["list", "datasets", "--json"])
    entries = {entry["name"]: entry for entry in json.loads(listed.output)}
    assert entries["svhn"] == {
        "name": "svhn", "kind": "images", "summary": CARDS["svhn"].summary, "found": str(root),
        "licence": "non-commercial use only",
    }  # fmt: skip
    assert entries["cifar10"]["found"] == "" and entries["wide_gaussian_noise"]["summary"]
    assert entries["digits"]["found"].endswith("digits.csv.gz")
    assert "svhn" in CliRunner().invoke(app, ["list", "datasets"]).output


@real("mnist")
def test_real_mnist(monkeypatch):
    parts = load_parts("mnist")
    assert parts.train.pixels.shape == (60_000, 1, 28, 28) and parts.train.pixels.dtype == np.uint8
    assert np.bincount(parts.train.labels)[:3].tolist() == [5923, 6742, 5958]
    assert np.bincount(parts.test.labels)[:3].tolist() == [980, 1135, 1032]
    # The mean and deviation that every tutorial normalises with.
    assert abs(parts.train.pixels.mean() / 255 - 0.1307) < 1e-4
    assert abs(parts.train.pixels.std() / 255 - 0.3081) < 1e-4


@real("cifar10")
def test_real_cifar10():
    parts = load_parts("cifar10")
    assert parts.train.pixels.shape == (50_000, 3, 32, 32) and parts.train.pixels.nbytes < 2e8
    assert (np.bincount(parts.train.labels) == 5_000).all()
    assert (np.bincount(parts.test.labels) == 1_000).all()
    means = parts.train.pixels[::10].mean(axis=(0, 2, 3)) / 255
    assert np.allclose(means, [0.4914, 0.4822, 0.4465], atol=0.01)
    assert parts.train.labels[:5].tolist() == [6, 9, 9, 4, 1], "frog, trucks, deer, automobile"


@real("notmnist", "omniglot", "emnist-letters", "usps", "tiny-imagenet", "textures", "caltech101")
def test_real_outliers_take_the_shape_of_mnist():
    source = load_source(TrainSpec(data="usps"))
    for name in ("notmnist", "omniglot", "emnist-letters", "tiny-imagenet", "textures",
                 "caltech101"):  # fmt: skip
        outliers = load_outliers(name, source)
        assert outliers.pixels.shape[1:] == (1, 16, 16) and outliers.pixels.std() > 20, name


@real("ag-news")
def test_real_ag_news():
    parts = load_texts("ag-news")
    assert np.bincount(parts["test"].labels).tolist() == [1900] * 4
    assert parts["test"].texts[0].startswith("Fears for T N pension after talks Unions")
    assert set(parts["train"].labels) == {0, 1, 2, 3}, "counted from 0 in this file"


@real("cifar100", "svhn", "kmnist", "celeba")
def test_real_parts_of_colour_sets():
    """Copies may hold only the first training images; the test parts are whole."""
    cifar, svhn = load_parts("cifar100"), load_parts("svhn")
    assert (np.bincount(cifar.test.labels) == 100).all() and len(cifar.test) == 10_000
    assert cifar.train.labels[:3].tolist() == [19, 29, 0], "cattle, dinosaur, apple"
    assert np.bincount(svhn.test.labels).tolist() == [
        1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595,
    ]  # fmt: skip
    assert len(load_part("kmnist")) % 10 == 0 and load_part("kmnist").shape == (1, 28, 28)
    assert load_part("celeba").pixels.shape[1] == 3


@real("cifar100-coarse")
def test_real_superclasses_stand_beside_the_classes():
    coarse, fine = load_part("cifar100-coarse"), load_part("cifar100")
    assert (np.bincount(coarse.labels) == 500).all() and np.array_equal(coarse.pixels, fine.pixels)
    assert len({*zip(fine.labels.tolist(), coarse.labels.tolist(), strict=True)}) == 100


@real("clinc150", "clinc150-oos", "20newsgroups", "trec", "sst2", "bbc", "imdb")
def test_real_texts_with_a_column_for_their_part():
    intents = load_texts("clinc150")
    assert {part: len(texts) for part, texts in intents.items()} == {"train": 15_000, "test": 4_500}
    assert (np.bincount(intents["test"].labels) == 30).all(), "150 intents, none of them 'oos'"
    outliers = load_texts("clinc150-oos")
    assert len(outliers["test"]) == 1_000 and set(outliers["test"].labels) == {-1}
    assert not set(outliers["test"].texts) & set(intents["train"].texts)
    groups = load_texts("20newsgroups")
    assert set(groups["train"].labels) == set(groups["test"].labels) == set(range(20))
    assert set(load_texts("trec")["test"].labels) < set(load_texts("trec")["train"].labels)
    assert len(load_texts("sst2")["test"]) == 872
    assert list(load_texts("bbc")) == ["all"] and list(load_texts("imdb")) == ["test"]


@pytest.mark.skipif(
    not Path("/usr/share/datasets/fashion-mnist").is_dir(),
    reason="Debian's package dataset-fashion-mnist is not installed",
)
def test_fashion_mnist_of_debian(tmp_path, monkeypatch):
    monkeypatch.setenv("OODOMETER_DATA", str(tmp_path))
    assert find("fashion-mnist") == Found(Path("/usr/share/datasets/fashion-mnist"), "idx")
    parts = load_parts("fashion-mnist")
    assert (np.bincount(parts.train.labels) == 6_000).all() and len(parts.test) == 10_000
