"""Tables as strangers have them: each is understood as a reader would, or refused in a sentence."""

import numpy as np
import pandas as pd
import pytest
from growth import grows_with_its_input

from oodometer.analysis import analyze
from oodometer.errors import UserError
from oodometer.reports import report
from oodometer.tables import read_results

TWO = {("MSP", "SVHN"): 0.912, ("MSP", "LSUN"): 0.90, ("KNN", "SVHN"): 0.931, ("KNN", "LSUN"): 0.92}


def read(tmp_path, text, name="results.csv", encoding="utf-8", columns=""):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return read_results(path, columns)


def values(reading, metric="auroc"):
    (found,) = [part for part in reading.results if part.metric == metric]
    lines = found.frame[["detector", "ood", "value"]].to_numpy().tolist()
    return {(detector, ood): pytest.approx(value) for detector, ood, value in lines}


SHAPES = {
    "european": ("Verfahren;Datensatz;AUROC\nMSP;SVHN;91,2 %\nKNN;SVHN;93,1 %\nMSP;LSUN;90,0 %\n"
                 "KNN;LSUN;92 %\n"),
    "whole percentages": "method,SVHN,LSUN\nMSP,91.2,90\nKNN,93.1,92\n",
    "averages": ("method,SVHN,LSUN,Avg.,Mean AUROC\nMSP,91.2,90,90.6,90.6\nKNN,93.1,92,92.5,92.5\n"
                 "Average,92.1,91,91.5,91.5\n"),
    "footnotes": ("method,SVHN,LSUN\nMSP,91.2,90\nKNN,93.1*,92†\n* best of 3; see the appendix, "
                  "Table 4\n"),
    "headings": "Method,Type,SVHN,LSUN\nPost-hoc,,,\nMSP,p,91.2,90\nTrained,,,\nKNN,t,93.1,92\n",
    "latex": ("\\begin{tabular}{lcc}\n\\toprule\nMethod & SVHN & LSUN \\\\\n\\midrule\n"
              "MSP & 91.2 & 90.0 \\\\\nKNN & \\textbf{93.1} & 92 \\\\\n\\end{tabular}\n"),
    "spaces": "method  ood   auroc\nMSP     SVHN  0.912\nMSP     LSUN  0.90\nKNN     SVHN  0.931\n"
              "KNN     LSUN  0.92\n",
    "transposed": "dataset,MSP,KNN\nSVHN,91.2,93.1\nLSUN,90,92\nAvg,90.6,92.5\n",
    "merged cells": "method,ood,auroc\nMSP,SVHN,91.2\n,LSUN,90\nKNN,SVHN,93.1\n,LSUN,92\n",
    "mean and std": ("method,dataset,auroc_mean,auroc_std\nMSP,SVHN,91.2,.3\nMSP,LSUN,90,.3\n"
                     "KNN,SVHN,93.1,.2\nKNN,LSUN,92,.1\n"),
    "pairs in cells": ("method,SVHN (FPR95/AUROC),LSUN (FPR95/AUROC)\nMSP,40/91.2,30/90\n"
                       "KNN,39/93.1,20/92\n"),
    "quoted line ends": ('method,"ood\nset","AUROC\n(%)",comment\nMSP,SVHN,91.2,"a\nb"\n'
                         'MSP,LSUN,90,"c, d"\nKNN,SVHN,93.1,e\nKNN,LSUN,92,f\n'),
    "two capitals": ("Method,Dataset,AUROC\nMSP,SVHN,.912\nmsp,LSUN,.9\nKNN,svhn,.931\n"
                     "KNN,lsun,.92\n"),
    "internal names": ("method,ood,auroc,percent,row,unit,spread,value\nMSP,SVHN,.912,p,1,u,s,3\n"
                       "MSP,LSUN,.9,p,1,u,s,3\nKNN,SVHN,.931,q,1,u,s,3\nKNN,LSUN,.92,q,1,u,s,3\n"),
    "set sizes and years": ("method,year,dataset,n_samples,auroc\nMSP,2017,SVHN,\"26,032\",.912\n"
                            "MSP,2017,LSUN,\"10,000\",.9\nKNN,2022,SVHN,\"26,032\",.931\n"
                            "KNN,2022,LSUN,\"10,000\",.92\n"),
    "interval columns": ("method,ood,AUROC_low,AUROC,AUROC_high\nMSP,SVHN,.9,.912,.92\n"
                         "MSP,LSUN,.8,.9,.95\nKNN,SVHN,.92,.931,.94\nKNN,LSUN,.9,.92,.95\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_the_same_four_numbers(tmp_path, name):
    reading = read(tmp_path, SHAPES[name], "t.tex" if name == "latex" else "t.csv")
    assert values(reading) == TWO
    assert reading.results[0].factor_names == ()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_encodings(tmp_path, encoding):
    reading = read(tmp_path, "Méthode;Données OOD;AUROC\nMSP;Häuser;91,2\nKNN;Häuser;93\n",
                   encoding=encoding)  # fmt: skip
    assert values(reading) == {("MSP", "Häuser"): 0.912, ("KNN", "Häuser"): 0.93}


def test_two_lines_of_header_without_metrics(tmp_path):
    text = "Method,Near-OOD,,Far-OOD,\n,CIFAR-100,TIN,SVHN,Avg\nMSP,80.1,81.2,91.2,86\n"
    reading = read(tmp_path, text + "KNN,82.1,83.3,92.1,88\n")
    assert reading.results[0].ood == ("Near-OOD CIFAR-100", "Near-OOD TIN", "Far-OOD SVHN")


def test_columns_of_seeds_are_runs(tmp_path):
    reading = read(tmp_path, "method,ood,auroc_seed0,auroc_seed1\nMSP,a,.91,.92\nKNN,a,.92,.93\n")
    assert reading.results[0].factor_names == ("seed",)
    assert sorted(set(reading.results[0].frame["seed"])) == ["0", "1"]


def test_numbers_may_be_names_of_data_sets(tmp_path):
    reading = read(tmp_path, "method,dataset,auroc\nMSP,1,.91\nMSP,2,.92\nKNN,1,.93\nKNN,2,.95\n")
    assert reading.results[0].ood == ("1", "2") and reading.results[0].factor_names == ()


def test_a_parameter_of_one_detector_becomes_part_of_its_name(tmp_path):
    lines = [f"{m},{k},a,{s},.{80 + s}" for m, k in (("MSP", ""), ("KNN", 10), ("KNN", 50))
             for s in range(3)]  # fmt: skip
    reading = read(tmp_path, "method,k,ood,seed,auroc\n" + "\n".join(lines))
    assert reading.results[0].detectors == ("MSP", "KNN (k=10)", "KNN (k=50)")
    assert reading.results[0].factor_names == ("seed",)


def test_a_noise_rate_that_varies_alone_is_a_factor(tmp_path):
    lines = [f"{m},a,{r},.{90 - int(10 * r)}{n}" for m in ("msp", "knn")
             for n, r in enumerate((0.0, 0.2, 0.4))]  # fmt: skip
    reading = read(tmp_path, "method,ood,noise_rate,auroc\n" + "\n".join(lines))
    assert reading.results[0].factor_names == ("noise_rate",)
    assert dict(reading.columns)["noise_rate"] == "factor"


def test_openood_folders_of_two_id_sets_are_not_mixed(tmp_path):
    for known in ("cifar10", "cifar100"):
        for method in ("msp", "mds_ensemble"):
            text = ",FPR@95,AUROC\ntin,35.2 ± 1.0,89.8 ± 0.3\nnearood,35,89.8\nsvhn,9 ± 1,91 ± 1\n"
            path = tmp_path / f"{known}_resnet18_32x32_e100/ood/{method}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (tmp_path / "config.json").write_text("{}")
    reading = read_results(tmp_path)
    main = reading.results[0]
    assert main.detectors == ("mds_ensemble", "msp") and main.factor_names == ()
    assert set(main.frame["id"]) == {"cifar10", "cifar100"} and len(main.frame) == 8
    assert "files that are not tables were left out: config.json" in reading.notes


@pytest.mark.parametrize(
    ("names", "column", "levels"),
    [
        (("seed0.csv", "seed1.csv"), "seed", {"0", "1"}),
        (("resnet.csv", "vit.csv"), "from file", {"resnet", "vit"}),
    ],
)
def test_files_of_one_schema_differ_by_their_names(tmp_path, names, column, levels):
    for number, name in enumerate(names):
        (tmp_path / name).write_text(f"method,ood,auroc\nMSP,a,.9{number}\nKNN,a,.8{number}\n")
    main = read_results(tmp_path).results[0]
    assert main.factor_names == (column,) and set(main.frame[column]) == levels


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('method,ood,auroc\n"MSP,a,.9\nKNN,a,.91\n', "quotation mark in line 2 .* never closed"),
        ("method,ood,auroc\nMSP,a,inf\nKNN,a,.9\n", "'auroc' should contain results.*'inf'"),
        ("method,ood,AUROC (%)\nMSP,a,0.09\nKNN,a,0.08\n", "says percent, but no value is above 1"),
        ("method,ood,fpr95\nMSP,a,45\nMSP,b,40\nKNN,a,.4\nKNN,b,.3\n", "KNN has only the former"),
        ("method,ood,fpr95\nMSP,a,45%\nKNN,a,.4\n", "percent or fractions"),
        ("method,auroc,auroc.1\nMSP,.9,.8\nKNN,.8,.7\n", "'auroc' and 'auroc.1' both hold auroc"),
        ("method,ood,auroc\nMSP,a,1.234,5\nKNN,a,2,5\n", "cells, but the header has"),
    ],
)
def test_refusals(tmp_path, text, words):
    with pytest.raises(UserError, match=words) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_runs_that_never_meet_are_refused(tmp_path):
    lines = [f"{m},a,{s}{m},.9{n}" for m in ("MSP", "KNN") for n, s in enumerate(("sgd", "adam"))]
    (tmp_path / "u.csv").write_text("method,ood,recipe,auroc\n" + "\n".join(lines))
    with pytest.raises(UserError, match="measured on the same runs"):
        analyze(tmp_path / "u.csv", columns="factor=recipe")


