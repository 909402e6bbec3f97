"""Layouts of results files as people publish them: read as they are meant, or asked about."""

import json

import pytest

from oodometer.errors import UserError
from oodometer.tables import read_results


def read(tmp_path, content, name="t.csv", columns=""):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_results(path, columns)


def kinds(reading):
    return {factor.name: factor.kind for factor in reading.results[0].factors}


def means(reading):
    return reading.results[0].frame.groupby("detector")["value"].mean().round(3).to_dict()


def asked(tmp_path, content, name="t.csv", columns=""):
    with pytest.raises(UserError) as question:
        read(tmp_path, content, name, columns)
    return str(question.value)


def test_seeds_and_what_was_found_in_a_run_are_no_part_of_a_name(tmp_path):
    head = "setting,method,seed,alpha,selected_epoch,macro_f1\n"
    rows = ["b32,zero_shot,,,,58.2", "b16,zero_shot,,,,62.8"]
    for setting, shift in (("b32", 0), ("b16", 5)):
        for seed, alpha, epoch in ((0, 0.75, 9), (42, 1.0, 4), (200, 1.0, 7)):
            rows.append(f"{setting},ce,{seed},,{epoch},{60 + shift + seed / 500}")
            rows.append(f"{setting},tuned,{seed},{alpha},{epoch},{65 + shift + seed / 500}")
    reading = read(tmp_path, head + "\n".join(rows))
    assert set(reading.results[0].detectors) == {"zero_shot", "ce", "tuned"}
    assert kinds(reading) == {"setting": "condition", "seed": "repeat"}


def test_rows_of_the_evaluation_set_count_before_those_of_the_development_set(tmp_path):
    rows = [f"{split},{arm},{seed},{value}" for split, value in (("dev", 5.1), ("eval", 11.4))
            for arm in ("hard", "soft") for seed in (1, 2)]  # fmt: skip
    reading = read(tmp_path, "\n".join(["split,arm,seed,eer", *rows]))
    assert means(reading) == {"hard": 0.114, "soft": 0.114}


def test_rounded_measurements_are_no_conditions(tmp_path):
    rows = [f"{data},{model},{seed},{0.7 + seed / 100 + n / 50},{rate}"
            for n, model in enumerate("ab") for data, rate in (("x", ""), ("y", 0.8164))
            for seed in (1, 2)]  # fmt: skip
    rows += [f"z,{model},{seed},0.75,{0.9125 + seed / 100}" for model in "ab" for seed in (1, 2)]
    reading = read(tmp_path, "\n".join(["dataset,model,seed,accuracy,selection_rate", *rows]))
    assert kinds(reading) == {"seed": "repeat"}


def test_a_level_of_json_that_nothing_names_is_asked_about(tmp_path):
    runs = {
        str(n): {
            "model": model,
            "result": {
                "samples_weighted": {"roc_auc": auc},
                "subjects_weighted": {"roc_auc": auc - 0.02},
            },
        }
        for n, (model, auc) in enumerate([("a", 0.72), ("b", 0.61), ("c", 0.75)])
    }
    question = asked(tmp_path, runs, "t.json")
    assert "samples_weighted, subjects_weighted" in question
    for kind in ("condition", "re_evaluation"):
        assert f'{kind}=column 3"' in question
        assert kinds(read(tmp_path, runs, "t.json", f"{kind}=column 3")) == {"column 3": kind}


def test_checkpoint_files_are_no_detectors(tmp_path):
    rows = [f"mnist,{ood},{seed},net_{seed}.pth,0.9{seed}" for ood in ("a", "b") for seed in "123"]
    text = "\n".join(["id_dataset,ood_dataset,seed,model,auroc_ood", *rows])
    reading = read(tmp_path, text, "mine.csv")
    assert reading.results[0].detectors == ("mine",) and kinds(reading) == {"seed": "repeat"}
    assert len(read(tmp_path, text, columns="detector=model").results[0].detectors) == 3


RAW_AND_CALIBRATED = "\n".join(
    ["dataset,model,cal_accuracy,raw_accuracy"]
    + [f"{d},{m},0.8{n},0.7{n}" for d in ("x", "y", "z") for n, m in enumerate("abc")]
)
FRAMES_AND_EVENTS = "arm,seed,frame_f1,event_f1\n" + "\n".join(
    f"{arm},{seed},0.8{seed},0.5{seed}" for arm in ("hard", "soft") for seed in (1, 2, 3)
)
INSIDE_AND_OUTSIDE = "model,iid_auc,ood_auc,delta\nmlp,0.966,0.612,-0.354\ngcn,0.967,0.869,-0.098"


