"""Suites and submissions: what is the same is compared, whatever differs is refused and said."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_studies import make_study, run_inside
from typer.testing import CliRunner

from oodometer import metrics
from oodometer.cli import app as cli
from oodometer.engine.executors.in_process import InProcess
from oodometer.engine.stores import FolderStore
from oodometer.engine.work.codecs import bytes_to_table
from oodometer.errors import UserError
from oodometer.scores import ScoreTable
from oodometer.suites import submission as submitting
from oodometer.suites.submission import read_submission, score_suite, write_submission
from oodometer.suites.suite import differences, load_suite, make_suite, suite_key
from oodometer.web import queries
from oodometer.web.index import slug_of
from oodometer.web.queries import SUBMITTED
from oodometer.web.refresh import Refresher
from oodometer.web.server import index_of
from oodometer.web.site import Site
from oodometer.web.submissions import Submissions


def searched_study(stripes: str):
    """A study that searches against one of its detectors."""
    return make_study(
        stripes,
        detectors=["max_softmax", "energy"],
        base={"data": stripes, "network": "mlp", "width": 4, "epochs": 2, "validation": 0.2},
        protocols=["ranking", "worst_case"],
        searches={"variations": ["affine"], "steps": 2, "images": 5, "detectors": ["energy"]},
    )


@pytest.fixture(scope="module")
def store(stripes, tmp_path_factory) -> FolderStore:
    """A store with the study that the suite is made of."""
    store = FolderStore(tmp_path_factory.mktemp("suite") / "ours")
    run_inside(searched_study(stripes), store)
    return store


@pytest.fixture(scope="module")
def suite(stripes):
    return make_suite(searched_study(stripes))


@pytest.fixture(scope="module")
def made(suite, store):
    """A submission of a detector that the study has not; classifiers come from the store."""
    with pytest.MonkeyPatch.context() as patch:
        inside = submitting.run_study

        def here(study, place, **given):
            return inside(study, place, executor=InProcess())

        patch.setattr(submitting, "run_study", here)
        return score_suite(suite, "max_logit", store)


@pytest.fixture(scope="module")
def site(store, tmp_path_factory):
    """Pages about the store; reading it once is enough for all tests."""
    place = tmp_path_factory.mktemp("pages")
    (place / "submissions").mkdir()
    return Site(index_of([str(store.folder)], place / "index", place / "submissions"), dict)


@pytest.fixture
def folder(site):
    """The folder of submissions, empty."""
    folder = site.index.path.parent.parent / "submissions"
    for path in folder.iterdir():
        path.unlink()
    return folder


def shown(site: Site, folder: Path):
    """The page about submissions, as data, and the leaderboard of the suite's study."""
    Refresher(site.index, Submissions(folder)).refresh()
    with site.index.reading() as connection:
        (checked,) = site.shown("submissions", connection).content["checked"]
        (entry,) = [e for e in queries.studies(site.index, connection) if e.name == "tiny"]
        return checked, queries.board(connection, entry.number, "auroc")


