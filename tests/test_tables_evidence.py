"""Names and numbers that nothing explains are asked about, and each option that is named works."""

import re
from itertools import product

import pytest

from oodometer.errors import UserError
from oodometer.tables import read_results


def read(tmp_path, text, columns="", name="t.csv"):
    path = tmp_path / name
    path.write_text(text)
    return read_results(path, columns)


def asked(tmp_path, text, columns="", name="t.csv"):
    with pytest.raises(UserError) as question:
        read(tmp_path, text, columns, name)
    return str(question.value), re.findall(r'--columns "([^"]*)"', str(question.value))


CELLS = "Cell-Type,Accuracy,F1\nB cell,.91,.90\nT cell,.95,.94\nNK,.88,.86\nMonocyte,.97,.97\n"


def test_lines_that_may_be_data_of_one_model_are_not_compared_unasked(tmp_path):
    question, options = asked(tmp_path, CELLS)
    assert "Does 'Cell-Type' (B cell, T cell, …) name what is compared" in question
    assert options == ["detector=Cell-Type"]
    assert set(read(tmp_path, CELLS, options[0]).results[0].detectors) >= {"NK", "Monocyte"}
    asked(tmp_path, CELLS, "accuracy=Accuracy")  # says nothing about what is compared


@pytest.mark.parametrize(
    "header", ["Training scheme", "loss_fn", "Prompt", "experiment", "Optimizer", ""]
)
def test_a_title_that_says_what_is_compared_needs_no_question(tmp_path, header):
    found = read(tmp_path, CELLS.replace("Cell-Type", header)).results[0]
    assert "B cell" in found.detectors


@pytest.mark.parametrize("name", ["ResNet-50 (ft)", "B cell w/o aug", "B cell + mix", "our B"])
def test_a_known_model_or_a_variant_among_the_names_says_it_too(tmp_path, name):
    assert name in read(tmp_path, CELLS.replace("B cell", name)).results[0].detectors


LEVELS = "Dataset,Easy,Medium,Hard\nKITTI,91.2,85.1,80.3\nnuScenes,71.2,65.1,60.3\nWaymo,81,75,70\n"


def test_levels_in_titles_are_not_compared_unasked(tmp_path):
    question, options = asked(tmp_path, LEVELS, "accuracy=*")
    assert "Do the titles of columns (Easy, Medium, …) name what is compared" in question
    readings = [read(tmp_path, LEVELS, option).results[0].detectors for option in options]
    assert [set(names) for names in readings] == [
        {"Easy", "Medium", "Hard"},
        {"KITTI", "nuScenes", "Waymo"},
    ]
    models = LEVELS.replace("Easy,Medium,Hard", "FooNet,BarScore,Baz")
    assert "FooNet" in read(tmp_path, models, "accuracy=*").results[0].detectors


def test_a_known_metric_among_unknown_ones_does_not_decide_unasked(tmp_path):
    lines = ["Method,Sm,Em,Fw,MAE", "SI,.776,.864,.631,.043", "PF,.800,.877,.660,.040"]
    text = "\n".join([*lines, "Zo,.838,.888,.729,.029"])
    question, options = asked(tmp_path, text)
    assert "'MAE' says what its numbers are, but 'Sm' does not" in question
    metrics = [read(tmp_path, text, option).results[0].metric for option in options]
    assert metrics == ["MAE", "MAE", "Sm", "Sm"]
    assert len(read(tmp_path, text, options[0]).results[0].frame) == 12  # data sets of one metric
    assert len(read(tmp_path, text, options[1]).results[0].frame) == 3


def test_a_data_set_called_like_a_metric_is_asked_about(tmp_path):
    text = "Method,lits,dsc,hvsm\nA,.91,.88,.80\nB,.92,.87,.82\nC,.90,.86,.81\n"
    _, options = asked(tmp_path, text)
    assert len(read(tmp_path, text, options[0]).results[0].frame) == 9


def test_unknown_numbers_beside_auroc_are_noted(tmp_path):
    text = "method,ftm,krt,auc,lr\nA,.91,.88,.71,.1\nB,.81,.86,.73,.2\nC,.82,.84,.74,.3\n"
    reading = read(tmp_path, text)
    assert reading.results[0].metric == "auroc"
    (note,) = [note for note in reading.notes if "not compared" in note]
    assert "'ftm', 'krt': not compared" in note and "higher=ftm" in note and "lr" not in note


def test_a_number_with_a_comma_may_be_thousands(tmp_path):
    text = "method;dataset;rmse\na;x;35,403\nb;x;36.101\na;y;12.5\nb;y;13.1\n"
    question, _ = asked(tmp_path, text)
    assert "'35,403' in column 'rmse' may be 35403 or 35.403" in question
    decimals = text.replace(".", ",")  # 12,5 has one digit behind its comma
    assert read(tmp_path, decimals).results[0].frame["value"].max() == 36.101


