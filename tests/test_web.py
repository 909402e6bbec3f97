"""Stores as web pages: the index is right, pages are complete and safe, the server only reads."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

import numpy as np
import pytest
from engine_studies import make_study, run_inside
from torture import is_gone, until, workers_of
from typer.testing import CliRunner
from web_stores import HOSTILE, write_store

from oodometer import metrics
from oodometer.cli import app as cli
from oodometer.engine.lead.importing import import_scores
from oodometer.engine.plan.study_index import read_plan
from oodometer.engine.stores import FolderStore, this_owner
from oodometer.engine.upkeep.watch import (
    Progress,
    RunnerReport,
    remove_report,
    write_report,
)
from oodometer.engine.work.codecs import bytes_to_table
from oodometer.errors import UserError
from oodometer.finding import Finding
from oodometer.protocols import score_protocol
from oodometer.web import queries
from oodometer.web.arrays import read_arrays
from oodometer.web.caching import Cache
from oodometer.web.cards import cards_here
from oodometer.web.index import METRICS, Index, slug_of
from oodometer.web.refresh import Refresher
from oodometer.web.server import index_of, is_local, listen
from oodometer.web.site import Site

pytest.importorskip("fastapi", reason="FastAPI is not installed")
testclient = pytest.importorskip("fastapi.testclient", reason="httpx is not installed")

CARDS = cards_here()
HOST = "http://127.0.0.1:8642"


@pytest.fixture(scope="module")
def trained(stripes, tmp_path_factory) -> FolderStore:
    """A store with a small finished study."""
    store = FolderStore(tmp_path_factory.mktemp("web") / "results")
    run_inside(make_study(stripes, keep_unlearned=True), store)
    return store


@pytest.fixture(scope="module")
def index(trained, tmp_path_factory) -> Index:
    return fresh_index([trained.folder], tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="module")
def client(index):
    with client_of(index) as client:
        yield client


def fresh_index(folders, place) -> Index:
    index = index_of([str(folder) for folder in folders], place)
    Refresher(index).refresh()
    return index


def client_of(index: Index, **given):
    from oodometer.web.app import create_app

    site = Site(index, lambda: CARDS)
    app = create_app(site, ["127.0.0.1", "localhost"], **given)
    return testclient.TestClient(app, base_url=HOST, raise_server_exceptions=False)


class Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


# ---- the index -----------------------------------------------------------------------------


def test_every_metric_in_the_index_is_that_of_the_score_table(index, trained):
    table = bytes_to_table(trained.view("tables", next(iter(trained.keys("tables")))))
    expected = {
        (row.run, row.detector, row.dataset): {
            name: metrics.METRICS[name].function(reference.scores, row.scores) for name in METRICS
        }
        for reference, row in table.pairs()
    }
    with index.reading() as connection:
        (entry,) = queries.studies(index, connection)
        found = {(r.run, r.detector, r.ood): r.values for r in queries.results(connection, 1)}
        right = queries.accuracies(connection, entry.number)
    assert found.keys() == expected.keys() and len(found) == 16
    for cell, values in expected.items():
        assert found[cell] == pytest.approx(values)
    assert {run: (c, n) for run, (c, n, _) in right.items()} == {
        run: (int(own.sum()), len(own)) for run, own in table.correct.items()
    }
    assert {run: chance for run, (*_, chance) in right.items()} == pytest.approx(table.chance)


def test_means_of_the_leaderboard_are_those_of_the_report(index, trained):
    table = bytes_to_table(trained.view("tables", next(iter(trained.keys("tables")))))
    finding: Finding = score_protocol("ranking")(table, np.random.default_rng(0))
    (series,) = [s for s in finding.series if s.kind == "intervals"][:1]
    with index.reading() as connection:
        (entry,) = queries.studies(index, connection)
        board = queries.board(connection, entry.number, "auroc")
        single = queries.board(connection, entry.number, "fpr95", entry_set(connection))
    means: dict[str, list[float]] = {}
    for point in series.points:
        means.setdefault(str(point["label"]), []).append(float(point["value"] or 0))
    assert {row.detector for row in board.rows} == set(means)
    cells = list(table.pairs())
    for row in board.rows:
        own = [
            metrics.auroc(reference.scores, scored.scores)
            for reference, scored in cells
            if scored.detector == row.detector
        ]
        assert row.value == pytest.approx(np.mean(own))
        assert row.low is None or row.low <= row.value <= row.high
    # Ranks, groups and intervals are those of the report, or there are none: no second opinion.
    boards = [s for s in finding.series if s.kind == "leaderboard"]
    said = {point["label"]: point for point in max(boards, key=lambda s: len(s.points)).points}
    for row in board.rows:
        point = said[row.detector]
        assert (row.low, row.high) == (point["low"], point["high"])
        assert (row.group, row.ranks) == (point["letters"], point.get("plausible ranks", ""))
    assert any(row.group for row in board.rows)
    assert not any(row.group or row.ranks for row in single.rows)
    assert [row.value for row in single.rows] == sorted(row.value for row in single.rows)
    assert all(row.sets == 1 for row in single.rows)


def entry_set(connection) -> str:
    return str(
        connection.execute("select dataset from cells where role = 'ood' limit 1").fetchone()[0]
    )


def test_only_what_changed_is_read_again(tmp_path, monkeypatch):
    store = write_store(tmp_path / "store")
    index = index_of([str(store.folder)], tmp_path / "index")
    read: list[str] = []
    plain = FolderStore.view

    def noted(self, kind, key):
        read.extend([key] * (kind == "scores"))
        return plain(self, kind, key)

    monkeypatch.setattr(FolderStore, "view", noted)
    Refresher(index).refresh()
    assert len(read) == 3 * 2 * 3  # every score once
    read.clear()
    Refresher(index).refresh()
    assert not read
    gone = next(path for path in (store.folder / "scores").rglob("*.json"))
    content = gone.read_bytes()
    gone.unlink()
    Refresher(index).refresh()
    with index.reading() as connection:
        assert queries.stage_counts(connection, 1)["score"] == (17, 18)
    gone.write_bytes(content)
    Refresher(index).refresh()
    with index.reading() as connection:
        assert queries.stage_counts(connection, 1)["score"] == (18, 18)
        assert len(list(queries.results(connection, 1))) == 12
    assert not read  # results are known by the digests of their scores


def test_outliers_wait_for_the_scores_on_the_in_distribution_set(tmp_path):
    store = write_store(tmp_path / "store", seeds=1)
    index = index_of([str(store.folder)], tmp_path / "index")
    reference = [key for key in store.keys("scores")
                 if store.record("scores", key)["made_from"]["data set"] == "letters"]  # fmt: skip
    kept = {key: store.load("scores", key) for key in reference}
    about = {key: store.record("scores", key)["made_from"] for key in reference}
    for key in reference:
        store.discard("scores", key)
    Refresher(index).refresh()
    with index.reading() as connection:
        assert not list(queries.results(connection, 1))
    for key, payload in kept.items():
        store.save("scores", key, payload, about[key])
    Refresher(index).refresh()
    with index.reading() as connection:
        assert len(list(queries.results(connection, 1))) == 4


def test_damaged_scores_are_a_problem_of_their_cell(tmp_path):
    store = write_store(tmp_path / "store", seeds=1, detectors=("energy",))
    key = next(
        key
        for key in store.keys("scores")
        if store.record("scores", key)["made_from"]["data set"] == "noise"
    )
    (store.folder / "scores" / key[:2] / key).write_bytes(b"no longer")
    index = fresh_index([store.folder], tmp_path / "index")
    with index.reading() as connection:
        by_set = {r.ood: r for r in queries.results(connection, 1)}
    assert "checksum" in by_set["noise"].problem and not by_set["digits"].problem
    assert client_of(index).get("/detectors/energy").status_code == 200


def test_a_new_version_of_a_study_replaces_the_old_one(tmp_path):
    store = write_store(tmp_path / "store", seeds=2)
    index = index_of([str(store.folder)], tmp_path / "index")
    refresher = Refresher(index)
    refresher.refresh()
    time.sleep(0.01)
    write_store(tmp_path / "store", seeds=3, detectors=("energy", "vim"))
    refresher.refresh()
    with index.reading() as connection:
        (entry,) = queries.studies(index, connection)
        assert set(entry.settings) == {"energy", "vim"} and entry.brief["runs"] == 3
        assert queries.stage_counts(connection, entry.number)["score"] == (18, 18)


def test_imported_scores_are_shown_and_marked(trained, tmp_path):
    store = FolderStore(tmp_path / "store")
    shutil.copytree(trained.folder, store.folder)
    index = index_of([str(store.folder)], tmp_path / "index")
    refresher = Refresher(index)
    refresher.refresh()
    table = bytes_to_table(store.view("tables", next(iter(store.keys("tables")))))
    own = replace(table, rows=tuple(row for row in table.rows if row.detector == "energy"))
    digests = read_plan(next(iter(store.keys("plans"))), store).sets
    import_scores(own, "mine", "tiny", store, source="mine.parquet", digests=digests)
    refresher.refresh()
    lines = client_of(index).get("/api/leaderboard").json()
    found = {line["detector"]: line for line in lines}
    assert found["mine (imported)"]["mark"] == "imported" and not found["energy"]["mark"]
    assert found["mine (imported)"]["value"] == found["energy"]["value"]


def test_single_arrays_of_a_file_are_read(trained):
    import safetensors.numpy

    key = next(iter(trained.keys("models")))
    payload = trained.view("models", key)
    whole = safetensors.numpy.load(bytes(payload))
    found = read_arrays(payload, lambda name: name.startswith("curve/"))
    assert found and all(np.array_equal(found[name], whole[name]) for name in found)
    everything = read_arrays(payload, lambda name: True)
    assert everything.keys() == whole.keys()


@pytest.mark.parametrize("payload", [b"", b"\xff" * 20, b"\x02" + b"\0" * 7 + b"[1", b"1234567"])
def test_what_is_no_safetensors_is_damaged(payload):
    from oodometer.engine.stores import DamagedError

    with pytest.raises(DamagedError):
        read_arrays(memoryview(payload), lambda name: True)


def test_slugs_are_safe_and_different():
    labels = [*HOSTILE, "knn", "knn(k=3)", "KNN", "a/b", "a b", "", "page-2", "all", "-", "."]
    slugs = [slug_of(label) for label in labels]
    assert len(set(slugs)) == len(slugs)
    assert all(re.fullmatch(r"[a-z0-9_][a-z0-9_-]{0,60}", slug) for slug in slugs)


# ---- pages ---------------------------------------------------------------------------------


def test_every_link_leads_somewhere(client):
    waiting, seen = ["/"], set()
    while waiting:
        address = waiting.pop()
        if address in seen:
            continue
        seen.add(address)
        answer = client.get(address)
        assert answer.status_code == 200, (address, answer.text[:300])
        if not answer.headers["content-type"].startswith("text/html") or "report" in address:
            continue
        for target in Links(answer.text).found:
            parts = urlsplit(urljoin(HOST + address, target))
            if not target.startswith("data:"):
                assert f"{parts.scheme}://{parts.netloc}" == HOST
                waiting.append(parts.path + (f"?{parts.query}" if parts.query else ""))
    kinds = {address.split("/")[1] for address in seen}
    assert {"studies", "leaderboard", "detectors", "runs", "artefacts", "api"} <= kinds
    assert any(address.endswith("/report") for address in seen)


def test_a_study_page_has_conclusions_runs_and_origins(client, trained):
    page = client.get("/studies/results/tiny").text
    for part in ("Conclusions", "Leaderboard", "Runs", "Study file", "max_softmax", "seed=1"):
        assert part in page
    assert next(iter(trained.keys("tables")))[:12] in page


def test_a_run_page_has_curve_accuracy_and_histograms(client):
    page = client.get("/runs/results/tiny/" + slug_of("seed=0")).text
    assert "Learning curve" in page and "train loss" in page and "test accuracy" in page
    page = client.get(f"/runs/results/tiny/{slug_of('seed=0')}/energy").text
    assert "Score histograms" in page and "in-distribution" in page and "<svg" in page


def test_a_detector_page_has_card_paper_and_results(client):
    page = client.get("/detectors/" + slug_of("knn(k=3)")).text
    assert CARDS["knn"].paper in page and "<dd>features</dd>" in page and "Every result" in page


def test_a_number_leads_to_its_record_in_two_clicks(client):
    page = client.get("/detectors/energy").text
    address = next(link for link in Links(page).found if link.startswith("/artefacts/"))
    record = client.get(address).text
    digest = address.rpartition("/")[2]
    assert f"oodometer show {digest} --store" in record and "Parents" in record


def test_progress_moves(tmp_path):
    store = write_store(tmp_path / "store", scored=False)
    index = fresh_index([store.folder], tmp_path / "index")
    client = client_of(index)
    assert client.get("/api/studies").json()[0]["state"] == "not finished"
    plan = next(iter(store.keys("plans")))
    report = RunnerReport(this_owner(), "made", plan, time.time(), Progress(score=(5, 18)))
    write_report(report, store)
    time.sleep(1.1)  # answers may be that old
    (study,) = client.get("/api/studies").json()
    assert study["state"] == "running"
    assert study["stages"][2] == {"stage": "score", "done": 5, "wanted": 18}
    write_store(tmp_path / "store")
    Refresher(index).refresh()
    assert "5 of 18<" in client.get("/").text
    write_report(replace(report, progress=Progress(score=(6, 18))), store)
    time.sleep(2.1)
    assert "6 of 18<" in client.get("/").text  # though nothing in the index changed
    remove_report(report.owner, store)
    time.sleep(2.1)
    assert "running" not in client.get("/").text
    assert client.get("/api/leaderboard").json()[0]["runs"] == 3


def test_hostile_names_show_as_text(tmp_path):
    store = write_store(tmp_path / "<b>store", detectors=HOSTILE, sets=HOSTILE[:4], seeds=2)
    index = fresh_index([store.folder], tmp_path / "index")
    with client_of(index) as client:
        study = "/studies/" + index.places[0].slug + "/made"
        pages = ["/", "/leaderboard", "/detectors", study]
        pages += [f"/detectors/{slug_of(name)}" for name in HOSTILE]
        run = f"/runs/{index.places[0].slug}/made/{slug_of('seed=0')}"
        pages += [run, *(f"{run}/{slug_of(name)}" for name in HOSTILE)]
        for address in pages:
            answer = client.get(address)
            assert answer.status_code == 200, address
            assert "<script>alert" not in answer.text and "<img" not in answer.text
            assert "<b>" not in answer.text
        assert "&lt;script&gt;alert(1)" in client.get("/leaderboard").text
        assert len(client.get("/leaderboard").text) < 200_000
        assert "'=cmd()" in client.get("/api/results.csv").text
        names = {line["name"] for line in client.get("/api/detectors").json()}
        assert names == set(HOSTILE)


# ---- safety --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil:8642", "", "192.0.2.1"]
)
def test_other_hosts_are_refused(client, host):
    answer = client.get("/", headers={"host": host})
    assert answer.status_code == 421 and "Studies" not in answer.text


def test_addresses_are_accepted_where_others_may_read(index):
    with client_of(index, any_address=True) as client:
        assert client.get("/", headers={"host": "192.0.2.1:80"}).status_code == 200
        assert client.get("/", headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch", "options"])
def test_the_server_only_reads(client, method):
    assert getattr(client, method)("/api/studies").status_code == 405


def test_heads_are_answered(client):
    assert client.head("/").status_code == 200
    assert client.head("/api/studies").status_code == 200


def test_a_damaged_index_is_built_again(trained, tmp_path):
    index = fresh_index([trained.folder], tmp_path)
    index.path.write_bytes(b"not a database, and longer than its header" * 100)
    for ending in ("-wal", "-shm"):
        index.path.with_name(index.path.name + ending).unlink(missing_ok=True)
    again = fresh_index([trained.folder], tmp_path)
    assert again.path == index.path
    with again.reading() as connection:
        assert len(list(queries.results(connection, 1))) == 16


def test_an_index_that_cannot_be_kept_is_explained(trained, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="XDG_CACHE_HOME"):
        index_of([str(trained.folder)], tmp_path / "file" / "index")


def test_pages_forbid_inline_scripts(client):
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.findall(r"<script(?! src=)|\son\w+=|style=", answer.text)
    report = client.get("/studies/results/tiny/report")
    assert "sha256-" in re.search(r'Content-Security-Policy" content="([^"]*)', report.text)[1]


@pytest.mark.parametrize(
    "address",
    [
        "/static/../../../etc/passwd",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/artefacts/results/..%2f..%2fetc%2fpasswd",
        "/artefacts/results/" + "0" * 40,
        "/artefacts/results/../../oodometer-store.json",
        "/artefacts/../x/" + "0" * 40,
        "/studies/results/%2e%2e",
        "/studies/results",
        "/runs/results/tiny/nothing",
        "/detectors/nothing",
        "/leaderboard/nothing",
        "/leaderboard/auroc/nothing",
        "/detectors/page-99",
        "/detectors/page-0",
        "/studies/results/tiny/page-2",
        "/" + "x" * 1000,
        "/api/artefacts/results/%2e%2e",
        "/docs",
    ],
)
def test_what_is_not_there_is_one_sentence(client, address):
    answer = client.get(address)
    assert answer.status_code == 404
    assert "root:" not in answer.text and "Traceback" not in answer.text
    assert len(answer.text) < 5000


@pytest.mark.parametrize("query", ["limit=0", "limit=100000", "offset=-1", "metric=nothing"])
def test_limits_are_checked(client, query):
    answer = client.get(f"/api/leaderboard?{query}")
    name, _, value = query.partition("=")
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"Parameter '{name}': ")
    assert answer.json()["detail"].endswith(f"got '{value}'.")


def test_the_api_filters_and_is_described(client):
    assert len(client.get("/api/leaderboard").json()) == 4
    assert client.get("/api/leaderboard?study=other").json() == []
    (line,) = client.get("/api/leaderboard?family=features&limit=1&metric=fpr95").json()
    assert line["metric"] == "fpr95" and line["family"] == "features"
    lines = client.get("/api/results?detector=energy").json()
    assert len(lines) == 4 and {line["detector"] for line in lines} == {"energy"}
    assert len(client.get("/api/results?limit=3&offset=14").json()) == 2
    assert len(client.get("/api/results.csv").text.splitlines()) == 17
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/api/studies", "/api/leaderboard", "/api/artefacts/{store}/{digest}"} <= set(paths)


def test_ports_and_hosts_are_explained():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UserError, match=r"Port \d+ on 127.0.0.1 is already in use"):
            listen("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(UserError, match="not an address"):
        listen("no such host.invalid", 0)
    assert is_local("127.0.0.1") and is_local("::1") and is_local("localhost")
    assert not is_local("0.0.0.0") and not is_local("example.org")


def test_serve_explains_what_is_missing(tmp_path, trained, monkeypatch):
    run = CliRunner().invoke(cli, ["serve", str(tmp_path / "none")])
    assert isinstance(run.exception, UserError) and "does not exist" in str(run.exception)
    monkeypatch.setattr("oodometer.cli.serve.find_spec", lambda name: None)
    run = CliRunner().invoke(cli, ["serve", str(trained.folder)])
    assert "pip install 'oodometer[web]'" in str(run.exception)


def test_an_index_that_is_gone_is_a_sentence_and_built_again(trained, tmp_path):
    index = fresh_index([trained.folder], tmp_path / "index")
    with client_of(index) as client:
        before = client.get("/api/results").json()
        with index.reading() as connection:
            generation = queries.generation(connection)
        shutil.rmtree(tmp_path / "index")
        for route in ("/", "/leaderboard", "/api/results"):
            answer = client.get(route)
            assert answer.status_code == 503 and "being built again" in answer.text
        index = fresh_index([trained.folder], tmp_path / "index")
        assert len(before) == 16 and client.get("/api/results").json() == before
        with index.reading() as connection:
            assert queries.generation(connection) > generation  # no page made before is taken


def test_serve_builds_a_removed_index_again_and_ends_with_its_helper(trained, tmp_path):
    command = [sys.executable, "-m", "oodometer", "serve", str(trained.folder), "--port", "0"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with (tmp_path / "said").open("w+") as said:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, text=True, env=environment
        ) as server:
            try:
                address = re.search(r"http://\S+/", server.stdout.readline())[0]
                for _ in range(2):
                    until(lambda: read_results(address) == 16)
                    (made,) = tmp_path.glob("cache/**/*.sqlite")
                    shutil.rmtree(tmp_path / "cache")
                    until(made.exists)
                helpers = workers_of(server.pid)
            finally:
                server.terminate()
        assert helpers and all(is_gone(helper) for helper in helpers)
        said.seek(0)
        assert said.read() == ""


def read_results(address: str) -> int:
    try:
        with urlopen(f"{address}api/results") as answer:
            return len(json.load(answer))
    except URLError:  # 503: it is being built
        return -1


def test_a_cache_keeps_the_latest_and_no_more():
    made: list[int] = []
    cache: Cache[int] = Cache(2, patience=0.0)

    def make(value: int):
        return lambda: made.append(value) or value

    assert cache.get("a", 1, make(1)) == 1 and cache.get("a", 1, make(2)) == 1
    assert cache.get("a", 2, make(3)) == 3
    cache.get("b", 1, make(4))
    cache.get("c", 1, make(5))
    assert cache.get("a", 2, make(6)) == 6 and made == [1, 3, 4, 5, 6]
    with pytest.raises(ZeroDivisionError):
        cache.get("z", 1, lambda: 1 // 0)
    assert cache.get("a", 2, make(6)) == 6 and len(made) == 5  # what failed took no place
    patient: Cache[int] = Cache(2, patience=60.0)
    assert patient.get("a", 1, make(7)) == 7 and patient.get("a", 2, make(8)) == 7


def test_files_of_pages_are_shipped():
    place = Path(queries.__file__).parent
    assert (place / "static" / "site.css").is_file() and (place / "static" / "site.js").is_file()


# ---- pages as files ------------------------------------------------------------------------


def test_a_static_site_is_complete_and_relative(trained, tmp_path, monkeypatch):
    from oodometer.web import export

    monkeypatch.setattr(export, "read_cards", lambda: CARDS)
    site = tmp_path / "site"
    pages = export.export([str(trained.folder)], site, index_folder=tmp_path / "index")
    files = sorted(site.rglob("*.html"))
    assert len(files) == pages > 20
    for file in files:
        text = file.read_text(encoding="utf-8")
        # A site may be for everybody: no folder of this machine is in it, but the file's name is.
        assert str(trained.folder.parent.parent) not in text
        if file.name in ("report.html", "tiny.html"):
            assert "data: stripes.npz" in text
        if file.name == "report.html":
            continue
        assert "Content-Security-Policy" in text
        for target in Links(text).found:
            if not target.startswith(("data:", "#")):
                assert not target.startswith("/"), target
                assert (file.parent / target.partition("#")[0]).resolve().is_file(), target
    assert len((site / "static" / "results.csv").read_text().splitlines()) == 17
    export.export([str(trained.folder)], site, index_folder=tmp_path / "index")  # again
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        export.export([str(trained.folder)], tmp_path / "other", index_folder=tmp_path / "index")


def test_pages_for_other_machines_show_no_folder(index, trained):
    site = Site(index.for_others(), lambda: CARDS, for_others=True)
    model = next(iter(trained.keys("models")))
    folder = str(trained.folder.parent.parent)
    for route in ("studies/results/tiny", f"artefacts/results/{model}"):
        assert folder in Site(index, lambda: CARDS).page(route)
        assert folder not in site.page(route) and "stripes.npz" in site.page(route)


def test_export_needs_a_store_and_a_folder(tmp_path):
    run = CliRunner().invoke(cli, ["export", str(tmp_path)])
    assert isinstance(run.exception, UserError) and "SITE" in str(run.exception)


def test_an_index_that_cannot_be_kept_is_told_on_the_terminal_and_on_pages(tmp_path, monkeypatch):
    from oodometer.web import server

    looks = iter([UserError("The disk is full.")] * 4 + [None, None])
    monkeypatch.setattr(server, "index_of", lambda *_: None)
    monkeypatch.setattr("oodometer.web.refresh.Refresher", lambda *_: None)
    monkeypatch.setattr(server.os, "getppid", lambda: 1 if looks.__length_hint__() else 2)
    monkeypatch.setattr(server.os, "nice", lambda by: by)
    monkeypatch.setattr(server, "_PAUSE", 0.0)

    def look(_: object) -> float:
        if (problem := next(looks)) is not None:
            raise problem
        return 0.0

    monkeypatch.setattr(server, "_look", look)
    received, sent = multiprocessing.Pipe(duplex=False)
    server.keep_fresh([], tmp_path, None, 1, sent)
    warned: list[str] = []
    trouble = server._Trouble(warned.append)
    index = index_of([str(write_store(tmp_path / "store").folder)], tmp_path / "index")
    site = Site(index, lambda: CARDS, trouble=trouble.said)
    assert "not up to date" not in site.page("submissions")
    trouble.learn(received.recv())
    assert warned[0].endswith("pages show what was read before. The disk is full.")
    shown = site.page("detectors")  # another page: one that was just made is kept for a second
    assert "not up to date" in shown and "disk" not in shown
    trouble.learn(received.recv())
    assert not received.poll() and "again" in warned[1]
    assert "not up to date" not in site.page("submissions")
