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
