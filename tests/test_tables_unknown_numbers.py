"""Numbers beside a known metric, and metrics that nobody knows: left out, told, or asked about."""

import json

import pytest

import oodometer as om
from oodometer.errors import UserError
from oodometer.tables import read_results
from oodometer.tables.vocabulary.measures import without_metric

MODELS, SETS = ("resnet18", "resnet50", "vgg16"), ("alpha", "beta", "gamma", "omega")


def read(tmp_path, text, name="table.csv", columns=""):
    path = tmp_path / name
    path.write_text(text)
    return read_results(path, columns)


def lines(titles, *columns):
    """Return a table of models on data sets; each further column is a list of 12 numbers."""
    names = [(model, data) for model in MODELS for data in SETS]
    rows = [[*name, *map(str, cells)] for name, *cells in zip(names, *columns, strict=True)]
    return "\n".join(",".join(row) for row in [["model", "dataset", *titles], *rows]) + "\n"


R2 = [0.71, 0.62, 0.83, 0.74, 0.65, 0.56, 0.87, 0.78, 0.69, 0.61, 0.82, 0.73]
RMSE = [3.1, 4.2, 2.3, 3.4, 3.5, 4.6, 2.7, 3.8, 3.9, 4.1, 2.2, 3.3]


def test_the_name_of_the_file_says_which_metric_decides(tmp_path):
    table = lines(["R2", "RMSE"], R2, RMSE)
    assert read(tmp_path, table).results[0].metric == "R2"
    found = read(tmp_path, table, "rmse_results.csv")
    assert found.results[0].metric == "RMSE"
    assert any("RMSE decides, as the name of the file says" in note for note in found.notes)


def test_a_column_says_which_metric_decides(tmp_path):
    table = lines(["R2", "RMSE", "primary_metric"], R2, RMSE, ["rmse"] * 12)
    assert read(tmp_path, table).results[0].metric == "RMSE"


def test_top1_above_top5_is_an_error(tmp_path):
    one = [23.1, 24.2, 25.3, 26.4, 27.5, 28.6, 21.7, 22.8, 23.9, 24.0, 25.1, 26.2]
    five = [value - 17.5 for value in one]
    errors = read(tmp_path, lines(["top1", "top5"], one, five)).results[0]
    assert (errors.metric, errors.higher_is_better) == ("error rate", False)
    right = read(tmp_path, lines(["top1", "top5"], one, [v + 20 for v in one])).results[0]
    assert (right.metric, right.higher_is_better) == ("accuracy", True)


def test_fpr_beside_precision_is_at_their_threshold(tmp_path):
    table = lines(["AUROC", "FPR", "precision"], R2, [0.1] * 11 + [0.2], R2)
    assert [part.metric for part in read(tmp_path, table).results] == ["auroc"]
    table = lines(["AUROC", "FPR", "accuracy"], R2, [0.1] * 11 + [0.2], R2)
    assert [part.metric for part in read(tmp_path, table).results] == ["auroc", "fpr95"]


@pytest.mark.parametrize("title", ["utility", "epochs"])
def test_numbers_that_nobody_planned_are_no_conditions(tmp_path, title):
    whole = [3, 7, 2, 8, 5, 3, 9, 7, 8, 4, 6, 2]
    found = read(tmp_path, lines(["accuracy", title], R2, whole))
    assert found.results[0].factor_names == ()
    again = (
        "model,accuracy,"
        + title
        + "\n"
        + "".join(
            f"{MODELS[n % 3]},{value},{number}\n"
            for n, (value, number) in enumerate(zip(R2, whole, strict=True))
        )
    )
    assert read(tmp_path, again).results[0].factor_names == ("run",)


def test_a_setting_that_was_varied_stays_a_condition(tmp_path):
    table = "model,epochs,accuracy\n" + "".join(
        f"{model},{epochs},{0.7 + 0.01 * n + epochs / 1000}\n"
        for n, model in enumerate(MODELS)
        for epochs in (10, 20, 40)
    )
    assert read(tmp_path, table).results[0].factor_names == ("epochs",)


def test_ranges_are_read_by_their_middle(tmp_path):
    found = read(tmp_path, lines(["accuracy"], [f"~{70 + n}-{72 + n}%" for n in range(12)]))
    assert sorted(found.results[0].frame["value"]) == pytest.approx(
        [(71 + n) / 100 for n in range(12)]
    )
    assert any("ranges are read by their middle" in note for note in found.notes)


def test_a_title_of_thousands_of_words_is_no_metric():
    title = "auroc " * 5000
    assert without_metric(title) == title


@pytest.mark.parametrize("cell", ["1e400", "9" * 400, "0.9 ± 1e400"])
def test_a_number_too_large_to_be_one_is_one_sentence(tmp_path, cell):
    path = tmp_path / "large.csv"
    path.write_text(
        f"detector,ood,auroc\nknn,svhn,0.9\nvim,svhn,{cell}\nknn,dtd,0.8\nvim,dtd,0.7\n"
    )
    with pytest.raises(UserError, match="Column 'auroc' contains '"):
        om.analyze(path)


def test_results_that_no_protocol_can_use_are_one_sentence(tmp_path):
    """Runs and means of them in one file: no set has a value of each model in the same runs."""
    names = ("resnet18", "resnet50", "vit_b")
    raw = [{"model": m, "seed": n, "auroc": 0.85 + n / 90} for n in range(3) for m in names]
    means = [{"model": name, "auroc": 0.85} for name in names]
    path = tmp_path / "both.json"
    path.write_text(json.dumps({"raw": raw, "model_means": means}))
    with pytest.raises(UserError, match="Nothing can be said about these results"):
        om.analyze(path)


