"""READMEs, papers and logs of strangers: what was once misread, or refused without a way out."""

import pytest

from oodometer.errors import UserError
from oodometer.tables import read_results

HEADER = "Accuracy: {} -- Precision: 0.5 -- Recall: 0.6 -- AUC: {}\n"


def read(tmp_path, content, name="README.md", columns="", part=""):
    path = tmp_path / name
    path.write_text(content)
    return read_results(f"{path}{part}", columns)


def question(tmp_path, content, name="README.md", columns="", part=""):
    with pytest.raises(UserError) as asked:
        read(tmp_path, content, name, columns, part)
    return str(asked.value)


def means(reading):
    values = reading.results[0].frame.groupby("detector")["value"].mean()
    return {str(name): round(float(value), 4) for name, value in values.items()}


def test_folds_above_their_average_are_no_detectors(tmp_path):
    text = "| |Accuracy|F1|\n|-|-|-|\n|Fold 1|94.8%|63.4%|\n|Fold 2|72.7%|40.8%|\n"
    said = question(tmp_path, text + "|Average|83.7%|52.1%|\n")
    assert said.startswith("No column names the detector")


def test_objects_are_the_data_of_one_detector(tmp_path):
    text = "| objects | image_auroc |\n|-|-|\n| Woven | 93.6 |\n| Mesh | 94.5 |\n| mean | 94.1 |\n"
    found = read(tmp_path, text, "PaDiM.md").results[0]
    assert found.detectors == ("PaDiM",) and set(found.frame["ood"]) == {"Woven", "Mesh"}


def test_several_tables_of_a_text_are_read_by_the_option_that_the_question_names(tmp_path):
    table = "Algorithm   SVHN   LSUN\nERM         8{0}.1   85.6\nMA          8{0}.2   86.3\n\n"
    other = "Algorithm   CIFAR-10\nERM         83.8\nMA          84.9\n\n"
    how = "-------- Selected on {}\n"
    text = how.format("training domains") + table.format(1) + how.format("means") + other
    text += how.format("an oracle") + table.format(2) + how.format("its means") + other
    assert "README.md#1,3'" in question(tmp_path, text)
    assert set(means(read(tmp_path, text, columns="accuracy=*", part="#1,3"))) == {"ERM", "MA"}


def test_a_known_metric_that_is_not_read_stands_in_a_line_of_its_own(tmp_path):
    table = "{}:\n\n| | Base | ODIN | DE |\n|-|-|-|-|\n| AUROC | 7{n}.3 | 8{n}.9 | 9{n}.9 |\n"
    table += "| AUPRC | 7{n}.2 | 8{n}.0 | 9{n}.3 |\n| FPR80 | 4{n}.5 | {n}.0 | 0.{n} |\n\n"
    text = table.format("FashionMNIST vs. MNIST", n=1) + table.format("CIFAR10 vs. SVHN", n=2)
    found = read(tmp_path, text)
    assert means(found) == {"Base": 0.718, "DE": 0.924, "ODIN": 0.824}
    assert set(found.results[0].frame["ood"]) == {"MNIST", "SVHN"}
    assert "metrics that are not known were left out: FPR80" in found.notes


def test_ways_to_select_a_model_are_no_splits_of_the_data(tmp_path):
    rows = [
        f"{name},{how},{set_},{value}"
        for name, value in (("ERM", 81), ("MA", 82))
        for how in ("training-domain validation set", "test-domain validation set (oracle)")
        for set_ in ("PACS", "VLCS")
    ]
    found = read(tmp_path, "\n".join(["method,selection,dataset,accuracy", *rows]), "t.csv")
    assert [factor.kind for factor in found.results[0].factors] == ["condition"]


def test_fenced_logs_of_two_data_sets_are_two_tables(tmp_path):
    text = "on/first.jsonl\n```\n"
    text += "".join(f"checkpoint{n}\n" + HEADER.format(f"0.5{n}", f"0.6{n}") for n in range(3))
    text += "```\n\non/second.jsonl\n```\n"
    text += "".join(f"number: {n}\n" + HEADER.format(f"0.4{n}", f"0.3{n}") for n in range(3))
    said = question(tmp_path, text + "```\n")
    assert "#1: on/first.jsonl (3 × 5); #2: on/second.jsonl (3 × 5)" in said
    assert "detector=checkpoint" in question(tmp_path, text + "```\n", part="#1")


