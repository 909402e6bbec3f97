"""Readers: files of each official format, whole, broken and hostile."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import data_files as files
import numpy as np
import pytest
import scipy.io
from PIL import Image

from oodometer.errors import UserError
from oodometer.lab.data.datasets import load_part, load_parts, load_texts
from oodometer.lab.data.readers import FORMATS, Request, recognise
from oodometer.lab.data.readers.matlab import read_matlab
from oodometer.lab.data.readers.pickled import read_pickle

# Test modules are imported by path, so their neighbours are too.


def read(path: Path, **request: object) -> dict:
    """Read every part of a path, in the format that is recognised."""
    known = FORMATS[recognise(path)]
    return {part: reader() for part, reader in known.parts(path, Request(**request)).items()}


def agree(found: dict, made: dict, labels: int = 1) -> None:
    assert set(found) == set(made)
    for part, content in made.items():
        assert found[part].pixels.dtype == np.uint8
        assert np.array_equal(found[part].pixels, content[0].reshape(found[part].pixels.shape))
        assert np.array_equal(found[part].labels, content[labels])


@pytest.mark.parametrize("gz", [False, True])
def test_idx(tmp_path, gz):
    made = files.write_idx(tmp_path, gz=gz)
    assert recognise(tmp_path) == "idx"
    agree(read(tmp_path), made)
    assert read(tmp_path)["train"].pixels.shape == (12, 1, 5, 5)
    assert read(tmp_path)["train"].pixels.flags.writeable, "PyTorch warns of arrays that are not"


def test_emnist_is_turned_upright_and_counted_from_zero(tmp_path):
    made = files.write_idx(tmp_path, prefix="emnist-letters-", test="test", gz=True)
    found = read(tmp_path)
    for part, (images, labels) in made.items():
        assert np.array_equal(found[part].pixels[:, 0], images.transpose(0, 2, 1))
        assert np.array_equal(found[part].labels, labels - 1)


@pytest.mark.parametrize("classes", [10, 100])
def test_cifar_binary(tmp_path, classes):
    made = files.write_cifar_binary(tmp_path, classes)
    agree(read(tmp_path), made)
    if classes == 100:
        agree(read(tmp_path, coarse=True), made, labels=2)


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5, "python 2"])
def test_cifar_python(tmp_path, classes, protocol):
    two = protocol == "python 2"
    made = files.write_cifar_python(tmp_path, classes, protocol=0 if two else protocol, two=two)
    agree(read(tmp_path), made)
    if classes == 100:
        agree(read(tmp_path, coarse=True), made, labels=2)


def test_the_python_2_batch_of_the_tests_is_one(tmp_path):
    content = {"data": files.pixels(2, 3072), "labels": [1, 2], "batch_label": "x"}
    loaded = pickle.loads(files.python2_batch(content), encoding="latin1")  # noqa: S301 - ours
    assert np.array_equal(loaded["data"], content["data"]) and loaded["labels"] == [1, 2]


class Command:
    """What a hostile pickle does: it runs a command when it is loaded."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_a_command_does_not(tmp_path, protocol):
    touched = tmp_path / "touched"
    batch = tmp_path / "set" / "test_batch"
    batch.parent.mkdir()
    batch.write_bytes(pickle.dumps({b"data": Command(touched), b"labels": [0]}, protocol))
    with pytest.raises(UserError, match=r"would call (posix|nt|os).system, and nothing"):
        read(batch.parent)
    assert not touched.exists()
    pickle.loads(batch.read_bytes())  # noqa: S301 - to see that it would
    assert touched.exists(), "the file is as hostile as it should be"


