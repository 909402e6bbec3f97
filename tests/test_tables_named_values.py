"""Files in which every value stands beside its name: logs of pairs, and YAML."""

import json

import pytest
import yaml

from oodometer.errors import UserError
from oodometer.tables import read_results

LINES = [
    {"method": method, "ood": ood, "seed": seed, "auroc": f"0.9{value}", "fpr95": f"0.3{value}"}
    for value, (method, ood, seed) in enumerate(
        [("MSP", "SVHN", "0"), ("KNN", "SVHN", "0"), ("MSP", "LSUN (crop)", "0"),
         ("KNN", "LSUN (crop)", "0"), ("MSP", "SVHN", "1"), ("KNN", "SVHN", "1"),
         ("MSP", "LSUN (crop)", "1"), ("KNN", "LSUN (crop)", "1")]
    )
]  # fmt: skip
EXPECTED = {
    (line["method"], line["ood"], line["seed"]): pytest.approx(float(line["auroc"]))
    for line in LINES
}


def cells(path):
    results = read_results(path).results[0]
    assert results.metric == "auroc" and results.factor_names == ("seed",)
    frame = results.frame
    return {
        (row.detector, row.ood, str(row.seed)): row.value
        for row in frame.itertuples(index=False)
    }  # fmt: skip


def pairs(line, sign, between):
    return between.join(f"{key}{sign}{value}" for key, value in line.items())


@pytest.mark.parametrize(
    ("before", "sign", "between"),
    [
        ("", "=", " | "),
        ("", ": ", "   "),
        ("2024-05-01 12:00:01,123 - INFO - ", "=", ", "),
        ("[2024-05-01 12:00:01] ", ": ", " | "),
        ("INFO:root:", "=", "; "),
        ("* ", " = ", ", "),
    ],
)
def test_lines_of_pairs_are_rows(tmp_path, before, sign, between):
    path = tmp_path / "eval.log"
    lines = [before + pairs(line, sign, between) for line in LINES]
    path.write_text("\n".join(["loading resnet18.pth ...", *lines, "done in 12.3s"]) + "\n")
    assert cells(path) == EXPECTED


def test_what_lines_without_results_say_holds_for_those_below(tmp_path):
    path = tmp_path / "eval.log"
    lines = []
    for line in LINES:
        if line["ood"] == "SVHN" and line["method"] == "MSP":
            lines.append(f"seed={line['seed']} threads=4")
        lines.append(pairs({k: v for k, v in line.items() if k != "seed"}, ": ", ", "))
    path.write_text("\n".join(lines))
    assert cells(path) == EXPECTED


def test_a_line_that_lacks_something_is_not_dropped_in_silence(tmp_path):
    path = tmp_path / "eval.log"
    lines = [pairs(line, "=", " | ") for line in LINES]
    path.write_text("\n".join([*lines[:3], lines[3].replace(" | auroc=0.93", ""), *lines[4:]]))
    reading = read_results(path)
    assert sum(results.metric == "fpr95" for results in reading.results) == 1
    assert len(reading.results[0].frame) == len(LINES) - 1
    assert any("missing: 1" in note for note in reading.notes)
    path.write_text("\n".join([*lines, "method=mean | auroc=0.935"]))
    with pytest.raises(UserError, match=r"2 tables with results.*eval.log#1"):
        read_results(path)


def test_settings_alone_are_no_table(tmp_path):
    path = tmp_path / "config.txt"
    path.write_text("arch=resnet18, seed=0\nlr=0.1, optimizer=sgd\n")
    with pytest.raises(UserError):
        read_results(path)


@pytest.mark.parametrize("flow", [True, False])
def test_yaml_is_read_as_json_is(tmp_path, flow):
    records = tmp_path / "records.yaml"
    typed = [{k: yaml.safe_load(v) for k, v in line.items()} for line in LINES]
    records.write_text(yaml.safe_dump(typed, default_flow_style=flow))
    assert cells(records) == EXPECTED
    nested = {"MSP": {"SVHN": 0.91, "LSUN": 0.92}, "KNN": {"SVHN": 0.93, "LSUN": 0.95}}
    for name, text in (("n.yml", yaml.safe_dump(nested)), ("n.json", json.dumps(nested))):
        (tmp_path / name).write_text(text)
    found = [read_results(tmp_path / name).results[0] for name in ("n.yml", "n.json")]
    assert {frozenset(f.detectors) for f in found} == {frozenset({"MSP", "KNN"})}
    assert {frozenset(f.frame["value"]) for f in found} == {frozenset({0.91, 0.92, 0.93, 0.95})}


def test_documents_of_one_yaml_file_are_lines(tmp_path):
    path = tmp_path / "records.yaml"
    path.write_text(yaml.safe_dump_all(LINES))
    assert cells(path) == EXPECTED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x [1, 2]\nb: *x\n", "has aliases"),
        ("a: [1, 2\nb: 3", r"not valid YAML \(line 2\)"),
        ("[" * 1000, "nested more than 100 levels deep"),
        ("hello", "holds no table"),
        ("", "is empty"),
        ("---\n---\n", "is empty"),
    ],
)
def test_other_yaml_is_refused_in_one_sentence(tmp_path, text, said):
    path = tmp_path / "results.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        read_results(path)


def test_names_that_yaml_takes_for_dates_and_numbers_stay_names(tmp_path):
    path = tmp_path / "results.yaml"
    path.write_text("2020-01-01: {MSP: 0.91, KNN: 0.93}\n2021-01-01: {MSP: 0.90, KNN: 0.94}\n")
    assert read_results(path).results[0].detectors == ("MSP", "KNN")


def test_configurations_in_folders_are_no_results(tmp_path):
    (tmp_path / "config.yaml").write_text("seed: 0\nacc: 0.5\n")
    (tmp_path / "results.csv").write_text("method,SVHN AUROC\nMSP,.91\nKNN,.93\n")
    assert read_results(tmp_path).results[0].detectors == ("MSP", "KNN")


def test_labels_without_signs_are_read_too(tmp_path):
    path = tmp_path / "eval.log"
    path.write_text(
        "loading\nMSP | AUROC 0.75 | FPR@95 0.85\nMax Logit | AUROC 0.77 | FPR@95 0.83\n"
    )
    found = {results.metric: results for results in read_results(path).results}
    assert found["auroc"].detectors == ("MSP", "Max Logit") and len(found["fpr95"].frame) == 2


def test_numbers_beside_those_that_were_read_are_told(tmp_path):
    path = tmp_path / "results.json"
    content = {
        name: {"baseline": 0.6 + n / 100, "variants": {"gmm": 0.7 + n / 100, "knn": 0.8 - n / 50}}
        for n, name in enumerate(("swat", "psm", "wadi"))
    }
    path.write_text(json.dumps(content))
    reading = read_results(path, "detector=*, id=column 1, higher=*")
    assert {*reading.results[0].detectors} == {"gmm", "knn"}
    assert any("not used: baseline" in note for note in reading.notes)
