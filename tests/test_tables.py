"""Anybody's results table: what is understood, what is noticed, what is refused."""

import textwrap

import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.tables import read_results
from oodometer.tables.cells import read_cell

NOISE = """
arch,method,training_dataset,iid_dataset,num_classes,accuracy,failure_auroc,incorrect_ood_auroc,\
correct_ood_auroc,noise_rate,seed,checkpoint,ood_dataset,auroc
resnet18,msp,cifar10,cifar10,10,0.93,0.9,0.60,0.9,0.0,0,early,svhn,0.91
resnet18,msp,cifar10,cifar10,10,0.93,0.9,0.61,0.92,0.0,0,early,mnist,0.92
resnet18,knn,cifar10,cifar10,10,0.93,0.8,0.6,0.9,0.0,0,early,svhn,0.93
resnet18,knn,cifar10n_agg,cifar10,10,0.88,0.75,0.6,0.9,0.09,2,last,mnist,0.84
resnet18,knn,cifar10n_agg,cifar10,10,0.88,0.75,0.6,0.9,0.09,2,last,mnist,0.84
"""
OPENOOD = """
dataset,FPR@95,AUROC,AUPR_IN,AUPR_OUT,CCR_4,CCR_3,CCR_2,CCR_1,ACC
cifar100,35.20,89.83,90.1,88.0,1,2,3,4,95.06
mnist,0.50,99.20,98,97,1,2,3,4,95.06
nearood,30.0,89.83,90.1,88.0,1,2,3,4,95.06
farood,12.0,99.2,90.1,88.0,1,2,3,4,95.06
"""


