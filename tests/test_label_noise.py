"""Noisy labels: published lists come out label for label; counts and rates are those asked for."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.errors import UserError
from oodometer.lab.data import label_noise
from oodometer.lab.data.label_files import list_positions, read_labels

# The published training list names CIFAR-10's classes in this order, 5,000 images each.
CLEAN = np.repeat([3, 5, 9, 2, 0, 8, 6, 7, 4, 1], 5_000)

# Clean x noisy counts of CIFAR-10N's aggregate labels.
AGGREGATE = np.array(
    [
        [4715, 28, 73, 2, 4, 1, 2, 1, 159, 15],
        [52, 4740, 1, 2, 0, 0, 0, 1, 23, 181],
        [80, 62, 4655, 32, 42, 28, 34, 8, 44, 15],
        [99, 86, 219, 4126, 32, 287, 44, 8, 49, 50],
        [91, 82, 188, 75, 4156, 104, 24, 188, 56, 36],
        [52, 38, 107, 258, 21, 4460, 7, 20, 19, 18],
        [64, 54, 133, 100, 43, 26, 4501, 0, 54, 25],
        [31, 13, 27, 23, 50, 57, 0, 4776, 17, 6],
        [52, 40, 4, 3, 1, 0, 3, 0, 4869, 28],
        [78, 366, 0, 0, 0, 0, 1, 1, 57, 4497],
    ]
)

DATA = Path(os.environ.get("OODOMETER_DATA") or "none")


def digest(labels: np.ndarray) -> str:
    return hashlib.blake2b(labels.astype("<i8").tobytes(), digest_size=16).hexdigest()


def test_the_published_uniform_list_comes_out():
    noisy = label_noise.uniform(CLEAN, 4_505, 10)
    changed = np.flatnonzero(noisy != CLEAN)
    assert len(changed) == 4_505
    assert changed[:6].tolist() == [14, 22, 24, 28, 64, 76]
    assert noisy[changed[:6]].tolist() == [7, 6, 5, 1, 9, 7]
    assert noisy[[49_993, 49_995, 49_998]].tolist() == [5, 0, 0]
    assert digest(noisy) == "a934f6636d4cf50648289b70a0a3615f"


def test_the_published_class_conditional_list_comes_out():
    noisy = label_noise.class_conditional(CLEAN, AGGREGATE)
    changed = np.flatnonzero(noisy != CLEAN)
    assert changed[:6].tolist() == [0, 16, 21, 24, 26, 28]
    assert noisy[changed[:6]].tolist() == [5, 5, 6, 1, 5, 5]
    assert noisy[[49_920, 49_923, 49_981]].tolist() == [9, 9, 0]
    assert digest(noisy) == "2d9ada2cf78f04f8a267ed374627f220"
    assert np.array_equal(label_noise.count_matrix(CLEAN, noisy, 10), AGGREGATE)


@pytest.mark.skipif(
    not all((DATA / f"{name}.npz").is_file() for name in ("cifar10", "cifar-n-labels")),
    reason="OODOMETER_DATA names no folder with cifar10.npz and cifar-n-labels.npz",
)
def test_human_labels_have_the_published_rates():
    with np.load(DATA / "cifar10.npz") as archive:
        clean = archive["train_labels"].astype(int)
    rates = {"aggre_label": 0.0901, "random_label1": 0.17234, "worse_label": 0.40208}
    path = DATA / "cifar-n-labels.npz"
    for key, rate in rates.items():
        noisy = label_noise.apply_noise(f"file(path={path}, key=c10_{key})", clean, 10)
        assert label_noise.noise_rate(clean, noisy) == pytest.approx(rate, abs=1e-9)
    human = read_labels(str(path), "c10_aggre_label", clean)
    assert np.array_equal(label_noise.count_matrix(clean, human, 10), AGGREGATE)
    imitated = label_noise.apply_noise(
        f"class_conditional(path={path}, key=c10_aggre_label)", clean, 10
    )
    assert np.array_equal(label_noise.count_matrix(clean, imitated, 10), AGGREGATE)
    assert label_noise.noise_rate(human, imitated) > 0.1, "the same counts in other places"


@pytest.fixture
def global_state():
    """NumPy's global random state, as the caller left it."""
    before = np.random.get_state()  # noqa: NPY002
    yield
    np.random.set_state(before)  # noqa: NPY002


@pytest.mark.parametrize("seed", [0, 7])
def test_uniform_follows_the_plain_loop(seed, global_state):
    clean = np.arange(500) % 7
    np.random.seed(seed)  # noqa: NPY002 - the generator as published
    expected = clean.copy()
    for row in np.random.choice(range(500), 123, replace=False):  # noqa: NPY002
        others = [number for number in range(7) if number != clean[row]]
        expected[row] = np.random.choice(others)  # noqa: NPY002
    assert np.array_equal(label_noise.uniform(clean, 123, 7, seed), expected)


