"""What the user says already counts, and what a question offers next is taken."""

import pytest

from oodometer.tables import read_results


def read(tmp_path, content, columns=""):
    path = tmp_path / "t.csv"
    path.write_text(content)
    return read_results(path, columns)


def kinds(reading):
    return {factor.name: factor.kind for factor in reading.results[0].factors}


@pytest.mark.parametrize(
    "said", ["condition=temperature, accuracy=*acc", "accuracy=*acc, condition=temperature"]
)
def test_a_pattern_leaves_the_roles_of_other_columns(tmp_path, said):
    lines = [f"{m},{t},0.{n}1,0.{n}2,0.3{n}" for n, (m, t) in
             enumerate(((m, t) for m in "abc" for t in ("0.5", "1.5")), 2)]  # fmt: skip
    found = read(tmp_path, "\n".join(["model,temperature,svhn acc,lsun acc,ece", *lines]), said)
    assert kinds(found) == {"temperature": "condition"}
    assert [results.metric for results in found.results] == ["accuracy"]
    assert set(found.results[0].detectors) == set("abc")


@pytest.mark.parametrize("said", ["detector=score, accuracy=*acc", "accuracy=*acc, detector=score"])
def test_a_pattern_leaves_detectors_that_are_numbers(tmp_path, said):
    lines = [f"{s},0.{n}1,0.{n}2,0.3{n}" for n, s in enumerate(("0.5", "1.5", "2.5"), 5)]
    found = read(tmp_path, "\n".join(["score,svhn acc,lsun acc,ece", *lines]), said)
    assert set(found.results[0].detectors) == {"0.5", "1.5", "2.5"}
