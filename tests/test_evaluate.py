"""A user's own classifier: saved outputs of any framework, or a model with its weights."""

import importlib

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from oodometer import metrics
from oodometer.cli import app
from oodometer.errors import UserError
from oodometer.lab.models import load_model
from oodometer.lab.sources import load_source
from oodometer.saved import load_outputs
from oodometer.study import TrainSpec

CLASSES, WIDTH = 4, 8


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Files of outputs in which the outliers lie far away; train alone has the head."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(CLASSES, WIDTH)), rng.normal(size=CLASSES)
    arrays = {}
    for name, rows, shift in (("train", 90, 0), ("id", 40, 0), ("far", 40, 5)):
        labels = np.arange(rows) % CLASSES
        features = weight[labels] + rng.normal(size=(rows, WIDTH)) + shift
        arrays[name] = {
            "features": features,
            "logits": features @ weight.T + bias,
            "labels": labels,
        }
    arrays["train"] |= {"weight": weight, "bias": bias}
    for name, content in arrays.items():
        np.savez(f"{name}.npz", **content)
    return arrays


def run(*arguments):
    return CliRunner().invoke(app, ["evaluate", *arguments])


def test_saved_outputs_are_scored_written_and_reported(made, tmp_path):
    done = run("--outputs", "train=train.npz", "id=id.npz", "far=far.npz", "--out", "out",
               "--detectors", "knn(k=3, normalize=False),max_logit")  # fmt: skip
    assert done.exit_code == 0, done.output
    scores = pd.read_parquet(tmp_path / "out" / "scores.parquet")
    logits = scores[scores["detector"] == "max_logit"].set_index("dataset")["score"]
    # Minus the largest logit, as NumPy has it.
    np.testing.assert_allclose(logits["far"], -made["far"]["logits"].max(axis=1))
    summary = pd.read_csv(tmp_path / "out" / "summary.csv").set_index("detector")
    expected = metrics.auroc(-made["id"]["logits"].max(1), -made["far"]["logits"].max(1))
    assert summary.loc["max_logit", "auroc"] == pytest.approx(expected)
    assert (
        summary.loc["max_logit", "auroc_low"] <= expected <= summary.loc["max_logit", "auroc_high"]
    )
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000


def test_what_is_missing_limits_the_detectors_and_is_said(made):
    for name in ("train", "id", "far"):
        np.savez(f"{name}.npz", logits=made[name]["logits"])
    done = run("--outputs", "train=train.npz", "id=id.npz", "far=far.npz", "--out", "out")
    assert done.exit_code == 0, done.output
    assert "missing: detector knn" in done.output


@pytest.mark.parametrize("kind", ["lists", "numbered"])
def test_parquet_gives_what_npz_gives(made, kind):
    content = made["train"]
    if kind == "lists":
        frame = pd.DataFrame(
            {name: list(content[name]) for name in ("logits", "features", "labels")}
        )
        frame["weight"] = [*map(list, content["weight"]), *[None] * (90 - CLASSES)]
        frame["bias"] = [*content["bias"], *[None] * (90 - CLASSES)]
    else:
        frame = pd.DataFrame({"labels": content["labels"]})
        for name in ("logits", "features"):
            for column in range(content[name].shape[1]):
                frame[f"{name}_{column}"] = content[name][:, column]
    frame.to_parquet("train.parquet")
    read = load_outputs({"train": "train.parquet", "head": "train.npz"})["train"]
    wanted = load_outputs({"train": "train.npz"})["train"]
    for name, tensor in wanted.tensors().items():
        assert torch.equal(read.tensors()[name], tensor), name


def test_safetensors_half_precision_float_labels_and_other_arrays(made):
    save_file({"logits": torch.ones(3, 2, dtype=torch.bfloat16)}, "x.safetensors")
    assert load_outputs({"a": "x.safetensors"})["a"].logits.dtype == torch.float32
    np.savez("y.npz", logits=np.ones((3, 2), ">f4"), labels=np.array([[0.0], [1.0], [-1.0]]),
             paths=np.array(["a", "b", "c"], dtype=object))  # fmt: skip
    assert load_outputs({"a": "y.npz"})["a"].labels.tolist() == [0, 1, -1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--outputs", "train=train.npz", "id=id.npz"], "no outlier set"),
        (["--outputs", "train=no.npz", "id=id.npz", "x=id.npz"], "'no.npz' does not exist"),
        (["--outputs", "train=train.csv", "id=id.npz", "x=id.npz"], "none of these"),
        (["--outputs", "trian=train.npz"], "needs train=FILE"),
        (["--outputs", "train"], "NAME=FILE"),
        (["--outputs", "train=train.npz", "--model", "a:b"], "either --outputs, or --model"),
        (["--model", "a:b"], "--weights, --train, --id, --ood missing"),
        (["--outputs", "train=train.npz", "id=id.npz", "x=far.npz", "--detectors", "kn"], "knn"),
    ],
)
def test_errors_of_the_command(made, arguments, words):
    done = run(*arguments)
    assert done.exit_code != 0 and words in str(done.exception)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"logit": np.ones((2, 2))}, "'logit'. Did you mean 'logits'"),
        ({"x": np.ones(2)}, "holds none of logits"),
        ({"logits": np.array([["a"]])}, "must hold numbers"),
        ({"logits": np.ones((2, 2)), "labels": np.array([0.5, 1])}, "labels must be a vector"),
        ({"logits": np.full((2, 2), np.nan)}, "logits must be finite, but 2 of 2 rows"),
    ],
)  # fmt: skip
def test_files_that_hold_no_outputs(tmp_path, arrays, words):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(UserError, match=words):
        load_outputs({"a": tmp_path / "a.npz"})