def test_numbers_of_shots_below_data_sets_are_conditions(tmp_path):
    text = (
        "Method,mini-ImageNet 1-shot,mini-ImageNet 5-shot,MVTec 1-shot,MVTec 5-shot\n"
        "A,49.4,68.2,53.3,72.7\nB,48.7,63.1,51.6,70.3\nC,62.6,78.6,65.9,81.5\n"
    )
    found = read(tmp_path, text, name="accuracy.csv").results[0]
    assert set(found.frame["id"]) == {"mini-ImageNet", "MVTec"}
    assert [factor.kind for factor in found.factors] == ["condition"]


def test_names_of_runs_are_not_compared_unasked(tmp_path):
    lines = [f"run-{o}-{s},{o},{s},{.9 + s / 100 + (o == 'adam') / 50:.3f},{1 + s / 7:.3f}"
             for o in ("sgd", "adam") for s in range(3)]  # fmt: skip
    text = "\n".join(["Name,optimizer,seed,test_acc,grad_norm", *lines])
    _, options = asked(tmp_path, text)
    assert options == ["detector=optimizer", "detector=Name"]
    found = read(tmp_path, text, options[0]).results[0]
    assert set(found.detectors) == {"sgd", "adam"} and found.factors[0].kind == "repeat"
    methods = text.replace("run-sgd-1", "run-sgd-0").replace("run-sgd-2", "run-sgd-0")
    assert "run-sgd-0" in read(tmp_path, methods).results[0].detectors  # several seeds of one name


def test_precision_and_recall_that_disagree_do_not_decide_unasked(tmp_path):
    text = "Model,Sensitivity,Specificity,PPV\nA,.91,.88,.7\nB,.81,.92,.8\nC,.85,.9,.75\n"
    _, options = asked(tmp_path, text)
    assert [read(tmp_path, text, option).results[0].metric for option in options] == [
        "PPV", "Sensitivity", "Specificity"
    ]  # fmt: skip
    agreeing = text.replace("A,.91", "A,.71").replace("C,.85", "C,.75")
    assert read(tmp_path, agreeing).results[0].metric == "precision"


def test_an_average_beside_one_column_is_not_its_mean(tmp_path):
    text = "Algorithm,Average,Worst-group\nERM,95.1,60.2\nDRO,93.2,85.1\nJTT,92.9,86.7\n"
    _, options = asked(tmp_path, text)
    assert [read(tmp_path, text, option).results[0].metric for option in options] == [
        "Average", "Worst-group"
    ]  # fmt: skip


def test_data_sets_with_metrics_of_their_own_are_not_dropped_unasked(tmp_path):
    tasks = (("cola", "mcc", 0.6), ("sst2", "acc", 0.92), ("stsb", "pearson", 0.89))
    lines = [f"{m},{t},{k},{v + n / 100}" for n, m in enumerate("AB") for t, k, v in tasks]
    text = "\n".join(["model,task,metric,value", *lines])
    question, options = asked(tmp_path, text)
    assert "Data sets have different metrics (accuracy on sst2" in question
    assert set(read(tmp_path, text, options[0]).results[0].frame["id"]) == {"cola", "sst2", "stsb"}


def test_matrices_and_tests_of_pairs_are_no_results(tmp_path):
    question, options = asked(tmp_path, ",cat,dog,cow\ncat,90,5,5\ndog,4,92,4\ncow,3,3,94\n")
    assert "Rows and columns have the same names" in question
    assert options == ["detector=column 1, higher=*"]
    tests = "comparison,p_value,effect\nA vs B,0.03,0.5\nA vs C,0.01,0.8\n"
    assert "Each line tests a pair, such as 'A vs B'" in asked(tmp_path, tests)[0]


def lines(*levels):
    rows = [",".join(map(str, row)) for row in product(*levels)]
    return [f"{row},{0.6 + n * 37 % 100 / 300:.4f}" for n, row in enumerate(rows)]


def test_a_column_of_known_data_sets_names_them_whatever_its_title(tmp_path):
    rows = lines(["RF", "SVM"], ["iris", "wine", "glass"], [1, 2, 3])
    found = read(tmp_path, "\n".join(["classifier,zork,fold,f1", *rows])).results[0]
    assert set(found.frame["id"]) == {"iris", "wine", "glass"}
    rows = lines(["MSP", "KNN"], ["CIFAR-10", "CIFAR-100"], ["SVHN", "LSUN"])
    found = read(tmp_path, "\n".join(["method,zork,ood,auroc", *rows])).results[0]
    assert set(found.frame["id"]) == {"CIFAR-10", "CIFAR-100"}


def test_optimizers_beside_other_names_are_not_compared_unasked(tmp_path):
    rows = lines(["Foo", "Bar"], ["sgd", "adam"], ["aa", "bb", "cc"])
    _, options = asked(tmp_path, "\n".join(["Group,optimizer,dataset,accuracy", *rows]))
    assert options == ["detector=Group", "detector=optimizer"]