@pytest.mark.parametrize(
    "content",
    [
        b"cbuiltins\neval\n(S'1/0'\ntR.",
        b"c__builtin__\ngetattr\n(cnumpy\nndarray\nS'x'\ntR.",
        b"cnumpy\nload\n.",
        b"\x80\x02P0\n.",
        b"\x80\x02i__main__\nX\n.",
        b"(dq\x00",
        b"",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x02T\xff\xff\xff\x7fabc.",
    ],
)
def test_pickles_that_are_no_data(tmp_path, content):
    with pytest.raises(UserError, match="is not read, because|is a damaged pickle") as problem:
        read_pickle(content, tmp_path / "x")
    assert str(tmp_path / "x") in str(problem.value)


def test_a_deep_pickle_is_harmless(tmp_path):
    assert isinstance(read_pickle(b"]" * 50_000 + b"a" * 49_999 + b".", tmp_path), list)


def test_svhn(tmp_path):
    made = files.write_svhn(tmp_path)
    agree(read(tmp_path), made)
    assert np.array_equal(load_part(str(tmp_path / "test_32x32.mat")).labels, made["test"][1])


@pytest.mark.parametrize("compressed", [False, True])
def test_matlab_files_are_read_as_scipy_reads_them(tmp_path, compressed):
    path = tmp_path / "x.mat"
    rng = np.random.default_rng(0)
    content = {
        "bytes": files.pixels(3, 4, 5),
        "doubles": rng.normal(size=(2, 3)),
        "whole": np.arange(5.0),
        "words": rng.integers(-9, 9, (2, 1, 2)).astype(np.int16),
        "text": "not numbers",
        "complex": np.array([1j]),
        "cell": np.array(["a", 1], object),
    }
    scipy.io.savemat(path, content, do_compression=compressed)
    theirs, ours = scipy.io.loadmat(path), read_matlab(path)
    assert set(ours) == {"bytes", "doubles", "whole", "words"}
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype and np.array_equal(array, theirs[name])


def test_stl10_is_stored_by_columns(tmp_path):
    made = files.write_stl10(tmp_path)
    agree(read(tmp_path), made)


def test_usps(tmp_path):
    made = files.write_usps(tmp_path)
    found = read(tmp_path)
    for part, (images, labels) in made.items():
        # Values are written with 9 digits and cut, not rounded, to bytes, as torchvision does.
        assert abs(found[part].pixels.astype(int) - images).max() <= 1
        assert np.array_equal(found[part].labels, labels)


def test_image_folders(tmp_path):
    made = files.write_images(tmp_path / "plain")
    (tmp_path / "plain" / "README.txt").write_text("not an image, and not called like one")
    (tmp_path / "plain" / ".hidden.png").write_text("nothing")
    found = read(tmp_path / "plain")["all"]
    assert np.array_equal(found.pixels, made) and found.labels.tolist() == [0, 0, 0, 1, 1, 1]
    for part in ("train", "val"):
        files.write_images(tmp_path / "split" / "wrapper" / part, ("b", "a", "c"))
    parts = read(tmp_path / "split")
    assert set(parts) == {"train", "test"}
    assert parts["test"].labels.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    files.write_images(tmp_path / "dtd" / "images", ("banded", "dotted"))
    (tmp_path / "dtd" / "labels").mkdir()
    assert read(tmp_path / "dtd")["all"].labels.max() == 1
    files.write_images(tmp_path / "flat", ("",))
    assert (read(tmp_path / "flat")["all"].labels == -1).all()
    with pytest.raises(UserError, match="images without a class.*one folder per class"):
        load_parts(str(tmp_path / "flat"))
    parts = load_parts(str(tmp_path / "plain"))
    assert (len(parts.train), len(parts.test)) == (5, 1)


