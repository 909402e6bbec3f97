"""Tables as trackers, terminals, R, Hydra and papers write them, read as their authors would."""

import bz2
import gzip
import json
import lzma

import pandas as pd
import pytest

from oodometer.analysis import analyze
from oodometer.errors import UserError
from oodometer.tables import read_results
from oodometer.tables.cells import is_gap, read_cell
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.statistics import is_average

FOUR = {
    ("MSP", "SVHN"): 91.25,
    ("MSP", "LSUN"): 90.5,
    ("KNN", "SVHN"): 93.125,
    ("KNN", "LSUN"): 92.0,
}
TWELVE = {(*key, str(k)): v + k / 8 for key, v in FOUR.items() for k in range(3)}
LONG = pd.DataFrame(
    [(*key, v) for key, v in TWELVE.items()], columns=["method", "ood", "seed", "auroc"]
)
CSV = LONG.to_csv(index=False)


def read(tmp_path, files, name="t.csv", columns=""):
    files = files if isinstance(files, dict) else {name: files}
    for file, content in files.items():
        path = tmp_path / "given" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_results(tmp_path / "given" / (name if len(files) == 1 else ""), columns)


def values(reading, *factors, metric="auroc"):
    (found,) = [part for part in reading.results if part.metric == metric]
    assert found.factor_names == factors
    lines = found.frame[["detector", "ood", *factors, "value"]].to_numpy().tolist()
    return {tuple(labels): round(100 * value, 9) for *labels, value in lines}


@pytest.mark.parametrize(
    ("text", "value", "spread"),
    [
        (r"91.2$^\dagger$", 91.2, None), (r"91.2$^{\ast}$", 91.2, None), ("91.2^{1}", 91.2, None),
        ("91.2 std 0.3", 91.2, 0.3), ("'91.2'", 91.2, None), ("91.2 (89.1-93.2)", 91.2, None),
        ("🥇 91.2", 91.2, None), ("９１．２", 91.2, None), ("91.2 ↑1.2", 91.2, None),
        ('<span class="x">91.2</span>', 91.2, None), ("91.2 [1]", 91.2, None),
        ("91.2 percent", 91.2, None), ("91.2$_{0.30}$", 91.2, 0.3), ("91.2 ± n/a", 91.2, None),
        (r"\colorbox{gray!20}{91.2}", 91.2, None), ("93.1* (0.2)", 93.1, 0.2),
        ("91,2\u202f%", 91.2, None), ("91.2 (rank 2)", 91.2, None),
    ],
)  # fmt: skip
def test_cells(text, value, spread):
    cell = read_cell(text)
    assert (cell.value, cell.spread) == (value, spread)


def test_gaps_and_what_is_none():
    gaps = ("#NV", "#VALEUR!", "n. a.", r"\-", "∅", "…", "*running*", "k.A.", "DNF", "×")
    assert all(map(is_gap, gaps))
    assert not any(map(is_gap, ("x", "#1", "0", "inf", "msp")))
    assert not any(map(read_cell, ("2024-01-01", "10-20", "91.2 - 93", "3 sdf")))


@pytest.mark.parametrize(
    ("title", "metric", "what"),
    [
        ("SVHN.auroc", "auroc", "SVHN"), ("AUROC-SVHN", "auroc", "SVHN"), ("FPR-95", "fpr95", ""),
        ("TexturesFPR", "fpr95", "Textures"), ("ImageNet-O.AUROC", "auroc", "ImageNet-O"),
        ("FPR-95-SVHN", "fpr95", "SVHN"), ("PR-AUC", "aupr_out", ""), ("AUC-PR", "aupr_out", ""),
        ("ROC-AUC", "auroc", ""), ("auroc.1", "auroc", ""), ("AUROC.std", "auroc", "std"),
        ("AUROC ± std", "auroc", ""), ("1-AUROC", "", ""), ("ACC95TPR", "", ""),
    ],
)  # fmt: skip
def test_titles(title, metric, what):
    assert (metric_named(title), without_metric(title)) == (metric, what)


