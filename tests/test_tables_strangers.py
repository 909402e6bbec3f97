"""One set of numbers in every dress that strangers' tables wear: each is read as it was written."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from oodometer.analysis import analyze
from oodometer.errors import UserError
from oodometer.tables import read_results
from oodometer.tables.cells import read_cell

DETECTORS, SETS = ("MSP", "ODIN", "KNN", "ViM"), ("SVHN", "LSUN-C", "Textures", "Places365")
_RNG = np.random.default_rng(7)
AUROC = {(d, s): round(float(_RNG.uniform(70, 99)), 2) for d in DETECTORS for s in SETS}
FPR = {(d, s): round(float(_RNG.uniform(8, 80)), 2) for d in DETECTORS for s in SETS}
LONG = [{"method": d, "ood": s, "auroc": AUROC[d, s]} for d in DETECTORS for s in SETS]


def read(tmp_path, content, name="t.csv", columns=""):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_results(path, columns)


def values(reading, metric="auroc", *factors):
    (found,) = [part for part in reading.results if part.metric == metric]
    assert found.factor_names == factors
    lines = found.frame[["detector", "ood", *factors, "value"]].to_numpy().tolist()
    return {tuple(labels): value for *labels, value in lines}


def share(numbers):
    return pytest.approx({key: value / 100 for key, value in numbers.items()})


def wide(numbers=AUROC, *, cell="{:.2f}", title="{}", between=",", first="Method"):
    lines = [[first, *(title.format(name) for name in SETS)]]
    lines += [[d, *(cell.format(numbers[d, s]) for s in SETS)] for d in DETECTORS]
    return "\n".join(between.join(line) for line in lines) + "\n"


@pytest.mark.parametrize(
    "title",
    ["AUROC↑", "AUROC (%)", "AUC [%]", "auc", "ROC-AUC", "AUROC (higher is better)", "Test AUROC"],
)
def test_titles_of_auroc(tmp_path, title):
    found = read(tmp_path, wide(title="{} " + title))
    assert values(found) == share(AUROC) and len(found.results) == 1
    long = f"method,dataset,{title}\n" + "".join(f"{d},{s},{v}\n" for (d, s), v in AUROC.items())
    assert values(read(tmp_path, long)) == share(AUROC)


@pytest.mark.parametrize(
    "title", ["FPR95 (%)", "fpr@95tpr", "FPR@95", "FPR95↓", "FPR@TPR95", "FPR at 95% TPR",
              "FPR@95%TPR", "FPR (95% TPR)"],
)  # fmt: skip
def test_titles_of_the_false_positive_rate(tmp_path, title):
    found = read(tmp_path, wide(FPR, title="{} " + title))
    assert values(found, "fpr95") == share(FPR) and not found.results[0].higher_is_better


@pytest.mark.parametrize(
    ("cell", "spread"),
    [
        ("{:.2f}±0.30", 0.003), ("{:.2f} (0.3)", 0.003), ("{:.2f} +/- .3", 0.003),
        ("{:.2f} (std 0.3)", 0.003), ("{:.2f} (±0.3)", 0.003), ("{:.2f}<sub>±0.3</sub>", 0.003),
        (r"${:.2f}_{{\pm0.3}}$", 0.003), (r"{:.2f}{{\tiny $\pm$0.3}}", 0.003),
        (r"$\mathbf{{{:.2f}}}\pm0.3$", 0.003), ("**{:.2f}** ± 0.3", 0.003),
        ("{:.2f}\u00a0±\u00a00.3", 0.003), ("{:.2f}% ± 0.3%", 0.003),
        ("**{:.2f}**", None), ("_{:.2f}_", None), ("<b>{:.2f}</b>", None), ("{:.2f}*", None),
        (r"\best{{{:.2f}}}", None), (r"\textcolor{{red}}{{{:.2f}}}", None), ("{:.2f}%", None),
        ("{:.2f} (1)", None), ("{:.2f} (+1.3)", None), ("{:.2f} (↑1.3)", None),
        ('"{:.2f} [89.1, 93.2]"', None), (r"{:.2f}~\cite{{a2020}}", None),
    ],
)  # fmt: skip
def test_dresses_of_cells(tmp_path, cell, spread):
    found = read(tmp_path, wide(cell=cell))
    assert values(found) == share(AUROC)
    stated = found.results[0].frame.get("spread")
    assert stated is None if spread is None else stated.tolist() == pytest.approx([spread] * 16)


def test_a_rank_or_a_gain_in_brackets_is_said_not_to_be_used(tmp_path):
    found = read(tmp_path, wide(cell="{:.2f} (+1.3)"))
    assert "text after the numbers in cells is not a spread and is ignored: (+1.3)" in found.notes
    assert read_cell("91,2 (0,3)").spread == 0.3


def _multi(swap=False):
    frame = pd.DataFrame(
        {(s, m): [v[d, s] for d in DETECTORS] for s in SETS
         for m, v in (("AUROC", AUROC), ("FPR95", FPR))}, index=list(DETECTORS),
    )  # fmt: skip
    frame.columns.names, frame.index.name = ("dataset", "metric"), "method"
    return frame.swaplevel(axis=1).sort_index(axis=1) if swap else frame


def _by_metric():
    lines = [",".join([d, m, *(str(v[d, s]) for s in SETS)]) for d in DETECTORS
             for m, v in (("AUROC", AUROC), ("FPR95", FPR))]  # fmt: skip
    return "\n".join(lines)


BOTH = {
    "pandas, two levels": _multi().to_csv(),
    "pandas, metric above": _multi(swap=True).to_csv(),
    "pandas, no names": _multi().rename_axis(None).rename_axis([None, None], axis=1).to_csv(),
    "merged titles": "Method,AUROC↑,,,,FPR95↓,,,\n," + ",".join(SETS * 2) + "\n" + "".join(
        ",".join([d, *(str(v[d, s]) for v in (AUROC, FPR) for s in SETS)]) + "\n"
        for d in DETECTORS),
    "detectors above": f",{',,'.join(DETECTORS)},\nDataset{',AUROC,FPR95' * 4}\n" + "".join(
        f"{s}," + ",".join(f"{AUROC[d, s]},{FPR[d, s]}" for d in DETECTORS) + "\n" for s in SETS),
    "lines of metrics": "method,metric," + ",".join(SETS) + "\n" + _by_metric(),
    "lines without titles": ",," + ",".join(SETS) + "\n" + _by_metric(),
    "nested JSON": json.dumps({d: {s: {"AUROC": AUROC[d, s], "FPR95": FPR[d, s]} for s in SETS}
                               for d in DETECTORS}),
    "JSON lines": "\n".join(json.dumps(
        {"method": d, "ood": s, "metrics": {"auroc": AUROC[d, s], "fpr95": FPR[d, s]}})
        for d in DETECTORS for s in SETS),
    "LaTeX": "\\begin{tabular}{lcc}\n\\toprule\nMethod & " + " & ".join(
        rf"\multicolumn{{2}}{{c}}{{{s}}}" for s in SETS)
        + "\\\\\n\\cmidrule(lr){2-3}\n & "
        + " & ".join([r"FPR95$\downarrow$ & AUROC$\uparrow$"] * 4)
        + "\\\\\n\\midrule\n" + "".join(f"\\rowcolor{{gray!10}} {d} & " + " & ".join(
            rf"{FPR[d, s]} & {AUROC[d, s]}$_{{\pm 0.3}}$" for s in SETS) + "\\\\\n"
        for d in DETECTORS) + "\\bottomrule\n\\end{tabular}",
}  # fmt: skip


@pytest.mark.parametrize("name", BOTH)
def test_two_metrics(tmp_path, name):
    suffix = {"nested JSON": "json", "JSON lines": "jsonl", "LaTeX": "tex"}.get(name, "csv")
    found = read(tmp_path, BOTH[name], f"t.{suffix}")
    assert values(found) == share(AUROC) and values(found, "fpr95") == share(FPR)


def _parquet(frame):
    content = io.BytesIO()
    frame.to_parquet(content)
    return content.getvalue()


def _latex_lines():
    """One row of the table over several lines of the file, below a header over all columns."""
    rows = "".join(
        f"{d}\n" + "".join(f"& {AUROC[d, s]}\n" for s in SETS) + "\\\\\n" for d in DETECTORS
    )
    head = r"\multirow{2}{*}{\textbf{Method}} & \multicolumn{4}{c}{OOD data sets} \\"
    return (
        f"\\begin{{tabular}}{{lcccc}}\n{head}\n & {' & '.join(SETS)} \\\\\n{rows}\\end{{tabular}}\n"
    )


def _ruled(mark):
    frame = pd.DataFrame({s: [AUROC[d, s] for d in DETECTORS] for s in SETS}, index=list(DETECTORS))
    lines = frame.to_string().splitlines()
    rule = mark * len(lines[0])
    return "\n".join([rule, lines[0].replace("    ", "what", 1), rule, *lines[1:], rule])


ONE = {
    "tsv, CRLF, BOM": ("t.tsv", wide(between="\t").replace("\n", "\r\n").encode("utf-8-sig")),
    "UTF-16": ("t.csv", wide().encode("utf-16")),
    "UTF-16 without mark": ("t.csv", wide().encode("utf-16-le")),
    "old Macintosh": ("t.csv", wide().replace("\n", "\r")),
    "decimal commas": ("t.csv", wide(between=";").replace(".", ",")),
    "quoted decimal commas": ("t.csv", wide(cell='"{:.2f}"').replace(".", ",")),
    "trailing delimiter": ("t.csv", wide().replace("\n", ",\n")),
    "Markdown in prose": ("t.md", "Prose, with a comma.\n\n| Method | " + " | ".join(SETS) + " |\n"
        + "|---" * 5 + "|\n" + "".join(f"| {d} | " + " | ".join(f"**{AUROC[d, s]}**" for s in SETS)
        + " |\n" for d in DETECTORS) + "\nAnd more prose.\n"),
    "Markdown without outer bars": (
        "t.md", wide(between=" | ").replace("\n", "\n--|--|--|--|--\n", 1)),
    "aligned as pandas prints": ("t.txt", pd.DataFrame(LONG).to_string(index=False)),
    "aligned with line numbers": ("t.txt", pd.DataFrame(LONG).to_string()),
    "ruled lines": ("t.txt", _ruled("=")),
    "copied from a page": ("t.txt", wide(between=" ")),
    "LaTeX over several lines": ("t.tex", _latex_lines()),
    "JSON by columns": ("t.json", pd.DataFrame(LONG).to_json()),
    "JSON split": ("t.json", pd.DataFrame(LONG).to_json(orient="split")),
    "JSON table": ("t.json", pd.DataFrame(LONG).to_json(orient="table")),
    "JSON with a head": ("t.json", json.dumps({"date": "2024", "results": LONG})),
    "JSON of names": ("t.json", json.dumps({d: {s: AUROC[d, s] for s in SETS} for d in DETECTORS})),
    "Parquet by names": ("t.parquet", _parquet(pd.DataFrame(
        {s: [AUROC[d, s] for d in DETECTORS] for s in SETS}, index=list(DETECTORS)))),
    "index with holes": ("t.csv", pd.DataFrame(LONG, index=range(2, 50, 3)).to_csv()),
    "pairs with arrows": ("t.csv", "method,ID → OOD,AUROC\n" + "".join(
        f"{d},CIFAR-10 → {s},{v}\n" for (d, s), v in AUROC.items())),
    "mean and std lines": ("t.csv", "method,statistic," + ",".join(SETS) + "\n" + "".join(
        f"{d},mean," + ",".join(str(AUROC[d, s]) for s in SETS) + f"\n{d},std,.3,.3,.3,.3\n"
        for d in DETECTORS)),
    "averages": ("t.csv", "Method," + ",".join(SETS) + ",Avg.,Near-OOD\n" + "".join(
        f"{d}," + ",".join(str(AUROC[d, s]) for s in SETS) + ",88.8,77.7\n" for d in DETECTORS)
        + "Mean,80,81,82,83,84,85\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_forms_of_files(tmp_path, name):
    file_name, content = ONE[name]
    assert values(read(tmp_path, content, file_name)) == share(AUROC)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.tex", "\\caption{FPR95 (\\%) of all methods}\n"
         + wide(FPR, between=" & ").replace("\n", "\\\\\n")),
        ("t.csv", "Table 3: FPR@95TPR\n\n" + wide(FPR)),
        ("t.md", "## FPR95\n\n" + wide(FPR, between=" | ")),
        ("fpr95.csv", wide(FPR)),
    ],
    ids=["caption", "title", "heading", "file"],
)  # fmt: skip
def test_the_metric_may_stand_outside_the_table(tmp_path, name, content):
    found = read(tmp_path, content, name)
    assert values(found, "fpr95") == share(FPR)
    assert any("says that the numbers are FPR@95TPR: lower is" in n for n in found.notes)


@pytest.mark.parametrize(
    "title", ["#Params (M)", "Time (s)", "p-value", "Mean rank", "Δ", "Year", "ID ACC", "FLOPs"]
)
def test_columns_of_numbers_that_are_no_results(tmp_path, title):
    lines = wide().splitlines()
    numbers = (title, "+1.5", "12.5", "20.5", "30.5")
    text = "\n".join(f"{line},{number}" for line, number in zip(lines, numbers, strict=True))
    assert values(read(tmp_path, text)) == share(AUROC)


def test_unknown_detectors_above_the_columns(tmp_path):
    found = read(tmp_path, "OOD data set,FooNet,BarScore\nSVHN,91,92\nLSUN,93,94\n")
    assert values(found)["BarScore", "LSUN"] == 0.94


def test_detectors_may_be_called_like_numbers(tmp_path):
    text = "detector,ood,auroc\n0.1,a,91\n0.5,a,92\n0.1,b,93\n0.5,b,94\n"
    assert values(read(tmp_path, text))["0.5", "b"] == 0.94


def test_seeds_may_be_numbers_above_columns(tmp_path):
    text = "method,dataset,0,1,2\nMSP,a,91.1,91.2,91.3\nKNN,a,92.1,92.2,92.3\n"
    assert values(read(tmp_path, text), "auroc", "run")["KNN", "a", "2"] == pytest.approx(0.923)


def test_job_numbers_dates_and_commits_keep_nobody_from_meeting(tmp_path):
    lines = [f"job-{n},2024-01-{n % 28 + 1:02d},c{n % 3},{d},{s},{seed},{80 + n / 10}"
             for n, (d, s, seed) in enumerate((d, s, k) for d in DETECTORS for s in SETS
                                              for k in range(5))]  # fmt: skip
    head = "run_id,date,commit,method,ood,seed,auroc\n"
    found = read(tmp_path, head + "\n".join(lines))
    assert values(found, "auroc", "seed")["ViM", "Places365", "4"] == pytest.approx(0.879)
    assert dict(found.columns)["commit"] == "not used: differs from line to line"


def test_merged_cells_of_a_factor_are_filled(tmp_path):
    text = "Model,Method,SVHN,LSUN\nResNet,MSP,91,92\n,KNN,93,94\nViT,MSP,81,82\n,KNN,83,84\n"
    found = values(read(tmp_path, text), "auroc", "Model")
    assert found["KNN", "LSUN", "ViT"] == 0.84 and found["KNN", "SVHN", "ResNet"] == 0.93


def test_headings_that_say_of_which_table_lines_are_become_a_column(tmp_path):
    text = "Method,SVHN,LSUN\nCIFAR-10,,\nMSP,91,92\nKNN,93,94\nCIFAR-100,,\nMSP,81,82\nKNN,83,84\n"
    found = read(tmp_path, text).results[0].frame
    assert found[found["id"] == "CIFAR-100"]["value"].tolist() == [0.81, 0.83, 0.82, 0.84]


def test_columns_can_be_joined_and_told(tmp_path):
    text = "Training,Post,Near AUROC,Far AUROC\nCE,MSP,91,92\nCE,KNN,93,94\nOE,MSP,95,96\n"
    found = read(tmp_path, text, columns="detector=Training+Post")
    assert found.results[0].detectors == ("CE + MSP", "CE + KNN", "OE + MSP")
    with pytest.raises(UserError, match="'Trainin'. Did you mean 'Training'"):
        read(tmp_path, text, columns="detector=Trainin+Post")
    found = read(tmp_path, '"a, b",ood,auroc\nx,s,91\ny,s,92\n', columns="detector=a, b, ood=ood")
    assert values(found) == {("x", "s"): 0.91, ("y", "s"): 0.92}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("method,ood,FPR80\nMSP,a,0.3\nKNN,a,1.6\n", "'FPR80' holds another kind of metric"),
        ("method,ood,score value\nMSP,a,0.3\nKNN,a,1.6\n", "neither fractions nor percentages"),
        ("method,ood,auroc\nMSP,a,91±120\nKNN,a,92±1\n", "MSP has a spread of 120 behind 91"),
        ("method,ood,auroc\nMSP,a,91\nMSP,b,did not run\nKNN,a,92\nKNN,b,93\n", "'did not run'"),
        (b"\x1f\x8b\x08\x00rest", "is compressed and damaged"),
    ],
)  # fmt: skip
def test_refusals(tmp_path, text, words):
    with pytest.raises(UserError, match=words) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_openood_s_leaderboard(tmp_path):
    """As OpenOOD publishes it: many detectors on one training, few on others; see its results/."""
    head = ("Training,Postprocessor,Near-OOD_AUROC,Far-OOD_AUROC,ID_Accuracy,Outlier_Data,Arch,"
            "Additional_Description\n")  # fmt: skip
    lines = [
        "CrossEntropy,MSP,88.03 ± 0.25,90.73 ± 0.43,95.06 ± 0.30,No,ResNet18,100 epochs",
        "CrossEntropy,RMDS,89.80 ± 0.28,92.20 ± 0.21,95.06 ± 0.30,No,ResNet18,100 epochs",
        "CrossEntropy,VIM,88.68 ± 0.28,93.48 ± 0.24,95.06 ± 0.30,No,ResNet18,100 epochs",
        "CrossEntropy,KNN,90.64 ± 0.20,92.96 ± 0.14,95.06 ± 0.30,No,ResNet18,100 epochs",
        "RotPred,RotPred,92.68 ± 0.27,96.62 ± 0.18,95.35 ± 0.52,No,ResNet18,100 epochs",
        "LogitNorm,MSP,92.33 ± 0.08,96.74 ± 0.06,94.30 ± 0.25,No,ResNet18,100 epochs",
        "CIDER,KNN,90.71 ± 0.16,94.71 ± 0.36,/,No,ResNet18,100 epochs",
        "OE,MSP,94.82 ± 0.21,96.00 ± 0.13,94.63 ± 0.26,Yes,ResNet18,100 epochs",
    ]
    path = tmp_path / "cifar10.csv"
    path.write_text(head + "\n".join(lines))
    first = analyze(path, runs=3)[0]
    assert [row[0] for row in first.tables[0].rows] == ["KNN", "VIM", "RMDS", "MSP"]
    joined = analyze(path, columns="detector=Training+Postprocessor", runs=3)[0]
    assert joined.tables[0].rows[0][0] == "OE + MSP" and len(joined.tables[0].rows) == 8