def test_frames_with_two_columns_of_one_name_are_refused():
    frame = pd.DataFrame([["msp", 0.9, 0.8]], columns=["method", "auroc", "auroc"])
    with pytest.raises(UserError, match="two columns called 'auroc'"):
        read_results(frame)


def test_the_schema_of_the_label_noise_paper_names_labels_by_their_noise():
    rng = np.random.default_rng(0)
    lines = [
        {"method": m, "training_dataset": f"{known}{noise}", "iid_dataset": known, "seed": seed,
         "checkpoint": c, "ood_dataset": o, "noise_rate": rate, "accuracy": 0.9 - rate,
         "auroc": 0.9 - 0.3 * rate - 0.05 * (m == "msp") + rng.normal(0, 0.005)}
        for known in ("cifar10", "cifar100")
        for noise, rate in (("", 0.0), ("n_agg", 0.1), ("symm_worst", 0.4))
        for m in ("knn", "msp", "vim") for seed in range(3) for c in ("early", "last")
        for o in ("svhn", "dtd")
    ]  # fmt: skip
    findings = analyze(pd.DataFrame(lines))
    (noise,) = [finding for finding in findings if finding.protocol == "label_noise"]
    assert [claim.verdict for claim in noise.claims[:3]] == ["holds", "holds", "holds"]
    assert "Over 2 kinds of noise, noisy labels lower the median AUROC" in noise.claims[0].text
    assert "With symm_worst labels" in noise.claims[2].text


