"""Tables of papers, READMEs and logs: layouts in which a wrong reading would be silent."""

import pytest
from page_reading import asked, read

from oodometer.errors import UserError


def means(found):
    return found.results[0].frame.groupby("detector")["value"].mean().round(4).to_dict()


SHOTS = r"""
\begin{table}\caption{Few-shot results.}
\begin{tabular}{l|cc|cc}
\multirow{2}{*}{Method} & \multicolumn{2}{c|}{SVHN} & \multicolumn{2}{c}{LSUN} \\
& FPR95 & AUROC & FPR95 & AUROC \\ \midrule
\multicolumn{5}{c}{\textbf{1-shot}} \\
\multicolumn{5}{l}{\textit{Training-free}} \\
MCM~\cite{m} & 40.1 & 90.0 & 41.2 & 91.0 \\
\multicolumn{5}{l}{\textit{Prompt learning}} \\
CoOp & 35.0 & 92.0 & 36.0 & 93.0 \\
\hspace{2mm}\textbf{+ Ours} & \textbf{30.0} & 94.0 & 31.0 & 95.0 \\
LoCoOp & 34.0 & 92.4 & 35.0 & 93.4 \\
\hspace{2mm}\textbf{+ Ours} & 29.0 & 94.4 & 30.0 & 95.4 \\ \midrule
\multicolumn{5}{c}{\textbf{16-shot}} \\
\multicolumn{5}{l}{\textit{Training-free}} \\
MCM~\cite{m} & 39.1 & 90.6 & 40.2 & 91.6 \\
\multicolumn{5}{l}{\textit{Prompt learning}} \\
CoOp & 33.0 & 92.6 & 34.0 & 93.6 \\
\hspace{2mm}\textbf{+ Ours} & 28.0 & 94.6 & 29.0 & 95.6 \\
LoCoOp & 32.0 & 93.0 & 33.0 & 94.0 \\
\hspace{2mm}\textbf{+ Ours} & 27.0 & 95.0 & 28.0 & 96.0 \\
\end{tabular}\end{table}
"""


def test_headings_within_headings_and_names_that_continue_the_one_above(tmp_path):
    found = read(tmp_path, SHOTS, "paper.tex").results[0]
    assert found.factor_names == ("section",) and found.kind("section") == "condition"
    assert set(found.frame["section"]) == {"1-shot", "16-shot"}
    assert found.detectors == ("MCM", "CoOp", "CoOp + Ours", "LoCoOp", "LoCoOp + Ours")


def test_additions_below_one_name_stay_as_they_are(tmp_path):
    text = "|Method|AUROC|\n|-|-|\n|Base|90.1|\n|+ A|91.2|\n|+ B|92.3|\n"
    assert read(tmp_path, text).results[0].detectors == ("Base", "+ A", "+ B")


LOG = """My results differ from those of the tutorial.

          FPR@95  AUROC  AUPR_IN  AUPR_OUT   ACC
cifar100    85.76  79.35    72.77     81.48 95.22
tin         83.21  82.32    78.30     82.39 95.22
nearood     84.49  80.84    75.54     81.94 95.22
svhn        57.23  88.25    70.12     95.08 95.22

The predicted class of the first samples: [9 9 9 9 9]
"""


@pytest.mark.parametrize("name", ["issue.md", "log.txt"])
def test_columns_that_stand_close_together_shift_no_title(tmp_path, name):
    found = read(tmp_path, LOG, name).results[0]
    assert dict(zip(found.frame["ood"], found.frame["value"], strict=True)) == pytest.approx(
        {"cifar100": 0.7935, "tin": 0.8232, "svhn": 0.8825}
    )


def test_a_setting_in_a_name_is_no_metric(tmp_path):
    text = (
        "|Method|SVHN|iSUN|Textures|\n|-|-|-|-|\n|MSP|91.2|92.3|88.1|\n"
        "|P&C (r=2)|93.4|94.5|90.6|\n|Energy|92.4|91.5|89.6|\n"
    )
    found = read(tmp_path, text).results[0]
    assert found.detectors == ("MSP", "P&C (r=2)", "Energy")
    assert set(found.ood) == {"SVHN", "iSUN", "Textures"}


def test_models_beside_methods_are_asked_about(tmp_path):
    text = (
        "|Model|Calibration Method|AUROC|\n|-|-|-|\n|**M3**|None|.78|\n||Platt|.79|\n"
        "||Ours|.80|\n|**MQT**|None|.66|\n||Platt|.67|\n||Ours|.70|\n"
    )
    asked(tmp_path, text, "detector=Model", "detector=Calibration Method")


SPACES = r"""
\begin{tabular}{llcccc}
& & \multicolumn{2}{c}{ViT} & \multicolumn{2}{c}{CNN} \\
Space & Distance & AUROC & FPR95 & AUROC & FPR95 \\ \midrule
Raw & Mahalanobis & 0.912 & 0.31 & 0.870 & 0.42 \\
 & $\ell_1$ & 0.880 & 0.40 & 0.841 & 0.48 \\
 & $\ell_2$ & 0.884 & 0.39 & 0.845 & 0.47 \\
PCA & Mahalanobis & 0.925 & 0.28 & 0.885 & 0.39 \\
 & $\ell_1$ & 0.871 & 0.42 & 0.832 & 0.49 \\
 & $\ell_2$ & 0.879 & 0.41 & 0.840 & 0.48 \\
\end{tabular}
"""


