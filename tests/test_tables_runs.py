"""Results tables: names of runs, numbered columns, files of one detector; the command's manners."""

import itertools
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from oodometer.analysis import analyze
from oodometer.cli.common import app
from oodometer.errors import UserError
from oodometer.tables import read_results

GRID = list(itertools.product(("sgd", "adam"), ("0.1", "0.01"), ("0", "1", "2")))


def write(path, titles, runs):
    """Write a table with a line per detector, outlier set and run, and return where it is."""
    lines = [
        ",".join((detector, ood, str(80 + 3 * i + j + n / 10), *run))
        for n, run in enumerate(runs)
        for i, detector in enumerate(("msp", "knn", "vim"))
        for j, ood in enumerate(("svhn", "lsun"))
    ]
    path.write_text("\n".join([",".join(("method", "ood", "auroc", *titles)), *lines]))
    return path


def understood(path, columns=""):
    found = read_results(path, columns)
    return set(found.results[0].factor_names), dict(found.columns), " ".join(found.notes)


@pytest.mark.parametrize("title", ["job", "Name", "run_id", "checkpoint path", "slurm_job_id"])
def test_the_name_of_a_run_takes_no_factors_place(tmp_path, title):
    runs = [(f"{4000 + 7 * n}", *run) for n, run in enumerate(GRID)]
    path = write(tmp_path / "t.csv", (title, "optimizer", "lr", "seed"), runs)
    factors, columns, _ = understood(path)
    assert factors == {"optimizer", "lr", "seed"}
    assert columns[title] == "not used: determined by seed, lr and optimizer together"


def test_the_name_of_a_configuration_gives_way_to_what_it_stands_for(tmp_path):
    runs = [(f"{optimizer}/{lr}", optimizer, lr, seed) for optimizer, lr, seed in GRID]
    path = write(tmp_path / "t.csv", ("config", "optimizer", "lr", "seed"), runs)
    assert understood(path)[0] == {"optimizer", "lr", "seed"}


def test_a_job_that_alone_tells_runs_apart_stays_and_is_no_condition(tmp_path):
    alone = write(tmp_path / "a.csv", ("job",), [(f"{n}",) for n in range(101, 106)])
    assert understood(alone)[0] == {"run"}
    assert understood(alone)[1]["job"] == "factor, called run"
    nested = [(f"{100 + n}", "sgd" if n < 3 else "adam") for n in range(6)]
    assert understood(write(tmp_path / "n.csv", ("job", "optimizer"), nested))[0] == {
        "run",
        "optimizer",
    }
    twice = [(f"{n}", *run[::2]) for n, run in enumerate(GRID)]  # every optimizer and seed twice
    found = understood(write(tmp_path / "t.csv", ("job", "optimizer", "seed"), twice))[0]
    assert found == {"run", "optimizer", "seed"}


def test_a_job_beside_a_seed_of_its_own_is_a_name_of_the_seed(tmp_path):
    runs = [(f"{90 + n}", f"{n}") for n in range(4)]
    path = write(tmp_path / "t.csv", ("job", "seed"), runs)
    assert understood(path)[0] == {"seed"}
    assert understood(path)[1]["job"] == "not used: determined by seed"
    assert understood(path, "factor=job")[0] == {"run", "seed"}


def test_seeds_and_labels_are_more_than_names(tmp_path):
    runs = [(f"{n}", *run[:2]) for n, run in enumerate(GRID[::3])]
    path = write(tmp_path / "s.csv", ("seed", "optimizer", "lr"), runs)
    assert understood(path)[0] == {"seed", "optimizer", "lr"}
    noisy = [("clean", "none", "0"), ("symm20", "symm", "0.2"), ("asymm20", "asymm", "0.2"),
             ("symm40", "symm", "0.4"), ("asymm40", "asymm", "0.4")]  # fmt: skip
    path = write(tmp_path / "n.csv", ("training_dataset", "noise_type", "noise"), noisy)
    assert "training_dataset" in understood(path)[0]


def test_numbered_columns_are_levels_of_what_their_titles_name(tmp_path):
    lines = [f"{d},{o},{s},{80 + i},{85 + i},{90.5 + i}" for i, d in enumerate(("msp", "knn"))
             for o in ("svhn", "lsun") for s in range(2)]  # fmt: skip
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["detector,ood,seed,epoch 10,epoch_50,Epoch 100", *lines]))
    (found,) = read_results(path).results
    assert set(found.factor_names) == {"seed", "epoch"}
    assert set(found.frame["epoch"]) == {"10", "50", "100"}
    path.write_text("\n".join(["detector,ood,seed,sgd,adam,sam2", *lines]))
    assert set(read_results(path).results[0].factor_names) == {"seed", "condition"}


def test_a_file_of_outlier_sets_is_one_detectors(tmp_path):
    path = tmp_path / "ood.csv"
    path.write_text("dataset,FPR@95,AUROC\ncifar100,53.1,87.2\nsvhn,25.8,91.5\nfarood,25.8,91.5\n")
    found = read_results(path)
    assert found.results[0].detectors == ("ood",) and found.results[0].ood == ("cifar100", "svhn")
    assert "all rows are read as results of ood" in found.notes[0]
    path.write_text("dataset,AUROC\nsvhn,91\nsvhn,92\nlsun,93\nlsun,94\n")
    with pytest.raises(UserError, match="No column names the detector"):
        read_results(path)


