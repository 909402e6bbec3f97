"""Headers, headings and titles of other people's pages that say more than one thing."""

import pytest
from page_reading import asked, read

from oodometer.errors import UserError

THREE_LINES = r"""
\begin{tabular}{l|cccc|cccc}
\multirow{3}{*}{Method} & \multicolumn{4}{c|}{CIFAR-10} & \multicolumn{4}{c}{CIFAR-100} \\
& \multicolumn{2}{c}{SVHN} & \multicolumn{2}{c|}{LSUN}
& \multicolumn{2}{c}{SVHN} & \multicolumn{2}{c}{LSUN} \\
& FPR95 & AUROC & FPR95 & AUROC & FPR95 & AUROC & FPR95 & AUROC \\ \midrule
MSP & 48.1 & 91.2 & 45.3 & 92.2 & 80.1 & 75.2 & 81.2 & 76.2 \\
ODIN & 33.1 & 93.2 & 25.3 & 95.2 & 70.1 & 78.2 & 71.2 & 79.2 \\
\end{tabular}
"""
AGAINST = """|Method|CIFAR-10 vs SVHN|CIFAR-10 vs LSUN|CIFAR-100 vs SVHN|CIFAR-100 vs LSUN|
|-|-|-|-|-|
|MSP|91.2|92.2|75.2|76.2|
|ODIN|93.2|95.2|78.2|79.2|
"""


@pytest.mark.parametrize(("text", "name"), [(THREE_LINES, "page.tex"), (AGAINST, "page.md")])
def test_id_sets_above_outlier_sets_are_the_id_not_more_outlier_sets(tmp_path, text, name):
    found = read(tmp_path, text, name).results[0]
    assert found.metric == "auroc"
    assert set(found.frame["id"]) == {"CIFAR-10", "CIFAR-100"}
    assert set(found.frame["ood"]) == {"SVHN", "LSUN"}
    value = found.frame.set_index(["detector", "id", "ood"])["value"]
    assert value["MSP", "CIFAR-100", "LSUN"] == pytest.approx(0.762)


@pytest.mark.parametrize("mark", ["ID: ", "In-distribution dataset: ", "Trained on "])
def test_titles_that_mark_the_id_set(tmp_path, mark):
    head = f"|Method|{mark}CIFAR-10 AUROC|{mark}CIFAR-10 FPR95|"
    head += f"{mark}CIFAR-100 AUROC|{mark}CIFAR-100 FPR95|\n"
    text = head + "|-|-|-|-|-|\n|MSP|91.2|32.2|75.2|76.2|\n|ODIN|93.2|25.2|78.2|79.2|\n"
    found = read(tmp_path, text).results[0]
    assert set(found.frame["id"]) == {"CIFAR-10", "CIFAR-100"} and not found.factors


def test_averages_over_id_sets_are_left_out(tmp_path):
    text = AGAINST.replace("LSUN|\n", "LSUN|Average|\n").replace("|76.2|", "|76.2|83.7|")
    text = text.replace("|79.2|", "|79.2|86.5|").replace("|-|-|-|-|-|", "|-|-|-|-|-|-|")
    found = read(tmp_path, text)
    assert len(found.results[0].frame) == 8
    assert any("Average" in note for note in found.notes)


def test_sets_beside_each_other_are_no_id_sets(tmp_path):
    text = "|Method|CIFAR-10 AUROC|SVHN AUROC|\n|-|-|-|\n|MSP|91.2|92.2|\n|ODIN|93.2|95.2|\n"
    found = read(tmp_path, text).results[0]
    assert set(found.frame["ood"]) == {"CIFAR-10", "SVHN"}


CONTINUED = """Accuracy of the parsers:

| Model | HDFS | Hadoop | Spark |
|---|---|---|---|
| Ridge | 0.545 | 0.423 | 1.000 |
| Lasso | 0.998 | 0.538 | 1.000 |
| Tree | 0.871 | 0.954 | 0.920 |
| Model | Apache | Linux | Proxy |
| Ridge | 0.697 | 0.297 | 0.558 |
| Lasso | 0.690 | 0.673 | 0.764 |
| Tree | 0.567 | 0.672 | 0.673 |
"""