def test_models_above_known_detectors_are_asked_about(tmp_path):
    asked(tmp_path, SPACES, "detector=Distance", "detector=*", name="paper.tex")
    found = read(tmp_path, SPACES, "paper.tex", "detector=Distance").results[0]
    kinds = {name: found.kind(name) for name in found.factor_names}
    assert kinds == {"Space": "condition", "variant": "condition"}
    assert means(read(tmp_path, SPACES, "paper.tex", "detector=Distance+Space")) == {
        "Mahalanobis + Raw": 0.891, "ℓ_1 + Raw": 0.8605, "ℓ_2 + Raw": 0.8645,
        "Mahalanobis + PCA": 0.905, "ℓ_1 + PCA": 0.8515, "ℓ_2 + PCA": 0.8595,
    }  # fmt: skip


def test_scores_in_titles_are_no_outlier_sets(tmp_path):
    text = (
        "|Method|Entropy AUROC|Native AUROC|Entropy FPR95|\n|-|-|-|-|\n"
        "|Probit|90.3|12.3|26.1|\n|Laplace|88.1|90.2|32.0|\n|HRC|92.4|23.7|20.6|\n"
    )
    asked(tmp_path, text, "condition=*", "ood=*")


def test_statistics_of_scores_are_no_results(tmp_path):
    text = (
        "|Model|Dataset|Mean|Std|Min|Max|\n|-|-|-|-|-|-|\n|ResNet18|SVHN|.24|.20|.01|.98|\n"
        "|ResNet34|SVHN|.41|.22|.04|.99|\n|ResNet18|Textures|.43|.26|.02|.97|\n"
        "|ResNet34|Textures|.48|.27|.03|.96|\n"
    )
    assert "what the numbers in 'Mean' are" in asked(tmp_path, text, "higher=*", "lower=*")


def test_gains_alone_are_no_results(tmp_path):
    text = "|OOD set|Metric|Lift|\n|-|-|-|\n|SVHN|AUROC|+0.77%|\n|SVHN|FPR95|-3.47%|\n"
    with pytest.raises(UserError, match="'Lift' holds differences"):
        read(tmp_path, text)


def test_near_and_far_are_means_only_beside_their_sets(tmp_path):
    text = (
        "|method|in-dist Brier|near Brier|far Brier|\n|-|-|-|-|\n"
        "|none|.205|.230|.171|\n|isotonic|.204|.231|.170|\n"
    )
    found = read(tmp_path, text).results[0]
    assert set(found.ids) | set(found.ood) >= {"in-dist", "near", "far"}
    text = (
        "## Accuracy (%)\n\n|Model|ID|Near-OOD|Far-OOD|\n|-|-|-|-|\n"
        "|GCN|80.67|54.67|33.67|\n|GIN|93.37|82.13|51.13|\n|Swin|94.80|97.73|89.13|\n"
    )
    assert means(read(tmp_path, text)) == {"GCN": 0.5634, "GIN": 0.7554, "Swin": 0.9389}


def test_a_log_of_two_methods_is_read_whole(tmp_path):
    head = "TNR    AUROC  DTACC"
    text = (
        f"Baseline method: in_distribution: cifar10=====\nout_distribution: svhn\n{head}\n"
        f"40.22  89.87  83.20\n\nout_distribution: lsun\n{head}\n66.62  95.43  90.26\n\n"
        f"ODIN method: in_distribution: cifar10=====\nout_distribution: svhn\n{head}\n"
        "87.22  95.87  92.01\ntemperature: 1\nmagnitude: 0.005\n\n"
        f"out_distribution: lsun\n{head}\n87.37  97.32  92.31\ntemperature: 10\nmagnitude: 0.1\n"
    )
    assert means(read(tmp_path, text, "log.txt")) == {"Baseline": 0.9265, "ODIN": 0.966}


REPORT = """
              precision    recall  f1-score   support

         pop       {0}      0.24      {0}        46
         rap       {1}      0.64      {1}        45
         rnb       {2}      0.87      {2}        55

    accuracy                           0.60       146
   macro avg       0.66      0.59      0.57       146
weighted avg       0.65      0.60      0.58       146
"""


def test_classification_reports_of_two_models(tmp_path):
    text = (
        f"### Naive Bayes\n```\nAccuracy : 0.60\n{REPORT.format(0.35, 0.72, 0.64)}```\nSo-so.\n\n"
        f"### SVM\n```\nAccuracy : 0.66\n{REPORT.format(0.50, 0.78, 0.70)}```\nBetter.\n"
    )
    found = read(tmp_path, text)
    assert means(found) == {"Naive Bayes": 0.57, "SVM": 0.66}
    assert found.results[0].kind("class") == "part" and len(found.results[0].frame) == 6


