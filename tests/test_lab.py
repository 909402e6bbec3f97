"""Data and training."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits as sklearn_digits

from oodometer.errors import UserError
from oodometer.lab.data.datasets import load_digits
from oodometer.lab.data.outliers import KNOWN, load_outliers
from oodometer.lab.data.sources import load_source
from oodometer.study import TrainSpec

OUTLIERS = [name for name in KNOWN if not name.endswith("_words")]  # those are for texts


def spec(**changes: object) -> TrainSpec:
    return TrainSpec(**({"data": "digits"} | changes))


def test_digits_are_those_of_scikit_learn():
    parts = load_digits()
    ours = np.concatenate([parts.train.pixels, parts.test.pixels]).reshape(-1, 64) * 16
    theirs = sklearn_digits().data
    assert sorted(map(bytes, ours.astype(np.uint8))) == sorted(map(bytes, theirs.astype(np.uint8)))


def test_held_out_classes_are_nowhere_else():
    whole, part = load_source(spec()), load_source(spec(held_out_classes=(8, 9)))
    assert whole.held_out is None and whole.classes == 10
    assert part.classes == 8 and set(part.train.labels) == set(range(8))
    assert len(part.held_out) == (sklearn_digits().target >= 8).sum()
    seen = {image.tobytes() for image in (*part.train.pixels, *part.test.pixels)}
    assert not any(image.tobytes() in seen for image in part.held_out.pixels)


def test_classes_are_renumbered_in_order():
    source = load_source(spec(held_out_classes=(0,)))
    whole = load_source(spec())
    kept = whole.train.labels != 0
    assert np.array_equal(source.train.labels, whole.train.labels[kept] - 1)


def test_splits_differ_and_repeat():
    first, again, other = (load_source(spec(split=s)) for s in (1, 1, 2))
    assert first.train.digest == again.train.digest != other.train.digest
    assert len(first.train) == len(load_source(spec()).train)


def test_digest_is_of_the_content(tiny_npz):
    one, two = load_source(spec(data=tiny_npz("a.npz"))), load_source(spec(data=tiny_npz("b.npz")))
    assert one.name != two.name and one.train.digest == two.train.digest
    changed = one.train.pixels.copy()
    changed[3, 0, 2, 2] ^= 1
    other = type(one.train)("a", changed, one.train.labels)
    relabelled = type(one.train)("a", one.train.pixels, one.train.labels[::-1].copy())
    assert len({one.train.digest, other.digest, relabelled.digest}) == 3


@pytest.mark.parametrize("name", OUTLIERS)
def test_outliers_are_made_the_same_each_time(name):
    source = load_source(spec(held_out_classes=(8, 9)))
    first, again = load_outliers(name, source), load_outliers(name, source)
    assert first.digest == again.digest
    assert (first.labels == -1).all() and first.pixels.shape[1:] == (1, 8, 8)
    assert first.pixels.min() >= 0 and first.pixels.max() <= 1
    assert first.name != source.name


def test_outliers_are_what_their_names_say():
    source = load_source(spec())
    pixels = source.test.pixels
    assert np.array_equal(load_outliers("inverted", source).pixels, 1 - pixels)
    assert np.array_equal(load_outliers("rotated", source).pixels[5, 0], np.rot90(pixels[5, 0]))
    shuffled = load_outliers("shuffled_pixels", source).pixels
    assert np.array_equal(np.sort(shuffled.reshape(-1, 64)), np.sort(pixels.reshape(-1, 64)))
    assert (shuffled != pixels).mean() > 0.3
    uniform = load_outliers("uniform_noise", source).pixels
    assert abs(uniform.mean() - 0.5) < 0.01 and abs(uniform.std() - 12**-0.5) < 0.01


def test_images_of_every_layout_are_read(tiny_npz):
    rng = np.random.default_rng(0)
    labels = np.arange(12) % 3
    for shape in ((12, 5, 6), (12, 5, 6, 1), (12, 5, 6, 3), (12, 3, 5, 6)):
        images = rng.integers(0, 255, shape).astype(np.uint8)
        path = tiny_npz(
            train_images=images, train_labels=labels, test_images=images, test_labels=labels
        )
        pixels = load_source(spec(data=path)).train.pixels
        assert pixels.shape[2:] == (5, 6) and pixels.dtype == np.uint8


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"train_labels": None}, "lacks train_labels"),
        (
            {"train_images": np.zeros((0, 8, 8), np.uint8), "train_labels": np.zeros(0, int)},
            "is empty",
        ),
        ({"train_images": np.full((60, 8, 8), np.nan)}, "holds NaN or infinity in 60 of 60 images"),
        ({"train_images": np.full((60, 8, 8), 1e300)}, "holds NaN or infinity"),
        ({"train_labels": np.zeros(60, int)}, "at least 2 classes"),
        ({"train_labels": np.zeros(59, int)}, "60 images but labels of shape"),
        ({"train_labels": np.linspace(0, 1, 60)}, "vector of integers from 0, got float64"),
        ({"train_labels": np.arange(60) - 1}, "vector of integers from 0"),
        ({"train_images": np.zeros((60, 8, 8), np.int64)}, "must be uint8 or float, got int64"),
        ({"train_images": np.zeros((60, 8, 8, 2), np.uint8)}, r"must have shape \(n, height"),
        ({"test_images": np.zeros((60, 9, 9), np.uint8)}, "differ in shape"),
        ({"train_images": np.array([None] * 60, object)}, "cannot be read as .npz"),
    ],
)
def test_bad_data_files_are_named(tiny_npz, changes, sentence):
    with pytest.raises(UserError, match=sentence):
        load_source(spec(data=tiny_npz(**changes)))


def test_files_that_are_not_data(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("text.npz", "empty.npz"):
        with pytest.raises(UserError, match="cannot be read as .npz"):
            load_source(spec(data=str(tmp_path / name)))
    with pytest.raises(UserError, match="does not exist"):
        load_source(spec(data=str(tmp_path / "none.npz")))
    with pytest.raises(UserError, match="Unknown data set 'digit'. Did you mean 'digits'"):
        load_source(spec(data="digit"))


def test_bad_outliers_are_named(tiny_npz, tmp_path):
    source = load_source(spec())
    with pytest.raises(UserError, match="Unknown outlier set 'rotate'. Did you mean 'rotated'"):
        load_outliers("rotate", source)
    with pytest.raises(UserError, match="needs classes to hold out"):
        load_outliers("held_out_classes", source)
    with pytest.raises(UserError, match="3 images but labels of shape"):
        load_outliers(tiny_npz("o.npz", test_images=np.zeros((3, 9, 9), np.uint8)), source)
    with pytest.raises(UserError, match="has the name of the in-distribution data"):
        load_outliers(tiny_npz("digits.npz"), source)
    with pytest.raises(UserError, match="names class 12"):
        load_source(spec(held_out_classes=(12,)))


def test_test_size_bounds_what_is_scored_and_not_what_is_trained():
    whole, part = (load_source(spec(held_out_classes=(8, 9), test_size=n)) for n in (None, 50))
    assert part.train.digest == whole.train.digest and len(part.test) == 50
    rows = {image.tobytes() for image in whole.test.pixels}
    assert all(image.tobytes() in rows for image in part.test.pixels)
    for name in OUTLIERS:
        images = load_outliers(name, part)
        assert len(images) == 50 and images.digest == load_outliers(name, part).digest


def test_draws_of_outliers_differ_and_repeat():
    first, again, other = (load_source(spec(test_size=50, ood_draw=n)) for n in (0, 0, 1))
    digests = [load_outliers("inverted", source).digest for source in (first, again, other)]
    assert digests[0] == digests[1] != digests[2]
    assert first.test.digest == other.test.digest and first.train.digest == other.train.digest
