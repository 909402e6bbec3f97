"""Small files in the official format of each data set, written here and read by the readers."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
from PIL import Image


def pixels(count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, (count, *shape)).astype(np.uint8)


def write_stripes(path: Path, size: int = 60, **changes: np.ndarray) -> str:
    """Write a small, separable image data set; return its path."""
    rng = np.random.default_rng(0)
    arrays = {}
    for part in ("train", "test"):
        labels = np.arange(size) % 3
        images = rng.integers(0, 60, (size, 8, 8)).astype(np.uint8)
        for row, label in enumerate(labels):
            images[row, label * 2 : label * 2 + 2] += 150
        arrays |= {f"{part}_images": images, f"{part}_labels": labels}
    arrays |= changes
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    return str(path)


def idx_bytes(array: np.ndarray) -> bytes:
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + (array.astype(np.uint8).tobytes())
    )


def write_idx(folder: Path, prefix: str = "", test: str = "t10k", gz: bool = False) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for part, word, count in (("train", "train", 12), ("test", test, 6)):
        images = pixels(count, 5, 5)
        labels = np.arange(count) % 3 + (1 if prefix else 0)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            content = idx_bytes(array)
            name = f"{prefix}{word}-{kind}-ubyte"
            if gz:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)
        made[part] = images, labels
    return made


def write_cifar_binary(folder: Path, classes: int = 10, count: int = 4) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    names = (
        {"train": [f"data_batch_{k}.bin" for k in range(1, 6)], "test": ["test_batch.bin"]}
        if classes == 10
        else {"train": ["train.bin"], "test": ["test.bin"]}
    )
    made = {}
    for part, files in names.items():
        images = pixels(count * len(files), 3, 32, 32)
        fine = np.arange(len(images)) % classes
        coarse = fine % 20
        columns = [fine] if classes == 10 else [coarse, fine]
        records = np.concatenate(
            [np.stack(columns, 1).astype(np.uint8), images.reshape(len(images), -1)], axis=1
        )
        for number, file in enumerate(files):
            (folder / file).write_bytes(records[number * count : (number + 1) * count].tobytes())
        made[part] = images, fine, coarse
    return made


def python2_batch(content: dict[str, object]) -> bytes:
    """Pickle a CIFAR batch as Python 2 did: protocol 2, texts and pixels as byte strings."""
    out = io.BytesIO()

    def text(value: bytes) -> None:
        if len(value) < 256:
            out.write(b"U" + bytes([len(value)]) + value)
        else:
            out.write(b"T" + struct.pack("<i", len(value)) + value)

    out.write(b"\x80\x02}q\x01(")
    for key, value in content.items():
        text(key.encode())
        if isinstance(value, np.ndarray):
            out.write(b"cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03")
            out.write(b"K\x00\x85U\x01b\x87Rq\x04(K\x01")
            out.write(b"".join(b"J" + struct.pack("<i", size) for size in value.shape) + b"\x86")
            out.write(b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xff")
            out.write(b"J\xff\xff\xff\xffK\x00tb\x89")
            text(value.tobytes())
            out.write(b"tb")
        elif isinstance(value, list):
            out.write(b"](" + b"".join(b"K" + bytes([number]) for number in value) + b"e")
        else:
            text(str(value).encode())
    out.write(b"u.")
    return out.getvalue()


def write_cifar_python(
    folder: Path, classes: int = 10, count: int = 4, protocol: int = 2, two: bool = True
) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    names = (
        {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}
        if classes == 10
        else {"train": ["train"], "test": ["test"]}
    )
    made = {}
    for part, files in names.items():
        images = pixels(count * len(files), 3, 32, 32)
        fine = np.arange(len(images)) % classes
        for number, file in enumerate(files):
            rows = slice(number * count, (number + 1) * count)
            content: dict[str, object] = {"batch_label": f"batch {number}"}
            content["data"] = images[rows].reshape(count, -1)
            if classes == 10:
                content["labels"] = fine[rows].tolist()
            else:
                content["fine_labels"] = fine[rows].tolist()
                content["coarse_labels"] = (fine[rows] % 20).tolist()
            made_of = {key.encode(): value for key, value in content.items()}
            encoded = python2_batch(content) if two else pickle.dumps(made_of, protocol)
            (folder / file).write_bytes(encoded)
        made[part] = images, fine, fine % 20
    if classes == 100:
        (folder / "meta").write_bytes(pickle.dumps({}))
    return made


def write_svhn(folder: Path) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for part, count in (("train", 12), ("test", 6)):
        images = pixels(count, 32, 32, 3)
        digits = np.arange(count) % 10
        stored = np.where(digits == 0, 10, digits)[:, None].astype(np.uint8)
        scipy.io.savemat(
            folder / f"{part}_32x32.mat",
            {"X": images.transpose(1, 2, 3, 0), "y": stored},
            do_compression=part == "train",
        )
        made[part] = images.transpose(0, 3, 1, 2), digits
    return made


def write_stl10(folder: Path) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for part, count in (("train", 4), ("test", 3)):
        images = pixels(count, 3, 96, 96)
        labels = np.arange(count) % 10
        (folder / f"{part}_X.bin").write_bytes(images.transpose(0, 1, 3, 2).tobytes())
        (folder / f"{part}_y.bin").write_bytes((labels + 1).astype(np.uint8).tobytes())
        made[part] = images, labels
    return made


def picture(array: np.ndarray, format: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.fromarray(array).save(out, format)
    return out.getvalue()


def write_images(
    folder: Path, classes: tuple[str, ...] = ("cat", "dog"), count: int = 3, size: int = 6
) -> np.ndarray:
    images = pixels(count * len(classes), size, size, 3)
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for row in range(count):
            (folder / name / f"{row}.png").write_bytes(picture(images[number * count + row]))
    return images.transpose(0, 3, 1, 2)


def write_tiny_imagenet(folder: Path) -> dict:
    identifiers = ["n02000000", "n01000000"]  # not in order, as in the official list
    (folder / "val" / "images").mkdir(parents=True, exist_ok=True)
    (folder / "wnids.txt").write_text("\n".join(identifiers))
    train, labels = [], []
    for number, identifier in enumerate(sorted(identifiers)):
        images = pixels(3 + number, 8, 8, 3)
        inside = folder / "train" / identifier / "images"
        inside.mkdir(parents=True)
        (folder / "train" / identifier / f"{identifier}_boxes.txt").write_text("0\n")
        for row, image in enumerate(images):
            (inside / f"{identifier}_{row}.JPEG").write_bytes(picture(image, "JPEG"))
        train += list(images)
        labels += [number] * len(images)
    lines = []
    for row in range(4):
        name = f"val_{row}.JPEG"
        (folder / "val" / "images" / name).write_bytes(picture(pixels(1, 8, 8, 3)[0], "JPEG"))
        lines.append(f"{name}\t{identifiers[row % 2]}\t0\t0\t7\t7")
    (folder / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    return {"train": labels, "test": [1, 0, 1, 0]}


def write_parquet(path: Path, count: int = 5, column: str = "image", **labels: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"bytes": picture(image), "path": None} for image in pixels(count, 6, 6, 3)]
    pq.write_table(pa.table({column: rows, **labels}), path)


def write_usps(folder: Path) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for part, name, count in (("train", "usps.bz2", 5), ("test", "usps.t.bz2", 3)):
        images = pixels(count, 1, 16, 16)
        values = images.reshape(count, -1) / 255 * 2 - 1
        lines = [
            f"{row % 10 + 1} " + " ".join(f"{k + 1}:{v:.9f}" for k, v in enumerate(value))
            for row, value in enumerate(values)
        ]
        (folder / name).write_bytes(bz2.compress("\n".join(lines).encode()))
        made[part] = images, np.arange(count) % 10
    return made


def write_newsgroups(path: Path) -> None:
    from sklearn.utils import Bunch

    cache = {
        part: Bunch(
            data=[f"{part} post {k} \xe9" for k in range(4)],
            target=np.array([3, 0, 19, 3]),
            filenames=np.array(["a", "bc", "d", "e"]),
            target_names=["x"] * 20,
        )
        for part in ("train", "test")
    }
    path.write_bytes(zlib.compress(pickle.dumps(cache)))


def write_jsonl(path: Path, rows: list[dict]) -> None:
    content = "\n".join(json.dumps(row) for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
