"""Results files as people keep them: what columns, counts and names of ordinary ones mean."""

import pytest
from file_reading import asked, kinds, means, read

from oodometer.analysis import analyze
from oodometer.factors import by_title


def metrics(reading):
    return [results.metric for results in reading.results]


def lines(*rows):
    return "\n".join(rows) + "\n"


def test_the_rank_of_adapters_is_no_rank_of_results(tmp_path):
    rows = [
        f"{method}_r{rank}_{seed}_{1700 + n},{method},{rank},{seed},0.{base + seed + n % 3}"
        for n, (method, rank, base) in enumerate(
            [("full", "", 90), ("lora", 8, 80), ("lora", 16, 84), ("dora", 8, 70), ("dora", 16, 74)]
        )
        for seed in (1, 2, 3)
    ]
    reading = read(tmp_path, lines("run_id,method,rank,seed,accuracy", *rows))
    assert set(means(reading)) == {
        "full", "lora (rank=8)", "lora (rank=16)", "dora (rank=8)", "dora (rank=16)",
    }  # fmt: skip
    places = lines("method,rank,accuracy", "a,2,0.81", "b,1,0.92", "c,3,0.74")
    assert means(read(tmp_path, places)) == {"a": 0.81, "b": 0.92, "c": 0.74}


def test_only_columns_that_are_used_are_said_to_be_empty_on_some_lines(tmp_path):
    content = {
        "maha": {"auroc": 0.81, "mean_distance": 22.2},
        "msp": {"auroc": 0.74, "mean_confidence": 0.8},
    }
    assert not [n for n in read(tmp_path, content, "t.json").notes if "level of their own" in n]
    used = lines("method,noise_level,seed,accuracy", "a,,1,0.8", "a,0.1,1,0.7", "b,,1,0.9",
                 "b,0.1,1,0.6")  # fmt: skip
    assert [n for n in read(tmp_path, used).notes if "level of their own" in n]


def test_what_is_added_with_a_plus_is_no_difference(tmp_path):
    table = lines("dataset,MSP,MSP+GAP,MSP drop,KNN", "Beef,0.81,0.84,0.05,0.7",
                  "Coffee,0.92,0.9,0.02,0.8", "Adiac,0.7,0.73,0.01,0.6")  # fmt: skip
    assert set(means(read(tmp_path, table, columns="accuracy=*"))) == {"MSP", "MSP+GAP", "KNN"}


def test_best_and_last_are_checkpoints_of_one_training(tmp_path):
    wide = lines("method,dataset,best,last", "a,letters,91,80", "b,letters,90,88",
                 "a,digits,70,51", "b,digits,69,65")  # fmt: skip
    assert kinds(read(tmp_path, wide, columns="accuracy=*")) == {"checkpoint": "re_evaluation"}
    long = [f"{m},{s},{c},0.{80 + s + n}" for m in "ab" for s in (1, 2, 3)
            for n, c in enumerate(("best", "last"))]  # fmt: skip
    for title in ("ckpt", "which"):
        reading = read(tmp_path, lines(f"method,seed,{title},accuracy", *long))
        assert kinds(reading) == {"seed": "repeat", title: "re_evaluation"}
    assert by_title("ckpt", ["resnet18", "vit_b16"]).kind == "condition"
    # "best" alone is a statistic of the columns beside it.
    alone = lines("method,x,y,best", "a,0.81,0.7,0.81", "b,0.74,0.8,0.8", "c,0.6,0.9,0.9")
    assert kinds(read(tmp_path, alone, columns="accuracy=*")) == {}


def test_counts_of_a_total_are_rates(tmp_path):
    table = lines("model,MMLU,GSM8K", "a,160/200,30/120", "b,150/200,60/120", "c,90/200,90/120")
    reading = read(tmp_path, table, columns="accuracy=*")
    assert means(reading) == {"a": 0.525, "b": 0.625, "c": 0.6}
    assert any("160/200 is 0.8" in note for note in reading.notes)
    rows = [f"{m},{n}/3,05/2024,0.{80 + n}{k}" for n in (1, 2, 3) for k, m in enumerate("ab")]
    counted = read(tmp_path, lines("method,part,published,accuracy", *rows))
    assert not any("rates" in note for note in counted.notes)
    pairs = lines("method,svhn,isun", "msp,40/91,30/93", "knn,35/92,28/94", "vim,31/95,22/96")
    assert "two numbers" in asked(tmp_path, pairs)


@pytest.mark.parametrize(
    ("title", "whole", "header", "columns"),
    [
        ("perturbation", 255, "accuracy", ""),
        ("labels", 4000, "accuracy", ""),
        ("perturbation", 255, "CIFAR-10,GTSRB", "accuracy=*"),
    ],
)
def test_parts_of_a_whole_are_settings_beside_results(tmp_path, title, whole, header, columns):
    levels = [f"{part}/{whole}" for part in (40, 80, 160)]
    cells = ",".join(["71.5"] * len(header.split(",")))
    rows = [f"{model},{level},{cells}{n}" for n, model in enumerate("abc") for level in levels]
    reading = read(tmp_path, lines(f"model,{title},{header}", *rows), columns=columns)
    assert set(reading.results[0].frame[title]) == {*levels}