def test_pictures_of_every_kind(tmp_path):
    grey = files.pixels(1, 6, 6)[0]
    rgb = files.pixels(1, 6, 6, 3)[0]
    folder = tmp_path / "a"
    folder.mkdir()
    for format, suffix in (("PNG", "png"), ("BMP", "bmp"), ("WEBP", "webp"), ("JPEG", "JPEG")):
        lossless = {"lossless": True} if format == "WEBP" else {}
        Image.fromarray(rgb).save(folder / f"{suffix}.{suffix}", format, **lossless)
    Image.fromarray(grey).save(folder / "x_grey.png")
    Image.fromarray(grey.astype(np.uint16) * 257).save(folder / "x_sixteen.png")
    Image.fromarray(rgb).convert("RGBA").save(folder / "x_transparent.png")
    Image.fromarray(grey > 99).save(folder / "x_two.png")
    found = read(folder)["all"].pixels
    assert found.shape == (8, 3, 6, 6)
    names = sorted(path.name for path in folder.iterdir())
    by_name = dict(zip(names, found, strict=True))
    for name in ("png.png", "bmp.bmp", "webp.webp", "x_transparent.png"):
        assert np.array_equal(by_name[name], rgb.transpose(2, 0, 1)), name
    for name in ("x_grey.png", "x_sixteen.png"):
        assert (by_name[name] == grey).all(), name
    assert (by_name["x_two.png"] == np.where(grey > 99, 255, 0)).all()


def test_images_of_many_sizes(tmp_path):
    files.write_images(tmp_path / "a", ("x", "y"), size=6)
    files.write_images(tmp_path / "a", ("z",), size=9)
    with pytest.raises(UserError, match=r"0.png' is an image of 9 x 9, but '.*' is of 6 x 6.*size"):
        load_part(str(tmp_path / "a"))
    images = load_part(f"{tmp_path / 'a'}(size=4)")
    assert images.pixels.shape == (9, 3, 4, 4)
    with Image.open(tmp_path / "a" / "z" / "0.png") as picture:
        expected = picture.resize((4, 4), Image.Resampling.BILINEAR)
    assert np.array_equal(images.pixels[6].transpose(1, 2, 0), np.asarray(expected))


def test_tiny_imagenet(tmp_path):
    made = files.write_tiny_imagenet(tmp_path / "tiny-imagenet-200")
    found = read(tmp_path / "tiny-imagenet-200")
    assert {part: images.labels.tolist() for part, images in found.items()} == made
    assert found["test"].pixels.shape == (4, 3, 8, 8)


def test_food101(tmp_path):
    files.write_images(tmp_path / "images", ("pie", "soup"))
    for file in (tmp_path / "images").rglob("*.png"):
        file.rename(file.with_suffix(".jpg"))
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "train.txt").write_text("pie/0\npie/1\nsoup/0\nsoup/1\n")
    (tmp_path / "meta" / "test.txt").write_text("soup/2\npie/2\n")
    found = read(tmp_path)
    assert found["test"].labels.tolist() == [1, 0] and len(found["train"].labels) == 4
    (tmp_path / "meta" / "test.txt").write_text("../../x\n")
    with pytest.raises(
        UserError, match="test.txt' names '../../x', which is not an image of a class"
    ):
        read(tmp_path)


def test_parquet(tmp_path):
    files.write_parquet(tmp_path / "one.parquet", 5, label=[0, 1, 0, 1, 2])
    found = read(tmp_path / "one.parquet")["all"]
    assert found.pixels.shape == (5, 3, 6, 6) and found.labels.tolist() == [0, 1, 0, 1, 2]
    labels = {"fine_label": [7, 8, 9], "coarse_label": [1, 1, 2]}
    for shard in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
        files.write_parquet(tmp_path / "hub" / "data" / f"{shard}.parquet", 3, "img", **labels)
    found = read(tmp_path / "hub")
    assert found["train"].labels.tolist() == [7, 8, 9] * 2 and len(found["test"].labels) == 3
    assert read(tmp_path / "hub", coarse=True)["test"].labels.tolist() == [1, 1, 2]