def test_titles_of_averages():
    means = ("Ø", "Average (far)", "Mittel", "Mean over sets", "Avg. (4)", "AVERAGE ↑")
    assert all(map(is_average, means))
    assert not any(map(is_average, ("Mean Teacher", "MeanShift", "average pooling", "SVHN")))


def _drawn(bar):
    return f"┏━━━━┓\n{bar} Method {bar} SVHN {bar} LSUN {bar}\n┡━━╇━━┩\n" + "".join(
        f"│ {d} │ {FOUR[d, 'SVHN']} │ {FOUR[d, 'LSUN']} │\n" for d in ("MSP", "KNN")
    )


def _wide(title="{}", cell="{}"):
    lines = ["Method," + ",".join(title.format(s) for s in ("SVHN", "LSUN"))]
    lines += [f"{d}," + ",".join(cell.format(FOUR[d, s]) for s in ("SVHN", "LSUN"))
              for d in ("MSP", "KNN")]  # fmt: skip
    return "\n".join(lines) + "\n"


MEANS = {
    "drawn": _drawn("│"), "drawn, heavy": _drawn("┃"),
    "turned": "method,MSP,MSP,KNN,KNN\nood,SVHN,LSUN,SVHN,LSUN\nauroc,91.25,90.5,93.125,92\n",
    "links and commands": _wide(r"\textbf{{{}}} $\uparrow$").replace("MSP", "[MSP](http://a.b)"),
    "commas in a comment": "# made by me, on a Monday, here\n" + _wide(),
    "averages": _wide().replace("LSUN\n", r"LSUN,\textbf{Avg.}" + "\n").replace(".5\n", ".5,1.5\n")
        .replace(".0\n", ".0,2.5\n") + "Ø,1,2,3\n",
    "spread and gain below": _wide() + "std,1.5,1.25\nΔ,+1.5,+2.0\n",
    "low and high": "method,ood,auroc,auroc_lo,auroc_hi\n" + "".join(
        f"{d},{s},{v},{v - 1},{v + 1}\n" for (d, s), v in FOUR.items()),
    "marked in LaTeX": _wide().replace(",", " & ").replace("\n", r" \\" + "\n").replace(
        "KNN", r"KNN$^\dagger$"),
    "described": "method,ood,count,mean,std,min,25%,50%,75%,max\n" + "".join(
        f"{d},{s},3,{v},.5,{v - 1},{v - 0.5},{v},{v + 0.5},{v + 1}\n" for (d, s), v
        in FOUR.items()),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANS)
def test_means(tmp_path, name):
    assert values(read(tmp_path, MEANS[name])) == FOUR


def test_a_single_column_called_like_a_set_is_that_set(tmp_path):
    assert values(read(tmp_path, "Method,SVHN\nMSP,91\nKNN,93\n")) == {
        ("MSP", "SVHN"): 91, ("KNN", "SVHN"): 93,
    }  # fmt: skip


