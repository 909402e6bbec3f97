"""Files made to do harm: one sentence, at once, in little memory."""

from __future__ import annotations

import gzip
import io
import os
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from oodometer import files
from oodometer.errors import UserError
from oodometer.lab.data.datasets import read_part
from oodometer.lab.data.label_files import read_labels
from oodometer.lab.data.readers import decoded


def refused(path: Path, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        read_part(str(path))
    assert "\n" not in str(caught.value)


def header(*shape: int) -> bytes:
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)


def test_headers_that_claim_more_than_there_is(tmp_path):
    file = tmp_path / "t10k-images-idx3-ubyte"
    file.write_bytes(header(2**30, 32, 32))
    refused(tmp_path, "claims to hold 1,099,511,627,776 bytes, more than the")
    file.write_bytes(header(2**20, 28, 28))
    refused(tmp_path, "is truncated")
    file.unlink()
    (tmp_path / f"{file.name}.gz").write_bytes(gzip.compress(header(2**20, 28, 28)))
    refused(tmp_path, "over 200 times its size: it holds no data")


def test_bombs_are_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HARMLESS", 1 << 16)
    zeros = bytes(1 << 22)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"text,label\n" + b"a,1\n" * (1 << 20)))
    refused(tmp_path / "x.csv.gz", "over 200 times its size")
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        buffer = io.BytesIO()
        np.save(buffer, np.zeros((1024, 64, 64), np.uint8))
        archive.writestr("images.npy", buffer.getvalue())
    refused(tmp_path / "x.npz", "over 200 times its size")
    monkeypatch.setattr(files, "HARMLESS", 1 << 16)
    packed = zlib.compress(zeros, 9)
    (tmp_path / "x.mat").write_bytes(
        b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed
    )
    refused(tmp_path / "x.mat", "would unpack to over 200 times its size")
    monkeypatch.setattr(files, "HARMLESS", 1 << 16)
    (tmp_path / "20news-x.pkz").write_bytes(packed)
    refused(tmp_path / "20news-x.pkz", "over 200 times its size")
    many = pa.array(["x"]).take(pa.array(np.zeros(300_000, np.int64)))
    pq.write_table(pa.table({"text": many}), tmp_path / "rows.parquet")
    refused(tmp_path / "rows.parquet", "claims 300,000 rows, too many for its size")
    large = pa.array(["x" * 10_000]).take(pa.array(np.zeros(5_000, np.int64)))
    pq.write_table(pa.table({"text": large}), tmp_path / "large.parquet")
    refused(tmp_path / "large.parquet", "over 200 times its size")


def test_ordinary_files_that_shrink_well_are_read(tmp_path):
    images = np.zeros((50, 28, 28), np.uint8)
    np.savez_compressed(tmp_path / "x.npz", images=images, labels=np.arange(50) % 5)
    assert len(read_part(str(tmp_path / "x.npz"))) == 50
    pq.write_table(pa.table({"text": ["a b"] * 9, "label": [0, 1, 2] * 3}), tmp_path / "x.parquet")
    assert len(read_part(str(tmp_path / "x.parquet"))) == 9


def test_a_line_without_end(tmp_path):
    with (tmp_path / "x.jsonl").open("wb") as file:
        file.write(b'{"text": "')
        file.truncate(1 << 30)  # sparse: takes no room on the disk
    refused(tmp_path / "x.jsonl", "has a line of more than 16,777,216 bytes")
    (tmp_path / "x.jsonl").rename(tmp_path / "x.csv")
    refused(tmp_path / "x.csv", "has a line of more than 16,777,216 bytes")


def test_pipes_and_devices_are_not_read(tmp_path):
    for name in ("x.npz", "x.csv", "x.parquet", "x.mat"):
        os.mkfifo(tmp_path / name)
        refused(tmp_path / name, "has an unsupported format")
    (tmp_path / "images" / "cat").mkdir(parents=True)
    os.mkfifo(tmp_path / "images" / "cat" / "1.png")
    refused(tmp_path / "images", "is a pipe or a device, not a file")
    os.mkfifo(tmp_path / "t10k-images-idx3-ubyte.gz")
    (tmp_path / "idx").mkdir()
    (tmp_path / "idx" / "t10k-images-idx3-ubyte").mkdir()
    refused(tmp_path / "idx", "has an unsupported format")


def test_a_picture_of_ten_thousand_million_pixels(tmp_path):
    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    picture = b"\x89PNG\r\n\x1a\n" + chunk(
        b"IHDR", struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    )
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").write_bytes(picture + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
    refused(tmp_path, "is not a readable image: Image size .10000000000 pixels. exceeds limit")


