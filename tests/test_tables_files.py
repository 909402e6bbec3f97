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
