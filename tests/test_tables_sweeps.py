"""Exports of people's own sweeps: names of runs, costs, tuned settings, several tables in JSON."""

import json

import pytest
from file_reading import asked, kinds, means, read
from typer.testing import CliRunner

from oodometer.analysis import analyze
from oodometer.cli import app
from oodometer.errors import UserError
from oodometer.factors import by_title
from oodometer.tables import read_results

RUNS = [
    {"seed": seed, "model": model, "accuracy": 0.8 + seed / 100 + (model == "new") / 20}
    for model in ("old", "new")
    for seed in (1, 2, 3)
]


@pytest.mark.parametrize(
    "others",
    [
        {"aggregate": [{"model": "old", "accuracy": 0.82}, {"model": "new", "accuracy": 0.87}]},
        {"summary": {"old": {"accuracy": 0.82}, "new": {"accuracy": 0.87}}},
        {"paired_differences": [{"metric": "accuracy", "mean": 0.05}]},
        {"deltas": {"accuracy": {"mean": 0.05, "p": 0.01}}},
        {"config": {"algorithm": "new, diagonal", "seeds": [1, 2, 3], "epochs": 10}},
    ],
)
def test_tables_that_are_computed_from_others_in_json_are_no_results(tmp_path, others):
    reading = read(tmp_path, {"runs": RUNS, **others}, "t.json")
    assert means(reading) == {"old": 0.82, "new": 0.87}
    assert kinds(reading) == {"seed": "repeat"} and len(reading.results[0].frame) == 6


def test_all_computed_tables_in_json_are_left_out_together(tmp_path):
    content = {"config": {"dataset": "letters"}, "runs": RUNS, "statistics": [{"accuracy": 0.8}],
               "best_by_model": [{"model": "new", "accuracy": 0.9}], "note": ""}  # fmt: skip
    assert len(read(tmp_path, content, "t.json").results[0].frame) == 6


def test_means_beside_their_spreads_in_json_stay(tmp_path):
    content = {"mean": {"msp": {"auroc": 0.9}, "knn": {"auroc": 0.8}},
               "std": {"msp": {"auroc": 0.01}, "knn": {"auroc": 0.02}}}  # fmt: skip
    assert means(read(tmp_path, content, "t.json")) == {"msp": 0.9, "knn": 0.8}


def test_details_beside_the_metrics_of_a_model_are_no_lines(tmp_path):
    content = {
        f"Exp {n}": {
            "accuracy": accuracy,
            "confusion_matrix": {"tp": 3, "tn": n},
            "per_class": {"cat": {"f1": 0.5}, "dog": {"f1": 0.6}},
            "model_name": model,
        }
        for n, (model, accuracy) in enumerate([("tree", 0.7), ("forest", 0.8)])
    }
    assert means(read(tmp_path, content, "t.json")) == {"tree": 0.7, "forest": 0.8}


def test_results_of_sets_beside_a_mean_in_json_stay_lines(tmp_path):
    content = {d: {"auroc": 0.85, "SVHN": {"auroc": v}, "LSUN": {"auroc": v + 0.1}}
               for d, v in (("msp", 0.8), ("knn", 0.7))}  # fmt: skip
    assert len(read(tmp_path, content, "t.json").results[0].frame) == 4


def test_numbers_by_name_in_json_are_asked_about_or_read(tmp_path):
    content = {"plain": 0.468, "defended": 0.472}
    assert 'accuracy=*"' in asked(tmp_path, content, "t.json")
    assert means(read(tmp_path, content, "t.json", "accuracy=*")) == {
        "plain": 0.468,
        "defended": 0.472,
    }


def test_metrics_of_one_run_in_each_json_file_are_lines(tmp_path):
    for model, value in (("cnn", 0.8), ("vit", 0.9)):
        for seed in (0, 1):
            folder = tmp_path / model / f"seed{seed}"
            folder.mkdir(parents=True)
            text = json.dumps({"accuracy": value + seed / 100, "f1": value, "epochs": 3})
            (folder / "metrics.json").write_text(text)
    reading = read_results(tmp_path)
    assert means(reading) == {"cnn": 0.805, "vit": 0.905} and kinds(reading) == {"seed": "repeat"}


