"""The command od-test: several sources in one finding."""

from typer.testing import CliRunner

from oodometer.cli import app
from oodometer.engine.executors.in_process import InProcess

STUDY = """
name: {name}
base: {{data: digits, held_out_classes: {held}, network: mlp, epochs: 1, test_size: 60}}
factors: [{{field: seed, levels: [0]}}]
detectors: [max_softmax, knn]
ood: [uniform_noise, gaussian_noise, rotated, inverted]
protocols: [od_test]
"""


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_studies_of_one_store_are_joined(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("oodometer.engine.lead.run._open_executor", lambda *given: InProcess())
    assert "does not exist" in str(run("od-test", "nothing").exception)
    (tmp_path / "study.yaml").write_text(STUDY.format(name="one", held="[8, 9]"))
    assert "'study.yaml' is a file" in str(run("od-test", "study.yaml").exception)
    done = run("run", "study.yaml", "--store", "store", "--workers", 1)
    assert done.exit_code == 0, done.output
    joined = run("od-test", "store", "--out", "out")
    assert joined.exit_code == 0, f"{joined.output} {joined.exception}"
    assert "OD-test" in joined.output and (tmp_path / "out" / "report.html").is_file()
    assert {path.suffix for path in (tmp_path / "out").iterdir()} >= {
        ".html",
        ".md",
        ".tex",
        ".csv",
    }
    wrong = run("od-test", "store", "--threshold", "hing")
    assert "Did you mean 'hinge'" in str(wrong.exception)
    (tmp_path / "study.yaml").write_text(STUDY.format(name="two", held="[7, 9]"))
    assert run("run", "study.yaml", "--store", "store", "--workers", 1).exit_code == 0
    assert "Two studies have the source 'digits'" in str(run("od-test", "store").exception)
