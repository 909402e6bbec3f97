"""Files of results as repositories on outliers, anomalies and uncertainty keep them."""

import json

import pytest

from oodometer.errors import UserError
from oodometer.tables import read_results
from oodometer.tables.vocabulary.measures import metric_named


def read(tmp_path, content, name="t.csv", columns=""):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return read_results(path, columns)


def means(reading):
    lines = reading.results[0].frame
    return {
        str(k): round(float(v), 3) for k, v in lines.groupby("detector")["value"].mean().items()
    }


def test_amounts_with_units_are_costs_not_data_sets(tmp_path):
    page = (
        "| detector | AUROC | train | inference |\n|---|---|---|---|\n"
        "| mean entropy | 0.91 | 0 ms | 1,200,000/s |\n| Mahalanobis | 0.84 | 7 ms | 410,000/s |\n"
        "| perplexity | 0.80 | 0 ms | 1,900,000/s |\n| IForest | 0.72 | 1,101 ms | 7,300/s |\n"
    )
    found = read(tmp_path, page, "t.md")
    assert means(found) == {
        "mean entropy": 0.91, "Mahalanobis": 0.84, "perplexity": 0.80, "IForest": 0.72
    }  # fmt: skip
    assert dict(found.columns)["train"] == "not used: what it costs"


def test_known_models_tell_which_level_of_json_is_compared(tmp_path):
    models = {"xgboost": 0.9, "random_forest": 0.8, "logistic_regression": 0.7}
    table = {
        name: {model: {"f1": auc - 0.1, "auc": auc + n / 100} for model, auc in models.items()}
        for n, name in enumerate(("alpha", "beta", "gamma"))
    }
    table["gamma"]["codebert"] = None
    found = read(tmp_path, json.dumps(table), "t.json")
    assert means(found) == {
        "xgboost": 0.91, "random_forest": 0.81, "logistic_regression": 0.71
    }  # fmt: skip
    assert set(found.results[0].frame["id"]) == {"alpha", "beta", "gamma"}


def test_one_name_of_a_model_does_not_tell_what_is_compared(tmp_path):
    splits = {"random": 0.8, "scaffold": 0.7}  # of molecules; SCAFFOLD is a method, too
    table = {
        name: {split: {"auroc": auroc + n / 50} for split, auroc in splits.items()}
        for n, name in enumerate(("alpha", "beta"))
    }
    with pytest.raises(UserError, match="if none does, there is nothing to compare"):
        read(tmp_path, json.dumps(table), "t.json")


def test_numbers_of_some_methods_are_no_part_of_their_names(tmp_path):
    lines = [
        "kind,method,image_auroc,pixel_auroc,aupro,pixel_f1max",
        "A,one,0.66,,,", "A,two,0.73,,,",
        "B,three,0.74,0.89,0.55,0.36", "B,four,0.75,0.91,0.56,0.37",
        "C,three,0.99,0.97,0.82,0.63", "C,four,0.98,0.96,0.84,0.65",
    ]  # fmt: skip
    found = read(tmp_path, "\n".join(lines), columns="higher=image_auroc")
    assert set(found.results[0].frame["detector"]) == {"one", "two", "three", "four"}


