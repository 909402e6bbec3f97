"""Pages with prose and several tables: which are found, which is read, what is asked."""

import contextlib
from collections.abc import Callable

import pytest
from growth import grows_with_its_input

from oodometer.errors import UserError
from oodometer.tables import read_results
from oodometer.tables.formats.files import read_file
from oodometer.tables.pages.finding import find_tables
from oodometer.tables.pages.latex_cells import latex_rows, latex_text
from oodometer.tables.pages.text import text_tables

CLINC = """
| Method | Test NLL | OOD AUROC |
| ------ | -------- | --------- |
| [Deterministic](deterministic.py) | 0.186 | 0.942 |
| [SNGP](sngp.py) | 0.139 | 0.969 |
"""
PROSE = f"""# Intent detection

We train on CLINC150, with `python train.py | tee log`, and evaluate on its outliers.

| Option | Meaning |
| ------ | ------- |
| `--lr` | learning rate |
| `--epochs` | passes |

## Results

Calibration error, in the end:

{CLINC}
Numbers are means over 10 runs | see the paper.
"""
HTML = """<!doctype html><html><head><style>td {{ color: red }}</style></head><body>
<h2>Results</h2><p>As in the paper.</p>
<table class="x"><caption>Table 2: AUROC &amp; FPR95</caption>
<thead><tr><th rowspan="2">Method</th><th colspan="2">SVHN</th><th colspan=2>LSUN</th></tr>
<tr><th>AUROC &uarr;</th><th>FPR95 &darr;</th>
<th>AUROC &uarr;</th><th>FPR95 &darr;</th></tr></thead>
<tbody><tr><td colspan="5"><i>Post-hoc</i></td></tr>
<tr><td><a href="x">MSP</a><sup>1</sup>
<td>91.2&plusmn;0.3<td><b>40.1</b><td>93.4<td>38.0</tr>
<tr><td>KNN</td><td>92.3<sub>0.2</sub></td><td>39.1</td><td>94.4</td><td>35.0</td></tr>
</tbody></table>{more}</body></html>"""
NESTED = r"""
\documentclass{article} \newcommand{\ours}{TRIDENT}
% \begin{tabular}{lc} Method & AUROC \\ nobody & 1.0 \\ \end{tabular}
\begin{document}
\section{Experiments}
\begin{table*}[t]
\caption{AUROC (\%) on \textbf{CIFAR-10}, see \cite{x}.}\label{tab:x}
\begin{tabular*}{\textwidth}{@{\extracolsep{\fill}}llccc}
\toprule
\multirow{2}{*}{Backbone} & \multirow{2}*{Method} & \multicolumn{2}{c}{\textbf{Outliers}} & \\
\cmidrule(lr){3-4}
 & & \begin{tabular}[c]{@{}c@{}}SVHN\\crop\end{tabular} & \makecell{LSUN\\(R)} & Avg. \\ \midrule
\multirow{2}{*}{ResNet} & MSP~\cite{msp} & 91.2 $\pm$ 0.3 & 93.4{\scriptsize$\pm$0.1} & 92.3 \\
 & \cellcolor[HTML]{EFEFEF}\ours & $\mathbf{92.1}_{\pm 0.2}$ & \underline{94.0}\std{0.2}
 & 93.1 \\[2pt]
 & MSP & 81.2 & 83.4\% & -- \\ % the last one
\rowcolor{gray} \multirow{-2}{*}{ViT} & \ours & 82.1$^\dagger$ & \textcolor{red}{84.0}
 & 83.1\footnote{see \cite{y}} \\
\bottomrule
\end{tabular*}
\end{table*}
\end{document}
"""


