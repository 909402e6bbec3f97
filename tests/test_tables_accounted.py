"""Columns and lines that must be accounted for: settings, second values, reference lines."""

import json
from itertools import product

import pandas as pd
import pytest

from oodometer import analyze
from oodometer.errors import UserError
from oodometer.tables import read_results

SETS = ("sst2", "mrpc", "rte")


def read(tmp_path, text, name="table.csv", columns=""):
    path = tmp_path / name
    path.write_text(text)
    return read_results(path, columns)


def table(titles, rows):
    return "\n".join(",".join(map(str, row)) for row in [titles.split(","), *rows]) + "\n"


def numbers(start=0.81):
    """Return different numbers like those of results."""
    value = start
    while True:
        value = 0.6 + (value * 7.13) % 0.35
        yield f"{value:.4f}"


@pytest.mark.parametrize("title", ["rank", "lora_rank", "LoRA rank"])
def test_the_rank_of_adapters_is_a_setting(tmp_path, title):
    value = numbers()
    rows = [(*cell, next(value)) for cell in product(("LoRA", "DoRA"), SETS, (4, 8))]
    found = read(tmp_path, table(f"method,dataset,{title},accuracy", rows)).results[0]
    assert [(factor.name, factor.kind) for factor in found.factors] == [(title, "condition")]


def test_the_rank_of_results_is_none(tmp_path):
    value = numbers()
    rows = [
        (method, data, next(value), rank)
        for data in SETS
        for rank, method in enumerate(("a1", "b1", "c1"), 1)
    ]
    found = read(tmp_path, table("method,dataset,accuracy,rank", rows))
    assert found.results[0].factors == ()


def test_the_value_of_the_first_metric_is_that_beside_its_name(tmp_path):
    value = numbers()
    rows = [
        (model, data, lr, "roc_auc", next(value), "f1", next(value))
        for model, data, lr in product(("gpt2", "phi-2"), SETS, (0.0001, 0.0005))
    ]
    titles = "model,dataset,lr,metric_primary,value_primary,metric_secondary,value_secondary"
    found = read(tmp_path, table(titles, rows))
    assert found.results[0].metric == "auroc"
    assert len(found.results[0].frame) == len(rows)
    assert sorted(found.results[0].frame["value"]) == sorted(float(row[4]) for row in rows)


def test_a_copy_of_the_values_is_left_out(tmp_path):
    value = numbers()
    rows = [(m, d, "auc", v, v) for (m, d), v in zip(product("abc", SETS), value, strict=False)]
    found = read(tmp_path, table("model,dataset,metric_name,score_raw,score_normalized", rows))
    assert dict(found.columns)["score_normalized"] == "not used: the same as score_raw"


def test_a_mean_error_may_be_no_share(tmp_path):
    text = "Model,Clean Mean Error\nDenoising,0.4335\nMC Dropout,0.7167\nVanilla,0.5021\n"
    with pytest.raises(UserError, match="how far numbers are off"):
        read(tmp_path, text)
    found = read(tmp_path, text, columns="error_rate=Clean Mean Error")
    assert found.results[0].metric == "error rate"
    assert read(tmp_path, text.replace("Mean Error", "Error rate")).results[0].metric


REFERENCES = "method,svhn,lsun,isun\nMSP,91.2,92.1,90.2\nKNN,94.2,94.1,93.8\n"


@pytest.mark.parametrize("name", ["Oracle", "Upper bound", "Chance level", "Human performance"])
def test_reference_lines_do_not_compete(tmp_path, name):
    text = f"{REFERENCES}{name},98.9,99.1,98.8\n"
    found = read(tmp_path, text)
    assert set(found.results[0].frame["detector"]) == {"MSP", "KNN"}
    assert any(name in note and "detector=method" in note for note in found.notes)
    found = read(tmp_path, text, columns="detector=method")
    assert len(found.results[0].frame["detector"].unique()) == 3


def test_an_oracle_stays_beside_a_single_method(tmp_path):
    found = read(tmp_path, "method,svhn,lsun,isun\nMSP,91.2,92.1,90.2\nOracle,94.2,94.1,93.8\n")
    assert set(found.results[0].frame["detector"]) == {"MSP", "Oracle"}


@pytest.mark.parametrize("title", ["perturbation", "Condition", "corruption"])
def test_corruptions_are_known_by_their_levels(tmp_path, title):
    value = numbers()
    levels = ("clean", "jpeg_q90", "blur_s05", "social_media")
    rows = [(level, m, next(value)) for level, m in product(levels, ("cnn_a", "cnn_b", "cnn_c"))]
    found = read(tmp_path, table(f"{title},method,auroc", rows))
    assert [factor.name for factor in found.results[0].factors] == ["corruption"]
    assert not found.assumed


def test_titles_beside_clean_are_corruptions(tmp_path):
    text = "Model,clean,noise_low,blur_mild,jpeg_artifacts\nresnet50,93.1,91.2,52.3,74.1\n"
    text += "vit_s16,80.8,81.1,80.7,80.5\nmobilevit,93.8,84.9,42.6,66.9\n"
    found = read(tmp_path, text, columns="accuracy=*").results[0]
    assert [factor.name for factor in found.factors] == ["corruption"]


def test_what_is_beside_the_original_is_asked(tmp_path):
    value = numbers()
    nested = {
        f"faces__{net}__seed{seed}": {q: {"roc_auc": float(next(value))} for q in levels}
        for levels in [("original", "q70", "q30")]
        for net, seed in product(("resnet18", "resnet50"), (1, 2, 3))
    }
    with pytest.raises(UserError, match="Nothing says what original, q70, … are"):
        read(tmp_path, json.dumps(nested), "runs.json")


