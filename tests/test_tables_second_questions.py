"""What the user says already counts, and what a question offers next is taken."""

import io
import json
import re

import pandas as pd
import pytest
from growth import calls_per_piece

from oodometer import analyze
from oodometer.errors import UserError
from oodometer.tables import read_results
from oodometer.tables.frames.glued import with_crossed_names
from oodometer.tables.frames.unfolding import unfolded
from oodometer.tables.guessing.roles import Roles, role_of
from oodometer.tables.guessing.titled import titled_results


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


CROSSED = "\n".join(
    ["name,AUROC", *(f"{a} {d},0.{n}{n + 3}" for n, (a, d) in
                     enumerate(((a, d) for a in ("foo", "bar") for d in ("msp", "energy")), 3))]
)  # fmt: skip


@pytest.mark.parametrize("title", ["dataset", "Data set"])
def test_names_are_not_parted_into_a_column_that_exists(title):
    pairs = [(a, d, s) for a, s in (("svhn", "cifar10"), ("lsun", "cifar100")) for d in
             ("msp", "energy")]  # fmt: skip
    lines = [f"{a} {d},{s},0.{n}1" for n, (a, d, s) in enumerate(pairs, 5)]
    frame = pd.read_csv(io.StringIO("\n".join([f"name,{title},AUROC", *lines])), dtype=str)
    assert with_crossed_names(frame, "", []).equals(frame)


def test_a_second_part_of_names_is_not_written_over():
    frame = pd.read_csv(io.StringIO(CROSSED), dtype=str).assign(**{"name.1": list("abab")})
    assert with_crossed_names(frame, "condition=name.1", []).equals(frame)


def test_names_are_parted_whatever_else_is_said_of_them(tmp_path):
    with pytest.raises(UserError, match=r"condition=name\.1"):
        read(tmp_path, CROSSED)
    for said in ("condition=name.1", "condition=name.1, detector=name"):
        found = read(tmp_path, CROSSED, said)
        assert set(found.results[0].detectors) == {"msp", "energy"}
        assert kinds(found) == {"name.1": "condition"}
    whole = read(tmp_path, CROSSED, "detector=name")
    assert len(whole.results[0].detectors) == 4
    known = CROSSED.replace("foo", "svhn").replace("bar", "lsun")
    found = read(tmp_path, known, "ood=dataset, detector=name")
    assert set(found.results[0].frame["ood"]) == {"svhn", "lsun"}


def test_titles_with_commas_are_asked_about_once(tmp_path):
    text = CROSSED.replace("name", '"na,me"')
    with pytest.raises(UserError, match=r"condition=na,me\.1"):
        read(tmp_path, text)
    assert kinds(read(tmp_path, text, "condition=na,me.1")) == {"na,me.1": "condition"}


@pytest.mark.parametrize("others", [["SVHN"], ["value svhn", "value lsun"]])
@pytest.mark.parametrize("said", ["", "higher=*", "accuracy=*"])
def test_numbers_that_nothing_names_decide_as_offered(tmp_path, others, said):
    numbers = ([0.61, 0.72, 0.4], [0.55, 0.31, 0.8], [0.47, 0.83, 0.6])
    rows = [map(str, line[: 1 + len(others)]) for line in numbers]
    lines = [",".join([m, *row]) for m, row in zip(("MSP", "Energy", "KNN"), rows, strict=True)]
    text = "\n".join([",".join(["method", "value", *others]), *lines])
    with pytest.raises(UserError, match="say which decides|if it decides") as asked:
        read(tmp_path, text, said)
    assert ("(or lower=)" in str(asked.value)) == (said == "")
    offered = re.findall(r'--columns "(.*?)"', str(asked.value))
    found = read(tmp_path, text, offered[0]).results
    assert len(offered) == 2 and len(found) == 1
    assert set(found[0].frame["value"]) == {0.61, 0.55, 0.47}


def test_a_qualified_metric_is_offered_by_its_role():
    assert role_of("clean accuracy") == "accuracy" and role_of("value") == "higher"


@pytest.mark.parametrize("title", ["foo{}x mean acc", "foo{}x acc"])
def test_every_title_of_many_is_read_once(title):
    def work(size):
        titles = [title.format(number) for number in range(size)]
        frame = pd.DataFrame({name: ["0.5", "0.6"] for name in titles})
        titled_results(frame, titles, Roles(), None)

    assert calls_per_piece(work, 60) < 1.3 * calls_per_piece(work, 15)


