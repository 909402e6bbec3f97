"""A user's own classifier: saved outputs of any framework, or a model with its weights."""

import html
import importlib

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import oodometer as om
from oodometer import metrics
from oodometer.cli import app
from oodometer.errors import UserError
from oodometer.lab.asking.models import load_model
from oodometer.lab.data.sources import load_source
from oodometer.score_files import load_scores
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
    scores = load_scores(tmp_path / "out" / "scores.parquet").scores("", "max_logit", "far")
    # Minus the largest logit, as NumPy has it.
    np.testing.assert_allclose(scores, -made["far"]["logits"].max(axis=1))
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
    told = " ".join(done.output.split())
    assert told.count(" knn,") == 1, "said once"
    assert "vim and vra (features were not saved)" in told
    assert "odin and rankfeat (needs the model itself, not saved outputs" in told
    assert "weighted_energy (labels were not saved)" in told


def test_every_note_is_in_the_report(made, tmp_path):
    for name in ("train", "id", "far"):
        arrays = {"feats": made[name]["features"], "W": made["train"]["weight"].T}
        np.savez(f"{name}.npz", **arrays, b=made["train"]["bias"])
    done = run("--outputs", "train=train.npz", "id=id.npz", "far=far.npz", "--out", "out",
               "--detectors", "energy,score_svm,knn")  # fmt: skip
    assert done.exit_code == 0, done.output
    notes = [line[6:] for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert len(notes) == 3, "names, a transposed weight, and a detector that learns from outliers"
    report = html.unescape((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    for note in notes:
        assert note in report


def test_networks_that_only_studies_train_are_not_asked_for(made):
    for name in ("train", "id", "far"):
        np.savez(f"{name}.npz", logits=made[name]["logits"])
    done = run(
        "--outputs", "train=train.npz", "id=id.npz", "far=far.npz", "--out", "out",
        "--detectors", "energy,binary_network,deep_ensemble",
    )  # fmt: skip
    told = " ".join(done.output.split())
    assert "needs the detector model 'binary', which a study trains" in told
    assert "needs several models or checkpoints of the same classifier" in told


def test_the_memory_that_is_allowed_reaches_the_detectors(made, monkeypatch):
    from oodometer import scoring

    seen, real = [], scoring.working_memory
    monkeypatch.setattr(scoring, "working_memory", lambda size: seen.append(size) or real(size))
    done = run("--outputs", "train=train.npz", "id=id.npz", "far=far.npz", "--out", "out",
               "--detectors", "knn", "--memory", "3MiB")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert seen == [3 * 2**20]


def test_what_is_scored_but_not_compared_is_told(made, tmp_path):
    done = run("--outputs", "train=train.npz", "id=id.npz", "far=far.npz", "--out", "out",
               "--detectors", "max_logit,score_svm")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "note: score_svm: fitted with half of each outlier set" in done.output
    kept = pd.read_parquet(tmp_path / "out" / "scores.parquet")
    assert set(kept["detector"]) == {"max_logit", "score_svm"}
    assert set(pd.read_csv(tmp_path / "out" / "summary.csv")["detector"]) == {"max_logit"}


def test_what_was_guessed_is_told(made):
    for name in ("train", "id", "far"):
        content = made[name]
        np.savez(f"{name}.npz", feats=content["features"], y=content["labels"])
    done = run("--outputs=train=train.npz", "id=id.npz", "far=far.npz", "--out", "out",
               "--detectors", "knn,mahalanobis")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "note: 'train.npz', 'id.npz': using 'feats' as features, using 'y' as labels" in (
        done.output
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--outputs", "train=train.npz", "id=id.npz"], "no outlier set"),
        (["--outputs", "train=no.npz", "id=id.npz", "x=id.npz"], "'no.npz' does not exist"),
        (["--outputs", "train=train.csv", "id=id.npz", "x=id.npz"], "none of these"),
        (["--outputs", "trian=train.npz"], "needs train=FILE"),
        (["--outputs", "train"], "NAME=FILE"),
        (["--outputs", "train=train.npz", "--model", "a:b"], "cannot be combined with --outputs"),
        (["--outputs", "train=train.npz", "--device", "cuda"], "--device cannot be combined"),
        (["--model", "a:b"], "--train, --id, --ood missing"),
        (["--outputs", "train=train.npz", "id=id.npz", "x=far.npz", "--memory", "much"], "such as"),
        (["--outputs", "train=train.npz", "id=id.npz", "x=far.npz", "--out", "id.npz"], "Cannot"),
        (["--outputs", "train=id.npz", "id=id.npz", "x=far.npz"], "hold the same features"),
        (["--outputs", "train=train.npz", "id=id.npz", "x=far.npz", "--detectors", "kn"], "knn"),
        (
            ["--outputs", "train=train.npz", "id=id.npz", "x=far.npz", "--detectors", "score_svm"],
            "score_svm: evaluate compares detectors that have seen no outliers",
        ),
    ],
)
def test_errors_of_the_command(made, tmp_path, arguments, words):
    before = sorted(tmp_path.rglob("*"))
    done = run(*arguments)
    assert done.exit_code != 0 and words in str(done.exception)
    assert sorted(tmp_path.rglob("*")) == before, "a refused evaluation writes nothing"


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

class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Net()

    def forward(self, images):
        return self.model(images)

def hub(num_classes=1000, pretrained=False, **others):
    assert not others
    return Net(num_classes)

def narrow(classes, width=5):
    net = Net(classes)
    net.body[1] = nn.Linear(64, width)
    return net

def broken(classes):
    raise RuntimeError("no luck\\nat all")

def digits(part):
    from oodometer.lab.data.datasets import load_part
    images = load_part("digits", part)
    pixels = (torch.from_numpy(images.floats()) - 0.5) / 0.25
    return torch.utils.data.TensorDataset(pixels, torch.from_numpy(images.labels))

def noise():
    return torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
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
               "--train", "digits", "--id", "digits", "--ood", "uniform_noise", "--out", "out",
               "--detectors", "max_softmax,energy", "--mean", "0.5", "--std", "0.5")  # fmt: skip
    assert done.exit_code == 0, done.output + str(done.exception)
    summary = pd.read_csv(tmp_path / "out" / "summary.csv")
    assert set(summary["weights"]) == {"seed0", "seed1"} and len(summary) == 4
    told = " ".join(done.output.split())
    assert "points across 2 training runs" in told
    assert "on the ID data is" in told and "no better than chance" in told, (
        "these weights are random"
    )
    assert " 2 of 2 classifiers did not learn: what detectors do then says little." in told


def test_probes_and_an_ensemble_of_all_weights(own_model, tmp_path):
    def evaluate(*weights):
        return run("--model", own_model, "--weights", *weights, "--train", "digits", "--id",
                   "digits", "--ood", "uniform_noise", "--out", "out",
                   "--detectors", "energy,odin,mc_dropout,gram,deep_ensemble")  # fmt: skip

    done = evaluate("seed0.safetensors", "seed1.safetensors")
    assert done.exit_code == 0, done.output + str(done.exception)
    scores = load_scores(tmp_path / "out" / "scores.parquet")
    assert set(scores.detectors) == {"energy", "odin", "gram", "deep_ensemble"}
    assert "missing:" not in done.output
    told = " ".join(done.output.split())
    assert "Not applicable to this network: mc_dropout (Probe 'mc_dropout'" in told
    first, second = (scores.scores(run, "deep_ensemble", "id") for run in ("seed0", "seed1"))
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
    assert "an ensemble needs several models or checkpoints" in " ".join(alone.output.split())


def test_outputs_of_one_model_are_dropped_before_the_next_is_asked(own_model, monkeypatch):
    import gc
    import weakref

    from oodometer import evaluation as module
    from oodometer.outputs import Outputs

    real, alive = module.extract, []

    def watched(*arguments, **named):
        gc.collect()
        assert not [part for part in alive if part() is not None], "features of an earlier model"
        made = real(*arguments, **named)
        alive.extend(weakref.ref(part) for part in made.values())
        assert all(isinstance(part, Outputs) for part in made.values())
        return made

    monkeypatch.setattr(module, "extract", watched)
    done = run("--model", own_model, "--weights", "seed0.safetensors", "seed1.safetensors",
               "--train", "digits", "--id", "digits", "--ood", "uniform_noise", "--out", "out",
               "--detectors", "energy,deep_ensemble")  # fmt: skip
    assert done.exit_code == 0, done.output + str(done.exception)
    assert len(alive) == 6


def model_run(own_model, *arguments, train="digits", id="digits", ood="uniform_noise"):
    return run("--model", own_model, "--train", train, "--id", id, "--ood", ood, "--out", "out",
               "--detectors", "energy,knn(k=5)", *arguments)  # fmt: skip


def test_outlier_sets_may_be_written_with_commas(own_model):
    done = model_run(own_model, ood="x=uniform_noise,inverted")
    assert done.exit_code == 0, done.output
    assert load_scores("out/scores.parquet").ood == ("x", "inverted digits")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--weights", "./seed0.safetensors"], "twice"),
        (["--weights", "none.pt"], "Weights file 'none.pt' does not exist"),
        (["--mean", "a"], "takes comma-separated numbers"),
        (["--mean", "0.1,0.2"], "has 2 numbers, but the images have 1 channel."),
        (["--std", "0"], "takes positive numbers, got 0"),
        (["--head", "haed"], "Did you mean 'head'"),
        (["--device", "gpu"], "Unknown device 'gpu'. Did you mean 'cpu'?"),
        (["--ood", "id=digits"], "Two data sets are called 'id'"),
        (["--id", "digits(part=train)"], "the same samples"),
        (["--id", "own_model_for_evaluate:nothing"], "has nothing called 'nothing'"),
        (["--model", "own_model_for_evaluate:Net(klasses=3)"], "unexpected keyword argument"),
        (["--model", "own_model_for_evaluate:broken"], "RuntimeError: no luck"),
        (["--detectors", "deep_ensemble"], "an ensemble needs several models or checkpoints"),
    ],
)
def test_errors_of_models_and_data(own_model, arguments, words):
    done = model_run(own_model, "--weights", "seed0.safetensors", *arguments)
    assert done.exit_code != 0 and words in str(done.exception)
    assert isinstance(done.exception, UserError) and "\n" not in str(done.exception)


