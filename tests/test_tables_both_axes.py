"""First cells, headings and names of files: titles of lines, of columns or of levels."""

import json

import numpy as np
import pandas as pd
import pytest

from oodometer.tables import read_results

DETECTORS = ("MSP", "Energy", "KNN", "ViM")
SETS = ("SVHN", "Textures", "iSUN")


def numbers(title="seed", levels=(0, 1, 2), names=DETECTORS, sets=SETS):
    """Four detectors on three outlier sets, at three levels of something."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {"Method": d, "ood_dataset": s, title: k, "AUROC": round(80 + 3 * n + m + e, 2)}
            for n, d in enumerate(names)
            for m, s in enumerate(sets)
            for k, e in zip(levels, rng.normal(0, 1, len(levels)), strict=True)
        ]
    )


def cells(given):
    """What was read: names, data, levels and numbers, and the kinds of factors."""
    main = read_results(given).results[0]
    labels = ["detector", "ood", *main.factor_names]
    rows = main.frame[labels].astype(str).to_numpy().tolist()
    values = main.frame["value"].round(6)
    return sorted(map(tuple, map(list.__add__, rows, [[v] for v in values]))), main.factors


def saved(tmp_path, text, name="auroc.csv"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def one_run():
    return numbers(levels=(0,)).drop(columns="seed")


def wide(**axes):
    return one_run().pivot_table("AUROC", sort=False, **axes)


@pytest.mark.parametrize("corner", ["Method \\ OOD set", "Method ⟍ OOD set"])
def test_a_first_cell_may_name_both_axes(tmp_path, corner):
    frame = wide(index="Method", columns="ood_dataset")
    path = saved(tmp_path, frame.rename_axis(index=corner, columns=None).to_csv())
    assert cells(path) == cells(one_run())
    assert ("OOD set", "ood") in read_results(path).columns


@pytest.mark.parametrize("corner", [r"\diagbox{Method}{Test set}", r"Method \textbackslash Set"])
def test_a_first_cell_of_latex_may_name_both_axes(tmp_path, corner):
    lines = [f"{corner} & SVHN & LSUN", r"MSP & 0.81 & 0.82", r"ODIN & 0.83 & 0.84"]
    body = " \\\\\n".join(lines)
    text = f"\\begin{{tabular}}{{lcc}}\n{body} \\\\\n\\end{{tabular}}"
    main = read_results(saved(tmp_path, text, "auroc.tex")).results[0]
    assert (main.detectors, main.ood) == (("MSP", "ODIN"), ("SVHN", "LSUN"))


@pytest.mark.parametrize(
    ("lines", "columns"), [("Method", "ood_dataset"), ("ood_dataset", "Method")]
)
def test_a_first_cell_may_name_the_columns_alone(tmp_path, lines, columns):
    """As pandas writes a transposed table."""
    frame = wide(index=lines, columns=columns).rename_axis(index=columns, columns=None)
    assert cells(saved(tmp_path, frame.to_csv())) == cells(one_run())


def test_first_cells_of_several_lines_name_what_stands_beside_them(tmp_path):
    frame = numbers().pivot_table("AUROC", "Method", ["ood_dataset", "seed"], sort=False)
    body = [
        f"{name},{','.join(map(str, row))}"
        for name, row in zip(DETECTORS, frame.to_numpy(), strict=True)
    ]
    heads = [
        f"{level},{','.join(map(str, frame.columns.get_level_values(level)))}"
        for level in ("ood_dataset", "seed")
    ]
    assert cells(saved(tmp_path, "\n".join([*heads, *body]))) == cells(numbers())


def test_pandas_names_levels_that_are_numbers(tmp_path):
    for across in (["Method", "seed"], ["Method", "ood_dataset"]):
        rest = [c for c in ("ood_dataset", "seed") if c not in across]
        frame = numbers().assign(width=0.5).pivot_table("AUROC", [*rest, "width"], across)
        assert cells(saved(tmp_path, frame.to_csv()))[0] == cells(numbers())[0]


def test_invented_methods_below_a_title_of_data_are_methods(tmp_path):
    text = "Dataset,Peaks,Dunes\nGlint (Ours),0.91,0.92\nPlain Baseline,0.88,0.87\n"
    main = read_results(saved(tmp_path, text, "accuracy.csv")).results[0]
    assert (main.detectors, main.ids) == (("Glint (Ours)", "Plain Baseline"), ("Peaks", "Dunes"))


@pytest.mark.parametrize("sign", [" ", "/", "_"])
@pytest.mark.parametrize("sets", [SETS, ("Peaks", "Dunes", "Marsh")])
def test_runs_may_stand_before_data_sets_in_titles(tmp_path, sets, sign):
    long = numbers(sets=sets)
    frame = long.pivot_table("AUROC", "Method", ["seed", "ood_dataset"], sort=False)
    frame.columns = [f"seed {seed}{sign}{name} AUROC" for seed, name in frame.columns]
    if sign == "_" and sets != SETS:
        return  # such a name may be anything
    main = read_results(saved(tmp_path, frame.to_csv(), "table.csv")).results[0]
    named = main.ood if main.ids == ("",) else main.ids
    assert set(named) == set(sets) and len(main.frame) == 36
    assert [(factor.name, factor.kind) for factor in main.factors] == [("seed", "repeat")]


def test_outlier_sets_may_stand_before_id_sets_in_titles(tmp_path):
    rng = np.random.default_rng(1)
    lines = ["method", *DETECTORS]
    for title in (f"{name} {known}" for name in SETS for known in ("CIFAR-10", "CIFAR-100")):
        lines = [f"{lines[0]},{title}", *(f"{row},{rng.uniform():.4f}" for row in lines[1:])]
    main = read_results(saved(tmp_path, "\n".join(lines))).results[0]
    assert (main.ids, set(main.ood)) == (("CIFAR-10", "CIFAR-100"), set(SETS))


def test_networks_in_titles_are_what_methods_run_on(tmp_path):
    text = "method,dataset,ResNet-18,WRN-28-10\nMixup,CIFAR-10,0.91,0.92\nMixup,STL10,0.81,0.83\n"
    text += "CutMix,CIFAR-10,0.93,0.94\nCutMix,STL10,0.85,0.84\n"
    main = read_results(saved(tmp_path, text, "accuracy.csv")).results[0]
    assert (main.detectors, main.ids) == (("Mixup", "CutMix"), ("CIFAR-10", "STL10"))
    assert [(factor.name, factor.kind) for factor in main.factors] == [("network", "condition")]


def test_names_of_lines_may_hold_the_metric(tmp_path):
    rows = [f"{name} {metric}" for name in ("LSUN-C", "SVHN") for metric in ("AUROC", "AUPR-OUT")]
    lines = [f"{row},0.8{n},0.7{n},0.6{n}" for n, row in enumerate(rows)]
    text = "\n".join([",MSP,KNN,ViM", *lines, "AVG AUROC,0.81,0.71,0.61"])
    reading = read_results(saved(tmp_path, text, "table.csv"))
    assert [results.metric for results in reading.results] == ["auroc", "aupr_out"]
    assert all(set(results.ood) >= {"LSUN-C", "SVHN"} for results in reading.results)


def test_a_metric_in_a_merged_cell_is_that_of_all_lines(tmp_path):
    rows = [r"\multirow{3}{*}{AUROC} & SVHN", " & Textures", " & iSUN"]
    lines = [f"{row} & 0.8{n} & 0.7{n} & 0.6{n}" for n, row in enumerate(rows)]
    body = r" \\ ".join([" & & MSP & KNN & ViM", *lines])
    text = rf"\begin{{tabular}}{{llccc}} {body} \\ \end{{tabular}}"
    main = read_results(saved(tmp_path, text, "table.tex")).results[0]
    assert (main.detectors, main.ood) == (("MSP", "KNN", "ViM"), SETS)


@pytest.mark.parametrize("form", ["{t}={k}", "{t} = {k}", "{t}: {k}"])
def test_headings_state_a_level_of_a_factor(tmp_path, form):
    long = numbers("label_noise", (0.0, 0.2, 0.4))
    parts = []
    for level, part in long.groupby("label_noise"):
        rows = part.pivot_table("AUROC", "Method", "ood_dataset", sort=False).reset_index()
        lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows.to_numpy()]
        head = f"| {' | '.join(rows.columns)} |\n|---|---|---|---|"
        parts.append(f"## {form.format(t='label_noise', k=level)}\n\n{head}\n" + "\n".join(lines))
    path = saved(tmp_path, "AUROC of all methods\n\n" + "\n\n".join(parts), "page.md")
    assert cells(path) == cells(long)


@pytest.mark.parametrize(
    ("title", "levels"), [("optimizer", ("sgd", "adam")), ("horizon", (96, 192))]
)
def test_names_in_json_state_a_level_of_a_factor(tmp_path, title, levels):
    content = {}
    for line in numbers(title, levels).to_dict("records"):
        inner = content.setdefault(f"{title}={line[title]}", {}).setdefault(line["Method"], {})
        inner[line["ood_dataset"]] = {"AUROC": line["AUROC"]}
    path = saved(tmp_path, json.dumps(content), "results.json")
    assert cells(path) == cells(numbers(title, levels))


def test_a_level_in_bold_is_the_same_level(tmp_path):
    long = numbers("epoch", (10, 100)).astype(str)
    long.loc[3, "epoch"] = f"**{long.loc[3, 'epoch']}**"
    lines = ["| " + " | ".join(row) + " |" for row in long.to_numpy()]
    text = "\n".join([f"| {' | '.join(long.columns)} |", "|---|---|---|---|", *lines])
    (factor,) = read_results(saved(tmp_path, text, "page.md")).results[0].factors
    assert (factor.name, cells(tmp_path / "page.md")[0]) == (
        "epoch",
        cells(numbers("epoch", (10, 100)))[0],
    )


@pytest.mark.parametrize("name", ["{}.csv", "{}/table.csv", "ID {}.csv", "{}_rmse.csv"])
def test_files_named_after_data_sets(tmp_path, name):
    """Whatever a single name may be else, such as a detector called energy."""
    for n, known in enumerate(("concrete", "energy", "yacht", "wine")):
        text = f"model,RMSE\nXGBoost,{n + 1.5}\nRidge,{n + 1.7}\n"
        saved(tmp_path, text, name.format(known))
    main = read_results(tmp_path).results[0]
    assert (main.detectors, len(main.ids)) == (("XGBoost", "Ridge"), 4)


def test_folders_named_after_data_sets_may_be_those_of_outliers(tmp_path):
    for name, part in one_run().groupby("ood_dataset"):
        saved(tmp_path, part.drop(columns="ood_dataset").to_csv(index=False), f"{name}/table.csv")
    assert cells(tmp_path) == cells(one_run())


def test_a_file_that_says_its_run_is_no_detector(tmp_path):
    for seed in range(3):
        text = "ood_dataset,Glint AUROC,Flare AUROC\nPeaks,0.91,0.92\nDunes,0.8,0.8{seed}\n"
        saved(tmp_path, text.replace("{seed}", str(seed)), f"seed_{seed}.csv")
    main = read_results(tmp_path).results[0]
    assert main.detectors == ("Glint", "Flare") and main.factor_names == ("seed",)


def test_names_of_files_may_end_with_their_metric(tmp_path):
    long = numbers("optimizer", ("sgd", "adam"))
    for level, part in long.groupby("optimizer"):
        rows = part.pivot_table("AUROC", "ood_dataset", "Method", sort=False)
        saved(tmp_path, rows.to_csv(), f"optimizer={level}_auroc.csv")
    assert cells(tmp_path) == cells(long)


def test_files_named_after_outlier_sets_beside_a_column_of_id_sets(tmp_path):
    for name, part in one_run().groupby("ood_dataset"):
        lines = part.drop(columns="ood_dataset")
        both = [lines.assign(id_dataset=known) for known in ("CIFAR-10", "CIFAR-100")]
        both[1]["AUROC"] += np.linspace(0.1, 2.3, len(lines))
        saved(tmp_path, pd.concat(both).to_csv(index=False), f"{name}.csv")
    main = read_results(tmp_path).results[0]
    assert (set(main.ids), set(main.ood)) == ({"CIFAR-10", "CIFAR-100"}, set(SETS))
    assert main.factor_names == ()


def test_calibration_is_that_of_classifiers_on_their_data():
    names = ("Temperature Scaling", "Deep Ensemble")
    rows = [
        (n, s, 0.02 + k / 100) for k, n in enumerate(names) for s in ("CIFAR-10", "SVHN", "STL10")
    ]
    main = read_results(pd.DataFrame(rows, columns=["Method", "Dataset", "ECE"])).results[0]
    assert main.ids == ("CIFAR-10", "SVHN", "STL10")


def test_headings_stay_above_their_lines_if_the_first_cell_names_both_axes(tmp_path):
    rng = np.random.default_rng(2)
    lines = ["Method \\ seed,seed 0,seed 1"]
    for name in SETS:
        rows = [f"{d},{rng.uniform():.4f},{rng.uniform():.4f}" for d in DETECTORS]
        lines += [f"OOD: {name},,", *rows]
    main = read_results(saved(tmp_path, "\n".join(lines))).results[0]
    assert (main.detectors, main.ood, main.factor_names) == (DETECTORS, SETS, ("seed",))