@pytest.mark.parametrize(("title", "pairs"), [("AUROC", "FPR95/AUROC"), ("LSUN (FPR95/AUROC)", "")])
def test_cells_of_columns_that_are_ignored_stay_whole(title, pairs):
    kept = "SVHN" if pairs else "SVHN (FPR95/AUROC)"
    lines = ["MSP,40.1 / 91.2,41.3 / 90.1", "KNN,20.1 / 95.2,21.3 / 94.1"]
    table = pd.read_csv(io.StringIO("\n".join([f"method,{title},{kept}", *lines])), dtype=str)
    found = unfolded(table, [], "", pairs, f"detector=method, ignore={title}")
    assert list(found.columns) == ["method", title, "SVHN FPR95", "SVHN AUROC"]
    assert list(found[title]) == list(table[title])


def test_a_column_may_be_called_self():
    frame = pd.DataFrame({"method": ["msp", "knn"], "self": [0.8, 0.9], "svhn": [0.7, 0.8]})
    (found,) = read_results(frame, "auroc=*").results
    assert set(found.frame["ood"]) == {"self", "svhn"}


@pytest.mark.parametrize("title", ["", " ", None, float("nan")])
def test_columns_of_frames_without_a_title_are_numbered(title):
    frame = pd.DataFrame([["msp", 0.8, 0.9], ["knn", 0.7, 0.6]], columns=[title, "svhn", "dtd"])
    reading = read_results(frame)
    assert reading.results[0].detectors == ("msp", "knn")
    assert ("column 1", "detector") in reading.columns


def test_detectors_in_titles_have_one_direction():
    frame = pd.DataFrame({"run": [1, 2], "A": [0.8, 0.9], "B": [0.7, 0.8]})
    with pytest.raises(UserError, match=r"says lower=A and higher=B, but detector=\* compares"):
        read_results(frame, "detector=*, lower=A, higher=B")
    (found,) = read_results(frame, "detector=*, higher=A, higher=B").results
    assert found.detectors == ("A", "B")


OF_ENVIRONMENTS = "\n".join(
    [
        "algorithm,dataset,env0,env1,env2",
        *("ERM,PACS,84.7,80.8,97.2", "IRM,PACS,84.8,76.4,96.7"),
        *("ERM,OfficeHome,61.3,52.4,75.8", "IRM,OfficeHome,58.9,52.2,72.1"),
    ]
)


def test_every_option_about_numbers_in_titles_is_accepted(tmp_path):
    with pytest.raises(UserError, match="'env' numbers 3 levels") as asked:
        read(tmp_path, OF_ENVIRONMENTS)
    options = re.findall(r'--columns "([^"]+)"', str(asked.value))
    found = [read(tmp_path, OF_ENVIRONMENTS, option).results[0] for option in options]
    said = [[factor.kind for factor in results.factors] for results in found]
    assert said == [["repeat"], ["condition"], ["re_evaluation"], ["part"]]
    assert {results.ids for results in found} == {("PACS", "OfficeHome")}


def test_options_about_conditions_in_titles_are_accepted(tmp_path):
    titles = ["baseline", "with aug", "only mix", "full"]
    rows = ["MSP,SVHN,.851,.842,.863,.855", "KNN,SVHN,.882,.875,.891,.884",
            "ViM,SVHN,.904,.897,.915,.901"]  # fmt: skip
    text = "\n".join([",".join(["method,dataset", *(f"auroc {t}" for t in titles)]), *rows])
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(UserError, match="what titles of columns are") as asked:
        analyze(path)
    options = re.findall(r'--columns "([^"]+)"', str(asked.value))
    found = [read(tmp_path, text, option).results[0] for option in options]
    assert [[factor.kind for factor in results.factors] for results in found] == [
        ["condition"], ["re_evaluation"], []
    ]  # fmt: skip
    assert {*found[2].frame["id"]} == {*titles}


@pytest.mark.parametrize(("said", "beside"), [("ood=*", "id"), ("id=*", "ood")])
def test_titles_take_a_role_from_a_column_of_data_sets(tmp_path, said, beside):
    results = read(tmp_path, OF_ENVIRONMENTS, said).results[0]
    assert not results.factors and len(results.frame) == 12
    role = said.partition("=")[0]
    assert {*results.frame[role]} == {"env0", "env1", "env2"}
    assert {*results.frame[beside]} == {"PACS", "OfficeHome"}


def test_settings_and_metrics_of_a_tracker_keep_their_own_names(tmp_path):
    runs = [
        {"name": f"run{n}", "config": {"method": method, "seed": seed},
         "metrics": {"svhn/auroc": 0.9 + n / 100, "lsun/auroc": 0.91 + n / 100}}
        for n, (method, seed) in enumerate([("msp", 1), ("msp", 2), ("knn", 1), ("knn", 2)])
    ]  # fmt: skip
    path = tmp_path / "runs.json"
    path.write_text(json.dumps(runs))
    found = read_results(path)
    assert kinds(found) == {"seed": "repeat"}
    results = found.results[0]
    assert results.detectors == ("msp", "knn") and {*results.frame["ood"]} == {"svhn", "lsun"}