def page(tmp_path, text, name="page.md"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def means(found, metric="auroc"):
    (part,) = [part for part in found.results if part.metric == metric]
    return part.frame.groupby("detector", sort=False)["value"].mean().round(4).to_dict()


def test_the_table_with_results_is_found_between_prose_and_other_tables(tmp_path):
    found = read_results(page(tmp_path, PROSE))
    assert means(found) == {"Deterministic": 0.942, "SNGP": 0.969}
    assert [(t.number, t.name, t.lines, t.columns, t.is_read) for t in found.found] == [
        (1, "Intent detection", 2, 2, False),
        (2, "Results", 2, 3, True),
    ]
    assert found.found[0].why_not == "no column of numbers"
    assert means(read_results(page(tmp_path, CLINC))) == means(found)


def test_several_tables_of_results_are_asked_about_and_can_be_picked(tmp_path):
    other = CLINC.replace("Test NLL", "Seeds").replace("0.9", "0.8")
    path = page(tmp_path, f"{PROSE}\n### On BANKING77\n{other}")
    with pytest.raises(UserError) as problem:
        read_results(path)
    assert "#2: Results (2 × 3); #3: On BANKING77 (2 × 3); name one" in str(problem.value)
    assert f"'{path}#2'" in str(problem.value)
    assert means(read_results(f"{path}#3"))["SNGP"] == 0.869
    assert means(read_results(f"{path}#banking77"))["SNGP"] == 0.869
    for wrong in ("7", "0", "1,9", "nowhere"):
        with pytest.raises(UserError, match="has no table"):
            read_results(f"{path}#{wrong}")


def test_an_only_table_needs_no_number(tmp_path):
    path = page(tmp_path, "method,svhn,lsun\nMSP,91,92\nKNN,93,94\n", "t.csv")
    assert means(read_results(f"{path}#1")) == means(read_results(path))
    with pytest.raises(UserError, match="holds one table: leave out '#2'"):
        read_results(f"{path}#2")


@pytest.mark.parametrize(
    ("headings", "column", "levels"),
    [
        (("## Seed 0", "## Seed 1"), "Seed", {"0", "1"}),
        (("## 1. ResNet 18 (ours)", "## 2. ViT (ours)"), "section", {"ResNet 18", "ViT"}),
        (("# A\n\n- Backbone: ViT\n", "# B\n\n- Backbone: RN\n"), "Backbone", {"ViT", "RN"}),
        (("**Epoch 10**", "**Epoch 20**"), "Epoch", {"10", "20"}),
        (("Table 1: with SGD:", "Table 2: with Adam:"), "section", {"SGD:", "Adam:"}),
        (("With SGD.", "With Adam."), "section", {"SGD.", "Adam."}),
    ],
)
def test_what_headings_say_of_tables_with_the_same_columns_becomes_a_column(
    tmp_path, headings, column, levels
):
    table = "| Method | SVHN | LSUN |\n|---|---|---|\n| MSP | 91 | 92 |\n| KNN | 93 | 94 |\n"
    text = f"{headings[0]}\n\n{table}\n{headings[1]}\n\n{table.replace('9', '8')}"
    ((_, read),) = read_file(page(tmp_path, text)).items()
    assert list(read.frame.columns) == ["Method", "SVHN", "LSUN", column]
    assert set(read.frame[column]) == levels and len(read.frame) == 4
    assert all(found.is_read for found in read.found)


def test_two_levels_of_headings_and_facts_become_columns(tmp_path):
    table = "| Scope | AUROC |\n|---|---|\n| SVHN | 0.91 |\n| LSUN | 0.92 |\n"
    text = "".join(
        f"### {n}. Model on {s}\n\n- ID dataset: {s}\n- Checkpoint: best\n\n"
        + "".join(f"#### {d}\n\n{table}\n" for d in ("MSP", "Student energy"))
        for n, s in enumerate(("CIFAR-10", "CIFAR-100"))
    )
    ((_, read),) = read_file(page(tmp_path, f"# Report\n\n## All\n\n{text}")).items()
    assert list(read.frame.columns) == ["Scope", "AUROC", "ID dataset", "section"]
    assert read.frame.iloc[-1].tolist() == ["LSUN", "0.92", "CIFAR-100", "Student energy"]


def test_headings_that_name_metrics_are_the_metric(tmp_path):
    table = "| Method | SVHN | LSUN |\n|---|---|---|\n| MSP | 91 | 92 |\n| KNN | 93 | 94 |\n"
    text = f"## AUROC on CIFAR-10\n{table}\n## FPR95 on CIFAR-10\n{table.replace('9', '4')}"
    found = read_results(page(tmp_path, text))
    assert means(found) == {"MSP": 0.915, "KNN": 0.935}
    assert means(found, "fpr95") == {"MSP": 0.415, "KNN": 0.435}


def test_tables_that_nothing_tells_apart_are_asked_about(tmp_path):
    with pytest.raises(UserError, match="holds 2 tables with results"):
        read_results(page(tmp_path, f"{CLINC}\n\nAnd:\n\n{CLINC}".replace("And:", "")))


def test_html_with_spans_entities_and_captions(tmp_path):
    found = read_results(page(tmp_path, HTML.format(more=""), "page.html"))
    assert means(found) == {"MSP": 0.923, "KNN": 0.9335}
    assert means(found, "fpr95") == {"MSP": 0.3905, "KNN": 0.3705}
    assert found.results[0].frame["spread"].round(4).tolist()[:2] == [0.003, 0.002]
    assert found.found[0].name == "AUROC & FPR95"
    readme = f"# Model zoo\n\n<details>\n{HTML.format(more='')}\n</details>\n\n{CLINC}"
    tables = find_tables(readme)
    assert [len(table.rows) for table in tables] == [5, 3]


def test_html_nested_tables_and_tags_that_are_never_closed():
    text = "<table><tr><td><table><tr><td>a<td>1<tr><td>b<td>2</table><td>x<tr><td>y<td>z"
    tables = [table.rows for table in find_tables(text)]
    assert tables == [[["a", "1"], ["b", "2"]], [["", "x"], ["y", "z"]]]
    wide = "<table>" + "<tr>" + "<td colspan=1000>a" * 6000 + "</table>"
    with pytest.raises(UserError, match="more than 5,000,000 cells"):
        find_tables(wide)


def test_latex_with_all_that_papers_use(tmp_path):
    (table,) = find_tables(NESTED)
    assert table.levels == {2: "Experiments", 8: "AUROC (%) on CIFAR-10, see ."}
    assert table.rows[:2] == [
        ["Backbone", "Method", "Outliers", "Outliers", ""],
        ["Backbone", "Method", "SVHN crop", "LSUN (R)", "Avg."],
    ]
    assert [row[:2] for row in table.rows[2:]] == [
        ["ResNet", "MSP"], ["ResNet", "TRIDENT"], ["ViT", "MSP"], ["ViT", "TRIDENT"],
    ]  # fmt: skip
    found = read_results(page(tmp_path, NESTED, "paper.tex"))
    assert found.results[0].frame["value"].round(4).tolist() == [
        0.912, 0.921, 0.812, 0.821, 0.934, 0.94, 0.834, 0.84,
    ]  # fmt: skip


def test_latex_captions_of_parts_and_longtables():
    text = r"""\begin{table}\begin{subtable}{.5\textwidth}\begin{tabular}{lc}a&b\\c&1\\\end{tabular}
    \caption{CIFAR-10}\end{subtable}
    \subfloat[SVHN]{\begin{tabular}{lc}a&b\\d&2\\\end{tabular}}\caption{All}\end{table}
    \begin{longtable}{lr}\caption{Long \textit{one}}\\ \toprule a&b\\ \endfirsthead
    \multicolumn{2}{c}{(cont.)}\\
    a&b\\ \endhead x&3\\y&4\\ \end{longtable}\begin{tabular}{ll}"""
    tables = find_tables(text)
    assert [dict(table.levels) for table in tables] == [
        {9: "CIFAR-10", 8: "All"}, {9: "SVHN", 8: "All"}, {8: "Long one"},
    ]  # fmt: skip
    assert tables[2].rows == [["a", "b"], ["x", "3"], ["y", "4"]]


def test_two_index_columns_of_pandas_latex(tmp_path):
    body = "".join(
        f"{s if n == 0 else ' '} & {d} & 0.{90 + n + k} \\\\\n"
        for k, s in enumerate(("CatsVsDogs", "Cars196"))
        for n, d in enumerate(("Baseline", "ODIN", "Isolation Forest"))
    )
    text = "\\begin{tabular}{lll}\\toprule & & AUC \\\\ \\midrule\n" + body + "\\end{tabular}"
    ((_, read),) = read_file(page(tmp_path, text, "t.tex")).items()
    assert read.frame["column 1"].tolist() == ["CatsVsDogs"] * 3 + ["Cars196"] * 3


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (r"\textbf{Near \& far}", "Near and far"), (r"\ours", "ours"),
        (r"\ours{} (k=5)", "ours (k=5)"),
        (r"FPR95 $\downarrow$", "FPR95 ↓"), (r"ASH\textsuperscript{\dag}", "ASH"),
        (r"$\lambda=0.1$", "λ=0.1"), (r"A\footnote{b \textit{c}}", "A"), (r"\midrule", ""),
    ],
)  # fmt: skip
def test_texts_of_latex_cells(cell, text):
    assert latex_text(cell) == text