POINTS = "model,roc_auc,PA%20_roc_auc,PA%50_roc_auc\na,0.96,0.98,0.97\nb,0.95,0.99,0.96\n"
STACKED = json.dumps(
    {
        a: {b: {"roc_auc": 0.5 + 0.1 * (a == b)} for b in ("n1", "n2", "n3")}
        for a in ("n1", "n2", "n3")
    }
)
CROSSED = STACKED.replace("n1", "NSL-KDD").replace("n2", "UNSW-NB15").replace("n3", "CIDDS")
SIDES = "".join(
    f"{line}\n"
    for line in (
        "model,old_a_p,old_a_r,old_a_f1,old_b_f1,new_a_p,new_a_r,new_a_f1,new_b_f1",
        "net/a,0.068,0.253,0.107,0.041,0.038,0.121,0.057,0.063",
        "net/b,0.217,0.200,0.208,0.138,0.147,0.127,0.136,0.199",
    )
)
TITLES = (
    "## Results (AUROC)\n\n| Model | Dataset | SE | EPGX | **NEWX** |\n|---|---|---|---|---|\n"
    "| Llama-2 | TriviaQA | 0.708 | 0.722 | 0.763 |\n| Llama-3 | SVAMP | 0.900 | 0.937 | 0.973 |\n"
    "| Yi | TriviaQA | 0.770 | 0.776 | 0.829 |\n| Llama-3 | TriviaQA | 0.708 | 0.723 | 0.813 |\n"
)
RUNGS = "Model,Rung,AURC\n" + "".join(
    f"{model},B{rung},{0.2 + 0.1 * n - 0.01 * rung:.3f}\n"
    for n, model in enumerate(("first", "second", "third"))
    for rung in range(6)
)
SURFACES = "Surface,Model,AUROC\n" + "".join(
    f"{surface},{model},{auroc}\n"
    for n, surface in enumerate(("full", "part", "rest"))
    for model, auroc in (("B58", 0.68 + n / 500), ("D3 mean", 0.71 + n / 400))
)
RUNS = "experiment_name,f1\n" + "".join(
    f"run_{data}_{model}_dm{dm}_el{el},{f1}\n"
    for data, model, dm, el, f1 in (
        ("SWAT", "Informer", 8, 2, 0.71), ("SWAT", "TimesNet", 8, 2, 0.81),
        ("SWAT", "TimesNet", 16, 2, 0.83), ("SMD", "Informer", 8, 2, 0.72),
        ("SMD", "TimesNet", 64, 3, 0.84), ("MSL", "Informer", 8, 2, 0.73),
        ("MSL", "TimesNet", 8, 2, 0.85),
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "words", "option"),
    [
        ("forms.csv", POINTS, "may be over all the data", "auroc=roc_auc"),
        ("forms.csv", SIDES, "may be forms of F1", "F1=old_a_f1"),
        ("matrix.json", STACKED, "hold the same names", "detector=column 1, ood=column 2"),
        ("sets.json", CROSSED, "hold the same names", "detector=column 1, ood=column 2"),
        ("notes.md", TITLES, "or the titles of columns", "detector=*"),
        ("rungs.csv", RUNGS, "or what is compared", "detector=Rung"),
        ("surfaces.csv", SURFACES, "or outlier sets", "ood=Surface"),
        ("runs.csv", RUNS, "hold settings", "detector=experiment_name.1"),
    ],
)
def test_questions_name_the_right_reading_which_is_then_read(
    tmp_path, name, content, words, option
):
    with pytest.raises(UserError, match=words) as asked:
        read_and_analyze(tmp_path, content, name)
    assert f'--columns "{option}"' in str(asked.value)
    assert len(means(read(tmp_path, content, name, option))) > 1


def read_and_analyze(tmp_path, content, name):
    """Read a table, and ask what its evidence depends on."""
    found = read(tmp_path, content, name)
    raise UserError("; ".join(found.assumed.values()) or "read")


def test_semantic_entropy_is_no_standard_error_among_scores(tmp_path):
    found = read(tmp_path, TITLES, "notes.md", "detector=*")
    assert set(means(found)) == {"SE", "EPGX", "NEWX"}


def test_settings_in_names_are_averaged_if_models_are_compared(tmp_path):
    found = read(tmp_path, RUNS, columns="detector=experiment_name.1")
    assert means(found) == {"Informer": 0.72, "TimesNet": 0.837}
    assert any("averaged, because most cells have one" in note for note in found.notes)


def test_detectors_before_groups_of_outliers_are_parted(tmp_path):
    lines = ["name,AUROC", "Energy far-OOD,0.9", "Energy near-OOD,0.7", "MSP far-OOD,0.8",
             "MSP near-OOD,0.75"]  # fmt: skip
    found = read(tmp_path, "\n".join(lines))
    assert means(found) == {"Energy": 0.8, "MSP": 0.775}
    assert set(found.results[0].frame["ood"]) == {"far-OOD", "near-OOD"}