def test_json_without_a_table_says_what_it_has(tmp_path):
    assert "it has 'name', 'tags'" in asked(tmp_path, {"name": "x", "tags": ["a"]}, "t.json")
    assert "holds no table" in asked(tmp_path, {"lr": 0.5, "momentum": 0.9}, "t.json")


def test_json_of_data_sets_is_not_taken_for_models(tmp_path):
    content = {name: {"accuracy": 0.66} for name in ("truthfulqa", "hover", "halubench")}
    question = asked(tmp_path, content, "t.json")
    assert "data sets of one model" in question and 'detector=column 1"' in question
    assert len(read(tmp_path, content, "t.json", "detector=column 1").results[0].detectors) == 3


def test_names_of_runs_that_are_made_of_other_columns_tell_nothing(tmp_path):
    rows = [f"{data}_{model}_{act},{data},{model},{act},{0.8 + n / 10 + len(act) / 100}"
            for data in ("mnist", "letters", "digits") for n, model in enumerate(("lenet", "mlp"))
            for act in ("relu", "tanh", "swish")]  # fmt: skip
    text = "\n".join(["experiment_name,dataset,model,activation,accuracy", *rows])
    reading = read(tmp_path, text)
    assert kinds(reading) == {"activation": "condition"}
    why = dict(reading.columns)["experiment_name"]
    assert why == "not used: made of dataset, model and activation"


def test_a_model_is_asked_about_before_the_name_of_the_run(tmp_path):
    rows = [f"{m}-{k}-{s},{m},{k},{s},{0.7 + s / 100 + len(k) / 50}"
            for m, names in (("full", "AB"), ("prompt", "CD"), ("lora", "EF"))
            for k in names for s in (1, 2)]  # fmt: skip
    question = asked(tmp_path, "\n".join(["run_label,method,engine,seed,accuracy", *rows]))
    assert "differ in 'engine'" in question


def test_seconds_are_costs_whatever_is_timed(tmp_path):
    rows = [f"{dim},{model},{seed},{0.7 + seed / 100 + n / 20},{0.0 if dim == 512 else seed + 0.5}"
            for dim in (512, 256) for n, model in enumerate(("linear", "tree"))
            for seed in (1, 2, 3)]  # fmt: skip
    text = "\n".join(["feature_dim,classifier,seed,accuracy,projection_sec", *rows])
    assert kinds(read(tmp_path, text)) == {"feature_dim": "condition", "seed": "repeat"}


def test_what_was_found_by_tuning_is_no_condition_beside_whether_it_was_tuned(tmp_path):
    rows = [f"{data},{d},{tier},{f'w={n} {d}' * (tier == 'tuned')},{0.5 + n / 20 + len(d) / 50}"
            for n, data in enumerate(("a", "b", "c")) for d in ("iforest", "lof", "knn")
            for tier in ("default", "tuned")]  # fmt: skip
    text = "\n".join(["dataset,detector,tier,config,vus_pr", *rows])
    assert kinds(read(tmp_path, text)) == {"tier": "condition"}


def test_a_false_positive_rate_beside_recall_is_not_that_at_95_percent(tmp_path):
    rows = [f"{m},{r},{0.9 + n / 100},{0.8 + r},{0.7},{0.3 - n / 10}"
            for n, m in enumerate(("fedavg", "krum")) for r in (0.0, 0.1)]  # fmt: skip
    text = "\n".join(["method,malicious,accuracy,recall,precision,fpr", *rows])
    assert read(tmp_path, text).results[0].metric == "accuracy"
    ood = read(tmp_path, "method,ood,FPR,AUROC\nmsp,svhn,40,90\nknn,svhn,30,92\n")
    assert [results.metric for results in ood.results] == ["auroc", "fpr95"]


def test_results_on_single_classes_name_no_detectors(tmp_path):
    text = "dataset,classifier,accuracy,f1_class_0,f1_class_1\npima,tree,0.7,0.8,0.6\n"
    assert "nothing" in asked(tmp_path, text) or "No column" in asked(tmp_path, text)
    two = read(tmp_path, text + "pima,forest,0.8,0.8,0.7\n")
    assert means(two) == {"tree": 0.7, "forest": 0.8}