def test_names_beside_known_data_are_compared(tmp_path):
    value = numbers()
    strategies = ("uniform", "mid_focus", "stratified")
    nested = {
        data: {name: {"auroc": float(next(value))} for name in strategies}
        for data in ("within_cifar", "svhn")
    }
    found = read(tmp_path, json.dumps(nested), "ablation.json").results[0]
    assert set(found.frame["detector"]) == set(strategies)


def test_counts_of_answers_are_no_settings(tmp_path):
    value = numbers()
    sizes = (3404, 3064, 2723, 3404, 3064, 2723, 681)
    counts = (824, 816, 819, 830, 824, 816, 795)
    rows = [
        (f"net_{size}", next(value), count, 851 - count, f"{{'runtime': {n}}}")
        for n, (size, count) in enumerate(zip(sizes, counts, strict=True))
    ]
    text = "\n".join("\t".join(map(str, row)) for row in rows)
    titles = "model\tauc\tval_correct\tval_incorrect\t_wandb\n"
    found = read(tmp_path, titles + text + "\n")
    assert dict(found.columns)["val_correct"] == "not used: numbers that are not settings"
    assert [(factor.name, factor.kind) for factor in found.results[0].factors] == [
        ("run", "repeat")
    ]


def test_names_of_runs_that_state_one_setting_are_asked(tmp_path):
    value = numbers()
    rows = [(f"size_{n}", n, next(value)) for n in (100, 200, 300, 100, 200, 300)]
    text = table("name,train_samples,auc", rows)
    with pytest.raises(UserError, match="Lines differ in 'train_samples', which 'name' names"):
        read(tmp_path, text)
    found = read(tmp_path, text, columns="detector=name").results[0]
    assert set(found.frame["detector"]) == {"size_100", "size_200", "size_300"}
    other = read(tmp_path, text.replace("name,", "model,")).results[0]
    assert len(other.frame["detector"].unique()) == 3


def test_the_level_of_a_corruption_is_its_severity(tmp_path):
    lines = [f"{m},{c},{v},{0.9 - 0.1 * (m == 'vgg16') - 0.02 * v - 0.01 * i}"
             for m in ("resnet50", "vgg16") for i, c in enumerate(("jpeg_compression", "fog"))
             for v in (1, 3, 5)]  # fmt: skip
    found = read(tmp_path, "\n".join(["model,corruption,level,auc", *lines])).results[0]
    kinds = {factor.name: factor.kind for factor in found.factors}
    assert kinds == {"corruption": "condition", "level": "re_evaluation"}


def test_forms_of_a_metric_in_titles_are_not_compared_unasked(tmp_path):
    lines = [f"{d},{s},{0.7 + 0.01 * s},{0.71 + 0.01 * s},{0.72 + 0.01 * s}"
             for d in ("acm", "cora") for s in range(3)]  # fmt: skip
    text = "\n".join(["dataset,seed,raw_auc_all,raw_auc_test,conformal_auc", *lines])
    with pytest.raises(UserError, match=r"Do the titles of columns \(raw"):
        read(tmp_path, text)


@pytest.mark.parametrize(("other", "asked"), [(0.54, True), (0.48, False)])
def test_forms_with_unknown_words_are_asked_about_if_the_answer_depends_on_them(other, asked):
    """Skeleton and directed F1 may be two data sets; where both have one leader, a note says so."""
    first = {"PC": 0.78, "GES": 0.65, "NOTEARS": 0.55}
    second = {"PC": 0.52, "GES": other, "NOTEARS": 0.41}
    frame = pd.DataFrame([
        {"method": m, "seed": s, "Skeleton F1": first[m] + 0.002 * ((i + 1) * s % 3),
         "Directed F1": second[m]}
        for i, m in enumerate(first) for s in range(3)
    ])  # fmt: skip
    if asked:
        with pytest.raises(UserError, match=r"may be forms of F1.*F1=Skeleton F1.*id=\*"):
            analyze(frame)
        frame = frame.rename(columns={"Skeleton F1": "wine F1", "Directed F1": "glass F1"})
        assert "forms of" not in str(analyze(frame)[0].reading)
    else:
        assert "read as data sets, not as forms of F1" in str(analyze(frame)[0].reading)


def test_two_columns_with_their_difference_may_be_what_is_compared(tmp_path):
    rows = [("tree", 0.94, 0.9533, -0.0133), ("forest", 0.94, 0.9667, -0.0267),
            ("bayes", 0.9533, 0.9533, 0.0), ("knn", 0.96, 0.95, 0.01)]  # fmt: skip
    text = table("Model,boxlib Accuracy,sklearn Accuracy,Difference", rows)
    with pytest.raises(UserError, match=r"or the titles of columns \(boxlib, sklearn") as asked:
        read(tmp_path, text)
    assert "detector=*" in str(asked.value) and "detector=Model" in str(asked.value)
    found = read(tmp_path, text, columns="detector=*").results[0]
    assert found.detectors == ("boxlib", "sklearn")


def test_a_matrix_of_confusions_with_recalls_is_no_table_of_results(tmp_path):
    names = ("antiqua", "fraktur", "greek", "italic", "rotunda")
    rows = [(n, *(90.5 if n == m else 3.5 for m in names), 0.95) for n in names]
    with pytest.raises(UserError, match=r"Rows and columns have the same names"):
        read(tmp_path, table(f"Font,{','.join(names)},Recall", rows))