def test_class_conditional_follows_the_plain_loop(global_state):
    clean = np.random.default_rng(0).permutation(np.arange(300) % 4)
    counts = np.array([[0, 3, 0, 5], [1, 0, 9, 2], [0, 0, 75, 0], [20, 20, 20, 0]])
    np.random.seed(3)  # noqa: NPY002 - the generator as published
    expected = clean.copy()
    for number in range(4):
        places = [row for row in range(300) if clean[row] == number]
        many = sum(counts[number, other] for other in range(4) if other != number)
        drawn = list(np.random.choice(places, many, replace=False))  # noqa: NPY002
        for other in range(4):
            if other != number:
                for _ in range(counts[number, other]):
                    expected[drawn.pop(0)] = other
    assert np.array_equal(label_noise.class_conditional(clean, counts, 3), expected)


TEXTS = [
    "uniform(rate=0.3)",
    "uniform(rate=0.3, seed=4)",
    "class_conditional(rate=0.3)",
    "pair(rate=0.3)",
]


@pytest.mark.parametrize("text", TEXTS)
def test_noise_has_its_rate_and_touches_nothing(text, global_state):
    clean = np.arange(1_000) % 5
    kept, state = clean.copy(), np.random.get_state()[1].copy()  # noqa: NPY002
    noisy = label_noise.apply_noise(text, clean, 5)
    assert np.array_equal(noisy, label_noise.apply_noise(text, clean, 5)), "repeatable"
    assert np.array_equal(clean, kept), "the input stays"
    after = np.random.get_state()[1]  # noqa: NPY002
    assert np.array_equal(after, state), "the global state stays"
    assert noisy.dtype == np.int64
    assert set(noisy) <= set(range(5))
    assert label_noise.noise_rate(clean, noisy) == 0.3


@pytest.mark.parametrize("kind", ["uniform", "class_conditional", "pair"])
def test_another_seed_gives_other_errors(kind):
    clean = np.arange(1_000) % 5
    first, second = (
        label_noise.apply_noise(f"{kind}(rate=0.3, seed={seed})", clean, 5) for seed in (0, 1)
    )
    assert not np.array_equal(first, second)


def test_none_is_a_copy():
    clean = np.arange(4)
    noisy = label_noise.apply_noise("none", clean, 4)
    assert np.array_equal(noisy, clean)
    assert not np.shares_memory(noisy, clean)


def test_pairs_go_to_the_next_class():
    clean = np.arange(30) % 3
    noisy = label_noise.pair(clean, 1.0, 3)
    assert np.array_equal(noisy, (clean + 1) % 3)


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 6), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_largest_remainder_is_near_and_adds_up(classes, size, seed):
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, classes, size)
    matrix = rng.dirichlet(np.ones(classes), classes)
    counts = label_noise.expected_counts(clean, matrix)
    sizes = np.bincount(clean, minlength=classes)
    assert np.array_equal(counts.sum(axis=1), sizes)
    assert np.abs(counts - matrix * sizes[:, None]).max() < 1
    noisy = label_noise.transition(clean, matrix, seed)
    assert np.array_equal(label_noise.count_matrix(clean, noisy, classes), counts)


def test_sampled_transitions_follow_their_matrix():
    matrix = np.array([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.3, 0.3, 0.4]])
    clean = np.arange(30_000) % 3
    noisy = label_noise.transition(clean, matrix, exact=False)
    shares = label_noise.count_matrix(clean, noisy, 3) / 10_000
    assert np.abs(shares - matrix).max() < 4 * np.sqrt(0.25 / 10_000)
    assert shares[1, 1] == 1


def test_lists_of_names_find_their_images(tmp_path):
    clean = np.array([1, 0, 1, 1, 0])
    lines = {"data/train/dog/0002.png": 0, "data/train/cat/0001.png": 0}
    lines |= {"data/train/dog/0003.png": 1, "data/train/cat/0002.png": 1}
    lines |= {"data/train/dog/0001.png": 1}
    assert list_positions(list(lines), clean).tolist() == [2, 1, 3, 4, 0]
    text = "".join(f"{name} {label}\n" for name, label in lines.items())
    path = tmp_path / "list.txt.gz"
    path.write_bytes(gzip.compress(text.encode()))
    noisy = label_noise.apply_noise(f"file(path={path})", clean, 2)
    assert noisy.tolist() == [1, 0, 0, 1, 1]


def test_files_of_labels(tmp_path):
    clean = np.array([0, 1, 2])
    plain, archive = tmp_path / "plain.txt", tmp_path / "labels.npz"
    plain.write_text("2\n1\n0\n")
    np.savez(archive, one=np.array([1, 1, 1], dtype=np.uint8), two=np.array([2, 2, 2]))
    assert label_noise.apply_noise(f"file(path={plain})", clean, 3).tolist() == [2, 1, 0]
    key = f"file(path={archive}, key=one)"
    assert label_noise.apply_noise(key, clean, 3).tolist() == [1, 1, 1]