def test_a_title_without_set_is_that_of_the_one_before(tmp_path):
    text = (
        "| Method | SVHN FPR95↓ | AUROC↑ | LSUN FPR95↓ | AUROC↑ |\n|---|---|---|---|---|\n"
        "| MSP | 40.1 | 91 | 38.0 | 93 |\n| KNN | 39.1 | 92 | 35.0 | 94 |\n"
    )
    found = read_results(page(tmp_path, text))
    assert means(found) == {"MSP": 0.92, "KNN": 0.93}
    assert found.results[0].ood == ("SVHN", "LSUN")


def _headings(length: int) -> str:
    table = "| Method | AUROC |\n|---|---|\n" + "| MSP | 91.2 |\n" * 600
    each = f"## Heading\n\nSome | prose.\n\n{table}\n"
    return each * (length // len(each))


_HOSTILE: dict[str, Callable[[int], str]] = {
    "headings": lambda n: _headings(10 * n),
    "columns of a row": lambda n: "\\begin{tabular}{l}" + "\\multicolumn{2}{" * (n // 10),
    "a wide table": lambda n: "|" + "a|" * (n // 2) + "\n" + "|-" * (n // 2),
    "a line that ends": lambda n: "-" * n + "x",
    **{
        repeated: lambda n, repeated=repeated: repeated * (n // len(repeated))
        for repeated in (
            "|", "\\begin{tabular}", "{", "\\caption{", "<table>", "<td colspan=9", "\\multirow{",
            "\\", "| a |\n", "**", "# ", "Table 1: x\n", "&", "<", "[",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("content", _HOSTILE)
def test_large_and_hostile_pages_take_no_longer_than_their_length_allows(content):
    assert grows_with_its_input(lambda n: find_tables(_HOSTILE[content](n)), 200_000)


def test_rows_of_latex_without_environment():
    assert latex_rows("a & b \\\\ c & \\textbf{1} \\\\") == [["a", "b"], ["c", "\\textbf{1}"]]
    assert latex_rows("a & b\nc & 1\n") == [["a", "b"], ["c", "1"]]


def test_footnotes_below_the_last_rule_are_no_rows():
    body = r"""\toprule M & F1 \\ \midrule a & .9 \\ b & .8 \\ \bottomrule
    \multicolumn{2}{l}{\scriptsize $^*$ AUC $\leq$ 0.5 \& more.} \\"""
    assert latex_rows(body) == [["M", "F1"], ["a", ".9"], ["b", ".8"]]
    assert ["c", ".7"] in latex_rows(body + r" c & .7 \\")


TEXT = """Why OOD detection is hard

We compare two detectors, and three data sets, with many seeds.
Table 1 shows that all is well, in 2 of 3 cases.

Table 1: AUROC of two detectors, ID is CIFAR-10

{table}

The lead is small. More can be found in the appendix.
"""
COPIED = {
    "tabs": "Method\tSVHN\tLSUN\tTextures\nMSP\t91.2\t92.3\t90.1\nDeep KNN (ours)\t93.1\t-\t92.5",
    "aligned": "Method            SVHN   LSUN   Textures\nMSP               91.2   92.3   90.1\n"
    "Deep KNN (ours)   93.1   -      92.5",
    "single spaces": "Method SVHN LSUN Textures\nMSP 91.2 92.3 90.1\nDeep KNN (ours) 93.1 - 92.5",
    "single spaces, heading": "Method SVHN LSUN Textures\nPost-hoc methods\nMSP 91.2 92.3 90.1\n"
    "Deep KNN (ours) 93.1 - 92.5",
    "commas": "Method,SVHN,LSUN,Textures\nMSP,91.2,92.3,90.1\nDeep KNN (ours),93.1,-,92.5",
}


@pytest.mark.parametrize("name", COPIED)
def test_tables_copied_from_a_paper(tmp_path, name):
    found = read_results(page(tmp_path, TEXT.format(table=COPIED[name]), "paper.txt"))
    frame = found.results[0].frame.set_index(["detector", "ood"])["value"].round(4)
    assert frame.to_dict() == {
        ("MSP", "SVHN"): 0.912, ("Deep KNN (ours)", "SVHN"): 0.931, ("MSP", "LSUN"): 0.923,
        ("MSP", "Textures"): 0.901, ("Deep KNN (ours)", "Textures"): 0.925,
    }  # fmt: skip
    assert [t.name for t in found.found] == ["AUROC of two detectors, ID is CIFAR-10"]


def test_two_header_lines_of_copied_text(tmp_path):
    table = "SVHN LSUN\nMethod FPR95 ↓ AUROC ↑ FPR95 ↓ AUROC ↑\n"
    table += "MSP 40.1 91.2 ± 0.3 41 92\nMax Logit 39 93 38 94"
    found = read_results(page(tmp_path, TEXT.format(table=table), "paper.txt"))
    assert means(found) == {"MSP": 0.916, "Max Logit": 0.935}
    assert found.results[0].ood == ("SVHN", "LSUN")


def test_captions_above_and_below_text_tables():
    one, two = COPIED["tabs"], COPIED["commas"]
    above = find_text(f"Table 1: a\n\n{one}\n\nTable 2: b\n\n{two}\n\nThe end.")
    assert above == ["a", "b"]
    below = find_text(f"{one}\n\nTable 1: a\n\nSome prose.\n\n{two}\nTable 2: b")
    assert below == ["a", "b"]


def find_text(text):
    return [table.levels[8] for table in text_tables(text)]


def test_a_result_log_with_blocks_below_headings(tmp_path):
    text = "".join(
        f"-------- Dataset: OfficeHome, model selection: {how}\n"
        f"Algorithm   A              C              Avg\n"
        f"ERM         8{n}.1 +/- 0.1   82.2 +/- 0.1   8{n}.6\n"
        f"MA          8{n}.2 +/- 0.1   83.2 +/- 0.1   8{n}.7\n\n"
        for n, how in enumerate(("training-domain", "oracle"))
    )
    ((_, read),) = read_file(page(tmp_path, f"Total records: 8160\n\n{text}", "log.txt")).items()
    assert read.frame.iloc[-1].tolist()[:3] == ["MA", "81.2+/-0.1", "83.2+/-0.1"]
    assert set(read.frame.iloc[:, -1]) == {"training-domain", "oracle"}


def test_a_heading_in_the_middle_of_a_line_is_one(tmp_path):
    text = "Type\tKNN\tMSP\n\tSVHN\t\na\t91\t92\nb\t93\t94\n\tLSUN\t\na\t81\t82\nb\t83\t84\n"
    ((_, read),) = read_file(page(tmp_path, text, "t.tsv")).items()
    assert read.frame["section"].tolist() == ["SVHN", "SVHN", "LSUN", "LSUN"]


def test_auroc_of_images_and_of_pixels_are_not_two_values_of_one_metric(tmp_path):
    table = "| | ResNet-18 | ResNet-50 |\n|---|---|---|\n" + "".join(
        f"| {name} | 0.9{n} | 0.9{n + 1} |\n" for n, name in enumerate(["bottle", "cable", "pill"])
    )
    headings = ("Image-Level AUC", "Pixel-Level AUC", "Pixel-Level AUPRO")
    path = tmp_path / "page.md"
    path.write_text("".join(f"### {heading}\n\n{table}\n" for heading in headings))
    with pytest.raises(UserError, match=r"#1: Image-Level AUC.*#2: Pixel-Level AUC"):
        read_results(path)
    (results,) = read_results(f"{path}#1").results
    assert results.metric == "auroc"
    assert sorted(results.frame["value"]) == [0.90, 0.91, 0.91, 0.92, 0.92, 0.93]
    (overlap,) = read_results(f"{path}#3").results
    assert overlap.metric == "AUPRO"


def test_a_second_header_line_of_severities_is_no_repeat(tmp_path):
    lines = [",shot_noise,shot_noise,fog,fog", ",1,2,1,2", "ResNet-18,.91,.85,.88,.7"]
    lines += ["ViT-B,.92,.86,.89,.71"]
    path = page(tmp_path, "\n".join(lines), "accuracy.csv")
    (results,) = read_results(path, "accuracy=*").results
    kinds = {factor.name: factor.kind for factor in results.factors}
    # Of one test set: nothing else varies; severities are of the same corrupted images.
    assert kinds == {"corruption": "condition", "severity": "re_evaluation"}


def test_numbers_of_unknown_meaning_below_titles_are_asked_about(tmp_path):
    lines = ["Method,SVHN,SVHN,LSUN,LSUN", ",1,2,1,2", "MSP,.91,.85,.88,.7", "KNN,.92,.86,.89,.71"]
    with pytest.raises(UserError, match="'seed' for training runs or 'severity'"):
        read_results(page(tmp_path, "\n".join(lines), "auroc.csv"))
    lines[1] = "seed,1,2,1,2"
    (results,) = read_results(page(tmp_path, "\n".join(lines), "auroc.csv")).results
    assert [(factor.name, factor.kind) for factor in results.factors] == [("seed", "repeat")]


@pytest.mark.parametrize(
    "text_of",
    [
        lambda n: ("a" + " " * n + "b\n") * 3,
        lambda n: ("a " * (n // 2) + "b\n") * 3,
        lambda n: "a b 1 2\n\n" * (n // 10),
        lambda n: (
            "method," + ",".join(f"s{i}" for i in range(n // 10)) + "\na" + ",0.9" * (n // 10)
        ),
    ],
    ids=["spaces", "words", "paragraphs", "columns"],
)
def test_no_text_takes_longer_than_its_length_allows(tmp_path, text_of):
    def read_text(length: int) -> None:
        with contextlib.suppress(UserError):
            read_file(page(tmp_path, text_of(length), "t.txt"))

    assert grows_with_its_input(read_text, 50_000)


def test_what_is_not_about_the_same_names_is_no_second_table_of_results(tmp_path):
    """Settings come again in a table of epochs; the loss in a title is no metric of all tables."""
    page = tmp_path / "page.md"
    page.write_text(
        "# Study of the margin loss\n\n## Results\n\n| weight | AUROC |\n|---|---|\n"
        "| 0.0 | 0.81 |\n| 0.1 | 0.97 |\n| 0.5 | 0.93 |\n\n## Speed\n\n| weight | Last epoch |\n"
        "|---|---|\n| 0.0 | 80 |\n| 0.1 | 20 |\n| 0.5 | 150 |\n"
    )
    found = read_results(page, "detector=weight")
    assert len(found.results[0].frame) == 3


def test_escaped_signs_in_names_are_read_without_their_backslash(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("| model | AUROC |\n|---|---|\n| my\\_net | 0.9 |\n| your\\_net | 0.8 |\n")
    assert read_results(page).results[0].detectors == ("my_net", "your_net")