RUNS = {
    "R": ('"method" "ood" "seed" "auroc"\n' + "".join(
        f'"{n + 1}" "{d}" "{s}" {k} {v}\n' for n, ((d, s, k), v) in enumerate(TWELVE.items()))),
    "R, commas": '"method","ood","seed","auroc"\n' + "".join(
        f'"{n + 1}","{d}","{s}",{k},{v}\n' for n, ((d, s, k), v) in enumerate(TWELVE.items())),
    "pandas, runs above": LONG.pivot_table(index="method", columns=["ood", "seed"],
                                     values="auroc").to_csv(),
    "pandas, two names": LONG.pivot_table(index=["method", "seed"], columns="ood",
                                    values=["auroc"]).to_csv(),
    "capitals": CSV.replace("seed", "Random Seed", 1),
    "trackers": CSV.replace("method,ood,seed,auroc",
                            "params.method,tags.ood,params.seed,metrics.auroc"),
    "JSON in lines, called JSON": LONG.to_json(orient="records", lines=True),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_runs(tmp_path, name):
    suffix = "json" if "JSON" in name else "csv"
    assert values(read(tmp_path, RUNS[name], f"t.{suffix}"), "seed") == TWELVE


def test_names_of_repeats_are_one_for_all_protocols(tmp_path):
    reading = read(tmp_path, CSV.replace("seed", "Lauf", 1))
    assert values(reading, "run") == TWELVE
    assert ("Lauf", "factor, called run") in reading.columns


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_files(tmp_path, pack):
    assert values(read(tmp_path, pack(CSV.encode()), "t.csv.gz"), "seed") == TWELVE
    with pytest.raises(UserError, match="compressed and damaged"):
        read(tmp_path, pack(CSV.encode())[:40], "u.csv.gz")


FOLDERS = {
    "hydra": {f"method={d},seed={k}/m.csv": "ood,auroc\n" + "".join(
        f"{s},{TWELVE[d, s, str(k)]}\n" for s in ("SVHN", "LSUN"))
        for d in ("MSP", "KNN") for k in range(3)},
    "one run a file": {f"{d}_{k}.json": json.dumps({"config": {"method": d, "seed": k, "lr": 0.1},
        "results": {s: {"auroc": TWELVE[d, s, str(k)]} for s in ("SVHN", "LSUN")}})
        for d in ("MSP", "KNN") for k in range(3)},
    "lines in two files": {"a.csv": CSV, "b.csv": CSV, ".cache/c.csv": CSV.replace("9", "8"),
                           "~$a.xlsx": "lock"},
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_folders(tmp_path, name):
    assert values(read(tmp_path, FOLDERS[name]), "seed") == TWELVE


def test_several_tables_below_headings_are_of_several_id_sets(tmp_path):
    text = "| Method | SVHN | LSUN |\n|---|---|---|\n| MSP | 91 | 92 |\n| KNN | 93 | 94 |\n"
    found = read(
        tmp_path, f"## CIFAR-10\n\n{text}\n## CIFAR-100\n\n{text.replace('9', '8')}", "t.md"
    )
    frame = found.results[0].frame
    assert frame[frame["id"] == "CIFAR-100"]["value"].tolist() == [0.81, 0.83, 0.82, 0.84]


def test_identifiers_of_runs_are_no_id_sets(tmp_path):
    lines = "".join(f"x{n}{chr(97 + n)},{d},{s},{k},{v}\n"
                    for n, ((d, s, k), v) in enumerate(TWELVE.items()))  # fmt: skip
    reading = read(tmp_path, "ID,method,ood,seed,auroc\n" + lines)
    assert values(reading, "seed") == TWELVE
    assert ("ID", "not used: row names") in reading.columns


def test_numbers_beyond_their_range_by_rounding_only(tmp_path):
    text = "method,ood,auroc,fpr95\nMSP,a,.99,-1e-17\nKNN,a,1.0000001,.5\n"
    reading = read(tmp_path, text)
    assert values(reading) == {("MSP", "a"): 99, ("KNN", "a"): 100}
    assert values(reading, metric="fpr95") == {("MSP", "a"): 0, ("KNN", "a"): 50}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("method,ood,1-AUROC\nMSP,a,9\nKNN,a,8\n", "'1-AUROC' holds another kind of metric"),
        ("Method,SVHN\nMSP,91.2 / 40\nKNN,92 / 30\n", "hold two numbers: say what they are"),
        ("<html><table></table></html>", "is a web page"),
        (b"\x80\x04\x95\x01\x02\x03,a\n", "not a text table"),
        ("method,ood,auroc\nMSP,a,.9\nKNN,a,1.02\nViM,a,.7\n", "holds 0.7 and 1.02: neither"),
    ],
)
def test_refusals(tmp_path, text, words):
    with pytest.raises(UserError, match=words) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_pictures_of_one_cell_are_left_out_and_large_ones_cut():
    one = analyze(pd.DataFrame({"method": ["MSP"], "ood": ["SVHN"], "auroc": [0.9]}))
    assert not [series for series in one[0].series if series.kind == "heatmap"]
    lines = [(f"d{n:03d}", s, 0.5 + n / 1000) for n in range(80) for s in ("a", "b")]
    many = analyze(pd.DataFrame(lines, columns=["method", "ood", "auroc"]))[0]
    shown = next(series for series in many.series if series.name == "leaderboard")
    assert len({point["label"] for point in shown.points}) == 60
    assert any("(60 of 80)" in caveat for caveat in many.caveats)