def test_a_list_of_quantities_compares_nothing(tmp_path):
    lines = (
        "metric,value\nMean entropy - MNIST,0.10\nMean entropy - SVHN,1.3\nAUROC (entropy),0.98\n"
    )
    with pytest.raises(UserError, match="names another quantity on every line"):
        read(tmp_path, lines)


def test_numbers_of_lines_do_not_keep_detectors_apart(tmp_path):
    lines = ["Rung,Model,Extra tokens,AURC"]
    for n, model in enumerate(("q", "d", "l")):
        lines += [
            f"base,{model},0,{0.2 + n / 100}",
            f"both,{model},{6150 + 31 * n},{0.1 + n / 90:.4f}",
        ]
        lines += [f"peer{n},{model},{3100 + n},{0.15 + n / 80:.4f}"]
    found = read(tmp_path, "\n".join(lines), columns="detector=Rung")
    assert found.results[0].factor_names == ("Model",)


def test_a_bench_holds_data_sets(tmp_path):
    lines = ["model,bench,acc"] + [
        f"m{m},b{b},{60 + 3 * m + b}.5" for m in range(3) for b in range(3)
    ]
    assert set(read(tmp_path, "\n".join(lines)).results[0].frame["id"]) == {"b0", "b1", "b2"}


def test_methods_called_averages_are_no_summaries(tmp_path):
    lines = ["Method,AUC-ROC,VUS-PR", "Random,0.73,0.38", "Score average,0.91,0.59",
             "Rank average,0.86,0.41", "Top-2 average,0.93,0.70", "OneShot,0.94,0.71"]  # fmt: skip
    found = read(tmp_path, "\n".join(lines))
    assert len(means(found)) == 5
    assert [part.metric for part in found.results] == ["auroc", "VUS-PR"]


def test_the_metric_that_a_page_calls_primary_decides(tmp_path):
    page = (
        "The primary metric is **VUS-PR**, beside AUC-PR.\n\n| Method | AUC-PR | VUS-PR |\n"
        "|---|---|---|\n| A1 | 0.37 | 0.40 |\n| B1 | 0.30 | 0.42 |\n"
    )
    found = read(tmp_path, page, "t.md")
    assert found.results[0].metric == "VUS-PR"
    assert any("VUS-PR decides, as the text above" in note for note in found.notes)


def test_both_sides_of_the_equal_error_rate_are_left_out(tmp_path):
    lines = ["Model,FAR (%),FRR (%),EER (%)", "a,0.0,100.0,35.8", "b,66.6,56.8,59.3",
             "c,2.5,97.5,42.9"]  # fmt: skip
    found = read(tmp_path, "\n".join(lines))
    assert [part.metric for part in found.results] == ["EER"]


def test_a_title_of_two_parts_names_systems(tmp_path):
    lines = ["System / Condition,Set 5 EER (%),Set 2019 EER (%)", "A + B,6.6,0.65", "C (x),6.0,0.5",
             "D,5.7,0.4"]  # fmt: skip
    assert len(means(read(tmp_path, "\n".join(lines)))) == 3


def test_a_mean_over_a_group_in_brackets_is_no_data_set(tmp_path):
    lines = ["arm\tS1\tS2\tS3\tS4\tAvg(math3)", "a\t15.8\t8.2\t54.8\t80.2\t26.3",
             "b\t14.2\t8.4\t58.2\t80.0\t26.9", "c\t15.2\t6.4\t55.8\t76.8\t25.8"]  # fmt: skip
    found = read(tmp_path, "\n".join(lines), "t.tsv", "detector=arm, higher=*")
    assert dict(found.columns)["Avg(math3)"] == "not used: a mean of other columns"


def test_numbers_by_name_beside_names_with_several_metrics_are_another_table(tmp_path):
    names = ("majority", "keyword", "minilm")
    table = {
        "n": 104,
        "gaps": {name: {"accuracy": 0.3 + n / 10, "f1": 0.2} for n, name in enumerate(names)},
        "agreement": {"majority": 1.0, "keyword_heuristic": 0.75, "ft_minilm": 0.9},
    }
    found = read(tmp_path, json.dumps(table), "t.json")
    assert means(found) == {"majority": 0.3, "keyword": 0.4, "minilm": 0.5}
    assert any("left out: agreement" in note for note in found.notes)


