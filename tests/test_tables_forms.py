"""One table in all forms of files, long and wide: one reading and one verdict."""

import json
import zipfile
from itertools import product
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
import pytest

from oodometer import analyze
from oodometer.errors import UserError
from oodometer.tables import read_results

DETECTORS = ("MSP", "Energy", "KNN", "ViM")
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def seeds():
    """Four detectors on three outlier sets, in five training runs."""
    rng = np.random.default_rng(0)
    run = rng.normal(0, 0.8, 5)
    return pd.DataFrame(
        [
            {"Method": d, "Dataset": s, "Seed": k, "AUROC": 80 + 3 * n + 2 * m + run[k] + e}
            for n, d in enumerate(DETECTORS)
            for m, s in enumerate(("SVHN", "Textures", "LSUN"))
            for k, e in enumerate(rng.normal(0, 0.4, 5))
        ]
    ).round({"AUROC": 2})


def data_sets():
    """Four detectors, trained and tested on eight data sets each."""
    rng = np.random.default_rng(1)
    sets = ("Adult", "Iris", "Wine", "Glass", "Musk", "Letter", "Yeast", "Vowels")
    hard = rng.normal(0, 6, len(sets))
    return pd.DataFrame(
        [
            {"Method": d, "Dataset": s, "AUROC": 80 + 2 * n + hard[m] + rng.normal(0, 2)}
            for n, d in enumerate(("LOF", "IForest", "OCSVM", "PCA"))
            for m, s in enumerate(sets)
        ]
    ).round({"AUROC": 2})


def id_sets():
    """Four detectors on three outlier sets each of four ID sets."""
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        [
            {"Method": d, "ID": i, "OOD": o, "AUROC": 75 + 3 * n + 4 * m + rng.normal(0, 1.5)}
            for n, d in enumerate(DETECTORS)
            for m, i in enumerate(("CIFAR-10", "CIFAR-100", "ImageNet", "MNIST"))
            for o in ("SVHN", "Textures", "Places365")
        ]
    ).round({"AUROC": 2})


def wide(frame, *columns):
    """Spread a long table: the levels of some of its columns become titles."""
    index = [c for c in frame.columns if c not in (*columns, "AUROC")]
    levels = [list(dict.fromkeys(frame[c])) for c in columns]
    titles = list(product(*levels)) if len(levels) > 1 else levels[0]
    spread = frame.pivot_table("AUROC", index, list(columns), sort=False)[titles]
    named = [
        " ".join(
            f"{column.casefold()}{level}" if column == "Seed" else str(level)
            for column, level in zip(
                columns, levels if isinstance(levels, tuple) else (levels,), strict=True
            )
        )
        for levels in spread.columns
    ]
    return spread.set_axis([f"{name} AUROC" for name in named], axis=1).reset_index()


WORLDS = {
    "seeds": (seeds(), [("Dataset",), ("Dataset", "Seed"), ("Seed",)]),
    "data sets": (data_sets(), [("Dataset",)]),
    "ID sets": (id_sets(), [("OOD",)]),
}
SHAPES = {
    f"{world}, {' and '.join(columns) or 'long'}": (world, columns)
    for world, (_, shapes) in WORLDS.items()
    for columns in ((), *shapes)
}


def texts(frame):
    return [[str(cell) for cell in row] for row in (frame.columns, *frame.to_numpy().tolist())]


def markdown(frame):
    head, *rows = (f"| {' | '.join(row)} |" for row in texts(frame))
    table = "\n".join([head, "|---" * frame.shape[1] + "|", *rows])
    return f"# Our work\n\nSome prose, with | bars.\n\n## Results\n\n{table}\n\nThe end.\n"


def latex(frame):
    head, *rows = (" & ".join(row).replace("_", r"\_") + r" \\" for row in texts(frame))
    body = "\n".join([r"\toprule", head, r"\midrule", *rows, r"\bottomrule"])
    return (
        "\\documentclass{article}\\begin{document}\\section{Results}\n\\begin{table}\n"
        f"\\caption{{All results.}}\n\\begin{{tabular}}{{{'l' * frame.shape[1]}}}\n{body}\n"
        "\\end{tabular}\n\\end{table}\n\\end{document}\n"
    )


def html(frame):
    rows = [
        "<tr>" + "".join(f"<{'td' if n else 'th'}>{escape(cell)}" for cell in row)
        for n, row in enumerate(texts(frame))
    ]
    return f"<!doctype html><html><body><h1>R</h1><table>{''.join(rows)}</table></body></html>"


def aligned(frame):
    return frame.to_string(index=False) + "\n"


def workbook(frame):
    """The least that is a workbook."""
    cells = "".join(
        "<row>"
        + "".join(
            f"<c><v>{cell}</v></c>"
            if n and isinstance(cell, int | float)
            else f'<c t="inlineStr"><is><t>{escape(str(cell))}</t></is></c>'
            for cell in row
        )
        + "</row>"
        for n, row in enumerate([list(frame.columns), *frame.astype(object).to_numpy().tolist()])
    )
    return {
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>'
        '<sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": "<Relationships xmlns="
        '"http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
        f'Type="{RELATIONS}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"><sheetData>{cells}</sheetData>'
        "</worksheet>",
    }