def test_a_wide_table_that_goes_on_below_a_second_header(tmp_path):
    found = read(tmp_path, CONTINUED)
    assert set(found.results[0].frame["id"]) == {
        "HDFS",
        "Hadoop",
        "Spark",
        "Apache",
        "Linux",
        "Proxy",
    }
    assert len(found.results[0].frame) == 18
    assert any("2 parts were joined" in note for note in found.notes)


def test_a_second_header_with_other_names_below_it_is_not_joined(tmp_path):
    first, second = CONTINUED.split("| Model | Apache")
    for old, new in (("Ridge", "Forest"), ("Lasso", "Boosting"), ("Tree", "Net")):
        second = second.replace(old, new)
    with pytest.raises(UserError):
        read(tmp_path, f"{first}| Model | Apache{second}")


def test_results_that_are_whole_in_half_of_the_lines_stay_results(tmp_path):
    text = "AUROC of detectors\n\n|Method|S-1|S-2|S-3|S-4|\n|-|-|-|-|-|\n"
    text += "|alpha|0.664|0.528|1.000|0.857|\n|beta|0.569|0.692|1.000|0.653|\n"
    text += "|gamma|0.583|0.641|0.000|0.612|\n|delta|0.549|0.627|0.188|0.613|\n"
    found = read(tmp_path, text, columns="auroc=*, detector=Method").results[0]
    assert set(found.frame["id"]) == {"S-1", "S-2", "S-3", "S-4"}


THRESHOLDS = r"""
\begin{tabular}{ccccc}
\multirow{2}{*}{Unknowns} & \multirow{2}{*}{Algorithm} & \multirow{2}{*}{AUC}
& \multicolumn{2}{c}{CCR at FPR of} \\
& & & {$0.1$} & {$0.8$} \\ \hline
\multirow{2}{*}{LSUN} & Max-prob & 0.82 & 0.44 & 0.95 \\
& ODIN & 0.71 & 0.26 & 0.95 \\ \hline
\multirow{2}{*}{SVHN} & Max-prob & 0.83 & 0.56 & 0.95 \\
& ODIN & 0.74 & 0.41 & 0.94 \\
\end{tabular}
"""


def test_thresholds_below_a_shared_title_belong_to_the_header(tmp_path):
    found = read(tmp_path, THRESHOLDS, "page.tex")
    assert found.results[0].detectors == ("Max-prob", "ODIN")
    assert set(found.results[0].frame["ood"]) == {"LSUN", "SVHN"}
    assert "CCR at FPR of 0.8" in dict(found.columns)
    assert not found.results[0].factors


SECTIONS = r"""
\begin{tabular}{llrrr}
Tier & Architecture & $N$ & Accuracy (\%) & 95\% CI \\ \midrule
\multicolumn{5}{l}{\textit{BenchA}} \\
T1 & Central & 1 & 20.0 & [15.5, 25.4] \\
T1 & Central & 3 & 20.4 & [15.9, 25.8] \\
T1 & Hybrid & 1 & 18.0 & [13.7, 23.2] \\
T1 & Hybrid & 3 & 15.6 & [11.6, 20.6] \\
\multicolumn{5}{l}{\textit{BenchB}} \\
T1 & Central & 1 & 52.4 & [46.2, 58.5] \\
T1 & Central & 3 & 62.8 & [56.7, 68.6] \\
T1 & Hybrid & 1 & 66.4 & [60.3, 72.0] \\
T1 & Hybrid & 3 & 66.8 & [60.7, 72.3] \\
\end{tabular}
"""


def test_headings_stay_where_intervals_tell_lines_apart(tmp_path):
    found = read(tmp_path, SECTIONS, "page.tex")
    assert dict(found.columns)["95% CI"] == "not used: intervals of results"
    assert set(found.results[0].frame["section"]) == {"BenchA", "BenchB"}
    assert "run" not in found.results[0].factor_names


def test_intervals_are_known_by_the_numbers_in_them_and_bins_are_not(tmp_path):
    text = "|Method|AUROC|Range|\n|-|-|-|\n|MSP|91.2|[90.1, 92.0]|\n|ODIN|93.2|[92.1, 94.0]|\n"
    assert dict(read(tmp_path, text).columns)["Range"] == "not used: intervals of results"
    bins = ((91.2, "[0, 10)"), (93.1, "[10, 20)"))
    rows = [f"|{m}|{value}|{age}|" for m in ("MSP", "ODIN") for value, age in bins]
    text = "|Method|AUROC|Age|\n|-|-|-|\n" + "\n".join(rows)
    assert "Age" in read(tmp_path, text).results[0].factor_names