def test_a_suite_is_read_back(suite, tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(suite.to_yaml())
    again = load_suite(path)
    assert again.key == suite.key and again.sets == suite.sets


def test_the_key_of_a_suite_is_about_training_and_data_alone(suite):
    same = suite.study.model_copy(update={"name": "other", "detectors": ("knn",)})
    assert suite_key(same, suite.sets) == suite.key
    base = suite.study.base.model_copy(update={"epochs": 9})
    assert suite_key(suite.study.model_copy(update={"base": base}), suite.sets) != suite.key
    others = suite.study.searches.model_copy(update={"detectors": "all"})
    assert suite_key(suite.study.model_copy(update={"searches": others}), suite.sets) == suite.key
    longer = suite.study.searches.model_copy(update={"steps": 3})
    assert suite_key(suite.study.model_copy(update={"searches": longer}), suite.sets) != suite.key
    changed = {run: {**own, "inverted": "0"} for run, own in suite.sets.items()}
    assert suite_key(suite.study, changed) != suite.key


def test_a_submission_is_shown_beside_ours_and_marked(site, folder, made):
    path = write_submission(made, folder / "mine.parquet")
    again = read_submission(path)
    assert again.detector == "max_logit" and again.versions["oodometer"]
    assert all(
        np.array_equal(a.scores, b.scores)
        for a, b in zip(made.table.rows, again.table.rows, strict=True)
    )
    checked, board = shown(site, folder)
    assert not checked.problem
    row = next(row for row in board.rows if row.detector == f"max_logit ({SUBMITTED})")
    values = [metrics.auroc(inside.scores, row.scores) for inside, row in made.table.pairs()]
    assert row.mark == SUBMITTED and row.value == pytest.approx(np.mean(values))
    assert checked.note == "average and worst case"
    assert {r.detector for r in board.rows} > {"max_softmax", "energy"}
    assert "max_logit (submitted)" in site.page("leaderboard")
    assert "max_logit (submitted)" in site.page("detectors")
    assert "inverted" in site.page("detectors/max_logit-submitted-" + _ending(site))


def test_the_worst_case_is_what_searches_found_against_the_detector(site, folder, made, store):
    """That of a submission, whichever detectors the study searches against, and that of ours."""
    write_submission(made, folder / "mine.parquet")
    _, board = shown(site, folder)
    rows = {row.detector: row for row in board.rows}
    (key,) = (key for key in store.keys("tables")
              if "energy" in bytes_to_table(store.view("tables", key)).detectors)  # fmt: skip
    ours = bytes_to_table(store.view("tables", key))
    for table, name, label in (
        (made.table, "max_logit", f"max_logit ({SUBMITTED})"), (ours, "energy", "energy"),
    ):  # fmt: skip
        found = [row for row in table.rows if table.sets[row.dataset].against == row.detector]
        assert {row.detector for row in found} == {name} and len(found) == 2 * 2  # runs, sets
        values = [metrics.auroc(table.scores(row.run, name, table.id), row.scores) for row in found]
        (worst,) = rows[label].worst
        assert (worst.variation, worst.sets, worst.samples) == ("affine", 2, 5)
        assert worst.value == pytest.approx(np.mean(values))
    assert not rows["max_softmax"].worst
    assert not rows[f"max_logit ({SUBMITTED})"].group  # the report does not know it
    assert "affine" in site.page("leaderboard")
    run = f"runs/ours/tiny/{slug_of('seed=0')}"
    assert "What fools energy: affine of inverted" in site.page(f"{run}/energy")
    assert "Worst case" in site.page(run)


def test_a_static_site_has_submissions_too(store, folder, made, tmp_path, monkeypatch):
    from oodometer.web import export

    monkeypatch.setattr(export, "read_cards", dict)
    write_submission(made, folder / "mine.parquet")
    export.export(
        [str(store.folder)], tmp_path / "site", submissions=folder, index_folder=tmp_path / "index"
    )
    (page,) = (tmp_path / "site" / "detectors").glob("max_logit-submitted-*.html")
    assert "submitted" in page.read_text()
    targets = re.findall(r'href="([^"#]+\.html)', page.read_text())
    assert targets and all((page.parent / target).is_file() for target in targets)


def _ending(site: Site) -> str:
    page = site.page("detectors")
    return page.partition("/detectors/max_logit-submitted-")[2].partition('"')[0]


def _shorter(table: ScoreTable) -> ScoreTable:
    rows = tuple(
        replace(row, scores=row.scores[:-1]) if row.dataset.startswith("inverted") else row
        for row in table.rows
    )
    return replace(table, rows=rows)


def _fewer_found(table: ScoreTable) -> ScoreTable:
    """A worst case of fewer images than the suite fixes."""
    rows = tuple(
        replace(row, scores=row.scores[:-1]) if table.sets[row.dataset].role == "search" else row
        for row in table.rows
    )
    return replace(table, rows=rows)


def _without_a_run(table: ScoreTable) -> ScoreTable:
    rows = tuple(row for row in table.rows if row.run != "seed=1")
    return replace(table, rows=rows)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda m: replace(m, suite="other"), "No study here is called 'other'"),
        (lambda m: replace(m, key="0" * 40), "classifiers are not trained, or the searches"),
        (lambda m: replace(m, table=_fewer_found(m.table)), "4 scores on 'affine of"),
        (
            lambda m: replace(
                m, sets={run: {**own, "uniform noise": "0" * 40} for run, own in m.sets.items()}
            ),
            "has digest 000000000000",
        ),
        (lambda m: replace(m, sets={}), "is missing"),
        (lambda m: replace(m, table=_shorter(m.table)), "but there are"),
        (lambda m: replace(m, table=_without_a_run(m.table)), "no scores"),
        (lambda m: replace(m, detector="energy"), "scores of others"),
    ],
)
def test_what_differs_is_refused_and_said(site, folder, made, change, problem):
    write_submission(change(made), folder / "mine.parquet")
    checked, board = shown(site, folder)
    assert problem in checked.problem and checked.problem.endswith(".")
    assert not any(row.mark for row in board.rows)


def test_a_second_file_of_the_same_detector_is_refused(site, folder, made):
    write_submission(made, folder / "a.parquet")
    write_submission(made, folder / "b.parquet")
    Refresher(site.index, Submissions(folder)).refresh()
    with site.index.reading() as connection:
        first, second = queries.submissions(connection)
    assert not first.problem and "Another file" in second.problem


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_opened(site, folder, made, tmp_path, kind):
    path = folder / "mine.parquet"
    if kind == "link":
        path.symlink_to(write_submission(made, tmp_path / "elsewhere.parquet"))
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = tmp_path / "x.parquet"
        path.mkdir()
        path.rename(folder / "x.parquet")
    assert shown(site, folder)[0].problem.startswith("It is not a file")
    if kind == "folder":
        (folder / "x.parquet").rmdir()