def test_epochs_in_lists_below_their_best_are_no_detectors(tmp_path):
    text = "# Log\n\n## Best:\n- Best Accuracy: 0.89 (Epoch 2)\n- Best Loss: 0.23 (Epoch 2)\n\n"
    for n in (1, 2, 3):
        text += f"## Epoch no. = {n}\n- Accuracy: 0.{n}4\n- Loss: 1.{n}\n\n"
    assert "#1: Best (1 × 2); #2: Log (3 × 3)" in question(tmp_path, text)
    assert "No column names the detector" in question(tmp_path, text, part="#2")


def test_runs_of_a_log_parted_by_spaces_with_lines_of_their_means(tmp_path):
    text = ""
    for subject in (1, 2, 3):
        text += f"Training on subject {subject}\n"
        for n in (1, 2):
            text += f"Subject: {subject}   Train no. {n}   Time: 3.0 m   Test_acc: 0.8{n}\n"
        text += f"Subject: {subject}   best_run: 1   acc: 0.82   avg_acc: 0.81 +- 0.01\n\n"
    assert "#1: Training on subject 1 (6 × 5)" in question(tmp_path, text, "log.txt")
    assert "No column names the detector" in question(tmp_path, text, "log.txt", part="#1")


def test_what_a_log_detects_are_outlier_sets_of_the_method_below(tmp_path):
    block = "{} Detection\n\t\tnet_tune\nFPR95:\t\t\t{}\t+/- 0.46\nAUROC: \t\t\t{}\t+/- 0.12\n\n"
    lines = [("Blob", 43.28, 85.89), ("Gauss", 11.26, 96.05), ("Speckle", 35.74, 85.01)]
    found = read(tmp_path, "".join(block.format(*line) for line in lines), "run.log").results[0]
    assert found.detectors == ("net_tune",)
    assert set(found.frame["ood"]) == {"Blob", "Gauss", "Speckle"}


def test_counts_behind_a_share_and_accuracies_of_sentences_and_boundaries(tmp_path):
    block = "{}:\nSent Accuracy: {}% (20/84)\nBound Accuracy: 83.25% (2683/3223)\n\n"
    text = block.format("small model", 23.81) + block.format("big model", 17.86)
    said = question(tmp_path, text, "scores.txt")
    assert "higher=Sent Accuracy" in said and "higher=Bound Accuracy" in said
    found = read(tmp_path, text, "scores.txt", "higher=Sent Accuracy")
    assert means(found) == {"small model": 0.2381, "big model": 0.1786}


@pytest.mark.parametrize("title", ["", "Label"])
def test_classes_of_a_report_as_a_table_are_parts_of_the_data(tmp_path, title):
    report = f"{title},precision,recall,f1-score,support\ncat,0.9,0.8,0.85,50\ndog,0.7,0.7,0.7,40\n"
    report += (
        "accuracy,0.79,0.79,0.79,0.79\nmacro avg,0.8,0.7,0.78,90\nweighted avg,0.8,0.7,0.79,90\n"
    )
    said = question(tmp_path, report, "report.csv")
    assert said.startswith("No column names the detector") and "detector=class" in said


def test_results_on_images_and_on_pixels_are_two_tasks(tmp_path):
    text = (
        "### AUROC\n| Category | Paper<br>(image-level) | Code<br>(image-level) | "
        "Paper<br>(pixel-level) | Code<br>(pixel-level) |\n|-|-|-|-|-|\n"
        "| carpet | 0.980 | 0.995 | 0.989 | 0.990 |\n| grid | 0.986 | 0.899 | 0.986 | 0.978 |\n"
    )
    option = "ignore=Paper (pixel-level), ignore=Code (pixel-level)"
    assert option in question(tmp_path, text)
    found = means(read(tmp_path, text, columns=option))
    assert found == {"Paper (image-level)": 0.983, "Code (image-level)": 0.947}


def test_a_metric_that_is_the_same_for_all_methods_of_each_model_is_asked_about(tmp_path):
    rows = [
        f"{model},{method},0.{number}{place},{6000 + number}.5"
        for number, model in enumerate(("arx", "gru", "seasonal"), start=7)
        for place, method in enumerate(("adaptive", "raw", "rolling"))
    ]
    text = "\n".join(["model,method,nWIS,MAE", *rows])
    said = question(tmp_path, text, "t.csv")
    assert "detector=model" in said and "lower=nWIS" in said
    assert set(means(read(tmp_path, text, "t.csv", "detector=model"))) == {"arx", "gru", "seasonal"}