def test_what_pairs_of_numbers_are_may_stand_above(tmp_path):
    text = (
        "### Pixel level (AuPRC ↑ / FPR95 ↓)\n\n|Dataset|RPL|UNO|**Ours (new)**|\n|-|-|-|-|\n"
        "|SMIYC|88.5 / 7.1|96.3 / 2.0|**96.6 / 3.6**|\n|RA|71.6 / 17.7|82.4 / 9.2|87.1 / 9.9|\n"
    )
    found = read(tmp_path, text)
    assert [results.metric for results in found.results] == ["AUPR", "fpr95"]
    assert sorted(means(found).values()) == [0.8005, 0.8935, 0.9185]


def test_a_heading_with_an_arrow_says_what_the_numbers_are(tmp_path):
    text = "### Entropy FPR95 ↓\n\n|Model|UPitt|UTSW|\n|-|-|-|\n|Base|.89|.92|\n|SNGP|.71|.83|\n"
    found = read(tmp_path, text).results[0]
    assert found.metric == "fpr95" and not found.higher_is_better


def test_remarks_in_wide_brackets_and_means_in_chinese(tmp_path):
    text = (
        "|方法|平均 FPR95↓|平均 AUROC↑|\n|-|-|-|\n|MDS|44.43|87.18|\n|RMDS|43.40|87.60（最佳）|\n"
        "|**Ours**|**40.96（最佳）**|87.26（次佳）|\n"
    )
    assert means(read(tmp_path, text)) == {"MDS": 0.8718, "RMDS": 0.876, "Ours": 0.8726}


def test_notes_beside_marks_name_no_rows(tmp_path):
    text = (
        "|Filter|Score|AUROC|Description|\n|-|-|-|-|\n|✗|✗|89.9|CSP|\n|✓|✗|90.9|filter only|\n"
        "|✗|✓|91.3|score only|\n|✓|✓|91.8|both|\n"
    )
    assert set(means(read(tmp_path, text))) == {"none", "Filter", "Score", "Filter + Score"}


def test_results_on_training_data_are_left_out_beside_test_data(tmp_path):
    text = (
        "|Method|Wine Train|Wine Test|Iris Train|Iris Test|\n|-|-|-|-|-|\n"
        "|KNN|95.7|79.3|43.0|39.1|\n|DT|99.9|92.1|99.8|35.5|\n"
    )
    found = read(tmp_path, text, columns="accuracy=*")
    assert means(found) == {"KNN": 0.592, "DT": 0.638}


def test_merged_cells_may_hold_seeds(tmp_path):
    lines = [
        f"{'CIFAR10' * (n == 0)} & {ood} & {model * (n == 0)} & {str(seed) * (n == 0)} & "
        f"{'adam' * (n == 0)} & {90 + len(model) + seed + n / 10} \\\\"
        for model in ("Hnet", "Resnet")
        for seed in (0, 1)
        for n, ood in enumerate(["SVHN", "LSUN", "iSUN"])
    ]
    head = r"\begin{tabular}{lllllr} In-dist & OOD & Model & Seed & Setting & AUROC \\"
    found = read(tmp_path, "\n".join([head, *lines, r"\end{tabular}"]), "paper.tex").results[0]
    assert found.detectors == ("Hnet", "Resnet") and found.kind("seed") == "repeat"
    assert len(found.frame) == 12 and set(found.ids) == {"CIFAR10"}


def test_the_number_of_samples_is_no_condition(tmp_path):
    text = (
        "|site|n|kNN AUROC|Mahalanobis AUROC|\n|-|-|-|-|\n|LAS|59|.86|.99|\n|OAU|182|.84|.98|\n"
        "|UIT|12|.56|.97|\n|**mean**||.753|.98|\n"
    )
    found = read(tmp_path, text).results[0]
    assert not found.factors and set(found.ood) == {"LAS", "OAU", "UIT"}


def test_a_detector_without_metric_is_asked_about_beside_one_with_it(tmp_path):
    text = "|Task|Novelty AUROC|Mahalanobis|kNN|\n|-|-|-|-|\n|New|.87|.49|.84|\n|Old|.82|.81|.92|\n"
    asked(tmp_path, text, "auroc=Novelty AUROC, auroc=Mahalanobis, auroc=kNN")


def test_image_and_pixel_level_are_two_metrics(tmp_path):
    text = (
        "|Method|MVTec Image AUROC|MVTec Pixel AUROC|VisA Image AUROC|VisA Pixel AUROC|\n"
        "|-|-|-|-|-|\n|PatchCore|83.4|92.0|79.9|95.4|\n|WinCLIP|93.1|95.2|83.8|96.4|\n"
    )
    image = "ignore=MVTec Pixel AUROC, ignore=VisA Pixel AUROC"
    asked(tmp_path, text, image)
    assert means(read(tmp_path, text, columns=image)) == {"PatchCore": 0.8165, "WinCLIP": 0.8845}


def test_counts_beside_rates_are_refused(tmp_path):
    text = "|Method|TOP 1|TOP 3|\n|-|-|-|\n|l2|4099(.83)|4583(.92)|\n|l1|3866(.78)|4321(.87)|\n"
    with pytest.raises(UserError, match="neither a fraction nor a percentage"):
        read(tmp_path, text)