def test_months_are_no_pairs_of_numbers(tmp_path):
    table = lines("model,updated,MMLU,GSM8K", "a,05/2024,70,60", "b,11/2023,71,66", "c,06/2024,5,9")
    assert not any("updated" in note for note in read(tmp_path, table, columns="accuracy=*").notes)


def test_metrics_of_object_detection_tracking_and_text_are_known(tmp_path):
    boxes = lines("model,AP,AP50,AP75", "a,40.1,60.2,43.3", "b,42.4,59.5,45.6")
    assert metrics(read(tmp_path, boxes)) == ["mAP", "AP50", "AP75"]
    yolo = lines("model,mAP50,mAP50-95", "a,60.2,40.1", "b,59.5,42.4")
    assert metrics(read(tmp_path, yolo)) == ["mAP", "AP50"]
    tracks = lines("Tracker,MOTA,IDF1,HOTA", "a,-4.1,60.2,43.3", "b,42.4,59.5,45.6")
    reading = read(tmp_path, tracks)
    assert metrics(reading) == ["HOTA", "MOTA", "IDF1"]
    assert all(results.higher_is_better for results in reading.results)
    text = lines("Method,Precision,Recall,Hmean", "a,0.8,0.7,0.747", "b,0.9,0.6,0.72")
    assert metrics(read(tmp_path, text))[0] == "H-mean"
    rates = {"maha": {"distance": 22.1, "ood_detection_rate": 0.36},
             "msp": {"confidence": 0.8, "ood_detection_rate": 0.23}}  # fmt: skip
    assert metrics(read(tmp_path, rates, "t.json")) == ["recall"]


def test_digits_in_brackets_are_an_uncertainty_unless_they_may_be_ranks(tmp_path):
    table = lines("method,water,ethanol", "a,2.62(26),3.14(31)", "b,3.55(41),4.04(25)")
    frame = read(tmp_path, table, columns="lower=*").results[0].frame
    assert sorted(frame["spread"].round(3)) == [0.25, 0.26, 0.31, 0.41]
    ranks = lines("method,svhn,isun", "msp,91.2(2),88.1(2)", "knn,93.1(1),92.0(1)")
    frame = read(tmp_path, ranks, columns="auroc=*").results[0].frame
    assert "spread" not in frame.columns


def test_attacks_beside_clean_data_are_no_data_sets(tmp_path):
    table = lines("method,clean,FGSM,PGD-20,AA", "plain,94.8,21.2,0.1,0.0",
                  "at,84.9,61.1,56.6,53.1", "awp,85.6,63.1,59.2,56.2")  # fmt: skip
    for columns in ("higher=*", "accuracy=*"):
        reading = read(tmp_path, table, columns=columns)
        assert kinds(reading) == {"attack": "condition"}
    assert "4 attacks" in analyze(tmp_path / "t.csv", columns="higher=*")[0].answer


def test_a_noise_with_few_levels_is_no_result_and_one_among_corruptions_is(tmp_path):
    levels = lines("method,noise,last_acc", "a,0.2,80.3", "b,0.2,88.1", "a,0.5,61.2",
                   "b,0.5,75.5")  # fmt: skip
    assert kinds(read(tmp_path, levels)) == {"noise": "condition"}
    wide = lines("model,clean,occlusion,noise,blur", "a,92.3,77.4,39.4,90.9",
                 "b,94.5,83.7,68.6,92.5", "c,97.5,82.7,70.9,97.6")  # fmt: skip
    frame = read(tmp_path, wide, columns="accuracy=*").results[0].frame
    assert set(frame["corruption"]) == {"clean", "occlusion", "noise", "blur"}


def test_numbers_inside_names_of_corruptions_and_severities_are_severities(tmp_path):
    deep = {
        model: {
            "clean": {"accuracy": best},
            **{
                corruption: {
                    "drop": 0.4,
                    "severity_curve": {str(n): {"accuracy": best - n / 10} for n in (1, 2, 3)},
                }
                for corruption in ("fog", "motion_blur")
            },
        }
        for model, best in (("resnet18", 0.9), ("vit_tiny", 0.85))
    }
    reading = read(tmp_path, deep, "t.json")
    assert kinds(reading) == {"corruption": "condition", "severity": "re_evaluation"}
    assert means(reading) == {"resnet18": 0.729, "vit_tiny": 0.679}
    flat = {m: {"fog": {"2": 0.7 + n, "3": 0.6 + n}} for n, m in ((0.1, "plain"), (0.2, "tent"))}
    reading = read(tmp_path, flat, "t.json", "detector=column 1, accuracy=*")
    assert kinds(reading) == {"severity": "re_evaluation"}