def test_gains_in_any_dress_are_no_spreads(tmp_path):
    rows = [
        r"Base & 92.3$_{\textcolor{red}{+1.2}}$ & 92.3{\scriptsize\textcolor{green}{(+1.2)}} \\",
        r"Ours & 93.3\textsubscript{+1.2} & 93.3\,\tiny($-$0.4) \\",
        r"\textcolor{blue}{Other} & 94$^{\uparrow 3}$ & $94.3_{-0.4}$ \\",
    ]
    text = "\n".join([r"\begin{tabular}{lcc}", r"Method & SVHN AUROC & LSUN AUROC \\", *rows])
    found = read(tmp_path, text + "\n\\end{tabular}\n", "t.tex")
    assert means(found) == {"Base": 0.923, "Ours": 0.933, "Other": 0.9415}
    assert "spread" not in found.results[0].frame.columns


def test_gains_of_web_pages_and_of_plain_texts(tmp_path):
    table = "<table><tr><th>Method<th>SVHN AUROC<th>LSUN AUROC</tr>{}</table>"
    row = "<tr><td>{}<td>{n}1.2<sub style='color:red'>↓2.7</sub><td>{n}3<sup>+1.2</sup></tr>"
    text = table.format(row.format("MSP", n=8) + row.format("KNN", n=9))
    assert means(read(tmp_path, text, "t.html")) == {"MSP": 0.821, "KNN": 0.921}
    text = "Method,SVHN AUROC,LSUN AUROC\nMSP,81.2↓2.7,83 (1.2↑)\nKNN,91.2+1.3,93 ↑ (1.2)\n"
    found = read(tmp_path, text, "t.csv")
    assert means(found) == {"MSP": 0.821, "KNN": 0.921}
    assert "spread" not in found.results[0].frame.columns


def test_formulas_in_cells_of_markdown(tmp_path):
    text = "| Model | Accuracy |\n|-|-|\n| $\\boldsymbol{Random\\ Forest}$ | $0.9 800$ |\n"
    text += "| SVM | $\\mathbf{0.97}_{\\color{red}+0.01}$ |\n"
    assert means(read(tmp_path, text)) == {"Random Forest": 0.98, "SVM": 0.97}


def test_cells_of_three_numbers_are_asked_about_and_one_may_be_taken(tmp_path):
    text = "## Parsers (LAS / MLAS / BLEX)\n\n| Model | wabun | wakan |\n|-|-|-|\n"
    text += "| A | 80.1 / 65.5 / 67.8 | 68.0 / 51.8 / 52.6 |\n| B | 70 / 55 / 58 | 60 / 46 / 47 |\n"
    assert "hold three numbers" in question(tmp_path, text)
    option = "higher/ignore/ignore=*"
    assert option in question(tmp_path, text)
    assert means(read(tmp_path, text, columns=option)) == {"A": 0.7405, "B": 0.65}
    assert means(read(tmp_path, text, columns="ignore/accuracy/F1=*")) == {"A": 0.5865, "B": 0.505}
    with pytest.raises(UserError, match="all others are 'ignore'"):
        read(tmp_path, text, columns="higher/lower/ignore=*")


def test_names_and_numbers_with_as_many_lines_in_a_cell_are_lines_of_the_table(tmp_path):
    text = "| Method | InD | Test OOD | AUROC |\n|-|-|-|-|\n"
    for name, value in (("MSP", 8), ("KNN", 9)):
        text += (
            f"| {name}<br>(ours) | MNIST | FMNIST<br>KMNIST<br>SVHN | 0.{value}1<br>0.8<br>1 |\n"
        )
    found = read(tmp_path, text).results[0]
    assert set(found.frame["ood"]) == {"FMNIST", "KMNIST", "SVHN"}
    assert found.detectors == ("MSP (ours)", "KNN (ours)") and len(found.frame) == 6


def test_tables_that_nothing_tells_apart_are_not_joined_and_it_is_said_why(tmp_path):
    text = "| | A | B |\n|-|-|-|\n| Precision | 0.4 | 0.5 |\n| Recall | 0.3 | 0.2 |\n\n" * 2
    said = question(tmp_path, text, part="#1,2")
    assert said.startswith("Nothing tells what stands in #1") and "README.md#1'" in said


def test_what_titles_are_called_may_stand_above_the_names(tmp_path):
    rows = [f"{m},{g},{p},0.{n}{i}{j}" for n, m in enumerate(("Random", "MAAT"), start=6)
            for i, g in enumerate("ab") for j, p in enumerate("xy")]  # fmt: skip
    text = "\n".join(["Step,group,kind,AUC", *rows])
    assert "detector=Step" in question(tmp_path, text, "t.csv")