FORMS = {
    "csv": lambda frame: frame.to_csv(index=False),
    "tsv": lambda frame: frame.to_csv(index=False, sep="\t"),
    "md": markdown,
    "tex": latex,
    "html": html,
    "json": lambda frame: frame.to_json(orient="records"),
    "jsonl": lambda frame: frame.to_json(orient="records", lines=True),
    "columns.json": lambda frame: json.dumps(frame.to_dict(orient="list")),
    "txt": aligned,
    "xlsx": workbook,
    "parquet": None,
}


def written(tmp_path, frame, form):
    path = tmp_path / f"results.{form}"
    if form == "parquet":
        frame.to_parquet(path)
    elif form == "xlsx":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in workbook(frame).items():
                archive.writestr(name, content)
    else:
        path.write_text(FORMS[form](frame), encoding="utf-8")
    return path


def lines(reading):
    """What was read: all values with their labels, in any order."""
    (results,) = reading.results
    frame = results.frame
    labels = sorted(c for c in frame.columns if c not in ("value", "spread", "runs"))
    kinds = {(f.name.casefold(), f.kind) for f in results.factors}
    rows = sorted(
        (*(f"{label.casefold()}={row[label]}" for label in labels), round(row["value"], 6))
        for _, row in frame.iterrows()
    )
    return rows, kinds


def verdicts(given):
    findings = analyze(given)
    return [
        (finding.protocol, claim.verdict, claim.text.casefold())
        for finding in findings
        for claim in finding.claims
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_one_reading(tmp_path, shape, form):
    world, columns = SHAPES[shape]
    frame, _ = WORLDS[world]
    path = written(tmp_path, wide(frame, *columns) if columns else frame, form)
    assert lines(read_results(path)) == lines(read_results(frame))


@pytest.mark.parametrize("shape", [shape for shape, (_, columns) in SHAPES.items() if columns])
def test_one_verdict(tmp_path, shape):
    world, columns = SHAPES[shape]
    frame, _ = WORLDS[world]
    assert verdicts(wide(frame, *columns)) == verdicts(frame)


@pytest.mark.parametrize(
    "heading", ["{}", "ID: {}", "Trained on {}", "{} as ID", "ID dataset = {}"]
)
def test_a_heading_between_rows_names_the_data_set_that_it_holds(tmp_path, heading):
    lines = ["Method,SVHN AUROC,LSUN AUROC"]
    for place, name in enumerate(("CIFAR-10", "CIFAR-100", "ImageNet-200")):
        lines += [f"{heading.format(name)},,", f"MSP,9{place}.1,8{place}.2", f"KNN,9{place}.5,90.4"]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines))
    (results,) = read_results(path).results
    assert set(results.frame["id"]) == {"CIFAR-10", "CIFAR-100", "ImageNet-200"}
    assert not results.factors


def test_a_heading_between_rows_may_number_the_run(tmp_path):
    lines = ["Method,SVHN AUROC,LSUN AUROC"]
    for seed in range(3):
        lines += [f"Seed {seed},,", f"MSP,9{seed}.1,8{seed}.2", f"KNN,9{seed}.5,90.4"]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines))
    (results,) = read_results(path).results
    assert [(factor.name, factor.kind) for factor in results.factors] == [("seed", "repeat")]


def in_titles(frame, column, pattern):
    """Spread one column: its levels stand in titles, as a pattern says."""
    index = [c for c in frame.columns if c not in (column, "AUROC")]
    spread = frame.pivot_table("AUROC", index, column, sort=False)
    return spread.set_axis([pattern.format(level) for level in spread.columns], axis=1)


@pytest.mark.parametrize("level", ["Dataset", "Method", "Seed"])
def test_a_frame_with_titles_of_two_levels(level):
    frame = seeds()
    called = "seed {}" if level == "Seed" else "{}"
    spread = in_titles(frame, level, called)
    spread.columns = pd.MultiIndex.from_product([spread.columns, ["AUROC"]])
    assert lines(read_results(spread.reset_index())) == lines(read_results(frame))


def test_titles_of_three_levels_in_a_frame():
    frame = id_sets()
    spread = frame.pivot_table("AUROC", "Method", ["ID", "OOD"], sort=False)
    spread.columns = pd.MultiIndex.from_tuples([(*pair, "AUROC") for pair in spread.columns])
    assert lines(read_results(spread)) == lines(read_results(frame))


@pytest.mark.parametrize("pattern", ["{} AUROC", "{}"])
@pytest.mark.parametrize("factor", ["optimizer", "label_noise", "Network", "lr", "seed", "Loss"])
def test_titles_state_the_level_of_a_factor(tmp_path, factor, pattern):
    frame = seeds().rename(columns={"Seed": factor})
    levels = ("ce", "focal", "mixup") if factor == "Loss" else ("0", "0.1", "0.2")
    frame = frame[frame[factor] < len(levels)].copy()
    frame[factor] = [levels[place] for place in frame[factor]]
    path = tmp_path / "auroc.csv"
    in_titles(frame, factor, pattern.format(f"{factor}={{}}")).reset_index().to_csv(
        path, index=False
    )
    rows, kinds = lines(read_results(path))
    expected, known = lines(read_results(frame))
    spelled = [tuple(str(part).replace("_", " ") for part in row) for row in (*rows, *expected)]
    assert spelled[: len(rows)] == spelled[len(rows) :]
    assert {kind for _, kind in kinds} == {kind for _, kind in known}


