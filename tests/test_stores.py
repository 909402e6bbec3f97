"""One contract for every store; and what can go wrong with a disk, a folder, a server."""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oodometer.engine.stores import (
    KINDS,
    DamagedError,
    FolderStore,
    MemoryStore,
    ObjectStore,
    Store,
    StoreError,
    open_store,
    this_owner,
)
from oodometer.engine.stores import claims as claiming
from oodometer.engine.stores import folder as folders
from oodometer.errors import UserError


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start an object-store server on loopback; give its address."""
    # It takes a free port and tells which: nobody else can take it in between.
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as file:  # a pipe that nobody reads would fill, and stop the server
        process = subprocess.Popen(command, stdout=file, stderr=file)
    deadline = time.monotonic() + 900
    try:
        while (told := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"no moto server: {log.read_text()[-500:]}")
            time.sleep(0.05)
        yield told[0]
    finally:
        process.kill()
        process.wait()


def use_server(monkeypatch, server: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@pytest.fixture
def bucket(server, monkeypatch):
    """An empty place in a bucket, as an address."""
    import s3fs

    use_server(monkeypatch, server)
    s3fs.S3FileSystem(use_listings_cache=False).mkdirs("bucket", exist_ok=True)
    return f"s3://bucket/some/{time.time_ns()}"


@pytest.fixture(params=["memory", "folder", "fsspec", "s3"])
def store(request, tmp_path) -> Store:
    match request.param:
        case "memory":
            return MemoryStore()
        case "folder":
            return open_store(tmp_path / "store")
        case "fsspec":
            return open_store(f"memory://{tmp_path.name}-{time.time_ns()}")
        case _:
            return open_store(request.getfixturevalue("bucket"))


# ---- the contract ------------------------------------------------------------------------------


def test_it_gives_back_what_was_saved(store):
    assert not store.exists()
    assert not store.has("scores", "ab12") and list(store.keys("scores")) == []
    store.save("scores", "ab12", b"content", {"parents": ["x"], "pair": (1, 2), "by": {3: 4}})
    assert store.exists()
    assert store.has("scores", "ab12") and store.load("scores", "ab12") == b"content"
    assert not store.has("models", "ab12"), "kinds are apart"
    payload, record = store.read("scores", "ab12")
    assert payload == b"content" == bytes(store.view("scores", "ab12"))
    assert record["made_from"] == {"parents": ["x"], "pair": [1, 2], "by": {"3": 4}}
    assert record["sha256"] == hashlib.sha256(b"content").hexdigest()
    assert record.keys() >= {"kind", "key", "bytes", "saved", "made_by"}
    assert record["made_by"].keys() == {
        "oodometer", "torch", "numpy", "scipy", "scikit-learn", "python", "machine",
    }  # fmt: skip
    assert abs(store.saved_at("scores", "ab12") - time.time()) < 100
    store.discard("scores", "ab12")
    store.discard("scores", "ab12")
    assert not store.has("scores", "ab12") and list(store.keys("scores")) == []
    with pytest.raises(DamagedError):
        store.load("scores", "ab12")


@pytest.mark.parametrize("payload", [b"", b"\0", bytes(range(256)) * 20_000], ids=len)
def test_payloads_of_any_size_come_back(store, payload):
    store.save("outputs", "00ff", payload, {})
    assert store.load("outputs", "00ff") == payload


def test_saved_again_it_is_the_latest(store):
    store.save("progress", "ab12", b"one", {"epoch": 1})
    store.save("progress", "ab12", b"two", {"epoch": 2})
    assert store.load("progress", "ab12") == b"two"
    assert store.record("progress", "ab12")["made_from"] == {"epoch": 2}


def test_many_are_listed_in_order_and_asked_for_at_once(store):
    keys = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(40)]
    for key in keys:
        store.save("outputs", key, b"12", {})
    assert list(store.keys("outputs")) == sorted(keys)
    assert store.present("outputs", [*keys, "ffff"]) == set(keys)
    assert store.present("outputs", [keys[0], "ffff"]) == {keys[0]}
    assert store.present("scores", keys) == set()
    sizes, others = store.sizes("outputs")
    assert sizes.keys() == set(keys) and not others
    assert set(sizes.values()) == {2}


def flip(store: Store, path: str, place: int) -> None:
    content = bytearray(bytes(store.read_file(path)))
    content[place] ^= 1
    store.write_file(path, bytes(content))


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_noticed_in_every_kind(store, kind):
    for key in ("ab12", "ab13"):
        store.save(kind, key, b"content", {"missing": [["k=1", "too few"]], "seed": 0})
    flip(store, f"{kind}/ab/ab12", 3)
    with pytest.raises(DamagedError, match=f"{kind}/ab12 does not match its checksum"):
        store.load(kind, "ab12")
    assert store.load(kind, "ab13") == b"content"


def test_a_flipped_bit_anywhere_in_a_record_is_noticed():
    store = MemoryStore()
    store.save("scores", "ab12", b"content", {"missing": [["k=1", "too few"]], "seed": 0})
    path = "scores/ab/ab12.json"
    size = len(store.read_file(path))
    for place in range(size):
        flip(store, path, place)
        try:
            changed = store.record("scores", "ab12")
        except DamagedError:
            pass
        else:
            flip(store, path, place)
            assert changed == store.record("scores", "ab12"), "only blanks may change"
            continue
        flip(store, path, place)
    assert store.load("scores", "ab12") == b"content"


@pytest.mark.parametrize(
    "damage",
    [
        lambda store: store.write_file("scores/ab/ab12", b"conten"),
        lambda store: store.write_file("scores/ab/ab12", b""),
        lambda store: store.remove_file("scores/ab/ab12"),
        lambda store: store.write_file("scores/ab/ab12.json", b""),
        lambda store: store.write_file("scores/ab/ab12.json", b"{"),
        lambda store: store.write_file("scores/ab/ab12.json", b"[]"),
        lambda store: store.write_file("scores/ab/ab12.json", b"\xff\xfe"),
        lambda store: store.write_file("scores/ab/ab12.json", b'{"made_from": {}}'),
        lambda store: store.write_file(
            "scores/ab/ab12.json", bytes(store.read_file("scores/ab/ab13.json"))
        ),
    ],
)
def test_damage_is_noticed(store, damage):
    store.save("scores", "ab12", b"content", {})
    store.save("scores", "ab13", b"content", {})
    damage(store)
    with pytest.raises(DamagedError, match="ab12"):
        store.load("scores", "ab12")


def test_what_lacks_its_record_does_not_count_and_strays_are_told_apart(store):
    store.save("scores", "ab12", b"content", {})
    store.remove_file("scores/ab/ab12.json")
    assert not store.has("scores", "ab12") and list(store.keys("scores")) == []
    store.save("scores", "cd34", b"content", {})
    strays = [".DS_Store", "ab/notes.txt", "cd/cd34.json.bak", "cd/ab12.json", "README.json"]
    for stray in strays:
        store.write_file(f"scores/{stray}", b"stray")
    assert list(store.keys("scores")) == ["cd34"]
    sizes, others = store.sizes("scores")
    assert sizes.keys() == {"cd34"} and others.keys() == {"ab/ab12", *strays}


def test_two_writers_of_one_key_leave_one_whole_artefact(store):
    payloads = [bytes([number]) * 1000 for number in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda payload: store.save("models", "ab12", payload, {}), payloads))
    try:
        assert store.load("models", "ab12") in payloads
    except DamagedError:  # payload of one, record of another: noticed, and made again
        store.save("models", "ab12", payloads[0], {})
    assert store.load("models", "ab12")


def test_it_can_be_written(store):
    store.require_writable()
    assert store.exists() and not store.list_files("unfinished")


def test_a_store_of_the_future_is_refused(store, tmp_path):
    if isinstance(store, MemoryStore):
        store.write_file("oodometer-store.json", b'{"format": 99}')
        with pytest.raises(UserError, match="has format 99, but this version"):
            store.check_format()
        return
    for content, sentence in (
        (b'{"format": 99}', "has format 99, but this version of Oodometer reads format"),
        (b"[]", "has format None"),
        (b"{", "oodometer-store.json in it is not JSON"),
        (b"[" * 100_000, "oodometer-store.json in it is not JSON"),
    ):
        store.write_file("oodometer-store.json", content)
        with pytest.raises(UserError, match=sentence):
            open_store(store.address)


@pytest.mark.parametrize("place", ["folder", "s3"])
def test_another_process_opens_it_by_its_address(place, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    store = open_store("here" if place == "folder" else request.getfixturevalue("bucket"))
    store.save("scores", "ab12", b"content", {})
    monkeypatch.chdir("/")
    code = (
        "import sys\nfrom oodometer.engine.stores import open_store\n"
        f"store = open_store({store.address!r})\n"
        "store.save('scores', 'beef', b'from there', {})\n"
        "sys.stdout.write(store.load('scores', 'ab12').decode())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "content", run.stderr
    assert store.load("scores", "beef") == b"from there"
    assert list(store.keys("scores")) == ["ab12", "beef"], "no listing is remembered"


# ---- claims ------------------------------------------------------------------------------------


def test_a_claim_is_held_by_one_until_it_is_released(store):
    assert store.claims() == []
    assert store.claim("train-1", "me", 60)
    assert not store.claim("train-1", "you", 60)
    assert store.claim("train-2", "you", 60)
    assert store.claim("train-1", "me", 60), "one's own"
    assert store.renew("train-1", "me", 60) and not store.renew("train-1", "you", 60)
    assert [(claim.name, claim.owner, claim.seconds) for claim in store.claims()] == [
        ("train-1", "me", 60),
        ("train-2", "you", 60),
    ]
    store.release("train-1", "you")
    assert not store.claim("train-1", "you", 60)
    store.release("train-1", "me")
    store.release("train-1", "me")
    assert store.claim("train-1", "you", 60)


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1e9  # set back by years: nothing may depend on it


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(claiming, "time", clock)
    return clock


def test_a_claim_that_is_not_renewed_is_taken_over(store, clock):
    assert store.claim("train-1", "me", 10)
    assert not store.claim("train-1", "you", 10)
    clock.now += 9
    assert store.renew("train-1", "me", 10)
    clock.now += 9
    assert not store.claim("train-1", "you", 10), "it was renewed in between"
    clock.now += 10
    assert store.claim("train-1", "you", 10)
    assert not store.claim("train-1", "me", 10)
    assert not store.renew("train-1", "me", 10), "who was thought dead is told so"
    store.release("train-1", "me")
    assert [claim.owner for claim in store.claims()] == ["you"]
    clock.now += 10
    assert store.claim("train-1", "me", 10)
    store.release("train-1", "me")
    assert not store.list_files("claims"), "earlier turns go with the last"


def test_a_claim_of_a_process_that_is_gone_is_taken_over_at_once(store):
    code = "from oodometer.engine.stores import this_owner; print(this_owner())"
    gone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert store.claim("train-1", gone.stdout.strip(), 1000)
    assert store.claim("train-2", gone.stdout.strip(), 1000)
    assert store.claim("train-3", "somebody elsewhere", 1000)
    assert [claim.stale for claim in store.claims()] == [True, True, False]
    mine = this_owner()
    assert store.claim("train-1", mine, 1000)
    assert not store.claims()[0].stale and not store.claim("train-1", this_owner(), 1000)
    store.sweep_claims()
    assert [claim.name for claim in store.claims()] == ["train-1", "train-3"]
    host, process, started, nonce = mine.split(":")
    assert claiming.owner_is_gone(f"{host}:{process}:{int(started) - 1}:{nonce}"), "number reused"
    assert not claiming.owner_is_gone(f"elsewhere.{host}:{process}:1:{nonce}")


def test_who_cannot_be_seen_is_not_taken_for_gone(monkeypatch):
    host, _, started, nonce = this_owner().split(":")
    nobody, no_number = (f"{host}:{number}:{started}:{nonce}" for number in (2**22 + 1, 10**30))
    assert claiming.owner_is_gone(nobody) and claiming.owner_is_gone(no_number)
    assert not claiming.owner_is_gone(this_owner())

    def refuse(process: int, number: int) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:  # somebody else's, whom /proc hides
        patch.setattr(claiming.os, "kill", refuse)
        assert not claiming.owner_is_gone(nobody)
    with monkeypatch.context() as patch:  # a /proc that numbers processes otherwise
        patch.setattr(claiming.os, "readlink", lambda path: "1")
        assert not claiming.owner_is_gone(nobody)
        assert this_owner().split(":")[2] == "0"
    assert not claiming.owner_is_gone(f"{host}:{os.getpid()}:0:{nonce}")


def test_a_claim_that_cannot_be_read_blocks_nobody_for_ever(store, clock):
    store.write_file("claims/train-1.3", b"{")
    store.write_file("claims/stray file", b"")
    assert not store.claim("train-1", "me", 10)
    clock.now += 5
    assert store.claim("train-1", "me", 10)
    assert [claim.owner for claim in store.claims()] == ["me"]


def test_a_claim_that_was_swept_away_is_taken_again(store):
    assert store.claim("train-1", "me", 10)
    store.remove_file("claims/train-1.1")
    assert store.renew("train-1", "me", 10)
    assert not store.claim("train-1", "you", 10)


@pytest.mark.parametrize("stale", [False, True])
def test_of_many_who_claim_at_a_time_one_gets_it(store, clock, stale):
    others = [store]
    if not isinstance(store, MemoryStore):
        others = [open_store(store.address) for _ in range(6)]
    for round in range(3):
        name = f"train-{round}"
        if stale:
            assert store.claim(name, "dead", 10)
            assert not any(other.claim(name, "x", 10) for other in others)
            clock.now += 11
        gate = threading.Barrier(6)

        def take(number: int, name: str = name, gate: threading.Barrier = gate) -> bool:
            gate.wait()
            return others[number % len(others)].claim(name, f"owner-{number}", 10)

        with ThreadPoolExecutor(6) as threads:
            taken = [number for number, got in enumerate(threads.map(take, range(6))) if got]
        if isinstance(store, ObjectStore):
            # These stand-ins for object stores look first and write then: two may get through.
            taken = [number for number in taken if store.renew(name, f"owner-{number}", 10)]
        assert len(taken) == 1


# ---- folders -----------------------------------------------------------------------------------


def test_a_store_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file, not a folder"):
        FolderStore(tmp_path / "file")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "scores").write_text("in the way")
    store = FolderStore(tmp_path / "store")
    with pytest.raises(StoreError, match="scores' is not a folder, .*; remove it"):
        store.save("scores", "ab12", b"content", {})
    assert not list((tmp_path / "store" / "unfinished").glob("*"))
    assert list(store.keys("scores")) == [] and not store.has("scores", "ab12")
    below = FolderStore(tmp_path / "file" / "below")
    with pytest.raises(StoreError, match="file' is not a folder, .*; choose another folder with"):
        below.require_writable()


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_folder_that_is_read_only_says_so(tmp_path, monkeypatch, code):
    store = FolderStore(tmp_path / "store")
    store.save("scores", "ab12", b"content", {})

    def refuse(*args: object, **options: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    for action in (
        store.require_writable,
        lambda: store.save("scores", "cd34", b"content", {}),
        lambda: store.claim("train-1", "me", 1),
    ):
        with pytest.raises(StoreError, match=f"cannot be written: {os.strerror(code)}"):
            action()
    assert store.load("scores", "ab12") == b"content", "it can still be read"


def fill(folder: str, limit: int) -> str:
    """Save until no more fits; return what was said, and check what is left."""
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    store = FolderStore(folder)
    said = ""
    for number in range(200):
        try:
            store.save("models", f"{number:04x}", os.urandom(20_000 + 1000 * number), {})
        except StoreError as problem:
            said = str(problem)
            break
    whole = list(store.keys("models"))
    assert len(whole) == number, "what did not fit does not count"
    for key in whole:
        assert store.load("models", key)
    assert store.sizes("models")[1] == {}, "no half is left"
    assert not list(Path(folder, "unfinished").glob("*"))
    store.discard("models", whole[0])
    store.discard("models", whole[1])
    store.save("models", "abcd", b"small", {})
    return said


def test_files_that_may_not_grow_are_told(tmp_path):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        said = pool.apply(fill, (str(tmp_path / "store"), 40_000))
    assert "is full (File too large): free some space" in said
    assert said.count(".") == said.count("store'") == 1 or said.endswith("--store.")


def test_a_full_disk_is_told(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk; a limit on files stands in for it")
    try:
        said = fill(str(tmp_path / "store"), 0)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert "is full (No space left on device): free some space" in said


def test_large_payloads_are_mapped_and_outlive_their_file(tmp_path):
    store = FolderStore(tmp_path)
    content = os.urandom(2**21)
    store.save("tables", "ab12", content, {})
    view = store.view("tables", "ab12")
    assert not isinstance(view.obj, bytes)
    store.discard("tables", "ab12")
    assert bytes(view) == content


def test_a_moved_store_is_the_same_store(tmp_path):
    store = FolderStore(tmp_path / "one")
    store.save("scores", "ab12", b"content", {})
    (tmp_path / "one").rename(tmp_path / "two")
    assert open_store(f"file://{tmp_path}/two").load("scores", "ab12") == b"content"


# ---- addresses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("", "The address of a store is empty"),
        ("s3://", "has no bucket or path: write s3://bucket/name"),
        ("file://machine/path", "names a host: a local folder is file:///path"),
        ("memoy://x", "Unknown protocol of a store 'memoy'. Did you mean 'memory'"),
        ("adl://x/y", r"needs a library for adl://.*: pip install 'oodometer\[object-store\]'"),
    ],
)
def test_a_bad_address_is_told_in_one_sentence(address, sentence):
    with pytest.raises(UserError, match=sentence):
        open_store(address)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UserError, match=r"pip install 'oodometer\[object-store\]'\.$"):
        ObjectStore("s3://bucket/name")


def test_a_bucket_that_is_not_there_is_told(server, monkeypatch):
    use_server(monkeypatch, server)
    store = open_store("s3://no-such-bucket/name")
    assert not store.exists() and list(store.keys("scores")) == []
    for action in (
        store.require_writable,
        lambda: store.save("scores", "ab12", b"content", {}),
        lambda: store.claim("train-1", "me", 60),
    ):
        with pytest.raises(StoreError, match="Store 's3://no-such-bucket/name' cannot be written"):
            action()


def test_a_server_that_is_not_there_is_told(monkeypatch):
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    use_server(monkeypatch, "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(StoreError, match="Store 's3://bucket/name' cannot be read: .*127.0.0.1:9"):
        open_store("s3://bucket/name")
    s3fs.S3FileSystem.clear_instance_cache()


def test_nothing_is_imported_before_it_is_needed():
    code = "import oodometer.engine.stores, sys; print('fsspec' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_the_mark_is_json(tmp_path):
    store = FolderStore(tmp_path)
    store.require_writable()
    assert json.loads((tmp_path / "oodometer-store.json").read_text()).keys() == {"format"}


def test_containers_with_equal_process_numbers_leave_each_other_alone(tmp_path, monkeypatch):
    """They share a store: what one sweeps up must be of its own process, not of its namesake."""
    store = FolderStore(tmp_path / "store")
    store.require_writable()
    with store._written("scores/x", b"half") as begun:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(folders, "this_machine", lambda: "another container")
            FolderStore(tmp_path / "store").sweep(os.getpid())
        assert begun.exists()
        FolderStore(tmp_path / "store").sweep(os.getpid())
        assert not begun.exists()


def test_a_pipe_or_a_folder_in_the_place_of_a_payload_is_replaced(tmp_path):
    store = FolderStore(tmp_path / "store")
    store.save("scores", "ab12", b"content", {})
    payload = tmp_path / "store" / "scores" / "ab" / "ab12"
    for put in (os.mkfifo, os.mkdir):
        payload.unlink()
        put(payload)
        with pytest.raises(DamagedError):
            store.load("scores", "ab12")
        store.save("scores", "ab12", b"content", {})
        assert store.load("scores", "ab12") == b"content"
    payload.unlink()
    (payload / "below").mkdir(parents=True)
    store.discard("scores", "ab12")  # as `verify` does with what is damaged
    assert not payload.exists() and list(store.keys("scores")) == []


@pytest.mark.parametrize("place", ["scores/ab", "scores", "unfinished"])
def test_what_stands_in_the_place_of_a_folder_is_named(tmp_path, place):
    store = FolderStore(tmp_path / "store")
    store.save("plans", "cd34", b"content", {})
    inside = tmp_path / "store" / place
    shutil.rmtree(inside, ignore_errors=True)
    inside.parent.mkdir(exist_ok=True)
    inside.write_text("a file")
    with pytest.raises(StoreError, match=f"'{inside}' is not a folder, .* remove it"):
        store.save("scores", "ab12", b"content", {})
    assert inside.read_text() == "a file"


def test_a_store_that_was_moved_away_is_not_begun_anew(tmp_path):
    store = FolderStore(tmp_path / "store")
    store.save("scores", "ab12", b"content", {})
    (tmp_path / "store").rename(tmp_path / "moved")
    with pytest.raises(StoreError, match="is gone: it was moved or removed while it was in use"):
        store.save("scores", "cd34", b"content", {})
    with pytest.raises(StoreError, match="is gone"):
        FolderStore(tmp_path / "store").require_present()
    assert not (tmp_path / "store").exists()