@pytest.mark.parametrize("at", ["@", "", " @ "])
def test_recalls_of_a_ranking_at_several_ranks_are_different_metrics(tmp_path, at):
    titles = [f"{name} R{at}{rank}" for name in ("COCO", "Flickr30k") for rank in (1, 5)]
    text = "\n".join([",".join(["Model", *titles]), "CLIP,57,80,87,88", "BLIP,82,95,98,99"])
    option = "higher=*R@1"
    assert option in question(tmp_path, text, "t.csv")
    assert means(read(tmp_path, text, "t.csv", option)) == {"CLIP": 0.72, "BLIP": 0.9}
    alone = f"Model,R{at}1,R{at}5\nCLIP,57,80\nBLIP,82,95\n"
    assert "higher=Recall@1" in question(tmp_path, alone, "t.csv")


def test_epochs_at_the_beginning_of_lines_with_remarks_between(tmp_path):
    text = "".join(
        f"Epoch {n}: Train AUC: 0.9{n}, Test AUC: 0.8{n}, Test ACC: 0.7{n}\n"
        f"Best model saved at epoch {n} with Eval AUC: 0.88{n}\n"
        for n in range(4)
    )
    said = question(tmp_path, text, "run.log")
    assert "No column names the detector" in said and "detector=Epoch" in said


def test_keys_of_a_log_that_hold_several_metrics(tmp_path):
    text = "".join(
        f"{name}\ncur Image AUC/AUPR: 0.{n}3 0.{n}7, cur Pixel AUC/AUPR/IOU: 0.94 0.{n}1 0.2{n}\n"
        for n, name in enumerate(("MSP", "KNN"), start=6)
    )
    option = "higher=cur Image AUC"
    assert option in question(tmp_path, text, "run.log")
    assert means(read(tmp_path, text, "run.log", option)) == {"MSP": 0.63, "KNN": 0.73}


def test_a_bare_false_positive_rate_in_a_line_is_not_that_at_95_percent(tmp_path):
    rows = "ROC-AUC,0.91,0.93\nPrecision,0.9,0.8\nRecall,0.7,0.8\nFPR,0.06,0.07\n"
    found = read(tmp_path, "Metric,ConvAE,RCC-ConvAE\n" + rows, "t.csv")
    assert "fpr95" not in {results.metric for results in found.results}


def test_headers_that_are_unknown_metrics_can_be_averaged_or_not(tmp_path):
    text = "Model,Score name ↑,value\na,Foo ↑,35.5\na,Bar ↑,33.9\nb,Foo ↑,58.6\nb,Bar ↑,54.2\n"
    said = question(tmp_path, text, "t.csv", "metric=Score name ↑")
    assert "condition=Score name ↑, higher=*" in said


def test_times_in_other_languages_are_costs(tmp_path):
    table = "### {}\n| Fold | Accuracy | Zeit |\n|-|-|-|\n| 1 | 9{n}.5% | 4{n}.2s |\n"
    table += "| 2 | 9{n}.6% | 4{n}.6s |\n\n"
    found = read(tmp_path, table.format("BERT", n=7) + table.format("DistilBERT", n=6)).results[0]
    assert found.detectors == ("BERT", "DistilBERT")
    assert [factor.kind for factor in found.factors] == ["repeat"]


def test_losses_on_splits_after_the_number_of_the_epoch(tmp_path):
    text = "Loss Function: Dice Loss\n-----\n"
    text += "".join(f"Epoch 00{n}/35 | Train: 0.{n}8 | Val: 0.{n}3\n" for n in range(1, 5))
    said = question(tmp_path, text, "log.txt")
    assert "Train" in said and "Val" in said and "0.18" not in said


def test_dates_are_no_data_sets(tmp_path):
    text = "model,AUC_ROC,trained_on\n" + "".join(
        f"mdl{n},0.8{n},2021-03-{'12' if n < 3 else '24'}\n" for n in range(6)
    )
    found = read(tmp_path, text, "t.csv").results[0]
    assert len(found.detectors) == 6 and not found.factors


def test_a_table_that_is_not_filled_in_is_refused(tmp_path):
    text = "Language,BERT,mBERT\nchu,,\nfro,,\n"
    assert "no cell holds a number" in question(tmp_path, text, "t.csv")
