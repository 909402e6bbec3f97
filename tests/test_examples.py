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


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("make_pages", ROOT / "docs" / "make_pages.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_worst_case_is_shown_beside_the_published_table(pages):
    """Made-up figures: in each column one pair in another order, and one that does not fall."""
    published, rows = {}, []
    figures = {  # clean and worst, as published and as measured
        "glow": (0.1, 0.0, 0.2, 0.1), "pixelcnn(variant=evg)": (0.3, 0.2, 0.4, 0.3),
        "ssd": (0.5, 0.4, 0.8, 0.2), "csi": (0.7, 0.6, 0.7, 0.75), "knn": (None, None, 0.9, 0.9),
    }  # fmt: skip
    for name, (clean, worst, *ours) in figures.items():
        if clean is not None:
            published[name.partition("(")[0], "svhn", "clean"] = str(clean)
            published[name.partition("(")[0], "svhn", "gan"] = str(worst)
        about = {"study": "evg-cifar10-small", "outliers": "svhn", "detector": name, "runs": "3",
                 "variation": "stylegan2(truncation=0.9)", "images": "50", "steps": "40",
                 "clean AUROC": str(ours[0]), "worst AUROC": str(ours[1])}  # fmt: skip
        rows.append(about)
    other = [row | {"study": "evg-mnist-small", "outliers": "kmnist"} for row in rows]
    page = "before\n<!-- worst case -->\nold\n<!-- end -->\nafter"
    text = pages.worst_case_tables(page, rows + other, published)
    assert "old" not in text and text.startswith("before") and text.endswith("after")
    assert "| svhn | pixelcnn(variant=evg) | 0.400 (0.300) | 0.300 (0.200) |" in text
    assert "| svhn | knn | 0.900 | 0.900 |" in text and "| kmnist | glow | 0.200 | 0.100 |" in text
    # Of 6 pairs, one is in another order: ssd and csi clean, pixelcnn and ssd in the worst case.
    gan = "stylegan2(truncation=0.9)"
    assert f"svhn: clean 0.67 (n = 4), {gan} 0.67 (n = 4)." in text
    assert f"in 3 of 4 cases, but not for csi on svhn, {gan}." in text
    assert text.count("Kendall") == 1


def test_the_pages_of_detectors_are_up_to_date(pages):
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