def test_a_metric_with_a_unit_is_known(tmp_path):
    rows = "painn,43.5,1,2,135\ntfn,58.6,2,1,184\nbase,55.6,1,4,111\n"
    reading = read(tmp_path, "model,test_mae_kcal,l_max,cutoff,rounds\n" + rows)
    assert reading.results[0].metric == "MAE" and not reading.results[0].higher_is_better


def test_checkpoints_of_other_models_are_no_moments_of_training():
    assert by_title("checkpoint", ["ViT-B/32", "ViT-B/16"]).kind == "condition"
    for levels in (["best", "last"], ["1000", "2000"], ["epoch_10", "epoch_20"]):
        assert by_title("checkpoint", levels).kind == "re_evaluation"


def test_names_divided_by_two_underscores_are_split(tmp_path):
    content = {f"{data}__{model}__seed{seed}": {"auroc": 0.8 + n / 10 + seed / 100, "f1": 0.7}
               for data in ("one", "two") for n, model in enumerate(("resnet18", "xception"))
               for seed in (1, 2, 3)}  # fmt: skip
    reading = read(tmp_path, content, "t.json", "detector=column 1.2, id=column 1")
    assert kinds(reading) == {"seed": "repeat"}
    assert means(reading) == {"resnet18": 0.82, "xception": 0.92}


def test_rows_without_numbers_are_no_lines_of_a_detector(tmp_path):
    text = "Method,Group,Accuracy,AUC\nA,base,.8,.9\nSum,base,,\nB,more,.7,.8\nSum,more,,\n"
    reading = read(tmp_path, text)
    assert reading.results[0].detectors == ("A", "B")
    assert "rows without any number were left out: 2" in reading.notes


def test_numbers_in_several_precisions_are_asked_about(tmp_path):
    text = "model,psnr_f32,psnr_int8\nsmall,30.9,30.7\nlarge,31.4,30.8\n"
    question = asked(tmp_path, text)
    for column in ("psnr_f32", "psnr_int8"):
        assert f"higher={column}" in question
        assert len(read(tmp_path, text, columns=f"higher={column}").results[0].frame) == 2


def test_settings_are_offered_where_nothing_else_can_be_compared(tmp_path):
    rows = [f"{data},{alpha},{seed},{0.8 + alpha / 10 + seed / 100}"
            for data in ("ecg", "har") for alpha in (0.0, 0.5) for seed in (1, 2)]  # fmt: skip
    text = "\n".join(["dataset,alpha,seed,accuracy", *rows])
    assert 'detector=alpha"' in asked(tmp_path, text)
    assert means(read(tmp_path, text, columns="detector=alpha")) == {"0.0": 0.815, "0.5": 0.865}


def test_unnamed_numbers_in_several_forms_have_options_that_can_be_given(tmp_path):
    rows = [
        f"{m},{data},{seed},{20 + n + seed / 3:.2f},{50 - n - seed / 7:.2f}"
        for n, m in enumerate(("er", "ewc"))
        for data in ("cord", "sroie")
        for seed in (1, 2)
    ]
    text = "\n".join(["method,dataset,seed,AA,AF", *rows])
    assert 'higher=AA"' in asked(tmp_path, text)
    assert read(tmp_path, text, columns="higher=AA").results[0].metric == "AA"


def test_data_sets_of_classifiers_are_those_of_training(tmp_path):
    rows = [
        f"{data},{m},{seed},{0.9 + n / 50 + seed / 100},{0.8 + n / 50},{0.5 + n / 50}"
        for data in ("b3db", "bbbp")
        for n, m in enumerate(("gat", "gin"))
        for seed in (1, 2)
    ]
    text = "\n".join(["dataset,model,seed,test_roc_auc,test_f1,test_mcc", *rows])
    assert set(read(tmp_path, text).results[0].frame["id"]) == {"b3db", "bbbp"}


