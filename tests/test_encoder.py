"""Pretrained encoders of texts: their files, tokenizers, features, and a study with one."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from tiny_encoder import PIECES, WORDS, save_encoder

from oodometer.engine.plan.trainings import DataContent, training_key
from oodometer.errors import UserError
from oodometer.lab.asking.extract import extract
from oodometer.lab.data import encoders
from oodometer.lab.data.encoders import Pieces, encoder_folder, pretrained_digest
from oodometer.lab.data.outliers import load_outliers
from oodometer.lab.data.samples import Texts
from oodometer.lab.data.sources import load_source
from oodometer.lab.data.vocabulary import LENGTH
from oodometer.lab.training.networks import build_network, check_network
from oodometer.lab.training.train import train
from oodometer.study import TrainSpec

transformers = pytest.importorskip("transformers", reason="the extra 'text' is not installed")

TOPICS = (["football", "goal"], ["bank", "market"], ["atom", "genes"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def news(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("news")
    rng = np.random.default_rng(0)
    for part, count in (("train", 90), ("test", 45)):
        lines = []
        for row in range(count):
            words = [*rng.choice(TOPICS[row % 3], 3), *rng.choice(["the", "of", "a"], row % 5)]
            lines.append({"text": " ".join(rng.permutation(words)), "label": row % 3})
        (made / f"{part}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return made


def texts(*lines: str) -> Texts:
    return Texts("t", lines, np.zeros(len(lines), np.int64))


def spec(folder: Path, news: Path, **changes: object) -> TrainSpec:
    base = {"data": str(news), "network": f"encoder(path={folder})", "epochs": 8}
    return TrainSpec(**(base | {"learning_rate": 5e-3, "batch_size": 16} | changes))


def test_texts_are_numbered_by_the_tokenizer(folder):
    rows = Pieces.of(str(folder)).encode(texts("The football genes", "", "goal " * 100)).words
    pieces = [PIECES[number - 1] for number in rows[0] if number]
    assert pieces == ["[CLS]", "the", "foot", "##ball", "gene", "##s", "[SEP]"]
    assert rows.shape == (3, LENGTH) and (rows[0, len(pieces) :] == 0).all()
    assert [PIECES[number - 1] for number in rows[1] if number] == ["[CLS]", "[SEP]"]
    assert (rows[2] != 0).sum() == 40  # what the encoder has positions for


def test_features_are_the_first_token_of_the_encoder_itself(folder):
    """Against transformers' own padding and masks."""
    network = build_network(f"encoder(path={folder})", (LENGTH,), 3).eval()
    lines = ["the football of a bank", "atom", ""]
    rows = Pieces.of(str(folder)).encode(texts(*lines)).words.astype(np.int64)
    outputs = extract(network, {"t": torch.from_numpy(rows)}, needs=["layers"])["t"]
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        batch = tokenizer(lines, return_tensors="pt", padding="max_length", max_length=32)
        states = model(**batch, output_hidden_states=True).hidden_states
    assert torch.allclose(outputs.features, states[-1][:, 0], atol=1e-5)
    assert torch.allclose(outputs.layers["tokens.layers.0"], states[1][:, 0], atol=1e-5)
    assert list(outputs.layers) == ["tokens.layers.0", "tokens.layers.1"]


def test_features_of_a_text_do_not_depend_on_the_batch(folder):
    network = build_network(f"encoder(path={folder})", (LENGTH,), 3).eval()
    lines = ("the football of a bank", "goal", "market " * 15)
    rows = torch.from_numpy(Pieces.of(str(folder)).encode(texts(*lines)).words.astype(np.int64))
    with torch.no_grad():
        together = network(rows)
        for row, expected in zip(rows, together, strict=True):
            assert torch.allclose(network(row[None])[0], expected, atol=1e-6)
        assert network(torch.zeros(2, LENGTH, dtype=torch.int64)).isfinite().all()


