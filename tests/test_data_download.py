"""Downloads, from a server on this machine that does everything that servers do."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import socket
import tarfile
import threading
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oodometer.cli import app, main
from oodometer.errors import UserError
from oodometer.lab.data import cards, download
from oodometer.lab.data.cards import Card, Remote
from oodometer.lab.data.download import get, unpack

CONTENT = bytes(range(256)) * 4096  # 1 MiB


class Server:
    """Files by path; what the server does wrong is set by the test."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {"/file.bin": CONTENT}
        self.cut_after: list[int] = []  # bytes after which the next answers break off
        self.ranges = True
        self.tells_length = True
        self.pause = 0.0  # seconds after each byte
        self.redirect: dict[str, str] = {}
        self.asked: list[tuple[str, str | None]] = []

    def url(self, path: str = "/file.bin") -> str:
        return self.address + path


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.asked.append((self.path, asked))
            if self.path in state.redirect:
                self.send_response(302)
                self.send_header("Location", state.redirect[self.path])
                self.end_headers()
                return
            if self.path not in state.files:
                self.send_error(404)
                return
            whole = state.files[self.path]
            start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and state.ranges else 0
            if start >= len(whole) and start:
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
            if state.tells_length:
                self.send_header("Content-Length", str(len(whole) - start))
            self.end_headers()
            cut = state.cut_after.pop(0) if state.cut_after else len(whole)
            if not state.pause:
                self.wfile.write(whole[start : start + cut])
                return
            with contextlib.suppress(ConnectionError):
                for place in range(len(whole)):
                    self.wfile.write(whole[place : place + 1])
                    time.sleep(state.pause)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        state = Server(f"http://127.0.0.1:{running.server_address[1]}")
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        running.shutdown()
        thread.join()


@pytest.fixture
def offer(monkeypatch, tmp_path):
    """Put a card for a set called "toy" into the catalogue; its data folder is a new one."""
    monkeypatch.setenv("OODOMETER_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(download, "PAUSE", 0.0)

    def make(*files: Remote, **facts: str) -> Path:
        card = Card("toy", "images", "A toy.", files=files, **facts)
        monkeypatch.setitem(cards.CARDS, "toy", card)
        return tmp_path / "data" / "toy"

    return make


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def left(folder: Path) -> list[str]:
    """What lies in the data folder, hidden files too."""
    top = folder.parent
    return sorted(str(path.relative_to(top)) for path in top.rglob("*")) if top.exists() else []


def test_files_are_downloaded_and_checked(server, offer):
    sums = {"sha256": hashlib.sha256(CONTENT).hexdigest(), "md5": md5(CONTENT)}
    folder = offer(Remote((server.url(),), **sums))
    steps: list[tuple[str, int, int | None]] = []
    assert get("toy", progress=lambda *step: steps.append(step)) == folder
    assert (folder / "file.bin").read_bytes() == CONTENT
    assert left(folder) == ["toy", "toy/file.bin"]
    assert steps[-1] == ("file.bin", len(CONTENT), len(CONTENT)) and len(steps) > 2
    with pytest.raises(UserError, match="is not empty"):
        get("toy")
    with pytest.raises(UserError, match="file.bin' is a file; give a folder"):
        get("toy", folder / "file.bin")


def test_two_sets_of_labels_share_one_folder(server, offer):
    folder = offer(Remote((server.url(),)), beside="toys")
    assert get("toy") == folder.with_name("toys")


def test_a_cut_connection_is_resumed(server, offer):
    folder = offer(Remote((server.url(),), md5=md5(CONTENT)))
    server.cut_after = [300_000, 200_000]
    get("toy")
    assert (folder / "file.bin").read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [None, "bytes=300000-", "bytes=500000-"]


def test_the_next_command_goes_on_where_this_ended(server, offer):
    folder = offer(Remote((server.url(),), md5=md5(CONTENT)))
    server.cut_after = [100_000] * download.ATTEMPTS
    with pytest.raises(
        UserError, match="broke off after 500,000 of 1,048,576 bytes; the partial file is kept"
    ):
        get("toy")
    assert left(folder) == [".toy.part", ".toy.part/file.bin"]
    get("toy")
    assert (folder / "file.bin").read_bytes() == CONTENT
    assert server.asked[-1] == ("/file.bin", "bytes=500000-")


def test_a_server_without_ranges_sends_all_again(server, offer):
    folder = offer(Remote((server.url(),), md5=md5(CONTENT)))
    server.cut_after, server.ranges = [300_000], False
    get("toy")
    assert (folder / "file.bin").read_bytes() == CONTENT


def test_what_came_is_dropped_if_the_server_has_less_now(server, offer):
    folder = offer(Remote((server.url(),), md5=md5(CONTENT[:1000])))
    part = folder.parent / ".toy.part" / "file.bin"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 2000)
    server.files["/file.bin"] = CONTENT[:1000]
    get("toy")
    assert (folder / "file.bin").read_bytes() == CONTENT[:1000]