def test_whole_numbers_in_titles_may_be_written_as_decimals(tmp_path):
    frame = seeds()
    spread = wide(frame, "Dataset", "Seed").rename(
        columns=lambda c: c.replace(" AUROC", ".0 AUROC")
    )
    assert lines(read_results(spread)) == lines(read_results(frame))


def test_columns_without_titles_stay_apart(tmp_path):
    table = {"columns": ["", "", "MSP", "KNN"], "data": [["SVHN", "AUROC", 91.2, 93.1],
             ["LSUN", "AUROC", 90.2, 92.1]]}  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps(table))
    assert set(read_results(path).results[0].ood) == {"SVHN", "LSUN"}
    table["columns"][:2] = ["Data", "Data"]
    path.write_text(json.dumps(table))
    with pytest.raises(UserError, match="two columns called 'Data'"):
        read_results(path)


@pytest.mark.parametrize("index", [True, False])
def test_printed_frames_have_one_space_between_some_columns(tmp_path, index):
    frame = id_sets().rename(columns={"ID": "ID dataset", "OOD": "OOD dataset"})
    frame["Method"] = frame["Method"].replace({"KNN": "Distance to the nearest neighbors"})
    path = tmp_path / "t.txt"
    path.write_text(frame.to_string(index=index) + "\n")
    assert lines(read_results(path)) == lines(read_results(frame))


@pytest.mark.parametrize("name", ["Max Logit", "Max Foo", "Absolute max probability difference"])
def test_detectors_called_like_statistics_are_compared_in_every_layout(name):
    frame = seeds()
    frame["Method"] = frame["Method"].replace({"ViM": name})
    for columns in (("Method",), ("Method", "Dataset")):
        assert lines(read_results(wide(frame, *columns))) == lines(read_results(frame))


def test_the_name_of_a_file_is_no_detector_beside_detectors_in_titles(tmp_path):
    frame = seeds()
    path = tmp_path / "msp.csv"
    wide(frame, "Method").to_csv(path, index=False)
    assert lines(read_results(path)) == lines(read_results(frame))


@pytest.mark.parametrize("caption", ["AUROC of all methods.", "Results (AUROC)"])
def test_a_caption_names_the_metric_of_seeds(tmp_path, caption):
    frame = seeds()
    path = tmp_path / "page.md"
    table = markdown(in_titles(frame, "Seed", "seed {}").reset_index())
    path.write_text(table.replace("## Results\n", f"## Results\n\n{caption}\n"))
    assert lines(read_results(path)) == lines(read_results(frame))


@pytest.mark.parametrize(
    "rows",
    [
        "| Data | Images | Classes |\n|---|---|---|\n| SVHN | 26032 | 10 |\n| LSUN | 10000 | 9 |\n",
        "| Method | Time (s) | Params |\n|---|---|---|\n| MSP | 1.2 | 3.5 |\n| KNN | 9.3 | 3.5 |\n",
    ],
)
def test_tables_of_sizes_and_costs_are_no_results(tmp_path, rows):
    path = tmp_path / "page.md"
    path.write_text(f"{markdown(seeds())}\n## Other\n\n{rows}")
    reading = read_results(path)
    assert lines(reading) == lines(read_results(seeds()))
    assert [table.is_read for table in reading.found] == [True, False]


@pytest.mark.parametrize(
    ("title", "pattern", "option"),
    [
        ("zork", "{}", "re_evaluation=zork"),
        ("", "{Dataset}_{}.csv", "part=column 3"),
    ],
)
def test_questions_offer_every_kind(tmp_path, title, pattern, option):
    frame = seeds()
    levels = [
        pattern.format(n, Dataset=s) for n, s in zip(frame["Seed"], frame["Dataset"], strict=True)
    ]
    path = tmp_path / "t.csv"
    frame.assign(Seed=levels).rename(columns={"Seed": title}).to_csv(path, index=False)
    with pytest.raises(UserError, match=option):
        read_results(path)
    kind = option.partition("=")[0]
    assert [f.kind for f in read_results(path, option).results[0].factors] == [kind]


def test_unknown_titles_beside_id_sets_may_be_outlier_sets(tmp_path):
    frame = id_sets()
    names = {"SVHN": "Zubrek", "Textures": "Olimar", "Places365": "Tandow"}
    frame["OOD"] = frame["OOD"].replace(names)
    spread = wide(frame, "OOD")
    with pytest.raises(UserError, match=r'data sets with --columns "ood=\*"'):
        read_results(spread)
    assert lines(read_results(spread, "ood=*")) == lines(read_results(frame))