def test_other_families_have_another_padding(tmp_path):
    """RoBERTa pads with 1 and counts positions from there."""
    config = transformers.RobertaConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=40,
    )  # fmt: skip
    with encoders.quiet_transformers():
        model = transformers.RobertaModel(config).eval()
        model.save_pretrained(tmp_path)
    network = build_network(f"encoder(path={tmp_path})", (LENGTH,), 3).eval()
    pieces = torch.tensor([[0, 7, 9, 2, 1, 1], [0, 7, 9, 11, 5, 2]])
    rows = torch.where(pieces == 1, 0, pieces + 1)
    with torch.no_grad():
        expected = model(input_ids=pieces, attention_mask=(pieces != 1).long())
        found = network.tokens(rows)
        alone = network.tokens(rows[:1])
    assert torch.allclose(found, expected.last_hidden_state[:, 0], atol=1e-6)
    assert torch.allclose(alone, found[:1], atol=1e-6)


def test_an_encoder_is_tuned_and_repeats(folder, news):
    wanted = spec(folder, news)
    source = load_source(wanted)
    made = train(wanted, source.train, source.classes)
    outputs = extract(made.model, {"test": source.test.batches()})["test"]
    assert (outputs.logits.argmax(1) == outputs.labels).float().mean() > 0.9
    assert made.losses == train(wanted, source.train, source.classes).losses
    start = build_network(wanted.network, (LENGTH,), 3).state_dict()
    moved = [
        name for name, value in made.model.state_dict().items() if (value != start[name]).any()
    ]
    assert any("embeddings.word" in name for name in moved)  # the whole network is tuned
    assert not any("pooler" in name for name in start)


def test_weights_count_by_their_content_and_not_by_their_place(folder, news, tmp_path):
    same, other = save_encoder(tmp_path / "same"), save_encoder(tmp_path / "other", hidden_size=8)
    digests = [pretrained_digest(f"encoder(path={place})") for place in (folder, same, other)]
    assert digests[0] == digests[1] != digests[2]
    assert pretrained_digest("text_bag") == ""
    content = DataContent("news", "t", "i", {})
    keys = [
        training_key(spec(place, news), replace(content, weights=digest))
        for place, digest in zip((folder, same, other), digests, strict=True)
    ]
    assert keys[0] == keys[1] != keys[2]
    config = json.loads((same / "config.json").read_text())
    (same / "config.json").write_text(json.dumps(config | {"hidden_dropout_prob": 0.3}))
    assert pretrained_digest(f"encoder(path={same})") != digests[0]


def test_outliers_made_from_pieces(folder, news):
    source = load_source(spec(folder, news, held_out_classes=(2,)))
    tests = source.test.words
    shuffled, drawn = (load_outliers(name, source) for name in ("shuffled_words", "random_words"))
    assert np.array_equal(np.sort(shuffled.words, 1), np.sort(tests, 1))
    assert (shuffled.words != tests).any() and np.array_equal(shuffled.words == 0, tests == 0)
    ball = PIECES.index("##ball") + 1
    before = shuffled.words[:, :-1][shuffled.words[:, 1:] == ball]
    assert len(before) and (before == PIECES.index("foot") + 1).all()  # words stay whole
    for words in (shuffled.words, drawn.words):
        assert (words[:, 0] == PIECES.index("[CLS]") + 1).all()
        assert np.array_equal(
            words == PIECES.index("[SEP]") + 1, tests == PIECES.index("[SEP]") + 1
        )
    found = {PIECES[number - 1] for number in np.unique(drawn.words) if number} - {"[CLS]", "[SEP]"}
    assert found == {word for word in WORDS if not word.startswith("##")}