def test_data_of_ones_own_go_to_the_model_as_they_are(own_model, tmp_path):
    weights = ["--weights", "seed0.safetensors"]
    named = model_run(own_model, *weights, "--mean", "0.5", "--std", "0.25")
    assert named.exit_code == 0, named.output + str(named.exception)
    expected = load_scores(tmp_path / "out" / "scores.parquet")
    # The same images, normalised by the user: what is named is brought to their shape.
    mine = "own_model_for_evaluate:"
    done = model_run(own_model, *weights, "--ood", "again=" + mine + "digits(part=test)",
                     train=mine + "digits(part=train)", id=mine + "digits(part=test)",
                     ood=mine + "noise")  # fmt: skip
    assert done.exit_code == 0, done.output + str(done.exception)
    scores = load_scores(tmp_path / "out" / "scores.parquet")
    assert set(scores.sets) == {"id", "noise", "again"}
    for name in ("energy", "knn(k=5)"):
        one, two, again = (
            table.scores("", name, dataset)
            for table, dataset in ((expected, "id"), (scores, "id"), (scores, "again"))
        )
        np.testing.assert_allclose(two, one, rtol=1e-4)
        np.testing.assert_array_equal(two, again)


def test_models_as_people_have_them(own_model, tmp_path):
    state = load_file("seed0.safetensors")
    torch.save({"epoch": 3, "state_dict": {f"module.{k}": v for k, v in state.items()}}, "a.ckpt")
    kept = {f"_orig_mod.module.{k}": v for k, v in state.items()}
    torch.save({"model": kept}, "b.pt")
    trained = {f"model.{k}": v for k, v in state.items()} | {"loss.weight": torch.ones(2)}
    torch.save({"state_dict": trained}, "c.pt")
    for file in ("a.ckpt", "b.pt", "c.pt"):
        model = load_model(own_model, (1, 8, 8), 10, tmp_path / file)
        assert torch.equal(model.state_dict()["head.weight"], state["head.weight"]), file
    module = own_model.partition(":")[0]
    wrapped = load_model(f"{module}:Wrapper", None, None, tmp_path / "seed0.safetensors")
    assert torch.equal(wrapped.state_dict()["model.head.weight"], state["head.weight"])
    # What a factory does not name it is not told; its own word comes first.
    assert load_model(f"{module}:hub", (1, 8, 8), 10, None).head.out_features == 10
    assert load_model(f"{module}:hub(num_classes=7)", (1, 8, 8), 10, None).head.out_features == 7
    assert load_model(f"{module}:narrow", (1, 8, 8), 10, None).body[1].out_features == 5
    save_file(state | {"head.bias": state["head.bias"] * torch.nan}, "nan.safetensors")
    with pytest.raises(UserError, match="NaN or infinity in head.bias"):
        load_model(own_model, (1, 8, 8), 10, tmp_path / "nan.safetensors")


