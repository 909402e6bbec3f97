"""Every example in README and docs runs."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_encoder import save_encoder
from torch import nn
from typer.testing import CliRunner

import oodometer.builtin  # noqa: F401 - so that only what examples add is taken back
from oodometer.cli import app
from oodometer.engine.executors.in_process import InProcess
from oodometer.lab.data.encoders import quiet_transformers
from oodometer.study import load_study

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list:
    return [
        pytest.param(block, id=f"{page.name}-{index}")
        for page in PAGES
        for index, block in enumerate(
            re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        )
    ]


@pytest.fixture
def user() -> dict[str, object]:
    """What the examples assume: a model, data, and the outputs of an earlier example."""
    import oodometer as om

    rng = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    train = (torch.rand(90, 1, 4, 4, generator=rng), torch.arange(90) % 3)
    test, svhn = (torch.rand(40, 1, 4, 4, generator=rng) for _ in range(2))
    outputs = om.extract(model, {"train": train, "test": test, "svhn": svhn})
    return {"model": model, "train": train, "test": test, "svhn": svhn, "outputs": outputs}


def text_classifier(folder: Path) -> dict[str, object]:
    """What the examples on texts assume: a classifier by transformers, its tokenizer, and texts."""
    transformers = pytest.importorskip("transformers", reason="the extra 'text' is not installed")
    save_encoder(folder, "BertForSequenceClassification", num_labels=3)
    with quiet_transformers():
        classifier = transformers.BertForSequenceClassification.from_pretrained(folder)
    return {
        "classifier": classifier,
        "tokenizer": transformers.AutoTokenizer.from_pretrained(folder),
        "train_texts": [f"the {word} of a {word}" for word in ("goal", "bank", "atom")] * 20,
        "train_labels": [0, 1, 2] * 20,
        "test_texts": ["the football", "a market and a bank"] * 10,
        "strange_texts": ["unheard " * 9, ""] * 10,
    }


def write_results() -> None:
    """Lay down the table that the page on results shows."""
    (table,) = (block.values[0] for block in blocks("csv"))
    Path("results.csv").write_text(table)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_examples(code, user, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_results()
    Path("principal.py").write_text(example("class PrincipalComponents"))
    # A detector's code is looked up by its file, so the example becomes one.
    path = tmp_path / "example.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location("example", path)
    module = importlib.util.module_from_spec(spec)
    vars(module).update(user)
    if "tokenizer" in code:
        vars(module).update(text_classifier(tmp_path))
    spec.loader.exec_module(module)


@pytest.mark.parametrize("text", blocks("yaml"))
def test_yaml_examples(text, tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    assert load_study(path).runs()


def example(mark: str) -> str:
    """The one Python example that has a mark in it."""
    (code,) = (b.values[0] for b in blocks("python") if mark in b.values[0])
    return code.split("\n\nresult = ")[0]


@pytest.mark.parametrize("commands", blocks("sh"))
def test_shell_examples(commands, user, tmp_path, monkeypatch):
    """Commands of ours run; those of make and git are what `make test` itself has run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("oodometer.web.server.default_folder", lambda: tmp_path / "index")
    monkeypatch.setattr("oodometer.web.server.serve", lambda *stores, **options: None)  # for ever
    # Other tests start workers; here they would take longer than what they do.
    monkeypatch.setattr("oodometer.engine.lead.run._open_executor", lambda *given: InProcess())
    write_results()
    for name, part in user["outputs"].items():
        named = {key.removeprefix("head."): value for key, value in part.tensors().items()}
        np.savez(f"{name}.npz", **{key: value.numpy() for key, value in named.items()})
    for block in blocks("yaml"):
        text, page = block.values[0], block.id
        name = "study" if page.startswith("README") else re.search(r"name: (\S+)", text)[1]
        # As written, but no longer than a test should take.
        quick = re.sub(r"epochs: \d+", "epochs: 1", text)
        Path(f"{name}.yaml").write_text(quick.replace("detectors: all", "detectors: [knn]"))
    if "oodometer compare" in commands:
        exec(example('np.savez("energy.npz"'), {})
    Path("my_detectors.py").write_text(example("def feature_norm"))
    Path("my_autoencoder.py").write_text(example("def my_autoencoder"))
    Path("principal.py").write_text(example("class PrincipalComponents"))
    for line in commands.splitlines():
        words = shlex.split(line, comments=True)
        assert words[0] in ("make", "git", "oodometer"), f"an example that no test runs: {line}"
        if words[0] == "oodometer":
            result = CliRunner().invoke(app, words[1:])
            assert result.exit_code == 0, f"{line}: {result.output} {result.exception}"


def test_the_pages_of_detectors_are_up_to_date():
    spec = importlib.util.spec_from_file_location("make_pages", ROOT / "docs" / "make_pages.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    assert pages.PAGE.read_text(encoding="utf-8") == pages.page(), "run: make docs"
    assert pages.TRAINED.read_text(encoding="utf-8") == pages.trained_page(), "run: make docs"
    known = pages.GENERATORS.read_text(encoding="utf-8")
    assert known == pages.generators_page(), "run: make docs"
    assert pages.WORST.read_text(encoding="utf-8") == pages.worst_case_page(), "run: make docs"


def test_the_tables_of_studies_are_those_of_their_files():
    spec = importlib.util.spec_from_file_location("studies", ROOT / "benchmarks" / "studies.py")
    studies = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(studies)
    assert studies.PAGE.read_text(encoding="utf-8") == studies.page(), "run: benchmarks/studies.py"