def test_broken_files(tmp_path):
    for suffix in (".npz", ".parquet", ".safetensors"):
        path = tmp_path / f"a{suffix}"
        path.write_bytes(b"no such thing")
        with pytest.raises(UserError, match="cannot be read as"):
            load_outputs({"a": path})
    np.savez(tmp_path / "pickled.npz", logits=np.array([None], dtype=object))
    with pytest.raises(UserError, match="cannot be read"):
        load_outputs({"a": tmp_path / "pickled.npz"})


FACTORY = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU())
        self.head = nn.Linear(16, classes)

    def forward(self, images):
        return self.head(self.body(images))
"""


@pytest.fixture
def own_model(tmp_path, monkeypatch):
    (tmp_path / "own_model_for_evaluate.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("own_model_for_evaluate")
    for seed in (0, 1):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            save_file(module.Net().state_dict(), f"seed{seed}.safetensors")
    return "own_model_for_evaluate:Net"


def test_two_files_of_weights_are_two_runs(own_model, tmp_path):
    done = run("--model", own_model, "--weights", "seed0.safetensors", "seed1.safetensors",
               "--train", "digits", "--id", "digits", "--ood", "digits(part=train)", "--out", "out",
               "--detectors", "max_softmax,energy", "--mean", "0.5", "--std", "0.5")  # fmt: skip
    assert done.exit_code == 0, done.output + str(done.exception)
    summary = pd.read_csv(tmp_path / "out" / "summary.csv")
    assert set(summary["weights"]) == {"seed0", "seed1"} and len(summary) == 4


def test_probes_and_an_ensemble_of_all_weights(own_model, tmp_path):
    def evaluate(*weights):
        return run("--model", own_model, "--weights", *weights, "--train", "digits", "--id",
                   "digits", "--ood", "digits(part=train)", "--out", "out",
                   "--detectors", "energy,odin,mc_dropout,gram,deep_ensemble")  # fmt: skip

    done = evaluate("seed0.safetensors", "seed1.safetensors")
    assert done.exit_code == 0, done.output + str(done.exception)
    scores = pd.read_parquet(tmp_path / "out" / "scores.parquet")
    assert set(scores["detector"]) == {"energy", "odin", "gram", "deep_ensemble"}
    assert "missing:" not in done.output
    told = " ".join(done.output.split())
    assert "Not applicable to this network: mc_dropout (Probe 'mc_dropout'" in told
    votes = scores[(scores["detector"] == "deep_ensemble") & (scores["dataset"] == "id")]
    first, second = (part["score"].to_numpy() for _, part in votes.groupby("run"))
    np.testing.assert_array_equal(first, second)
    source = load_source(TrainSpec(data="digits"))
    mean = 0
    for seed in (0, 1):
        model = load_model(own_model, (1, 8, 8), 10, tmp_path / f"seed{seed}.safetensors")
        with torch.no_grad():
            mean = mean + model(torch.from_numpy(source.test.floats())).double().softmax(1) / 2
    np.testing.assert_allclose(first, (-(mean * mean.log()).sum(1)).log().numpy(), rtol=1e-4)
    alone = evaluate("seed0.safetensors")
    assert alone.exit_code == 0, alone.output
    assert "an ensemble needs several --weights" in " ".join(alone.output.split())


def test_weights_are_read_without_running_code(own_model, tmp_path):
    class Bomb:
        def __reduce__(self):
            return open, (str(tmp_path / "exploded"), "w")

    torch.save({"state_dict": Bomb()}, "bomb.pt")
    with pytest.raises(UserError, match="cannot be read safely"):
        load_model(own_model, (1, 8, 8), 10, tmp_path / "bomb.pt")
    assert not (tmp_path / "exploded").exists()
    state = load_file("seed0.safetensors")
    torch.save({"state_dict": {f"module.{name}": value for name, value in state.items()}}, "a.pt")
    model = load_model(own_model, (1, 8, 8), 10, tmp_path / "a.pt")
    assert torch.equal(model.state_dict()["head.weight"], state["head.weight"])
    save_file({"head.weight": state["head.weight"]}, "part.safetensors")
    with pytest.raises(UserError, match="lack body.1.weight, body.1.bias, head.bias"):
        load_model(own_model, (1, 8, 8), 10, tmp_path / "part.safetensors")
    with pytest.raises(UserError, match="head.weight has shape"):
        load_model(own_model, (1, 8, 8), 3, tmp_path / "seed0.safetensors")
    with pytest.raises(UserError, match="do not exist"):
        load_model(own_model, (1, 8, 8), 3, tmp_path / "nothing.pt")