def test_methods_that_hardly_share_a_model_are_asked_about(tmp_path):
    alone = [("tfidf", "linear", "full"), ("offshelf", "robertuito", "full"),
             ("finetuned", "beto", "full"), ("finetuned", "xlmr", "full"),
             ("zeroshot", "qwen", "full"), ("fewshot", "qwen", "full")]  # fmt: skip
    adapted = [(method, engine, share) for method in ("lora", "dora")
               for engine in ("qwen", "qwen-large") for share in ("4", "16")]  # fmt: skip
    rows = [f"{method},{engine},{share},{seed},{0.6 + len(method) / 50 + seed / 100}"
            for method, engine, share in alone + adapted for seed in (1, 2, 3)]  # fmt: skip
    text = "\n".join(["method,engine,data_fraction,seed,accuracy", *rows])
    question = asked(tmp_path, text)
    assert "share a 'engine'" in question
    for option, detectors in (("detector=method+engine", 10), ("condition=engine", 7)):
        assert f'{option}"' in question
        assert len(read(tmp_path, text, columns=option).results[0].detectors) == detectors


def test_a_target_that_few_lines_have_is_no_outlier_set(tmp_path):
    rows = [f"{m},{seed},{0.5 + n / 10 + seed / 50},{'head' if m == 'ours' else ''}"
            for n, m in enumerate(("er", "ewc", "ours")) for seed in (1, 2)]  # fmt: skip
    reading = read(tmp_path, "\n".join(["method,seed,accuracy,target", *rows]))
    assert means(reading) == {"er": 0.53, "ewc": 0.63, "ours": 0.73}


def on_clean_and_noisy(lead):
    """Three seeds of two models on clean and noisy data; the lead on noisy ones varies by seed."""
    rows = [(model, seed, condition, 0.88 - 0.1 * (condition == "noisy") + seed / 500
             + (model == "new") * lead[seed - 1])
            for model in ("old", "new") for seed in (1, 2, 3)
            for condition in ("clean", "noisy", "dark", "blurred")]  # fmt: skip
    lines = [f"{m},{s},{c},{v:.4f}" for m, s, c, v in rows]
    return "\n".join(["model,seed,condition,accuracy", *lines])


def test_a_lead_that_rests_on_an_assumed_kind_is_asked_about(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(on_clean_and_noisy((0.03, 0.005, 0.02)))
    with pytest.raises(UserError) as question:
        analyze(path)
    assert "The answer depends on what 'condition' is (clean, noisy, …)" in str(question.value)
    done = CliRunner().invoke(app, ["analyze", str(path), "--out", str(tmp_path / "out")])
    assert str(done.exception) == str(question.value), "the command asks what the function asks"
    answers = {}
    for kind in ("condition", "re_evaluation"):
        assert f'{kind}=condition"' in str(question.value)
        answers[kind] = analyze(path, columns=f"{kind}=condition")[0].answer
    assert answers["condition"].startswith("Use new: ")
    assert answers["re_evaluation"].startswith("new and old are not separable")


def test_a_lead_that_holds_either_way_is_not_asked_about(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(on_clean_and_noisy((0.03, 0.031, 0.029)))
    (finding, *_) = analyze(path)
    assert finding.answer.startswith("Use new: ")
    assert any(text.startswith("condition is read as a condition;") for _, text in finding.reading)


def test_choices_before_training_are_conditions(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(on_clean_and_noisy((0.03, 0.005, 0.02)).replace("condition", "loss", 1))
    assert analyze(path)[0].answer.startswith("Use new: ")


@pytest.mark.parametrize("title", ["temperature", "distance_level", "k", "place"])
def test_settings_that_may_be_of_the_evaluation_are_asked_about(tmp_path, title):
    path = tmp_path / "t.csv"
    text = on_clean_and_noisy((0.03, 0.005, 0.02)).replace("condition", title, 1)
    for level, word in enumerate(("clean", "noisy", "dark", "blurred"), start=1):
        text = text.replace(word, str(level))
    path.write_text(text)
    with pytest.raises(UserError, match=f"depends on what '{title}' is"):
        analyze(path)
    path.write_text(text.replace(title, "epochs", 1))
    assert analyze(path)[0].answer.startswith("Use new: ")