def test_errors_of_people_can_be_scaled(tmp_path):
    clean = np.arange(3_000) % 3
    human = label_noise.pair(clean, 0.1, 3)
    path = tmp_path / "human.npz"
    np.savez(path, human)
    noisy = label_noise.apply_noise(f"class_conditional(path={path}, rate=0.4)", clean, 3)
    expected = label_noise.expected_counts(clean, label_noise.pair_matrix(0.4, 3))
    assert np.array_equal(label_noise.count_matrix(clean, noisy, 3), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unifrom(rate=0.2)", "Unknown label noise 'unifrom'. Did you mean 'uniform'?"),
        ("uniform(rat=0.2)", "Unknown setting of 'uniform' 'rat'"),
        ("uniform", "lacks the setting rate"),
        ("uniform(rate=1.2)", "between 0 and 1, got 1.2"),
        ("uniform(rate=-0.1)", "between 0 and 1, got -0.1"),
        ("pair(rate=True)", "between 0 and 1, got True"),
        ("pair(rate=lots)", "between 0 and 1, got 'lots'"),
        ("uniform(rate=0.2, seed=-1)", "whole number from 0, got -1"),
        ("class_conditional", "needs a rate"),
        ("none(rate=0.2)", "Unknown setting of 'none' 'rate'"),
        ("file(path=nowhere.npz)", "'nowhere.npz' does not exist"),
        ("file(path=nowhere.txt)", "'nowhere.txt' does not exist"),
        ("file(path=nowhere.txt, key=a)", "has no key 'a'"),
    ],
)
def test_bad_texts_are_refused_in_one_sentence(text, message):
    with pytest.raises(UserError) as problem:
        label_noise.apply_noise(text, np.arange(10), 10)
    assert message in str(problem.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0\n1\n", "has 2 labels for 3 images"),
        ("0\n1\ntwo\n", "Line 3"),
        ("0\n1\n7\n", "between 0 and 2, got 0 to 7"),
        ("cat/1.png 0\ndog/1.png 0\nowl/2.png 0\n", "would be image 2 of class 2, which has 1"),
        ("cat/1.png 0\ndog/1.png 0\ndog/1.png 0\n", "images of 2 of 3 classes"),
        ("cat 0\ndog 0\nowl 0\n", "'cat' must be written as <class>/<number>.png"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(content, message, tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text(content)
    with pytest.raises(UserError) as problem:
        label_noise.apply_noise(f"file(path={path})", np.arange(3), 3)
    assert message in str(problem.value)


def test_files_that_hold_something_else_are_refused(tmp_path):
    clean = np.arange(3)
    several, floats = tmp_path / "several.npz", tmp_path / "floats.npz"
    np.savez(several, a=clean, b=clean)
    np.savez(floats, a=np.zeros(3))
    weights, broken = tmp_path / "labels.pt", tmp_path / "broken.npz"
    weights.write_bytes(b"\x80\x02\xff")
    broken.write_bytes(b"PK nothing")
    for path, message in [
        (several, "holds several arrays: set key to one of a, b"),
        (floats, "vector of integers, got float64"),
        (weights, "numpy.savez first"),
        (broken, "cannot be read as .npz"),
    ]:
        with pytest.raises(UserError, match=message):
            read_labels(str(path), None, clean)
    with pytest.raises(UserError, match="Did you mean 'a'"):
        read_labels(str(several), "A", clean)


def test_bad_arguments_are_refused():
    clean = np.array([0, 1, 1])
    for call, message in [
        (lambda: label_noise.uniform(clean, 4, 2), "between 0 and 3 labels, got 4"),
        (lambda: label_noise.uniform([0, 2], 1, 2), "between 0 and 1, got 0 to 2"),
        (lambda: label_noise.uniform([0.5], 1, 2), "vector of integers"),
        (lambda: label_noise.uniform([0], 1, 1), "at least 2 classes"),
        (lambda: label_noise.class_conditional(clean, [[0, 2], [0, 0]]), "class 0, which has 1"),
        (lambda: label_noise.class_conditional(clean, [[0, -1], [0, 0]]), "whole numbers from 0"),
        (lambda: label_noise.class_conditional(clean, [0, 1]), "square matrix"),
        (lambda: label_noise.transition(clean, [[0.5, 0.4], [0, 1]]), "row 0 sums to 0.9"),
        (lambda: label_noise.transition(clean, [[1.5, -0.5], [0, 1]]), "no negative number"),
        (lambda: label_noise.count_matrix(clean, [0, 1], 2), "3 clean but 2 noisy"),
        (lambda: label_noise.noise_rate(clean, [0, 1]), "cannot be compared"),
    ]:
        with pytest.raises(UserError, match=message):
            call()


def test_scaling_stops_where_a_class_runs_out(tmp_path):
    clean = np.array([0] * 50 + [1] * 50)
    human = clean.copy()
    human[:25] = 1  # half of class 0, none of class 1: a rate of 0.25, at most 0.5
    path = tmp_path / "human.npz"
    np.savez(path, human)
    noisy = label_noise.apply_noise(f"class_conditional(path={path}, rate=0.5)", clean, 2)
    assert (noisy == 1).all()
    with pytest.raises(UserError, match="at most 0.500 is possible"):
        label_noise.apply_noise(f"class_conditional(path={path}, rate=0.6)", clean, 2)
