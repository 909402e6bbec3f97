"""Files of experiments on machine learning at large: what names do not settle is asked."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.results import Results
from oodometer.tables.reading import read_results
from oodometer.tables.vocabulary.measures import metric_named


def _question(table: pd.DataFrame, columns: str = "") -> str:
    with pytest.raises(UserError) as caught:
        read_results(table, columns)
    return str(caught.value)


def _answers(table: pd.DataFrame, columns: str = "") -> dict[str, Results]:
    """Follow every option that the question about a table names."""
    options = re.findall(r'--columns "([^"]+)"', _question(table, columns))
    return {option: read_results(table, option).results[0] for option in options}


def _compared(results: Results) -> list[str]:
    return [str(name) for name in results.frame["detector"].unique()]


def _kinds(results: Results) -> dict[str, str]:
    return {factor.name: factor.kind for factor in results.factors}


def _grid(**levels: list[object]) -> pd.DataFrame:
    """Every combination of some levels, with an accuracy that differs from line to line."""
    lines = list(product(*levels.values()))
    table = pd.DataFrame(lines, columns=list(levels)).astype(str)
    return table.assign(accuracy=[f"{0.7 + 0.013 * (7 * n % 17):.3f}" for n in range(len(lines))])


def test_settings_of_a_metric_and_names_of_combinations_are_no_metrics() -> None:
    assert metric_named("ece_bins") == "" and metric_named("ECE (15 bins)") == "calibration error"
    assert metric_named("ece15") == "calibration error"
    assert metric_named("ROCKET-10k+HCF-6+Inception-ppv+mpv") is None
    assert metric_named("MSP+ReAct AUROC") == "auroc"


def test_classifiers_above_data_sets_beside_one_called_accuracy_are_asked_about() -> None:
    table = pd.DataFrame(
        {
            "dataset": ["Adiac", "Beef", "Coffee", "Haptics"],
            "R-10+H-6+I-ppv": ["0.81", "0.74", "0.99", "0.51"],
            "R-10+H-6+I-mpv": ["0.79", "0.71", "0.98", "0.52"],
            "accuracy": ["0.78", "0.73", "0.97", "0.55"],
        }
    )
    answers = _answers(table)
    assert [len(_compared(results)) for results in answers.values()] == [3]
    assert {results.metric for results in answers.values()} == {"accuracy"}


def test_results_on_two_parts_of_the_data_are_not_one_data_set() -> None:
    table = pd.DataFrame(
        {
            "algorithm": ["rf", "svm", "dnn"],
            "test_roc_auc_score": ["0.92", "0.89", "0.93"],
            "blend_roc_auc_score": ["0.87", "0.82", "0.86"],
        }
    )
    best = {
        option: results.frame.loc[results.frame["value"].idxmax(), "detector"]
        for option, results in _answers(table).items()
    }
    assert best == {"auroc=test_roc_auc_score": "dnn", "auroc=blend_roc_auc_score": "rf"}


def test_a_mean_over_seeds_is_not_one_over_other_columns() -> None:
    table = pd.DataFrame(
        {
            "method": ["a", "b", "c"],
            "n_seeds": ["3", "3", "10"],
            "acc_mean": ["38.8", "40.3", "44.0"],
            "acc_std": ["0.4", "0.6", "0.5"],
            "base_acc": ["40.3", "40.3", "40.3"],
        }
    )
    results = _answers(table)["accuracy=acc_mean"]
    assert results.frame["value"].max() == pytest.approx(0.44)
    assert results.frame["spread"].tolist() == pytest.approx([0.004, 0.006, 0.005])


def test_spreads_of_unknown_quantities_are_no_readings() -> None:
    table = pd.DataFrame(
        {
            "method": ["cqr", "aci"] * 2,
            "dataset": ["x", "x", "y", "y"],
            "coverage_mean": ["0.89", "0.90", "0.91", "0.88"],
            "coverage_std": ["0.01", "0.02", "0.01", "0.03"],
            "interval_mean": ["1.22", "1.16", "2.75", "2.72"],
            "interval_std": ["0.28", "0.04", "0.05", "0.09"],
            "winkler_mean": ["8.72", "12.4", "3.94", "3.93"],
            "winkler_std": ["1.80", "1.63", "0.01", "0.02"],
        }
    )
    question = _question(table)
    assert "winkler_mean" in question and "lower=" in question and "_std" not in question


def test_a_rank_of_words_is_a_choice() -> None:
    table = _grid(model=["custom", "resnet"], dataset=["x", "y", "z"], rank=["min", "q2", "max"])
    assert _kinds(read_results(table).results[0]) == {"rank": "condition"}


RUNS = ["base_4bit", "base_8bit", "tuned_4bit_sql", "tuned_8bit_sql", "tuned_8bit_chat"]


def test_names_of_runs_may_be_what_is_compared() -> None:
    table = pd.DataFrame(
        {
            "run": RUNS,
            "quant_bits": ["4", "8", "4", "8", "8"],
            "mode": ["base", "base", "tuned", "tuned", "tuned"],
            "mmlu": ["55.9", "57.7", "54.4", "56.1", "56.6"],
            "hellaswag": ["63.9", "64.8", "63.2", "64.2", "64.3"],
            "winogrande": ["69.0", "68.2", "69.1", "69.4", "70.5"],
            "avg": ["62.93", "63.57", "62.23", "63.23", "63.8"],
            "forgetting_score": ["0.0", "0.0", "2.88", "2.7", "-1.32"],
        }
    )
    results = _answers(table)["detector=run, higher=*"]
    assert _compared(results) == RUNS
    assert sorted(results.frame["id"].unique()) == ["hellaswag", "mmlu", "winogrande"]


def test_numbered_runs_stay_repeats() -> None:
    table = _grid(mode=["base", "tuned"], run=["run 1", "run 2", "run 3"])
    results = read_results(table, "detector=mode").results[0]
    assert _kinds(results) == {"run": "repeat"}


def test_titles_that_are_splits_alone_are_asked_about() -> None:
    numbers = {split: [f"0.8{n}{k}" for n in range(5)] for k, split in enumerate(["dev", "test"])}
    table = pd.DataFrame({"run": RUNS, **numbers})
    assert "higher=test" in _question(table)
    assert _compared(_answers(table, "higher=test")["higher=test, detector=run"]) == RUNS


def test_calibrators_of_models_are_asked_about() -> None:
    table = _grid(model=["tree", "logistic"], calibrator=["raw", "Platt"], fold=[0, 1, 2])
    found = {option: len(_compared(results)) for option, results in _answers(table).items()}
    assert found == {"detector=model": 2, "detector=calibrator": 2}


def test_words_with_numbers_of_other_scales_are_data_sets_perhaps() -> None:
    table = _grid(encoder=["schnet", "gotennet"], case=["homo", "aspirin", "gap"], seed=[1, 2])
    scale = table["case"].map({"homo": 0.01, "aspirin": 4.0, "gap": 0.2})
    table = table.assign(
        test_mae=(scale * table.pop("accuracy").astype(float)).map("{:.4f}".format)
    )
    answers = _answers(table)
    assert answers["id=case"].frame["id"].nunique() == 3
    assert _kinds(answers["condition=case"])["case"] == "condition"


def test_settings_that_leave_a_method_alone_are_asked_about() -> None:
    table = _grid(method=["prefix", "prompt", "full tuning"], n_train=[100, 500, 1000])
    tokens = table["method"].map({"prefix": "50", "prompt": "50", "full tuning": "0"})
    epochs = table["method"].map({"prefix": "12", "prompt": "12", "full tuning": "5"})
    extra = table.iloc[3:5].assign(accuracy=["0.61", "0.62"])  # an ablation of the prompt
    table = pd.concat([table.assign(tokens=tokens, n_passes=epochs), extra.assign(
        tokens=["10", "20"], n_passes=["12", "5"])])  # fmt: skip
    answers = _answers(table.reset_index(drop=True))
    left_out = next(option for option in answers if option.startswith("ignore="))
    assert "tokens" in left_out and "n_train" not in left_out
    assert len(answers) == 2 and "n_train" in _kinds(answers[left_out])


def test_a_reference_that_every_line_repeats_is_asked_about() -> None:
    table = pd.DataFrame(
        {
            "Feature_Group": ["texture", "frequency", "wavelet", "cnn"],
            "Full_AUC": ["0.98"] * 4,
            "Ablated_AUC": ["0.98", "0.97", "0.95", "0.75"],
            "AUC_Drop": ["0.0", "0.01", "0.03", "0.23"],
        }
    )
    compared = {option: _compared(results) for option, results in _answers(table).items()}
    assert compared == {
        "detector=Feature_Group, auroc=Ablated_AUC": ["texture", "frequency", "wavelet", "cnn"],
        "detector=*": ["Full", "Ablated"],
    }


def test_the_mean_over_classes_is_among_the_forms_of_a_metric() -> None:
    numbers = {
        f"{split}_{what}": [f"0.9{n}{k}" for n in range(6)]
        for k, (split, what) in enumerate(
            product(["val", "test"], ["macro_auc", "micro_auc", "auc_NORM", "auc_MI"])
        )
    }
    table = pd.DataFrame({"tag": ["half", "full"] * 3, "seed": list("001122"), **numbers})
    assert (
        len(_compared(_answers(table, "detector=tag")["detector=tag, auroc=test_macro_auc"])) == 2
    )


def test_of_columns_that_say_the_same_words_stay() -> None:
    table = _grid(Model=["tree", "forest"], Sex=["women", "men"], Outcome=["a", "b"])
    patients = table["Sex"].map({"women": "4632", "men": "4207"})
    kinds = _kinds(read_results(table.assign(**{"N train": patients})).results[0])
    assert kinds == {"Sex": "condition", "Outcome": "condition"}


def test_titles_of_methods_and_quantities_are_compared_if_their_columns_are_named() -> None:
    lines = {
        "dataset": [*"aabb"],
        "seed": [*"0101"],
        "accuracy": ["0.68", "0.69", "0.86", "0.81"],
        **{f"{m}_size": [f"{n + k}.2{k}" for k in range(4)] for n, m in enumerate(["cp", "geo"])},
        **{f"{m}_cov": [f"0.9{n}{k}" for k in range(4)] for n, m in enumerate(["cp", "geo"])},
    }
    table = pd.DataFrame(lines)
    assert "name all columns of one metric" in _question(table)
    results = read_results(table, "detector=*, lower=cp_size, lower=geo_size").results[0]
    assert _compared(results) == ["cp_size", "geo_size"] and not results.higher_is_better


def test_dates_of_numbered_folds_and_tests_are_no_results() -> None:
    table = pd.DataFrame(
        {
            "fold": [*"123"],
            "train_end": ["2010-10-01 00:00:00", "2010-11-01 00:00:00", "2010-12-01 00:00:00"],
            "loss_naive": ["10.17", "8.52", "23.93"],
            "loss_lgb": ["2.65", "2.55", "6.15"],
            "dm_naive_vs_lgb_stat": ["8.26", "7.90", "2.72"],
            "dm_naive_vs_lgb_pval": ["0.001", "0.002", "0.006"],
        }
    )
    results = _answers(table)["detector=*"]
    assert _compared(results) == ["naive", "lgb"] and _kinds(results) == {"fold": "repeat"}


def test_forms_of_one_metric_among_many_metrics_are_no_data_sets() -> None:
    table = pd.DataFrame(
        {
            "tool": ["RAW", "ALRA", "MAGIC"],
            **{
                title: [f"0.{n}{k}1" for n in (5, 7, 6)]
                for k, title in enumerate(
                    ["Bulk_AUPRC", "AUPRC (cells)", "DEG AUPRC", "ARI", "NMI"]
                )
            },
            "Specificity": ["0.44", "0.76", "0.83"],
        }
    )
    answers = _answers(table, "detector=tool")
    assert "detector=tool, AUPR=DEG AUPRC" in answers


def test_results_against_originals_and_references_are_two_forms() -> None:
    table = pd.DataFrame(
        {
            "method": ["macenko", "reinhard", "zeng"],
            **{
                f"{metric}_{of}": [f"{n}.{k}" for n in (14, 18, 16)]
                for k, (metric, of) in enumerate(
                    product(["PSNR", "MAE"], ["original", "reference"])
                )
            },
        }
    )
    assert "PSNR=PSNR_original" in _answers(table)


def test_parts_of_a_file_that_are_left_out_are_named(tmp_path: Path) -> None:
    runs = [{"model": m, "seed": s, "accuracy": 0.9 + s / 50} for m in "ab" for s in range(3)]
    file = tmp_path / "runs.json"
    file.write_text(json.dumps({"runs": runs, "aggregate": [{"model": "a", "accuracy": 0.92}]}))
    assert any("left out: aggregate; runs.json#aggregate" in n for n in read_results(file).notes)
    arms = [{"arm": a, "why": f"because {a}", "coverage": 0.9, "gap": 0.1} for a in ("x", "y", "z")]
    methods = {m: {"accuracy_mean": 0.9, "accuracy_std": 0.1} for m in ("cqr", "aci")}
    file.write_text(json.dumps({"arms": arms, "aggregates": {"by_method": methods}}))
    with pytest.raises(UserError, match="runs.json#aggregates reads it alone"):
        read_results(file)


def test_a_line_without_a_name_says_where(tmp_path: Path) -> None:
    models = {
        "a": {"name": "A", "metrics": {"auc": 0.8}},
        "b": {"name": "B", "metrics": {"auc": 0.7}},
    }
    file = tmp_path / "models.json"
    file.write_text(json.dumps({"seed": 1, "baseline": {"auc": 0.5}, "models": models}))
    with pytest.raises(UserError, match="FILE.json#NAME"):
        read_results(file)
    assert _compared(read_results(Path(f"{file}#models")).results[0]) == ["A", "B"]