@pytest.fixture
def table(tmp_path):
    def write(text, name="results.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    return write


def values(reading, metric="auroc"):
    (found,) = [part for part in reading.results if part.metric == metric]
    return {
        tuple(line[:-1]): line[-1] for line in found.frame[["detector", "ood", "value"]].to_numpy()
    }


@pytest.mark.parametrize(
    ("text", "value", "spread", "percent"),
    [
        ("91.2", 91.2, None, False), ("91,2", 91.2, None, False), ("91.2%", 91.2, None, True),
        ("91.2 ± 0.3", 91.2, 0.3, False), ("91,2±0,3", 91.2, 0.3, False),
        ("91.2 +/- 0.3", 91.2, 0.3, False), ("91.2 (0.3)", 91.2, 0.3, False),
        (r"$\mathbf{91.2}_{\pm 0.3}$", 91.2, 0.3, False), (r"\textbf{91.2}", 91.2, None, False),
        ("**91.2**", 91.2, None, False), ("91.234", 91.234, None, False),
        (".5", 0.5, None, False), ("91.2 ± 0.3 %", 91.2, 0.3, True), (r"91.2\%", 91.2, None, True),
    ],
)  # fmt: skip
def test_cells(text, value, spread, percent):
    cell = read_cell(text)
    assert (cell.value, cell.spread, cell.percent) == (value, spread, percent)


@pytest.mark.parametrize("text", ["svhn", "1.2.3", "91.2 93.4", "v1", "12 of 13", "inf"])
def test_cells_that_are_no_numbers(text):
    assert read_cell(text) is None


def test_published_schema_of_the_label_noise_paper(table):
    reading = read_results(table(NOISE))
    roles = dict(reading.columns)
    assert roles["method"] == "detector" and roles["iid_dataset"] == "id"
    assert roles["ood_dataset"] == "ood" and roles["accuracy"] == "about the run"
    assert [part.metric for part in reading.results] == [
        "auroc", "failure_auroc", "incorrect_auroc", "correct_auroc",
    ]  # fmt: skip
    assert "duplicate rows were left out: 1" in reading.notes
    main = reading.results[0]
    assert set(main.factor_names) == {
        "training_dataset",
        "seed",
    }  # checkpoint: told by the data
    assert len(main.frame) == 4
    assert main.frame["accuracy"].tolist() == [0.93, 0.93, 0.93, 0.88]


def test_openood_files_as_they_are(table, tmp_path):
    for method in ("msp", "knn"):
        table(OPENOOD, f"v1/cifar10_resnet18_test_ood_ood_{method}_default/ood.csv")
    reading = read_results(tmp_path / "v1")
    assert values(reading) == {
        (d, o): v for d in ("knn", "msp") for o, v in (("cifar100", 0.8983), ("mnist", 0.992))
    }
    assert values(reading, "fpr95")["msp", "mnist"] == pytest.approx(0.005)
    assert "summaries of other rows or columns were left out: nearood, farood" in reading.notes
    assert dict(reading.columns)["CCR_4"] == "not used: another kind of metric"


def test_openood_means_with_spread_and_seeds_in_paths(table, tmp_path):
    text = ",FPR@95,AUROC\ncifar100,35.2 ± 1.0,89.8 ± 0.3\ntin,30.1 ± 1.5,91.2 ± 0.3\n"
    for seed in (0, 1):
        for method in ("msp", "react"):
            table(text, f"v15/s{seed}/ood/{method}.csv")
    reading = read_results(tmp_path / "v15")
    found = reading.results[0]
    assert found.detectors == ("msp", "react") and found.factor_names == ("seed",)
    assert found.frame["spread"].tolist() == pytest.approx([0.003] * 8)
    assert any("fewer conclusions are possible" in note for note in reading.notes)


def test_spreadsheet_with_decimal_commas_percent_signs_and_gaps(table):
    reading = read_results(
        table("Méthode;SVHN;LSUN;Moyenne\nMSP;91,2±0,3;-;89,8\nKNN;95,1 %;94,2 %;94,6 %\n")
    )
    assert values(reading) == pytest.approx(
        {("MSP", "SVHN"): 0.912, ("KNN", "SVHN"): 0.951, ("KNN", "LSUN"): 0.942}
    )
    notes = " | ".join(reading.notes)
    assert "empty cells count as missing: 1" in notes and "read as AUROC" in notes
    assert dict(reading.columns)["Moyenne"] == "not used: a mean of other columns"


@pytest.mark.parametrize(
    "text",
    [
        "| Method | SVHN AUROC | SVHN FPR95 |\n|---|---:|---|\n| MSP | 91.2 | 50 |\n"
        "| KNN | 93 | 40 |\n",
        ",SVHN,\nMethod,AUROC,FPR95\nMSP,91.2,50\nKNN,93,40\n",
        "detector\tood\tmetric\tvalue\nMSP\tSVHN\tAUROC\t.912\nMSP\tSVHN\tFPR@95\t.5\n"
        "KNN\tSVHN\tAUROC\t.93\nKNN\tSVHN\tFPR@95\t.4\n",
        "Table 3\n\nmethod,dataset,AUROC (%),FPR@95\nMSP,SVHN,91.2,50.0\nKNN,SVHN,93,40\n",
    ],
    ids=["markdown", "two header lines", "one metric per line", "title above"],
)  # fmt: skip
def test_one_table_in_four_shapes(table, text):
    reading = read_results(table(text))
    assert values(reading) == pytest.approx({("MSP", "SVHN"): 0.912, ("KNN", "SVHN"): 0.93})
    assert values(reading, "fpr95") == pytest.approx({("MSP", "SVHN"): 0.5, ("KNN", "SVHN"): 0.4})


def test_detectors_as_columns(table):
    reading = read_results(
        table("seed,optimizer,MSP,KNN\n0,sgd,.9,.91\n1,sgd,.8,.9\n0,adam,.7,.8\n")
    )
    assert reading.results[0].detectors == ("MSP", "KNN")
    assert reading.results[0].factor_names == ("seed", "optimizer")


def test_fractions_among_percentages_are_noticed(table):
    reading = read_results(table("method,ood,auroc\nmsp,a,91.2\nmsp,b,0.90\nknn,a,93\nknn,b,94\n"))
    assert values(reading)["msp", "b"] == 0.9
    assert "auroc: 1 of 4 numbers are fractions among percentages" in reading.notes[0]


def test_repeated_cells_become_runs(table):
    reading = read_results(table("method,auroc\nmsp,.9\nmsp,.8\nknn,.7\nknn,.6\n"))
    assert reading.results[0].factor_names == ("run",)
    assert (
        "rows that repeat a cell: 2, read as repeated runs, which detectors do not share"
        in reading.notes[0]
    )
    copied = read_results(table("method,auroc\nmsp,.9\nmsp,.9\nknn,.7\nknn,.7\nknn,.6\n"))
    assert "rows that repeat a cell: 3 (2 with the same number: copies?)" in copied.notes[0]


def test_columns_can_be_corrected(table):
    path = table("what,place,number,batch\na,x,.9,1\nb,x,.8,1\na,x,.7,2\nb,x,.6,2\n")
    with pytest.raises(
        UserError, match="what the numbers in 'number' are: .* --columns \"lower=\\*\""
    ):
        read_results(path)
    reading = read_results(path, "detector=what, ood=place, fpr95=number, factor=batch")
    assert reading.results[0].metric == "fpr95" and not reading.results[0].higher_is_better
    assert reading.results[0].factor_names == ("batch",)
    with pytest.raises(UserError, match="'numbr'.*number"):
        read_results(path, "auroc=numbr")
    with pytest.raises(UserError, match="'detecter'.*detector"):
        read_results(path, "detecter=what")


def test_a_frame_is_read_like_a_file():
    frame = pd.DataFrame({"method": ["msp", "knn"], "auroc": [0.9, None], "ood": ["a", "a"]})
    reading = read_results(frame)
    assert values(reading) == {("msp", "a"): 0.9}
    assert "empty cells count as missing: 1 (auroc 1)" in reading.notes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"), ("a,b\n", "no lines below"), ("x\n1\n2\n", "could not be split"),
        ("method,auroc\nmsp,abc\nknn,.9\nvim,.8\nodin,.7\n", "'abc', which is not a number"),
        ("method,auroc\nmsp,.9\n,.8\n", "Line 2 of the table names no detector"),
        ("method,fpr95\nmsp,.9\nknn,.8\nvim,50\n", "mixes 2 numbers up to 1 with 1 perc"),
        ("method,auroc\nmsp,190\nknn,80\n", "auroc of 190 is .* percentage: msp on outliers"),
        ("method,auroc\nmsp,-0.1\nknn,0.8\n", "auroc of -0.1 is neither"),
        ("method,auroc,auroc\nmsp,.9,.8\nknn,.8,.7\n", "2 columns called 'auroc'"),
        ("method,auroc,note\nmsp,.9,x,y\nknn,.8,z\n", "Line 2 .* has 4 cells, but .* 3"),
        ("method,auroc\nmsp,\nknn,nan\n", "No column holds results"),
        ("method,auroc\nmsp,\x00\n", "zero bytes"),
    ],
)  # fmt: skip
def test_refusals(table, text, words):
    with pytest.raises(UserError, match=words):
        read_results(table(text))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_results(tmp_path / "no.csv")
    with pytest.raises(UserError, match="holds no table"):
        read_results(tmp_path)
    broken = tmp_path / "x.parquet"
    broken.write_bytes(b"nothing")
    with pytest.raises(UserError, match="not a Parquet file"):
        read_results(broken)
    with pytest.raises(UserError, match=r"x.parqet' does not exist. Did you mean '.*x.parquet'"):
        read_results(tmp_path / "x.parqet")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}', "list of objects"),
        ('{"columns": ["detector", "auroc"], "data": [1, 2]}', "No column holds results"),
        (r'[{"detector": "half \ud800", "auroc": 0.9}]', "not valid JSON: .* surrogates"),
    ],
)
def test_json_that_is_no_table(tmp_path, text, words):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UserError, match=words):
        read_results(tmp_path / "x.json")


def test_one_column_without_title_is_the_detector_and_nothing_else(table):
    reading = read_results(table(",auroc\nfirst thing,.9\nsecond thing,.8\n"))
    assert reading.columns == (("column 1", "detector"), ("auroc", "auroc"))
    assert set(reading.results[0].frame["ood"]) == {"outliers"}