def test_without_a_checksum_nothing_old_is_continued(server, offer):
    folder = offer(Remote((server.url(),)))
    part = folder.parent / ".toy.part" / "file.bin"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 2000)
    get("toy")
    assert (folder / "file.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_a_wrong_checksum_leaves_nothing(server, offer, kind):
    wrong = "0" * (32 if kind == "md5" else 64)
    folder = offer(
        Remote((server.url(),), md5=md5(CONTENT)), Remote((server.url("/2.bin"),), **{kind: wrong})
    )
    server.files["/2.bin"] = b"another"
    with pytest.raises(
        UserError, match=f"did not return the official file: its {kind} is .*, not 000"
    ):
        get("toy")
    assert left(folder) == []


def test_addresses_that_do_not_answer(server, offer, monkeypatch):
    folder = offer(Remote((server.url("/gone"),), md5="0" * 32))
    with pytest.raises(UserError, match=f"{server.url('/gone')} answers 404 Not Found"):
        get("toy")
    assert left(folder) == []
    offer(Remote(("http://127.0.0.1:1/x",)))
    with pytest.raises(UserError, match=r"127.0.0.1:1/x cannot be reached: .*refused"):
        get("toy")
    offer(Remote(("file:///etc/passwd",)))
    with pytest.raises(UserError, match="is not an http address"):
        get("toy")
    folder = offer(Remote((server.url("/gone"), server.url()), md5=md5(CONTENT)))
    get("toy")
    assert (folder / "gone").read_bytes() == CONTENT, "the second address stands in"


def test_a_silent_server_is_given_up(offer, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "SECONDS", 0.05)
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        offer(Remote((f"http://127.0.0.1:{silent.getsockname()[1]}/x",)))
        with pytest.raises(UserError, match="sent nothing for 0.05 s"):
            get("toy")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_redirects_leave_the_web_only_in_vain(server, offer, target):
    folder = offer(Remote((server.url("/moved"),)))
    server.redirect["/moved"] = target
    with pytest.raises(UserError, match=f"redirects to {target}, which is not followed"):
        get("toy")
    assert left(folder) == []
    server.redirect["/moved"] = server.url()
    get("toy")
    assert (folder / "moved").read_bytes() == CONTENT


def test_a_redirect_out_of_encryption_is_not_followed():
    asked = urllib.request.Request("https://example.org/a")
    follow = download._OnlyWeb().redirect_request
    with pytest.raises(download._FailedError, match="redirects to http://example.org/b, which is"):
        follow(asked, io.BytesIO(), 302, "", {}, "http://example.org/b")
    assert follow(asked, io.BytesIO(), 302, "", {}, "https://example.org/b") is not None


def test_plain_addresses_are_tried_over_tls_first():
    plain, local = "http://example.org/a", "http://127.0.0.1:80/a"
    tried = list(download._secure_first([plain, "https://example.org/b", local]))
    assert tried == ["https://example.org/a", plain, "https://example.org/b", local]


@pytest.mark.parametrize("told", [True, False], ids=["announced", "endless"])
def test_a_file_that_is_too_large_is_refused(server, offer, monkeypatch, told):
    monkeypatch.setattr(download, "LARGEST", 1000)
    server.tells_length = told
    folder = offer(Remote((server.url(),)))
    with pytest.raises(UserError, match="more than the largest allowed, 1,000"):
        get("toy")
    assert left(folder) == []


def test_a_server_that_sends_a_byte_now_and_then_is_given_up(server, offer, monkeypatch):
    monkeypatch.setattr(download, "PATIENCE", 0.5)
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    server.pause = 0.02
    offer(Remote((server.url(),)))
    with pytest.raises(UserError, match=r"sent \d+ bytes in 0.5 s"):
        get("toy")


@contextlib.contextmanager
def answering(first: bytes, further: bytes, pause: float) -> Iterator[str]:
    """The address of a server that sends something, then something else for ever."""
    stopped = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while not stopped.is_set():
                asked, _ = listening.accept()
                with asked, contextlib.suppress(OSError):
                    asked.recv(1000)
                    asked.sendall(first)
                    while not stopped.wait(pause):
                        asked.sendall(further)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/x"
        stopped.set()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    ("first", "further"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["status", "header", "continue"],
)
def test_an_answer_that_never_begins_is_given_up(offer, monkeypatch, first, further):
    """Every byte is in time, but the file never comes."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "PATIENCE", 0.2)
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    with answering(first, further, pause=0.02) as address:
        folder = offer(Remote((address,)))
        with pytest.raises(UserError, match=r"did not begin to send a file within 0\.2 s"):
            get("toy")
    assert left(folder) == []


def test_what_comes_with_a_redirect_is_not_read(server, offer, monkeypatch):
    """Its end may never come, and all of it was held in memory."""
    moved = f"HTTP/1.1 302 Found\r\nLocation: {server.url()}\r\n\r\n".encode()
    with answering(moved, b"x" * 1000, pause=0.01) as address:
        folder = offer(Remote((address,), md5=md5(CONTENT)))
        get("toy")
    assert (folder / "x").read_bytes() == CONTENT


def test_a_file_without_checksum_is_said(server, offer, tmp_path):
    offer(Remote((server.url(),)))
    told = CliRunner().invoke(app, ["data", "get", "toy", "--to", str(tmp_path / "here")])
    assert "no checksum is known for file.bin" in told.output


def test_no_space_is_said(server, offer, monkeypatch):
    folder = offer(Remote((server.url(),), md5=md5(CONTENT)))
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(UserError, match=f"No space left for '{folder}'"):
        get("toy")
    assert left(folder) == []


def test_a_place_that_cannot_be_written(server, offer, tmp_path):
    offer(Remote((server.url(),)))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written: Not a directory"):
        get("toy", tmp_path / "file" / "toy")


def tar(members: dict[str, bytes | tarfile.TarInfo], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, content in members.items():
            if isinstance(content, bytes):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                archive.addfile(content)
    return out.getvalue()


def zipped(members: dict[str, bytes], link: bool = False) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o120777 if link else 0o100644) << 16
            archive.writestr(info, content)
    return out.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("pack", [tar, lambda m: tar(m, "w"), zipped])
def test_archives_are_unpacked(server, offer, pack):
    packed = pack({"set/a/1.bin": b"one", "set/b/2.bin": b"two"})
    folder = offer(Remote((server.url("/set.archive"),), md5=md5(packed), unpack=True))
    server.files["/set.archive"] = packed
    get("toy")
    assert (folder / "set" / "b" / "2.bin").read_bytes() == b"two"
    assert "toy/set.archive" not in left(folder) and ".toy.part" not in left(folder)


HOSTILE = {
    "parent in tar": (tar({"good": b"1", "../out": b"x"}), "'../out' would lie outside"),
    "parent inside": (tar({"a/../../out": b"x"}), "would lie outside"),
    "absolute in tar": (tar({"/tmp/out": b"x"}), "'/tmp/out' would lie outside"),
    "link": (tar({"l": special("l", tarfile.SYMTYPE, "/etc")}), "'l' is a link"),
    "hard link": (tar({"l": special("l", tarfile.LNKTYPE, "/etc/passwd")}), "'l' is a link"),
    "device": (tar({"d": special("d", tarfile.CHRTYPE)}), "'d' is a device"),
    "parent folder": (tar({"d": special("../d", tarfile.DIRTYPE)}), "would lie outside"),
    "parent in zip": (zipped({"good": b"1", "../out": b"x"}), "'../out' would lie outside"),
    "backslash": (zipped({"..\\out": b"x"}), "would lie outside"),
    "absolute in zip": (zipped({"/out": b"x"}), "would lie outside"),
    "drive": (zipped({"C:/out": b"x"}), "would lie outside"),
    "link in zip": (zipped({"l": b"/etc"}, link=True), "'l' is a link"),
    "cut tar": (tar({"a": CONTENT})[:-2000], "is damaged|cannot be"),
    "cut zip": (zipped({"a": CONTENT})[:-200], "is neither tar nor zip|is damaged"),
    "no archive": (b"hello", "is neither tar nor zip"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archives_leave_nothing(server, offer, case):
    packed, sentence = HOSTILE[case]
    folder = offer(Remote((server.url("/set"),), md5=md5(packed), unpack=True))
    server.files["/set"] = packed
    with pytest.raises(UserError, match=sentence) as problem:
        get("toy")
    assert "\n" not in str(problem.value)
    assert left(folder) == [] and not (folder.parent.parent / "out").exists()


def test_spoilt_archives_are_told(tmp_path):
    import numpy as np

    rng = np.random.default_rng(5)
    for whole in (tar({"a/b": b"x" * 3000}), tar({"a/b": b"x"}, "w"), zipped({"a/b": b"x" * 3000})):
        for _ in range(200):
            spoilt = bytearray(whole)
            for at in rng.integers(len(whole), size=3):
                spoilt[at] ^= int(rng.integers(1, 256))
            del spoilt[int(rng.integers(len(spoilt))) if rng.random() < 0.3 else len(spoilt) :]
            file = tmp_path / "archive"
            file.write_bytes(spoilt)
            try:
                unpack(file, tmp_path / "out")
            except (UserError, OSError) as problem:
                assert str(problem)
    assert {path.name for path in tmp_path.iterdir()} <= {"archive", "out"}


def test_the_command(server, offer, tmp_path):
    folder = offer(Remote((server.url(),), md5=md5(CONTENT)))
    done = CliRunner().invoke(app, ["data", "get", "toy"])
    assert done.exit_code == 0 and f"toy: {folder}" in done.output.replace("\n", "")
    other = tmp_path / "elsewhere"
    done = CliRunner().invoke(app, ["data", "get", "toy", "--to", str(other)])
    assert done.exit_code == 0 and (other / "file.bin").read_bytes() == CONTENT


def test_names_that_cannot_be_had(offer, monkeypatch, capsys):
    offer()
    with pytest.raises(UserError, match="Unknown data set 'cifar_10'. Did you mean 'cifar10'"):
        get("cifar_10")
    with pytest.raises(UserError, match="cannot be downloaded automatically: .*mmlab.*put it into"):
        get("celeba")
    with pytest.raises(UserError, match="it comes with scikit-learn.$"):
        get("digits")
    monkeypatch.setattr("sys.argv", ["oodometer", "data", "get", "mnst"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("oodometer: Unknown data set 'mnst'. Did you mean")