METRICS_BETWEEN = """Lower AURC is better.

| Setting | Model | MSP | ODIN | Energy |
|---|---|---|---|---|
| **Clean** | AURC↓ | | | |
| | A | 0.0275 | 0.0318 | 0.0244 |
| | **B** | **0.0173** | **0.0171** | **0.0168** |
| **Clean** | Risk@90↓ | | | |
| | A | 0.0558 | 0.0637 | 0.0544 |
| | **B** | **0.0336** | **0.0360** | **0.0335** |
| **Shifted** | AURC↓ | | | |
| | A | 0.0314 | 0.0376 | 0.0310 |
| | **B** | **0.0257** | **0.0282** | **0.0254** |
"""


def test_lines_that_name_a_metric_and_a_setting_are_no_repeated_runs(tmp_path):
    found = read(tmp_path, METRICS_BETWEEN)
    results = found.results[0]
    assert results.metric == "AURC" and set(results.factor_names) == {"Setting", "Model"}
    assert len(results.frame) == 12 and set(results.frame["Setting"]) == {"Clean", "Shifted"}
    assert any("Risk@90" in note for note in found.notes)


def test_an_arrow_against_the_metric_is_asked_about(tmp_path):
    text = "|Method|AUROC ↓|\n|-|-|\n|MSP|0.05|\n|ODIN|0.03|\n"
    asked(tmp_path, text.replace("0.0", "0.9"), "auroc=AUROC ↓", "lower=AUROC ↓")
    assert read(tmp_path, text.replace("0.0", "0.9").replace("↓", "↑")).results


def test_pass_rates_at_different_numbers_of_attempts_are_asked_about(tmp_path):
    text = "|Model|pass@1|pass@8|\n|-|-|-|\n|A|39.1|67.3|\n|B|42.2|66.2|\n"
    asked(tmp_path, text, "higher=pass@1", "higher=pass@8")


BLOCK = "{} Detection\n\t\t\t\tnet_tune\nFPR95:\t\t\t{}\t+/- 0.46\nAUROC: \t\t\t{}\t+/- 0.12\n\n"


def test_a_log_with_tabs_and_the_name_of_one_method_above_each_block(tmp_path):
    lines = [("Blob", 43.28, 85.89), ("SVHN", 11.26, 96.05), ("LSUN", 35.74, 85.01)]
    text = "Epoch: 9\nError Rate 26.07\n\n" + "".join(BLOCK.format(*line) for line in lines)
    results = read(tmp_path, text, "tuned.log").results[0]
    assert set(results.frame["ood"]) == {"Blob", "SVHN", "LSUN"} and not results.factors
    assert results.frame["spread"].notna().all()


def test_a_log_that_names_sets_in_sentences_and_has_two_keys_without_a_comma(tmp_path):
    line = "FPR@95: {}, AUROC: {} AUPR_IN: {}, AUPR_OUT: {}\nACC: 95.06\n────────\n"
    text = "Performing inference on cifar100 dataset...\nComputing metrics on cifar100 dataset...\n"
    text += line.format(61.0, 86.3, 84.7, 85.7) + "Computing metrics on tin dataset...\n"
    text += line.format(51.0, 88.3, 86.7, 86.7) + "Computing mean metrics...\n"
    results = read(tmp_path, text + line.format(56.0, 87.3, 85.7, 86.2), "knn.log").results[0]
    assert results.detectors == ("knn",) and set(results.frame["ood"]) == {"cifar100", "tin"}


def test_blocks_of_a_log_below_methods_and_sets(tmp_path):
    block = "{}\nAUROC: {}\nFPR95: 30.1\n"
    text = "Method: MSP\n" + block.format("SVHN", 91.2) + block.format("LSUN", 92.2)
    text += "Method: ODIN\n" + block.format("SVHN", 93.4) + block.format("LSUN", 94.4)
    results = read(tmp_path, text, "run.log").results[0]
    assert results.detectors == ("MSP", "ODIN") and set(results.frame["ood"]) == {"SVHN", "LSUN"}