def test_tables_of_texts(tmp_path):
    (tmp_path / "official-train.csv").write_text(
        '"3","A title of some length","A ""long"" description of it, with a comma"\n'
        '"1","Another title of some length","And what it is about in the end"\n'
        '"2","The third title of them all","Which is followed by many words"\n'
    )
    with gzip.open(tmp_path / "official-test.csv.gz", "wt") as file:
        file.write("label,text\nsport,Some words\ntech,Other words\nsport,Words\n")
    parts = load_texts(str(tmp_path / "official"))
    assert parts["train"].labels.tolist() == [2, 0, 1], "counted from 1, as AG News is"
    assert parts["train"].texts[0].startswith('A title of some length A "long" description')
    assert parts["train"].columns == "texts: column 2, column 3; labels: column 1"
    assert parts["test"].texts == ("Some words", "Other words", "Words")
    assert parts["test"].columns == "texts: text; labels: label"
    rows = [{"content": f"text {k}", "category": "ab"[k % 2], "id": k} for k in range(4)]
    files.write_jsonl(tmp_path / "news.jsonl.gz", rows)
    whole = load_texts(str(tmp_path / "news.jsonl.gz"))["all"]
    assert whole.labels.tolist() == [0, 1, 0, 1] and whole.texts[3] == "text 3"
    assert whole.name == "news"


def test_named_classes_are_numbered_over_all_parts_alike(tmp_path):
    (tmp_path / "n-train.csv").write_text("label,text\na,one\nb,two\nc,three\n")
    (tmp_path / "n-test.csv").write_text("label,text\nc,four\nb,five\n")
    parts = load_texts(str(tmp_path / "n"))
    assert parts["train"].labels.tolist() == [0, 1, 2] and parts["test"].labels.tolist() == [2, 1]


def test_folders_of_texts(tmp_path):
    for topic in ("tech", "business"):
        (tmp_path / "bbc" / topic).mkdir(parents=True)
        (tmp_path / "bbc" / topic / "001.txt").write_bytes(f"{topic} \xa3".encode("latin-1"))
    whole = load_texts(str(tmp_path / "bbc"))["all"]
    assert whole.texts == ("business £", "tech £") and whole.labels.tolist() == [0, 1]
    with pytest.raises(UserError, match="holds texts; images are needed"):
        load_part(str(tmp_path / "bbc"))
    (tmp_path / "bbc" / "tech" / "002.txt").write_text("more")
    parts = load_parts(str(tmp_path / "bbc"))
    assert {*parts.train.texts, *parts.test.texts} == {*whole.texts, "more"}


def test_the_cache_of_the_newsgroups_is_read_without_running_it(tmp_path):
    path = tmp_path / "20news-bydate_py3.pkz"
    files.write_newsgroups(path)
    parts = load_texts(str(path))
    assert parts["test"].texts[1] == "test post 1 \xe9"
    assert parts["train"].labels.tolist() == [3, 0, 19, 3]
    touched = tmp_path / "touched"
    path.write_bytes(zlib.compress(pickle.dumps({"train": Command(touched)})))
    with pytest.raises(UserError, match="would call"):
        load_texts(str(path))
    assert not touched.exists()


def refuse(path: Path, sentence: str, **request: object) -> None:
    tracemalloc.start()
    with pytest.raises(UserError, match=sentence) as problem:
        read(path, **request)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert str(path) in str(problem.value) and "\n" not in str(problem.value)
    assert most < 1 << 26, "room was made for what it claims to hold"


def test_broken_idx_files_are_named(tmp_path):
    files.write_idx(tmp_path)
    images, labels = (tmp_path / f"t10k-{x}-ubyte" for x in ("images-idx3", "labels-idx1"))
    whole = images.read_bytes()
    for content, sentence in (
        (whole[:-1], r"is truncated: 1 of 150 bytes are missing"),
        (b"", "is truncated"),
        (b"\x89PNG" + whole[4:], "is not an IDX file of bytes: it begins with 89504e47"),
        (whole + b"x", "continues after the 150 bytes"),
        (whole[:4] + struct.pack(">3I", 1 << 31, 1 << 5, 1 << 4) + b"x", "claims to hold 1,099,5"),
        (whole[:4] + struct.pack(">3I", 1 << 16, 1 << 8, 1 << 8) + b"x", "is truncated"),
        (whole[:4] + struct.pack(">3I", 0, 5, 5), "is empty"),
    ):
        images.write_bytes(content)
        refuse(tmp_path, sentence)
    images.write_bytes(whole)
    labels.write_bytes(files.idx_bytes(np.zeros(5)))
    refuse(tmp_path, "has 5 labels for 6 images")
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(whole)[:-9])
    images.unlink()
    refuse(tmp_path, "cannot be read|is truncated")