def test_numbers_of_unknown_kind_are_assumed_and_told(tmp_path):
    rows = lines(["Foo", "Bar"], [10, 20, 30], [0, 1, 2])
    reading = read(tmp_path, "\n".join(["method,zork,seed,auroc", *rows]))
    assert list(reading.assumed) == ["zork"]


def test_zeros_that_a_column_of_means_counts_are_values(tmp_path):
    table = ["method,SVHN,LSUN,iSUN,Mean", "a,.9,.8,.7,.8", "b,.9,0.000,.9,.6", "c,.7,.8,.9,.8"]
    found = read(tmp_path, "\n".join(table), name="auroc.csv").results[0]
    assert len(found.frame) == 9
    found = read(tmp_path, "\n".join(table).replace(",.6", ",.9"), name="auroc.csv").results[0]
    assert len(found.frame) == 8  # it did not finish


def test_a_spread_beside_average_precision_belongs_to_it(tmp_path):
    text = "model,runs,ap,ap_std\nA,5,.635,.004\nB,5,.584,.004\n"
    assert read(tmp_path, text).results[0].frame["spread"].tolist() == [0.004, 0.004]


def test_differences_of_rounding_are_no_conditions(tmp_path):
    rows = [f"{m},{s},{0.7 + s / 50:.2f},{(s % 2) * 8.67e-19}" for m in "AB" for s in range(4)]
    found = read(tmp_path, "\n".join(["method,seed,auroc,gap", *rows])).results[0]
    assert [factor.name for factor in found.factors] == ["seed"]


def test_epochs_of_a_log_are_not_compared(tmp_path):
    blocks = [f"Epoch {n}/100\n  Val Loss: 0.9\n  Val IoU: 0.{n}53\n" for n in range(1, 5)]
    question, _ = asked(tmp_path, "\n".join(blocks), name="log.txt")
    assert "nothing to compare" in question


def test_scores_called_metrics_in_several_files_are_asked_about(tmp_path):
    for number, name in enumerate(("ASDiv", "svamp")):
        rows = [f"|{m}|0.{6 + number}{n}|0.02|" for n, m in enumerate(("p-min", "p-sum", "sar"))]
        page = "\n".join(["|Metric|Mean|Std Dev|", "|-|-|-|", *rows])
        (tmp_path / f"{name}_auroc_report.md").write_text(page)
    with pytest.raises(UserError, match="detector=Metric"):
        read_results(tmp_path)


@pytest.mark.parametrize(("metrics", "is_read"), [("AUROC FPR95", True), ("RMSE MAE", False)])
def test_commas_in_a_table_with_a_line_per_metric(tmp_path, metrics, is_read):
    rows = [f"{m};{k};9{n},203" for m in "ab" for n, k in enumerate(metrics.split())]
    text = "\n".join(["method;metric;value", *rows])
    if is_read:
        assert read(tmp_path, text).results[0].frame["value"].max() == pytest.approx(0.90203)
    else:
        assert "may be" in asked(tmp_path, text)[0]


def test_what_a_line_above_a_block_of_a_log_names_is_its_key(tmp_path):
    blocks = [f"Results for Target: {n}\nAccuracy: 0.9{k}\nF1 Score: 0.9{k}\nG-mean: 0.9\n"
              for k, n in enumerate(("2S1", "BMP2", "T72"))]  # fmt: skip
    found = read(tmp_path, "\n".join(blocks), name="log.txt").results[0]
    assert list(found.detectors) == ["log"] and set(found.frame["ood"]) == {"2S1", "BMP2", "T72"}


def test_headings_between_rows_of_two_columns(tmp_path):
    parts = [f"| ID: {s} | |\n| msp | .8{n} |\n| knn | .9{n} |" for n, s in enumerate(["A", "B"])]
    text = "\n".join(["| Method | AUROC |", "|-|-|", *parts])
    found = read(tmp_path, text, name="page.md").results[0]
    assert set(found.frame["id"]) == {"A", "B"} and set(found.detectors) == {"msp", "knn"}
    missing = text.replace("ID: A", "odin").replace("| ID: B | |\n", "")
    assert read(tmp_path, missing, name="page.md").results[0].factors[0].kind == "repeat"


def test_macro_beside_micro_is_another_form_and_no_mean(tmp_path):
    text = "model,macro_f1,micro_f1\nA,.7,.8\nB,.72,.79\nC,.6,.9\n"
    _, options = asked(tmp_path, text)
    assert sorted(options) == ["higher=macro_f1", "higher=micro_f1"]
    leaders = [read(tmp_path, text, option).results[0] for option in sorted(options)]
    assert [found.metric for found in leaders] == ["macro_f1", "micro_f1"]