LISTED = """Benchmark
=========

.. list-table:: Results of the detectors
   :header-rows: 1
   :widths: 30 20 20

   * - Detector
     - AUROC
     - FPR95
   * - MSP
     - 77.5
     - 81.2
   * - Energy,
       tuned
     - **79.1**
     - 78.4

Text behind it.
"""
SEPARATED = """Benchmark
=========

.. csv-table:: Results of the detectors
   :header: "Detector", "AUROC", "FPR95"
   :widths: 30, 20, 20

   "MSP", 77.5, 81.2
   "Energy, tuned", 79.1, 78.4

Text behind it.
"""


@pytest.mark.parametrize("text", [LISTED, SEPARATED])
def test_directives_of_restructured_text(tmp_path, text):
    found = read(tmp_path, text, "results.rst")
    assert found.results[0].detectors == ("MSP", "Energy, tuned")
    assert found.results[0].frame["value"].tolist() == pytest.approx([0.775, 0.791])
    assert found.found[0].name == "Results of the detectors"


def test_a_model_called_all_that_beats_its_parts_is_no_mean(tmp_path):
    text = "|System|AUC|\n|-|-|\n|Static|0.807|\n|Dynamic|0.957|\n|All|0.958|\n|API|0.588|\n"
    assert "All" in read(tmp_path, text).results[0].detectors
    text = text.replace("0.958", "0.784")
    assert "All" not in read(tmp_path, text).results[0].detectors


def test_levels_that_titles_state_are_no_data_sets(tmp_path):
    text = "ARI under noise\n\n|Method|ε=0.00|ε=0.05|ε=0.10|ε=0.2|\n|-|-|-|-|-|\n"
    text += "|A|0.749|0.725|0.700|0.682|\n|B|0.724|0.713|0.661|0.645|\n"
    results = read(tmp_path, text).results[0]
    assert results.factor_names == ("ε",) and "id" not in results.frame.columns


def test_citations_and_remarks_are_no_part_of_names(tmp_path):
    text = "|Model (same test set)|AUROC|\n|-|-|\n|MSP [16]|91.2|\n|Our net|93.2|\n"
    assert read(tmp_path, text).results[0].detectors == ("MSP", "Our net")
    text = "|Model|AUROC|\n|-|-|\n|Net [1]|91.2|\n|Net [2]|93.2|\n"
    assert read(tmp_path, text).results[0].detectors == ("Net [1]", "Net [2]")


def test_means_and_spreads_in_one_cell(tmp_path):
    text = "|Method|AUROC (mean / std)|\n|-|-|\n|MSP|91.2 / 0.3|\n|ODIN|93.2 / 0.4|\n"
    frame = read(tmp_path, text).results[0].frame
    assert frame["value"].tolist() == pytest.approx([0.912, 0.932])
    assert frame["spread"].tolist() == pytest.approx([0.003, 0.004])


VARIANCES = """Table 3: What optimizers do to detectors.

Approach\tFPR at 95% TPR\tAUROC
\t$\\mu \\downarrow   \\text{Var} \\downarrow$\t$\\mu \\uparrow   \\text{Var} \\downarrow$
max-softmax\t11.42   16\t97.346   0.49
ODIN\t7.804   4\t97.988   0.25
Entropy\t8.844   9\t97.608   0.16
$\\mu   \\text{Var}$\t9.356   3.5\t97.647   0.1
"""


def test_means_and_variances_of_a_pdf_with_two_header_lines(tmp_path):
    found = read(tmp_path, VARIANCES, "paper.txt")
    results = found.results[0]
    assert results.metric == "auroc" and results.detectors == ("max-softmax", "ODIN", "Entropy")
    assert results.frame["spread"].tolist() == pytest.approx([0.007, 0.005, 0.004])


def test_a_detector_below_the_wrong_heading_is_asked_about(tmp_path):
    text = "|Type|Closed ACC|Closed KNN|AUC Mahalanobis|AUC MSP|AUC Energy|\n" + "|-" * 6 + "|\n"
    text += "|type-0|94.50|92.54|91.29|88.99|89.44|\n|type-1|93.64|93.61|90.07|80.05|85.32|\n"
    asked(
        tmp_path,
        text,
        "auroc=AUC Mahalanobis, auroc=AUC MSP, auroc=AUC Energy, auroc=Closed KNN",
        "ignore=Closed KNN",
    )


