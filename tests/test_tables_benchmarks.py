"""Results files as benchmarks of other fields publish them: read, or asked about."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_reading import asked, read

from oodometer.errors import UserError
from oodometer.results import Results
from oodometer.tables.vocabulary.measures import MEASURES, metric_named

CLASSIFIERS = "MLP,FCN,ResNet,Time-CNN"


def _names(results: Results, column: str = "detector") -> list[str]:
    return [str(name) for name in results.frame[column].unique()]


def _refused(tmp_path: Path, text: str, name: str) -> str:
    with pytest.raises(UserError) as caught:
        read(tmp_path, text, name)
    return str(caught.value)


def test_a_model_called_after_a_cost_is_compared(tmp_path: Path) -> None:
    lines = "ECG,3.4,71.5,14.3,0.5\nIMAGE,3.4,41.4,44.8,6.9\nMOTION,14.3,42.9,57.1,1.5\n"
    text = f",{CLASSIFIERS}\n{lines}"
    results = read(tmp_path, text, "themes.csv", "higher=*").results[0]
    assert _names(results) == CLASSIFIERS.split(",")


def test_whole_numbers_in_a_first_column_without_title_name_the_lines(tmp_path: Path) -> None:
    lines = "".join(f"{n},4.{k},2.{k}5,1.{k}2,5.{k}\n" for k, n in enumerate((81, 251, 451, 700)))
    results = read(tmp_path, f",{CLASSIFIERS}\n{lines}", "lengths.csv", "lower=*").results[0]
    assert _names(results) == CLASSIFIERS.split(",")
    assert [(f.name, f.kind) for f in results.factors] == [("column 1", "condition")]


def test_what_data_sets_are_like_is_not_compared(tmp_path: Path) -> None:
    text = (
        "Data,#Samples,# Dimensions,Outlier Perc,VAE,LUNAR,DevNet\n"
        "cardio,1831,21,9.61,2.93,1.25,0.48\nglass,214,9,4.21,0.36,0.92,0.08\n"
        "letter,1600,32,6.25,2.61,0.97,0.41\nmnist,7603,100,9.21,12.55,2.32,2.54\n"
    )
    results = read(tmp_path, text, "seconds.csv", "lower=*").results[0]
    assert _names(results) == ["VAE", "LUNAR", "DevNet"]


def test_bs_beside_a_calibration_error_is_the_brier_score(tmp_path: Path) -> None:
    text = "method,ACC,ECE,BS\nplain,0.468,0.176,0.216\ndropout,0.481,0.161,0.205\n"
    metrics = [results.metric for results in read(tmp_path, text, "main.csv").results]
    assert metrics == ["accuracy", "calibration error", "Brier score"]


def test_lines_that_differ_in_settings_are_asked_about(tmp_path: Path) -> None:
    text = "parameter,value,F1,ECE,BS\n" + "".join(
        f"{name},{value},0.6{k}1,0.1{k}2,0.1{k}5\n"
        for k, (name, value) in enumerate(
            [("scale", 1.0), ("scale", 5.0), ("weight", 0.1), ("weight", 5.0), ("gamma", 1.0)]
        )
    )
    asked(tmp_path, text, "detector=parameter+value", name="sensitivity.csv")


def test_a_column_called_value_that_tells_equal_lines_apart_is_no_error(tmp_path: Path) -> None:
    text = "method,value,AUROC\n" + "".join(
        f"{name},{value},0.{90 - k}\n"
        for k, (name, value) in enumerate(
            [("MSP", "a"), ("MSP", "b"), ("ODIN", "c"), ("ODIN", "d")]
        )
    )
    asked(tmp_path, text, "repeat=value", "condition=value", name="runs.csv")


@pytest.mark.parametrize(
    ("group", "metric", "role"),
    [
        ("average over 6 OOD datasets", "OOD AUC", "id"),
        ("results", "OOD AUC", "ood"),
        ("results", "classification error", "id"),
    ],
)
def test_numbers_over_outlier_sets_and_of_classes_are_of_id_sets(
    tmp_path: Path, group: str, metric: str, role: str
) -> None:
    lines = "".join(
        f"{data} & {method} & 0.{70 + 3 * k + n} & 0.{20 + k + n} \\\\\n"
        for k, data in enumerate(("CatsVsDogs", "Cassava", "Cars196"))
        for n, method in enumerate(("Baseline", "ODIN", "Outlier Exposure"))
    )
    second = "classification loss" if "class" in metric else "FPR at 95\\% TPR"
    header = (
        f" & & \\multicolumn{{2}}{{l}}{{{group}}} \\\\\n & & {metric} & {second} \\\\\n"
        "dataset & method & & \\\\\n"
    )
    text = f"\\begin{{tabular}}{{llrr}}\n{header}\\midrule\n{lines}\\end{{tabular}}\n"
    results = read(tmp_path, text, "grouped.tex").results[0]
    assert _names(results, role) == ["CatsVsDogs", "Cassava", "Cars196"]


def test_tables_below_names_of_id_sets_are_about_these(tmp_path: Path) -> None:
    text = "# Results\n" + "".join(
        f"\n{data}:\n| Model | FPR95 |\n|---|---|\n| Softmax | {worse}% |\n| ODIN | {better}% |\n"
        for data, worse, better in (("CIFAR-10", 51.04, 35.71), ("CIFAR-100", 80.41, 74.64))
    )
    results = read(tmp_path, text, "README.md").results[0]
    assert len(_names(results, "id")) == 2


def test_corruption_errors_are_no_calibration_errors() -> None:
    assert metric_named("mCE") == metric_named("mean corruption error") == "corruption error"
    assert metric_named("MCE") == "calibration error"
    assert not MEASURES["corruption error"].higher


def test_ways_to_select_models_are_no_parts_of_the_data(tmp_path: Path) -> None:
    ways = ("training-domain validation set", "test-domain validation set (oracle)")
    text = "algorithm,selection,accuracy\n" + "".join(
        f"{name},{way},7{k}.{n}\n" for k, way in enumerate(ways) for n, name in enumerate("abc")
    )
    results = read(tmp_path, text, "selection.csv").results[0]
    assert set(_names(results, "selection")) == set(ways)


def test_tables_of_a_text_are_found_whose_numbers_are_partly_crosses(tmp_path: Path) -> None:
    def table(way: str, *numbers: str) -> str:
        rows = (("Algorithm", "A", "C", "Avg"), ("CAG", "X", "X", "X"), ("ERM", *numbers))
        return f"-------- Dataset: PACS, model selection method: {way}\n" + "\n".join(
            "".join(cell.ljust(22) for cell in row) for row in rows
        )

    text = "Total records: 9\n\n" + "\n\n".join(
        (
            table("oracle", "88.0 +/- 0.3", "80.4 +/- 1.0", "84.2"),
            table("training", "87.0 +/- 0.3", "80.1 +/- 1.0", "83.6"),
        )
    )
    results = read(tmp_path, text, "results.txt#1,2", "higher=*").results[0]
    assert _names(results) == ["ERM"] and len(results.frame) == 4


def test_headings_of_another_level_tell_image_from_pixel_level(tmp_path: Path) -> None:
    table = "| Model | Tile | Grid |\n|---|---|---|\n| PaDiM | 0.9 | 0.8 |\n| CFlow | 0.8 | 0.7 |\n"
    text = f"## Image-Level AUC\n\n{table}\n### Pixel-Level AUC\n\n{table}"
    assert "README.md#1'" in _refused(tmp_path, text, "README.md")
    assert len(read(tmp_path, text, "README.md#1").results[0].frame) == 4


def test_columns_of_which_some_are_negative_are_asked_about_with_options_that_work(
    tmp_path: Path,
) -> None:
    text = (
        "| Method | Boston Housing | Wine | kin8nm | Naval |\n|---|---|---|---|---|\n"
        "| Ensemble | 6.11 | 0.97 | -1.17 | -5.17 |\n| Refined VI | 2.94 | 0.95 | -1.06 | -6.33 |\n"
    )
    asked(tmp_path, text, "higher=*", "lower=*")


def test_a_table_that_cannot_be_read_is_named_beside_the_others(tmp_path: Path) -> None:
    text = (
        "## A\n\n| Method | NLL | Acc |\n|---|---|---|\n| x1 | 0.1 | 0.9 |\n| y1 | 0.2 | 0.8 |\n\n"
        "## B\n\n| Method | NLL | Acc |\n|---|---|---|\n| x1 | 0.1 | 0.9 |\n| y1 | 2 | 3 | 4 |\n\n"
        "## C\n\n| Source | Acc |\n|---|---|\n| x1 | 0.9 |\n| y1 | 0.8 |\n"
    )
    assert "Not read: Line 3 of table 2 has 4 cells" in _refused(tmp_path, text, "page.md")


def test_cells_of_three_numbers_are_asked_about(tmp_path: Path) -> None:
    text = (
        "| Method | ImageNet | ImageNet-C | YTBB-Robust |\n|---|---|---|---|\n"
        "| Plain | 0.939 / 76.2% / 0.032 | 3.21 / 40.5% / 0.103 (75.4%) | 25.9% |\n"
        "| Mixup | 0.888 / 77.7% / 0.028 | 2.78 / 47.1% / 0.109 (67.3%) | 28.3% |\n"
    )
    asked(tmp_path, text, "NLL/accuracy/ECE=*")


def test_lines_of_a_setting_may_be_compared_beside_columns_of_data_sets(tmp_path: Path) -> None:
    text = "λ,CIFAR AUROC,SVHN AUROC\n0.0,80.1,75.2\n0.01,98.7,89.4\n0.1,96.6,88.2\n"
    asked(tmp_path, text, "detector=*", "detector=λ", name="ablation.csv")


def test_numbers_in_bold_are_names_without_their_signs(tmp_path: Path) -> None:
    text = "| λ | AUROC |\n|---|---|\n| 0.0 | 0.8025 |\n| **0.01** | **0.9869** |\n"
    assert _names(read(tmp_path, text, columns="detector=λ").results[0]) == ["0.0", "0.01"]


def test_rankings_that_end_elsewhere_are_different_metrics(tmp_path: Path) -> None:
    data = ("Flickr image", "Flickr text", "COCO image", "COCO text")
    titles = [f"{name} retr. R@{k}" for name in data for k in (1, 5, 10)]
    text = f"name,pretrained,{','.join(titles)},jaccard score 5\n" + "".join(
        f"ViT-{k},webli,{','.join(f'0.{50 + 7 * k + n}' for n in range(13))}\n" for k in range(3)
    )
    asked(tmp_path, text, "higher=*R@1", "higher=*R@5", "higher=*R@10", name="retrieval.csv")
    results = read(tmp_path, text, "retrieval.csv", "higher=*R@5").results[0]
    assert len(results.frame) == 3 * 4


def test_distances_between_kernels_are_no_results(tmp_path: Path) -> None:
    text = ",EH,GH,SP\nEH,0.0,0.75,0.71\nGH,0.75,0.0,0.22\nSP,0.71,0.22,0.0\n"
    assert "not results" in _refused(tmp_path, text, "distances.csv")


def test_a_count_is_not_suggested_as_the_result(tmp_path: Path) -> None:
    text = "num_training_examples,time_training_seconds\n1024,24.24\n2048,32.6\n4096,49.79\n"
    assert "No column holds results" in _refused(tmp_path, text, "time.csv")


PAIRS = "| Score | MNIST | SVHN | Macro |\n|---|---|---|---|\n"


def test_prose_further_above_says_what_two_numbers_in_a_cell_are(tmp_path: Path) -> None:
    rows = "| msp | 0.918 / 0.556 | 0.904 / 0.598 | 0.911 / 0.577 |\n"
    rows += "| energy | 0.958 / 0.260 | 0.918 / 0.412 | 0.938 / 0.336 |\n"
    text = (
        "# Students\n\nAll tables report `ROC-AUC / FPR@95`. Higher scores are more ID-like.\n\n"
        f"Long training.\n\n## Logit MSE\n\n{PAIRS}{rows}\n## Cross-Entropy\n\n{PAIRS}{rows}"
    )
    reading = read(tmp_path, text)
    assert [results.metric for results in reading.results] == ["auroc", "fpr95"]
    assert _names(reading.results[0], "ood") == ["MNIST", "SVHN"]
    assert [factor.name for factor in reading.results[0].factors] == ["section"]


def test_metrics_of_two_numbers_may_have_dashes(tmp_path: Path) -> None:
    rows = "| msp | 0.9/0.5 | 0.8/0.6 | 0.8/0.5 |\n| odin | 0.7/0.2 | 0.6/0.4 | 0.6/0.3 |\n"
    reading = read(tmp_path, PAIRS + rows, columns="ROC-AUC/FPR@95=*")
    assert [results.metric for results in reading.results] == ["auroc", "fpr95"]


def test_names_called_like_errors_below_a_header_of_data_sets_stay_lines(tmp_path: Path) -> None:
    names = ["raw_reconstruction_error", "cosine_similarity"]
    rows = "".join(f"| {name} | 0.8{k} | 0.7{k} | 0.75 |\n" for k, name in enumerate(names))
    results = read(tmp_path, PAIRS + rows, columns="auroc=*").results[0]
    assert _names(results) == names


def test_two_bars_within_a_name_part_no_cells(tmp_path: Path) -> None:
    text = (
        "| OOD Score | MNIST AUROC | SVHN AUROC |\n|---|---|---|\n"
        "| KL(teacher || k-NN) | 0.881 | 0.922 |\n| BALD | 0.845 | 0.930 |\n"
    )
    assert _names(read(tmp_path, text).results[0]) == ["KL(teacher || k-NN)", "BALD"]


def test_a_header_with_bars_may_be_underlined_without(tmp_path: Path) -> None:
    line = "─" * 40
    text = (
        f"Phase 1\n{line}\nModel | Train Acc | Test Acc\n{line}\n"
        "net a |    9.24%  |  14.93%  ← Test ahead!\nnet b |   44.82%  |  43.53%\n"
    )
    results = read(tmp_path, text, "summary.txt").results[0]
    assert _names(results) == ["net a", "net b"] and len(results.frame) == 2


def test_numbers_beside_a_stated_setting_are_levels_of_it(tmp_path: Path) -> None:
    text = (
        "AUROC of two scores\n\n| score | num_components = 20 | 50 | 100 |\n|---|---|---|---|\n"
        "| density | 0.69 | 0.73 | 0.78 |\n| distance | 0.67 | 0.70 | 0.75 |\n"
    )
    results = read(tmp_path, text, columns="auroc=*").results[0]
    assert [(f.name, f.kind) for f in results.factors] == [("num_components", "condition")]


def test_remarks_about_lines_are_not_compared(tmp_path: Path) -> None:
    text = (
        "| λ | Val AUROC | Convergence |\n|---|---|---|\n| 0.0 | 0.80 | Slow — no signal |\n"
        "| 0.01 | 0.98 | Fast — strong |\n| **0.02** | **0.99** | **Fast — the peak** |\n"
    )
    asked(tmp_path, text, "detector=λ")


def test_defaults_of_arguments_are_no_results(tmp_path: Path) -> None:
    text = (
        "| Flag | Default |\n|---|---|\n| `--epochs` | 200 |\n| `--lr` | 0.1 |\n| `--seed` | 42 |\n"
    )
    assert "No column holds results" in _refused(tmp_path, text, "README.md")


def test_names_that_hold_a_data_set_and_a_detector_are_parted(tmp_path: Path) -> None:
    def table(*sets: str) -> str:
        names = [f"{data} {name}" for data in sets for name in ("aiirw", "msp", "energy", "maha")]
        return ",roc_auc\n" + "".join(f"{name},0.{70 + k}\n" for k, name in enumerate(names))

    results = read(tmp_path, table("trec", "race", "paws"), "results.csv").results[0]
    assert _names(results) == ["aiirw", "msp", "energy", "maha"]
    assert _names(results, "ood") == ["trec", "race", "paws"]
    asked(tmp_path, table("plain", "tuned"), "id=column 1.1", "ood=column 1.1",
          "condition=column 1.1", name="results.csv")  # fmt: skip


def test_numbers_below_corruptions_with_depth_are_severities(tmp_path: Path) -> None:
    names = ("bit_error", "color_quant", "flash", "iso_noise")
    text = "," + ",".join(name for name in names for _ in (1, 2)) + "\n," + "1,2," * 3 + "1,2\n"
    text += "".join(f"net {k}," + ",".join(f"0.{k}{n}" for n in range(8)) + "\n" for k in (5, 6))
    results = read(tmp_path, text, "corruptions.csv", "accuracy=*").results[0]
    assert {f.name: f.kind for f in results.factors} == {
        "corruption": "condition", "severity": "re_evaluation"
    }  # fmt: skip


def test_objectives_that_are_called_like_metrics_may_be_compared(tmp_path: Path) -> None:
    text = "ID dataset,Teacher target,Objective,Test accuracy\n" + "".join(
        f"{data},{target},{way},0.{80 + 7 * k + 3 * m + n}\n"
        for k, data in enumerate(("CIFAR-10", "CIFAR-100"))
        for m, target in enumerate(("Perturbed", "Clean"))
        for n, way in enumerate(("Cross-entropy", "Logit MSE"))
    )
    asked(tmp_path, text, "detector=Teacher target", "detector=Objective", name="training.csv")


def test_what_ends_in_mean_or_names_classes_is_compared_if_its_numbers_say_so(
    tmp_path: Path,
) -> None:
    titles = ["1-NN", "10-NN mean", "Global centroid", "Nearest class centroid"]
    rows = ("a,.88,.89,.17,.87", "b,.87,.9,.28,.86", "c,.75,.77,.22,.78", "d,.8,.79,.35,.77")
    text = "\n".join([",".join(["dataset", *(f"{title} AUROC" for title in titles)]), *rows])
    assert _names(read(tmp_path, text, "distances.csv", "detector=*").results[0]) == titles