@pytest.mark.parametrize("counted", ["both", "network", "file", "neither"])
def test_counters_of_batches_are_no_reason_to_refuse_weights(tmp_path, counted):
    """Older checkpoints lack them, networks may have none; evaluation does not use them."""
    path = tmp_path / "counting.py"
    path.write_text(
        "from torch import nn\n\n\ndef network():\n"
        "    norm = nn.BatchNorm1d(4)\n"
        f"    {'pass' if counted in ('both', 'network') else 'norm.num_batches_tracked = None'}\n"
        "    return nn.Sequential(norm, nn.Linear(4, 2))\n"
    )
    saved = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    saved[0].running_mean += 3.0
    tensors = saved.state_dict()
    if counted in ("network", "neither"):
        del tensors["0.num_batches_tracked"]
    torch.save(tensors, tmp_path / "weights.pt")
    loaded = load_model(f"{path}:network", None, None, tmp_path / "weights.pt").eval()
    rows = torch.rand(5, 4)
    assert torch.equal(loaded(rows), saved.eval()(rows))


def test_models_and_weights_without_plain_numbers_are_refused(own_model, tmp_path):
    with torch.device("meta"):
        nowhere = torch.nn.Linear(3, 2)
    with pytest.raises(UserError, match="on the device 'meta' and has no weights"):
        om.extract(nowhere, {"rows": torch.rand(4, 3)})
    state = load_file("seed0.safetensors")
    torch.save(state | {"head.weight": state["head.weight"].to_sparse()}, "sparse.pt")
    with pytest.raises(UserError, match=r"head.weight is sparse; save head.weight.to_dense\(\)"):
        load_model(own_model, (1, 8, 8), 10, tmp_path / "sparse.pt")


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
    with pytest.raises(UserError, match=r"aa.pt' does not exist. Did you mean '.*a.pt'"):
        load_model(own_model, (1, 8, 8), 3, tmp_path / "aa.pt")
    np.savez("arrays.npz", x=np.zeros(3))
    with pytest.raises(UserError, match=r"cannot be read safely .not a file of torch.save.: save"):
        load_model(own_model, (1, 8, 8), 3, tmp_path / "arrays.npz")