def test_false_positives_beside_f1_are_not_those_at_95_percent(tmp_path):
    text = "|Model|Accuracy|Recall|F1|FPR|\n|-|-|-|-|-|\n"
    text += "|Forest|0.91|0.88|0.87|0.05|\n|Net|0.93|0.90|0.89|0.07|\n"
    found = read(tmp_path, text)
    assert found.results[0].metric == "accuracy"
    assert dict(found.columns)["FPR"] == "not used: another kind of metric"
    text = "|Method|FPR|AUROC|\n|-|-|-|\n|MSP|40.1|91.2|\n|ODIN|30.1|93.2|\n"
    assert {r.metric for r in read(tmp_path, text).results} == {"auroc", "fpr95"}


def test_results_over_all_data_are_no_further_data_set(tmp_path):
    text = "|Model|F1|F1 news|F1 tweets|\n|-|-|-|-|\n|BERT|90.1|91.2|87.1|\n|T5|92.1|93.2|90.7|\n"
    asked(tmp_path, text, "F1=F1", "ignore=F1")
    text = text.replace("90.1|91.2|87.1", "89.2|91.2|87.2").replace(
        "92.1|93.2|90.7", "92.0|93.2|90.8"
    )
    found = read(tmp_path, text)
    assert set(found.results[0].frame["id"]) == {"news", "tweets"}
    assert dict(found.columns)["F1"] == "not used: a mean of other columns"


def test_counts_among_the_rows_of_metrics_are_left_out(tmp_path):
    text = "|Metric|Net A|Net B|\n|-|-|-|\n|ROC-AUC|0.91|0.93|\n|PR-AUC|0.81|0.83|\n"
    found = read(tmp_path, text + "|TN / FP|42 / 3|41 / 4|\n")
    assert found.results[0].detectors == ("Net A", "Net B")
    assert any("TN / FP" in note for note in found.notes)


def test_cells_of_latex_that_say_where_their_text_stands(tmp_path):
    text = r"""\begin{tabular}{lcc}
    \makecell[l]{Method} & \makecell[c]{AUROC\\(SVHN)} & \thead{AUROC\\(LSUN)} \\ \hline
    \makecell[l]{MSP} & 91.2$^\|$ & 92.1$^{\#}$ \\
    \shortstack[l]{ODIN} & 93.2 & 94.1 \\
    \end{tabular}"""
    results = read(tmp_path, text, "page.tex").results[0]
    assert results.detectors == ("MSP", "ODIN") and set(results.frame["ood"]) == {"SVHN", "LSUN"}


def test_a_variant_called_mean_is_no_summary(tmp_path):
    text = "|Row|AUROC|AUPR|\n|-|-|-|\n|base|0.72|0.74|\n|full|0.67|0.72|\n|↳ off|0.64|0.69|\n"
    found = read(tmp_path, text + "|↳ mean|0.66|0.70|\n")
    assert found.results[0].detectors == ("base", "full", "↳ off", "↳ mean")


def test_names_below_the_title_of_a_metric_are_not_compared(tmp_path):
    text = "|AUROC|AUPR|F1|\n|-|-|-|\n|net a, 66.7|66.3|62.8|\n|net b, 69.0|66.8|69.1|\n"
    with pytest.raises(UserError, match="what is compared"):
        read(tmp_path, text)


def test_data_sets_below_a_heading_called_split_are_no_levels_of_it(tmp_path):
    text = """|Method|Split A BoolQ Acc|Split A ARC Acc|Split B PIQA Acc|Split B CSQA Acc|
|-|-|-|-|-|
|Base|39.1|87.7|44.8|75.5|
|LoRA|87.2|86.6|88.1|81.7|
|Ours|86.9|86.5|87.7|81.5|
"""
    results = read(tmp_path, text).results[0]
    sets = results.frame["id"] if "id" in results.frame else results.frame["ood"]
    assert sets.nunique() == 4 and not results.factors


def test_classes_are_parts_of_a_data_set_in_both_layouts(tmp_path):
    wide, long = ["class,pine_F1,edl_F1"], ["model,class,F1"]
    for place, name in enumerate(("normal", "glaucoma", "cataract", "drusen")):
        low, high = f"0.{7 - place}4", f"0.{7 - place}6"
        wide.append(f"{name},{low},{high}")
        long += [f"pine,{name},{low}", f"edl,{name},{high}"]
    for lines in (wide, long):
        found = read(tmp_path, "\n".join(lines), "table.csv").results[0]
        assert {factor.name: factor.kind for factor in found.factors} == {"class": "part"}