def test_lines_that_name_a_model_and_its_metric_are_a_table(tmp_path):
    page = "Scores:\n\t- KNN - Auroc: 0.911\n\t- AdaBoost - Auroc: 0.913\n\t- SVC - Auroc: 0.899\n"
    assert means(read(tmp_path, page, "t.md")) == {"KNN": 0.911, "AdaBoost": 0.913, "SVC": 0.899}


def test_the_accuracy_of_detecting_something_is_an_accuracy(tmp_path):
    page = (
        "### Symmetry Detection Accuracy (%)\n\n| Model | Near-OOD | Far-OOD |\n|---|---|---|\n"
        "| A1 | 54.7 | 33.7 |\n| B1 | 82.1 | 51.1 |\n| C1 | 81.2 | 52.3 |\n"
    )
    assert read(tmp_path, page, "t.md").results[0].metric == "accuracy"


def test_differences_p_values_and_counts_of_wins_are_no_results(tmp_path):
    lines = ["arm,n_cells,macro_all,macro_qa,macro_math,d_base_qa,wins,losses,p_vs_base",
             "base,25,0.757,0.727,0.781,0.0,0,0,", "one,25,0.738,0.701,0.762,-0.026,8,17,0.010",
             "two,25,0.652,0.711,0.619,-0.016,6,19,0.001"]  # fmt: skip
    found = read(tmp_path, "\n".join(lines), columns="detector=arm, higher=*")
    assert set(found.results[0].frame["id"]) == {"macro_qa", "macro_math"}
    assert set(means(found)) == {"base", "one", "two"}


def test_losses_beside_wins_are_not_the_loss(tmp_path):
    lines = ["domain,method,delta_pp,wins,losses"]
    lines += [f"d{d},m{m},{m - d / 7:.3f},{m + d},{9 - m}" for d in range(3) for m in range(3)]
    with pytest.raises(UserError, match="higher=delta_pp"):
        read(tmp_path, "\n".join(lines))


def test_a_text_that_lists_metrics_names_none(tmp_path):
    page = (
        "Goal: assess accuracy, precision, recall, F1-score, AUC, and EER.\n\n"
        "| Model | Accuracy | EER |\n|---|---|---|\n| a | 0.95 | 0.04 |\n| b | 0.87 | 0.06 |\n"
    )
    assert read(tmp_path, page, "t.md").results[0].metric == "accuracy"


def test_an_interval_in_the_title_leaves_the_metric(tmp_path):
    page = (
        "| Score | AURC | AUROC [95% bootstrap CI, 2,000 resamples] |\n|---|---|---|\n"
        "| margin | 0.0014 | 0.9693 [0.9636, 0.9746] |\n| top-1 | 0.0015 | 0.9678 [0.96, 0.97] |\n"
    )
    assert means(read(tmp_path, page, "t.md")) == {"margin": 0.969, "top-1": 0.968}


def test_rows_of_words_among_rows_of_metrics_are_left_out(tmp_path):
    page = (
        "| Metric / Model | Autoencoder | IForest | LOF |\n|---|---|---|---|\n"
        "| Mean AUC (LOSO) | 0.898 | 0.884 | 0.793 |\n| Separability | High | High | Low |\n"
        "| Use case | Deep | Trees | Density |\n| Cross-dataset AUC | 0.15 | 0.14 | N/A |\n"
    )
    found = read(tmp_path, page, "t.md")
    assert means(found) == {"Autoencoder": 0.898, "IForest": 0.884, "LOF": 0.793}


def test_who_wins_each_line_is_not_what_is_compared(tmp_path):
    page = (
        "| Metric | v2 (Guessed) | v3 (Tuned) | Winner |\n|---|---|---|---|\n"
        "| PR-AUC | 0.053 | 0.048 | v2 |\n| AUROC | 0.934 | 0.940 | v3 (marginal) |\n"
    )
    assert means(read(tmp_path, page, "t.md")) == {"v2 (Guessed)": 0.934, "v3 (Tuned)": 0.94}


