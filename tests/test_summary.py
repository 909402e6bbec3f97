"""What is shown first of a page: main claims, and how the data were read."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from oodometer.analysis import analyze
from oodometer.cli import app, main
from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, Series, Table, from_json, to_json
from oodometer.reports import DOCUMENTS, markdown, render, report, summary
from oodometer.reports.text import markdown_report
from oodometer.reports.verdicts import by_theme

LONG = "n" * 5000
BAD = "na\x1b[31mme\x07\nof\ta\rthing\x00"
READING = (
    ("detectors", "3 (column method): a, b, c"),
    ("metric", "AUROC (higher is better), 9 values"),
    ("note", "empty cells count as missing: 7, " + "and so on, " * 30),
)


def claims(count: int, words: str = "is significantly ahead of b on average") -> tuple[Claim, ...]:
    verdicts = ("holds", "flips", "undecided")
    return tuple(
        Claim(f"Detector {n} {words}.", verdicts[n % 3], f"evidence {n}") for n in range(count)
    )


def shown(findings: list[Finding], width: int, *, lines: int = 19, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="")
    console = Console(width=width, file=stream, color_system=None, legacy_windows=False)
    console.print(summary(findings, lines=lines))
    stream.flush()
    return raw.getvalue().decode(encoding).rstrip("\n")


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("name", ["a", BAD, "wide 日本語 " * 20, LONG])
def test_a_summary_keeps_within_its_lines_and_its_width(width, encoding, name):
    reading = (*READING, (name, name), *(("note", f"{n} {name}") for n in range(20)))
    answer = f"Use {name}: " + "not separable from any other with these runs " * 9
    first = Finding("p", "t", "q", claims(9), reading=reading, answer=answer)
    other = Finding("p", "t", "q", claims(5, f"beats {name}"))
    text = shown([first, other], width, encoding=encoding)
    lines = text.split("\n")
    assert len(lines) <= 19
    assert all(len(line) <= width and line.isprintable() for line in lines)
    assert "stable    Detector 0 is" in text and "How the data were read" in text
    assert "detectors" in text and "in the report" in text


def test_headlines_of_every_finding_come_before_details_of_the_first():
    findings = [
        Finding("p", "t", "q", claims(8)),
        Finding("p", "t", "q", (Claim("The factor matters.", "holds", ""),)),
    ]
    text = shown(findings, 80, lines=5)
    assert text.split("\n") == [
        "stable    Detector 0 is significantly ahead of b on average.",
        "unstable  Detector 1 is significantly ahead of b on average.",
        "stable    Detector 3 is significantly ahead of b on average.",
        "stable    The factor matters.",
        "5 more in the report: 1 stable, 2 unstable, 2 undecided.",
    ]
    everything = shown([Finding("p", "t", "q", claims(3))], 80)
    assert everything.count("evidence") == 3 and "more in the report" not in everything


def test_what_is_decided_comes_before_what_is_open():
    open_claims = tuple(Claim(f"Open {n}.", "undecided", "") for n in range(9))
    known = (*open_claims, Claim("Noise harms all.", "holds", ""))
    findings = [Finding("p", "t", "q", claims) for claims in (open_claims, open_claims, known)]
    assert "stable    Noise harms all." in shown(findings, 80, lines=4)


def test_the_answer_comes_first_in_every_format():
    finding = Finding("p", "The title", "q", claims(5), answer="Use vim: ahead of all others.")
    lines = shown([finding], 80).split("\n")
    assert lines[0] == finding.answer and not lines[1]
    for text in (render([finding], title="t"), markdown(finding)):
        assert text.index(finding.answer) < text.index("Detector 0")
    assert from_json(to_json(finding)) == finding


def test_the_answers_of_all_findings_are_on_the_first_screen():
    points = ({"label": "a", "group": "", "value": 0.5, "low": None, "high": None},)
    series = (Series("intervals", "s", "Leaders", "d", "AUROC", points),)
    findings = [
        Finding("p", "Who?", "q", claims(5), answer="Use vim.", series=series),
        Finding("p", "Nothing asked", "q", ()),
        Finding("p", "Robustness", "q", claims(5), answer="knn varies least."),
    ]
    assert shown(findings, 80).split("\n")[:3] == ["Use vim.", "knn varies least.", ""]
    page = render(findings, title="t")
    order = ["Use vim.", 'href="#finding-3">Robustness</a> knn varies least.', "<svg", "Detector 0"]
    places = [page.index(words) for words in order]
    assert places == sorted(places)
    text = markdown_report(findings, title="t")
    assert "- Who? **Use vim.**\n- Robustness: **knn varies least.**\n\n## Who?" in text
    alone = markdown_report(findings[:1], title="t")
    assert alone.count("Use vim.") == 1


def test_claims_are_grouped_by_theme_and_what_is_open_is_folded():
    def claim(name, theme, verdict="undecided"):
        return Claim(f"Claim {name}.", verdict, f"evidence of {name}", theme)

    given = (
        claim("a", "leads"), claim("b", "changes", "flips"), claim("c", "leads", "holds"),
        claim("d", "changes"), claim("e", "changes"), claim("f", "missing"),
    )  # fmt: skip
    leads, changes, missing = by_theme(given)
    assert [view.title for view in (leads, changes, missing)] == [
        "Who leads", "What changes it", "What is missing"
    ]  # fmt: skip
    assert leads.claims == (given[0], given[2]) and not leads.folded
    assert changes.claims == (given[1],) and changes.folded == (given[3], given[4])
    assert missing.claims == (given[5],)
    page = render([Finding("p", "t", "q", given)], title="t")
    order = ["Who leads", "Claim a", "Claim c", "What changes it", "Claim b", "2 more claims are"]
    places = [page.index(words) for words in [*order, "Claim d", "What is missing", "Claim f"]]
    assert places == sorted(places)
    assert all(claim.evidence in page for claim in given)
    with pytest.raises(UserError, match="theme of a claim"):
        Claim("a", "holds", "", "who")


def test_the_reading_stands_beside_the_answer_or_after_the_claims():
    finding = Finding("p", "t", "q", claims(5), reading=READING, caveats=("careful",))
    page, text = render([finding], title="t"), markdown(finding)
    order = ["Detector 0", "Detector 2", "How the data were read", "a, b, c", "careful"]
    places = [page.index(words) for words in order]
    assert places == sorted(places) and page.count("Detector 2") == 1
    points = ({"label": "a", "group": "", "value": 0.5, "low": None, "high": None},)
    series = (Series("intervals", "s", "Leaders", "d", "AUROC", points),)
    answered = render([replace(finding, answer="Use a.", series=series)], title="t")
    order = ["Use a.", "<svg", "How the data were read", "a, b, c", "Detector 0", "careful"]
    places = [answered.index(words) for words in order]
    assert places == sorted(places)
    assert text.index("Detector 4") < text.index("How the data were read") < text.index("careful")
    assert from_json(to_json(finding)) == finding


TABLE = "method,dataset,AUROC,seed\n" + "".join(
    f"{method},{ood},{90 + 3 * m + seed + d / 3},{seed}\n"
    for m, method in enumerate(("msp", "knn", "vim"))
    for d, ood in enumerate(("svhn", "dtd"))
    for seed in range(4)
)


def test_analyze_says_in_20_lines_what_it_read(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    ended = CliRunner().invoke(app, ["analyze", str(path), "--out", str(tmp_path / "out")])
    lines = ended.stdout.splitlines()
    assert len(lines) <= 20 and lines[-1] == f"report: {tmp_path / 'out' / 'report.html'}"
    said = [line.split(maxsplit=1) for line in lines]
    assert ["detectors", "3 (column method): msp, knn, vim"] in said
    assert ["repeats", "seed (4 levels)"] in said
    assert any(line.startswith("metric") and "higher is better" in line for line in lines)
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.index("3 (column method): msp, knn, vim") < page.index('class="claim')
    more = ["analyze", str(path), "--out", str(tmp_path / "out"), "--verbose"]
    verbose = " ".join(CliRunner().invoke(app, more).stdout.split())
    assert "Caveats" in verbose and "How each column was read" in verbose


def test_names_that_a_terminal_must_not_see_are_cleaned(tmp_path):
    path = tmp_path / "table.csv"
    table = (
        TABLE.replace("msp", "m\x1b[2Jsp").replace("dataset", "data\x07set").replace("knn", LONG)
    )
    path.write_text(table)
    ended = CliRunner().invoke(app, ["analyze", str(path), "--out", str(tmp_path / "out")])
    lines = ended.stdout.splitlines()
    assert len(lines) <= 20
    assert all(line.isprintable() and len(line) <= 80 for line in lines[:-1])


def test_the_reading_says_where_everything_is_and_what_was_left_out():
    import pandas as pd

    wide = pd.DataFrame(
        {"dataset": ["a", "b", "c"], "KNN": [91.2, 82.0, 77.3], "LOF": [90.1, 83.3, 70.0]}
    )
    reading = dict(analyze(wide)[0].reading)
    assert reading["detectors"] == "2 (a column each): KNN, LOF"
    assert "AUROC (higher is better), 6 values" in reading["metric"]
    means = pd.DataFrame({"method": ["msp", "knn"], "svhn": ["91.2±0.3", "93.1±0.2"]})
    assert (
        "2 means ± standard deviation of 5 runs"
        in dict(analyze(means, runs=5)[0].reading)["metric"]
    )


def test_an_error_is_one_printable_line_whatever_the_names_are(tmp_path, monkeypatch, capsys):
    names = ["a\x1b[2Jb\x07", LONG, *(f"column number {n}" for n in range(1500))]
    (tmp_path / "t.csv").write_text(",".join(names) + "\n" + ",".join(["x"] * len(names)) + "\n")
    monkeypatch.setattr("sys.argv", ["oodometer", "analyze", str(tmp_path / "t.csv")])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main()
    error = capsys.readouterr().err
    assert ended.value.code == 2 and error.count("\n") == 1
    assert error.strip().isprintable() and len(error) < 2100


def test_the_reading_names_the_part_that_is_compared():
    import pandas as pd

    frame = pd.DataFrame({"dataset": list("abcdefgh"), "KNN": 0.8, "LOF": 0.7, "SVM": 0.75})
    frame["KNN"] += pd.Series(range(8)) / 100
    frame.loc[0, "LOF"] = frame.loc[:5, "SVM"] = None
    told = dict(analyze(frame)[0].reading)["compared"]
    assert told.startswith("2 of 3 detectors; too many gaps: SVM; the 7 of 8 sets that every")
    assert "compared" not in dict(analyze(frame.dropna().drop(columns="SVM"))[0].reading)


def test_the_reading_names_the_tables_of_a_page_that_were_read_and_those_that_were_not(tmp_path):
    page = "".join(
        f"## Results on {name}\n\n| Method | AUROC |\n|---|---|\n| a | 91.2 |\n| b | 82.1 |\n\n"
        f"| Option | Size |\n|---|---|\n| {name} | 3 |\n\n"
        for name in ("SVHN",)
    )
    (tmp_path / "page.md").write_text(page)
    told = dict(analyze(tmp_path / "page.md")[0].reading)["tables"]
    assert told.startswith("1 of 2 in the file: 1: Results on SVHN (2 × 2); not read: 2: ")


def test_a_leaderboard_is_cut_to_ten_rows_and_says_so():
    rows = tuple((f"detector {n}", n / 100) for n in range(30))
    table = Table("n", "Leaderboard", ("detector", "AUROC"), rows)
    finding = Finding("p", "t", "q", claims(30), tables=(table,), reading=READING)
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(summary([finding], lines=12, leaderboard=True))
    text = console.file.getvalue()
    assert "detector 9 " in text and "detector 10 " not in text
    assert "20 more rows are in the report." in text and "How the data" not in text
    assert text[: text.index("Leaderboard")].count("\n") <= 13
    console = Console(width=80, file=io.StringIO(), color_system=None)
    missing = tuple(f"knn on set {n}: RuntimeError: no memory" for n in range(5))
    console.print(summary([replace(finding, missing=missing)], leaderboard=True))
    assert "missing: knn on set 2: RuntimeError: no memory" in console.file.getvalue()
    assert "2 more are in the report." in console.file.getvalue()


def test_every_format_of_a_report_says_how_the_data_were_read(tmp_path):
    finding = Finding("p", "t", "q", claims(5), reading=READING)
    for path in report([finding], tmp_path, formats=DOCUMENTS):
        text = path.read_text(encoding="utf-8")
        for _, value in READING[:2]:
            assert value in text, path.name