@pytest.mark.parametrize("title", ["roc_auc", "ROC AUC", "AUC ROC", "ROC-AUC", "rocauc"])
def test_other_names_of_auroc_beside_another_metric(tmp_path, title):
    lines = ["msp,svhn,0.912,0.4,0", "msp,lsun,0.922,0.3,0", "knn,svhn,0.952,0.2,0"]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([f"score_name,benchmark,{title},fpr_at_95_tpr,seed", *lines]))
    first, second = read_results(path).results
    assert (first.metric, second.metric) == ("auroc", "fpr95")
    assert first.ood == second.ood == ("svhn", "lsun") and "condition" not in first.frame
    path.write_text(f"method,SVHN {title},LSUN {title}\nmsp,0.9,0.8\nknn,0.95,0.85\n")
    assert read_results(path).results[0].ood == ("SVHN", "LSUN")


def test_a_metric_of_all_sets_beside_one_per_set(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("method,svhn_auroc,lsun_auroc,fpr95\nmsp,91,92,40\nknn,93,94,30\n")
    assert [found.ood for found in read_results(path).results] == [("svhn", "lsun"), ("outliers",)]
    path.write_text("method,svhn_auroc,fpr95\nmsp,91,40\nknn,93,30\n")
    assert [found.ood for found in read_results(path).results] == [("svhn",), ("svhn",)]
    path.write_text("method,ood,clean auroc,fpr95\nmsp,svhn,91,40\nknn,svhn,93,30\n")
    assert [found.ood for found in read_results(path).results] == [("svhn",), ("svhn",)]
    path.write_text("ood,msp_auroc,knn_auroc,fpr95\nsvhn,91,92,40\nlsun,93,94,30\n")
    (only,) = (found := read_results(path)).results
    assert only.detectors == ("msp", "knn") and "no detector is named for fpr95" in found.notes[0]


def test_what_stands_in_empty_cells_is_said(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("method,ood,auroc\nmsp,a,failed\nmsp,b,90\nknn,a,-\nknn,b,94\n")
    assert read_results(path).notes == (
        "empty cells count as missing: 2 (auroc 2), such as 'failed'",
    )


def test_files_named_twice_and_reports_in_the_folder_are_read_once_and_not_at_all(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "t.csv", ("seed",), [("0",), ("1",)])
    found = read_results(["t.csv", path, "./t.csv"])
    assert len(found.results[0].frame) == 12
    assert found.notes == ("files named more than once were read once",)
    for name in ("report.csv", "report.md", "report.tex", "report.html"):
        (tmp_path / name).write_text("finding,table,row,column,value\na,b,c,d,91\n")
    assert read_results(tmp_path).columns == read_results(path).columns


def test_the_report_is_written_though_nobody_reads_on(tmp_path):
    path = write(tmp_path / "t.csv", ("seed",), [("0",), ("1",), ("2",)])
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-c", "from oodometer.cli import main; main()"]
    with os.fdopen(writing, "w") as closed:
        ended = subprocess.run(
            [*program, "analyze", str(path), "--out", str(tmp_path / "out")],
            stdout=closed, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert "Traceback" not in ended.stderr and "Exception" not in ended.stderr
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == {"report.html", "report.md", "report.tex", "report.csv"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([""], "The name of a results file is empty"),
        (["t.csv", " "], "The name of a results file is empty"),
        (["t.csv", "--out", "t.csv"], "'t.csv' is a file, not a folder"),
        (["t.csv", "--columns", "detektor=method"], "Did you mean 'detector'"),
        (["t.csv", "--columns", "detector=metod"], "Did you mean 'method'"),
        (["t.csv", "--runs", "0"], "runs must be at least 2, got 0"),
        (["t.cvs"], "Did you mean 't.csv'"),
    ],
)
def test_the_command_refuses_in_one_sentence(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    table = write(tmp_path / "t.csv", ("seed",), [("0",), ("1",)])
    before = table.read_bytes()
    ended = CliRunner().invoke(app, ["analyze", *arguments])
    assert isinstance(ended.exception, UserError) and words in str(ended.exception)
    assert "\n" not in str(ended.exception) and ended.exit_code
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"] and table.read_bytes() == before


def test_ctrl_c_ends_an_analysis_in_one_sentence(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", ("seed",), [("0",), ("1",)])

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("oodometer.analysis.findings_of", interrupted)
    ended = CliRunner().invoke(app, ["analyze", str(path), "--out", str(tmp_path / "out")])
    assert ended.exit_code == 130 and ended.stderr == "oodometer: interrupted.\n"
    assert not (tmp_path / "out").exists()


def test_large_tables_are_announced(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", ("seed",), [("0",), ("1",)])
    monkeypatch.setattr("oodometer.cli.analysis.LARGE_FILE", 10)
    monkeypatch.setattr("oodometer.cli.analysis.LARGE_TABLE", 10)
    ended = CliRunner().invoke(app, ["analyze", str(path), "--out", str(tmp_path / "out")])
    assert ended.stderr.splitlines() == [
        "oodometer: reading 0 MB...",
        "oodometer: analyzing 12 values...",
    ]


def test_names_of_runs_that_say_which_network_they_are_of_are_conditions(tmp_path):
    """As repeats, which no two networks share, they left nothing to compare."""
    rows = [
        f"{network}_{data},{data},{ood},{score},0.{81 + 2 * n + 4 * (score == 'energy')}"
        for n, (network, data) in enumerate(
            (network, data) for network in ("resnet18", "wrn28") for data in ("cifar10", "cifar100")
        )
        for ood in ("svhn", "dtd", "mnist")
        for score in ("msp", "energy")
    ]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["run_name,id_dataset,ood_dataset,score,auroc", *rows]))
    results = read_results(path).results[0]
    assert [factor.kind for factor in results.factors] == ["condition"]
    text = analyze(path)[0].claims[0].text
    assert "energy has the highest mean AUROC" in text and "4 runs on 2 data sets" in text
    path.write_text(path.read_text().replace("resnet18_", "a1f").replace("wrn28_", "b7c"))
    assert read_results(path).results[0].factors[0].kind == "repeat"