def test_broken_batches_are_named(tmp_path):
    files.write_cifar_binary(tmp_path / "bin")
    file = tmp_path / "bin" / "data_batch_3.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[:-7])
    refuse(tmp_path / "bin", "is truncated: 12,285 bytes are not a multiple of 3,073")
    file.write_bytes(b"\x0b" + whole[1:])
    refuse(tmp_path / "bin", "is mislabelled: it has the label 11, allowed are 0 to 9")
    file.unlink()
    refuse(tmp_path / "bin", "data_batch_3.bin' does not exist")
    folder = tmp_path / "py"
    folder.mkdir()
    good = {"data": files.pixels(2, 3072), "labels": [1, 2]}
    for change, sentence in (
        ({"labels": [1]}, "has 1 labels for 2 images"),
        ({"labels": [1, 10]}, "has the label 10"),
        ({"labels": ["1", "2"]}, "not whole numbers"),
        ({"labels": [1, 1 << 80]}, "not whole numbers"),
        ({"labels": None}, "is a damaged CIFAR batch"),
        ({"data": files.pixels(2, 3071)}, r"uint8 of shape \(2, 3071\)"),
        ({"data": np.zeros((2, 3072))}, "float64 of shape"),
        ({"data": [1]}, "its data are not an array"),
    ):
        (folder / "test_batch").write_bytes(pickle.dumps(good | change))
        refuse(folder, sentence)
    (folder / "test_batch").write_bytes(pickle.dumps([1]))
    refuse(folder, "it holds a list, not a dict")
    (folder / "test_batch").write_bytes(pickle.dumps({"data": 1}))
    refuse(folder, "it lacks 'labels'")


def test_an_array_that_claims_more_than_the_pickle_holds(tmp_path):
    good = files.python2_batch({"data": files.pixels(2, 3072), "labels": [1, 2]})
    shape = b"J" + struct.pack("<i", 2) + b"J" + struct.pack("<i", 3072)
    bad = good.replace(shape, b"J" + struct.pack("<i", 1 << 30) + b"J" + struct.pack("<i", 3072))
    (tmp_path / "test_batch").write_bytes(bad)
    refuse(tmp_path, "has only 6,144 bytes")


def test_broken_matlab_and_stl_files_are_named(tmp_path):
    files.write_svhn(tmp_path / "svhn")
    path = tmp_path / "svhn" / "test_32x32.mat"
    whole = path.read_bytes()
    path.write_bytes(whole[:3000])
    refuse(tmp_path / "svhn", "is a damaged MATLAB file: it is truncated by [0-9,]+ bytes")
    path.write_bytes(b"")
    refuse(tmp_path / "svhn", "is not a MATLAB file")
    for content, sentence in (
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1], [11]])}, "mislabelled"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1]])}, "1 labels for 2 images"),
        ({"X": np.zeros((32, 32, 3, 2)), "y": np.array([[1], [2]])}, "must hold X as uint8"),
        ({"Z": np.zeros(3)}, "lacks X or y; it has Z"),
    ):
        scipy.io.savemat(path, content)
        refuse(tmp_path / "svhn", sentence)
    files.write_stl10(tmp_path / "stl")
    (tmp_path / "stl" / "test_y.bin").write_bytes(b"\x00\x01\x02")
    refuse(tmp_path / "stl", "has the label -1, allowed are 0 to 9")
    (tmp_path / "stl" / "test_y.bin").write_bytes(b"\x01")
    refuse(tmp_path / "stl", "has 1 labels for 3 images")