@pytest.mark.parametrize(
    ("table", "metric", "first", "second"),
    [
        (RAW_AND_CALIBRATED, "accuracy", "cal_accuracy", "raw_accuracy"),
        (FRAMES_AND_EVENTS, "F1", "frame_f1", "event_f1"),
        (INSIDE_AND_OUTSIDE, "auroc", "iid_auc", "ood_auc"),
    ],
)
def test_forms_of_the_main_metric_are_asked_about(tmp_path, table, metric, first, second):
    question = asked(tmp_path, table)
    assert f"'{first}' and '{second}'" in question
    highest = set()
    for column in (first, second):
        assert f'--columns "{metric}={column}"' in question
        results = read(tmp_path, table, columns=f"{metric}={column}").results[0]
        assert results.metric == metric and results.frame["value"].nunique() > 1
        highest.add(results.frame["value"].max())
    assert len(highest) == 2
    assert '--columns "condition=*"' in question
    both = read(tmp_path, table, columns="condition=*").results[0]
    assert both.frame["value"].max() == max(highest)


def test_unknown_names_beside_one_of_the_training_domain_are_data_sets(tmp_path):
    head = "Model,In-Domain F1,Hungary F1,Bern F1,Long Beach F1,Mean Cross F1,Worst Target F1\n"
    rows = "tree,.81,.43,.54,.46,.4767,.43\nforest,.84,.70,.70,.71,.7033,.70\n"
    found = read(tmp_path, head + rows).results[0]
    assert set(found.frame["id"]) == {"In-Domain", "Hungary", "Bern", "Long Beach"}


def test_lines_inside_the_records_of_json_know_what_is_around_them(tmp_path):
    models = [
        {
            "model": {"id": f"lab/{name}", "name": name, "provider": {"id": "lab"}},
            "results": [
                {"dataset": {"id": data, "name": data.title()}, "score": score + shift}
                for data, score in (("law", 0.6), ("tax", 0.7), ("code", 0.8))
            ],
        }
        for name, shift in (("small", 0.0), ("large", 0.05))
    ]
    text = "\n".join(map(json.dumps, models))
    assert "'score'" in asked(tmp_path, text, "t.jsonl")
    reading = read(tmp_path, text, "t.jsonl", "higher=score")
    assert len(reading.results[0].detectors) == 2
    assert reading.results[0].frame["id"].nunique() == 3


def test_metrics_beside_lists_of_results_are_no_results(tmp_path):
    content = [
        {
            "meta": {"n_samples": size, "imbalance": ratio},
            "baselines": {"majority_accuracy": 0.63},
            "results": [
                {"dataset": data, "model": model, "test_accuracy": base + n / 50}
                for n, model in enumerate(("tree", "forest", "boosting"))
            ],
        }
        for data, size, ratio, base in (("x", 569, 1.6, 0.9), ("y", 178, None, 0.8))
    ]
    reading = read(tmp_path, content, "t.json")
    assert means(reading) == {"tree": 0.85, "forest": 0.87, "boosting": 0.89}
    assert kinds(reading) == {}


def test_groups_of_models_in_json_are_one_table(tmp_path):
    content = {
        "quantum": [{"model": "vqc", "auc_mean": 0.97, "auc_std": 0.01, "n_qubits": 4}],
        "classical": [{"model": "svm", "auc_mean": 0.99, "auc_std": 0.01},
                      {"model": "knn", "auc_mean": 0.98, "auc_std": 0.02}],
        "meta": {"cv_fold": 5},
    }  # fmt: skip
    assert means(read(tmp_path, content, "t.json")) == {"vqc": 0.97, "svm": 0.99, "knn": 0.98}


