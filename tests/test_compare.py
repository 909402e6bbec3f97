"""Scores from anywhere: every form gives the same table, and what is not said is asked for."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import oodometer as om
from oodometer.cli import app, main
from oodometer.cli.compare import parse_directions
from oodometer.errors import UserError
from oodometer.finding import to_json

SIZES = {"cifar10": 120, "svhn": 90, "textures": 60}
SHIFTS = {"energy": 2.0, "msp": 1.0}
Nested = dict[str, dict[str, np.ndarray]]


def made(runs: int = 1) -> Nested:
    """Scores that are higher for outliers; (samples,) or (runs, samples)."""
    rng = np.random.default_rng(0)
    found: Nested = {}
    noise = {name: rng.normal(size=(runs, size)) for name, size in SIZES.items()}
    for detector, shift in SHIFTS.items():
        found[detector] = {}
        for name, size in SIZES.items():
            own = rng.normal(size=(runs, size))
            scores = noise[name] + own + shift * (name != "cifar10")
            found[detector][name] = scores[0] if runs == 1 else scores
    return found


def table_of(scores: Nested) -> om.ScoreTable:
    return om.ScoreTable.from_arrays(scores, id="cifar10", higher="ood")


def wide(scores: Nested, run: int | None = None) -> pd.DataFrame:
    picked = {d: {n: v if run is None else v[run] for n, v in s.items()} for d, s in scores.items()}
    frame = pd.DataFrame({d: np.concatenate([*s.values()]) for d, s in picked.items()})
    frame.insert(0, "set", np.repeat([*SIZES], [*SIZES.values()]))
    return frame if run is None else frame.assign(seed=run)


# ---- from arrays -------------------------------------------------------------------------------


def test_two_lines_from_arrays_to_verdicts():
    scores = made()
    table = om.ScoreTable.from_arrays(scores, id="cifar10", higher="ood")
    result = om.compare(table)
    best = result.findings[0].claims[0]
    assert "energy" in best.text
    line = result.summary.set_index(["detector", "ood"]).loc["energy", "svhn"]
    labels = [0] * SIZES["cifar10"] + [1] * SIZES["svhn"]
    values = np.concatenate([scores["energy"]["cifar10"], scores["energy"]["svhn"]])
    assert line["auroc"] == pytest.approx(roc_auc_score(labels, values))


def test_direction_is_applied_per_detector():
    scores = made()
    turned = {**scores, "msp": {name: -values for name, values in scores["msp"].items()}}
    higher = {"energy": "ood", "msp": "id"}
    table = om.ScoreTable.from_arrays(turned, id="cifar10", higher=higher)
    assert np.array_equal(table.scores("", "msp", "svhn"), scores["msp"]["svhn"])


def test_a_direction_that_looks_reversed_is_a_caveat():
    table = om.ScoreTable.from_arrays(made(), id="cifar10", higher="id")
    (finding,) = om.compare(table).findings
    assert "energy (2 of 2), msp (2 of 2)" in finding.caveats[0]
    assert "direction" in finding.caveats[0]
    assert not any("direction" in text for text in om.compare(table_of(made())).notes)


def test_several_runs_are_rows_of_an_array():
    scores = made(runs=4)
    table = om.ScoreTable.from_arrays(scores, id="cifar10", higher="ood", factor="seed")
    assert table.runs["3"] == {"seed": 3}
    assert table.factors[0].kind == "repeat"
    assert np.array_equal(table.scores("2", "msp", "svhn"), scores["msp"]["svhn"][2])


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        ([1.0], "got list"),
        ({}, "got none"),
        ({"a": [1.0]}, "got list for detector 'a'"),
        ({"a": {}}, "got none for detector 'a'"),
        ({1: {"id": [1.0]}}, "must be text, got 1"),
        ({"a": {"id": ["x"]}}, "must be numbers"),
        ({"a": {"id": [[1], [2, 3]]}}, "not an array of numbers"),
        ({"a": {"id": 3.0}}, r"got \(\)"),
        ({"a": {"id": np.ones((4, 1))}}, r"got \(4, 1\)"),
        ({"a": {"id": np.ones((2, 3)), "o": np.ones(3)}}, "have 1 runs.*have 2"),
        ({"a": {"id": [1.0, np.nan]}}, "1 of 2 are NaN or infinite, the first at row 1"),
        ({"a": {"id": [1, 2]}, "b": {"id": [1]}}, "'b' has 1 scores on 'id' where others have 2"),
        ({"a": {"x": [1.0]}}, "Unknown in-distribution set 'id'"),
        ({"a": {"id": np.ma.masked_equal([1, 2], 2)}}, "must not be masked"),
    ],
)
def test_arrays_that_are_no_scores_are_refused(scores, sentence):
    with pytest.raises(UserError, match=sentence):
        om.ScoreTable.from_arrays(scores, id="id", higher="ood")


def test_tensors_of_any_kind_are_arrays():
    import torch

    values = torch.tensor([1.0, 2.0], requires_grad=True)
    scores = {"a": {"id": values, "o": values.to(torch.bfloat16)}}
    table = om.ScoreTable.from_arrays(scores, id="id", higher="ood")
    assert table.scores("", "a", "o").tolist() == [1.0, 2.0]


@pytest.mark.parametrize("higher", ["up", {"b": "id"}, {}, {"a": 1}, None])
def test_a_direction_that_is_none_is_refused(higher):
    with pytest.raises(UserError, match="higher"):
        om.ScoreTable.from_arrays({"a": {"id": [1.0]}}, id="id", higher=higher)


# ---- files: every form is the same table -------------------------------------------------------


def per_detector(scores: Nested) -> tuple[list[str], dict[str, str]]:
    for name, sets in scores.items():
        np.savez(f"{name}.npz", **sets)
    return ["energy.npz", "msp.npz"], {"id": "cifar10", "higher": "ood"}


def per_set(scores: Nested) -> tuple[list[str], dict[str, str]]:
    for name in SIZES:
        np.savez(f"{name}.npz", **{d: sets[name] for d, sets in scores.items()})
    return [f"{name}.npz" for name in SIZES], {"id": "cifar10", "higher": "ood"}


def wide_csv(scores: Nested) -> tuple[list[str], dict[str, str]]:
    wide(scores).to_csv("scores.csv", index=False, sep=";")
    return ["scores.csv"], {"id": "cifar10", "higher": "ood"}


def wide_with_other_names(scores: Nested) -> tuple[list[str], dict[str, str]]:
    frame = wide(scores).rename(columns={"set": "Source"})
    frame.assign(label=0, note="x").to_csv("scores.csv")  # with a nameless column of row numbers
    columns = "set=Source, ignore=label+note"
    return ["scores.csv"], {"id": "cifar10", "higher": "ood", "columns": columns}


def wide_npz(scores: Nested) -> tuple[list[str], dict[str, str]]:
    np.savez("scores.npz", **{n: v.to_numpy() for n, v in wide(scores).astype({"set": "U"}).items()}
             | {"set": wide(scores)["set"].to_numpy().astype("U")})  # fmt: skip
    return ["scores.npz"], {"id": "cifar10", "higher": "ood"}


def flagged_csv(scores: Nested) -> tuple[list[str], dict[str, str]]:
    frame = wide(scores)
    frame.assign(is_ood=(frame["set"] != "cifar10").astype(int)).to_csv("scores.csv")
    return ["scores.csv"], {"higher": "ood"}


def long_csv_shuffled(scores: Nested) -> tuple[list[str], dict[str, str]]:
    frame = wide(scores).assign(sample=lambda f: f.groupby("set").cumcount())
    long = frame.melt(["set", "sample"], var_name="method", value_name="score")
    long.sort_values(["method", "set", "sample"]).to_csv("first.csv", index=False)
    order = np.random.default_rng(1).permutation(len(long))
    kept = long.iloc[order].sort_values("set", key=lambda s: s.map([*SIZES].index), kind="stable")
    kept = pd.concat([long[long["method"] == "energy"], kept[kept["method"] == "msp"]])
    kept.to_csv("scores.tsv", index=False, sep="\t")
    return ["scores.tsv"], {"id": "cifar10", "higher": "ood"}


def openood_folders(scores: Nested) -> tuple[list[str], dict[str, str]]:
    for detector, sets in scores.items():
        folder = Path("results") / f"{detector}" / "scores"
        folder.mkdir(parents=True)
        for name, values in sets.items():
            label = np.arange(len(values)) % 10 if name == "cifar10" else -np.ones(len(values), int)
            np.savez(folder / name, pred=np.zeros(len(values), int), conf=-values, label=label)
    return ["results/energy", "msp=results/msp/scores"], {}


def own_table(scores: Nested) -> tuple[list[str], dict[str, str]]:
    om.save_scores(table_of(scores), "scores.parquet")
    return ["scores.parquet"], {}


def own_table_and_npz(scores: Nested) -> tuple[list[str], dict[str, str]]:
    om.save_scores(table_of({"energy": scores["energy"]}), "scores.parquet")
    np.savez("other.npz", **{name: -values for name, values in scores["msp"].items()})
    return ["scores.parquet", "msp=other.npz"], {"id": "cifar10", "higher": "id"}


def per_detector_csv(scores: Nested) -> tuple[list[str], dict[str, str]]:
    """A column called score, and no word about the detector but the file's name."""
    for name in scores:
        wide(scores).rename(columns={name: "score"})[["set", "score"]].to_csv(f"{name}.csv")
    Path("msp.csv").rename("other.csv")
    return ["energy.csv", "msp=other.csv"], {"id": "cifar10", "higher": "ood"}