ODIN = """Results on CIFAR-10{}

| Outliers{} | FPR at TPR 95% | AUROC{} |
|---|---|---|
| LSUN (crop) | 39.3/8.7 | 94.8/98.2 |
| SVHN | 33.6/3.8 | 95.4/99.2 |
| Uniform | 23.5/0.4 | 96.5/99.9 |
"""


@pytest.mark.parametrize("place", range(3))
def test_pairs_of_numbers_may_be_of_two_detectors(tmp_path, place):
    """A title or the text above names both once, for all columns."""
    path = tmp_path / "page.md"
    path.write_text(ODIN.format(*(" (baseline/ODIN)" if n == place else "" for n in range(3))))
    found = {results.metric: results.frame for results in read_results(path).results}
    means = found["auroc"].groupby("detector")["value"].mean()
    assert means.to_dict() == pytest.approx({"baseline": 2.867 / 3, "ODIN": 2.973 / 3})
    assert {*found["fpr95"]["ood"]} == {"LSUN (crop)", "SVHN", "Uniform"}
    assert len(found["fpr95"]) == 6


def test_networks_as_titles_beside_detectors_are_no_outlier_sets(tmp_path):
    path = tmp_path / "page.txt"
    path.write_text(
        "Table 3: AUROC on CIFAR-100 vs CIFAR-10.\n"
        "Method          ViT-B16   ViT-L16   R50+ViT-B\n"
        "MSP             92.1      93.0      91.5\n"
        "Mahalanobis     95.5      96.2      94.9\n"
    )
    results = read_results(path).results[0]
    assert [(factor.kind, len(results.frame)) for factor in results.factors] == [("condition", 6)]


def test_a_bare_fpr_is_that_of_a_detector_before_its_name_too(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "ood,auc_msp,auc_energy,fpr_msp,fpr_energy\nsvhn,.91,.92,.45,.41\nlsun,.94,.95,.31,.25\n"
    )
    found = read_results(path).results
    assert [results.metric for results in found] == ["auroc", "fpr95"]
    assert {results.detectors for results in found} == {("msp", "energy")}
    for known in ("fpr_svhn", "fpr_energy"):
        assert metric_named(known) == "fpr95"
    for other in ("fpr_female", "fpr_ratio", "fpr_at_5_fnr"):  # at some threshold, or of rates
        assert metric_named(other) == ""


@pytest.mark.parametrize(
    ("names", "factor"),
    [
        (["SGD", "Adam", "AdamW"], "optimizer"),
        (["ResNet-18", "DenseNet-121", "VGG-16"], "network"),
        (["cutmix", "mixup", "none"], "setup"),
    ],
)
def test_untitled_names_of_what_is_chosen_before_training_are_no_outlier_sets(
    tmp_path, names, factor
):
    rows = [f"{name},95.{n},9{n}.2,9{n}.9,88.{n}" for n, name in enumerate(names)]
    reading = read(tmp_path, "\n".join([",Accuracy,AUROC MSP,AUROC Energy,AUROC KNN", *rows]))
    (found,) = reading.results[0].factors
    assert (found.name, found.kind) == (factor, "condition")
    assert len(reading.results[0].ood) == 1
    sets = read(tmp_path, "\n".join([",AUROC MSP,AUROC KNN", "SVHN,91,92", "iSUN,90,93"]))
    assert sets.results[0].ood == ("SVHN", "iSUN")


@pytest.mark.parametrize(
    "titles", ["NearOOD{0},FarOOD{0}", "near_ood{0},far_ood{0}", "SVHN{0},LSUN{0}"]
)
@pytest.mark.parametrize("has_spread", [False, True])
def test_accuracy_beside_outliers_without_metric_is_that_of_the_classifier(
    tmp_path, titles, has_spread
):
    header = titles.format("_mean" if has_spread else "")
    if has_spread:
        header = ",".join(f"{t},{t.removesuffix('mean')}std" for t in header.split(","))
    own = {"msp": (88.0, 90.7), "knn": (90.6, 92.9), "vim": (88.7, 93.5)}
    cells = {
        name: ",".join(f"{value},0.{n + 2}" if has_spread else str(value) for value in values)
        for n, (name, values) in enumerate(own.items())
    }
    rows = [f"{name},{text},95.06" for name, text in cells.items()]
    reading = read(tmp_path, "\n".join([f"method,{header},ID_acc", *rows]))
    results = reading.results[0]
    assert results.metric == "auroc" and len(results.ood) == 2
    assert means(reading) == {n: round(sum(v) / 200, 3) for n, v in own.items()}
    assert ("spread" in results.frame.columns) == has_spread