def test_a_search_of_scikit_learn_has_a_row_per_configuration_and_fold(tmp_path):
    head = "mean_fit_time,param_C,params,split0_test_score,split1_test_score,split2_test_score,"
    head += "mean_test_score,std_test_score,rank_test_score\n"
    rows = [f"2.7,{c},{{'C': {c}}},{a},{a + 0.02},{a + 0.04},{a + 0.02},0.016,{rank}"
            for c, a, rank in ((0.8, 0.7, 2), (1.0, 0.75, 1))]  # fmt: skip
    table = head + "\n".join(rows)
    assert "accuracy=*" in asked(tmp_path, table)
    reading = read(tmp_path, table, columns="accuracy=*")
    assert means(reading) == {"{'C': 0.8}": 0.72, "{'C': 1.0}": 0.77}
    assert kinds(reading) == {"fold": "repeat"}


def test_the_metric_of_a_line_is_in_the_column_of_scores(tmp_path):
    rows = [f"{data},{model},{metric},{score + n},{(score + n) / scale},0.8"
            for data, metric, score, scale in (("churn", "auc", 0.7, 1), ("trees", "auc", 0.6, 2))
            for n, model in ((0.01, "a"), (0.02, "b"))]  # fmt: skip
    table = "\n".join(["dataset,model,metric_name,score_raw,score_normalized,secondary_r2", *rows])
    question = asked(tmp_path, table)
    assert "'score_raw' and 'score_normalized'" in question
    assert '--columns "ignore=score_normalized"' in question
    reading = read(tmp_path, table, columns="ignore=score_normalized")
    assert reading.results[0].metric == "auroc" and means(reading) == {"a": 0.66, "b": 0.67}


def test_levels_of_noise_alone_are_no_detectors(tmp_path):
    table = "noise_level,n,accuracy,roc_auc\nclean,200,.97,.99\nchar,200,.96,.98\nword,200,.92,.97"
    assert '"detector=noise_level"' in asked(tmp_path, table)


def test_two_metrics_of_one_kind_beside_the_main_one_are_both_kept(tmp_path):
    reading = read(tmp_path, "Model,Accuracy,ECE,MCE\na,.93,.02,.15\nb,.89,.03,.36\nc,.95,.01,.35")
    assert reading.results[0].metric == "accuracy"
    assert len(reading.results) == 3


def test_drops_in_percent_are_no_results(tmp_path):
    table = "Model,clean,blur,fog,blur_drop_pct,fog_drop_pct,avg_drop_pct\n"
    table += "a,.93,.91,.87,.21,.72,.46\nb,.89,.89,.90,.03,.11,.05\n"
    found = read(tmp_path, table, columns="accuracy=*").results[0]
    assert found.frame["value"].min() == 0.87 and len(found.frame) == 6


def test_the_epoch_that_was_best_is_no_condition(tmp_path):
    rows = [f"{m},{seed},{seed % 2 + 7},0.8{seed}" for m in ("a", "b") for seed in (1, 2, 3)]
    table = "\n".join(["model,seed,best_epoch,test_accuracy", *rows])
    assert kinds(read(tmp_path, table, columns="detector=model, repeat=seed")) == {"seed": "repeat"}


def test_a_task_that_is_always_the_same_is_not_asked_about(tmp_path):
    rows = [f"B1,{e},{h},{s},macro_auc,0.{6 + n}{s}" for n, e in enumerate(("mlp", "net"))
            for h in ("softmax", "proto", "knn") for s in (1, 2)]  # fmt: skip
    reading = read(tmp_path, "\n".join(["task,encoder,head,seed,metric,value", *rows]))
    assert set(reading.results[0].detectors) == {"mlp", "net"}
    assert kinds(reading) == {"seed": "repeat", "head": "condition"}


def test_training_accuracy_never_comes_before_the_best_one_in_validation(tmp_path):
    table = "name,best_val_acc,best_train_acc,final_train_acc\na,.92,.998,.996\nb,.90,.997,.995"
    found = read(tmp_path, table).results[0]
    assert set(found.frame["value"]) == {0.92, 0.90}


def test_lists_among_the_settings_of_json_name_no_detectors(tmp_path):
    content = {
        "statistics": {"greedy": {"accuracy": 25.0}, "beam": {"accuracy": 30.0}},
        "config": {"model": "llm", "methods": ["greedy", "beam"]},
    }
    found = read(tmp_path, content, "t.json").results[0]
    assert set(found.detectors) == {"greedy", "beam"}


