"""One table in all forms of files, long and wide: one reading and one verdict."""

import json
import zipfile
from itertools import product
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
import pytest

from oodometer import analyze
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
