"""Texts: numbered words, networks for them, outliers made from them, and a study."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from oodometer.errors import UserError
from oodometer.lab.asking.extract import extract
from oodometer.lab.data.outliers import load_outliers
from oodometer.lab.data.samples import Texts
from oodometer.lab.data.sources import load_source
from oodometer.lab.data.vocabulary import LENGTH, NOTHING, UNKNOWN, WORDS, Vocabulary, words_of
from oodometer.lab.training.networks import build_network
from oodometer.lab.training.task import CLASSIFIER
from oodometer.lab.training.train import train
from oodometer.study import TrainSpec

TOPICS = (
    ["ball", "goal", "team", "match"],
    ["bank", "price", "market", "share"],
    ["atom", "cell", "gene", "ray"],
)
FOR_TEXTS = ["text_bag", "text_cnn"]  # encoder: test_encoder.py


@pytest.fixture
def news(tmp_path) -> str:
    """Three topics, each with words of its own among words of all."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 240), ("test", 90)):
        lines = []
        for row in range(count):
            own = rng.choice(TOPICS[row % 3], 4)
            common = rng.choice(["the", "a", "of", "and", "in", "on", "with"], 6)
            words = rng.permutation(np.concatenate([own, common]))
            lines.append(json.dumps({"text": " ".join(words), "label": row % 3}))
        (tmp_path / f"news-{part}.jsonl").write_text("\n".join(lines))
    folder = tmp_path / "news"
    folder.mkdir()
    for part in ("train", "test"):
        (tmp_path / f"news-{part}.jsonl").rename(folder / f"{part}.jsonl")
    return str(folder)


def spec(news: str, **changes: object) -> TrainSpec:
    base = {"data": news, "network": "text_bag", "width": 8, "epochs": 6, "learning_rate": 0.02}
    return TrainSpec(**(base | changes))


def texts(*lines: str) -> Texts:
    return Texts("t", lines, np.zeros(len(lines), np.int64))


def test_words_are_numbered_by_how_often_they_occur():
    made = Vocabulary.of(["b b b a a c", "A d, d!", "once"])
    assert made.numbers == {"a": 2, "b": 3, "d": 4}  # a and b both thrice, d twice
    rows = made.encode(texts("b?A unheard d", "", "...")).words
    assert rows.shape == (3, LENGTH) and rows.dtype == np.int32
    assert rows[0, :5].tolist() == [3, 2, UNKNOWN, 4, NOTHING]
    assert (rows[1:, 0] == UNKNOWN).all() and (rows[1:, 1:] == NOTHING).all()


def test_long_texts_and_large_vocabularies_are_cut():
    assert len(words_of("word " * 10_000)) == LENGTH
    many = Vocabulary.of([" ".join(f"w{k + 100 * j}" for k in range(100)) for j in range(250)] * 2)
    assert len(many.numbers) == WORDS - 2 and max(many.numbers.values()) == WORDS - 1
    with pytest.raises(UserError, match="no word that occurs 2 times"):
        Vocabulary.of(["all of these differ"])
    assert words_of("Ünïcode Straße 東京 x_y") == ["ünïcode", "straße", "東京", "x_y"]


@pytest.mark.parametrize("name", FOR_TEXTS)
def test_texts_are_learned_and_extracted(news, name):
    wanted = spec(news, network=name)
    source = load_source(wanted)
    assert source.train.shape == (LENGTH,) and source.classes == 3
    made = train(wanted, source.train, source.classes)
    outputs = extract(made.model, {"test": source.test.batches()})["test"]
    assert (outputs.logits.argmax(1) == outputs.labels).float().mean() > 0.9
    assert torch.allclose(outputs.head(outputs.features), outputs.logits, atol=1e-4)
    again = train(wanted, source.train, source.classes)
    assert made.losses == again.losses