def test_scores_that_are_no_numbers_are_refused(site, folder, made):
    path = write_submission(made, folder / "mine.parquet")
    arrow = pq.read_table(path)
    lists = arrow["scores"].to_pylist()
    lists[0][3] = float("nan")
    place = arrow.schema.get_field_index("scores")
    scores = pa.array(lists, pa.large_list(pa.float64()))
    pq.write_table(arrow.set_column(place, "scores", scores), path)
    checked, board = shown(site, folder)
    assert "NaN" in checked.problem and not any(row.mark for row in board.rows)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"\x80\x04]q\x00.", b"{}" * 100])
def test_files_that_are_no_submissions_are_refused(site, folder, content):
    (folder / "other.parquet").write_bytes(content)
    checked, _ = shown(site, folder)
    assert "not a Parquet file" in checked.problem


def test_a_small_file_that_unpacks_to_much_is_refused(site, folder, made):
    path = write_submission(made, folder / "mine.parquet")
    schema = pq.read_schema(path)
    many = 60_000_000  # equal values take hardly any room
    column = pa.array(np.zeros(many, np.int8))
    table = pa.table({"x": column}).replace_schema_metadata(schema.metadata)
    pq.write_table(table, path, compression="zstd")
    assert path.stat().st_size < 1_000_000
    assert "would unpack to" in shown(site, folder)[0].problem


def _with_metadata(path: Path, name: bytes, content: bytes) -> None:
    arrow = pq.read_table(path)
    pq.write_table(arrow.replace_schema_metadata({**arrow.schema.metadata, name: content}), path)


def test_what_a_file_says_of_itself_takes_no_room_and_stops_nothing(site, folder, made):
    path = write_submission(made, folder / "mine.parquet")
    said = json.loads(pq.read_schema(path).metadata[b"oodometer"])
    said["correct_sizes"] = dict.fromkeys(said["correct_sizes"], 10**12)
    _with_metadata(path, b"oodometer", json.dumps(said).encode())
    assert "would unpack to" in shown(site, folder)[0].problem
    _with_metadata(path, b"oodometer", b"[" * 100_000)
    assert "not a Parquet file" in shown(site, folder)[0].problem
    _with_metadata(path, b"oodometer-submission", b'"' + b"x" * 21_000_000 + b'"')
    assert "longer than" in shown(site, folder)[0].problem


def test_a_plain_score_table_is_no_submission(site, folder, made):
    from oodometer.score_files import save_scores

    save_scores(made.table, folder / "plain.parquet")
    assert "not a submission" in shown(site, folder)[0].problem


def test_other_data_are_refused_before_anything_is_trained(suite, tmp_path):
    sets = {run: {**own, "inverted": "0" * 40} for run, own in suite.sets.items()}
    store = FolderStore(tmp_path / "store")
    with pytest.raises(UserError, match="not those of suite 'tiny': data set 'inverted'|digest"):
        score_suite(replace(suite, sets=sets), "energy", store)
    assert not store.exists()


def test_differences_are_found_in_both_directions(suite):
    assert differences(suite.sets, suite.sets) == ""
    more = {**suite.sets, "seed=7": {}}
    assert "seed=7" in differences(suite.sets, more) and "seed=7" in differences(more, suite.sets)


def test_the_commands_make_and_score(suite, store, stripes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.yaml").write_text(suite.to_yaml())
    done = CliRunner().invoke(cli, ["suite", "score", "nothing", "--store", str(store.folder)])
    assert isinstance(done.exception, UserError) and "nothing" in str(done.exception)
    done = CliRunner().invoke(cli, ["suite", "score", "energy", "--suite", "none.yaml"])
    assert "does not exist" in str(done.exception)
    (tmp_path / "bad.yaml").write_text("a: [")
    done = CliRunner().invoke(cli, ["suite", "score", "energy", "--suite", "bad.yaml"])
    assert "not valid YAML" in str(done.exception)
    (tmp_path / "study.yaml").write_text("name: x")
    os.mkfifo(tmp_path / "pipe")
    for out, problem in (("study.yaml", "is the study itself"), ("pipe", "is a pipe or a device")):
        done = CliRunner().invoke(cli, ["suite", "make", "study.yaml", "--out", out])
        assert problem in str(done.exception)
    # Every score is in the store already, so this trains nothing.
    done = CliRunner().invoke(
        cli, ["suite", "score", "energy", "--store", str(store.folder), "--workers", "1"]
    )
    assert done.exit_code == 0, done.exception
    assert read_submission(tmp_path / "energy.parquet").suite == "tiny"