def test_queries_are_parts_of_the_data(tmp_path):
    rows = [
        f"{q},{m},0.{60 + 3 * q + n}" for q in range(1, 6) for n, m in enumerate(("pre", "post"))
    ]
    reading = read(tmp_path, lines("qid,method,recall_at_k", *rows))
    assert kinds(reading) == {"qid": "part"}
    counted = asked(tmp_path, lines("case_no,method,accuracy", *rows))
    assert '"part=case_no"' in counted and '"repeat=case_no"' in counted


def test_whole_numbers_of_any_kind_are_no_percentages(tmp_path):
    table = lines("index,right evaluations", *(f"i{n},{n}" for n in range(60)), "SD,22")
    column = "higher=right evaluations"
    frame = read(tmp_path, table, columns=f"detector=index, {column}").results[0].frame
    assert frame["value"].max() == 59 and len(frame) == 61


def test_questions_offer_every_reading_that_names_leave_open(tmp_path):
    sets = lines("aggregation,subset,selection,tau,accuracy",
                 *(f"{a},{s},{c},0.{n}3,0.{n}1" for n, (a, s, c) in enumerate(
                     (a, s, c) for a in ("borda", "mean", "vote") for s in ("all", "wide")
                     for c in ("small", "random", "quartile"))))  # fmt: skip
    question = asked(tmp_path, sets, columns="detector=aggregation")
    option = "detector=aggregation, condition=selection, condition=subset"
    assert f'"{option}"' in question
    assert kinds(read(tmp_path, sets, columns=option)) == {
        "selection": "condition",
        "subset": "condition",
    }
    crossed = lines("model,cp_method,seed,ece",
                    *(f"{m},{c},{s},0.{s + n}{k}" for n, m in enumerate(("lr", "rf"))
                      for k, c in enumerate(("aps", "raps")) for s in (1, 2, 3)))  # fmt: skip
    question = asked(tmp_path, crossed)
    assert '"detector=model"' in question and '"detector=cp_method"' in question


def test_counts_of_seeds_below_each_data_set_are_runs(tmp_path):
    titles = "method,x_n_seeds,x_auroc_mean,x_auroc_std,y_n_seeds,y_auroc_mean,y_auroc_std"
    table = lines(titles, "a,10,0.81,0.02,10,0.71,0.02", "b,10,0.61,0.02,10,0.64,0.02")
    frame = read(tmp_path, table).results[0].frame
    assert set(frame["runs"]) == {10}


def test_what_is_given_on_some_lines_only_is_no_condition_of_a_complete_table(tmp_path):
    table = lines("model,dataset,class_weight,accuracy", "a,letters,balanced,0.81",
                  "b,letters,balanced,0.84", "a,digits,,0.9", "b,digits,balanced,0.72")  # fmt: skip
    reading = read(tmp_path, table)
    assert kinds(reading) == {} and means(reading) == {"a": 0.855, "b": 0.78}
    needed = table + lines("a,letters,,0.7", "b,letters,,0.6", "b,digits,,0.65")
    assert kinds(read(tmp_path, needed)) == {"class_weight": "condition"}


def test_statistics_of_tests_beside_a_metric_are_no_results(tmp_path):
    table = lines("model,MSE,dm_MSE,p_MSE", "a,0.41,,", "b,0.38,-2.1,0.036", "c,0.33,-0.4,0.7")
    reading = read(tmp_path, table)
    assert metrics(reading) == ["MSE"] and means(reading) == {"a": 0.41, "b": 0.38, "c": 0.33}


def test_errors_among_five_guesses_are_known_beside_those_that_decide(tmp_path):
    table = lines("method,seed,clean_top1,clean_top5,corruption_top1,corruption_top5",
                  *(f"{m},{s},{24 - n}.{s},{7 - n}.{s},{54 - 9 * n}.{s},{31 - 9 * n}.{s}"
                    for n, m in enumerate(("plain", "mixed")) for s in (1, 2, 3)))  # fmt: skip
    assert '"lower=clean_top1"' in asked(tmp_path, table)
    reading = read(tmp_path, table, columns="error_rate=clean_top1")
    assert not any(results.higher_is_better for results in reading.results)


def test_data_sets_of_classifiers_judged_by_accuracy_and_f1_are_no_outlier_sets(tmp_path):
    titles = "Dataset,Model,AUC_mean,AUC_std,Acc_mean,Acc_std,F1_mean,F1_std"
    rows = [
        f"{d},{m},0.{80 + n},0.01,0.{70 + n},0.01,0.{60 + n},0.01"
        for n, d in enumerate(("forest", "miner", "phone"))
        for m in ("relu", "gelu")
    ]
    frame = read(tmp_path, lines(titles, *rows)).results[0].frame
    assert set(frame["id"]) == {"forest", "miner", "phone"}
