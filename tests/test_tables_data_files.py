"""Results files as other people's programs write them, tried without options: read, or asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.results import Results
from oodometer.tables.reading import read_results
from oodometer.tables.vocabulary.measures import MEASURES, metric_named


def _question(given: pd.DataFrame | Path) -> str:
    with pytest.raises(UserError) as caught:
        read_results(given)
    return str(caught.value)


def _detectors(results: Results) -> list[str]:
    return [str(name) for name in results.frame["detector"].unique()]


@pytest.mark.parametrize(
    ("title", "metric", "higher"),
    [
        ("mean_absolute_error", "MAE", False), ("Root Mean Squared Error", "RMSE", False),
        ("word error rate", "WER", False), ("test_error", "error rate", False),
        ("Expected Calibration Error", "calibration error", False),
        ("mean absolute percentage error", "MAPE", False),
        ("test_neg_mean_squared_error", "negative error", True),
        ("neg_log_loss", "negative error", True), ("reconstruction_error", "other error", False),
        ("Hit@5", "Hits", True), ("HR@10", "Hits", True), ("mean_return", "return", True),
        ("c_index", "C-index", True),
    ],
)  # fmt: skip
def test_errors_in_words_are_not_shares_of_wrong_answers(
    title: str, metric: str, higher: bool
) -> None:
    assert metric_named(title) == metric and MEASURES[metric].higher is higher


def test_a_standard_error_and_an_attack_are_no_results() -> None:
    assert metric_named("standard_error") == "" and metric_named("attack_success_rate") is None


def _sweep(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_a_method_called_after_a_mean_stays_unless_it_is_one() -> None:
    names = ["fedavg", "trimmed_mean", "krum"]
    table = _sweep(method=names, accuracy=[0.91, 0.95, 0.87], loss=[0.31, 0.22, 0.44])
    assert _detectors(read_results(table).results[0]) == names
    table = _sweep(method=["a", "b", "both mean"], accuracy=[0.91, 0.95, 0.93])
    assert _detectors(read_results(table).results[0]) == ["a", "b"]


def test_which_cutoff_of_a_ranking_decides_is_asked_and_mrr_goes_before() -> None:
    hits = {f"hits@{k}": [0.1 * k / 10 + 0.2, 0.1 * k / 10 + 0.3] for k in (1, 5, 10)}
    asked = _question(_sweep(model=["TransE", "RotatE"], **hits))
    assert "different metrics" in asked and 'higher=hits@5"' in asked
    reading = read_results(_sweep(model=["TransE", "RotatE"], mrr=[0.25, 0.31], **hits))
    assert reading.results[0].metric == "MRR"


def test_the_errors_of_one_model_are_not_compared_with_each_other() -> None:
    numbers = np.random.default_rng(0).uniform(0.3, 0.9, (12, 3))
    table = _sweep(dataset=["Cora"] * 12, ts=[f"11:{n:02d}" for n in range(12)],
                   alpha=numbers[:, 0], accuracy=numbers[:, 1], rel_adj_recon_error=numbers[:, 2],
                   rel_feat_recon_error=numbers[:, 2] - 0.1)  # fmt: skip
    assert "No column names the detector" in _question(table)


@pytest.mark.parametrize("beside", ["score", "predicted_label"])
def test_lines_that_are_samples_are_refused(beside: str) -> None:
    values = np.random.default_rng(1).uniform(size=60)
    truth = ["cat", "dog", "bird"] if beside != "score" else ["True", "False", "False"]
    table = _sweep(ground_truth=truth * 20, **{beside: values.round(3)})
    assert "60 lines seems to be one sample" in _question(table)
    assert "sample" not in _question(table.head(8))  # too few to say


def test_the_conditions_of_one_model_are_not_compared_unasked() -> None:
    table = _sweep(condition=["original", "blur", "jpeg"], accuracy=[0.91, 0.55, 0.82])
    asked = _question(table)
    assert "nothing to compare" in asked and 'detector=condition"' in asked
    assert len(_detectors(read_results(table, "detector=condition").results[0])) == 3


def test_a_benchmark_beside_data_sets_may_be_what_is_compared() -> None:
    rows = [(b, d, s, 0.5 + 0.01 * len(b + d + s)) for b in ("composition", "mixing")
            for d in ("jackson", "ali", "schurch") for s in ("cv", "transfer")]  # fmt: skip
    table = pd.DataFrame(rows, columns=["benchmark", "dataset", "scheme", "auroc"])
    asked = _question(table)
    assert "'benchmark' (2 names)" in asked and "'scheme' (2 names)" in asked
    chosen = read_results(table, "detector=benchmark").results[0]
    assert (
        set(_detectors(chosen)) == {"composition", "mixing"} and chosen.frame["ood"].nunique() == 3
    )


def test_the_backbone_is_not_compared_unasked_where_every_line_has_a_name() -> None:
    table = _sweep(cell=["abl1", "abl5", "aux1", "aux5"], backbone=["r18", "r18", "r18", "r50"],
                   dataset=["c100"] * 4, accuracy=[0.31, 0.52, 0.33, 0.54])  # fmt: skip
    assert "'backbone' (2 names), 'cell' (4 names)" in _question(table)


def _tuned(values: list[list[float]]) -> pd.DataFrame:
    """Five runs of two models on two data sets; `values` of C were used for one of them."""
    noise = np.random.default_rng(2).normal(0, 0.01, 40)
    rows = [(model, data, values[place][run] if model == "svm" else "", 0.8 + noise[run + place])
            for model in ("svm", "tree") for place, data in enumerate(("wine", "iris"))
            for run in range(5)]  # fmt: skip
    return pd.DataFrame(rows, columns=["model", "dataset", "C", "roc_auc"])


def test_what_tuning_found_in_each_run_is_not_part_of_a_name() -> None:
    found = read_results(_tuned([[1, 1, 1, 10, 10], [10, 10, 10, 10, 1]])).results[0]
    assert _detectors(found) == ["svm", "tree"]
    varied = pd.concat([_tuned([[value] * 5, [value] * 5]) for value in (1, 10)])
    varied = varied[(varied["model"] == "svm") | ~varied.duplicated()]
    assert len(_detectors(read_results(varied).results[0])) == 3


_MEANS = {"msp": 0.85, "knn": 0.9, "vim": 0.93}


def _runs(detector: str) -> list[float]:
    return [round(_MEANS[detector] + step, 3) for step in (-0.01, 0.0, 0.013)]


def _written(tmp_path: Path, content: object, name: str = "results.json") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(content))
    return path


def _statistics(detector: str) -> dict[str, object]:
    runs = _runs(detector)
    return {"mean": float(np.mean(runs)), "std": float(np.std(runs)), "n": 3, "values": runs}


def _lines(detector: str) -> list[dict[str, object]]:
    return [{"seed": seed, "auroc": value} for seed, value in enumerate(_runs(detector))]


def _mean(detector: str) -> float:
    return float(np.mean(_runs(detector)))


@pytest.mark.parametrize(
    "content",
    [
        {d: {"auroc": _statistics(d)} for d in _MEANS},
        {d: {"auroc": _runs(d), "auroc_mean": _mean(d), "auroc_std": 0.01} for d in _MEANS},
        {d: {"runs": _lines(d), "mean": {"auroc": 0.9}, "std": {"auroc": 0.01}} for d in _MEANS},
        {"seeds": [0, 1, 2],
         "methods": {d: {"per_seed": _lines(d), "mean_auroc": _mean(d)} for d in _MEANS}},
        [{"method": d, "auroc_runs": _runs(d), "auroc_mean": _mean(d)} for d in _MEANS],
        {"per_seed": {str(n): {d: {"auroc": _runs(d)[n]} for d in _MEANS} for n in range(3)},
         "mean": {d: {"auroc": _mean(d)} for d in _MEANS},
         "std": {d: {"auroc": 0.01} for d in _MEANS}},
    ],
    ids=["statistics", "columns", "objects", "nested", "records", "by seed"],
)  # fmt: skip
def test_runs_are_read_where_their_means_stand_beside_them(tmp_path: Path, content: object) -> None:
    found = read_results(_written(tmp_path, content)).results[0]
    values = found.frame.groupby("detector")["value"].apply(sorted).to_dict()
    assert values == {detector: pytest.approx(_runs(detector)) for detector in _MEANS}
    assert [factor.kind for factor in found.factors] == ["repeat"]


def test_a_history_of_training_is_no_set_of_runs(tmp_path: Path) -> None:
    numbers = [0.5, 0.6, 0.7, 0.8]
    content = {
        m: {"accuracy": numbers, "val_accuracy": numbers[::-1], "loss": numbers} for m in "ab"
    }
    found = read_results(_written(tmp_path, content)).results[0]
    assert found.metric == "val accuracy"
    assert [factor.kind for factor in found.factors] == ["re_evaluation"]


def test_a_table_of_a_json_file_is_picked_by_its_name(tmp_path: Path) -> None:
    main = [{"method": d, "auroc": _MEANS[d]} for d in _MEANS]
    content = {"main": main, "ablation": [{"k": k, "auroc": 0.9 + k / 100} for k in (1, 5, 10)]}
    path = _written(tmp_path, content)
    asked = _question(path)
    assert f"'{path}#main' or '{path}#ablation'" in asked
    assert _detectors(read_results(f"{path}#main").results[0]) == list(_MEANS)
    with pytest.raises(UserError, match="holds no 'other': it has 'main', 'ablation'"):
        read_results(f"{path}#other")
    deeper = _written(tmp_path, {"tables": content, "note": "x"}, "deeper.json")
    assert len(read_results(f"{deeper}#tables/main").results[0].frame) == len(_MEANS)


def test_what_tells_of_settings_and_training_is_no_line_of_its_own(tmp_path: Path) -> None:
    content = {"meta": {"seed": 3}, "ablations": {name: {
        "description": f"{name} at work", "config": {"layers": 2}, "training": {"final_loss": 0.2},
        "evaluation": {"mean_return": value, "std_return": 20.5},
    } for name, value in (("full", -373.5), ("short", -616.9))}}  # fmt: skip
    found = read_results(_written(tmp_path, content)).results[0]
    assert (found.metric, found.higher_is_better) == ("return", True)
    assert found.frame["value"].tolist() == [-373.5, -616.9] and len(found.frame) == 2


def test_curves_beside_metrics_are_no_results(tmp_path: Path) -> None:
    content = {"metrics": {m: {"brier_score": b} for m, b in (("rf", 0.16), ("xgb", 0.15))},
               "calibration_curves": {m: {"prob_true": [0.1, 0.9], "prob_pred": [0.2, 0.8]}
                                      for m in ("rf", "xgb")}}  # fmt: skip
    found = read_results(_written(tmp_path, content)).results[0]
    assert found.metric == "Brier score" and _detectors(found) == ["rf", "xgb"]


def test_names_of_a_level_without_title_are_shown_in_the_question(tmp_path: Path) -> None:
    lines = {c: {"brier": 0.1 + 0.01 * len(c)} for c in ("raw", "platt", "isotonic")}
    content = {d: {s: [{"seed": n, **lines} for n in range(2)] for s in ("random", "scaffold")}
               for d in ("toxa", "toxb")}  # fmt: skip
    path = _written(tmp_path, content)
    asked = _question(path)
    assert "'column 3' (3 names: raw, platt, …)" in asked
    found = read_results(path, "detector=column 3, condition=column 2").results[0]
    assert _detectors(found) == ["raw", "platt", "isotonic"] and len(found.frame) == 24


def test_data_sets_in_the_names_of_experiments_become_a_column() -> None:
    names = [
        f"ad_{d}_{m}_{d}_dm{w}_test_0"
        for d in ("SMD", "MSL", "PSM")
        for m, w in (("Net", 8), ("Former", 64))
    ]
    table = _sweep(experiment_name=names, f1=[0.71, 0.75, 0.81, 0.84, 0.95, 0.93])
    reading = read_results(table)
    assert _detectors(reading.results[0]) == ["Net dm8", "Former dm64"]
    assert set(reading.results[0].frame["id"]) == {"SMD", "MSL", "PSM"}
    assert any("hold data sets" in note for note in reading.notes)


def test_names_without_a_second_data_set_stay_whole() -> None:
    table = _sweep(model=["net_SMD", "former_MSL", "tree_PSM"], accuracy=[0.71, 0.75, 0.81])
    assert _detectors(read_results(table).results[0]) == ["net_SMD", "former_MSL", "tree_PSM"]


def test_the_data_set_of_a_line_is_no_part_of_its_model() -> None:
    rows = [("CNN (torch)", "urls", 0.91), ("CNN (torch) (Phi)", "Phi", 0.95),
            ("SVC", "urls", 0.88), ("SVC (Phi)", "Phi", 0.97)]  # fmt: skip
    reading = read_results(pd.DataFrame(rows, columns=["model", "dataset", "accuracy"]))
    assert _detectors(reading.results[0]) == ["CNN (torch)", "SVC"]
    assert any("SVC (Phi) = SVC" in note for note in reading.notes)
    rows = [("mfe", "mfe_casf"), ("mfe", "mfe_csar"), ("dock", "casf"), ("dock", "csar")]
    table = pd.DataFrame(rows, columns=["Model", "Dataset"]).assign(RMSE=[1.1, 1.2, 1.3, 1.5])
    assert set(read_results(table).results[0].frame["id"]) == {"casf", "csar"}
    other = _sweep(model=["a (x)", "b (y)"], dataset=["x", "y"], accuracy=[0.91, 0.92])
    assert _detectors(read_results(other).results[0]) == ["a (x)", "b (y)"]


@pytest.mark.parametrize(
    ("title", "metric", "higher"),
    [
        ("Elo ↑", "Elo", True),
        ("Regret (lower is better)", "Regret", False),
        ("Fo (↓)", "Fo", False),
    ],
)
def test_a_title_that_says_which_is_better_names_a_metric(
    title: str, metric: str, higher: bool
) -> None:
    found = read_results(_sweep(model=["a", "b"], **{title: [1301, 1402]})).results[0]
    assert (found.metric, found.higher_is_better) == (metric, higher)


def test_unknown_metrics_with_different_directions_are_asked_about() -> None:
    table = _sweep(model=["a", "b"], **{"Elo ↑": [1301.5, 1402.5], "Harm ↓": [12.1, 13.5]})
    asked = _question(table)
    assert "different metrics" in asked
    for option in re.findall(r'--columns "([^"]*)"', asked):
        assert len(read_results(table, option).results[0].frame) == 2


def test_numbers_of_an_unknown_metric_are_named_in_the_question() -> None:
    table = _sweep(model=list("abc"), Elo=[1301.5, 1402.1, 1253.3])
    options = re.findall(r'--columns "([^"]*)"', _question(table))
    assert options == ["higher=Elo", "lower=Elo"]
    assert [read_results(table, o).results[0].higher_is_better for o in options] == [True, False]


@pytest.mark.parametrize(
    ("title", "names"),
    [("attack_type", ["paraphrase", "synonym", "typos"]), ("fname", ["a.csv", "b c.csv", "d.csv"]),
     ("noise level", ["clean", "L1", "L2"]), ("recording", ["x.wav", "y.wav", "z.wav"])],
)  # fmt: skip
def test_lines_that_are_attacks_or_files_of_one_model_are_not_compared(
    title: str, names: list[str]
) -> None:
    asked = _question(_sweep(**{title: names}, smape=[0.11, 0.06, 0.22]))
    assert "nothing to compare" in asked and f'detector={title}"' in asked


def test_a_column_that_names_data_sets_otherwise_is_not_what_is_compared() -> None:
    rows = [(key, runner, name, 0.8 + 0.01 * len(runner + key))
            for key, name in (("rogue", "rogue/bench"), ("jb", "Jail"), ("slabs", "S-Labs/test"))
            for runner in ("guard", "wolf-small", "sentinel")]  # fmt: skip
    columns = ["benchmark_key", "runner", "benchmark", "auc"]
    found = read_results(pd.DataFrame(rows, columns=columns)).results[0]
    assert _detectors(found) == ["guard", "wolf-small", "sentinel"]
    assert found.frame["ood"].nunique() == 3


def test_numbered_runs_inside_names_are_no_columns(tmp_path: Path) -> None:
    runs = {d: {str(n): {"auroc": v} for n, v in enumerate(_runs(d))} for d in _MEANS}
    content = {"threshold": 0.5, "variants": runs}
    path = _written(tmp_path, content)
    asked = _question(path)
    assert "'column 2' numbers 3 levels" in asked
    found = read_results(path, "repeat=column 2").results[0]
    assert _detectors(found) == list(_MEANS) and len(found.frame) == 9


def test_unlike_tables_inside_an_object_are_asked_about(tmp_path: Path) -> None:
    first = {"CIFAR-10": {"ttc": 27.9, "nac": 30.9}, "DTD": {"ttc": 26.5, "nac": 29.7}}
    second = {"steps_2": {"stl": 17.4, "svhn": 3.1}, "steps_4": {"stl": 34.3, "svhn": 9.1}}
    content = {"table1": first, "table2": second, "seed": 0}
    path = _written(tmp_path, content)
    assert f"'{path}#table1' or '{path}#table2'" in _question(path)
    assert len(read_results(f"{path}#table1", "detector=*, higher=*").results[0].frame) == 4


def test_bins_that_explain_a_result_are_no_lines(tmp_path: Path) -> None:
    bins = [
        {"n": 359, "predicted": 0.1, "accuracy": 0.2},
        {"n": 358, "predicted": 0.3, "accuracy": 0.4},
    ]
    content = {
        m: {"auc": v, "brier": 0.1, "reliability": bins} for m, v in (("rf", 0.84), ("cox", 0.82))
    }
    found = read_results(_written(tmp_path, content)).results[0]
    assert found.metric == "auroc" and found.frame["value"].tolist() == [0.84, 0.82]


def test_titles_in_camel_case_name_metrics_and_methods_do_not() -> None:
    assert [metric_named(t) for t in ("ValLoss", "TestAccuracy", "MacroF1")] == [
        "loss",
        "accuracy",
        "F1",
    ]
    assert metric_named("FocalLoss") is None


def test_no_question_offers_hashes_or_measurements_as_what_is_compared() -> None:
    hashes = ["4fffeffda10a", "aa169e46999c", "e4b08846326d"]
    table = _sweep(run_id=hashes, accuracy=[0.78, 0.83, 0.81],
                   drift=[0.0285714, 0.0571428, 0.0914285])  # fmt: skip
    asked = _question(table)
    assert "run_id" not in asked and "drift" not in asked


def test_numbers_that_cannot_be_accuracies_are_not_called_so() -> None:
    table = _sweep(episode=list(range(1, 7)),
                   dqn_score=[-251.7, -241.9, -250.2, -249.4, -252.0, -244.1],
                   ddqn_score=[-249.1, -251.1, -240.7, -248.8, -243.3, -239.9])  # fmt: skip
    asked = _question(table)
    assert "accuracy" not in asked and "episode" not in asked
    found = read_results(table, "detector=*, higher=*").results[0]
    assert _detectors(found) == ["dqn_score", "ddqn_score"]
    assert [factor.kind for factor in found.factors] == ["re_evaluation"]


def test_top_1_accuracy_decides_beside_top_5() -> None:
    table = _sweep(model=["a", "b"], top1_accuracy=[0.71, 0.73], top5_accuracy=[0.95, 0.93])
    assert [r.metric for r in read_results(table).results] == ["accuracy", "top-5 accuracy"]


def test_a_pointer_of_git_lfs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:73ad\nsize 4941\n")
    assert "git lfs pull" in _question(path)


def test_a_metric_without_a_set_is_not_that_on_another_column_s_set() -> None:
    table = _sweep(method=["otsu", "unet"], iou=[0.23, 0.82], bolivia_iou=[0.4, 0.77],
                   f1=[0.37, 0.9], bolivia_f1=[0.57, 0.87])  # fmt: skip
    found = read_results(table, "F1=f1").results[0]
    assert found.metric == "F1" and found.frame["value"].tolist() == [0.37, 0.9]
    assert not found.factors and "bolivia" not in found.frame.to_string()
    on_part = read_results(table, "F1=bolivia_f1").results
    assert [r.frame["value"].tolist() for r in on_part] == [[0.57, 0.87], [0.4, 0.77]]
    assert all(set(r.frame["id"]) == {"bolivia"} for r in on_part)