@pytest.mark.parametrize("name", FOR_TEXTS)
def test_what_stands_behind_a_text_does_not_matter(name):
    torch.manual_seed(0)
    network = build_network(name, (LENGTH,), 3, 4).eval()
    numbers = torch.zeros(2, LENGTH, dtype=torch.int64)
    numbers[:, :6] = torch.tensor([5, 9, 12, 7, 7, 3])
    with torch.no_grad():
        whole = network(numbers)
        assert torch.equal(whole[0], whole[1])
        assert torch.allclose(network(numbers[:, :20]), whole, atol=1e-6)
        assert torch.allclose(network(numbers[:1]), whole[:1], atol=1e-6)
        other = numbers.clone()
        other[:, 2] = 400
        assert not torch.allclose(network(other), whole, atol=1e-6)


def test_the_mean_of_words_by_hand():
    torch.manual_seed(0)
    network = build_network("text_bag", (LENGTH,), 3, 4)
    vectors = network.stage1.vectors.weight
    assert vectors.shape == (WORDS, 4) and (vectors[0] == 0).all() and vectors.abs().max() <= 0.25
    numbers = torch.zeros(1, LENGTH, dtype=torch.int64)
    numbers[0, :3] = torch.tensor([5, 9, 9])
    expected = (vectors[5] + 2 * vectors[9]) / 3
    assert torch.allclose(network.stage1(numbers)[0], expected, atol=1e-7)


def test_the_published_size_of_the_cnn():
    """Kim 2014: vectors of 300, 100 filters each for 3, 4 and 5 words."""
    network = build_network("text_cnn", (LENGTH,), 4)
    counted = sum(parameter.numel() for parameter in network.parameters())
    filters = sum(300 * size * 100 + 100 for size in (3, 4, 5))
    assert counted == WORDS * 300 + filters + 300 * 4 + 4


def test_outliers_made_from_texts(news):
    source = load_source(spec(news, held_out_classes=(2,)))
    shuffled, drawn = (load_outliers(name, source) for name in ("shuffled_words", "random_words"))
    tests = source.test.words
    assert np.array_equal(np.sort(shuffled.words, 1), np.sort(tests, 1))
    assert (shuffled.words != tests).any() and np.array_equal(shuffled.words == 0, tests == 0)
    assert np.array_equal(drawn.words == 0, tests == 0)
    assert drawn.words.max() <= max(source.vocabulary.numbers.values())
    held = load_outliers("held_out_classes", source)
    assert len(held) == (240 + 90) // 3 and source.classes == 2
    # Words of the topic that was held out are not in the vocabulary.
    assert not set(TOPICS[2]) & set(source.vocabulary.numbers)
    assert load_outliers("shuffled_words", source).digest == shuffled.digest


def test_texts_as_outliers_and_their_parts(news, tmp_path):
    other = tmp_path / "posts.csv"
    other.write_text(
        "text,label\n" + "\n".join(f"goal number {k} of team x,{k % 2}" for k in range(9))
    )
    source = load_source(spec(news))
    found = load_outliers(str(other), source)
    assert len(found) == 9 and found.name == "posts" and (found.labels == -1).all()
    assert found.words[0, 0] == source.vocabulary.numbers["goal"]
    assert found.words[0, 1] == UNKNOWN  # "number" is not of these topics


@pytest.mark.parametrize(
    ("changes", "outlier", "sentence"),
    [
        (
            {"network": "small_cnn"},
            "",
            "takes images, but the data are texts; .*text_bag, text_cnn",
        ),
        ({"augment": "crop_flip"}, "", "augment 'crop_flip' is for images; 'news' holds texts"),
        ({"adversarial": 0.01}, "", "adversarial 0.01 is for images"),
        ({}, "uniform_noise", "made from images, but 'news' holds texts; .*shuffled_words"),
        ({}, "digits", "Outlier set 'digits' holds images, but 'news' holds texts"),
        ({"split": "od_test"}, "", "Split 'od_test' is for images"),
    ],
)
def test_what_does_not_go_with_texts_is_named(news, changes, outlier, sentence):
    wanted = spec(news, **changes)
    with pytest.raises(UserError, match=sentence):
        source = load_source(wanted)
        CLASSIFIER.fresh_network(wanted, source.train.shape, source.classes)
        load_outliers(outlier, source)
    with pytest.raises(UserError, match="takes texts, but the data are images"):
        build_network("text_bag", (1, 8, 8), 3)
    with pytest.raises(UserError, match="made from texts, but 'digits' holds images"):
        load_outliers("random_words", load_source(TrainSpec(data="digits")))