def test_label_files_of_strangers(tmp_path):
    text = "{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,), }"
    head = text.encode() + b" " * (53 - len(text) % 64) + b"\n"
    with zipfile.ZipFile(tmp_path / "claims.npz", "w") as archive:
        archive.writestr("labels.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
    with pytest.raises(
        UserError, match="claims 1,099,511,627,776 bytes for labels, but is truncated"
    ):
        read_labels(str(tmp_path / "claims.npz"), None, [0, 1])
    np.savez(tmp_path / "object.npz", labels=np.array([print, 1], object))
    with pytest.raises(UserError, match="holds pickled objects, which are refused"):
        read_labels(str(tmp_path / "object.npz"), None, [0, 1])


# ---- decoded pictures are kept -----------------------------------------------------------------


@pytest.fixture
def kept(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(decoded.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(decoded, "FEWEST", 4)
    return tmp_path / "cache"


def pictures(folder: Path, count: int = 6) -> None:
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        array = rng.integers(0, 256, (7, 7, 3)).astype(np.uint8)
        Image.fromarray(array).save(folder / f"{number}.png")


def test_pictures_are_decoded_once_and_never_stale(kept, tmp_path, monkeypatch):
    pictures(tmp_path / "set" / "cat")
    first = read_part(str(tmp_path / "set"))
    assert sorted(f.suffix for f in kept.iterdir()) == [".json", ".npy"]
    with monkeypatch.context() as patch:
        patch.setattr(decoded, "decode_all", lambda *_: pytest.fail("decoded again"))
        again = read_part(str(tmp_path / "set"))
        (tmp_path / "set").rename(tmp_path / "moved")
        moved = read_part(str(tmp_path / "moved"))
    assert first.digest == again.digest == moved.digest
    again.pixels[:] = 0  # what is mapped is ours to change; what is kept is not
    assert read_part(str(tmp_path / "moved")).digest == first.digest
    # Another size, and another picture with the same name, length and time of change.
    assert read_part(f"{tmp_path / 'moved'}(size=5)").shape == (3, 5, 5)
    one, two = (tmp_path / "moved" / "cat" / f"{k}.png" for k in (0, 1))
    times = one.stat()
    one.write_bytes(two.read_bytes())
    os.utime(one, ns=(times.st_atime_ns, times.st_mtime_ns))
    changed = read_part(str(tmp_path / "moved"))
    assert np.array_equal(changed.pixels[0], changed.pixels[1])


def test_what_is_kept_may_be_damaged_or_impossible_to_keep(kept, tmp_path, monkeypatch):
    pictures(tmp_path / "set" / "cat")
    first = read_part(str(tmp_path / "set"))
    for file in kept.iterdir():
        whole = file.read_bytes()
        altered = whole[:-200] + bytes(255 - byte for byte in whole[-200:])
        for content in (b"", whole[:100], b"junk" * 100, b"[" * 100_000, altered):
            file.write_bytes(content)
            assert read_part(str(tmp_path / "set")).digest == first.digest
    assert read_part(str(tmp_path / "set")).digest == first.digest
    monkeypatch.setenv(decoded.VARIABLE, str(tmp_path / "set" / "cat" / "0.png"))  # no folder
    assert read_part(str(tmp_path / "set")).digest == first.digest


def test_decoded_pictures_of_another_set_are_not_taken(kept, tmp_path):
    """Whole and sealed, but of other pictures: as somebody leaves them who copies files around."""
    digests = []
    for name, count in (("one", 6), ("two", 12)):
        pictures(tmp_path / name / "cat", count)
        for file in sorted((tmp_path / name / "cat").iterdir())[6:]:
            file.replace(tmp_path / name / "cat" / f"{int(file.stem) - 6}.png")
        digests.append(read_part(str(tmp_path / name)).digest)
    assert digests[0] != digests[1]
    one, two = sorted(kept.glob("*.npy"))
    for suffix in (".npy", ".json"):
        files = one.with_suffix(suffix), two.with_suffix(suffix)
        contents = [file.read_bytes() for file in files]
        for file, content in zip(files, reversed(contents), strict=True):
            file.write_bytes(content)
    assert [intact for _, intact in decoded.check_kept()] == [False, False]
    assert [read_part(str(tmp_path / name)).digest for name in ("one", "two")] == digests


@pytest.mark.parametrize("suffix", [".npy", ".json"])
@pytest.mark.parametrize("put", [os.mkfifo, lambda path: (path / "below").mkdir(parents=True)])
def test_a_pipe_or_a_folder_among_decoded_pictures_is_replaced(kept, tmp_path, suffix, put):
    pictures(tmp_path / "set" / "cat")
    first = read_part(str(tmp_path / "set"))
    (file,) = kept.glob("*.npy")
    for mend in (lambda: read_part(str(tmp_path / "set")), lambda: list(decoded.check_kept())):
        file.with_suffix(suffix).unlink()
        put(file.with_suffix(suffix))
        mend()
        assert read_part(str(tmp_path / "set")).digest == first.digest
        assert [intact for _, intact in decoded.check_kept()] == [True]


def test_verify_looks_at_decoded_pictures(kept, tmp_path):
    pictures(tmp_path / "set" / "cat")
    read_part(str(tmp_path / "set"))
    assert [intact for _, intact in decoded.check_kept()] == [True]
    (file,) = kept.glob("*.npy")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert list(decoded.check_kept()) == [(file, False)]
    assert not list(kept.iterdir())


def test_broken_pictures_are_told_about_and_nothing_is_kept(kept, tmp_path):
    pictures(tmp_path / "set" / "cat")
    (tmp_path / "set" / "cat" / "3.png").write_bytes(b"none")
    refused(tmp_path / "set", "3.png' is not a readable image")
    assert not kept.exists()