def test_several_metrics_give_one_finding_on_their_agreement():
    lines = [
        {"method": m, "ood": o, "auroc": 0.5 + 0.05 * n, "fpr95": 0.5 - 0.05 * n}
        for n, m in enumerate(("msp", "odin", "knn", "vim", "ash", "gen", "rmds", "mds"))
        for o in ("a", "b")
    ]
    findings = analyze(pd.DataFrame(lines))
    assert [finding.protocol for finding in findings] == ["ranking", "metric_agreement"]
    first, orders = findings[1].claims
    doubt = "but the leads are not significant on other outlier sets like these."
    assert first.text == f"AUROC and FPR@95TPR both rank mds first, {doubt}"
    assert first.verdict == "undecided" and orders.verdict == "holds"  # there is one run only
    assert orders.text == "AUROC and FPR@95TPR order the detectors of this table in the same way."
    turned = pd.DataFrame(lines).assign(fpr95=lambda frame: 1 - frame["fpr95"])
    first, orders = analyze(turned)[1].claims
    assert first.text == f"AUROC ranks mds first, FPR@95TPR msp, {doubt}"
    assert first.verdict == "undecided" and orders.verdict == "holds"
    assert orders.text == "AUROC and FPR@95TPR order the detectors of this table in opposite ways."


def test_more_columns_than_any_results_table_has_are_refused(tmp_path):
    sets = range(20_000)
    lines = [",".join(("method", *(f"set {i}" for i in sets)))]
    lines += [",".join((name, *(f"{90 + i % 7}" for i in sets))) for name in "abc"]
    with pytest.raises(UserError, match="The table has 20,001 columns; at most 10,000 can be read"):
        read(tmp_path, "\n".join(lines), columns="auroc=*")
    wide = pd.DataFrame(np.ones((3, 20_000)), columns=[f"auroc {i}" for i in sets])
    with pytest.raises(UserError, match="20,000 columns"):
        read_results(wide)


def test_a_line_that_no_table_has_is_refused(tmp_path):
    (tmp_path / "line.csv").write_bytes(b"0" * ((1 << 24) + 1))
    with pytest.raises(UserError, match="has a line of more than 16,777,216 characters"):
        read_results(tmp_path / "line.csv")


@pytest.mark.parametrize("letters", ["x", "ab ", "a=1,", "\\a", "[a]("])
def test_a_name_of_100_000_letters_costs_no_more_than_its_length(tmp_path, letters):
    def read_and_report(length: int) -> None:
        names = [letters * (length // len(letters)), "b", "c"]
        table = pd.DataFrame({"method": names, "far": [90, 88, 70], "near": [91, 87, 71]})
        report(analyze(table, columns="auroc=*"), tmp_path, formats=("html", "md", "csv"))

    assert grows_with_its_input(read_and_report, 100_000)  # took minutes once