def png_that_claims(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(1 << 20))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def test_broken_pictures_are_named(tmp_path):
    files.write_images(tmp_path)
    bad = tmp_path / "dog" / "2.png"
    whole = bad.read_bytes()
    for content, sentence in (
        (png_that_claims(9000, 9000), "claims 9000 x 9000 pixels"),
        (
            png_that_claims(1 << 17, 1 << 17),
            "is not a readable image",
        ),  # Pillow refuses it by itself
        (b"", "is not a PNG, JPEG, BMP or WebP"),
        (b"hello", "is not a PNG, JPEG, BMP or WebP"),
        (b"GIF89a" + bytes(50), "is not a PNG, JPEG, BMP or WebP"),
        (whole[:60], "is not a readable image"),
    ):
        bad.write_bytes(content)
        with pytest.raises(UserError, match=sentence) as problem:
            read(tmp_path)
        assert str(bad) in str(problem.value)
    found = read(tmp_path, tolerated=1)["all"]
    assert len(found.pixels) == 5 and found.labels.tolist() == [0, 0, 0, 1, 1]
    (tmp_path / "loose.png").write_bytes(whole)
    with pytest.raises(UserError, match="loose.png' lies beside folders of classes"):
        read(tmp_path)


def test_broken_tables_are_named(tmp_path):
    for name, content, sentence in (
        ("a.csv", b"label,text\n1,x\n2\n", "row 3 has 1 columns, the first 2"),
        ("b.csv", b"\xff\xfe\x00", "is not UTF-8"),
        ("c.csv", b"", "is empty"),
        ("d.csv", b"1,2\n3,4\n", "has no header that names its texts"),
        ("headline.csv", b"headline,topic\nsome words,a\nmore,b\n", "has no header that names"),
        (
            "key.jsonl",
            b'{"words": [1]}\n' * 2,
            "has no key for the text, such as 'text'; it has",
        ),
        ("null.jsonl", b'{"text": null}\n' * 2, "something else than text in its text number 1"),
        ("e.csv", b'label,text\n1,"x', "is damaged"),
        ("f.csv", b"label,text\na,x\n,y\n", "some labels are missing"),
        ("g.jsonl", b'{"text": "x"}\n{"text": ', "line 2 is not JSON"),
        ("h.jsonl", b"[1]\n", "line 1 holds no object"),
        ("i.jsonl", b'{"text": "x"}\n{"txt": "x"}\n', "keys of line 2 differ"),
        ("j.jsonl", b'{"text": "x", "label": -3}\n' * 2, "has the label -3"),
        ("k.jsonl", b"[" * 100_000, "line 1 is not JSON"),
        ("l.parquet", b"PAR1", "cannot be read as Parquet"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(UserError, match=sentence) as problem:
            read(path)
        assert str(path) in str(problem.value)


def test_broken_npz_files_are_named(tmp_path):
    path = tmp_path / "x.npz"
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"descr": "|u1", "fortran_order": False, "shape": (1 << 20, 1 << 10, 1 << 10)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", out.getvalue())
    refuse(path, "claims 1,099,511,627,776 bytes for images, but is truncated")
    np.savez(path, stuff=np.zeros(3))
    refuse(path, "lacks an array test_images or images; it holds stuff")
    np.savez(path, images=np.array([Command(tmp_path / "touched")], object))
    refuse(path, "holds pickled objects, which are refused")
    assert not (tmp_path / "touched").exists()


def test_what_is_in_no_known_format(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.md").write_text("hello")
    for name in ("empty", "notes.md"):
        with pytest.raises(
            UserError, match="has an unsupported format; supported: NumPy .npz, IDX"
        ):
            load_parts(str(tmp_path / name))
    with pytest.raises(UserError, match="gone' does not exist"):
        load_part(str(tmp_path / "gone"))
