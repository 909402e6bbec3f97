"""Frames as pandas prints them, negated metrics, names of files: the same numbers."""

import json

import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.tables import read_results

DETECTORS = ("Foo (ours)", "KNN", "Energy", "ViT-B/16 head")
SETS = ("site_A", "site_B", "site_C")


def numbers(title="Dataset"):
    return pd.DataFrame(
        [
            {"Method": d, title: s, "seed": k, "AUROC": 80 + 2 * n + m + k / 4}
            for n, d in enumerate(DETECTORS)
            for m, s in enumerate(SETS)
            for k in range(3)
        ]
    )


def cells(given):
    (results,) = read_results(given).results
    sets = "id" if "id" in results.frame.columns else "ood"
    labels = ["detector", sets, *results.factor_names]
    kinds = {factor.kind for factor in results.factors}
    rows = results.frame[labels].astype(str).itertuples(index=False)
    return sorted(zip(map(tuple, rows), results.frame["value"].round(6), strict=True)), kinds


def saved(tmp_path, text, name="auroc.txt"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def spread(*columns):
    rows = [c for c in ("Method", "Dataset", "seed") if c not in columns]
    return numbers().pivot_table(["AUROC"], rows, list(columns), sort=False)


@pytest.mark.parametrize(
    "columns", [("Dataset",), ("Method",), ("seed",), ("Dataset", "seed"), ("Method", "seed")]
)
@pytest.mark.parametrize("form", ["to_string", "to_html", "to_csv", "frame"])
def test_pandas_names_the_levels_of_titles(tmp_path, columns, form):
    frame = spread(*columns)
    suffix = {"to_html": "html", "to_csv": "csv"}.get(form, "txt")
    given = frame if form == "frame" else saved(tmp_path, getattr(frame, form)(), f"t.{suffix}")
    assert cells(given) == cells(numbers())


def test_a_printed_index_of_several_levels(tmp_path):
    frame = numbers().set_index(["Method", "Dataset", "seed"])
    assert cells(saved(tmp_path, frame.to_string())) == cells(numbers())


@pytest.mark.parametrize("behind", ["", "\n\nThat is all.\n"])
@pytest.mark.parametrize("columns", [("Method",), ("Method", "seed")])
def test_a_printed_frame_amid_prose(tmp_path, columns, behind):
    text = f"AUROC of all methods and seeds\n\n{spread(*columns).to_string()}{behind}"
    assert cells(saved(tmp_path, text)) == cells(numbers())


def test_the_index_of_a_split_frame_counts(tmp_path):
    frame = numbers()[numbers()["seed"] == 0].drop(columns="seed")
    wide = frame.pivot_table("AUROC", "Method", "Dataset", sort=False)
    path = saved(tmp_path, wide.to_json(orient="split"), "auroc.json")
    assert set(read_results(path, "ood=*").results[0].frame["detector"]) == {*DETECTORS}


def test_names_inside_names_are_data_sets_once(tmp_path):
    content = {
        d: {s: {f"seed {k}": 0.8 + k / 50 for k in range(3)} for s in ("SVHN", "Textures")}
        for d in ("MSP", "KNN")
    }
    (results,) = read_results(saved(tmp_path, json.dumps(content), "auroc.json")).results
    assert "id" not in results.frame.columns
    assert set(results.frame["ood"]) == {"SVHN", "Textures"}


@pytest.mark.parametrize(
    ("title", "metric"),
    [("-RMSE (higher is better)", "RMSE"), ("neg AUROC", "auroc"), ("−AUROC ↓", "auroc")],
)
def test_a_negated_metric_is_turned(title, metric):
    table = pd.DataFrame({"model": ["A", "B"] * 2, "dataset": [*"xxyy"]})
    positive = [0.91, 0.82, 0.83, 0.74]
    (results,) = read_results(table.assign(**{title: [-value for value in positive]})).results
    assert (results.metric, list(results.frame["value"])) == (metric, positive)
    assert results.higher_is_better == (metric == "auroc")


def test_a_negated_metric_that_the_user_names_stays_as_it_is():
    table = pd.DataFrame({"model": ["A", "B"] * 2, "dataset": [*"xxyy"], "-RMSE": [-1, -2, -3, -4]})
    (results,) = read_results(table, "higher=-RMSE").results
    assert (results.higher_is_better, results.frame["value"].max()) == (True, -1.0)


def test_words_that_contradict_a_metric_are_asked():
    table = pd.DataFrame({"model": ["A", "B"] * 2, "dataset": [*"xxyy"]})
    with pytest.raises(UserError, match="higher=RMSE"):
        read_results(table.assign(**{"RMSE (higher is better)": [3.1, 4.0, 2.2, 5.0]}))


def test_a_rate_of_noise_is_no_part_of_the_metric():
    table = pd.DataFrame({"method": ["MSP", "KNN"]})
    for rate in ("0.1", "0.2"):
        for name in ("SVHN", "iSUN"):
            table[f"noise_rate {rate} {name} AUROC"] = [81.5, 82.5]
    (results,) = read_results(table).results
    assert set(results.ood) == {"SVHN", "iSUN"}
    assert [factor.name for factor in results.factors] == ["noise_rate"]


def test_networks_with_numbers_are_crossed_with_data_sets():
    table = pd.DataFrame({"Method": ["MSP", "KNN"]})
    for network in ("ResNet-50", "ViT-B/16"):
        for name in ("SVHN", "iSUN"):
            table[f"{network} {name} AUROC"] = [81.5, 82.5]
    (results,) = read_results(table).results
    assert set(results.ood) == {"SVHN", "iSUN"}
    assert set(results.frame[results.factors[0].name]) == {"ResNet-50", "ViT-B/16"}


def test_names_of_several_parts_stay_whole_in_titles():
    names = [f"{network} + {d}" for network in ("ResNet-50", "ViT-B/16") for d in ("MSP", "KNN")]
    table = pd.DataFrame({"OOD dataset": ["SVHN", "iSUN"]})
    table = table.assign(**{f"{name} AUROC": [81.5, 82.5] for name in names})
    assert set(read_results(table).results[0].detectors) == {*names}


@pytest.mark.parametrize("pattern", ["{} {}", "{1} {0}"])
def test_robust_accuracy_beside_accuracy_is_another_metric(pattern):
    table = pd.DataFrame({"Model": ["WRN-28-10", "ViT-S"]})
    for name in ("CIFAR-10", "SVHN", "STL10"):
        for metric in ("Accuracy", "Robust accuracy"):
            table[pattern.format(name, metric)] = [81.5, 82.5]
    first, second = read_results(table).results
    assert (first.metric, second.metric) == ("accuracy", "robust accuracy")
    assert len(first.frame) == len(second.frame) == 6


def parts(tmp_path, names, frame):
    folder = tmp_path / "results"
    folder.mkdir()
    for place, name in enumerate(names):
        frame.assign(**{frame.columns[-1]: frame.iloc[:, -1] + place}).to_csv(
            folder / f"{name}.csv", index=False
        )
    return folder


@pytest.mark.parametrize(
    ("names", "factor", "kind"),
    [
        (("epoch_10", "epoch_50"), "epoch", "re_evaluation"),
        (("corruption_fog", "corruption_motion_blur"), "corruption", "condition"),
    ],
)
def test_names_of_files_state_levels(tmp_path, names, factor, kind):
    frame = pd.DataFrame({"Model": ["ResNet-50", "Foo"], "accuracy": [81.5, 80.5]})
    (results,) = read_results(parts(tmp_path, names, frame)).results
    assert set(results.detectors) == {"ResNet-50", "Foo"}
    assert [(f.name, f.kind) for f in results.factors] == [(factor, kind)]


def test_unknown_names_of_files_beside_models_are_asked(tmp_path):
    frame = pd.DataFrame({"model": ["LSTM", "Foo", "Bar"], "seed": 0, "RMSE": [1.5, 2.5, 3.5]})
    folder = parts(tmp_path, ("site_A", "site_B"), frame)
    with pytest.raises(UserError, match='id=from file"'):
        read_results(folder)
    (results,) = read_results(folder, "id=from file").results
    assert set(results.detectors) == {"LSTM", "Foo", "Bar"}