def test_the_name_of_the_best_column_is_no_detector(tmp_path):
    rows = ["cardio,0.92,0.66,0.93,ECOD", "glass,0.79,0.87,0.71,LOF", "wine,0.80,0.99,0.74,LOF",
            "thyroid,0.98,0.66,0.97,IForest"]  # fmt: skip
    reading = read(tmp_path, "\n".join(["dataset,IForest,LOF,ECOD,best", *rows]))
    assert reading.results[0].detectors == ("IForest", "LOF", "ECOD")
    assert ("best", "not used: names one of the columns") in reading.columns


def test_columns_are_named_by_the_data_that_lines_were_trained_on(tmp_path):
    sets = ["CIFAR-10", "SVHN", "GTSRB"]
    # Each on itself: nothing, or better than on the others.
    for title, own, columns in (("id", "", ""), ("Train", "0.99", "accuracy=*")):
        rows = [
            f"{data},{method}," + ",".join(own if data == s else f"0.8{n}{k}" for s in sets)
            for k, data in enumerate(sets)
            for n, method in enumerate(["MSP", "KNN", "ViM"])
        ]
        table = "\n".join([f"{title},method,{','.join(sets)}", *rows])
        reading = read(tmp_path, table, columns=columns)
        assert set(reading.results[0].ids) == {*sets}
        assert not any("repeat a cell" in note for note in reading.notes)


def test_sizes_of_attacks_are_levels_and_uncertainty_is_no_proof_of_auroc(tmp_path):
    rows = ["None,0,95.1,84.2,83.5", "FGSM,8/255,12.3,56.2,58.1", "PGD,8/255,1.2,48.9,52.5"]
    text = "\n".join(["Attack,epsilon,ResNet-18,VGG-16,WRN-28", *rows])
    with pytest.raises(UserError, match="which is better"):
        read(tmp_path, text)
    results = read(tmp_path, text, columns="accuracy=*").results[0]
    assert len(results.detectors) == 3 and len(results.frame) == 9
    text = "Method,Seed 1,Seed 2\nDeep Ensemble,.912,.915\nMC Dropout,.901,.899\nSNGP,.908,.911"
    with pytest.raises(UserError, match="which is better"):
        read(tmp_path, text)


def test_zeros_are_neither_fractions_nor_percentages(tmp_path):
    rows = ["AT,49.2,0.0", "TRADES,52.1,48.0", "plain,0.0,0.0"]
    found = read(tmp_path, "\n".join(["model,PGD accuracy,AA accuracy", *rows]),
                 columns="accuracy=PGD accuracy, ignore=AA accuracy")  # fmt: skip
    assert means(found) == {"AT": 0.492, "TRADES": 0.521, "plain": 0.0}
    assert not any("at most 1" in note for note in found.notes)


def test_standard_errors_beside_their_means_and_counts_of_replicates(tmp_path):
    rows = ["SVHN,0.91,0.01,0.93,0.02", "LSUN,0.90,0.02,0.95,0.01"]
    text = "\n".join(["dataset,msp_auroc,msp_auroc_se,knn_auroc,knn_auroc_se", *rows])
    found = read(tmp_path, text)
    assert means(found) == {"msp": 0.905, "knn": 0.94}
    assert "spread" not in found.results[0].frame.columns
    rows = ["MSP,0.91,0.01,5", "KNN,0.93,0.02,3"]
    text = "\n".join(["method,auroc_mean,auroc_std,n_replicates", *rows])
    assert {*read(tmp_path, text).results[0].frame["runs"]} == {3, 5}