FORMS = [per_detector, per_set, per_detector_csv, wide_csv, wide_with_other_names, wide_npz,
         flagged_csv, long_csv_shuffled, openood_folders, own_table, own_table_and_npz]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_table(form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scores = made()
    files, options = form(scores)
    table = om.compare(files, **options).table
    assert table.id == "cifar10"
    assert set(table.ood) == {"svhn", "textures"} and set(table.detectors) == {"energy", "msp"}
    for detector, sets in scores.items():
        for name, values in sets.items():
            assert table.scores("", detector, name) == pytest.approx(values, rel=1e-12)


def test_findings_from_files_equal_those_from_arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files, options = per_detector(made())
    (one,) = om.compare(files, **options).findings
    (two,) = om.compare(table_of(made())).findings
    assert to_json(om.Finding(**{**vars(one), "reading": two.reading})) == to_json(two)
    assert ("in-distribution set", "cifar10") in one.reading
    assert ("higher for outliers", "energy, msp") in one.reading


def test_runs_from_columns_from_arrays_and_from_names_agree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scores = made(runs=3)
    pd.concat([wide(scores, run) for run in range(3)]).to_csv("all.csv", index=False)
    for detector, sets in scores.items():
        np.savez(f"{detector}.npz", **sets)
        for run in range(3):
            np.savez(f"{detector}{run}.npz", **{name: v[run] for name, v in sets.items()})
            one = wide(scores, run).rename(columns={detector: "score"})[["set", "score"]]
            one.to_csv(f"{detector}{run}.csv", index=False)
    options = {"id": "cifar10", "higher": "ood"}
    named = [f"{d}@{run}={d}{run}.npz" for d in scores for run in range(3)]
    in_csv = [name.replace(".npz", ".csv") for name in named]
    forms = ("all.csv", ["energy.npz", "msp.npz"], named, in_csv)
    tables = [om.compare(form, **options).table for form in forms]
    for table in tables:
        assert [*table.runs] == ["0", "1", "2"]
        assert [factor.kind for factor in table.factors] == ["repeat"]
        for run in range(3):
            found = table.scores(str(run), "msp", "textures")
            assert found == pytest.approx(scores["msp"]["textures"][run])


def test_openood_runs_are_folders_and_accuracy_is_read(tmp_path):
    scores = made(runs=3)
    for detector, sets in scores.items():
        for run in range(3):
            places = (detector, f"s{run}") if detector == "msp" else (f"s{run}", detector)
            folder = tmp_path.joinpath(*places) / "ood" / "scores"
            folder.mkdir(parents=True)
            for name, v in sets.items():
                label = np.zeros(SIZES[name], int) if name == "cifar10" else -np.ones(SIZES[name])
                np.savez(folder / name, pred=np.arange(SIZES[name]) % 2, conf=-v[run], label=label)
    table = om.compare([tmp_path]).table
    assert set(table.detectors) == {"energy", "msp"}
    assert table.runs["1"] == {"seed": 1}
    assert table.correct["1"].mean() == 0.5


# ---- files: what is not said is asked for ------------------------------------------------------


def ask(files: list[str], **options: str) -> str:
    with pytest.raises(UserError) as problem:
        om.compare(files, **options)
    return str(problem.value)


def test_questions_name_the_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files, _ = per_detector(made())
    assert "Add --higher ood or --higher id" in ask(files, id="cifar10")
    question = ask(files, higher="ood")
    assert "Add --id NAME: one of cifar10, svhn, textures if each file is a detector" in question
    assert "'cifar'. Did you mean 'cifar10'?" in ask(files, id="cifar", higher="ood")
    wide(made()).to_csv("wide.csv", index=False)
    assert "Add --id NAME; there are cifar10, svhn, textures" in ask("wide.csv", higher="ood")
    assert "Did you mean 'svhn'?" in ask("wide.csv", higher="ood", id="svhm")
    wide(made()).assign(label=0).to_csv("label.csv", index=False)
    assert '--columns "ignore=label"' in ask("label.csv", higher="ood", id="cifar10")
    wide(made()).rename(columns={"set": "where"}).to_csv("where.csv", index=False)
    assert "does not hold numbers" in ask("where.csv", higher="ood", columns="is_ood=msp")
    assert "Unknown role" in ask("wide.csv", columns="sett=set")
    assert "Unknown column 'sat'" in ask("wide.csv", columns="set=sat", id="cifar10", higher="ood")
    assert "Two files hold scores of 'msp' on 'cifar10'" in ask(
        ["msp.npz", "msp=energy.npz"], id="cifar10", higher="ood"
    )


def test_files_that_could_run_code_or_are_no_scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("objects.npz", id=np.array([{}, None], dtype=object))
    Path("scores.pkl").write_bytes(pickle.dumps({"id": {"test": [1]}}))
    Path("folder/s0/scores").mkdir(parents=True)
    Path("folder/s0/scores/msp.pkl").write_bytes(b"\x80\x04.")
    Path("empty.csv").write_text("")
    Path("numbers.csv").write_text("1,2\n3,4\n")
    Path("broken.npz").write_bytes(b"PK\x03\x04 no zip")
    Path("broken.parquet").write_bytes(b"PAR1 nothing")
    Path("text.csv").write_text("set,a\nid,x\nood,y\n")
    Path("nan.csv").write_text("set,a\nid,1\nid,\nood,2\n")
    said = {"id": "id", "higher": "ood"}
    assert "Python objects, which could run code" in ask(["objects.npz"], **said)
    assert "is a pickle, which could run code" in ask(["scores.pkl"], **said)
    assert "is a pickle, which could run code" in ask(["folder"], **said)
    assert "cannot be read as csv" in ask(["empty.csv"], **said)
    assert "first line holds numbers" in ask(["numbers.csv"], **said)
    assert "cannot be read as npz" in ask(["broken.npz"], **said)
    assert "cannot be read as parquet" in ask(["broken.parquet"], **said)
    assert "does not hold numbers, but 'x'" in ask(["text.csv"], **said)
    assert "1 of 2 are NaN or infinite" in ask(["nan.csv"], **said)
    assert "Did you mean 'nan.csv'?" in ask(["nam.csv"], **said)
    assert "is a pipe or a device" in ask(["/dev/zero"], **said)


def test_samples_with_names_must_be_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("set,sample,a\nid,x,1\nid,y,2\nood,z,3\n")
    Path("b.csv").write_text("set,sample,b\nid,x,1\nid,w,2\nood,z,3\n")
    assert "no score of sample" in ask(["a.csv", "b.csv"], id="id", higher="ood")
    Path("b.csv").write_text("set,sample,b\nid,x,1\nid,x,2\nood,z,3\n")
    assert "Sample 'x' has two scores" in ask(["a.csv", "b.csv"], id="id", higher="ood")


# ---- the command -------------------------------------------------------------------------------


def test_the_command_writes_what_evaluate_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files, _ = per_detector(made())
    done = CliRunner().invoke(
        app, ["compare", *files, "--id", "cifar10", "--higher", "ood", "--ours", "msp"]
    )
    assert done.exit_code == 0, done.output
    written = {path.name for path in Path("oodometer-comparison").iterdir()}
    assert {"summary.csv", "scores.parquet", "report.html"} <= written
    again = om.compare("oodometer-comparison")  # a folder of evaluate's is read back
    assert again.table.detectors == ("energy", "msp")


def test_directions_are_parsed():
    assert parse_directions("") is None
    assert parse_directions("ood, msp=id") == {"": "ood", "msp": "id"}
    for wrong in ("up", "ood, id", "msp="):
        with pytest.raises(UserError, match="--higher"):
            parse_directions(wrong)


# ---- hostile input -----------------------------------------------------------------------------


def lying_array() -> bytes:
    header = io.BytesIO()
    claims = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    np.lib.format.write_array_header_1_0(header, claims)
    return header.getvalue() + b"0" * 64


def test_hostile_files_are_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("lies.npz", "w") as archive:
        archive.writestr("id.npy", lying_array())
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("id.npy", bytes(300_000_000))
    Path("twice.csv").write_text("set,a,a\nid,1,1\nood,2,2\n")
    Path("zero.csv").write_bytes(b"set,a\0b\nid,1\nood,2\n")
    Path("ragged.csv").write_text("set,a\nid,1,2,3\nood,2\n")
    Path("loop.npz").symlink_to("loop.npz")
    Path("deep").mkdir()
    for number in range(12):
        Path(f"deep/{number}.txt").touch()
    monkeypatch.setattr("oodometer.other_scores.openood._MOST_FILES", 10)
    said = {"id": "id", "higher": "ood"}
    assert "not as long as its header says" in ask(["lies.npz"], **said)
    assert "it unpacks to 300,000,000 bytes" in ask(["bomb.npz"], **said)
    assert "two columns are called 'a'" in ask(["twice.csv"], **said)
    assert "zero bytes" in ask(["zero.csv"], **said)
    assert "cannot be read as csv" in ask(["ragged.csv"], **said)
    assert "Score file 'loop.npz' does not exist." in ask(["loop.npz"], **said)
    assert "holds more than 10 files" in ask(["deep"], **said)
    assert "File name too long" in ask(["a" * 5000 + ".npz"], **said)
    np.savez("ok.npz", id=np.arange(3.0), ood=np.arange(3.0))
    assert "Unknown detector in --higher 'x'" in ask(["ok.npz"], id="id", higher={"x": "id"})


def test_errors_show_direction_controls_and_do_not_obey_them(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["oodometer", "compare", "\u202enpz.gnp"])
    with pytest.raises(SystemExit):
        main()
    error = capsys.readouterr().err
    assert "\\u202enpz.gnp" in error
    assert "\u202e" not in error