def test_what_is_no_encoder_is_refused(folder, news, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="lacks the setting path"):
        check_network("encoder")
    with pytest.raises(UserError, match="Unknown setting of 'encoder' 'size'"):
        check_network(f"encoder(path={folder}, size=3)")
    with pytest.raises(UserError, match="has the width of its weights: leave out width 8"):
        build_network(f"encoder(path={folder})", (LENGTH,), 3, 8)
    with pytest.raises(UserError, match="takes texts, but the data are images"):
        build_network(f"encoder(path={folder})", (1, 8, 8), 3)
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "config.json").write_text((folder / "config.json").read_text())
    (pickled / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(UserError, match="weights in \\*.safetensors; .* pytorch_model.bin"):
        encoder_folder(str(pickled))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="neither a folder nor an installed package, and could not"):
        load_source(spec(Path("no-such/encoder"), news))
    lacking = save_encoder(tmp_path / "lacking")
    config = json.loads((lacking / "config.json").read_text())
    (lacking / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(UserError, match="lack encoder.layer.2"):
        build_network(f"encoder(path={lacking})", (LENGTH,), 3)
    (lacking / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(UserError, match="cannot be loaded"):
        build_network(f"encoder(path={lacking})", (LENGTH,), 3)


def test_code_that_comes_with_weights_is_not_run(folder, news, tmp_path, monkeypatch):
    """Neither by default nor after a question, for which a worker would wait."""
    (tmp_path / "evil.py").write_text("open('ran', 'w').close()\nConfig = Model = Tokenizer = 1")
    for name in ("model.safetensors", "tokenizer.json", "vocab.txt"):
        (tmp_path / name).symlink_to(folder / name)
    config = {"model_type": "strange", "auto_map": {"AutoConfig": "evil.Config"}}
    config["auto_map"]["AutoModel"] = "evil.Model"
    (tmp_path / "config.json").write_text(json.dumps(config))
    other = {"tokenizer_class": "Strange", "auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(other))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("somebody is asked"))
    for attempt in (
        lambda: Pieces.of(str(tmp_path)),
        lambda: build_network(f"encoder(path={tmp_path})", (LENGTH,), 3),
    ):
        with pytest.raises(UserError, match="cannot be loaded"):
            attempt()
    assert not (tmp_path / "ran").exists()


def test_weights_of_the_hub(folder, monkeypatch):
    asked = []

    def download(name: str, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert encoder_folder("somebody/some-bert") == folder
    ((name, patterns),) = asked
    assert name == "somebody/some-bert" and not any("bin" in each for each in patterns)


def test_weights_in_an_installed_package(folder, monkeypatch):
    class File:
        suffix = ".safetensors"

        def locate(self) -> Path:
            return folder / "model.safetensors"

    monkeypatch.setattr(
        encoders.importlib.metadata, "files", lambda name: [File()] if name == "my-bert" else None
    )
    assert encoder_folder("my-bert") == folder


def test_without_transformers_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers.utils", None)
    with pytest.raises(UserError, match=r"pip install 'oodometer\[text\]'"):
        Pieces.of(str(folder))


def test_transformers_is_left_as_it_was(folder):
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled(), logging.get_verbosity()
    Pieces.of(str(folder))
    assert (logging.is_progress_bar_enabled(), logging.get_verbosity()) == before


def test_a_study_with_an_encoder(folder, news, tmp_path, capsys):
    """From the command line, with a path beside the study file; the second time from the store."""
    from oodometer.engine.lead.run import run_study
    from oodometer.engine.stores import MemoryStore
    from oodometer.study import load_study

    (tmp_path / "tiny").symlink_to(folder)
    (tmp_path / "news").symlink_to(news)
    base = {"data": "./news", "held_out_classes": [2], "network": "encoder(path=tiny)"}
    study = {
        "name": "tuned",
        "base": base | {"epochs": 3, "learning_rate": 5e-3, "batch_size": 16},
        "factors": [{"field": "seed", "levels": [0, 1]}],
        "detectors": ["max_softmax", "knn(normalize=False, k=5)"],
        "ood": ["held_out_classes", "random_words"],
    }
    (tmp_path / "tuned.yaml").write_text(yaml.safe_dump(study))
    store = MemoryStore()
    outcome = run_study(load_study(tmp_path / "tuned.yaml"), store, workers=1)
    assert not outcome.missing
    assert capsys.readouterr().err == ""


def test_a_classifier_by_transformers_is_asked_with_what_its_tokenizer_returns(tmp_path):
    folder = save_encoder(tmp_path, "BertForSequenceClassification", num_labels=3)
    with encoders.quiet_transformers():
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lines = ["the football of a bank", "atom", "goal goal"] * 30
    batch = tokenizer(lines, padding=True, return_tensors="pt")
    labels = torch.arange(90) % 3
    outputs = extract(model, {"train": {**batch, "labels": labels}, "test": batch})
    with torch.no_grad():
        expected = model(**batch).logits
    for made in outputs.values():
        assert torch.allclose(made.logits, expected, atol=1e-5)
        assert torch.allclose(made.head(made.features), made.logits, atol=1e-5)
    assert torch.equal(outputs["train"].labels, labels) and (outputs["test"].labels == -1).all()
    with pytest.raises(UserError, match="as many rows in each .*input_ids: 90.*labels: 9"):
        extract(model, {"train": {**batch, "labels": labels[:9]}})