def wide(names, numbers, rows=SETS):
    """Return a table of detectors beside data sets, one number per cell."""
    cells = zip(rows, numbers, strict=True)
    return "\n".join([",".join(["Data", *names]), *(f"{row},{own}" for row, own in cells)]) + "\n"


LOW = wide(
    ["IForest", "KNN", "LOF"], ["0.61,0.42,0.0", "0.13,0.82,0.3", "0.7,0.66,0.2", "0.9,1,.8"]
)


def test_numbers_that_nothing_calls_auroc_are_none_if_many_are_below_one_half(tmp_path):
    question = r"^Nothing says that the numbers are AUROCs, and 42% of them are below 0.5: "
    with pytest.raises(UserError, match=question):
        read(tmp_path, LOW)
    assert read(tmp_path, LOW, columns="higher=*").results[0].frame["value"].min() == 0
    named = LOW.replace("IForest", "IForest AUROC").replace("KNN", "KNN AUROC")
    named = named.replace("LOF", "LOF AUROC")
    assert read(tmp_path, named).results[0].metric == "auroc"


@pytest.mark.parametrize(("name", "metric"), [("grove_ap.csv", "AUPR"), ("roc_df.csv", "auroc")])
def test_short_names_of_metrics_in_names_of_files(tmp_path, name, metric):
    text = wide(["Ava", "Bib"], ["0.9,0.8", "0.7,0.6", "0.8,0.7", "0.9,0.7"])
    assert read(tmp_path, text, name).results[0].metric == metric


def test_results_far_below_others_and_amid_them_are_no_setting(tmp_path):
    rows = [f"m{n},0.{n + 21},0.{n + 32},0.{n + 43},0.00{n % 3},0.{n + 54}" for n in range(14)]
    text = "\n".join(["method,Cora,Amazon,Flickr,Fir,Reddit", *rows])
    assert "Fir" in {*read(tmp_path, text, "grove_ap.csv").results[0].frame["id"]}
    first = [",".join([c[0], c[4], *c[1:4], c[5]]) for c in (row.split(",") for row in rows)]
    text = "\n".join(["method,weight,Cora,Amazon,Flickr,Reddit", *first])
    assert "weight" not in {*read(tmp_path, text, "grove_ap.csv").results[0].frame["id"]}


def test_numbers_beside_several_metrics_are_further_metrics(tmp_path):
    folds = "fold,mAP,AR,AK,ACC,ECE\n" + "".join(
        f"{n},0.6{n},0.5{n},0.4{n},0.7{n},0.1{n}\n" for n in range(5)
    )
    with pytest.raises(UserError, match="if all rows are of one, there is nothing to compare") as e:
        read(tmp_path, folds)
    assert "all by mAP" not in str(e.value) and "detector=AR" not in str(e.value)


def test_costs_of_parts_are_costs(tmp_path):
    text = "model,image_mparams,text_mparams,image_gflops\n" + "".join(
        f"net{n},{n}.31,{n + 2}.27,{n + 70}.9\n" for n in range(6)
    )
    with pytest.raises(UserError) as e:
        read(tmp_path, text)
    assert "data sets" not in str(e.value)
    beside = text.replace("image_gflops", "accuracy")
    assert read(tmp_path, beside).results[0].metric == "accuracy"


def test_columns_whose_mean_the_table_states_are_data_sets(tmp_path):
    text = "Algorithm,A,C,P,R,Avg\nERM,85.1,85.6,81.7,82.8,83.8\nMA,86.2,86.3,82.8,84.3,84.9\n"
    with pytest.raises(UserError, match="Nothing says what the numbers in 'A', 'C', … are"):
        read(tmp_path, text)
    assert read(tmp_path, text, columns="accuracy=*").results[0].frame["id"].nunique() == 4


def test_a_pattern_leaves_out_small_settings_that_are_written_with_an_exponent(tmp_path):
    text = (
        "method,lr,svhn R@1,lsun R@1,svhn R@5,lsun R@5\na,5e-05,.8,.7,.9,.9\nb,5e-05,.6,.5,.8,.7\n"
    )
    found = read(tmp_path, text, columns="higher=*R@1")
    assert len(found.results[0].frame) == 4


def test_a_metric_of_groups_of_people_has_no_data_set_of_training(tmp_path):
    rows = [f"{m},{s},0.{k}{s}1,0.{k}{s}4" for k, m in enumerate("abc", 1) for s in range(4)]
    (tmp_path / "t.csv").write_text("\n".join(["model,seed,FPR95 female,FPR95 male", *rows]))
    finding = om.analyze(tmp_path / "t.csv")[0]
    assert "female, male are read as data sets, not as forms of FPR@95TPR" in str(finding.reading)


def test_rates_of_groups_of_people_are_another_metric_than_accuracy(tmp_path):
    rows = [f"{m},{s},0.8{k}{s},0.1{k}{s},0.2{k}{s}" for k, m in enumerate("abc") for s in range(4)]
    (tmp_path / "t.csv").write_text("\n".join(["model,seed,accuracy,fpr_old,fpr_young", *rows]))
    reading = read_results(tmp_path / "t.csv")
    assert [results.metric for results in reading.results] == ["accuracy"]
    assert dict(reading.columns)["fpr_old"] == "not used: another kind of metric"


def test_few_numbers_that_nothing_calls_auroc_are_doubted_too(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("method,SVHN,LSUN\nMSP,0.41,0.72\nKNN,0.75,0.88\n")
    assert read_results(path).results[0].metric == "auroc"
    path.write_text(path.read_text().replace("0.72", "0.47"))
    with pytest.raises(UserError, match="50% of them are below 0.5"):
        read_results(path)