def test_cutoffs_of_a_ranking_are_metrics_and_no_data_sets(tmp_path):
    table = (
        ",ndcg@5,recall@5,ndcg@10,recall@10\nA,.42,.41,.50,.64\nB,.40,.42,.51,.66\nC,.1,.2,.3,.4"
    )
    question = asked(tmp_path, table)
    assert "'ndcg@5' and 'ndcg@10' are different metrics" in question
    found = read(tmp_path, table, columns="higher=ndcg@10").results[0]
    assert set(found.detectors) == {"A", "B", "C"} and found.frame["value"].max() == 0.51


def test_stations_are_parts_of_a_city_and_aggregates_are_left_out(tmp_path):
    rows = [
        f"{city},{model},{seed},job_{city},{station},{10 + n + m + seed / 10}"
        for city, stations in (("rome", "ab"), ("lima", "cd"))
        for m, model in enumerate(("gcn", "gat"))
        for seed in (1, 2)
        for n, station in enumerate((*stations, "__aggregate__"))
    ]
    text = "\n".join(["city,model,seed,run_id,station,rmse", *rows])
    reading = read(tmp_path, text)
    assert kinds(reading) == {"seed": "repeat", "station": "part"}
    assert set(reading.results[0].frame["id"]) == {"rome", "lima"}
    assert means(reading) == {"gcn": 10.65, "gat": 11.65}
    assert any("summaries over station" in note for note in reading.notes)


def test_a_condition_called_mean_stays(tmp_path):
    rows = [f"{model},{pool},{seed},0.{7 + seed}{n}" for n, model in enumerate(("gcn", "gat"))
            for pool in ("mean", "max") for seed in (1, 2)]  # fmt: skip
    reading = read(tmp_path, "\n".join(["model,pooling,seed,accuracy", *rows]))
    assert kinds(reading) == {"pooling": "condition", "seed": "repeat"}


def test_two_choices_in_titles_are_forms_of_a_metric(tmp_path):
    table = "model,old_frame_f1,old_role_f1,fair_frame_f1,fair_role_f1\n"
    table += "a,.11,.06,.11,.07\nb,.21,.14,.29,.20\n"
    assert '"F1=fair_frame_f1"' in asked(tmp_path, table)


def test_widths_without_names_are_offered_as_what_is_compared(tmp_path):
    rows = [f"{h},{seed},{80 + h + seed},{h * 795},nets/h{h}_s{seed}.pt"
            for h in (4, 8) for seed in (1, 2)]  # fmt: skip
    text = "\n".join(["hidden_size,seed,test_accuracy,macs,checkpoint_path", *rows])
    assert '"detector=hidden_size"' in asked(tmp_path, text)
    found = read(tmp_path, text, columns="detector=hidden_size").results[0]
    assert set(found.detectors) == {"4", "8"} and [f.name for f in found.factors] == ["seed"]


def test_points_of_a_grid_are_no_repeated_runs(tmp_path):
    rows = [f"ridge,{a},0.74{n}" for n, a in enumerate((0.01, 0.28072, 13.7382, 385.662))]
    rows += [f"lasso,{a},0.73{n}" for n, a in enumerate((1.0, 7.27895, 52.9831, 385.662))]
    text = "\n".join(["model,alpha,test_r2", *rows])
    question = asked(tmp_path, text)
    assert "differ in 'alpha'" in question and '"detector=model+alpha"' in question
    assert len(read(tmp_path, text, columns="detector=model+alpha").results[0].detectors) == 8
    assert kinds(read(tmp_path, text, columns="condition=alpha")) == {"alpha": "condition"}


def test_a_detector_without_a_name_beside_others_is_called_as_its_column(tmp_path):
    table = "Dataset,Test Accuracy,Test Accuracy K = 10,Test Accuracy K = 100\n"
    table += "Yoga,.62,.65,.69\nWorms,.51,.64,.68\nWine,.85,.66,.69\n"
    found = read(tmp_path, table).results[0]
    assert set(found.detectors) == {"Test Accuracy", "K 10", "K 100"}


def test_where_each_data_set_has_its_metric_the_most_frequent_decides(tmp_path):
    table = "Dataset,Without,With,Metric\nFactKG,57,65,Accuracy\n"
    table += "Meta-1,73,74,Hits@1\nMeta-2,61,63,Hits@1\nMeta-3,73,75,Hits@1\n"
    reading = read(tmp_path, table)
    assert reading.results[0].metric == "Hits" and len(reading.results) == 2
    assert any("Hits decides" in note for note in reading.notes)