# As a function


@pytest.fixture(scope="module")
def gaussians():
    """A linear model of three classes, their samples, and outliers far away."""
    rng = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        models = {name: torch.nn.Linear(4, 3) for name in ("one", "two", "three")}
    labels = torch.arange(120) % 3
    inputs = 3 * torch.eye(3, 4)[labels] + torch.randn(120, 4, generator=rng)
    return models, (inputs[:80], labels[:80]), (inputs[80:], labels[80:]), 9 + inputs[:30]


def test_a_model_and_arrays_are_evaluated_in_one_call(gaussians, tmp_path):
    models, train, id, far = gaussians
    detectors = ["energy", "knn(k=3)", "odin"]
    result = om.evaluate(models["one"], train, id, {"far": far}, detectors=detectors)
    outputs = om.extract(
        models["one"], {"train": train, "id": id, "far": far}, needs=om.needs_of(detectors)
    )
    expected = om.score(outputs, detectors, train="train", id="id")
    for row in expected.rows:
        assert np.array_equal(result.table.scores("", row.detector, row.dataset), row.scores)
    assert result.findings[0].claims and len(result.findings) == 1
    files = result.save(tmp_path / "made" / "here")
    assert [file.name for file in files] == ["summary.csv", "summary.parquet", "scores.parquet"]
    again = om.load_scores(files[2])
    assert again.detectors == tuple(detectors) and again.sets == result.table.sets
    np.testing.assert_allclose(pd.read_csv(files[0])["auroc"], result.summary["auroc"])


