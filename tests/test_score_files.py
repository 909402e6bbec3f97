"""Score tables in files: what is written is read back equal, and damage is one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oodometer as om
from oodometer.errors import UserError
from oodometer.factors import Factor
from oodometer.finding import to_json
from oodometer.protocols.instability.protocol import instability
from oodometer.protocols.ranking.protocol import ranking
from oodometer.score_files import load_scores, save_scores, table_to_bytes
from oodometer.scores import Missing, ScoreRow, ScoreTable, SetInfo, join_runs


def rich_table() -> ScoreTable:
    """A table in which every field says something."""
    rng = np.random.default_rng(0)
    sizes = {"id": 5, "noise": 3, "found": 2}
    rows = tuple(
        ScoreRow(
            run, "knn", f"k={k}", data, rng.normal(size=size + (run == "b")), k == 1, "",
            {"k": k, "scale": 0.5, "norm": "l1, l2", "square": True},
        )
        for run in "ab"
        for k in (1, 2)
        for data, size in sizes.items()
    )  # fmt: skip
    return ScoreTable(
        "id",
        rows,
        {"a": {"seed": 1, "rate": 0.1, "name": "x"}, "b": {"seed": 2, "rate": 0.2, "name": "y"}},
        (Missing("why", "a", "vim", "k=9", "noise", "trace", lasting=True),),
        {"a": np.array([True, False, True, True, False])},
        same_samples=False,
        factors=(Factor("name", "re_evaluation"),),
        sets={"found": SetInfo("search", against="knn", of="noise")},
    )


def test_what_is_written_is_read_back_equal(tmp_path):
    table = rich_table()
    again = load_scores(save_scores(table, tmp_path / "scores.parquet"))
    for one, two in zip(table.rows, again.rows, strict=True):
        assert np.array_equal(one.scores, two.scores)
        assert (one.run, one.detector, one.setting, one.dataset, one.default) == (
            two.run, two.detector, two.setting, two.dataset, two.default,
        )  # fmt: skip
        assert one.settings == two.settings and list(map(type, two.settings.values())) == [
            int, float, str, bool,
        ]  # fmt: skip
    assert again.id == table.id and again.runs == table.runs and again.missing == table.missing
    kinds = {factor.name: factor.kind for factor in again.factors}
    assert kinds == {"seed": "repeat", "rate": "condition", "name": "re_evaluation"}
    assert again.sets == {
        "id": SetInfo("id"),
        "noise": SetInfo("ood"),
        "found": SetInfo("search", "knn", "noise"),
    }
    assert again.same_samples is False
    assert again.correct["a"].tolist() == [True, False, True, True, False]
    assert table_to_bytes(again) == table_to_bytes(table)
    assert [file.name for file in tmp_path.iterdir()] == ["scores.parquet"]


def test_pandas_reads_one_line_per_sample(tmp_path):
    table = rich_table()
    frame = pd.read_parquet(save_scores(table, tmp_path / "scores.parquet")).explode("scores")
    assert len(frame) == sum(len(row.scores) for row in table.rows)
    assert set(frame["dataset"]) == {"id", "noise", "found"}


def test_damaged_files_are_one_sentence(tmp_path):
    path = save_scores(rich_table(), tmp_path / "scores.parquet")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [whole[: len(whole) // 2], b"", b"PAR1" * 9, whole[:-1]]
    for _ in range(60):
        spoilt = bytearray(whole)
        for place in rng.integers(len(whole), size=20):
            spoilt[place] = rng.integers(256)
        damaged.append(bytes(spoilt))
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            load_scores(path)
        except UserError as problem:
            refused += 1
            assert str(problem).startswith(f"'{path}' is not a score table: ")
            assert "\n" not in str(problem) and len(str(problem)) < 600
    assert refused > 40
    with pytest.raises(UserError, match=r"Cannot read '.*none.parquet': No such file"):
        load_scores(tmp_path / "none.parquet")
    with pytest.raises(UserError, match=r"Cannot write '.*none/scores.parquet': No such file"):
        save_scores(rich_table(), tmp_path / "none" / "scores.parquet")


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        (None, "its schema has no metadata called 'oodometer'"),
        ({"oodometer": "[1]"}, "its schema has no metadata called 'oodometer'"),
        ({"oodometer": "{"}, "JSONDecodeError"),
        ({"oodometer": '{"version": 7}'}, "it has version 7 of the format, this program reads 1"),
        ({"oodometer": '{"version": 1}'}, "KeyError: 'id'"),
    ],
)
def test_files_of_others_are_told_apart(tmp_path, metadata, sentence):
    table = pa.table({"run": ["a"]}).replace_schema_metadata(metadata)
    pq.write_table(table, tmp_path / "other.parquet")
    with pytest.raises(UserError, match=sentence):
        load_scores(tmp_path / "other.parquet")


# What data sets are there for


def test_roles_have_defaults_and_are_checked():
    table = rich_table()
    assert table.ood == ("noise",)
    assert {row.dataset for _, row in table.pairs(defaults_only=False)} == {"noise"}
    assert replace(table, sets={}).ood == ("noise", "found")
    for sets, sentence in (
        ({"noise": SetInfo("id")}, "'noise' has the role 'id', but .* is 'id'"),
        ({"id": SetInfo("ood")}, "'id' has the role 'ood'"),
    ):
        with pytest.raises(UserError, match=sentence):
            replace(table, sets=sets)
    with pytest.raises(UserError, match=r"Unknown role of a data set 'serch'. Did you mean 'sea"):
        SetInfo("serch")


def test_protocols_do_not_read_what_a_search_has_found():
    rng = np.random.default_rng(1)

    def rows() -> tuple[ScoreRow, ...]:
        return tuple(
            ScoreRow("", detector, "", data, rng.normal(shift, 1, 80))
            for detector in ("energy", "knn", "vim")
            for data, shift in (("id", 0), ("far", 2), ("near", 1))
        )

    plain = join_runs({run: ScoreTable("id", rows()) for run in ("one", "two")}, "weights")
    found = tuple(
        ScoreRow(run, name, "", "found", np.full(9, -99.0))
        for run in plain.runs
        for name in plain.detectors
    )
    more = replace(plain, rows=plain.rows + found, sets={"found": SetInfo("search", "knn", "far")})
    assert more.ood == plain.ood == ("far", "near")
    for conclude in (ranking, instability):
        one, two = (conclude(table, np.random.default_rng(0)) for table in (plain, more))
        assert to_json(one) == to_json(two)


def test_they_are_public():
    assert om.load_scores is load_scores and om.save_scores is save_scores


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system tells no threads")
def test_reading_leaves_no_thread_that_could_abort_the_process(tmp_path):
    """Arrow's threads may end after its static objects at exit: exit code 134 now and then."""
    scores, table = save_scores(rich_table(), tmp_path / "scores.parquet"), tmp_path / "t.parquet"
    pd.DataFrame({"method": ["a", "b"], "auroc": [0.9, 0.8]}).to_parquet(table)
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from oodometer.score_files import load_scores\nfrom oodometer.tables import read_results\n"
        "load_scores(sys.argv[1]), read_results(sys.argv[2])\n"
        "names = [(t / 'comm').read_text() for t in Path('/proc/self/task').iterdir()]\n"
        "print(sum('jemalloc' not in name for name in names))\n"
    )
    command = [sys.executable, "-c", code, str(scores), str(table)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)
    assert (done.stdout, done.stderr) == ("1\n", "")
