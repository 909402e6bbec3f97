"""Data files of machine-learning benchmarks in general, in the layouts that people keep."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from oodometer.analysis import findings_of
from oodometer.errors import UserError
from oodometer.results import Results
from oodometer.tables.reading import Reading, read_results


def _question(given: pd.DataFrame | Path, columns: str = "") -> str:
    with pytest.raises(UserError) as caught:
        read_results(given, columns)
    return str(caught.value)


def _names(results: Results, column: str = "detector") -> list[str]:
    return [str(name) for name in results.frame[column].unique()]


def _unused(reading: Reading) -> dict[str, str]:
    return {column: role for column, role in reading.columns if role.startswith("not used")}


def test_words_tell_levels_apart_where_the_user_says_that_titles_name_conditions() -> None:
    table = pd.DataFrame(
        {"model": ["a", "b", "c"], "win_rate_character": [0.31, 0.52, 0.47],
         "win_rate_scene": [0.35, 0.61, 0.44], "win_rate_avg": [0.33, 0.565, 0.455]}
    )  # fmt: skip
    assert '--columns "condition=*"' in _question(table)
    found = read_results(table, "condition=*").results[0]
    assert set(found.frame["condition"]) == {"character", "scene"}


def test_ranks_beside_other_ranks_are_no_results() -> None:
    table = pd.DataFrame(
        {"alg_name": ["boost", "tree", "net"], "Log Loss_rank_mean min": [1, 2, 1],
         "Log Loss_rank_mean max": [7, 9, 9], "Log Loss_rank_mean mean": [2.5, 5.1, 4.2],
         "normalized_Log Loss__test_mean mean": [0.04, 0.31, 0.12]}
    )  # fmt: skip
    found = read_results(table)
    assert found.results[0].frame["value"].tolist() == [0.04, 0.31, 0.12]


def test_a_list_of_sizes_in_a_name_is_no_citation() -> None:
    table = pd.DataFrame(
        {"Model": ["cnn_[14, 14]", "lstm_[14, 14]", "MSP [7]"], "F1": [0.7, 0.6, 0.5]}
    )
    assert _names(read_results(table).results[0]) == ["cnn_[14, 14]", "lstm_[14, 14]", "MSP"]


def test_an_aupr_that_names_no_class_is_not_that_of_outliers() -> None:
    table = pd.DataFrame({"Model": ["cnn", "lstm"], "AUPRC": [0.7, 0.6], "AUPR-OUT": [0.5, 0.4]})
    assert {results.metric for results in read_results(table).results} == {"AUPR", "aupr_out"}


def _written(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content))
    return path


def test_the_name_around_names_says_what_they_are(tmp_path: Path) -> None:
    models = {
        name: {"accuracy": {"top1_accuracy": value}} for name, value in (("a", 71.5), ("b", 68.2))
    }
    meta = {"dataset": "EuroSAT", "split_counts": {"train": 18900, "test": 4050}}
    found = read_results(_written(tmp_path, {"meta": meta, "models": models}))
    assert dict(found.columns)["model"] == "detector" and dict(found.columns)["dataset"] == "id"
    assert "train" in _unused(found)  # a number of samples is no name of data


def test_data_sets_with_metrics_of_their_own_are_named_or_asked_about() -> None:
    lines = [("a", "accuracy"), ("b", "accuracy"), ("c", "mAP"), ("d", "mean_iou")]
    table = pd.DataFrame(
        [(method, *line, value) for (method, *line), value in zip(
            [(method, *line) for line in lines for method in ("old", "new")],
            [0.61, 0.63, 0.71, 0.74, 0.52, 0.49, 0.33, 0.41], strict=True)],
        columns=["protocol", "dataset", "metric", "mean"],
    )  # fmt: skip
    assert "Data sets have different metrics" in _question(table)
    few = read_results(table[table["dataset"] != "d"].reset_index(drop=True))
    assert any("accuracy decides, which 2 of 3 have" in note for note in few.notes)


@pytest.mark.parametrize("title", ["dice", "mean_dice", "dice_coef"])
def test_overlap_decides_before_the_accuracy_of_pixels(title: str) -> None:
    table = pd.DataFrame({"model": ["a", "b"], title: [0.61, 0.55], "pixel_acc": [0.97, 0.98]})
    assert [results.metric for results in read_results(table).results] == ["Dice", "pixel accuracy"]


def test_names_of_data_and_folds_are_parted() -> None:
    names = [f"openml__{data}__{n}{n}__fold_{f}" for n, data in enumerate("abc") for f in (0, 1)]
    table = pd.DataFrame({"dataset_fold_id": names, "forest": range(6), "net": range(1, 7)})
    found = dict(read_results(table.astype(str), "higher=*, detector=*").columns)
    assert (found["dataset"], found["fold"]) == ("id", "factor")


def test_a_setting_that_the_baseline_lacks_is_asked_about() -> None:
    lines = [("baseline", "none", ""), ("sfs", "accuracy", 0.93182), ("sfs", "macro_f1", 0.91474),
             ("sbs", "accuracy", 0.93182), ("sbs", "macro_f1", 0.85191)]  # fmt: skip
    table = pd.DataFrame(
        [(*line, split, 0.7 + 0.01 * n) for n, line in enumerate(lines) for split in range(3)],
        columns=["method", "selection_metric", "validation_score", "split", "test_accuracy"],
    )
    assert '--columns "ignore=selection_metric"' in _question(table)
    found = read_results(table, "ignore=selection_metric").results[0]
    assert _names(found) == ["baseline", "sfs", "sbs"]  # a score is no part of a name


def test_counts_of_errors_and_of_successes_are_unlike() -> None:
    table = pd.DataFrame(
        {"": ["a", "b", "c"], "Correct (of 32)": [17, 18, 9], "Errors (of 160)": [53, 12, 91]}
    )
    assert '--columns "higher=Correct (of 32)"' in _question(table)


def test_ranks_are_recognized() -> None:
    ranks = [[3, 1, 2], [2, 1, 3], [1, 2, 3]]
    table = pd.DataFrame({"task": ["adult", "kc1", "car"]}).join(
        pd.DataFrame(ranks, columns=["autosk", "h2o", "tuned"])
    )
    assert "as ranks are" in _question(table)


def test_a_mean_of_data_sets_is_seen_in_repeated_lines() -> None:
    runs = [[55.98, 63.9, 69.0, 72.7], [57.7, 64.8, 68.2, 72.0], [56.72, 68.0, 67.0, 76.0],
            [53.56, 65.9, 68.4, 73.8]]  # fmt: skip
    table = pd.DataFrame(
        [(f"r{n}", "base" if n < 2 else "tuned", *run, round(sum(run) / 4, 2))
         for n, run in enumerate(runs)],
        columns=["run", "mode", "mmlu", "hellaswag", "winogrande", "arc_easy", "avg_general"],
    )  # fmt: skip
    found = read_results(table, "detector=mode, higher=*")
    assert any("avg_general" in note for note in found.notes)


def test_results_on_training_data_do_not_decide() -> None:
    table = pd.DataFrame({"model": ["a", "b"], "train_acc": [99.1, 98.2], "val_acc": [90.2, 91.3]})
    assert read_results(table).results[0].metric == "val accuracy"
    question = _question(table.assign(domain_shift_acc=[54.2, 55.1]))
    assert "higher=val_acc" in question and "higher=train_acc" not in question


def test_rounds_of_one_run_may_be_evaluations_of_it() -> None:
    lines = [(n, strategy, 0.7 + 0.02 * n) for strategy in ("active", "random") for n in range(4)]
    table = pd.DataFrame(lines, columns=["round", "strategy", "accuracy"])
    assert '--columns "re_evaluation=round"' in _question(table)


def test_what_was_found_on_each_task_is_not_compared_across_tasks(tmp_path: Path) -> None:
    tasks = {
        task: {"test_auc": value, "architecture": cells}
        for task, value, cells in (("a", 0.48, ["skip", "conv"]), ("b", 0.51, ["conv", "skip"]))
    }
    assert "measured on the same runs" in _question_of(_written(tmp_path, {"tasks": tasks}))


def _question_of(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        findings_of(read_results(path))
    return str(caught.value)


def test_noise_of_test_data_is_asked_about_where_the_lead_depends_on_it() -> None:
    table = pd.DataFrame(
        [(model, noise, value) for model, values in (
            ("word", (0.921, 0.919, 0.915, 0.911, 0.902)),
            ("char", (0.92, 0.919, 0.919, 0.917, 0.911)),
            ("bert", (0.944, 0.943, 0.941, 0.939, 0.928)),
        ) for noise, value in zip((0.0, 0.05, 0.1, 0.2, 0.3), values, strict=True)],
        columns=["model", "noise_probability", "accuracy"],
    )  # fmt: skip
    with pytest.raises(UserError, match="what 'noise_probability' is"):
        findings_of(read_results(table))
    findings_of(read_results(table, "re_evaluation=noise_probability"))


def test_lines_below_seeds_that_are_statistics_are_no_seeds() -> None:
    table = pd.DataFrame(
        {"seed": ["42", "2025", "mean", "sample_sd"], "base_top1": [68.05, 68.25, 68.15, 0.14],
         "teacher_top1": [71.81, 71.33, 71.57, 0.34], "student_top1": [69.9, 70.6, 70.24, 0.45]}
    )  # fmt: skip
    assert "detector=seed" not in _question(table)
    assert set(read_results(table, "detector=*").results[0].frame["seed"]) == {"42", "2025"}


def test_means_at_a_cutoff_are_metrics_of_their_own() -> None:
    table = pd.DataFrame({"model": ["a", "b"]})
    for n, cut in enumerate((5, 10)):
        table[f"ndcg@{cut}_mean"] = [0.89 + 0.01 * n, 0.91 + 0.01 * n]
        table[f"ndcg@{cut}_std"] = [0.01, 0.02]
    assert "'ndcg@5_mean' and 'ndcg@10_mean' are different metrics" in _question(table)
    found = read_results(table, "higher=ndcg@10_mean").results[0]
    assert found.frame["spread"].tolist() == [0.01, 0.02]


def test_a_column_that_rounds_another_one_is_left_out() -> None:
    table = pd.DataFrame(
        {"Model": ["a", "b"], "NDCG@10_mean": [0.28574, 0.31289], "NDCG@10_sd": [0.00275, 0.0002],
         "NDCG@10_mean±sd": ["0.2857 ± 0.0027", "0.3129 ± 0.0002"]}
    )  # fmt: skip
    assert "the same as" in _unused(read_results(table))["NDCG@10_mean±sd"]


def test_a_column_of_calibrations_names_no_data_sets() -> None:
    table = pd.DataFrame(
        [(model, calibration, domain, 0.6 + 0.01 * n) for n, (model, calibration, domain) in
         enumerate((m, c, d) for m in ("forest", "svm") for c in ("raw", "platt", "isotonic")
                   for d in ("source", "target"))],
        columns=["model", "calibration", "domain", "accuracy"],
    )  # fmt: skip
    assert '"detector=calibration"' in _question(table) and "id=calibration" not in _question(table)


def test_overall_and_average_accuracy_are_two_metrics() -> None:
    table = pd.DataFrame({"method": ["a", "b"], "OA": [81.2, 79.5], "AA": [77.0, 78.1]})
    assert [r.metric for r in read_results(table).results] == ["accuracy", "balanced accuracy"]
    assert read_results(table[["method", "OA"]].assign(AA=[1, 2])).results[0].metric == "accuracy"


def test_the_number_of_samples_is_not_that_of_runs() -> None:
    table = pd.DataFrame(
        {"n": [100, 500], "mean_accuracy": [0.23, 0.37], "std_accuracy": [0.05, 0.04],
         "num_runs": [5, 5]}
    )  # fmt: skip
    assert '--columns "detector=n"' in _question(table)


def test_counts_that_each_run_has_of_its_own_are_no_conditions() -> None:
    counts = [81, 82, 92, 33, 28, 26, 16, 14, 15]
    table = pd.DataFrame(
        [(method, data, seed, counts[3 * n + seed], 0.6 + 0.02 * seed + 0.01 * (method == "new"))
         for n, data in enumerate(("acm", "blog", "cora")) for seed in range(3)
         for method in ("old", "new")],
        columns=["method", "dataset", "seed", "anomalies", "auc"],
    )  # fmt: skip
    assert "another one in each run" in _unused(read_results(table))["anomalies"]


def test_the_setup_of_an_experiment_and_summaries_are_no_results(tmp_path: Path) -> None:
    runs = {name: [{"round": 29, "accuracy": v + d} for d in (0.01, 0.02, 0.04)]
            for name, v in (("fedavg", 0.5), ("krum", 0.8))}  # fmt: skip
    summary = {name: {"final_acc_mean": 0.7, "final_acc_std": 0.01} for name in runs}
    content = {"setup": {"clients": 10, "seeds": [0, 1, 2]}, "main_summary": summary, "final": runs}
    found = read_results(_written(tmp_path, content)).results[0]
    assert _names(found) == ["fedavg", "krum"] and len(found.frame) == 6


def test_percentages_beside_fractions_are_asked_about() -> None:
    table = pd.DataFrame(
        {"Model": ["GCN", "GAT", "GIN"], "Cora": [87.1, 86.7, 87.2], "MUTAG": [69.8, 72.8, 79.6],
         "Election": [0.31, 0.29, 0.28], "Birth Rate": [0.72, 0.71, 0.73],
         "ZINC": [0.62, 0.61, 0.57]}
    )  # fmt: skip
    question = _question(table)
    assert '"ignore=Election, ignore=ZINC, ignore=Birth Rate, higher=*"' in question


@pytest.mark.parametrize("columns", ["", "accuracy=acc", "higher=acc"])
def test_a_metric_that_the_user_names_keeps_its_spread(columns: str) -> None:
    table = pd.DataFrame({"model": ["a", "b"], "acc": [91.2, 92.2], "acc_std": [0.3, 0.4]})
    assert read_results(table, columns).results[0].frame["spread"].notna().all()


def test_data_sets_with_another_metric_are_named() -> None:
    table = pd.DataFrame(
        {"dataset": list("aabbcc"), "model": ["x", "y"] * 3, "auc": [0.8, 0.7, 0.9, 0.85, "", ""],
         "rmse": ["", "", "", "", 23.5, 22.1]}
    )  # fmt: skip
    assert any(note.endswith("other metrics are, on c") for note in read_results(table).notes)


def test_accuracies_with_and_against_the_bias_are_not_averaged() -> None:
    table = pd.DataFrame(
        {"method": ["erm", "dfr"], "aligned_accuracy": [0.99, 0.98],
         "bias_conflict_accuracy": [0.52, 0.84], "worst_group_accuracy": [0.1, 0.5]}
    )  # fmt: skip
    assert "'bias_conflict_accuracy' are different metrics" in _question(table)


def test_names_of_runs_that_repeat_other_columns_are_not_parted() -> None:
    lines = [
        (data, s, m) for data in ("wine", "digits") for s in (1, 2) for m in ("grid", "random")
    ]
    table = pd.DataFrame(
        [(*line, f"{line[0]}__{line[2]}__s{line[1]}", 0.1 + 0.01 * n)
         for n, line in enumerate(lines)],
        columns=["dataset", "seed", "method", "run_id", "test_loss"],
    )  # fmt: skip
    assert not any("divided by __" in note for note in read_results(table).notes)


def test_dice_alone_is_a_metric_and_a_detector_among_detectors() -> None:
    alone = pd.DataFrame({"Method": ["U-Net", "nnU-Net"] * 2, "Patient": [1, 1, 2, 2],
                          "Dice": [0.81, 0.83, 0.88, 0.87]})  # fmt: skip
    assert read_results(alone).results[0].metric == "Dice"
    beside = pd.DataFrame({"dataset": ["SVHN", "iSUN"], "MSP": [0.81, 0.71], "DICE": [0.83, 0.7]})
    assert _names(read_results(beside).results[0]) == ["MSP", "DICE"]