def test_several_models_are_repeats(gaussians):
    models, train, id, far = gaussians
    heard = []
    result = om.evaluate(
        models, train, id, {"far": far}, detectors=["energy", "deep_ensemble"], notify=heard.append
    )
    assert list(result.table.runs) == ["one", "two", "three"] and len(result.findings) == 2
    assert [(factor.name, factor.kind) for factor in result.table.factors] == [
        ("weights", "repeat")
    ]
    said = {note[0].lower() + note[1:].rstrip(".") for note in result.notes}  # caveats: sentences
    assert "run 2 of 3: two" in heard and said <= set(heard)
    caveats = [caveat for finding in result.findings for caveat in finding.caveats]
    assert any("deep_ensemble" in caveat for caveat in caveats)
    listed = om.evaluate(list(models.values()), train, id, {"far": far}, detectors=["energy"])
    assert list(listed.table.runs) == ["1", "2", "3"]
    for name, other in zip(models, listed.table.runs, strict=True):
        one, two = (t.scores(r, "energy", "far") for t, r in
                    ((result.table, name), (listed.table, other)))  # fmt: skip
        assert np.array_equal(one, two)


def test_names_of_data_and_loaders_may_be_mixed():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    images = torch.rand(50, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(images, torch.arange(50) % 10)
    loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    state = torch.get_rng_state()
    result = om.evaluate(
        model, loader, images.flip(2), {"digits": "digits"}, detectors=["energy"], mean=[0.5]
    )
    assert torch.equal(state, torch.get_rng_state())
    assert result.table.ood == ("digits",)
    named = om.evaluate(
        model, "digits", "digits", ["uniform_noise", "mine=rotated"], detectors=["energy"]
    )
    assert named.table.ood == ("uniform noise", "mine")


def test_outputs_are_evaluated_as_the_command_does(made, tmp_path):
    files = {name: f"{name}.npz" for name in ("train", "id", "far")}
    result = om.evaluate_outputs(files, detectors=["knn", "vim"])
    mixed = om.evaluate_outputs(
        {**files, "far": om.Outputs(**{k: made["far"][k] for k in ("logits", "features")})},
        detectors=["knn"],
    )
    done = run("--outputs", *(f"{k}={v}" for k, v in files.items()), "--detectors", "knn,vim",
               "--out", "out")  # fmt: skip
    assert done.exit_code == 0
    written = om.load_scores("out/scores.parquet")
    for name in ("id", "far"):
        assert np.array_equal(written.scores("", "vim", name), result.table.scores("", "vim", name))
        assert np.array_equal(
            mixed.table.scores("", "knn", name), result.table.scores("", "knn", name)
        )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"ood": torch.zeros(3, 4)}, "ood must be a mapping from names to outlier sets, .* Tensor"),
        ({"ood": {"id": torch.zeros(3, 4)}}, "Two data sets are called 'id'"),
        ({"ood": {}}, "no outlier set"),
        ({"ood": {"far": iter([torch.zeros(3, 4)])}}, "'far' is an iterator, .* read only once"),
        ({"model": "nothing_here:net"}, "Model 'nothing_here:net' could not be imported"),
        ({"model": 3}, "model must be a torch.nn.Module, several of them, .* got int"),
        ({"model": []}, "There is no model to evaluate"),
        ({"model": [torch.nn.Linear(4, 3), 3]}, "Model '2' must be a torch.nn.Module, got int"),
        ({"weights": "a.pt"}, "weights are checkpoint files for a model given as"),
        ({"detectors": ["enrgy"]}, "Did you mean 'energy'"),
        ({"detectors": ["deep_ensemble"]}, "an ensemble needs several models or checkpoints"),
        ({"device": "gpu"}, "Device 'gpu' cannot be used here"),
        ({"id": "train"}, "train and id are the same samples"),
    ],
)
def test_what_cannot_be_evaluated_is_a_sentence(gaussians, change, sentence):
    models, train, id, far = gaussians
    arguments = {"model": models["one"], "train": train, "id": id, "ood": {"far": far}} | change
    if change == {"id": "train"}:
        arguments["id"] = train
    with pytest.raises(UserError, match=sentence) as caught:
        om.evaluate(**arguments)
    assert "\n" not in str(caught.value)


