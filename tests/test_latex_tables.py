"""LaTeX tables for papers: bold best, underlined second, ours, percent, columns."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from oodometer.errors import UserError
from oodometer.finding import Finding, Table, from_json, to_json
from oodometer.metrics import Estimate
from oodometer.reports import LatexStyle, report

TABLE = Table(
    "side",
    "AUROC and FPR95",
    ("detector", "SVHN, AUROC", "SVHN, FPR95", "runs"),
    (
        ("knn", Estimate(0.9312, 0.92, 0.94), 0.251, 3),
        ("ours_2", 0.9314, 0.40, 3),
        ("vim", 0.9, 0.31, 3),
        ("msp", None, 0.9, 3),
    ),
    better={"SVHN, AUROC": True, "SVHN, FPR95": False},
    sections={"SVHN, AUROC": ("SVHN", "AUROC"), "SVHN, FPR95": ("SVHN", "FPR95")},
)
FINDING = Finding("p", "t", "q", (), (TABLE, Table("other", "Other", ("who", "n"), (("a", 1),))))


def written(tmp_path, **style):
    (path,) = report([FINDING], tmp_path, formats="latex", latex=LatexStyle(**style))
    return path.read_text()


def test_best_is_bold_and_second_underlined_by_each_direction(tmp_path):
    text = written(tmp_path)
    # 0.9312 and 0.9314 are both printed as 0.931: neither is shown as better
    assert r"knn & \textbf{0.931} [0.920, 0.940] & \textbf{0.251} & 3 \\" in text
    assert r"ours\_2 & \textbf{0.931} & 0.400 & 3 \\" in text
    assert r"vim & \underline{0.900} & \underline{0.310} & 3 \\" in text
    assert r"msp & missing & 0.900 & 3 \\" in text
    assert "Bold: best; underlined: second." in text


def test_metrics_of_one_set_stand_under_its_name(tmp_path):
    text = written(tmp_path)
    assert r"\multicolumn{1}{c}{} & \multicolumn{2}{c}{SVHN} & \multicolumn{1}{c}{} \\" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert r"detector & AUROC $\uparrow$ & FPR95 $\downarrow$ & runs \\" in text


def test_ours_comes_last_below_a_line(tmp_path):
    lines = [line.strip() for line in written(tmp_path, ours="ours_2").splitlines()]
    place = next(n for n, line in enumerate(lines) if line.startswith(r"ours\_2"))
    assert lines[place - 1] == r"\midrule" and lines[place + 1] == r"\bottomrule"
    with pytest.raises(UserError, match="'our_2'.*ours_2"):
        written(tmp_path, ours="our_2")
    old = Finding("p", "t", "q", (), (Table("x", "y", ("who", "n"), (("a", 1), ("b", 2))),))
    (path,) = report([old], tmp_path, formats="latex", latex=LatexStyle(ours="a"))
    assert path.read_text().index("b & 2") < path.read_text().index("a & 1"), "without directions"


def test_percent_changes_shares_only(tmp_path):
    text = written(tmp_path, percent=True)
    assert r"knn & 93.1 [92.0, 94.0] & \textbf{25.1} & 3 \\" in text.replace(
        r"\textbf{93.1}", "93.1"
    )
    assert "In percent." in text


def test_columns_are_chosen_by_name(tmp_path):
    text = written(tmp_path, columns=("SVHN, FPR95",))
    assert r"knn & \textbf{0.251} \\" in text
    assert text.count(r"\begin{table}") == 1, "tables without a chosen column are left out"
    with pytest.raises(UserError, match="'SVHN, FPR59'.*SVHN, FPR95"):
        written(tmp_path, columns=("SVHN, FPR59",))


def test_directions_and_sections_survive_a_store():
    assert from_json(to_json(FINDING)) == FINDING


def test_pdflatex_sets_every_style(tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    for style in ({}, {"ours": "ours_2", "percent": True}, {"columns": ("SVHN, AUROC",)}):
        needed = re.search(r"% needs (.*)", written(tmp_path, **style))[1].replace(" and ", "")
        (tmp_path / "main.tex").write_text(
            rf"\documentclass{{article}}{needed}\begin{{document}}\input{{report.tex}}"
            r"\end{document}"
        )
        command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "main.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-2000:]