def test_a_copy_of_the_training_data_is_not_held_out(gaussians):
    models, train, _, far = gaussians
    with pytest.raises(UserError, match="'train' and 'id' hold the same features"):
        om.evaluate(models["one"], train, (train[0].clone(), train[1]), {"far": far})


def test_training_and_test_samples_among_the_outliers_are_named(gaussians):
    models, train, id, far = gaussians
    seen = torch.cat([far, train[0][:7]])
    result = om.evaluate(
        [models["one"], models["two"]], train, id, {"far": far, "seen": seen, "copied": id[0][:9]},
        detectors=["energy", "knn", "max_softmax"],
    )  # fmt: skip
    said = [caveat for caveat in result.findings[0].caveats if "exactly" in caveat]
    assert [caveat.partition(" have")[0] for caveat in said] == [
        f"7 of {len(seen)} samples of 'seen'",
        "9 of 9 samples of copied",
    ]
    # A network that answers everything alike has no copies.
    constant = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3))
    torch.nn.init.constant_(constant[0].weight, 0.0)
    alike = om.evaluate(constant, train, id, {"far": far}, detectors=["energy", "max_softmax"])
    assert not any("exactly" in caveat for caveat in alike.findings[0].caveats)


def test_a_single_named_input_is_given_by_position():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    images = torch.rand(12, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(12) % 3
    plain = om.extract(model, {"a": (images, labels)})["a"]
    for key, target in (("image", "label"), ("picture", "targets")):
        rows = [
            {key: image, target: int(label)} for image, label in zip(images, labels, strict=True)
        ]
        loader = torch.utils.data.DataLoader(rows, batch_size=5)
        named = om.extract(model, {"a": loader, "b": {key: images, target: labels}})
        for part in named.values():
            assert torch.equal(part.logits, plain.logits) and torch.equal(part.labels, labels)
    with pytest.raises(UserError, match="tensor of numbers, got an array of <U1, such as 'b'"):
        om.extract(model, {"a": (images, np.array(["b"] * 12))})
